//! Maps: convert elements to numbers that are close for neighboring elements.
//!
//! BITS uses an element's bits as an integer, without the trailing zero bits that all elements of
//! the block share. FIXED uses a float's value as a multiple of a power of two, so that the slope
//! of the numbers does not jump where the exponent changes. It requires that the values of a block
//! span only a few powers of two.

use crate::error::{Error, Result};
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::samples::Samples;
use crate::stage::word::Word;

/// A block is tested for being mappable once per this many rows.
const LOOK_EVERY: usize = 8;
/// Above any exponent.
const NO_UNIT: u64 = 0x7fff;

/// The absolute values of floats are `significands` · 2^`exponents`, in units of the smallest
/// subnormal · 2^−1.
#[inline(always)]
pub fn parts<W: Word, S: Simd<W>>(s: S, words: S::Row) -> (S::Row, S::Row) {
    let fractions = s.and(words, s.splat(W::low_mask(W::FRACTION_BITS)));
    let fields = s.shift_right(s.add(words, words), W::FRACTION_BITS + 1);
    let are_normal = s.gt_mask(fields, W::default());
    let top_bit = s.splat(W::from_u64(1) << W::FRACTION_BITS);
    (s.or(fractions, s.select_or_zero(are_normal, top_bit)), s.max_signed(fields, s.splat(W::from_u64(1))))
}

/// The exponent field of infinities and NaN.
pub fn special<W: Word>() -> u32 {
    (1 << (W::BITS - 1 - W::FRACTION_BITS)) - 1
}

outlined! {
    /// Writes the values of floats as multiples of 2^e to `v` and returns e, or `None` if that is
    /// impossible. The floats are the first `n` of `words`, each minus `base`, and `samples` are
    /// samples of these. Both buffers are padded by a row.
    pub fn to_fixed<'a, W>(
        s,
        words: &'a [W],
        n: usize,
        samples: &'a Samples<W>,
        base: W,
        v: &'a mut [W],
    ) -> Option<u32> {
        let unit = unit_of(s, words, n, samples, base)?;
        let base = s.splat(base);
        let (unit_row, zero) = (s.splat(W::from_u64(unit.into())), s.splat(W::default()));
        let mut at = 0;
        while at < n {
            let row = s.add(s.load(&words[at..]), base);
            let (significands, exponents) = parts(s, row);
            let left = s.sub(exponents, unit_row);
            let sizes = s.shift_left_each(significands, s.max_signed(left, zero));
            let sizes = s.shift_right_each(sizes, s.max_signed(s.sub(zero, left), zero));
            s.store(with_signs(s, sizes, s.shift_right_signed(row, W::BITS - 1)), &mut v[at..]);
            at += LANES;
        }
        Some(unit)
    }
}

/// The largest e for which all floats are multiples of 2^e, if the multiples are small enough.
#[inline(always)]
fn unit_of<W: Word, S: Simd<W>>(s: S, words: &[W], n: usize, samples: &Samples<W>, base: W) -> Option<u32> {
    let base = s.splat(base);
    let (zero, bits) = (s.splat(W::default()), s.splat(W::from_u64(W::BITS.into())));
    let negative_zero = s.splat(W::from_u64(1) << (W::BITS - 1));
    let last_finite = (W::from_u64(special::<W>().into()) << (W::FRACTION_BITS + 1)).wrapping_sub(W::from_u64(1));
    let no_unit = s.splat(W::from_u64(NO_UNIT));
    let (mut units, mut tops) = (no_unit, zero);
    let mut is_finite = true;
    // Most blocks that cannot be mapped show it by their samples, or soon.
    let mut row = s.load(&samples.0);
    let mut lanes = u32::MAX;
    let (mut at, mut n_rows) = (0, 0);
    loop {
        row = s.add(row, base);
        let are_others =
            s.gt_mask(s.add(row, row), last_finite) | !s.gt_mask(s.xor(row, negative_zero), W::default());
        is_finite &= are_others & lanes == 0;
        let (significands, exponents) = parts(s, row);
        let lowest_bits = s.and(significands, s.sub(zero, significands));
        let below = s.sub(bits, s.leading_zeros(lowest_bits));
        let are_units = lanes & s.gt_mask(significands, W::default());
        // This is one more than the exponent of the lowest bit, which is at least 1.
        units = s.min_signed(units, s.select(are_units, s.add(exponents, below), no_unit));
        let lengths = s.sub(bits, s.leading_zeros(significands));
        tops = s.max_signed(tops, s.select_or_zero(are_units, s.add(exponents, lengths)));
        if n_rows % LOOK_EVERY == 0 || at >= n {
            let (unit, top) = (s.lowest(units).to_u64() - 1, s.highest(tops).to_u64());
            if !is_finite || top > unit + u64::from(W::BITS - 2) {
                return None;
            }
        }
        if at >= n {
            break;
        }
        row = s.load(&words[at..]);
        lanes = first_lanes(n - at);
        at += LANES;
        n_rows += 1;
    }
    let unit = s.lowest(units).to_u64();
    (unit < NO_UNIT).then_some(unit as u32 - 1)
}

