//! Steps: new nodes are predicted from the nodes on both sides along the step's axis. The residual
//! is a number of bins.
//!
//! An encoder predicts from the decoder's values, so errors do not accumulate: each element is
//! within half a bin of its original value, whatever the errors of its neighbors. (The hierarchy is
//! that of MGARD: Ainsworth et al., "Multilevel techniques for compression and reduction of
//! scientific data", 2018, one axis at a time and without the projection. Prediction from decoded
//! values is the idea of SZ3: Zhao et al., "Optimizing error-bounded lossy compression for
//! scientific data by dynamic spline interpolation", ICDE 2021.)
//!
//! A step is split into independent units. Along the last axis a unit is a row; along another axis
//! it is a pair of nodes with everything on the axes after it. A unit's nodes are processed in
//! tiles, which fit the first-level cache.

use std::ops::Range;

use crate::codec::multigrid::accuracy::{Errors, Limit, Watch, hide, measure_with};
use crate::codec::multigrid::arrays::{Array, InBlocks};
use crate::codec::multigrid::grid::Step;
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::runs::{Gather, Run, Runs};
use crate::stage::rows::{Simd, WithSimd};
use crate::stage::word::Word;

/// Maximum number of nodes of a tile.
pub const TILE: usize = 512;

/// The source of predictions of new nodes of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The result of the previous layers.
    Layers,
    /// The two neighbors.
    Two,
    /// Four nodes, where they exist.
    Four,
}

/// How numbers become elements in one step.
#[derive(Debug, Clone, Copy)]
pub struct Rule<T> {
    pub from: From,
    /// In a further layer, the maximum distance of predictions from the result of the previous
    /// layers.
    pub reach: T,
    /// The length of a bin, and its reciprocal.
    pub bin: T,
    pub inverse: T,
}

impl<T: Real> Rule<T> {
    /// The rule for bins of this length.
    pub fn new(from: From, reach: T, bin: T) -> Self {
        Self { from, reach, bin, inverse: bin.inverse() }
    }
}

/// A step, the grid before it, and its rule.
pub struct Refine<'a, T: Real> {
    pub step: &'a Step,
    pub rule: Rule<T>,
    pub before: &'a [T::Bytes],
    /// In a further layer, the previous layers' result for the array.
    pub layers: Option<&'a [T::Bytes]>,
}

