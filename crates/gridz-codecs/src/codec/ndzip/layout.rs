//! Positions of blocks in the array and of sections in the stream.
//!
//! The array is cut into blocks of 4096 elements: 4096, 64×64 or 16×16×16 by rank. Only complete
//! blocks are coded; the rest, the border, is stored verbatim. Internally there are always three
//! axes. An array with two axes has a first axis of 1. An array with one axis is a plane whose rows
//! are one block each, plus the elements after the last complete row. That changes neither the
//! order of the blocks nor that of the elements.
//!
//! ```text
//! offset table: u32 end of each block in words | pad to a word | blocks | border elements
//! ```

use std::ops::Range;

use crate::format::region::FoldedRegion;
use crate::types::{DType, Shape};

/// Elements of a block.
pub const BLOCK: usize = 4096;

/// Geometry of one folded array of f32 or f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Elements of the array.
    n_elements: usize,
    /// Extents of the array; for an array with one axis, those of its complete rows.
    extents: [usize; 3],
    /// Side lengths of a block.
    sides: [usize; 3],
    /// Complete blocks along each axis.
    blocks: [usize; 3],
    /// Bytes of a word, which is one element.
    word_bytes: usize,
}

impl Layout {
    /// The layout of an array of rank 1 to 3; `None` if a stream of it could pass the 32-bit
    /// offsets of the table.
    pub fn new(shape: &Shape, dtype: DType) -> Option<Self> {
        let sides = match shape.rank() {
            1 => [1, 1, 4096],
            2 => [1, 64, 64],
            _ => [16, 16, 16],
        };
        let n_elements = usize::try_from(shape.n_elements()).ok()?;
        let mut extents = [1; 3];
        for (extent, &n) in extents[3 - shape.extents().len()..].iter_mut().zip(shape.extents()) {
            *extent = usize::try_from(n).ok()?;
        }
        if shape.rank() == 1 {
            extents = [1, n_elements / BLOCK, BLOCK];
        }
        let blocks = [0, 1, 2].map(|k| extents[k] / sides[k]);
        let word_bytes = if dtype == DType::F64 { 8 } else { 4 };
        let layout = Self { n_elements, extents, sides, blocks, word_bytes };
        let worst_words = layout.n_blocks() as u64 * layout.max_block_words() as u64 + layout.n_border() as u64;
        u32::try_from(worst_words).ok()?;
        Some(layout)
    }

    /// Number of block sides above 1.
    pub fn rank(&self) -> usize {
        self.sides.iter().filter(|&&side| side > 1).count()
    }

    pub fn word_bytes(&self) -> usize {
        self.word_bytes
    }

    pub fn n_elements(&self) -> usize {
        self.n_elements
    }

    pub fn n_blocks(&self) -> usize {
        self.blocks.iter().product()
    }

    /// Elements outside of all complete blocks.
    pub fn n_border(&self) -> usize {
        self.n_elements() - self.n_blocks() * BLOCK
    }

    /// Groups of a block, each with a head word; a group has as many elements as a word has bits.
    pub fn n_heads(&self) -> usize {
        BLOCK / (8 * self.word_bytes)
    }

    /// Words of a block in which every column is nonzero: the maximum.
    pub fn max_block_words(&self) -> usize {
        self.n_heads() + BLOCK
    }

    /// Bytes of the offset table with its padding.
    pub fn table_bytes(&self) -> usize {
        (4 * self.n_blocks()).next_multiple_of(self.word_bytes)
    }

    /// Maximum size in bytes of a payload. This bound is tight.
    pub fn payload_bound(&self) -> u64 {
        let words = self.n_blocks() * self.max_block_words() + self.n_border();
        (self.table_bytes() + words * self.word_bytes) as u64
    }

    /// Index of the first element of block `block` in the array.
    pub fn block_start(&self, block: usize) -> usize {
        let [_, n1, n2] = self.extents;
        let (b2, rest) = (block % self.blocks[2], block / self.blocks[2]);
        let (b1, b0) = (rest % self.blocks[1], rest / self.blocks[1]);
        (b0 * self.sides[0] * n1 + b1 * self.sides[1]) * n2 + b2 * self.sides[2]
    }

