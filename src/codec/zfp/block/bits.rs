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

    #[inline(always)]
    fn store(&mut self) {
        if let Some(word) = self.words.get_mut(self.position / 64) {
            *word = self.waiting.to_le_bytes();
        }
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
