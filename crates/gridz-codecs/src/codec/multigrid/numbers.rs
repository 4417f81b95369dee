//! Numbers: the residuals of the new nodes of all steps of a layer, in independent blocks that
//! follow a table.
//!
//! ```text
//! u32 end in units, u32 check of each block | blocks
//! a block: u8 kind | u8 0 | u16 0 | numbers in contexts of those near them
//! ```
//!
//! `arrays` describes the blocks. An encoder has the numbers of an array in the order of its nodes.
//! A decoder has the numbers of each block contiguous, so that several threads can write them.

use crate::codec::multigrid::arrays::{Arrays, Block, MOST};
use crate::codec::multigrid::payload::truncated;
use crate::codec::multigrid::real::Real;
use crate::codec::{BlockCounts, Job};
use crate::cpu::isa::Isa;
use crate::cpu::ordered;
use crate::cpu::thread_cache::{ThreadCache, at_least};
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::checksum::Checksum;
use crate::stage::blocks::table::{ENTRY, Table, Writer, end_of_last};
use crate::stage::entropy::contexts;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::rows::{LANES, Simd, WithSimd, dispatch};
use crate::stage::word::Word;
use std::ops::Range;

/// Block kinds: raw words, coded with contexts, all zero.
const RAW: u8 = 0;
const CODED: u8 = 1;
const ZEROS: u8 = 2;
/// Bytes of a header.
pub(super) const HEADER: usize = 4;
/// Blocks begin at multiples of this, in bytes.
pub const UNIT: usize = 4;

/// Scratch memory for blocks, cached per thread. Its contents between blocks are arbitrary.
struct Work<W: Word> {
    words: ThreadCache<Vec<W>>,
    contexts: contexts::Work,
}

impl<W: Word> Work<W> {
    fn new(encodes: bool, level: Isa) -> Result<Self> {
        let mut words = ThreadCache::<Vec<W>>::take();
        at_least(&mut words, MOST + LANES)?;
        Ok(Self { words, contexts: contexts::Work::new(MOST, encodes.then_some(W::BYTES * MOST), level)? })
    }
}

/// Encodes all numbers to the start of `out`, which is at offset `at` of the payload. Returns the
/// bytes of table and blocks, and their checksum.
///
/// # Errors
/// `OutOfMemory`.
pub fn encode<T: Real>(
    arrays: &Arrays,
    job: &Job,
    numbers: &[T::Bytes],
    at: usize,
    out: &mut [u8],
) -> Result<(usize, Checksum)> {
    let (table, data) = out.split_at_mut(arrays.table_bytes());
    let writer = Writer { level: job.level, unit: UNIT, at: at + table.len() };
    // Encodes blocks to the start of `out`, and writes their ends to the table, relative to that
    // start.
    let make = |range: Range<usize>, entries: &mut [u8], out: &mut [u8]| -> Result<usize> {
        let mut work = Work::<T::Word>::new(true, job.level)?;
        let mut end = 0;
        for (index, entry) in range.zip(entries.chunks_exact_mut(ENTRY)) {
            let block = arrays.block(index);
            let task = EncodeBlock::<T> { work: &mut work, block: &block, numbers, out: &mut out[end..] };
            end += dispatch(job.level, task);
            writer.note(entry, end);
        }
        Ok(end)
    };
    if job.pool.pieces((arrays.n_numbers() * size_of::<T>()) as u64) == 1 {
        let n_bytes = make(0..arrays.n_blocks(), table, data)?;
        let sums = writer.finish(table, 0, &data[..n_bytes]);
        return Ok((
            table.len() + n_bytes,
            sums.combine(checksum_of(job.level, Prefetch::Nothing, table, at as u64)),
        ));
    }
    let ranges = arrays.pieces(MOST)?;
    let mut pieces = try_vec(ranges.len(), "bookkeeping")?;
    let mut rest = &mut *table;
    for range in ranges {
        let (entries, behind) = rest.split_at_mut(ENTRY * range.len());
        rest = behind;
        pieces.push((range, entries));
    }
    let bound = |range: &Range<usize>| -> usize {
        range.clone().map(|index| HEADER + size_of::<T>() * arrays.block(index).range.len()).sum()
    };
    let most_bytes = pieces.iter().map(|(range, _)| bound(range)).max().unwrap_or(0);
    type Piece<'a> = (Range<usize>, &'a mut [u8]);
    let make_piece =
        |(range, entries): &mut Piece, _: Option<usize>, out: &mut [u8]| match make(range.clone(), entries, out) {
            Ok(n_bytes) => (n_bytes, Ok(())),
            Err(error) => (0, Err(error)),
        };
    let place = |(_, entries): Piece, made: Result<()>, start: usize, output: &[u8]| {
        made.map(|()| writer.finish(entries, start, output))
    };
    let (n_bytes, sums) = ordered::concatenate(job.pool, pieces, most_bytes, data, make_piece, place);
    let mut all = checksum_of(job.level, Prefetch::Nothing, table, at as u64);
    for sums in sums {
        all = all.combine(sums?);
    }
    Ok((table.len() + n_bytes, all))
}

