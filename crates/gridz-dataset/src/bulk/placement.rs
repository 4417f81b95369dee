//! Memory layout of a selection, and strided copies between memory and chunks.
//!
//! A copy has two boxes of equal counts, one in memory and one in a chunk. Axes that are contiguous
//! in both boxes are merged. The innermost remaining axis is a run. A run is copied at once if it
//! has no gaps, else element by element.
#![allow(unsafe_code, reason = "threads write parts of one memory")]

use crate::bulk::selection::{Axes, Part, Selection};
use gridz::device::StridedCopy;
use gridz_codecs::cpu::copy;
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::MAX_RANK;

/// Layout of a selection's elements in memory.
#[derive(Debug, Clone)]
pub struct Placement {
    rank: usize,
    element_bytes: usize,
    /// Bytes of the numbers whose byte order differs between memory and chunks; 1 if it is the
    /// same.
    swap: usize,
    strides: Axes<i64>,
    /// Strides in a chunk, which is contiguous.
    chunk_strides: Axes<i64>,
    /// Offset of the selection's first element in the memory range, and the length of that range,
    /// in bytes.
    first: usize,
    span: usize,
}

/// An axis of two boxes: its count, and its strides in memory and in the chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Axis {
    count: usize,
    memory: i64,
    chunk: i64,
}

/// A strided copy: the base offsets, the outer axes, and the innermost run.
#[derive(Debug)]
struct Walk {
    memory: usize,
    chunk: usize,
    axes: [Axis; MAX_RANK],
    n_axes: usize,
    run: Axis,
}

fn too_large(extents: &[u64], element_bytes: usize) -> Error {
    let zeros = if extents.contains(&0) { " (extents of 0 count as 1)" } else { "" };
    Error::invalid(format!(
        "an array {extents:?} of elements of {element_bytes} bytes exceeds the address space{zeros}"
    ))
}

/// Distances in bytes from element to element of a contiguous array in C order.
fn contiguous(extents: &[u64], element_bytes: usize) -> Result<Axes<i64>> {
    let too_large = || too_large(extents, element_bytes);
    let mut strides = [0; MAX_RANK];
    let mut stride = element_bytes as u64;
    for (axis, &extent) in extents.iter().enumerate().rev() {
        strides[axis] = i64::try_from(stride).map_err(|_| too_large())?;
        stride = stride.checked_mul(extent.max(1)).ok_or_else(too_large)?;
    }
    i64::try_from(stride).map_err(|_| too_large())?;
    Ok(strides)
}

impl Placement {
    /// Lays out `selection` with elements of `element_bytes`. Each number of `swap` bytes has
    /// another byte order than in the file; 1 means that the order is the same. `strides` are the
    /// distances in bytes along each axis, which may be negative. `None` = contiguous in C order.
    ///
    /// # Errors
    /// `InvalidArgument` if the range cannot be addressed, or elements overlap.
    pub fn new(selection: &Selection, element_bytes: usize, swap: usize, strides: Option<&[i64]>) -> Result<Self> {
        let rank = selection.count().len();
        let mut found = contiguous(selection.count(), element_bytes)?;
        if let Some(strides) = strides {
            if strides.len() != rank {
                return Err(Error::invalid(format!(
                    "{} strides were given for {rank} axes; give one per axis",
                    strides.len()
                )));
            }
            found[..rank].copy_from_slice(strides);
        }
        let too_large = || {
            let (count, strides) = (selection.count(), &found[..rank]);
            Error::invalid(format!(
                "an array {count:?} in memory with strides of {strides:?} bytes exceeds the address space"
            ))
        };
        let (mut low, mut high) = (0i64, element_bytes as i64);
        if selection.n_chunks() > 0 {
            for (&stride, &count) in found.iter().zip(selection.count()) {
                let reach = i64::try_from(count - 1).ok().and_then(|steps| stride.checked_mul(steps));
                let reach = reach.ok_or_else(too_large)?;
                low = low.checked_add(reach.min(0)).ok_or_else(too_large)?;
                high = high.checked_add(reach.max(0)).ok_or_else(too_large)?;
            }
        } else {
            high = 0;
        }
        let span = high.checked_sub(low).ok_or_else(too_large)?;
        let chunk_strides = contiguous(selection.chunk(), element_bytes)?;
        let (first, span) = (low.unsigned_abs() as usize, span as usize);
        let placement = Self { rank, element_bytes, swap, strides: found, chunk_strides, first, span };
        placement.check_apart(selection.count())?;
        Ok(placement)
    }

