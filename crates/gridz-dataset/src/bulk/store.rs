//! Where chunks are kept, and how they are encoded.

use crate::bulk::buffer::Buffer;
use gridz::Context;
use gridz::device::{DeviceSlice, Source};
use gridz_codecs::error::Result;

/// What a store has of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// How many bytes.
    pub n_bytes: usize,
    /// What the coder left out when they were made; 0: nothing.
    pub mask: u32,
}

/// A place where the encoded bytes of chunks are kept. It is asked by one thread at a time, the one that began the
/// transfer.
pub trait ChunkStore {
    /// Reads the encoded bytes of the chunk whose first element is `chunk` to the start of `bytes`, or of a longer buffer in
    /// place of that where they do not fit. `None`: it was never written.
    ///
    /// # Errors
    /// What keeps it from reading.
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Encoded>>;

    /// Keeps `bytes`, which were made with all that the coder does (mask 0), in place of what was there.
    ///
    /// # Errors
    /// What keeps it from writing.
    fn write(&mut self, chunk: &[u64], bytes: &[u8]) -> Result<()>;
}

/// How the elements of a chunk become encoded bytes, and back.
pub trait ChunkCoder: Sync {
    /// Most encoded bytes of a chunk while they are being made.
    fn bound(&self) -> usize;

    /// Makes the encoded bytes of `chunk` at the start of `encoded`, which has the bound, and returns how many they are.
    ///
    /// # Errors
    /// Those of the engine.
    fn encode(&self, chunk: Source, encoded: &mut [u8], context: &Context) -> Result<usize>;

    /// Makes all of `chunk` from its encoded bytes, with the mask that belongs to them.
    ///
    /// # Errors
    /// Those of the engine.
    fn decode(&self, mask: u32, encoded: &[u8], chunk: &mut [u8], context: &Context) -> Result<()>;

    /// The same in the memory of a GPU. False: it has to be [`decode`](Self::decode), in the host's.
    ///
    /// # Errors
    /// As that.
    fn decode_on_device(
        &self,
        _mask: u32,
        _encoded: &[u8],
        _chunk: DeviceSlice,
        _context: &Context,
    ) -> Result<bool> {
        Ok(false)
    }
}
