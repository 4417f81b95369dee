//! The arrays of numbers of a layer, and their split into blocks.
//!
//! The numbers of the first steps are one array with one axis. The numbers of each later step are
//! an array with up to three axes. The blocks of these arrays are consecutive, so all of them can
//! be coded in parallel.

use std::ops::Range;

use crate::codec::multigrid::grid::{Grid, MAX_STEPS};
use crate::codec::multigrid::numbers::HEADER;
use crate::error::{Result, try_vec};
use crate::format::fold::Fold;
use crate::stage::blocks::table::ENTRY;
use crate::stage::blocks::{Blocks, ROW};
use crate::types::Shape;

/// Maximum number of numbers in a block.
pub(super) const MOST: usize = 1 << 16;

/// The numbers of one or several steps.
#[derive(Clone, Copy)]
pub struct Array {
    blocks: Blocks,
    /// Counts of the numbers and blocks of the arrays before it.
    first_number: usize,
    first_block: usize,
}

/// The arrays of numbers of a layer, or the first ones of them.
#[derive(Clone, Copy)]
pub struct Arrays {
    arrays: [Option<Array>; MAX_STEPS],
    n_arrays: usize,
    n_numbers: usize,
    n_blocks: usize,
    /// Blocks of all arrays of the layer; the table has an entry for each.
    n_in_table: usize,
}

/// A block of an array.
pub(super) struct Block {
    /// Its numbers, in the order in which each block is contiguous.
    pub range: Range<usize>,
    /// The first of them in the order of the nodes, and the strides of its rows and planes there.
    pub first: usize,
    pub row: usize,
    pub plane: usize,
    pub shape: [usize; 3],
}

impl Arrays {
    const NONE: Self = Self { arrays: [None; MAX_STEPS], n_arrays: 0, n_numbers: 0, n_blocks: 0, n_in_table: 0 };

    /// The arrays of all steps of a grid.
    pub fn new(grid: Grid) -> Self {
        let n_front = grid.n_front();
        let n_together: usize = grid.steps().take(n_front).map(|step| step.n_new()).sum();
        let mut all = Self::NONE;
        if n_together > 0 {
            all.push(&[n_together as u64]);
        }
        grid.steps().skip(n_front).for_each(|step| all.push(&step.new_extents().map(|n| n as u64)));
        all
    }

    /// The arrays that the first `n_steps` steps of a grid need.
    pub fn of_steps(grid: Grid, n_steps: usize) -> Self {
        let (all, n_front) = (Self::new(grid), grid.n_front());
        let n_arrays = if n_steps <= n_front { n_steps.min(1) } else { n_steps - n_front + n_front.min(1) };
        match all.arrays.get(n_arrays).copied().flatten() {
            Some(Array { first_number, first_block, .. }) => {
                Self { n_arrays, n_numbers: first_number, n_blocks: first_block, ..all }
            }
            None => all,
        }
    }

    /// True if the layer has more arrays.
    pub fn is_part(&self) -> bool {
        self.n_blocks < self.n_in_table
    }

    fn push(&mut self, extents: &[u64]) {
        let shape = Shape::new(extents).expect("part of an array");
        let blocks = Blocks::new(&Fold::Merge.apply(&shape, 3), MOST, ROW).expect("new nodes");
        let (first_number, first_block) = (self.n_numbers, self.n_blocks);
        self.n_numbers += blocks.n_elements();
        self.n_blocks += blocks.n_blocks();
        self.n_in_table = self.n_blocks;
        self.arrays[self.n_arrays] = Some(Array { blocks, first_number, first_block });
        self.n_arrays += 1;
    }

    pub fn n_numbers(&self) -> usize {
        self.n_numbers
    }

    pub fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// Array `i`.
    pub fn array(&self, i: usize) -> &Array {
        self.arrays[i].as_ref().expect("an array of a step")
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> usize {
        ENTRY * self.n_in_table
    }

    /// Maximum total size in bytes of the table and blocks, for words of this size.
    pub fn most_bytes(&self, word_bytes: usize) -> usize {
        self.table_bytes() + HEADER * self.n_blocks + word_bytes * self.n_numbers
    }

    pub(super) fn block(&self, index: usize) -> Block {
        let is_not_behind = |array: &Option<Array>| array.is_some_and(|array| array.first_block <= index);
        let Array { blocks, first_number, first_block } =
            self.array(self.arrays.partition_point(is_not_behind) - 1);
        let block = blocks.block(index - first_block);
        let ([z, y, x], (row, plane)) = (block.origin, blocks.strides());
        let start = first_number + blocks.elements_before(&block);
        let range = start..start + block.n_elements();
        Block { range, first: first_number + z * plane + y * row + x, row, plane, shape: block.shape }
    }

    /// Splits the blocks into consecutive ranges of at least `n_numbers` numbers each; the last one
    /// may have fewer.
    pub(super) fn pieces(&self, n_numbers: usize) -> Result<Vec<Range<usize>>> {
        let mut pieces = try_vec(self.n_blocks, "bookkeeping")?;
        let (mut start, mut n) = (0, 0);
        for index in 0..self.n_blocks {
            n += self.block(index).range.len();
            if n >= n_numbers || index + 1 == self.n_blocks {
                pieces.push(start..index + 1);
                (start, n) = (index + 1, 0);
            }
        }
        Ok(pieces)
    }
}

/// Iterates over consecutive numbers in node order, as runs that are contiguous within blocks.
pub struct InBlocks<'a> {
    array: &'a Array,
    at: usize,
    end: usize,
}

impl<'a> InBlocks<'a> {
    /// The `n` numbers of an array from `at` on.
    #[inline(always)]
    pub fn new(array: &'a Array, at: usize, n: usize) -> Self {
        Self { array, at, end: at + n }
    }

    /// Returns the position and length of the next contiguous run.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(usize, usize)> {
        if self.at == self.end {
            return None;
        }
        let (place, n) = self.array.blocks.place(self.at);
        let n = n.min(self.end - self.at);
        self.at += n;
        Some((self.array.first_number + place, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_a_block_once() {
        for extents in [&[5][..], &[100_000], &[700, 900], &[70, 80, 90], &[5, 6, 70, 80], &[3, 1, 40_000]] {
            let grid = Grid::new(&Shape::new(extents).unwrap()).unwrap();
            let arrays = Arrays::new(grid);
            assert_eq!(arrays.n_numbers(), grid.n_nodes() - 1);
            // Position of each number in node order: by its block, and by the runs of consecutive
            // numbers.
            let mut places = vec![usize::MAX; arrays.n_numbers()];
            let mut end = 0;
            for index in 0..arrays.n_blocks {
                let Block { range, first, row, plane, shape: [sz, sy, sx] } = arrays.block(index);
                assert_eq!(range.start, end);
                end = range.end;
                for (i, place) in range.enumerate() {
                    let (z, y, x) = (i / (sy * sx), i / sx % sy, i % sx);
                    assert!(z < sz);
                    places[first + z * plane + y * row + x] = place;
                }
            }
            assert_eq!(end, arrays.n_numbers());
            for array in arrays.arrays.iter().flatten() {
                let mut at = 0;
                let mut all = InBlocks::new(array, 0, array.blocks.n_elements());
                while let Some((place, n)) = all.next() {
                    for k in 0..n {
                        assert_eq!(places[array.first_number + at + k], place + k, "{extents:?}");
                    }
                    at += n;
                }
                assert_eq!(at, array.blocks.n_elements());
            }
        }
    }
}
