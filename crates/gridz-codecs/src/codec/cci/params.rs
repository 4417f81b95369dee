//! cci's choices for a whole array: the size of its blocks, and whether numbers may have an entropy code.

use crate::codec::Params;
use crate::stage::blocks::ROW;
use crate::stage::blocks::layout::{Form, Layout};
use crate::types::Shape;

/// Most axes the codec looks along.
pub const MAX_RANK: usize = 1;
/// Blocks begin at multiples of this in the payload.
pub const UNIT: usize = 16;
/// Bytes in front of the elements of a block that holds them as they are.
pub const RAW_HEAD: usize = 16;
/// A block has up to its symbols divided by that of copies, and of rows; and up to its copies divided by that of repeats.
pub const SYMBOLS_PER: usize = 4;
/// A block has up to its elements divided by that of runs.
pub const ELEMENTS_PER_RUN: usize = 2;
/// The logarithm of a block's elements: as many as the places of its symbols fit 16 bits, since rows repeat for long.
const LOG2_SIZE: u8 = 16;
/// Logarithms of a block's elements that the format knows.
const LOG2_SIZES: std::ops::RangeInclusive<u8> = 12..=16;

/// Level `dense`: numbers may have an entropy code.
pub const DENSE: u16 = 2;

/// The parameters at a level.
pub fn choose(level: u16) -> Params {
    Params::new(&[LOG2_SIZE, u8::from(level == DENSE)])
}

/// The layout of an array with one axis, and whether there may be entropy codes, for these parameters. `None` if there are no
/// elements, the parameters are unknown, or a payload could pass what the table can tell.
pub fn layout(shape: &Shape, element_bytes: usize, params: &[u8]) -> Option<(Layout, bool)> {
    let &[b, codes @ (0 | 1)] = params else { return None };
    if !LOG2_SIZES.contains(&b) {
        return None;
    }
    let form = Form { head_bytes: 0, unit: UNIT, row: ROW, parts: 1, block_head: RAW_HEAD };
    Some((Layout::new(shape, element_bytes, b, form)?, codes == 1))
}
