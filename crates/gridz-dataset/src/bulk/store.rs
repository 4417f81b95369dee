//! Interfaces of the storage of chunks and of their encoding.

use crate::bulk::buffer::Buffer;
use crate::bulk::progressive::ReadAt;
use gridz::device::DeviceSlice;
use gridz::{Context, Prepared, Source, Verify};
use gridz_codecs::error::Result;

/// Description of the encoded bytes of a chunk in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Number of bytes.
    pub n_bytes: usize,
    /// Mask of the coding steps that were left out. 0 = none.
    pub mask: u32,
}

/// Storage for the encoded bytes of chunks. Only the thread that began the transfer calls it.
pub trait ChunkStore {
    /// Reads the encoded bytes of the chunk with the first element `chunk` to the start of `bytes`,
    /// which is replaced if it is too short. `None` if the chunk was never written.
    ///
    /// # Errors
    /// The error that prevents reading.
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>>;

    /// Stores `bytes` in place of the old chunk. All coding steps were applied (mask 0).
    ///
    /// # Errors
    /// The error that prevents writing.
    fn write(&mut self, chunk: &[u64], bytes: &[u8]) -> Result<()>;
}

/// Converts chunks to encoded bytes and back.
pub trait ChunkCoder: Sync {
    /// Maximum number of bytes that `encode` may write, intermediate results included.
    fn bound(&self) -> usize;

    /// Encodes `chunk` to the start of `encoded`, which has [`bound`](Self::bound) bytes. Returns
    /// the number of encoded bytes.
    ///
    /// # Errors
    /// Those of the engine.
    fn encode(&self, chunk: Source, encoded: &mut [u8], context: &Context) -> Result<usize>;

    /// Decodes all of `chunk` from its encoded bytes and the mask that belongs to them.
    ///
    /// # Errors
    /// Those of the engine.
    fn decode(&self, mask: u32, encoded: &[u8], chunk: &mut [u8], context: &Context) -> Result<()>;

    /// Decodes to GPU memory. Returns false if the caller must use [`decode`](Self::decode) to host
    /// memory instead.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    fn decode_on_device(
        &self,
        _mask: u32,
        _encoded: &[u8],
        _chunk: DeviceSlice,
        _context: &Context,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The plan of the frames that `encode` writes, if it writes exactly one frame for each chunk.
    /// Chunks whose mask is not 0 must be decoded by `decode`.
    fn frames(&self) -> Option<Frames<'_>> {
        None
    }
}

/// Chunks that are encoded as frames.
#[derive(Clone, Copy)]
pub struct Frames<'a> {
    pub prepared: &'a Prepared,
    /// Whether checksums are verified.
    pub verify: Verify,
    /// The file from which frames are read. `None` if the store returns their bytes.
    pub file: Option<&'a dyn ReadAt>,
}
