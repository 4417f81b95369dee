//! Blocks of a zfp stream: 4 to the power of the rank elements, and the bits they become.
//!
//! The elements of a block become integers with one exponent for all of them, or are integers. A transform along each
//! axis makes most of these small. Their digits to base −2, in an order in which the small ones come last, are written plane by
//! plane from the top, until the planes or the bits that the block may have are used up; see [`planes`]. A reversible
//! block has another transform, which loses nothing, and floats that do not survive to become integers are taken
//! as their words.
//!
//! `scalar` is the definition.

pub mod bits;
mod order;
mod planes;
mod scalar;
mod transform;
mod value;

pub use self::bits::{BitReader, BitWriter};
pub use self::value::{Value, exponent, is_tiny};

use crate::codec::zfp::numbers::Numbers;
use crate::cpu::level::Level;

/// Elements of the blocks that are coded together at most.
pub const GROUP: usize = 256;

/// Calls a function for blocks of a rank with the numbers of their elements and of the words of a plane.
macro_rules! by_rank {
    ($rank:expr, $module:ident::$function:ident, $value:ty, ($($argument:expr),*)) => {
        match $rank {
            1 => $module::$function::<$value, 4, 1>($($argument),*),
            2 => $module::$function::<$value, 16, 1>($($argument),*),
            3 => $module::$function::<$value, 64, 1>($($argument),*),
            _ => $module::$function::<$value, 256, 4>($($argument),*),
        }
    };
}

/// Encodes blocks of 4^rank elements, which follow each other and are [`GROUP`] elements at most; the number of their
/// bits. The rank is 1 to 4.
///
/// Unless blocks are reversible, floats are finite and the magnitude of integers is below 2^(W−2), W being their bits.
pub fn encode<T: Value>(_level: Level, rank: usize, numbers: &Numbers, blocks: &[T], out: &mut BitWriter) -> u32 {
    by_rank!(rank, scalar::encode, T, (numbers, blocks, out, None))
}

/// As [`encode`], and what a decoder makes of the blocks.
pub fn encode_checked<T: Value>(
    _level: Level,
    rank: usize,
    numbers: &Numbers,
    blocks: &[T],
    out: &mut BitWriter,
    decoded: &mut [T],
) -> u32 {
    by_rank!(rank, scalar::encode, T, (numbers, blocks, out, Some(decoded)))
}

/// Decodes such blocks, whatever the bits are; how many they were.
pub fn decode<T: Value>(
    _level: Level,
    rank: usize,
    numbers: &Numbers,
    bits: &mut BitReader,
    blocks: &mut [T],
) -> u32 {
    by_rank!(rank, scalar::decode, T, (numbers, bits, blocks))
}
