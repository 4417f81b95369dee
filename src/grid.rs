//! Grids and scratch memory of a codec's passes on a GPU.

use gridz_codecs::codec::gpu::{Pass, Scratch};
use gridz_codecs::error::{Error, Result};
use gridz_cuda::Grid;

gridz_codecs::kernel_struct! {
    /// `LaunchInfo` in `kernels/common/types.cuh`: how a kernel must be launched.
    pub struct LaunchInfo, size 48 {
        pub threads: u32,
        pub shared_bytes: u32,
        persistent: u32,
        blocks_per_tile: u32,
        scratch_fixed_bytes: u64,
        scratch_bytes_per_chunk: u64,
        scratch_bytes_per_tile: u64,
        unzeroed_bytes_per_tile: u64,
    }
}

/// Alignment of a pass's scratch memory.
pub const SCRATCH_ALIGNMENT: u64 = 256;
/// Maximum number of tiles of a launch: kernels count them in 31 bits.
const MAX_TILES: u64 = i32::MAX as u64;

/// A pass's part of the scratch memory. The first `n_zeroed` bytes are zeroed if the pass needs
/// that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScratchRange {
    pub start: u64,
    pub n_bytes: u64,
    pub n_zeroed: u64,
}

impl ScratchRange {
    pub fn end(&self) -> u64 {
        self.start + self.n_bytes
    }
}

/// Grid and scratch memory of a pass.
pub fn grid_and_scratch(
    pass: &Pass,
    info: &LaunchInfo,
    resident: u32,
    n_chunks: u64,
    before: &[ScratchRange],
) -> Result<(Grid, ScratchRange)> {
    let n_tiles = n_tiles(pass, info);
    let all_tiles =
        n_tiles.checked_mul(n_chunks).filter(|&all| all.max(n_chunks) <= MAX_TILES).ok_or_else(|| {
            Error::unsupported(format!(
                "{n_chunks} chunks of {n_tiles} tiles exceed the limit of one GPU launch, 2^31 tiles; use fewer or \
                 smaller chunks"
            ))
        })?;
    let LaunchInfo { threads, shared_bytes, persistent, .. } = *info;
    let limit = if persistent == 0 { MAX_TILES } else { u64::from(resident) };
    let grid = Grid { ctas: all_tiles.min(limit) as u32, threads, shared_bytes };
    let per_chunk = info.scratch_bytes_per_chunk + n_tiles * info.scratch_bytes_per_tile;
    let n_zeroed = (info.scratch_fixed_bytes + n_chunks * per_chunk).next_multiple_of(8);
    let n_bytes = match all_tiles * (info.unzeroed_bytes_per_tile + pass.tile_bytes) {
        0 => n_zeroed,
        unzeroed => n_zeroed.next_multiple_of(SCRATCH_ALIGNMENT) + unzeroed,
    };
    let range = match pass.scratch {
        Scratch::Of(earlier) => {
            let range =
                *before.get(earlier).ok_or_else(|| Error::internal("a pass reuses the memory of a later one"))?;
            if n_bytes > range.n_bytes {
                return Err(Error::internal("a pass needs more memory than the pass that it shares it with"));
            }
            range
        }
        Scratch::Zeroed | Scratch::AsItIs => {
            let end = before.iter().map(ScratchRange::end).max().unwrap_or(0);
            ScratchRange { start: end.next_multiple_of(SCRATCH_ALIGNMENT), n_bytes, n_zeroed }
        }
    };
    Ok((grid, range))
}

