//! lorenzo's choices for a whole array: which arrays it takes, and the size of its blocks.

use crate::codec::Plan;
use crate::codec::lorenzo::layout::Layout;
use crate::codec::lorenzo::word::Element;
use crate::format::fold::Fold;
use crate::types::{Array, Shape};

/// Most axes the codec looks along.
pub const MAX_RANK: usize = 3;
/// Largest level: 1 is `fast`, 2 `dense`; 0 stands for `fast`.
pub const MAX_LEVEL: u16 = 2;

/// What the encoder does; a decoder does not need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Blocks of 2^12 elements, SPLIT.
    Fast,
    /// Blocks of 2^13 elements, HUFF or DICT, a longer search for the prediction.
    Dense,
}

impl Mode {
    /// The mode of an encoder with this parameter b.
    pub fn of(b: u8) -> Self {
        if b <= FAST_B { Self::Fast } else { Self::Dense }
    }
}

const FAST_B: u8 = 12;
const DENSE_B: u8 = 13;

/// The plan for `array`, or `None` if its elements are no numbers, or too many.
pub fn plan(array: &Array, level: u16) -> Option<Plan> {
    let b = if level == MAX_LEVEL { DENSE_B } else { FAST_B };
    let element = Element::of(array.dtype())?;
    let layout = Layout::new(&Fold::Merge.apply(array.shape(), MAX_RANK), element.bytes, b)?;
    Some(Plan { fold: Fold::Merge, params: vec![b], bound: layout.payload_bound() })
}

/// The layout of a folded array with these parameters; `None` if the codec cannot have written it.
pub fn layout(shape: &Shape, element: Element, params: &[u8]) -> Option<(Layout, u8)> {
    let &[b] = params else { return None };
    Some((Layout::new(shape, element.bytes, b)?, b))
}
