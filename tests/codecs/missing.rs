//! Missing elements are restored bit for bit, and no other element becomes a missing one. Tested
//! with fill values of all kinds, several at once, and valid ranges, for every codec with a bound,
//! mode, level and type, and with the same bytes everywhere.

use crate::common::bounds::{Bound, Number, assert_kept, number, part_bytes};
use crate::common::generate::{GENERATORS, Input, Xorshift};
use crate::common::{assert_same_bytes, compress, decompress, takes};
use gridz::{Array, ByteOrder, Context, CpuLevel, DType, Mode, Request};
use gridz_codecs::codec::missing::{MAX_FILLS, MissingElements};
use gridz_codecs::codec::registry::CODECS;

/// Requests of every codec, mode and level.
fn requests() -> Vec<Request> {
    let mut texts: Vec<String> = Vec::new();
    for level in ["fast", "dense", "max"] {
        for mode in ["abs=0.5", "abs=1e-3", "rel=1e-2", "rel=1e-5", "pwrel=1e-2"] {
            texts.push(format!("quant,{mode},level={level}"));
        }
    }
    let zfp =
        ["abs=0.5", "abs=1e-3", "rel=1e-3", "rate=9.5", "rate=3", "precision=14", "expert,minbits=20,maxbits=300"];
    texts.extend(zfp.map(|mode| format!("zfp,{mode}")));
    let multigrid =
        ["abs=0.5", "abs=1e-3", "rel=1e-3", "rms=1e-2", "abs=1e-3,layers=3", "rms=1e-2,layers=2", "rms=1e-2,s=-1"];
    texts.extend(multigrid.map(|mode| format!("multigrid,{mode}")));
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// True if elements are ordered: complex ones are not, although their parts are.
fn is_ordered(dtype: DType) -> bool {
    !matches!(dtype, DType::C64 | DType::C128)
}

fn float(dtype: DType, bytes: &[u8]) -> f64 {
    match number(dtype, bytes) {
        Number::Whole(x) => x as f64,
        Number::Float(x) => x,
    }
}

/// True if an element is missing, by the definition.
fn is_missing(dtype: DType, missing: &MissingElements, element: &[u8]) -> bool {
    let limits = missing.limits().map(|limit| limit.map(|limit| number(dtype, limit)));
    let is_below = |a: Number, b: Number| match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => a < b,
        (Number::Float(a), Number::Float(b)) => a < b,
        _ => unreachable!("of one type"),
    };
    missing.fills().any(|fill| fill == element)
        || limits[0].is_some_and(|least| is_below(number(dtype, element), least))
        || limits[1].is_some_and(|most| is_below(most, number(dtype, element)))
}

/// A random fill value: an element of the array, 0, -0, a large number, or all bits set.
fn draw_fill(random: &mut Xorshift, raw: &[u8], size: usize) -> Vec<u8> {
    let n = raw.len() / size;
    let mut element = raw[random.below(n as u64) as usize * size..][..size].to_vec();
    match random.below(6) {
        0 => element.fill(0),
        1 => {
            element.fill(0);
            element[size - 1] = 0x80;
        }
        2 => element.iter_mut().rev().take(2).for_each(|byte| *byte = 0x7f),
        3 => element.fill(0xff),
        _ => {}
    }
    element
}

fn draw_missing(random: &mut Xorshift, dtype: DType, raw: &[u8]) -> MissingElements {
    let size = dtype.size().unwrap() as usize;
    let mut missing = MissingElements::none(size as u64);
    for _ in 0..random.below(MAX_FILLS as u64 + 1) {
        missing.add(&draw_fill(random, raw, size)).unwrap();
    }
    let mut ordered: Vec<&[u8]> =
        raw.chunks_exact(size).filter(|bytes| float(dtype, &bytes[..part_bytes(dtype)]).is_finite()).collect();
    if is_ordered(dtype) && ordered.len() > 1 && random.below(2) == 0 {
        ordered.sort_by(|a, b| float(dtype, a).total_cmp(&float(dtype, b)));
        let [low, high] = [ordered.len() / 5, ordered.len() * 9 / 10].map(|at| ordered[at]);
        match random.below(3) {
            0 => missing.set_limit(0, low).unwrap(),
            1 => missing.set_limit(1, high).unwrap(),
            _ => {
                missing.set_limit(0, low).unwrap();
                missing.set_limit(1, high).unwrap();
            }
        }
    }
    missing
}

/// Puts fill values in parts of the array, and values near them elsewhere.
fn spoil(random: &mut Xorshift, raw: &mut [u8], size: usize, missing: &MissingElements) {
    let fills: Vec<Vec<u8>> = missing.fills().map(<[u8]>::to_vec).collect();
    if fills.is_empty() {
        return;
    }
    let period = 2 + random.below(60) as usize;
    for (i, element) in raw.chunks_exact_mut(size).enumerate() {
        let fill = &fills[i / 7 % fills.len()];
        if (i / period).is_multiple_of(3) {
            element.copy_from_slice(fill);
        } else if random.below(40) == 0 {
            element.copy_from_slice(fill);
            // Adjacent numbers, which the fill value approximates well.
            element[0] ^= 1 + random.below(3) as u8;
        }
    }
}

