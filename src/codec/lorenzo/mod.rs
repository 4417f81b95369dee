//! `lorenzo`: lossless compression of integers and floats, gridz's own.
//!
//! An array is cut into blocks that know nothing of each other. Elements that have all the same word may be left out
//! (`mask`). Of a block's numbers (`map`, `decimal`) differences along the axes are taken (`stage::predict`), and these are
//! coded by their lengths: `stage::pack` packs them, with patches for the long ones, `huff` gives each length a code, and
//! `stage::sparse` keeps the few that are not zero. Two modes, `fast` and `dense`, choose among that differently (`params`,
//! `block`); the decoder does not need to know.
//!
//! This file cuts a chunk into pieces for threads. The bytes do not depend on how many there were.

mod block;
mod cuda;
mod cut;
mod decimal;
mod dict;
mod header;
mod huff;
pub mod layout;
mod map;
mod mask;
pub mod params;

use crate::codec::{BlockCounts, Codec, Decision, Encoded, Job, Kept, Params, Plan, Terms};
use crate::cpu::level::Level;
use crate::cpu::ordered;
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::checksum::Sums;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::Block;
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::rows::{RowWord, Rows, Task, at_level};
use crate::stage::sums::{Prefetch, sums_of};
use crate::stage::word::Word;
use crate::types::{Array, DType, Shape};
use block::Work;
use layout::{ENTRY, Layout, UNIT};
use params::Mode;

/// The codec.
pub struct Lorenzo;

impl Codec for Lorenzo {
    fn max_rank(&self) -> usize {
        params::MAX_RANK
    }

    fn plan(&self, array: &Array, terms: &Terms) -> Decision {
        let (fold, b) = params::choose(terms.level);
        match Chunk::new(array.dtype(), &fold.apply(array.shape(), params::MAX_RANK), &[b]) {
            // No numbers, or too many.
            None => Decision::Store,
            Some(chunk) => {
                let bound = chunk.layout.payload_bound();
                Decision::Take(Plan { fold, params: Params::new(&[b]), bound, layout: Kept::new(chunk) })
            }
        }
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<Kept> {
        Chunk::new(dtype, shape, params)
            .map(Kept::new)
            .ok_or_else(|| Error::corrupt("lorenzo cannot have written a chunk of this type, size or parameters"))
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let chunk: &Chunk = job.layout.get();
        match chunk.element.word_bits() {
            64 => encode::<u64>(chunk, job, src, dst),
            _ => encode::<u32>(chunk, job, src, dst),
        }
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
        let chunk: &Chunk = job.layout.get();
        match chunk.element.word_bits() {
            64 => decode::<u64>(chunk, job, payload, dst),
            _ => decode::<u32>(chunk, job, payload, dst),
        }
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let chunk: &Chunk = job.layout.get();
        let count = || {
            let sections = Sections::parse(&chunk.layout, payload)?;
            let mut counts = BlockCounts::default();
            for index in 0..chunk.layout.blocks.n_blocks() {
                header::count(sections.block(job.level, index, job.verify)?.0, &mut counts)?;
            }
            Ok(counts)
        };
        Some(count())
    }

    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Sums>> {
        let chunk: &Chunk = job.layout.get();
        match chunk.element.word_bits() {
            64 => decode_region::<u64>(chunk, job, payload, region, dst),
            _ => decode_region::<u32>(chunk, job, payload, region, dst),
        }?;
        Ok(None)
    }
}

/// What all blocks of a chunk have in common.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    element: Element,
    /// The parameter: the logarithm of a block's elements.
    b: u8,
}

impl Chunk {
    /// `None` if the codec cannot have written it.
    fn new(dtype: DType, shape: &Shape, params: &[u8]) -> Option<Self> {
        let &[b] = params else { return None };
        let element = Element::of(dtype)?;
        let layout = Layout::new(shape, element.bytes, b)?;
        Some(Self { layout, element, b })
    }
}

/// Raw bytes of a piece where several threads encode: it is in the cache when it is copied to its place and summed.
const PIECE_BYTES: usize = 256 << 10;

/// The check of a block of so many bytes with these sums: half of the checksum of a payload without other words.
fn check_of(sums: Sums, n_bytes: usize) -> u32 {
    sums.checksum(n_bytes as u64) as u32
}

