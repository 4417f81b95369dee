//! `ndzip`: lossless f32 and f64, the stream of ndzip (Knorr, Thoman, Fahringer: "ndzip: A
//! High-Throughput Parallel Lossless Compressor for Scientific Data", DCC 2021, and "ndzip-gpu",
//! SC 2021), bit-identical to the published implementation.
//!
//! [`layout`] describes the positions of everything, [`scalar`] codes one block and defines the
//! codec, and `simd` does the same with vector instructions. `blocks` runs either over many blocks.
//! This file splits a chunk: into one piece for the calling thread, or into several for the
//! workers. The bytes do not depend on the number of pieces.

mod blocks;
mod cuda;
pub mod layout;
pub mod params;
pub mod scalar;
#[cfg(target_arch = "x86_64")]
mod simd;
pub mod word;

use crate::codec::{Codec, CodecState, Decision, EncodeParams, Encoded, Job, Speeds, not_written};
use crate::cpu::isa::Isa;
use crate::cpu::ordered;
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::checksum::Checksum;
use crate::format::region::FoldedRegion;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::word::Word;
use crate::types::{Array, DType, Shape};
use blocks::{DecodeTarget, Part, Piece, Portable, Strip};
use layout::{BLOCK, Layout};
use word::FloatWord;

pub struct Ndzip;

impl Codec for Ndzip {
    fn max_rank(&self) -> usize {
        params::MAX_RANK
    }

    fn plan(&self, array: &Array, _encode_params: &EncodeParams) -> Decision {
        params::plan(array)
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(1.7, 1.9)
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        let known = matches!(dtype, DType::F32 | DType::F64) && params.is_empty();
        let layout = known.then(|| Layout::new(shape, dtype)).flatten().map(CodecState::new);
        layout.ok_or_else(|| not_written("ndzip", dtype, shape, params))
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let layout = job.layout.get();
        match job.dtype {
            DType::F64 => encode::<u64>(layout, job, src, dst),
            _ => encode::<u32>(layout, job, src, dst),
        }
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let layout = job.layout.get();
        match job.dtype {
            DType::F64 => decode::<u64>(layout, job, payload, dst),
            _ => decode::<u32>(layout, job, payload, dst),
        }
    }

    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let layout = job.layout.get();
        match job.dtype {
            DType::F64 => decode_region::<u64>(layout, job, payload, region, dst),
            _ => decode_region::<u32>(layout, job, payload, region, dst),
        }
    }
}

/// Words for which every CPU level has code.
#[cfg(target_arch = "x86_64")]
trait Coded: simd::NdzipSimdWord {}
#[cfg(target_arch = "x86_64")]
impl<W: simd::NdzipSimdWord> Coded for W {}
#[cfg(not(target_arch = "x86_64"))]
trait Coded: FloatWord {}
#[cfg(not(target_arch = "x86_64"))]
impl<W: FloatWord> Coded for W {}

/// Raw bytes of a piece when several threads encode. It is small enough to remain in the cache
/// until it is copied to its place and hashed.
const PIECE_BYTES: usize = 256 << 10;

fn encode<W: Coded>(layout: &Layout, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
    let n_blocks = layout.n_blocks();
    let (table, data) = dst.split_at_mut(layout.table_bytes());
    let (entries, pad) = table.split_at_mut(4 * n_blocks);
    pad.fill(0);

    let (data_end, of_blocks) = if job.pool.pieces(src.len() as u64) == 1 {
        let start = Some(layout.table_bytes());
        let piece = Piece { first_block: 0, table: entries, out: &mut *data, start };
        let (n_bytes, sums) = encode_piece::<W>(job.level, layout, src, piece);
        (n_bytes, sums.unwrap_or_default())
    } else {
        encode_pieces::<W>(layout, job, src, entries, data)?
    };
    let mut end = data_end;
    for run in layout.border_runs() {
        let run = &src[run.start * W::BYTES..run.end * W::BYTES];
        data[end..end + run.len()].copy_from_slice(run);
        end += run.len();
    }
    let of_table = checksum_of(job.level, Prefetch::Nothing, table, 0);
    let of_border =
        checksum_of(job.level, Prefetch::Nothing, &data[data_end..end], (table.len() + data_end) as u64);
    Ok(Encoded { n_bytes: table.len() + end, sums: of_table.combine(of_blocks).combine(of_border) })
}

