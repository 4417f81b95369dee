//! Chunks written by third-party HDF5 filters that a codec can decode.

use crate::context::Context;
use gridz_codecs::codec::foreign::{Described, Foreign};
use gridz_codecs::codec::registry;
use gridz_codecs::error::{Error, Result};

/// Description of a dataset's chunks by the `cd_values` of a third-party filter.
#[derive(Clone)]
pub struct ForeignChunks {
    filter: &'static dyn Foreign,
    described: Described,
}

impl ForeignChunks {
    /// Finds the codec for a filter and interprets its `cd_values`. `None` if no codec knows the
    /// filter.
    ///
    /// # Errors
    /// The reason why chunks with these `cd_values` cannot be decoded.
    pub fn new(filter_id: i32, cd_values: &[u32]) -> Option<Result<Self>> {
        let filter =
            registry::CODECS.iter().filter_map(|entry| entry.foreign).find(|f| f.filter_id() == filter_id)?;
        Some(filter.describe(cd_values).map(|described| Self { filter, described }))
    }

    /// Number of bytes of a decoded chunk.
    pub fn n_bytes(&self) -> u64 {
        self.described.n_bytes
    }

    /// Most bytes of an encoded chunk.
    pub fn bound(&self) -> u64 {
        self.described.bound
    }

    /// Decodes a chunk into `dst`.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, also if `dst` does not have the length of a chunk.
    pub fn decode(&self, stored: &[u8], dst: &mut [u8], context: &Context) -> Result<()> {
        let Described { n_bytes, ref layout, .. } = self.described;
        if dst.len() as u64 != n_bytes {
            return Err(Error::corrupt(format!("the chunk has {n_bytes} bytes, its destination {}", dst.len())));
        }
        self.filter.decode(layout, context.level()?, stored, dst)
    }
}
