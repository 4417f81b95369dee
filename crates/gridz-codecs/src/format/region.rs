//! Regions: boxes of an array, and their form after axes are merged.
//!
//! Folding merges neighboring axes, and a box covers positions on a merged axis that are not
//! contiguous. But the positions are in order, so two questions are enough: how many of them are
//! before a position ([`MergedAxis::rank`]), and which are contiguous ([`MergedAxis::runs`]).

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::fold::Fold;
use crate::types::Shape;

/// Largest number of axes that a codec uses.
pub const AXES: usize = 4;

/// A range along one axis: the axis's extent, the first position and the number of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    extent: u64,
    start: u64,
    count: u64,
}

/// A box in an array.
#[derive(Debug, Clone)]
pub struct Region {
    spans: Vec<Span>,
}

impl Region {
    /// `count` elements from `start` on along each axis of an array of this shape.
    ///
    /// # Errors
    /// `InvalidArgument` if the array has no such elements.
    pub fn new(shape: &Shape, start: &[u64], count: &[u64]) -> Result<Self> {
        let rank = shape.extents().len();
        if start.len() != rank || count.len() != rank {
            let (start, count) = (start.len(), count.len());
            let text = format!(
                "a region of an array of rank {rank} has {start} starts and {count} counts; it must have {rank} of \
                 each"
            );
            return Err(Error::invalid(text));
        }
        let mut spans = Vec::with_capacity(rank);
        for (axis, ((&extent, &start), &count)) in shape.extents().iter().zip(start).zip(count).enumerate() {
            if start > extent || count > extent - start {
                let text = format!(
                    "along axis {axis} the region has {count} elements from {start} on, but the array has {extent}"
                );
                return Err(Error::invalid(text));
            }
            spans.push(Span { extent, start, count });
        }
        Ok(Self { spans })
    }

    /// Number of elements: at most that of the array.
    pub fn n_elements(&self) -> u64 {
        self.spans.iter().map(|span| span.count).product()
    }

    /// The region in the array after folding to `max_rank` axes, at most [`AXES`].
    pub fn folded(&self, fold: Fold, max_rank: usize) -> FoldedRegion {
        let mut spans: Vec<Span> = self.spans.iter().copied().filter(|span| span.extent != 1).collect();
        if self.n_elements() == 0 {
            spans.clear();
            spans.push(Span { extent: 1, start: 0, count: 0 });
        }
        let merged = fold.merged(spans.len(), max_rank.min(AXES));
        let mut axes: [&[Span]; AXES] = [&[]; AXES];
        let place = AXES - 1 - (spans.len() - merged.end);
        axes[place] = &spans[merged.clone()];
        let (before, after) = axes.split_at_mut(place);
        for (axis, span) in before.iter_mut().rev().zip(spans[..merged.start].chunks(1).rev()) {
            *axis = span;
        }
        for (axis, span) in after[1..].iter_mut().zip(spans[merged.end..].chunks(1)) {
            *axis = span;
        }
        FoldedRegion { axes: axes.map(MergedAxis::new) }
    }
}

/// The region's range on one of the axes that were merged into an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisLevel {
    /// Distance on the merged axis between neighboring positions of this axis.
    pub stride: u64,
    /// First position of the region on this axis.
    pub start: u64,
    /// Number of positions of the region on this axis.
    pub count: u64,
    /// Positions of the region on the merged axis for each position on this axis.
    pub inner: u64,
}

/// The positions of a region on an axis, which may be several merged axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedAxis {
    extent: u64,
    /// From the outermost axis to the innermost, whose `stride` and `inner` are 1.
    levels: Vec<AxisLevel>,
}