impl<T: Real> Refine<'_, T> {
    /// True if the step is along the last axis.
    #[inline(always)]
    pub(super) fn is_along_rows(&self) -> bool {
        self.step.around()[1] == 1
    }

    /// Number of units.
    pub fn n_units(&self) -> usize {
        let [outer, _] = self.step.around();
        if self.is_along_rows() { outer } else { outer * self.step.along()[1] }
    }

    /// The indices of the first node of a unit after the step, and of its first new node among the
    /// new ones.
    #[inline(always)]
    pub fn starts(&self, unit: usize) -> [usize; 2] {
        let [n, n_before, n_new] = self.step.along();
        if self.is_along_rows() {
            return [unit * n, unit * n_new];
        }
        let inner = self.step.around()[1];
        let (outer, pair) = (unit / n_before, unit % n_before);
        [(outer * n + 2 * pair) * inner, (outer * n_new + pair.min(n_new)) * inner]
    }

    /// Number of new nodes of a unit.
    #[inline(always)]
    fn n_new(&self, unit: usize) -> usize {
        let [start, end] = [unit, unit + 1].map(|unit| self.starts(unit)[1]);
        end - start
    }

    /// Predicts the new nodes of a unit from `start` on. In a further layer, predictions are
    /// clamped to the error interval around the previous layers' result.
    #[inline(always)]
    fn predict<S: Simd<T::Word>>(&self, s: S, unit: usize, start: usize, out: &mut [T]) {
        let is_layers = self.rule.from == From::Layers;
        if !is_layers || self.layers.is_none() {
            self.predict_from_nodes(unit, start, out);
        }
        let Some(array) = self.layers else { return };
        if is_layers {
            s.outlined(Gather { refine: self, array, unit, start, out });
            return;
        }
        let mut values = [T::ZERO; TILE];
        let n = out.len();
        let values = &mut values[..n];
        s.outlined(Gather { refine: self, array, unit, start, out: values });
        let mut k = 0;
        while k < n {
            out[k] = near(out[k], values[k], self.rule.reach);
            k += 1;
        }
    }

    #[inline(always)]
    fn predict_from_nodes(&self, unit: usize, start: usize, out: &mut [T]) {
        let [_, n_before, _] = self.step.along();
        if self.is_along_rows() {
            let row = &self.before[unit * n_before..][..n_before];
            self.predict_along_row(row, start, out);
            return;
        }
        let inner = self.step.around()[1];
        let pair = unit % n_before;
        let at = unit * inner + start;
        let n = out.len();
        let near = &self.before[at..][..n];
        if pair + 1 == n_before {
            let mut k = 0;
            while k < n {
                out[k] = T::of(near[k]);
                k += 1;
            }
            return;
        }
        let next = &self.before[at + inner..][..n];
        if self.rule.from == From::Four && pair > 0 && pair + 2 < n_before {
            let (last, after) = (&self.before[at - inner..][..n], &self.before[at + 2 * inner..][..n]);
            let mut k = 0;
            while k < n {
                out[k] = cubic(T::of(last[k]), T::of(near[k]), T::of(next[k]), T::of(after[k]));
                k += 1;
            }
            return;
        }
        let mut k = 0;
        while k < n {
            out[k] = linear(T::of(near[k]), T::of(next[k]));
            k += 1;
        }
    }

    /// [`Refine::predict_from_nodes`] within a row of nodes.
    #[inline(always)]
    fn predict_along_row(&self, row: &[T::Bytes], start: usize, out: &mut [T]) {
        let n = out.len();
        // The last node may have no right neighbor.
        let inner = n.min(row.len() - 1 - start);
        if inner < n {
            out[inner] = T::of(row[row.len() - 1]);
        }
        let (near, next) = (&row[start..][..inner], &row[start + 1..][..inner]);
        let mut k = 0;
        while k < inner {
            out[k] = linear(T::of(near[k]), T::of(next[k]));
            k += 1;
        }
        if self.rule.from != From::Four {
            return;
        }
        // Nodes with two neighbors on each side.
        let first = usize::from(start == 0);
        let end = inner.min((row.len() - 1).saturating_sub(start + 1));
        if first >= end {
            return;
        }
        let row = &row[start + first - 1..][..end - first + 3];
        let out = &mut out[first..end];
        let mut k = 0;
        while k < out.len() {
            out[k] = cubic(T::of(row[k]), T::of(row[k + 1]), T::of(row[k + 2]), T::of(row[k + 3]));
            k += 1;
        }
    }

    /// Writes nodes of a unit, from new node `start` on: the old nodes and the new ones, in the
    /// order after the step.
    #[inline(always)]
    fn store(&self, unit: usize, start: usize, new: &[T], nodes: &mut [T::Bytes]) {
        let n = new.len();
        if self.is_along_rows() {
            let n_before = self.step.along()[1];
            let row = &self.before[unit * n_before..][..n_before];
            let (old, nodes) = (&row[start..][..n], &mut nodes[2 * start..]);
            let mut k = 0;
            while k < n {
                nodes[2 * k] = old[k];
                nodes[2 * k + 1] = new[k].bytes();
                k += 1;
            }
            if nodes.len() == 2 * n + 1 {
                nodes[2 * n] = row[n_before - 1];
            }
            return;
        }
        let inner = self.step.around()[1];
        nodes[start..][..n].copy_from_slice(&self.before[unit * inner + start..][..n]);
        let nodes = &mut nodes[inner + start..][..n];
        let mut k = 0;
        while k < n {
            nodes[k] = new[k].bytes();
            k += 1;
        }
    }

    /// Writes the nodes of a unit that has no new ones.
    #[inline(always)]
    fn copy(&self, unit: usize, nodes: &mut [T::Bytes]) {
        nodes.copy_from_slice(&self.before[unit * nodes.len()..][..nodes.len()]);
    }
}

