//! Estimates the bits that the differences of a block would take, from some of its rows.

use crate::stage::predict::choice::Numbers;
use crate::stage::predict::differences::lane_differences;
use crate::stage::predict::{MAX_ORDER, Orders, plane_rows};
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// An estimate of the bits that numbers take.
pub trait Cost<W: Word> {
    /// One in this many rows is sampled.
    const SAMPLE_EVERY: usize;
    /// How many orders up to 1 are tried first.
    const N_FIRST: usize;

    /// Number of words whose bits are counted for a row of lanes, where those of a mask count.
    fn units(mask: u32) -> usize;

    /// Adds the leading zero bits of the unsigned numbers in the lanes of `mask` to `missing`.
    fn add_missing<S: Simd<W>>(s: S, missing: S::Sum, mask: u32, numbers: S::Row) -> S::Sum;
}

/// Every number takes its own bits.
pub struct Each;

impl<W: Word> Cost<W> for Each {
    const SAMPLE_EVERY: usize = 17;
    const N_FIRST: usize = 6;

    #[inline(always)]
    fn units(mask: u32) -> usize {
        mask.count_ones() as usize
    }

    #[inline(always)]
    fn add_missing<S: Simd<W>>(s: S, missing: S::Sum, mask: u32, numbers: S::Row) -> S::Sum {
        s.add_leading_zeros(missing, mask, numbers)
    }
}

/// Of every eight numbers from the start of a row on, only the longest counts.
pub struct GroupMaxBits;

impl<W: Word> Cost<W> for GroupMaxBits {
    const SAMPLE_EVERY: usize = 13;
    const N_FIRST: usize = 8;

    #[inline(always)]
    fn units(_: u32) -> usize {
        LANES / 8
    }

    #[inline(always)]
    fn add_missing<S: Simd<W>>(s: S, missing: S::Sum, mask: u32, numbers: S::Row) -> S::Sum {
        s.add_group_zeros(missing, s.select_or_zero(mask, numbers))
    }
}

/// Adds the bits that the unsigned differences of a mask do not need.
#[inline(always)]
fn add_missing_bits<W: Word, S: Simd<W>, C: Cost<W>>(
    s: S,
    missing: S::Sum,
    mask: u32,
    differences: S::Row,
) -> S::Sum {
    C::add_missing(s, missing, mask, s.zigzag(differences))
}

/// The bits of `units` words, less the missing ones.
#[inline(always)]
fn present_bits<W: Word, S: Simd<W>>(s: S, units: usize, missing: S::Sum) -> u64 {
    units as u64 * u64::from(W::BITS) - s.total(missing)
}

/// [`cost`] of the first orders up to 1, for blocks with rows no longer than a row of lanes.
#[inline(always)]
pub(super) fn first_costs<W: Word, S: Simd<W>, C: Cost<W>>(s: S, numbers: &Numbers<W>) -> [u64; 8] {
    let Numbers { v, shape: [sz, sy, sx], .. } = *numbers;
    let lanes = first_lanes(sx);
    let mut units = 0;
    let zero = s.splat(W::default());
    let middle = s.splat(numbers.base([0; 3]));
    let mut missing = [s.no_sum(); 8];
    let (first, step) = numbers.sample::<C>(sz * sy);
    let mut number = first;
    while number < sz * sy {
        let at = number * sx;
        // The row, and those before it along y, along z, and along both, or zeros.
        let this = s.load(&v[at..]);
        let above = if number > 0 { s.load(&v[at - sx..]) } else { zero };
        let is_first_row = number % sy == 0;
        let behind = if number >= sy { s.load(&v[at - sy * sx..]) } else { zero };
        let both = if number >= sy && !is_first_row { s.load(&v[at - sy * sx - sx..]) } else { zero };
        let along_y = s.sub(this, above);
        let along_z = s.sub(this, behind);
        // Within its plane, the first row has no row above.
        let above_in_plane = if is_first_row { zero } else { s.sub(above, both) };
        let along_zy = s.sub(along_z, above_in_plane);
        let differences = [
            s.sub(this, middle),
            s.sub(this, s.shift_in(this, zero)),
            along_y,
            s.sub(along_y, s.shift_in(along_y, zero)),
            s.sub(along_z, s.shift_in(along_z, zero)),
            s.sub(along_zy, s.shift_in(along_zy, zero)),
            along_z,
            along_zy,
        ];
        let mask = numbers.counting(at, lanes);
        units += C::units(mask);
        for i in 0..C::N_FIRST {
            missing[i] = add_missing_bits::<_, _, C>(s, missing[i], mask, differences[i]);
        }
        number += step;
    }
    let mut costs = [0; 8];
    for i in 0..C::N_FIRST {
        costs[i] = present_bits(s, units, missing[i]);
    }
    costs
}

