//! CUT: floats as multiples of a power of two that is as coarse as the largest of them allows, and the bits below it.
//!
//! Where values change sign or run through many powers of two, their bits as integers jump, and multiples of the
//! smallest power in use would be too large. But the last bits of the small values are noise beside the change from
//! one value to the next. So all are cut at the last bit of the largest one, predicted as the fixed-point numbers
//! that remain, and what was cut off, the tails, is kept as it is. How long a tail is follows from the number alone:
//! a decoder that knows the numbers knows where every tail is.

use crate::codec::lorenzo::map::{parts, special, with_signs};
use crate::error::{Error, Result};
use crate::stage::bits::{Writer, peek, window};
use crate::stage::marks::Marks;
use crate::stage::predict::{self, Measure};
use crate::stage::rows::{LANES, Rows, first_lanes};
use crate::stage::word::Word;

/// Exponents that differ less are left to the other maps.
const LEAST_SPAN: u32 = 2;

/// The exponent of a float, which is that of its smallest multiple.
fn exponent<W: Word>(word: W) -> u32 {
    (((word << 1) >> (W::FRACTION_BITS + 1)).to_u64() as u32).max(1)
}

/// Whether words, of which this is the range, are worth cutting: they have two signs or several exponents.
fn is_uneven<W: Word>([lowest, highest]: [W; 2]) -> bool {
    (lowest ^ highest) >> (W::BITS - 1) != W::default()
        || exponent(lowest).abs_diff(exponent(highest)) >= LEAST_SPAN
}

/// Writes floats as multiples of 2^e to `v`, and returns e; `None` if that is not worth it. The floats are the first `n` of
/// `words`, each less `base`, and have this range; there is room for a row behind them.
#[inline(always)]
pub fn to_cut<W: Word, S: Rows<W>>(
    s: S,
    words: &[W],
    n: usize,
    base: W,
    range: [W; 2],
    v: &mut [W],
) -> Option<u32> {
    if !is_uneven(range) {
        return None;
    }
    let (base, one) = (s.splat(base), s.splat(W::from_u64(1)));
    let mut largest = one;
    let mut at = 0;
    while at < n {
        let row = s.plus(s.load(&words[at..]), base);
        let exponents = s.shift_right(s.plus(row, row), W::FRACTION_BITS + 1);
        largest = s.max_signed(largest, s.keep(first_lanes(n - at), exponents));
        at += LANES;
    }
    let unit = s.highest(largest);
    if unit.to_u64() == u64::from(special::<W>()) {
        return None;
    }
    let units = s.splat(unit);
    at = 0;
    while at < n {
        let row = s.plus(s.load(&words[at..]), base);
        let (significands, exponents) = parts(s, row);
        let sizes = s.shift_right_each(significands, s.minus(units, exponents));
        let are_small = s.larger(row, W::default()) & !s.larger(sizes, W::default());
        let sizes = s.or(sizes, s.keep(are_small, one));
        s.store(with_signs(s, sizes, s.shift_right_signed(row, W::BITS - 1)), &mut v[at..]);
        at += LANES;
    }
    Some(unit.to_u64() as u32)
}

/// Bits of the tail of a number of this size.
#[inline(always)]
fn tail_bits<W: Word>(size: W, unit: u32) -> u32 {
    match size.bit_length() {
        0 => 0,
        1 => W::BITS,
        length => (W::FRACTION_BITS + 1).saturating_sub(length).min(unit - 1),
    }
}

/// The bits of the tails of numbers less `base`.
#[derive(Clone, Copy)]
pub struct TailBits<W> {
    pub base: W,
    pub unit: u32,
}

impl<W: Word> Measure<W> for TailBits<W> {
    #[inline(always)]
    fn of<S: Rows<W>>(&self, s: S, row: S::Row) -> S::Row {
        let row = s.plus(row, s.splat(self.base));
        let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
        // As many zeros above a number as there would be above a bit more than all of a fraction.
        let above = W::BITS - (W::FRACTION_BITS + 1);
        let below = s.minus(s.leading_zeros(sizes), s.splat(W::from_u64(above.into())));
        let bits = s.min_signed(below, s.splat(W::from_u64((self.unit - 1).into())));
        let bits = s.keep(s.larger(sizes, W::from_u64(1)), bits);
        let are_one = s.larger(sizes, W::default()) & !s.larger(sizes, W::from_u64(1));
        s.or(bits, s.keep(are_one, s.splat(W::from_u64(W::BITS.into()))))
    }
}

