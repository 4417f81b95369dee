//! Encodes and decodes one block: its numbers, or their differences, as a section of codes.
//!
//! ```text
//! u8 kind | u8 differences | u16 0 | the elements, the one element, or a section
//! ```

use crate::codec::BlockCounts;
use crate::codec::huffman::params::UNIT;
use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, bytes_of};
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::stage::entropy::lanes::LANES;
use crate::stage::entropy::log::{LOG_OF_2, log};
use crate::stage::entropy::section::{self, Coding};
use crate::stage::entropy::symbols::{Number, symbol, tail_bits};

/// Block kinds: raw elements; a single element, repeated; codes.
const RAW: u8 = 0;
const CONST: u8 = 1;
const CODES: u8 = 2;
/// Bytes of a header.
const HEADER: usize = 4;
/// The choice between numbers and differences samples one of this many rows.
const SAMPLE_EVERY: usize = 8;

/// Scratch memory for blocks, cached per thread. Its contents between blocks are arbitrary.
pub struct Work<T: Number>(ThreadCache<Option<Memory<T>>>);

impl<T: Number> Cacheable for Option<Memory<T>> {
    fn n_bytes(&self) -> usize {
        let of =
            |memory: &Memory<T>| bytes_of(&memory.numbers) + bytes_of(&memory.sample) + memory.section.n_bytes();
        self.as_ref().map_or(0, of)
    }
}

struct Memory<T: Number> {
    /// Whole rows of numbers, and the rows of the sample.
    numbers: Vec<T>,
    sample: Vec<T>,
    section: section::Work<T>,
}

impl<T: Number> Work<T> {
    /// Allocates for blocks of up to `n` numbers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize) -> Result<Self> {
        let mut kept = ThreadCache::<Option<Memory<T>>>::take();
        if kept.as_ref().is_some_and(|memory| memory.numbers.len() >= n) {
            return Ok(Self(kept));
        }
        let n_rows = n.div_ceil(LANES);
        let rows = |n_rows: usize| -> Result<Vec<T>> {
            let mut numbers = try_vec(LANES * n_rows, "a block")?;
            numbers.resize(LANES * n_rows, T::default());
            Ok(numbers)
        };
        let (numbers, sample) = (rows(n_rows)?, rows(n_rows.div_ceil(SAMPLE_EVERY))?);
        *kept = Some(Memory { numbers, sample, section: section::Work::new(n)? });
        Ok(Self(kept))
    }

    fn memory(&mut self) -> &mut Memory<T> {
        self.0.as_mut().expect("made with it")
    }
}

/// Maps a signed number to an unsigned one that is small if its magnitude is. Bytes are unchanged.
#[inline(always)]
fn fold_sign<T: Number>(number: u32) -> T {
    let sign = if number >> (T::BITS - 1) & 1 == 1 { u32::MAX } else { 0 };
    T::from_u32(if T::BITS == 8 { number } else { number << 1 ^ sign })
}

/// The inverse of [`fold_sign`].
#[inline(always)]
fn unfold_sign<T: Number>(number: T) -> u32 {
    let number = number.to_u32();
    if T::BITS == 8 { number } else { number >> 1 ^ (number & 1).wrapping_neg() }
}

/// Converts the elements of a block to numbers.
#[derive(Clone, Copy)]
struct Elements<'a> {
    bytes: &'a [u8],
    is_signed: bool,
}

impl Elements<'_> {
    /// Fills `numbers` with the elements from `first` on, or with their differences.
    #[inline(always)]
    fn fill<T: Number>(self, numbers: &mut [T], first: usize, are_differences: bool) {
        let elements = |first: usize| self.bytes[first * T::BYTES..].chunks_exact(T::BYTES).map(T::read);
        if are_differences && first == 0 {
            let (number, numbers) = numbers.split_first_mut().expect("a number");
            *number = fold_sign(T::read(self.bytes).to_u32());
            self.put_differences(numbers, 1);
        } else if are_differences {
            self.put_differences(numbers, first);
        } else if self.is_signed {
            numbers.iter_mut().zip(elements(first)).for_each(|(number, of)| *number = fold_sign(of.to_u32()));
        } else {
            numbers.iter_mut().zip(elements(first)).for_each(|(number, of)| *number = of);
        }
    }

    /// Writes the differences of elements that all have a predecessor.
    #[inline(always)]
    fn put_differences<T: Number>(self, numbers: &mut [T], first: usize) {
        let elements = |first: usize| self.bytes[first * T::BYTES..].chunks_exact(T::BYTES).map(T::read);
        for ((number, of), before) in numbers.iter_mut().zip(elements(first)).zip(elements(first - 1)) {
            *number = fold_sign(of.to_u32().wrapping_sub(before.to_u32()));
        }
    }

    /// Estimated cost of the `n` numbers, or of their differences, in the units of [`log`]. The
    /// estimate uses the probability that two elements of a sample have the same symbol.
    #[inline(always)]
    fn cost<T: Number>(self, n: usize, are_differences: bool, sample: &mut [T]) -> u64 {
        let mut end = 0;
        for first in (0..n).step_by(LANES * SAMPLE_EVERY) {
            match sample[end..].first_chunk_mut::<LANES>() {
                // With a constant length, this compiles to a few instructions.
                Some(row) if n - first >= LANES => self.fill(row, first, are_differences),
                _ => self.fill(&mut sample[end..end + n - first], first, are_differences),
            }
            end += LANES.min(n - first);
        }
        let sample = &mut sample[..end];
        let mut counts = T::no_counts();
        let counts = counts.as_mut();
        if let Some(bytes) = T::as_bytes_mut(sample) {
            section::count(bytes, &mut [[0; 1 << u8::BITS]; 4], counts);
        } else {
            // With this many symbols, counting in several tables does not pay.
            sample.iter().for_each(|&number| counts[symbol(number).0] += 1);
        }
        let squares: u64 = counts.iter().map(|&count| u64::from(count) * u64::from(count)).sum();
        let n = end as u64;
        n * (log(n * n) - log(squares)) + LOG_OF_2 * tail_bits(counts) as u64
    }
}

