//! Y = A X with several vectors, interleaved: element c of vector j is `x[c × n + j]`, and the same
//! holds for y.
//!
//! Each element is decoded once for all vectors. A row is summed in the same order as with one
//! vector.
#![allow(unsafe_code, reason = "columns have been compared with the vectors' length when the matrix was made")]

use std::marker::PhantomData;

use crate::access::{AnyValues, with_any_values};
use crate::element::{Element, Ring, Semiring, with_ring};
use crate::frame::View;
use crate::layout::{LANES, WINDOW};
use crate::matrix::Matrix;
use crate::product::LONG_AT_A_TIME;
use crate::values::Values;
use crate::walk::{Columns, lanes_of};
use gridz_codecs::cpu::float::Ieee;
use gridz_codecs::cpu::isa::{Isa, Kernel, dispatch_up_to_avx2};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};

/// Largest number of vectors in one product.
pub const MAX_VECTORS: usize = 256;

struct Wide<'a, T, R> {
    matrix: &'a Matrix,
    n: usize,
    x: &'a [T],
    y: &'a mut [T],
    level: Isa,
    pool: &'a Pool,
    ring: PhantomData<R>,
}

/// Computes the sums of the lanes of slice `i`, `n` for each lane.
struct Sum<'a, T, R> {
    level: Isa,
    view: View<'a>,
    values: AnyValues<'a, T>,
    i: usize,
    n: usize,
    x: &'a [T],
    sums: &'a mut [T],
    ring: PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Kernel for Sum<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { level, view, values, i, n, x, sums, ring: _ } = self;
        sums.fill(R::zero());
        let slice = view.slice(i);
        let (columns, of) = (Columns::new(&view, &slice, level), values.of_slice(i, &slice));
        for k in 0..columns.n_steps() {
            let (mask, first) = columns.step(k);
            for j in 0..columns.side {
                let values = &values.step(of, k * columns.side + j);
                let from = |lane: usize| (first[lane] as usize + j) * n;
                // SAFETY: the columns of elements have been checked; each lane has `n` sums.
                unsafe { add_products::<T, R>(n, mask, values, (x, from), (sums, |lane| lane * n)) };
            }
        }
    }
}

/// Adds products to `n` numbers for each lane of a mask, one lane after the other. The `n` numbers
/// at `to[at(lane)]` get the lane's value times the `n` numbers at `x[from(lane)]`.
///
/// # Safety
/// These numbers must be inside the slices, for all lanes of the mask.
#[inline(always)]
pub unsafe fn add_products<T: Element, R: Ring<T>>(
    n: usize,
    mask: u32,
    values: &[T; LANES],
    (x, from): (&[T], impl Fn(usize) -> usize),
    (to, at): (&mut [T], impl Fn(usize) -> usize),
) {
    let mut done = 0;
    while done < n {
        let (from, at) = (|lane| from(lane) + done, |lane| at(lane) + done);
        // SAFETY: the same promises, for the numbers that are not done yet.
        done += unsafe {
            match n - done {
                1 => add_some::<T, R, 1>(mask, values, (x, from), (to, at)),
                2 => add_some::<T, R, 2>(mask, values, (x, from), (to, at)),
                3 => add_some::<T, R, 3>(mask, values, (x, from), (to, at)),
                4..8 => add_some::<T, R, 4>(mask, values, (x, from), (to, at)),
                8..16 => add_some::<T, R, 8>(mask, values, (x, from), (to, at)),
                _ => add_some::<T, R, 16>(mask, values, (x, from), (to, at)),
            }
        };
    }
}

