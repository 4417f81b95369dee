//! Sparse numbers: the positions and bits of the few nonzero numbers of a block.
//!
//! There are two forms, and the shorter one is written. A list has the number of zeros before each
//! nonzero number and the number itself, both as a bit length and the bits below the highest one. A
//! bitmap marks the nonzero numbers, which all have the same number of bits.

use crate::error::{Error, Result};
use crate::stage::bitmap::Bitmap;
use crate::stage::bits::{Writer, peek, string_bytes, window};
use crate::stage::rows::{LANES, first_lanes, outlined};
use crate::stage::word::Word;

/// Bytes of the header: the count of nonzero numbers, their bits, and the bits of the longest gap.
const HEADER: usize = 4;
/// Maximum number of numbers in a list.
const MAX_LISTED: usize = 256;
/// Maximum number of bits of a gap, because blocks have at most 2^14 numbers.
const MAX_GAP_BITS: u32 = 14;

/// The chosen form of a block's numbers.
pub struct Coding {
    bitmap: Bitmap,
    count: usize,
    width: u32,
    /// Bits of the most zeros before a number, at least 1; 0 if there is a bitmap instead.
    gap_bits: u32,
    /// Bytes after the header.
    n_bytes: usize,
}

/// Bits of the field for a number's bit length less 1, if the longest number has `width` bits.
fn length_bits(width: u32) -> u32 {
    width.saturating_sub(1).bit_length()
}

/// A lower bound of the bytes of `count` nonzero numbers of up to `width` bits.
pub fn least_bytes(count: usize, width: u32) -> usize {
    if count > MAX_LISTED { string_bytes(count, width) } else { 0 }
}

impl Coding {
    /// Chooses a list if it is shorter than the bitmap.
    fn try_list<W: Word>(&mut self, numbers: &[W]) {
        let (mut longest, mut next, mut low_bits) = (0, 0, 0);
        for i in self.bitmap.marked() {
            low_bits += numbers[i as usize].bit_length() - 1 + (i - next).bit_length().saturating_sub(1);
            (longest, next) = (longest.max(i - next), i + 1);
        }
        let gap_bits = longest.bit_length().max(1);
        let fields = self.count as u32 * (gap_bits.bit_length() + length_bits(self.width));
        let n_bytes = string_bytes(1, fields + low_bits);
        if n_bytes < self.n_bytes {
            (self.gap_bits, self.n_bytes) = (gap_bits, n_bytes);
        }
    }

    /// Bytes of the numbers.
    pub fn n_bytes(&self) -> usize {
        HEADER + self.n_bytes
    }

    /// See [`write`].
    #[inline(always)]
    fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let (header, rest) = out.split_at_mut(HEADER);
        header[..2].copy_from_slice(&(self.count as u16).to_le_bytes());
        header[2..].copy_from_slice(&[self.width as u8, self.gap_bits as u8]);
        let marked = || self.bitmap.marked().map(|i| numbers[i as usize].to_u64());
        if self.gap_bits == 0 {
            let (bitmap, string) = rest.split_at_mut(self.bitmap.n_bytes());
            self.bitmap.write(bitmap);
            write_string(string, marked().map(|number| (number, self.width)));
            return;
        }
        let gaps = || {
            let mut next = 0;
            self.bitmap.marked().map(move |i| {
                let gap = i - next;
                next = i + 1;
                u64::from(gap)
            })
        };
        let low_bits = |number: u64| number.bit_length().saturating_sub(1);
        let low = |number: u64| (number & u64::low_mask(low_bits(number)), low_bits(number));
        let gap_lengths = gaps().map(|gap| (gap.bit_length().into(), self.gap_bits.bit_length()));
        let lengths = marked().map(|number| (low_bits(number).into(), length_bits(self.width)));
        write_string(rest, gap_lengths.chain(lengths).chain(gaps().map(low)).chain(marked().map(low)));
    }
}

