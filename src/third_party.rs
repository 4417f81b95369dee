//! Chunks written by third-party HDF5 filters that a codec can decode.

use crate::context::Context;
use gridz_codecs::codec::registry;
use gridz_codecs::codec::third_party::{FilterParams, ThirdPartyFilter};
use gridz_codecs::error::{Error, Result};

/// The chunks of a dataset, as a third-party filter's cd_values describe them.
#[derive(Clone)]
pub struct ThirdPartyChunks {
    filter: &'static dyn ThirdPartyFilter,
    params: FilterParams,
}

impl ThirdPartyChunks {
    /// `None` if no codec knows the filter.
    ///
    /// # Errors
    /// The reason why chunks with these cd_values cannot be decoded.
    pub fn new(filter_id: i32, cd_values: &[u32]) -> Option<Result<Self>> {
        let filter =
            registry::CODECS.iter().filter_map(|entry| entry.third_party).find(|f| f.filter_id() == filter_id)?;
        Some(filter.params(cd_values).map(|params| Self { filter, params }))
    }

    /// Bytes of a decoded chunk.
    pub fn n_bytes(&self) -> u64 {
        self.params.n_bytes
    }

    /// Maximum size in bytes of an encoded chunk.
    pub fn bound(&self) -> u64 {
        self.params.bound
    }

    /// Decodes a chunk into `dst`.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, also if `dst` does not have the size of a chunk.
    pub fn decode(&self, stored: &[u8], dst: &mut [u8], context: &Context) -> Result<()> {
        let FilterParams { n_bytes, ref layout, .. } = self.params;
        if dst.len() as u64 != n_bytes {
            return Err(Error::corrupt(format!("a chunk has {n_bytes} bytes instead of {}", dst.len())));
        }
        self.filter.decode(layout, context.level()?, stored, dst)
    }
}
