//! y = Aᵀ x: adds the product of each element to the entry of its column.
//!
//! The windows are divided into parts, which depend only on the matrix. Each part has a vector of
//! its own for the range of its columns. These vectors are added in the order of the parts. Within
//! a part, elements are processed slice by slice and step by step. So y does not depend on the
//! number of threads.
#![allow(unsafe_code, reason = "columns have been compared with the vector's length when the matrix was made")]

use std::marker::PhantomData;
use std::ops::Range;

use crate::access::{AnyValues, with_any_values};
use crate::element::{Element, Ring, Semiring, with_ring};
use crate::frame::View;
use crate::layout::LANES;
use crate::matrix::Matrix;
use crate::values::Values;
use crate::walk::{Columns, lanes_of};
use crate::wide::{add_products, lengths};
use gridz_codecs::cpu::float::Ieee;
use gridz_codecs::cpu::isa::{Isa, Kernel, dispatch_up_to_avx2};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Result, try_vec};

/// Largest number of parts.
const MAX_PARTS: usize = 32;
/// Smallest number of matrix elements for each element of the parts' vectors.
const ELEMENTS_A_COLUMN: u64 = 8;

struct Turned<'a, T, R> {
    matrix: &'a Matrix,
    n: usize,
    x: &'a [T],
    y: &'a mut [T],
    level: Isa,
    pool: &'a Pool,
    ring: PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Turned<'_, T, R> {
    fn run(self, values: AnyValues<T>) -> Result<()> {
        let Self { matrix, n, x, y, level, pool, ring } = self;
        let (view, head) = (matrix.view(), *matrix.head());
        let part = |windows: Range<usize>, columns: &Range<usize>, y: &mut [T]| {
            let _ieee = Ieee::begin();
            for i in matrix.slices_of(windows) {
                let slice = view.slice(i);
                let mut rows = [0; LANES];
                for (at, row) in rows.iter_mut().zip(view.rows(&slice)) {
                    *at = row as usize;
                }
                let first = columns.start;
                dispatch_up_to_avx2(
                    level,
                    Add::<T, R> { level, view, values, i, n, x, rows, first, y: &mut *y, ring },
                );
            }
        };
        y.fill(R::zero());
        // The first part adds to the result directly.
        let mut result = Some(&mut *y);
        let parts = parts(matrix, pool)?.into_iter().map(|(windows, columns)| (windows, columns, result.take()));
        let others = pool.map(parts.collect(), |(windows, columns, result)| -> Result<(Range<usize>, Vec<T>)> {
            let own = columns.start * n..columns.end * n;
            let mut made = Vec::new();
            match result {
                Some(y) => part(windows, &columns, &mut y[own]),
                None => {
                    made = try_vec(own.len(), "a part of the result")?;
                    made.resize(own.len(), R::zero());
                    part(windows, &columns, &mut made);
                }
            }
            Ok((columns, made))
        });
        let _ieee = Ieee::begin();
        for other in others {
            let (columns, made) = other?;
            for (to, one) in y[columns.start * n..].iter_mut().zip(made) {
                *to = R::add(*to, one);
            }
        }
        for i in 0..head.n_long {
            let long = view.long(i);
            for slice in 0..long.n as usize {
                let i = head.n_slices + long.first as usize + slice;
                let rows = [long.row as usize; LANES];
                dispatch_up_to_avx2(
                    level,
                    Add::<T, R> { level, view, values, i, n, x, rows, first: 0, y: &mut *y, ring },
                );
            }
        }
        Ok(())
    }
}

/// Divides the windows into parts, with the range of columns of each.
fn parts(matrix: &Matrix, pool: &Pool) -> Result<Vec<(Range<usize>, Range<usize>)>> {
    let of_windows = matrix.column_ranges(pool)?;
    let with_columns = |windows: Range<usize>| {
        let own = of_windows[windows.clone()].iter().filter(|columns| !columns.is_empty());
        let start = own.clone().map(|columns| columns.start).min().unwrap_or(0);
        let end = own.map(|columns| columns.end).max().unwrap_or(0);
        (windows, start as usize..end as usize)
    };
    let cut = |n_parts: usize| matrix.pieces(n_parts).into_iter().map(with_columns).collect::<Vec<_>>();
    // The vectors of the parts must be small compared with the number of elements.
    let pays = |parts: &Vec<(Range<usize>, Range<usize>)>| {
        let n_own: u64 = parts.iter().skip(1).map(|(_, columns)| columns.len() as u64).sum();
        n_own <= matrix.head().nnz / ELEMENTS_A_COLUMN
    };
    Ok((2..=MAX_PARTS).rev().map(cut).find(pays).unwrap_or_else(|| cut(1)))
}

