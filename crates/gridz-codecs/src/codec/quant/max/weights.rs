//! The weights of the neighbors that predict a number: a least-squares fit, or those that form
//! differences.

use crate::codec::quant::max::view::{Kind, MARGIN, View};
use crate::error::{Error, Result};
use crate::stage::entropy::log::{LOG_OF_2, log};
use crate::stage::rows::{LANES, Simd, WithSimd};
use crate::stage::word::Word;

/// Maximum number of neighbors of a number.
pub const TAPS: usize = 16;
/// Neighbors of a number if there is one plane.
const PLANE_TAPS: usize = 7;
/// Number of kinds of rows.
const KINDS: usize = 5;
/// Fraction bits of a weight.
const FRACTION: u32 = 12;
/// Maximum number of samples of a least-squares fit. A part of them (one in `TRIED`) decides
/// whether the fitted weights are used.
pub const SAMPLES: usize = 1 << 10;
const TRIED: usize = 2;
/// Samples are at varying distances, lest they fall in a few columns: the golden ratio in units of
/// 2^-16.
const GOLDEN: usize = 40503;
/// Number of samples whose products are summed together.
const TOGETHER: usize = 32;
/// Larger differences are clamped to this.
const LIMIT: i64 = 1 << 19;
/// Number of fits to the part of the samples, before the fit to all samples.
const ROUNDS: usize = 2;
/// A sample's weight in the fit is `COUNTS / ((LITTLE_SPREAD + spread) * (LITTLE_LEFT +
/// residual))`, with the spread of its neighbors. The added constants limit the effect of
/// differences of a few codes, which are not significant.
const COUNTS: u64 = 1 << 20;
const LITTLE_SPREAD: u64 = 1 << 4;
const LITTLE_LEFT: u64 = 1 << 2;
/// Number of classes of bit lengths, of residuals and of the spread of neighbors.
const LENGTHS: usize = 1 << 6;
const SPREADS: usize = 1 << 5;
/// Flag in the head of a block: weights follow. Otherwise the bits below are the orders of
/// differences along x, y and z.
pub const SQUARES: u16 = 1 << 3;

/// The offsets of neighbors in planes, rows and elements.
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

/// For each kind of row, a bit for each of these neighbors that is in the block.
const PRESENT: [u32; KINDS] = [0x0007, 0x007f, 0xe387, 0xffff, 0x1fff];

/// The differences of a number and of its neighbors to the previous number. The number itself comes
/// first.
pub type Differences = [i32; TAPS];

/// Positions of neighbors.
pub struct Neighbours {
    view: View,
}

impl Neighbours {
    /// The neighbors of the numbers of a block.
    pub fn new(view: View) -> Self {
        Self { view }
    }

    /// Number of neighbors of a number.
    pub fn count(&self) -> usize {
        if self.view.is_line() || self.view.is_deep() { TAPS } else { PLANE_TAPS }
    }

    /// The offset of neighbor `i`, for these strides of rows and elements.
    pub fn offset(&self, i: usize, row: usize, element: usize) -> isize {
        let (row, element) = (row as isize, element as isize);
        if self.view.is_line() {
            return -(i as isize + 1) * element;
        }
        let [z, y, x] = NEIGHBOURS[i];
        (z * self.view.per_plane as isize + y) * row + x * element
    }

    /// Collects the differences of some numbers whose neighbors are all within the block.
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

    /// The neighbors that numbers of a kind have, except the previous number.
    fn present(&self, kind: Kind) -> impl Iterator<Item = usize> {
        let present = if self.view.is_line() { 0xffff } else { PRESENT[kind as usize] };
        (1..self.count()).filter(move |i| present >> i & 1 != 0)
    }
}

/// The weights of all kinds. The weight of the first neighbor is 1 minus the sum of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    of: [[i16; TAPS]; KINDS],
    /// Fraction bits of a weight.
    pub fraction: u32,
    /// Their description in the head of a block.
    pub head: u16,
}

