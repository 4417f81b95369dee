//! The numbers of a block by rANS, each in a context formed by symbols before it.
//!
//! ```text
//! bytes of the tails | tables | tails | states | string
//! ```
//!
//! A number is a symbol and a *tail*: the bits that the symbol does not determine, which are stored
//! verbatim. The string of rANS has the symbols only. So a step of 32 lanes does the same for each
//! lane, and the dependency chain from step to step is short.
//!
//! Symbols are coded in rows of 32, one for each lane. A symbol's context is the bit length of a sum
//! of the sizes of nearby symbols in earlier rows: those above it and, if there are planes, those in
//! the plane before. The size of a symbol is about half of its numbers. So all contexts of a row are
//! known before any of its symbols, and a reader needs only the last 4096 sizes. Similar contexts
//! share a table.

mod symbols;
mod tails;

use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, at_least, bytes_of};
use crate::error::{Error, Result};
use crate::stage::entropy::frequencies::{LOG2_TOTAL, count};
use crate::stage::entropy::rans::{Encoder, LOWEST, STATE_BYTES, put_words};
use crate::stage::entropy::{steps, tables};
use crate::stage::rows::{LANES, RowSink, Simd, Stored, first_lanes, outlined};
use crate::stage::word::Word;

pub use symbols::{NEAR, Rows, SIZES, STRING_BYTES, Slots, States};
use tails::Tails;

/// Number of contexts.
pub const CONTEXTS: usize = 12;
/// Maximum number of bytes of the tables.
const TABLES_BYTES: usize = tables::tables_bytes(CONTEXTS);
/// A symbol with its context above it is below this.
const IN_CONTEXTS: usize = CONTEXTS.next_power_of_two() << u8::BITS;
/// Maximum distance of a neighbor.
const FARTHEST: usize = 1 << 12;
/// Bytes of the field in front of the tables.
const LENGTH_BYTES: usize = 4;
/// Numbers whose symbols are decoded before their tails, few enough for the L1 cache.
const BATCH: usize = 1024;

/// Scratch memory cached by a thread; its contents are arbitrary.
#[derive(Default)]
struct Memory {
    /// The size of each symbol. Zeros precede them for all neighbors before the first number.
    sizes: Vec<u8>,
    /// Symbols and, above them, their contexts.
    symbols: Vec<u16>,
    /// The string ends at the end of this memory.
    string: Vec<u16>,
    /// Slot ranges of symbols, indexed by context and symbol.
    ranges: Vec<u32>,
    /// Slot entries of all tables.
    slots: Vec<u32>,
}

impl Cacheable for Memory {
    fn n_bytes(&self) -> usize {
        let Self { sizes, symbols, string, ranges, slots } = self;
        bytes_of(sizes) + bytes_of(symbols) + bytes_of(string) + bytes_of(ranges) + bytes_of(slots)
    }
}

/// Encoder or decoder of blocks, one after the other.
pub struct Work {
    memory: ThreadCache<Memory>,
    /// Numbers of the block that was encoded last, bytes of their tails, and where the string begins.
    n: usize,
    tails_bytes: usize,
    start: usize,
    tables: [u8; TABLES_BYTES],
    tables_bytes: usize,
    level: Isa,
}

impl Work {
    /// Allocates memory for blocks of up to `n` numbers: to encode those of at most `n_bytes`, or
    /// only to decode.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize, n_bytes: Option<usize>, level: Isa) -> Result<Self> {
        let rows = n.next_multiple_of(LANES);
        let mut memory = ThreadCache::<Memory>::take();
        at_least(&mut memory.sizes, 2 * rows + 4 * LANES)?;
        if let Some(n_bytes) = n_bytes {
            at_least(&mut memory.symbols, rows)?;
            at_least(&mut memory.string, n_bytes / 2)?;
            at_least(&mut memory.ranges, IN_CONTEXTS)?;
        } else {
            at_least(&mut memory.slots, CONTEXTS << LOG2_TOTAL)?;
        }
        Ok(Self { memory, n: 0, tails_bytes: 0, start: 0, tables: [0; TABLES_BYTES], tables_bytes: 0, level })
    }
}

/// The neighbors of a number in a block of this shape, as distances before it. Some are listed, and
/// count, more than once.
fn near([sz, sy, sx]: [usize; 3]) -> [usize; NEAR] {
    let length = if sz * sy == 1 || sx > FARTHEST / 2 { LANES } else { sx };
    // Not all lanes know numbers that are less than a row before.
    let up = length * LANES.div_ceil(length);
    let known = |distance: usize, other: usize| if distance >= LANES { distance } else { other };
    let beside = known(up - 1, up);
    let plane = sy * sx;
    if sz == 1 || !(LANES..=FARTHEST).contains(&plane) {
        return [up, up, up, up + 1, up + 1, beside, beside, 2 * up];
    }
    let below = known(plane - up, plane);
    [up, up, up + 1, beside, 2 * up, plane, plane, below]
}