/// Encodes all blocks with several threads, and returns their bytes and checksum.
fn encode_pieces<W: Coded>(
    layout: &Layout,
    job: &Job,
    src: &[u8],
    entries: &mut [u8],
    data: &mut [u8],
) -> Result<(usize, Checksum)> {
    let per_piece = PIECE_BYTES / (BLOCK * W::BYTES);
    let mut pieces = try_vec(layout.n_blocks().div_ceil(per_piece), "bookkeeping")?;
    pieces.extend(entries.chunks_mut(4 * per_piece).enumerate().map(|(i, table)| (i * per_piece, table)));
    let make = |item: &mut (usize, &mut [u8]), start: Option<usize>, out: &mut [u8]| {
        let (first_block, table) = item;
        let start = start.map(|start| layout.table_bytes() + start);
        encode_piece::<W>(job.level, layout, src, Piece { first_block: *first_block, table, out, start })
    };
    // The piece's block ends become relative to the start of the data.
    let place = |(_, table): (usize, &mut [u8]), sums: Option<Checksum>, start: usize, output: &[u8]| {
        let offset = (start / W::BYTES) as u32;
        for entry in table.chunks_exact_mut(4) {
            u32::read(entry).wrapping_add(offset).write(entry);
        }
        sums.unwrap_or_else(|| {
            checksum_of(job.level, Prefetch::Nothing, output, (layout.table_bytes() + start) as u64)
        })
    };
    let most_bytes = per_piece * layout.max_block_words() * W::BYTES;
    let (n_bytes, sums) = ordered::concatenate(job.pool, pieces, most_bytes, data, make, place);
    Ok((n_bytes, sums.into_iter().fold(Checksum::default(), Checksum::combine)))
}

/// Encodes a piece with the instructions of `level`.
fn encode_piece<W: Coded>(level: Isa, layout: &Layout, src: &[u8], piece: Piece) -> (usize, Option<Checksum>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(encode) = simd::encoder::<W>(level, layout.rank()) {
        return encode.run(level, layout, src, piece);
    }
    match layout.rank() {
        1 => blocks::encode::<W, 4096, 1, 1>(Portable::new(), layout, src, level, piece),
        2 => blocks::encode::<W, 64, 64, 1>(Portable::new(), layout, src, level, piece),
        _ => blocks::encode::<W, 16, 16, 16>(Portable::new(), layout, src, level, piece),
    }
}

/// A payload split into its sections.
struct Sections<'a> {
    table: &'a [u8],
    /// The blocks, followed by the border.
    blocks: &'a [u8],
    border: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Locates the sections and checks the offset table, so that every block's words can be sliced.
    fn parse<W: FloatWord>(layout: &Layout, payload: &'a [u8]) -> Result<Self> {
        let cut = || {
            let have = payload.len();
            Error::new(ErrorKind::Truncated, format!("an ndzip stream is truncated after {have} bytes"))
        };
        let (table, rest) = payload.split_at_checked(layout.table_bytes()).ok_or_else(cut)?;
        let mut last = 0;
        for (block, entry) in table.chunks_exact(4).take(layout.n_blocks()).enumerate() {
            let end = u32::read(entry);
            let n_words = end.saturating_sub(last) as usize;
            if n_words < W::GROUPS || n_words > layout.max_block_words() {
                return Err(Error::corrupt(format!("ndzip block {block} is damaged: its length is invalid")));
            }
            last = end;
        }
        // The checks above keep every length below 2^32 words, so no product overflows.
        let (_, border) = rest.split_at_checked(last as usize * W::BYTES).ok_or_else(cut)?;
        if border.len() != layout.n_border() * W::BYTES {
            let (have, need) = (border.len(), layout.n_border() * W::BYTES);
            return Err(Error::corrupt(format!(
                "an ndzip stream is damaged: it has {have} bytes of border elements instead of {need}"
            )));
        }
        Ok(Self { table, blocks: rest, border })
    }

    /// Byte offsets of the start and end of block `block`.
    fn block<W: FloatWord>(&self, block: usize) -> (usize, usize) {
        let end = |block: usize| u32::read(&self.table[4 * block..]) as usize * W::BYTES;
        (if block == 0 { 0 } else { end(block - 1) }, end(block))
    }
}

