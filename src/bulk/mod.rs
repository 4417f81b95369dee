//! Whole datasets: many chunks at once between an array in memory and a place where chunks are kept.
//!
//! ```text
//! write   array -> gather boxes -> chunks -> encode -> stored bytes -> store
//! read    store -> stored bytes -> decode -> chunks -> scatter boxes -> array
//! ```
//!
//! [`Plan`] says which chunks a selection touches and what of each; [`Layout`] where their elements are in memory. A
//! [`ChunkStore`] keeps the stored bytes, and a [`ChunkForm`] makes them of a chunk and back. [`transfer`] puts these
//! together: what asks the store for something runs on the calling thread, in the order of the chunks, and what
//! works on a chunk runs on all threads (`pipeline`). The stored bytes of a chunk depend on nothing but the chunk.

mod layout;
mod pipeline;
mod plan;
mod shared;
mod store;
mod transfer;

pub use layout::Layout;
pub use plan::{Covers, Piece, Plan};
pub use shared::SharedBytes;
pub use store::{ChunkForm, ChunkStore, Stored};
pub use transfer::{Job, Progress};
