//! A decoded region of a chunk equals that part of the whole array, for every codec.

use crate::common::decoder::Decoder;
use crate::common::generate::{GENERATORS, Input};
use crate::common::repair::reseal;
use crate::common::{
    Tally, assert_same_bytes, cases, compress, decompress, lossy_specs, ndzip, one_in, specs, takes,
};
use gridz::{BlockCounts, Context, DType, ErrorKind, Mode, Request, Verify};
use proptest::prelude::*;

/// The elements of a box, computed one by one.
fn elements(array: &[u8], extents: &[u64], start: &[u64], count: &[u64], size: usize) -> Vec<u8> {
    let n: u64 = count.iter().product();
    (0..n)
        .flat_map(|number| {
            let (mut number, mut place, mut stride) = (number, 0, 1);
            for axis in (0..extents.len()).rev() {
                place += (start[axis] + number % count[axis]) * stride;
                number /= count[axis];
                stride *= extents[axis];
            }
            array[place as usize * size..][..size].to_vec()
        })
        .collect()
}

/// A random array shape with a box.
fn region() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<u64>)> {
    prop::collection::vec((1..60u64, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..=5).prop_map(
        |axes| {
            let (mut extents, mut start, mut count) = (Vec::new(), Vec::new(), Vec::new());
            let mut n = 1;
            for (extent, a, b) in axes {
                let extent = extent.min(60_000 / n).max(1);
                n *= extent;
                let first = a.index(extent as usize + 1) as u64;
                extents.push(extent);
                start.push(first);
                count.push(b.index((extent - first) as usize + 1) as u64);
            }
            (extents, start, count)
        },
    )
}

#[test]
fn regions_are_the_elements_of_the_array() {
    let tally = Tally::default();
    proptest!(cases(600), |(
        spec in prop::sample::select(specs().chain(lossy_specs()).collect::<Vec<_>>()),
        dtype in prop::sample::select(&DType::ALL[..]),
        big_endian in any::<bool>(),
        generator in prop::sample::select(&GENERATORS[..]),
        (extents, start, count) in region(),
    )| {
        tally.add("cases");
        prop_assume!(takes(&spec, dtype));
        let input = Input { big_endian, ..Input::new(generator, dtype, &extents) };
        let (array, raw) = (input.array(), input.bytes());
        let frame = compress(&array, &spec, &raw, &Context::default());
        let whole = decompress(&frame, &Context::default()).unwrap();
        tally.add_if("packed", frame[5] == spec.codec() && spec.codec() != 0);
        tally.add_if("parts of arrays", count != extents && count.iter().all(|&n| n > 0));
        prop_assert!(whole == raw || spec.mode() != Mode::Lossless);
        let expected = elements(&whole, &extents, &start, &count, array.element_size() as usize);
        for verify in [Verify::Checksum, Verify::Structure] {
            let mut dst = vec![0xa5; expected.len() + 3];
            let n = gridz::decompress(&frame, gridz::Part::Region { start: &start, count: &count }, &mut dst, verify, &Context::default()).unwrap();
            prop_assert_eq!(n, expected.len());
            assert_same_bytes(&dst[..n], &expected, &format!("{spec:?} {array:?} {start:?} {count:?}"));
            prop_assert_eq!(&dst[n..], [0xa5; 3]);
        }
    });
    tally.assert("packed", 20);
    tally.assert("parts of arrays", 10);
}

fn sample(spec: &Request) -> (Vec<u8>, Vec<u8>) {
    let input = Input::new("wave", DType::F32, &[40, 50, 60]);
    (compress(&input.array(), spec, &input.bytes(), &Context::default()), input.bytes())
}

#[test]
fn what_is_no_region_is_refused() {
    let mut dst = vec![0; 40 * 50 * 60 * 4];
    for spec in specs() {
        let (frame, _) = sample(&spec);
        let mut region = |start: &[u64], count: &[u64], n: usize| {
            let dst = &mut dst[..n];
            gridz::decompress(
                &frame,
                gridz::Part::Region { start, count },
                dst,
                Verify::Checksum,
                &Context::default(),
            )
        };
        for (start, count) in [
            (&[0, 0][..], &[1, 1][..]),
            (&[0, 0, 0], &[1, 1]),
            (&[0, 0, 1], &[1, 1, 60]),
            (&[41, 0, 0], &[0, 0, 0]),
        ] {
            assert_eq!(region(start, count, 4).unwrap_err().kind(), ErrorKind::InvalidArgument, "{start:?}");
        }
        let error = region(&[1, 2, 3], &[4, 5, 6], 479).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DstTooSmall { need: 480 });
        assert_eq!(region(&[1, 2, 3], &[4, 5, 6], 480), Ok(480));
        assert_eq!(region(&[40, 50, 60], &[0, 0, 0], 0), Ok(0));
    }
}

