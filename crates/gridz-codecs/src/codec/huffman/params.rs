//! huffman's parameter of an array: the block size.

use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::types::Shape;

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = 1;
/// Blocks begin at multiples of this in the payload, in bytes. It is also the size of a block's
/// header with the head of its section.
pub const UNIT: usize = 16;
/// Base-2 logarithms of a block's elements that the format allows.
const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=16;

/// Base-2 logarithm of a block's elements, by element size. Blocks of bytes have more elements,
/// because these are short.
pub fn log2_size(element_bytes: usize) -> u8 {
    if element_bytes == 1 { 16 } else { 15 }
}

/// The layout of an array with one axis for the parameter b. Returns `None` if the array is empty,
/// b is unknown, or a payload could exceed what the block table can describe.
pub fn layout(shape: &Shape, element_bytes: usize, b: u8) -> Option<Layout> {
    if !LOG2_SIZES.contains(&b) {
        return None;
    }
    Layout::new(shape, element_bytes, b, Form { head_bytes: 0, unit: UNIT, row: ROW, parts: 1, block_head: UNIT })
}
