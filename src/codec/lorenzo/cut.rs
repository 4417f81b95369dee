//! CUT: floats as multiples of a power of two that is as coarse as the largest of them allows, and the bits below it.
//!
//! Where values change sign or run through many powers of two, their bits as integers jump, and multiples of the
//! smallest power in use would be too large. But the last bits of the small values are noise beside the change from
//! one value to the next. So all are cut at the last bit of the largest one, predicted as the fixed-point numbers
//! that remain, and what was cut off, the tails, is kept as it is. How long a tail is follows from the number alone:
//! a decoder that knows the numbers knows where every tail is.

use crate::codec::lorenzo::map::{parts, special, with_signs};
use crate::error::{Error, Result};
use crate::stage::bits::{peek, window};
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
    #[inline(always)]
    pub fn write<S: Rows<W>>(&self, s: S, out: &mut [u8]) {
        let (base, units) = (s.splat(self.base), s.splat(W::from_u64(self.unit.into())));
        let all_bits = s.splat(W::from_u64(W::BITS.into()));
        let (mut tails, mut bits) = ([W::default(); LANES], [W::default(); LANES]);
        let mut string = RowWriter { out, at: 0, waiting: 0, n_waiting: 0 };
        let mut k = 0;
        while k * LANES < self.words.len() {
            let words = &self.words[k * LANES..];
            let mut last = [W::default(); LANES];
            let row = if words.len() >= LANES {
                s.load(words)
            } else {
                last[..words.len()].copy_from_slice(words);
                s.load(&last)
            };
            let row = s.shift_left(s.plus(row, base), self.shift);
            let (significands, exponents) = parts(s, row);
            let n_cut = s.minus(units, exponents);
            let sizes = s.shift_right_each(significands, n_cut);
            let below = s.minus(significands, s.shift_left_each(sizes, n_cut));
            let are_cut = s.larger(sizes, W::from_u64(1));
            let lanes = others(self.masked, k, words.len()) & s.larger(row, W::default());
            s.store(s.keep(lanes, s.select(are_cut, below, row)), &mut tails);
            s.store(s.keep(lanes, s.select(are_cut, n_cut, all_bits)), &mut bits);
            string.push(&tails, &bits);
            k += 1;
        }
        string.finish();
    }
}

/// Writes rows of fields of up to as many bits as a word has behind each other.
struct RowWriter<'a> {
    out: &'a mut [u8],
    /// Whole bytes that are written, and the bits behind them, fewer than eight.
    at: usize,
    waiting: u64,
    n_waiting: u32,
}

impl RowWriter<'_> {
    /// Appends the fields; there are no bits above them.
    #[inline(always)]
    fn push<W: Word>(&mut self, fields: &[W; LANES], bits: &[W; LANES]) {
        // Eight bytes are written for each field: to a place that has room for that.
        let mut bytes = [0u8; LANES * 8 + 16];
        let (mut at, mut waiting, mut n_waiting) = (0, self.waiting, self.n_waiting);
        for i in 0..LANES {
            let (field, n_bits) = (fields[i].to_u64(), bits[i].to_u64() as u32);
            waiting |= field << n_waiting;
            *bytes[at..].first_chunk_mut().expect("eight bytes") = waiting.to_le_bytes();
            let end = n_waiting + n_bits;
            at += end as usize / 8;
            // Of a field that goes on behind these eight bytes, those bits that do.
            waiting = if end < 64 { waiting >> (end / 8 * 8) } else { field >> 1 >> (63 - n_waiting) };
            n_waiting = end % 8;
        }
        self.out[self.at..self.at + at].copy_from_slice(&bytes[..at]);
        (self.at, self.waiting, self.n_waiting) = (self.at + at, waiting, n_waiting);
    }

    /// Writes the last byte.
    #[inline(always)]
    fn finish(self) {
        if self.n_waiting > 0 {
            self.out[self.at] = self.waiting as u8;
        }
    }
}

/// Those of `n` numbers of row `k` that are not masked.
#[inline(always)]
fn others(masked: Option<&Marks>, k: usize, n: usize) -> u32 {
    let all = first_lanes(n);
    match masked {
        Some(marks) => marks.others(k) & all,
        None => all,
    }
}