    /// Checks that no two elements share a byte. This holds if, from the smallest stride to the
    /// largest, each stride is at least the range covered by the elements along all axes before it.
    fn check_apart(&self, count: &[u64]) -> Result<()> {
        let mut axes: Vec<_> = self.strides.iter().zip(count).filter(|&(_, &count)| count > 1).collect();
        axes.sort_by_key(|(stride, _)| stride.unsigned_abs());
        let mut reach = self.element_bytes as u64;
        for (stride, count) in axes {
            if stride.unsigned_abs() < reach {
                return Err(Error::invalid(format!(
                    "a stride of {stride} bytes makes elements overlap; its absolute value must be at least {reach}"
                )));
            }
            // No overflow: `new` has computed the same sum.
            reach += stride.unsigned_abs() * (count - 1);
        }
        Ok(())
    }

    /// Bytes of the memory range, from the lowest element to the end of the highest.
    pub fn span(&self) -> usize {
        self.span
    }

    /// Offset of the selection's first element in the memory range, in bytes. Not 0 with negative
    /// strides.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// The offset of `part` in memory if it is contiguous there and in its chunk, with the same
    /// byte order.
    pub fn contiguous(&self, part: &Part) -> Option<usize> {
        let walk = self.walk(part);
        let is_run = walk.n_axes == 0 && walk.run.memory == walk.run.chunk && !self.swaps();
        is_run.then_some(walk.memory)
    }

    /// Describes the copy of `part` for other code that performs it. `None` if bytes must be
    /// swapped.
    pub fn box_of(&self, part: &Part) -> Option<StridedCopy> {
        let walk = self.walk(part);
        let axes = std::iter::once(&walk.run).chain(&walk.axes[..walk.n_axes]);
        let axes = axes.map(|axis| (axis.count, axis.memory, axis.chunk)).collect();
        let (array_offset, chunk_offset) = (walk.memory, walk.chunk);
        (!self.swaps()).then_some(StridedCopy {
            element_bytes: self.element_bytes,
            array_offset,
            chunk_offset,
            axes,
        })
    }

    fn walk(&self, part: &Part) -> Walk {
        let mut walk = Walk {
            memory: self.first,
            chunk: 0,
            axes: [Axis::default(); MAX_RANK],
            n_axes: 0,
            run: Axis::default(),
        };
        let size = self.element_bytes as i64;
        // Wrapping: an intermediate sum may overflow, but not the final one.
        let mut at = self.first as i64;
        let mut run = Axis { count: 1, memory: size, chunk: size };
        for axis in (0..self.rank).rev() {
            let now = Axis {
                count: part.count()[axis] as usize,
                memory: self.strides[axis],
                chunk: self.chunk_strides[axis],
            };
            at = at.wrapping_add(now.memory.wrapping_mul(part.in_selection()[axis] as i64));
            walk.chunk += now.chunk as usize * part.in_chunk()[axis] as usize;
            let follows = |stride: i64, of: i64| of.checked_mul(run.count as i64) == Some(stride);
            if now.count == 1 {
            } else if run.count == 1 {
                run = now;
            } else if follows(now.memory, run.memory) && follows(now.chunk, run.chunk) {
                run.count *= now.count;
            } else {
                walk.axes[walk.n_axes] = run;
                walk.n_axes += 1;
                run = now;
            }
        }
        walk.memory = at as usize;
        // The fastest axis becomes the run. The other axes follow, fastest first.
        if walk.n_axes > 0 {
            let fastest = walk.axes[0];
            walk.axes.copy_within(1..walk.n_axes, 0);
            walk.axes[walk.n_axes - 1] = run;
            run = fastest;
        }
        walk.run = run;
        walk
    }

