//! The frequencies of a context's symbols, in units of 2^-10, and the format of their table.
//!
//! The frequency of the most frequent symbol is the total minus all other frequencies. These have
//! four significant bits: a share that is wrong by 1/16 costs less than the bits that would correct
//! it.

use crate::error::{Error, Result};
use crate::stage::bits::{Writer, peek};

/// Base-2 logarithm of the sum of all frequencies.
pub const LOG2_TOTAL: u32 = 10;
const TOTAL: u32 = 1 << LOG2_TOTAL;
/// Maximum number of symbols of a context.
pub const MAX_SYMBOLS: usize = 132;
/// Bits of the field for a symbol or a number of symbols, and of the field for a frequency's bit
/// length.
const SYMBOL_BITS: u32 = 8;
const LENGTH_BITS: u32 = 4;
/// Bits stored of a frequency below its highest one.
const KEPT: u32 = 3;
/// The fraction of a frequency's base-2 logarithm, by its [`KEPT`] bits, in 1/256 of a bit.
const LOG2_256THS: [u32; 1 << KEPT] = [0, 44, 82, 118, 150, 179, 207, 232];
/// Maximum number of bits of a context's table.
pub const TABLE_BITS: usize = 2 * SYMBOL_BITS as usize + MAX_SYMBOLS * (LENGTH_BITS + KEPT) as usize;

/// Marks a slot without symbol.
pub const NO_SYMBOL: u8 = u8::MAX;
/// In a slot's entry, the shifts of the frequency and of the slot's distance from the symbol's
/// first slot. The symbol is in the bits below.
pub const FREQUENCY_AT: u32 = 8;
pub const DISTANCE_AT: u32 = FREQUENCY_AT + FREQUENCY_BITS;
/// Bits of the frequency in a slot's entry.
pub const FREQUENCY_BITS: u32 = 12;

/// The frequencies of a context's symbols. All are zero, or their sum is [`TOTAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequencies {
    of: [u16; MAX_SYMBOLS],
    /// The most frequent symbol; its frequency is the total minus all others.
    rest: u8,
}

fn length(frequency: u16) -> u32 {
    u16::BITS - frequency.leading_zeros()
}

/// Clears all but the significant bits that are kept.
fn cut(frequency: u32) -> u16 {
    let below = length(frequency as u16).saturating_sub(KEPT + 1);
    (frequency >> below << below) as u16
}

impl Frequencies {
    /// Computes the frequencies of symbols with these counts.
    pub fn new(counts: &[u32; MAX_SYMBOLS]) -> Self {
        let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
        let mut of = [0; MAX_SYMBOLS];
        if total == 0 {
            return Self { of, rest: 0 };
        }
        let rest = first_largest(counts);
        for (frequency, &n) in of.iter_mut().zip(counts) {
            let share = (u64::from(n) << LOG2_TOTAL) / total;
            *frequency = if n > 0 { cut(share.max(1) as u32) } else { 0 };
        }
        of[rest] = 0;
        let mut others: u32 = of.iter().map(|&frequency| u32::from(frequency)).sum();
        while others >= TOTAL {
            let largest = &mut of[first_largest(&of)];
            let half = cut(u32::from(*largest / 2));
            others -= u32::from(*largest - half);
            *largest = half;
        }
        of[rest] = (TOTAL - others) as u16;
        Self { of, rest: rest as u8 }
    }

    /// Whether the context has any symbols.
    fn are_any(&self) -> bool {
        self.of[usize::from(self.rest)] > 0
    }

    /// Estimates the bits of the table and of symbols with these counts.
    pub fn bits(&self, counts: &[u32; MAX_SYMBOLS]) -> u64 {
        let (mut table, mut symbols) = (2 * SYMBOL_BITS, 0);
        for (&frequency, &n) in self.of.iter().zip(counts).filter(|&(&frequency, _)| frequency > 0) {
            let length = length(frequency) - 1;
            let below = u32::from(frequency) << KEPT >> length & ((1 << KEPT) - 1);
            symbols += u64::from(n) * u64::from(((LOG2_TOTAL - length) << 8) - LOG2_256THS[below as usize]);
            table += LENGTH_BITS + KEPT.min(length);
        }
        u64::from(table) + (symbols >> 8)
    }

