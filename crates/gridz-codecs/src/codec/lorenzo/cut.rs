//! CUT: floats as multiples of a power of two, and the bits below it. The power is the last bit of
//! the largest float.
//!
//! If values change sign or span many powers of two, their bits as integers jump, and multiples of
//! the smallest power in use would be too large. But the last bits of the small values are noise
//! compared with the change from one value to the next. So all values are cut at the last bit of
//! the largest one. The fixed-point numbers that remain are predicted, and the removed bits, the
//! tails, are stored verbatim. The number alone determines the length of its tail, so a decoder
//! that has the numbers can locate every tail.

use crate::codec::lorenzo::map::{parts, special, with_signs};
use crate::error::{Error, Result};
use crate::stage::bitmap::Bitmap;
use crate::stage::bits::peek;
use crate::stage::pack::GROUP;
use crate::stage::predict::Measure;
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// Tails begin at multiples of this many bytes.
pub const ALIGNMENT: usize = 8;
/// Smaller differences of exponents are left to the other maps.
const LEAST_SPAN: u32 = 2;

/// The exponent of a float, in terms of its lowest bit.
fn exponent<W: Word>(word: W) -> u32 {
    (((word << 1) >> (W::FRACTION_BITS + 1)).to_u64() as u32).max(1)
}

/// True if words with this range are worth cutting: they have both signs, or several exponents.
fn is_uneven<W: Word>([lowest, highest]: [W; 2]) -> bool {
    (lowest ^ highest) >> (W::BITS - 1) != W::default()
        || exponent(lowest).abs_diff(exponent(highest)) >= LEAST_SPAN
}

outlined! {
    /// Writes floats as multiples of 2^e to `v` and returns e, or `None` if that does not pay. The
    /// floats are the first `n` of `words`, each minus `base`, and have this range. Both buffers are
    /// padded by a row.
    pub fn to_cut<'a, W>(s, words: &'a [W], n: usize, base: W, range: [W; 2], v: &'a mut [W]) -> Option<u32> {
        if !is_uneven(range) {
            return None;
        }
        let special = u64::from(special::<W>());
        let (base, one) = (s.splat(base), s.splat(W::from_u64(1)));
        let mut at = 0;
        let unit = if (range[0] ^ range[1]) >> (W::BITS - 1) == W::default() {
            // Floats of one sign have the order of their words, or the reverse.
            W::from_u64(exponent(range[0]).max(exponent(range[1])).into())
        } else {
            let mut largest = one;
            while at < n {
                let row = s.add(s.load(&words[at..]), base);
                let exponents = s.shift_right(s.add(row, row), W::FRACTION_BITS + 1);
                largest = s.max_signed(largest, s.select_or_zero(first_lanes(n - at), exponents));
                at += LANES;
                // Random bits soon show that they are not numbers.
                if at == LANES && s.highest(largest).to_u64() == special {
                    return None;
                }
            }
            s.highest(largest)
        };
        if unit.to_u64() == special {
            return None;
        }
        let units = s.splat(unit);
        at = 0;
        while at < n {
            let row = s.add(s.load(&words[at..]), base);
            let (significands, exponents) = parts(s, row);
            let sizes = s.shift_right_each(significands, s.sub(units, exponents));
            let are_small = s.gt_mask(row, W::default()) & !s.gt_mask(sizes, W::default());
            let sizes = s.or(sizes, s.select_or_zero(are_small, one));
            s.store(with_signs(s, sizes, s.shift_right_signed(row, W::BITS - 1)), &mut v[at..]);
            at += LANES;
        }
        Some(unit.to_u64() as u32)
    }
}

/// Measures the bits of the tails of numbers, each minus `base`.
#[derive(Clone, Copy)]
pub struct TailBits<W> {
    pub base: W,
    pub unit: u32,
}

impl<W: Word> Measure<W> for TailBits<W> {
    #[inline(always)]
    fn of<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row {
        let row = s.add(row, s.splat(self.base));
        let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
        // Leading zeros of a number beyond those of a significand with its implicit bit.
        let above = W::BITS - (W::FRACTION_BITS + 1);
        let below = s.sub(s.leading_zeros(sizes), s.splat(W::from_u64(above.into())));
        let bits = s.min_signed(below, s.splat(W::from_u64((self.unit - 1).into())));
        let bits = s.select_or_zero(s.gt_mask(sizes, W::from_u64(1)), bits);
        let are_one = s.gt_mask(sizes, W::default()) & !s.gt_mask(sizes, W::from_u64(1));
        s.or(bits, s.select_or_zero(are_one, s.splat(W::from_u64(W::BITS.into()))))
    }
}

