//! HDF5 filters of others, whose chunks a codec can decode without them.

use crate::codec::Kept;
use crate::cpu::level::Level;
use crate::error::Result;

/// What the cd_values of a filter say of the chunks of a dataset.
#[derive(Debug, Clone, Copy)]
pub struct Described {
    /// Bytes of the elements of a chunk, which are little-endian.
    pub n_bytes: u64,
    /// Most bytes that the filter makes of them.
    pub bound: u64,
    /// The codec's layout.
    pub layout: Kept,
}

/// A filter of others.
pub trait Foreign: Sync {
    /// Its number in HDF5.
    fn filter_id(&self) -> i32;

    /// What its cd_values, as they are in a file, say.
    ///
    /// # Errors
    /// `Corrupt` or `UnsupportedFormat`.
    fn describe(&self, cd_values: &[u32]) -> Result<Described>;

    /// Decodes a chunk into `dst`, which has exactly the bytes of the array.
    ///
    /// # Errors
    /// `Truncated` if the chunk is too short.
    fn decode(&self, layout: &Kept, level: Level, stored: &[u8], dst: &mut [u8]) -> Result<()>;
}