fn decode<W: Coded>(layout: &Layout, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
    let sections = Sections::parse::<W>(layout, payload)?;
    let mut border = sections.border;
    for run in layout.border_runs() {
        let (bytes, rest) = border.split_at(run.len() * W::BYTES);
        dst[run.start * W::BYTES..run.end * W::BYTES].copy_from_slice(bytes);
        border = rest;
    }

    let of_sections = |bytes: &[u8], start: usize| checksum_of(job.level, Prefetch::Nothing, bytes, start as u64);
    let border_start = payload.len() - sections.border.len();
    let sums = of_sections(sections.table, 0).combine(of_sections(sections.border, border_start));

    let n_pieces = job.pool.pieces(layout.payload_bound());
    if n_pieces == 1 {
        return Ok(sums.combine(decode_to::<W>(job.level, layout, &sections, DecodeTarget::Array(dst))?));
    }
    let strips = strips_of::<W>(layout, dst)?;
    let per_piece = strips.len().div_ceil(n_pieces).max(1);
    let mut pieces = try_vec(strips.len().div_ceil(per_piece), "bookkeeping")?;
    let mut strips = strips.into_iter();
    while strips.len() > 0 {
        let mut piece = try_vec(per_piece, "bookkeeping")?;
        piece.extend(strips.by_ref().take(per_piece));
        pieces.push(DecodeTarget::Strips(piece));
    }
    let decoded = job.pool.map(pieces, |places| decode_to::<W>(job.level, layout, &sections, places));
    decoded.into_iter().try_fold(sums, |sums, piece| Ok(sums.combine(piece?)))
}

/// Decodes the blocks that overlap a region, and copies the region's elements in the border. Blocks
/// have no checksums of their own; the only checksum covers the whole payload.
fn decode_region<W: Coded>(
    layout: &Layout,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<Option<Checksum>> {
    let sections = Sections::parse::<W>(layout, payload)?;
    let border = (layout.n_border() > 0).then(|| layout.border_in(region));
    for (from, to, n) in border.into_iter().flatten() {
        let [from, to, n] = [from, to, n].map(|n| n as usize * W::BYTES);
        dst[to..to + n].copy_from_slice(&sections.border[from..from + n]);
    }
    let mut block = try_vec(BLOCK * W::BYTES, "bookkeeping")?;
    block.resize(BLOCK * W::BYTES, 0);
    decode_to::<W>(job.level, layout, &sections, DecodeTarget::Region(Part { region, block: &mut block, dst }))?;
    Ok(job.verify.then(|| checksum_of(job.level, Prefetch::Following, payload, 0)))
}

/// Splits the destination into the bands of every strip.
fn strips_of<'a, W: FloatWord>(layout: &Layout, mut dst: &'a mut [u8]) -> Result<Vec<Strip<'a>>> {
    let n_strips = layout.n_blocks().checked_div(layout.blocks_per_strip()).unwrap_or(0);
    let mut strips: Vec<Strip> = try_vec(n_strips, "bookkeeping")?;
    let mut at = 0;
    for (start, strip) in layout.bands() {
        if strip == strips.len() {
            strips.push(Strip {
                first_block: strip * layout.blocks_per_strip(),
                bands: try_vec(layout.bands_per_strip(), "bookkeeping")?,
            });
        }
        let (_, rest) = dst.split_at_mut((start - at) * W::BYTES);
        let (band, rest) = rest.split_at_mut(layout.band_elements() * W::BYTES);
        strips[strip].bands.push(band);
        dst = rest;
        at = start + layout.band_elements();
    }
    Ok(strips)
}

/// Decodes some consecutive blocks with the instructions of `level`.
fn decode_to<W: Coded>(level: Isa, layout: &Layout, sections: &Sections, places: DecodeTarget) -> Result<Checksum> {
    #[cfg(target_arch = "x86_64")]
    if let Some(decode) = simd::decoder::<W>(level, layout.rank()) {
        return decode.run(level, layout, sections, places);
    }
    match layout.rank() {
        1 => blocks::decode::<W, 4096, 1, 1>(level, Portable::new(), layout, sections, places),
        2 => blocks::decode::<W, 64, 64, 1>(level, Portable::new(), layout, sections, places),
        _ => blocks::decode::<W, 16, 16, 16>(level, Portable::new(), layout, sections, places),
    }
}
