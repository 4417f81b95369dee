//! Blocks step by step: the definition.

use super::bits::{BitReader, BitWriter};
use super::order::order;
use super::planes::{self, Progress};
use super::transform::{from_negabinary, restore, to_negabinary, transform};
use super::value::{Value, exponent, is_tiny, sortable};
use crate::codec::zfp::numbers::Numbers;
use crate::stage::word::Word;

/// How the elements of a block are integers.
#[derive(Clone, Copy)]
pub enum Form {
    /// All are zero: there are no planes.
    Zeros,
    /// They are floats times a power of two, by the block's exponent.
    Scaled(i32),
    /// They are the elements' words.
    Words,
}

impl Form {
    /// The form in which a block is coded.
    #[inline(always)]
    pub fn choose<T: Value>(rank: u32, numbers: &Numbers, block: &[T]) -> Self {
        if !T::IS_FLOAT {
            return Form::Words;
        }
        let e = exponent(block);
        if numbers.is_reversible() {
            return choose_reversible(block, e);
        }
        if lossy_planes::<T>(rank, numbers, e) == 0 { Form::Zeros } else { Form::Scaled(e) }
    }

    /// Writes what tells a reader the form; the number of bits.
    #[inline(always)]
    pub fn write<T: Value>(self, is_reversible: bool, out: &mut BitWriter) {
        let flag_bits = 1 + u32::from(is_reversible);
        match self {
            _ if !T::IS_FLOAT => (),
            Form::Zeros => out.put(0, 1),
            Form::Scaled(e) => {
                let biased = (e + T::BIAS) as u64 & ((1 << T::EXPONENT_BITS) - 1);
                out.put(1 | biased << flag_bits, flag_bits + T::EXPONENT_BITS);
            }
            Form::Words => out.put(3, 2),
        }
    }

    /// Reads the form of a block.
    #[inline(always)]
    pub fn read<T: Value>(is_reversible: bool, bits: &mut BitReader) -> Self {
        if !T::IS_FLOAT {
            Form::Words
        } else if bits.take(1) == 0 {
            Form::Zeros
        } else if is_reversible && bits.take(1) == 1 {
            Form::Words
        } else {
            Form::Scaled(bits.take(T::EXPONENT_BITS) as i32 - T::BIAS)
        }
    }

    /// Makes integers of elements.
    #[inline(always)]
    fn integers<T: Value>(self, block: &[T], integers: &mut [T::Word]) {
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
                    *integer = sortable::<T>(value.word());
                }
            }
        }
    }

    /// Makes elements of integers.
    #[inline(always)]
    fn elements<T: Value>(self, integers: &[T::Word], block: &mut [T]) {
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
                    *value = T::of_word(sortable::<T>(integer));
                }
            }
        }
    }
}