outlined! {
    /// Estimated bits of the sampled numbers after a prediction. The base is zero unless all orders are
    /// zero.
    pub(super) fn cost<'a, W, C: Cost<W>>(s, numbers: &'a Numbers<'a, W>, orders: Orders, base: W) -> u64 {
        let Numbers { v, shape, start: row_start, .. } = *numbers;
        let [sz, sy, sx] = shape;
        let base = s.splat(base);
        let zero = s.splat(W::default());
        let (mut missing, mut units) = (s.no_sum(), 0);
        if sz * sy == 1 {
            let (mut run, step) = numbers.sample::<C>(sx.div_ceil(LANES));
            while run < sx.div_ceil(LANES) {
                let at = run * LANES;
                let mut this = s.sub(s.load(&v[at..]), base);
                // Only the last lanes of the previous run are needed, and only these get correct
                // differences.
                let mut before = s.splat(W::default());
                if run > 0 {
                    before = s.load(&v[at - LANES..]);
                }
                for k in 0..usize::from(orders[2]) {
                    this = lane_differences(s, this, before, if run == 0 { row_start.of_pass(k) } else { 0 });
                    before = s.sub(before, s.shift_in(before, s.splat(W::default())));
                }
                let mask = numbers.counting(at, first_lanes(sx - at));
                missing = add_missing_bits::<_, _, C>(s, missing, mask, this);
                units += C::units(mask);
                run += step;
            }
            return present_bits(s, units, missing);
        }
        let rows = plane_rows(shape, orders);
        // Differences along x of the row of lanes before this one, for rows of several.
        let mut before = [zero; MAX_ORDER as usize];
        let is_short = sx <= LANES;
        let (mut number, step) = numbers.sample::<C>(sz * sy);
        while number < sz * sy {
            let (z, y) = (number / rows, number % rows);
            // The orders of this row.
            let order = |order: u8, i: usize| row_start.order(order, i);
            let (oz, oy) = (order(orders[0], z), order(orders[1], y));
            let (factors_z, factors_y) = (&BINOMIALS[oz], &BINOMIALS[oy]);
            if !is_short {
                before = [zero; MAX_ORDER as usize];
            }
            let mut start = 0;
            while start < sx {
                let at = number * sx + start;
                let mut this = match [oz, oy] {
                    [2, 2] => Before { v, at, n: [z, y], distances: [rows * sx, sx] }.second_difference(s),
                    [3, 3] => Before { v, at, n: [z, y], distances: [rows * sx, sx] }.third_difference(s),
                    _ => {
                        let mut sum = s.splat(W::default());
                        for i in 0..=oz.min(z) {
                            for j in 0..=oy.min(y) {
                                let from = s.load(&v[at - (i * rows + j) * sx..]);
                                let factor = factors_z[i].wrapping_mul(factors_y[j]);
                                sum = s.add(sum, s.mul_scalar(from, W::from_u64(factor as u64)));
                            }
                        }
                        sum
                    }
                };
                this = s.sub(this, base);
                if is_short {
                    for k in 0..usize::from(orders[2]) {
                        this = lane_differences(s, this, zero, row_start.of_pass(k));
                    }
                } else {
                    for (k, before) in before[..usize::from(orders[2])].iter_mut().enumerate() {
                        let kept = if start == 0 { row_start.of_pass(k) } else { 0 };
                        (this, *before) = (lane_differences(s, this, *before, kept), this);
                    }
                }
                let mask = numbers.counting(at, first_lanes(sx - start));
                missing = add_missing_bits::<_, _, C>(s, missing, mask, this);
                units += C::units(mask);
                start += LANES;
            }
            number += step;
        }
        present_bits(s, units, missing)
    }
}

/// A row of numbers and the rows before it.
struct Before<'a, W> {
    v: &'a [W],
    at: usize,
    /// How many planes and rows are before it, and their distances.
    n: [usize; 2],
    distances: [usize; 2],
}

