//! Every element of a slice, one after the other: for all that is not in a hurry.

use crate::sparse::element::Element;
use crate::sparse::frame::{View, step};
use crate::sparse::layout::{BLOCKED, LANES, RELATIVE, Slice};
use crate::sparse::values::Values;

/// An element of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Its lane.
    pub lane: usize,
    /// Its step, of those that have values.
    pub step: usize,
    /// Its column.
    pub column: u64,
}

/// Calls `see` for every element of slice `i`, step by step.
pub fn walk_columns(view: &View, i: usize, see: &mut impl FnMut(Walk)) {
    let slice = view.slice(i);
    match slice.width {
        0 => walk::<0>(view, &slice, see),
        1 => walk::<1>(view, &slice, see),
        2 => walk::<2>(view, &slice, see),
        4 => walk::<4>(view, &slice, see),
        _ => walk::<8>(view, &slice, see),
    }
}

fn walk<const W: usize>(view: &View, slice: &Slice, see: &mut impl FnMut(Walk)) {
    let block = view.head.block;
    let (side, phase, n_codes) = (slice.side(block), slice.phase(block), slice.n_codes(block));
    let codes = view.codes(slice);
    let steps = view.steps(slice);
    let origins = origins(view, slice);
    for k in 0..steps.len() {
        let one = step(steps, k);
        let codes = &codes[k * n_codes * W..][..n_codes * W];
        for j in 0..side {
            for (lane, origin) in origins.iter().enumerate() {
                if one.mask >> lane & 1 != 0 {
                    let at = if side > 1 { (phase + lane) / block } else { lane };
                    let column = origin.wrapping_add(u64::from(one.offset)).wrapping_add(code::<W>(codes, at));
                    // A block at the end of all numbers would begin again at 0.
                    let column = column.saturating_add(j as u64);
                    see(Walk { lane, step: k * side + j, column });
                }
            }
        }
    }
}

/// Calls `see` for every element of slice `i` with its value.
pub fn walk_elements<T: Element, V: Values<T>>(view: &View, values: V, i: usize, mut see: impl FnMut(Walk, T)) {
    let of = values.of_slice(i, &view.slice(i));
    let mut last = (usize::MAX, [T::default(); LANES]);
    walk_columns(view, i, &mut |at: Walk| {
        if at.step != last.0 {
            last = (at.step, values.step(of, at.step));
        }
        see(at, last.1[at.lane]);
    });
}

/// What is added to the columns of each lane of a slice.
#[inline(always)]
fn origins(view: &View, slice: &Slice) -> [u64; LANES] {
    let mut origins = [slice.base; LANES];
    if slice.has(RELATIVE) {
        let (rows, subs) = view.lanes(slice);
        let is_blocked = slice.has(BLOCKED);
        for (lane, origin) in origins.iter_mut().enumerate() {
            let sub = if is_blocked { u64::from(subs[lane]) } else { 0 };
            *origin = origin.wrapping_add(rows[lane].wrapping_sub(sub));
        }
    }
    origins
}

/// Code `i` of `W` bytes.
#[inline(always)]
fn code<const W: usize>(codes: &[u8], i: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..W].copy_from_slice(&codes[i * W..][..W]);
    u64::from_le_bytes(bytes)
}