/// Adds the elements of slice `i`, whose lanes have these rows, to a vector that starts at column
/// `first`.
struct Add<'a, T, R> {
    level: Isa,
    view: View<'a>,
    values: AnyValues<'a, T>,
    i: usize,
    n: usize,
    x: &'a [T],
    rows: [usize; LANES],
    first: usize,
    y: &'a mut [T],
    ring: PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Kernel for Add<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { level, view, values, i, n, x, rows, first, y, ring: _ } = self;
        let slice = view.slice(i);
        let (columns, of) = (Columns::new(&view, &slice, level), values.of_slice(i, &slice));
        // With one vector, the factor of each lane.
        let own = rows.map(|row| if n == 1 { x[row] } else { T::default() });
        for k in 0..columns.n_steps() {
            let (mask, at) = columns.step(k);
            let at = at.map(|column| (column as usize).wrapping_sub(first));
            for j in 0..columns.side {
                let values = &values.step(of, k * columns.side + j);
                if n > 1 {
                    let (from, at) = (|lane: usize| rows[lane] * n, |lane: usize| (at[lane] + j) * n);
                    // SAFETY: the columns of elements have been checked and belong to the part;
                    // rows have been checked.
                    unsafe { add_products::<T, R>(n, mask, values, (x, from), (y, at)) };
                    continue;
                }
                if columns.are_consecutive
                    && let Some(x) = x.get(rows[0]..).and_then(|x| x.first_chunk())
                    && let Some(to) = y.get_mut(at[0]..).and_then(|y| y.first_chunk_mut())
                {
                    add_row::<T, R>(mask, values, x, to);
                    continue;
                }
                // SAFETY: the columns of elements, including all columns of a block, have been
                // checked and belong to the part.
                unsafe { add_anywhere::<T, R>(mask, values, &own, &at, &mut y[j..]) };
            }
        }
    }
}

/// Adds the products of lanes with consecutive columns.
#[inline(always)]
fn add_row<T: Element, R: Ring<T>>(mask: u32, values: &[T; LANES], x: &[T; LANES], to: &mut [T; LANES]) {
    for lane in 0..LANES {
        let sum = R::add(to[lane], R::multiply(values[lane], x[lane]));
        to[lane] = if mask >> lane & 1 != 0 { sum } else { to[lane] };
    }
}

/// Adds the products of lanes to these columns, one after the other, since several lanes may have
/// the same column.
///
/// # Safety
/// The columns of all lanes in the mask must be valid indices of `to`.
// Scalar code in a function of its own: if inlined, compilers move the lanes' factors around at
// every step.
#[inline(never)]
unsafe fn add_anywhere<T: Element, R: Ring<T>>(
    mask: u32,
    values: &[T; LANES],
    x: &[T; LANES],
    columns: &[usize; LANES],
    to: &mut [T],
) {
    // Two loops: the first need not extract lanes from the mask.
    if mask == u32::MAX {
        for lane in 0..LANES {
            // SAFETY: the caller's promise.
            let to = unsafe { to.get_unchecked_mut(columns[lane]) };
            *to = R::add(*to, R::multiply(values[lane], x[lane]));
        }
        return;
    }
    for lane in lanes_of(mask) {
        // SAFETY: the caller's promise.
        let to = unsafe { to.get_unchecked_mut(columns[lane]) };
        *to = R::add(*to, R::multiply(values[lane], x[lane]));
    }
}

/// See [`crate::multiply_transposed`].
pub fn multiply_transposed<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    let [n_rows, n_cols] = lengths(matrix, n)?;
    matrix.check_vectors::<T>((x.len(), n_rows), (y.len(), n_cols))?;
    let view = matrix.view();
    with_ring!(semiring, R => {
        let work = Turned { matrix, n, x, y, level, pool, ring: PhantomData::<R> };
        with_any_values(&view, |values| work.run(values))
    })
}
