//! cci's parameters of an array: the block size, and whether lists may have an entropy code.

use crate::codec::Params;
use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::types::Shape;

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = 1;
/// Blocks begin at multiples of this in the payload, in bytes.
pub const UNIT: usize = 16;
/// Bytes before the elements of a raw block.
pub const RAW_HEAD: usize = 16;
/// A block has at most one copy, and one row start, per this many symbols, and at most one repeat
/// per this many copies.
pub const SYMBOLS_PER: usize = 4;
/// A block has at most one run per this many elements.
pub const ELEMENTS_PER_RUN: usize = 2;
/// Base-2 logarithm of a block's elements. It is the largest for which symbol positions fit 16
/// bits, because rows repeat over long distances.
const LOG2_SIZE: u8 = 16;
/// Base-2 logarithms of a block's elements that the format allows.
const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=16;

/// Level `dense`: lists may have an entropy code.
pub const DENSE: u16 = 2;

/// Chooses the parameters for a level.
pub fn choose(level: u16) -> Params {
    Params::new(&[LOG2_SIZE, u8::from(level == DENSE)])
}

/// The layout of an array with one axis, and whether entropy codes are allowed, for these
/// parameters. Returns `None` if the array is empty, the parameters are unknown, or a payload could
/// exceed what the block table can describe.
pub fn layout(shape: &Shape, element_bytes: usize, params: &[u8]) -> Option<(Layout, bool)> {
    let &[b, codes @ (0 | 1)] = params else { return None };
    if !LOG2_SIZES.contains(&b) {
        return None;
    }
    let form = Form { head_bytes: 0, unit: UNIT, row: ROW, parts: 1, block_head: RAW_HEAD };
    Some((Layout::new(shape, element_bytes, b, form)?, codes == 1))
}
