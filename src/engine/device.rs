//! Chunks in host memory or that of a GPU: one at a time, for calls that wait for the result, and batches, for calls
//! that only give work to a stream.

pub use crate::codec::gpu::Direction;
pub use crate::cuda::{DeviceSlice, StreamHandle, gpu_of_pointer};
#[doc(hidden)]
pub use crate::engine::backend::has_kernels_here;
pub use crate::engine::batch::{
    Batch, BatchMemory, PreparedBatch, async_workspace_bytes, compress_async, decompress_async, pack_async,
    unpack_async, wait_for,
};
pub use crate::engine::boxes::{BoxCopy, ChunkRoom};
pub use crate::engine::chunk::{
    compress_from as compress, count_blocks_from as count_blocks, decompress_from as decompress,
    inspect_from as inspect,
};
pub use crate::engine::chunks::{compress_chunks, decompress_chunks};
pub use crate::engine::list::{Chunks, packed_bound};
pub use crate::engine::memory::{Destination, Source};
pub use crate::engine::packing::Packing;
pub use crate::engine::progressive::{
    decompress_progressive_from as decompress_progressive, inspect_progressive_from as inspect_progressive,
};
pub use crate::engine::region::decompress_region_from as decompress_region;
