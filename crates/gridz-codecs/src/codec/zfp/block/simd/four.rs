//! Blocks with four axes: four bundles, whose planes are adjacent words.

use super::super::bits::{BitReader, BitWriter};
use super::super::order::order;
use super::super::planes::{self, Progress};
use super::super::scalar::Form;
use super::super::value::{Scalar, exponent};
use super::super::{Encode, GROUP, Parameters};
use super::{BUNDLE, Machine};
use crate::stage::word::Word;

/// Bundles of a block.
const BUNDLES: usize = GROUP / BUNDLE;

/// The planes of a block, by bundles.
type Planes = [[u64; 64]; BUNDLES];

/// Encodes blocks with four axes. Returns the number of their bits.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub unsafe fn encode_4<T: Scalar, M: Machine<T>>(task: Encode<T>) -> u32 {
    let Encode { numbers, blocks, out, mut decoded, .. } = task;
    let start = out.position();
    for (i, block) in blocks.as_chunks::<GROUP>().0.iter().enumerate() {
        let start = out.position();
        let form = Form::lossy::<T>(4, numbers, exponent(block));
        let (code, n_bits) = form.code::<T>(false);
        out.put(code, n_bits);
        let mut planes = [[0; 64]; BUNDLES];
        if !matches!(form, Form::Zeros) {
            // SAFETY: the caller's promise.
            unsafe { write_planes::<T, M>(numbers, form, start, block, out, &mut planes) };
        }
        if let Some(decoded) = decoded.as_deref_mut() {
            // SAFETY: the caller's promise.
            unsafe { elements_of::<T, M>(numbers, &planes, form, &mut decoded.as_chunks_mut().0[i]) };
        }
        let n_bits = (out.position() - start) as u32;
        out.put_zeros(numbers.minbits.saturating_sub(n_bits));
    }
    (out.position() - start) as u32
}

/// The power of two by which floats are multiplied; `None` for integers.
#[inline(always)]
fn scale<T: Scalar>(parameters: &Parameters, power: T) -> Option<T> {
    if parameters.are_integers { None } else { Some(power) }
}

/// Writes the planes of a block whose bits begin at `start`. `planes` becomes what a reader
/// decodes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn write_planes<T: Scalar, M: Machine<T>>(
    numbers: &Parameters,
    form: Form,
    start: usize,
    block: &[T; GROUP],
    out: &mut BitWriter,
    planes: &mut Planes,
) {
    let power = match form {
        Form::Scaled(e) => T::power(T::Word::BITS as i32 - 2 - e),
        _ => T::default(),
    };
    let mut numbers_of = [T::Word::default(); GROUP];
    // SAFETY: the caller's promise.
    unsafe { M::digits_4(block, scale::<T>(numbers, power), &mut numbers_of) };
    let mut digits = [T::Word::default(); GROUP];
    for (digits, &place) in digits.iter_mut().zip(order(4)) {
        *digits = numbers_of[usize::from(place)];
    }
    let n_planes = form.lossy_planes::<T>(4, numbers);
    let mut progress = Progress::new(numbers.maxbits.saturating_sub((out.position() - start) as u32));
    let lowest = T::Word::BITS.saturating_sub(n_planes) as usize;
    let bundles = digits.as_chunks::<BUNDLE>().0;
    for q in (lowest / 8..T::Word::BYTES).rev() {
        let mut eight = [[0; 8]; BUNDLES];
        for (eight, bundle) in eight.iter_mut().zip(bundles) {
            // SAFETY: the caller's promise.
            *eight = unsafe { M::eight_planes::<4>(&M::load(bundle), q) };
        }
        for k in (lowest.saturating_sub(8 * q)..8).rev() {
            if progress.left == 0 {
                return;
            }
            let mut plane = [eight[0][k], eight[1][k], eight[2][k], eight[3][k]];
            planes::write(out, &mut plane, GROUP as u32, &mut progress);
            for (planes, plane) in planes.iter_mut().zip(plane) {
                planes[8 * q + k] = plane;
            }
        }
    }
}

/// Decodes consecutive blocks with four axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub unsafe fn decode_4<T: Scalar, M: Machine<T>>(
    numbers: &Parameters,
    bytes: &[u8],
    at: &mut usize,
    blocks: &mut [T],
) {
    for block in blocks.as_chunks_mut::<GROUP>().0 {
        let mut bits = BitReader::new(bytes, *at);
        let form = Form::read::<T>(numbers, false, &mut bits);
        let n_planes = form.lossy_planes::<T>(4, numbers);
        let mut progress = Progress::new(numbers.maxbits.saturating_sub((bits.position() - *at) as u32));
        let mut planes = [[0; 64]; BUNDLES];
        for k in (T::Word::BITS.saturating_sub(n_planes) as usize..T::Word::BITS as usize).rev() {
            if progress.left == 0 {
                break;
            }
            let plane: [u64; BUNDLES] = planes::read(&mut bits, GROUP as u32, &mut progress);
            for (planes, plane) in planes.iter_mut().zip(plane) {
                planes[k] = plane;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { elements_of::<T, M>(numbers, &planes, form, block) };
        *at = bits.position().max(*at + numbers.minbits as usize);
    }
}

/// Converts planes to elements, as a decoder does.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn elements_of<T: Scalar, M: Machine<T>>(
    parameters: &Parameters,
    planes: &Planes,
    form: Form,
    block: &mut [T; GROUP],
) {
    let mut digits = [T::Word::default(); GROUP];
    for (digits, planes) in digits.as_chunks_mut::<BUNDLE>().0.iter_mut().zip(planes) {
        // SAFETY: the caller's promise.
        unsafe { M::store(M::of_planes::<4>(planes), digits) };
    }
    let mut numbers = [T::Word::default(); GROUP];
    for (&digits, &place) in digits.iter().zip(order(4)) {
        numbers[usize::from(place)] = digits;
    }
    // SAFETY: the caller's promise.
    unsafe { M::elements_4(&numbers, scale::<T>(parameters, form.power()), block) };
}
