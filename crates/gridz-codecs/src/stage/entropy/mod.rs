//! Entropy coding: what comes often is short.
//!
//! Numbers become symbols, with the bits that these do not tell ([`symbols`]); symbols have canonical Huffman codes
//! ([`huffman`]), and these are the strings of 32 lanes ([`lanes`]). [`section`] is all of it, for the numbers of a block.
//! Where a symbol is worth less than a bit, or has several distributions, there is rANS ([`rans`]) with tables of
//! [`frequencies`], which contexts share where they are alike ([`tables`]): of numbers in [`steps`], and of those of a block in [`contexts`]. Single bits whose likelihoods are learnt
//! on the way go to a range coder ([`range`], [`model`]).

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
mod simd;
pub mod steps;
pub mod symbol;
pub mod symbols;
pub mod tables;
