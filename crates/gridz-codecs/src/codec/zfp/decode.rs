//! Decoding: sections are independent, and a region only needs the groups that it touches.
#![allow(unsafe_code, reason = "threads write sections of one array, which have no element in common")]

use std::marker::PhantomData;
use std::ops::Range;

use crate::codec::zfp::Chunk;
use crate::codec::zfp::block::{GROUP, Parameters, Value, decode as decode_blocks};
use crate::codec::zfp::elements::store;
use crate::codec::zfp::exceptions::Exceptions;
use crate::codec::zfp::layout::{Block, Layout, MOST_BLOCKS, next};
use crate::codec::zfp::numbers::Numbers;
use crate::codec::zfp::payload::Payload;
use crate::codec::zfp::scatter::Scatter;
use crate::codec::{BlockCounts, Job};
use crate::cpu::float::Ieee;
use crate::cpu::isa::{Isa, Kernel, dispatch_up_to_avx2};
use crate::error::{Error, Result, try_vec};
use crate::format::checksum::{Checksum, ROW_BYTES};
use crate::format::region::FoldedRegion;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::word::Word;

/// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns the
/// payload's checksum.
///
/// # Errors
/// `Corrupt`, `Truncated` or `OutOfMemory`.
pub fn decode<T: Value>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
    let decoder = Decoder::new(chunk, job.level, payload)?;
    let n_pieces = job.pool.pieces(dst.len() as u64);
    let (n_sections, array) = (chunk.layout.n_sections(), Scatter::new(dst, &chunk.layout));
    let piece_bytes = payload.len().div_ceil(n_pieces).next_multiple_of(ROW_BYTES);
    // Piece i of the sections, and piece i of the payload, which need not overlap much.
    let work = |piece: usize| {
        let _ieee = Ieee::begin();
        let sections = piece * n_sections / n_pieces..(piece + 1) * n_sections / n_pieces;
        dispatch_up_to_avx2(
            job.level,
            Sections::<T> { decoder: &decoder, array: &array, sections, of: PhantomData },
        )?;
        let [start, end] = [piece, piece + 1].map(|piece| (piece * piece_bytes).min(payload.len()));
        Ok(checksum_of(job.level, Prefetch::Nothing, &payload[start..end], start as u64))
    };
    if n_pieces == 1 {
        return work(0);
    }
    let mut pieces = try_vec(n_pieces, "bookkeeping")?;
    pieces.extend(0..n_pieces);
    job.pool
        .map(pieces, work)
        .into_iter()
        .try_fold(Checksum::default(), |sums, of_piece| Ok(sums.combine(of_piece?)))
}

/// Decodes a stream without an index into `dst`, which has exactly the bytes of the array. Returns
/// the bits of the stream, including any that are missing.
pub fn decode_stream<T: Value>(
    layout: &Layout,
    numbers: &Parameters,
    level: Isa,
    stream: &[u8],
    dst: &mut [u8],
) -> usize {
    let _ieee = Ieee::begin();
    let array = Scatter::new(dst, layout);
    let mut at = [0];
    let (mut elements, mut blocks) = ([T::default(); GROUP], [Block::default(); MOST_BLOCKS]);
    for group in 0..layout.n_groups() {
        let blocks = layout.blocks_of(group, &mut blocks);
        let elements = &mut elements[..blocks.len() * layout.block_elements()];
        decode_blocks(level, layout.rank(), numbers, stream, &mut at, elements);
        // SAFETY: there is only one thread.
        unsafe { array.put(blocks, elements) };
    }
    at[0]
}

/// Decodes the blocks that a region touches, and copies its elements to `dst`. Blocks have no
/// checksums of their own, so verification covers the whole payload.
///
/// # Errors
/// `Corrupt` or `Truncated`.
pub fn decode_region<T: Value>(
    chunk: &Chunk,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<Option<Checksum>> {
    let _ieee = Ieee::begin();
    let decoder = Decoder::new(chunk, job.level, payload)?;
    let layout = &chunk.layout;
    let (size, n) = (T::Word::BYTES, layout.block_elements());
    let sides = layout.sides().map(|side| side as u64);
    let (mut elements, mut bytes, mut blocks) =
        ([T::default(); GROUP], [0; 8 * GROUP], [Block::default(); MOST_BLOCKS]);
    let mut wanted = layout.blocks_in(region).peekable();
    let mut open: Option<Section<T::Word>> = None;
    while let Some(&first) = wanted.peek() {
        let (group, number) = (first / layout.per_group(), first / layout.per_section());
        let section = match open.take().filter(|section| section.number == number) {
            Some(section) => section,
            None => decoder.open(number)?,
        };
        let blocks = layout.blocks_of(group, &mut blocks);
        let start = decoder.payload.group(group, section.start).start;
        decoder.groups::<T, 1>(&section, group, start, blocks, &mut elements[..blocks.len() * n])?;
        let numbers = layout.group(group);
        while let Some(number) = wanted.next_if(|number| numbers.contains(number)) {
            let i = number - numbers.start;
            let bytes = &mut bytes[..n * size];
            store(&elements[i * n..(i + 1) * n], bytes);
            region.take(layout.origin(number).map(|at| at as u64), sides, bytes, size, dst);
        }
        open = Some(section);
    }
    Ok(job.verify.then(|| checksum_of(job.level, Prefetch::Following, payload, 0)))
}

/// Counts the blocks, and the elements that are stored exactly.
///
/// # Errors
/// `Corrupt` or `Truncated`.
pub fn count<W: Word>(chunk: &Chunk, payload: &[u8]) -> Result<BlockCounts> {
    let payload = Payload::parse(&chunk.layout, &chunk.asked.numbers, payload)?;
    let mut counts = BlockCounts { all: chunk.layout.n_blocks() as u64, ..BlockCounts::default() };
    for section in 0..chunk.layout.n_sections() {
        payload.section(section)?;
        counts.exact += payload.exceptions::<W>(section)?.map_or(0, |exceptions| exceptions.count());
    }
    Ok(counts)
}

/// Maximum number of groups that are decoded side by side.
const TOGETHER: usize = 16;

/// The common data of all sections.
struct Decoder<'p> {
    layout: &'p Layout,
    numbers: Numbers,
    are_integers: bool,
    level: Isa,
    payload: Payload<'p>,
}