impl MergedAxis {
    fn new(spans: &[Span]) -> Self {
        let mut merged: Vec<Span> = Vec::new();
        for &span in spans {
            match merged.last_mut() {
                // The two axes act as one if the region covers the inner one whole or has one
                // position on the outer one.
                Some(outer) if span.count == span.extent || outer.count == 1 => {
                    let count = if span.count == span.extent { outer.count * span.count } else { span.count };
                    let start = outer.start * span.extent + span.start;
                    *outer = Span { extent: outer.extent * span.extent, start, count };
                }
                _ => merged.push(span),
            }
        }
        if merged.is_empty() {
            merged.push(Span { extent: 1, start: 0, count: 1 });
        }
        let (mut stride, mut inner) = (1, 1);
        let mut levels: Vec<AxisLevel> = Vec::with_capacity(merged.len());
        for &Span { extent, start, count } in merged.iter().rev() {
            levels.push(AxisLevel { stride, start, count, inner });
            (stride, inner) = (stride * extent, inner * count);
        }
        levels.reverse();
        Self { extent: stride, levels }
    }

    /// Extent of the axis.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// The levels, at least one.
    pub fn levels(&self) -> &[AxisLevel] {
        &self.levels
    }

    /// Number of positions of the region.
    pub fn count(&self) -> u64 {
        self.levels[0].count * self.levels[0].inner
    }

    /// The range from the first position of the region to the last one.
    pub fn span(&self) -> Range<u64> {
        if self.count() == 0 {
            return 0..0;
        }
        let first: u64 = self.levels.iter().map(|level| level.start * level.stride).sum();
        let further: u64 = self.levels.iter().map(|level| (level.count - 1) * level.stride).sum();
        first..first + further + 1
    }

    /// Number of positions of the region before `place`.
    pub fn rank(&self, mut place: u64) -> u64 {
        let mut n = 0;
        for level in &self.levels {
            let digit = place / level.stride;
            place %= level.stride;
            n += digit.saturating_sub(level.start).min(level.count) * level.inner;
            if digit < level.start || digit - level.start >= level.count {
                break;
            }
        }
        n
    }

    /// Position number `index` of the region.
    fn place(&self, mut index: u64) -> u64 {
        let mut place = 0;
        for level in &self.levels {
            place += (level.start + index / level.inner) * level.stride;
            index %= level.inner;
        }
        place
    }

    /// The contiguous runs of the region within `range`: first position, its index in the region,
    /// and length.
    pub fn runs(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64, u64)> {
        let (mut index, end) = (self.rank(range.start), self.rank(range.end));
        let most = self.levels[self.levels.len() - 1].count;
        std::iter::from_fn(move || {
            (index < end).then(|| {
                let n = (most - index % most).min(end - index);
                index += n;
                (self.place(index - n), index - n, n)
            })
        })
    }

    /// The blocks of length `side` along the axis that contain positions of the region.
    pub fn blocks(&self, side: u64) -> impl Iterator<Item = u64> {
        let block_range = self.block_range(side);
        block_range.filter(move |block| self.rank(block * side) < self.rank((block + 1) * side))
    }

    /// The range from the first of these blocks to the last one.
    pub fn block_range(&self, side: u64) -> Range<u64> {
        let span = self.span();
        span.start / side..span.end.div_ceil(side)
    }
}

/// A region of a folded array, with the largest number of axes that any codec uses; leading axes
/// may have extent 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedRegion {
    /// The region's positions on each axis.
    pub axes: [MergedAxis; AXES],
}

impl FoldedRegion {
    /// Number of elements.
    pub fn n_elements(&self) -> u64 {
        self.axes.iter().map(MergedAxis::count).product()
    }

    /// Number of contiguous runs along the last axis.
    pub fn n_runs(&self) -> u64 {
        let [.., last] = &self.axes;
        let innermost = last.levels[last.levels.len() - 1].count;
        self.n_elements().checked_div(innermost).unwrap_or(0)
    }

    /// The last three axes, for codecs that use no more.
    pub fn last_three(&self) -> &[MergedAxis; 3] {
        self.axes.last_chunk().expect("there are more")
    }

