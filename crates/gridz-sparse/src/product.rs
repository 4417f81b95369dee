//! Products with a vector: y = A x.
//!
//! A row is summed from its first element to its last, with one multiplication and one addition
//! each, whatever the instructions. 32 rows are processed at a time, and no row's sum is split.
//! Long rows have 32 sums for each of their slices. These are added in pairs (lane l and l + 16,
//! then l + 8, and so on), and then the slices one after the other.
#![allow(unsafe_code, reason = "columns have been compared with the vector's length when the matrix was made")]

use std::marker::PhantomData;
use std::ops::Range;

use crate::access::{AnyValues, with_any_values};
#[cfg(target_arch = "x86_64")]
use crate::access::{WithValues, with_values};
use crate::element::{Element, PlusTimes, Ring, Semiring, with_ring};
use crate::frame::View;
use crate::layout::{BLOCKED, IN_ORDER, LANES, Slice, WINDOW};
use crate::matrix::Matrix;
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2, avx512};
use crate::sums::{Job, NARROW, Sums};
use crate::values::Values;
use gridz_codecs::cpu::float::Ieee;
use gridz_codecs::cpu::isa::{Isa, Kernel, dispatch_up_to_avx2};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Result, try_vec};
use gridz_codecs::settings::CpuLevel;

/// The sum over all lanes.
#[inline(always)]
pub fn fold<T: Copy, R: Ring<T>>(mut sums: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = R::add(sums[lane], sums[lane + half]);
        }
        half /= 2;
    }
    sums[0]
}

/// A unit of work for a thread.
enum Work<'a, T> {
    /// Slices of rows that are not long. The output has the rows of their windows, starting at row
    /// `first`.
    Rows(Range<usize>, u64, &'a mut [T]),
    /// Slices of long rows, with one output sum each.
    Long(Range<usize>, &'a mut [T]),
}

/// Does one unit of work; `sums_of` computes the sums of a slice. It is called in one place only,
/// because it is inlined there.
#[inline(always)]
fn work<T: Element, R: Ring<T>>(view: &View, work: Work<T>, sums_of: impl Fn(usize, &Slice) -> Sums<T>) {
    let (slices, first, to) = match work {
        Work::Rows(slices, first, y) => (slices, Some(first), y),
        Work::Long(slices, to) => (slices, None, to),
    };
    for (k, i) in slices.enumerate() {
        let slice = view.slice(i);
        let sums = sums_of(i, &slice);
        match first {
            Some(first) => store_sums(view, &slice, &sums, first, to),
            None => to[k] = fold::<T, R>(sums),
        }
    }
}

/// Writes the sums of a slice's rows. `y` starts at row `first`.
fn store_sums<T: Element>(view: &View, slice: &Slice, sums: &Sums<T>, first: u64, y: &mut [T]) {
    let n_lanes = usize::from(slice.n_lanes);
    if slice.order_at == IN_ORDER {
        let at = (u64::from(slice.place) * LANES as u64 - first) as usize;
        y[at..at + n_lanes].copy_from_slice(&sums[..n_lanes]);
        return;
    }
    let block = view.head.block;
    let mut order = view.order(slice.order_at as usize).iter();
    let mut next = || order.next().map_or(0, |&node| usize::from(u16::from_le_bytes(node)) * block);
    let window = slice.place as usize / (WINDOW / LANES) * WINDOW - first as usize;
    let (mut node, mut sub) = (next(), slice.phase(block));
    for (lane, &sum) in sums[..n_lanes].iter().enumerate() {
        y[window + node + sub] = sum;
        sub += 1;
        // The last lane's node may be the last one, so there may be no next node.
        if sub == block && lane + 1 < n_lanes {
            (node, sub) = (next(), 0);
        }
    }
}

macro_rules! avx2 {
    ([$($feature:literal)*]) => {
        /// Does one unit of work in the semiring of sums of products, compiled for AVX2.
        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $feature)])*
        fn work_avx2<T: Element, V: Values<T>>(job: &Job<T, V>, blocked: &avx2::Job<T, V>, what: Work<T>) {
            let sums_of = |i: usize, slice: &Slice| match slice.has(BLOCKED) {
                // SAFETY: this function is compiled for AVX2; tables and vector are those of `job`.
                true => unsafe { blocked.slice(i, slice) },
                false => job.slice::<PlusTimes>(i, slice),
            }
            .unwrap_or_else(|| job.any::<PlusTimes>(i));
            work::<T, PlusTimes>(&job.view, what, sums_of);
        }
    };
}
macro_rules! avx512 {
    ([$($feature:literal)*]) => {
        /// Does one unit of work in the semiring of sums of products, compiled for AVX-512.
        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $feature)])*
        fn work_avx512<T: Element, V: Values<T>>(job: &Job<T, V>, wide: &avx512::Job<T, V>, what: Work<T>) {
            let sums_of = |i: usize, slice: &Slice| {
                // SAFETY: this function is compiled for AVX-512; tables and vector are those of
                // `job`.
                unsafe { wide.slice(i, slice) }.unwrap_or_else(|| job.any::<PlusTimes>(i))
            };
            work::<T, PlusTimes>(&job.view, what, sums_of);
        }
    };
}
#[cfg(target_arch = "x86_64")]
gridz_codecs::cpu::isa::features!(avx2 => avx2! {});
#[cfg(target_arch = "x86_64")]
gridz_codecs::cpu::isa::features!(avx512 => avx512! {});

