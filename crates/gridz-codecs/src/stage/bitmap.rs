//! A bitmap of a block's numbers, encoded in few bytes if few bits are set, or if they are
//! close together.
//!
//! The bits form words of 32. One string says which words are not zero, another which bytes of
//! these words are not zero; these bytes follow. Bits of rows that lie above each other are first
//! XORed, each row with the one before it: borders of regions move little from row to row.

use crate::error::{Error, Result};
use crate::stage::rows::first_lanes;

/// Words of the bitmap of most blocks, which have up to 2^14 numbers.
const FEW_WORDS: usize = (1 << 14) / 32;

/// A bitmap of up to 32·`WORDS` numbers; bits after the last number are zero.
#[derive(Clone)]
pub struct Bitmap<const WORDS: usize = FEW_WORDS> {
    words: [u32; WORDS],
    n: usize,
}

impl<const WORDS: usize> Bitmap<WORDS> {
    /// A bitmap of `n` numbers, all bits clear.
    pub fn new(n: usize) -> Self {
        Self { words: [0; WORDS], n }
    }

    /// Clears the bitmap, for `n` numbers.
    #[inline(always)]
    pub fn restart(&mut self, n: usize) {
        self.n = n;
        self.words_mut().fill(0);
    }

    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        &self.words[..self.n.div_ceil(32)]
    }

    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words[..self.n.div_ceil(32)]
    }

    /// The bits of 32 numbers from number `at` on.
    #[inline(always)]
    pub fn window(&self, at: usize) -> u32 {
        let word = |i: usize| u64::from(self.words.get(i).copied().unwrap_or(0));
        ((word(at / 32) | word(at / 32 + 1) << 32) >> (at % 32)) as u32
    }

    /// The unmarked numbers of word `k`.
    #[inline(always)]
    pub fn others(&self, k: usize) -> u32 {
        !self.words[k] & first_lanes(self.n - 32 * k)
    }

    /// The marked numbers in ascending order.
    #[inline(always)]
    pub fn marked(&self) -> impl Iterator<Item = u32> {
        self.words().iter().enumerate().flat_map(|(k, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let lowest = (left != 0).then(|| 32 * k as u32 + left.trailing_zeros())?;
                left &= left - 1;
                Some(lowest)
            })
        })
    }

    /// The first unmarked number, if any.
    #[inline(always)]
    pub fn first_other(&self) -> Option<usize> {
        let mut k = 0;
        while k < self.words().len() {
            let others = self.others(k);
            if others != 0 {
                return Some(32 * k + others.trailing_zeros() as usize);
            }
            k += 1;
        }
        None
    }

    /// Number of marked numbers.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The bits, each XORed with the one `distance` numbers before it.
    pub fn changes(&self, distance: usize) -> Self {
        let mut changes = self.clone();
        for (i, word) in changes.words_mut().iter_mut().enumerate() {
            *word ^= self.before(i, distance) ^ if distance < 32 { *word << distance } else { 0 };
        }
        changes.clear_end();
        changes
    }

    /// The inverse of [`Bitmap::changes`].
    pub fn undo_changes(&mut self, distance: usize) {
        for i in 0..self.words().len() {
            let mut word = self.words[i] ^ self.before(i, distance);
            // Bits that depend on earlier bits of the same word.
            let mut step = distance;
            while step < 32 {
                word ^= word << step;
                step *= 2;
            }
            self.words[i] = word;
        }
        self.clear_end();
    }

    /// The bits `distance` before those of word `i`, as far as they are in earlier words.
    #[inline(always)]
    fn before(&self, i: usize, distance: usize) -> u32 {
        let at = 32 * i as isize - distance as isize;
        if at <= -32 {
            return 0;
        }
        let (word, bit) = (at.div_euclid(32), at.rem_euclid(32) as u32);
        let get = |k: isize| if k < 0 || k >= i as isize { 0 } else { u64::from(self.words[k as usize]) };
        ((get(word) | get(word + 1) << 32) >> bit) as u32
    }

    fn clear_end(&mut self) {
        let whole = (self.words().len().max(1) - 1) * 32;
        let last = first_lanes(self.n - whole);
        if let Some(word) = self.words_mut().last_mut() {
            *word &= last;
        }
    }

    /// Bytes of the encoded bitmap.
    pub fn n_bytes(&self) -> usize {
        let (mut n_words, mut n_bytes) = (0, 0);
        for word in self.words() {
            n_words += usize::from(*word != 0);
            n_bytes += word.to_le_bytes().iter().filter(|&&byte| byte != 0).count();
        }
        self.words().len().div_ceil(8) + n_words.div_ceil(2) + n_bytes
    }

    /// Encodes the bitmap to the start of `out`.
    pub fn write(&self, out: &mut [u8]) {
        let (presence, rest) = out.split_at_mut(self.words().len().div_ceil(8));
        presence.fill(0);
        let n_words = self.words().iter().filter(|&&word| word != 0).count();
        let (nibbles, bytes) = rest.split_at_mut(n_words.div_ceil(2));
        nibbles.fill(0);
        let (mut k, mut n) = (0, 0);
        for (i, word) in self.words().iter().enumerate() {
            if *word == 0 {
                continue;
            }
            presence[i / 8] |= 1 << (i % 8);
            for (b, byte) in word.to_le_bytes().into_iter().enumerate() {
                if byte != 0 {
                    nibbles[k / 2] |= 1 << (4 * (k % 2) + b);
                    bytes[n] = byte;
                    n += 1;
                }
            }
            k += 1;
        }
    }

    /// Decodes the bitmap of `n` numbers from the start of `bytes`, as [`Bitmap::write`] writes
    /// them; also returns their bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(bytes: &[u8], n: usize) -> Result<(Self, usize)> {
        let mut bitmap = Self::new(n);
        let (presence, rest) = bytes.split_at_checked(n.div_ceil(32).div_ceil(8)).ok_or_else(damage)?;
        let has = |string: &[u8], i: usize| string[i / 8] >> (i % 8) & 1 == 1;
        let n_words = (0..n.div_ceil(32)).filter(|&i| has(presence, i)).count();
        let (nibbles, bytes) = rest.split_at_checked(n_words.div_ceil(2)).ok_or_else(damage)?;
        let (mut k, mut at) = (0, 0);
        for (i, word) in bitmap.words_mut().iter_mut().enumerate() {
            if !has(presence, i) {
                continue;
            }
            for b in 0..4 {
                if has(nibbles, 4 * k + b) {
                    *word |= u32::from(*bytes.get(at).ok_or_else(damage)?) << (8 * b);
                    at += 1;
                }
            }
            k += 1;
        }
        bitmap.check_end()?;
        Ok((bitmap, presence.len() + nibbles.len() + at))
    }

    /// Reads the bitmap of `n` numbers from the start of `bytes`, word by word; also returns their
    /// bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read_plain(bytes: &[u8], n: usize) -> Result<(Self, usize)> {
        let mut bitmap = Self::new(n);
        let n_bytes = 4 * n.div_ceil(32);
        let (words, _) = bytes.get(..n_bytes).ok_or_else(damage)?.as_chunks();
        for (word, bytes) in bitmap.words_mut().iter_mut().zip(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        bitmap.check_end()?;
        Ok((bitmap, n_bytes))
    }

    /// Checks that no number after the last one is marked.
    fn check_end(&self) -> Result<()> {
        match self.words().last() {
            Some(last) if last & !first_lanes(self.n - 32 * (self.words().len() - 1)) != 0 => Err(damage()),
            _ => Ok(()),
        }
    }
}

