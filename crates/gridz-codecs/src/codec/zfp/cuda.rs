//! zfp on a GPU: the kernels in `kernels/zfp`.

use crate::codec::gpu::{
    Answer, Args, Chunks, Direction, GpuCodec, Kernel, MOST_THEN, MissingArgs, Names, Pass, Passes, Rounds,
    Scratch, names,
};
use crate::codec::mode::Mode;
use crate::codec::zfp::layout::{MAX_RANK, SIDE};
use crate::codec::zfp::{Chunk, Zfp};
use crate::format::region::{AXES, FoldedRegion};
use crate::types::DType;

/// Kernels by the rank, from 1 on, and the bits of a word, 32 or 64.
type ByShape = [[Names; 2]; MAX_RANK];

/// The kernels whose names begin with this.
macro_rules! by_shape {
    ($kernel:literal) => {
        by_shape!($kernel, "_1d" "_2d" "_3d" "_4d")
    };
    ($kernel:literal, $($rank:literal)+) => {
        [$([by_shape!(@ $kernel, "_u32", $rank), by_shape!(@ $kernel, "_u64", $rank)]),+]
    };
    (@ $kernel:literal, $word:literal, $rank:literal) => {
        (concat!($kernel, $word, $rank), concat!($kernel, $word, $rank, "_info"))
    };
}

/// The first pass of compression, of decompression, and of regions. Entry 0: lossy. Entry 1:
/// lossless.
const COMPRESS: [ByShape; 2] = [by_shape!("zfp_compress"), by_shape!("zfp_compress_lossless")];
const DECOMPRESS: [ByShape; 2] = [by_shape!("zfp_decompress"), by_shape!("zfp_decompress_lossless")];
const REGION: [ByShape; 2] = [by_shape!("zfp_region"), by_shape!("zfp_region_lossless")];
/// The other passes of compression. Only relative bounds need the first of them.
const RANGE: [Names; 2] = [names!("zfp_range_u32"), names!("zfp_range_u64")];
const FINISH: ByShape = by_shape!("zfp_finish");
const STORE: Names = names!("zfp_store");

crate::kernel_struct! {
    /// The array, with leading extents of 1, and the truncation of blocks (`Chunk` in
    /// `kernels/zfp/layout.cuh`).
    struct Cut, size 152 {
        extents: [u64; 4],
        value: u64,
        missing: MissingArgs,
        n_blocks: u32,
        how: u32,
        bits: u32,
        minexp: u32,
        first_tile: u32,
        is_part: u32,
    }
}

impl GpuCodec for Zfp {
    /// Compression has passes for the range (relative bounds only), the stream, the bytes after it,
    /// and storing the array instead. They share the memory of the first pass.
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let n_sections = chunk.layout.n_sections() as u64;
        Answer::Run(match direction {
            Direction::Compress => {
                let stream = passes(chunks, &COMPRESS, n_sections, Part::WHOLE);
                let first = |names| Pass { kernel: Kernel::Always(names), ..stream.first };
                let (encode, finish, store) = (stream.first, first(named(&FINISH, chunk)), first(STORE));
                if chunk.asked.mode == Mode::Rel {
                    let range = first(RANGE[usize::from(is_long(chunk))]);
                    Passes { first: range, ..stream }.then([encode, finish, store])
                } else {
                    stream.then([finish, store])
                }
            }
            Direction::Decompress => passes(chunks, &DECOMPRESS, n_sections.div_ceil(per_tile(chunk)), Part::WHOLE),
        })
    }

    /// The checksum covers the whole payload.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let (layout, per_tile) = (&chunk.layout, per_tile(chunk));
        let mut tiles = 0..(layout.n_sections() as u64).div_ceil(per_tile);
        if !compares {
            // Blocks are numbered with the last axis varying fastest.
            let along = region.axes.each_ref().map(|axis| axis.block_range(SIDE as u64));
            let counts = region.axes.each_ref().map(|axis| axis.extent().div_ceil(SIDE as u64));
            let number = |at: [u64; AXES]| at.iter().zip(counts).fold(0, |number, (at, count)| number * count + at);
            let tile = |block: u64| block / (layout.per_section() as u64 * per_tile);
            tiles = match along.iter().any(|along| along.is_empty()) {
                true => 0..1,
                false => {
                    tile(number(along.each_ref().map(|along| along.start)))
                        ..tile(number(along.each_ref().map(|along| along.end - 1))) + 1
                }
            };
        }
        let part = Part { first_tile: tiles.start as u32, is_part: u32::from(!compares) };
        Answer::Run(passes(chunks, &REGION, tiles.end - tiles.start, part))
    }
}

/// Sections that a thread block decompresses.
fn per_tile(chunk: &Chunk) -> u64 {
    if chunk.asked.numbers.is_fixed() || chunk.layout.rank() == MAX_RANK { 1 } else { 4 }
}

/// The kernel for a chunk.
fn named(kernels: &ByShape, chunk: &Chunk) -> Names {
    kernels[chunk.layout.rank() - 1][usize::from(is_long(chunk))]
}

/// True if words have 64 bits.
fn is_long(chunk: &Chunk) -> bool {
    matches!(chunk.dtype, DType::F64 | DType::I64)
}

/// The first tile that a pass processes, and whether it skips other tiles.
struct Part {
    first_tile: u32,
    is_part: u32,
}

impl Part {
    const WHOLE: Self = Self { first_tile: 0, is_part: 0 };
}

/// One pass over `n_tiles` tiles.
fn passes(chunks: &Chunks, kernels: &[ByShape; 2], n_tiles: u64, Part { first_tile, is_part }: Part) -> Passes {
    let chunk: &Chunk = chunks.layout.get();
    let (mut extents, from) = ([1; 4], chunks.shape.extents());
    extents[4 - from.len()..].copy_from_slice(from);
    let (asked, numbers) = (&chunk.asked, &chunk.asked.numbers);
    let is_float = matches!(chunk.dtype, DType::F32 | DType::F64);
    let missing = match is_long(chunk) {
        true => MissingArgs::new(chunk.missing::<u64>().as_ref()),
        false => MissingArgs::new(chunk.missing::<u32>().as_ref()),
    };
    let args = Cut {
        extents,
        value: if matches!(asked.mode, Mode::Abs | Mode::Rel) { asked.value.to_bits() } else { 0 },
        missing,
        // A layout has fewer than 2^32 blocks.
        n_blocks: chunk.layout.n_blocks() as u32,
        how: u32::from_le_bytes([asked.mode.id(), numbers.maxprec as u8, 0, is_float.into()]),
        bits: numbers.minbits | numbers.maxbits << 16,
        // In two's complement.
        minexp: numbers.minexp as u32,
        first_tile,
        is_part,
    };
    let names = named(&kernels[usize::from(numbers.is_reversible())], chunk);
    let table_bytes = chunk.layout.parts(numbers.is_fixed(), 0, 0).n_bytes();
    let first = Pass {
        kernel: Kernel::Always(names),
        units: [n_tiles, 0],
        args: Args::new(&args),
        scratch: Scratch::Zeroed,
        tile_bytes: 0,
    };
    Passes { fatbin: "zfp", table_bytes, first, then: [None; MOST_THEN], rounds: Rounds::NONE }
}
