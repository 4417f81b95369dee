//! Transfers of whole datasets: many chunks at once between an array in memory and a store of
//! chunks.
//!
//! ```text
//! write   array -> gather boxes -> chunks -> encode -> encoded bytes -> store
//! read    store -> encoded bytes -> decode -> chunks -> scatter boxes -> array
//! ```
//!
//! A [`Selection`] knows which chunks it touches and which elements of each; a [`Placement`] knows
//! their layout in memory. A [`ChunkStore`] stores encoded bytes, and a [`ChunkCoder`] encodes and
//! decodes chunks. A [`Transfer`] combines these. The calling thread accesses the store, in the
//! order of the chunks, and all threads encode and decode (`pipeline`). The encoded bytes of a
//! chunk depend on nothing but the chunk.
//!
//! A [`PartReader`] is a coder for progressive reads. To it, a coarser [`Grid`] of a dataset is a
//! dataset of its own.

mod buffer;
mod grid;
mod on_gpus;
mod pipeline;
mod placed;
mod placement;
mod progressive;
mod selection;
mod store;
mod transfer;

pub use buffer::{Buffer, FrameBuffer};
pub use grid::{Grid, n_levels};
pub use gridz_codecs::cpu::shared::SharedBytes;
pub use placed::PlacedCoder;
pub use placement::Placement;
pub use progressive::{FrameCoder, PartReader, Place, ReadAt, Tally};
pub use selection::{Covers, Part, Selection};
pub use store::{ChunkCoder, ChunkStore, Encoded, Frames};
pub use transfer::{Progress, Transfer, report};
