//! A binary range coder, combined with a string of plain bits, which have no model.
//!
//! Both share one piece of memory: coded 32-bit words from the front, plain 64-bit words from the
//! back.

use crate::stage::rows::{KEYS, Keys};

/// The range is scaled up when it is below this.
const LEAST_RANGE: u64 = 1 << 32;
/// Bytes of the words that end the coded string.
pub const END_BYTES: usize = 8;

/// A range encoder or decoder. A decoder ignores the value passed in.
pub trait Coder {
    /// True if the values are known before they are coded.
    const KNOWS: bool;
    /// Whether everything so far had room (encoder) or was present (decoder). If not, all further
    /// results are meaningless.
    fn is_sound(&self) -> bool;
    /// Codes a bit and returns it. It is 1 with a probability of p / 2^16, where p is 1 to 2^16 −
    /// 1.
    fn bit(&mut self, p: u32, bit: bool) -> bool;
    /// Codes a symbol below 16 and returns it. `starts` are the cumulative frequencies, out of
    /// 2^16.
    fn symbol<K: Keys>(&mut self, k: K, starts: &[u16; KEYS], symbol: usize) -> usize;
    /// Codes the low `n` bits of a number without a model, where `n` is up to 64. Returns them; the
    /// other bits are 0.
    fn plain(&mut self, n: u32, bits: u64) -> u64;
}

/// Writes to some memory. Once that is full, it writes nothing more.
pub struct Encoder<'a> {
    out: &'a mut [u8],
    /// Positions of the next coded word and of the last plain word.
    front: usize,
    back: usize,
    is_full: bool,
    low: u64,
    range: u64,
    bits: u64,
    n_bits: u32,
}

impl<'a> Encoder<'a> {
    /// Encodes into `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        let back = out.len();
        Self { out, front: 0, back, is_full: false, low: 0, range: u64::MAX, bits: 0, n_bits: 0 }
    }

    /// Ends both strings. Returns the bytes of the coded and of the plain one; `None` if the memory
    /// was too small.
    pub fn finish(mut self) -> Option<(usize, usize)> {
        for _ in 0..END_BYTES / 4 {
            self.put_coded();
        }
        if self.n_bits > 0 {
            self.put_plain();
        }
        (!self.is_full).then_some((self.front, self.out.len() - self.back))
    }

    /// Approximate bits written so far.
    pub fn n_bits(&self) -> u64 {
        if self.is_full { u64::MAX } else { 8 * (self.front + self.out.len() - self.back) as u64 }
    }

    fn put_coded(&mut self) {
        match self.out[..self.back].get_mut(self.front..).and_then(|out| out.first_chunk_mut()) {
            Some(word) => {
                *word = ((self.low >> 32) as u32).to_be_bytes();
                self.front += 4;
            }
            None => self.is_full = true,
        }
        self.low <<= 32;
    }

    fn put_plain(&mut self) {
        match self.out[self.front..self.back].last_chunk_mut() {
            Some(word) => {
                *word = self.bits.to_le_bytes();
                self.back -= 8;
            }
            None => self.is_full = true,
        }
    }

    /// Propagates a carry into the coded words.
    #[cold]
    fn carry(&mut self) {
        for byte in self.out[..self.front].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }
}

impl Coder for Encoder<'_> {
    const KNOWS: bool = true;

    fn is_sound(&self) -> bool {
        !self.is_full
    }

    #[inline(always)]
    fn bit(&mut self, p: u32, bit: bool) -> bool {
        let bound = (self.range >> 16) * u64::from(p);
        // Branch-free: most bits are unpredictable.
        let zero = u64::from(bit).wrapping_sub(1);
        let (low, overflows) = self.low.overflowing_add(bound & zero);
        self.low = low;
        self.range = (bound ^ zero).wrapping_add(zero & self.range.wrapping_add(1));
        if overflows {
            self.carry();
        }
        if self.range < LEAST_RANGE {
            self.put_coded();
            self.range <<= 32;
        }
        bit
    }

    #[inline(always)]
    fn symbol<K: Keys>(&mut self, _: K, starts: &[u16; KEYS], symbol: usize) -> usize {
        let unit = self.range >> 16;
        let start = unit * u64::from(starts[symbol]);
        // The last symbol has the rest of the range.
        let end = starts.get(symbol + 1).map_or(self.range, |&next| unit * u64::from(next));
        let (low, overflows) = self.low.overflowing_add(start);
        self.low = low;
        self.range = end - start;
        if overflows {
            self.carry();
        }
        if self.range < LEAST_RANGE {
            self.put_coded();
            self.range <<= 32;
        }
        symbol
    }

    #[inline(always)]
    fn plain(&mut self, n: u32, bits: u64) -> u64 {
        let bits = bits & low_bits(n);
        self.bits |= bits << self.n_bits;
        self.n_bits += n;
        if self.n_bits >= 64 {
            self.put_plain();
            self.n_bits -= 64;
            self.bits = bits.checked_shr(n - self.n_bits).unwrap_or(0);
        }
        bits
    }
}

