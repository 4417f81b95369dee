//! huffman's choices for a whole array: the size of its blocks.

use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::types::Shape;

/// Most axes the codec looks along.
pub const MAX_RANK: usize = 1;
/// Blocks begin at multiples of this in the payload; also the bytes of a block's header with the head of its section.
pub const UNIT: usize = 16;
/// Logarithms of a block's elements that the format knows.
const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=16;

/// The logarithm of a block's elements for elements of so many bytes: blocks of bytes have more, since they are short.
pub fn log2_size(element_bytes: usize) -> u8 {
    if element_bytes == 1 { 16 } else { 15 }
}

/// The layout of an array with one axis for the parameter b. `None` if there are no elements, b is unknown, or a payload
/// could pass what the table can tell.
pub fn layout(shape: &Shape, element_bytes: usize, b: u8) -> Option<Layout> {
    if !LOG2_SIZES.contains(&b) {
        return None;
    }
    Layout::new(shape, element_bytes, b, Form { head_bytes: 0, unit: UNIT, row: ROW, parts: 1, block_head: UNIT })
}
