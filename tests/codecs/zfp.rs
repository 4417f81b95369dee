//! zfp: whole payloads contain libzfp's streams; other elements are kept exactly.

use crate::common::bounds::{Bound, assert_kept};
use crate::common::fields::FIELDS;
use crate::common::generate::Input;
use crate::common::zfp::{Vector, vectors};
use crate::common::{
    assert_no_request, assert_refused, assert_same_bytes, compress, decompress, repair::repair, sha256,
};
use gridz::{Array, BlockCounts, ByteOrder, Context, DType, ErrorKind, Request, Shape, Verify};
use gridz_codecs::codec::registry::{self, find};
use gridz_codecs::codec::{Decision, Job, Plan};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;

/// The payload of an array, even if it is longer than the array, and the array that it decodes to.
fn payload(array: &Array, request: &Request, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let codec = find(request.codec()).unwrap().codec;
    let Decision::Take(Plan { fold, layout, .. }) = codec.plan(array, &crate::common::encode_params(request))
    else {
        panic!("{request} does not take {array:?}")
    };
    let (shape, pool) = (fold.apply(array.shape(), codec.max_rank()), Pool::new(1));
    let job = Job { dtype: array.dtype(), shape, layout: &layout, pool: &pool, level: Isa::best(), verify: true };
    let mut payload = vec![0xee; 4 * raw.len() + 4096];
    let encoded = codec.encode(&job, raw, &mut payload).unwrap();
    payload.truncate(encoded.n_bytes);
    let mut back = vec![0xee; raw.len()];
    assert_eq!(codec.decode(&job, &payload, &mut back).unwrap(), encoded.sums);
    (payload, back)
}

#[test]
fn payloads_begin_with_the_streams_of_libzfp() {
    let mut n_same = 0;
    for vector in vectors("payloads_begin_with_the_streams_of_libzfp").unwrap_or_default() {
        let Vector { name, extents, raw, .. } = &vector;
        let extents: Vec<u64> = extents.iter().map(|&n| n as u64).collect();
        if extents.contains(&1) {
            // After folding, the array has fewer axes.
            continue;
        }
        let dtype = if vector.is_double { DType::F64 } else { DType::F32 };
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(&extents).unwrap()).unwrap();
        let (payload, back) = payload(&array, &vector.asked.parse().unwrap(), raw);
        // Elements that libzfp cannot code are replaced in the stream and kept exactly as
        // exceptions.
        let n_units = u32::from_le_bytes(*payload.last_chunk().unwrap());
        if n_units == 0 {
            assert_same_bytes(&payload[..vector.stream.len()], &vector.stream, name);
            assert_eq!(sha256(&back), vector.decoded_sha256, "{name}");
            n_same += 1;
        } else {
            println!("{name}: {n_units} units of exceptions");
        }
    }
    assert!(n_same == 0 || n_same > 400, "{n_same}");
}

fn request(text: &str) -> Request {
    text.parse().unwrap()
}

