//! What the CPU offers: worker threads.

pub mod pool;
