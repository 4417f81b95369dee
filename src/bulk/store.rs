//! Where chunks are kept, and in what form.

use crate::bulk::buffer::Buffer;
use crate::engine::Context;
use crate::error::Result;

/// What a store has of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// How many bytes.
    pub n_bytes: usize,
    /// What the form left out when they were made; 0: nothing.
    pub mask: u32,
}

/// A place where the stored bytes of chunks are kept. It is asked by one thread at a time, the one that began the
/// transfer.
pub trait ChunkStore {
    /// Reads the stored bytes of the chunk whose first element is `chunk` to the start of `bytes`, or of a longer buffer in
    /// place of that where they do not fit. `None`: it was never written.
    ///
    /// # Errors
    /// What keeps it from reading.
    fn read(&mut self, chunk: &[u64], bytes: &mut Buffer) -> Result<Option<Stored>>;

    /// Keeps `bytes`, which were made with all that the form does (mask 0), in place of what was there.
    ///
    /// # Errors
    /// What keeps it from writing.
    fn write(&mut self, chunk: &[u64], bytes: &[u8]) -> Result<()>;
}

/// How the elements of a chunk become stored bytes, and back.
pub trait ChunkForm: Sync {
    /// Most stored bytes of a chunk while they are being made.
    fn bound(&self) -> usize;

    /// Makes the stored bytes of `chunk` at the start of `stored`, which has the bound, and returns how many they are.
    ///
    /// # Errors
    /// Those of the engine.
    fn encode(&self, chunk: &[u8], stored: &mut [u8], context: &Context) -> Result<usize>;

    /// Makes all of `chunk` from its stored bytes, with the mask that belongs to them.
    ///
    /// # Errors
    /// Those of the engine.
    fn decode(&self, mask: u32, stored: &[u8], chunk: &mut [u8], context: &Context) -> Result<()>;
}
