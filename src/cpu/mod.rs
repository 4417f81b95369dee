//! What the CPU offers: worker threads.

pub mod ordered;
pub mod pool;
