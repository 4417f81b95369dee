//! Everything that is on disk: the frame around a chunk, its checksums, and how extents fold.
#![doc = include_str!("SPEC.md")]

pub mod checksum;
pub mod fold;
pub mod header;
