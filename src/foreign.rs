//! Chunks that HDF5 filters of others have written, where a codec can decode them.

use crate::context::Context;
use gridz_codecs::codec::foreign::{Described, Foreign};
use gridz_codecs::codec::registry;
use gridz_codecs::error::{Error, Result};

/// What a filter's cd_values say of the chunks of a dataset.
#[derive(Clone)]
pub struct ForeignChunks {
    filter: &'static dyn Foreign,
    described: Described,
}

impl ForeignChunks {
    /// `None`: no codec knows the filter.
    ///
    /// # Errors
    /// Why chunks cannot be decoded that have these cd_values.
    pub fn new(filter_id: i32, cd_values: &[u32]) -> Option<Result<Self>> {
        let filter =
            registry::CODECS.iter().filter_map(|entry| entry.foreign).find(|f| f.filter_id() == filter_id)?;
        Some(filter.describe(cd_values).map(|described| Self { filter, described }))
    }

    /// Bytes of a chunk that is decoded.
    pub fn n_bytes(&self) -> u64 {
        self.described.n_bytes
    }

    /// Most bytes that the filter makes of them.
    pub fn bound(&self) -> u64 {
        self.described.bound
    }

    /// Decodes a chunk into `dst`.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, also if `dst` has not the bytes of a chunk.
    pub fn decode(&self, stored: &[u8], dst: &mut [u8], context: &Context) -> Result<()> {
        let Described { n_bytes, ref layout, .. } = self.described;
        if dst.len() as u64 != n_bytes {
            return Err(Error::corrupt(format!("a chunk of {n_bytes} bytes in place of one of {}", dst.len())));
        }
        self.filter.decode(layout, context.level()?, stored, dst)
    }
}
