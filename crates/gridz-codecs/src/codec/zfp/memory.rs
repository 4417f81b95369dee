//! Memory that threads keep between calls, so that calls for small chunks allocate nothing.

use crate::codec::zfp::exceptions::Found;
use crate::codec::zfp::index::Index;
use crate::cpu::kept::{Keep, bytes_of};

/// Bytes that a thread keeps of each kind, at most.
const KEPT_BYTES: usize = 2 << 20;

/// Some sections that are encoded.
#[derive(Default)]
pub struct Work {
    /// Their blocks from bit 0 on, in a buffer that may be longer.
    pub stream: Vec<u8>,
    /// Bits of them.
    pub n_bits: usize,
    /// What is to be behind the stream of a payload.
    pub index: Index,
    /// The exceptions of the section that is being encoded.
    pub found: Found,
}

impl Keep for Index {
    const MOST_BYTES: usize = KEPT_BYTES;

    fn n_bytes(&self) -> usize {
        Index::n_bytes(self)
    }
}

impl Keep for Work {
    const MOST_BYTES: usize = KEPT_BYTES;

    fn n_bytes(&self) -> usize {
        bytes_of(&self.stream) + Index::n_bytes(&self.index)
    }
}