fn encode<W: RowWord>(chunk: &Chunk, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
    let layout = &chunk.layout;
    let n_blocks = layout.blocks.n_blocks();
    let (table, data) = dst.split_at_mut(layout.table_bytes());
    let (entries, pad) = table.split_at_mut(ENTRY * n_blocks);
    pad.fill(0);

    if job.pool.pieces(src.len() as u64) == 1 {
        let start = Some(layout.table_bytes());
        let (n_bytes, sums) = encode_piece::<W>(job.level, chunk, src, 0, entries, data, start)?;
        let of_table = sums_of(job.level, Prefetch::Nothing, table, 0);
        return Ok(Encoded {
            n_bytes: table.len() + n_bytes,
            sums: sums.map_or(of_table, |sums| of_table.plus(sums)),
        });
    }
    let block_bytes = layout.blocks.block_elements() * chunk.element.bytes;
    let per_piece = PIECE_BYTES.div_ceil(block_bytes);
    let mut pieces = try_vec(n_blocks.div_ceil(per_piece), "bookkeeping")?;
    pieces.extend(entries.chunks_mut(ENTRY * per_piece).enumerate().map(|(i, table)| (i * per_piece, table)));
    let data_start = layout.table_bytes();
    let make = |item: &mut (usize, &mut [u8]), start: Option<usize>, out: &mut [u8]| {
        let (first_block, table) = item;
        let start = start.map(|start| data_start + start);
        match encode_piece::<W>(job.level, chunk, src, *first_block, table, out, start) {
            Ok((n_bytes, sums)) => (n_bytes, Ok(sums)),
            Err(error) => (0, Err(error)),
        }
    };
    let place = |(_, table): (usize, &mut [u8]), sums: Result<Option<Sums>>, start: usize, output: &[u8]| {
        Ok(sums?.unwrap_or_else(|| finish_entries(job.level, chunk, table, data_start + start, output)))
    };
    let most_bytes = per_piece * layout.block_bound(layout.blocks.block_elements());
    let (n_bytes, sums) = ordered::concatenate(job.pool, pieces, most_bytes, data, make, place);
    let mut all = sums_of(job.level, Prefetch::Nothing, table, 0);
    for sums in sums {
        all = all.plus(sums?);
    }
    Ok(Encoded { n_bytes: table.len() + n_bytes, sums: all })
}

/// Encodes blocks from `first_block` on, one for each entry of the table. If it is known where in the payload they are,
/// the entries are completed, and the sums of the blocks returned; else the ends count from the start of `out`.
fn encode_piece<W: RowWord>(
    level: Level,
    chunk: &Chunk,
    src: &[u8],
    first_block: usize,
    table: &mut [u8],
    out: &mut [u8],
    start: Option<usize>,
) -> Result<(usize, Option<Sums>)> {
    let mut work = Work::<W>::new(&chunk.layout)?;
    let (row, plane) = chunk.layout.blocks.strides();
    let from = |block: &Block| {
        let [z, y, x] = block.origin;
        (z * plane + y * row + x) * chunk.element.bytes
    };
    let mut end = 0;
    let mut all = Sums::default();
    for (i, entry) in table.chunks_exact_mut(ENTRY).enumerate() {
        let block = chunk.layout.blocks.block(first_block + i);
        let next = chunk.layout.blocks.block((first_block + i + 1).min(chunk.layout.blocks.n_blocks() - 1));
        let source = Source { bytes: &src[from(&block)..], next: &src[from(&next)..], row, plane };
        let n_bytes = at_level(
            level,
            EncodeBlock { work: &mut work, chunk, source: &source, shape: block.shape, out: &mut out[end..] },
        );
        let bytes = &out[end..end + n_bytes];
        match start {
            Some(start) => all = all.plus(finish_entry(level, chunk, entry, start + end, bytes)),
            None => (((end + n_bytes) / UNIT) as u32).write(entry),
        }
        end += n_bytes;
    }
    Ok((end, start.map(|_| all)))
}

/// Completes entries whose ends count from the start of their blocks' bytes, which are in the payload from `start` on.
fn finish_entries(level: Level, chunk: &Chunk, table: &mut [u8], start: usize, bytes: &[u8]) -> Sums {
    let mut all = Sums::default();
    let mut first = 0;
    for entry in table.chunks_exact_mut(ENTRY) {
        let end = u32::read(entry) as usize * UNIT;
        all = all.plus(finish_entry(level, chunk, entry, start + first, &bytes[first..end]));
        first = end;
    }
    all
}