    /// For each of the array's own axes: extent, block side, and number of complete blocks.
    fn axes(&self) -> [(u64, u64, u64); 3] {
        let axes = |extents: [usize; 3], blocks: [usize; 3]| {
            [0, 1, 2].map(|k| (extents[k] as u64, self.sides[k] as u64, blocks[k] as u64))
        };
        match self.rank() {
            1 => axes([1, 1, self.n_elements], [1, 1, self.blocks[1]]),
            _ => axes(self.extents, self.blocks),
        }
    }

    /// The complete blocks that contain elements of a region, with the position at which each
    /// begins.
    pub fn blocks_in(&self, region: &FoldedRegion) -> impl Iterator<Item = (usize, [u64; 3])> {
        let [z, y, x] = self.axes();
        let along = |k: usize, (_, side, n): (u64, u64, u64)| {
            region.last_three()[k].blocks(side).take_while(move |&block| block < n)
        };
        along(0, z).flat_map(move |b0| {
            along(1, y).flat_map(move |b1| {
                along(2, x).map(move |b2| (((b0 * y.2 + b1) * x.2 + b2) as usize, [b0 * z.1, b1 * y.1, b2 * x.1]))
            })
        })
    }

    /// Sides of a block along the array's axes.
    pub fn sides(&self) -> [u64; 3] {
        self.axes().map(|(_, side, _)| side)
    }

    /// The range of complete blocks along each axis that contain elements of a region, and the
    /// number of the region's elements in the border.
    pub fn block_range(&self, region: &FoldedRegion) -> ([Range<u64>; 3], u64) {
        let (axes, covered) = (self.axes(), self.covered());
        let blocks = [0, 1, 2].map(|k| {
            let block_range = region.last_three()[k].block_range(axes[k].1);
            block_range.start.min(axes[k].2)..block_range.end.min(axes[k].2)
        });
        let in_blocks: u64 = [0, 1, 2].map(|k| region.last_three()[k].rank(covered[k])).iter().product();
        (blocks, region.n_elements() - in_blocks)
    }

    /// Positions along each axis that complete blocks cover.
    fn covered(&self) -> [u64; 3] {
        if self.n_blocks() == 0 { [0; 3] } else { self.axes().map(|(_, side, n)| side * n) }
    }

    /// The elements of a region in the border, as runs that are contiguous there. Each run has the
    /// index of its first element in the border, its index in the region, and its length.
    pub fn border_in(&self, region: &FoldedRegion) -> impl Iterator<Item = (u64, u64, u64)> {
        let [cz, cy, cx] = self.covered();
        let [_, (ny, ..), (nx, ..)] = self.axes();
        let per_plane = ny * nx - cy * cx;
        let [_, rows, row] = [0, 1, 2].map(|k| region.last_three()[k].count());
        let places = |k: usize| {
            let axis = &region.last_three()[k];
            axis.runs(0..axis.extent()).flat_map(|(place, index, n)| (0..n).map(move |i| (place + i, index + i)))
        };
        places(0).flat_map(move |(z, to_z)| {
            places(1).flat_map(move |(y, to_y)| {
                // Index in the border at which a row's elements begin, and the first x that lies in
                // the border.
                let (start, first) = match (z < cz, y < cy) {
                    (true, true) => (z * per_plane + y * (nx - cx), cx),
                    (true, false) => (z * per_plane + cy * (nx - cx) + (y - cy) * nx, 0),
                    _ => (cz * per_plane + ((z - cz) * ny + y) * nx, 0),
                };
                let runs = region.last_three()[2].runs(first..nx);
                runs.map(move |(x, to_x, n)| (start + x - first, (to_z * rows + to_y) * row + to_x, n))
            })
        })
    }

    /// Strides in elements from one row to the next, and from one plane to the next.
    pub fn strides(&self) -> (usize, usize) {
        (self.extents[2], self.extents[1] * self.extents[2])
    }

    /// Slabs of blocks. A slab is the blocks with the same first coordinate.
    pub fn slabs(&self) -> usize {
        self.blocks[0]
    }

    /// Blocks of one strip. A strip is the blocks with the same first two coordinates.
    pub fn blocks_per_strip(&self) -> usize {
        self.blocks[2]
    }

    pub fn bands_per_strip(&self) -> usize {
        self.sides[0]
    }

    /// Elements of each of a strip's bands. A strip consists of one contiguous band per plane.
    pub fn band_elements(&self) -> usize {
        self.sides[1] * self.extents[2]
    }

