//! The data after the stream of a payload: an index of the groups of blocks in it, and the
//! exceptions.

use crate::codec::zfp::exceptions::{ALIGNMENT, reserve};
use crate::codec::zfp::layout::{GROUPS_PER_SECTION, Layout, Parts, Tail};
use crate::error::Result;

/// The index and the exceptions.
#[derive(Default)]
pub struct Index {
    /// Bits of each section; written as their ends.
    pub sections: Vec<u64>,
    /// Bits of each group.
    pub groups: Vec<u16>,
    /// Units of 4 bytes of each section's exceptions; written as their ends.
    pub units: Vec<u32>,
    /// The exceptions of all sections.
    pub exceptions: Vec<u8>,
    /// Number of elements that are exceptions.
    pub n_exceptions: u64,
}

impl Index {
    /// Removes all entries and retains the memory.
    pub fn clear(&mut self) {
        self.sections.clear();
        self.groups.clear();
        self.units.clear();
        self.exceptions.clear();
        self.n_exceptions = 0;
    }

    /// Reserves memory for `n_sections` sections, without their exceptions.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn reserve(&mut self, n_sections: usize) -> Result<()> {
        reserve(&mut self.sections, n_sections)?;
        reserve(&mut self.groups, n_sections * GROUPS_PER_SECTION)?;
        reserve(&mut self.units, n_sections)
    }

    /// Appends the index of the next sections.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn append(&mut self, next: &Self) -> Result<()> {
        self.reserve(next.sections.len())?;
        reserve(&mut self.exceptions, next.exceptions.len())?;
        self.sections.extend_from_slice(&next.sections);
        self.groups.extend_from_slice(&next.groups);
        self.units.extend_from_slice(&next.units);
        self.exceptions.extend_from_slice(&next.exceptions);
        self.n_exceptions += next.n_exceptions;
        Ok(())
    }

    /// Bytes that this memory occupies.
    pub fn n_bytes(&self) -> usize {
        let ends = 8 * self.sections.capacity() + 4 * self.units.capacity();
        ends + 2 * self.groups.capacity() + self.exceptions.capacity()
    }

    /// Writes the index and the tail after a stream of `n_bits` bits. Returns the bytes of the
    /// payload, or `None` if they do not fit or the exceptions exceed a 32-bit count.
    pub fn write(
        &self,
        layout: &Layout,
        is_fixed: bool,
        n_bits: u64,
        bound: Option<f64>,
        dst: &mut [u8],
    ) -> Option<usize> {
        let n_units = u32::try_from(self.exceptions.len() / ALIGNMENT).ok()?;
        let parts = layout.parts(is_fixed, n_bits, n_units);
        let payload = dst.get_mut(..usize::try_from(parts.n_bytes()).ok()?)?;
        let mut write = |from: u64, to: u64, bytes: &mut dyn Iterator<Item = u8>| {
            for out in &mut payload[from as usize..to as usize] {
                *out = bytes.next().unwrap_or(0);
            }
        };
        let Parts { stream, groups, exception_ends, exceptions, tail } = parts;
        write(stream, groups, &mut ends(&self.sections).flat_map(u64::to_le_bytes));
        write(groups, exception_ends, &mut self.groups.iter().flat_map(|bits| bits.to_le_bytes()));
        write(exception_ends, exceptions, &mut ends(&self.units).flat_map(u32::to_le_bytes));
        payload[exceptions as usize..tail as usize].fill(0);
        payload[exceptions as usize..][..self.exceptions.len()].copy_from_slice(&self.exceptions);
        let (bound, n_exceptions) = (bound.unwrap_or(0.0), u32::try_from(self.n_exceptions).unwrap_or(u32::MAX));
        payload[tail as usize..].copy_from_slice(&Tail { n_bits, bound, n_exceptions, n_units }.to_bytes());
        Some(payload.len())
    }
}

/// The end of each length in a sequence of lengths.
fn ends<N: Copy + Default + std::ops::Add<Output = N>>(lengths: &[N]) -> impl Iterator<Item = N> {
    lengths.iter().scan(N::default(), |end, &length| {
        *end = *end + length;
        Some(*end)
    })
}
