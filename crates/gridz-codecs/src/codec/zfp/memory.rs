//! Memory that is cached per thread, so that calls for small chunks allocate nothing.

use crate::codec::zfp::exceptions::Found;
use crate::codec::zfp::index::Index;
use crate::cpu::thread_cache::{Cacheable, bytes_of};

/// Maximum number of bytes of each kind that a thread caches.
const KEPT_BYTES: usize = 2 << 20;

/// Encoded sections.
#[derive(Default)]
pub struct Work {
    /// Their blocks from bit 0 on, in a buffer that may be longer.
    pub stream: Vec<u8>,
    /// Number of their bits.
    pub n_bits: usize,
    /// Their part of the data after the stream.
    pub index: Index,
    /// The exceptions of the section that is being encoded.
    pub found: Found,
}

impl Cacheable for Index {
    const MOST_BYTES: usize = KEPT_BYTES;

    fn n_bytes(&self) -> usize {
        Index::n_bytes(self)
    }
}

impl Cacheable for Work {
    const MOST_BYTES: usize = KEPT_BYTES;

    fn n_bytes(&self) -> usize {
        bytes_of(&self.stream) + Index::n_bytes(&self.index)
    }
}
