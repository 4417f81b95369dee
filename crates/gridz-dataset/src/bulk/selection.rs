//! Selection of a box of a dataset, and its parts in chunks.

use std::ops::Range;

use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::MAX_RANK;

/// One number for each axis.
pub(super) type Axes<T> = [T; MAX_RANK];

/// A box of elements of a dataset in chunks. Extents, starts and counts are in elements,
/// slowest-varying axis first.
#[derive(Debug, Clone)]
pub struct Selection {
    rank: usize,
    extents: Axes<u64>,
    chunk: Axes<u64>,
    start: Axes<u64>,
    count: Axes<u64>,
    /// Along each axis, the number of the first chunk in the selection, and the number of chunks.
    first: Axes<u64>,
    n: Axes<u64>,
    n_chunks: u64,
}

/// How much of a chunk belongs to a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    /// The whole chunk.
    Whole,
    /// All elements of the chunk that are inside the dataset.
    UpToTheEdge,
    /// Fewer elements than that.
    Part,
}

/// A part: the elements of one chunk that belong to a selection.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    rank: usize,
    chunk: Axes<u64>,
    in_chunk: Axes<u64>,
    in_selection: Axes<u64>,
    count: Axes<u64>,
    covers: Covers,
}

fn axes(from: &[u64]) -> Axes<u64> {
    let mut to = [0; MAX_RANK];
    to[..from.len()].copy_from_slice(from);
    to
}

impl Selection {
    /// The box of `count` elements from `start` on, in a dataset of `extents` with chunks of
    /// `chunk` elements.
    ///
    /// # Errors
    /// `InvalidArgument` if the box is not inside the dataset, or the lists differ in length.
    pub fn new(extents: &[u64], chunk: &[u64], start: &[u64], count: &[u64]) -> Result<Self> {
        let rank = extents.len();
        if rank > MAX_RANK || [chunk, start, count].iter().any(|list| list.len() != rank) || chunk.contains(&0) {
            return Err(Error::invalid(format!(
                "extents {extents:?}, chunk {chunk:?}, start {start:?} and count {count:?} must have the same \
                 length, at most {MAX_RANK}, and chunk must not contain 0"
            )));
        }
        for axis in 0..rank {
            if start[axis].checked_add(count[axis]).is_none_or(|end| end > extents[axis]) {
                return Err(Error::invalid(format!(
                    "the selection is not inside the dataset: along axis {axis} it has {} elements from {} on, but \
                     the dataset has {}",
                    count[axis], start[axis], extents[axis]
                )));
            }
        }
        let (mut first, mut n, mut n_chunks) = ([0; MAX_RANK], [1; MAX_RANK], 1u64);
        for axis in 0..rank {
            first[axis] = start[axis] / chunk[axis];
            n[axis] = match count[axis] {
                0 => 0,
                count => (start[axis] + count - 1) / chunk[axis] + 1 - first[axis],
            };
            n_chunks = n_chunks.checked_mul(n[axis]).ok_or_else(|| {
                Error::invalid(format!(
                    "a selection of {count:?} elements is in 2^64 or more chunks of {chunk:?}; select fewer elements"
                ))
            })?;
        }
        let (extents, chunk, start, count) = (axes(extents), axes(chunk), axes(start), axes(count));
        Ok(Self { rank, extents, chunk, start, count, first, n, n_chunks })
    }

    /// Number of chunks that the selection touches.
    pub fn n_chunks(&self) -> u64 {
        self.n_chunks
    }

    /// Elements of the selection along each axis.
    pub fn count(&self) -> &[u64] {
        &self.count[..self.rank]
    }

