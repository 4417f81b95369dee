//! What numbers are worth: predictions are made of values.

/// Numbers and their values.
pub trait Domain {
    /// The value of a number; never infinite or NaN.
    fn value(&self, number: i64) -> f64;
    /// The number of the nearest value, or 0 if there is none.
    fn number(&self, value: f64) -> i64;
    /// A coarse and a fine key of a number, for looking back.
    fn keys(&self, number: i64) -> [u64; 2];
    /// Whether numbers of different signs may be alike.
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
        (value + if value < 0.0 { -0.5 } else { 0.5 }) as i64
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        [number as u64; 2]
    }
}

/// Ordered words of float32, shifted to the right by so many bits.
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
    fn keys(&self, number: i64) -> [u64; 2] {
        let size = size_of_word(number << self.0);
        [(size + (1 << 8)) >> 9; 2]
    }
}

/// Ordered words of float64, shifted to the right by so many bits.
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
        if value.is_finite() { order_64(value.to_bits() as i64) >> self.0 } else { 0 }
    }

    #[inline(always)]
    fn keys(&self, number: i64) -> [u64; 2] {
        let size = size_of_word(number << self.0);
        [size.wrapping_add(1 << 41) >> 42, size.wrapping_add(1 << 35) >> 36]
    }
}

/// Makes the word of a float a number in the order of values, and back.
#[inline(always)]
pub fn order_32(word: i32) -> i32 {
    word ^ (word >> 31 & i32::MAX)
}

/// The same of float64.
#[inline(always)]
pub fn order_64(word: i64) -> i64 {
    word ^ (word >> 63 & i64::MAX)
}

/// An ordered word without its sign.
#[inline(always)]
fn size_of_word(number: i64) -> u64 {
    (number ^ (number >> 63)) as u64
}
