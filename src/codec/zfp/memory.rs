//! Memory that threads keep between calls, so that calls for small chunks allocate nothing.

use std::cell::Cell;
use std::thread::LocalKey;

use crate::codec::zfp::exceptions::Found;
use crate::codec::zfp::index::Index;

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

/// Memory that the thread keeps.
pub trait Kept: Default + 'static {
    /// Bytes of it.
    fn n_bytes(&self) -> usize;
}

impl Kept for Index {
    fn n_bytes(&self) -> usize {
        self.n_bytes()
    }
}

impl Kept for Work {
    fn n_bytes(&self) -> usize {
        self.stream.capacity() + self.index.n_bytes()
    }
}

thread_local! {
    /// Memory for the index of a payload.
    pub static INDEX: Cell<Index> = Cell::default();
    /// Memory for a piece of it.
    pub static WORK: Cell<Work> = Cell::default();
}

/// What was kept, with anything in it, until it is kept again.
pub struct Memory<K: Kept> {
    memory: K,
    kept: &'static LocalKey<Cell<K>>,
}

impl<K: Kept> Memory<K> {
    /// That of this thread.
    pub fn of(kept: &'static LocalKey<Cell<K>>) -> Self {
        // At the end of a thread there may be nothing kept any more.
        Self { memory: kept.try_with(Cell::take).unwrap_or_default(), kept }
    }
}

impl<K: Kept> std::ops::Deref for Memory<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.memory
    }
}

impl<K: Kept> std::ops::DerefMut for Memory<K> {
    fn deref_mut(&mut self) -> &mut K {
        &mut self.memory
    }
}

impl<K: Kept> Drop for Memory<K> {
    fn drop(&mut self) {
        if self.memory.n_bytes() <= KEPT_BYTES {
            let _ = self.kept.try_with(|kept| kept.set(std::mem::take(&mut self.memory)));
        }
    }
}
