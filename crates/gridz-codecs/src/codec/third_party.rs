//! Third-party HDF5 filters whose chunks a codec can decode without the filter itself.

use crate::codec::CodecState;
use crate::cpu::isa::Isa;
use crate::error::Result;

/// The chunk geometry that a filter's cd_values describe.
#[derive(Debug, Clone, Copy)]
pub struct FilterParams {
    /// Bytes of a chunk's elements, which are little-endian.
    pub n_bytes: u64,
    /// Maximum size in bytes of an encoded chunk.
    pub bound: u64,
    /// The codec's layout.
    pub layout: CodecState,
}

/// A third-party filter.
pub trait ThirdPartyFilter: Sync {
    /// Its HDF5 filter number.
    fn filter_id(&self) -> i32;

    /// Interprets cd_values as stored in a file.
    ///
    /// # Errors
    /// `Corrupt` or `UnsupportedFormat`.
    fn params(&self, cd_values: &[u32]) -> Result<FilterParams>;

    /// Decodes a chunk into `dst`, which has exactly the bytes of the array.
    ///
    /// # Errors
    /// `Truncated` if the chunk is too short.
    fn decode(&self, layout: &CodecState, level: Isa, stored: &[u8], dst: &mut [u8]) -> Result<()>;
}
