//! Orders and base of a block.

use super::map::Mapped;
use super::{bit_length, wrap};

/// Orders along z, y and x.
pub type Orders = [u8; 3];

/// A block's numbers after the prediction by a map.
pub struct Predicted {
    pub map: u8,
    pub parameter: u16,
    pub orders: Orders,
    pub base: i64,
    pub cost: u64,
    pub r: Vec<u64>,
}

/// What orders and base are chosen for.
struct Block<'a> {
    v: &'a [i64],
    shape: [usize; 3],
    w: u32,
}

impl Block<'_> {
    fn is_possible(&self, orders: &Orders) -> bool {
        (0..3).all(|k| orders[k] == 0 || self.shape[k] > 1)
    }

    fn base(&self, orders: Orders) -> i64 {
        if orders != [0; 3] {
            return self.v[0];
        }
        let (lo, hi) = (self.v.iter().min().unwrap(), self.v.iter().max().unwrap());
        let range = i128::from(*hi) - i128::from(*lo);
        (i128::from(*lo) + (range + 1) / 2) as i64
    }

    /// The r_i.
    fn predict(&self, orders: Orders) -> Vec<u64> {
        let base = self.base(orders);
        let [sz, sy, sx] = self.shape;
        let shape = if orders[0] == 0 { [1, sz * sy, sx] } else { self.shape };
        let distances = [shape[1] * sx, sx, 1];
        let mut d: Vec<i64> = self.v.iter().map(|v| wrap(v.wrapping_sub(base), self.w)).collect();
        for axis in 0..3 {
            for _ in 0..orders[axis] {
                let has_predecessor = |i: usize| !(i / distances[axis]).is_multiple_of(shape[axis]);
                let before = |i: usize| if has_predecessor(i) { d[i - distances[axis]] } else { 0 };
                d = (0..d.len()).map(|i| wrap(d[i].wrapping_sub(before(i)), self.w)).collect();
            }
        }
        let mask = u64::MAX >> (64 - self.w);
        d.iter().map(|d| (d << 1 ^ d >> 63) as u64 & mask).collect()
    }

    fn cost(&self, orders: Orders) -> u64 {
        let [sz, sy, sx] = self.shape;
        let row = if sz * sy == 1 { 32 } else { sx };
        let r = self.predict(orders);
        let n_rows = r.len().div_ceil(row);
        let is_sampled = |number: usize| n_rows < 34 || number % 17 == 8;
        let sampled = r.chunks(row).enumerate().filter(|(number, _)| is_sampled(*number));
        sampled.flat_map(|(_, row)| row).map(|&r| u64::from(bit_length(r))).sum()
    }

    /// The first one of least cost.
    fn best(&self, all: impl IntoIterator<Item = Orders>) -> Option<(u64, Orders)> {
        let possible = all.into_iter().filter(|orders| self.is_possible(orders));
        possible.map(|orders| (self.cost(orders), orders)).min_by_key(|(cost, _)| *cost)
    }

    fn choose(&self, is_dense: bool) -> (u64, Orders) {
        let cubic = self.shape.map(|extent| if extent > 1 { 3 } else { 0 });
        let first = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], cubic];
        let (mut cost, mut orders) = self.best(first).unwrap();
        let o = *orders.iter().max().unwrap();
        if o > 0 {
            for o in o + 1..=7 {
                let higher = orders.map(|order| if order > 0 { o } else { 0 });
                if self.cost(higher) >= cost {
                    break;
                }
                (cost, orders) = (self.cost(higher), higher);
            }
        }
        if !is_dense {
            return (cost, orders);
        }
        loop {
            let steps = [(2, 1), (1, 1), (0, 1), (2, -1), (1, -1), (0, -1)];
            let neighbours = steps.into_iter().filter_map(|(axis, step)| {
                let mut other: Orders = orders;
                other[axis] = other[axis].checked_add_signed(step).filter(|&order| order <= 7)?;
                Some(other)
            });
            match self.best(neighbours) {
                Some((less, better)) if less < cost => (cost, orders) = (less, better),
                _ => return (cost, orders),
            }
        }
    }
}

/// Chooses orders and base for the numbers of a block of this shape and predicts them.
pub fn choose(mapped: &Mapped, shape: [usize; 3], w: u32, is_dense: bool) -> Predicted {
    let &Mapped { map, parameter, ref v } = mapped;
    let block = Block { v, shape, w };
    let (cost, orders) = block.choose(is_dense);
    Predicted { map, parameter, orders, base: block.base(orders), cost, r: block.predict(orders) }
}