    /// Copies the region's elements in a block to their places in `dst`, which holds the region.
    /// The block starts at `origin` and has `shape`, along the last N axes. Elements have `size`
    /// bytes.
    pub fn take<const N: usize>(
        &self,
        origin: [u64; N],
        shape: [u64; N],
        block: &[u8],
        size: usize,
        dst: &mut [u8],
    ) {
        let ([mut starts, mut extents], front) = ([[0; AXES], [1; AXES]], AXES - N);
        starts[front..].copy_from_slice(&origin);
        extents[front..].copy_from_slice(&shape);
        let runs = |axis: usize| self.axes[axis].runs(starts[axis]..starts[axis] + extents[axis]);
        let places = |axis: usize| {
            runs(axis).flat_map(move |(place, index, n)| (0..n).map(move |i| (place - starts[axis] + i, index + i)))
        };
        let [_, spaces, rows, row] = [0, 1, 2, 3].map(|axis| self.axes[axis].count());
        for (w, to_w) in places(0) {
            for (z, to_z) in places(1) {
                for (y, to_y) in places(2) {
                    for (place, to_x, n) in runs(3) {
                        let from = ((w * extents[1] + z) * extents[2] + y) * extents[3] + place - starts[3];
                        let to = ((to_w * spaces + to_z) * rows + to_y) * row + to_x;
                        let [from, to, n_bytes] = [from, to, n].map(|n| n as usize * size);
                        dst[to..to + n_bytes].copy_from_slice(&block[from..from + n_bytes]);
                    }
                }
            }
        }
    }

