//! The values of numbers: predictions are computed from values.

use crate::codec::lorenzo::max::predict::Candidates;
use crate::stage::rows::{KEYS, Keys, order_32};
use crate::stage::word::Word;

/// A mapping between numbers and their values. It is not a type parameter: matching it for every number
/// takes no measurable time, and the code for numbers is compiled once.
#[derive(Clone, Copy)]
pub enum Domain {
    /// Numbers are their own values.
    Integers,
    /// Ordered words of float32, shifted to the right by this many bits.
    Singles(u32),
    /// Ordered words of float64, shifted to the right by this many bits.
    Doubles(u32),
}

impl Domain {
    /// The mapping of words that are ordered and shifted to the right by `unit` bits.
    pub fn of_bits<W: Word>(is_float: bool, unit: u32) -> Self {
        match (is_float, W::BITS) {
            (false, _) => Self::Integers,
            (true, 32) => Self::Singles(unit),
            (true, _) => Self::Doubles(unit),
        }
    }

    /// True if numbers of opposite sign may be similar.
    #[inline(always)]
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Integers)
    }

    /// The value of a number; always finite.
    #[inline(always)]
    pub fn value(self, number: i64) -> f64 {
        let value = match self {
            Self::Integers => return number as f64,
            Self::Singles(unit) => f32::from_bits(order_32((number << unit) as i32) as u32).into(),
            Self::Doubles(unit) => f64::from_bits(order_64(number << unit) as u64),
        };
        if value.is_finite() { value } else { 0.0 }
    }

    /// The number of the nearest value, or 0 if there is none.
    #[inline(always)]
    pub fn number(self, value: f64) -> i64 {
        match self {
            Self::Integers => nearest(value),
            Self::Singles(unit) => {
                let value = value as f32;
                if value.is_finite() { i64::from(order_32(value.to_bits() as i32)) >> unit } else { 0 }
            }
            Self::Doubles(unit) => ordered_double(value) >> unit,
        }
    }

    /// Sets `numbers` to those of the predicted values, and to two numbers that are given with their places.
    #[inline(always)]
    pub fn set_numbers<K: Keys>(
        self,
        k: K,
        values: &Candidates,
        given: [(usize, i64); 2],
        numbers: &mut [i64; KEYS],
    ) {
        // Loops, because `map` would be compiled for any processor. They write to memory: a copy from
        // an array after narrow stores to it would be slow.
        match self {
            Self::Singles(unit) => return *numbers = k.ordered_singles(&values.values(), unit, given),
            Self::Integers => {
                for (number, &value) in numbers.iter_mut().zip(&values.values()) {
                    *number = nearest(value);
                }
            }
            Self::Doubles(unit) => {
                for (number, &value) in numbers.iter_mut().zip(&values.values()) {
                    *number = ordered_double(value) >> unit;
                }
            }
        }
        given.into_iter().for_each(|(k, number)| numbers[k] = number);
    }

    /// A coarse and a fine hash key of a number, for looking back.
    #[inline(always)]
    pub fn keys(self, number: i64) -> [u64; 2] {
        match self {
            Self::Integers => [number as u64; 2],
            Self::Singles(unit) => [(size_of_word(number << unit) + (1 << 8)) >> 9; 2],
            Self::Doubles(unit) => {
                let size = size_of_word(number << unit);
                [size.wrapping_add(1 << 41) >> 42, size.wrapping_add(1 << 35) >> 36]
            }
        }
    }
}

/// The nearest integer.
#[inline(always)]
fn nearest(value: f64) -> i64 {
    truncated(value + if value < 0.0 { -0.5 } else { 0.5 })
}

/// The ordered word of a value; 0 unless it is finite.
#[inline(always)]
fn ordered_double(value: f64) -> i64 {
    const EXPONENT: i64 = 0x7ff << 52;
    let word = value.to_bits() as i64;
    // Without a branch, so that several numbers are computed at once.
    let is_finite = i64::from(word & EXPONENT != EXPONENT);
    order_64(word) & is_finite.wrapping_neg()
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
