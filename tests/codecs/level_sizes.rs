//! A higher level of `lorenzo` or `quant` gives no larger frame.
//!
//! For max this is guaranteed, because its writer tries the lower levels, too; for `quant` only dense. For dense it is not: its
//! blocks are longer than those of fast, so that a block of mixed data can get a worse map or other orders. How often that
//! happens is limited here.

use std::collections::BTreeMap;

use crate::common::fields::FIELDS;
use crate::common::generate::{GENERATORS, Input};
use crate::common::real::floats;
use crate::common::{assert_same_bytes, compress, one_in, shared};
use gridz::{Array, Context, DType, Mode, Request};

/// One element, a line, planes that are thin or not, a volume, and extents that are folded.
const EXTENTS: [&[u64]; 8] =
    [&[1], &[20_000], &[700, 3], &[3, 5000], &[90, 101], &[17, 33, 37], &[600, 2, 2], &[4, 5, 12, 40]];

/// b of a `lorenzo` frame: 12, 13 and 18 at levels fast, dense and max. `None` if it is stored.
fn b_of(frame: &[u8]) -> Option<u8> {
    (frame[5] == 2).then(|| frame[40 + 8 * usize::from(frame[9])])
}

#[test]
fn frames_of_higher_levels_are_not_larger() {
    let levels: [Request; 3] =
        ["fast", "dense", "max"].map(|name| format!("lorenzo,level={name}").parse().unwrap());
    let dtypes = DType::ALL.into_iter().filter(|&dtype| dtype != DType::Opaque);
    let cases =
        dtypes.flat_map(|dtype| GENERATORS.into_iter().chain(FIELDS).map(move |generator| (dtype, generator)));
    let (mut n_cases, mut n_larger, mut bytes) = (0, 0, [0; 3]);
    let mut written_at_max = BTreeMap::new();
    let n_generators = GENERATORS.len() + FIELDS.len();
    // Of each type other generators.
    for (i, (dtype, generator)) in
        cases.enumerate().filter(|(i, _)| (i + i / n_generators).is_multiple_of(one_in()))
    {
        let extents = EXTENTS[(i / one_in()) % EXTENTS.len()];
        let input = Input { big_endian: i % 3 == 0, seed: i as u64, ..Input::new(generator, dtype, extents) };
        let (array, raw, what) = (input.array(), input.bytes(), format!("{input:?}"));
        let frames = levels.each_ref().map(|level| compress(&array, level, &raw, &Context::default()));
        let [fast, dense, max] = &frames;
        assert!(
            max.len() <= dense.len() && max.len() <= fast.len(),
            "{what}: {:?}",
            frames.each_ref().map(Vec::len)
        );
        match b_of(max) {
            Some(12) => assert_same_bytes(max, fast, &what),
            Some(13) => assert_same_bytes(max, dense, &what),
            Some(b) => assert_eq!(b, 18, "{what}"),
            None => assert!(b_of(fast).is_none() && b_of(dense).is_none(), "{what}"),
        }
        *written_at_max.entry(b_of(max)).or_insert(0) += 1;
        if dense.len() > fast.len() {
            println!("dense is larger: {} instead of {}, {what}", dense.len(), fast.len());
            n_larger += 1;
        }
        frames.iter().zip(&mut bytes).for_each(|(frame, bytes)| *bytes += frame.len());
        n_cases += 1;
    }
    println!("{n_cases} cases, {bytes:?} bytes, b at max {written_at_max:?}, dense is larger in {n_larger}");
    let n_all = 14 * n_generators;
    assert!(n_cases >= n_all / one_in() && n_cases <= n_all.div_ceil(one_in()) + 1, "{n_cases} of {n_all} cases");
    for (b, percent) in [(None, 10), (Some(13), 10), (Some(18), 50)] {
        let n = written_at_max.get(&b).copied().unwrap_or(0);
        assert!(
            100 * n >= percent * n_cases,
            "less than {percent} % of frames at max have b = {b:?}: {written_at_max:?}"
        );
    }
    assert!(100 * n_larger <= 5 * n_cases, "dense is larger than fast in {n_larger} of {n_cases} cases");
    assert!(bytes.is_sorted_by(|lower, higher| higher < lower), "{bytes:?}");
}

#[test]
fn max_also_tries_fast() {
    let input = Input::new("cubic", DType::I64, &[33, 133]);
    let frames = ["fast", "dense", "max"].map(|name| {
        let request = format!("lorenzo,level={name}").parse().unwrap();
        compress(&input.array(), &request, &input.bytes(), &Context::default())
    });
    assert!(frames[0].len() < frames[1].len());
    assert_same_bytes(&frames[2], &frames[0], "max");
}