    /// Copies the region from the whole array to `dst`.
    pub fn take_all(&self, array: &[u8], size: usize, dst: &mut [u8]) {
        self.take([0; AXES], self.axes.each_ref().map(MergedAxis::extent), array, size, dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(extents: &[u64], start: &[u64], count: &[u64]) -> Region {
        Region::new(&Shape::new(extents).unwrap(), start, count).unwrap()
    }

    /// All positions of a region on each axis.
    fn places(region: &FoldedRegion) -> [Vec<u64>; 3] {
        region.last_three().each_ref().map(|axis| (0..axis.count()).map(|index| axis.place(index)).collect())
    }

    #[test]
    fn axes_are_merged_as_the_array_is() {
        let check = |region: Region, levels: [usize; 3], expected: [&[u64]; 3]| {
            let folded = region.folded(Fold::Merge, 3);
            assert_eq!(places(&folded), expected);
            assert_eq!(folded.last_three().each_ref().map(|axis| axis.levels.len()), levels);
        };
        check(region(&[], &[], &[]), [1; 3], [&[0], &[0], &[0]]);
        check(region(&[1, 9, 1], &[0, 2, 0], &[1, 3, 1]), [1; 3], [&[0], &[0], &[2, 3, 4]]);
        check(region(&[5, 6], &[2, 3], &[2, 1]), [1; 3], [&[0], &[2, 3], &[3]]);
        check(region(&[4, 5, 6], &[1, 2, 3], &[2, 3, 1]), [1; 3], [&[1, 2], &[2, 3, 4], &[3]]);
        // 3 × 4 planes of 5 × 6.
        check(region(&[3, 4, 5, 6], &[1, 1, 0, 2], &[2, 2, 1, 1]), [2, 1, 1], [&[5, 6, 9, 10], &[0], &[2]]);
        check(
            region(&[3, 4, 5, 6], &[1, 0, 4, 2], &[2, 4, 1, 1]),
            [1; 3],
            [&[4, 5, 6, 7, 8, 9, 10, 11], &[4], &[2]],
        );
        check(region(&[3, 4, 5, 6], &[1, 1, 0, 2], &[1, 2, 1, 1]), [1; 3], [&[5, 6], &[0], &[2]]);
        check(
            region(&[2, 3, 3, 5, 6], &[0, 0, 1, 0, 0], &[2, 2, 1, 1, 1]),
            [3, 1, 1],
            [&[1, 4, 10, 13], &[0], &[0]],
        );
        check(region(&[2, 3, 3, 5, 6], &[1, 0, 1, 0, 0], &[1, 2, 1, 1, 1]), [2, 1, 1], [&[10, 13], &[0], &[0]]);
    }

    #[test]
    fn flat_is_one_axis() {
        let folded = region(&[3, 4, 5], &[1, 2, 1], &[2, 1, 2]).folded(Fold::Flat, 3);
        assert_eq!(places(&folded), [vec![0], vec![0], vec![31, 32, 51, 52]]);
        let whole = region(&[3, 4, 5], &[0; 3], &[3, 4, 5]).folded(Fold::Flat, 3);
        assert_eq!((whole.axes[3].levels.len(), whole.axes[3].span()), (1, 0..60));
    }

    #[test]
    fn axes_in_the_middle_are_merged() {
        let folded = region(&[3, 4, 5, 6], &[1, 1, 2, 2], &[2, 2, 2, 1]).folded(Fold::Middle, 3);
        assert_eq!(places(&folded), [vec![1, 2], vec![7, 8, 12, 13], vec![2]]);
        let folded = region(&[3, 1, 4, 5, 6], &[1, 0, 1, 2, 2], &[2, 1, 2, 2, 1]).folded(Fold::Middle, 4);
        assert_eq!(folded, region(&[3, 4, 5, 6], &[1, 1, 2, 2], &[2, 2, 2, 1]).folded(Fold::Merge, 4));
    }

    #[test]
    fn places_are_counted_and_found_in_order() {
        for (start, count) in
            [([1, 0, 1, 2], [2, 3, 2, 1]), ([0, 2, 3, 0], [4, 1, 1, 7]), ([3, 1, 0, 1], [1, 2, 4, 5])]
        {
            for fold in [Fold::Merge, Fold::Flat, Fold::Middle] {
                let folded = region(&[4, 3, 5, 7], &start, &count).folded(fold, 3);
                for (axis, all) in folded.last_three().iter().zip(places(&folded)) {
                    assert_eq!(axis.span(), all[0]..all[all.len() - 1] + 1);
                    for place in 0..=axis.extent + 3 {
                        assert_eq!(axis.rank(place), all.iter().filter(|&&p| p < place).count() as u64);
                    }
                    for (from, to) in [(0, axis.extent), (3, axis.extent), (2, 9), (5, 5)] {
                        let runs: Vec<u64> =
                            axis.runs(from..to).flat_map(|(place, _, n)| place..place + n).collect();
                        let inside = |&p: &u64| (from..to).contains(&p);
                        assert_eq!(runs, all.iter().copied().filter(inside).collect::<Vec<_>>());
                    }
                    for side in [1, 4, 16] {
                        let mut blocks: Vec<u64> = all.iter().map(|place| place / side).collect();
                        blocks.dedup();
                        assert_eq!(axis.blocks(side).collect::<Vec<_>>(), blocks);
                    }
                }
            }
        }
    }

    #[test]
    fn copies_are_the_elements() {
        let array: Vec<u8> = (0..60).collect();
        let mut dst = [0; 8];
        for fold in [Fold::Merge, Fold::Flat, Fold::Middle] {
            region(&[3, 4, 5], &[1, 2, 3], &[2, 2, 2]).folded(fold, 3).take_all(&array, 1, &mut dst);
            assert_eq!(dst, [33, 34, 38, 39, 53, 54, 58, 59]);
            dst.fill(0);
        }
        for rank in [1, 2, 3, 4] {
            region(&[3, 1, 2, 2, 5], &[1, 0, 1, 0, 3], &[2, 1, 1, 2, 2])
                .folded(Fold::Merge, rank)
                .take_all(&array, 1, &mut dst);
            assert_eq!(dst, [33, 34, 38, 39, 53, 54, 58, 59]);
            dst.fill(0);
        }
        region(&[], &[], &[]).folded(Fold::Merge, 3).take_all(&array, 8, &mut dst);
        assert_eq!(dst, [0, 1, 2, 3, 4, 5, 6, 7]);
        let empty = region(&[3, 4, 5], &[1, 2, 3], &[2, 0, 2]).folded(Fold::Merge, 3);
        assert_eq!(empty.axes[3].block_range(16), 0..0);
        empty.take_all(&array, 1, &mut []);
    }

    #[test]
    fn regions_beyond_the_array_are_refused() {
        let new = |start: &[u64], count: &[u64]| Region::new(&Shape::new(&[4, 5]).unwrap(), start, count);
        for (start, count) in
            [(&[0][..], &[1][..]), (&[0, 0], &[5, 1]), (&[5, 0], &[0, 1]), (&[1, 1], &[u64::MAX, 1])]
        {
            assert!(new(start, count).is_err(), "{start:?} {count:?}");
        }
        assert!(new(&[4, 5], &[0, 0]).is_ok());
    }
}
