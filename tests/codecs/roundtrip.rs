//! Round trips are exact for every codec, element type, byte order, shape and kind of values.

use std::sync::LazyLock;

use crate::common::generate::{GENERATORS, Input};
use crate::common::{Tally, assert_same_bytes, cases, compress, decompress, ndzip, one_in, specs};
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Request, Shape, Verify};
use gridz_codecs::codec::registry;
use gridz_codecs::format::header::header_bytes;
use proptest::prelude::*;

/// Largest number of elements of a randomly chosen array.
const MOST_ELEMENTS: u64 = 200_000;

/// Contexts whose threads live as long as the test program.
static CONTEXTS: LazyLock<[Context; 3]> =
    LazyLock::new(|| [1, 2, 3].map(|threads| Context::new(Some(threads), None).unwrap()));

/// Checks everything that must hold for one chunk; returns its frame.
fn check(spec: &Request, array: &Array, raw: &[u8]) -> Vec<u8> {
    let context = &CONTEXTS[0];
    let what = format!("{spec:?} {array:?}");
    let header = header_bytes(array.shape().rank(), 0);
    let bound = gridz::compress_bound(array, spec).unwrap() as usize;
    assert!(bound >= header + raw.len(), "{what}: the bound has no room for a stored frame");

    let mut dst = vec![0xc3; bound];
    let n_bytes = gridz::compress(array, spec, raw, &mut dst, context).unwrap();
    assert!(n_bytes <= header + raw.len(), "{what}: {n_bytes} bytes for {}", raw.len());
    dst.truncate(n_bytes);
    let frame = dst;
    let error = gridz::compress(array, spec, raw, &mut vec![0; bound - 1], context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DstTooSmall { need: bound as u64 }, "{what}");

    let info = gridz::inspect(&frame).unwrap();
    assert_eq!((info.array, info.frame_bytes), (*array, n_bytes as u64), "{what}");
    assert!([spec.codec(), registry::STORED].contains(&info.codec), "{what}");
    assert_eq!(info.codec_name, registry::find(info.codec).map(|entry| entry.name), "{what}");
    // A reader that does not know the array may allocate the destination, based on the payload's
    // length.
    for expected in [None, Some(raw.len() as u64)] {
        assert_eq!(
            gridz::Frame::parse(&frame).and_then(|frame| frame.array_bytes(expected)),
            Ok(raw.len() as u64),
            "{what}"
        );
    }

    for threads in &CONTEXTS[1..] {
        assert_same_bytes(&compress(array, spec, raw, threads), &frame, &what);
    }
    for threads in &*CONTEXTS {
        assert_same_bytes(&decompress(&frame, threads).unwrap(), raw, &what);
    }
    // A destination may be larger: the remaining bytes stay unchanged.
    let mut dst = vec![0x3c; raw.len() + 9];
    assert_eq!(
        gridz::decompress(&frame, gridz::Part::All, &mut dst, Verify::Structure, context),
        Ok(raw.len()),
        "{what}"
    );
    assert_same_bytes(&dst[..raw.len()], raw, &what);
    assert_eq!(dst[raw.len()..], [0x3c; 9], "{what}");
    if !raw.is_empty() {
        let error =
            gridz::decompress(&frame, gridz::Part::All, &mut dst[..raw.len() - 1], Verify::Checksum, context)
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DstTooSmall { need: raw.len() as u64 }, "{what}");
    }
    frame
}

