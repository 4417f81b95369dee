//! Prediction: differences along the axes, as often as an order for each axis says.
//!
//! Order 1 on every axis is the Lorenzo predictor, which subtracts from each number the corner values
//! of the cube before it with alternating signs; order 2 and more do the same again, as for polynomials of higher
//! degree. Since differences along different axes commute, a block is predicted by plain passes over its rows.
//!
//! Which orders suit a block is estimated on some of its rows by the bits that the differences would
//! take. Smooth arrays of f64 gain from orders as high as 5, noisy ones from order 1 or 0; so after a few orders that are
//! good for most arrays the estimate follows the direction in which it improves.

use crate::codec::lorenzo::word::Word;

/// Largest order on an axis.
pub const MAX_ORDER: u8 = 7;
/// Of so many rows one is looked at for the estimate …
const SAMPLE_EVERY: usize = 17;
/// … this one …
const SAMPLED: usize = 8;
/// … unless there are fewer rows than this: then all are.
const SAMPLE_FROM: usize = 34;
/// Elements of a row in a block that is a single long row.
const RUN: usize = 32;

/// Orders along z, y and x.
pub type Orders = [u8; 3];

/// A prediction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction<W> {
    pub orders: Orders,
    /// What is subtracted from every number beforehand.
    pub base: W,
    /// Estimated bits of the sampled numbers.
    pub cost: u64,
}

/// The shape as a prediction sees it: without differences along z all rows are one sequence.
#[inline(always)]
fn merged([sz, sy, sx]: [usize; 3], [oz, ..]: Orders) -> [usize; 3] {
    if oz == 0 { [1, sz * sy, sx] } else { [sz, sy, sx] }
}

/// Replaces the numbers of a block by their unsigned differences.
#[inline(always)]
pub fn apply<W: Word>(v: &mut [W], shape: [usize; 3], orders: Orders, base: W) {
    let [sz, sy, sx] = merged(shape, orders);
    let [oz, oy, ox] = orders;
    v.iter_mut().for_each(|v| *v = v.minus(base));
    for _ in 0..oz {
        differences(v, sy * sx);
    }
    for _ in 0..oy {
        v.chunks_exact_mut(sy * sx).for_each(|plane| differences(plane, sx));
    }
    for _ in 0..ox {
        v.chunks_exact_mut(sx).for_each(neighbour_differences);
    }
    debug_assert_eq!(v.len(), sz * sy * sx);
    v.iter_mut().for_each(|v| *v = v.zigzag());
}

/// The inverse of [`apply`].
#[inline(always)]
pub fn undo<W: Word>(r: &mut [W], shape: [usize; 3], orders: Orders, base: W) {
    let [_, sy, sx] = merged(shape, orders);
    let [oz, oy, ox] = orders;
    r.iter_mut().for_each(|r| *r = r.unzigzag());
    for _ in 0..oz {
        sums(r, sy * sx);
    }
    for _ in 0..oy {
        r.chunks_exact_mut(sy * sx).for_each(|plane| sums(plane, sx));
    }
    for _ in 0..ox {
        r.chunks_exact_mut(sx).for_each(neighbour_sums);
    }
    r.iter_mut().for_each(|v| *v = v.plus(base));
}

/// Subtracts from every row the one before it.
#[inline(always)]
fn differences<W: Word>(v: &mut [W], row: usize) {
    for start in (row..v.len()).step_by(row).rev() {
        let (before, this) = v[start - row..start + row].split_at_mut(row);
        this.iter_mut().zip(before).for_each(|(v, before)| *v = v.minus(*before));
    }
}

/// The inverse of [`differences`].
#[inline(always)]
fn sums<W: Word>(v: &mut [W], row: usize) {
    for start in (row..v.len()).step_by(row) {
        let (before, this) = v[start - row..start + row].split_at_mut(row);
        this.iter_mut().zip(before).for_each(|(v, before)| *v = v.plus(*before));
    }
}