fn damage() -> Error {
    Error::corrupt("a bitmap is damaged: it is incomplete, or has bits after its last number")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bitmap(n: usize, mark: impl Fn(usize) -> bool) -> Bitmap {
        let mut bitmap = Bitmap::new(n);
        (0..n).filter(|&i| mark(i)).for_each(|i| bitmap.words_mut()[i / 32] |= 1 << (i % 32));
        bitmap
    }

    fn has(bitmap: &Bitmap, i: usize) -> bool {
        bitmap.words()[i / 32] >> (i % 32) & 1 == 1
    }

    const LENGTHS: [usize; 7] = [1, 31, 32, 33, 100, 4096, 1 << 14];

    #[test]
    fn bitmaps_come_back() {
        for n in LENGTHS {
            for every in [1, 2, 7, 50, 1000, 1 << 15] {
                let bitmap = bitmap(n, |i| i % every == every / 2);
                assert_eq!(bitmap.count(), (0..n).filter(|i| i % every == every / 2).count());
                let mut bytes = vec![0xee; bitmap.n_bytes()];
                bitmap.write(&mut bytes);
                let longer = [&bytes[..], &[0xff; 5]].concat();
                let (back, n_bytes) = <Bitmap>::read(&longer, n).unwrap();
                assert_eq!((back.words(), n_bytes), (bitmap.words(), bytes.len()));
                for cut in 0..bytes.len() {
                    assert!(<Bitmap>::read(&bytes[..cut], n).is_err());
                }
            }
        }
    }

    #[test]
    fn changes_are_undone() {
        for n in LENGTHS {
            for distance in [1, 2, 3, 7, 31, 32, 33, 64, 100, 5000] {
                let bitmap = bitmap(n, |i| (i * i / 7 + i / 5) % 3 == 0);
                let mut back = bitmap.changes(distance);
                let change = |i: usize| has(&bitmap, i) != (i >= distance && has(&bitmap, i - distance));
                assert!((0..n).all(|i| has(&back, i) == change(i)), "{n} {distance}");
                back.undo_changes(distance);
                assert_eq!(back.words(), bitmap.words(), "{n} {distance}");
            }
        }
    }

    #[test]
    fn bits_after_the_last_number_are_damage() {
        assert!(<Bitmap>::read(&[1, 1, 0x10], 5).is_ok_and(|(bitmap, _)| has(&bitmap, 4)));
        assert!(<Bitmap>::read(&[1, 1, 0x20], 5).is_err());
        assert!(<Bitmap>::read_plain(&[0x10, 0, 0, 0], 5).is_ok());
        assert!(<Bitmap>::read_plain(&[0x20, 0, 0, 0], 5).is_err());
        assert!(<Bitmap>::read_plain(&[0, 0, 0], 5).is_err());
    }
}