outlined! {
    /// Chooses the form for `n` numbers. The slice has room for one more row.
    pub fn choose<'a, W>(s, numbers: &'a [W], n: usize) -> Coding {
        let mut bitmap = Bitmap::new(n);
        let mut any = s.splat(W::default());
        let mut k = 0;
        while k * LANES < n {
            let lanes = first_lanes(n - k * LANES);
            let row = s.load(&numbers[k * LANES..]);
            any = s.or(any, s.select_or_zero(lanes, row));
            bitmap.words_mut()[k] = lanes & s.gt_mask(row, W::default());
            k += 1;
        }
        let (count, width) = (bitmap.count(), s.any(any).bit_length());
        let marked_bytes = bitmap.n_bytes() + string_bytes(count, width);
        let mut coding = Coding { bitmap, count, width, gap_bits: 0, n_bytes: marked_bytes };
        if count <= MAX_LISTED {
            coding.try_list(numbers);
        }
        coding
    }

    /// Writes the numbers that [`choose`] saw to `out`, which has exactly [`Coding::n_bytes`].
    pub fn write<'a, W>(_s, coding: &'a Coding, numbers: &'a [W], out: &'a mut [u8]) {
        coding.write(numbers, out);
    }
}

/// Writes fields to `out`, which has exactly their bytes.
fn write_string(out: &mut [u8], fields: impl Iterator<Item = (u64, u32)>) {
    let mut string = Writer::new(out);
    fields.for_each(|(value, n_bits)| string.push(value, n_bits));
    string.finish();
}

/// Reads all numbers of a block from the start of `bytes`, and returns the bytes read.
///
/// # Errors
/// `Corrupt`.
pub fn read<W: Word>(bytes: &[u8], numbers: &mut [W]) -> Result<usize> {
    let damage = || Error::corrupt("a block is damaged: its sparse numbers have invalid counts or are incomplete");
    let (&[low, high, width, gap_bits], rest) = bytes.split_first_chunk::<HEADER>().ok_or_else(damage)?;
    let count = usize::from(u16::from_le_bytes([low, high]));
    let (width, gap_bits) = (u32::from(width), u32::from(gap_bits));
    if width > W::BITS || (width == 0) != (count == 0) {
        return Err(damage());
    }
    numbers.fill(W::default());
    let n_bytes = match gap_bits {
        0 => read_marked(rest, numbers, count, width)?,
        1..=MAX_GAP_BITS if count <= MAX_LISTED => {
            read_listed(rest, numbers, count, width, gap_bits).ok_or_else(damage)?
        }
        _ => return Err(damage()),
    };
    Ok(HEADER + n_bytes)
}

fn read_marked<W: Word>(bytes: &[u8], numbers: &mut [W], count: usize, width: u32) -> Result<usize> {
    let damage =
        || Error::corrupt("a block is damaged: its sparse numbers do not match their bitmap or are incomplete");
    let (bitmap, bitmap_bytes) = <Bitmap>::read(bytes, numbers.len())?;
    let n_string = string_bytes(count, width);
    let string = bytes[bitmap_bytes..].get(..n_string).filter(|_| bitmap.count() == count).ok_or_else(damage)?;
    let mut at = 0;
    for i in bitmap.marked() {
        // A window may have fewer bits than the longest number.
        let low = W::from_u64(window(string, at)) & W::low_mask(width.min(32));
        let high = if width > 32 { W::from_u64(window(string, at + 32) << 32) & W::low_mask(width) } else { low };
        numbers[i as usize] = low | high;
        at += width as usize;
    }
    Ok(bitmap_bytes + n_string)
}

