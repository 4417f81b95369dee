//! Decodes blocks with up to three axes.

use super::super::Parameters;
use super::super::bits::BitReader;
use super::super::scalar::Form;
use super::super::value::Scalar;
use super::read::Stream;
use super::side::SIDE_BY_SIDE;
use super::{BUNDLE, LANES, Machine, Value, avx512_level, read, short, side};
use crate::stage::word::Word;

/// Converts digits to elements, as many as fit in `to`.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub(super) unsafe fn elements_to<T: Scalar, M: Machine<T>, const RANK: usize>(
    are_integers: bool,
    digits: M::Digits,
    powers: &[T; LANES],
    to: &mut [T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(whole) = to.first_chunk_mut() {
            return M::elements::<RANK>(digits, are_integers, powers, whole);
        }
        let mut elements = [T::default(); BUNDLE];
        M::elements::<RANK>(digits, are_integers, powers, &mut elements);
        to.copy_from_slice(&elements[..to.len()]);
    }
}

/// Decodes blocks with up to three axes and `N` elements each: `S` sequences of the same number of
/// blocks, side by side, from the bits at `at` on.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn decode_side_by_side<T: Scalar, M: Machine<T>, const RANK: usize, const N: usize, const S: usize>(
    numbers: &Parameters,
    bytes: &[u8],
    at: &mut [usize; S],
    blocks: &mut [T],
) {
    let n_lanes = LANES * N / BUNDLE;
    let n_elements = blocks.len() / S;
    for first in (0..n_elements).step_by(BUNDLE) {
        let n = (n_elements - first).min(BUNDLE);
        let mut powers = [[T::default(); LANES]; S];
        let mut planes = [[0; 64]; S];
        let mut rows = [[[0; 72]; LANES]; S];
        for b in 0..n / N {
            let (mut streams, mut ends) = ([Stream::new(0, 0, 0, 0); S], [0; S]);
            for i in 0..S {
                let mut bits = BitReader::new(bytes, at[i]);
                let form = Form::read::<T>(numbers, false, &mut bits);
                let n_planes = form.lossy_planes::<T>(RANK as u32, numbers);
                let end = at[i] + numbers.maxbits as usize;
                let lowest = T::Word::BITS.saturating_sub(n_planes);
                if RANK == 1 {
                    let n_planes = (T::Word::BITS - lowest) as usize;
                    // SAFETY: the caller's promise.
                    ends[i] = unsafe { short::planes(bytes, bits.position(), end, n_planes, &mut rows[i][b]) };
                } else {
                    streams[i] = Stream::new(bits.position(), end, T::Word::BITS, lowest);
                    streams[i].skip_zeros(bytes);
                }
                let power = form.power();
                for lane in 0..n_lanes {
                    powers[i][b * n_lanes + lane] = power;
                }
            }
            if RANK > 1 {
                // SAFETY: the caller's promise.
                unsafe { read::planes::<N, S>(bytes, &mut streams, b * N % BUNDLE, &mut planes) };
                ends = streams.map(|stream| stream.at);
            }
            for i in 0..S {
                let least = at[i] + numbers.minbits as usize;
                // With fixed lengths, no block depends on the bits of the previous one.
                at[i] = if numbers.is_fixed() { least } else { ends[i].max(least) };
            }
        }
        for i in 0..S {
            if RANK == 1 {
                // SAFETY: the caller's promise.
                planes[i] = unsafe { M::planes_of_rows(&rows[i]) };
            }
            let to = &mut blocks[i * n_elements + first..][..n];
            // SAFETY: the caller's promise.
            unsafe {
                elements_to::<T, M, RANK>(numbers.are_integers, M::of_planes::<RANK>(&planes[i]), &powers[i], to)
            };
        }
    }
}

/// Decodes blocks with up to three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub(super) unsafe fn decode_blocks<T: Value, M: Machine<T>, const RANK: usize, const N: usize, const S: usize>(
    numbers: &Parameters,
    bytes: &[u8],
    at: &mut [usize; S],
    blocks: &mut [T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if S == SIDE_BY_SIDE && RANK < 3 {
            side::decode::<T, M, RANK, N>(numbers, bytes, at, blocks);
        } else if S == 1 && numbers.is_fixed() && blocks.len() == 4 * BUNDLE {
            // The start of the other blocks of the sequence is known, so they are decoded as four
            // sequences.
            let n_bits = BUNDLE / N * numbers.maxbits as usize;
            let mut four = [at[0], at[0] + n_bits, at[0] + 2 * n_bits, at[0] + 3 * n_bits];
            avx512_level::decode(RANK, numbers, bytes, &mut four, blocks);
            at[0] = four[3];
        } else {
            decode_side_by_side::<T, M, RANK, N, S>(numbers, bytes, at, blocks);
        }
    }
}
