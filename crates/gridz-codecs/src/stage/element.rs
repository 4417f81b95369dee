//! Conversion of elements to words.

use crate::stage::word::Word;
use crate::types::DType;

/// How elements of a type become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Bytes of an element.
    pub bytes: usize,
    /// True if elements narrower than a word are sign-extended.
    is_signed: bool,
    /// True for f32 and f64.
    pub is_float: bool,
}

impl Element {
    /// For a type of number with one part; `None` for other types.
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

    /// Whether elements narrower than a word are sign-extended.
    #[inline(always)]
    pub fn is_signed(self) -> bool {
        self.is_signed
    }

    /// Bits of its words.
    pub fn word_bits(self) -> u32 {
        if self.bytes == 8 { 64 } else { 32 }
    }

    /// Converts elements in `bytes` to words until `words` is full.
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

    /// Converts all words to elements.
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
