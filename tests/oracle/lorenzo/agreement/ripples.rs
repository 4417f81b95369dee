//! The map CUT, and the tails that follow the numbers.

use gridz::DType;

use super::{DENSE, FAST, agree, agree_on_all};
use crate::lorenzo::data;
use crate::lorenzo::map::CUT;

/// Signs, exponents, zeros of both signs, subnormals; with and without masks.
#[test]
fn payloads_of_ripples_are_the_defined_ones() {
    let extents: [&[u64]; 12] = [
        &[40],
        &[300],
        &[4096],
        &[9000],
        &[9, 11],
        &[70, 70],
        &[600, 3],
        &[17, 18, 35],
        &[5, 6, 7],
        &[2, 3, 700],
        &[40, 20, 7],
        // Blocks of one row in each plane.
        &[40, 33, 7],
    ];
    let seen = agree_on_all(data::ripples::bytes, &[DType::F32, DType::F64], &extents, 1600);
    for what in [
        "coder 2 map 4, 0 levels of patches",
        "coder 2 map 4, 1 levels of patches",
        "coder 2 map 4, 2 levels of patches",
        "coder 3 map 4, flag 0",
        "coder 3 map 4, flag 1",
        "coder 2 map 4 masked, 1 levels of patches",
        "coder 3 map 4 masked, flag 0",
        "coder 4 map 4, list",
    ] {
        assert!(seen.contains_key(what), "no block is {what}: {seen:#?}");
    }
}

/// e of the only block of an array of these floats, or `None` if its map is not CUT.
fn e(values: &[f32]) -> Option<u16> {
    let n = values.len() as u64;
    let raw = |is_wide: bool| -> Vec<u8> {
        let bytes = |&value: &f32| match is_wide {
            true => f64::from(value).to_bits().to_le_bytes().to_vec(),
            false => value.to_bits().to_le_bytes().to_vec(),
        };
        values.iter().flat_map(bytes).collect()
    };
    for log2 in [FAST, DENSE] {
        agree(DType::F64, &[n], &raw(true), log2, "as f64");
        agree(DType::F32, &[n], &raw(false), log2, "as f32");
    }
    let payload = agree(DType::F32, &[n], &raw(false), FAST, "as f32");
    (payload[16] >> 4 == CUT).then(|| u16::from_le_bytes([payload[20], payload[21]]))
}

/// A wave that uses all bits of a float; its largest exponent field is 127.
fn wave(i: usize) -> f32 {
    1.99 * (i as f32 / 40.0).sin()
}

#[test]
fn floats_are_cut_as_defined() {
    let with = |place: usize, value: f32| -> Vec<f32> {
        (0..4096).map(|i| if i == place { value } else { wave(i) }).collect()
    };
    assert_eq!(e(&with(0, 1.0)), Some(127));
    for special in [0.0, -0.0, 1e-45, -1e-45, f32::MIN_POSITIVE, -1e-39] {
        assert_eq!(e(&with(77, special)), Some(127), "{special}");
    }
    // With f32::MAX, BITS is better. With a value that is not finite, CUT is not considered at all.
    assert_eq!(e(&with(77, f32::MAX)), None);
    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert_eq!(e(&with(77, special)), None, "{special}");
    }
    // One sign with two exponents, or with three.
    for (top, is_considered) in [(3.999, false), (4.5, true)] {
        let values: Vec<f32> = (0..4096).map(|i| 1.01 + (top - 1.01) * (i as f32 / 700.0).sin().abs()).collect();
        let found = e(&values);
        assert!(is_considered || found.is_none(), "{found:?}");
    }
    // The largest exponents, and the smallest; with a zero for which FIXED is not considered.
    let scaled = |by: f32| -> Vec<f32> { with(77, -0.0).iter().map(|value| value * by).collect() };
    assert_eq!(e(&scaled(2f32.powi(127))), Some(254));
    assert_eq!(e(&scaled(2f32.powi(-126))), Some(1));
    assert_eq!(e(&scaled(2f32.powi(-124))), Some(3));
}
