//! Numbers: the residuals of the new nodes of all steps of a layer, in independent blocks that
//! follow a table.
//!
//! ```text
//! u32 end in units, u32 check of each block | blocks
//! a block: u8 kind | u8 0 | u16 0 | numbers in contexts of those near them
//! ```
//!
//! The numbers of the first steps are one array with one axis. The numbers of each later step are
//! an array with up to three axes. The blocks of these arrays are consecutive, so all of them can
//! be coded in parallel. An encoder has the numbers of an array in the order of its nodes. A
//! decoder has the numbers of each block contiguous, so that several threads can write them.

use crate::codec::multigrid::grid::{Grid, MAX_STEPS};
use crate::codec::multigrid::payload::truncated;
use crate::codec::multigrid::real::Real;
use crate::codec::{BlockCounts, Job};
use crate::cpu::isa::Isa;
use crate::cpu::ordered;
use crate::cpu::thread_cache::{ThreadCache, at_least};
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::stage::blocks::table::{ENTRY, Table, Writer, end_of_last};
use crate::stage::blocks::{Blocks, ROW};
use crate::stage::entropy::contexts;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::rows::{LANES, RowSink, Simd, WithSimd, dispatch};
use crate::stage::word::Word;
use crate::types::Shape;
use std::ops::Range;

/// Block kinds: raw words, coded with contexts, all zero.
const RAW: u8 = 0;
const CODED: u8 = 1;
const ZEROS: u8 = 2;
/// Bytes of a header.
const HEADER: usize = 4;
/// Blocks begin at multiples of this, in bytes.
pub const UNIT: usize = 4;
/// Most numbers of a block.
const MOST: usize = 1 << 16;

/// The numbers of one or several steps.
#[derive(Clone, Copy)]
pub struct Array {
    blocks: Blocks,
    /// Counts of the numbers and blocks of the arrays before it.
    first_number: usize,
    first_block: usize,
}

/// The arrays of numbers of a layer, or the first ones of them.
#[derive(Clone, Copy)]
pub struct Arrays {
    arrays: [Option<Array>; MAX_STEPS],
    n_arrays: usize,
    n_numbers: usize,
    n_blocks: usize,
    /// Blocks of all arrays of the layer; the table has an entry for each.
    n_in_table: usize,
}

/// A block of an array.
struct Block {
    /// Its numbers, in the order in which each block is contiguous.
    range: Range<usize>,
    /// The first of them in the order of the nodes, and the strides of its rows and planes there.
    first: usize,
    row: usize,
    plane: usize,
    shape: [usize; 3],
}

impl Arrays {
    const NONE: Self = Self { arrays: [None; MAX_STEPS], n_arrays: 0, n_numbers: 0, n_blocks: 0, n_in_table: 0 };

    /// The arrays of all steps of a grid.
    pub fn new(grid: Grid) -> Self {
        let n_front = grid.n_front();
        let n_together: usize = grid.steps().take(n_front).map(|step| step.n_new()).sum();
        let mut all = Self::NONE;
        if n_together > 0 {
            all.push(&[n_together as u64]);
        }
        grid.steps().skip(n_front).for_each(|step| all.push(&step.new_extents().map(|n| n as u64)));
        all
    }

    /// The arrays that the first `n_steps` steps of a grid need.
    pub fn of_steps(grid: Grid, n_steps: usize) -> Self {
        let (all, n_front) = (Self::new(grid), grid.n_front());
        let n_arrays = if n_steps <= n_front { n_steps.min(1) } else { n_steps - n_front + n_front.min(1) };
        match all.arrays.get(n_arrays).copied().flatten() {
            Some(Array { first_number, first_block, .. }) => {
                Self { n_arrays, n_numbers: first_number, n_blocks: first_block, ..all }
            }
            None => all,
        }
    }

    /// True if the layer has more arrays.
    pub fn is_part(&self) -> bool {
        self.n_blocks < self.n_in_table
    }

    fn push(&mut self, extents: &[u64]) {
        let shape = Shape::new(extents).expect("part of an array");
        let blocks = Blocks::new(&Fold::Merge.apply(&shape, 3), MOST, ROW).expect("new nodes");
        let (first_number, first_block) = (self.n_numbers, self.n_blocks);
        self.n_numbers += blocks.n_elements();
        self.n_blocks += blocks.n_blocks();
        self.n_in_table = self.n_blocks;
        self.arrays[self.n_arrays] = Some(Array { blocks, first_number, first_block });
        self.n_arrays += 1;
    }

    pub fn n_numbers(&self) -> usize {
        self.n_numbers
    }

    pub fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// Array `i`.
    pub fn array(&self, i: usize) -> &Array {
        self.arrays[i].as_ref().expect("an array of a step")
    }

    /// Bytes of the table.
    fn table_bytes(&self) -> usize {
        ENTRY * self.n_in_table
    }

    /// Most bytes of table and blocks, for words of this size.
    pub fn most_bytes(&self, word_bytes: usize) -> usize {
        self.table_bytes() + HEADER * self.n_blocks + word_bytes * self.n_numbers
    }

