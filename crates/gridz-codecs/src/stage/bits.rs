//! Bit strings: consecutive fields, the lowest bit first.

/// Writes fields to the start of some bytes.
pub struct Writer<'a> {
    out: &'a mut [u8],
    /// Bits that are not written yet, fewer than 64 between two calls, and their number.
    waiting: u64,
    n_waiting: u32,
    n_bytes: usize,
}

impl<'a> Writer<'a> {
    /// Starts a string at the start of `out`.
    #[inline(always)]
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { out, waiting: 0, n_waiting: 0, n_bytes: 0 }
    }

    /// Appends the lowest `n_bits` of `value`, up to 64; those above must be zero.
    #[inline(always)]
    pub fn push(&mut self, value: u64, n_bits: u32) {
        self.waiting |= value << self.n_waiting;
        self.n_waiting += n_bits;
        if self.n_waiting >= 64 {
            let n_bytes = self.n_bytes;
            self.out[n_bytes..n_bytes + 8].copy_from_slice(&self.waiting.to_le_bytes());
            self.n_bytes += 8;
            self.n_waiting -= 64;
            // All bits of the value but those that are still waiting have been written.
            let n_written = n_bits - self.n_waiting;
            self.waiting = if n_written < 64 { value >> n_written } else { 0 };
        }
    }

    /// Like [`Writer::push`], but without a branch that depends on the field; for fields of many
    /// lengths. Overwrites bytes after the string.
    #[inline(always)]
    pub fn push_any(&mut self, value: u64, n_bits: u32) {
        let Some(place) = self.out[self.n_bytes..].first_chunk_mut() else { return self.push(value, n_bits) };
        let low = self.waiting | value << self.n_waiting;
        *place = low.to_le_bytes();
        let above = value >> 1 >> (63 - self.n_waiting);
        let n_waiting = self.n_waiting + n_bits;
        let is_full = n_waiting >= 64;
        self.waiting = if is_full { above } else { low };
        self.n_waiting = n_waiting % 64;
        self.n_bytes += 8 * usize::from(is_full);
    }

    /// Pads the last byte with zeros; returns the bytes of the string.
    #[inline(always)]
    pub fn finish(self) -> usize {
        let n_rest = self.n_waiting.div_ceil(8) as usize;
        let rest = self.waiting.to_le_bytes();
        self.out[self.n_bytes..self.n_bytes + n_rest].copy_from_slice(&rest[..n_rest]);
        self.n_bytes + n_rest
    }
}

/// Bytes of a string of `n` fields of `n_bits` each.
pub fn string_bytes(n: usize, n_bits: u32) -> usize {
    (n * n_bits as usize).div_ceil(8)
}

/// Minimum number of bits in a [`window`].
pub const WINDOW_BITS: u32 = 57;

/// The next bits from bit `at` on; bits past the end are zero.
#[inline(always)]
pub fn window(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at / 8..at / 8 + 8) {
        Some(window) => u64::from_le_bytes(*window.first_chunk().expect("eight bytes")) >> (at % 8),
        None => last_window(bytes, at),
    }
}

/// [`window`] at the end of the bytes.
#[cold]
#[inline(never)]
fn last_window(bytes: &[u8], at: usize) -> u64 {
    peek(bytes, at)
}

/// The 64 bits from bit `at` on; bits past the end are zero.
#[inline(always)]
pub fn peek(bytes: &[u8], at: usize) -> u64 {
    let (start, shift) = (at / 8, at % 8);
    if let Some(window) = bytes.get(start..start + 9) {
        let low = u64::from_le_bytes(*window.first_chunk().expect("nine bytes"));
        return low >> shift | u64::from(window[8]) << 1 << (63 - shift);
    }
    let mut window = [0; 16];
    let rest = bytes.get(start..).unwrap_or_default();
    window[..rest.len()].copy_from_slice(rest);
    (u128::from_le_bytes(window) >> shift) as u64
}

/// The 32 bits from bit `at` on; bits past the end are zero.
#[inline(always)]
pub fn peek_32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at / 8..at / 8 + 8) {
        Some(window) => (u64::from_le_bytes(*window.first_chunk().expect("eight bytes")) >> (at % 8)) as u32,
        None => peek(bytes, at) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let fields: Vec<(u64, u32)> = (0..300u32)
            .map(|i| (i * 7 % 65, u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .map(|(n, value)| (if n == 0 { 0 } else { value >> (64 - n) }, n))
            .collect();
        let n_bits: usize = fields.iter().map(|&(_, n)| n as usize).sum();
        let mut out = vec![0xee; n_bits.div_ceil(8)];
        let mut writer = Writer::new(&mut out);
        fields.iter().for_each(|&(value, n)| writer.push(value, n));
        assert_eq!(writer.finish(), out.len());
        let mut same = vec![0xee; out.len()];
        let mut writer = Writer::new(&mut same);
        fields.iter().for_each(|&(value, n)| writer.push_any(value, n));
        assert_eq!(writer.finish(), out.len());
        assert!(same == out);
        let mut at = 0;
        for (value, n) in fields {
            let read = peek(&out, at);
            assert_eq!(if n == 64 { read } else { read & ((1 << n) - 1) }, value);
            at += n as usize;
        }
        assert_eq!(peek(&out, 8 * out.len()), 0);
        assert_eq!(peek(&out, 8 * out.len() + 1000), 0);
    }
}
