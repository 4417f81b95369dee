//! Numbers of every type, and their exact differences.

use std::cmp::Ordering;

use crate::exact::Exact;
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::{ByteOrder, DType};

/// Class of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A finite number.
    Finite,
    /// Infinity, of either sign.
    Infinite,
    /// Not a number, with any payload.
    Nan,
}

/// A number in an array: an element, or one part of a complex element.
pub trait Number: Copy + Send + Sync {
    /// Bytes of one number.
    const BYTES: usize;

    /// The number at `index` in `bytes`.
    fn at(bytes: &[u8], index: usize, order: ByteOrder) -> Self;

    fn bits(self) -> u64;

    /// Its class. Integers are finite.
    fn kind(self) -> Kind {
        Kind::Finite
    }

    /// The nearest f64.
    fn to_f64(self) -> f64;

    /// The number, exactly.
    #[inline(always)]
    fn exactly(self) -> AnyNumber {
        AnyNumber::Float(self.to_f64())
    }

    /// The magnitude of the difference of two finite numbers.
    #[inline(always)]
    fn difference(self, other: Self) -> Exact {
        Exact::difference(self.to_f64(), other.to_f64())
    }

    /// True if this number is below `other`; both are finite.
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.to_f64() < other.to_f64()
    }
}

/// A finite number of any type, for code that is compiled once.
#[derive(Debug, Clone, Copy)]
pub enum AnyNumber {
    /// A number that f64 represents exactly.
    Float(f64),
    /// An integer of 64 bits.
    Integer(i128),
}

impl AnyNumber {
    /// The nearest f64.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Float(number) => number,
            Self::Integer(number) => number as f64,
        }
    }

    /// The number rounded up and rounded down to an f64.
    pub fn up_and_down(self) -> [f64; 2] {
        let nearest = self.to_f64();
        let Self::Integer(number) = self else { return [nearest; 2] };
        match (nearest as i128).cmp(&number) {
            Ordering::Less => [nearest.next_up(), nearest],
            Ordering::Equal => [nearest; 2],
            Ordering::Greater => [nearest, nearest.next_down()],
        }
    }

    /// The magnitude of the difference of two numbers of the same type.
    pub fn difference(self, other: Self) -> Exact {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Exact::of_integer(a.abs_diff(b) as u64),
            _ => Exact::difference(self.to_f64(), other.to_f64()),
        }
    }

    /// True if this number is below another one of the same type.
    pub fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a < b,
            _ => self.to_f64() < other.to_f64(),
        }
    }

    /// The smallest and the largest of four numbers, in order within each pair.
    pub fn extremes(a: [Self; 2], b: [Self; 2]) -> [Self; 2] {
        [if b[0].is_below(a[0]) { b[0] } else { a[0] }, if a[1].is_below(b[1]) { b[1] } else { a[1] }]
    }
}

/// A generic computation on numbers of any type.
pub trait Task {
    /// Its result.
    type Output;

    /// Runs the computation with numbers of one type.
    fn run<N: Number>(self) -> Result<Self::Output>;
}

/// Runs `task` with the type of the numbers in elements of `dtype`.
///
/// # Errors
/// Errors of the task; `UnsupportedJob` if elements are no numbers.
pub fn with_numbers_of<T: Task>(dtype: DType, task: T) -> Result<T::Output> {
    use DType::{C64, C128, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    match dtype {
        U8 => task.run::<u8>(),
        U16 => task.run::<u16>(),
        U32 => task.run::<u32>(),
        U64 => task.run::<u64>(),
        I8 => task.run::<i8>(),
        I16 => task.run::<i16>(),
        I32 => task.run::<i32>(),
        I64 => task.run::<i64>(),
        DType::F16 => task.run::<F16>(),
        DType::Bf16 => task.run::<Bf16>(),
        F32 | C64 => task.run::<f32>(),
        F64 | C128 => task.run::<f64>(),
        // Opaque, the only type without numbers. The arms above list all other types, and the tests
        // try each of them.
        _ => Err(Error::unsupported("opaque elements have no numerical values to compare")),
    }
}

/// IEEE binary16.
#[derive(Debug, Clone, Copy)]
pub struct F16(u16);

/// The upper half of a binary32.
#[derive(Debug, Clone, Copy)]
pub struct Bf16(u16);

/// Reads a number from bytes: as the integer `$bits`, which `$of` converts.
macro_rules! at {
    ($bits:ty, $of:expr) => {
        const BYTES: usize = size_of::<$bits>();

        #[inline(always)]
        fn at(bytes: &[u8], index: usize, order: ByteOrder) -> Self {
            let (numbers, _) = bytes.as_chunks();
            $of(match order {
                ByteOrder::Little => <$bits>::from_le_bytes(numbers[index]),
                ByteOrder::Big => <$bits>::from_be_bytes(numbers[index]),
            })
        }
    };
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl Number for $type {
            at!($type, |number| number);

            fn bits(self) -> u64 {
                self as u64
            }

            fn to_f64(self) -> f64 {
                self as f64
            }
        })*
    };
}

