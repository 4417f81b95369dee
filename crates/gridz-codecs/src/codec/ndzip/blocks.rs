//! Loops over consecutive blocks, generic over the [`Coder`]; the same for every CPU level.
//!
//! They are compiled once per level, because everything here is inlined into a function that
//! enables the level's instructions. That also vectorizes the counting of the bits of heads.

use crate::codec::ndzip::Sections;
use crate::codec::ndzip::layout::{BLOCK, Layout};
use crate::codec::ndzip::scalar::{self, Block, WORDS, Words};
use crate::codec::ndzip::word::FloatWord;
use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::region::FoldedRegion;
use crate::stage::hasher::{IncrementalHasher, Prefetch};
use crate::stage::word::Word;

/// Consecutive blocks to encode.
pub struct Piece<'a> {
    pub first_block: usize,
    /// Their part of the offset table. Ends are relative to the piece's own start.
    pub table: &'a mut [u8],
    /// Destination, large enough for the worst case.
    pub out: &'a mut [u8],
    /// Byte offset of `out` in the payload, if it is already known.
    pub start: Option<usize>,
}

/// The blocks that share their leading coordinates, and the destination of their elements: one band
/// per plane.
pub struct Strip<'a> {
    pub first_block: usize,
    pub bands: Vec<&'a mut [u8]>,
}

/// Destination of the elements of decoded blocks.
pub enum DecodeTarget<'a> {
    /// All blocks, to the whole array.
    Array(&'a mut [u8]),
    /// The blocks of consecutive strips.
    Strips(Vec<Strip<'a>>),
    /// The blocks that a region touches. They need not be consecutive, and they are not hashed.
    Region(Part<'a>),
}

/// A region of the array and its destination.
pub struct Part<'a> {
    pub region: &'a FoldedRegion,
    /// Scratch room for one block.
    pub block: &'a mut [u8],
    pub dst: &'a mut [u8],
}

/// Codes single blocks with the sides `ROW`, `ROWS` and `PLANES`, x first.
pub trait Coder<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize> {
    /// Encodes the block at the start of `src`, in an array with these strides in elements, to the
    /// start of `out`, which has room for any block. Returns the bytes of the result.
    fn encode(&mut self, src: &[u8], row: usize, plane: usize, out: &mut [u8]) -> usize;

    /// Decodes the first `n_bytes` of `stream` to element `offset` of the bands, whose rows are
    /// `row` elements apart. Returns false if the heads describe a different number of bytes. The
    /// bytes after `n_bytes` do not matter.
    fn decode(&mut self, stream: &[u8], n_bytes: usize, bands: &mut [&mut [u8]], offset: usize, row: usize)
    -> bool;
}

/// Blocks with one row are contiguous in memory, so the hardware prefetcher handles them.
fn prefetch(rows: usize) -> Prefetch {
    if rows > 1 { Prefetch::Following } else { Prefetch::Nothing }
}

/// Bytes of a piece and, if its position in the payload is known, its checksum.
pub type Encoded = (usize, Option<Checksum>);

/// Encodes a piece.
#[inline(always)]
pub fn encode<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    mut coder: impl Coder<W, ROW, ROWS, PLANES>,
    layout: &Layout,
    src: &[u8],
    level: Isa,
    piece: Piece,
) -> Encoded {
    let (row, plane) = layout.strides();
    let mut end = 0;
    let mut hasher = piece.start.map(|start| IncrementalHasher::new(level, prefetch(ROWS), start as u64, 0));
    for (i, entry) in piece.table.chunks_exact_mut(4).enumerate() {
        let start = layout.block_start(piece.first_block + i);
        end += coder.encode(&src[start * W::BYTES..], row, plane, &mut piece.out[end..]);
        ((end / W::BYTES) as u32).write(entry);
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece.out[..end]);
        }
    }
    (end, hasher.map(|hasher| hasher.finish(&piece.out[..end])))
}

