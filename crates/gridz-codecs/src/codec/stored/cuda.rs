//! `stored` on a GPU: the kernels in `kernels/stored`, which see every array as bytes.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Passes, names};
use crate::codec::stored::Stored;
use crate::format::region::FoldedRegion;

/// What the kernels count as a block.
const BLOCK_BYTES: u64 = 4096;

/// A tile of a region's kernel has about so many bytes, or runs of them, to copy.
const COPIED_BYTES: u64 = 32 << 10;
const COPIED_RUNS: u64 = 64;

crate::kernel_struct! {
    /// The array is bytes.
    struct Bytes, size 8 {
        n_bytes: u64,
    }
}

impl GpuCodec for Stored {
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let names = match direction {
            Direction::Compress => names!("stored_compress"),
            Direction::Decompress => names!("stored_decompress"),
        };
        let n_bytes = chunks.array.n_bytes();
        let n_blocks = n_bytes.div_ceil(BLOCK_BYTES);
        // These kernels look at the bytes only.
        Answer::Run(Passes::one("stored", Kernel::Always(names), [n_blocks, 0], &Bytes { n_bytes }, 0))
    }

    /// No checksum is compared: nothing is read but what is copied. A warp copies a run of bytes at a time.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let args = Bytes { n_bytes: chunks.array.n_bytes() };
        let n_bytes = region.n_elements() * u64::from(chunks.array.element_size());
        let units = [n_bytes.div_ceil(COPIED_BYTES), region.n_runs().div_ceil(COPIED_RUNS)];
        Answer::Run(Passes::one("stored", Kernel::Always(names!("stored_region")), units, &args, 0))
    }
}
