//! Whole datasets: many chunks at once between an array in memory and a place where chunks are kept.
//!
//! ```text
//! write   array -> gather boxes -> chunks -> encode -> encoded bytes -> store
//! read    store -> encoded bytes -> decode -> chunks -> scatter boxes -> array
//! ```
//!
//! A [`Selection`] knows which chunks it touches and what of each, a [`Placement`] where its elements are in memory. A
//! [`ChunkStore`] keeps the encoded bytes, and a [`ChunkCoder`] makes them of a chunk and back. A [`Transfer`] puts these
//! together: what asks the store for something runs on the calling thread, in the order of the chunks, and what
//! works on a chunk runs on all threads (`pipeline`). The encoded bytes of a chunk depend on nothing but the chunk.
//!
//! A [`PartReader`] is a coder that reads less than there is, for which a coarser [`Grid`] of a dataset is a dataset of its own.

mod buffer;
mod grid;
mod pipeline;
mod placement;
mod progressive;
mod selection;
mod store;
mod transfer;

pub use buffer::{Buffer, FrameBuffer};
pub use grid::{Grid, n_levels};
pub use gridz_codecs::cpu::shared::SharedBytes;
pub use placement::Placement;
pub use progressive::{FrameCoder, PartReader, Place, ReadAt, Tally};
pub use selection::{Covers, Part, Selection};
pub use store::{ChunkCoder, ChunkStore, Encoded};
pub use transfer::{Progress, Transfer, cancelled};