    fn block(&self, index: usize) -> Block {
        let is_not_behind = |array: &Option<Array>| array.is_some_and(|array| array.first_block <= index);
        let Array { blocks, first_number, first_block } =
            self.array(self.arrays.partition_point(is_not_behind) - 1);
        let block = blocks.block(index - first_block);
        let ([z, y, x], (row, plane)) = (block.origin, blocks.strides());
        let start = first_number + blocks.elements_before(&block);
        let range = start..start + block.n_elements();
        Block { range, first: first_number + z * plane + y * row + x, row, plane, shape: block.shape }
    }

    /// Ranges of blocks that have about `n_numbers` numbers, or a few more.
    fn pieces(&self, n_numbers: usize) -> Result<Vec<Range<usize>>> {
        let mut pieces = try_vec(self.n_blocks, "bookkeeping")?;
        let (mut start, mut n) = (0, 0);
        for index in 0..self.n_blocks {
            n += self.block(index).range.len();
            if n >= n_numbers || index + 1 == self.n_blocks {
                pieces.push(start..index + 1);
                (start, n) = (index + 1, 0);
            }
        }
        Ok(pieces)
    }
}

/// Iterates over consecutive numbers in node order, as runs that are contiguous within blocks.
pub struct InBlocks<'a> {
    array: &'a Array,
    at: usize,
    end: usize,
}

impl<'a> InBlocks<'a> {
    /// The `n` numbers of an array from `at` on.
    #[inline(always)]
    pub fn new(array: &'a Array, at: usize, n: usize) -> Self {
        Self { array, at, end: at + n }
    }

    /// Returns the position and length of the next contiguous run.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(usize, usize)> {
        if self.at == self.end {
            return None;
        }
        let (place, n) = self.array.blocks.place(self.at);
        let n = n.min(self.end - self.at);
        self.at += n;
        Some((self.array.first_number + place, n))
    }
}

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
    if job.pool.pieces((arrays.n_numbers * size_of::<T>()) as u64) == 1 {
        let n_bytes = make(0..arrays.n_blocks, table, data)?;
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
    Ok(at + entries.len() + end_of_last(&entries[..ENTRY * arrays.n_blocks], UNIT))
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
        let of_arrays = &entries[..ENTRY * arrays.n_blocks];
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
        let n_pieces = job.pool.pieces((arrays.n_numbers * size_of::<T>()) as u64);
        if n_pieces == 1 {
            return Ok(of_table.combine(decode((0..arrays.n_blocks, numbers))?));
        }
        let ranges = arrays.pieces(arrays.n_numbers.div_ceil(n_pieces))?;
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
        for index in 0..arrays.n_blocks {
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
        let coded = if any == T::Word::ZERO { Some(0) } else { contexts.encode(s, words, block.shape) };
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
            CODED => contexts.write(bytes),
            RAW => bytes.chunks_exact_mut(word_bytes).zip(words.iter()).for_each(|(out, word)| word.write(out)),
            _ => {}
        }
        zeros.fill(0);
        end
    }
}

/// Stores rows of numbers consecutively.
struct Words<'a, W> {
    words: &'a mut [W],
    at: usize,
}

impl<W: Word, S: Simd<W>> RowSink<W, S> for Words<'_, W> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        s.store(row, &mut self.words[self.at..]);
        self.at += LANES;
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
                let n_bytes = contexts.decode(s, rest, shape, &mut Words { words, at: 0 })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_a_block_once() {
        for extents in [&[5][..], &[100_000], &[700, 900], &[70, 80, 90], &[5, 6, 70, 80], &[3, 1, 40_000]] {
            let grid = Grid::new(&Shape::new(extents).unwrap()).unwrap();
            let arrays = Arrays::new(grid);
            assert_eq!(arrays.n_numbers(), grid.n_nodes() - 1);
            // Position of each number in node order: by its block, and by the runs of consecutive
            // numbers.
            let mut places = vec![usize::MAX; arrays.n_numbers()];
            let mut end = 0;
            for index in 0..arrays.n_blocks {
                let Block { range, first, row, plane, shape: [sz, sy, sx] } = arrays.block(index);
                assert_eq!(range.start, end);
                end = range.end;
                for (i, place) in range.enumerate() {
                    let (z, y, x) = (i / (sy * sx), i / sx % sy, i % sx);
                    assert!(z < sz);
                    places[first + z * plane + y * row + x] = place;
                }
            }
            assert_eq!(end, arrays.n_numbers());
            for array in arrays.arrays.iter().flatten() {
                let mut at = 0;
                let mut all = InBlocks::new(array, 0, array.blocks.n_elements());
                while let Some((place, n)) = all.next() {
                    for k in 0..n {
                        assert_eq!(places[array.first_number + at + k], place + k, "{extents:?}");
                    }
                    at += n;
                }
                assert_eq!(at, array.blocks.n_elements());
            }
        }
    }
}