/// Replaces numbers that are not finite by 0. They come from damaged data, or from sums of large
/// numbers that overflow.
#[inline(always)]
pub fn ordinary<T: Real>(x: T) -> T {
    if x.size() <= T::MAX { x } else { T::ZERO }
}

/// Clamps a prediction to the values at most `reach` away from `value`.
#[inline(always)]
pub fn near<T: Real>(predicted: T, value: T, reach: T) -> T {
    let (least, most) = (value - reach, value + reach);
    let above = if predicted < least { least } else { predicted };
    if above > most { most } else { above }
}

/// Linear interpolation in the middle between two nodes.
#[inline(always)]
pub fn linear<T: Real>(a: T, b: T) -> T {
    ordinary(a * T::HALF + b * T::HALF)
}

/// Cubic interpolation in the middle of four nodes.
#[inline(always)]
pub fn cubic<T: Real>(a: T, b: T, c: T, d: T) -> T {
    ordinary((b + c) * T::NEAR - (a + d) * T::FAR)
}

/// The numbers of a step, with those of each block contiguous.
#[derive(Clone, Copy)]
pub struct Numbers<'a, T: Real> {
    /// The numbers of all steps.
    pub all: &'a [T::Bytes],
    /// The array that contains them, and the index of the first one in it.
    pub array: &'a Array,
    pub start: usize,
}

impl<T: Real> Numbers<'_, T> {
    /// Copies the numbers of the new nodes from `at` on.
    #[inline(always)]
    pub fn bring(&self, at: usize, out: &mut [T::Bytes]) {
        let mut runs = InBlocks::new(self.array, self.start + at, out.len());
        let mut end = 0;
        while let Some((place, n)) = runs.next() {
            out[end..end + n].copy_from_slice(&self.all[place..place + n]);
            end += n;
        }
    }
}

/// Decodes some units of a step.
pub struct Decode<'a, T: Real> {
    pub refine: &'a Refine<'a, T>,
    pub units: Range<usize>,
    pub numbers: Numbers<'a, T>,
    /// The nodes after the step.
    pub nodes: &'a mut [T::Bytes],
}

impl<T: Real> WithSimd<T::Word> for Decode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, s: S) {
        let Self { refine, units, numbers, nodes } = self;
        let (mut new, mut codes) = ([T::ZERO; TILE], [T::Bytes::default(); TILE]);
        let (mut nodes, bin) = (nodes, refine.rule.bin);
        let mut unit = units.start;
        while unit < units.end {
            let [[start, first], [end, _]] = [refine.starts(unit), refine.starts(unit + 1)];
            let (these, rest) = std::mem::take(&mut nodes).split_at_mut(end - start);
            nodes = rest;
            let n_new = refine.n_new(unit);
            if n_new == 0 {
                refine.copy(unit, these);
            }
            let mut at = 0;
            while at < n_new {
                let n = TILE.min(n_new - at);
                let (new, codes) = (&mut new[..n], &mut codes[..n]);
                refine.predict(s, unit, at, new);
                numbers.bring(first + at, codes);
                let mut k = 0;
                while k < n {
                    new[k] = ordinary(new[k] + T::whole(T::word(codes[k])) * bin);
                    k += 1;
                }
                refine.store(unit, at, new, these);
                at += n;
            }
            unit += 1;
        }
    }
}

/// Encodes some units of a step.
pub struct Encode<'a, T: Real> {
    pub refine: &'a Refine<'a, T>,
    pub watch: &'a Watch<'a, T>,
    pub units: Range<usize>,
    /// The numbers of the new nodes, and the decoder's values of the nodes after the step. There
    /// are no nodes after the last step.
    pub numbers: &'a mut [T::Bytes],
    pub nodes: &'a mut [T::Bytes],
}