    /// Copies `part` from `memory` to its position in `chunk`.
    pub fn gather(&self, part: &Part, memory: &[u8], chunk: &mut [u8]) {
        self.gather_range(part, memory, 0, chunk);
    }

    /// As [`Placement::gather`], for a part inside a range of the chunk that begins at byte `begin`.
    pub fn gather_range(&self, part: &Part, memory: &[u8], begin: usize, range: &mut [u8]) {
        let (size, chunk) = (self.element_bytes, range);
        self.walk(part).for_each_run(|at, to, run| {
            let to = to - begin;
            if self.is_dense(run.memory) && self.is_dense(run.chunk) {
                let n_bytes = run.count * size;
                chunk[to..to + n_bytes].copy_from_slice(&memory[at..at + n_bytes]);
            } else {
                for i in 0..run.count {
                    let (at, to) = (step(at, run.memory, i), step(to, run.chunk, i));
                    copy_element(&memory[at..at + size], &mut chunk[to..to + size]);
                }
            }
            self.swap_run(to, run, chunk);
        });
    }

    /// Copies `part` from its position in `chunk` to `memory`. If bytes are swapped, the contents
    /// of `chunk` are lost.
    ///
    /// # Safety
    /// No other thread accesses the elements of the part in `memory` during the call.
    pub unsafe fn scatter(&self, part: &Part, chunk: &mut [u8], memory: &SharedBytes) {
        if self.swaps() {
            self.walk(part).for_each_run(|_, from, run| self.swap_run(from, run, chunk));
        }
        // SAFETY: by this function's contract.
        unsafe { self.scatter_range(part, 0, chunk, memory) };
    }

    /// Whether bytes are swapped between memory and chunks.
    pub fn swaps(&self) -> bool {
        self.swap != 1
    }

    /// Copies `part`, which is inside a range of the chunk that begins at byte `begin`, to `memory`. The
    /// range has the byte order of the memory.
    ///
    /// # Safety
    /// As for [`Placement::scatter`].
    pub unsafe fn scatter_range(&self, part: &Part, begin: usize, range: &[u8], memory: &SharedBytes) {
        let (size, chunk) = (self.element_bytes, range);
        let is_large = self.span >= copy::LARGE_BYTES;
        self.walk(part).for_each_run(|at, from, run| {
            let from = from - begin;
            if self.is_dense(run.memory) && self.is_dense(run.chunk) {
                let run = &chunk[from..from + run.count * size];
                // SAFETY: elements of the part.
                let to = unsafe { memory.part(at..at + run.len()) };
                if is_large { copy::stream(run, to) } else { to.copy_from_slice(run) }
            } else {
                for i in 0..run.count {
                    let (at, from) = (step(at, run.memory, i), step(from, run.chunk, i));
                    // SAFETY: an element of the part.
                    copy_element(&chunk[from..from + size], unsafe { memory.part(at..at + size) });
                }
            }
        });
        copy::settle();
    }

    /// Writes `element`, which has the byte order of a chunk, to all elements of `part` in
    /// `memory`.
    ///
    /// # Safety
    /// As for [`Placement::scatter`].
    pub unsafe fn fill(&self, part: &Part, element: &[u8], memory: &SharedBytes) {
        let mut element = element.to_vec();
        swap(self.swap, &mut element);
        self.walk(part).for_each_run(|at, _, run| {
            for i in 0..run.count {
                let at = step(at, run.memory, i);
                // SAFETY: an element of the part.
                copy_element(&element, unsafe { memory.part(at..at + element.len()) });
            }
        });
    }

    fn is_dense(&self, stride: i64) -> bool {
        stride == self.element_bytes as i64
    }