/// Damage outside the blocks that a region intersects has no effect; damage inside is detected.
#[test]
fn only_the_blocks_of_a_region_are_read() {
    let (frame, raw) = sample(&Request::new(2, 1).unwrap());
    let mut damaged = frame.clone();
    // The last block holds the far corner.
    let last = damaged.len() - 20;
    damaged[last] ^= 1;
    let near = elements(&raw, &[40, 50, 60], &[0; 3], &[5; 3], 4);
    let mut dst = vec![0; near.len()];
    let context = Context::default();
    gridz::decompress(
        &damaged,
        gridz::Part::Region { start: &[0; 3], count: &[5; 3] },
        &mut dst,
        Verify::Checksum,
        &context,
    )
    .unwrap();
    assert_same_bytes(&dst, &near, "the near corner");
    let error = gridz::decompress(
        &damaged,
        gridz::Part::Region { start: &[39, 49, 59], count: &[1; 3] },
        &mut dst,
        Verify::Checksum,
        &context,
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.context().contains("check"), "{error}");
}

/// ndzip's blocks have no checks: the payload checksum detects damage anywhere. If it is not
/// verified, only the region's blocks are decoded.
#[test]
fn of_ndzip_all_is_compared_and_little_decoded() {
    let input = Input::new("wave", DType::F32, &[32, 32, 40]);
    let raw = input.bytes();
    let context = Context::default();
    let frame = compress(&input.array(), &ndzip(), &raw, &context);
    // The loop below damages the head of the last of eight blocks, and then the border. `begin` is
    // where that block begins, in words: the table has the end of each block.
    let header = gridz_codecs::format::header::header_bytes(3, 0);
    let begin = u32::from_le_bytes(frame[header + 24..header + 28].try_into().unwrap()) as usize;
    let read = |frame: &[u8], start: [u64; 3], verify: Verify| {
        let mut dst = vec![0; 4 * 4 * 4 * 4];
        gridz::decompress(frame, gridz::Part::Region { start: &start, count: &[4; 3] }, &mut dst, verify, &context)
            .map(|_| dst)
    };
    let elements = |start: [u64; 3]| elements(&raw, &[32, 32, 40], &start, &[4; 3], 4);
    for (at, far) in [(header + 32 + 4 * begin, [28, 28, 28]), (frame.len() - 1, [28, 28, 36])] {
        let mut damaged = frame.clone();
        damaged[at] ^= 0x80;
        for start in [[0; 3], [14, 14, 14], [0, 3, 36], far] {
            assert_eq!(read(&frame, start, Verify::Checksum), Ok(elements(start)));
            assert_eq!(
                read(&damaged, start, Verify::Checksum).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "{start:?}"
            );
            let part = read(&damaged, start, Verify::Structure);
            if start == [14, 14, 14] || (start == far && at < frame.len() - 1) {
                // These regions need the last block; only its damage matters.
                assert_eq!(part.is_ok(), at == frame.len() - 1, "{start:?} {at}");
            } else if start != far {
                assert_eq!(part, Ok(elements(start)), "{start:?}");
            }
        }
    }
}

/// A region needs no memory proportional to the array, wherever it lies.
#[test]
fn regions_need_little_memory() {
    let context = Context::new(Some(1), Some(1)).unwrap();
    let input = Input::new("walk", DType::F32, &[300, 5, 3, 7, 11]);
    for spec in specs() {
        let frame = compress(&input.array(), &spec, &input.bytes(), &Context::default());
        let (start, count) = ([1, 1, 0, 1, 2], [299, 2, 2, 5, 3]);
        let expected = elements(&input.bytes(), &[300, 5, 3, 7, 11], &start, &count, 4);
        let mut dst = vec![0; expected.len()];
        gridz::decompress(
            &frame,
            gridz::Part::Region { start: &start, count: &count },
            &mut dst,
            Verify::Checksum,
            &context,
        )
        .unwrap();
        assert_same_bytes(&dst, &expected, &format!("{spec:?}"));
    }
}

/// Many thin boxes share few blocks; the blocks must not be decoded once for each box.
#[test]
fn thin_regions_of_high_rank() {
    let extents = [3000, 2, 2, 2, 2];
    let input = Input::new("walk", DType::F32, &extents);
    let raw = input.bytes();
    for spec in specs() {
        let frame = compress(&input.array(), &spec, &raw, &Context::default());
        for (start, count) in
            [([0; 5], extents), ([0, 1, 0, 0, 0], [3000, 1, 2, 2, 2]), ([7, 0, 1, 0, 1], [2900, 2, 1, 2, 1])]
        {
            let expected = elements(&raw, &extents, &start, &count, 4);
            let mut dst = vec![0; expected.len()];
            let context = Context::default();
            gridz::decompress(
                &frame,
                gridz::Part::Region { start: &start, count: &count },
                &mut dst,
                Verify::Checksum,
                &context,
            )
            .unwrap();
            assert_same_bytes(&dst, &expected, &format!("{spec:?} {start:?} {count:?}"));
        }
    }
}

