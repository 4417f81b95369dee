//! `stored` on a GPU: the kernels in `kernels/stored`, which see every array as bytes.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Passes, names};
use crate::codec::stored::Stored;

/// What the kernels count as a block.
const BLOCK_BYTES: u64 = 4096;

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
}