/// Writes the entry of the block with these bytes, which are in the payload from `start` on, and returns their sums.
fn finish_entry(level: Level, chunk: &Chunk, entry: &mut [u8], start: usize, bytes: &[u8]) -> Sums {
    let sums = sums_of(level, Prefetch::Following, bytes, start as u64);
    let end = start + bytes.len() - chunk.layout.table_bytes();
    ((end / UNIT) as u32).write(entry);
    check_of(sums, bytes.len()).write(&mut entry[4..]);
    sums
}

/// Encodes a block to the start of `out`, and returns its bytes.
struct EncodeBlock<'a, W: RowWord> {
    work: &'a mut Work<W>,
    chunk: &'a Chunk,
    source: &'a Source<'a>,
    shape: [usize; 3],
    out: &'a mut [u8],
}

impl<W: RowWord> Task<W> for EncodeBlock<'_, W> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Rows<W>>(self, s: S) -> usize {
        block::encode(s, self.work, self.source, self.shape, self.chunk.element, Mode::of(self.chunk.b), self.out)
    }
}

/// Decodes the bytes of a block to its place.
struct DecodeBlock<'a, 't, 'b, W: RowWord> {
    work: &'a mut Work<W>,
    chunk: &'a Chunk,
    shape: [usize; 3],
    bytes: &'a [u8],
    target: &'a mut Target<'t, 'b>,
}

impl<W: RowWord> Task<W> for DecodeBlock<'_, '_, '_, W> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Rows<W>>(self, s: S) -> Result<()> {
        block::decode(s, self.work, self.shape, self.chunk.element, self.bytes, self.target)
    }
}

/// A payload's table and blocks.
struct Sections<'a> {
    table: &'a [u8],
    blocks: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Finds the sections and checks the ends of the blocks, so that each can be sliced.
    fn parse(layout: &Layout, payload: &'a [u8]) -> Result<Self> {
        let (table, blocks) = payload.split_at_checked(layout.table_bytes()).ok_or_else(|| {
            let (have, need) = (payload.len(), layout.table_bytes());
            Error::new(ErrorKind::Truncated, format!("a lorenzo payload has {have} of {need} bytes of its table"))
        })?;
        let sections = Self { table, blocks };
        let mut last = 0;
        for index in 0..layout.blocks.n_blocks() {
            let end = sections.entry(index).0;
            if end < last {
                return Err(Error::corrupt(format!("lorenzo block {index} ends before it begins")));
            }
            last = end;
        }
        if last != blocks.len() {
            let have = blocks.len();
            return Err(Error::corrupt(format!("a lorenzo payload has {have} bytes of blocks instead of {last}")));
        }
        Ok(sections)
    }

    /// End and check of a block.
    fn entry(&self, index: usize) -> (usize, u32) {
        let entry = &self.table[ENTRY * index..];
        (u32::read(entry) as usize * UNIT, u32::read(&entry[4..]))
    }

    /// The bytes of a block, and their sums, which are compared with its check.
    fn block(&self, level: Level, index: usize, verify: bool) -> Result<(&'a [u8], Sums)> {
        let start = if index == 0 { 0 } else { self.entry(index - 1).0 };
        let (end, check) = self.entry(index);
        let bytes = &self.blocks[start..end];
        let sums = sums_of(level, Prefetch::Following, bytes, (self.table.len() + start) as u64);
        if verify && check_of(sums, bytes.len()) != check {
            return Err(Error::corrupt(format!("lorenzo block {index} is damaged: its check does not match")));
        }
        Ok((bytes, sums))
    }
}

/// The blocks that share their leading coordinates, and where their elements go: a band per plane.
struct Strip<'a> {
    number: usize,
    bands: Vec<&'a mut [u8]>,
}

