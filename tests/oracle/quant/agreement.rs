//! The crate's payloads equal those of the oracle.

use std::collections::BTreeMap;

use gridz::{Array, ByteOrder, DType, Shape};
use gridz_codecs::codec::fill::Fill;
use gridz_codecs::codec::missing::Missing;
use gridz_codecs::codec::mode::Mode;
use gridz_codecs::codec::registry;
use gridz_codecs::codec::{Decision, EncodeParams, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::fold::Fold;
use proptest::prelude::*;

use super::{Bound, CONST, HOLES, OTHERS, Quant, RAW, WORDS};
use crate::common::fields::{FIELDS, parts};
use crate::common::generate::{GENERATORS, Input, Xorshift};
use crate::common::{assert_same_bytes, cases};
use crate::extents_of_blocks;
use crate::lorenzo::data::{self, Make};

/// All types that quant supports. Complex elements are the last two.
fn dtypes() -> &'static [DType] {
    &DType::ALL[1..]
}

/// The crate's parameters and payload, encoded according to its own plan.
fn payload(dtype: DType, extents: &[u64], bound: &Bound, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let codec = registry::find(3).unwrap().codec;
    let array = Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap();
    let mut missing = Missing::NONE;
    if let Some(fill) = &bound.fill {
        missing.add(Fill::of_bytes(dtype, fill).unwrap()).unwrap();
    }
    let encode_params = EncodeParams { mode: bound.mode, value: bound.value, missing, ..EncodeParams::lossless(1) };
    let plan = match codec.plan(&array, &encode_params) {
        Decision::Take(plan) => plan,
        other => panic!("{other:?}"),
    };
    assert_eq!(plan.fold, Fold::Merge);
    let pool = Pool::new(1);
    let shape = plan.fold.apply(array.shape(), codec.max_rank());
    let job = Job { dtype, shape, layout: &plan.layout, pool: &pool, level: Isa::best(), verify: true };
    let mut payload = vec![0xee; plan.bound as usize];
    let n_bytes = codec.encode(&job, raw, &mut payload).unwrap().n_bytes;
    payload.truncate(n_bytes);
    (plan.params.to_vec(), payload)
}

/// Compares both payloads, and returns the oracle's.
fn agree(dtype: DType, extents: &[u64], bound: &Bound, raw: &[u8], what: &str) -> Vec<u8> {
    let what = format!("{what}: {} {extents:?} {bound:?}", dtype.name());
    println!("{what}");
    let oracle = Quant::new(dtype, extents, bound);
    let (params, mut ours) = payload(dtype, extents, bound, raw);
    assert_same_bytes(&params, &oracle.parameters(), &what);
    // The oracle does not compute checks; the goldens verify them.
    for block in 0..oracle.n_blocks() {
        ours[12 + 8 * block..16 + 8 * block].fill(0);
    }
    let defined = oracle.encode(raw);
    assert_same_bytes(&ours, &defined, &what);
    defined
}

/// Counts how often each block property occurs in a payload.
fn look(payload: &[u8], n_blocks: usize, seen: &mut BTreeMap<String, usize>) {
    let data = &payload[8 + 8 * n_blocks..];
    let mut start = 0;
    for entry in payload[8..8 + 8 * n_blocks].chunks(8) {
        let end = 4 * u32::from_le_bytes(entry[..4].try_into().unwrap()) as usize;
        let mut see = |what: String| *seen.entry(what).or_default() += 1;
        match data[start..end] {
            [] => see("zero".into()),
            [low, high, ..] => match u16::from(low) | u16::from(high) << 8 {
                RAW => see("raw".into()),
                CONST => see("constant".into()),
                h => {
                    see(format!("{} widths", (h >> 9 & 7) + 1));
                    [h & 7, h >> 3 & 7, h >> 6 & 7].iter().for_each(|order| see(format!("order {order}")));
                    let has = |bit: u16| h & bit > 0;
                    see(format!("words {}, holes {}, others {}", has(WORDS), has(HOLES), has(OTHERS)));
                }
            },
            _ => unreachable!("a block of one byte"),
        }
        start = end;
    }
}

/// A random request for such an array: a mode, a value far below to far above the data, sometimes a
/// fill value.
fn bound(dtype: DType, raw: &[u8], random: &mut Xorshift) -> Bound {
    let mut below = |n: u64| (random.next() >> 11) % n;
    let is_float = super::codes::Float::of(parts(dtype).0).is_some();
    let mode = [Mode::Abs, Mode::Abs, Mode::Rel, if is_float { Mode::Pwrel } else { Mode::Abs }][below(4) as usize];
    let mantissa = 1.0 + below(1000) as f64 / 1000.0;
    let size = dtype.size().unwrap() as usize;
    let n = raw.len() / size;
    let (some, other) = (below(n as u64) as usize, below(n as u64) as usize);
    let (part, _) = parts(dtype);
    let scale = magnitude(part, &raw[some * size..]);
    let value = match mode {
        Mode::Abs if below(8) > 0 => scale * mantissa * 2f64.powi(4 - below(60) as i32),
        // Any value, from the least to the largest.
        Mode::Abs => mantissa * 2f64.powi(below(2098) as i32 / 2 - 1022 + below(1000) as i32),
        Mode::Rel => mantissa * 2f64.powi(1 - below(40) as i32),
        _ => (mantissa - 1.0).max(0.001) * 2f64.powi(-(below(30) as i32)),
    };
    let value = if value.is_finite() && value > 0.0 { value } else { 0.5 };
    let fill = raw[other * size..][..size].to_vec();
    let fill = Some(fill).filter(|fill| below(3) == 0 && fill.iter().any(|&byte| byte != 0));
    Bound { mode, value, fill }
}

