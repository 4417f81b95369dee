//! Building blocks of codecs. A stage depends on no codec and no frame.
//!
//! Elements become words (`element`, `word`); the words of a block form rows of 32 (`blocks`,
//! `rows`). Differences along its axes are small numbers (`predict`). These are packed with as many
//! bits as they need (`pack`, `bits`), or entropy-coded (`entropy`). [`hasher`] computes the sums for
//! the checksum of the output.

pub mod bitmap;
pub mod bits;
pub mod blocks;
pub mod byte_groups;
pub mod element;
pub mod entropy;
pub mod exceptions;
pub mod hasher;
pub mod missing;
pub mod pack;
pub mod predict;
pub mod quantize;
pub mod radix;
pub mod range;
pub mod rows;
pub mod samples;
pub mod sparse;
pub mod word;
