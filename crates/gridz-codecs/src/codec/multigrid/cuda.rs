//! multigrid on a GPU: the kernels in `kernels/multigrid`.

use crate::codec::gpu::{
    Answer, Args, Chunks, Direction, GpuCodec, Kernel, MOST_THEN, MissingArgs, Names, Pass, Passes, Rounds,
    Scratch, names,
};
use crate::codec::mode::Mode;
use crate::codec::multigrid::arrays::Arrays;
use crate::codec::multigrid::grid::{Grid, MAX_RANK};
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::{Chunk, Multigrid, exact, payload};
use crate::format::region::FoldedRegion;
use crate::stage::word::Word;
use crate::types::DType;

/// Kernels by the bits of a word: 32 or 64.
type OfWord = [Names; 2];
/// The passes of a reader. `refine_layers` replaces `refine` if there are several layers.
struct Read {
    heads: OfWord,
    numbers: OfWord,
    refine: OfWord,
    refine_layers: OfWord,
    exact: OfWord,
}
/// The passes that compress; with several layers, some kernels differ.
struct Write {
    choose: OfWord,
    /// Entry 0: kernels for at most one fill value. Entry 1: kernels for several fill values or a
    /// valid range.
    refine: [OfWord; 2],
    exact: OfWord,
    place: OfWord,
}
const RANGE: OfWord = [names!("multigrid_range_u32"), names!("multigrid_range_u64")];
const FIRST: OfWord = [names!("multigrid_first_u32"), names!("multigrid_first_u64")];
const COUNT: OfWord = [names!("multigrid_count_u32"), names!("multigrid_count_u64")];
const STRING: OfWord = [names!("multigrid_string_u32"), names!("multigrid_string_u64")];
const WRITE: Write = Write {
    choose: [names!("multigrid_choose_u32"), names!("multigrid_choose_u64")],
    refine: [
        [names!("multigrid_refine_u32"), names!("multigrid_refine_u64")],
        [names!("multigrid_refine_lists_u32"), names!("multigrid_refine_lists_u64")],
    ],
    exact: [names!("multigrid_exact_u32"), names!("multigrid_exact_u64")],
    place: [names!("multigrid_place_u32"), names!("multigrid_place_u64")],
};
const WRITE_LAYERS: Write = Write {
    choose: [names!("multigrid_layers_choose_u32"), names!("multigrid_layers_choose_u64")],
    refine: [
        [names!("multigrid_layers_refine_u32"), names!("multigrid_layers_refine_u64")],
        [names!("multigrid_layers_refine_lists_u32"), names!("multigrid_layers_refine_lists_u64")],
    ],
    exact: [names!("multigrid_layers_exact_u32"), names!("multigrid_layers_exact_u64")],
    place: [names!("multigrid_layers_place_u32"), names!("multigrid_layers_place_u64")],
};
/// The passes for several layers only: one prepares the next layer, one writes the head.
const NEXT: OfWord = [names!("multigrid_layers_next_u32"), names!("multigrid_layers_next_u64")];
const HEADS: OfWord = [names!("multigrid_layers_heads_u32"), names!("multigrid_layers_heads_u64")];
/// The decompression passes.
const READ: Read = Read {
    heads: [names!("multigrid_decompress_heads_u32"), names!("multigrid_decompress_heads_u64")],
    numbers: [names!("multigrid_decompress_numbers_u32"), names!("multigrid_decompress_numbers_u64")],
    refine: [names!("multigrid_decompress_refine_u32"), names!("multigrid_decompress_refine_u64")],
    refine_layers: [names!("multigrid_decompress_layers_u32"), names!("multigrid_decompress_layers_u64")],
    exact: [names!("multigrid_decompress_exact_u32"), names!("multigrid_decompress_exact_u64")],
};
/// The decompression passes of a region, and the pass that copies it.
const REGION: Read = Read {
    heads: [names!("multigrid_region_heads_u32"), names!("multigrid_region_heads_u64")],
    numbers: [names!("multigrid_region_numbers_u32"), names!("multigrid_region_numbers_u64")],
    refine: [names!("multigrid_region_refine_u32"), names!("multigrid_region_refine_u64")],
    refine_layers: [names!("multigrid_region_layers_u32"), names!("multigrid_region_layers_u64")],
    exact: [names!("multigrid_region_exact_u32"), names!("multigrid_region_exact_u64")],
};
const TAKE: OfWord = [names!("multigrid_region_take_u32"), names!("multigrid_region_take_u64")];

/// The modules of the kernels.
const COMPRESS: &str = "multigrid_compress";
const DECOMPRESS: &str = "multigrid";

/// Bytes of a plan, and of the description of a piece of exact elements
/// (`kernels/multigrid/layout.cuh`, `exact_write.cuh`).
const PLAN_BYTES: u64 = 16384;
const PIECE_BYTES: u64 = 24;
/// Alignment of the parts of the working memory.
const ALIGNMENT: u64 = 256;
/// Nodes that a thread block refines together (`kTileNodes` in `kernels/multigrid/plan.cuh`); the
/// launch only needs an approximation.
const TILE_NODES: u64 = 2048;
/// Approximate bytes of a region that a thread block copies.
const TAKEN_BYTES: u64 = 1 << 16;