impl<T: Real> WithSimd<T::Word> for Encode<'_, T> {
    type Output = Errors;

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, s: S) -> Errors {
        let Self { refine, watch, units, numbers, nodes } = self;
        let (mut new, mut elements) = ([T::ZERO; TILE], [T::ZERO; TILE]);
        let (mut numbers, mut nodes) = (numbers, nodes);
        let is_last = nodes.is_empty();
        let mut errors = Errors::default();
        let mut unit = units.start;
        while unit < units.end {
            let [start, end] = [refine.starts(unit)[0], refine.starts(unit + 1)[0]];
            let (these, rest) = std::mem::take(&mut nodes).split_at_mut(if is_last { 0 } else { end - start });
            nodes = rest;
            let n_new = refine.n_new(unit);
            if n_new == 0 && !is_last {
                refine.copy(unit, these);
            }
            let (codes, rest) = std::mem::take(&mut numbers).split_at_mut(n_new);
            numbers = rest;
            let mut at = 0;
            while at < n_new {
                let n = TILE.min(n_new - at);
                let (new, elements, codes) = (&mut new[..n], &mut elements[..n], &mut codes[at..][..n]);
                refine.predict(s, unit, at, new);
                s.outlined(Gather { refine, array: watch.array, unit, start: at, out: elements });
                if let Some(exact) = watch.exact_before {
                    hide(exact, Runs::new(refine, unit, at, n), elements);
                }
                let n_kept = if watch.limit.missing.are_many() {
                    quantize::<T, true>(&refine.rule, &watch.limit, elements, new, codes)
                } else {
                    quantize::<T, false>(&refine.rule, &watch.limit, elements, new, codes)
                };
                if n_kept < n {
                    mark_exact(refine, watch, unit, at, elements, new);
                }
                if let Some(scale) = watch.units {
                    errors = errors.combine(measure_with(&watch.limit, scale, elements, new, n_kept));
                }
                if !is_last {
                    refine.store(unit, at, new, these);
                }
                at += n;
            }
            unit += 1;
        }
        errors
    }
}

/// Quantizes elements. `new` contains the predictions and receives the decoder's values. Returns
/// the number of elements that are not stored exactly.
#[inline(always)]
fn quantize<T: Real, const MANY: bool>(
    rule: &Rule<T>,
    limit: &Limit<T>,
    elements: &[T],
    new: &mut [T],
    codes: &mut [T::Bytes],
) -> usize {
    let n = new.len();
    let (elements, codes) = (&elements[..n], &mut codes[..n]);
    let mut n_kept = <T::Word as Word>::ZERO;
    let mut k = 0;
    while k < n {
        let predicted = new[k];
        let n_bins = (elements[k] - predicted) * rule.inverse;
        let (whole, code) = n_bins.nearest();
        let back = predicted + whole * rule.bin;
        let is_kept = limit.is_kept::<MANY>(elements[k], back, n_bins);
        codes[k] = T::put(if is_kept { code } else { <T::Word as Word>::ZERO });
        // A decoder adds 0 to the prediction, which turns -0 into 0.
        new[k] = if is_kept { back } else { predicted + T::ZERO };
        n_kept = n_kept.wrapping_add(<T::Word as Word>::from_u64(is_kept.into()));
        k += 1;
    }
    n_kept.to_u64() as usize
}

/// Marks the elements whose decoded values are not acceptable.
#[inline(never)]
fn mark_exact<T: Real>(refine: &Refine<T>, watch: &Watch<T>, unit: usize, start: usize, elements: &[T], new: &[T]) {
    let mut runs = Runs::new(refine, unit, start, new.len());
    let mut k = 0;
    while let Some(Run { place, stride, n }) = runs.next() {
        for i in 0..n {
            if !watch.limit.keeps(elements[k], new[k]) {
                watch.mark(place + i * stride);
            }
            k += 1;
        }
    }
}
