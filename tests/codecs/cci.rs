//! Special cases of cci: repeated rows, runs, rows that restart, and numbers at the limits of their
//! types.

use crate::common::generate::{Input, Xorshift};
use crate::common::{Tally, assert_same_bytes, cases, compress, decompress};
use gridz::{Array, ByteOrder, Context, CpuLevel, DType, Request, Shape};
use gridz_codecs::codec::registry;
use proptest::prelude::*;

const TYPES: [DType; 4] = [DType::U32, DType::U64, DType::I32, DType::I64];
/// Number of elements in a block.
const BLOCK: usize = 1 << 16;

fn requests() -> [Request; 2] {
    ["cci", "cci,level=fast"].map(|text| text.parse().unwrap())
}

fn contexts() -> Vec<Context> {
    let levels = [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512];
    levels.iter().filter_map(|&level| Context::default().with_level(level).ok()).collect()
}

fn array(dtype: DType, n: usize) -> Array {
    Array::new(dtype, ByteOrder::Little, Shape::new(&[n as u64]).unwrap()).unwrap()
}

/// Checks the round trip at both levels, with the same frame for all instruction levels; returns
/// the frames' bytes.
fn check(dtype: DType, words: &[u64]) -> [usize; 2] {
    let size = dtype.size().unwrap() as usize;
    let raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(size)).collect();
    let array = array(dtype, words.len());
    let contexts = contexts();
    requests().map(|request| {
        let frame = compress(&array, &request, &raw, &contexts[0]);
        let most = raw.len() + 48;
        assert!(frame.len() <= most, "{request}: {} of {most} bytes", frame.len());
        for context in &contexts {
            assert_same_bytes(&compress(&array, &request, &raw, context), &frame, &request.to_string());
            assert_same_bytes(&decompress(&frame, context).unwrap(), &raw, &request.to_string());
        }
        frame.len()
    })
}

#[test]
fn it_is_in_the_table() {
    let entry = registry::find(7).unwrap();
    assert_eq!((entry.name, entry.levels[0].name, entry.dtypes.len()), ("cci", "dense", 4));
}

#[test]
fn blocks_of_all_lengths() {
    for n in [1, 2, 3, 4, 5, 31, 32, 33, 64, 65, 4095, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7] {
        for (generator, dtype) in
            ["stencil", "mesh", "columns", "pointers", "random"].iter().zip(TYPES.iter().cycle())
        {
            let size = dtype.size().unwrap() as usize;
            let raw = Input::new(generator, *dtype, &[n as u64]).bytes();
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            check(*dtype, &raw.chunks(size).map(word).collect::<Vec<_>>());
        }
    }
}

/// Constants and ramps of any step, also descending and wrapping around the type: a few bytes a
/// block.
#[test]
fn what_goes_on_and_on_takes_few_bytes() {
    for dtype in TYPES {
        let top = if dtype.size() == Some(8) { u64::MAX } else { u64::from(u32::MAX) };
        for step in [0, 1, 2, 27, 1 << 20, top, top - 5, top / 2 + 1] {
            for first in [0, 7, top - 100, top / 2 - 100] {
                let words: Vec<u64> =
                    (0..3 * BLOCK as u64 + 5).map(|i| first.wrapping_add(i.wrapping_mul(step))).collect();
                let sizes = check(dtype, &words);
                assert!(sizes.iter().all(|&size| size <= 64 + 32 + 4 * 64), "{dtype:?} {step} {first}: {sizes:?}");
            }
        }
    }
}

/// Rows of every length that recur, shifted by any step.
#[test]
fn rows_that_repeat_take_few_bytes() {
    let mut random = Xorshift::new(5);
    for length in (1..40).chain([63, 64, 65, 1000, 20_000]) {
        let row: Vec<u64> = (0..length)
            .scan(0, |at, _| {
                *at += 1 + (random.next() >> 50);
                Some(*at)
            })
            .collect();
        for step in [0, 1, 1000] {
            let words: Vec<u64> = (0..100_000_usize)
                .map(|i| row[i % row.len()].wrapping_add((i / row.len()) as u64 * step))
                .collect();
            let sizes = check(TYPES[length as usize % 4], &words);
            let most = 2 * (400 + 4 * length as usize);
            assert!(sizes.iter().all(|&size| size < most), "{length} {step}: {sizes:?} of {most}");
        }
    }
}

/// Regular matrices take less than a hundredth of their size, and meshes with several unknowns a
/// node less than an eighth.
#[test]
fn matrices_take_few_bytes() {
    for (generator, part) in [("stencil", 100), ("mesh", 8)] {
        let input = Input::new(generator, DType::I32, &[300_000]);
        for request in requests() {
            let n = compress(&input.array(), &request, &input.bytes(), &Context::default()).len();
            assert!(n < 1_200_000 / part, "{request} {generator}: {n}");
        }
    }
}

/// Words formed by rows of a few kinds.
fn words() -> impl Strategy<Value = Vec<u64>> {
    let piece = (0..7u8, 1..3000usize, any::<u64>(), any::<u64>(), 0..64u32);
    prop::collection::vec(piece, 1..60).prop_map(|pieces| {
        let mut all: Vec<u64> = Vec::new();
        for (kind, n, a, b, bits) in pieces {
            let last = all.last().copied().unwrap_or(0);
            let mut random = Xorshift::new(a);
            match kind {
                // An earlier part again, shifted.
                0 | 1 if !all.is_empty() => {
                    let (from, more) = (b as usize % all.len(), if kind == 0 { 0 } else { a >> bits });
                    (0..n).for_each(|i| all.push(all[from + i % (all.len() - from)].wrapping_add(more)));
                }
                2 => all.extend((0..n as u64).map(|i| last.wrapping_add(i))),
                3 => all.extend((0..n as u64).map(|i| a.wrapping_add(i.wrapping_mul(b >> bits)))),
                4 => all.extend((0..n).map(|_| random.next() >> bits)),
                5 => all.extend((0..n).scan(last, |at, _| {
                    *at = at.wrapping_add(random.next() >> bits);
                    Some(*at)
                })),
                // Short runs.
                _ => {
                    let length = 1 + b % 9;
                    all.extend(
                        (0..n as u64).map(|i| (i / length).wrapping_mul(1 + (b >> 60)) * length + i % length),
                    );
                }
            }
        }
        all.truncate(150_000);
        all
    })
}

#[test]
fn any_words() {
    let tally = Tally::default();
    proptest!(cases(150), |(words in words(), dtype in prop::sample::select(&TYPES[..]))| {
        tally.add("cases");
        let sizes = check(dtype, &words);
        tally.add_if("packed", sizes[0] < words.len() * dtype.size().unwrap() as usize);
    });
    tally.assert("packed", 40);
}