/// The blocks in a `quant` frame of a request for max: id 1 or 3, those of dense or max. `None` if it is stored.
fn id_of(frame: &[u8]) -> Option<u8> {
    (frame[5] == 3).then(|| frame[43 + 8 * usize::from(frame[9])] & 3)
}

fn payload(frame: &[u8]) -> &[u8] {
    let payload_bytes = u64::from_le_bytes(frame[16..24].try_into().unwrap());
    &frame[frame.len() - payload_bytes as usize..]
}

/// Frames of the levels of `quant`, and how many of them are as expected.
#[derive(Default)]
struct Sizes {
    n_cases: usize,
    bytes: [usize; 3],
    /// Cases in which dense is larger than fast, and in which max is larger than fast.
    n_dense_larger: usize,
    n_max_larger: usize,
    written_at_max: BTreeMap<Option<u8>, usize>,
}

impl Sizes {
    /// Compares the levels.
    fn add(&mut self, array: &Array, raw: &[u8], bound: &str, what: &str) {
        let frames = ["fast", "dense", "max"].map(|level| {
            let request = format!("quant,level={level},{bound}").parse().unwrap();
            compress(array, &request, raw, &Context::default())
        });
        let [fast, dense, max] = frames.each_ref().map(Vec::len);
        assert!(max <= dense, "{what} {bound}: {max} bytes at max, {dense} at dense");
        let id = id_of(&frames[2]);
        if id == Some(1) {
            assert_same_bytes(payload(&frames[2]), payload(&frames[1]), what);
        }
        self.n_cases += 1;
        self.n_dense_larger += usize::from(dense > fast);
        self.n_max_larger += usize::from(max > fast);
        *self.written_at_max.entry(id).or_insert(0) += 1;
        frames.iter().zip(&mut self.bytes).for_each(|(frame, bytes)| *bytes += frame.len());
    }

    /// Checks that both kinds of frames occur, and in how many cases fast is better.
    fn check(&self, most_percent: usize) {
        let Self { n_cases, bytes, n_dense_larger, n_max_larger, ref written_at_max } = *self;
        println!(
            "{n_cases} cases, {bytes:?} bytes, ids at max {written_at_max:?}, larger than at fast: {n_dense_larger} at \
             dense, {n_max_larger} at max"
        );
        for id in [1, 3] {
            let n = written_at_max.get(&Some(id)).copied().unwrap_or(0);
            assert!(10 * n >= n_cases, "{n} of {n_cases} frames have blocks of id {id}");
        }
        assert!(100 * n_dense_larger <= most_percent * n_cases && n_max_larger <= n_dense_larger);
        assert!(bytes.is_sorted_by(|lower, higher| higher < lower), "{bytes:?}");
    }
}

#[test]
fn quant_frames_of_max_are_not_larger_than_dense() {
    const BOUNDS: [&str; 9] =
        ["rel=1e-1", "rel=1e-2", "rel=1e-3", "rel=1e-4", "rel=1e-5", "rel=1e-6", "abs=0.01", "abs=3", "pwrel=1e-3"];
    let dtypes = DType::ALL.into_iter().filter(|&dtype| dtype != DType::Opaque);
    let cases = dtypes
        .flat_map(|dtype| GENERATORS.into_iter().chain(FIELDS).map(move |generator| (dtype, generator)))
        .flat_map(|(dtype, generator)| BOUNDS.map(|bound| (dtype, generator, bound)));
    let mut sizes = Sizes::default();
    for (i, (dtype, generator, bound)) in cases.enumerate().filter(|(i, _)| i.is_multiple_of(2 * one_in() - 1)) {
        let request: Request = format!("quant,{bound}").parse().unwrap();
        let extents = EXTENTS[(i / 5) % EXTENTS.len()];
        let input = Input { big_endian: i % 3 == 0, seed: i as u64, ..Input::new(generator, dtype, extents) };
        if request.mode() == Mode::Pwrel && gridz::compress_bound(&input.array(), &request).is_err() {
            continue;
        }
        sizes.add(&input.array(), &input.bytes(), bound, &format!("{input:?}"));
    }
    assert!(sizes.n_cases > 500, "{} cases", sizes.n_cases);
    // Tables of small frames take a large part of them.
    sizes.check(10);
}

#[test]
fn quant_frames_of_real_floats_are_not_larger_at_max() {
    let Some(shared) = shared("quant_frames_of_real_floats_are_not_larger_at_max") else { return };
    let mut sizes = Sizes::default();
    for real in floats(&shared) {
        for digits in 1..=6 {
            sizes.add(&real.array, &real.bytes, &format!("rel=1e-{digits}"), &real.file);
        }
    }
    assert_eq!(sizes.n_cases, 6 * 48);
    sizes.check(1);
}
