//! Tails: the bits of numbers that their symbols do not determine, as one bit string.

use crate::cpu::isa::Isa;
use crate::stage::bits::{WINDOW_BITS, peek, window};
use crate::stage::entropy::frequencies::MAX_SYMBOLS;
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::Avx512;
use crate::stage::entropy::steps::tail_bits;
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Bytes of the tails of symbols with these counts.
pub fn n_bytes(counts: &[[u32; MAX_SYMBOLS]]) -> usize {
    let bits = |counts: &[u32; MAX_SYMBOLS]| -> usize {
        counts.iter().enumerate().map(|(symbol, &n)| n as usize * tail_bits(symbol as u8) as usize).sum()
    };
    counts.iter().map(bits).sum::<usize>().div_ceil(8)
}

/// Maximum number of bits of a field that is written. With up to 7 pending bits, it fits a word.
const FIELD_BITS: u32 = 56;

/// Writes the tails of numbers with these symbols to the start of `out`. Both end with whole rows;
/// symbols after the last one are 0. Up to 8 bytes after the tails are overwritten.
#[inline(always)]
pub fn write<W: Word>(level: Isa, symbols: &[u16], numbers: &[W], out: &mut [u8]) {
    let mut writer = Writer { out, at: 0, pending: 0, n_pending: 0 };
    for (symbols, numbers) in symbols.as_chunks::<LANES>().0.iter().zip(numbers.as_chunks::<LANES>().0) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = Avx512::at(level) {
            let (mut fields, mut lengths) = ([0; LANES / 2], [0; LANES / 2]);
            if let Some(n) = W::join_tails(avx512, symbols, numbers, &mut fields, &mut lengths) {
                writer.put_all(&fields[..n], &lengths[..n]);
                continue;
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = level;
        let mut highest = 0;
        for &symbol in symbols {
            highest = (symbol as u8).max(highest);
        }
        let longest = tail_bits(highest);
        if longest == 0 {
            continue;
        }
        let (mut tails, mut lengths) = ([W::ZERO; LANES], [0; LANES]);
        for lane in 0..LANES {
            lengths[lane] = tail_bits(symbols[lane] as u8);
            tails[lane] = numbers[lane] & W::low_mask(lengths[lane]);
        }
        // Short tails are joined, so that a field has several.
        if longest * 2 > FIELD_BITS {
            for lane in 0..LANES {
                let low = lengths[lane].min(FIELD_BITS / 2);
                let tail = tails[lane].to_u64();
                writer.put(tail & ((1 << low) - 1), low);
                writer.put(tail >> low, lengths[lane] - low);
            }
            continue;
        }
        let (mut pairs, mut of_pairs) = ([0; LANES / 2], [0; LANES / 2]);
        for i in 0..LANES / 2 {
            pairs[i] = tails[2 * i].to_u64() | tails[2 * i + 1].to_u64() << lengths[2 * i];
            of_pairs[i] = u64::from(lengths[2 * i] + lengths[2 * i + 1]);
        }
        if longest * 4 > FIELD_BITS {
            writer.put_all(&pairs, &of_pairs);
            continue;
        }
        let (fours, of_fours) = joined::<{ LANES / 2 }, { LANES / 4 }>(&pairs, &of_pairs);
        if longest * 8 > FIELD_BITS {
            writer.put_all(&fours, &of_fours);
            continue;
        }
        let (eights, of_eights) = joined::<{ LANES / 4 }, { LANES / 8 }>(&fours, &of_fours);
        writer.put_all(&eights, &of_eights);
    }
}

/// Joins fields in pairs.
#[inline(always)]
fn joined<const N: usize, const HALF: usize>(fields: &[u64; N], lengths: &[u64; N]) -> ([u64; HALF], [u64; HALF]) {
    let (mut pairs, mut of_pairs) = ([0; HALF], [0; HALF]);
    for i in 0..HALF {
        pairs[i] = fields[2 * i] | fields[2 * i + 1] << lengths[2 * i];
        of_pairs[i] = lengths[2 * i] + lengths[2 * i + 1];
    }
    (pairs, of_pairs)
}

/// Writes fields of any length up to [`FIELD_BITS`] without a branch that depends on it. Unlike
/// [`bits::Writer`](crate::stage::bits::Writer) it stores each time, to any byte, so fields wait
/// less for the one before.
struct Writer<'a> {
    out: &'a mut [u8],
    /// Bytes that are complete.
    at: usize,
    /// Up to 7 bits of the next byte.
    pending: u64,
    n_pending: u32,
}