/// Makes floats of `n` numbers, behind which there is room for a row, and the tails at the start of `bytes`, and returns the
/// bytes of these. Masked numbers become anything.
///
/// # Errors
/// `Corrupt` for numbers that are too large, or if the bytes end early.
#[inline(always)]
pub fn from_cut<W: Word, S: Rows<W>>(
    s: S,
    v: &mut [W],
    n: usize,
    masked: Option<&Marks>,
    unit: u32,
    bytes: &[u8],
) -> Result<usize> {
    let tail_bits = TailBits { base: W::default(), unit };
    let top_bit = s.splat(W::from_u64(1) << (W::BITS - 1));
    let units = s.splat(W::from_u64((unit - 1).into()));
    let mut bits = [W::default(); LANES];
    let (mut at, mut k) = (0, 0);
    while k * LANES < n {
        let v = &mut v[k * LANES..][..LANES];
        let lanes = others(masked, k, n - k * LANES);
        let row = s.load(v);
        let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
        if s.larger(sizes, W::low_mask(W::FRACTION_BITS + 1)) & lanes != 0 {
            return Err(Error::corrupt("a lorenzo block has numbers beyond their type"));
        }
        let n_bits = s.keep(lanes, tail_bits.of(s, row));
        // Without the tails, which are the words of the smallest.
        let exponents = s.shift_left(s.minus(units, n_bits), W::FRACTION_BITS);
        let floats = s.or(s.plus(s.shift_left_each(sizes, n_bits), exponents), s.and(row, top_bit));
        s.store(s.keep(s.larger(sizes, W::from_u64(1)), floats), v);
        s.store(n_bits, &mut bits);
        for i in 0..LANES {
            let n_bits = bits[i].to_u64() as u32;
            let tail = if n_bits < 57 {
                window(bytes, at) & ((1 << n_bits) - 1)
            } else {
                peek(bytes, at) & u64::low_mask(n_bits)
            };
            v[i] = v[i].plus(W::from_u64(tail));
            at += n_bits as usize;
        }
        k += 1;
    }
    if at > 8 * bytes.len() {
        return Err(Error::corrupt("the tails of a lorenzo block end too early"));
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
        tails.write(Portable, &mut out);
        out
    }

    /// The numbers of floats, which come back with their tails, and the bytes of these.
    fn cut<W: Word + std::fmt::Debug>(words: &[W]) -> Option<(u32, Vec<i64>, usize)> {
        let n = words.len();
        let mut v = padded(words);
        let unit = to_cut(Portable, &padded(words), n, W::default(), range(words), &mut v)?;
        let numbers = v[..n].iter().map(|v| v.to_i64()).collect();
        let tails = tails(words, &v, unit, None);
        assert_eq!(from_cut(Portable, &mut v, n, None, unit, &tails).unwrap(), tails.len());
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
        assert_eq!(from_cut(Portable, &mut v, 4, Some(&masked), unit, &tails).unwrap(), 11);
        assert_eq!([v[0], v[2], v[3]], [words[0], words[2], words[3]]);
    }

    #[test]
    fn numbers_beyond_the_type_and_missing_tails_are_damage() {
        assert!(from_cut(Portable, &mut padded(&[1u32 << 24]), 1, None, 127, &[]).is_err());
        assert!(from_cut(Portable, &mut padded(&[(1u32 << 24).wrapping_neg()]), 1, None, 127, &[]).is_err());
        assert!(from_cut(Portable, &mut padded(&[1u32 << 31]), 1, None, 1, &[]).is_err());
        assert_eq!(from_cut(Portable, &mut padded(&[(1u32 << 24) - 1]), 1, None, 127, &[]).unwrap(), 0);
        for n in 0..8 {
            assert!(from_cut(Portable, &mut padded(&[1u64]), 1, None, 1023, &[7; 8][..n]).is_err());
        }
        assert_eq!(from_cut(Portable, &mut padded(&[1u64]), 1, None, 1023, &[7; 8]).unwrap(), 8);
    }
}
