//! Everything that is on disk: the frame around a chunk, its checksums, and the folding of extents
//! and regions.
#![doc = include_str!("SPEC.md")]

#[doc(hidden)]
pub mod checksum;
#[doc(hidden)]
pub mod fold;
#[doc(hidden)]
pub mod header;
#[doc(hidden)]
pub mod region;
