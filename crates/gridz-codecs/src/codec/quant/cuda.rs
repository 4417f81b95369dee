//! quant on a GPU: the kernels in `kernels/quant`.

use crate::codec::fold_choice::FoldChoice;
use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, MissingArgs, Names, Pass, Passes, names};
use crate::codec::mode::Mode;
use crate::codec::quant::block::MAX_PARTS;
use crate::codec::quant::max::View;
use crate::codec::quant::params::QuantLevel;
use crate::codec::quant::{Chunk, Quant};
use crate::format::region::FoldedRegion;
use crate::stage::missing::MissingWords;
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Kernels by the bits of a word: 32 or 64.
const COMPRESS: [Names; 2] = [names!("quant_compress_u32"), names!("quant_compress_u64")];
const RANGE: [Names; 2] = [names!("quant_range_u32"), names!("quant_range_u64")];
const DECOMPRESS: [Names; 2] = [names!("quant_decompress_u32"), names!("quant_decompress_u64")];
const REGION: [Names; 2] = [names!("quant_region_u32"), names!("quant_region_u64")];
/// The compression passes of level dense.
const DENSE_RANGE: [Names; 2] = [names!("quant_dense_range_u32"), names!("quant_dense_range_u64")];
const DENSE_PREDICT: [Names; 2] = [names!("quant_dense_predict_u32"), names!("quant_dense_predict_u64")];
const DENSE_ENCODE: [Names; 2] = [names!("quant_dense_encode_u32"), names!("quant_dense_encode_u64")];
const DENSE_PLACE: [Names; 2] = [names!("quant_dense_place_u32"), names!("quant_dense_place_u64")];
/// The decompression passes of level dense; elements shorter than a word have their own.
const DENSE_DECOMPRESS: [Names; 2] = [names!("quant_dense_decompress_u32"), names!("quant_dense_decompress_u64")];
const DENSE_DECOMPRESS_SHORT: Names = names!("quant_dense_decompress_short");
const DENSE_REGION: [Names; 2] = [names!("quant_dense_region_u32"), names!("quant_dense_region_u64")];
/// The passes of level max.
const MAX_RANGE: [Names; 2] = [names!("quant_max_range_u32"), names!("quant_max_range_u64")];
const MAX_LOAD: [Names; 2] = [names!("quant_max_load_u32"), names!("quant_max_load_u64")];
const MAX_FIND: [Names; 2] = [names!("quant_max_find_u32"), names!("quant_max_find_u64")];
const MAX_WRITE: [Names; 2] = [names!("quant_max_write_u32"), names!("quant_max_write_u64")];
const MAX_PLACE: [Names; 2] = [names!("quant_max_place_u32"), names!("quant_max_place_u64")];
const MAX_DECOMPRESS: [Names; 2] = [names!("quant_max_decompress_u32"), names!("quant_max_decompress_u64")];
const MAX_DECOMPRESS_SHORT: Names = names!("quant_max_decompress_short");
const MAX_REGION: [Names; 2] = [names!("quant_max_region_u32"), names!("quant_max_region_u64")];

const CHOOSE: [Names; 2] = [names!("quant_choose_u32"), names!("quant_choose_u64")];

/// The kernel modules of the levels.
const FAST: &str = "quant";
const DENSE_COMPRESS: &str = "quant_dense_compress";
const DENSE: &str = "quant_dense";
const MAX_COMPRESS: &str = "quant_max_compress";
const MAX: &str = "quant_max";

crate::kernel_struct! {
    /// The array, with leading extents of 1, and the request (`Chunk` in `kernels/quant/layout.cuh`).
    struct Asked, size 224 {
        extents: [u64; 3],
        n_blocks: u32,
        how: u32,
        value: u64,
        missing: [MissingArgs; 2],
        n_times: u32,
        n_cells: u32,
    }
}

crate::kernel_struct! {
    /// The choice between two folds, and how elements become codes (`QuantChoice` in
    /// `kernels/quant/choose.cuh`).
    struct QuantChoice, size 272 {
        choice: FoldChoice,
        asked: Asked,
    }
}

impl GpuCodec for Quant {
    fn choose_fold(&self, &choice: &FoldChoice, chunks: &Chunks) -> Option<Passes> {
        let chunk: &Chunk = chunks.layout.get();
        let names = CHOOSE[usize::from(chunk.element.word_bits() == 64)];
        let args = QuantChoice { choice, asked: asked(chunks, Times::default()) };
        Some(Passes::one(FAST, Kernel::Always(names), [1, 0], &args, 0))
    }

