//! Chunks in host or GPU memory: calls for many chunks that wait for the result, and batches that
//! only enqueue work on a stream.

#[doc(hidden)]
pub use crate::backend::gpu_available;
pub use crate::batch::{
    Batch, BatchMemory, PreparedBatch, async_workspace_bytes, compress_async, decompress_async, pack_async,
    unpack_async, wait_for,
};
pub use crate::chunk_array::{ChunkArray, packed_bound};
pub use crate::chunk_stream::{ChunkInputs, ChunkOutputs, ChunkStream, DeviceChunks, FrameInputs};
pub use crate::chunks::{compress_chunks, decompress_chunks};
#[doc(hidden)]
pub use crate::kernels::find as kernels;
pub use crate::packing::Packing;
pub use crate::staging::JOB_BYTES;
pub use crate::strided_copy::{DeviceChunk, StridedCopy};
pub use gridz_codecs::codec::gpu::Direction;
pub use gridz_cuda::{DeviceSlice, StreamHandle, gpu_of_pointer};
