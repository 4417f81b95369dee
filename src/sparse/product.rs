//! Products with vectors: y = A x and y = Aᵀ x.
//!
//! A row is summed from its first element to its last, one multiplication and one addition each, whatever the instructions: 32
//! rows are done at a time, and no row's sum is cut. Long rows have 32 sums for each of their slices, which are added in pairs
//! (lane l and l + 16, then l + 8, and so on), and the slices one after the other.
#![allow(unsafe_code, reason = "columns have been compared with the vector's length when the matrix was made")]

use std::marker::PhantomData;
use std::ops::Range;

use crate::cpu::float::Ieee;
use crate::cpu::level::Level;
use crate::cpu::pool::Pool;
use crate::error::{Result, try_vec};
use crate::settings::CpuLevel;
use crate::sparse::access::{AnyValues, with_any_values};
#[cfg(target_arch = "x86_64")]
use crate::sparse::access::{WithValues, with_values};
use crate::sparse::element::{Element, PlusTimes, Ring, Semiring, with_ring};
use crate::sparse::frame::{View, step};
use crate::sparse::layout::{BLOCKED, FULL, IN_ORDER, LANES, RELATIVE, Slice, WINDOW};
use crate::sparse::level::{Task, at_level};
use crate::sparse::matrix::Matrix;
#[cfg(target_arch = "x86_64")]
use crate::sparse::simd::{avx2, avx512};
use crate::sparse::values::Values;
use crate::sparse::walk::walk_elements;

/// Columns of vectors of so many elements have 32 bits.
const NARROW: u64 = 1 << 32;

/// A sum for each lane.
type Sums<T> = [T; LANES];

/// What a loop over a slice's elements is given: a value, and where in the vector what it meets is.
struct Job<'a, T, V> {
    view: View<'a>,
    values: V,
    x: &'a [T],
}

