//! The layout of lorenzo's payload: blocks of 2^12 to 2^14 elements, at level max of 2^16 to 2^18,
//! which begin at multiples of 16 bytes.

use crate::codec::lorenzo::max;
use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::stage::element::Element;
use crate::types::{DType, Shape};

/// Blocks begin at multiples of this in the payload, in bytes. It is also the size of a block's
/// header in version 1.
pub const UNIT: usize = 16;
/// Parameters b that version 1 allows, and those that version 2 allows.
pub const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=14;
pub const LOG2_SIZES_MAX: std::ops::RangeInclusive<u8> = 16..=18;
/// Base-2 logarithm of the number of a block's rows at level max, in an array of large extents.
const LOG2_ROWS_MAX: u8 = 11;

/// The layout of an array of rank 1 to 3 for the parameter b. Returns `None` if the elements are no
/// numbers, the array is empty, b is unknown, or a payload could exceed what the block table can
/// describe.
pub fn new(dtype: DType, shape: &Shape, b: u8) -> Option<Layout> {
    let (part, parts) = dtype.parts();
    let part_bytes = Element::of(part)?.bytes;
    // Bytes of the header of RAW blocks, and elements of a row.
    let (block_head, row) = match b {
        b if LOG2_SIZES.contains(&b) => (UNIT, ROW),
        b if LOG2_SIZES_MAX.contains(&b) => (max::HEADER_BYTES, 1 << b >> LOG2_ROWS_MAX),
        _ => return None,
    };
    Layout::new(shape, part_bytes, b, Form { head_bytes: 0, unit: UNIT, row, parts, block_head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_has_no_layout() {
        let new = |n: u64, b| new(DType::I64, &Shape::new(&[n]).unwrap(), b);
        assert!(new(0, 12).is_none() && new(5, 11).is_none() && new(5, 15).is_none());
        assert!(new(1 << 33, 12).is_none() && new(1 << 32, 12).is_some());
    }
}
