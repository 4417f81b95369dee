//! The geometry of blocks: their places in the array and in the payload.
//!
//! Blocks have up to 2^b elements. A table of their ends precedes them, so that each can be found
//! and checked alone. If elements have two parts, each box of the array has two consecutive blocks.
//!
//! ```text
//! head | table: u32 end in units, u32 check of each block | zeros to a unit | blocks
//! ```

use crate::stage::blocks::Blocks;
use crate::stage::blocks::table::ENTRY;
use crate::types::Shape;

/// Properties common to all payloads of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Bytes in front of the table.
    pub head_bytes: usize,
    /// Blocks begin at multiples of this in the payload; a power of two.
    pub unit: usize,
    /// Maximum number of elements of a block's row, unless other axes leave their share to x; a
    /// power of two.
    pub row: usize,
    /// Maximum number of bytes of a block in addition to its raw elements.
    pub block_head: usize,
    /// Parts of an element; each part has its own blocks.
    pub parts: usize,
}

/// Geometry of one folded array: its blocks and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The boxes of the array.
    pub blocks: Blocks,
    part_bytes: usize,
    form: Form,
}

impl Layout {
    /// The layout of an array of rank 1 to 3, in blocks of up to 2^b parts of `part_bytes` each.
    /// `None` if there are no elements, or if the end of a payload could exceed the u32 in the
    /// table.
    pub fn new(shape: &Shape, part_bytes: usize, b: u8, form: Form) -> Option<Self> {
        let layout = Self { blocks: Blocks::new(shape, 1 << b, form.row)?, part_bytes, form };
        let units = layout.payload_bound() / form.unit as u64;
        u32::try_from(units).ok()?;
        Some(layout)
    }

    /// Blocks begin at multiples of this.
    #[inline(always)]
    pub fn unit(&self) -> usize {
        self.form.unit
    }

    /// Parts of an element.
    #[inline(always)]
    pub fn parts(&self) -> usize {
        self.form.parts
    }

    /// Number of blocks.
    pub fn n_blocks(&self) -> usize {
        self.blocks.n_blocks() * self.form.parts
    }

    /// Bytes in front of the table.
    pub fn head_bytes(&self) -> usize {
        self.form.head_bytes
    }

    /// Bytes of the head and the padded table, after which the blocks begin.
    pub fn table_bytes(&self) -> usize {
        (self.form.head_bytes + self.n_blocks() * ENTRY).next_multiple_of(self.form.unit)
    }

    /// Maximum number of bytes of a block with `n` elements.
    pub fn block_bound(&self, n: usize) -> usize {
        (self.form.block_head + n * self.part_bytes).next_multiple_of(self.form.unit)
    }

    /// Maximum number of bytes of a payload.
    pub fn payload_bound(&self) -> u64 {
        let mut bytes = self.table_bytes() as u64;
        for (n_blocks, [sz, sy, sx]) in self.blocks.kinds() {
            bytes += (n_blocks * self.form.parts) as u64 * self.block_bound(sz * sy * sx) as u64;
        }
        bytes
    }
}
