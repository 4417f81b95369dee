//! Prediction: differences along the axes, taken as often as the order of each axis says.
//!
//! Order 1 on every axis is the Lorenzo predictor. It subtracts from each number the corner values
//! of the cube before it with alternating signs. Higher orders repeat this, as for polynomials of
//! higher degree. Differences along different axes commute, so a block is predicted by plain passes
//! over its rows.
//!
//! The orders are chosen by an estimate on some rows of the block: the bits that the differences
//! would take, each on its own or in groups of eight. Smooth arrays of f64 gain from orders up to
//! 5, noisy ones from order 1 or 0. So a few orders that are good for most arrays are tried first;
//! then the search follows the direction in which the estimate improves.

mod choice;
mod cost;
mod differences;
mod masked;
mod starts;
mod sums;

use crate::stage::rows::LANES;
use crate::stage::word::Word;
pub use choice::{Measure, Numbers, SampledRows, choose, measure};
pub use cost::{Cost, Each, GroupMaxBits};
pub use differences::apply;
pub use masked::apply_masked;
pub use sums::{ANY, LineSums, Plane, Sink, is_in_rows, undo, undo_rows};

/// Largest order on an axis.
pub const MAX_ORDER: u8 = 7;
/// Rows with fewer elements are not worth a row of lanes each.
const SHORT: usize = 8;

/// Orders along z, y and x.
pub type Orders = [u8; 3];

/// The first differences of a row, where fewer numbers are before a number than its order needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Zeros are before the first number.
    Zeros,
    /// The order of number i is at most i: pass k starts with the difference of number k + 1.
    Rising,
}

impl Start {
    /// The number with which pass `k` of sums starts.
    #[inline(always)]
    fn of_pass(self, k: usize) -> usize {
        if self == Self::Rising { k } else { 0 }
    }

    /// The order of number `i` along an axis.
    #[inline(always)]
    fn order(self, order: u8, i: usize) -> usize {
        if self == Self::Rising { usize::from(order).min(i) } else { order.into() }
    }

    /// The passes of an order that affect number `i` along an axis, or start with it.
    #[inline(always)]
    fn passes(self, order: usize, i: usize) -> usize {
        if order > 1 && self == Self::Rising { order.min(i + 1) } else { order }
    }
}

/// A prediction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction<W> {
    /// How often differences are taken along each axis.
    pub orders: Orders,
    /// Subtracted from every number beforehand, in addition to the first one.
    pub base: W,
    /// Estimated bits of the sampled numbers, or of one number in each of their groups.
    pub cost: u64,
}

impl<W: Word> Prediction<W> {
    /// No prediction yet.
    pub const NONE: Self = Self { orders: [0; 3], base: W::ZERO, cost: u64::MAX };
}

/// Elements from a number to the one before it along y and along z. Without differences along z all
/// rows are one sequence, and the second result is not used.
#[inline(always)]
fn strides([_, sy, sx]: [usize; 3]) -> (usize, usize) {
    (sx, sy * sx)
}

/// Rows of a plane; without differences along z, all rows are one plane.
#[inline(always)]
fn plane_rows([sz, sy, _]: [usize; 3], [oz, ..]: Orders) -> usize {
    if oz == 0 { sz * sy } else { sy }
}

