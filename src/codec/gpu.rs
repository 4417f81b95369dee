//! Codecs on a GPU: the same payloads, made and read in device memory.

use crate::codec::Job;
use crate::cuda::{DeviceSlice, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::Sums;

crate::kernel_struct! {
    /// What a kernel tells about one chunk (`ChunkResult` in `kernels/common/types.cuh`).
    pub struct ChunkResult, size 32 {
        /// Bytes of the payload.
        pub n_bytes: u64,
        /// Sums of the payload checksum, before mixing.
        pub sum_a: u64,
        /// The second of them.
        pub sum_b: u64,
        /// 0 ok, 1 corrupt, 2 truncated.
        pub status: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

impl ChunkResult {
    /// Bytes of [`ChunkResult`] in device memory.
    pub const BYTES: u64 = size_of::<Self>() as u64;

    /// Bytes and sums of the payload.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` if the kernel found the payload so.
    pub fn checked(&self) -> Result<(u64, Sums)> {
        match self.status {
            0 => Ok((self.n_bytes, Sums::from_parts(self.sum_a, self.sum_b, self.n_bytes))),
            1 => Err(Error::corrupt("the data is damaged: its blocks contradict each other")),
            2 => Err(Error::new(ErrorKind::Truncated, "the data ends early")),
            other => {
                Err(Error::new(ErrorKind::Internal, format!("defect in gridz, please report it: status {other}")))
            }
        }
    }
}

/// A codec's kernels. Everything is given to the stream and runs behind the call; all slices must live
/// until that is done.
pub trait GpuCodec: Sync {
    /// Encodes the little-endian array `src` into `dst`, which has at least the planned bound rounded up
    /// to 16 bytes, and tells about it in `result`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    fn encode(
        &self,
        job: &Job,
        stream: &Stream,
        src: DeviceSlice,
        dst: DeviceSlice,
        result: DeviceSlice,
    ) -> Result<()>;

    /// Decodes the payload in `src`, which is readable up to a multiple of 16 bytes, into all of `dst`, and
    /// tells about it in `result`. `src` may be anything: it is checked before it is used.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`; `Corrupt` for a job the codec cannot have written.
    fn decode(
        &self,
        job: &Job,
        stream: &Stream,
        src: DeviceSlice,
        dst: DeviceSlice,
        result: DeviceSlice,
    ) -> Result<()>;
}