    /// Extents of a chunk.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk[..self.rank]
    }

    /// The number of the part in the chunk with the first element `chunk`, if the selection touches
    /// it.
    pub fn number_of(&self, chunk: &[u64]) -> Option<u64> {
        chunk.iter().enumerate().try_fold(0, |number, (axis, &begin)| {
            let place = (begin / self.chunk[axis]).checked_sub(self.first[axis]).filter(|&n| n < self.n[axis])?;
            Some(number * self.n[axis] + place)
        })
    }

    /// All parts of the selection, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        (0..self.n_chunks).map(|i| self.part(i))
    }

    /// Part `i` of the selection; the last axis varies fastest.
    pub fn part(&self, i: u64) -> Part {
        let mut part = Part {
            rank: self.rank,
            chunk: [0; MAX_RANK],
            in_chunk: [0; MAX_RANK],
            in_selection: [0; MAX_RANK],
            count: [0; MAX_RANK],
            covers: Covers::Whole,
        };
        let mut rest = i;
        for axis in (0..self.rank).rev() {
            let begin = (self.first[axis] + rest % self.n[axis]) * self.chunk[axis];
            rest /= self.n[axis];
            // No sum overflows: the selection is inside the dataset, and so is the start of each
            // chunk.
            let edge = begin.saturating_add(self.chunk[axis]).min(self.extents[axis]);
            let (from, to) = (self.start[axis].max(begin), edge.min(self.start[axis] + self.count[axis]));
            part.chunk[axis] = begin;
            part.in_chunk[axis] = from - begin;
            part.in_selection[axis] = from - self.start[axis];
            part.count[axis] = to - from;
            part.covers = match part.covers {
                _ if from > begin || to < edge => Covers::Part,
                Covers::Whole if to - from < self.chunk[axis] => Covers::UpToTheEdge,
                covers => covers,
            };
        }
        part
    }
}

impl Part {
    /// First element of the chunk, in the dataset.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk[..self.rank]
    }

    /// First element of the part, in the chunk.
    pub fn in_chunk(&self) -> &[u64] {
        &self.in_chunk[..self.rank]
    }

    /// First element of the part, in the selection.
    pub fn in_selection(&self) -> &[u64] {
        &self.in_selection[..self.rank]
    }

    /// Elements of the part along each axis.
    pub fn count(&self) -> &[u64] {
        &self.count[..self.rank]
    }

    /// Number of elements of the part.
    pub fn n_elements(&self) -> u64 {
        self.count().iter().product()
    }

    /// The elements that it has in common with a box of its chunk. `None` if there are none.
    pub fn within(&self, start: &[u64], count: &[u64]) -> Option<Self> {
        let mut part = Self { covers: Covers::Part, ..*self };
        for axis in 0..self.rank {
            let from = start[axis].max(self.in_chunk[axis]);
            let to = (start[axis] + count[axis]).min(self.in_chunk[axis] + self.count[axis]);
            part.in_selection[axis] += from - self.in_chunk[axis];
            (part.in_chunk[axis], part.count[axis]) = (from, to.checked_sub(from).filter(|&n| n > 0)?);
        }
        Some(part)
    }

    /// How much of the chunk the part covers.
    pub fn covers(&self) -> Covers {
        self.covers
    }
}

