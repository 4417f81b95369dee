//! Chunks in host memory or that of a GPU: one at a time, for calls that wait for the result, and batches, for calls
//! that only give work to a stream.

#[doc(hidden)]
pub use crate::backend::has_kernels_here;
pub use crate::batch::{
    Batch, BatchMemory, PreparedBatch, async_workspace_bytes, compress_async, decompress_async, pack_async,
    unpack_async, wait_for,
};
pub use crate::boxes::{BoxCopy, ChunkRoom};
pub use crate::chunk::{
    compress_from as compress, count_blocks_from as count_blocks, decompress_from as decompress,
    inspect_from as inspect,
};
pub use crate::chunks::{compress_chunks, decompress_chunks};
#[doc(hidden)]
pub use crate::kernels::find as kernels;
pub use crate::list::{Chunks, packed_bound};
pub use crate::memory::{Destination, Source};
pub use crate::packing::Packing;
pub use crate::progressive::{
    decompress_progressive_from as decompress_progressive, inspect_progressive_from as inspect_progressive,
};
pub use crate::region::decompress_region_from as decompress_region;
pub use gridz_codecs::codec::gpu::Direction;
pub use gridz_cuda::{DeviceSlice, StreamHandle, gpu_of_pointer};
