//! Building blocks of codecs. A stage depends on no codec and no frame.
//!
//! Elements become words (`element`, `word`); the words of a block form rows of 32 (`blocks`,
//! `rows`). Differences along its axes are small numbers (`predict`). These are packed with as many
//! bits as they need (`pack`, `bits`), or entropy-coded (`entropy`). [`sums`] computes the sums for
//! the checksum of the output.

pub(crate) mod bits;
pub(crate) mod blocks;
pub(crate) mod element;
pub(crate) mod entropy;
pub(crate) mod exceptions;
pub(crate) mod marks;
pub(crate) mod missing;
pub(crate) mod octets;
pub(crate) mod pack;
pub(crate) mod predict;
pub(crate) mod quantise;
pub(crate) mod range;
pub(crate) mod rows;
pub(crate) mod samples;
pub(crate) mod sparse;
pub mod sums;
pub(crate) mod word;
