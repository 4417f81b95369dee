//! Payloads of independent blocks. A chunk is cut into pieces for threads, and a table has the
//! place and the check of each block. The bytes do not depend on the number of threads.

use std::marker::PhantomData;

use crate::cpu::isa::Isa;
use crate::cpu::ordered;
use crate::cpu::pool::Pool;
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::checksum::Checksum;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::Block;
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::source::Source;
use crate::stage::blocks::table::{ENTRY, Table, Writer};
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::rows::{Simd, SimdWord, WithSimd, dispatch, dispatch_block};

/// How the blocks of a chunk are coded.
pub trait BlockCoder<W: SimdWord>: Sync {
    /// The codec's name, for messages.
    const NAME: &'static str;
    /// Whether the whole code of a block is compiled for each level, not only the tasks that it
    /// outlines.
    const IS_PER_LEVEL: bool = false;
    /// [`WithSimd::UP_TO_AVX2`] of encoding and of decoding.
    const UP_TO_AVX2: [bool; 2] = [false; 2];
    /// Scratch memory, reused from block to block.
    type Work;

    /// The geometry of the blocks.
    fn layout(&self) -> &Layout;
    /// How elements become words.
    fn element(&self) -> Element;
    /// Whether coding takes several times as long as usual, so that threads pay off in smaller
    /// chunks.
    fn is_slow(&self) -> bool {
        false
    }
    /// Allocates scratch memory.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn work(&self) -> Result<Self::Work>;
    /// Encodes a block of this shape to the start of `out`, which has room for any block. Returns
    /// the bytes, a multiple of the unit.
    fn encode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Self::Work,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize;
    /// Decodes the bytes of a block of this shape to its place.
    ///
    /// # Errors
    /// `Corrupt` or `UnsupportedFormat`.
    fn decode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Self::Work,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()>;
}

/// The blocks of a chunk and their coder. [`WithWord`] makes it of a [`BlockCoder`], so that a
/// [`Worker`] is compiled only once.
pub trait Blocks: Sync {
    /// The codec's name, for messages.
    fn name(&self) -> &'static str;
    /// See [`BlockCoder::layout`].
    fn layout(&self) -> &Layout;
    /// See [`BlockCoder::element`].
    fn element(&self) -> Element;
    /// See [`BlockCoder::is_slow`].
    fn is_slow(&self) -> bool;
    /// Calls `run` with scratch memory for a thread's blocks; fails as `run`, or with `OutOfMemory`.
    fn with_scratch(&self, level: Isa, run: &mut dyn FnMut(&mut dyn Scratch) -> Result<()>) -> Result<()>;
}

/// A thread's scratch memory, in which it codes one block after the other.
pub trait Scratch {
    /// See [`BlockCoder::encode`].
    fn encode(&mut self, source: &Source, shape: [usize; 3], out: &mut [u8]) -> usize;
    /// See [`BlockCoder::decode`].
    fn decode(&mut self, shape: [usize; 3], bytes: &[u8], target: &mut Target) -> Result<()>;
}

/// The blocks of a coder, with words of one type.
pub struct WithWord<'a, W, C>(&'a C, PhantomData<fn() -> W>);

impl<'a, W: SimdWord, C: BlockCoder<W>> WithWord<'a, W, C> {
    pub fn new(coder: &'a C) -> Self {
        Self(coder, PhantomData)
    }
}

impl<W: SimdWord, C: BlockCoder<W>> Blocks for WithWord<'_, W, C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    fn element(&self) -> Element {
        self.0.element()
    }

    fn is_slow(&self) -> bool {
        self.0.is_slow()
    }

    fn with_scratch(&self, level: Isa, run: &mut dyn FnMut(&mut dyn Scratch) -> Result<()>) -> Result<()> {
        run(&mut OfThread { coder: self.0, work: self.0.work()?, level, word: PhantomData })
    }
}

/// The scratch memory of a coder.
struct OfThread<'a, W: SimdWord, C: BlockCoder<W>> {
    coder: &'a C,
    work: C::Work,
    level: Isa,
    word: PhantomData<W>,
}