/// Up to six extents around the block sizes, sometimes with additional axes of extent 1.
fn extents() -> impl Strategy<Value = Vec<u64>> {
    let around = prop_oneof![
        20 => prop::sample::select(vec![1u64, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129]),
        4 => prop::sample::select(vec![4095u64, 4096, 4097, 8191, 8192, 12289, 100_000]),
        2 => 1..200u64,
        1 => Just(0),
    ];
    (prop::collection::vec(around, 0..=6), prop::collection::vec(any::<prop::sample::Index>(), 0..=26)).prop_map(
        |(wanted, units)| {
            let mut n_elements = 1;
            let mut extents: Vec<u64> = Vec::new();
            for extent in wanted {
                extents.push(extent.min(MOST_ELEMENTS / n_elements));
                n_elements *= extents[extents.len() - 1].max(1);
            }
            // One array in five has a rank over six.
            if units.len() % 5 == 0 {
                for unit in units {
                    extents.insert(unit.index(extents.len() + 1), 1);
                }
            }
            extents
        },
    )
}

fn dtype() -> impl Strategy<Value = DType> {
    // Choose the types that codecs compress more often than those that are stored.
    prop_oneof![Just(DType::F32), Just(DType::F64), prop::sample::select(&DType::ALL[..])]
}

#[test]
fn every_array() {
    let tally = Tally::default();
    proptest!(cases(1500), |(
        spec in prop::sample::select(specs().collect::<Vec<_>>()),
        dtype in dtype(),
        big_endian in any::<bool>(),
        extents in extents(),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u32>(),
    )| {
        tally.add("cases");
        let input = Input { big_endian, seed: u64::from(seed), ..Input::new(generator, dtype, &extents) };
        let frame = check(&spec, &input.array(), &input.bytes());
        tally.add_if("packed", frame[5] == spec.codec() && spec.codec() != registry::STORED);
    });
    tally.assert("packed", 20);
}

/// Combinations that random choice could miss.
#[test]
fn every_codec_type_and_order() {
    for spec in specs() {
        for dtype in DType::ALL {
            for big_endian in [false, true] {
                for generator in ["ramp", "special"] {
                    for extents in [&[][..], &[0], &[1], &[7, 0, 3], &[4097], &[65, 64], &[17, 16, 16], &[2; 13]] {
                        let input = Input { big_endian, ..Input::new(generator, dtype, extents) };
                        check(&spec, &input.array(), &input.bytes());
                    }
                }
            }
        }
    }
}

/// Chunks large enough to be split into pieces for the workers.
#[test]
fn large_chunks_with_any_number_of_threads() {
    let inputs = [
        ("walk", DType::F32, &[300_001][..]),
        ("wave", DType::F32, &[640, 700]),
        ("wave", DType::F64, &[70, 50, 66]),
        ("wave", DType::F64, &[704, 704]),
        ("special", DType::F64, &[200, 1000]),
        ("random", DType::F32, &[16, 200, 100]),
        ("wave", DType::F32, &[2, 3, 4, 5, 60, 61]),
        ("one", DType::F64, &[4, 1, 40_000]),
        ("walk", DType::I32, &[600, 600]),
    ];
    for (i, (generator, dtype, extents)) in inputs.into_iter().enumerate() {
        for big_endian in [false, true] {
            if one_in() > 1 && big_endian != (i % 3 == 0) {
                continue;
            }
            let input = Input { big_endian, ..Input::new(generator, dtype, extents) };
            assert!(input.array().n_bytes() > 1 << 20);
            for spec in specs() {
                check(&spec, &input.array(), &input.bytes());
            }
        }
    }
}

/// The same numbers in both byte orders give the same payload.
#[test]
fn the_payload_does_not_know_the_byte_order() {
    let little = Input::new("wave", DType::F64, &[70, 66]);
    let big = Input { big_endian: true, ..little.clone() };
    let frames = [little, big].map(|input| check(&ndzip(), &input.array(), &input.bytes()));
    assert_ne!(frames[0][..64], frames[1][..64]);
    assert_eq!(frames[0][5], ndzip().codec());
    assert_same_bytes(&frames[0][64..], &frames[1][64..], "payload");
}