/// The tails of a block. 1024 elements are 32 rows of 32 lanes, and each lane has its own bit
/// string, so a few shifts append a row to all strings. A full word is written at once, after those
/// written before. A reader can therefore find the words of a lane only in reverse, from the last
/// row to the first.
#[derive(Clone, Copy)]
pub struct Tails<'a, W> {
    /// The words of the strings, and the bits left over.
    string: &'a [W],
    /// Bytes of the tails.
    pub n_bytes: usize,
}

outlined! {
    /// Extracts the tails of the first `n` words, which they overwrite; the numbers have this unit.
    /// The words are shifted to the right by `shift` bits, each minus `base`. They are padded by
    /// two rows, and so is `spare`.
    #[expect(clippy::too_many_arguments)]
    pub fn tails<'a, 'b, W>(
        s,
        words: &'a mut [W],
        n: usize,
        base: W,
        shift: u32,
        unit: u32,
        masked: Option<&'b Bitmap>,
        spare: &'b mut [W],
    ) -> Tails<'a, W> {

        let (base, units) = (s.splat(base), s.splat(W::from_u64(unit.into())));
        let all_bits = s.splat(W::from_u64(W::BITS.into()));
        let (mut start, mut n_full) = (0, 0);
        while start < n {
            let (mut string, mut n_waiting) = (s.splat(W::default()), s.splat(W::default()));
            let end = n.min(start + GROUP);
            let mut at = start;
            while at < end {
                let row = s.shift_left(s.add(s.load(&words[at..]), base), shift);
                let (significands, exponents) = parts(s, row);
                let n_cut = s.sub(units, exponents);
                let sizes = s.shift_right_each(significands, n_cut);
                let below = s.sub(significands, s.shift_left_each(sizes, n_cut));
                let are_cut = s.gt_mask(sizes, W::from_u64(1));
                let lanes = others(masked, at / LANES, n - at) & s.gt_mask(row, W::default());
                let tails = s.select_or_zero(lanes, s.select(are_cut, below, row));
                let n_bits = s.select_or_zero(lanes, s.select(are_cut, n_cut, all_bits));

                string = s.or(string, s.shift_left_each(tails, n_waiting));
                let rest = s.shift_right_each(tails, s.sub(all_bits, n_waiting));
                n_waiting = s.add(n_waiting, n_bits);
                let are_full = s.gt_mask(n_waiting, W::from_u64((W::BITS - 1).into()));
                // The positions being written have already been read.
                s.compress(are_full, string, &mut words[n_full..]);
                n_full += are_full.count_ones() as usize;
                string = s.select(are_full, rest, string);
                n_waiting = s.sub(n_waiting, s.select_or_zero(are_full, all_bits));
                at += LANES;
            }
            let left_over = &mut spare[2 * LANES * (start / GROUP)..];
            s.store(string, left_over);
            s.store(n_waiting, &mut left_over[LANES..]);
            start = end;
        }
        let n_left = append_left_over(&spare[..2 * LANES * n.div_ceil(GROUP)], &mut words[n_full..]);
        Tails { string: words, n_bytes: n_full * W::BYTES + n_left.div_ceil(8) }
    }

    /// Writes the tails to `out`, which has exactly their bytes.
    pub fn write<'a, W>(s, tails: &'a Tails<'a, W>, out: &'a mut [u8]) {
        let mut at = 0;
        let mut rows = out.chunks_exact_mut(LANES * W::BYTES);
        for out in &mut rows {
            s.store_bytes(s.load(&tails.string[at..]), out);
            at += LANES;
        }
        for out in rows.into_remainder().chunks_mut(W::BYTES) {
            out.copy_from_slice(&tails.string[at].to_u64().to_le_bytes()[..out.len()]);
            at += 1;
        }
    }
}

/// Writes fields to words as one bit string and returns its bits. `rows` alternates a row of fields
/// with a row of their widths.
fn append_left_over<W: Word>(rows: &[W], string: &mut [W]) -> usize {
    let (mut waiting, mut n_waiting, mut n) = (W::default(), 0, 0);
    for rows in rows.chunks_exact(2 * LANES) {
        let (fields, bits) = rows.split_at(LANES);
        for (&field, bits) in fields.iter().zip(bits) {
            waiting |= field << n_waiting;
            let end = n_waiting + bits.to_u64() as u32;
            if end >= W::BITS {
                string[n] = waiting;
                n += 1;
                waiting = field >> (W::BITS - n_waiting);
            }
            n_waiting = end % W::BITS;
        }
    }
    string[n] = waiting;
    n * W::BITS as usize + n_waiting as usize
}