fn decode<W: RowWord>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
    let sections = Sections::parse(&chunk.layout, payload)?;
    let n_pieces = job.pool.pieces(chunk.layout.payload_bound());
    let of_table = sums_of(job.level, Prefetch::Nothing, sections.table, 0);
    if n_pieces == 1 {
        return Ok(of_table.plus(decode_all::<W>(job, chunk, &sections, dst)?));
    }
    let mut strips = strips_of(chunk, dst)?;
    let per_piece = strips.len().div_ceil(n_pieces);
    let mut pieces = try_vec(n_pieces, "bookkeeping")?;
    pieces.extend(strips.chunks_mut(per_piece));
    let decoded = job.pool.map(pieces, |strips| decode_strips::<W>(job, chunk, &sections, strips));
    decoded.into_iter().try_fold(of_table, |sums, piece| Ok(sums.plus(piece?)))
}

/// Decodes all blocks to an array, and returns their sums.
fn decode_all<W: RowWord>(job: &Job, chunk: &Chunk, sections: &Sections, dst: &mut [u8]) -> Result<Sums> {
    let blocks = &chunk.layout.blocks;
    let mut work = Work::<W>::new(&chunk.layout)?;
    let (row, plane) = blocks.strides();
    let bands = &mut [dst];
    let mut all = Sums::default();
    for index in 0..blocks.n_blocks() {
        let [z, y, x] = blocks.block(index).origin;
        let mut target = Target { bands, plane: Some(plane), offset: z * plane + y * row + x, row };
        all = all.plus(decode_block(job, &mut work, chunk, sections, index, &mut target)?);
    }
    Ok(all)
}

/// Cuts the destination into the bands of every strip.
fn strips_of<'a>(chunk: &Chunk, mut dst: &'a mut [u8]) -> Result<Vec<Strip<'a>>> {
    let mut strips: Vec<Strip> = try_vec(chunk.layout.blocks.n_strips(), "bookkeeping")?;
    for (n_elements, number) in chunk.layout.blocks.bands() {
        if number == strips.len() {
            strips.push(Strip { number, bands: try_vec(chunk.layout.blocks.bands_per_strip(), "bookkeeping")? });
        }
        let (band, rest) = dst.split_at_mut(n_elements * chunk.element.bytes);
        strips[number].bands.push(band);
        dst = rest;
    }
    Ok(strips)
}

/// Decodes some consecutive strips and returns the sums of their blocks.
fn decode_strips<W: RowWord>(job: &Job, chunk: &Chunk, sections: &Sections, strips: &mut [Strip]) -> Result<Sums> {
    let blocks = &chunk.layout.blocks;
    let mut work = Work::<W>::new(&chunk.layout)?;
    let (row, _) = blocks.strides();
    let mut all = Sums::default();
    for strip in strips {
        for i in 0..blocks.blocks_per_strip() {
            let index = strip.number * blocks.blocks_per_strip() + i;
            let (bands, plane) = (&mut strip.bands, blocks.band_plane());
            let mut target = Target { bands, plane, offset: i * blocks.block_step(), row };
            all = all.plus(decode_block(job, &mut work, chunk, sections, index, &mut target)?);
        }
    }
    Ok(all)
}

/// Decodes block `index` to its place, and returns its sums.
fn decode_block<W: RowWord>(
    job: &Job,
    work: &mut Work<W>,
    chunk: &Chunk,
    sections: &Sections,
    index: usize,
    target: &mut Target,
) -> Result<Sums> {
    let (bytes, sums) = sections.block(job.level, index, job.verify)?;
    let shape = chunk.layout.blocks.block(index).shape;
    at_level(job.level, DecodeBlock { work, chunk, shape, bytes, target })?;
    Ok(sums)
}

/// Decodes the blocks that a region touches.
fn decode_region<W: RowWord>(
    chunk: &Chunk,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<()> {
    let sections = Sections::parse(&chunk.layout, payload)?;
    let mut work = Work::<W>::new(&chunk.layout)?;
    let size = chunk.element.bytes;
    let mut elements = try_vec(chunk.layout.blocks.block_elements() * size, "bookkeeping")?;
    elements.resize(chunk.layout.blocks.block_elements() * size, 0);
    for index in chunk.layout.blocks.blocks_in(region) {
        let Block { origin, shape } = chunk.layout.blocks.block(index);
        let [_, sy, sx] = shape;
        let bands = &mut [&mut elements[..]];
        let mut target = Target { bands, plane: Some(sy * sx), offset: 0, row: sx };
        decode_block(job, &mut work, chunk, &sections, index, &mut target)?;
        region.take(origin.map(|n| n as u64), shape.map(|n| n as u64), &elements, size, dst);
    }
    Ok(())
}
