//! Decodes short blocks side by side, each in a lane of a register, without branches for single
//! blocks. Blocks without remaining bits read nothing.

use std::arch::x86_64::*;

use super::super::Parameters;
use super::super::bits::BitReader;
use super::super::scalar::Form;
use super::super::value::Scalar;
use super::decode::elements_to;
use super::lanes::load;
use super::strings::words;
use super::{BUNDLE, LANES, Machine, side_4, side_16};
use crate::stage::bits::window;
use crate::stage::word::Word;

/// Blocks per register, one per lane.
pub const EIGHT: usize = 8;

/// One value for each of these blocks.
pub type Lanes = [u64; EIGHT];

/// Blocks that are decoded side by side.
pub const SIDE_BY_SIDE: usize = 2 * EIGHT;

/// Bit ranges and numbers of planes of the blocks, in two registers each.
pub struct Blocks {
    /// Start of each block's planes; after reading, their end.
    pub at: [Lanes; 2],
    /// End of each block's bits.
    pub end: [Lanes; 2],
    /// Maximum number of planes of each block.
    pub n_planes: [Lanes; 2],
}

impl Blocks {
    /// The bits that remain of each block: where they end, and their number.
    ///
    /// # Safety
    /// The CPU must have AVX-512.
    #[inline(always)]
    pub unsafe fn bits(&self) -> [[__m512i; 2]; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut bits = [[_mm512_setzero_si512(); 2]; 2];
            for r in 0..2 {
                let at = load(&self.at[r]);
                bits[0][r] = _mm512_max_epu64(load(&self.end[r]), at);
                bits[1][r] = _mm512_sub_epi64(bits[0][r], at);
            }
            bits
        }
    }
}

/// The next bits from each position on, at least [`WINDOW_BITS`](crate::stage::bits::WINDOW_BITS).
/// Bits after the end are zero.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
pub unsafe fn windows(bytes: &[u8], at: __m512i) -> __m512i {
    // SAFETY: the caller's promise; all loads are within the bytes.
    unsafe {
        let starts = _mm512_srli_epi64::<3>(at);
        let last = _mm512_set1_epi64((bytes.len() as i64).wrapping_sub(8));
        let inside = _mm512_cmple_epi64_mask(starts, last);
        if inside != 0xff {
            return load(&last_windows(bytes, &words(at)));
        }
        let loaded = _mm512_i64gather_epi64::<1>(starts, bytes.as_ptr().cast());
        _mm512_srlv_epi64(loaded, _mm512_and_si512(at, _mm512_set1_epi64(7)))
    }
}

/// [`windows`], if some are at the end of the bytes.
#[cold]
#[inline(never)]
fn last_windows(bytes: &[u8], at: &Lanes) -> Lanes {
    at.map(|at| window(bytes, at as usize))
}

/// Decodes blocks with one or two axes and `N` elements each: sixteen sequences of the same number
/// of blocks, side by side, each in a lane of two registers.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub unsafe fn decode<T: Scalar, M: Machine<T>, const RANK: usize, const N: usize>(
    numbers: &Parameters,
    bytes: &[u8],
    at: &mut [usize],
    blocks: &mut [T],
) {
    let n_lanes = LANES * N / BUNDLE;
    let n_elements = blocks.len() / SIDE_BY_SIDE;
    for first in (0..n_elements).step_by(BUNDLE) {
        let n = (n_elements - first).min(BUNDLE);
        let mut powers = [[[T::default(); LANES]; EIGHT]; 2];
        let mut words = [[[0; EIGHT]; 2]; 64];
        for (b, words) in words.chunks_exact_mut(T::Word::BITS as usize * N / 64).enumerate().take(n / N) {
            let mut lanes = Blocks { at: [[0; EIGHT]; 2], end: [[0; EIGHT]; 2], n_planes: [[0; EIGHT]; 2] };
            for i in 0..SIDE_BY_SIDE {
                let (r, lane) = (i / EIGHT, i % EIGHT);
                let mut bits = BitReader::new(bytes, at[i]);
                let form = Form::read::<T>(numbers, false, &mut bits);
                lanes.at[r][lane] = bits.position() as u64;
                lanes.end[r][lane] = (at[i] + numbers.maxbits as usize) as u64;
                lanes.n_planes[r][lane] = form.lossy_planes::<T>(RANK as u32, numbers).min(T::Word::BITS).into();
                powers[r][lane][b * n_lanes..(b + 1) * n_lanes].fill(form.power());
            }
            // SAFETY: the caller's promise.
            unsafe {
                match T::Word::BITS {
                    32 if RANK == 1 => side_4::planes::<2>(bytes, &mut lanes, words),
                    _ if RANK == 1 => side_4::planes::<4>(bytes, &mut lanes, words),
                    _ => side_16::planes(bytes, &mut lanes, words),
                }
            }
            for i in 0..SIDE_BY_SIDE {
                at[i] = (lanes.at[i / EIGHT][i % EIGHT] as usize).max(at[i] + numbers.minbits as usize);
            }
        }
        for i in 0..SIDE_BY_SIDE {
            let to = &mut blocks[i * n_elements + first..][..n];
            let (r, lane) = (i / EIGHT, i % EIGHT);
            // SAFETY: the caller's promise.
            unsafe {
                let planes = M::planes_of_words::<RANK>(|word| words[word][r][lane]);
                elements_to::<T, M, RANK>(
                    numbers.are_integers,
                    M::of_planes::<RANK>(&planes),
                    &powers[r][lane],
                    to,
                );
            }
        }
    }
}