fn array(dtype: DType, extents: &[u64]) -> Array {
    Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap()
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (dtype, text, says) in [
        (DType::U8, "zfp,rate=8", "zfp does not support uint8 elements"),
        (DType::I32, "zfp,abs=1", "zfp keeps no error bound for int32 elements, which are integers; use quant"),
        (DType::I64, "zfp,rel=.1", "zfp keeps no error bound"),
        (DType::F32, "zfp,rate=2000", "use a rate from 0.03125 to 1041.125"),
        (DType::I32, "zfp,rate=0.01", "is outside the limits of 1 to 16658 bits"),
        (DType::F32, "zfp,precision=65", "65 bit planes are too many; use at most 64"),
        (DType::F32, "zfp,expert,minbits=9,maxbits=8", "minbits must be from 0 to maxbits"),
        (DType::F64, "zfp,expert,minbits=0,maxbits=11", "maxbits from 12 to 16658"),
        (DType::F32, "zfp,expert,maxbits=20000", "maxbits from 9 to 16658"),
        (DType::F32, "zfp,expert,maxprec=0", "maxprec from 1 to 64"),
        (DType::F32, "zfp,expert,minexp=-1075", "for a minexp of -1075 use mode lossless"),
        (DType::F32, "zfp,expert,minbits=-1", "minbits must be from 0 to maxbits"),
    ] {
        assert_refused(&array(dtype, &[40, 40]), text, says);
    }
    for (text, says) in [
        ("zfp,pwrel=.1", "it has no mode 5, pwrel"),
        ("zfp,precision=1.5", "whole number of bit planes"),
        ("zfp,expert,maxbits=1.5", "maxbits must be a whole number"),
        ("zfp,abs=1,maxbits=100", "zfp: maxbits is a parameter of mode expert, not of abs"),
        ("zfp,maxprec=7", "zfp: maxprec is a parameter of mode expert, not of lossless"),
    ] {
        assert_no_request(text, says);
    }
}

/// Incompressible arrays are stored, and so are non-numbers if the mode has no bound.
#[test]
fn what_cannot_shrink_is_stored() {
    for (dtype, text) in
        [(DType::F32, "zfp,rate=32"), (DType::F64, "zfp,rate=900"), (DType::I32, "zfp,rate=40"), (DType::U8, "zfp")]
    {
        let input = Input::new("wave", dtype, &[40, 50]);
        let frame = compress(&input.array(), &request(text), &input.bytes(), &Context::default());
        assert_eq!(frame[5], registry::STORED, "{text}");
        assert_same_bytes(&decompress(&frame, &Context::default()).unwrap(), &input.bytes(), text);
    }
}

#[test]
fn promises_are_what_was_asked() {
    let input = Input::new("wave", DType::F32, &[40, 50]);
    for (text, bound) in [
        ("zfp", Some(0.0)),
        ("zfp,abs=.5", Some(0.5)),
        ("zfp,rate=8", None),
        ("zfp,precision=9", None),
        ("zfp,expert,maxprec=9", None),
    ] {
        let frame = compress(&input.array(), &request(text), &input.bytes(), &Context::default());
        let promise = gridz::inspect(&frame).unwrap().promise.unwrap();
        assert_eq!(
            (promise.mode, promise.value, promise.bound),
            (request(text).mode(), request(text).value(), bound)
        );
    }
    let frame = compress(&input.array(), &request("zfp,rel=1e-3"), &input.bytes(), &Context::default());
    let bound = |frame: &[u8]| gridz::inspect(frame).unwrap().promise.unwrap().bound;
    assert!(bound(&frame).is_some_and(|bound| bound > 0.0 && bound < 1e6));
    // The bound is at the end of the frame.
    assert_eq!(bound(&frame[..frame.len() - 1]), None);
}

/// Every element is within the bound, or exact, for all fields, masks and spikes.
#[test]
fn bounds_are_kept() {
    for dtype in [DType::F32, DType::F64] {
        for (rule, extents) in
            FIELDS.iter().zip([&[3000][..], &[50, 70], &[9, 20, 21], &[5, 6, 7, 9]].iter().cycle())
        {
            for text in ["zfp,abs=1e-3", "zfp,abs=1e-12", "zfp,abs=0.3,fill=-999", "zfp,abs=1e20", "zfp,abs=1e-320"]
            {
                let (input, request) = (Input::new(rule, dtype, extents), request(text));
                let frame = compress(&input.array(), &request, &input.bytes(), &Context::default());
                let back = decompress(&frame, &Context::default()).unwrap();
                let missing = request.missing_elements(&input.array()).unwrap();
                let fill = missing.fills().next();
                assert_kept(dtype, &input.bytes(), &back, Bound::Absolute(request.value()), fill);
            }
        }
    }
}