/// Adds products to `N` numbers for each lane, and returns `N`.
///
/// # Safety
/// As for [`add_products`], with `N` numbers for each lane.
#[inline(always)]
unsafe fn add_some<T: Element, R: Ring<T>, const N: usize>(
    mask: u32,
    values: &[T; LANES],
    (x, from): (&[T], impl Fn(usize) -> usize),
    (to, at): (&mut [T], impl Fn(usize) -> usize),
) -> usize {
    for lane in lanes_of(mask) {
        let (from, at) = (from(lane), at(lane));
        // SAFETY: the caller's promise. All numbers are read before the first is written, so
        // compilers can use vectors even if they cannot prove that the ranges are disjoint.
        let (x, to) =
            unsafe { (*x.as_ptr().add(from).cast::<[T; N]>(), &mut *to.as_mut_ptr().add(at).cast::<[T; N]>()) };
        let mut sums = *to;
        for i in 0..N {
            sums[i] = R::add(sums[i], R::multiply(values[lane], x[i]));
        }
        *to = sums;
    }
    N
}

impl<T: Element, R: Ring<T>> Wide<'_, T, R> {
    fn run(self, values: AnyValues<T>) -> Result<()> {
        let Self { matrix, n, x, y, level, pool, ring } = self;
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
                dispatch_up_to_avx2(level, Sum::<T, R> { level, view, values, i, n, x, sums, ring });
                for (row, sums) in view.rows(&view.slice(i)).zip(sums.chunks(n)) {
                    y[(row as usize - first) * n..][..n].copy_from_slice(sums);
                }
            }
        });
        let mut long_sums = try_vec(head.n_long_slices * n, "sums of long rows")?;
        long_sums.resize(head.n_long_slices * n, T::default());
        let firsts = (head.n_slices..).step_by(LONG_AT_A_TIME);
        let mut items = try_vec(head.n_long_slices.div_ceil(LONG_AT_A_TIME), "bookkeeping")?;
        items.extend(firsts.zip(long_sums.chunks_mut(LONG_AT_A_TIME * n)));
        pool.map(items, |(first, to)| {
            let _ieee = Ieee::begin();
            let mut sums = [T::default(); LANES * MAX_VECTORS];
            let sums = &mut sums[..LANES * n];
            for (i, to) in (first..).zip(to.chunks_mut(n)) {
                dispatch_up_to_avx2(level, Sum::<T, R> { level, view, values, i, n, x, sums: &mut *sums, ring });
                to.copy_from_slice(fold::<T, R>(sums, n));
            }
        });
        let _ieee = Ieee::begin();
        for i in 0..head.n_long {
            let long = view.long(i);
            let y = &mut y[long.row as usize * n..][..n];
            let mut own = long_sums[long.first as usize * n..].chunks(n).take(long.n as usize);
            y.copy_from_slice(own.next().unwrap_or_default());
            for sums in own {
                for (y, &sum) in y.iter_mut().zip(sums) {
                    *y = R::add(*y, sum);
                }
            }
        }
        Ok(())
    }
}

/// Folds the sums of all lanes, for each of `n` vectors.
fn fold<T: Element, R: Ring<T>>(sums: &mut [T], n: usize) -> &[T] {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = sums.split_at_mut(half * n);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = R::add(*low, high);
        }
        half /= 2;
    }
    &sums[..n]
}

/// See [`crate::multiply_wide`].
pub fn multiply_wide<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    let [n_rows, n_cols] = lengths(matrix, n)?;
    matrix.check_vectors::<T>((x.len(), n_cols), (y.len(), n_rows))?;
    let view = matrix.view();
    with_ring!(semiring, R => {
        let work = Wide { matrix, n, x, y, level, pool, ring: PhantomData::<R> };
        with_any_values(&view, |values| work.run(values))
    })
}

/// The total length of `n` vectors: of rows, and of columns.
///
/// # Errors
/// `InvalidArgument` if `n` is 0 or too large.
pub fn lengths(matrix: &Matrix, n: usize) -> Result<[u64; 2]> {
    if !(1..=MAX_VECTORS).contains(&n) {
        return Err(Error::invalid(format!("{n} vectors were given; a product supports 1 to {MAX_VECTORS}")));
    }
    let head = matrix.head();
    Ok([head.n_rows, head.n_cols].map(|length| length.saturating_mul(n as u64)))
}