/// The tails of a block.
#[derive(Clone, Copy)]
pub struct Tails<'a, W> {
    /// The words of the block, shifted to the right, each less `base`.
    words: &'a [W],
    base: W,
    shift: u32,
    unit: u32,
    masked: Option<&'a Marks>,
    /// Bytes of the tails.
    pub n_bytes: usize,
}

impl<'a, W: Word> Tails<'a, W> {
    /// Those of the words behind these `numbers`. The words are shifted to the right by `shift` bits, and each is less
    /// `base`.
    #[inline(always)]
    pub fn new<S: Rows<W>>(
        s: S,
        numbers: &[W],
        bits: TailBits<W>,
        words: &'a [W],
        (base, shift): (W, u32),
        masked: Option<&'a Marks>,
    ) -> Self {
        let shape = [1, 1, words.len()];
        let numbers = predict::Numbers { v: numbers, shape, middle: W::default(), in_full: true, masked };
        let n_bytes = predict::measure(s, &numbers, &bits).div_ceil(8) as usize;
        Self { words, base, shift, unit: bits.unit, masked, n_bytes }
    }

    /// Writes them to `out`, which has exactly their bytes.
    pub fn write(&self, out: &mut [u8]) {
        let mut string = Writer::new(out);
        for (k, words) in self.words.chunks(LANES).enumerate() {
            let mut left = others(self.masked, k, words.len());
            while left != 0 {
                let word = words[left.trailing_zeros() as usize].plus(self.base) << self.shift;
                left &= left - 1;
                let is_normal = (word << 1) >> (W::FRACTION_BITS + 1) != W::default();
                let top_bit = W::from_u64(is_normal.into()) << W::FRACTION_BITS;
                let significand = word & W::low_mask(W::FRACTION_BITS) | top_bit;
                let n_cut = (self.unit - exponent(word)).min(W::BITS - 1);
                if significand >> n_cut > W::from_u64(1) {
                    string.push((significand & W::low_mask(n_cut)).to_u64(), n_cut);
                } else if word != W::default() {
                    string.push(word.to_u64(), W::BITS);
                }
            }
        }
        string.finish();
    }
}

/// Those of `n` numbers of row `k` that are not masked.
#[inline(always)]
fn others(masked: Option<&Marks>, k: usize, n: usize) -> u32 {
    masked.map_or(u32::MAX, |marks| marks.others(k)) & first_lanes(n)
}