/// The lanes of row `k`, of `n` numbers, that are not masked.
#[inline(always)]
fn others(masked: Option<&Bitmap>, k: usize, n: usize) -> u32 {
    let all = first_lanes(n);
    match masked {
        Some(bitmap) => bitmap.others(k) & all,
        None => all,
    }
}

outlined! {
    /// Joins `n` numbers with the tails at the start of `bytes` to floats, and returns the bytes of the
    /// tails. Masked numbers become arbitrary. `v` is padded by a row, and each of `spare` has room for
    /// as many numbers and two rows.
    ///
    /// # Errors
    /// `Corrupt` for numbers that are too large, or if the bytes end early.
    pub fn from_cut<'a, W>(
        s,
        v: &'a mut [W],
        n: usize,
        masked: Option<&'a Bitmap>,
        unit: u32,
        bytes: &'a [u8],
        spare: [&'a mut [W]; 2],
    ) -> Result<usize> {
        let [lengths, words] = spare;
        let tail_bits = TailBits { base: W::default(), unit };
        let (mut start, mut n_full, mut n_left) = (0, 0, 0);
        while start < n {
            let mut sums = s.splat(W::default());
            let end = n.min(start + GROUP);
            let mut at = start;
            while at < end {
                let lanes = others(masked, at / LANES, n - at);
                let row = s.load(&v[at..]);
                let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
                if s.gt_mask(sizes, W::low_mask(W::FRACTION_BITS + 1)) & lanes != 0 {
                    return Err(Error::corrupt("a lorenzo block is damaged: a number exceeds the range of its type"));
                }
                let n_bits = s.select_or_zero(lanes, tail_bits.of(s, row));
                s.store(n_bits, &mut lengths[at..]);
                sums = s.add(sums, n_bits);
                at += LANES;
            }
            let [full, left] = totals(s, sums);
            (n_full, n_left, start) = (n_full + full, n_left + left, end);
        }
        let n_bytes = n_full * W::BYTES + n_left.div_ceil(8);
        let tails = bytes
            .get(..n_bytes)
            .ok_or_else(|| Error::corrupt("a lorenzo block is damaged: its tails are incomplete"))?;
        let (full, left_over) = tails.split_at(n_full * W::BYTES);
        load_words(s, full, words);

        let top_bit = s.splat(W::from_u64(1) << (W::BITS - 1));
        let all_bits = s.splat(W::from_u64(W::BITS.into()));
        let units = s.splat(W::from_u64((unit - 1).into()));
        // Words before the end of the group, and left-over bits before the group.
        let (mut n_words, mut n_before) = (0, 0);
        let mut start = 0;
        while start < n {
            let end = n.min(start + GROUP);
            let mut sums = s.splat(W::default());
            let mut at = start;
            while at < end {
                sums = s.add(sums, s.load(&lengths[at..]));
                at += LANES;
            }
            let [full, left] = totals(s, sums);
            n_words += full;
            // The last unread bits of the strings, in the upper bits of a word, and their number.
            let mut n_waiting = s.and(sums, s.splat(W::from_u64((W::BITS - 1).into())));
            let mut string = read_left_over(s, left_over, n_before, n_waiting);
            n_before += left;
            let mut from = n_words;
            while at > start {
                at -= LANES;
                let n_bits = s.load(&lengths[at..]);
                let n_rest = s.sub(n_waiting, n_bits);
                let are_empty = s.gt_mask(n_rest, W::low_mask(W::BITS - 1));
                // No underflow: `n_words` counts these words.
                from -= are_empty.count_ones() as usize;
                let next = s.expand(are_empty, &words[from..]);
                let tails =
                    s.shift_right_each(s.or(string, s.shift_right_each(next, n_waiting)), s.sub(all_bits, n_bits));
                string = s.or(s.shift_left_each(string, n_bits), s.shift_left_each(next, s.sub(n_bits, n_waiting)));
                n_waiting = s.add(n_rest, s.select_or_zero(are_empty, all_bits));

                let row = s.load(&v[at..]);
                let sizes = with_signs(s, row, s.shift_right_signed(row, W::BITS - 1));
                // Floats without tails. The smallest ones are tails entirely, and their tails are the
                // whole words.
                let exponents = s.shift_left(s.sub(units, n_bits), W::FRACTION_BITS);
                let floats = s.or(s.add(s.shift_left_each(sizes, n_bits), exponents), s.and(row, top_bit));
                let floats = s.select_or_zero(s.gt_mask(sizes, W::from_u64(1)), floats);
                s.store(s.add(floats, tails), &mut v[at..]);
            }
            start = end;
        }
        Ok(n_bytes)
    }
}

