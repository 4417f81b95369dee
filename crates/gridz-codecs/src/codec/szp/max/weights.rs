//! The weights of the neighbours that predict a number: those of least squares, or those that make differences.

use crate::codec::szp::max::view::{Kind, MARGIN, View};
use crate::error::{Error, Result};
use crate::stage::entropy::log::{LOG_OF_2, log};
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Neighbours of a number, at most.
pub const TAPS: usize = 16;
/// Neighbours where there is one plane.
const PLANE_TAPS: usize = 7;
/// Kinds of rows.
const KINDS: usize = 5;
/// Bits of a weight below 1.
const FRACTION: u32 = 12;
/// Of so many elements at most least squares are made; a part of them, those that are *tried*, decides whether these weights
/// are used.
pub const SAMPLES: usize = 1 << 10;
const TRIED: usize = 2;
/// Samples are at distances that differ, lest they be in a few columns: the golden section, in parts of 2^16.
const GOLDEN: usize = 40503;
/// So many samples are multiplied together.
const TOGETHER: usize = 32;
/// Larger differences count as this.
const LIMIT: i64 = 1 << 19;
/// So often least squares are made of what is tried, before they are made of all samples.
const ROUNDS: usize = 2;
/// A sample counts as often as this divided by how much its neighbours differ and by what was left of it, both with a little
/// more: a few codes tell nothing.
const COUNTS: u64 = 1 << 20;
const LITTLE_SPREAD: u64 = 1 << 4;
const LITTLE_LEFT: u64 = 1 << 2;
/// Bit lengths that are told apart, of what is left and of how much neighbours differ.
const LENGTHS: usize = 1 << 6;
const SPREADS: usize = 1 << 5;
/// In the head of a block: there are weights; otherwise below, the orders of differences along x, y and z.
pub const SQUARES: u16 = 1 << 3;

/// The distances of neighbours, in planes, rows and elements.
const NEIGHBOURS: [[isize; 3]; TAPS] = [
    [0, 0, -1],
    [0, 0, -2],
    [0, 0, -3],
    [0, -1, -2],
    [0, -1, -1],
    [0, -1, 0],
    [0, -1, 1],
    [-1, 0, -1],
    [-1, 0, 0],
    [-1, 0, 1],
    [-1, -1, -1],
    [-1, -1, 0],
    [-1, -1, 1],
    [-1, 1, -1],
    [-1, 1, 0],
    [-1, 1, 1],
];

/// Of a kind, which of them are in the block.
const PRESENT: [u32; KINDS] = [0x0007, 0x007f, 0xe387, 0xffff, 0x1fff];

/// What a number and its neighbours have above the one before it; the number comes first.
pub type Differences = [i32; TAPS];

/// How neighbours are found.
pub struct Neighbours {
    view: View,
}

impl Neighbours {
    /// Those of a block's numbers.
    pub fn new(view: View) -> Self {
        Self { view }
    }

    /// How many a number has.
    pub fn count(&self) -> usize {
        if self.view.is_line() || self.view.is_deep() { TAPS } else { PLANE_TAPS }
    }

    /// Where neighbour `i` is, if rows and elements are so far apart.
    pub fn offset(&self, i: usize, row: usize, element: usize) -> isize {
        let (row, element) = (row as isize, element as isize);
        if self.view.is_line() {
            return -(i as isize + 1) * element;
        }
        let [z, y, x] = NEIGHBOURS[i];
        (z * self.view.per_plane as isize + y) * row + x * element
    }

    /// Takes differences of some numbers that have all neighbours of their kind within the block.
    #[inline(always)]
    fn sample<W: Word>(&self, numbers: &[W], samples: &mut Vec<Differences>) {
        let View { n, length, .. } = self.view;
        let mut offsets = [0; TAPS];
        let count = self.count();
        (0..count).for_each(|i| offsets[i] = self.offset(i, length, 1));
        samples.clear();
        let step = n.div_ceil(SAMPLES);
        for (i, start) in (0..n).step_by(step).enumerate() {
            let at = start + i * GOLDEN % (1 << 16) * step / (1 << 16);
            let x = at % length;
            let has_all = match self.view.is_line() {
                true => at >= TAPS,
                false => self.view.kind(at / length) == self.view.sampled() && x >= MARGIN && x + 1 < length,
            };
            if has_all && at < n {
                let before = numbers[at - 1];
                let mut d = [0; TAPS];
                d[0] = difference(numbers[at], before);
                for i in 1..count {
                    d[i] = difference(numbers[at.wrapping_add_signed(offsets[i])], before);
                }
                samples.push(d);
            }
        }
    }

