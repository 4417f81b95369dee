//! Decodes the chunks of datasets with a third-party filter, without that filter. It never writes
//! them.

use super::api::PipelineEntry;
use crate::bulk::ChunkCoder;
use gridz::Source;
use gridz::{Context, ThirdPartyChunks};
use gridz_codecs::error::{Error, Result};

/// The third-party filter of a dataset, which must be its only one.
pub struct ThirdPartyCoder(ThirdPartyChunks);

impl ThirdPartyCoder {
    /// `None` if gridz cannot decode chunks of `chunk_bytes` from these filters.
    pub fn new(pipeline: &[PipelineEntry], chunk_bytes: u64) -> Option<Self> {
        let [filter] = pipeline else { return None };
        let values = filter.values.get(..filter.n_values)?;
        let chunks = ThirdPartyChunks::new(filter.id, values)?.ok()?;
        (chunks.n_bytes() == chunk_bytes).then_some(Self(chunks))
    }
}

impl ChunkCoder for ThirdPartyCoder {
    fn bound(&self) -> usize {
        self.0.bound() as usize
    }

    fn encode(&self, _chunk: Source, _encoded: &mut [u8], _context: &Context) -> Result<usize> {
        Err(Error::unsupported("gridz reads chunks of this filter but does not write them"))
    }

    fn decode(&self, mask: u32, stored: &[u8], chunk: &mut [u8], context: &Context) -> Result<()> {
        if mask & 1 == 0 {
            return self.0.decode(stored, chunk, context);
        }
        // The filter was left out for this chunk.
        if stored.len() != chunk.len() {
            let text = format!("a chunk has {} bytes instead of {}", stored.len(), chunk.len());
            return Err(Error::corrupt(text));
        }
        chunk.copy_from_slice(stored);
        Ok(())
    }
}
