//! The map DECIMAL: when it is used, and with which e.

use gridz::DType;

use super::{FAST, agree, agree_on_all};
use crate::common::generate::Xorshift;
use crate::lorenzo::data;
use crate::lorenzo::map::DECIMAL;

/// Digits, signs, exceptions; with and without masks.
#[test]
fn payloads_of_decimals_are_the_defined_ones() {
    let extents: [&[u64]; 9] =
        [&[40], &[300], &[4096], &[9000], &[9, 11], &[70, 70], &[600, 3], &[17, 18, 35], &[5, 6, 7]];
    let seen = agree_on_all(data::decimals::bytes, &[DType::F32, DType::F64], &extents, 1200);
    for what in [
        "coder 2 map 3, 0 levels of patches",
        "coder 2 map 3, 1 levels of patches",
        "coder 2 map 3, 2 levels of patches",
        "coder 3 map 3, flag 0",
        "coder 2 map 3 masked, 1 levels of patches",
    ] {
        assert!(seen.contains_key(what), "no block is {what}: {seen:#?}");
    }
}

/// True for the sampled elements of the array below.
fn is_sample(i: usize) -> bool {
    i.is_multiple_of(128)
}

/// e of the only block of an array, or `None` if its map is not DECIMAL. Elements are decimals up
/// to `most` in units of 10^−`digits`, except where `other` gives the text. Sampled decimals are
/// multiples of `step`.
fn e(dtype: DType, most: u64, digits: u32, step: u64, other: impl Fn(usize) -> Option<String>) -> Option<u16> {
    let mut random = Xorshift::new(digits.into());
    let mut decimal = |i| {
        let decimal = (random.next() >> 11) % most;
        // The first decimal is the largest.
        let decimal = if i == 0 { most } else { decimal };
        let decimal = if is_sample(i) { (decimal / step).max(1) * step } else { decimal };
        let sign = if random.next() >> 63 == 0 { "" } else { "-" };
        format!("{sign}{}e-{digits}", decimal.max(1))
    };
    let texts = (0..4096).map(|i| (other(i), decimal(i))).map(|(other, decimal)| other.unwrap_or(decimal));
    let raw: Vec<u8> = match dtype {
        DType::F32 => texts.flat_map(|text| text.parse::<f32>().unwrap().to_le_bytes()).collect(),
        _ => texts.flat_map(|text| text.parse::<f64>().unwrap().to_le_bytes()).collect(),
    };
    let payload = agree(dtype, &[4096], &raw, FAST, &format!("up to {most}, {digits} digits"));
    let block = &payload[16..];
    (block[0] >> 4 == DECIMAL).then(|| u16::from_le_bytes([block[4], block[5]]))
}

#[test]
fn units_are_the_defined_ones() {
    let none = |_| None;
    for digits in 1..=7 {
        assert_eq!(e(DType::F32, 9999, digits, 1, none), Some(digits as u16));
        assert_eq!(e(DType::F64, 99_999, digits, 1, none), Some(digits as u16));
    }
    for digits in [8, 15, 21, 22] {
        assert_eq!(e(DType::F64, 99_999, digits, 1, none), Some(digits as u16));
    }
    assert_eq!(e(DType::F64, 99_999, 23, 1, none), None);
    assert_eq!(e(DType::F64, 1 << 51, 3, 1, none), Some(3));
    // Integers have e = 0, which DECIMAL does not use.
    assert_eq!(e(DType::F64, 99_999, 0, 1, none), None);
    assert_eq!(e(DType::F32, 9999, 0, 1, none), None);
}