/// Puts zeros in front of the sizes of a block's symbols; returns how many.
fn put_front(near: &[usize; NEAR], sizes: &mut [u8]) -> usize {
    let farthest = near.iter().copied().fold(0, usize::max);
    sizes[..farthest].fill(0);
    farthest
}

/// The contexts of the row whose sizes begin at `at`.
#[inline(always)]
fn contexts(near: &[usize; NEAR], sizes: &[u8], at: usize) -> [u16; LANES] {
    let mut sums = [0u16; LANES];
    for &distance in near {
        let near: &[u8; LANES] = sizes[at - distance..].first_chunk().expect("a row");
        for lane in 0..LANES {
            sums[lane] += u16::from(near[lane]);
        }
    }
    for sum in &mut sums {
        *sum = u16::BITS as u16 - sum.leading_zeros() as u16;
    }
    sums
}

impl Work {
    /// Decodes the numbers of a block of this shape from the start of `bytes`, as [`encode`]
    /// wrote them. Returns the byte count.
    ///
    /// # Errors
    /// `Corrupt`.
    #[inline(always)]
    pub fn decode<W: Word, S: Simd<W>>(
        &mut self,
        s: S,
        bytes: &[u8],
        shape: [usize; 3],
        sink: &mut impl RowSink<W, S>,
    ) -> Result<usize> {
        let n = shape[0] * shape[1] * shape[2];
        let near = near(shape);
        let Memory { sizes, slots, .. } = &mut *self.memory;
        let front = put_front(&near, sizes);
        let mut reading = Reading::new(bytes, slots)?;
        let mut symbols = [0; BATCH];
        let mut numbers = [W::ZERO; BATCH];
        let mut at = 0;
        while at < n {
            let n_symbols = BATCH.min(n - at);
            let symbols = &mut symbols[..n_symbols.next_multiple_of(LANES)];
            reading.symbols(self.level, &near, (sizes, front + at), symbols, n_symbols)?;
            reading.tails.read(self.level, symbols, &mut numbers).ok_or_else(damage)?;
            let mut row = 0;
            while row < n_symbols {
                sink.take(s, s.load(&numbers[row..]));
                row += LANES;
            }
            at += BATCH;
        }
        reading.finish()
    }
}

outlined! {
    /// Encodes the numbers of a block of this shape. Returns the byte count, or `None` if it is too
    /// large.
    pub fn encode<'a, W>(s, work: &'a mut Work, numbers: &'a [W], shape: [usize; 3]) -> Option<usize> {
        let n = shape[0] * shape[1] * shape[2];
        let Memory { sizes, symbols, ranges, string, .. } = &mut *work.memory;
        let near = near(shape);
        let front = put_front(&near, sizes);
        let mut at = 0;
        while at < n {
            let lanes = first_lanes(n - at);
            let row = s.select_or_zero(lanes, s.load(&numbers[at..]));
            let contexts = contexts(&near, sizes, front + at);
            let mut words = [W::ZERO; LANES];
            s.store(steps::symbols(s, row), &mut words);
            let symbols: &mut [u16; LANES] = symbols[at..].first_chunk_mut().expect("a row");
            let sizes: &mut [u8; LANES] = sizes[front + at..].first_chunk_mut().expect("a row");
            for lane in 0..LANES {
                let symbol = words[lane].to_u64() as u32;
                sizes[lane] = symbols::size(symbol);
                symbols[lane] = symbol as u16 | contexts[lane] << 8;
            }
            at += LANES;
        }
        let ranges: &mut [u32; IN_CONTEXTS] = ranges.first_chunk_mut().expect("memory for encoding");
        let mut counts = count::<CONTEXTS, IN_CONTEXTS>(&symbols[..n]);
        work.tails_bytes = tails::n_bytes(&counts);
        work.tables_bytes = tables::write(&mut counts, ranges, &mut work.tables);

        let n_string = string.len();
        let mut encoder = Encoder::new(string, work.level);
        while at > 0 {
            at -= LANES;
            let symbols: &[u16; LANES] = symbols[at..].first_chunk().expect("a row");
            let mut of_lanes = [0; LANES];
            for lane in 0..LANES {
                of_lanes[lane] = ranges[usize::from(symbols[lane]) % IN_CONTEXTS];
            }
            encoder.symbols_alone(&of_lanes, first_lanes(n - at));
        }
        let n_words = encoder.finish()?.len();
        (work.n, work.start) = (n, n_string - n_words);
        Some(LENGTH_BYTES + work.tables_bytes + work.tails_bytes + 2 * n_words)
    }

    /// Writes the block that was encoded last, and that has these numbers, to `out`, which has
    /// exactly its byte count. The numbers end with a whole row.
    pub fn write<'a, W>(_s, work: &'a Work, numbers: &'a [W], out: &'a mut [u8]) {
        let (length, rest) = out.split_at_mut(LENGTH_BYTES);
        length.copy_from_slice(&(work.tails_bytes as u32).to_le_bytes());
        let (tables, rest) = rest.split_at_mut(work.tables_bytes);
        tables.copy_from_slice(&work.tables[..work.tables_bytes]);
        // The bytes of the string may be written twice.
        tails::write(work.level, &work.memory.symbols[..work.n.next_multiple_of(LANES)], numbers, rest);
        put_words(&work.memory.string[work.start..], &mut rest[work.tails_bytes..]);
    }

    /// [`Work::decode`] to `numbers`, which has room for whole rows.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode<'a, W>(
        s,
        work: &'a mut Work,
        bytes: &'a [u8],
        shape: [usize; 3],
        numbers: &'a mut [W],
    ) -> Result<usize> {
        work.decode(s, bytes, shape, &mut Stored(numbers))
    }
}

