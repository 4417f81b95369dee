//! Prediction of a block: orders and base.

use super::bits::BitString;
use super::map::{CUT, Mapped};
use super::mask::Mask;
use super::{bit_length, samples, wrap};

/// Orders along z, y and x.
pub type Orders = [u8; 3];

/// A block's numbers after mapping and prediction.
pub struct Predicted {
    pub map: u8,
    pub parameter: u16,
    pub orders: Orders,
    pub base: i64,
    pub cost: u64,
    /// The residuals r_i of the elements that are not masked.
    pub r: Vec<u64>,
    /// The tails that CUT splits off.
    pub tails: Vec<u8>,
}

/// A block whose orders and base are to be chosen.
pub struct Block {
    pub v: Vec<i64>,
    pub tails: Vec<(u64, u32)>,
    pub is_masked: Option<Vec<bool>>,
    pub shape: [usize; 3],
    pub w: u32,
    pub rows: Rows,
    pub is_dense: bool,
    pub rule: Rule,
}

/// Parameters of the choice, which differ between codecs.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The orders that are tried first, in addition to order 3 on every axis.
    pub first: &'static [Orders],
    /// One row of this number is sampled.
    pub one_of: usize,
    /// Of this number of consecutive numbers in a row, only the longest one counts.
    pub together: usize,
}

