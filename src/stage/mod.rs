//! What several codecs are made of. A stage knows no codec and no frame.
//!
//! Elements become words (`element`, `word`); the words of a block are rows of 32 (`blocks`, `rows`); differences along its
//! axes are small numbers (`predict`), which are packed with as many bits as they need (`pack`, `bits`) or get codes
//! (`entropy`). [`sums`] are those of the checksum of what is written.

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
