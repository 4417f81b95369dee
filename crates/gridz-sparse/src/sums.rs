//! Sums of a slice, without explicit vector instructions and in any semiring: 32 lanes in parallel,
//! one step after the other.
#![allow(unsafe_code, reason = "columns have been compared with the vector's length when the matrix was made")]

use crate::access::AnyValues;
use crate::element::{Element, Ring};
use crate::frame::{View, step};
use crate::layout::{BLOCKED, IN_ORDER, LANES, RELATIVE, Slice};
use crate::values::Values;
use crate::walk::walk_elements;

/// Largest length of vectors whose columns fit in 32 bits.
pub const NARROW: u64 = 1 << 32;

/// A sum for each lane.
pub type Sums<T> = [T; LANES];

/// Inputs of a product: the matrix, its values and the vector.
pub struct Job<'a, T, V> {
    /// The matrix.
    pub view: View<'a>,
    /// Its values.
    pub values: V,
    /// The vector.
    pub x: &'a [T],
}

impl<T: Element, V: Values<T>> Job<'_, T, V> {
    /// The sums of the lanes of slice `i`, which has no blocks.
    #[inline(always)]
    pub fn slice<R: Ring<T>>(&self, i: usize, slice: &Slice) -> Option<Sums<T>> {
        let is_in_order = slice.order_at == IN_ORDER && i < self.view.head.n_slices;
        match slice.width {
            0 if slice.has(RELATIVE) && is_in_order => Some(self.diagonals::<R>(i, slice)),
            0 | 1 | 2 | 4 if self.x.len() as u64 <= NARROW => Some(self.lanes::<R>(i, slice)),
            _ => None,
        }
    }

    /// As [`Self::slice`], in less code: one loop for all widths of codes, with blocks or without.
    #[inline(always)]
    pub fn slice_small<R: Ring<T>>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let (view, width, is_blocked) = (&self.view, usize::from(slice.width), slice.has(BLOCKED));
        if (is_blocked, width) == (false, 0)
            && slice.has(RELATIVE)
            && slice.order_at == IN_ORDER
            && i < view.head.n_slices
        {
            return self.diagonals::<R>(i, slice);
        }
        if self.x.len() as u64 > NARROW || !matches!(width, 0 | 1 | 2 | 4) {
            return self.any::<R>(i);
        }
        let block = if is_blocked { view.head.block } else { 1 };
        let n_codes = if is_blocked { slice.n_codes(block) } else { LANES };
        let phase = if is_blocked { slice.phase(block) } else { 0 };
        let nodes: [usize; LANES] = std::array::from_fn(|lane| (phase + lane) / block);
        let (steps, codes, of) = (view.steps(slice), view.codes(slice), self.values.of_slice(i, slice));
        let origins = origins(view, slice);
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let codes = &codes[k * n_codes * width..][..n_codes * width];
            let mut columns = origins.map(|origin| origin.wrapping_add(one.offset));
            match width {
                0 => {}
                1 => add_codes::<1>(codes, &nodes, &mut columns),
                2 => add_codes::<2>(codes, &nodes, &mut columns),
                _ => add_codes::<4>(codes, &nodes, &mut columns),
            }
            for j in 0..block {
                let values = self.values.step(of, k * block + j);
                self.add::<R>(&mut sums, one.mask, &values, columns, j);
            }
        }
        sums
    }

    /// Fallback for slices that the other functions do not support.
    #[inline(always)]
    pub fn any<R: Ring<T>>(&self, i: usize) -> Sums<T> {
        any::<T, R>(&self.view, self.values.any(), self.x, i)
    }

    /// Consecutive rows with elements at the same distances from the diagonal: the vector is read
    /// contiguously.
    #[inline(always)]
    fn diagonals<R: Ring<T>>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let steps = self.view.steps(slice);
        let of = self.values.of_slice(i, slice);
        let first = slice.base.wrapping_add(u64::from(slice.place) * LANES as u64);
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let values = self.values.step(of, k);
            let at = first.wrapping_add(u64::from(one.offset));
            if one.mask == u32::MAX {
                // SAFETY: all lanes have an element, and the columns of elements have been checked.
                let x = unsafe { self.x.get_unchecked(at as usize..at as usize + LANES) };
                for lane in 0..LANES {
                    sums[lane] = R::add(sums[lane], R::multiply(values[lane], x[lane]));
                }
            } else {
                for lane in 0..LANES {
                    let is_there = one.mask >> lane & 1 != 0;
                    let column = if is_there { at.wrapping_add(lane as u64) } else { 0 };
                    // SAFETY: the column of an element, which has been checked, or 0, which exists
                    // if there are elements.
                    let x = unsafe { *self.x.get_unchecked(column as usize) };
                    let sum = R::add(sums[lane], R::multiply(values[lane], x));
                    sums[lane] = if is_there { sum } else { sums[lane] };
                }
            }
        }
        sums
    }

    /// Slices with a code for each lane.
    #[inline(always)]
    fn lanes<R: Ring<T>>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let steps = self.view.steps(slice);
        let (codes, width) = (self.view.codes(slice), usize::from(slice.width));
        let of = self.values.of_slice(i, slice);
        let origins = origins(&self.view, slice);
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let values = self.values.step(of, k);
            let codes = &codes[k * LANES * width..][..LANES * width];
            let mut columns = origins;
            for column in &mut columns {
                *column = column.wrapping_add(one.offset);
            }
            match width {
                0 => {}
                1 => add_lane_codes::<1>(codes, &mut columns),
                2 => add_lane_codes::<2>(codes, &mut columns),
                _ => add_lane_codes::<4>(codes, &mut columns),
            }
            self.add::<R>(&mut sums, one.mask, &values, columns, 0);
        }
        sums
    }

    /// Adds the products of one step, whose columns are `columns` plus `j`.
    #[inline(always)]
    fn add<R: Ring<T>>(&self, sums: &mut Sums<T>, mask: u32, values: &[T; LANES], columns: [u32; LANES], j: usize) {
        let mut x = [T::default(); LANES];
        if mask == u32::MAX {
            for lane in 0..LANES {
                // SAFETY: all lanes have an element, and the columns of elements have been checked,
                // including all columns of a block.
                x[lane] = unsafe { *self.x.get_unchecked(columns[lane] as usize + j) };
            }
            for lane in 0..LANES {
                sums[lane] = R::add(sums[lane], R::multiply(values[lane], x[lane]));
            }
            return;
        }
        for lane in 0..LANES {
            let column = if mask >> lane & 1 != 0 { columns[lane] } else { 0 };
            // SAFETY: as above. Lanes without an element read one of the first columns, which exist
            // if there is a block.
            x[lane] = unsafe { *self.x.get_unchecked(column as usize + j) };
        }
        for lane in 0..LANES {
            let sum = R::add(sums[lane], R::multiply(values[lane], x[lane]));
            sums[lane] = if mask >> lane & 1 != 0 { sum } else { sums[lane] };
        }
    }
}