    /// Those that numbers of a kind have, but for the one before them.
    fn present(&self, kind: Kind) -> impl Iterator<Item = usize> {
        let present = if self.view.is_line() { 0xffff } else { PRESENT[kind as usize] };
        (1..self.count()).filter(move |i| present >> i & 1 != 0)
    }
}

/// The weights of all kinds. That of the first neighbour is what the others leave of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    of: [[i16; TAPS]; KINDS],
    /// Bits of a weight below 1.
    pub fraction: u32,
    /// What the head of a block says of them.
    pub head: u16,
}

impl Weights {
    /// Those that make differences of these orders, 0 or 1, along x, y and z: bits 0 to 2.
    fn differences(neighbours: &Neighbours, orders: u16) -> Self {
        let mut of = [[0; TAPS]; KINDS];
        for &kind in neighbours.view.kinds().iter().filter(|_| !neighbours.view.is_line()) {
            let present: u32 = neighbours.present(kind).map(|i| 1 << i).sum();
            // Along an axis without a neighbour there are no differences.
            let has = |i: u32| u16::from(present >> i & 1 != 0);
            let orders = orders & (1 | has(5) << 1 | has(8) << 2);
            for i in neighbours.present(kind) {
                let [z, y, x] = NEIGHBOURS[i];
                let is_within =
                    |distance: isize, bit: u16| distance == 0 || distance == -1 && orders >> bit & 1 == 1;
                if is_within(x, 0) && is_within(y, 1) && is_within(z, 2) {
                    of[kind as usize][i] = if (x + y + z) % 2 == 0 { -1 } else { 1 };
                }
            }
        }
        Self { of, fraction: 0, head: orders }
    }

    /// Those that suit some numbers best.
    #[inline(always)]
    pub fn choose<W: Word>(neighbours: &Neighbours, numbers: &[W], samples: &mut Vec<Differences>) -> Self {
        let view = &neighbours.view;
        neighbours.sample(numbers, samples);
        let tried = || samples.iter().step_by(TRIED);
        let sampled = view.sampled();
        let mut squares = Self { of: [[0; TAPS]; KINDS], fraction: FRACTION, head: SQUARES };
        let mut sums = sums_of(tried(), None);
        for round in 1..=ROUNDS {
            solve(&sums, neighbours.present(sampled), &mut squares.of[sampled as usize]);
            let known = Some(&squares.of[sampled as usize]);
            sums = if round < ROUNDS { sums_of(tried(), known) } else { sums_of(samples.iter(), known) };
        }
        for &kind in view.kinds() {
            solve(&sums, neighbours.present(kind), &mut squares.of[kind as usize]);
        }
        if samples.is_empty() {
            return Self::differences(neighbours, 1);
        }
        let cost = |weights: &Self| cost(tried(), &weights.of[sampled as usize], weights.fraction);
        // Of all elements, as far as the samples tell; weights are to be written.
        let per_sample = (view.n / tried().len()) as u64;
        let mut best = (cost(&squares) * per_sample + 8 * LOG_OF_2 * squares.n_bytes(neighbours) as u64, squares);
        for orders in 1..8 {
            let weights = Self::differences(neighbours, orders);
            let cost = cost(&weights) * per_sample;
            if cost < best.0 {
                best = (cost, weights);
            }
        }
        best.1
    }

    /// Bytes of what is written.
    pub fn n_bytes(&self, neighbours: &Neighbours) -> usize {
        let weights = |&kind: &Kind| neighbours.present(kind).count();
        if self.head & SQUARES == 0 { 0 } else { 2 * neighbours.view.kinds().iter().map(weights).sum::<usize>() }
    }

    /// Writes them.
    pub fn write(&self, neighbours: &Neighbours, out: &mut [u8]) {
        let kinds = neighbours.view.kinds().iter();
        let weights = kinds.flat_map(|&kind| neighbours.present(kind).map(move |i| self.of[kind as usize][i]));
        for (out, weight) in out.chunks_exact_mut(2).zip(weights) {
            out.copy_from_slice(&weight.to_le_bytes());
        }
    }

