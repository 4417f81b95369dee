//! What the CPU offers: its instructions and worker threads.

pub mod copy;
pub mod float;
pub mod kept;
pub mod level;
pub mod ordered;
pub mod pages;
pub mod pool;
pub mod shared;
