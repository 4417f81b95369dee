//! Runs of blocks: the loops around a [`Coder`], the same for every CPU level.
//!
//! They are compiled once per level, because everything here is inlined into a function that has the
//! level's instructions; the counting of heads becomes vector code that way. The payload is summed for the
//! checksum while it is in the cache: after each block those rows that are complete, which do not end where
//! blocks do.

use crate::codec::Encoded;
use crate::codec::ndzip::Sections;
use crate::codec::ndzip::layout::{BLOCK, Layout};
use crate::codec::ndzip::scalar::{self, Block, WORDS, Words};
use crate::codec::ndzip::word::Word;
use crate::error::{Error, Result};
use crate::format::checksum::Sums;

/// Some consecutive blocks to encode.
pub struct Piece<'a> {
    pub first_block: usize,
    /// Their part of the offset table; the ends count from the piece's own start.
    pub table: &'a mut [u8],
    /// Room for their worst case.
    pub out: &'a mut [u8],
}

/// The blocks that share their leading coordinates, and where their elements go: a band per plane.
pub struct Strip<'a> {
    pub first_block: usize,
    pub bands: Vec<&'a mut [u8]>,
}

/// Bytes that are summed at once.
pub type Row = [u8; 64];

/// Codes single blocks with the sides `ROW`, `ROWS` and `PLANES`, x first, and sums the payload.
pub trait Coder<W: Word, const ROW: usize, const ROWS: usize, const PLANES: usize> {
    /// Encodes the block at the start of `src`, in an array with these strides in elements, to the
    /// start of `out`, which has room for any block; bytes of the result.
    fn encode(&mut self, src: &[u8], row: usize, plane: usize, out: &mut [u8]) -> usize;

    /// Decodes the first `n_bytes` of `stream` to element `offset` of the bands, whose rows are `row`
    /// elements apart, and returns true; or false if they are not as many as the heads say. What is
    /// behind those bytes does not matter.
    fn decode(&mut self, stream: &[u8], n_bytes: usize, bands: &mut [&mut [u8]], offset: usize, row: usize)
    -> bool;

    /// Sums the next rows of the payload.
    fn sum(&mut self, rows: &[Row]);

    /// The sums of all rows so far and then of `bytes`.
    fn sums(self, bytes: &[u8]) -> Sums;
}

/// Encodes a piece.
#[inline(always)]
pub fn encode<W: Word, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    mut coder: impl Coder<W, ROW, ROWS, PLANES>,
    layout: &Layout,
    src: &[u8],
    piece: Piece,
) -> Encoded {
    let (row, plane) = layout.strides();
    let (mut end, mut summed) = (0, 0);
    for (i, entry) in piece.table.chunks_exact_mut(4).enumerate() {
        let start = layout.block_start(piece.first_block + i);
        end += coder.encode(&src[start * W::BYTES..], row, plane, &mut piece.out[end..]);
        let (rows, _) = piece.out[summed..end].as_chunks();
        coder.sum(rows);
        summed += size_of_val(rows);
        ((end / W::BYTES) as u32).write(entry);
    }
    Encoded { n_bytes: end, sums: coder.sums(&piece.out[summed..end]) }
}

/// Decodes some consecutive strips and returns the sums of their blocks.
#[inline(always)]
pub fn decode<W: Word, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    mut coder: impl Coder<W, ROW, ROWS, PLANES>,
    layout: &Layout,
    sections: &Sections,
    strips: Vec<Strip>,
) -> Result<Sums> {
    let (row, _) = layout.strides();
    let mut end = strips.first().map_or(0, |strip| sections.block::<W>(strip.first_block).0);
    let mut summed = end;
    for mut strip in strips {
        for i in 0..layout.blocks_per_strip() {
            let number = strip.first_block + i;
            let start = end;
            end = sections.block::<W>(number).1;
            if !coder.decode(&sections.blocks[start..], end - start, &mut strip.bands, i * ROW, row) {
                return Err(Error::corrupt(format!("ndzip block {number} is not as long as its heads say")));
            }
            let (rows, _) = sections.blocks[summed..end].as_chunks();
            coder.sum(rows);
            summed += size_of_val(rows);
        }
    }
    Ok(coder.sums(&sections.blocks[summed..end]))
}

/// Whether a block has as many bytes as its heads say.
#[inline(always)]
pub fn has_its_columns<W: Word>(block: &[u8]) -> bool {
    let heads = block[..W::GROUPS * W::BYTES].chunks_exact(W::BYTES);
    let n_columns: usize = heads.map(|head| W::read(head).n_ones()).sum();
    (W::GROUPS + n_columns) * W::BYTES == block.len()
}

/// The portable coder, with its working memory.
pub struct Portable<W> {
    block: Block<W>,
    words: Words<W>,
    sums: Sums,
}

impl<W: Word> Portable<W> {
    pub fn new() -> Self {
        Self { block: [W::default(); BLOCK], words: [W::default(); WORDS], sums: Sums::default() }
    }
}

impl<W: Word, const ROW: usize, const ROWS: usize, const PLANES: usize> Coder<W, ROW, ROWS, PLANES>
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

    #[inline(always)]
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

    #[inline(always)]
    fn sum(&mut self, rows: &[Row]) {
        self.sums = self.sums.then(Sums::of(rows.as_flattened()));
    }

    #[inline(always)]
    fn sums(self, bytes: &[u8]) -> Sums {
        self.sums.then(Sums::of(bytes))
    }
}