impl<T: Element, V: Values<T>> Job<'_, T, V> {
    /// The sums of the lanes of slice `i`.
    #[inline(always)]
    fn slice<R: Ring<T>>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let has = |flag| slice.has(flag);
        let is_in_order = slice.order_at == IN_ORDER && i < self.view.head.n_slices;
        match (has(BLOCKED), slice.width) {
            (false, 0) if has(RELATIVE) && is_in_order => match has(FULL) {
                true => self.diagonals::<R, true>(i, slice),
                false => self.diagonals::<R, false>(i, slice),
            },
            _ if self.x.len() as u64 > NARROW => self.any::<R>(i),
            (false, 0) => self.lanes::<R, 0>(i, slice),
            (false, 1) => self.lanes::<R, 1>(i, slice),
            (false, 2) => self.lanes::<R, 2>(i, slice),
            (false, 4) => self.lanes::<R, 4>(i, slice),
            (true, 0) => self.blocks::<R, 0>(i, slice),
            (true, 1) => self.blocks::<R, 1>(i, slice),
            (true, 2) => self.blocks::<R, 2>(i, slice),
            (true, 4) => self.blocks::<R, 4>(i, slice),
            _ => self.any::<R>(i),
        }
    }

    /// What other code is not made for: one element after the other.
    fn any<R: Ring<T>>(&self, i: usize) -> Sums<T> {
        let mut sums = [R::zero(); LANES];
        walk_elements(&self.view, self.values, i, |at, value| {
            sums[at.lane] = R::add(sums[at.lane], R::multiply(value, self.x[at.column as usize]));
        });
        sums
    }

    /// Rows one behind the other with elements at the same distances from the diagonal: the vector is read as it lies.
    #[inline(always)]
    fn diagonals<R: Ring<T>, const ALL: bool>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let steps = self.view.steps(slice);
        let of = self.values.of_slice(i, slice);
        let first = slice.base.wrapping_add(u64::from(slice.place) * LANES as u64);
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let values = self.values.step(of, k);
            let at = first.wrapping_add(u64::from(one.offset));
            if ALL || one.mask == u32::MAX {
                // SAFETY: all lanes have an element, and the columns of elements have been checked.
                let x = unsafe { self.x.get_unchecked(at as usize..at as usize + LANES) };
                for lane in 0..LANES {
                    sums[lane] = R::add(sums[lane], R::multiply(values[lane], x[lane]));
                }
            } else {
                for lane in 0..LANES {
                    let is_there = one.mask >> lane & 1 != 0;
                    let column = if is_there { at.wrapping_add(lane as u64) } else { 0 };
                    // SAFETY: the column of an element, which has been checked, or 0, which there is if there are elements.
                    let x = unsafe { *self.x.get_unchecked(column as usize) };
                    let sum = R::add(sums[lane], R::multiply(values[lane], x));
                    sums[lane] = if is_there { sum } else { sums[lane] };
                }
            }
        }
        sums
    }

    /// A code for each lane.
    #[inline(always)]
    fn lanes<R: Ring<T>, const W: usize>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let steps = self.view.steps(slice);
        let codes = self.view.codes(slice);
        let of = self.values.of_slice(i, slice);
        let origins = origins(&self.view, slice);
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let values = self.values.step(of, k);
            let codes = &codes[k * LANES * W..][..LANES * W];
            let mut columns = [0; LANES];
            for (lane, column) in columns.iter_mut().enumerate() {
                *column = origins[lane].wrapping_add(one.offset).wrapping_add(code::<W>(codes, lane));
            }
            self.add::<R>(&mut sums, one.mask, &values, columns, 0);
        }
        sums
    }

    /// A code for each node and block.
    #[inline(always)]
    fn blocks<R: Ring<T>, const W: usize>(&self, i: usize, slice: &Slice) -> Sums<T> {
        let block = self.view.head.block;
        let steps = self.view.steps(slice);
        let codes = self.view.codes(slice);
        let of = self.values.of_slice(i, slice);
        let (origins, phase, n_codes) = (origins(&self.view, slice), slice.phase(block), slice.n_codes(block));
        let mut nodes = [0; LANES];
        for (lane, node) in nodes.iter_mut().enumerate() {
            *node = (phase + lane) / block;
        }
        let mut sums = [R::zero(); LANES];
        for k in 0..steps.len() {
            let one = step(steps, k);
            let codes = &codes[k * n_codes * W..][..n_codes * W];
            let mut columns = [0; LANES];
            for (lane, column) in columns.iter_mut().enumerate() {
                *column = origins[lane].wrapping_add(one.offset).wrapping_add(code::<W>(codes, nodes[lane]));
            }
            for j in 0..block {
                let values = self.values.step(of, k * block + j);
                self.add::<R>(&mut sums, one.mask, &values, columns, j);
            }
        }
        sums
    }

    /// Adds what is at one step, in columns that are `j` behind these.
    #[inline(always)]
    fn add<R: Ring<T>>(&self, sums: &mut Sums<T>, mask: u32, values: &[T; LANES], columns: [u32; LANES], j: usize) {
        let mut x = [T::default(); LANES];
        if mask == u32::MAX {
            for lane in 0..LANES {
                // SAFETY: all lanes have an element, and the columns of elements have been checked, all of a block.
                x[lane] = unsafe { *self.x.get_unchecked(columns[lane] as usize + j) };
            }
            for lane in 0..LANES {
                sums[lane] = R::add(sums[lane], R::multiply(values[lane], x[lane]));
            }
            return;
        }
        for lane in 0..LANES {
            let column = if mask >> lane & 1 != 0 { columns[lane] } else { 0 };
            // SAFETY: the same; where no element is, one of the first columns, which there are if there is a block.
            x[lane] = unsafe { *self.x.get_unchecked(column as usize + j) };
        }
        for lane in 0..LANES {
            let sum = R::add(sums[lane], R::multiply(values[lane], x[lane]));
            sums[lane] = if mask >> lane & 1 != 0 { sum } else { sums[lane] };
        }
    }
}

/// What is added to the columns of each lane of a slice.
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

/// Code `i` of `W` bytes, 4 at most.
#[inline(always)]
pub fn code<const W: usize>(codes: &[u8], i: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes[..W].copy_from_slice(&codes[i * W..][..W]);
    u32::from_le_bytes(bytes)
}

/// The sum of all lanes.
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

