//! `stored` on a GPU: the kernels in `kernels/stored`, which see every array as bytes.

use crate::codec::gpu::{Answer, Args, Chunks, Direction, GpuCodec, Kernel, Pass, Passes, Scratch};
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
            Direction::Compress => ("stored_compress", "stored_compress_info"),
            Direction::Decompress => ("stored_decompress", "stored_decompress_info"),
        };
        let n_bytes = chunks.array.n_bytes();
        let n_blocks = n_bytes.div_ceil(BLOCK_BYTES);
        // These kernels look at the bytes only.
        let (kernel, args) = (Kernel::Always(names), Args::new(&Bytes { n_bytes }));
        let first = Pass { kernel, units: [n_blocks, 0], args, scratch: Scratch::Zeroed };
        Answer::Run(Passes { fatbin: "stored", table_bytes: 0, first, then: Vec::new() })
    }
}