/// Subtracts from every number the one before it.
#[inline(always)]
fn neighbour_differences<W: Word>(row: &mut [W]) {
    let mut before = W::default();
    for v in row {
        (*v, before) = (v.minus(before), *v);
    }
}

/// The inverse of [`neighbour_differences`].
#[inline(always)]
fn neighbour_sums<W: Word>(row: &mut [W]) {
    let mut sum = W::default();
    for v in row {
        sum = sum.plus(*v);
        *v = sum;
    }
}

/// Chooses the prediction of a block whose numbers are `v`. `row` has room for one of its rows, and for [`RUN`] and
/// [`MAX_ORDER`] numbers. With `search`, orders of which none is that of another axis are tried too.
#[inline(always)]
pub fn choose<W: Word>(v: &[W], shape: [usize; 3], search: bool, row: &mut [W]) -> Prediction<W> {
    let first = v[0];
    let (lowest, highest) = v
        .iter()
        .fold((first, first), |(lowest, highest), &v| (lowest.min_max_signed(v).0, highest.min_max_signed(v).1));
    let range = highest.minus(lowest);
    let middle = lowest.plus((range >> 1).plus(range & W::from_u64(1)));
    let mut estimate = |orders: Orders| {
        let base = if orders == [0; 3] { middle } else { first };
        Prediction { orders, base, cost: cost(v, shape, orders, base, row) }
    };
    let is_possible = |orders: Orders| orders.iter().zip(shape).all(|(&order, n)| order == 0 || n > 1);

    let cubic = shape.map(|n| if n > 1 { 3 } else { 0 });
    let mut best = estimate([0; 3]);
    for orders in [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], cubic] {
        if is_possible(orders) && orders != [0; 3] {
            let other = estimate(orders);
            if other.cost < best.cost {
                best = other;
            }
        }
    }
    let order = best.orders.into_iter().max().unwrap_or(0);
    if order > 0 {
        let unit = best.orders.map(|o| o / order);
        for order in order + 1..=MAX_ORDER {
            let other = estimate(unit.map(|u| u * order));
            if other.cost >= best.cost {
                break;
            }
            best = other;
        }
    }
    while search {
        let from = best;
        for (axis, step) in [(2, 1), (1, 1), (0, 1), (2, -1), (1, -1), (0, -1)] {
            let mut orders = from.orders;
            let Some(order) = orders[axis].checked_add_signed(step).filter(|&order| order <= MAX_ORDER) else {
                continue;
            };
            orders[axis] = order;
            if is_possible(orders) {
                let other = estimate(orders);
                if other.cost < best.cost {
                    best = other;
                }
            }
        }
        if best == from {
            break;
        }
    }
    best
}

/// Bits of the sampled numbers after a prediction.
#[inline(always)]
fn cost<W: Word>(v: &[W], shape: [usize; 3], orders: Orders, base: W, row: &mut [W]) -> u64 {
    let [sz, sy, sx] = shape;
    if sz * sy == 1 {
        return sampled(sx.div_ceil(RUN))
            .map(|run| {
                let (start, end) = (run * RUN, sx.min((run + 1) * RUN));
                let lead = start.min(usize::from(orders[2]));
                let row = &mut row[..lead + end - start];
                row.iter_mut().zip(&v[start - lead..end]).for_each(|(to, v)| *to = v.minus(base));
                finish(row, lead, orders[2])
            })
            .sum();
    }
    let [_, rows, _] = merged(shape, orders);
    sampled(sz * sy)
        .map(|number| {
            let row = &mut row[..sx];
            row.fill(W::default());
            let (z, y) = (number / rows, number % rows);
            for (i, factor_z) in binomials(orders[0]).take(z + 1).enumerate() {
                for (j, factor_y) in binomials(orders[1]).take(y + 1).enumerate() {
                    let from = &v[(number - i * rows - j) * sx..][..sx];
                    add_multiple(row, from, base, factor_z * factor_y);
                }
            }
            finish(row, 0, orders[2])
        })
        .sum()
}