crate::kernel_struct! {
    /// A chunk, and the offsets in its working memory of the data that passes leave for each other
    /// (`Chunk` in `kernels/multigrid/layout.cuh`).
    struct ChunkArgs, size 216 {
        extents: [u32; MAX_RANK],
        value: u64,
        missing: MissingArgs,
        least: u64,
        most: u64,
        mode: u32,
        n_levels: u32,
        n_blocks: u32,
        n_pieces: u32,
        n_layers: u32,
        n_tiles: u32,
        numbers: u64,
        near: u64,
        far: u64,
        bitmap: u64,
        pieces: u64,
        blocks: u64,
        array: u64,
        n_bytes: u64,
    }
}

/// The requests that are left to the CPU.
fn by_cpu(direction: Direction, chunk: &Chunk) -> Option<Answer> {
    let text = match (direction, &chunk.asked) {
        (Direction::Decompress, _) => None,
        (_, asked) if asked.s != 0.0 => Some("multigrid has no compression kernels for s other than 0"),
        _ => None,
    };
    text.map(|text| Answer::NotHere(text.into()))
}

impl GpuCodec for Multigrid {
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        if let Some(answer) = by_cpu(direction, chunk) {
            return answer;
        }
        let launches = Launches::new(chunk, direction, false);
        Answer::Run(match direction {
            Direction::Compress => launches.write(chunk.asked.mode == Mode::Rel),
            Direction::Decompress => launches.read(&READ, None),
        })
    }

    /// Every element may depend on all others, so the whole array is decoded. The checksum covers
    /// the whole payload.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let launches = Launches::new(chunk, Direction::Decompress, true);
        let n_bytes = region.axes.iter().map(|axis| axis.count()).product::<u64>() * launches.word_bytes;
        Answer::Run(launches.read(&REGION, Some((&TAKE, n_bytes.div_ceil(TAKEN_BYTES)))))
    }
}

/// The common data of the launches for a chunk.
struct Launches {
    args: ChunkArgs,
    word_bytes: u64,
    table_bytes: u64,
}

impl Launches {
    fn new(chunk: &Chunk, direction: Direction, is_part: bool) -> Self {
        let is_long = chunk.dtype == DType::F64;
        let (grid, asked) = (chunk.grid, chunk.asked);
        let word_bytes = if is_long { 8 } else { 4 };
        let (n, n_layers) = (grid.n_nodes() as u64, asked.n_layers as u64);
        let (n_blocks, n_pieces) = (most_blocks(grid), exact::n_pieces(grid.n_nodes()) as u64);
        let is_made = direction == Direction::Compress;
        let mut end = PLAN_BYTES;
        let mut place = |n_bytes: u64| {
            let start = end;
            end = (end + n_bytes).next_multiple_of(ALIGNMENT);
            start
        };
        // A reader holds the numbers of all layers, and the array for every other one. A writer
        // holds the numbers of one layer, the bitmaps of that layer and of all previous ones, and
        // the values of that layer and of the previous one. The values of the last layer are not
        // needed.
        let (n_arrays, n_bitmaps) = match n_layers {
            1 => (0, 1),
            _ => (if is_made { 2.min(n_layers - 1) } else { n_layers }, 2),
        };
        let when = |is: bool, n_bytes: u64| if is { n_bytes } else { 0 };
        let (missing, [least, most]) = if is_long { missing_of::<f64>(chunk) } else { missing_of::<f32>(chunk) };
        let args = ChunkArgs {
            // Arrays are smaller than 16 GiB.
            extents: grid.extents.map(|extent| extent as u32),
            value: asked.value.to_bits(),
            missing,
            least,
            most,
            mode: asked.mode.id().into(),
            n_levels: grid.n_levels(),
            n_blocks: n_blocks as u32,
            n_pieces: n_pieces as u32,
            n_layers: n_layers as u32,
            n_tiles: (n_layers * (n_blocks + n_pieces) + u64::from(n_layers > 1)) as u32,
            numbers: place((n_arrays + 1) * n * word_bytes),
            // Before a step, at most two of three nodes exist.
            near: place((2 * n / 3 + 1) * word_bytes),
            far: place((4 * n / 9 + 1) * word_bytes),
            bitmap: place(when(is_made, n_bitmaps * n.div_ceil(32) * 4)),
            pieces: place(when(is_made, n_pieces * PIECE_BYTES)),
            blocks: place(when(is_made, n_blocks * if is_long { 9408 } else { 6336 } + n * (word_bytes + 2))),
            array: place(when(is_part, n * word_bytes)),
            n_bytes: 0,
        };
        Self {
            args: ChunkArgs { n_bytes: end, ..args },
            word_bytes,
            table_bytes: payload::head_bytes(&grid, asked.n_layers) as u64,
        }
    }

