//! Products by vector instructions, for x86-64.
#![allow(unsafe_code, reason = "vector instructions, and the loads between them")]

pub mod avx512;
mod lanes;

pub use avx512::load_codes;
pub use lanes::Lanes;