    /// Swaps the byte order of a run in a chunk.
    fn swap_run(&self, at: usize, run: Axis, chunk: &mut [u8]) {
        let size = self.element_bytes;
        match self.swap {
            1 => {}
            number if self.is_dense(run.chunk) => swap(number, &mut chunk[at..at + run.count * size]),
            number => (0..run.count).for_each(|i| swap(number, &mut chunk[step(at, run.chunk, i)..][..size])),
        }
    }
}

/// The offset `i` strides after `at`.
fn step(at: usize, stride: i64, i: usize) -> usize {
    (at as i64).wrapping_add(stride.wrapping_mul(i as i64)) as usize
}

/// Copies an element. Common sizes are constants, which compile to moves instead of a call.
fn copy_element(from: &[u8], to: &mut [u8]) {
    match (from, to) {
        ([a], [b]) => *b = *a,
        (from, to) if from.len() == 2 => to[..2].copy_from_slice(&from[..2]),
        (from, to) if from.len() == 4 => to[..4].copy_from_slice(&from[..4]),
        (from, to) if from.len() == 8 => to[..8].copy_from_slice(&from[..8]),
        (from, to) => to.copy_from_slice(from),
    }
}

/// Reverses the bytes of every number of `size` bytes.
fn swap(size: usize, bytes: &mut [u8]) {
    match size {
        1 => {}
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|number| number.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|number| number.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|number| number.reverse()),
        _ => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
    }
}