const LORENZO: Rule =
    Rule { first: &[[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], one_of: 17, together: 1 };

/// The rows over which costs are computed.
#[derive(Clone, Copy, PartialEq)]
pub enum Rows {
    Sampled,
    All,
}

impl Block {
    fn is_possible(&self, orders: &Orders) -> bool {
        (0..3).all(|k| orders[k] == 0 || self.shape[k] > 1)
    }

    fn is_masked(&self, i: usize) -> bool {
        self.is_masked.as_ref().is_some_and(|is_masked| is_masked[i])
    }

    pub fn base(&self, orders: Orders) -> i64 {
        if orders != [0; 3] {
            return self.v[0];
        }
        let mut samples: Vec<i64> = samples(&self.v).into_iter().step_by(4).collect();
        samples.sort_unstable();
        samples[4]
    }

    /// The number that pass k subtracts from number `i` along an axis, with these orders.
    fn predecessor(&self, i: usize, axis: usize, k: u8, orders: Orders) -> Option<usize> {
        let [sz, sy, sx] = self.shape;
        let shape = if orders[0] == 0 { [1, sz * sy, sx] } else { self.shape };
        let distance = [shape[1] * sx, sx, 1][axis];
        let place = i / distance % shape[axis];
        if place <= k.into() { None } else { Some(i - distance) }
    }

    /// Computes the residuals r_i.
    pub fn predict(&self, orders: Orders, base: i64) -> Vec<u64> {
        let mut d: Vec<i64> = self.v.iter().map(|v| wrap(v.wrapping_sub(base), self.w)).collect();
        for axis in 0..3 {
            for k in 0..orders[axis] {
                let before = |i: usize| self.predecessor(i, axis, k, orders).map_or(0, |i| d[i]);
                d = (0..d.len()).map(|i| wrap(d[i].wrapping_sub(before(i)), self.w)).collect();
            }
        }
        let mask = u64::MAX >> (64 - self.w);
        d.iter().map(|d| (d << 1 ^ d >> 63) as u64 & mask).collect()
    }

    /// Sets the r_i of masked elements to 0.
    fn give_up(&mut self, orders: Orders, base: i64) {
        for i in (0..self.v.len()).filter(|&i| self.is_masked(i)).collect::<Vec<_>>() {
            self.v[i] = wrap(self.v[i].wrapping_sub(self.difference(i, orders, orders, base)), self.w);
        }
    }

    /// d of the number `i` by the prediction with `orders`, after `passes` passes along each axis.
    fn difference(&self, i: usize, orders: Orders, passes: Orders, base: i64) -> i64 {
        let Some(axis) = (0..3).find(|&axis| passes[axis] > 0) else { return self.v[i].wrapping_sub(base) };
        let mut fewer = passes;
        fewer[axis] -= 1;
        let fewer_passes = fewer[axis];
        let fewer = |i: usize| self.difference(i, orders, fewer, base);
        let before = self.predecessor(i, axis, fewer_passes, orders).map_or(0, fewer);
        fewer(i).wrapping_sub(before)
    }

    /// True if the number `i` counts in costs.
    fn counts(&self, i: usize) -> bool {
        let row = self.row();
        let n_rows = self.v.len().div_ceil(row);
        let is_all = self.rows == Rows::All || n_rows < 34;
        let one_of = if self.is_dense { self.rule.one_of.min(n_rows / 15) } else { self.rule.one_of };
        let is_sampled = || i / row >= 8 && (i / row - 8).is_multiple_of(one_of);
        (is_all || is_sampled()) && !self.is_masked(i)
    }

    fn row(&self) -> usize {
        let [sz, sy, sx] = self.shape;
        if sz * sy == 1 { 32 } else { sx }
    }

    fn cost(&self, orders: Orders) -> u64 {
        let r = self.predict(orders, self.base(orders));
        let length = |i: usize| if self.counts(i) { u64::from(bit_length(r[i])) } else { 0 };
        let rows = (0..r.len()).step_by(self.row()).map(|i| i..r.len().min(i + self.row()));
        let longest = |numbers: &[usize]| numbers.iter().map(|&i| length(i)).max().unwrap();
        let cost = |row: Vec<usize>| row.chunks(self.rule.together).map(longest).sum::<u64>();
        rows.map(|row| cost(row.collect())).sum()
    }

    /// Cost of the tails, for any orders.
    fn tail_cost(&self) -> u64 {
        (0..self.v.len()).filter(|&i| self.counts(i)).map(|i| u64::from(self.tails[i].1)).sum()
    }

    /// The first orders of least cost.
    fn best(&self, all: impl IntoIterator<Item = Orders>) -> Option<(u64, Orders)> {
        let possible = all.into_iter().filter(|orders| self.is_possible(orders));
        possible.map(|orders| (self.cost(orders), orders)).min_by_key(|(cost, _)| *cost)
    }

    pub fn choose(&self, is_dense: bool) -> (u64, Orders) {
        let cubic = self.shape.map(|extent| if extent > 1 { 3 } else { 0 });
        let first = self.rule.first.iter().copied();
        if self.is_masked.is_some() {
            return self.best(first).unwrap();
        }
        let (mut cost, mut orders) = self.best(first.chain([cubic])).unwrap();
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

/// Chooses the best of these maps for a block of this shape; returns its predicted numbers.
pub fn best(maps: &[Mapped], mask: Option<&Mask>, shape: [usize; 3], w: u32, is_dense: bool) -> Predicted {
    let predicted = |mapped: &Mapped, rows: Rows| choose(mapped, mask, shape, w, is_dense, rows);
    let all = maps.iter().map(|mapped| (mapped, predicted(mapped, Rows::Sampled)));
    let (mapped, best) = all.min_by_key(|(_, predicted)| predicted.cost).unwrap();
    let m = mapped.v.len() as u64;
    if is_dense && mask.is_none() && best.cost < m / 256 { predicted(mapped, Rows::All) } else { best }
}

/// Chooses orders and base for the numbers of a map, and predicts the numbers.
fn choose(
    mapped: &Mapped,
    mask: Option<&Mask>,
    shape: [usize; 3],
    w: u32,
    is_dense: bool,
    rows: Rows,
) -> Predicted {
    let &Mapped { map, parameter, ref v, ref tails } = mapped;
    let is_masked = mask.map(|mask| mask.is_masked.clone());
    let mut block =
        Block { v: v.clone(), tails: tails.clone(), is_masked, shape, w, rows, is_dense, rule: LORENZO };
    let (cost, orders) = block.choose(is_dense);
    let mut cost = cost + block.tail_cost();
    if map == CUT && !is_dense {
        cost += cost / 32;
    }
    let base = block.base(orders);
    block.give_up(orders, base);
    let r = block.predict(orders, base).into_iter().enumerate();
    let r = r.filter(|&(i, _)| !block.is_masked(i)).map(|(_, r)| r).collect();
    let tails: Vec<_> = (0..tails.len()).map(|i| if block.is_masked(i) { (0, 0) } else { tails[i] }).collect();
    Predicted { map, parameter, orders, base, cost, r, tails: in_lanes(&tails, w as usize) }
}

/// Packs the tails of all elements.
fn in_lanes(tails: &[(u64, u32)], w: usize) -> Vec<u8> {
    let (mut words, mut left_over) = (BitString::default(), BitString::default());
    for group in tails.chunks(1024) {
        let mut full = vec![];
        for lane in 0..32 {
            let bits_of = |i: usize| (0..group[i].1).map(move |k| (i, group[i].0 >> k & 1));
            let string: Vec<_> = (lane..group.len()).step_by(32).flat_map(bits_of).collect();
            let in_words = string.chunks_exact(w);
            in_words.remainder().iter().for_each(|&(_, bit)| left_over.push(bit, 1));
            full.extend(in_words.map(<[_]>::to_vec));
        }
        full.sort_by_key(|word| word.last().unwrap().0);
        full.concat().into_iter().for_each(|(_, bit)| words.push(bit, 1));
    }
    [words.into_bytes(), left_over.into_bytes()].concat()
}
