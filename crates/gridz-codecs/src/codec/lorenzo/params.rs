//! lorenzo's parameters of an array: the block size, and at level max the period.

use crate::codec::Params;
use crate::types::{Array, MAX_RANK as ANY_RANK};

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = 3;

/// The encoder's strategy; a decoder does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Blocks of 2^12 elements, SPLIT.
    Fast,
    /// Blocks of 2^13 elements, HUFF or DICT, a longer search for the prediction.
    Dense,
    /// Blocks of 2^18 elements, with adaptive models.
    Max,
}

impl Mode {
    /// The mode of an encoder with this parameter b.
    pub fn of(b: u8) -> Self {
        match b {
            ..=FAST_B => Self::Fast,
            DENSE_B..=DENSE_MOST_B => Self::Dense,
            _ => Self::Max,
        }
    }
}

const FAST_B: u8 = 12;
const DENSE_B: u8 = 13;
const DENSE_MOST_B: u8 = 14;
const MAX_B: u8 = 18;

/// The parameters of an array at a level from 1 to 3: a request for level 0 has the number of the
/// default level here.
pub fn choose(array: &Array, level: u16) -> Params {
    match level {
        1 => Params::new(&[FAST_B]),
        2 => Params::new(&[DENSE_B]),
        _ => {
            let [a, b, c, d] = period_of(array).to_le_bytes();
            Params::new(&[MAX_B, a, b, c, d])
        }
    }
}

/// The levels to try in addition to `level`. The large blocks of level max suit some arrays less
/// than the small ones of the lower levels.
pub fn fallback_levels(level: u16) -> &'static [u16] {
    if level == 3 { &[2, 1] } else { &[] }
}

/// The period, in planes, at which positions along a folded axis recur: the last extent that is
/// merged with those before it. 0 if none is merged.
fn period_of(array: &Array) -> u32 {
    let mut extents = [0; ANY_RANK];
    let mut rank = 0;
    for &n in array.shape().extents().iter().filter(|&&n| n != 1) {
        extents[rank] = n;
        rank += 1;
    }
    let period = if rank > MAX_RANK { extents[rank - MAX_RANK] } else { 0 };
    u32::try_from(period).unwrap_or(0)
}
