//! Maps: numbers in which neighbouring elements lie close together.
//!
//! BITS takes an element's bits as an integer, without the zero bits at the end that all elements of the block
//! share. FIXED takes a float's value as a multiple of a power of two, so that numbers do not jump in their
//! rate of change where the exponent changes; it needs a block whose values are within a few powers of two.

use crate::error::{Error, Result};
use crate::stage::word::Word;

/// The value of a float, without its sign, is `significand` · 2^`exponent` in units of the smallest subnormal · 2^−1.
#[inline(always)]
fn parts<W: Word>(word: W) -> (W, u32) {
    let fraction = word & W::low_mask(W::FRACTION_BITS);
    match exponent_field(word) {
        0 => (fraction, 1),
        field => (fraction | W::from_u64(1) << W::FRACTION_BITS, field),
    }
}

#[inline(always)]
fn exponent_field<W: Word>(word: W) -> u32 {
    ((word << 1) >> (W::FRACTION_BITS + 1)).to_u64() as u32
}

/// The exponent field of infinities and NaN.
fn special<W: Word>() -> u32 {
    (1 << (W::BITS - 1 - W::FRACTION_BITS)) - 1
}

/// Writes the values of floats as multiples of 2^e to `v` and returns e; `None` if that cannot be. The floats are
/// `words`, each less `base`.
#[inline(always)]
pub fn to_fixed<W: Word>(words: &[W], base: W, v: &mut [W]) -> Option<u32> {
    let negative_zero = W::from_u64(1) << (W::BITS - 1);
    let (mut unit, mut top) = (u32::MAX, 0);
    // In parts, because most blocks that cannot be mapped show that soon.
    for words in words.chunks(64) {
        let mut is_finite = true;
        for &word in words {
            let word = word.plus(base);
            let (significand, exponent) = parts(word);
            is_finite &= exponent != special::<W>() && word != negative_zero;
            if significand != W::default() {
                unit = unit.min(exponent + significand.trailing_zeros());
                top = top.max(exponent + significand.bit_length());
            }
        }
        if !is_finite || top > unit.saturating_add(W::BITS - 2) {
            return None;
        }
    }
    if unit == u32::MAX {
        return None;
    }
    for (v, &word) in v.iter_mut().zip(words) {
        let word = word.plus(base);
        let (significand, exponent) = parts(word);
        // Shifts by more than a word has bits are those of zeros.
        let left = exponent.saturating_sub(unit) % W::BITS;
        let right = unit.saturating_sub(exponent) % W::BITS;
        let size = (significand << left) >> right;
        *v = if word & negative_zero == W::default() { size } else { W::default().minus(size) };
    }
    Some(unit)
}

/// Makes floats of multiples of 2^`unit`.
///
/// # Errors
/// `Corrupt` for values that are too large.
#[inline(always)]
pub fn from_fixed<W: Word>(v: &mut [W], unit: u32) -> Result<()> {
    let mut is_finite = true;
    for v in v {
        let sign = *v & W::from_u64(1) << (W::BITS - 1);
        let size = if sign == W::default() { *v } else { W::default().minus(*v) };
        if size == W::default() {
            *v = size;
            continue;
        }
        let length = size.bit_length();
        // The exponent field, more by the bits of a significand.
        let exponent = unit + length;
        let bits = if exponent > W::FRACTION_BITS + 1 {
            let field = exponent - (W::FRACTION_BITS + 1);
            is_finite &= field < special::<W>();
            let top_bit = W::BITS - length;
            let fraction = (size << top_bit << 1) >> (W::BITS - W::FRACTION_BITS);
            fraction | W::from_u64(u64::from(field)) << W::FRACTION_BITS
        } else {
            size << (unit - 1)
        };
        *v = bits | sign;
    }
    if is_finite { Ok(()) } else { Err(Error::corrupt("a lorenzo block has a value beyond its type")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(values: &[f32]) -> Option<(u32, Vec<i32>)> {
        let words: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        let mut v = vec![0; words.len()];
        let unit = to_fixed(&words, 0, &mut v)?;
        let numbers = v.iter().map(|&v| v as i32).collect();
        from_fixed(&mut v, unit).unwrap();
        assert_eq!(v, words, "{values:?}");
        Some((unit, numbers))
    }

    #[test]
    fn values_become_multiples_of_a_power_of_two() {
        assert_eq!(fixed(&[1.0, 2.0, -3.0, 0.0]), Some((127 + 23, vec![1, 2, -3, 0])));
        assert_eq!(fixed(&[0.75, 1.5, -256.25]).unwrap().1, [3, 6, -1025]);
        let tiny = f32::from_bits(1);
        assert_eq!(fixed(&[tiny, f32::from_bits(77), -f32::MIN_POSITIVE]), Some((1, vec![1, 77, -(1 << 23)])));
        assert_eq!(fixed(&[f32::MAX]), Some((254, vec![(1 << 24) - 1])));
        assert_eq!(fixed(&[1.0, (1 << 29) as f32]).unwrap().1, [1, 1 << 29]);
    }

    #[test]
    fn what_has_no_such_value_or_too_large_a_one_is_not_mapped() {
        for values in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [-0.0, 1.0], [1.0, (1 << 30) as f32], [0.0, 0.0]] {
            assert_eq!(fixed(&values), None, "{values:?}");
        }
    }

    #[test]
    fn values_beyond_the_type_are_damage() {
        for unit in [1, 23, 254, 255, 65535] {
            for v in [0u32, 1, u32::MAX, 1 << 31, 0x1234_5678] {
                let is_value = from_fixed(&mut [v], unit).is_ok();
                let size = (v as i32).unsigned_abs();
                assert_eq!(is_value, size == 0 || unit + size.bit_length() < 255 + 24, "{v:#x} {unit}");
            }
        }
    }

    #[test]
    fn doubles_too() {
        let words = [1.0f64, -0.1, 4.0, 0.0].map(f64::to_bits);
        let mut v = [0; 4];
        let unit = to_fixed(&words, 0, &mut v).unwrap();
        from_fixed(&mut v, unit).unwrap();
        assert_eq!(v, words);
    }
}
