//! Coarser grids of datasets in chunks.
//!
//! The grid of level *l* has the elements whose index is a multiple of 2^*l* along each axis. The
//! grid in a chunk's frame counts from the chunk's first element. Together, the grids of all chunks
//! form the grid of the dataset if, along each axis, the chunk extent is a multiple of 2^*l* or one
//! chunk covers the axis. Then the grid is a dataset of its own, whose chunks are the grids of the
//! chunks.

use crate::bulk::placement::Placement;
use crate::bulk::selection::{Part, Selection};
use gridz_codecs::error::{Error, Result};

/// A box of the grid of a level.
pub struct Grid {
    level: u32,
    /// Extents of the dataset's chunks.
    chunk: Vec<u64>,
    selection: Selection,
}

/// Number of levels above level 0 that a dataset of `extents` with chunks of `chunk` elements has.
pub fn n_levels(extents: &[u64], chunk: &[u64]) -> u32 {
    let most = chunk.iter().map(|&n| u64::BITS - n.saturating_sub(1).leading_zeros()).max().unwrap_or(0).min(63);
    let axes = extents.iter().zip(chunk).filter(|(extent, chunk)| chunk < extent);
    axes.map(|(_, chunk)| chunk.trailing_zeros()).min().map_or(most, |least| least.min(most))
}

/// Number of grid elements among `n` consecutive elements if the first one is in the grid.
fn coarse(n: u64, level: u32) -> u64 {
    n.div_ceil(1 << level)
}

impl Grid {
    /// Selects the elements of the box of `count` elements from `start` on that are in the grid of
    /// `level`.
    ///
    /// # Errors
    /// `InvalidArgument` if the box is not inside the dataset, or the chunks do not have this
    /// level.
    pub fn new(level: u32, extents: &[u64], chunk: &[u64], start: &[u64], count: &[u64]) -> Result<Self> {
        Selection::new(extents, chunk, start, count)?;
        let most = n_levels(extents, chunk);
        if level > most {
            let which =
                if most == 0 { "only level 0 exists".into() } else { format!("the levels are 0 to {most}") };
            let is_odd = |&axis: &usize| chunk[axis] < extents[axis] && chunk[axis].trailing_zeros() < level;
            let why = (0..extents.len()).find(is_odd).map_or(String::new(), |axis| {
                format!(
                    ": along axis {axis} chunks have {} elements, which is not a multiple of 2^{level}",
                    chunk[axis]
                )
            });
            return Err(Error::invalid(format!("level {level} does not exist{why}; {which}")));
        }
        let of = |list: &[u64]| list.iter().map(|&n| coarse(n, level)).collect::<Vec<_>>();
        // No sum overflows: the box is inside.
        let ends: Vec<u64> = start.iter().zip(count).map(|(&start, &count)| start + count).collect();
        let counts: Vec<u64> = of(&ends).iter().zip(of(start)).map(|(end, start)| end - start).collect();
        let selection = Selection::new(&of(extents), &of(chunk), &of(start), &counts)?;
        Ok(Self { level, chunk: chunk.to_vec(), selection })
    }

    /// The level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The selected box, in elements and chunks of the grid.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Extents of a chunk of the dataset.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// The first element of a chunk of the dataset, from its first element `place` in the grid.
    pub fn chunk_at(&self, place: &[u64]) -> Vec<u64> {
        let axes = place.iter().zip(self.selection.chunk()).zip(&self.chunk);
        axes.map(|((place, nodes), chunk)| place / nodes * chunk).collect()
    }

    /// The number of the grid's chunk that belongs to the dataset's chunk with the first element
    /// `first`. `None` if it is not in the selection.
    pub fn number_of(&self, first: &[u64]) -> Option<u64> {
        let axes = first.iter().zip(self.selection.chunk()).zip(&self.chunk);
        let place: Vec<u64> = axes.map(|((first, nodes), chunk)| first / chunk * nodes).collect();
        self.selection.number_of(&place)
    }

    /// Subsamples a chunk: copies its grid from all its elements, which have `element_bytes` bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for more bytes than can be addressed.
    pub fn thin_out(&self, chunk: &[u8], element_bytes: usize, grid: &mut [u8]) -> Result<()> {
        let strides = strides_of(&self.chunk, element_bytes);
        let strides: Vec<i64> = strides.iter().map(|stride| stride << self.level).collect();
        self.pick(chunk, element_bytes, &strides, grid)
    }

    /// Copies the grid of a chunk from `nodes`, the grid of a codec that has merged some axes of
    /// the chunk.
    ///
    /// Let n be the extent of the second of two merged axes. With i = 2^l i' and j = 2^l j',
    /// element i n + j is node i' n + j'. So `nodes` contains all nodes of the grid.
    ///
    /// # Errors
    /// As for [`Grid::thin_out`].
    pub fn unmerge(&self, nodes: &[u8], extents: &[u64], element_bytes: usize, grid: &mut [u8]) -> Result<()> {
        let merged = strides_of(extents, element_bytes);
        let mut strides = vec![element_bytes as i64; self.chunk.len()];
        // The codec drops axes of one element and merges the first of the remaining axes.
        let (mut left, mut inner) = (extents.len(), 1);
        for (axis, &extent) in self.chunk.iter().enumerate().rev().filter(|(_, extent)| **extent != 1) {
            if left > 1 {
                left -= 1;
                strides[axis] = merged[left];
            } else {
                strides[axis] = merged[0] * inner;
                inner *= extent as i64;
            }
        }
        self.pick(nodes, element_bytes, &strides, grid)
    }

