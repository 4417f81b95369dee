//! Codecs on a GPU: kernels that write and read whole frames, for batches of chunks of one type and
//! shape.
//!
//! A codec answers with [`Passes`]: the kernels to launch, in order, and their arguments other than
//! the batch's memory. The engine launches them, in the same way for all codecs.
//! `kernels/README.md` has the rules for both sides.

use std::borrow::Cow;

use crate::codec::CodecState;
use crate::codec::fold_choice::FoldChoice;
use crate::format::region::{self, FoldedRegion, MergedAxis};
use crate::kernel_struct::KernelStruct;
use crate::stage::missing::{MAX_FILLS, MissingWords};
use crate::stage::word::Word;
use crate::types::{Array, MAX_RANK, Shape};

/// Smallest memory transaction of a GPU, in bytes.
pub const SECTOR: u64 = 32;

/// The direction of a codec's passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Arrays become frames.
    Compress,
    /// Frames become arrays.
    Decompress,
}

/// A codec's kernels.
pub trait GpuCodec: Sync {
    /// The passes for chunks like `chunks`.
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer;

    /// The pass that chooses between two folds of each chunk (`kernels/stage/fold_choice.cuh`), for
    /// codecs with an alternative fold.
    fn choose_fold(&self, _choice: &FoldChoice, _chunks: &Chunks) -> Option<Passes> {
        None
    }

    /// The passes that decompress only a region. Their kernels also get a [`Region`], which has
    /// three axes. `compares`: they must verify checksums.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, compares: bool) -> Answer;
}

/// Maximum number of levels of a region's positions: the axes of an array of the largest rank, and
/// two for axes of extent 1.
const MAX_LEVELS: usize = MAX_RANK + 2;

crate::kernel_struct! {
    /// `AxisLevel` in `kernels/common/region.cuh`.
    struct AxisLevel, size 32 {
        stride: u64,
        start: u64,
        count: u64,
        inner: u64,
    }

    /// A region in the form that kernels use (`Region` there).
    pub struct Region, size 1200 {
        extents: [u64; 3],
        first: [u64; 3],
        end: [u64; 3],
        count: [u64; 3],
        levels_of: [u32; 4],
        levels: [AxisLevel; MAX_LEVELS],
    }
}

impl From<&FoldedRegion> for Region {
    fn from(region: &FoldedRegion) -> Self {
        let axes = region.last_three();
        let mut to = Self {
            extents: axes.each_ref().map(MergedAxis::extent),
            first: axes.each_ref().map(|axis| axis.span().start),
            end: axes.each_ref().map(|axis| axis.span().end),
            count: axes.each_ref().map(MergedAxis::count),
            levels_of: [0; 4],
            levels: [AxisLevel { stride: 1, start: 0, count: 0, inner: 1 }; MAX_LEVELS],
        };
        let mut n = 0;
        for (k, axis) in axes.iter().enumerate() {
            for &region::AxisLevel { stride, start, count, inner } in axis.levels() {
                to.levels[n] = AxisLevel { stride, start, count, inner };
                n += 1;
            }
            to.levels_of[k + 1] = n as u32;
        }
        to
    }
}

/// Chunks of one type and shape, as their codec sees them.
#[derive(Debug, Clone, Copy)]
pub struct Chunks<'a> {
    /// The caller's type and extents.
    pub array: &'a Array,
    /// Folded extents.
    pub shape: &'a Shape,
    /// The codec's layout.
    pub layout: &'a CodecState,
}

/// Whether a codec's kernels support a request.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "passes are values: no call allocates for one")]
pub enum Answer {
    /// They do, with these passes.
    Run(Passes),
    /// Compression cannot make such chunks smaller; they are stored. The CPU comes to the same
    /// result.
    Incompressible,
    /// No kernel supports this, for the given reason. The CPU must do it; it produces the same
    /// bytes.
    NotHere(Cow<'static, str>),
}

/// Maximum number of passes after the first one.
pub const MOST_THEN: usize = 9;

/// One or several passes, which run without the host in between.
#[derive(Debug, Clone)]
pub struct Passes {
    /// The folder of `kernels/` that contains them.
    pub fatbin: &'static str,
    /// Bytes at the start of a payload that decompression reads unconditionally; every valid
    /// payload has that many.
    pub table_bytes: u64,
    /// The first pass.
    pub first: Pass,
    /// The later passes, without gaps. Stored inline, so that a call that only enqueues work
    /// allocates nothing.
    pub then: [Option<Pass>; MOST_THEN],
    /// The later passes that are repeated as a group, and how often.
    pub rounds: Rounds,
}

/// A group of consecutive later passes that runs several times in the same memory, whose contents
/// carry over from one round to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// The index of the first pass of the group, and the number of its passes.
    pub start: usize,
    pub n_passes: usize,
    /// The number of rounds.
    pub n: usize,
}

impl Rounds {
    /// No repetition.
    pub const NONE: Self = Self { start: 0, n_passes: 0, n: 0 };
}

impl Passes {
    /// One pass of one kernel in zeroed memory, which most codecs need.
    pub fn one<A: KernelStruct>(
        fatbin: &'static str,
        kernel: Kernel,
        units: [u64; 2],
        args: &A,
        table_bytes: u64,
    ) -> Self {
        let first = Pass { kernel, units, args: Args::new(args), scratch: Scratch::Zeroed, tile_bytes: 0 };
        Self { fatbin, table_bytes, first, then: [None; MOST_THEN], rounds: Rounds::NONE }
    }

    /// Appends passes that continue in the memory of the first pass.
    pub fn then(mut self, others: impl IntoIterator<Item = Pass>) -> Self {
        for (to, pass) in self.then.iter_mut().zip(others) {
            *to = Some(Pass { scratch: Scratch::Of(0), ..pass });
        }
        self
    }
}