/// Number of tiles of one chunk, at least one.
fn n_tiles(pass: &Pass, info: &LaunchInfo) -> u64 {
    let per_tile = u64::from(info.blocks_per_tile).max(1);
    pass.units.iter().map(|units| units.div_ceil(per_tile)).sum::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridz_codecs::codec::gpu::{Args, Kernel};

    const INFO: LaunchInfo = LaunchInfo {
        threads: 128,
        shared_bytes: 0,
        persistent: 0,
        blocks_per_tile: 2,
        scratch_fixed_bytes: 64,
        scratch_bytes_per_chunk: 16,
        scratch_bytes_per_tile: 8,
        unzeroed_bytes_per_tile: 0,
    };

    gridz_codecs::kernel_struct! {
        /// Arguments of one word.
        struct Own, size 8 {
            bound: u64,
        }
    }

    fn pass(units: [u64; 2], scratch: Scratch) -> Pass {
        let args = Args::new(&Own { bound: 7 });
        Pass { kernel: Kernel::Always(("k", "k_info")), units, args, scratch, tile_bytes: 0 }
    }

    #[test]
    fn tiles_are_of_one_kind_of_unit() {
        for (units, per_tile, expected) in
            [([0, 0], 2, 1), ([1, 0], 2, 1), ([1, 1], 2, 2), ([5, 3], 2, 5), ([5, 3], 1, 8), ([7, 0], 1, 7)]
        {
            let info = LaunchInfo { blocks_per_tile: per_tile, ..INFO };
            assert_eq!(n_tiles(&pass(units, Scratch::Zeroed), &info), expected, "{units:?} {per_tile}");
        }
    }

    /// A zeroed histogram, a table per chunk computed from it, and an encoder that uses the table
    /// and has memory of its own.
    #[test]
    fn passes_share_memory_or_have_their_own() {
        let n_chunks = 3;
        let passes = [
            pass([10, 0], Scratch::Zeroed),
            pass([0, 0], Scratch::Of(0)),
            pass([10, 0], Scratch::AsItIs),
            pass([10, 0], Scratch::Of(2)),
        ];
        let mut before: Vec<ScratchRange> = Vec::new();
        let mut ctas = Vec::new();
        for pass in &passes {
            let (grid, range) = grid_and_scratch(pass, &INFO, 1000, n_chunks, &before).unwrap();
            before.push(range);
            ctas.push(grid.ctas);
        }
        let n_bytes = 64 + 3 * (16 + 5 * 8);
        let [first, last] = [0, 256].map(|start| ScratchRange { start, n_bytes, n_zeroed: n_bytes });
        assert_eq!(before, [first, first, last, last]);
        assert_eq!(ctas, [15, 3, 15, 15]);
        let info = LaunchInfo { unzeroed_bytes_per_tile: 100, ..INFO };
        let (_, range) = grid_and_scratch(&passes[0], &info, 1000, n_chunks, &[]).unwrap();
        assert_eq!(range, ScratchRange { start: 0, n_bytes: 256 + 3 * 5 * 100, n_zeroed: n_bytes });
        let (_, range) =
            grid_and_scratch(&Pass { tile_bytes: 20, ..passes[0] }, &info, 1000, n_chunks, &[]).unwrap();
        assert_eq!(range, ScratchRange { start: 0, n_bytes: 256 + 3 * 5 * 120, n_zeroed: n_bytes });
        assert!(grid_and_scratch(&pass([1, 0], Scratch::Of(4)), &INFO, 1000, 1, &before).is_err());
    }

    #[test]
    fn launch_info_is_laid_out_as_in_cuda() {
        assert_eq!(std::mem::offset_of!(LaunchInfo, scratch_fixed_bytes), 16);
    }

    #[test]
    fn a_grid_is_the_resident_ctas_or_all_tiles() {
        let ctas = |persistent, n_chunks| {
            let info = LaunchInfo { persistent, ..INFO };
            grid_and_scratch(&pass([20, 0], Scratch::Zeroed), &info, 264, n_chunks, &[]).map(|(grid, _)| grid.ctas)
        };
        assert_eq!((ctas(0, 100).unwrap(), ctas(1, 100).unwrap(), ctas(1, 5).unwrap()), (1000, 264, 50));
        assert!(ctas(0, MAX_TILES / 10).is_ok());
        assert!(ctas(0, MAX_TILES / 10 + 1).is_err() && ctas(1, u64::MAX).is_err());
    }
}
