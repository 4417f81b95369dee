//! Bit strings in 64-bit words, lowest bit first, stored as little-endian bytes.

use crate::stage::bits;

/// The lowest `n` bits.
#[inline(always)]
pub fn low_mask(n: u32) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

/// Appends bits. Bits after the end of its buffer are discarded, but counted.
pub struct BitWriter<'a> {
    words: &'a mut [[u8; 8]],
    /// The partial word.
    waiting: u64,
    position: usize,
}

impl<'a> BitWriter<'a> {
    /// Writes to whole words of these bytes, from bit `start` on. Preserves the lower bits of the
    /// first word.
    pub fn new(bytes: &'a mut [u8], start: usize) -> Self {
        let (words, _) = bytes.as_chunks_mut();
        let before = words.get(start / 64).map_or(0, |word| u64::from_le_bytes(*word));
        Self { words, waiting: before & low_mask(start as u32 % 64), position: start }
    }

    /// Index of the next bit, from the start of the buffer.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position
    }

    /// True if some bits did not fit.
    pub fn ran_out(&self) -> bool {
        self.position > 64 * self.words.len()
    }

    /// Writes the lowest `n` ≤ 64 bits of `value`; its other bits must be zero.
    #[inline(always)]
    pub fn put(&mut self, value: u64, n: u32) {
        let before = self.position % 64;
        self.waiting |= value << before;
        if before + n as usize >= 64 {
            self.store();
            // The bits of the value that did not fit. None remain if the word was empty.
            self.waiting = value >> 1 >> (63 - before);
        }
        self.position += n as usize;
    }

    /// Writes `n` zeros.
    pub fn put_zeros(&mut self, mut n: u32) {
        while n > 0 {
            let few = n.min(64);
            self.put(0, few);
            n -= few;
        }
    }

    /// Writes the partial word, padded with zeros.
    pub fn finish(mut self) {
        if !self.position.is_multiple_of(64) {
            self.store();
        }
    }

    /// True if there is enough room for [`BitWriter::in_room`].
    pub fn has_room(&self) -> bool {
        self.words.len().saturating_sub(self.position / 64) >= ROOM
    }

    /// Lets `write` write a group of blocks to a [`Room`]. Returns the number of bits.
    ///
    /// # Panics
    /// If [`BitWriter::has_room`] is false.
    #[inline(always)]
    pub fn in_room(&mut self, write: impl FnOnce(&mut Room)) -> u32 {
        let words = self.words[self.position / 64..].first_chunk_mut().expect("room for a group");
        let before = self.position % 64;
        let mut room = Room { words, position: before };
        room.store(0, self.waiting);
        write(&mut room);
        let n_bits = room.position - before;
        self.waiting = room.word(room.position / 64);
        self.position += n_bits;
        n_bits as u32
    }

    #[inline(always)]
    fn store(&mut self) {
        if let Some(word) = self.words.get_mut(self.position / 64) {
            *word = self.waiting.to_le_bytes();
        }
    }
}

/// Words that a group of blocks never exceeds.
const ROOM: usize = 1024;

/// A buffer for a group of blocks. Positions are relative to the word in which the group begins.
/// The bits of the current word from the position on are zero, and later words have arbitrary
/// contents. So bits are added to the current word, and later words are overwritten, without
/// branches.
pub struct Room<'a> {
    words: &'a mut [[u8; 8]; ROOM],
    position: usize,
}

