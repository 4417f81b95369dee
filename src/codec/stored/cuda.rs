//! `stored` on a GPU: the kernels in `kernels/stored`, which see every array as bytes.

use crate::codec::gpu::{Direction, GpuCodec, Kernel};
use crate::codec::stored::Stored;
use crate::types::{Array, Shape};

/// What the kernels count as a block.
const BLOCK_BYTES: u64 = 4096;

impl GpuCodec for Stored {
    fn kernel(&self, direction: Direction, array: &Array, _shape: &Shape, params: &[u8]) -> Option<Kernel> {
        if !params.is_empty() {
            return None;
        }
        let names = match direction {
            Direction::Compress => ("stored_compress", "stored_compress_info"),
            Direction::Decompress => ("stored_decompress", "stored_decompress_info"),
        };
        let n_bytes = array.n_bytes();
        let n_blocks = n_bytes.div_ceil(BLOCK_BYTES);
        let extents = [1, 1, n_bytes];
        Some(Kernel {
            fatbin: "stored",
            names,
            unaligned: None,
            row_bytes: n_bytes,
            table_bytes: 0,
            extents,
            n_blocks,
            n_border: 0,
        })
    }
}
