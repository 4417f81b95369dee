//! Where everything is in a payload of lorenzo: blocks of 2^12 to 2^14 elements, at level max of 2^16 to 2^18, that begin at
//! multiples of 16 bytes.

use crate::codec::lorenzo::max;
use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::types::Shape;

/// Blocks begin at multiples of this in the payload; also the bytes of a block's header in version 1.
pub const UNIT: usize = 16;
/// Parameters b that version 1 knows, and version 2.
pub const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=14;
pub const LOG2_SIZES_MAX: std::ops::RangeInclusive<u8> = 16..=18;
/// The logarithm of a block's rows at level max, of an array of large extents.
const LOG2_ROWS_MAX: u8 = 11;

/// The layout of an array of rank 1 to 3 for the parameter b. `None` if there are no elements, b is unknown, or a
/// payload could pass what the table can tell.
pub fn new(shape: &Shape, element_bytes: usize, b: u8) -> Option<Layout> {
    // Bytes of the header of RAW blocks, and rows.
    let (block_head, row) = match b {
        b if LOG2_SIZES.contains(&b) => (UNIT, ROW),
        b if LOG2_SIZES_MAX.contains(&b) => (max::HEADER_BYTES, 1 << b >> LOG2_ROWS_MAX),
        _ => return None,
    };
    Layout::new(shape, element_bytes, b, Form { head_bytes: 0, unit: UNIT, row, parts: 1, block_head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_has_no_layout() {
        let new = |n: u64, b| new(&Shape::new(&[n]).unwrap(), 8, b);
        assert!(new(0, 12).is_none() && new(5, 11).is_none() && new(5, 15).is_none());
        assert!(new(1 << 33, 12).is_none() && new(1 << 32, 12).is_some());
    }
}
