//! Decoding: sections know nothing of each other, and of a region only those groups are decoded that it touches.
#![allow(unsafe_code, reason = "threads write sections of one array, which have no element in common")]

use crate::codec::zfp::Chunk;
use crate::codec::zfp::block::{BitReader, Value, decode as decode_block};
use crate::codec::zfp::elements::store;
use crate::codec::zfp::exceptions::Exceptions;
use crate::codec::zfp::layout::{Block, Layout, MOST_ELEMENTS};
use crate::codec::zfp::numbers::Numbers;
use crate::codec::zfp::payload::Payload;
use crate::codec::zfp::scatter::Scatter;
use crate::codec::{BlockCounts, Job};
use crate::cpu::float::Ieee;
use crate::cpu::level::Level;
use crate::error::{Error, Result, try_vec};
use crate::format::checksum::{ROW_BYTES, Sums};
use crate::format::region::FoldedRegion;
use crate::stage::sums::{Prefetch, sums_of};
use crate::stage::word::Word;

/// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns its sums.
///
/// # Errors
/// `Corrupt`, `Truncated` or `OutOfMemory`.
pub fn decode<T: Value>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
    let decoder = Decoder::new(chunk, job.level, payload)?;
    let n_pieces = job.pool.pieces(dst.len() as u64);
    let (n_sections, array) = (chunk.layout.n_sections(), Scatter::new(dst, &chunk.layout));
    let piece_bytes = payload.len().div_ceil(n_pieces).next_multiple_of(ROW_BYTES);
    // Piece i of the sections, and piece i of the payload, which need not have much in common.
    let work = |piece: usize| {
        let _ieee = Ieee::begin();
        for section in piece * n_sections / n_pieces..(piece + 1) * n_sections / n_pieces {
            decoder.section::<T>(section, &array)?;
        }
        let [start, end] = [piece, piece + 1].map(|piece| (piece * piece_bytes).min(payload.len()));
        Ok(sums_of(job.level, Prefetch::Nothing, &payload[start..end], start as u64))
    };
    if n_pieces == 1 {
        return work(0);
    }
    let mut pieces = try_vec(n_pieces, "bookkeeping")?;
    pieces.extend(0..n_pieces);
    job.pool.map(pieces, work).into_iter().try_fold(Sums::default(), |sums, of_piece| Ok(sums.plus(of_piece?)))
}

/// Decodes the blocks that a region touches, and copies its elements to `dst`. Blocks have no checks, so it is the whole
/// payload that is summed up where checks are asked for.
///
/// # Errors
/// `Corrupt` or `Truncated`.
pub fn decode_region<T: Value>(
    chunk: &Chunk,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<Option<Sums>> {
    let _ieee = Ieee::begin();
    let decoder = Decoder::new(chunk, job.level, payload)?;
    let layout = &chunk.layout;
    let (size, n) = (T::Word::BYTES, layout.block_elements());
    let sides = layout.sides().map(|side| side as u64);
    let (mut elements, mut bytes) = ([T::default(); MOST_ELEMENTS], [0; 8 * MOST_ELEMENTS]);
    let (elements, bytes) = (&mut elements[..n], &mut bytes[..n * size]);
    let mut wanted = layout.blocks_in(region).peekable();
    let mut open: Option<Section<T::Word>> = None;
    while let Some(&first) = wanted.peek() {
        let group = first / layout.per_group();
        let number = first / layout.per_section();
        let section = match open.take().filter(|section| section.number == number) {
            Some(section) => section,
            None => decoder.open(number)?,
        };
        let mut blocks = decoder.group(&section, group, first);
        while let Some(&next) = wanted.peek().filter(|&&next| next / layout.per_group() == group) {
            let number = blocks.next;
            let block = layout.block(number);
            blocks.decode(&section, &block, elements)?;
            if number == next {
                wanted.next();
                store(elements, bytes);
                region.take(block.origin.map(|at| at as u64), sides, bytes, size, dst);
            }
        }
        open = Some(section);
    }
    Ok(job.verify.then(|| sums_of(job.level, Prefetch::Following, payload, 0)))
}

/// Counts the blocks, and the elements that are kept exactly.
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

/// What all sections have in common.
struct Decoder<'p> {
    layout: &'p Layout,
    numbers: Numbers,
    level: Level,
    payload: Payload<'p>,
}

/// A section whose index is checked.
struct Section<'p, W> {
    number: usize,
    /// Its first bit in the stream.
    start: usize,
    exceptions: Option<Exceptions<'p, W>>,
}

impl<'p> Decoder<'p> {
    fn new(chunk: &'p Chunk, level: Level, payload: &'p [u8]) -> Result<Self> {
        let layout = &chunk.layout;
        let payload = Payload::parse(layout, &chunk.asked.numbers, payload)?;
        let numbers = chunk.numbers_of(payload.tail.bound)?;
        Ok(Self { layout, numbers, level, payload })
    }

    /// Checks what there is of a section beside its blocks.
    fn open<W: Word>(&self, number: usize) -> Result<Section<'p, W>> {
        let start = self.payload.section(number)?.start;
        Ok(Section { number, start, exceptions: self.payload.exceptions(number)? })
    }

    /// The blocks of a group of a section, as far as can be from block `first` on.
    fn group<W>(&self, section: &Section<W>, group: usize, first: usize) -> Blocks<'_, 'p> {
        let bits = self.payload.group(group, section.start);
        let blocks = self.layout.group(group);
        let (next, start) = match self.payload.fixed_bits() {
            Some(n_bits) => (first, bits.start + (first - blocks.start) * n_bits),
            None => (blocks.start, bits.start),
        };
        let reader = BitReader::new(self.payload.stream, start);
        Blocks { decoder: self, reader, next, last: blocks.end - 1, end: bits.end }
    }

    /// Decodes a section to its place.
    fn section<T: Value>(&self, number: usize, array: &Scatter) -> Result<()> {
        let section = self.open(number)?;
        let mut elements = [T::default(); MOST_ELEMENTS];
        let elements = &mut elements[..self.layout.block_elements()];
        for group in self.layout.groups_of(number) {
            let numbers = self.layout.group(group);
            let mut blocks = self.group(&section, group, numbers.start);
            for (_, block) in self.layout.blocks(numbers) {
                blocks.decode(&section, &block, elements)?;
                // SAFETY: each section is decoded once, and each block is in one section.
                unsafe { array.put(&block, elements) };
            }
        }
        Ok(())
    }
}

/// Blocks of a group, one after the other.
struct Blocks<'a, 'p> {
    decoder: &'a Decoder<'p>,
    reader: BitReader<'p>,
    /// The next one, and the last one of the group.
    next: usize,
    last: usize,
    /// The bit behind the group.
    end: usize,
}

impl Blocks<'_, '_> {
    /// Decodes the next block, with its exceptions.
    #[inline(always)]
    fn decode<T: Value>(&mut self, section: &Section<T::Word>, block: &Block, elements: &mut [T]) -> Result<()> {
        let Decoder { layout, numbers, level, .. } = self.decoder;
        decode_block(*level, layout.rank(), numbers, &mut self.reader, elements);
        let is_sound = if self.next == self.last {
            self.reader.position() == self.end
        } else {
            self.reader.position() <= self.end
        };
        if !is_sound {
            return Err(Error::corrupt(format!("zfp block {} does not end with its group", self.next)));
        }
        if let Some(exceptions) = &section.exceptions {
            let first = section.number * layout.per_section();
            exceptions.apply((self.next - first) * elements.len(), block, elements)?;
        }
        self.next += 1;
        Ok(())
    }
}