impl<W: SimdWord, C: BlockCoder<W>> Scratch for OfThread<'_, W, C> {
    fn encode(&mut self, source: &Source, shape: [usize; 3], out: &mut [u8]) -> usize {
        let task = EncodeBlock { coder: self.coder, work: &mut self.work, source, shape, out };
        if C::IS_PER_LEVEL { dispatch(self.level, task) } else { dispatch_block(self.level, task) }
    }

    fn decode(&mut self, shape: [usize; 3], bytes: &[u8], target: &mut Target) -> Result<()> {
        let task = DecodeBlock { coder: self.coder, work: &mut self.work, shape, bytes, target };
        if C::IS_PER_LEVEL { dispatch(self.level, task) } else { dispatch_block(self.level, task) }
    }
}

/// Raw bytes of a piece if several threads encode. A piece is still in the cache when it is copied
/// to its place and summed.
const PIECE_BYTES: usize = 256 << 10;
/// The same for slow work, which uses threads for smaller chunks, too.
const PIECE_BYTES_SLOW: usize = PIECE_BYTES / 4;

/// Encodes and decodes payloads.
pub struct Worker<'a> {
    /// The blocks.
    pub blocks: &'a dyn Blocks,
    /// Workers for large chunks.
    pub pool: &'a Pool,
    /// Instructions that may be used.
    pub level: Isa,
    /// Whether to verify the checks of blocks.
    pub verify: bool,
}

