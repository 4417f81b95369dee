//! Memory for a frame, aligned to 64 bytes.

use crate::frame::UNIT;
use gridz_codecs::cpu::pages::{HUGE_FROM, ask_for_huge};
use gridz_codecs::error::{Result, try_vec};

/// The memory of a frame; it starts at a multiple of 64 bytes.
#[derive(Debug)]
pub struct Bytes {
    memory: Vec<u8>,
    start: usize,
    n: usize,
}

impl Bytes {
    /// Allocates `n` zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeroed(n: usize) -> Result<Self> {
        let room = n.saturating_add(UNIT);
        let mut memory: Vec<u8> = try_vec(room, "a sparse matrix")?;
        if room >= HUGE_FROM {
            ask_for_huge(memory.spare_capacity_mut());
        }
        memory.resize(room, 0);
        let start = memory.as_ptr().align_offset(UNIT).min(UNIT);
        Ok(Self { memory, start, n })
    }

    #[inline(always)]
    pub fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.n]
    }

    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.n]
    }
}
