//! Sparse numbers: marks of those that are not zero, and these.

use crate::error::{Error, Result};
use crate::stage::bits::{Writer, string_bytes, window};
use crate::stage::marks::Marks;
use crate::stage::word::Word;

/// Bytes in front of the marks: how many numbers are not zero, and their bits.
const HEADER: usize = 4;

/// How some numbers will be coded.
pub struct Coding {
    marks: Marks,
    count: usize,
    width: u32,
}

impl Coding {
    /// Looks at numbers.
    #[inline(always)]
    pub fn choose<W: Word>(numbers: &[W]) -> Self {
        let mut marks = Marks::new(numbers.len());
        let (mut any, mut count) = (W::default(), 0);
        for (mark, numbers) in marks.words_mut().iter_mut().zip(numbers.chunks(32)) {
            for (i, &number) in numbers.iter().enumerate() {
                any |= number;
                *mark |= u32::from(number != W::default()) << i;
            }
            count += mark.count_ones() as usize;
        }
        Self { marks, count, width: any.bit_length() }
    }

    /// Bytes of the numbers.
    pub fn n_bytes(&self) -> usize {
        HEADER + self.marks.n_bytes() + string_bytes(self.count, self.width)
    }

    /// Writes the numbers that were looked at to `out`, which has exactly [`Coding::n_bytes`].
    pub fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let (header, rest) = out.split_at_mut(HEADER);
        header[..2].copy_from_slice(&(self.count as u16).to_le_bytes());
        header[2..].copy_from_slice(&[self.width as u8, 0]);
        let (marks, string) = rest.split_at_mut(self.marks.n_bytes());
        self.marks.write(marks);
        let mut string = Writer::new(string);
        for number in numbers.iter().filter(|&&number| number != W::default()) {
            string.push(number.to_u64(), self.width);
        }
        string.finish();
    }
}

/// Reads as many numbers as there are, which are coded at the start of `bytes`, and returns their bytes.
///
/// # Errors
/// `Corrupt`.
pub fn read<W: Word>(bytes: &[u8], numbers: &mut [W]) -> Result<usize> {
    let damage = || Error::corrupt("sparse numbers have impossible counts or end too early");
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or_else(damage)?;
    let (count, width) = (usize::from(u16::from_le_bytes([header[0], header[1]])), u32::from(header[2]));
    let (marks, n_marks) = Marks::read(rest, numbers.len())?;
    let n_string = string_bytes(count, width);
    let is_sound = header[3] == 0 && width <= W::BITS && (width == 0) == (count == 0) && marks.count() == count;
    let string = rest[n_marks..].get(..n_string).filter(|_| is_sound).ok_or_else(damage)?;
    numbers.fill(W::default());
    let mut at = 0;
    for (k, &word) in marks.words().iter().enumerate() {
        let mut left = word;
        while left != 0 {
            // A window may have fewer bits than the longest number.
            let low = W::from_u64(window(string, at)) & W::low_mask(width.min(32));
            let high =
                if width > 32 { W::from_u64(window(string, at + 32) << 32) & W::low_mask(width) } else { low };
            numbers[32 * k + left.trailing_zeros() as usize] = low | high;
            at += width as usize;
            left &= left - 1;
        }
    }
    Ok(HEADER + n_marks + n_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> usize {
        let coding = Coding::choose(numbers);
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
        assert_eq!(round_trip(&[0u32; 4096]), 4 + 16);
        let mut numbers = [0u32; 4096];
        numbers[1000..1004].fill(3);
        assert_eq!(round_trip(&numbers), 4 + 16 + 1 + 1 + 1);
    }

    #[test]
    fn impossible_counts_are_errors() {
        let mut bytes = vec![1, 0, 1, 0, 1, 1, 1, 1];
        assert_eq!(read(&bytes, &mut [0u32; 5]).unwrap(), 8);
        for (at, value) in [(0, 0), (0, 2), (1, 1), (2, 0), (2, 33), (3, 1), (6, 32)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert!(read(&bytes, &mut [0u32; 5]).is_err(), "byte {at} = {value}");
            bytes[at] = before;
        }
    }
}