/// Applies signs to magnitudes: a number is negative where `signs` is −1 instead of 0.
#[inline(always)]
pub fn with_signs<W: Word, S: Simd<W>>(s: S, sizes: S::Row, signs: S::Row) -> S::Row {
    s.sub(s.xor(sizes, signs), signs)
}

outlined! {
    /// Converts the first `n` of `v`, multiples of 2^`unit`, to floats. `v` is padded by a row.
    ///
    /// # Errors
    /// `Corrupt` for values that are too large.
    pub fn from_fixed<'a, W>(s, v: &'a mut [W], n: usize, unit: u32) -> Result<()> {
        let implicit = W::FRACTION_BITS + 1;
        let top_bit = s.splat(W::from_u64(1) << (W::BITS - 1));
        // The exponent field, plus the bits of a significand, is this minus the leading zeros of a
        // magnitude.
        let most = s.splat(W::from_u64((unit + W::BITS).into()));
        let mut too_large = 0;
        let mut at = 0;
        while at < n {
            let row = s.load(&v[at..]);
            let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
            let zeros = s.leading_zeros(sizes);
            let exponents = s.sub(most, zeros);
            let are_normal = s.gt_mask(exponents, W::from_u64(implicit.into())) & s.gt_mask(sizes, W::default());
            let fields = s.sub(exponents, s.splat(W::from_u64(implicit.into())));
            let largest_field = W::from_u64((special::<W>() - 1).into());
            too_large |= are_normal & s.gt_mask(fields, largest_field) & first_lanes(n - at);
            let aligned = s.shift_left_each(sizes, zeros);
            let fractions = s.shift_right(s.add(aligned, aligned), W::BITS - W::FRACTION_BITS);
            let normal = s.or(fractions, s.shift_left(fields, W::FRACTION_BITS));
            let subnormal = s.shift_left(sizes, (unit - 1).min(W::BITS));
            s.store(s.or(s.select(are_normal, normal, subnormal), s.and(row, top_bit)), &mut v[at..]);
            at += LANES;
        }
        if too_large == 0 {
            Ok(())
        } else {
            Err(Error::corrupt("a lorenzo block is damaged: a value exceeds the range of its type"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::PORTABLE;

    fn to_fixed<W: Word>(words: &[W], n: usize, v: &mut [W]) -> Option<u32> {
        super::to_fixed(PORTABLE, words, n, &Samples::new(&words[..n]), W::default(), v)
    }

    fn fixed(values: &[f32]) -> Option<(u32, Vec<i32>)> {
        let words: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        let n = words.len();
        let mut v = padded(&words);
        let unit = to_fixed(&padded(&words), n, &mut v)?;
        let numbers = v[..n].iter().map(|&v| v as i32).collect();
        from_fixed(PORTABLE, &mut v, n, unit).unwrap();
        assert_eq!(v[..n], words, "{values:?}");
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
                let is_value = from_fixed(PORTABLE, &mut padded(&[v]), 1, unit).is_ok();
                let size = (v as i32).unsigned_abs();
                assert_eq!(is_value, size == 0 || unit + size.bit_length() < 255 + 24, "{v:#x} {unit}");
            }
        }
    }

    #[test]
    fn doubles_too() {
        let words = [1.0f64, -0.1, 4.0, 0.0].map(f64::to_bits);
        let mut v = padded(&words);
        let unit = to_fixed(&padded(&words), 4, &mut v).unwrap();
        from_fixed(PORTABLE, &mut v, 4, unit).unwrap();
        assert_eq!(v[..4], words);
    }
}
