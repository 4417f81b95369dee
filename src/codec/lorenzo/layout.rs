//! Where everything is: blocks in the array, blocks in the payload.
//!
//! Blocks have up to 2^b elements. The payload begins with a table of their ends, so that each can be found, and checked,
//! alone.
//!
//! ```text
//! table: u32 end in 16 bytes, u32 check of each block | zeros to 16 bytes | blocks
//! ```

use crate::codec::counts;
use crate::stage::blocks::Blocks;
use crate::types::Shape;

/// Blocks begin at multiples of this in the payload; also the bytes of a block's header.
pub const UNIT: usize = 16;
/// Bytes of a table entry.
pub const ENTRY: usize = 8;
/// Parameters b that the format knows.
pub const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=14;

/// Geometry of one folded array: its blocks, and the bytes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The blocks.
    pub blocks: Blocks,
    element_bytes: usize,
}

impl Layout {
    /// The layout of an array of rank 1 to 3 for the parameter b. `None` if there are no elements, b is unknown, or a
    /// payload could pass what the table can tell.
    pub fn new(shape: &Shape, element_bytes: usize, b: u8) -> Option<Self> {
        counts::a_layout();
        if !LOG2_SIZES.contains(&b) {
            return None;
        }
        let layout = Self { blocks: Blocks::new(shape, 1 << b)?, element_bytes };
        let units = layout.payload_bound() / UNIT as u64;
        u32::try_from(units).ok()?;
        Some(layout)
    }

    /// Bytes of the table with its zeros.
    pub fn table_bytes(&self) -> usize {
        (self.blocks.n_blocks() * ENTRY).next_multiple_of(UNIT)
    }

    /// Most bytes of a block with `n` elements: those of RAW.
    pub fn block_bound(&self, n: usize) -> usize {
        UNIT + (n * self.element_bytes).next_multiple_of(UNIT)
    }

    /// Most bytes of a payload: that of RAW blocks.
    pub fn payload_bound(&self) -> u64 {
        let mut bytes = self.table_bytes() as u64;
        for (n_blocks, [sz, sy, sx]) in self.blocks.kinds() {
            bytes += n_blocks as u64 * self.block_bound(sz * sy * sx) as u64;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_has_no_layout() {
        let new = |n: u64, b| Layout::new(&Shape::new(&[n]).unwrap(), 8, b);
        assert!(new(0, 12).is_none() && new(5, 11).is_none() && new(5, 15).is_none());
        assert!(new(1 << 33, 12).is_none() && new(1 << 32, 12).is_some());
    }
}