/// The table and blocks of a layer, or the first blocks of it.
pub struct Coded<'p> {
    /// The bytes of the table, and their offset in the payload.
    entries: &'p [u8],
    at: usize,
    table: Table<'p>,
}

/// The offset in the payload at which the blocks of these arrays end. `bytes` begins at offset `at`
/// with the table, which must be complete.
///
/// # Errors
/// `Truncated`.
pub fn end_of_blocks(arrays: &Arrays, bytes: &[u8], at: usize) -> Result<usize> {
    let entries = bytes.get(..arrays.table_bytes()).ok_or_else(|| truncated("a table"))?;
    Ok(at + entries.len() + end_of_last(&entries[..ENTRY * arrays.n_blocks()], UNIT))
}

impl<'p> Coded<'p> {
    /// Parses table and blocks at the start of `bytes`, which is at offset `at` of the payload.
    /// They have `n_bytes` bytes in total. Afterwards each block of the arrays can be sliced.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn parse(arrays: &Arrays, bytes: &'p [u8], n_bytes: usize, at: usize) -> Result<Self> {
        let n_table = arrays.table_bytes();
        let (entries, blocks) = bytes.split_at_checked(n_table).ok_or_else(|| truncated("a table"))?;
        let of_arrays = &entries[..ENTRY * arrays.n_blocks()];
        let mut n_blocks = n_bytes - n_table;
        if arrays.is_part() {
            n_blocks = end_of_last(of_arrays, UNIT).min(n_blocks);
        }
        let blocks = blocks.get(..n_blocks).ok_or_else(|| truncated("its blocks"))?;
        Ok(Self { entries, at, table: Table::new("multigrid", of_arrays, blocks, at + n_table, UNIT)? })
    }

    /// Decodes all numbers, those of each block contiguous. Returns the checksum of table and
    /// blocks.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat` or `OutOfMemory`.
    pub fn decode<T: Real>(&self, arrays: &Arrays, job: &Job, numbers: &mut [T::Bytes]) -> Result<Checksum> {
        let decode = |(range, numbers): (Range<usize>, &mut [T::Bytes])| -> Result<Checksum> {
            let mut work = Work::<T::Word>::new(false, job.level)?;
            let (mut all, mut rest) = (Checksum::default(), numbers);
            for index in range {
                let Block { range, shape, .. } = arrays.block(index);
                let (numbers, behind) = rest.split_at_mut(range.len());
                rest = behind;
                let (bytes, sums) = self.table.block(index, job.level, job.verify)?;
                dispatch(job.level, DecodeBlock::<T> { work: &mut work, shape, bytes, numbers })?;
                all = all.combine(sums);
            }
            Ok(all)
        };
        let of_table = checksum_of(job.level, Prefetch::Nothing, self.entries, self.at as u64);
        let n_pieces = job.pool.pieces((arrays.n_numbers() * size_of::<T>()) as u64);
        if n_pieces == 1 {
            return Ok(of_table.combine(decode((0..arrays.n_blocks(), numbers))?));
        }
        let ranges = arrays.pieces(arrays.n_numbers().div_ceil(n_pieces))?;
        let mut pieces = try_vec(ranges.len(), "bookkeeping")?;
        let mut rest = numbers;
        for range in ranges {
            let n: usize = range.clone().map(|index| arrays.block(index).range.len()).sum();
            let (these, behind) = rest.split_at_mut(n);
            rest = behind;
            pieces.push((range, these));
        }
        let decoded = job.pool.map(pieces, decode);
        decoded.into_iter().try_fold(of_table, |sums, piece| Ok(sums.combine(piece?)))
    }

    /// Counts the blocks by their kinds.
    ///
    /// # Errors
    /// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
    pub fn count(&self, arrays: &Arrays, job: &Job, counts: &mut BlockCounts) -> Result<()> {
        for index in 0..arrays.n_blocks() {
            counts.all += 1;
            match parse(self.table.block(index, job.level, job.verify)?.0)?.0 {
                RAW => counts.raw += 1,
                CODED => counts.entropy += 1,
                _ => counts.constant += 1,
            }
        }
        Ok(())
    }
}