impl Walk {
    /// Calls `visit` with the offsets of each run in memory and in the chunk.
    fn for_each_run(&self, mut visit: impl FnMut(usize, usize, Axis)) {
        let axes = &self.axes[..self.n_axes];
        let n_runs = axes.iter().map(|axis| axis.count).product::<usize>() * usize::from(self.run.count > 0);
        let mut index = [0usize; MAX_RANK];
        let (mut memory, mut chunk) = (self.memory, self.chunk);
        for _ in 0..n_runs {
            visit(memory, chunk, self.run);
            for (i, axis) in index.iter_mut().zip(axes) {
                *i += 1;
                (memory, chunk) = (step(memory, axis.memory, 1), step(chunk, axis.chunk, 1));
                if *i < axis.count {
                    break;
                }
                (memory, chunk) = (step(memory, -axis.memory, *i), step(chunk, -axis.chunk, *i));
                *i = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of `size` bytes, each with its number in its first bytes.
    fn numbered(n: usize, size: usize) -> Vec<u8> {
        (0..n)
            .flat_map(|i| (i as u64 + 1).to_le_bytes().into_iter().chain([7; 32]).take(size).collect::<Vec<_>>())
            .collect()
    }

    /// Gathered elements are scattered back to their positions, whatever the strides.
    #[test]
    fn boxes_go_there_and_back() {
        let (extents, chunk) = ([5, 6, 7], [2, 4, 3]);
        for (start, count) in
            [([0, 0, 0], [5, 6, 7]), ([1, 2, 3], [3, 4, 2]), ([4, 5, 6], [1, 1, 1]), ([0, 3, 0], [5, 1, 7])]
        {
            let selection = Selection::new(&extents, &chunk, &start, &count).unwrap();
            let [a, b, c] = count.map(|n| n as i64);
            for size in [1usize, 2, 3, 4, 8, 12] {
                let s = size as i64;
                for strides in [
                    None,
                    Some([s, s * a, s * a * b]),
                    Some([-b * c * s, c * s, -s]),
                    Some([b * c * 2 * s + 5, c * 2 * s, 2 * s]),
                    Some([b * c * s, s, b * s]),
                ] {
                    for number in [1, size].into_iter().filter(|n| [1, 2, 4, 8].contains(n)) {
                        let placement =
                            Placement::new(&selection, size, number, strides.as_ref().map(|s| &s[..])).unwrap();
                        let strides = strides.unwrap_or([b * c * s, c * s, s]);
                        let memory: Vec<u8> = (0..placement.span()).map(|i| (i * 7 + i / 251) as u8).collect();
                        let mut back = vec![0; placement.span()];
                        let shared = SharedBytes::new(&mut back);
                        for i in 0..selection.n_chunks() {
                            let part = selection.part(i);
                            let mut inside = numbered(24, size);
                            let before = inside.clone();
                            placement.gather(&part, &memory, &mut inside);
                            for z in 0..2u64 {
                                for y in 0..4u64 {
                                    for x in 0..3u64 {
                                        let at = [z, y, x];
                                        let place = ((z * 4 + y) * 3 + x) as usize * size;
                                        let inside_piece = (0..3).all(|k| {
                                            (part.in_chunk()[k]..part.in_chunk()[k] + part.count()[k])
                                                .contains(&at[k])
                                        });
                                        let found = &inside[place..place + size];
                                        if !inside_piece {
                                            assert_eq!(found, &before[place..place + size]);
                                            continue;
                                        }
                                        let from = (0..3)
                                            .map(|k| {
                                                (at[k] - part.in_chunk()[k] + part.in_selection()[k]) as i64
                                                    * strides[k]
                                            })
                                            .sum::<i64>()
                                            + placement.first() as i64;
                                        let mut expected = memory[from as usize..from as usize + size].to_vec();
                                        swap(number, &mut expected);
                                        assert_eq!(found, expected, "{part:?} {at:?} {strides:?}");
                                    }
                                }
                            }
                            if let Some(at) = placement.contiguous(&part) {
                                let n = part.n_elements() as usize * size;
                                let mut rest = inside.clone();
                                rest.clear();
                                placement
                                    .walk(&part)
                                    .for_each_run(|_, to, run| rest.extend(&inside[to..to + run.count * size]));
                                assert_eq!(rest, memory[at..at + n]);
                            }
                            // SAFETY: one thread.
                            unsafe { placement.scatter(&part, &mut inside, &shared) };
                        }
                        let gaps = strides == [b * c * 2 * s + 5, c * 2 * s, 2 * s];
                        assert!(back.iter().zip(&memory).all(|(a, b)| a == b || gaps && *a == 0));
                        assert!(gaps || back == memory);
                    }
                }
            }
        }
    }

    #[test]
    fn elements_may_not_overlap() {
        let selection = Selection::new(&[4, 4], &[2, 2], &[0, 0], &[4, 4]).unwrap();
        for (strides, good) in [
            ([16, 4], true),
            ([4, 16], true),
            ([-16, -4], true),
            ([12, 4], false),
            ([0, 4], false),
            ([16, 3], false),
            ([i64::MAX, 4], false),
            ([i64::MIN, 4], false),
            ([1 << 62, 4], false),
            ([1 << 60, 4], true),
        ] {
            assert_eq!(Placement::new(&selection, 4, 1, Some(&strides)).is_ok(), good, "{strides:?}");
        }
        let one = Selection::new(&[4, 4], &[2, 2], &[3, 0], &[1, 4]).unwrap();
        assert!(Placement::new(&one, 4, 1, Some(&[0, 4])).is_ok());
        let none = Selection::new(&[4, 4], &[2, 2], &[3, 0], &[0, 4]).unwrap();
        assert_eq!(Placement::new(&none, 4, 1, Some(&[0, 4])).unwrap().span(), 0);
    }

    #[test]
    fn a_fill_value_goes_everywhere() {
        let selection = Selection::new(&[4, 4], &[3, 3], &[1, 1], &[3, 2]).unwrap();
        let placement = Placement::new(&selection, 4, 4, None).unwrap();
        let mut memory = vec![0; placement.span()];
        let shared = SharedBytes::new(&mut memory);
        // SAFETY: one thread.
        (0..selection.n_chunks())
            .for_each(|i| unsafe { placement.fill(&selection.part(i), &[1, 2, 3, 4], &shared) });
        assert_eq!(memory, [4, 3, 2, 1].repeat(6));
    }
}