/// Splits the elements `range` of a chunk, numbered in C order, into boxes. Calls `visit` with the
/// start and the count of each: at most two for each axis. The chunk has at least one axis.
pub fn for_each_box(chunk: &[u64], range: Range<u64>, mut visit: impl FnMut(&[u64], &[u64])) {
    let (rank, mut at) = (chunk.len(), range.start);
    while at < range.end {
        // The slowest axis along which a step of `inner` elements begins here and fits.
        let (mut axis, mut inner) = (rank - 1, 1);
        while axis > 0 && at.is_multiple_of(inner * chunk[axis]) && inner * chunk[axis] <= range.end - at {
            inner *= chunk[axis];
            axis -= 1;
        }
        let (mut start, mut count, mut rest) = (axes(&[]), axes(&[]), at);
        for i in (0..rank).rev() {
            (start[i], rest) = (rest % chunk[i], rest / chunk[i]);
            count[i] = if i > axis { chunk[i] } else { 1 };
        }
        count[axis] = (chunk[axis] - start[axis]).min((range.end - at) / inner);
        visit(&start[..rank], &count[..rank]);
        at += count[axis] * inner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_selection_once() {
        for (extents, chunk, start, count) in [
            (&[10, 7][..], &[4, 3][..], &[0, 0][..], &[10, 7][..]),
            (&[10, 7], &[4, 3], &[3, 2], &[6, 3]),
            (&[10, 7], &[4, 3], &[4, 3], &[4, 3]),
            (&[5], &[8], &[1], &[4]),
            (&[5], &[8], &[0], &[5]),
            (&[3, 4, 5], &[2, 2, 2], &[1, 0, 4], &[2, 4, 1]),
            (&[3, 4, 5], &[2, 2, 2], &[1, 0, 4], &[2, 0, 1]),
        ] {
            let selection = Selection::new(extents, chunk, start, count).unwrap();
            let n: u64 = count.iter().product();
            let mut seen = vec![0; n as usize];
            for i in 0..selection.n_chunks() {
                let part = selection.part(i);
                assert_eq!(selection.number_of(part.chunk()), Some(i));
                let (mut whole, mut edge) = (true, true);
                for axis in 0..extents.len() {
                    let (begin, from) = (part.chunk()[axis], part.in_chunk()[axis]);
                    assert_eq!(begin % chunk[axis], 0);
                    assert_eq!(begin + from, start[axis] + part.in_selection()[axis]);
                    let valid = chunk[axis].min(extents[axis] - begin);
                    whole &= part.count()[axis] == chunk[axis];
                    edge &= part.count()[axis] == valid;
                }
                let covers = if whole {
                    Covers::Whole
                } else if edge {
                    Covers::UpToTheEdge
                } else {
                    Covers::Part
                };
                assert_eq!(part.covers(), covers, "{part:?}");
                for element in 0..part.n_elements() {
                    let (mut rest, mut at, mut stride) = (element, 0, 1);
                    for axis in (0..extents.len()).rev() {
                        at += (part.in_selection()[axis] + rest % part.count()[axis]) * stride;
                        (rest, stride) = (rest / part.count()[axis], stride * count[axis]);
                    }
                    seen[at as usize] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{selection:?}");
        }
    }

    #[test]
    fn what_is_outside_is_refused() {
        for (start, count) in
            [(&[0, 0][..], &[11, 1][..]), (&[10, 0], &[1, 1]), (&[u64::MAX, 0], &[2, 1]), (&[0], &[1])]
        {
            assert!(Selection::new(&[10, 7], &[4, 3], start, count).is_err());
        }
        let inner = Selection::new(&[10, 7], &[4, 3], &[4, 3], &[4, 3]).unwrap();
        assert!([[0, 3], [4, 0], [8, 3], [4, 6]].iter().all(|chunk| inner.number_of(chunk).is_none()));
        assert!(Selection::new(&[10, 7], &[4, 0], &[0, 0], &[1, 1]).is_err());
        let far = Selection::new(&[u64::MAX], &[1 << 63], &[1 << 63], &[(1 << 63) - 1]).unwrap();
        assert_eq!((far.n_chunks(), far.part(0).covers()), (1, Covers::UpToTheEdge));
    }

    /// The boxes of a range contain its elements, each once, and nothing else.
    #[test]
    fn boxes_cover_a_range() {
        for chunk in [&[7][..], &[3, 4], &[2, 1, 5], &[1, 3, 1, 2], &[2, 2, 2, 2]] {
            let n: u64 = chunk.iter().product();
            for range in (0..=n).flat_map(|begin| (begin..=n).map(move |end| begin..end)) {
                let (mut at, mut n_boxes) = (range.start, 0);
                for_each_box(chunk, range.clone(), |start, count| {
                    n_boxes += 1;
                    let n_box: u64 = count.iter().product();
                    for element in 0..n_box {
                        let (mut rest, mut number, mut stride) = (element, 0, 1);
                        for axis in (0..chunk.len()).rev() {
                            number += (start[axis] + rest % count[axis]) * stride;
                            (rest, stride) = (rest / count[axis], stride * chunk[axis]);
                        }
                        // Elements of a box are contiguous.
                        assert_eq!(number, at, "{chunk:?} {range:?} {start:?} {count:?}");
                        at += 1;
                    }
                });
                assert!(at == range.end && n_boxes <= 2 * chunk.len(), "{chunk:?} {range:?}");
            }
        }
    }
}
