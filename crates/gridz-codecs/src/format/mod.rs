//! Everything that is on disk: the frame around a chunk, its checksums, and the folding of extents
//! and regions.

pub mod checksum;
pub mod fold;
pub mod header;
pub mod region;