impl<W: Word> Before<'_, W> {
    /// The row that is `planes` planes and `rows` rows before, if it exists.
    #[inline(always)]
    fn row<S: Simd<W>>(&self, s: S, [planes, rows]: [usize; 2]) -> Option<S::Row> {
        if planes > self.n[0] || rows > self.n[1] {
            return None;
        }
        Some(s.load(&self.v[self.at - planes * self.distances[0] - rows * self.distances[1]..]))
    }

    /// The sum of the rows that exist.
    #[inline(always)]
    fn sum<S: Simd<W>, const N: usize>(&self, s: S, places: [[usize; 2]; N]) -> S::Row {
        let mut sum = s.splat(W::default());
        for &place in &places {
            if let Some(row) = self.row(s, place) {
                sum = s.add(sum, row);
            }
        }
        sum
    }

    /// The sum less the rows that exist.
    #[inline(always)]
    fn subtract<S: Simd<W>, const N: usize>(&self, s: S, mut sum: S::Row, places: [[usize; 2]; N]) -> S::Row {
        for &place in &places {
            if let Some(row) = self.row(s, place) {
                sum = s.sub(sum, row);
            }
        }
        sum
    }

    // Coefficients are products of those along z and y: 1, −2, 1 or 1, −3, 3, −1. So there are
    // three magnitudes.

    /// The difference of order 2 along z and y.
    #[inline(always)]
    fn second_difference<S: Simd<W>>(&self, s: S) -> S::Row {
        let corners = self.sum(s, [[0, 0], [0, 2], [2, 0], [2, 2]]);
        let inner = self.sum(s, [[1, 1]]);
        let twice = self.subtract(s, s.add(inner, inner), [[0, 1], [1, 0], [1, 2], [2, 1]]);
        s.add(corners, s.add(twice, twice))
    }

    /// The difference of order 3 along z and y.
    #[inline(always)]
    fn third_difference<S: Simd<W>>(&self, s: S) -> S::Row {
        let corners = self.subtract(s, self.sum(s, [[0, 0], [3, 3]]), [[0, 3], [3, 0]]);
        let edges = self.sum(s, [[0, 2], [2, 0], [1, 3], [3, 1]]);
        let edges = self.subtract(s, edges, [[0, 1], [1, 0], [2, 3], [3, 2]]);
        let inner = self.subtract(s, self.sum(s, [[1, 1], [2, 2]]), [[1, 2], [2, 1]]);
        let thrice = s.add(edges, s.add(inner, s.add(inner, inner)));
        s.add(corners, s.add(thrice, s.add(thrice, thrice)))
    }
}

/// Binomial coefficients with alternating signs, for each order: the factors of an element and of
/// those before it in a difference.
const BINOMIALS: [[i64; MAX_ORDER as usize + 1]; MAX_ORDER as usize + 1] = {
    let mut all = [[1; MAX_ORDER as usize + 1]; MAX_ORDER as usize + 1];
    let mut order = 0;
    while order < all.len() {
        let mut i = 1;
        while i < all.len() {
            all[order][i] = -all[order][i - 1] * (order as i64 - i as i64 + 1) / i as i64;
            i += 1;
        }
        order += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::choice::{FIRST, SampledRows};
    use crate::stage::predict::tests::{all_orders, noise, padded};
    use crate::stage::predict::{Start, apply};
    use crate::stage::rows::{NoPrefetch, PORTABLE};

    /// Without sampling, the estimate equals the bits of the actual differences.
    #[test]
    fn rows_are_estimated_as_they_are_coded() {
        for shape in [[1, 1, 100], [1, 7, 32], [3, 4, 5], [4, 8, 32], [2, 3, 1], [1, 1, 1050], [2, 3, 100]] {
            let v = noise(shape.iter().product());
            for (orders, start) in all_orders() {
                let mut r = padded(&v);
                let base = if orders == [0; 3] { 12345 } else { 0 };
                let mut spare = r.clone();
                let r = apply(PORTABLE, &mut r, &mut spare, &mut [], shape, (orders, start), base, &mut NoPrefetch);
                let bits: u64 = r[..v.len()].iter().map(|r| u64::from(r.bit_length())).sum();
                let is_run = shape[0] * shape[1] == 1;
                if is_run && orders[..2] != [0, 0] {
                    continue;
                }
                let v = &padded(&v);
                let numbers = Numbers { v, shape, middle: 0, start, rows: SampledRows::All, masked: None };
                let cost = cost::<_, _, Each>(PORTABLE, &numbers, orders, base);
                assert_eq!(cost, bits, "{shape:?} {orders:?} {start:?}");
            }
        }
    }

    /// The costs are the same as one by one.
    #[test]
    fn first_orders_are_estimated_together() {
        for shape in [[1, 7, 32], [3, 4, 5], [4, 8, 32], [8, 16, 32], [2, 3, 1]] {
            let v = padded(&noise(shape.iter().product()));
            let rows = SampledRows::EveryNth;
            let numbers = Numbers { v: &v, shape, middle: 777, start: Start::Rising, rows, masked: None };
            let together = first_costs::<_, _, Each>(PORTABLE, &numbers);
            let byte_groups = first_costs::<_, _, GroupMaxBits>(PORTABLE, &numbers);
            for (i, orders) in FIRST.into_iter().enumerate() {
                let base = if i == 0 { 777 } else { 0 };
                let each = cost::<_, _, Each>(PORTABLE, &numbers, orders, base);
                let one_by_one = cost::<_, _, GroupMaxBits>(PORTABLE, &numbers, orders, base);
                assert!(i >= <Each as Cost<u32>>::N_FIRST || together[i] == each, "{shape:?} {orders:?}");
                assert_eq!(byte_groups[i], one_by_one, "{shape:?} {orders:?}");
            }
        }
    }
}