#[test]
fn masks_and_spikes_are_cheap() {
    let n = 200usize;
    let array = array(DType::F32, &[n as u64, n as u64]);
    for (text, has_bound) in [("zfp,abs=1e-3,fill=1e20", true), ("zfp,precision=16,fill=1e20", false)] {
        let size_of = |change: &dyn Fn(usize, usize, f32) -> f32| {
            let raw: Vec<u8> = (0..n * n)
                .flat_map(|i| {
                    let (y, x) = (i / n, i % n);
                    change(y, x, (x as f32 / 20.0).sin() + (y as f32 / 30.0).cos()).to_le_bytes()
                })
                .collect();
            let frame = compress(&array, &request(text), &raw, &Context::default());
            let back = decompress(&frame, &Context::default()).unwrap();
            if has_bound {
                assert_kept(DType::F32, &raw, &back, Bound::Absolute(1e-3), Some(&1e20f32.to_le_bytes()));
            }
            frame.len()
        };
        let plain = size_of(&|_, _, v| v);
        let is_land = |y: usize, x: usize| (x as i64 - 100).pow(2) + (y as i64 - 90).pow(2) < 80 * 80;
        for hole in [1e20, f32::NAN] {
            let masked = size_of(&|y, x, v| if is_land(y, x) { hole } else { v });
            assert!(masked < plain, "{text}, {hole}: {masked} bytes, {plain} without a mask");
        }
        let spiked = size_of(&|y, x, v| if y == 23 && x == 35 { f32::INFINITY } else { v });
        assert!(spiked < plain + 1000, "{text}: {spiked} bytes, {plain} without a spike");
    }
}

/// The format does not depend on the number of threads or on the CPU's instructions.
#[test]
fn threads_and_levels_do_not_change_a_byte() {
    for (dtype, extents) in [
        (DType::F32, &[1_500_000][..]),
        (DType::F32, &[1000, 1301]),
        (DType::F64, &[50, 113, 67]),
        (DType::I32, &[9, 70, 41, 50]),
        (DType::I64, &[33, 300, 70]),
    ] {
        let texts: &[&str] = match dtype {
            DType::F32 | DType::F64 => &["zfp", "zfp,abs=1e-2,fill=-999", "zfp,rate=9.1", "zfp,precision=13"],
            _ => &["zfp", "zfp,rate=7", "zfp,expert,maxbits=400"],
        };
        let input = Input::new("field_gaps", dtype, extents);
        let raw = input.bytes();
        for text in texts {
            let serial = Context::new(Some(1), None).unwrap();
            let frame = compress(&input.array(), &request(text), &raw, &serial);
            assert!(frame[5] == request(text).codec() || *text == "zfp", "{text} {extents:?}");
            let back = decompress(&frame, &serial).unwrap();
            for threads in [2, 3, 7] {
                let what = format!("{threads} threads, {text} {extents:?}");
                let context = Context::new(Some(threads), None).unwrap();
                assert_same_bytes(&compress(&input.array(), &request(text), &raw, &context), &frame, &what);
                assert_same_bytes(&decompress(&frame, &context).unwrap(), &back, &what);
            }
        }
    }
}

