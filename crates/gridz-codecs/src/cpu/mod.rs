//! The CPU's instructions, worker threads and memory.

pub mod copy;
pub mod float;
pub mod isa;
pub mod ordered;
pub mod pages;
pub mod pool;
pub mod shared;
pub mod thread_cache;