/// Magnitude of the number at the beginning of `bytes`.
fn magnitude(dtype: DType, bytes: &[u8]) -> f64 {
    let word = bytes
        .iter()
        .take(dtype.size().unwrap() as usize)
        .rev()
        .fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let size = match super::codes::Float::of(dtype) {
        Some(float) => float.value(word as i64).abs(),
        None => word as f64,
    };
    if size.is_finite() && size > 0.0 { size } else { 1.0 }
}

/// A random array by seed: quant's own fields, or lorenzo's test data.
fn array(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let makes = [data::bytes as Make, data::gaps::bytes, data::jumps::bytes, data::ripples::bytes];
    match seed % 3 {
        0 => {
            let makes = makes[seed as usize / 3 % 4];
            let (part, n_parts) = parts(dtype);
            makes(part, &[extents, if n_parts == 2 { &[2] } else { &[] }].concat(), seed)
        }
        1 => Input { seed, ..Input::new(FIELDS[seed as usize / 3 % FIELDS.len()], dtype, extents) }.bytes(),
        _ => mixture(dtype, extents, seed),
    }
}

/// Alternating parts of two fields, with some elements replaced.
fn mixture(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let mut random = Xorshift::new(seed);
    (0..8).for_each(|_| _ = random.next());
    let mut below = |n: u64| (random.next() >> 11) % n;
    let mut field = || {
        let rule = FIELDS[below(FIELDS.len() as u64) as usize];
        Input { seed, ..Input::new(rule, dtype, extents) }.bytes()
    };
    let (first, second) = (field(), field());
    let size = dtype.size().unwrap() as usize;
    let n = (first.len() / size) as u64;
    let (length, seldom) = (1 + below(6000), 2 + below(3000));
    let mut all = vec![];
    for i in 0..n {
        let from = if i / length % 2 == 0 { &first } else { &second };
        let at = if below(seldom) == 0 { below(n) } else { i };
        all.extend(&from[at as usize * size..][..size]);
    }
    all
}

/// Compares the payloads of arrays with these seeds, and returns their block properties.
fn agree_on_all(dtypes: &[DType], extents: &[&[u64]], seeds: std::ops::Range<u64>) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for seed in seeds {
        let number = seed as usize;
        let (dtype, extents) = (dtypes[number / 7 % dtypes.len()], extents[number % extents.len()]);
        let raw = array(dtype, extents, seed);
        let mut random = Xorshift::new(seed);
        (0..8).for_each(|_| _ = random.next());
        let bound = bound(dtype, &raw, &mut random);
        let payload = agree(dtype, extents, &bound, &raw, &format!("seed {seed}"));
        look(&payload, Quant::new(dtype, extents, &bound).n_blocks(), &mut seen);
    }
    println!("{seen:#?}");
    seen
}

/// Whole, clipped and thin blocks of all types, and every block property.
#[test]
fn payloads_are_the_defined_ones() {
    let extents: [&[u64]; 11] = [
        &[4096],
        &[9000],
        &[128, 64],
        &[100, 33],
        &[70, 70],
        &[17, 18, 35],
        &[16, 16, 32],
        &[50, 20, 7],
        &[2, 3, 700],
        &[3, 4, 5, 40],
        &[3000, 2],
    ];
    let seen = agree_on_all(dtypes(), &extents, 0..1500);
    let orders = (0..=7).map(|order| format!("order {order}"));
    let widths = (1..=8).map(|n| format!("{n} widths"));
    let exceptions =
        [[true, false, false], [false; 3], [false, true, false], [false, false, true], [false, true, true]];
    let exceptions =
        exceptions.map(|[words, holes, others]| format!("words {words}, holes {holes}, others {others}"));
    for what in
        ["zero", "raw", "constant"].map(String::from).into_iter().chain(orders).chain(widths).chain(exceptions)
    {
        assert!(seen.contains_key(&what), "no block is {what}: {seen:#?}");
    }
}

/// In small arrays many costs and sizes are equal, and limits are met exactly.
#[test]
fn payloads_of_small_arrays_are_the_defined_ones() {
    let extents: [&[u64]; 14] = [
        &[1],
        &[3],
        &[8],
        &[60],
        &[130],
        &[300],
        &[9, 11],
        &[3, 40],
        &[5, 6, 7],
        &[20, 2, 9],
        // 33, 34 and 35 rows, some or all of them sampled.
        &[33, 4],
        &[34, 4],
        &[35, 3],
        &[1060],
    ];
    agree_on_all(dtypes(), &extents, 0..12_000);
}

/// All generators that other codecs are tested with.
#[test]
fn payloads_of_other_arrays_are_the_defined_ones() {
    let extents: [&[u64]; 4] = [&[5000], &[90, 70], &[3, 41, 67], &[19, 21, 23]];
    for (i, &dtype) in dtypes().iter().enumerate() {
        for (j, generator) in GENERATORS.into_iter().enumerate() {
            let extents = extents[(i + j) % 4];
            let raw = Input::new(generator, dtype, extents).bytes();
            let bound = bound(dtype, &raw, &mut Xorshift::new((100 * i + j) as u64));
            agree(dtype, extents, &bound, &raw, generator);
        }
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn payloads_of_any_shape_are_the_defined_ones(
        dtype in prop::sample::select(dtypes()),
        extents in extents_of_blocks(),
        seed in any::<u32>(),
    ) {
        let raw = array(dtype, &extents, seed.into());
        let bound = bound(dtype, &raw, &mut Xorshift::new(seed.into()));
        agree(dtype, &extents, &bound, &raw, &format!("seed {seed}"));
    }
}
