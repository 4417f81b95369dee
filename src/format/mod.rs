#![doc = include_str!("SPEC.md")]

pub use gridz_codecs::format::*;
