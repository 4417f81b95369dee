//! A second encoder of `huffman`, written from `SPEC.md` and `docs/writer.md`
//! alone. It finds the order of a lane's words
//! by simulating the reader.

use gridz::{Array, ByteOrder, DType, Shape};
use gridz_codecs::codec::huffman::Huffman as Codec;
use gridz_codecs::codec::{Codec as _, Decision, EncodeParams, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use proptest::prelude::*;

use crate::common::generate::{GENERATORS, Input};
use crate::common::{assert_same_bytes, cases};
use crate::extents_of_blocks;
use crate::lorenzo::bits::{BitString, string_of};
use crate::lorenzo::huff::{code_lengths, codes};
use crate::lorenzo::without_checks;

const DIRECT: u32 = 1 << 11;

/// A type's W and whether it is signed.
fn kind(dtype: DType) -> (u32, bool) {
    let is_signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32);
    (8 * dtype.size().unwrap(), is_signed)
}

/// The payload; its checks are zero.
fn encode(dtype: DType, raw: &[u8]) -> Vec<u8> {
    let size = dtype.size().unwrap() as usize;
    let side = size << if size == 1 { 16 } else { 15 };
    let (mut table, mut blocks) = (vec![], vec![]);
    for elements in raw.chunks(side) {
        blocks.extend(block(dtype, elements));
        blocks.resize(blocks.len().next_multiple_of(16), 0);
        table.extend((blocks.len() as u32 / 16).to_le_bytes());
        table.extend([0; 4]);
    }
    table.resize(table.len().next_multiple_of(16), 0);
    [table, blocks].concat()
}

fn block(dtype: DType, raw: &[u8]) -> Vec<u8> {
    let (w, is_signed) = kind(dtype);
    let size = w as usize / 8;
    let elements: Vec<u64> =
        raw.chunks(size).map(|bytes| bytes.iter().rev().fold(0, |e, &byte| e << 8 | u64::from(byte))).collect();
    if elements.iter().all(|element| *element == elements[0]) {
        return [&[1, 0, 0, 0], &raw[..size]].concat();
    }
    let modulo = |v: u64| v & ((1 << w) - 1);
    let f = |v: u64| match modulo(v) {
        v if w == 8 => v,
        v if v < 1 << (w - 1) => 2 * v,
        v => modulo(v.wrapping_mul(2).wrapping_neg().wrapping_sub(1)),
    };
    let plain: Vec<u64> = elements.iter().map(|&e| if is_signed { f(e) } else { e }).collect();
    let before = std::iter::once(&0).chain(&elements);
    let differences: Vec<u64> = elements.iter().zip(before).map(|(e, before)| f(e.wrapping_sub(*before))).collect();
    let is_better = cost(&differences) < cost(&plain);
    let section = section(w, if is_better { &differences } else { &plain });
    if (4 + section.len()).div_ceil(16) >= (4 + raw.len()).div_ceil(16) {
        return [&[0; 4], raw].concat();
    }
    [&[2, is_better.into(), 0, 0][..], &section].concat()
}

/// The symbol, the tail, and the tail's length in bits.
fn symbol(number: u64) -> (usize, u64, u32) {
    if number < DIRECT.into() {
        return (number as usize, 0, 0);
    }
    let l = 64 - number.leading_zeros();
    let h = number >> (l - 3) & 3;
    ((DIRECT + 4 * (l - 12)) as usize + h as usize, number & ((1 << (l - 3)) - 1), l - 3)
}

fn log(x: u64) -> u64 {
    let q = 63 - x.leading_zeros();
    16 * u64::from(q) + ((16 * u128::from(x)) >> q) as u64 - 16
}

fn cost(numbers: &[u64]) -> u64 {
    let sample: Vec<u64> = numbers.chunks(32).step_by(8).flatten().copied().collect();
    let mut counts = vec![0u64; 2132];
    sample.iter().for_each(|&number| counts[symbol(number).0] += 1);
    let n = sample.len() as u64;
    let tails: u64 = sample.iter().map(|&number| u64::from(symbol(number).2)).sum();
    n * (log(n * n) - log(counts.iter().map(|c| c * c).sum())) + 16 * tails
}

