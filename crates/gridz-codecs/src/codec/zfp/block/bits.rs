//! Bit strings in words of 64 bits, lowest bit first, as the bytes of little-endian words.

use crate::stage::bits;

/// The lowest `n` bits.
#[inline(always)]
pub fn low_mask(n: u32) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

/// Writes bits behind each other. It writes nothing behind the end of its room, but counts on.
pub struct BitWriter<'a> {
    words: &'a mut [[u8; 8]],
    /// The word that is being filled.
    waiting: u64,
    position: usize,
}

impl<'a> BitWriter<'a> {
    /// Writes to whole words of these bytes, from bit `start` on. Bits of its word below that are kept.
    pub fn new(bytes: &'a mut [u8], start: usize) -> Self {
        let (words, _) = bytes.as_chunks_mut();
        let before = words.get(start / 64).map_or(0, |word| u64::from_le_bytes(*word));
        Self { words, waiting: before & low_mask(start as u32 % 64), position: start }
    }

    /// Bits from the start of the room to the next bit.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether there was no room for some bits.
    pub fn ran_out(&self) -> bool {
        self.position > 64 * self.words.len()
    }

    /// Writes the lowest `n` ≤ 64 bits of `value`, which has no others.
    #[inline(always)]
    pub fn put(&mut self, value: u64, n: u32) {
        let before = self.position % 64;
        self.waiting |= value << before;
        if before + n as usize >= 64 {
            self.store();
            // All bits of the value but those that did not fit; all of it fitted if the word was empty.
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

    /// Writes the word that is not full, with zeros behind the last bit.
    pub fn finish(mut self) {
        if !self.position.is_multiple_of(64) {
            self.store();
        }
    }

    /// Whether there is as much room as [`BitWriter::in_room`] wants.
    pub fn has_room(&self) -> bool {
        self.words.len().saturating_sub(self.position / 64) >= ROOM
    }

    /// Has a group of blocks written to a [`Room`]; the number of bits.
    ///
    /// # Panics
    /// If there is no such room.
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

/// Words that a group of blocks never fills.
const ROOM: usize = 1024;

/// Room for a group of blocks. Positions are counted from the word in which it begins. The bits of that word from the
/// position on are zero, and what is in the words behind it does not matter: so bits are added to a word, and the words
/// behind it written, without a decision.
pub struct Room<'a> {
    words: &'a mut [[u8; 8]; ROOM],
    position: usize,
}

impl Room<'_> {
    /// Bits from the start of the room to the next bit.
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

    /// Writes the lowest `n` ≤ 64 bits of `value`, which has no others.
    #[inline(always)]
    pub fn put(&mut self, value: u64, n: u32) {
        let (at, before) = (self.position / 64, self.position % 64);
        self.store(at, self.word(at) | value << before);
        self.store(at + 1, value >> 1 >> (63 - before));
        self.position += n as usize;
    }

    /// Writes eight strings of bits, the last one first, each in three words from word `at` on, in which the one before ends,
    /// or which is behind that. The last bit is before `end`.
    #[inline(always)]
    pub fn put_eight(&mut self, at: &[u64; 8], bits: &[[u64; 8]; 3], end: usize) {
        // The words of the string before are kept in registers: to read them again takes longer than all the rest.
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

    /// Takes bits from `end` on back, if there are any, or writes zeros up to `least`.
    #[inline(always)]
    pub fn end_at(&mut self, end: usize, least: usize) {
        self.position = self.position.min(end);
        let (at, n) = (self.position / 64, self.position as u32 % 64);
        self.store(at, self.word(at) & low_mask(n));
        while self.position < least {
            self.put(0, (least - self.position).min(64) as u32);
        }
    }

    /// All bytes, up to those of the word that is being filled.
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_flattened()[..(self.position / 64 % ROOM + 1) * 8]
    }
}

/// Reads bits behind each other. Behind the end of the bytes all bits are zero.
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

    /// Bits from the start of the bytes to the next bit.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next 64 bits, which stay.
    #[inline(always)]
    pub fn peek(&self) -> u64 {
        bits::peek(self.bytes, self.position)
    }

    /// Leaves `n` bits out.
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
            assert_eq!(bits.take(64), 0, "the rest of the last word, and what is behind it");
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
