//! Codes blocks step by step: the definition.

use super::Parameters;
use super::bits::{BitReader, BitWriter, low_mask};
use super::order::order;
use super::planes::{self, Progress};
use super::transform::{from_negabinary, restore, to_negabinary, transform};
use super::value::{Scalar, exponent, is_tiny, sortable};
use crate::stage::word::Word;

/// How integers represent the elements of a block.
#[derive(Clone, Copy)]
pub enum Form {
    /// All elements are zero; there are no planes.
    Zeros,
    /// Floats times a power of two, given by the block's exponent.
    Scaled(i32),
    /// The words of floats.
    Words,
    /// Integers.
    Integers,
}

impl Form {
    /// Chooses the form of a block.
    #[inline(always)]
    pub fn choose<T: Scalar>(rank: u32, numbers: &Parameters, block: &[T]) -> Self {
        if numbers.are_integers {
            return Form::Integers;
        }
        let e = exponent(block);
        if numbers.is_reversible() {
            return choose_reversible(block, e);
        }
        Self::lossy::<T>(rank, numbers, e)
    }

    /// The form of a block that is not reversible, from the exponent of its floats.
    #[inline(always)]
    pub fn lossy<T: Scalar>(rank: u32, numbers: &Parameters, e: i32) -> Self {
        if numbers.are_integers {
            Form::Integers
        } else if is_tiny::<T>(e) || lossy_planes::<T>(rank, numbers, e) == 0 {
            Form::Zeros
        } else {
            Form::Scaled(e)
        }
    }

    /// Number of planes of a block that is not reversible.
    #[inline(always)]
    pub fn lossy_planes<T: Scalar>(self, rank: u32, numbers: &Parameters) -> u32 {
        match self {
            Form::Zeros => 0,
            Form::Scaled(e) => lossy_planes::<T>(rank, numbers, e),
            Form::Words | Form::Integers => numbers.maxprec,
        }
    }

    /// The factor by which a reader multiplies integers.
    #[inline(always)]
    pub fn power<T: Scalar>(self) -> T {
        match self {
            Form::Scaled(e) => T::power(e - (T::Word::BITS as i32 - 2)),
            _ => T::default(),
        }
    }

    /// The code of the form in the stream, and its number of bits.
    #[inline(always)]
    pub fn code<T: Scalar>(self, is_reversible: bool) -> (u64, u32) {
        let flag_bits = 1 + u32::from(is_reversible);
        match self {
            Form::Integers => (0, 0),
            Form::Zeros => (0, 1),
            Form::Scaled(e) => {
                let biased = (e + T::BIAS) as u64 & low_mask(T::EXPONENT_BITS);
                (1 | biased << flag_bits, flag_bits + T::EXPONENT_BITS)
            }
            Form::Words => (3, 2),
        }
    }

    /// Reads the form of a block.
    #[inline(always)]
    pub fn read<T: Scalar>(numbers: &Parameters, is_reversible: bool, bits: &mut BitReader) -> Self {
        // A single peek covers all of the code.
        let (code, flag_bits) = (bits.peek(), 1 + u32::from(is_reversible));
        let (form, n_bits) = match code & 3 {
            _ if numbers.are_integers => (Form::Integers, 0),
            0 | 2 => (Form::Zeros, 1),
            3 if is_reversible => (Form::Words, 2),
            _ => {
                let biased = code >> flag_bits & low_mask(T::EXPONENT_BITS);
                (Form::Scaled(biased as i32 - T::BIAS), flag_bits + T::EXPONENT_BITS)
            }
        };
        bits.skip(n_bits);
        form
    }

    /// Converts elements to integers.
    #[inline(always)]
    fn integers<T: Scalar>(self, block: &[T], integers: &mut [T::Word]) {
        match self {
            Form::Zeros => integers.fill(T::Word::default()),
            Form::Scaled(e) => {
                let power = T::power(T::Word::BITS as i32 - 2 - e);
                for (integer, value) in integers.iter_mut().zip(block) {
                    *integer = value.scaled(power);
                }
            }
            Form::Words => {
                for (integer, value) in integers.iter_mut().zip(block) {
                    *integer = sortable(value.word());
                }
            }
            Form::Integers => {
                for (integer, value) in integers.iter_mut().zip(block) {
                    *integer = value.word();
                }
            }
        }
    }

