//! The codec `zfp`.

pub mod block;
pub mod numbers;