    /// A relative bound needs a pass that finds the range; it shares the working memory of
    /// compression.
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let of_word = usize::from(chunk.element.word_bits() == 64);
        let n_blocks = chunk.layout.n_blocks() as u64;
        let is_short = chunk.element.bytes < 4;
        let is_rel = chunk.asked.mode == Mode::Rel;
        let decompress = |fatbin, names| passes(chunks, direction, fatbin, names, n_blocks);
        Answer::Run(match (chunk.asked.level, direction) {
            (QuantLevel::Max, Direction::Compress) => {
                let [load, find, write, place] =
                    [MAX_LOAD, MAX_FIND, MAX_WRITE, MAX_PLACE].map(|names| names[of_word]);
                if is_rel {
                    several(chunks, MAX_COMPRESS, MAX_RANGE[of_word], &[load, find, write, place])
                } else {
                    several(chunks, MAX_COMPRESS, load, &[find, write, place])
                }
            }
            (QuantLevel::Max, Direction::Decompress) => {
                let names = if is_short { MAX_DECOMPRESS_SHORT } else { MAX_DECOMPRESS[of_word] };
                decompress(MAX, names)
            }
            (QuantLevel::Dense, Direction::Compress) => {
                let [predict, encode, place] =
                    [DENSE_PREDICT, DENSE_ENCODE, DENSE_PLACE].map(|names| names[of_word]);
                if is_rel {
                    several(chunks, DENSE_COMPRESS, DENSE_RANGE[of_word], &[predict, encode, place])
                } else {
                    several(chunks, DENSE_COMPRESS, predict, &[encode, place])
                }
            }
            (QuantLevel::Dense, Direction::Decompress) => {
                let names = if is_short { DENSE_DECOMPRESS_SHORT } else { DENSE_DECOMPRESS[of_word] };
                decompress(DENSE, names)
            }
            (QuantLevel::Fast, Direction::Decompress) => decompress(FAST, DECOMPRESS[of_word]),
            (QuantLevel::Fast, Direction::Compress) if is_rel => {
                several(chunks, FAST, RANGE[of_word], &[COMPRESS[of_word]])
            }
            (QuantLevel::Fast, Direction::Compress) => several(chunks, FAST, COMPRESS[of_word], &[]),
        })
    }

    /// Blocks have their own checksums.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let of_word = usize::from(chunk.element.word_bits() == 64);
        let n_in_part: u64 =
            chunk.layout.blocks.block_range(region).iter().map(|along| along.end - along.start).product();
        let n_blocks = n_in_part * chunk.layout.parts() as u64;
        let (fatbin, names) = match chunk.asked.level {
            QuantLevel::Max => (MAX, MAX_REGION),
            QuantLevel::Dense => (DENSE, DENSE_REGION),
            QuantLevel::Fast => (FAST, REGION),
        };
        Answer::Run(passes(chunks, Direction::Decompress, fatbin, names[of_word], n_blocks))
    }
}

/// The two numbers that determine the memory of a block at level max: time steps, and stored cells.
/// Both are the maximum over all blocks.
#[derive(Clone, Copy, Default)]
struct Times {
    n_times: usize,
    n_cells: usize,
}

impl Times {
    fn of(chunk: &Chunk) -> Self {
        let kinds = chunk.layout.blocks.kinds().filter(|&(n, _)| n > 0);
        kinds.map(|(_, shape)| View::new(shape)).fold(Self::default(), |most, view| Self {
            n_times: most.n_times.max(view.n_times()),
            n_cells: most.n_cells.max(view.kept_cells()),
        })
    }

    /// Bytes of a block's working memory that its kernels cannot determine. When decompressing: the
    /// cells, and bitmaps of elements (`kernels/quant/max.cuh`). When compressing: everything after a
    /// block in `MaxLevel` (`kernels/quant/max_scratch.cuh`).
    fn tile_bytes(self, direction: Direction, word_bytes: usize) -> u64 {
        let cell_bytes = self.n_cells * (word_bytes + 2);
        let n_bytes = match direction {
            Direction::Decompress => (1 << QuantLevel::Max.log2_size()) / 8 + cell_bytes,
            Direction::Compress => (self.n_times * LANES * (2 + word_bytes) + cell_bytes).next_multiple_of(256),
        };
        n_bytes as u64
    }
}

/// The passes that compress all blocks: `first`, then `after` in the same memory.
fn several(chunks: &Chunks, fatbin: &'static str, first: Names, after: &[Names]) -> Passes {
    let chunk: &Chunk = chunks.layout.get();
    let passes = passes(chunks, Direction::Compress, fatbin, first, chunk.layout.n_blocks() as u64);
    let first = passes.first;
    passes.then(after.iter().map(|&names| Pass { kernel: Kernel::Always(names), ..first }))
}

/// The description of chunks for kernels.
fn asked(chunks: &Chunks, times: Times) -> Asked {
    let chunk: &Chunk = chunks.layout.get();
    let (mut extents, from) = ([1; 3], chunks.shape.extents());
    extents[3 - from.len()..].copy_from_slice(from);
    let asked = &chunk.asked;
    let missing = match chunk.element.word_bits() {
        64 => args_of(chunk.missing::<u64>()),
        _ => args_of(chunk.missing::<u32>()),
    };
    let kind = u8::from(!asked.missing.is_none()) | u8::from(chunk.layout.parts() > 1) << 1;
    let how = [asked.log2_unit, asked.mode.id(), kind, chunk.number.id()];
    Asked {
        extents,
        // A layout has fewer than 2^32 blocks.
        n_blocks: chunk.layout.n_blocks() as u32,
        how: u32::from_le_bytes(how),
        value: asked.value.to_bits(),
        missing,
        n_times: times.n_times as u32,
        n_cells: times.n_cells as u32,
    }
}

/// One pass over `n_tiles` blocks, by a kernel of the module `fatbin`.
fn passes(chunks: &Chunks, direction: Direction, fatbin: &'static str, names: Names, n_tiles: u64) -> Passes {
    let chunk: &Chunk = chunks.layout.get();
    let (times, tile_bytes) = if chunk.asked.level == QuantLevel::Max {
        let times = Times::of(chunk);
        (times, times.tile_bytes(direction, chunk.element.word_bits() as usize / 8))
    } else {
        (Times::default(), 0)
    };
    let args = asked(chunks, times);
    let passes = Passes::one(fatbin, Kernel::Always(names), [n_tiles, 0], &args, chunk.layout.table_bytes() as u64);
    Passes { first: Pass { tile_bytes, ..passes.first }, ..passes }
}

/// The missing elements of each part, as arguments for kernels.
fn args_of<W: Word>(missing: Option<[MissingWords<W>; MAX_PARTS]>) -> [MissingArgs; MAX_PARTS] {
    std::array::from_fn(|part| MissingArgs::new(missing.as_ref().map(|missing| &missing[part])))
}
