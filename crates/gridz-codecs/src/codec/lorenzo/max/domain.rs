//! The values of numbers: predictions are computed from values.

use crate::codec::lorenzo::max::predict::Candidates;
use crate::stage::rows::{Keys, Lanes, VALUES, nearest, order_32, put_given};
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

    /// The numbers of the values of these lanes. Those in the masks of `given` are these instead.
    #[inline(always)]
    pub fn numbers<K: Keys>(
        self,
        k: K,
        values: &Candidates,
        lanes: &Lanes,
        given: [(u8, i64); 2],
    ) -> [i64; VALUES] {
        match self {
            Self::Integers => k.nearest(&values.values(), lanes, given),
            Self::Singles(unit) => k.ordered_singles(&values.values(), lanes, unit, given),
            Self::Doubles(unit) => {
                let mut numbers = [0; VALUES];
                // A loop, because `map` would be compiled for any processor.
                for (number, value) in numbers.iter_mut().zip(k.chosen(&values.values(), lanes)) {
                    *number = ordered_double(value) >> unit;
                }
                put_given(&mut numbers, given);
                numbers
            }
        }
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

/// The ordered word of a value; 0 unless it is finite.
#[inline(always)]
fn ordered_double(value: f64) -> i64 {
    const EXPONENT: i64 = 0x7ff << 52;
    let word = value.to_bits() as i64;
    // Without a branch, so that several numbers are computed at once.
    let is_finite = i64::from(word & EXPONENT != EXPONENT);
    order_64(word) & is_finite.wrapping_neg()
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