/// One launch.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// The kernel to launch.
    pub kernel: Kernel,
    /// A chunk's numbers of units, of two kinds. The kernel determines how many units of one kind
    /// make a tile; a chunk has at least one tile.
    pub units: [u64; 2],
    /// The codec's own arguments.
    pub args: Args,
    /// Initial contents of the working memory. The kernel reports its size.
    pub scratch: Scratch,
    /// Additional working memory for each tile, in bytes and not zeroed. The kernel cannot report
    /// it, because it depends on the array.
    pub tile_bytes: u64,
}

/// Names of a kernel and of its `LaunchInfo`.
pub type Names = (&'static str, &'static str);

/// The [`Names`] of the kernel with this name.
macro_rules! names {
    ($kernel:literal) => {
        ($kernel, concat!($kernel, "_info"))
    };
}
pub(crate) use names;

/// The kernel of a pass.
#[derive(Debug, Clone, Copy)]
pub enum Kernel {
    /// Always the same one.
    Always(Names),
    /// One of two kernels, which need the same amount of working memory.
    ByRows {
        /// Bytes of a row.
        row_bytes: u64,
        /// For arrays whose rows all begin at multiples of [`SECTOR`] bytes.
        aligned: Names,
        /// For all other arrays.
        unaligned: Names,
    },
}

impl Kernel {
    /// Returns the names for arrays at `address`, or at several addresses combined by OR.
    pub fn names(&self, address: u64) -> Names {
        match *self {
            Kernel::Always(names) => names,
            Kernel::ByRows { row_bytes, aligned, unaligned } => {
                if (address | row_bytes).is_multiple_of(SECTOR) {
                    aligned
                } else {
                    unaligned
                }
            }
        }
    }
}

/// Initial contents of a pass's working memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scratch {
    /// Zeros, except for the part that the kernel declares as uninitialized.
    Zeroed,
    /// Uninitialized.
    AsItIs,
    /// The memory of pass number `.0` (from 0), with the contents that it left.
    Of(usize),
}

/// Maximum size in bytes of a codec's own argument struct.
const MAX_ARGS: usize = 320;

crate::kernel_struct! {
    /// The missing elements of a chunk, or of one part of complex elements (`Missing` in
    /// `kernels/stage/missing.cuh`).
    pub struct MissingArgs, size 88 {
        fills: [u64; MAX_FILLS],
        least: u64,
        span: u64,
        n_fills: u32,
        has_range: u32,
    }
}

impl MissingArgs {
    /// Converts missing words to kernel arguments.
    pub fn new<W: Word>(missing: Option<&MissingWords<W>>) -> Self {
        // A word of all ones is NaN, so kernels for floats may always compare with it.
        let mut args = Self { fills: [u64::MAX; MAX_FILLS], least: 0, span: 0, n_fills: 0, has_range: 0 };
        let Some(missing) = missing else { return args };
        for (to, fill) in args.fills.iter_mut().zip(missing.fills()) {
            *to = fill.to_u64();
        }
        args.n_fills = missing.fills().len() as u32;
        if let Some((least, span)) = missing.places() {
            // Kernels compare positions as unsigned numbers.
            let top = W::from_u64(1) << (W::BITS - 1);
            (args.least, args.span, args.has_range) = ((least ^ top).to_u64(), span.to_u64(), 1);
        }
        args
    }

    /// True if there are several fill values, or a valid range.
    pub fn are_many(&self) -> bool {
        self.n_fills > 1 || self.has_range != 0
    }
}

/// Bytes of a codec's own argument struct: `own` in the kernel's argument struct in
/// `kernels/common/types.cuh`. It describes the chunk, for example its extents on the codec's
/// folded axes.
#[derive(Clone, Copy)]
pub struct Args {
    n_bytes: usize,
    bytes: [u8; MAX_ARGS],
}

impl Args {
    /// Copies the bytes of `args`.
    pub fn new<A: KernelStruct>(args: &A) -> Self {
        const { assert!(size_of::<A>() <= MAX_ARGS && size_of::<A>().is_multiple_of(8), "whole words, not too many") };
        let mut bytes = [0; MAX_ARGS];
        bytes[..size_of::<A>()].copy_from_slice(args.as_bytes());
        Self { n_bytes: size_of::<A>(), bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.n_bytes]
    }
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fold::Fold;

    #[test]
    fn kernels_find_the_levels_where_they_look() {
        assert_eq!(std::mem::offset_of!(Region, levels_of), 96);
        assert_eq!(std::mem::offset_of!(Region, levels), 112);
        let extents = [3; MAX_RANK];
        let most = region::Region::new(&Shape::new(&extents).unwrap(), &[0; MAX_RANK], &[2; MAX_RANK]).unwrap();
        for (fold, levels_of) in [(Fold::Merge, [0, 30, 31, 32]), (Fold::Flat, [0, 1, 2, 34])] {
            let region = Region::from(&most.folded(fold, 3));
            assert_eq!(region.levels_of, levels_of);
            let AxisLevel { stride, count, inner, .. } = region.levels[region.levels_of[3] as usize - 1];
            assert_eq!((stride, count, inner), (1, 2, 1));
        }
    }

    #[test]
    fn rows_begin_at_sectors_or_not() {
        let kernel = |row_bytes| Kernel::ByRows { row_bytes, aligned: names!("a"), unaligned: names!("u") };
        for (row_bytes, address, name) in
            [(64, 0, "a"), (64, 4096 | 32, "a"), (64, 4096 | 16, "u"), (48, 4096, "u"), (64, 1, "u")]
        {
            assert_eq!(kernel(row_bytes).names(address).0, name, "{row_bytes} {address}");
        }
    }
}