    /// Appends the table.
    pub fn write(&self, bits: &mut Writer) {
        let n = if self.are_any() {
            self.of.iter().rposition(|&frequency| frequency > 0).map_or(0, |at| at + 1)
        } else {
            0
        };
        bits.push(n as u64, SYMBOL_BITS);
        if n == 0 {
            return;
        }
        bits.push(self.rest.into(), SYMBOL_BITS);
        for (symbol, &frequency) in self.of[..n].iter().enumerate() {
            if symbol == usize::from(self.rest) {
                continue;
            }
            let length = length(frequency);
            bits.push(length.into(), LENGTH_BITS);
            if length > 1 {
                let kept = KEPT.min(length - 1);
                bits.push(u64::from(frequency >> (length - 1 - kept)) & ((1 << kept) - 1), kept);
            }
        }
    }

    /// Reads the table at bit `at` of some bytes and moves `at` past it. Bits past the end are
    /// zero.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(bytes: &[u8], at: &mut usize) -> Result<Self> {
        let damage = || Error::corrupt("a block is damaged: a table of frequencies is invalid");
        let mut take = |n: u32| {
            let value = peek(bytes, *at) & ((1 << n) - 1);
            *at += n as usize;
            value
        };
        let mut of = [0; MAX_SYMBOLS];
        let n = take(SYMBOL_BITS) as usize;
        if n == 0 {
            return Ok(Self { of, rest: 0 });
        }
        let rest = take(SYMBOL_BITS) as usize;
        if n > MAX_SYMBOLS || rest >= n {
            return Err(damage());
        }
        let mut others = 0;
        for (symbol, frequency) in of[..n].iter_mut().enumerate() {
            if symbol == rest {
                continue;
            }
            let length = take(LENGTH_BITS) as u32;
            if length > LOG2_TOTAL {
                return Err(damage());
            }
            if length > 0 {
                let kept = KEPT.min(length - 1);
                *frequency = ((1 << kept | take(kept)) << (length - 1 - kept)) as u16;
            }
            others += u32::from(*frequency);
        }
        if others >= TOTAL {
            return Err(damage());
        }
        of[rest] = (TOTAL - others) as u16;
        Ok(Self { of, rest: rest as u8 })
    }

    /// Slot ranges: the first slot of each symbol and, in the upper half, its frequency.
    pub fn ranges(&self) -> [u32; MAX_SYMBOLS] {
        let mut start = 0;
        self.of.map(|frequency| {
            let range = start | u32::from(frequency) << 16;
            start += u32::from(frequency);
            range
        })
    }

    /// Writes the entries of all slots, by which a decoder finds symbols.
    pub fn fill(&self, slots: &mut [u32]) {
        let mut left = slots;
        for (symbol, &frequency) in self.of.iter().enumerate() {
            let (own, rest) = left.split_at_mut(frequency.into());
            for (distance, slot) in own.iter_mut().enumerate() {
                *slot = symbol as u32 | u32::from(frequency) << FREQUENCY_AT | (distance as u32) << DISTANCE_AT;
            }
            left = rest;
        }
        // A context without symbols.
        left.fill(NO_SYMBOL.into());
    }
}

/// Builds the histogram of symbols in each context. A symbol has its context in the bits above it.
/// Of values below the power of two `IN_CONTEXTS`, those that are in no context are ignored.
#[inline(never)] // the vector instructions of the caller are of no use here
pub fn count<const CONTEXTS: usize, const IN_CONTEXTS: usize>(symbols: &[u16]) -> [[u32; MAX_SYMBOLS]; CONTEXTS] {
    // Nearby symbols are often equal: with four tables, no increment waits for the one before.
    let mut counts = [[0; IN_CONTEXTS]; 4];
    let (fours, last) = symbols.as_chunks::<4>();
    for four in fours {
        for (counts, &symbol) in counts.iter_mut().zip(four) {
            counts[usize::from(symbol) % IN_CONTEXTS] += 1;
        }
    }
    for &symbol in last {
        counts[0][usize::from(symbol) % IN_CONTEXTS] += 1;
    }
    let mut sums = [[0; MAX_SYMBOLS]; CONTEXTS];
    for (context, sums) in sums.iter_mut().enumerate() {
        add_quarters(counts.each_ref().map(|counts| &counts[context << u8::BITS..]), sums);
    }
    sums
}

/// Adds the counts of four tables.
#[inline(never)]
pub fn add_quarters([a, b, c, d]: [&[u32]; 4], sums: &mut [u32]) {
    let n = sums.len();
    for ((((sum, a), b), c), d) in sums.iter_mut().zip(&a[..n]).zip(&b[..n]).zip(&c[..n]).zip(&d[..n]) {
        *sum = a + b + c + d;
    }
}