impl Writer<'_> {
    #[inline(always)]
    fn put(&mut self, field: u64, n_bits: u32) {
        self.pending |= field << self.n_pending;
        *self.out[self.at..].first_chunk_mut().expect("room after the tails") = self.pending.to_le_bytes();
        let n_bits = self.n_pending + n_bits;
        self.at += n_bits as usize / 8;
        self.pending >>= n_bits & !7;
        self.n_pending = n_bits % 8;
    }

    #[inline(always)]
    fn put_all(&mut self, fields: &[u64], lengths: &[u64]) {
        for (&field, &length) in fields.iter().zip(lengths) {
            self.put(field, length as u32);
        }
    }
}

/// Reads tails.
pub struct Tails<'a> {
    /// The tails, and the bytes after them.
    bytes: &'a [u8],
    /// Index of the next bit.
    at: usize,
}

impl<'a> Tails<'a> {
    /// Starts at the first bit of some bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Completes the numbers of these symbols, in whole rows. `None` if a symbol is invalid or its
    /// number has more bits than a word; the numbers are of no use then.
    #[inline(always)]
    pub fn read<W: Word>(&mut self, level: Isa, symbols: &[u8], numbers: &mut [W]) -> Option<()> {
        for (symbols, numbers) in symbols.as_chunks::<LANES>().0.iter().zip(numbers.as_chunks_mut::<LANES>().0) {
            let mut highest = 0;
            for &symbol in symbols {
                highest = symbol.max(highest);
            }
            let longest = tail_bits(highest);
            if longest == 0 {
                for lane in 0..LANES {
                    numbers[lane] = W::from_u64(symbols[lane].into());
                }
                continue;
            }
            if longest > W::BITS - 2 {
                return None;
            }
            #[cfg(target_arch = "x86_64")]
            if let Some(avx512) = Avx512::at(level)
                && W::read_tails(avx512, symbols, self.bytes, &mut self.at, numbers)
            {
                continue;
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = level;
            let (mut tails, mut lengths) = ([W::ZERO; LANES], [0; LANES]);
            for lane in 0..LANES {
                lengths[lane] = tail_bits(symbols[lane]);
            }
            if longest * 4 <= WINDOW_BITS {
                self.take::<W, 4>(&lengths, &mut tails);
            } else if longest * 2 <= WINDOW_BITS {
                self.take::<W, 2>(&lengths, &mut tails);
            } else {
                self.take::<W, 1>(&lengths, &mut tails);
            }
            for lane in 0..LANES {
                let top = W::from_u64(u64::from(symbols[lane] & 1 | 2)) << lengths[lane];
                let own = W::from_u64(symbols[lane].into());
                numbers[lane] =
                    if lengths[lane] > 0 { top | tails[lane] & W::low_mask(lengths[lane]) } else { own };
            }
        }
        Some(())
    }

    /// Takes the tails of a row, `N` of each window. There are other bits above them.
    #[inline(always)]
    fn take<W: Word, const N: usize>(&mut self, lengths: &[u32; LANES], tails: &mut [W; LANES]) {
        for i in 0..LANES / N {
            let mut bits = if N > 1 { window(self.bytes, self.at) } else { peek(self.bytes, self.at) };
            for k in N * i..N * i + N {
                tails[k] = W::from_u64(bits);
                bits >>= lengths[k];
                self.at += lengths[k] as usize;
            }
        }
    }

    /// Bytes of the tails that were read.
    pub fn n_bytes(&self) -> usize {
        self.at.div_ceil(8)
    }
}