fn section(w: u32, numbers: &[u64]) -> Vec<u8> {
    let rows: Vec<&[u64]> = numbers.chunks(32).collect();
    let is_zero: Vec<bool> = rows.iter().map(|row| row.iter().all(|&n| n == 0)).collect();
    let has_bitmap = 32 * is_zero.iter().filter(|&&is_zero| is_zero).count() > rows.len();
    let coded: Vec<&[u64]> =
        rows.iter().zip(&is_zero).filter(|&(_, &is_zero)| !(has_bitmap && is_zero)).map(|(&row, _)| row).collect();
    let last = coded.last().map_or(0, |row| row[row.len() - 1]);
    let filled: Vec<Vec<usize>> =
        coded.iter().map(|row| (0..32).map(|lane| symbol(*row.get(lane).unwrap_or(&last)).0).collect()).collect();
    let mut counts = vec![0; if w == 8 { 256 } else { 2048 + 4 * (w as usize - 11) }];
    filled.iter().flatten().for_each(|&symbol| counts[symbol] += 1);
    let n_used = counts.iter().filter(|&&count| count > 0).count();
    let most = (n_used.max(1).ilog2() as usize + 3).clamp(11, 14);
    let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let end = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let lengths = code_lengths(counts, most);
    let codes = if n_used > 1 { codes(&lengths) } else { vec![vec![]; lengths.len()] };

    let words = words(&filled, &codes);
    let mut tails = BitString::default();
    for &number in coded.iter().copied().flatten() {
        let (_, tail, n) = symbol(number);
        tails.push(tail, n);
    }
    let tails = tails.into_bytes();
    let length_bytes = string_of(halves(&lengths[first..end]), 4);
    let fields = [first, end - first, length_bytes.len(), words.len()];
    let mut bytes: Vec<u8> = fields.iter().flat_map(|&field| (field as u16).to_le_bytes()).collect();
    bytes.extend((tails.len() as u32 | u32::from(has_bitmap) << 31).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    if has_bitmap {
        bytes.extend(string_of(is_zero.iter().map(|&is_zero| is_zero.into()), 1));
    }
    [bytes, length_bytes, tails].concat()
}

/// Half bytes that encode the code lengths.
fn halves(lengths: &[usize]) -> Vec<u64> {
    let (mut halves, mut rest) = (vec![], lengths);
    while let [length, behind @ ..] = rest {
        let n_zeros = rest.iter().take_while(|&&length| length == 0).count().min(18);
        if n_zeros >= 3 {
            halves.extend([15, n_zeros as u64 - 3]);
            rest = &rest[n_zeros..];
        } else {
            halves.push(*length as u64);
            rest = behind;
        }
    }
    halves
}

/// The words of the lanes, in the order in which a reader consumes them.
fn words(rows: &[Vec<usize>], codes: &[Vec<bool>]) -> Vec<u16> {
    let longest = codes.iter().map(Vec::len).max().unwrap_or(0);
    let strings: Vec<Vec<bool>> =
        (0..32).map(|lane| rows.iter().flat_map(|row| codes[row[lane]].iter().copied()).collect()).collect();
    let (mut taken, mut used) = ([0; 32], [0; 32]);
    let mut words = vec![];
    for row in rows {
        for lane in 0..32 {
            if taken[lane] - used[lane] < longest {
                let bit = |i: usize| u16::from(*strings[lane].get(taken[lane] + i).unwrap_or(&false));
                words.push((0..16).fold(0, |word, i| word << 1 | bit(i)));
                taken[lane] += 16;
            }
            used[lane] += codes[row[lane]].len();
        }
    }
    words
}

/// The crate's payload, without checks.
fn payload(dtype: DType, raw: &[u8], level: Isa) -> Vec<u8> {
    let n = raw.len() as u64 / u64::from(dtype.size().unwrap());
    let array = Array::new(dtype, ByteOrder::Little, Shape::new(&[n]).unwrap()).unwrap();
    let Decision::Take(plan) = Codec.plan(&array, &EncodeParams::lossless(0)) else { panic!("not planned") };
    let pool = Pool::new(1);
    let job = Job { dtype, shape: *array.shape(), layout: &plan.layout, pool: &pool, level, verify: true };
    let mut payload = vec![0xee; plan.bound as usize];
    let n_bytes = Codec.encode(&job, raw, &mut payload).unwrap().n_bytes;
    payload.truncate(n_bytes);
    let per_block = if dtype.size() == Some(1) { 1 << 16 } else { 1 << 15 };
    without_checks(payload, n.div_ceil(per_block) as usize)
}

fn agree(dtype: DType, raw: &[u8], what: &str) {
    let defined = encode(dtype, raw);
    for level in Isa::all() {
        assert_same_bytes(&payload(dtype, raw, level), &defined, &format!("{what}: {} {level:?}", dtype.name()));
    }
}

const DTYPES: [DType; 6] = [DType::U8, DType::U16, DType::U32, DType::I8, DType::I16, DType::I32];

#[test]
fn payloads_are_the_defined_ones() {
    for dtype in DTYPES {
        for generator in GENERATORS {
            for n in [1, 2, 33, 3000, 70_000] {
                agree(dtype, &Input::new(generator, dtype, &[n]).bytes(), generator);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn payloads_of_any_arrays_are_the_defined_ones(
        dtype in prop::sample::select(&DTYPES[..]),
        generator in prop::sample::select(&GENERATORS[..]),
        extents in extents_of_blocks(),
        seed in any::<u32>(),
    ) {
        let input = Input { seed: u64::from(seed), ..Input::new(generator, dtype, &extents) };
        agree(dtype, &input.bytes(), generator);
    }
}