    /// Converts integers to elements.
    #[inline(always)]
    fn elements<T: Scalar>(self, integers: &[T::Word], block: &mut [T]) {
        match self {
            Form::Zeros => block.fill(T::default()),
            Form::Scaled(e) => {
                let power = T::power(e - (T::Word::BITS as i32 - 2));
                for (value, &integer) in block.iter_mut().zip(integers) {
                    *value = T::of_scaled(integer, power);
                }
            }
            Form::Words => {
                for (value, &integer) in block.iter_mut().zip(integers) {
                    *value = T::of_word(sortable(integer));
                }
            }
            Form::Integers => {
                for (value, &integer) in block.iter_mut().zip(integers) {
                    *value = T::of_word(integer);
                }
            }
        }
    }
}

/// Chooses scaled floats, which need fewer bits, if a decoder can restore every bit from them.
#[inline(always)]
fn choose_reversible<T: Scalar>(block: &[T], e: i32) -> Form {
    let (form, power, back) = if e == -T::BIAS {
        (Form::Zeros, T::default(), T::default())
    } else {
        let scale = T::Word::BITS as i32 - 2 - e;
        (Form::Scaled(e), T::power(scale), T::power(-scale))
    };
    let is_finite = e <= T::BIAS + 1;
    let comes_back = |value: &T| T::of_scaled(value.scaled(power), back).word() == value.word();
    let is_scaled = is_finite && (e == -T::BIAS || !is_tiny::<T>(e)) && block.iter().all(comes_back);
    if is_scaled { form } else { Form::Words }
}

/// Number of planes of a block that is not reversible; `e` is the exponent of its floats.
#[inline(always)]
pub fn lossy_planes<T: Scalar>(rank: u32, numbers: &Parameters, e: i32) -> u32 {
    if numbers.are_integers {
        numbers.maxprec
    } else if e == -T::BIAS {
        0
    } else {
        (e - numbers.minexp + 2 * rank as i32 + 2).clamp(0, numbers.maxprec as i32) as u32
    }
}

/// Transposes 8×8 bits: bit r of byte j becomes bit j of byte r.
#[inline(always)]
fn transposed(mut bits: u64) -> u64 {
    for (n, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0xf0f0_f0f0)] {
        let swapped = (bits ^ bits >> n) & mask;
        bits ^= swapped ^ swapped << n;
    }
    bits
}

/// Planes 8q to 8q + 7 of digits.
#[inline(always)]
fn eight_planes<W: Word, const M: usize>(digits: &[W], q: u32) -> [[u64; M]; 8] {
    let mut planes = [[0; M]; 8];
    for (m, eight) in digits.chunks(8).enumerate() {
        let mut bits = 0;
        for (j, digits) in eight.iter().enumerate() {
            bits |= (digits.to_u64() >> (8 * q) & 0xff) << (8 * j);
        }
        bits = transposed(bits);
        for (r, plane) in planes.iter_mut().enumerate() {
            plane[m / 8] |= (bits >> (8 * r) & 0xff) << (m % 8 * 8);
        }
    }
    planes
}

/// ORs planes 8q to 8q + 7 into digits.
#[inline(always)]
fn add_planes<W: Word, const M: usize>(digits: &mut [W], q: u32, planes: &[[u64; M]; 8]) {
    for (m, eight) in digits.chunks_mut(8).enumerate() {
        let mut bits = 0;
        for (r, plane) in planes.iter().enumerate() {
            bits |= (plane[m / 8] >> (m % 8 * 8) & 0xff) << (8 * r);
        }
        bits = transposed(bits);
        for (j, digits) in eight.iter_mut().enumerate() {
            *digits |= W::from_u64((bits >> (8 * j) & 0xff) << (8 * q));
        }
    }
}

/// See [`super::encode`]. Blocks have at most `N` elements, and their planes `M` words.
#[inline(always)]
pub fn encode<T: Scalar, const N: usize, const M: usize>(
    rank: u32,
    numbers: &Parameters,
    blocks: &[T],
    out: &mut BitWriter,
    mut decoded: Option<&mut [T]>,
) -> u32 {
    let mut n_bits = 0;
    let n = 1 << (2 * rank);
    for (i, block) in blocks.chunks_exact(n).enumerate() {
        let decoded = decoded.as_mut().map(|decoded| &mut decoded[i * n..][..n]);
        n_bits += encode_block::<T, N, M>(rank, numbers, block, out, decoded);
    }
    n_bits
}

