//! Symbols of numbers of 8, 16 and 32 bits.
//!
//! A number below 2^11 is its own symbol. The symbol of a larger number determines its bit length
//! and the two bits below the highest one, its *head*. The bits below, its *tail*, follow the code
//! uncoded. So an alphabet never has more than 2132 symbols. Uncoded tails cost little: in such
//! long numbers these bits are nearly random.

use std::ops::BitOr;

use crate::stage::entropy::huffman;

/// Numbers with fewer bits are their own symbols.
const DIRECT_BITS: u32 = 11;
/// Number of numbers that are their own symbols.
const DIRECT: usize = 1 << DIRECT_BITS;
/// Bits below the highest one that the symbol determines.
const HEAD_BITS: u32 = 2;

/// Number of symbols for numbers of `bits` bits.
const fn n_symbols(bits: u32) -> usize {
    if bits <= DIRECT_BITS { 1 << bits } else { DIRECT + (((bits - DIRECT_BITS) as usize) << HEAD_BITS) }
}

/// An unsigned integer.
pub trait Number: Copy + Default + Eq + BitOr<Output = Self> + Send + Sync + std::fmt::Debug + 'static {
    const BITS: u32;
    const BYTES: usize = Self::BITS as usize / 8;
    /// Size of the alphabet.
    const SYMBOLS: usize = n_symbols(Self::BITS);
    /// A counter for each symbol.
    type Counts: AsRef<[u32]> + AsMut<[u32]>;

    /// Counters that are all 0.
    fn no_counts() -> Self::Counts;
    /// Sets the code lengths of the symbols that occur, given all counts.
    fn set_lengths(counts: &[u32], max_bits: u32, lengths: &mut [u8]);
    /// The low bits of `value`.
    fn from_u32(value: u32) -> Self;
    /// The number, zero-extended.
    fn to_u32(self) -> u32;
    /// Reads little-endian bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes little-endian bytes.
    fn write(self, bytes: &mut [u8]);
    /// The same memory, if the numbers are bytes.
    fn as_bytes_mut(numbers: &mut [Self]) -> Option<&mut [u8]>;
}

macro_rules! numbers {
    ($($number:ty: $bytes:expr);*) => {$(
        impl Number for $number {
            const BITS: u32 = <$number>::BITS;
            type Counts = [u32; n_symbols(<$number>::BITS)];

            fn no_counts() -> Self::Counts {
                [0; n_symbols(<$number>::BITS)]
            }

            fn set_lengths(counts: &[u32], max_bits: u32, lengths: &mut [u8]) {
                huffman::set_lengths::<{ n_symbols(<$number>::BITS) }>(counts, max_bits, lengths)
            }

            #[inline(always)]
            fn from_u32(value: u32) -> Self {
                value as Self
            }

            #[inline(always)]
            fn to_u32(self) -> u32 {
                self.into()
            }

            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("the bytes of a number"))
            }

            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }

            fn as_bytes_mut(numbers: &mut [Self]) -> Option<&mut [u8]> {
                $bytes(numbers)
            }
        }
    )*};
}

numbers!(u8: Some; u16: |_| None; u32: |_| None);

/// The symbol of a number, and the bit count of its tail.
#[inline(always)]
pub fn symbol<T: Number>(number: T) -> (usize, u32) {
    let value = number.to_u32();
    if T::BITS <= DIRECT_BITS || value < DIRECT as u32 {
        return (value as usize, 0);
    }
    let length = 32 - value.leading_zeros();
    let tail_bits = length - 1 - HEAD_BITS;
    // The highest bit is always set, and only the head differs.
    let head = (value >> tail_bits) as usize & ((1 << HEAD_BITS) - 1);
    (DIRECT + (((length - 1 - DIRECT_BITS) as usize) << HEAD_BITS) + head, tail_bits)
}

/// Like [`symbol`], but without branches: if only some numbers have tails, that is hard to predict.
#[inline(always)]
pub fn any_symbol<T: Number>(number: T) -> (u32, u32) {
    let value = number.to_u32();
    if T::BITS <= DIRECT_BITS {
        return (value, 0);
    }
    let length = 32 - (value | DIRECT as u32).leading_zeros();
    let tail_bits = length - 1 - HEAD_BITS;
    let head = value >> tail_bits & ((1 << HEAD_BITS) - 1);
    let above = DIRECT as u32 + ((length - 1 - DIRECT_BITS) << HEAD_BITS) + head;
    // All ones where there is a tail.
    let has_tail = u32::from(value < DIRECT as u32).wrapping_sub(1);
    (above & has_tail | value & !has_tail, tail_bits & has_tail)
}

/// Whether some numbers of a row have tails.
#[inline(always)]
pub fn have_tails<T: Number>(row: &[T]) -> bool {
    symbol(row.iter().fold(T::default(), |any, &number| any | number)).1 > 0
}

/// The bits above the tail, and the bit count of the tail, of a symbol's numbers.
pub fn above_tail(symbol: usize) -> (u32, u32) {
    let Some(class) = symbol.checked_sub(DIRECT) else { return (symbol as u32, 0) };
    let length = DIRECT_BITS + 1 + (class >> HEAD_BITS) as u32;
    let head = class & ((1 << HEAD_BITS) - 1);
    (1 << HEAD_BITS | head as u32, length - 1 - HEAD_BITS)
}

/// Total bits of the tails of numbers whose symbols have these counts.
pub fn tail_bits(counts: &[u32]) -> usize {
    let with_tails = counts.iter().enumerate().skip(DIRECT);
    with_tails.map(|(symbol, &n)| n as usize * above_tail(symbol).1 as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Number>(number: T) {
        let (symbol, tail_bits) = symbol(number);
        assert!(symbol < T::SYMBOLS);
        assert_eq!(any_symbol(number), (symbol as u32, tail_bits));
        let (above, n) = above_tail(symbol);
        assert_eq!(n, tail_bits);
        let tail = number.to_u32() & ((1 << tail_bits) - 1);
        assert_eq!(above << tail_bits | tail, number.to_u32());
    }

    #[test]
    fn symbols_and_tails_are_the_number() {
        (0..=u8::MAX).for_each(check);
        (0..=u16::MAX).for_each(check);
        for shift in 0..32 {
            for near in 0..20 {
                check((1u32 << shift).wrapping_sub(10).wrapping_add(near));
                check((3u32 << shift).wrapping_sub(10).wrapping_add(near));
            }
        }
        assert_eq!((u8::SYMBOLS, u16::SYMBOLS, u32::SYMBOLS), (256, 2068, 2132));
        assert_eq!(symbol(u32::MAX), (2131, 29));
    }

    #[test]
    fn symbols_ascend_with_their_numbers() {
        let mut last = 0;
        for number in 0..=u16::MAX {
            let (symbol, _) = symbol(number);
            assert!(symbol == last || symbol == last + 1 || number == 0);
            last = symbol;
        }
    }
}
