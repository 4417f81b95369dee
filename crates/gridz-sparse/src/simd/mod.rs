//! Products with vector instructions, for x86-64.
#![allow(unsafe_code, reason = "vector instructions, and the loads between them")]

pub mod avx2;
pub mod avx512;
mod lanes;

pub use avx512::load_codes;

/// The vector operations of elements, for both levels.
pub trait Vectors: avx2::Fours + lanes::Lanes {}
impl<T: avx2::Fours + lanes::Lanes> Vectors for T {}
