//! Reads of whole chunks from their places in a file, by all threads.

use crate::bulk::progressive::{Place, ReadAt};
use crate::bulk::store::{ChunkCoder, Frames};
use crate::bulk::transfer::Buffers;
use gridz::device::DeviceSlice;
use gridz::{Context, Source};
use gridz_codecs::error::{Error, Result};

/// Decodes chunks whose store returns their places in a file ([`Place::to_bytes`]) instead of their
/// bytes. The thread that decodes a chunk reads it first, so several threads read the file.
pub struct PlacedCoder<'a> {
    coder: &'a dyn ChunkCoder,
    file: &'a dyn ReadAt,
    buffers: Buffers,
}

impl<'a> PlacedCoder<'a> {
    /// Reads chunks from `file` and decodes them with `coder`.
    pub fn new(coder: &'a dyn ChunkCoder, file: &'a dyn ReadAt) -> Self {
        Self { coder, file, buffers: Buffers::default() }
    }

    /// Calls `decode` with the bytes of a chunk, given its place.
    fn with_bytes<R>(&self, place: &[u8], decode: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        let place = Place::from_bytes(place)?;
        let mut buffer = self.buffers.take(place.n_bytes as usize)?;
        let bytes = &mut buffer.bytes()[..place.n_bytes as usize];
        self.file.read_at(place.at, bytes)?;
        let result = decode(bytes)?;
        self.buffers.put(buffer);
        Ok(result)
    }
}

impl ChunkCoder for PlacedCoder<'_> {
    fn bound(&self) -> usize {
        self.coder.bound()
    }

    fn encode(&self, _chunk: Source, _encoded: &mut [u8], _context: &Context) -> Result<usize> {
        Err(Error::internal("chunks are not written at their old places"))
    }

    fn frames(&self) -> Option<Frames<'_>> {
        self.coder.frames().map(|frames| Frames { file: Some(self.file), ..frames })
    }

    fn decode(&self, mask: u32, place: &[u8], chunk: &mut [u8], context: &Context) -> Result<()> {
        self.with_bytes(place, |bytes| self.coder.decode(mask, bytes, chunk, context))
    }

    fn decode_on_device(&self, mask: u32, place: &[u8], chunk: DeviceSlice, context: &Context) -> Result<bool> {
        self.with_bytes(place, |bytes| self.coder.decode_on_device(mask, bytes, chunk, context))
    }
}