/// Only byte swapping needs working memory proportional to the chunk.
#[test]
fn a_memory_limit_is_kept() {
    let input = |dtype, big_endian| Input { big_endian, ..Input::new("wave", dtype, &[65, 66]) };
    for (dtype, big_endian) in
        [(DType::F32, true), (DType::F64, true), (DType::F32, false), (DType::I32, true), (DType::Opaque, false)]
    {
        let input = input(dtype, big_endian);
        let (array, raw) = (input.array(), input.bytes());
        let need = raw.len() as u64;
        for spec in specs() {
            let entry = registry::find(spec.codec()).unwrap();
            let is_coded = !entry.verbatim && entry.dtypes.contains(&dtype);
            let works = !(big_endian && is_coded);
            let mut dst = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
            let limited = |limit| Context::new(Some(1), Some(limit)).unwrap();
            for limit in [0, need - 1] {
                let result = gridz::compress(&array, &spec, &raw, &mut dst, &limited(limit));
                match result {
                    Ok(_) => assert!(works, "{spec:?} {array:?} within {limit} bytes"),
                    Err(error) => {
                        assert!(!works, "{spec:?} {array:?}: {error}");
                        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
                    }
                }
            }
            let n_bytes = gridz::compress(&array, &spec, &raw, &mut dst, &limited(need)).unwrap();
            assert_same_bytes(&decompress(&dst[..n_bytes], &limited(0)).unwrap(), &raw, spec.name());
        }
    }
}

#[test]
fn a_source_of_the_wrong_length_is_refused() {
    let input = Input::new("ramp", DType::F32, &[5, 5]);
    let mut dst = vec![0; 1000];
    for spec in specs() {
        for n in [0, 99, 101] {
            let result = gridz::compress(&input.array(), &spec, &vec![0; n], &mut dst, &CONTEXTS[0]);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}

/// An array whose size exceeds ndzip's 32-bit table is stored: the bound is then just its bytes.
#[test]
fn more_than_2_to_the_32_words_are_stored() {
    let bound = |dtype, extents: &[u64]| {
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap();
        let header = header_bytes(array.shape().rank(), 0) as u64;
        let bound = gridz::compress_bound(&array, &ndzip()).unwrap();
        assert_eq!(bound % 16, 0, "{extents:?}");
        bound - header - array.n_bytes()
    };
    for dtype in [DType::F32, DType::F64] {
        assert_eq!(bound(dtype, &[1 << 16, 1 << 16]), 0);
        assert_eq!(bound(dtype, &[1 << 40]), 0);
        assert!(bound(dtype, &[1 << 16, 1 << 15]) > 0);
    }
}

/// `cargo test --release --test codecs -- --ignored roundtrip::a_chunk_over_4_gib`
#[test]
#[ignore = "needs 14 GiB of memory and a minute"]
fn a_chunk_over_4_gib() {
    for (dtype, extents, codec) in [
        (DType::F64, [(1 << 20) + 1, 520], registry::DEFAULT),
        (DType::U8, [(1 << 20) + 1, 4100], registry::STORED),
    ] {
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(&extents).unwrap()).unwrap();
        assert!(array.n_bytes() > 1 << 32);
        let (spec, context) = (Request::default(), Context::default());
        let mut raw = vec![0; array.n_bytes() as usize];
        for (i, element) in raw.chunks_exact_mut(array.element_size() as usize).enumerate() {
            let value = (i as f64 * 0.25).to_le_bytes();
            element.copy_from_slice(&value[8 - element.len()..]);
        }
        let mut frame = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
        let n_bytes = gridz::compress(&array, &spec, &raw, &mut frame, &context).unwrap();
        assert_eq!(gridz::inspect(&frame).unwrap().codec, codec);
        let mut back = vec![1; raw.len()];
        gridz::decompress(&frame[..n_bytes], gridz::Part::All, &mut back, Verify::Checksum, &context).unwrap();
        assert!(back == raw, "{array:?}");
        println!("{array:?}: {} -> {n_bytes} bytes", raw.len());
    }
}
