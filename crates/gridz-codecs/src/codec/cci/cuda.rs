//! cci on a GPU: the kernels in `kernels/cci`. They only decompress; searching for copies is left
//! to the CPU.

use crate::codec::cci::{Cci, Chunk};
use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::format::region::FoldedRegion;

/// Kernels for elements of four and of eight bytes.
type OfBytes = [Names; 2];
const DECOMPRESS: OfBytes = [names!("cci_decompress_u32"), names!("cci_decompress_u64")];
const REGION: OfBytes = [names!("cci_region_u32"), names!("cci_region_u64")];

crate::kernel_struct! {
    /// The array (`Indices` in `kernels/cci/layout.cuh`).
    struct Indices, size 16 {
        n: u64,
        n_blocks: u32,
        how: u32,
    }
}

impl GpuCodec for Cci {
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        match direction {
            Direction::Compress => Answer::NotHere("cci has no compression kernels".into()),
            Direction::Decompress => Answer::Run(one(chunks, &DECOMPRESS, chunk.layout.blocks.n_blocks() as u64)),
        }
    }

    /// Blocks have their own checksums.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let block_range = chunk.layout.blocks.block_range(region);
        Answer::Run(one(chunks, &REGION, block_range.iter().map(|along| along.end - along.start).product()))
    }
}

/// One pass over `n_tiles` blocks.
fn one(chunks: &Chunks, names: &OfBytes, n_tiles: u64) -> Passes {
    let &Chunk { layout, element, has_codes } = chunks.layout.get();
    // A single block may be shorter than the codec's block size; then its length is rounded up
    // to a power of two.
    let log2_block = layout.blocks.block_elements().next_power_of_two().ilog2();
    let args = Indices {
        n: chunks.shape.n_elements(),
        // A layout has fewer than 2^32 blocks.
        n_blocks: layout.blocks.n_blocks() as u32,
        how: log2_block | u32::from(has_codes) << 8,
    };
    let kernel = Kernel::Always(names[usize::from(element.bytes == 8)]);
    Passes::one("cci", kernel, [n_tiles, 0], &args, layout.table_bytes() as u64)
}