/// A section whose index has been checked.
struct Section<'p, W> {
    number: usize,
    /// Its first bit in the stream.
    start: usize,
    exceptions: Option<Exceptions<'p, W>>,
}

impl<'p> Decoder<'p> {
    fn new(chunk: &'p Chunk, level: Isa, payload: &'p [u8]) -> Result<Self> {
        let layout = &chunk.layout;
        let payload = Payload::parse(layout, &chunk.asked.numbers, payload)?;
        let numbers = chunk.numbers_of(payload.tail.bound)?;
        Ok(Self { layout, numbers, are_integers: chunk.are_integers(), level, payload })
    }

    /// Checks the parts of a section other than its blocks.
    fn open<W: Word>(&self, number: usize) -> Result<Section<'p, W>> {
        let start = self.payload.section(number)?.start;
        Ok(Section { number, start, exceptions: self.payload.exceptions(number)? })
    }

    /// Decodes the blocks of `S` groups of a section, side by side, with their exceptions. The
    /// first group begins at bit `start`. Returns the bit at which the last one ends.
    #[inline(always)]
    fn groups<T: Value, const S: usize>(
        &self,
        section: &Section<T::Word>,
        first: usize,
        start: usize,
        blocks: &[Block],
        elements: &mut [T],
    ) -> Result<usize> {
        let (mut at, mut ends) = ([start; S], [start; S]);
        for i in 0..S {
            at[i] = if i == 0 { start } else { ends[i - 1] };
            ends[i] = at[i] + self.payload.group_bits(first + i);
        }
        let numbers = &Parameters { numbers: &self.numbers, are_integers: self.are_integers };
        decode_blocks(self.level, self.layout.rank(), numbers, self.payload.stream, &mut at, elements);
        if let Some(i) = (0..S).find(|&i| at[i] != ends[i]) {
            return Err(Error::corrupt(format!(
                "zfp group {} is damaged: its blocks do not end at the end of the group",
                first + i
            )));
        }
        if let Some(exceptions) = &section.exceptions {
            let n = self.layout.block_elements();
            let place = (first - self.layout.groups_of(section.number).start) * GROUP;
            for (i, (block, elements)) in blocks.iter().zip(elements.chunks_exact_mut(n)).enumerate() {
                exceptions.apply(place + i * n, block, elements)?;
            }
        }
        Ok(ends[S - 1])
    }
}

/// Decodes sections to their positions in the array.
struct Sections<'a, T> {
    decoder: &'a Decoder<'a>,
    array: &'a Scatter<'a>,
    sections: Range<usize>,
    of: PhantomData<T>,
}

impl<T: Value> Kernel for Sections<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        let Self { decoder, array, sections, .. } = self;
        let (layout, n) = (decoder.layout, decoder.layout.block_elements());
        let (mut elements, mut blocks) =
            ([T::default(); TOGETHER * GROUP], [Block::default(); TOGETHER * MOST_BLOCKS]);
        for number in sections {
            let section = decoder.open(number)?;
            let (mut at, groups) = (section.start, layout.groups_of(number));
            let (mut group, mut all) = (groups.start, layout.blocks(layout.section(number)));
            while group < groups.end {
                // The last group of the array may have fewer blocks.
                let are_whole =
                    |n: usize| group + n <= groups.end && layout.group(group + n - 1).len() == layout.per_group();
                // For short blocks, vector registers have a lane for each of this many sequences.
                let n_groups = if layout.rank() < 3 && are_whole(TOGETHER) {
                    TOGETHER
                } else if are_whole(4) {
                    4
                } else {
                    1
                };
                let blocks = next(&mut all, &mut blocks[..n_groups * layout.per_group()]);
                let elements = &mut elements[..blocks.len() * n];
                at = match n_groups {
                    TOGETHER => decoder.groups::<T, TOGETHER>(&section, group, at, blocks, elements)?,
                    4 => decoder.groups::<T, 4>(&section, group, at, blocks, elements)?,
                    _ => decoder.groups::<T, 1>(&section, group, at, blocks, elements)?,
                };
                // SAFETY: each section is decoded once, and each block is in one section.
                unsafe { array.put(blocks, elements) };
                group += n_groups;
            }
        }
        Ok(())
    }
}
