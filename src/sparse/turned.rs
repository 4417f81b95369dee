//! y = Aᵀ x: every element adds to the place of its column.
//!
//! Slices are cut into parts, whose number depends on the matrix only; each part has a vector of its own, and these are put together in
//! their order. Within a part elements come slice by slice and step by step. So y does not depend on the number of threads.

use std::ops::Range;

use crate::cpu::float::Ieee;
use crate::cpu::pool::Pool;
use crate::error::{Result, try_vec};
use crate::sparse::access::{AnyValues, with_any_values};
use crate::sparse::element::{Element, Ring, Semiring, with_ring};
use crate::sparse::frame::View;
use crate::sparse::layout::LANES;
use crate::sparse::matrix::Matrix;
use crate::sparse::walk::walk_elements;
use crate::sparse::wide::lengths;

/// Most parts.
const MAX_PARTS: usize = 32;

struct Turned<'a, T, R> {
    matrix: &'a Matrix,
    n: usize,
    x: &'a [T],
    y: &'a mut [T],
    pool: &'a Pool,
    ring: std::marker::PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Turned<'_, T, R> {
    fn run(self, values: AnyValues<T>) -> Result<()> {
        let Self { matrix, n, x, y, pool, .. } = self;
        let (view, head) = (matrix.view(), *matrix.head());
        // A part's vector must be small beside its elements.
        let n_parts = (head.nnz / (4 * head.n_cols.max(1))).clamp(1, MAX_PARTS as u64) as usize;
        let part = |part: Range<usize>, y: &mut [T]| {
            let _ieee = Ieee::begin();
            y.fill(R::zero());
            for i in part {
                let slice = view.slice(i);
                let mut rows = [0; LANES];
                for (at, row) in rows.iter_mut().zip(view.rows(&slice)) {
                    *at = row as usize;
                }
                add::<T, R>(&view, values, i, n, x, &rows, y);
            }
        };
        let pieces = matrix.pieces(n_parts).into_iter().map(|windows| matrix.slices_of(windows));
        let mut pieces = pieces.filter(|slices| !slices.is_empty());
        part(pieces.next().unwrap_or(0..0), y);
        let others = pool.map(pieces.collect(), |slices: Range<usize>| -> Result<Vec<T>> {
            let mut own = try_vec(y.len(), "a part of the result")?;
            own.resize(y.len(), R::zero());
            part(slices, &mut own);
            Ok(own)
        });
        let _ieee = Ieee::begin();
        for other in others {
            for (to, one) in y.iter_mut().zip(other?) {
                *to = R::add(*to, one);
            }
        }
        for i in 0..head.n_long {
            let long = view.long(i);
            for slice in 0..long.n as usize {
                let i = head.n_slices + long.first as usize + slice;
                add::<T, R>(&view, values, i, n, x, &[long.row as usize; LANES], y);
            }
        }
        Ok(())
    }
}

/// Adds the elements of slice `i`, whose lanes have these rows.
fn add<T: Element, R: Ring<T>>(
    view: &View,
    values: AnyValues<T>,
    i: usize,
    n: usize,
    x: &[T],
    rows: &[usize; LANES],
    y: &mut [T],
) {
    walk_elements(view, values, i, |at, value| {
        let to = &mut y[at.column as usize * n..][..n];
        for (to, &x) in to.iter_mut().zip(&x[rows[at.lane] * n..][..n]) {
            *to = R::add(*to, R::multiply(value, x));
        }
    });
}

/// Y = Aᵀ X in a semiring, with `n` vectors side by side.
///
/// # Errors
/// `InvalidArgument` for vectors of other lengths or another type, `OutOfMemory`.
pub fn multiply_transposed<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    pool: &Pool,
) -> Result<()> {
    let [n_rows, n_cols] = lengths(matrix, n)?;
    matrix.check_vectors::<T>((x.len(), n_rows), (y.len(), n_cols))?;
    let view = matrix.view();
    with_ring!(semiring, R => {
        let work = Turned { matrix, n, x, y, pool, ring: std::marker::PhantomData::<R> };
        with_any_values(&view, |values| work.run(values))
    })
}