    /// Those that a head tells of, with what is at the start of `bytes`; and the bytes of that.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(head: u16, neighbours: &Neighbours, bytes: &[u8]) -> Result<(Self, usize)> {
        if head & SQUARES == 0 {
            return Ok((Self::differences(neighbours, head), 0));
        }
        let mut weights = Self { of: [[0; TAPS]; KINDS], fraction: FRACTION, head };
        let n_bytes = weights.n_bytes(neighbours);
        let bytes = bytes.get(..n_bytes).ok_or_else(|| Error::corrupt("a block ends within its weights"))?;
        let (mut left, _) = bytes.as_chunks();
        for &kind in neighbours.view.kinds() {
            for i in neighbours.present(kind) {
                let (weight, rest) = left.split_first().expect("as many as were counted");
                weights.of[kind as usize][i] = i16::from_le_bytes(*weight);
                left = rest;
            }
        }
        Ok((weights, n_bytes))
    }

    /// Gives a lane the weights of a kind: that of the first neighbour is such that all of them have the sum 0, as those of
    /// differences from that neighbour do.
    #[inline(always)]
    pub fn give<W: Word>(&self, kind: Kind, lane: usize, weights: &mut [[W; LANES]; TAPS]) {
        let mut first = W::ZERO;
        for (of, weights) in self.of[kind as usize].iter().zip(weights.iter_mut()).skip(1) {
            let weight = W::from_u64(i64::from(*of) as u64);
            weights[lane] = weight;
            first = first.minus(weight);
        }
        weights[0][lane] = first;
    }
}

/// The sums of products of samples' differences. What was predicted badly, by weights that are known, counts less, since bits
/// grow slower than squares. So does what has neighbours that differ much: much is left of it, in a context of its own,
/// where a small part of it matters as much as where they are alike.
#[inline(always)]
fn sums_of<'a>(samples: impl Iterator<Item = &'a Differences>, known: Option<&[i16; TAPS]>) -> [[i64; TAPS]; TAPS] {
    let (mut sums, mut n) = ([[0; TAPS]; TAPS], 0);
    let mut together = [([0; TAPS], 0); TOGETHER];
    for d in samples {
        let left = known.map_or(0, |weights| left_of(d, weights, FRACTION).unsigned_abs());
        let counts = COUNTS / ((LITTLE_SPREAD + u64::from(spread(d))) * (LITTLE_LEFT + left));
        together[n] = (*d, counts.max(1) as i32);
        n += 1;
        if n == TOGETHER {
            add_products(&mut sums, &together);
            n = 0;
        }
    }
    add_products(&mut sums, &together[..n]);
    sums
}

/// Adds the products of some samples' differences, as often as these count: a row of sums at a time stays in registers. The
/// first row, with those of the numbers themselves, is of no use.
#[inline(always)]
fn add_products(sums: &mut [[i64; TAPS]; TAPS], samples: &[(Differences, i32)]) {
    for (i, sums) in sums.iter_mut().enumerate().skip(1) {
        let mut row = *sums;
        for (d, counts) in samples {
            for j in 0..TAPS {
                row[j] += i64::from(d[i] * counts) * i64::from(d[j]);
            }
        }
        *sums = row;
    }
}

#[inline(always)]
fn difference<W: Word>(a: W, b: W) -> i32 {
    a.minus(b).to_i64().clamp(-LIMIT, LIMIT) as i32
}

/// What is left of a number.
#[inline(always)]
fn left_of(d: &Differences, weights: &[i16; TAPS], fraction: u32) -> i64 {
    let sum: i64 = (1..TAPS).map(|i| i64::from(d[i]) * i64::from(weights[i])).sum();
    i64::from(d[0]) - ((sum + (1 << fraction >> 1)) >> fraction)
}

/// How much the neighbours of a number differ from the one before it.
#[inline(always)]
fn spread(d: &Differences) -> u32 {
    d[1..].iter().map(|d| d.unsigned_abs()).sum()
}

