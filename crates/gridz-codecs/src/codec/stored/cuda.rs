//! `stored` on a GPU: the kernels in `kernels/stored`, which treat every array as bytes.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Passes, names};
use crate::codec::stored::Stored;
use crate::format::region::FoldedRegion;

/// Bytes that the kernels count as one block.
const BLOCK_BYTES: u64 = 4096;

/// A tile of the region kernel copies about this many bytes, or this many runs of bytes.
const COPIED_BYTES: u64 = 32 << 10;
const COPIED_RUNS: u64 = 64;

crate::kernel_struct! {
    /// The array, as bytes.
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
        // These kernels only use the number of bytes.
        Answer::Run(Passes::one("stored", Kernel::Always(names), [n_blocks, 0], &Bytes { n_bytes }, 0))
    }

    /// Compares no checksum, because it reads only what it copies. A warp copies one run of bytes
    /// at a time.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let args = Bytes { n_bytes: chunks.array.n_bytes() };
        let n_bytes = region.n_elements() * u64::from(chunks.array.element_size());
        let units = [n_bytes.div_ceil(COPIED_BYTES), region.n_runs().div_ceil(COPIED_RUNS)];
        Answer::Run(Passes::one("stored", Kernel::Always(names!("stored_region")), units, &args, 0))
    }
}