/// Encodes elements to the start of `out`, which has room for any block. Returns the bytes of the
/// result, a multiple of the unit.
#[inline(always)]
pub fn encode<T: Number>(work: &mut Work<T>, level: Isa, is_signed: bool, bytes: &[u8], out: &mut [u8]) -> usize {
    let n = bytes.len() / T::BYTES;
    let Memory { numbers, sample, section: memory } = work.memory();
    let first = T::read(bytes);
    if bytes[T::BYTES..] == bytes[..bytes.len() - T::BYTES] {
        let end = (HEADER + T::BYTES).next_multiple_of(UNIT);
        out[..end].fill(0);
        out[0] = CONST;
        first.write(&mut out[HEADER..]);
        return end;
    }
    let elements = Elements { bytes, is_signed };
    let rows = &mut numbers[..n.next_multiple_of(LANES)];
    // This first pass reads memory sequentially, so that the sample later finds the elements in the
    // cache.
    elements.fill(&mut rows[..n], 0, false);
    let are_differences = elements.cost(n, true, sample) < elements.cost(n, false, sample);
    if are_differences {
        elements.fill(&mut rows[..n], 0, true);
    }
    let coding = Coding::choose(rows, n, memory, level);
    let end = (HEADER + coding.n_bytes()).next_multiple_of(UNIT);
    let raw_end = (HEADER + bytes.len()).next_multiple_of(UNIT);
    if end >= raw_end {
        out[..HEADER].fill(RAW);
        out[HEADER..HEADER + bytes.len()].copy_from_slice(bytes);
        out[HEADER + bytes.len()..raw_end].fill(0);
        return raw_end;
    }
    out[..HEADER].copy_from_slice(&[CODES, are_differences.into(), 0, 0]);
    let (section, zeros) = out[HEADER..end].split_at_mut(coding.n_bytes());
    coding.write(rows, memory, level, section);
    zeros.fill(0);
    end
}

/// Returns the kind of a block, whether it has differences, and the bytes after its header.
fn parse(bytes: &[u8]) -> Result<(u8, bool, &[u8])> {
    match bytes.split_first_chunk().ok_or_else(damage)? {
        (&[kind @ (RAW | CONST), 0, 0, 0], rest) => Ok((kind, false, rest)),
        (&[CODES, differences @ (0 | 1), 0, 0], rest) => Ok((CODES, differences == 1, rest)),
        _ => {
            let text = "a huffman block is of an unknown kind; a newer gridz may read this data";
            Err(Error::new(ErrorKind::UnsupportedFormat, text))
        }
    }
}

/// Decodes a block into elements that fill `out`.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
pub fn decode<T: Number>(
    work: &mut Work<T>,
    level: Isa,
    is_signed: bool,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (kind, are_differences, rest) = parse(bytes)?;
    let n_bytes = match kind {
        RAW => {
            out.copy_from_slice(rest.get(..out.len()).ok_or_else(damage)?);
            out.len()
        }
        CONST => {
            let element = rest.get(..T::BYTES).ok_or_else(damage)?;
            out.chunks_exact_mut(T::BYTES).for_each(|place| place.copy_from_slice(element));
            T::BYTES
        }
        _ => {
            let Memory { numbers, section: memory, .. } = work.memory();
            let numbers = &mut numbers[..out.len() / T::BYTES];
            let n_bytes = section::read(rest, numbers, memory, level)?;
            put(numbers, are_differences, is_signed, out);
            n_bytes
        }
    };
    if (HEADER + n_bytes).next_multiple_of(UNIT) == bytes.len() { Ok(()) } else { Err(damage()) }
}

/// Converts numbers, or differences, back to elements.
fn put<T: Number>(numbers: &[T], are_differences: bool, is_signed: bool, out: &mut [u8]) {
    let places = out.chunks_exact_mut(T::BYTES).zip(numbers);
    if are_differences {
        let mut value = 0_u32;
        for (place, &number) in places {
            value = value.wrapping_add(unfold_sign(number));
            T::from_u32(value).write(place);
        }
    } else if is_signed {
        places.for_each(|(place, &number)| T::from_u32(unfold_sign(number)).write(place));
    } else {
        places.for_each(|(place, &number)| number.write(place));
    }
}

/// Counts a block by its kind.
///
/// # Errors
/// As [`decode`].
pub fn count(bytes: &[u8], counts: &mut BlockCounts) -> Result<()> {
    let (kind, ..) = parse(bytes)?;
    counts.all += 1;
    match kind {
        RAW => counts.raw += 1,
        CONST => counts.constant += 1,
        _ => counts.entropy += 1,
    }
    Ok(())
}

fn damage() -> Error {
    Error::corrupt("a huffman block is damaged: its length does not match its contents")
}