/// Splits a slot's entry: the symbol, its frequency, and the slot's distance from the symbol's
/// first slot.
#[inline(always)]
pub fn entry(slot: u32) -> (u8, u32, u32) {
    (slot as u8, slot >> FREQUENCY_AT & ((1 << FREQUENCY_BITS) - 1), slot >> DISTANCE_AT)
}

/// Index of the first of the largest numbers.
fn first_largest<T: Ord>(numbers: &[T]) -> usize {
    (1..numbers.len()).fold(0, |best, i| if numbers[i] > numbers[best] { i } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: impl Fn(usize) -> u32) -> [u32; MAX_SYMBOLS] {
        std::array::from_fn(of)
    }

    #[test]
    fn tables_come_back_and_are_whole() {
        for counts in [
            counts(|_| 0),
            counts(|i| u32::from(i == 7)),
            counts(|i| u32::from(i == MAX_SYMBOLS - 1) * 9),
            counts(|_| 1),
            counts(|i| if i < 66 { 15 } else { u32::from(i < 131) }),
            counts(|i| 1 << (31 - i.min(31))),
            counts(|i| (i * i % 37) as u32),
            counts(|i| if i == 3 { u32::MAX } else { 1 }),
        ] {
            let frequencies = Frequencies::new(&counts);
            let total: u32 = frequencies.of.iter().map(|&frequency| u32::from(frequency)).sum();
            assert_eq!(total, if counts.iter().any(|&n| n > 0) { TOTAL } else { 0 });
            assert!(frequencies.of.iter().zip(&counts).all(|(&frequency, &n)| (frequency > 0) == (n > 0)));
            let mut bytes = [0; TABLE_BITS / 8 + 8];
            let mut writer = Writer::new(&mut bytes);
            frequencies.write(&mut writer);
            let n_bytes = writer.finish();
            let mut at = 0;
            assert_eq!(Frequencies::read(&bytes, &mut at).unwrap(), frequencies);
            assert_eq!(at.div_ceil(8), n_bytes);
            let mut slots = [0; TOTAL as usize];
            frequencies.fill(&mut slots);
            for (i, slot) in slots.into_iter().enumerate() {
                let (symbol, frequency, distance) = entry(slot);
                if total == 0 {
                    assert_eq!(symbol, NO_SYMBOL);
                    continue;
                }
                let range = frequencies.ranges()[usize::from(symbol)];
                assert_eq!((range & 0xffff, range >> 16), (i as u32 - distance, frequency));
            }
        }
    }

    #[test]
    fn damaged_tables_are_refused() {
        let read = |bytes: &[u8]| Frequencies::read(bytes, &mut 0);
        assert!(read(&[MAX_SYMBOLS as u8 + 1, 0]).is_err());
        assert!(read(&[3, 3]).is_err());
        // A length of 11, and two frequencies of one half beside the rest.
        assert!(read(&[2, 0, 0x0b]).is_err());
        assert!(read(&[2, 0, 0x0a]).is_ok());
        assert!(read(&[3, 0, 0x0a, 0x05]).is_err());
        assert!(read(&[]).is_ok());
    }

    #[test]
    fn bits_are_about_those_that_are_written() {
        for counts in [
            counts(|i| u32::from(i == 0) * 1000),
            counts(|i| if i < 20 { 3000 >> i } else { 0 }),
            counts(|i| if i < 66 { 15 } else { u32::from(i < 131) }),
        ] {
            let frequencies = Frequencies::new(&counts);
            let mut bytes = [0; TABLE_BITS / 8 + 8];
            let mut writer = Writer::new(&mut bytes);
            frequencies.write(&mut writer);
            let table = 8.0 * writer.finish() as f64;
            let share = |symbol: usize| f64::from(frequencies.of[symbol]) / f64::from(TOTAL);
            let symbols: f64 = (0..MAX_SYMBOLS)
                .filter(|&symbol| counts[symbol] > 0)
                .map(|symbol| -f64::from(counts[symbol]) * share(symbol).log2())
                .sum();
            let bits = frequencies.bits(&counts) as f64;
            // The estimate truncates the most frequent symbol's frequency, too, and counts a length
            // that is not written.
            assert!((bits - table - symbols).abs() < 0.03 * symbols + 16.0, "{bits} {table} {symbols}");
        }
    }
}