/// Returns `None` if the list leads beyond the last number, or the bytes end too early.
fn read_listed<W: Word>(bytes: &[u8], numbers: &mut [W], count: usize, width: u32, gap_bits: u32) -> Option<usize> {
    let field_bits = [gap_bits.bit_length(), length_bits(width)].map(|n_bits| n_bits as usize);
    let take = |at: usize, n_bits: u32| peek(bytes, at) & u64::low_mask(n_bits);
    // Bits of a gap, and those of a number below the highest one.
    let gap_length = |k: usize| take(k * field_bits[0], field_bits[0] as u32) as u32;
    let lengths = count * field_bits[0];
    let low_bits = |k: usize| take(lengths + k * field_bits[1], field_bits[1] as u32) as u32;
    let mut gap_at = lengths + count * field_bits[1];
    let mut at = gap_at;
    for k in 0..count {
        if gap_length(k) > gap_bits {
            return None;
        }
        at += gap_length(k).saturating_sub(1) as usize;
    }
    let mut next = 0;
    for k in 0..count {
        let gap = match gap_length(k) {
            0 => 0,
            n_bits => 1 << (n_bits - 1) | take(gap_at, n_bits - 1),
        };
        gap_at += gap_length(k).saturating_sub(1) as usize;
        let number = numbers.get_mut(next + gap as usize)?;
        next = next + 1 + gap as usize;
        *number = W::from_u64(1 << low_bits(k) | take(at, low_bits(k)));
        at += low_bits(k) as usize;
    }
    let n_bytes = at.div_ceil(8);
    (n_bytes <= bytes.len()).then_some(n_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::PORTABLE;

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let coding = choose(PORTABLE, &padded(numbers), numbers.len());
        let mut bytes = vec![0xee; coding.n_bytes()];
        coding.write(numbers, &mut bytes);
        let mut back = vec![W::from_u64(7); numbers.len()];
        assert_eq!(read(&bytes, &mut back).unwrap(), bytes.len());
        assert_eq!(back, numbers);
        bytes.push(0xff);
        assert_eq!(read(&bytes, &mut back).unwrap(), bytes.len() - 1);
        for cut in 0..bytes.len() - 1 {
            assert!(read(&bytes[..cut], &mut back).is_err(), "cut to {cut}");
        }
        bytes.len() - 1
    }

    #[test]
    fn numbers_of_all_lengths_come_back() {
        for n in [1, 31, 32, 33, 1000, 4096] {
            for width in 0..=64 {
                for every in [1, 7, 100] {
                    let number =
                        |i: usize| if i.is_multiple_of(every) { u64::low_mask(width) >> (i % 3) } else { 0 };
                    let numbers: Vec<u64> = (0..n).map(number).collect();
                    round_trip(&numbers);
                    if width <= 32 {
                        round_trip(&numbers.iter().map(|&x| x as u32).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    #[test]
    fn few_numbers_take_few_bytes() {
        assert_eq!(round_trip(&[0u32; 4096]), 4);
        let mut numbers = [0u32; 4096];
        (numbers[1000], numbers[1001]) = (3, 700);
        // Two lengths of gaps and two of numbers, of four bits; then nine, one and nine bits.
        assert_eq!(round_trip(&numbers), 4 + 2 + 3);
        numbers[1000..1004].fill(3);
        numbers[1100..1164].fill(3);
        assert_eq!(round_trip(&numbers), 4 + 16 + 2 + 10 + 68 / 4, "marks");
    }

    #[test]
    fn impossible_counts_are_errors() {
        let mut bytes = vec![1, 0, 1, 0, 1, 1, 1, 1];
        assert_eq!(read(&bytes, &mut [0u32; 5]).unwrap(), 8);
        for (at, value) in [(0, 0), (0, 2), (1, 1), (2, 0), (2, 33), (3, 15), (6, 32)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert!(read(&bytes, &mut [0u32; 5]).is_err(), "byte {at} = {value}");
            bytes[at] = before;
        }
    }

    #[test]
    fn lists_that_lead_too_far_are_errors() {
        // A length of three bits, and the bits below the highest one.
        for (length, low, is_sound) in [(0, 0, true), (3, 0, true), (3, 1, false), (4, 7, false)] {
            let string = length | low << 3;
            assert_eq!(read(&[1, 0, 1, 4, string, 1], &mut [0u32; 5]).is_ok(), is_sound, "{length} {low}");
        }
        assert!(read(&[1, 0, 1, 4, 5, 0], &mut [0u32; 50]).is_err(), "a length above four");
        assert!(read(&[2, 0, 1, 4, 3, 0], &mut [0u32; 6]).is_ok());
        assert!(read(&[2, 0, 1, 4, 3, 0], &mut [0u32; 5]).is_err(), "the second is the sixth");
        let mut many = [0xff; 200];
        (many[1], many[2], many[3]) = (1, 1, 1);
        many[4..].fill(0);
        for (low, is_sound) in [(0, true), (1, false)] {
            many[0] = low;
            assert_eq!(read(&many, &mut [0u32; 300]).is_ok(), is_sound, "{}", 256 + u16::from(low));
        }
    }
}
