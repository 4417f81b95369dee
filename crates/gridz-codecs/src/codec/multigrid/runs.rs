//! Positions of a unit's new nodes in the array, as runs of equidistant nodes.

use crate::codec::multigrid::grid::Step;
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::Refine;
use crate::stage::rows::{Simd, WithSimd};

/// Gathers the elements of the new nodes of a unit from `start` on.
pub(super) struct Gather<'a, T: Real> {
    pub refine: &'a Refine<'a, T>,
    pub array: &'a [T::Bytes],
    pub unit: usize,
    pub start: usize,
    pub out: &'a mut [T],
}

impl<T: Real> WithSimd<T::Word> for Gather<'_, T> {
    type Output = ();
    const UP_TO_AVX2: bool = true;

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, _: S) {
        let Self { refine, array, unit, start, out } = self;
        let mut runs = Runs::new(refine, unit, start, out.len());
        let mut at = 0;
        while let Some(Run { place, stride, n }) = runs.next() {
            let (from, out) = (&array[place..], &mut out[at..at + n]);
            match stride {
                0 | 1 => copy::<T, 1>(from, out),
                2 => copy::<T, 2>(from, out),
                4 => copy::<T, 4>(from, out),
                _ => {
                    let mut k = 0;
                    while k < n {
                        out[k] = T::of(from[k * stride]);
                        k += 1;
                    }
                }
            }
            at += n;
        }
    }
}

/// Copies every `STRIDE`-th element.
#[inline(always)]
fn copy<T: Real, const STRIDE: usize>(from: &[T::Bytes], out: &mut [T]) {
    let n = out.len();
    let from = &from[..(n - 1) * STRIDE + 1];
    let mut k = 0;
    while k < n {
        out[k] = T::of(from[k * STRIDE]);
        k += 1;
    }
}

/// Runs of new nodes of a unit. The nodes of a run are equidistant in the array.
pub(super) struct Runs<'a> {
    step: &'a Step,
    /// Index of node 0 of the unit in the array.
    base: usize,
    /// The stride between nodes if all are in one run; else 0.
    stride: usize,
    /// The range of new nodes not yet returned.
    at: usize,
    end: usize,
}

pub(super) struct Run {
    /// The index of its first node in the array.
    pub place: usize,
    /// The stride from one node to the next.
    pub stride: usize,
    pub n: usize,
}

impl<'a> Runs<'a> {
    /// The runs of the `n` new nodes of a unit from `start` on.
    #[inline(always)]
    pub(super) fn new<T: Real>(refine: &Refine<'a, T>, unit: usize, start: usize, n: usize) -> Self {
        let step = refine.step;
        let Step { axis, after, strides, .. } = *step;
        let is_one = refine.is_along_rows();
        let pairs = if is_one { 1 } else { step.along()[1] };
        let mut base = (2 * (unit % pairs) + 1) * strides[axis];
        let mut outer = unit / pairs;
        let mut before = axis;
        while before > 0 {
            before -= 1;
            base += outer % after[before] * strides[before];
            outer /= after[before];
        }
        // The axes after the step's axis may all have one node.
        Self { step, base, stride: if is_one { 2 * strides[axis] } else { 0 }, at: start, end: start + n }
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Run> {
        if self.at == self.end {
            return None;
        }
        let start = self.at;
        if self.stride > 0 {
            self.at = self.end;
            return Some(Run { place: self.base + start * self.stride, stride: self.stride, n: self.end - start });
        }
        let Step { axis, after, strides, .. } = *self.step;
        let last = after.len() - 1;
        let row = after[last];
        let n = (row - start % row).min(self.end - start);
        let mut place = self.base + start % row * strides[last];
        let (mut rest, mut behind) = (start / row, last);
        while behind > axis + 1 {
            behind -= 1;
            place += rest % after[behind] * strides[behind];
            rest /= after[behind];
        }
        self.at += n;
        Some(Run { place, stride: strides[last], n })
    }
}
