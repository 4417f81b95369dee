//! Encodes blocks with up to three axes.

use super::super::Parameters;
use super::super::bits::Room;
use super::super::scalar::{Form, lossy_planes};
use super::super::value::exponent_of;
use super::decode::elements_to;
use super::{BUNDLE, LANES, Machine, ShortStrings, Value, avx512_level, slot};
use crate::stage::word::Word;

/// Encodes blocks with three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub(super) unsafe fn encode_3<T: Value, M: Machine<T>>(
    numbers: &Parameters,
    blocks: &[T],
    out: &mut Room,
    mut decoded: Option<&mut [T]>,
) {
    for (i, block) in blocks.as_chunks().0.iter().enumerate() {
        let start = out.position();
        let mut largest = [T::Word::default(); LANES];
        // SAFETY: the caller's promise.
        let integers = unsafe { M::integers::<3>(block, numbers.are_integers, &mut largest) };
        let e = exponent_of::<T>(largest[0]);
        let form = Form::lossy::<T>(3, numbers, e);
        let (code, n_bits) = form.code::<T>(false);
        out.put(code, n_bits);
        let decoded = decoded.as_deref_mut().map(|decoded| &mut decoded.as_chunks_mut().0[i]);
        if matches!(form, Form::Zeros) {
            if let Some(decoded) = decoded {
                decoded.fill(T::default());
            }
        } else {
            let lowest = T::Word::BITS.saturating_sub(lossy_planes::<T>(3, numbers, e));
            // SAFETY: the caller's promise.
            unsafe {
                let digits = M::digits::<3>(integers);
                let end = start + numbers.maxbits as usize;
                let mut above = 0;
                for q in (lowest as usize / 8..T::Word::BYTES).rev() {
                    let planes = M::eight_planes::<3>(&digits, q);
                    let mut strings =
                        M::strings(planes, above, lowest.saturating_sub(8 * q as u32), out.position());
                    // The strings are forced to memory, where scalar code can read single words
                    // without moving them from vector registers.
                    let strings = &*std::hint::black_box(&mut strings);
                    out.put_eight(&strings.at, &strings.bits, strings.end);
                    above = strings.above;
                    if strings.end >= end {
                        break;
                    }
                }
                // Planes may be missing even if no bit was truncated.
                let is_cut = out.position() >= end;
                out.end_at(end, start + numbers.minbits as usize);
                if let Some(decoded) = decoded {
                    if is_cut {
                        avx512_level::decode(3, numbers, out.bytes(), &mut [start], decoded);
                    } else {
                        let digits = M::kept(digits, &[kept_digits(lowest); LANES]);
                        M::elements::<3>(digits, numbers.are_integers, &[form.power::<T>(); LANES], decoded);
                    }
                }
            }
        }
        out.end_at(usize::MAX, start + numbers.minbits as usize);
    }
}

/// A mask of the planes from `lowest` on.
#[inline(always)]
fn kept_digits<W: Word>(lowest: u32) -> W {
    W::from_u64(u64::MAX.checked_shl(lowest).unwrap_or(0))
}

/// Encodes blocks with one or two axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
pub(super) unsafe fn encode_short<T: Value, M: Machine<T>, const RANK: usize, const N: usize>(
    numbers: &Parameters,
    blocks: &[T],
    out: &mut Room,
    mut decoded: Option<&mut [T]>,
) {
    let n_lanes = LANES * N / BUNDLE;
    for (i, bundle) in blocks.chunks(BUNDLE).enumerate() {
        let mut copy;
        let elements = match bundle.as_chunks().0.first() {
            Some(whole) => whole,
            None => {
                copy = [T::default(); BUNDLE];
                copy[..bundle.len()].copy_from_slice(bundle);
                &copy
            }
        };
        let n_blocks = bundle.len() / N;
        let mut largest = [T::Word::default(); LANES];
        // SAFETY: the caller's promise.
        let integers = unsafe { M::integers::<RANK>(elements, numbers.are_integers, &mut largest) };
        let mut forms = [Form::Zeros; LANES];
        let mut lowest = [u64::from(T::Word::BITS); LANES];
        let mut n_bits = [0; LANES];
        for b in 0..n_blocks {
            let e = exponent_of::<T>(largest[b * n_lanes]);
            forms[b] = Form::lossy::<T>(RANK as u32, numbers, e);
            let n_planes = forms[b].lossy_planes::<T>(RANK as u32, numbers);
            lowest[slot::<RANK>(b)] = T::Word::BITS.saturating_sub(n_planes).into();
            n_bits[b] = forms[b].code::<T>(false).1;
        }
        let last = lowest.iter().fold(u64::from(T::Word::BITS), |a, &b| a.min(b)) as usize / 8;
        // SAFETY: the caller's promise.
        let digits = unsafe { M::digits::<RANK>(integers) };
        let mut strings = [ShortStrings { bits: [0; LANES], length: [0; LANES], above: 0 }; 8];
        let (mut first, mut above) = (T::Word::BYTES, 0);
        while first > last {
            first -= 1;
            // SAFETY: the caller's promise.
            strings[first] = unsafe {
                let planes = M::eight_planes::<RANK>(&digits, first);
                M::short_strings::<RANK>(planes, above, first, &lowest)
            };
            above = strings[first].above;
            let mut is_done = true;
            for b in 0..n_blocks {
                for k in 0..n_lanes {
                    n_bits[b] += strings[first].length[slot::<RANK>(b) * n_lanes + k] as u32;
                }
                is_done &= n_bits[b] >= numbers.maxbits || matches!(forms[b], Form::Zeros);
            }
            if is_done {
                break;
            }
        }
        let (start, mut is_cut) = (out.position(), false);
        for b in 0..n_blocks {
            let start = out.position();
            let end = start + numbers.maxbits as usize;
            let (code, n) = forms[b].code::<T>(false);
            out.put(code, n);
            for strings in strings[first..T::Word::BYTES].iter().rev() {
                for k in 0..n_lanes {
                    let at = slot::<RANK>(b) * n_lanes + k;
                    out.put(strings.bits[at], strings.length[at] as u32);
                }
            }
            is_cut |= out.position() >= end;
            out.end_at(end, start + numbers.minbits as usize);
        }
        if let Some(decoded) = decoded.as_deref_mut() {
            let decoded = &mut decoded[i * BUNDLE..][..bundle.len()];
            // SAFETY: the caller's promise.
            unsafe {
                if is_cut {
                    avx512_level::decode(RANK, numbers, out.bytes(), &mut [start], decoded);
                } else {
                    let mut masks = [T::Word::default(); LANES];
                    let mut powers = [T::default(); LANES];
                    for lane in 0..LANES {
                        let at = slot::<RANK>(if RANK == 1 { lane } else { lane % 4 });
                        masks[lane] = kept_digits(lowest[at] as u32);
                        powers[lane] = forms[lane / n_lanes].power();
                    }
                    let digits = M::kept(digits, &masks);
                    elements_to::<T, M, RANK>(numbers.are_integers, digits, &powers, decoded);
                }
            }
        }
    }
}