/// Arbitrary bytes may be passed as a frame.
#[test]
fn damaged_frames_are_errors_or_other_elements() {
    for spec in specs() {
        let tally = Tally::default();
        let (frame, _) = sample(&spec);
        let mut dst = vec![0; 10 * 20 * 30 * 4];
        for at in (0..frame.len()).step_by(one_in() * (frame.len() / 3000 + 1)) {
            for verify in [Verify::Checksum, Verify::Structure] {
                let mut damaged = frame.clone();
                damaged[at] ^= 0x55;
                // Without verification of checks, a resealed frame is decoded like the damaged one.
                for is_resealed in [false, true].into_iter().take(1 + usize::from(verify == Verify::Checksum)) {
                    if is_resealed {
                        reseal(&mut damaged);
                    }
                    let region = gridz::decompress(
                        &damaged,
                        gridz::Part::Region { start: &[5; 3], count: &[10, 20, 30] },
                        &mut dst,
                        verify,
                        &Context::default(),
                    );
                    tally.add("cases");
                    tally.add_if("decoded", Decoder::of(&damaged).is_ok());
                    tally.add_if("accepted", region.is_ok());
                    if let Err(error) = region {
                        assert_ne!(error.kind(), ErrorKind::Internal, "{spec} byte {at}: {error}");
                    }
                }
                let cut = &frame[..at];
                assert!(
                    gridz::decompress(
                        cut,
                        gridz::Part::Region { start: &[5; 3], count: &[10, 20, 30] },
                        &mut dst,
                        verify,
                        &Context::default()
                    )
                    .is_err()
                );
            }
        }
        tally.assert("decoded", 80);
        tally.assert("accepted", 1);
    }
}

#[test]
fn blocks_are_counted_by_kind() {
    let count = |spec: &Request, input: &Input| {
        let frame = compress(&input.array(), spec, &input.bytes(), &Context::default());
        gridz::count_blocks(&frame, &Context::default())
    };
    let [fast, dense] = [1, 2].map(|level| Request::new(2, level).unwrap());
    let few = Input::new("few", DType::F64, &[9000]);
    let counts = BlockCounts { all: 2, packed: 2, dictionary: 2, ..BlockCounts::default() };
    assert_eq!(count(&dense, &few), Ok(counts));
    let smooth = Input::new("cubic", DType::F64, &[20, 30, 40]);
    let counts = count(&fast, &smooth).unwrap();
    assert!(counts.packed + counts.sparse == counts.all && counts.dictionary == 0, "{counts:?}");
    assert!(counts.fixed_point + counts.decimal > 0, "{counts:?}");
    let counts = count(&dense, &smooth).unwrap();
    assert!(counts.sparse > 0 && counts.entropy + counts.packed + counts.sparse == counts.all, "{counts:?}");
    assert!(counts.fixed_point + counts.decimal > 0, "{counts:?}");
    let rough = count(&dense, &Input::new("patches", DType::U32, &[40_000])).unwrap();
    assert!(rough.entropy > 0 && rough.entropy + rough.packed == rough.all, "{rough:?}");
    let wave = count(&fast, &Input::new("wave", DType::F32, &[40_000])).unwrap();
    assert!(wave.fixed_point > 0 && wave.decimal == 0 && wave.masked == 0, "{wave:?}");
    let decimals = count(&fast, &Input::new("decimals", DType::F64, &[40_000])).unwrap();
    assert!(decimals.decimal > 0 && decimals.masked == 0, "{decimals:?}");
    let gaps = count(&fast, &Input::new("gaps", DType::F32, &[40_000])).unwrap();
    assert!(gaps.masked == gaps.all, "{gaps:?}");
    let ripples = count(&fast, &Input::new("ripples", DType::F32, &[40_000])).unwrap();
    assert!(ripples.cut == ripples.all && gaps.cut == 0, "{ripples:?}");
    let jumps = count(&fast, &Input::new("jumps", DType::I32, &[40_000])).unwrap();
    assert!(jumps.sparse == jumps.all, "{jumps:?}");
    let islands = Input::new("islands", DType::F32, &[40_000]);
    let counts = count(&fast, &islands).unwrap();
    assert!(counts.all == 10 && counts.packed > 0, "{counts:?}");
    let constant = Input::new("pi", DType::F32, &[5000]);
    let counts = BlockCounts { all: 2, constant: 2, ..BlockCounts::default() };
    assert_eq!(count(&fast, &constant), Ok(counts));
    assert_eq!(count(&ndzip(), &smooth).unwrap_err().kind(), ErrorKind::UnsupportedJob);
}
