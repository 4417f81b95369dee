//! Chooses the orders for a block.

use crate::stage::bitmap::Bitmap;
use crate::stage::predict::cost::{Cost, Each, cost, first_costs};
use crate::stage::predict::{MAX_ORDER, Orders, Prediction, Start};
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// Index of the first sampled row.
const SAMPLED: usize = 8;
/// All rows are examined if there are fewer than this.
const SAMPLE_FROM: usize = 34;
/// About how many rows of a smaller block are sampled with [`SampledRows::Enough`].
const ENOUGH: usize = 15;

/// The rows whose costs are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledRows {
    /// One in [`Cost::SAMPLE_EVERY`].
    EveryNth,
    /// As many in smaller blocks.
    Enough,
    All,
}

/// Orders up to 1 that may be good for a block.
pub(super) const FIRST: [Orders; 8] =
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 0, 0], [1, 1, 0]];

/// The numbers of a block minus the first of them.
pub struct Numbers<'a, W> {
    /// The numbers, followed by room for a row. The first number is zero.
    pub v: &'a [W],
    /// The extents of the block.
    pub shape: [usize; 3],
    /// Subtracted from numbers that are coded without differences.
    pub middle: W,
    /// How differences of an order above 1 begin.
    pub start: Start,
    /// The rows that are examined, if there are [`SAMPLE_FROM`] or more.
    pub rows: SampledRows,
    /// Numbers that do not count because their differences will be zero. Then no order is above 1.
    pub masked: Option<&'a Bitmap>,
}

impl<W: Word> Numbers<'_, W> {
    /// The first of `n_rows` rows that is sampled, and the step to the next.
    #[inline(always)]
    pub(super) fn sample<C: Cost<W>>(&self, n_rows: usize) -> (usize, usize) {
        match self.rows {
            _ if n_rows < SAMPLE_FROM => (0, 1),
            SampledRows::All => (0, 1),
            SampledRows::EveryNth => (SAMPLED, C::SAMPLE_EVERY),
            SampledRows::Enough => (SAMPLED, C::SAMPLE_EVERY.min(n_rows / ENOUGH)),
        }
    }

    /// Whether orders are 0 on all axes of extent 1.
    #[inline(always)]
    fn is_possible(&self, [z, y, x]: Orders) -> bool {
        (z == 0 || self.shape[0] > 1) && (y == 0 || self.shape[1] > 1) && (x == 0 || self.shape[2] > 1)
    }

    /// `middle` if numbers are coded without differences, else the first number, which is zero.
    #[inline(always)]
    pub(super) fn base(&self, orders: Orders) -> W {
        if orders == [0; 3] { self.middle } else { W::default() }
    }

    /// The lanes of a mask whose numbers count; the numbers begin at `at`.
    #[inline(always)]
    pub(super) fn counting(&self, at: usize, lanes: u32) -> u32 {
        match self.masked {
            Some(bitmap) => lanes & !bitmap.window(at),
            None => lanes,
        }
    }

    #[inline(always)]
    fn estimate<S: Simd<W>, C: Cost<W>>(&self, s: S, orders: Orders) -> Prediction<W> {
        let base = self.base(orders);
        Prediction { orders, base, cost: cost::<_, _, C>(s, self, orders, base) }
    }
}

outlined! {
    /// Chooses the prediction of a block. With `search`, also tries orders that differ from axis to
    /// axis.
    pub fn choose<'a, W, C: Cost<W>>(s, numbers: &'a Numbers<'a, W>, search: bool) -> Prediction<W> {
        let shape = numbers.shape;
        let order = |n: usize| if n > 1 { 3 } else { 0 };
        let cubic = [order(shape[0]), order(shape[1]), order(shape[2])];
        let is_rows = shape[0] * shape[1] > 1 && shape[2] <= LANES;
        let first_costs = if is_rows { first_costs::<_, _, C>(s, numbers) } else { [0; 8] };
        let mut best = Prediction::NONE;
        for i in 0..C::N_FIRST + usize::from(numbers.masked.is_none()) {
            let orders = if i < C::N_FIRST { FIRST[i] } else { cubic };
            if numbers.is_possible(orders) && (i == 0 || orders != [0; 3]) {
                let base = numbers.base(orders);
                let cost =
                    if is_rows && i < C::N_FIRST { first_costs[i] } else { cost::<_, _, C>(s, numbers, orders, base) };
                if cost < best.cost {
                    best = Prediction { orders, base, cost };
                }
            }
        }
        if numbers.masked.is_some() {
            return best;
        }
        let order = best.orders[0].max(best.orders[1]).max(best.orders[2]);
        if order > 0 {
            // Each order is either this or 0.
            let [uz, uy, ux] = best.orders.map(|o| u8::from(o > 0));
            for order in order + 1..=MAX_ORDER {
                let other = numbers.estimate::<_, C>(s, [uz * order, uy * order, ux * order]);
                if other.cost >= best.cost {
                    break;
                }
                best = other;
            }
        }
        if !search {
            return best;
        }
        loop {
            let from = best;
            for (axis, step) in [(2, 1), (1, 1), (0, 1), (2, -1), (1, -1), (0, -1)] {
                let mut orders = from.orders;
                let Some(order) = orders[axis].checked_add_signed(step).filter(|&order| order <= MAX_ORDER) else {
                    continue;
                };
                orders[axis] = order;
                if numbers.is_possible(orders) {
                    let other = numbers.estimate::<_, C>(s, orders);
                    if other.cost < best.cost {
                        best = other;
                    }
                }
            }
            if best == from {
                return best;
            }
        }
    }
}

/// A measure of numbers, computed row by row.
pub trait Measure<W: Word> {
    /// The measure of each number.
    fn of<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row;
}

outlined! {
    /// The sum of a measure over the sampled numbers that count.
    pub fn measure<'a, W, M: Measure<W>>(s, numbers: &'a Numbers<'a, W>, measure: &'a M) -> u64 {
        let Numbers { v, shape: [sz, sy, sx], .. } = *numbers;
        let n = sz * sy * sx;
        let (n_rows, length) = if sz * sy == 1 { (sx.div_ceil(LANES), LANES) } else { (sz * sy, sx) };
        let mut sums = s.splat(W::default());
        let (mut row, step) = numbers.sample::<Each>(n_rows);
        while row < n_rows {
            let end = n.min((row + 1) * length);
            let mut at = row * length;
            while at < end {
                let lanes = numbers.counting(at, first_lanes(end - at));
                sums = s.add(sums, s.select_or_zero(lanes, measure.of(s, s.load(&v[at..]))));
                at += LANES;
            }
            row += step;
        }
        let mut lanes = [W::default(); LANES];
        s.store(sums, &mut lanes);
        let mut sum = 0;
        for lane in lanes {
            sum += lane.to_u64();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::PORTABLE;

    #[test]
    fn polynomials_vanish() {
        let choose = |v: Vec<u64>, shape, search| {
            super::choose::<_, _, Each>(
                PORTABLE,
                &Numbers {
                    v: &padded(&v),
                    shape,
                    middle: v[v.len() / 2],
                    start: Start::Rising,
                    rows: SampledRows::EveryNth,
                    masked: None,
                },
                search,
            )
        };
        let best = choose((0..4096u64).map(|i| i * i * i).collect(), [1, 1, 4096], false);
        assert_eq!((best.orders, best.cost), ([0, 0, 4], 0));
        let v = (0..4096).map(|i| (i % 32) * (i % 32) + (i / 32) * 7).collect();
        let best = choose(v, [8, 16, 32], true);
        assert!(best.orders[2] == 2 || best.orders[2] == 3, "{best:?}");
    }
}
