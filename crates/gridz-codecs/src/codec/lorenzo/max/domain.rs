//! The values of numbers: predictions are computed from values.

use crate::stage::rows::{KEYS, Keys, Lanes, VALUES, nearest, order_32, put_given};

/// A mapping between numbers and their values.
pub trait Domain {
    /// The value of a number; always finite.
    fn value(&self, number: i64) -> f64;
    /// The number of the nearest value, or 0 if there is none.
    fn number(&self, value: f64) -> i64;
    /// The numbers of the values of these lanes. Those in the masks of `given` are these instead.
    fn numbers<K: Keys>(&self, k: K, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES];
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
        nearest(value)
    }

    #[inline(always)]
    fn numbers<K: Keys>(&self, k: K, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
        k.nearest(values, lanes, given)
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
    fn numbers<K: Keys>(&self, k: K, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
        k.ordered_singles(values, lanes, self.0, given)
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
    fn numbers<K: Keys>(&self, k: K, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
        let mut numbers = [0; VALUES];
        // A loop, because `map` would be compiled for any processor.
        for (number, value) in numbers.iter_mut().zip(k.chosen(values, lanes)) {
            *number = self.number(value);
        }
        put_given(&mut numbers, given);
        numbers
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        let size = size_of_word(number << self.0);
        [size.wrapping_add(1 << 41) >> 42, size.wrapping_add(1 << 35) >> 36]
    }
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