    /// First element of every band, with the number of the strip it belongs to, in the order of the
    /// array.
    pub fn bands(&self) -> impl Iterator<Item = (usize, usize)> {
        let (_, plane) = self.strides();
        let (n_planes, n_bands) =
            if self.n_blocks() == 0 { (0, 0) } else { (self.blocks[0] * self.sides[0], self.blocks[1]) };
        let (band, side, per_plane) = (self.band_elements(), self.sides[0], self.blocks[1]);
        (0..n_planes)
            .flat_map(move |z| (0..n_bands).map(move |b1| (z * plane + b1 * band, z / side * per_plane + b1)))
    }

    /// Contiguous runs of border elements, in the order of the array and of the stream.
    pub fn border_runs(&self) -> impl Iterator<Item = Range<usize>> {
        let [_, _, n2] = self.extents;
        let (_, plane) = self.strides();
        let covered = [0, 1, 2].map(|k| if self.n_blocks() == 0 { 0 } else { self.blocks[k] * self.sides[k] });
        let planes = (0..covered[0]).flat_map(move |z| {
            let tails = (0..covered[1]).map(move |y| (z * plane + y * n2 + covered[2])..(z * plane + (y + 1) * n2));
            tails.chain(std::iter::once((z * plane + covered[1] * n2)..((z + 1) * plane)))
        });
        let rest = (covered[0] * plane)..self.n_elements();
        planes.chain(std::iter::once(rest)).filter(|run| !run.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(extents: &[u64], dtype: DType) -> Layout {
        Layout::new(&Shape::new(extents).unwrap(), dtype).unwrap()
    }

    /// Bands of blocks and border runs together cover every element of the array exactly once.
    #[test]
    fn bands_blocks_and_border_cover_the_array_once() {
        for extents in [
            &[1][..],
            &[4096],
            &[9000],
            &[64, 64],
            &[63, 200],
            &[130, 200],
            &[16, 16, 16],
            &[15, 40, 40],
            &[33, 35, 37],
            &[16, 32, 16],
            &[40, 16, 17],
        ] {
            let layout = layout(extents, DType::F32);
            let mut seen = vec![0; layout.n_elements()];
            let (row, plane) = layout.strides();
            for block in 0..layout.n_blocks() {
                for i in 0..BLOCK {
                    let [_, s1, s2] = layout.sides;
                    let (z, y, x) = (i / (s1 * s2), i / s2 % s1, i % s2);
                    seen[layout.block_start(block) + z * plane + y * row + x] += 1;
                }
            }
            let n_border: usize = layout.border_runs().map(|run| run.len()).sum();
            assert_eq!(n_border, layout.n_border(), "{extents:?}");
            layout.border_runs().for_each(|run| seen[run].iter_mut().for_each(|n| *n += 1));
            assert!(seen.iter().all(|&n| n == 1), "{extents:?}");

            let mut strips = vec![0; layout.n_blocks().checked_div(layout.blocks_per_strip()).unwrap_or(0)];
            let mut end = 0;
            for (start, strip) in layout.bands() {
                assert!(start >= end && start + layout.band_elements() <= layout.n_elements());
                end = start + layout.band_elements();
                strips[strip] += 1;
            }
            assert!(strips.iter().all(|&n| n == layout.sides[0]), "{extents:?}");
        }
    }

    #[test]
    fn tables_are_padded_to_a_word() {
        assert_eq!(layout(&[3 * 4096], DType::F32).table_bytes(), 12);
        assert_eq!(layout(&[3 * 4096], DType::F64).table_bytes(), 16);
        assert_eq!(layout(&[5], DType::F64).payload_bound(), 40);
        assert_eq!(layout(&[4096], DType::F32).payload_bound(), 16900);
        assert_eq!(layout(&[4096], DType::F64).payload_bound(), 33288);
    }

    #[test]
    fn arrays_past_the_32_bit_table_have_no_layout() {
        assert!(Layout::new(&Shape::new(&[1 << 32]).unwrap(), DType::F32).is_none());
        assert!(Layout::new(&Shape::new(&[(1 << 32) - 1]).unwrap(), DType::F32).is_none());
        assert!(Layout::new(&Shape::new(&[(1 << 32) - (1 << 28)]).unwrap(), DType::F32).is_some());
        assert!(Layout::new(&Shape::new(&[0]).unwrap(), DType::F32).is_some());
    }
}