/// What samples would take with such weights, in the units of [`log`]: bit lengths of what is left in classes by how much the
/// neighbours differ, much as contexts have them, and the bits below the highest one.
#[inline(always)]
fn cost<'a>(samples: impl Iterator<Item = &'a Differences>, weights: &[i16; TAPS], fraction: u32) -> u64 {
    let mut counts = [[0_u32; LENGTHS]; SPREADS];
    let mut below = 0;
    for d in samples {
        let left = left_of(d, weights, fraction);
        let length = u64::BITS - (left << 1 ^ left >> 63).leading_zeros();
        let class = u32::BITS - spread(d).leading_zeros();
        counts[class as usize % SPREADS][length as usize % LENGTHS] += 1;
        below += u64::from(length.saturating_sub(1));
    }
    let of = |n: u32| if n > 0 { u64::from(n) * log(n.into()) } else { 0 };
    let of_class = |counts: &[u32; LENGTHS]| {
        // What logarithms are rounded off by may make it less than nothing.
        of(counts.iter().sum()).saturating_sub(counts.iter().map(|&n| of(n)).sum())
    };
    counts.iter().map(of_class).sum::<u64>() + LOG_OF_2 * below
}

/// Sets the weights of these neighbours to those of least squares, in single operations of binary64.
fn solve(sums: &[[i64; TAPS]; TAPS], present: impl Iterator<Item = usize>, weights: &mut [i16; TAPS]) {
    let mut of = [0; TAPS];
    let mut n = 0;
    for i in present {
        of[n] = i;
        n += 1;
    }
    // The factor of Cholesky, of the sums with a little more on the diagonal, so that there is one.
    let mut factor = [[0.0; TAPS]; TAPS];
    let mut x = [0.0; TAPS];
    for i in 0..n {
        for j in 0..=i {
            let mut sum = sums[of[i]][of[j]] as f64;
            if i == j {
                sum = sum + sum / 65536.0 + 1.0;
            }
            for (a, b) in factor[i][..j].iter().zip(&factor[j]) {
                sum -= a * b;
            }
            if i > j {
                factor[i][j] = sum / factor[j][j];
            } else if sum > 0.0 {
                factor[i][i] = sum.sqrt();
            } else {
                return;
            }
        }
        let mut sum = sums[of[i]][0] as f64;
        for k in 0..i {
            sum -= factor[i][k] * x[k];
        }
        x[i] = sum / factor[i][i];
    }
    for i in (0..n).rev() {
        let mut sum = x[i];
        for k in i + 1..n {
            sum -= factor[k][i] * x[k];
        }
        x[i] = sum / factor[i][i];
    }
    for i in 0..n {
        // Out of range, or not a number, it becomes the nearest one, or 0.
        weights[of[i]] = (x[i] * f64::from(1 << FRACTION)).round_ties_even() as i16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(view: View, numbers: &[u32]) -> Weights {
        Weights::choose(&Neighbours::new(view), numbers, &mut Vec::with_capacity(SAMPLES))
    }

    #[test]
    fn weights_come_back() {
        for shape in [[1, 1, 5000], [1, 60, 80], [9, 20, 30]] {
            let view = View::new(shape);
            let neighbours = Neighbours::new(view);
            // A wave that is rounded needs more than differences.
            let number =
                |i: usize| ((i as f64 / 40.0).sin() * 20.0 + (i as f64 / 700.0).cos() * 30.0).round() as i32 as u32;
            let numbers: Vec<u32> = (0..view.n).map(number).collect();
            let weights = of(view, &numbers);
            assert_eq!(weights.head, SQUARES, "{shape:?}");
            let mut bytes = vec![0; weights.n_bytes(&neighbours)];
            weights.write(&neighbours, &mut bytes);
            assert_eq!(Weights::read(weights.head, &neighbours, &bytes).unwrap(), (weights, bytes.len()));
            assert!(Weights::read(SQUARES, &neighbours, &bytes[1..]).is_err());
        }
    }

    #[test]
    fn differences_suit_what_they_make_zero() {
        let view = View::new([20, 30, 40]);
        let mixed = |i: usize| (i as u32).wrapping_mul(0x9e37_79b9) >> 16;
        for (orders, part) in [(1, 40), (2, 1)] {
            let number = |i: usize| if part > 1 { mixed(i / part) } else { mixed(i % 40) };
            let numbers: Vec<u32> = (0..view.n).map(number).collect();
            assert_eq!(of(view, &numbers).head, orders);
        }
    }
}