impl Room<'_> {
    /// Index of the next bit, from the start of the buffer.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.words[at % ROOM])
    }

    #[inline(always)]
    fn store(&mut self, at: usize, word: u64) {
        self.words[at % ROOM] = word.to_le_bytes();
    }

    /// Writes the lowest `n` ≤ 64 bits of `value`; its other bits must be zero.
    #[inline(always)]
    pub fn put(&mut self, value: u64, n: u32) {
        let (at, before) = (self.position / 64, self.position % 64);
        self.store(at, self.word(at) | value << before);
        self.store(at + 1, value >> 1 >> (63 - before));
        self.position += n as usize;
    }

    /// Writes eight bit strings, the last one first. String `i` is given as three words from word
    /// `at[i]` on; that is the word in which the previous string ends, or a later one. The last bit
    /// must be before `end`.
    #[inline(always)]
    pub fn put_eight(&mut self, at: &[u64; 8], bits: &[[u64; 8]; 3], end: usize) {
        // The words of the previous string stay in registers: reading them again would take longer
        // than everything else.
        let mut last = self.position / 64;
        let mut words = [self.word(last), 0, 0];
        for i in (0..8).rev() {
            let at = at[i] as usize;
            let started = match at.wrapping_sub(last) {
                0 => words[0],
                1 => words[1],
                _ => words[2],
            };
            (last, words) = (at, [started | bits[0][i], bits[1][i], bits[2][i]]);
            if let Some(to) = self.words.get_mut(at..at + 3) {
                to.copy_from_slice(&words.map(u64::to_le_bytes));
            }
        }
        self.position = end;
    }

    /// Removes the bits from `end` on, if any. Then writes zeros up to `least`.
    #[inline(always)]
    pub fn end_at(&mut self, end: usize, least: usize) {
        self.position = self.position.min(end);
        let (at, n) = (self.position / 64, self.position as u32 % 64);
        self.store(at, self.word(at) & low_mask(n));
        while self.position < least {
            self.put(0, (least - self.position).min(64) as u32);
        }
    }

    /// All bytes, including those of the partial word.
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_flattened()[..(self.position / 64 % ROOM + 1) * 8]
    }
}

/// Reads consecutive bits. After the end of the bytes, all bits are zero.
#[derive(Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Reads from bit `start` on.
    pub fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, position: start }
    }

    /// Index of the next bit, from the start of the bytes.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next 64 bits, which are not consumed.
    #[inline(always)]
    pub fn peek(&self) -> u64 {
        bits::peek(self.bytes, self.position)
    }

    /// Skips `n` bits.
    #[inline(always)]
    pub fn skip(&mut self, n: u32) {
        self.position += n as usize;
    }

    /// The next `n` ≤ 64 bits.
    #[inline(always)]
    pub fn take(&mut self, n: u32) -> u64 {
        let bits = self.peek() & low_mask(n);
        self.skip(n);
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_from_any_start() {
        let fields: Vec<(u64, u32)> = (0..200u32)
            .map(|i| (u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15), i * 7 % 65))
            .map(|(value, n)| (value & low_mask(n), n))
            .collect();
        let n_bits: usize = fields.iter().map(|&(_, n)| n as usize).sum();
        for start in [0, 1, 63, 64, 100] {
            let mut bytes = vec![0xff; (start + n_bits).div_ceil(64) * 8];
            let mut out = BitWriter::new(&mut bytes, start);
            fields.iter().for_each(|&(value, n)| out.put(value, n));
            assert_eq!(out.position(), start + n_bits);
            assert!(!out.ran_out());
            out.finish();
            let mut bits = BitReader::new(&bytes, 0);
            for _ in 0..start {
                assert_eq!(bits.take(1), 1);
            }
            fields.iter().for_each(|&(value, n)| assert_eq!(bits.take(n), value));
            assert_eq!(bits.take(64), 0, "the rest of the last word, and the bits after it");
        }
    }

    #[test]
    fn no_room_is_noticed() {
        let mut bytes = [0xee; 19];
        let mut out = BitWriter::new(&mut bytes, 120);
        out.put(0xff, 8);
        assert!(!out.ran_out());
        out.put(1, 1);
        out.put_zeros(1000);
        assert!(out.ran_out());
        assert_eq!(out.position(), 1129);
        out.finish();
        assert_eq!(bytes[15..], [0xff, 0xee, 0xee, 0xee]);
        BitWriter::new(&mut bytes, 100_000).finish();
    }
}