#[derive(Default)]
struct Counts {
    elements: u64,
    missing: u64,
    near: u64,
    with_range: u64,
    lossy: u64,
}

#[test]
fn missing_elements_come_back_and_no_others_become_missing() {
    let mut random = Xorshift::new(53);
    let contexts: Vec<Context> = [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512]
        .into_iter()
        .filter_map(|level| Context::default().with_level(level).ok())
        .chain([Context::new(Some(3), None).unwrap()])
        .collect();
    let (mut n_seen, mut all) = (0, Counts::default());
    for request in requests() {
        let entry = CODECS.iter().find(|entry| entry.name == request.name()).unwrap();
        for &dtype in entry.dtypes.iter().filter(|&&dtype| takes(&request, dtype)) {
            let mut counts = Counts::default();
            for round in 0..4 {
                check(&mut random, &request, dtype, round, &contexts, &mut counts);
            }
            let Counts { elements, missing, near, with_range, lossy } = counts;
            let text = format!("{request} {}: {elements} elements, {missing} missing", dtype.name());
            assert!(elements > 5000 && missing > 200, "{text}");
            n_seen += 1;
            all.near += near;
            all.with_range += with_range;
            all.lossy += lossy;
            println!("{text}, {near} near, {with_range} rounds with a range, {lossy} changed");
        }
    }
    assert!(n_seen > 200, "{n_seen} of codecs, modes, levels and types");
    let Counts { near, with_range, lossy, .. } = all;
    println!("{near} elements near a fill value, {with_range} rounds with a range, {lossy} elements changed");
    assert!(
        near > 10_000 && with_range > n_seen / 4 && lossy > 100_000,
        "{near} near, {with_range} ranges, {lossy} changed"
    );
}

fn check(
    random: &mut Xorshift,
    request: &Request,
    dtype: DType,
    round: usize,
    contexts: &[Context],
    counts: &mut Counts,
) {
    let size = dtype.size().unwrap() as usize;
    let extents: &[u64] = [&[4000][..], &[50, 61], &[13, 14, 15], &[1, 7000]][round % 4];
    let generator = GENERATORS[random.below(GENERATORS.len() as u64) as usize];
    let (input, order) = (Input::new(generator, dtype, extents), [ByteOrder::Little, ByteOrder::Big][round % 2]);
    let mut raw = input.bytes();
    let mut missing = draw_missing(random, dtype, &raw);
    if missing.is_none() {
        missing.add(&vec![0; size]).unwrap();
    }
    spoil(random, &mut raw, size, &missing);
    let array = Array::new(dtype, order, *input.array().shape()).unwrap();
    let swapped = |bytes: &[u8]| match array.order() {
        ByteOrder::Little => bytes.to_vec(),
        ByteOrder::Big => bytes.chunks(part_bytes(dtype)).flat_map(|number| number.iter().rev()).copied().collect(),
    };
    let in_order =
        if array.order() == ByteOrder::Big { missing.swapped(part_bytes(dtype) as u32) } else { missing };
    let asked = request.with_elements(&array, &in_order).unwrap();
    assert_eq!(
        asked.to_string().parse::<Request>().unwrap().missing_elements(&array).unwrap(),
        in_order,
        "{asked}"
    );
    let what = format!("{asked} {array:?} {generator}");
    let original = swapped(&raw);
    let frame = compress(&array, &asked, &original, &contexts[0]);
    let decoded = decompress(&frame, &contexts[0]).unwrap();
    for context in contexts {
        assert_same_bytes(&compress(&array, &asked, &original, context), &frame, &what);
        assert_same_bytes(&decompress(&frame, context).unwrap(), &decoded, &what);
    }
    let decoded = swapped(&decoded);
    let (mut was, mut is) = (raw.clone(), decoded.clone());
    for (i, (a, b)) in raw.chunks_exact(size).zip(decoded.chunks_exact(size)).enumerate() {
        let [is_in, is_out] = [a, b].map(|element| is_missing(dtype, &missing, element));
        assert!(is_in == is_out && (!is_in || a == b), "{what}: element {i}, {a:x?}, became {b:x?}");
        if is_in {
            counts.missing += 1;
            was[i * size..][..size].fill(0);
            is[i * size..][..size].fill(0);
        } else {
            counts.lossy += u64::from(a != b);
            counts.near += u64::from(missing.fills().any(|fill| fill[1..] == a[1..]));
        }
        counts.elements += 1;
    }
    counts.with_range += u64::from(missing.limits() != [None; 2]);
    let promised = gridz::inspect(&frame).unwrap().promise.unwrap();
    // Other modes guarantee nothing for these elements.
    let bound = match promised.mode {
        Mode::Pwrel => Some(Bound::Relative(promised.value)),
        _ => promised.bound.map(Bound::Absolute),
    };
    if let Some(bound) = bound {
        assert_kept(dtype, &was, &is, bound, None);
    }
}