/// The number of whole words in strings of these lengths, and the number of bits left over.
#[inline(always)]
fn totals<W: Word, S: Simd<W>>(s: S, bits: S::Row) -> [usize; 2] {
    let mut lanes = [W::default(); LANES];
    s.store(bits, &mut lanes);
    let (mut n_full, mut n_left) = (0, 0);
    for bits in lanes {
        let bits = bits.to_u64() as usize;
        n_full += bits / W::BITS as usize;
        n_left += bits % W::BITS as usize;
    }
    [n_full, n_left]
}

/// Reads words from their bytes.
#[inline(always)]
fn load_words<W: Word, S: Simd<W>>(s: S, bytes: &[u8], words: &mut [W]) {
    let rows = bytes.chunks_exact(LANES * W::BYTES);
    let rest = rows.remainder();
    let mut at = 0;
    for row in rows {
        s.store(s.load_bytes(row), &mut words[at..]);
        at += LANES;
    }
    for word in rest.chunks_exact(W::BYTES) {
        words[at] = W::read(word);
        at += 1;
    }
}

/// Reads the left-over bits of the lanes of a group, starting at bit `at`, to the upper bits of a
/// word each.
#[inline(always)]
fn read_left_over<W: Word, S: Simd<W>>(s: S, string: &[u8], mut at: usize, bits: S::Row) -> S::Row {
    let (mut fields, mut n_bits) = ([W::default(); LANES], [W::default(); LANES]);
    s.store(bits, &mut n_bits);
    for (field, bits) in fields.iter_mut().zip(n_bits) {
        *field = W::from_u64(peek(string, at));
        at += bits.to_u64() as usize;
    }
    // Bits above a field are shifted out.
    s.shift_left_each(s.load(&fields), s.sub(s.splat(W::from_u64(W::BITS.into())), bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::PORTABLE;

    fn range<W: Word>(words: &[W]) -> [W; 2] {
        words
            .iter()
            .fold([words[0]; 2], |[low, high], &word| [low.min_max_signed(word).0, high.min_max_signed(word).1])
    }

    fn tails<W: Word>(words: &[W], unit: u32, masked: Option<&Bitmap>) -> Vec<u8> {
        let (mut memory, mut spare) = (roomy(words), roomy(words));
        let tails = super::tails(PORTABLE, &mut memory, words.len(), W::default(), 0, unit, masked, &mut spare);
        let mut out = vec![0xee; tails.n_bytes];
        write(PORTABLE, &tails, &mut out);
        out
    }

    /// Pads by two rows.
    fn roomy<W: Word>(words: &[W]) -> Vec<W> {
        padded(&padded(words))
    }

    fn from<W: Word>(v: &mut [W], n: usize, masked: Option<&Bitmap>, unit: u32, bytes: &[u8]) -> Result<usize> {
        from_cut(PORTABLE, v, n, masked, unit, bytes, [&mut roomy(v), &mut roomy(v)])
    }

    /// The numbers of floats, and the bytes of their tails. Checks that decoding restores the
    /// floats.
    fn cut<W: Word + std::fmt::Debug>(words: &[W]) -> Option<(u32, Vec<i64>, usize)> {
        let n = words.len();
        let mut v = padded(words);
        let unit = to_cut(PORTABLE, &padded(words), n, W::default(), range(words), &mut v)?;
        let numbers = v[..n].iter().map(|v| v.to_i64()).collect();
        let tails = tails(words, unit, None);
        assert_eq!(from(&mut v, n, None, unit, &tails).unwrap(), tails.len());
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
        let mut masked = Bitmap::new(4);
        masked.words_mut()[0] = 0b10;
        let mut v = padded(&words);
        let unit = to_cut(PORTABLE, &padded(&words), 4, 0, range(&words), &mut v).unwrap();
        let tails = tails(&words, unit, Some(&masked));
        assert_eq!(from(&mut v, 4, Some(&masked), unit, &tails).unwrap(), 11);
        assert_eq!([v[0], v[2], v[3]], [words[0], words[2], words[3]]);
    }

    #[test]
    fn numbers_beyond_the_type_and_missing_tails_are_damage() {
        assert!(from(&mut padded(&[1u32 << 24]), 1, None, 127, &[]).is_err());
        assert!(from(&mut padded(&[(1u32 << 24).wrapping_neg()]), 1, None, 127, &[]).is_err());
        assert!(from(&mut padded(&[1u32 << 31]), 1, None, 1, &[]).is_err());
        assert_eq!(from(&mut padded(&[(1u32 << 24) - 1]), 1, None, 127, &[]).unwrap(), 0);
        for n in 0..8 {
            assert!(from(&mut padded(&[1u64]), 1, None, 1023, &[7; 8][..n]).is_err());
        }
        assert_eq!(from(&mut padded(&[1u64]), 1, None, 1023, &[7; 8]).unwrap(), 8);
    }
}