impl Worker<'_> {
    /// Encodes `src` into `dst`, where the head is written already. Returns the payload's bytes and
    /// their sums.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode(&self, src: &[u8], dst: &mut [u8]) -> Result<(usize, Checksum)> {
        let layout = self.blocks.layout();
        let n_blocks = layout.n_blocks();
        let data_start = layout.table_bytes();
        let (front, data) = dst.split_at_mut(data_start);
        let (entries, pad) = front[layout.head_bytes()..].split_at_mut(ENTRY * n_blocks);
        pad.fill(0);

        if self.n_pieces(src.len() as u64) == 1 {
            let (n_bytes, sums) = self.encode_piece(src, 0, entries, data, Some(0))?;
            let of_front = checksum_of(self.level, Prefetch::Nothing, front, 0);
            return Ok((data_start + n_bytes, sums.map_or(of_front, |sums| of_front.combine(sums))));
        }
        let block_bytes = layout.blocks.block_elements() * self.blocks.element().bytes;
        let piece_bytes = if self.blocks.is_slow() { PIECE_BYTES_SLOW } else { PIECE_BYTES };
        let per_piece = piece_bytes.div_ceil(block_bytes);
        let mut pieces = try_vec(n_blocks.div_ceil(per_piece), "bookkeeping")?;
        pieces.extend(entries.chunks_mut(ENTRY * per_piece).enumerate().map(|(i, table)| (i * per_piece, table)));
        let make = |item: &mut (usize, &mut [u8]), start: Option<usize>, out: &mut [u8]| {
            let (first_block, table) = item;
            match self.encode_piece(src, *first_block, table, out, start) {
                Ok((n_bytes, sums)) => (n_bytes, Ok(sums)),
                Err(error) => (0, Err(error)),
            }
        };
        let place =
            |(_, table): (usize, &mut [u8]), sums: Result<Option<Checksum>>, start: usize, output: &[u8]| {
                Ok(sums?.unwrap_or_else(|| self.entries().finish(table, start, output)))
            };
        let most_bytes = per_piece * layout.block_bound(layout.blocks.block_elements());
        let (n_bytes, sums) = ordered::concatenate(self.pool, pieces, most_bytes, data, make, place);
        let mut all = checksum_of(self.level, Prefetch::Nothing, front, 0);
        for sums in sums {
            all = all.combine(sums?);
        }
        Ok((data_start + n_bytes, all))
    }

    /// Encodes blocks from `first_block` on, one for each entry of the table. If their offset after
    /// the table is known (`start`), completes the entries and returns the sums of the blocks.
    /// Otherwise the entries receive only the ends, counted from the start of `out`.
    fn encode_piece(
        &self,
        src: &[u8],
        first_block: usize,
        table: &mut [u8],
        out: &mut [u8],
        start: Option<usize>,
    ) -> Result<(usize, Option<Checksum>)> {
        let layout = self.blocks.layout();
        let (row, plane) = layout.blocks.strides();
        let (size, parts) = (self.blocks.element().bytes, layout.parts());
        let from = |block: &Block| {
            let [z, y, x] = block.origin;
            (z * plane + y * row + x) * size * parts
        };
        // Room for one part of a block's elements, if elements have several parts.
        let mut part = self.bytes_of_block(parts > 1)?;
        let (mut end, mut all) = (0, Checksum::default());
        self.blocks.with_scratch(self.level, &mut |scratch| {
            for (i, entry) in table.chunks_exact_mut(ENTRY).enumerate() {
                let index = first_block + i;
                let block = layout.blocks.block(index / parts);
                let next = layout.blocks.block((index / parts + 1).min(layout.blocks.n_blocks() - 1));
                let (bytes, next) = (&src[from(&block)..], &src[from(&next)..]);
                let mut source = Source { bytes, next, row, plane, part: 0 };
                if parts > 1 {
                    source.copy_part(block.shape, size, [index % parts, parts], &mut part);
                    let [_, sy, sx] = block.shape;
                    source = Source { bytes: &part, next: &part, row: sx, plane: sy * sx, part: index % parts };
                }
                let n_bytes = scratch.encode(&source, block.shape, &mut out[end..]);
                let bytes = &out[end..end + n_bytes];
                match start {
                    Some(start) => all = all.combine(self.entries().complete(entry, start + end, bytes)),
                    None => self.entries().note(entry, end + n_bytes),
                }
                end += n_bytes;
            }
            Ok(())
        })?;
        Ok((end, start.map(|_| all)))
    }

    /// The writer of the table's entries.
    fn entries(&self) -> Writer {
        let layout = self.blocks.layout();
        Writer { level: self.level, unit: layout.unit(), at: layout.table_bytes() }
    }

    /// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns the sums of the payload.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, `UnsupportedFormat`, `OutOfMemory`.
    pub fn decode(&self, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let sections = self.sections(payload)?;
        let n_pieces = self.n_pieces(self.blocks.layout().payload_bound());
        let of_front = checksum_of(self.level, Prefetch::Nothing, sections.front, 0);
        if n_pieces == 1 {
            return Ok(of_front.combine(self.decode_all(&sections, dst)?));
        }
        let mut strips = self.strips_of(dst)?;
        let per_piece = strips.len().div_ceil(n_pieces);
        let mut pieces = try_vec(n_pieces, "bookkeeping")?;
        pieces.extend(strips.chunks_mut(per_piece));
        let decoded = self.pool.map(pieces, |strips| self.decode_strips(&sections, strips));
        decoded.into_iter().try_fold(of_front, |sums, piece| Ok(sums.combine(piece?)))
    }

    /// Decodes all blocks to an array, and returns their sums.
    fn decode_all(&self, sections: &Sections, dst: &mut [u8]) -> Result<Checksum> {
        let blocks = &self.blocks.layout().blocks;
        let (row, plane) = blocks.strides();
        let bands = &mut [dst];
        let mut all = Checksum::default();
        self.with_memory(|memory| {
            for index in 0..blocks.n_blocks() {
                let [z, y, x] = blocks.block(index).origin;
                let mut target = Target { bands, plane: Some(plane), offset: z * plane + y * row + x, row };
                all = all.combine(self.decode_box(memory, sections, index, &mut target)?);
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Cuts the destination into the bands of every strip.
    fn strips_of<'d>(&self, mut dst: &'d mut [u8]) -> Result<Vec<Strip<'d>>> {
        let blocks = &self.blocks.layout().blocks;
        let mut strips: Vec<Strip> = try_vec(blocks.n_strips(), "bookkeeping")?;
        for (n_elements, number) in blocks.bands() {
            if number == strips.len() {
                strips.push(Strip { number, bands: try_vec(blocks.bands_per_strip(), "bookkeeping")? });
            }
            let (band, rest) = dst.split_at_mut(n_elements * self.element_bytes());
            strips[number].bands.push(band);
            dst = rest;
        }
        Ok(strips)
    }

    /// Decodes some consecutive strips and returns the sums of their blocks.
    fn decode_strips(&self, sections: &Sections, strips: &mut [Strip]) -> Result<Checksum> {
        let blocks = &self.blocks.layout().blocks;
        let (row, _) = blocks.strides();
        let mut all = Checksum::default();
        self.with_memory(|memory| {
            for strip in &mut *strips {
                for i in 0..blocks.blocks_per_strip() {
                    let index = strip.number * blocks.blocks_per_strip() + i;
                    let (bands, plane) = (&mut strip.bands, blocks.band_plane());
                    let mut target = Target { bands, plane, offset: i * blocks.block_step(), row };
                    all = all.combine(self.decode_box(memory, sections, index, &mut target)?);
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// The best number of pieces for this number of bytes.
    fn n_pieces(&self, n_bytes: u64) -> usize {
        if self.blocks.is_slow() { self.pool.pieces_of_slow(n_bytes) } else { self.pool.pieces(n_bytes) }
    }

    /// Bytes of an element, with all its parts.
    fn element_bytes(&self) -> usize {
        self.blocks.element().bytes * self.blocks.layout().parts()
    }

    /// Memory for the elements of a block, if it is needed.
    fn bytes_of_block(&self, is_needed: bool) -> Result<Vec<u8>> {
        let layout = self.blocks.layout();
        let n = if is_needed { layout.blocks.block_elements() * self.blocks.element().bytes } else { 0 };
        let mut bytes = try_vec(n, "a block")?;
        bytes.resize(n, 0);
        Ok(bytes)
    }

    /// Calls `run` with memory for decoding.
    fn with_memory(&self, mut run: impl FnMut(&mut Memory) -> Result<()>) -> Result<()> {
        let mut part = self.bytes_of_block(self.blocks.layout().parts() > 1)?;
        self.blocks.with_scratch(self.level, &mut |scratch| run(&mut Memory { scratch, part: &mut part }))
    }

    /// Decodes the blocks of box `index` to its place, and returns their sums.
    fn decode_box(
        &self,
        memory: &mut Memory,
        sections: &Sections,
        index: usize,
        target: &mut Target,
    ) -> Result<Checksum> {
        let parts = self.blocks.layout().parts();
        if parts == 1 {
            return self.decode_block(memory.scratch, sections, index, target);
        }
        let shape = self.blocks.layout().blocks.block(index).shape;
        let [_, sy, sx] = shape;
        let mut all = Checksum::default();
        for i in 0..parts {
            let bands = &mut [&mut memory.part[..]];
            let mut into = Target { bands, plane: Some(sy * sx), offset: 0, row: sx };
            all = all.combine(self.decode_block(memory.scratch, sections, index * parts + i, &mut into)?);
            target.store_part(memory.part, shape, self.blocks.element().bytes, [i, parts]);
        }
        Ok(all)
    }

    /// Decodes block `index` to its place, and returns its sums.
    fn decode_block(
        &self,
        scratch: &mut dyn Scratch,
        sections: &Sections,
        index: usize,
        target: &mut Target,
    ) -> Result<Checksum> {
        let (bytes, sums) = self.block(sections, index)?;
        let layout = self.blocks.layout();
        let shape = layout.blocks.block(index / layout.parts()).shape;
        scratch.decode(shape, bytes, target)?;
        Ok(sums)
    }

    /// Decodes the blocks that overlap a region.
    ///
    /// # Errors
    /// Those of [`Worker::decode`].
    pub fn decode_region(&self, payload: &[u8], region: &FoldedRegion, dst: &mut [u8]) -> Result<()> {
        let sections = self.sections(payload)?;
        let blocks = &self.blocks.layout().blocks;
        let size = self.element_bytes();
        let mut elements = try_vec(blocks.block_elements() * size, "bookkeeping")?;
        elements.resize(blocks.block_elements() * size, 0);
        self.with_memory(|memory| {
            for index in blocks.blocks_in(region) {
                let Block { origin, shape } = blocks.block(index);
                let [_, sy, sx] = shape;
                let bands = &mut [&mut elements[..]];
                let mut target = Target { bands, plane: Some(sy * sx), offset: 0, row: sx };
                self.decode_box(memory, &sections, index, &mut target)?;
                region.take(origin.map(|n| n as u64), shape.map(|n| n as u64), &elements, size, dst);
            }
            Ok(())
        })
    }

    /// Calls `look` with the bytes and the shape of every block.
    ///
    /// # Errors
    /// Those of [`Worker::decode`] and of `look`.
    pub fn for_blocks(&self, payload: &[u8], mut look: impl FnMut(&[u8], [usize; 3]) -> Result<()>) -> Result<()> {
        let sections = self.sections(payload)?;
        for index in 0..self.blocks.layout().n_blocks() {
            let layout = self.blocks.layout();
            look(self.block(&sections, index)?.0, layout.blocks.block(index / layout.parts()).shape)?;
        }
        Ok(())
    }

    /// Finds the sections of a payload and checks the ends of its blocks, so that each can be sliced.
    fn sections<'p>(&self, payload: &'p [u8]) -> Result<Sections<'p>> {
        let layout = self.blocks.layout();
        let (front, blocks) = payload.split_at_checked(layout.table_bytes()).ok_or_else(|| {
            let (name, have, need) = (self.blocks.name(), payload.len(), layout.table_bytes());
            Error::new(
                ErrorKind::Truncated,
                format!("a {name} payload is truncated: it has {have} of {need} bytes of its table"),
            )
        })?;
        let entries = &front[layout.head_bytes()..][..ENTRY * layout.n_blocks()];
        Ok(Sections { front, table: Table::new(self.blocks.name(), entries, blocks, front.len(), layout.unit())? })
    }

    /// The bytes of a block, and their sums. Compares the sums with the block's check if `verify`
    /// is set.
    fn block<'p>(&self, sections: &Sections<'p>, index: usize) -> Result<(&'p [u8], Checksum)> {
        sections.table.block(index, self.level, self.verify)
    }
}

/// Encodes a block to the start of `out`, and returns its bytes.
struct EncodeBlock<'a, W: SimdWord, C: BlockCoder<W>> {
    coder: &'a C,
    work: &'a mut C::Work,
    source: &'a Source<'a>,
    shape: [usize; 3],
    out: &'a mut [u8],
}

impl<W: SimdWord, C: BlockCoder<W>> WithSimd<W> for EncodeBlock<'_, W, C> {
    type Output = usize;
    const UP_TO_AVX2: bool = C::UP_TO_AVX2[0];

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> usize {
        self.coder.encode(s, self.work, self.source, self.shape, self.out)
    }
}

/// Decodes the bytes of a block to its place.
struct DecodeBlock<'a, 't, 'b, W: SimdWord, C: BlockCoder<W>> {
    coder: &'a C,
    work: &'a mut C::Work,
    shape: [usize; 3],
    bytes: &'a [u8],
    target: &'a mut Target<'t, 'b>,
}

impl<W: SimdWord, C: BlockCoder<W>> WithSimd<W> for DecodeBlock<'_, '_, '_, W, C> {
    type Output = Result<()>;
    const UP_TO_AVX2: bool = C::UP_TO_AVX2[1];

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> Result<()> {
        self.coder.decode(s, self.work, self.shape, self.bytes, self.target)
    }
}

/// Memory for decoding blocks.
struct Memory<'a> {
    scratch: &'a mut dyn Scratch,
    /// Room for one part of a block's elements, if elements have several parts.
    part: &'a mut [u8],
}

/// A payload's head with the table, and its blocks.
struct Sections<'a> {
    front: &'a [u8],
    table: Table<'a>,
}

/// The blocks with the same leading coordinates, and the destination of their elements: one band,
/// or one for each plane.
struct Strip<'a> {
    number: usize,
    bands: Vec<&'a mut [u8]>,
}