impl Weights {
    /// The weights that form differences of these orders, 0 or 1, along x, y and z: bits 0 to 2.
    fn differences(neighbours: &Neighbours, orders: u16) -> Self {
        let mut of = [[0; TAPS]; KINDS];
        for &kind in neighbours.view.kinds().iter().filter(|_| !neighbours.view.is_line()) {
            let present: u32 = neighbours.present(kind).map(|i| 1 << i).sum();
            // An axis without a neighbor has no differences.
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

    /// Chooses the weights that suit some numbers best.
    #[inline(always)]
    pub fn choose<W: Word, S: Simd<W>>(
        s: S,
        neighbours: &Neighbours,
        numbers: &[W],
        samples: &mut Vec<Differences>,
    ) -> Self {
        neighbours.sample(numbers, samples);
        s.outlined_for_all_words(Choose { neighbours, samples })
    }

    /// Bytes that [`Self::write`] writes.
    pub fn n_bytes(&self, neighbours: &Neighbours) -> usize {
        let weights = |&kind: &Kind| neighbours.present(kind).count();
        if self.head & SQUARES == 0 { 0 } else { 2 * neighbours.view.kinds().iter().map(weights).sum::<usize>() }
    }

    /// Writes the weights.
    pub fn write(&self, neighbours: &Neighbours, out: &mut [u8]) {
        let kinds = neighbours.view.kinds().iter();
        let weights = kinds.flat_map(|&kind| neighbours.present(kind).map(move |i| self.of[kind as usize][i]));
        for (out, weight) in out.chunks_exact_mut(2).zip(weights) {
            out.copy_from_slice(&weight.to_le_bytes());
        }
    }

    /// Reads the weights that a head describes from the start of `bytes`. Returns them and the
    /// bytes read.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(head: u16, neighbours: &Neighbours, bytes: &[u8]) -> Result<(Self, usize)> {
        if head & SQUARES == 0 {
            return Ok((Self::differences(neighbours, head), 0));
        }
        let mut weights = Self { of: [[0; TAPS]; KINDS], fraction: FRACTION, head };
        let n_bytes = weights.n_bytes(neighbours);
        let bytes = bytes
            .get(..n_bytes)
            .ok_or_else(|| Error::corrupt("a quant block is damaged: its weights are incomplete"))?;
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

    /// Sets a lane's weights to those of a kind. The first neighbor gets the negative sum of the
    /// others, so that the sum applies to differences from that neighbor.
    #[inline(always)]
    pub fn give<W: Word>(&self, kind: Kind, lane: usize, weights: &mut [[W; LANES]; TAPS]) {
        let mut first = W::ZERO;
        for (of, weights) in self.of[kind as usize].iter().zip(weights.iter_mut()).skip(1) {
            let weight = W::from_u64(i64::from(*of) as u64);
            weights[lane] = weight;
            first = first.wrapping_sub(weight);
        }
        weights[0][lane] = first;
    }
}

/// Chooses the weights that suit some samples best.
struct Choose<'a> {
    neighbours: &'a Neighbours,
    samples: &'a [Differences],
}

impl WithSimd<u64> for Choose<'_> {
    type Output = Weights;

    #[inline(always)]
    fn run<S: Simd<u64>>(self, _: S) -> Weights {
        let Self { neighbours, samples } = self;
        if samples.is_empty() {
            return Weights::differences(neighbours, 1);
        }
        let view = &neighbours.view;
        let sampled = view.sampled();
        let mut squares = Weights { of: [[0; TAPS]; KINDS], fraction: FRACTION, head: SQUARES };
        let mut known = None;
        for _ in 0..ROUNDS {
            let sums = sums_of_products(samples, TRIED, known.as_ref());
            solve(&sums, neighbours.present(sampled), &mut squares.of[sampled as usize]);
            known = Some(squares.of[sampled as usize]);
        }
        let sums = sums_of_products(samples, 1, known.as_ref());
        for &kind in view.kinds() {
            solve(&sums, neighbours.present(kind), &mut squares.of[kind as usize]);
        }
        // The costs of all elements, extrapolated from the samples; fitted weights must also be
        // written.
        let per_sample = (view.n / samples.len().div_ceil(TRIED)) as u64;
        let of_squares = 8 * LOG_OF_2 * squares.n_bytes(neighbours) as u64;
        let mut best = (u64::MAX, squares);
        for orders in 0..8 {
            let (weights, more) = match orders {
                0 => (best.1.clone(), of_squares),
                _ => (Weights::differences(neighbours, orders), 0),
            };
            let cost = cost(samples, &weights.of[sampled as usize], weights.fraction) * per_sample + more;
            if cost < best.0 {
                best = (cost, weights);
            }
        }
        best.1
    }
}