/// The part of the columns of each lane that does not depend on the step.
#[inline(always)]
pub fn origins(view: &View, slice: &Slice) -> [u32; LANES] {
    let mut origins = [slice.base as u32; LANES];
    if slice.has(RELATIVE) {
        let (rows, subs) = view.lanes(slice);
        for (lane, origin) in origins.iter_mut().enumerate() {
            let sub = if slice.has(BLOCKED) { subs[lane] } else { 0 };
            *origin = origin.wrapping_add(rows[lane] as u32).wrapping_sub(sub.into());
        }
    }
    origins
}

/// The sums of the lanes of slice `i`, one element after the other.
#[inline(never)]
fn any<T: Element, R: Ring<T>>(view: &View, values: AnyValues<T>, x: &[T], i: usize) -> Sums<T> {
    let mut sums = [R::zero(); LANES];
    walk_elements(view, values, i, |at, value| {
        sums[at.lane] = R::add(sums[at.lane], R::multiply(value, x[at.column as usize]));
    });
    sums
}

/// Adds each lane's code, of `W` bytes, to its column.
#[inline(always)]
fn add_lane_codes<const W: usize>(codes: &[u8], columns: &mut [u32; LANES]) {
    let codes = &codes[..LANES * W];
    for (lane, column) in columns.iter_mut().enumerate() {
        *column = column.wrapping_add(code::<W>(codes, lane));
    }
}

/// Adds the codes of the lanes' nodes, of `W` bytes, to the lanes' columns.
fn add_codes<const W: usize>(codes: &[u8], nodes: &[usize; LANES], columns: &mut [u32; LANES]) {
    for (column, &node) in columns.iter_mut().zip(nodes) {
        *column = column.wrapping_add(code::<W>(codes, node));
    }
}

/// Code `i` of `W` bytes, at most 4.
#[inline(always)]
pub fn code<const W: usize>(codes: &[u8], i: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes[..W].copy_from_slice(&codes[i * W..][..W]);
    u32::from_le_bytes(bytes)
}
