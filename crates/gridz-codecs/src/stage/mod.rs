//! What several codecs are made of. A stage knows no codec and no frame.
//!
//! Elements become words (`element`, `word`); the words of a block are rows of 32 (`blocks`, `rows`); differences along its
//! axes are small numbers (`predict`), which are packed with as many bits as they need (`pack`, `bits`) or get codes
//! (`entropy`). [`sums`] are those of the checksum of what is written.

pub mod bits;
pub mod blocks;
pub mod element;
pub mod entropy;
pub mod exceptions;
pub mod marks;
pub mod missing;
pub mod octets;
pub mod pack;
pub mod predict;
pub mod quantise;
pub mod range;
pub mod rows;
pub mod samples;
pub mod sparse;
pub mod sums;
pub mod word;