/// Differences along x, and the bits of what is behind the first `lead` of them.
#[inline(always)]
fn finish<W: Word>(row: &mut [W], lead: usize, order: u8) -> u64 {
    for _ in 0..order {
        neighbour_differences(row);
    }
    row[lead..].iter().map(|d| d.zigzag().bit_length()).sum::<u32>().into()
}

/// Numbers of the sampled rows.
#[inline(always)]
fn sampled(n_rows: usize) -> impl Iterator<Item = usize> {
    let (start, step) = if n_rows < SAMPLE_FROM { (0, 1) } else { (SAMPLED, SAMPLE_EVERY) };
    (start..n_rows).step_by(step)
}

/// Binomial coefficients with alternating signs: what an element and those before it contribute to differences.
#[inline(always)]
fn binomials(order: u8) -> impl Iterator<Item = i64> {
    let order = i64::from(order);
    (0..=order).scan(1, move |next, i| {
        let this = *next;
        *next = -this * (order - i) / (i + 1);
        Some(this)
    })
}

/// Adds a multiple of what is above the base.
#[inline(always)]
fn add_multiple<W: Word>(sum: &mut [W], from: &[W], base: W, factor: i64) {
    let terms = sum.iter_mut().zip(from);
    match factor {
        1 => terms.for_each(|(sum, v)| *sum = sum.plus(v.minus(base))),
        -1 => terms.for_each(|(sum, v)| *sum = sum.minus(v.minus(base))),
        _ => terms.for_each(|(sum, v)| *sum = sum.plus(v.minus(base).times(W::from_u64(factor as u64)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<u32> {
        (0..n as u32).map(|i| (i ^ i << 7).wrapping_mul(0x9e37_79b9) >> (i % 13)).collect()
    }

    #[test]
    fn undo_is_the_inverse() {
        for shape in [[1, 1, 1], [1, 1, 100], [1, 7, 32], [3, 4, 5], [8, 16, 32], [5, 1, 3], [2, 3, 1]] {
            let v = noise(shape.iter().product());
            for orders in (0..512u16).map(|i| [i >> 6, i >> 3 & 7, i & 7].map(|order| order as u8)) {
                let mut r = v.clone();
                apply(&mut r, shape, orders, v[0]);
                undo(&mut r, shape, orders, v[0]);
                assert_eq!(r, v, "{shape:?} {orders:?}");
            }
        }
    }

    /// The estimate without sampling is what the passes give.
    #[test]
    fn rows_are_estimated_as_they_are_coded() {
        for shape in [[1, 1, 100], [1, 7, 32], [3, 4, 5], [4, 8, 32], [2, 3, 1], [1, 1, 1050]] {
            let v = noise(shape.iter().product());
            for orders in (0..512u16).map(|i| [i >> 6, i >> 3 & 7, i & 7].map(|order| order as u8)) {
                let mut r = v.clone();
                apply(&mut r, shape, orders, 12345);
                let bits: u64 = r.iter().map(|r| u64::from(r.bit_length())).sum();
                let is_run = shape[0] * shape[1] == 1;
                if is_run && orders[..2] != [0, 0] {
                    continue;
                }
                let mut row = vec![0; shape[2].max(64)];
                assert_eq!(cost(&v, shape, orders, 12345, &mut row), bits, "{shape:?} {orders:?}");
            }
        }
    }

    #[test]
    fn polynomials_vanish() {
        let v: Vec<u64> = (0..4096u64).map(|i| i * i * i).collect();
        let best = choose(&v, [1, 1, 4096], false, &mut vec![0; 4096]);
        assert_eq!((best.orders, best.cost), ([0, 0, 4], 0));
        let v: Vec<u32> = (0..4096).map(|i| (i % 32) * (i % 32) + (i / 32) * 7).collect();
        let best = choose(&v, [8, 16, 32], true, &mut vec![0; 4096]);
        assert!(best.orders[2] == 2 || best.orders[2] == 3, "{best:?}");
    }
}