/// Encodes a block.
#[inline(always)]
fn encode_block<T: Scalar, const N: usize, const M: usize>(
    rank: u32,
    numbers: &Parameters,
    block: &[T],
    out: &mut BitWriter,
    decoded: Option<&mut [T]>,
) -> u32 {
    let n = block.len();
    let start = out.position();
    let form = Form::choose(rank, numbers, block);
    let (code, n_bits) = form.code::<T>(numbers.is_reversible());
    out.put(code, n_bits);

    // The digits that a decoder sees.
    let seen = &mut [T::Word::default(); N][..n];
    if !matches!(form, Form::Zeros) {
        let integers = &mut [T::Word::default(); N][..n];
        form.integers(block, integers);
        transform(integers, rank, numbers.is_reversible());
        let digits = &mut [T::Word::default(); N][..n];
        for (digits, &place) in digits.iter_mut().zip(order(rank)) {
            *digits = to_negabinary(integers[usize::from(place)]);
        }
        let n_planes = match form {
            _ if numbers.is_reversible() => {
                let any = digits.iter().fold(T::Word::default(), |any, &digits| any | digits);
                let n = (T::Word::BITS - any.trailing_zeros()).max(1).min(numbers.maxprec);
                out.put(u64::from(n - 1), T::PLANES_BITS);
                n
            }
            Form::Scaled(e) => lossy_planes::<T>(rank, numbers, e),
            _ => numbers.maxprec,
        };
        let mut progress = Progress::new(numbers.maxbits.saturating_sub((out.position() - start) as u32));
        let lowest = T::Word::BITS.saturating_sub(n_planes);
        for q in (lowest / 8..T::Word::BITS / 8).rev() {
            let mut planes = eight_planes::<T::Word, M>(digits, q);
            for k in (0..8).rev() {
                if 8 * q + k < lowest || progress.left == 0 {
                    planes[k as usize] = [0; M];
                } else {
                    planes::write(out, &mut planes[k as usize], n as u32, &mut progress);
                }
            }
            if decoded.is_some() {
                add_planes(seen, q, &planes);
            }
            if progress.left == 0 {
                break;
            }
        }
    }
    if let Some(decoded) = decoded {
        elements_of::<T, N>(rank, numbers, form, seen, decoded);
    }
    let n_bits = (out.position() - start) as u32;
    out.put_zeros(numbers.minbits.saturating_sub(n_bits));
    n_bits.max(numbers.minbits)
}

/// See [`super::decode`].
#[inline(always)]
pub fn decode<T: Scalar, const N: usize, const M: usize>(
    rank: u32,
    numbers: &Parameters,
    bits: &mut BitReader,
    blocks: &mut [T],
) {
    for block in blocks.chunks_exact_mut(1 << (2 * rank)) {
        decode_block::<T, N, M>(rank, numbers, bits, block);
    }
}

/// Decodes a block.
#[inline(always)]
fn decode_block<T: Scalar, const N: usize, const M: usize>(
    rank: u32,
    numbers: &Parameters,
    bits: &mut BitReader,
    block: &mut [T],
) {
    let n = block.len();
    let start = bits.position();
    let form = Form::read::<T>(numbers, numbers.is_reversible(), bits);
    let n_planes = match form {
        Form::Zeros => 0,
        _ if numbers.is_reversible() => (bits.take(T::PLANES_BITS) as u32 + 1).min(numbers.maxprec),
        Form::Scaled(e) => lossy_planes::<T>(rank, numbers, e),
        Form::Words | Form::Integers => numbers.maxprec,
    };
    let mut progress = Progress::new(numbers.maxbits.saturating_sub((bits.position() - start) as u32));
    let lowest = T::Word::BITS.saturating_sub(n_planes);
    let digits = &mut [T::Word::default(); N][..n];
    for q in (lowest / 8..T::Word::BITS / 8).rev() {
        if progress.left == 0 {
            break;
        }
        let mut planes = [[0; M]; 8];
        for k in (0..8).rev() {
            if 8 * q + k >= lowest && progress.left > 0 {
                planes[k as usize] = planes::read(bits, n as u32, &mut progress);
            }
        }
        add_planes(digits, q, &planes);
    }
    elements_of::<T, N>(rank, numbers, form, digits, block);
    bits.skip(numbers.minbits.saturating_sub((bits.position() - start) as u32));
}

/// Converts digits to elements, as a decoder does.
#[inline(always)]
fn elements_of<T: Scalar, const N: usize>(
    rank: u32,
    numbers: &Parameters,
    form: Form,
    digits: &[T::Word],
    block: &mut [T],
) {
    let integers = &mut [T::Word::default(); N][..block.len()];
    if !matches!(form, Form::Zeros) {
        for (&digits, &place) in digits.iter().zip(order(rank)) {
            integers[usize::from(place)] = from_negabinary(digits);
        }
        restore(integers, rank, numbers.is_reversible());
    }
    form.elements(integers, block);
}
