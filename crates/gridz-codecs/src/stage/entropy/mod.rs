//! Entropy coding: frequent symbols get short codes.
//!
//! Numbers become symbols, plus the bits that a symbol does not determine ([`symbols`]). Symbols
//! get canonical Huffman codes ([`huffman`]), which form the bit strings of 32 lanes ([`lanes`]).
//! [`section`] combines these for the numbers of a block.
//!
//! Where a symbol is worth less than a bit, or has several distributions, rANS ([`rans`]) is used
//! with tables of [`frequencies`]. Similar contexts share a table ([`tables`]). [`steps`] codes
//! numbers this way, [`contexts`] the numbers of a block.
//!
//! A range coder ([`range`]) codes bits and symbols with adaptive probabilities ([`model`],
//! [`symbol`]).

pub mod contexts;
pub mod frequencies;
pub mod huffman;
pub mod lanes;
pub mod log;
pub mod model;
pub mod range;
pub mod rans;
pub mod section;
#[cfg(target_arch = "x86_64")]
pub(in crate::stage) mod simd;
pub mod steps;
pub mod symbol;
pub mod symbols;
pub mod tables;