/// Scaled floats are smaller where a decoder gets every bit of them back.
#[inline(always)]
fn choose_reversible<T: Value>(block: &[T], e: i32) -> Form {
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

/// Planes of a block that is not reversible; the exponent is that of floats.
#[inline(always)]
pub fn lossy_planes<T: Value>(rank: u32, numbers: &Numbers, e: i32) -> u32 {
    if !T::IS_FLOAT {
        numbers.maxprec
    } else if e == -T::BIAS {
        0
    } else {
        (e - numbers.minexp + 2 * rank as i32 + 2).clamp(0, numbers.maxprec as i32) as u32
    }
}

/// The planes of digits.
#[inline(always)]
fn planes_of<W: Word, const N: usize, const M: usize>(digits: &[W; N]) -> [[u64; M]; 64] {
    let mut planes = [[0; M]; 64];
    for (i, digits) in digits.iter().enumerate() {
        let digits = digits.to_u64();
        for (k, plane) in planes[..W::BITS as usize].iter_mut().enumerate() {
            plane[i / 64] |= (digits >> k & 1) << (i % 64);
        }
    }
    planes
}

/// The digits with these planes.
#[inline(always)]
fn digits_of<W: Word, const N: usize, const M: usize>(planes: &[[u64; M]; 64]) -> [W; N] {
    std::array::from_fn(|i| {
        let bit = |k: usize| (planes[k][i / 64] >> (i % 64) & 1) << k;
        W::from_u64((0..W::BITS as usize).fold(0, |digits, k| digits | bit(k)))
    })
}

/// See [`super::encode`] and [`super::encode_checked`]. `N` elements have planes of `M` words.
pub fn encode<T: Value, const N: usize, const M: usize>(
    numbers: &Numbers,
    blocks: &[T],
    out: &mut BitWriter,
    mut decoded: Option<&mut [T]>,
) -> u32 {
    let mut n_bits = 0;
    for (i, block) in blocks.as_chunks::<N>().0.iter().enumerate() {
        let decoded = decoded.as_deref_mut().map(|decoded| &mut decoded.as_chunks_mut().0[i]);
        n_bits += encode_block::<T, N, M>(numbers, block, out, decoded);
    }
    n_bits
}

/// Encodes a block.
fn encode_block<T: Value, const N: usize, const M: usize>(
    numbers: &Numbers,
    block: &[T; N],
    out: &mut BitWriter,
    decoded: Option<&mut [T; N]>,
) -> u32 {
    let rank = N.ilog2() / 2;
    let start = out.position();
    let form = Form::choose(rank, numbers, block);
    form.write::<T>(numbers.is_reversible(), out);

    let mut planes = [[0; M]; 64];
    if !matches!(form, Form::Zeros) {
        let mut integers = [T::Word::default(); N];
        form.integers(block, &mut integers);
        transform(&mut integers, rank, numbers.is_reversible());
        let mut digits = [T::Word::default(); N];
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
        let all = planes_of::<T::Word, N, M>(&digits);
        for k in (T::Word::BITS.saturating_sub(n_planes)..T::Word::BITS).rev() {
            if progress.left == 0 {
                break;
            }
            planes[k as usize] = all[k as usize];
            planes::write(out, &mut planes[k as usize], N as u32, &mut progress);
        }
    }
    if let Some(decoded) = decoded {
        elements_of::<T, N, M>(numbers, form, &planes, decoded);
    }
    let n_bits = (out.position() - start) as u32;
    out.put_zeros(numbers.minbits.saturating_sub(n_bits));
    n_bits.max(numbers.minbits)
}

/// See [`super::decode`].
pub fn decode<T: Value, const N: usize, const M: usize>(
    numbers: &Numbers,
    bits: &mut BitReader,
    blocks: &mut [T],
) -> u32 {
    blocks.as_chunks_mut().0.iter_mut().map(|block| decode_block::<T, N, M>(numbers, bits, block)).sum()
}

/// Decodes a block.
fn decode_block<T: Value, const N: usize, const M: usize>(
    numbers: &Numbers,
    bits: &mut BitReader,
    block: &mut [T; N],
) -> u32 {
    let rank = N.ilog2() / 2;
    let start = bits.position();
    let form = Form::read::<T>(numbers.is_reversible(), bits);
    let n_planes = match form {
        Form::Zeros => 0,
        _ if numbers.is_reversible() => (bits.take(T::PLANES_BITS) as u32 + 1).min(numbers.maxprec),
        Form::Scaled(e) => lossy_planes::<T>(rank, numbers, e),
        Form::Words => numbers.maxprec,
    };
    let mut progress = Progress::new(numbers.maxbits.saturating_sub((bits.position() - start) as u32));
    let mut planes = [[0; M]; 64];
    for k in (T::Word::BITS.saturating_sub(n_planes)..T::Word::BITS).rev() {
        if progress.left == 0 {
            break;
        }
        planes[k as usize] = planes::read(bits, N as u32, &mut progress);
    }
    elements_of::<T, N, M>(numbers, form, &planes, block);
    let n_bits = (bits.position() - start) as u32;
    bits.skip(numbers.minbits.saturating_sub(n_bits));
    n_bits.max(numbers.minbits)
}

/// What a decoder makes of planes.
#[inline(always)]
fn elements_of<T: Value, const N: usize, const M: usize>(
    numbers: &Numbers,
    form: Form,
    planes: &[[u64; M]; 64],
    block: &mut [T; N],
) {
    let rank = N.ilog2() / 2;
    let mut integers = [T::Word::default(); N];
    if !matches!(form, Form::Zeros) {
        let digits: [T::Word; N] = digits_of(planes);
        for (&digits, &place) in digits.iter().zip(order(rank)) {
            integers[usize::from(place)] = from_negabinary(digits);
        }
        restore(&mut integers, rank, numbers.is_reversible());
    }
    form.elements(&integers, block);
}
