//! Maps: convert words to numbers and back; and code the bits of words that numbers do not contain.

use crate::codec::lorenzo::decimal::{POWERS, most_multiple};
use crate::codec::lorenzo::map::special;
use crate::codec::lorenzo::max::domain::order_64;
use crate::stage::entropy::model::Model;
use crate::stage::entropy::range::Coder;
use crate::stage::rows::order_32;
use crate::stage::word::Word;

/// The word itself, shifted to the right; for floats, in the order of values.
pub const BITS: u8 = 0;
/// A float as a multiple of a power of two; the bits below it are its tail.
pub const CUT: u8 = 1;
/// A float as a multiple of a power of ten.
pub const DECIMAL: u8 = 2;
/// The rank of the word among the block's distinct words, in ascending order.
pub const RANKS: u8 = 3;

/// Bits of the largest multiple of a power of two.
pub const MOST_BITS: u32 = 62;

/// Maps the word of a float to the order of values; its own inverse.
#[inline(always)]
pub fn order<W: Word>(word: W) -> W {
    if W::BITS == 32 {
        W::from_u64(order_32(word.to_u64() as i32) as u64)
    } else {
        W::from_u64(order_64(word.to_u64() as i64) as u64)
    }
}

/// Significand, exponent and sign of a float. The exponent of subnormal numbers is 1.
#[inline(always)]
pub fn parts<W: Word>(word: W) -> (u64, u32, bool) {
    let fraction = word & W::low_mask(W::FRACTION_BITS);
    let field = ((word << 1) >> (W::FRACTION_BITS + 1)).to_u64() as u32;
    let significand = fraction.to_u64() | u64::from(field > 0) << W::FRACTION_BITS;
    (significand, field.max(1), word.to_i64() < 0)
}

/// Bits of the tail of a nonzero number.
#[inline(always)]
fn tail_bits<W: Word>(number: i64, unit: u32) -> u32 {
    let length = number.unsigned_abs().bit_length();
    let exponent = (unit + length).saturating_sub(W::FRACTION_BITS + 1).max(1);
    unit.saturating_sub(exponent)
}

/// The number and the tail of a float as a multiple of a power of two. Returns `None` for
/// infinities and NaN.
#[inline(always)]
pub fn cut<W: Word>(word: W, unit: u32) -> Option<(i64, u64)> {
    let (significand, exponent, is_negative) = parts(word);
    if exponent >= special::<W>() {
        return None;
    }
    let (size, tail) = if exponent >= unit {
        let up = exponent - unit;
        if significand.bit_length() + up > MOST_BITS {
            return None;
        }
        (significand << up, 0)
    } else {
        let down = unit - exponent;
        if down > W::FRACTION_BITS { (0, 0) } else { (significand >> down, significand & ((1 << down) - 1)) }
    };
    // The tail of 0 is the whole word.
    let tail = if size == 0 { word.to_u64() } else { tail };
    Some((if is_negative { -(size as i64) } else { size as i64 }, tail))
}

/// The float of a number and a tail, or `None` if there is none.
#[inline(always)]
pub fn uncut<W: Word>(number: i64, tail: u64, unit: u32) -> Option<W> {
    if number == 0 {
        return Some(W::from_u64(tail));
    }
    let size = number.unsigned_abs();
    let length = size.bit_length();
    let exponent = (unit + length).saturating_sub(W::FRACTION_BITS + 1).max(1);
    let significand =
        if exponent >= unit { size.checked_shr(exponent - unit)? } else { size << (unit - exponent) | tail };
    if exponent >= special::<W>() || significand.bit_length() > W::FRACTION_BITS + 1 {
        return None;
    }
    let word = (W::from_u64(u64::from(exponent - 1)) << W::FRACTION_BITS).wrapping_add(W::from_u64(significand));
    Some(word | W::from_u64(u64::from(number < 0)) << (W::BITS - 1))
}

/// Models for whether a tail is 0, by the bits of the number.
pub type TailModels = [Model; 65];

/// Codes the tail of a number.
#[inline(always)]
pub fn code_tail<W: Word, C: Coder>(
    models: &mut TailModels,
    coder: &mut C,
    number: i64,
    unit: u32,
    tail: u64,
) -> u64 {
    let n = if number == 0 { W::BITS } else { tail_bits::<W>(number, unit) };
    let length = number.unsigned_abs().bit_length() as usize;
    if n > 0 && models[length].code(coder, tail != 0) { coder.plain(n, tail) } else { 0 }
}

/// A float as a multiple of 10^-`digits`, or `None` if it is not one.
#[inline(always)]
pub fn decimal<W: Word>(word: W, digits: u32) -> Option<i64> {
    let multiple = word.to_float() * POWERS[digits as usize];
    // NaN is not a multiple.
    if !multiple.is_finite() || multiple.abs() >= most_multiple::<W>() {
        return None;
    }
    let number = (multiple + if multiple < 0.0 { -0.5 } else { 0.5 }) as i64;
    (from_decimal::<W>(number, digits) == word).then_some(number)
}

/// The float that is this multiple.
#[inline(always)]
pub fn from_decimal<W: Word>(number: i64, digits: u32) -> W {
    W::from_float(number as f64 / POWERS[digits as usize])
}
