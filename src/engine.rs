//! One chunk: frame, codec, back end, fallback. The only place where they are put together.
//!
//! This file is what others see. Inside, each uses only those before it: `frame`, `memory`, `backend`
//! know one thing each; [`Prepared`] is all that is known before the data; `context` is what a caller brings along;
//! `cpu` and `gpu` do the work (`form`, `launch` and `ferry` for the latter), and `chunk`, `region`, `progressive` and `batch` are
//! the calls. `chunks` does a `list` of many at once, `by_threads` or `by_lanes`: on GPUs by `lanes`, of which `traffic` keeps the
//! order; `packing`, `pace` and `boxes` help. `log` tells of all that.

mod backend;
mod batch;
mod boxes;
mod by_lanes;
mod by_threads;
mod chunk;
mod chunks;
mod context;
mod cpu;
pub mod device;
mod ferry;
mod foreign;
mod form;
mod frame;
mod gpu;
mod lanes;
mod launch;
mod list;
mod log;
mod memory;
mod pace;
mod packing;
mod prepared;
mod progressive;
mod region;
mod traffic;

pub use crate::codec::fill::Fill;
pub use crate::codec::missing::{MAX_FILLS, MAX_MISSING_WORDS, Missing, MissingElements};
pub use crate::codec::mode::Mode;
pub use crate::codec::registry::STORED;
pub use crate::codec::request::Request;
pub use crate::codec::terms::MAX_EXTRAS;
pub use crate::codec::{BlockCounts, Detail, Promise};
pub use crate::engine::chunk::{compress, compress_bound, count_blocks, decompress, store};
pub use crate::engine::context::{Context, check_backend, check_environment, release_caches};
pub use crate::engine::foreign::ForeignChunks;
pub use crate::engine::frame::{FrameInfo, Verify, array_bytes, inspect, stored_bytes};
pub use crate::engine::prepared::Prepared;
pub use crate::engine::progressive::{PartInfo, decompress_progressive, inspect_progressive};
pub use crate::engine::region::decompress_region;
