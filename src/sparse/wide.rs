//! Y = A X with several vectors, side by side: element c of vector j is `x[c × n + j]`, and so with y.
//!
//! Each element is decoded once for all vectors. A row's sums have the order that they have with one vector.

use crate::cpu::float::Ieee;
use crate::cpu::pool::Pool;
use crate::error::{Error, Result, try_vec};
use crate::sparse::access::{AnyValues, with_any_values};
use crate::sparse::element::{Element, Ring, Semiring, with_ring};
use crate::sparse::layout::{LANES, WINDOW};
use crate::sparse::matrix::Matrix;
use crate::sparse::walk::walk_elements;

/// Most vectors of one product: more are done in several.
pub const MAX_VECTORS: usize = 256;

struct Wide<'a, T, R> {
    matrix: &'a Matrix,
    n: usize,
    x: &'a [T],
    y: &'a mut [T],
    pool: &'a Pool,
    ring: std::marker::PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Wide<'_, T, R> {
    /// The sums of a slice's lanes, `n` for each.
    fn slice(matrix: &Matrix, n: usize, x: &[T], values: AnyValues<T>, i: usize, sums: &mut [T]) {
        sums.fill(R::zero());
        walk_elements(&matrix.view(), values, i, |at, value| {
            let start = at.column as usize * n;
            let own = &mut sums[at.lane * n..][..n];
            for (sum, &x) in own.iter_mut().zip(&x[start..start + n]) {
                *sum = R::add(*sum, R::multiply(value, x));
            }
        });
    }
}

impl<T: Element, R: Ring<T>> Wide<'_, T, R> {
    fn run(self, values: AnyValues<T>) -> Result<()> {
        let Self { matrix, n, x, y, pool, .. } = self;
        let (view, head) = (matrix.view(), *matrix.head());
        let pieces = matrix.pieces(pool.pieces(matrix.frame_bytes() as u64));
        let mut items = try_vec(pieces.len(), "bookkeeping")?;
        let mut rest = &mut *y;
        for windows in pieces {
            let first = windows.start * WINDOW;
            let n_here = (windows.len() * WINDOW * n).min(rest.len());
            let (own, others) = rest.split_at_mut(n_here);
            rest = others;
            items.push((matrix.slices_of(windows), first, own));
        }
        pool.map(items, |(slices, first, y)| {
            let _ieee = Ieee::begin();
            let mut sums = [T::default(); LANES * MAX_VECTORS];
            let sums = &mut sums[..LANES * n];
            for i in slices {
                Self::slice(matrix, n, x, values, i, sums);
                for (row, sums) in view.rows(&view.slice(i)).zip(sums.chunks(n)) {
                    y[(row as usize - first) * n..][..n].copy_from_slice(sums);
                }
            }
        });
        let _ieee = Ieee::begin();
        let mut sums = [T::default(); LANES * MAX_VECTORS];
        let sums = &mut sums[..LANES * n];
        for i in 0..head.n_long {
            let long = view.long(i);
            let y = &mut y[long.row as usize * n..][..n];
            for part in 0..long.n as usize {
                Self::slice(matrix, n, x, values, head.n_slices + long.first as usize + part, sums);
                let mut half = LANES / 2;
                while half > 0 {
                    let (low, high) = sums.split_at_mut(half * n);
                    for (low, &high) in low.iter_mut().zip(&*high) {
                        *low = R::add(*low, high);
                    }
                    half /= 2;
                }
                for (y, &sum) in y.iter_mut().zip(&*sums) {
                    *y = if part == 0 { sum } else { R::add(*y, sum) };
                }
            }
        }
        Ok(())
    }
}

/// Y = A X in a semiring, with `n` vectors.
///
/// # Errors
/// `InvalidArgument` for vectors of other lengths or another type or too many of them, `OutOfMemory`.
pub fn multiply_wide<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    pool: &Pool,
) -> Result<()> {
    let [n_rows, n_cols] = lengths(matrix, n)?;
    matrix.check_vectors::<T>((x.len(), n_cols), (y.len(), n_rows))?;
    let view = matrix.view();
    with_ring!(semiring, R => {
        let work = Wide { matrix, n, x, y, pool, ring: std::marker::PhantomData::<R> };
        with_any_values(&view, |values| work.run(values))
    })
}

/// How many elements `n` vectors have, of rows and of columns.
///
/// # Errors
/// `InvalidArgument` for too many of them.
pub fn lengths(matrix: &Matrix, n: usize) -> Result<[u64; 2]> {
    if !(1..=MAX_VECTORS).contains(&n) {
        return Err(Error::invalid(format!("{n} vectors; one product has 1 to {MAX_VECTORS}")));
    }
    let head = matrix.head();
    Ok([head.n_rows, head.n_cols].map(|length| length.saturating_mul(n as u64)))
}
