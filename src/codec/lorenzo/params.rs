//! lorenzo's choices for a whole array: how it is folded, and the size of its blocks.

use crate::format::fold::Fold;

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

/// How arrays are folded, and the parameter b, at a level.
pub fn choose(level: u16) -> (Fold, u8) {
    (Fold::Merge, if level == MAX_LEVEL { DENSE_B } else { FAST_B })
}