/// Words needed to take or undo differences along z row by row: planes of whole rows.
#[inline(always)]
fn work_words([_, sy, _]: [usize; 3], [oz, ..]: Orders) -> usize {
    usize::from(oz) * sy * LANES
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::stage::rows::{NoPrefetch, PORTABLE, Portable, RowSink, Simd};

    /// Numbers followed by room for a row.
    pub fn padded<W: Word>(v: &[W]) -> Vec<W> {
        [v, &[W::default(); LANES]].concat()
    }

    struct Collected(Vec<[u32; LANES]>);

    impl Sink<u32> for Collected {
        type Plane<'p> = &'p mut Vec<[u32; LANES]>;

        fn plane(&mut self, _: usize) -> Self::Plane<'_> {
            &mut self.0
        }
    }

    impl Plane<u32> for &mut Vec<[u32; LANES]> {
        fn put<S: Simd<u32>>(&mut self, s: S, _: usize, row: S::Row) {
            let mut words = [0; LANES];
            s.store(row, &mut words);
            self.push(words);
        }
    }

    pub fn noise(n: usize) -> Vec<u32> {
        (0..n as u32).map(|i| (i ^ i << 7).wrapping_mul(0x9e37_79b9) >> (i % 13)).collect()
    }

    pub fn all_orders() -> impl Iterator<Item = (Orders, Start)> {
        let all = (0..512u16).map(|i| [i >> 6, i >> 3 & 7, i & 7].map(|order| order as u8));
        all.flat_map(|orders| [Start::Zeros, Start::Rising].map(|start| (orders, start)))
    }

    /// The differences, one number and one pass at a time.
    fn by_definition(v: &[u32], shape: [usize; 3], orders: Orders, start: Start) -> Vec<u32> {
        let mut d = v.to_vec();
        let rows = plane_rows(shape, orders);
        let extents = [shape[0] * shape[1] / rows, rows, shape[2]];
        for (axis, distance) in [(0, rows * shape[2]), (1, shape[2]), (2, 1)] {
            for k in 0..usize::from(orders[axis]) {
                let has_before = |i: usize| i / distance % extents[axis] > start.of_pass(k);
                d = (0..d.len())
                    .map(|i| if has_before(i) { d[i].wrapping_sub(d[i - distance]) } else { d[i] })
                    .collect();
            }
        }
        d
    }

    #[test]
    fn undo_is_the_inverse() {
        for shape in [
            [1, 1, 1],
            [1, 1, 100],
            [1, 7, 32],
            [3, 4, 5],
            [8, 16, 32],
            [5, 1, 3],
            [2, 3, 1],
            [4, 5, 9],
            [3, 2, 70],
            [6, 200, 12],
            [1, 90, 33],
            [50, 3, 2],
        ] {
            let v = noise(shape.iter().product());
            for (orders, start) in all_orders() {
                let n = v.len();
                let mut r = padded(&v);
                let mut spare = padded(&noise(n));
                let mut work = vec![0; 7 * 16 * LANES];
                let r = apply(PORTABLE, &mut r, &mut spare, &mut work, shape, (orders, start), 0, &mut NoPrefetch);
                let zigzag = |d: u32| d << 1 ^ (d as i32 >> 31) as u32;
                let expected = by_definition(&v, shape, orders, start).into_iter().map(zigzag);
                assert!(r[..n].iter().copied().eq(expected), "{shape:?} {orders:?} {start:?}");
                let mut sums = r.to_vec();
                undo(PORTABLE, &mut sums, shape, (orders, start), 0);
                assert_eq!(sums[..n], v, "{shape:?} {orders:?} {start:?}");
                let mut work = vec![0; 7 * shape[1] * LANES];
                if is_in_rows(shape, orders, work.len()) {
                    let mut out = Collected(vec![]);
                    undo_rows(PORTABLE, r, &mut work, shape, (orders, start), 0, &mut out);
                    let rows: Vec<u32> = out.0.iter().flat_map(|row| &row[..shape[2]]).copied().collect();
                    assert_eq!(rows, v, "{shape:?} {orders:?} {start:?}");
                }
            }
        }
    }

    impl RowSink<u32, Portable> for Collected {
        fn take(&mut self, _: Portable, row: [u32; LANES]) {
            self.0.push(row);
        }
    }

    /// The output of [`LineSums`] for the differences of a line of numbers minus `base`.
    fn line<const ORDER: usize>(r: &[u32], orders: (Orders, Start), base: u32) -> Vec<u32> {
        let mut out = Collected(vec![]);
        let mut sums = LineSums::<_, _, ORDER>::new(PORTABLE, orders, base, &mut out);
        r.as_chunks::<LANES>().0.iter().for_each(|&row| sums.take(PORTABLE, row));
        out.0.concat()
    }

    #[test]
    fn lines_are_summed_up_on_their_way() {
        for n in [1, 31, 32, 33, 64, 100, 1050] {
            let v = noise(n);
            for (orders, start) in all_orders() {
                let mut r = padded(&v);
                let mut spare = r.clone();
                let both = (orders, start);
                let r = apply(PORTABLE, &mut r, &mut spare, &mut [], [1, 1, n], both, 0, &mut NoPrefetch);
                let with_base = |base: u32| -> Vec<u32> { v.iter().map(|v| v.wrapping_add(base)).collect() };
                assert_eq!(line::<ANY>(r, both, 12345)[..n], with_base(12345), "{n} {both:?}");
                if orders[2] == 1 {
                    assert_eq!(line::<1>(r, both, 77)[..n], with_base(77), "{n} {both:?}");
                }
            }
        }
    }
}
