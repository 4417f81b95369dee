//! szp on a GPU: the kernels in `kernels/szp`.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Names, Pass, Passes, Scratch, names};
use crate::codec::mode::Mode;
use crate::codec::szp::max::View;
use crate::codec::szp::params::Level;
use crate::codec::szp::{Chunk, Szp};
use crate::format::region::FoldedRegion;

/// By the bits of a word: 32 or 64.
const COMPRESS: [Names; 2] = [names!("szp_compress_u32"), names!("szp_compress_u64")];
const RANGE: [Names; 2] = [names!("szp_range_u32"), names!("szp_range_u64")];
const DECOMPRESS: [Names; 2] = [names!("szp_decompress_u32"), names!("szp_decompress_u64")];
const REGION: [Names; 2] = [names!("szp_region_u32"), names!("szp_region_u64")];
/// The passes that compress at level dense.
const DENSE_RANGE: [Names; 2] = [names!("szp_dense_range_u32"), names!("szp_dense_range_u64")];
const DENSE_PREDICT: [Names; 2] = [names!("szp_dense_predict_u32"), names!("szp_dense_predict_u64")];
const DENSE_ENCODE: [Names; 2] = [names!("szp_dense_encode_u32"), names!("szp_dense_encode_u64")];
const DENSE_PLACE: [Names; 2] = [names!("szp_dense_place_u32"), names!("szp_dense_place_u64")];
/// Those that decompress, and that of elements with fewer bytes than a word.
const DENSE_DECOMPRESS: [Names; 2] = [names!("szp_dense_decompress_u32"), names!("szp_dense_decompress_u64")];
const DENSE_DECOMPRESS_SHORT: Names = names!("szp_dense_decompress_short");
const DENSE_REGION: [Names; 2] = [names!("szp_dense_region_u32"), names!("szp_dense_region_u64")];
/// The same at level max.
const MAX_DECOMPRESS: [Names; 2] = [names!("szp_max_decompress_u32"), names!("szp_max_decompress_u64")];
const MAX_DECOMPRESS_SHORT: Names = names!("szp_max_decompress_short");
const MAX_REGION: [Names; 2] = [names!("szp_max_region_u32"), names!("szp_max_region_u64")];

/// The modules of the kernels of a level.
const FAST: &str = "szp";
const DENSE_COMPRESS: &str = "szp_dense_compress";
const DENSE: &str = "szp_dense";
const MAX: &str = "szp_max";

const NO_MAX: &str = "szp at level 3 has no kernels that compress";

crate::kernel_struct! {
    /// The array, with leading ones, and what was asked for (`Chunk` in `kernels/szp/layout.cuh`).
    struct Asked, size 56 {
        extents: [u64; 3],
        n_blocks: u32,
        how: u32,
        value: u64,
        fills: [u64; 2],
    }
}

impl GpuCodec for Szp {
    /// A relative bound is found by a pass of its own, in the working memory that compression goes on with.
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let of_word = usize::from(chunk.element.word_bits() == 64);
        let n_blocks = chunk.layout.n_blocks() as u64;
        let is_short = chunk.element.bytes < 4;
        Answer::Run(match (chunk.asked.level, direction) {
            (Level::Max, Direction::Compress) => return Answer::NotHere(NO_MAX.into()),
            (Level::Max, Direction::Decompress) => {
                let names = if is_short { MAX_DECOMPRESS_SHORT } else { MAX_DECOMPRESS[of_word] };
                with_cells(chunk, passes(chunks, MAX, names, n_blocks))
            }
            (Level::Dense, Direction::Compress) => {
                let after = [DENSE_ENCODE[of_word], DENSE_PLACE[of_word]];
                let predict = DENSE_PREDICT[of_word];
                if chunk.asked.mode == Mode::Rel {
                    several(chunks, DENSE_COMPRESS, DENSE_RANGE[of_word], &[predict, after[0], after[1]])
                } else {
                    several(chunks, DENSE_COMPRESS, predict, &after)
                }
            }
            (Level::Dense, Direction::Decompress) => {
                let names = if is_short { DENSE_DECOMPRESS_SHORT } else { DENSE_DECOMPRESS[of_word] };
                passes(chunks, DENSE, names, n_blocks)
            }
            (Level::Fast, Direction::Decompress) => passes(chunks, FAST, DECOMPRESS[of_word], n_blocks),
            (Level::Fast, Direction::Compress) if chunk.asked.mode == Mode::Rel => {
                several(chunks, FAST, RANGE[of_word], &[COMPRESS[of_word]])
            }
            (Level::Fast, Direction::Compress) => passes(chunks, FAST, COMPRESS[of_word], n_blocks),
        })
    }

    /// Blocks have checks of their own.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let of_word = usize::from(chunk.element.word_bits() == 64);
        let touched: u64 =
            chunk.layout.blocks.touched(region).iter().map(|along| along.end - along.start).product();
        let n_blocks = touched * chunk.layout.parts() as u64;
        Answer::Run(match chunk.asked.level {
            Level::Max => with_cells(chunk, passes(chunks, MAX, MAX_REGION[of_word], n_blocks)),
            Level::Dense => passes(chunks, DENSE, DENSE_REGION[of_word], n_blocks),
            Level::Fast => passes(chunks, FAST, REGION[of_word], n_blocks),
        })
    }
}

/// A pass that decompresses at level max, with memory for what it keeps of each block: marks of elements, and cells, as `MaxScratch` in
/// `kernels/szp/max.cuh` has them.
fn with_cells(chunk: &Chunk, passes: Passes) -> Passes {
    let n_cells = View::new(chunk.layout.blocks.block(0).shape).kept_cells() as u64;
    let word_bytes = u64::from(chunk.element.word_bits() / 8);
    let tile_bytes = (1 << Level::Max.log2_size()) / 8 + n_cells * (word_bytes + 2);
    Passes { first: Pass { tile_bytes, ..passes.first }, ..passes }
}

/// A pass over all blocks, and others after it that go on in its memory.
fn several(chunks: &Chunks, fatbin: &'static str, first: Names, after: &[Names]) -> Passes {
    let chunk: &Chunk = chunks.layout.get();
    let mut passes = passes(chunks, fatbin, first, chunk.layout.n_blocks() as u64);
    for (pass, &names) in passes.then.iter_mut().zip(after) {
        *pass = Some(Pass { kernel: Kernel::Always(names), scratch: Scratch::Of(0), ..passes.first });
    }
    passes
}

/// One pass over so many blocks, by a kernel of such a module.
fn passes(chunks: &Chunks, fatbin: &'static str, names: Names, n_tiles: u64) -> Passes {
    let chunk: &Chunk = chunks.layout.get();
    let (mut extents, from) = ([1; 3], chunks.shape.extents());
    extents[3 - from.len()..].copy_from_slice(from);
    let asked = &chunk.asked;
    let fills = match chunk.element.word_bits() {
        64 => chunk.fills::<u64>(),
        _ => chunk.fills::<u32>().map(|fills| fills.map(u64::from)),
    };
    let kind = u8::from(fills.is_some()) | u8::from(chunk.layout.parts() > 1) << 1;
    let how = [asked.log2_unit, asked.mode.id(), kind, chunk.number.id()];
    let args = Asked {
        extents,
        // A layout has fewer than 2^32.
        n_blocks: chunk.layout.n_blocks() as u32,
        how: u32::from_le_bytes(how),
        value: asked.value.to_bits(),
        fills: fills.unwrap_or_default(),
    };
    Passes::one(fatbin, Kernel::Always(names), [n_tiles, 0], &args, chunk.layout.table_bytes() as u64)
}