/// A product of a matrix.
struct Product<'a, T> {
    matrix: &'a Matrix,
    x: &'a [T],
    y: &'a mut [T],
    pool: &'a Pool,
}

/// Slices of long rows in a unit of work.
pub const LONG_AT_A_TIME: usize = 64;

impl<T: Element> Product<'_, T> {
    /// Distributes the work among threads: `run` does one unit.
    fn share<R: Ring<T>>(self, run: &(dyn Fn(Work<T>) + Sync)) -> Result<()> {
        let Self { matrix, x: _, y, pool } = self;
        let view = matrix.view();
        let head = view.head;
        let mut long_sums = try_vec(head.n_long_slices, "sums of long rows")?;
        long_sums.resize(head.n_long_slices, T::default());

        let pieces = matrix.pieces(pool.pieces(matrix.frame_bytes() as u64));
        let mut items = try_vec(pieces.len() + head.n_long_slices.div_ceil(LONG_AT_A_TIME), "bookkeeping")?;
        for (sums, i) in long_sums.chunks_mut(LONG_AT_A_TIME).zip((head.n_slices..).step_by(LONG_AT_A_TIME)) {
            items.push(Work::Long(i..i + sums.len(), sums));
        }
        let mut rest = &mut *y;
        for windows in pieces {
            let first = windows.start * WINDOW;
            let n = (windows.len() * WINDOW).min(rest.len());
            let (own, others) = rest.split_at_mut(n);
            rest = others;
            items.push(Work::Rows(matrix.slices_of(windows), first as u64, own));
        }
        pool.map(items, |what| {
            let _ieee = Ieee::begin();
            run(what);
        });
        let _ieee = Ieee::begin();
        for i in 0..head.n_long {
            let long = view.long(i);
            let own = &long_sums[long.first as usize..][..long.n as usize];
            y[long.row as usize] = own[1..].iter().fold(own[0], |sum, &one| R::add(sum, one));
        }
        Ok(())
    }

    /// The product in any semiring, without explicit vector instructions.
    fn portable<R: Ring<T>>(self, level: Isa) -> Result<()> {
        let (view, x) = (self.matrix.view(), self.x);
        with_any_values(&view, |values| {
            let job = Job { view, values, x };
            self.share::<R>(&|what| {
                dispatch_up_to_avx2(level, Portable { job: &job, what, ring: PhantomData::<R> })
            })
        })
    }
}

/// One unit of work in any semiring.
struct Portable<'a, T, R> {
    job: &'a Job<'a, T, AnyValues<'a, T>>,
    what: Work<'a, T>,
    ring: PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Kernel for Portable<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let job = self.job;
        // On x86-64, sums of products have code of their own, except on CPUs before 2013.
        let sums_of = |i: usize, slice: &Slice| {
            if cfg!(target_arch = "x86_64") || slice.has(BLOCKED) {
                return job.slice_small::<R>(i, slice);
            }
            job.slice::<R>(i, slice).unwrap_or_else(|| job.any::<R>(i))
        };
        work::<T, R>(&job.view, self.what, sums_of);
    }
}

/// Sums of products with AVX2.
#[cfg(target_arch = "x86_64")]
struct Avx2<'a, T>(Product<'a, T>);

#[cfg(target_arch = "x86_64")]
impl<T: Element> WithValues<T> for Avx2<'_, T> {
    type Output = ();

    fn run<V: Values<T>>(self, values: V) -> Result<()> {
        let (view, x) = (self.0.matrix.view(), self.0.x);
        let (job, blocked) = (Job { view, values, x }, avx2::Job::new(view, values, x));
        // SAFETY: an `Isa` exists only if the CPU has been checked for its instructions.
        self.0.share::<PlusTimes>(&|what| unsafe { work_avx2::<T, V>(&job, &blocked, what) })
    }
}

/// Sums of products with AVX-512.
#[cfg(target_arch = "x86_64")]
struct Avx512<'a, T>(Product<'a, T>);

#[cfg(target_arch = "x86_64")]
impl<T: Element> WithValues<T> for Avx512<'_, T> {
    type Output = ();

    fn run<V: Values<T>>(self, values: V) -> Result<()> {
        let (view, x) = (self.0.matrix.view(), self.0.x);
        let (job, wide) = (Job { view, values, x }, avx512::Job::new(view, values, x));
        // SAFETY: an `Isa` exists only if the CPU has been checked for its instructions.
        self.0.share::<PlusTimes>(&|what| unsafe { work_avx512::<T, V>(&job, &wide, what) })
    }
}

/// See [`crate::multiply`].
pub fn multiply<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    let head = matrix.head();
    matrix.check_vectors::<T>((x.len(), head.n_cols), (y.len(), head.n_rows))?;
    let product = Product { matrix, x, y, pool };
    match (semiring, level.kind()) {
        #[cfg(target_arch = "x86_64")]
        (Semiring::PlusTimes, CpuLevel::Avx2) if x.len() as u64 <= NARROW => {
            with_values(&matrix.view(), Avx2(product))
        }
        #[cfg(target_arch = "x86_64")]
        (Semiring::PlusTimes, CpuLevel::Avx512) if x.len() as u64 <= avx512::MAX_COLS => {
            with_values(&matrix.view(), Avx512(product))
        }
        (semiring, _) => with_ring!(semiring, R => product.portable::<R>(level)),
    }
}