/// Changes bytes of the index, of the exceptions and of the tail, under valid checksums.
#[test]
fn an_index_that_lies_is_an_error_or_other_elements() {
    for (text, dtype, extents) in [
        ("zfp,abs=1e-3", DType::F32, &[70, 130][..]),
        ("zfp,rate=8,fill=-999", DType::F64, &[9, 20, 30]),
        ("zfp,precision=12", DType::F32, &[5, 6, 7, 30]),
        ("zfp", DType::I32, &[9000]),
    ] {
        let input = Input::new(if dtype == DType::I32 { "jumps" } else { "field_gaps" }, dtype, extents);
        let frame = compress(&input.array(), &request(text), &input.bytes(), &Context::default());
        assert_eq!(frame[5], request(text).codec());
        let header_bytes = frame.len() - u64::from_le_bytes(frame[16..24].try_into().unwrap()) as usize;
        let tail = frame.len() - 24;
        let stream_bytes = u64::from_le_bytes(frame[tail..tail + 8].try_into().unwrap()).div_ceil(64) as usize * 8;
        let context = Context::new(Some(1), None).unwrap();
        let mut dst = vec![0; input.bytes().len()];
        let mut n_refused = 0;
        let attack = |frame: &mut Vec<u8>, dst: &mut [u8]| {
            let payload_bytes = (frame.len() - header_bytes) as u64;
            frame[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
            repair(frame);
            let rank = extents.len();
            let (start, count) = (vec![1; rank], vec![2; rank]);
            let frame = &*frame;
            let whole = gridz::decompress(frame, gridz::Part::All, &mut *dst, Verify::Checksum, &context);
            let part = gridz::decompress(
                frame,
                gridz::Part::Region { start: &start, count: &count },
                dst,
                Verify::Checksum,
                &context,
            );
            let _ = gridz::count_blocks(frame, &context);
            for result in [&whole, &part] {
                assert!(!matches!(result, Err(error) if error.kind() == ErrorKind::Internal), "{result:?}");
            }
            whole.is_err()
        };
        for at in header_bytes + stream_bytes..frame.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, frame[at] ^ 1, frame[at].wrapping_add(8)] {
                let mut damaged = frame.clone();
                damaged[at] = value;
                n_refused += usize::from(attack(&mut damaged, &mut dst));
            }
        }
        assert!(n_refused > 100, "{text}: {n_refused}");
        for cut in (0..frame.len() - header_bytes).rev().step_by(7) {
            assert!(attack(&mut frame[..header_bytes + cut].to_vec(), &mut dst));
        }
        // A tail with counts that are too large.
        for (place, n_bytes) in [(0, 8), (16, 4), (20, 4)] {
            for value in [u64::MAX, 1 << 63, u64::MAX >> 3, 0] {
                let mut damaged = frame.clone();
                damaged[tail + place..tail + place + n_bytes].copy_from_slice(&value.to_le_bytes()[..n_bytes]);
                let is_refused = attack(&mut damaged, &mut dst);
                assert!(is_refused || place == 16 || damaged[tail..] == frame[tail..], "{place} {value}");
            }
        }
    }
}

/// Parameters that the codec does not write are refused; some of them denote a later version.
#[test]
fn parameters_are_checked() {
    let input = Input::new("field", DType::F32, &[40, 50]);
    let frame = compress(&input.array(), &request("zfp,abs=1e-2,fill=-999"), &input.bytes(), &Context::default());
    let params = 40 + 16;
    assert_eq!(frame[11], 24);
    for i in 0..24 {
        for flip in [1, 0x80] {
            let mut damaged = frame.clone();
            damaged[params + i] ^= flip;
            repair(&mut damaged);
            let result = gridz::decompress(
                &damaged,
                gridz::Part::All,
                &mut [0; 8000],
                Verify::Checksum,
                &Context::default(),
            );
            match result {
                Err(error) if [1, 7, 10, 11].contains(&i) => assert_eq!(error.kind(), ErrorKind::UnsupportedFormat),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{i}"),
                // Decoders do not need a fill value.
                Ok(_) => assert!(i >= 20, "{i} {flip}"),
            }
        }
    }
}

#[test]
fn exceptions_are_counted() {
    let input = Input::new("field_gaps", DType::F32, &[41, 82]);
    let holes = input.bytes().chunks(4).filter(|&element| element == (-999f32).to_le_bytes()).count() as u64;
    let frame =
        compress(&input.array(), &request("zfp,precision=12,fill=-999"), &input.bytes(), &Context::default());
    let counts = gridz::count_blocks(&frame, &Context::default()).unwrap();
    assert_eq!(counts, BlockCounts { all: 11 * 21, exact: holes, ..BlockCounts::default() });
}