/// The sums of products of the differences of every sample, or of one in `step`. Samples that the known weights predict badly
/// weigh less, because bits grow more slowly than squares. So do samples whose neighbors differ
/// much. Their residuals are large and have a context of their own; there, a small fraction of a
/// residual matters as much as it does where neighbors are similar.
#[inline(always)]
fn sums_of_products(samples: &[Differences], step: usize, known: Option<&[i16; TAPS]>) -> [[i64; TAPS]; TAPS] {
    let (mut sums, mut n) = ([[0; TAPS]; TAPS], 0);
    let mut together = [([0; TAPS], 0); TOGETHER];
    for d in samples.iter().step_by(step) {
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

/// Adds the weighted products of some samples' differences. One row of sums at a time stays in
/// registers. The first row, the products with the numbers themselves, is not needed.
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
    a.wrapping_sub(b).to_i64().clamp(-LIMIT, LIMIT) as i32
}

/// The residual of a number.
#[inline(always)]
fn left_of(d: &Differences, weights: &[i16; TAPS], fraction: u32) -> i64 {
    let sum: i64 = (1..TAPS).map(|i| i64::from(d[i]) * i64::from(weights[i])).sum();
    i64::from(d[0]) - ((sum + (1 << fraction >> 1)) >> fraction)
}

/// The spread of a number's neighbors: how much they differ from the previous number.
#[inline(always)]
fn spread(d: &Differences) -> u32 {
    d[1..].iter().map(|d| d.unsigned_abs()).sum()
}

/// Estimated cost of the samples with these weights, in the units of [`log`]. Bit lengths of
/// residuals are coded in classes by the spread of neighbors, similar to contexts. The bits below
/// the highest one are added.
#[inline(always)]
fn cost(samples: &[Differences], weights: &[i16; TAPS], fraction: u32) -> u64 {
    let mut counts = [[0_u32; LENGTHS]; SPREADS];
    let mut below = 0;
    for d in samples.iter().step_by(TRIED) {
        let left = left_of(d, weights, fraction);
        let length = u64::BITS - (left << 1 ^ left >> 63).leading_zeros();
        let class = u32::BITS - spread(d).leading_zeros();
        counts[class as usize % SPREADS][length as usize % LENGTHS] += 1;
        below += u64::from(length.saturating_sub(1));
    }
    let of = |n: u32| if n > 0 { u64::from(n) * log(n.into()) } else { 0 };
    let of_class = |counts: &[u32; LENGTHS]| {
        // Rounding of logarithms may make the difference negative.
        of(counts.iter().sum()).saturating_sub(counts.iter().map(|&n| of(n)).sum())
    };
    counts.iter().map(of_class).sum::<u64>() + LOG_OF_2 * below
}

/// Sets the weights of these neighbors to the least-squares solution, in single operations of
/// binary64.
fn solve(sums: &[[i64; TAPS]; TAPS], present: impl Iterator<Item = usize>, weights: &mut [i16; TAPS]) {
    let mut of = [0; TAPS];
    let mut n = 0;
    for i in present {
        of[n] = i;
        n += 1;
    }
    // The Cholesky factor of the sums. A small value is added to the diagonal, so that the factor
    // exists.
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
        // Values out of range saturate, and NaN becomes 0.
        weights[of[i]] = (x[i] * f64::from(1 << FRACTION)).round_ties_even() as i16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::rows::PORTABLE;

    fn of(view: View, numbers: &[u32]) -> Weights {
        Weights::choose(PORTABLE, &Neighbours::new(view), numbers, &mut Vec::with_capacity(SAMPLES))
    }

    #[test]
    fn weights_come_back() {
        for shape in [[1, 1, 5000], [1, 60, 80], [9, 20, 30]] {
            let view = View::new(shape);
            let neighbours = Neighbours::new(view);
            // Differences cannot predict a rounded wave.
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
