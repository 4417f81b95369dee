//! Adaptive entropy coding of single bits: a binary range coder, and models.
//!
//! What is coded is written once, for both directions: a [`range::Coder`] is given each bit and answers it, and the one that
//! decodes does not look at what it is given.

pub mod model;
pub mod range;