    /// The kernel of a pass for this chunk.
    fn named(&self, names: &OfWord) -> Kernel {
        Kernel::Always(names[usize::from(self.word_bytes == 8)])
    }

    /// Approximate number of tiles of all steps.
    fn n_refined(&self) -> u64 {
        self.args.extents.iter().map(|&n| u64::from(n)).product::<u64>().div_ceil(TILE_NODES)
    }

    /// Passes, each with its number of tiles per chunk, that all share the memory of the first.
    fn passes<'a>(
        &self,
        fatbin: &'static str,
        (first, n_tiles): (&OfWord, u64),
        others: impl Iterator<Item = (&'a OfWord, u64)>,
    ) -> Passes {
        // Each tile provides a share of the chunk's memory.
        let n_tiles = n_tiles.max(1);
        let share = self.args.n_bytes.div_ceil(n_tiles);
        let pass = |names: &OfWord, n_tiles: u64, tile_bytes: u64| Pass {
            kernel: self.named(names),
            units: [n_tiles, 0],
            args: Args::new(&self.args),
            scratch: Scratch::Zeroed,
            tile_bytes,
        };
        let first = pass(first, n_tiles, share);
        let then = [None; MOST_THEN];
        Passes { fatbin, table_bytes: self.table_bytes, first, then, rounds: Rounds::NONE }
            .then(others.map(|(names, n_tiles)| pass(names, n_tiles, 0)))
    }

    /// The passes that compress. `is_relative`: the bound depends on the range.
    fn write(&self, is_relative: bool) -> Passes {
        let ChunkArgs { n_blocks, n_pieces, n_layers, n_tiles, .. } = self.args;
        let [tiles, pieces, all] = [n_blocks, n_pieces, n_tiles].map(u64::from);
        let is_layered = n_layers > 1;
        let by = if is_layered { &WRITE_LAYERS } else { &WRITE };
        let first = if is_relative { &RANGE } else { &FIRST };
        let choose = is_relative.then_some((&FIRST, pieces)).into_iter().chain([(&by.choose, pieces)]);
        let layer = [
            (&by.refine[usize::from(self.args.missing.are_many())], self.n_refined()),
            (&COUNT, tiles),
            (&STRING, tiles),
            (&by.exact, pieces),
            (&by.place, tiles + pieces),
        ];
        let further = [(&NEXT, 1), (&HEADS, tiles + pieces)].into_iter().filter(|_| is_layered);
        let passes = self.passes(COMPRESS, (first, all), choose.chain(layer).chain(further));
        let start = 1 + usize::from(is_relative);
        let rounds = Rounds { start, n_passes: layer.len() + 1, n: n_layers as usize };
        Passes { rounds: if is_layered { rounds } else { Rounds::NONE }, ..passes }
    }

    /// The passes that decompress, and optionally one more.
    fn read(&self, by: &Read, last: Option<(&OfWord, u64)>) -> Passes {
        let ChunkArgs { n_blocks, n_pieces, n_layers, .. } = self.args;
        let refine = if n_layers > 1 { &by.refine_layers } else { &by.refine };
        let n_read = u64::from(n_blocks) * u64::from(n_layers);
        let then = [(&by.numbers, n_read), (refine, self.n_refined()), (&by.exact, n_pieces.into())];
        self.passes(DECOMPRESS, (&by.heads, 1), then.into_iter().chain(last))
    }
}

/// The missing elements, and the words of the limits of the valid range.
fn missing_of<T: Real>(chunk: &Chunk) -> (MissingArgs, [u64; 2]) {
    let missing = chunk.missing::<T>();
    let infinities = [T::ZERO - T::INFINITY, T::INFINITY].map(|limit| limit.to_word().to_u64());
    let limits = missing.map_or([None; 2], |missing| missing.range());
    let words = [0, 1].map(|which| limits[which].map_or(infinities[which], |word| word.to_u64()));
    (MissingArgs::new(missing.as_ref()), words)
}

/// The maximum number of blocks of a payload over all orders of the axes; at least one.
fn most_blocks(grid: Grid) -> u64 {
    let mut most = 1;
    let mut order = [0, 1, 2, 3];
    permute(&mut order, 0, &mut |order| {
        // The position of an axis with one node does not matter, so only orders with these axes
        // last are tried.
        let is_first = order.windows(2).all(|pair| {
            let [of_first, of_second] = [pair[0], pair[1]].map(|axis| grid.extents[usize::from(axis)] > 1);
            of_first || (!of_second && pair[0] < pair[1])
        });
        if is_first {
            most = most.max(grid.ordered(*order).map_or(0, |grid| Arrays::new(grid).n_blocks() as u64));
        }
    });
    most
}

/// Calls `each` with every permutation of the axes from index `from` on.
fn permute(order: &mut [u8; MAX_RANK], from: usize, each: &mut impl FnMut(&[u8; MAX_RANK])) {
    if from == MAX_RANK {
        each(order);
        return;
    }
    for i in from..MAX_RANK {
        order.swap(from, i);
        permute(order, from + 1, each);
        order.swap(from, i);
    }
}
