//! DECIMAL: floats that are decimal numbers with few digits, as multiples of a power of ten.
//!
//! Such a number is the float nearest to k / 10^e. Division gives exactly that back, in the one precision that is used for
//! both types: every operation is one of IEEE 754 and rounded to nearest, so all machines agree. Whether a block's floats
//! are such numbers is asked of some of them first; most blocks answer with the first one.

use crate::stage::rows::LANES;
use crate::stage::samples::Samples;
use crate::stage::word::Word;

/// Largest e: the last power of ten that a float64 has exactly.
pub const MAX_DIGITS: u32 = 22;

const POWERS: [f64; MAX_DIGITS as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
    1e20, 1e21, 1e22,
];

/// What samples may be multiples of at most: with more digits any float would be a decimal number.
fn limit<W: Word>() -> f64 {
    if W::BITS == 32 { (1u64 << 23) as f64 } else { (1u64 << 51) as f64 }
}

#[inline(always)]
fn value<W: Word>(word: W) -> f64 {
    if W::BITS == 32 { f32::from_bits(word.to_u64() as u32).into() } else { f64::from_bits(word.to_u64()) }
}

#[inline(always)]
fn word<W: Word>(value: f64) -> W {
    W::from_u64(if W::BITS == 32 { (value as f32).to_bits().into() } else { value.to_bits() })
}

/// The float of a multiple of 1 / `power`.
#[inline(always)]
fn float<W: Word>(multiple: W, power: f64) -> W {
    word(multiple.to_i64() as f64 / power)
}

/// The multiple that a float is, if it is one.
#[inline(always)]
fn multiple<W: Word>(float_word: W, power: f64) -> Option<W> {
    let v = (value(float_word) * power).round_ties_even();
    // A value that is not finite is not below the limit.
    let multiple = W::from_u64(v as i64 as u64);
    (v.abs() < 4.0 * limit::<W>() && float(multiple, power) == float_word).then_some(multiple)
}

/// Writes floats as multiples of 10^-e to `v` and returns e; `None` if that cannot be. The floats are `words`, each less
/// `base`.
#[inline(always)]
pub fn to_decimal<W: Word>(words: &[W], base: W, v: &mut [W]) -> Option<u32> {
    let least = least_digits(&Samples::new(words), base)?;
    (least..=MAX_DIGITS.min(least + 1)).find(|&e| {
        let power = POWERS[e as usize];
        // In parts, because blocks that cannot be mapped show that soon.
        v.chunks_mut(64).zip(words.chunks(64)).all(|(v, words)| {
            let mut is_decimal = true;
            for (v, &word) in v.iter_mut().zip(words) {
                let multiple = multiple(word.plus(base), power);
                is_decimal &= multiple.is_some();
                *v = multiple.unwrap_or_default();
            }
            is_decimal
        })
    })
}

/// The least e, from 1 on, with which all samples are multiples.
#[inline(always)]
fn least_digits<W: Word>(samples: &Samples<W>, base: W) -> Option<u32> {
    let largest = samples.0.iter().fold(0.0, |largest: f64, &word| largest.max(value(word.plus(base)).abs()));
    if !(0.0 < largest && largest < limit::<W>()) {
        return None;
    }
    let most = (1..=MAX_DIGITS).rev().find(|&e| largest * POWERS[e as usize] <= limit::<W>())?;
    let mut multiples = [0i64; LANES];
    for (v, &word) in multiples.iter_mut().zip(&samples.0) {
        *v = multiple(word.plus(base), POWERS[most as usize])?.to_i64();
    }
    let mut e = most;
    while multiples.iter().all(|v| v % 10 == 0) {
        e -= 1;
        if e == 0 {
            return None;
        }
        multiples.iter_mut().for_each(|v| *v /= 10);
    }
    Some(e)
}

/// Makes floats of multiples of 10^-`digits`.
#[inline(always)]
pub fn from_decimal<W: Word>(v: &mut [W], digits: u32) {
    let power = POWERS[digits as usize];
    for v in v {
        *v = float(*v, power);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(values: &[f64]) -> Option<(u32, Vec<i64>)> {
        let words: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
        let mut v = vec![0; words.len()];
        let digits = to_decimal(&words, 0, &mut v)?;
        let multiples = v.iter().map(|&v| v as i64).collect();
        from_decimal(&mut v, digits);
        assert_eq!(v, words, "{values:?}");
        Some((digits, multiples))
    }

    #[test]
    fn decimal_numbers_are_multiples() {
        assert_eq!(decimal(&[0.1, -0.2, 1234.5]), Some((1, vec![1, -2, 12345])));
        assert_eq!(decimal(&[1.25, 3.0, 0.0]), Some((2, vec![125, 300, 0])));
        assert_eq!(decimal(&[1e-9, 7e-9]), Some((9, vec![1, 7])));
        let mut values = [0.5; 64];
        values[1] = 0.25; // no sample
        assert_eq!(decimal(&values).unwrap().0, 2);
    }

    #[test]
    fn others_are_none() {
        for values in [
            &[std::f64::consts::PI][..],
            &[0.1, -0.0],
            &[0.1, f64::NAN],
            &[f64::NAN, 0.1],
            &[0.1, f64::INFINITY],
            &[0.0, 0.0],
            &[3.0, 17.0],
            &[1e300, 0.1],
            &[1e-300],
        ] {
            assert_eq!(decimal(values), None, "{values:?}");
        }
    }

    #[test]
    fn floats_of_32_bits_too() {
        let words: Vec<u32> = (-5000..5000).map(|k| (k as f32 / 100.0).to_bits()).collect();
        let mut v = vec![0; words.len()];
        let digits = to_decimal(&words, 0, &mut v).unwrap();
        assert_eq!((digits, v[0] as i32, v[9999] as i32), (2, -5000, 4999));
        from_decimal(&mut v, digits);
        assert_eq!(v, words);
        assert_eq!(to_decimal(&[0x3dcc_cccdu32, 0x3dcc_ccce], 0, &mut [0; 2]), None);
    }
}