/// Makes floats of numbers and the tails at the start of `bytes`, and returns the bytes of these. Masked numbers stay.
///
/// # Errors
/// `Corrupt` for numbers that are too large, or if the bytes end early.
#[inline(always)]
pub fn from_cut<W: Word>(v: &mut [W], masked: Option<&Marks>, unit: u32, bytes: &[u8]) -> Result<usize> {
    let (mut at, mut all) = (0, W::default());
    for (k, v) in v.chunks_mut(LANES).enumerate() {
        let mut left = others(masked, k, v.len());
        while left != 0 {
            let v = &mut v[left.trailing_zeros() as usize];
            left &= left - 1;
            let sign = v.shift_signed(W::BITS - 1);
            let size = (*v ^ sign).minus(sign);
            all |= size;
            let n_bits = tail_bits(size, unit);
            // A window may have fewer bits than a word of 64.
            let is_whole = size == W::from_u64(1);
            let next = if is_whole && W::BITS == 64 { peek(bytes, at) } else { window(bytes, at) };
            let tail = W::from_u64(next) & W::low_mask(n_bits);
            at += n_bits as usize;
            *v = if is_whole || size == W::default() {
                tail
            } else {
                let below = W::from_u64((unit - n_bits - 1).into()) << W::FRACTION_BITS;
                (size << n_bits | tail).plus(below) | (sign << (W::BITS - 1))
            };
        }
    }
    if all >> (W::FRACTION_BITS + 1) != W::default() || at > 8 * bytes.len() {
        return Err(Error::corrupt("a lorenzo block has numbers beyond their type, or its tails end too early"));
    }
    Ok(at.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::Portable;

    fn range<W: Word>(words: &[W]) -> [W; 2] {
        words
            .iter()
            .fold([words[0]; 2], |[low, high], &word| [low.min_max_signed(word).0, high.min_max_signed(word).1])
    }

    fn tails<W: Word>(words: &[W], v: &[W], unit: u32, masked: Option<&Marks>) -> Vec<u8> {
        let bits = TailBits { base: W::default(), unit };
        let tails = Tails::new(Portable, v, bits, words, (W::default(), 0), masked);
        let mut out = vec![0xee; tails.n_bytes];
        tails.write(&mut out);
        out
    }

    /// The numbers of floats, which come back with their tails, and the bytes of these.
    fn cut<W: Word + std::fmt::Debug>(words: &[W]) -> Option<(u32, Vec<i64>, usize)> {
        let n = words.len();
        let mut v = padded(words);
        let unit = to_cut(Portable, &padded(words), n, W::default(), range(words), &mut v)?;
        let numbers = v[..n].iter().map(|v| v.to_i64()).collect();
        let tails = tails(words, &v, unit, None);
        assert_eq!(from_cut(&mut v[..n], None, unit, &tails).unwrap(), tails.len());
        assert_eq!(v[..n], *words);
        Some((unit, numbers, tails.len()))
    }

    #[test]
    fn values_are_cut_at_the_last_bit_of_the_largest() {
        let words = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let largest = 1 << 23;
        assert_eq!(cut(&words(&[1.0, -1.0])), Some((127, vec![largest, -largest], 0)));
        assert_eq!(
            cut(&words(&[1.0, 0.25, -0.0, 0.0])),
            Some((127, vec![largest, largest / 4, -1, 0], (2u32 + 32).div_ceil(8) as usize))
        );
        assert_eq!(cut(&words(&[-4.0, 1e-30])), Some((129, vec![-largest, 1], 4)));
        let tiny = f32::from_bits(5);
        assert_eq!(cut(&words(&[tiny, -tiny, f32::MIN_POSITIVE])), Some((1, vec![5, -5, largest], 0)));
        assert_eq!(cut(&words(&[tiny, 4.0 * f32::MIN_POSITIVE])), Some((3, vec![1, largest], 4)));
        assert_eq!(cut(&words(&[f32::from_bits(9), 4.0 * f32::MIN_POSITIVE])), Some((3, vec![2, largest], 1)));
    }

    #[test]
    fn what_is_even_or_not_finite_is_not_cut() {
        for values in [[1.0, 2.0], [0.0, f64::MIN_POSITIVE], [f64::NAN, 1.0], [-f64::INFINITY, 1.0], [-1.0, -3.0]] {
            assert_eq!(cut(&values.map(f64::to_bits)), None, "{values:?}");
        }
    }

    #[test]
    fn floats_of_all_sizes_come_back() {
        let noise = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d);
        for span in [2, 30, 300, 2046] {
            let limit = |i: u64| noise(i) & 1 << 63 | (noise(i) >> 12) | (noise(i + 9999) % span) << 52;
            assert!(cut(&(0..999).map(limit).collect::<Vec<_>>()).is_some());
            let words: Vec<u32> = (0..999).map(|i| (limit(i) >> 32) as u32 & 0xbfff_ffff).collect();
            assert!(cut(&words).is_some());
        }
    }

    #[test]
    fn masked_words_have_no_tails() {
        let words = [1.0f64, 77.0, 1e-3, -1e-20].map(f64::to_bits);
        let mut masked = Marks::new(4);
        masked.words_mut()[0] = 0b10;
        let mut v = padded(&words);
        let unit = to_cut(Portable, &padded(&words), 4, 0, range(&words), &mut v).unwrap();
        let tails = tails(&words, &v, unit, Some(&masked));
        assert_eq!(from_cut(&mut v[..4], Some(&masked), unit, &tails).unwrap(), 11);
        assert_eq!([v[0], v[2], v[3]], [words[0], words[2], words[3]]);
    }

    #[test]
    fn numbers_beyond_the_type_and_missing_tails_are_damage() {
        assert!(from_cut(&mut [1u32 << 24], None, 127, &[]).is_err());
        assert!(from_cut(&mut [(1u32 << 24).wrapping_neg()], None, 127, &[]).is_err());
        assert!(from_cut(&mut [1u32 << 31], None, 1, &[]).is_err());
        assert_eq!(from_cut(&mut [(1u32 << 24) - 1], None, 127, &[]).unwrap(), 0);
        for n in 0..8 {
            assert!(from_cut(&mut [1u64], None, 1023, &[7; 8][..n]).is_err());
        }
        assert_eq!(from_cut(&mut [1u64], None, 1023, &[7; 8]).unwrap(), 8);
    }
}