/// Reads the output of an [`Encoder`]. Bytes past the ends are read as zeros.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
    /// Number of words read past the ends.
    n_missing: usize,
    code: u64,
    range: u64,
    bits: u64,
    n_bits: u32,
}

impl<'a> Decoder<'a> {
    /// The coded words are at the start of `bytes`, the plain ones at its end.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut this =
            Self { bytes, front: 0, back: bytes.len(), n_missing: 0, code: 0, range: u64::MAX, bits: 0, n_bits: 0 };
        this.take_coded();
        this.take_coded();
        this
    }

    #[inline(always)]
    fn take_coded(&mut self) {
        let word = match self.bytes.get(self.front..).and_then(|bytes| bytes.first_chunk()) {
            Some(word) => u32::from_be_bytes(*word),
            None => {
                self.n_missing += 1;
                0
            }
        };
        self.front = (self.front + 4).min(self.bytes.len());
        self.code = self.code << 32 | u64::from(word);
    }

    #[inline(always)]
    fn take_plain(&mut self) -> u64 {
        match self.bytes[..self.back].last_chunk() {
            Some(word) => {
                self.back -= 8;
                u64::from_le_bytes(*word)
            }
            None => {
                self.n_missing += 1;
                0
            }
        }
    }
}

impl Coder for Decoder<'_> {
    const KNOWS: bool = false;

    fn is_sound(&self) -> bool {
        self.n_missing == 0 && self.front <= self.back
    }

    #[inline(always)]
    fn bit(&mut self, p: u32, _: bool) -> bool {
        let bound = (self.range >> 16) * u64::from(p);
        let bit = self.code < bound;
        // Branch-free: most bits are unpredictable.
        let zero = u64::from(bit).wrapping_sub(1);
        self.code -= bound & zero;
        self.range = (bound ^ zero).wrapping_add(zero & self.range.wrapping_add(1));
        if self.range < LEAST_RANGE {
            self.take_coded();
            self.range <<= 32;
        }
        bit
    }

    #[inline(always)]
    fn symbol<K: Keys>(&mut self, k: K, starts: &[u16; KEYS], _: usize) -> usize {
        let unit = self.range >> 16;
        let value = (self.code / unit).min(u64::from(u16::MAX)) as u16;
        // The first symbol starts at 0, so at least one start is not above `value`.
        let symbol = k.not_above(starts, value) as usize - 1;
        let start = unit * u64::from(starts[symbol]);
        let end = starts.get(symbol + 1).map_or(self.range, |&next| unit * u64::from(next));
        self.code -= start;
        self.range = end - start;
        if self.range < LEAST_RANGE {
            self.take_coded();
            self.range <<= 32;
        }
        symbol
    }

    #[inline(always)]
    fn plain(&mut self, n: u32, _: u64) -> u64 {
        let mut bits = self.bits;
        if n > self.n_bits {
            let word = self.take_plain();
            bits |= word.checked_shl(self.n_bits).unwrap_or(0);
            let used = n - self.n_bits;
            self.bits = word.checked_shr(used).unwrap_or(0);
            self.n_bits = 64 - used;
        } else {
            self.bits = self.bits.checked_shr(n).unwrap_or(0);
            self.n_bits -= n;
        }
        bits & low_bits(n)
    }
}

/// The lowest `n` bits set, for `n` up to 64.
#[inline(always)]
fn low_bits(n: u32) -> u64 {
    u64::MAX.checked_shr(64 - n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes bits and numbers of all lengths; returns how many results are as expected.
    fn all<C: Coder>(coder: &mut C, n: u64) -> u64 {
        let mut x = 1u64;
        let mut sum = 0;
        for i in 0..n {
            x = x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let p = [1, 65535, 32768, 100, 65000][(i % 5) as usize];
            let bit = (x >> 48) < u64::from(p);
            sum += u64::from(coder.bit(p, bit) == bit);
            let (n, bits) = ((i % 65) as u32, x);
            let mask = if n == 0 { 0 } else { u64::MAX >> (64 - n) };
            sum += u64::from(coder.plain(n, bits) == bits & mask);
        }
        sum
    }

    #[test]
    fn what_is_written_comes_back() {
        let mut bytes = vec![0; 1 << 20];
        let mut encoder = Encoder::new(&mut bytes);
        all(&mut encoder, 20_000);
        let (coded, plain) = encoder.finish().unwrap();
        let end = bytes.len() - plain;
        let joined = [&bytes[..coded], &bytes[end..]].concat();
        let mut decoder = Decoder::new(&joined);
        assert_eq!(all(&mut decoder, 20_000), 40_000);
        assert!(decoder.is_sound());
        all(&mut decoder, 100);
        assert!(!decoder.is_sound());
    }

    #[test]
    fn too_little_memory_is_an_error() {
        for n in [0, 1, 7, 100, 1000] {
            let mut bytes = vec![0; n];
            let mut encoder = Encoder::new(&mut bytes);
            all(&mut encoder, 2000);
            assert!(encoder.finish().is_none());
        }
    }
}
