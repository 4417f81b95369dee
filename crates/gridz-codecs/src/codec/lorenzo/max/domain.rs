//! The values of numbers: predictions are computed from values.

use crate::stage::rows::{KEYS, Keys, order_32};

/// A mapping between numbers and their values.
pub trait Domain {
    /// The value of a number; always finite.
    fn value(&self, number: i64) -> f64;
    /// The number of the nearest value, or 0 if there is none.
    fn number(&self, value: f64) -> i64;
    /// The numbers of several values, and two numbers that are given with their places.
    #[inline(always)]
    fn numbers<K: Keys>(&self, _: K, values: &[f64; KEYS], given: [(usize, i64); 2]) -> [i64; KEYS] {
        let mut numbers = [0; KEYS];
        // A loop, because `map` would be compiled for any processor.
        for (number, &value) in numbers.iter_mut().zip(values) {
            *number = self.number(value);
        }
        given.into_iter().for_each(|(k, number)| numbers[k] = number);
        numbers
    }
    /// A coarse and a fine hash key of a number, for looking back.
    fn keys(&self, number: i64) -> [u64; 2];
    /// True if numbers of opposite sign may be similar.
    const IS_FLOAT: bool;
}

/// Numbers that are their own values.
pub struct Integers;

impl Domain for Integers {
    const IS_FLOAT: bool = false;

    #[inline(always)]
    fn value(&self, number: i64) -> f64 {
        number as f64
    }

    #[inline(always)]
    fn number(&self, value: f64) -> i64 {
        truncated(value + if value < 0.0 { -0.5 } else { 0.5 })
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        [number as u64; 2]
    }
}

/// Ordered words of float32, shifted to the right by this many bits.
pub struct Singles(pub u32);

impl Domain for Singles {
    const IS_FLOAT: bool = true;

    #[inline(always)]
    fn value(&self, number: i64) -> f64 {
        let value = f32::from_bits(order_32((number << self.0) as i32) as u32);
        if value.is_finite() { value.into() } else { 0.0 }
    }

    #[inline(always)]
    fn number(&self, value: f64) -> i64 {
        let value = value as f32;
        if value.is_finite() { i64::from(order_32(value.to_bits() as i32)) >> self.0 } else { 0 }
    }

    #[inline(always)]
    fn numbers<K: Keys>(&self, k: K, values: &[f64; KEYS], given: [(usize, i64); 2]) -> [i64; KEYS] {
        k.ordered_singles(values, self.0, given)
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        let size = size_of_word(number << self.0);
        [(size + (1 << 8)) >> 9; 2]
    }
}

/// Ordered words of float64, shifted to the right by this many bits.
pub struct Doubles(pub u32);

impl Domain for Doubles {
    const IS_FLOAT: bool = true;

    #[inline(always)]
    fn value(&self, number: i64) -> f64 {
        let value = f64::from_bits(order_64(number << self.0) as u64);
        if value.is_finite() { value } else { 0.0 }
    }

    #[inline(always)]
    fn number(&self, value: f64) -> i64 {
        const EXPONENT: i64 = 0x7ff << 52;
        let word = value.to_bits() as i64;
        // Without a branch, so that several numbers are computed at once.
        let is_finite = i64::from(word & EXPONENT != EXPONENT);
        order_64(word) >> self.0 & is_finite.wrapping_neg()
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        let size = size_of_word(number << self.0);
        [size.wrapping_add(1 << 41) >> 42, size.wrapping_add(1 << 35) >> 36]
    }
}

/// Equivalent to `value as i64`, which has no vector instruction.
#[inline(always)]
fn truncated(value: f64) -> i64 {
    let word = value.to_bits();
    // The exponent of the lowest bit of the significand.
    let exponent = (word >> 52 & 0x7FF) as i64 - 1075;
    let significand = word & ((1 << 52) - 1) | 1 << 52;
    // With larger shifts, nothing of the 53 bits remains.
    let size = (significand >> (-exponent).clamp(0, 63)) << exponent.clamp(0, 63);
    let sign = word as i64 >> 63;
    let number = (size as i64 ^ sign).wrapping_sub(sign);
    let beyond = if value.is_nan() { 0 } else { i64::MAX ^ sign };
    if exponent > 10 { beyond } else { number }
}

/// [`order_32`] for float64.
#[inline(always)]
pub fn order_64(word: i64) -> i64 {
    word ^ (word >> 63 & i64::MAX)
}

/// The magnitude of an ordered word.
#[inline(always)]
fn size_of_word(number: i64) -> u64 {
    (number ^ (number >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_is_what_a_cast_is() {
        let sizes =
            [0.0, f64::MIN_POSITIVE, 0.4, 0.5, 1.0, 1.5, 255.9, 4503599627370495.5, 9007199254740993.0, 1e18];
        let most = [9223372036854774784.0, 9223372036854775808.0, 1e19, 1e300, f64::INFINITY, f64::NAN];
        let powers = (-70..70).map(|k| 1.7 * f64::powi(2.0, k));
        for size in sizes.into_iter().chain(most).chain(powers) {
            for value in [size, -size] {
                assert_eq!(truncated(value), value as i64, "{value}");
            }
        }
    }
}