/// What a thread does at a time.
enum Work<'a, T> {
    /// Some slices of rows that are not long, to the rows of their windows, of which the first is `first`.
    Rows(Range<usize>, u64, &'a mut [T]),
    /// Some slices of long rows, to one sum each.
    Long(Range<usize>, &'a mut [T]),
}

/// Does it, by what finds the sums of a slice.
#[inline(always)]
fn work<T: Element, R: Ring<T>>(view: &View, work: Work<T>, sums_of: impl Fn(usize, &Slice) -> Sums<T>) {
    match work {
        Work::Rows(slices, first, y) => {
            for i in slices {
                let slice = view.slice(i);
                let sums = sums_of(i, &slice);
                let n_lanes = usize::from(slice.n_lanes);
                if slice.order_at == IN_ORDER {
                    let at = (u64::from(slice.place) * LANES as u64 - first) as usize;
                    y[at..at + n_lanes].copy_from_slice(&sums[..n_lanes]);
                } else {
                    let block = view.head.block;
                    let mut order = view.order(slice.order_at as usize).iter();
                    let mut next = || order.next().map_or(0, |&node| usize::from(u16::from_le_bytes(node)) * block);
                    let window = slice.place as usize / (WINDOW / LANES) * WINDOW - first as usize;
                    let (mut node, mut sub) = (next(), slice.phase(block));
                    for (lane, &sum) in sums[..n_lanes].iter().enumerate() {
                        y[window + node + sub] = sum;
                        sub += 1;
                        // The last lane's node may be the last one.
                        if sub == block && lane + 1 < n_lanes {
                            (node, sub) = (next(), 0);
                        }
                    }
                }
            }
        }
        Work::Long(slices, to) => {
            for (i, to) in slices.zip(to) {
                *to = fold::<T, R>(sums_of(i, &view.slice(i)));
            }
        }
    }
}

macro_rules! avx2 {
    ([$($feature:literal)*]) => {
        /// Sums of products with these instructions.
        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $feature)])*
        fn work_avx2<T: Element, V: Values<T>>(job: &Job<T, V>, blocked: &avx2::Job<T, V>, what: Work<T>) {
            let sums_of = |i: usize, slice: &Slice| match slice.has(BLOCKED) {
                // SAFETY: this function is made for AVX2; tables and vector are those of `job`.
                true => unsafe { blocked.slice(i, slice) }.unwrap_or_else(|| job.any::<PlusTimes>(i)),
                false => job.slice::<PlusTimes>(i, slice),
            };
            work::<T, PlusTimes>(&job.view, what, sums_of);
        }
    };
}
macro_rules! avx512 {
    ([$($feature:literal)*]) => {
        /// The same.
        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $feature)])*
        fn work_avx512<T: Element, V: Values<T>>(job: &Job<T, V>, wide: &avx512::Job<T, V>, what: Work<T>) {
            let sums_of = |i: usize, slice: &Slice| {
                // SAFETY: this function is made for AVX-512; tables and vector are those of `job`.
                unsafe { wide.slice(i, slice) }.unwrap_or_else(|| job.any::<PlusTimes>(i))
            };
            work::<T, PlusTimes>(&job.view, what, sums_of);
        }
    };
}
#[cfg(target_arch = "x86_64")]
crate::cpu::level::features!(avx2 => avx2! {});
#[cfg(target_arch = "x86_64")]
crate::cpu::level::features!(avx512 => avx512! {});

/// A product of a matrix.
struct Product<'a, T> {
    matrix: &'a Matrix,
    x: &'a [T],
    y: &'a mut [T],
    pool: &'a Pool,
}

/// Slices of long rows that a thread takes at a time.
pub const LONG_AT_A_TIME: usize = 64;

impl<T: Element> Product<'_, T> {
    /// Shares the work among threads: `run` does what a thread does at a time.
    fn share<R: Ring<T>>(self, run: impl Fn(Work<T>) + Sync) -> Result<()> {
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

    /// In any semiring, by code without vector instructions of its own.
    fn portable<R: Ring<T>>(self, level: Level) -> Result<()> {
        let (view, x) = (self.matrix.view(), self.x);
        with_any_values(&view, |values| {
            let job = Job { view, values, x };
            self.share::<R>(|what| at_level(level, Portable { job: &job, what, ring: PhantomData::<R> }))
        })
    }
}

/// What a thread does at a time, in any semiring.
struct Portable<'a, T, R> {
    job: &'a Job<'a, T, AnyValues<'a, T>>,
    what: Work<'a, T>,
    ring: PhantomData<R>,
}

impl<T: Element, R: Ring<T>> Task for Portable<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let job = self.job;
        work::<T, R>(&job.view, self.what, |i, slice| job.slice::<R>(i, slice));
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
        // SAFETY: whoever has the level has asked the CPU.
        self.0.share::<PlusTimes>(|what| unsafe { work_avx2::<T, V>(&job, &blocked, what) })
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
        // SAFETY: whoever has the level has asked the CPU.
        self.0.share::<PlusTimes>(|what| unsafe { work_avx512::<T, V>(&job, &wide, what) })
    }
}

/// y = A x in a semiring.
///
/// # Errors
/// `InvalidArgument` for vectors of other lengths or another type, `OutOfMemory`.
pub fn multiply<T: Element>(
    matrix: &Matrix,
    semiring: Semiring,
    x: &[T],
    y: &mut [T],
    level: Level,
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