/// The state of decoding a block.
struct Reading<'a> {
    slots: Slots<'a>,
    tails: Tails<'a>,
    /// Bytes of the tails, and of everything before the string.
    tails_bytes: usize,
    front_bytes: usize,
    states: States,
    /// The string, and how much of it was read; once less than a row's maximum is left, a copy of the
    /// rest, followed by zeros.
    string: &'a [u8],
    at: usize,
    end: Option<([u8; 2 * STRING_BYTES], usize)>,
}

impl<'a> Reading<'a> {
    fn new(bytes: &'a [u8], slots: &'a mut [u32]) -> Result<Self> {
        let (length, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        let tails_bytes = u32::from_le_bytes(*length) as usize;
        let (tables_bytes, first) = tables::read::<CONTEXTS>(rest, slots)?;
        let tails = rest.get(tables_bytes..).ok_or_else(damage)?;
        let (states, string) =
            tails.get(tails_bytes..).and_then(|rest| rest.split_first_chunk::<STATE_BYTES>()).ok_or_else(damage)?;
        let (words, _) = states.as_chunks();
        let states: [u32; LANES] = std::array::from_fn(|lane| u32::from_le_bytes(words[lane]));
        if states.iter().any(|&state| state < LOWEST) {
            return Err(damage());
        }
        Ok(Self {
            slots: Slots::new(slots, first),
            tails: Tails::new(tails),
            tails_bytes,
            front_bytes: bytes.len() - string.len(),
            states,
            string,
            at: 0,
            end: None,
        })
    }

    /// Reads `n` symbols, and pads them with zeros to a whole row. Their sizes are in `sizes`, from
    /// `start` on.
    fn symbols(
        &mut self,
        level: Isa,
        near: &[usize; NEAR],
        (sizes, start): (&mut [u8], usize),
        symbols: &mut [u8],
        n: usize,
    ) -> Result<()> {
        let mut done = 0;
        loop {
            let (string, at) = match &mut self.end {
                None => (self.string, &mut self.at),
                Some((end, at)) => (&end[..], at),
            };
            let rows = Rows { slots: &self.slots, near, string, sizes, start: start + done, n: n - done };
            done += symbols::read(level, rows, at, &mut self.states, &mut symbols[done..]);
            if done >= n {
                return Ok(());
            }
            if self.end.is_some() {
                return Err(damage());
            }
            let rest = &self.string[self.at..];
            let mut end = [0; 2 * STRING_BYTES];
            end[..rest.len()].copy_from_slice(rest);
            self.end = Some((end, 0));
        }
    }

    /// Returns the bytes of the block. All states must be those with which encoders start.
    fn finish(self) -> Result<usize> {
        let at = self.at + self.end.map_or(0, |(_, at)| at);
        let is_whole =
            at <= self.string.len() && self.states == [LOWEST; LANES] && self.tails.n_bytes() == self.tails_bytes;
        if is_whole { Ok(self.front_bytes + at) } else { Err(damage()) }
    }
}

fn damage() -> Error {
    Error::corrupt("a block is damaged: its numbers do not match the tables of its contexts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::rows::{PORTABLE, Portable};

    const SHAPES: [[usize; 3]; 15] = [
        [1, 1, 1],
        [1, 1, 5000],
        [1, 40, 50],
        [1, 1000, 3],
        [9, 20, 30],
        [2, 3, 5],
        [40, 2, 40],
        [70, 1, 32],
        [8, 16, 32],
        [2, 128, 32],
        [2, 129, 32],
        [4, 3, 20],
        [1, 2, 32768],
        [1, 30, 2048],
        [15, 1, 4096],
    ];

    /// Numbers of varying bit lengths, followed by room for a row.
    fn numbers(shape: [usize; 3], most_bits: u32) -> Vec<u64> {
        let n: usize = shape.iter().product();
        let number = |i: usize| {
            let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let length = (mixed >> 7) as u32 % (1 + most_bits * (i / 500 % 4) as u32 / 3);
            if length == 0 { 0 } else { (mixed | 1 << 63) >> (64 - length) }
        };
        (0..n + LANES).map(number).collect()
    }

    struct Collected<W>(Vec<W>);

    impl<W: Word> RowSink<W, Portable> for Collected<W> {
        fn take(&mut self, _: Portable, row: [W; LANES]) {
            self.0.extend(row);
        }
    }

    /// Encodes at all levels to the same bytes, decodes these at all levels, and returns them.
    fn check<W: Word + std::fmt::Debug>(numbers: &[W], shape: [usize; 3]) -> Vec<u8> {
        let n: usize = shape.iter().product();
        let mut strings = Isa::all().map(|level| {
            let mut work = Work::new(n, Some(16 * n + 4096), level).unwrap();
            let mut bytes = vec![0xee; encode(PORTABLE, &mut work, numbers, shape).unwrap()];
            write(PORTABLE, &work, numbers, &mut bytes);
            bytes
        });
        let bytes = strings.next().unwrap();
        assert!(strings.all(|other| other == bytes), "{shape:?}");
        let longer = [&bytes[..], &[0xa5; 100]].concat();
        for level in Isa::all() {
            let mut work = Work::new(n, None, level).unwrap();
            let mut out = Collected::<W>(vec![]);
            assert_eq!(work.decode(PORTABLE, &longer, shape, &mut out).unwrap(), bytes.len(), "{shape:?}");
            assert_eq!(out.0[..n], numbers[..n], "{shape:?}");
            assert!(out.0[n..].iter().all(|&number| number == W::ZERO));
        }
        bytes
    }

    #[test]
    fn numbers_come_back() {
        for shape in SHAPES {
            for most_bits in [0, 1, 3, 8, 32, 64] {
                let numbers = numbers(shape, most_bits);
                check(&numbers, shape);
                if most_bits <= 32 {
                    check(&numbers.iter().map(|&number| number as u32).collect::<Vec<_>>(), shape);
                }
            }
        }
    }

    #[test]
    fn contexts_are_worth_their_tables() {
        // Half of the planes are zeros; in the rest, numbers have five bits.
        let shape = [16, 32, 32];
        let number = |i: usize| if i / 1024 % 8 < 4 { 0 } else { (i as u32).wrapping_mul(0x9e37_79b9) >> 27 };
        let numbers: Vec<u32> = (0..16 * 1024 + LANES).map(number).collect();
        let bytes = check(&numbers, shape);
        assert!(bytes.len() < 16 * 1024 * 5 / 8 / 2 + 600, "{}", bytes.len());
        assert!(check(&vec![0u32; 16 * 1024 + LANES], shape).len() < 160);
    }

    #[test]
    fn damage_is_found_or_does_no_harm() {
        let shape = [1, 40, 50];
        let bytes = check(&numbers(shape, 20), shape);
        for level in Isa::all() {
            let mut work = Work::new(2000, None, level).unwrap();
            for at in 0..bytes.len() {
                let mut out = Collected::<u32>(vec![]);
                assert!(work.decode(PORTABLE, &bytes[..at], shape, &mut out).is_err());
                let mut other = bytes.clone();
                other[at] ^= 1 << (at % 8);
                let _ = work.decode(PORTABLE, &other, shape, &mut Collected::<u32>(vec![]));
            }
        }
        // Numbers of 64 bits are too long for words of 32.
        let bytes = check(&numbers(shape, 64), shape);
        let mut work = Work::new(2000, None, Isa::PORTABLE).unwrap();
        assert!(work.decode(PORTABLE, &bytes, shape, &mut Collected::<u32>(vec![])).is_err());
    }

    #[test]
    fn what_has_no_room_is_not_encoded() {
        let shape = [1, 40, 50];
        for level in Isa::all() {
            let mut work = Work::new(2000, Some(1000), level).unwrap();
            assert!(encode(PORTABLE, &mut work, &numbers(shape, 60), shape).is_none());
        }
    }
}