/// Encodes a block to the start of `out`, which has room for any block. Returns the bytes of the
/// result, a multiple of the unit.
struct EncodeBlock<'a, T: Real> {
    work: &'a mut Work<T::Word>,
    block: &'a Block,
    numbers: &'a [T::Bytes],
    out: &'a mut [u8],
}

impl<T: Real> WithSimd<T::Word> for EncodeBlock<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, s: S) -> usize {
        let Self { work: Work { words, contexts }, block, numbers, out } = self;
        let [sz, sy, sx] = block.shape;
        let n = sz * sy * sx;
        let mut any = T::Word::ZERO;
        let mut row = 0;
        while row < sz * sy {
            let from = &numbers[block.first + row / sy * block.plane + row % sy * block.row..][..sx];
            let words = &mut words[row * sx..][..sx];
            let mut k = 0;
            while k < sx {
                words[k] = T::word(from[k]);
                any |= words[k];
                k += 1;
            }
            row += 1;
        }
        let word_bytes = T::Word::BYTES;
        let coded = if any == T::Word::ZERO { Some(0) } else { contexts::encode(s, contexts, words, block.shape) };
        let (kind, n_bytes) = match coded {
            _ if any == T::Word::ZERO => (ZEROS, 0),
            Some(n_bytes) if n_bytes < n * word_bytes => (CODED, n_bytes),
            _ => (RAW, n * word_bytes),
        };
        let end = (HEADER + n_bytes).next_multiple_of(UNIT);
        let (head, rest) = out[..end].split_at_mut(HEADER);
        head.copy_from_slice(&[kind, 0, 0, 0]);
        let (bytes, zeros) = rest.split_at_mut(n_bytes);
        match kind {
            CODED => contexts::write(s, contexts, words, bytes),
            RAW => bytes.chunks_exact_mut(word_bytes).zip(words.iter()).for_each(|(out, word)| word.write(out)),
            _ => {}
        }
        zeros.fill(0);
        end
    }
}

/// Decodes the bytes of a block of this shape to its numbers.
struct DecodeBlock<'a, 'b, T: Real> {
    work: &'a mut Work<T::Word>,
    shape: [usize; 3],
    bytes: &'b [u8],
    numbers: &'a mut [T::Bytes],
}

impl<T: Real> WithSimd<T::Word> for DecodeBlock<'_, '_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, s: S) -> Result<()> {
        let Self { work: Work { words, contexts }, shape, bytes, numbers } = self;
        let (kind, rest) = parse(bytes)?;
        let n_bytes = match kind {
            CODED => {
                let n_bytes = contexts::decode(s, contexts, rest, shape, words)?;
                let words = &words[..numbers.len()];
                let mut k = 0;
                while k < words.len() {
                    numbers[k] = T::put(words[k]);
                    k += 1;
                }
                n_bytes
            }
            RAW => {
                let n_bytes = size_of_val(numbers);
                numbers.copy_from_slice(T::elements(rest.get(..n_bytes).ok_or_else(damage)?));
                n_bytes
            }
            _ => {
                numbers.fill(T::Bytes::default());
                0
            }
        };
        if (HEADER + n_bytes).next_multiple_of(UNIT) == bytes.len() { Ok(()) } else { Err(damage()) }
    }
}

/// Returns the kind of a block and the bytes after its header.
fn parse(bytes: &[u8]) -> Result<(u8, &[u8])> {
    match bytes.split_first_chunk().ok_or_else(damage)? {
        (&[kind @ (RAW | CODED | ZEROS), 0, 0, 0], rest) => Ok((kind, rest)),
        _ => {
            let text = "a multigrid block is of an unknown kind; a newer gridz may read this data";
            Err(Error::new(ErrorKind::UnsupportedFormat, text))
        }
    }
}

fn damage() -> Error {
    Error::corrupt("a multigrid block is damaged: its length does not match its contents")
}
