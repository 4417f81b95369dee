//! Elements of a matrix, and the two operations of a product.

use crate::functions::{self, Functions};
use gridz_codecs::types::DType;

/// The vector operations that elements need.
#[cfg(target_arch = "x86_64")]
pub use crate::simd::Vectors;

/// Without vector instructions, nothing is needed.
#[cfg(not(target_arch = "x86_64"))]
pub trait Vectors {}
#[cfg(not(target_arch = "x86_64"))]
impl<T> Vectors for T {}

/// The type of a matrix's elements.
pub trait Element: Vectors + Copy + Send + Sync + PartialOrd + Default + 'static {
    /// The element type.
    const DTYPE: DType;
    /// Bytes of an element.
    const BYTES: usize = size_of::<Self>();
    /// The number 1.
    const ONE: Self;
    /// Larger than all other numbers.
    const INFINITY: Self;
    /// Smaller than all other numbers.
    const MINUS_INFINITY: Self;

    /// Reads an element from little-endian bytes; `bytes` must be long enough.
    fn read(bytes: &[u8]) -> Self;
    /// Writes the element as little-endian bytes.
    fn write(self, bytes: &mut [u8]);
    /// The bits of the element.
    fn bits(self) -> u64;
    /// The element with these bits.
    fn from_bits(bits: u64) -> Self;
    /// `a + b`
    fn plus(self, other: Self) -> Self;
    /// `a × b`
    fn times(self, other: Self) -> Self;
    /// The large functions for this type.
    fn functions() -> &'static Functions<Self>;
}

macro_rules! element {
    ($type:ident, $bits:ident, $dtype:ident, $functions:ident) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            const ONE: Self = 1.0;
            const INFINITY: Self = $type::INFINITY;
            const MINUS_INFINITY: Self = $type::NEG_INFINITY;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let (first, _) = bytes.split_first_chunk().expect("the bytes of an element");
                Self::from_le_bytes(*first)
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $type::from_bits(bits as $bits)
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            fn functions() -> &'static Functions<Self> {
                &functions::$functions
            }
        }
    };
}

element!(f32, u32, F32, OF_F32);
element!(f64, u64, F64, OF_F64);

/// The two operations of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Semiring {
    /// Sums of products: the product of linear algebra.
    PlusTimes = 0,
    /// Minimum of sums: shortest paths. A row without elements gives infinity.
    MinPlus = 1,
    /// Maximum of products: most probable paths. A row without elements gives minus infinity.
    MaxTimes = 2,
    /// 1 if a matrix element and its vector element are both nonzero, else 0: reachability.
    OrAnd = 3,
}

impl Semiring {
    /// All semirings, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::PlusTimes, Self::MinPlus, Self::MaxTimes, Self::OrAnd];
}

/// The operations of a semiring, for generic code.
pub trait Ring<T>: Copy + Send + Sync {
    /// The neutral element of `add`.
    fn zero() -> T;
    /// Combines two results. If they do not compare because one is NaN, minimum and maximum keep
    /// the first.
    fn add(a: T, b: T) -> T;
    /// Combines an element of the matrix with an element of the vector.
    fn multiply(a: T, b: T) -> T;
}

/// See [`Semiring::PlusTimes`].
#[derive(Clone, Copy)]
pub struct PlusTimes;
/// See [`Semiring::MinPlus`].
#[derive(Clone, Copy)]
pub struct MinPlus;
/// See [`Semiring::MaxTimes`].
#[derive(Clone, Copy)]
pub struct MaxTimes;
/// See [`Semiring::OrAnd`].
#[derive(Clone, Copy)]
pub struct OrAnd;

macro_rules! ring {
    ($ring:ident, $zero:expr, |$a:ident, $b:ident| $add:expr, $multiply:expr) => {
        impl<T: Element> Ring<T> for $ring {
            #[inline(always)]
            fn zero() -> T {
                $zero
            }

            #[inline(always)]
            fn add($a: T, $b: T) -> T {
                $add
            }

            #[inline(always)]
            fn multiply($a: T, $b: T) -> T {
                $multiply
            }
        }
    };
}

ring!(PlusTimes, T::default(), |a, b| a.plus(b), a.times(b));
ring!(MinPlus, T::INFINITY, |a, b| if b < a { b } else { a }, a.plus(b));
ring!(MaxTimes, T::MINUS_INFINITY, |a, b| if b > a { b } else { a }, a.times(b));
ring!(
    OrAnd,
    T::default(),
    |a, b| if (a != T::default()) | (b != T::default()) { T::ONE } else { T::default() },
    if (a != T::default()) & (b != T::default()) { T::ONE } else { T::default() }
);

/// Evaluates an expression with the type that implements a semiring.
macro_rules! with_ring {
    ($semiring:expr, $ring:ident => $work:expr) => {
        $crate::element::with_ring!($semiring, $ring => $work, PlusTimes MinPlus MaxTimes OrAnd)
    };
    ($semiring:expr, $ring:ident => $work:expr, $($name:ident)*) => {
        match $semiring {
            $($crate::element::Semiring::$name => {
                type $ring = $crate::element::$name;
                $work
            })*
        }
    };
}
pub(crate) use with_ring;