/// The samples determine e and the largest e; other elements may need any between them.
#[test]
fn units_of_some_are_those_of_all_as_defined() {
    for dtype in [DType::F32, DType::F64] {
        let one = |text: &'static str| move |i| (i == 77).then(|| text.into());
        assert_eq!(e(dtype, 9999, 3, 1, one("1.2345")), Some(4));
        // 9.999 is sampled, so the largest e is 5 or 14.
        assert_eq!(e(dtype, 9999, 3, 1, one("1.23456")), Some(5));
        let is_f64 = dtype == DType::F64;
        for (text, digits) in
            [("0.123456", 6), ("1.23456789", 8), ("1.2345678901234", 13), ("0.12345678901234", 14)]
        {
            assert_eq!(e(dtype, 9999, 3, 1, one(text)), is_f64.then_some(digits), "{text}");
        }
        assert_eq!(e(dtype, 9999, 3, 1, one("0.123456789012345")), None);
        // A value that is too large for the largest e.
        let two = |i| match i {
            77 => Some("1.23456".into()),
            78 => Some("4123.25".into()),
            _ => None,
        };
        assert_eq!(e(dtype, 9999, 3, 1, two), None);
        assert_eq!(e(dtype, 9999, 3, 10, |_| None), Some(3));
        assert_eq!(e(dtype, 9999, 3, 100, |_| None), Some(3));
        assert_eq!(e(dtype, 9999, 3, 1000, |_| None), None);
        // A sampled element with more digits than the others.
        assert_eq!(e(dtype, 9999, 3, 1, |i| (i == 128).then(|| "1.2345".into())), Some(4));
        for text in ["-0", "nan", "inf", "-inf", "1e30", "1e-30"] {
            assert_eq!(e(dtype, 9999, 3, 1, one(text)), None, "{text}");
            // Such values do no harm if they are masked.
            assert_eq!(e(dtype, 9999, 3, 1, |i| (i > 2000).then(|| text.into())), Some(3), "{text}");
        }
        assert_eq!(e(dtype, 9999, 3, 1, one("0")), Some(3));
    }
}

/// DECIMAL supports at most 22 digits, even if all elements are multiples of a smaller unit.
#[test]
fn units_end_as_defined() {
    let with = |v: u64, digits: i32| v as f64 / format!("1e{digits}").parse::<f64>().unwrap();
    let mut values: Vec<f64> =
        (1001..).map(|v| with(v, 22)).filter(|x| with((x * 1e23) as u64, 23) == *x).take(40).collect();
    // Not a sampled element, unlike 32 of the 40.
    values[4] = with(12_345, 23);
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let payload = agree(DType::F64, &[40], &raw, FAST, "23 digits");
    assert_ne!(payload[16] >> 4, DECIMAL);
    assert_eq!(e(DType::F64, 9999, 22, 1, |_| None), Some(22));
}

/// Limits on values, of samples and of other elements.
#[test]
fn values_have_the_defined_limits() {
    // The largest sample is at the limit A with e = 1, or exceeds it.
    assert_eq!(e(DType::F32, (1 << 23) - 2, 1, 1, |_| None), Some(1));
    assert_eq!(e(DType::F32, 10_000_005, 1, 1, |_| None), None);
    assert_eq!(e(DType::F64, (1 << 51) + 5, 1, 1, |_| None), None);
    // Samples below A, and one at A.
    assert_eq!(e(DType::F32, 9999, 1, 1, |i| (i == 128).then(|| "8388608".into())), None);
    assert_eq!(e(DType::F64, 9999, 1, 1, |i| (i == 128).then(|| "2251799813685248".into())), None);
    // Below 4·A and not: 33554431 and 33554434 of the unit.
    assert_eq!(e(DType::F32, 9999, 2, 1, |i| (i == 77).then(|| "335544.3125".into())), Some(2));
    assert_eq!(e(DType::F32, 9999, 2, 1, |i| (i == 77).then(|| "335544.34375".into())), None);
    assert_eq!(e(DType::F64, 9999, 1, 1, |i| (i == 77).then(|| "900719925474099.1".into())), Some(1));
    assert_eq!(e(DType::F64, 9999, 1, 1, |i| (i == 77).then(|| "900719925474099.25".into())), None);
}
