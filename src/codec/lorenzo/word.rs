//! The words that `lorenzo` computes with, and how elements become words.

use std::cell::Cell;
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Not, Shl, Shr};
use std::thread::LocalKey;

use crate::types::DType;

/// `u32` or `u64`; arithmetic is modulo 2^BITS.
pub trait Word:
    Copy
    + Default
    + Ord
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitOrAssign
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const ZERO: Self;
    /// Bits of a word.
    const BITS: u32;
    /// Bytes of a word.
    const BYTES: usize = Self::BITS as usize / 8;
    /// Bits of the fraction field of a float of this size.
    const FRACTION_BITS: u32;

    /// The low bits of `x`.
    fn from_u64(x: u64) -> Self;
    /// The word, filled up with zeros.
    fn to_u64(self) -> u64;
    /// The word, filled up with its top bit.
    fn to_i64(self) -> i64;
    /// The word at the start of `bytes`.
    fn read(bytes: &[u8]) -> Self;
    /// Writes the word to the start of `bytes`.
    fn write(self, bytes: &mut [u8]);
    /// Sum.
    fn plus(self, other: Self) -> Self;
    /// Difference.
    fn minus(self, other: Self) -> Self;
    /// Product.
    fn times(self, other: Self) -> Self;
    /// Shift to the right, filled up with the top bit.
    fn shift_signed(self, n: u32) -> Self;
    /// Number of zero bits above the highest one.
    fn leading_zeros(self) -> u32;
    /// Number of zero bits below the lowest one.
    fn trailing_zeros(self) -> u32;
    /// The smaller and the larger of two words in two's complement.
    fn min_max_signed(self, other: Self) -> (Self, Self);

    /// Memory that this thread keeps.
    fn kept() -> &'static LocalKey<Cell<Vec<Self>>>;

    /// 0 for 0, else 1 + the index of the highest set bit.
    #[inline(always)]
    fn bit_length(self) -> u32 {
        Self::BITS - self.leading_zeros()
    }
    /// The lowest `n` bits set, for `n` up to BITS.
    #[inline(always)]
    fn low_mask(n: u32) -> Self {
        if n == 0 { Self::default() } else { !Self::default() >> (Self::BITS - n) }
    }
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $fraction_bits:literal) => {
        impl Word for $unsigned {
            const ZERO: Self = 0;
            const BITS: u32 = <$unsigned>::BITS;
            const FRACTION_BITS: u32 = $fraction_bits;

            #[inline(always)]
            fn from_u64(x: u64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self as $signed)
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("the bytes of a word"))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                *bytes.first_chunk_mut().expect("room for a word") = self.to_le_bytes();
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn shift_signed(self, n: u32) -> Self {
                ((self as $signed) >> n) as Self
            }
            #[inline(always)]
            fn leading_zeros(self) -> u32 {
                <$unsigned>::leading_zeros(self)
            }
            #[inline(always)]
            fn trailing_zeros(self) -> u32 {
                <$unsigned>::trailing_zeros(self)
            }
            fn kept() -> &'static LocalKey<Cell<Vec<Self>>> {
                thread_local! {
                    static KEPT: Cell<Vec<$unsigned>> = const { Cell::new(Vec::new()) };
                }
                &KEPT
            }
            #[inline(always)]
            fn min_max_signed(self, other: Self) -> (Self, Self) {
                let (a, b) = (self as $signed, other as $signed);
                (a.min(b) as Self, a.max(b) as Self)
            }
        }
    };
}

word!(u32, i32, 23);
word!(u64, i64, 52);

/// How an element is made a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Bytes of an element.
    pub bytes: usize,
    /// Elements narrower than a word are filled up with their top bit.
    is_signed: bool,
    /// The map FIXED can be used.
    pub is_float: bool,
}

impl Element {
    /// For a type of element, if `lorenzo` takes it.
    pub fn of(dtype: DType) -> Option<Self> {
        use DType::*;
        let (bytes, is_signed) = match dtype {
            U8 => (1, false),
            U16 => (2, false),
            I8 => (1, true),
            I16 | F16 | Bf16 => (2, true),
            U32 | I32 | F32 => (4, true),
            U64 | I64 | F64 => (8, true),
            Opaque | C64 | C128 => return None,
        };
        Some(Self { bytes, is_signed, is_float: matches!(dtype, F32 | F64) })
    }

    /// Bits of its words.
    pub fn word_bits(self) -> u32 {
        if self.bytes == 8 { 64 } else { 32 }
    }

    /// Makes words of the elements in `bytes`, one for each place in `words`.
    #[inline(always)]
    pub fn load<W: Word>(self, bytes: &[u8], words: &mut [W]) {
        match (self.bytes, self.is_signed) {
            (1, false) => convert(bytes, words, |&[b]: &[u8; 1]| u64::from(b)),
            (1, true) => convert(bytes, words, |&[b]: &[u8; 1]| b as i8 as u64),
            (2, false) => convert(bytes, words, |&b: &[u8; 2]| u64::from(u16::from_le_bytes(b))),
            (2, true) => convert(bytes, words, |&b: &[u8; 2]| i16::from_le_bytes(b) as u64),
            (4, _) => convert(bytes, words, |&b: &[u8; 4]| u64::from(u32::from_le_bytes(b))),
            _ => convert(bytes, words, |&b: &[u8; 8]| u64::from_le_bytes(b)),
        }
    }

    /// Makes elements of words, as many as there are of these.
    #[inline(always)]
    pub fn store<W: Word>(self, words: &[W], bytes: &mut [u8]) {
        match self.bytes {
            1 => revert(words, bytes, |word| [word as u8]),
            2 => revert(words, bytes, |word| (word as u16).to_le_bytes()),
            4 => revert(words, bytes, |word| (word as u32).to_le_bytes()),
            _ => revert(words, bytes, u64::to_le_bytes),
        }
    }
}

#[inline(always)]
fn convert<W: Word, const N: usize>(bytes: &[u8], words: &mut [W], word: impl Fn(&[u8; N]) -> u64) {
    let (elements, _) = bytes.as_chunks();
    for (to, from) in words.iter_mut().zip(elements) {
        *to = W::from_u64(word(from));
    }
}

#[inline(always)]
fn revert<W: Word, const N: usize>(words: &[W], bytes: &mut [u8], element: impl Fn(u64) -> [u8; N]) {
    let (elements, _) = bytes.as_chunks_mut();
    for (from, to) in words.iter().zip(elements) {
        *to = element(from.to_u64());
    }
}