    /// Copies the elements of the grid from `from`, where they are `strides` bytes apart.
    fn pick(&self, from: &[u8], element_bytes: usize, strides: &[i64], grid: &mut [u8]) -> Result<()> {
        let extents = self.selection.chunk();
        let all = Selection::new(extents, extents, &vec![0; extents.len()], extents)?;
        let placement = Placement::new(&all, element_bytes, 1, Some(strides))?;
        let part: Part = all.part(0);
        placement.gather(&part, from, grid);
        Ok(())
    }
}

/// Distances in bytes from element to element of a contiguous chunk in C order.
fn strides_of(extents: &[u64], element_bytes: usize) -> Vec<i64> {
    let mut strides = vec![element_bytes as i64; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis] as i64;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_to_which_chunks_divide() {
        for (extents, chunk, n) in [
            (&[100, 100][..], &[32, 16][..], 4),
            (&[100, 10], &[32, 16], 5),
            (&[20, 10], &[32, 16], 5),
            (&[20, 10], &[20, 10], 5),
            (&[33], &[32], 5),
            (&[33], &[33], 6),
            (&[100, 100], &[25, 64], 0),
            (&[100, 100], &[100, 6], 1),
            (&[7, 1], &[1, 1], 0),
            (&[0, 7], &[64, 64], 6),
            (&[], &[], 0),
            (&[u64::MAX], &[1 << 63], 63),
            (&[u64::MAX], &[u64::MAX], 63),
        ] {
            assert_eq!(n_levels(extents, chunk), n, "{extents:?} {chunk:?}");
            let (start, count) = (vec![0; extents.len()], extents);
            assert!(Grid::new(n, extents, chunk, &start, count).is_ok());
            assert!(Grid::new(n + 1, extents, chunk, &start, count).is_err());
        }
    }

    /// Every grid element of the box is in exactly one part, at its position.
    #[test]
    fn parts_are_every_so_many_elements() {
        for (extents, chunk, start, count) in [
            (&[30, 21][..], &[8, 4][..], &[0, 0][..], &[30, 21][..]),
            (&[30, 21], &[8, 4], &[3, 5], &[20, 9]),
            (&[30, 21], &[8, 4], &[5, 5], &[1, 16]),
            (&[30, 5], &[8, 5], &[9, 1], &[16, 4]),
            (&[30, 5], &[8, 7], &[9, 0], &[16, 5]),
        ] {
            for level in 0..=n_levels(extents, chunk) {
                let grid = Grid::new(level, extents, chunk, start, count).unwrap();
                let selection = grid.selection();
                let mut seen = vec![0; selection.count().iter().product::<u64>() as usize];
                for (i, part) in selection.parts().enumerate() {
                    let first = grid.chunk_at(part.chunk());
                    assert_eq!(grid.number_of(&first), Some(i as u64));
                    for y in 0..part.count()[0] {
                        for x in 0..part.count()[1] {
                            let place = [0, 1].map(|axis| {
                                let node = part.in_chunk()[axis] + [y, x][axis];
                                let place = first[axis] + (node << level);
                                assert!(node < selection.chunk()[axis] && place - first[axis] < chunk[axis]);
                                assert!((start[axis]..start[axis] + count[axis]).contains(&place));
                                assert_eq!(place % (1 << level), 0);
                                place.div_ceil(1 << level) - start[axis].div_ceil(1 << level)
                            });
                            seen[(place[0] * selection.count()[1] + place[1]) as usize] += 1;
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1), "{extents:?} {chunk:?} {start:?} {count:?} {level}");
                let inside = |axis: usize| {
                    (start[axis]..start[axis] + count[axis]).filter(|place| place % (1 << level) == 0).count()
                };
                assert_eq!(seen.len(), inside(0) * inside(1));
            }
        }
    }

    #[test]
    fn a_grid_is_picked_out_of_all_elements_and_out_of_merged_axes() {
        let extents = [3, 1, 4, 6, 1, 5];
        let all: Vec<u8> = (0..360u16).flat_map(u16::to_le_bytes).collect();
        for level in 0..=n_levels(&extents, &extents) {
            let grid = Grid::new(level, &extents, &extents, &[0; 6], &extents).unwrap();
            let mut expected = Vec::new();
            for (i, element) in all.chunks_exact(2).enumerate() {
                let index = [i / 120, i / 30 % 4, i / 5 % 6, i % 5];
                if index.iter().all(|n| n % (1 << level) == 0) {
                    expected.extend_from_slice(element);
                }
            }
            let mut found = vec![0; expected.len()];
            grid.thin_out(&all, 2, &mut found).unwrap();
            assert_eq!(found, expected);
            // As a codec of two axes sees it: 72 x 5.
            let nodes = [72u64, 5].map(|n| n.div_ceil(1 << level));
            let merged: Vec<u8> = (0..nodes[0] * nodes[1])
                .flat_map(|i| {
                    ((((i / nodes[1]) << level) * 5) + ((i % nodes[1]) << level)).to_le_bytes()[..2].to_vec()
                })
                .collect();
            found.fill(0);
            grid.unmerge(&merged, &nodes, 2, &mut found).unwrap();
            assert_eq!(found, expected, "{level}");
        }
    }
}
