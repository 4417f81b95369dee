//! A higher level of `lorenzo` gives no larger frame.
//!
//! For max this is guaranteed, because its writer tries the lower levels, too. For dense it is not: its blocks are twice as
//! long as those of fast, so that a block of mixed data can get a worse map. How often that happens is limited here.

use std::collections::BTreeMap;

use crate::common::fields::FIELDS;
use crate::common::generate::{GENERATORS, Input};
use crate::common::{assert_same_bytes, compress, one_in};
use gridz::{Context, DType, Request};

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
    assert!(100 * n_larger <= 3 * n_cases, "dense is larger than fast in {n_larger} of {n_cases} cases");
    assert!(bytes.is_sorted_by(|lower, higher| higher < lower), "{bytes:?}");
}

#[test]
fn max_also_tries_fast() {
    let input = Input::new("cubic", DType::F64, &[90, 101]);
    let frames = ["fast", "dense", "max"].map(|name| {
        let request = format!("lorenzo,level={name}").parse().unwrap();
        compress(&input.array(), &request, &input.bytes(), &Context::default())
    });
    assert!(frames[0].len() < frames[1].len());
    assert_same_bytes(&frames[2], &frames[0], "max");
}