/// Integers that f64 cannot represent exactly.
macro_rules! wide_integers {
    ($($type:ty),*) => {
        $(impl Number for $type {
            at!($type, |number| number);

            fn bits(self) -> u64 {
                self as u64
            }

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn exactly(self) -> AnyNumber {
                AnyNumber::Integer(self.into())
            }

            fn difference(self, other: Self) -> Exact {
                Exact::of_integer(self.abs_diff(other))
            }

            fn is_below(self, other: Self) -> bool {
                self < other
            }
        })*
    };
}

macro_rules! floats {
    ($($type:ty, $bits:ty, $of:expr, $to_bits:expr, $to_f64:expr);*) => {
        $(impl Number for $type {
            at!($bits, $of);

            fn bits(self) -> u64 {
                $to_bits(self).into()
            }

            #[inline(always)]
            fn kind(self) -> Kind {
                let value = self.to_f64();
                if value.is_finite() {
                    Kind::Finite
                } else if value.is_nan() {
                    Kind::Nan
                } else {
                    Kind::Infinite
                }
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                $to_f64(self)
            }
        })*
    };
}

integers!(u8, u16, u32, i8, i16, i32);
wide_integers!(u64, i64);
floats! {
    F16, u16, F16, |half: F16| half.0, of_half;
    Bf16, u16, Bf16, |half: Bf16| half.0, |half: Bf16| f64::from(f32::from_bits(u32::from(half.0) << 16));
    f32, u32, f32::from_bits, f32::to_bits, f64::from;
    f64, u64, f64::from_bits, f64::to_bits, |value| value
}

fn of_half(half: F16) -> f64 {
    let (exponent, mantissa) = (u64::from(half.0 >> 10 & 0x1f), u64::from(half.0 & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa as f64 / f64::from(1 << 24),
        0x1f => f64::from_bits(0x7ff << 52 | mantissa << 42),
        _ => f64::from_bits((exponent + 1023 - 15) << 52 | mantissa << 42),
    };
    if half.0 >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_numbers_that_they_are() {
        for (bits, value) in [
            (0u16, 0.0),
            (1, 2f64.powi(-24)),
            (0x3ff, 1023.0 * 2f64.powi(-24)),
            (0x400, 2f64.powi(-14)),
            (0x3c00, 1.0),
            (0xc500, -5.0),
            (0x7bff, 65504.0),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(F16(bits).to_f64(), value, "{bits:x}");
        }
        assert_eq!(F16(0x7c01).kind(), Kind::Nan);
        assert_eq!(Bf16(0x7f81).kind(), Kind::Nan);
        assert_eq!(Bf16(0x3fc0).to_f64(), 1.5);
    }

    #[test]
    fn what_a_float_cannot_hold_is_rounded_both_ways() {
        let far = 2f64.powi(53);
        assert_eq!(((1i64 << 53) + 1).exactly().up_and_down(), [far.next_up(), far]);
        assert_eq!((-(1i64 << 53) - 1).exactly().up_and_down(), [-far, (-far).next_down()]);
        assert_eq!(u64::MAX.exactly().up_and_down(), [2f64.powi(64), 2f64.powi(64).next_down()]);
        assert_eq!((1u64 << 60).exactly().up_and_down(), [2f64.powi(60); 2]);
    }

    #[test]
    fn numbers_are_read_in_either_order() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(u16::at(&bytes, 1, ByteOrder::Little), 0x403);
        assert_eq!(u16::at(&bytes, 1, ByteOrder::Big), 0x304);
        assert_eq!(i32::at(&bytes, 0, ByteOrder::Big), 0x1020304);
    }
}