/// Decodes blocks and returns the checksum of consecutive ones.
#[inline(always)]
pub fn decode<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    level: Isa,
    mut coder: impl Coder<W, ROW, ROWS, PLANES>,
    layout: &Layout,
    sections: &Sections,
    places: DecodeTarget,
) -> Result<Checksum> {
    let (row, plane) = layout.strides();
    let mut end = match &places {
        DecodeTarget::Array(_) | DecodeTarget::Region(_) => 0,
        DecodeTarget::Strips(strips) => strips.first().map_or(0, |strip| sections.block::<W>(strip.first_block).0),
    };
    let mut hasher = IncrementalHasher::new(level, prefetch(ROWS), sections.table.len() as u64, end);
    match places {
        DecodeTarget::Array(_) if layout.n_blocks() == 0 => {}
        DecodeTarget::Array(array) => {
            // A slab: all blocks that begin in the same plane.
            let slab = PLANES * plane;
            let mut number = 0;
            for slab_start in (0..layout.slabs() * slab).step_by(slab) {
                let mut planes = array[slab_start * W::BYTES..].chunks_exact_mut(plane * W::BYTES);
                let mut bands: [&mut [u8]; PLANES] =
                    std::array::from_fn(|_| planes.next().expect("a slab has as many planes"));
                for _ in 0..layout.n_blocks() / layout.slabs() {
                    let offset = layout.block_start(number) - slab_start;
                    end = decode_next(&mut coder, sections, number, end, &mut bands, offset, row)?;
                    hasher.update(&sections.blocks[..end]);
                    number += 1;
                }
            }
        }
        DecodeTarget::Strips(strips) => {
            for mut strip in strips {
                for i in 0..layout.blocks_per_strip() {
                    let number = strip.first_block + i;
                    end = decode_next(&mut coder, sections, number, end, &mut strip.bands, i * ROW, row)?;
                    hasher.update(&sections.blocks[..end]);
                }
            }
        }
        DecodeTarget::Region(Part { region, block, dst }) => {
            for (number, origin) in layout.blocks_in(region) {
                let mut planes = block.chunks_exact_mut(ROW * ROWS * W::BYTES);
                let mut bands: [&mut [u8]; PLANES] =
                    std::array::from_fn(|_| planes.next().expect("a block has as many planes"));
                let start = sections.block::<W>(number).0;
                decode_next(&mut coder, sections, number, start, &mut bands, 0, ROW)?;
                region.take(origin, layout.sides(), block, W::BYTES, dst);
            }
        }
    }
    Ok(hasher.finish(&sections.blocks[..end]))
}

/// Decodes block `number`, which begins at byte `start` of the blocks, to element `offset` of the
/// bands. Returns the byte at which it ends.
#[inline(always)]
fn decode_next<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    coder: &mut impl Coder<W, ROW, ROWS, PLANES>,
    sections: &Sections,
    number: usize,
    start: usize,
    bands: &mut [&mut [u8]],
    offset: usize,
    row: usize,
) -> Result<usize> {
    let end = sections.block::<W>(number).1;
    if !coder.decode(&sections.blocks[start..], end - start, bands, offset, row) {
        return Err(Error::corrupt(format!(
            "ndzip block {number} is damaged: its length does not match its headers"
        )));
    }
    Ok(end)
}

/// True if a block has the number of bytes that its heads imply.
#[inline(always)]
pub fn has_its_columns<W: FloatWord>(block: &[u8]) -> bool {
    let heads = block[..W::GROUPS * W::BYTES].chunks_exact(W::BYTES);
    let n_columns: usize = heads.map(|head| W::read(head).n_ones()).sum();
    (W::GROUPS + n_columns) * W::BYTES == block.len()
}

/// The portable coder, with its scratch memory.
pub struct Portable<W> {
    block: Block<W>,
    words: Words<W>,
}

impl<W: FloatWord> Portable<W> {
    pub fn new() -> Self {
        Self { block: [W::default(); BLOCK], words: [W::default(); WORDS] }
    }
}

impl<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize> Coder<W, ROW, ROWS, PLANES>
    for Portable<W>
{
    #[inline(always)]
    fn encode(&mut self, src: &[u8], row: usize, plane: usize, out: &mut [u8]) -> usize {
        scalar::load::<W, ROW, ROWS, PLANES>(src, row, plane, &mut self.block);
        let n_words = scalar::pack(&self.block, &mut self.words);
        let out = &mut out[..n_words * W::BYTES];
        for (bytes, word) in out.chunks_exact_mut(W::BYTES).zip(&self.words) {
            word.write(bytes);
        }
        out.len()
    }

    #[inline(never)] // several loops call it
    fn decode(
        &mut self,
        stream: &[u8],
        n_bytes: usize,
        bands: &mut [&mut [u8]],
        offset: usize,
        row: usize,
    ) -> bool {
        if !has_its_columns::<W>(&stream[..n_bytes]) {
            return false;
        }
        for (word, bytes) in self.words.iter_mut().zip(stream[..n_bytes].chunks_exact(W::BYTES)) {
            *word = W::read(bytes);
        }
        scalar::unpack(&self.words, &mut self.block);
        scalar::store::<W, ROW, ROWS, PLANES>(&mut self.block, bands, offset, row);
        true
    }
}
