//! Blocks: independent boxes that an array is cut into.
//!
//! The shape of blocks follows the array, so that blocks of thin arrays are full, too. Blocks at
//! the upper borders are clipped. Blocks with the same leading coordinates are a strip. [`source`]
//! loads a block's elements into rows, [`target`] stores them in their places.

pub mod layout;
pub mod payload;
pub mod source;
pub mod table;
pub mod target;

use std::ops::Range;

use crate::format::region::FoldedRegion;
use crate::types::Shape;

/// Elements of a row of most blocks: 128 bytes of f32.
pub const ROW: usize = 32;

/// A box in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First plane, row and element.
    pub origin: [usize; 3],
    /// Planes, rows and elements, at least one each.
    pub shape: [usize; 3],
}

impl Block {
    /// Number of elements.
    pub fn n_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The end of the box on an axis, exclusive.
    #[inline(always)]
    pub fn end(&self, axis: usize) -> usize {
        self.origin[axis] + self.shape[axis]
    }

    /// The index, within the box, of the element at a place in the array.
    #[inline(always)]
    pub fn place(&self, [z, y, x]: [usize; 3]) -> usize {
        let ([oz, oy, ox], [_, sy, sx]) = (self.origin, self.shape);
        ((z - oz) * sy + y - oy) * sx + x - ox
    }
}

/// The blocks of one array with three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Extents, padded with ones in front.
    extents: [usize; 3],
    /// Extents of a block.
    sides: [usize; 3],
    /// Blocks along each axis.
    counts: [usize; 3],
}

impl Blocks {
    /// Cuts an array of rank 0 to 3 into blocks of up to `size` elements, in rows of up to `row`;
    /// both are powers of two. Rows are longer if other axes leave their share to x. `None` for
    /// arrays of higher rank or without elements.
    pub fn new(shape: &Shape, size: usize, row: usize) -> Option<Self> {
        if shape.n_elements() == 0 {
            return None;
        }
        let mut extents = [1; 3];
        let rank = shape.extents().len();
        for (extent, &n) in extents[3usize.checked_sub(rank)?..].iter_mut().zip(shape.extents()) {
            *extent = usize::try_from(n).ok()?;
        }
        let sides = sides(extents, size, row);
        let counts = [0, 1, 2].map(|k| extents[k].div_ceil(sides[k]));
        Some(Self { extents, sides, counts })
    }

    /// Elements of all blocks.
    pub fn n_elements(&self) -> usize {
        self.extents.iter().product()
    }

    /// Number of elements in the blocks before this one.
    #[inline(always)]
    pub fn elements_before(&self, block: &Block) -> usize {
        let ([z, y, x], [sz, sy, _], [_, ey, ex]) = (block.origin, block.shape, self.extents);
        z * ey * ex + sz * (y * ex + sy * x)
    }

    /// The position of element `index` of the array if the elements of each block are contiguous.
    /// Also returns how many elements of its row are contiguous there, from this one on.
    #[inline(always)]
    pub fn place(&self, index: usize) -> (usize, usize) {
        let ([_, ey, ex], [_, side_y, side_x]) = (self.extents, self.sides);
        let (z, y, x) = (index / (ey * ex), index / ex % ey, index % ex);
        // Sides are powers of two.
        let origin = [z & !(self.sides[0] - 1), y & !(side_y - 1), x & !(side_x - 1)];
        let shape = [0, 1, 2].map(|k| self.sides[k].min(self.extents[k] - origin[k]));
        let block = Block { origin, shape };
        (self.elements_before(&block) + block.place([z, y, x]), block.end(2) - x)
    }

    /// Number of blocks.
    pub fn n_blocks(&self) -> usize {
        self.counts.iter().product()
    }

    /// Maximum number of elements of a block.
    pub fn block_elements(&self) -> usize {
        (0..3).map(|k| self.sides[k].min(self.extents[k])).product()
    }

    /// Elements from one row of the array to the next, and from one plane to the next.
    pub fn strides(&self) -> (usize, usize) {
        (self.extents[2], self.extents[1] * self.extents[2])
    }

    /// Block `index`.
    pub fn block(&self, index: usize) -> Block {
        let [_, n1, n2] = self.counts;
        let at = [index / n2 / n1, index / n2 % n1, index % n2];
        let origin = [0, 1, 2].map(|k| at[k] * self.sides[k]);
        let shape = [0, 1, 2].map(|k| self.sides[k].min(self.extents[k] - origin[k]));
        Block { origin, shape }
    }

    /// The blocks that have elements of a region.
    pub fn blocks_in(&self, region: &FoldedRegion) -> impl Iterator<Item = usize> {
        let [_, n1, n2] = self.counts;
        let along = |k: usize| region.last_three()[k].blocks(self.sides[k] as u64).map(|block| block as usize);
        along(0).flat_map(move |z| along(1).flat_map(move |y| along(2).map(move |x| (z * n1 + y) * n2 + x)))
    }

    /// Along each axis, the range from the first of these blocks to the end of the last.
    pub fn block_range(&self, region: &FoldedRegion) -> [Range<u64>; 3] {
        [0, 1, 2].map(|k| region.last_three()[k].block_range(self.sides[k] as u64))
    }

    /// How many blocks have each shape. Along an axis there are whole blocks and perhaps a clipped
    /// one, so there are at most eight shapes.
    pub fn kinds(&self) -> impl Iterator<Item = (usize, [usize; 3])> {
        let along = [0, 1, 2].map(|k| {
            let (n, side) = (self.extents[k], self.sides[k]);
            [(n / side, side), (usize::from(n % side > 0), n % side)]
        });
        (0..8).map(move |i| {
            let [z, y, x] = [along[0][i >> 2], along[1][i >> 1 & 1], along[2][i & 1]];
            (z.0 * y.0 * x.0, [z.1, y.1, x.1])
        })
    }

    /// Blocks of one strip: those with the same first two coordinates, or one block of an array
    /// with one axis.
    pub fn blocks_per_strip(&self) -> usize {
        if self.is_line() { 1 } else { self.counts[2] }
    }

    /// Number of strips.
    pub fn n_strips(&self) -> usize {
        self.n_blocks() / self.blocks_per_strip()
    }

    fn is_line(&self) -> bool {
        self.extents[..2] == [1, 1]
    }

    /// Elements of a strip from one block to the next.
    pub fn block_step(&self) -> usize {
        self.sides[2]
    }

    /// Number of elements of every band, with the number of its strip, in the order of the array. A
    /// strip is one contiguous band, or one for each plane if other strips have rows in these
    /// planes.
    pub fn bands(&self) -> impl Iterator<Item = (usize, usize)> {
        let ([n0, n1, n2], [s0, s1, s2]) = (self.extents, self.sides);
        let per_slab = self.n_strips() / self.counts[0];
        let band = move |strip: usize| match n1 {
            1 if n0 == 1 => (n2 - strip * s2).min(s2),
            _ => (n1 - strip * s1).min(s1) * n2,
        };
        // Planes of a band.
        let planes = if per_slab == 1 { s0 } else { 1 };
        (0..n0).step_by(planes).flat_map(move |z| {
            let planes = planes.min(n0 - z);
            (0..per_slab).map(move |strip| (planes * band(strip), z / s0 * per_slab + strip))
        })
    }

    /// Maximum number of bands of a strip.
    pub fn bands_per_strip(&self) -> usize {
        if self.band_plane().is_some() { 1 } else { self.sides[0] }
    }

    /// Elements from one plane of a strip's band to the next, if the band has several.
    pub fn band_plane(&self) -> Option<usize> {
        (self.n_strips() == self.counts[0]).then_some(self.extents[1] * self.extents[2])
    }
}

/// The block shape for an array: rows of `row`, and the rest shared evenly between rows and planes.
/// An axis that is shorter than its share leaves the remainder to the other axes.
fn sides([dz, dy, dx]: [usize; 3], size: usize, row: usize) -> [usize; 3] {
    let up_to = |n: usize, limit: usize| if n >= limit { limit } else { n.next_power_of_two() };
    if dz == 1 && dy == 1 {
        return [1, 1, size];
    }
    let rows = size / up_to(dx, row);
    let (bz, by) = if dz == 1 {
        (1, up_to(dy, rows))
    } else {
        let by = up_to(dy, 1 << rows.ilog2().div_ceil(2));
        let bz = up_to(dz, rows / by);
        (bz, up_to(dy, rows / bz))
    };
    [bz, by, up_to(dx, size / (by * bz))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fold::Fold;
    use crate::format::region::Region;

    fn blocks(extents: &[u64], b: u8, row: usize) -> Blocks {
        Blocks::new(&Shape::new(extents).unwrap(), 1 << b, row).unwrap()
    }

    #[test]
    fn shapes_follow_the_array() {
        for (extents, b, sides) in [
            (&[1 << 20][..], 12, [1, 1, 4096]),
            (&[7], 13, [1, 1, 8192]),
            (&[512, 512], 12, [1, 128, 32]),
            (&[50, 512], 12, [1, 64, 64]),
            (&[512, 512, 512], 12, [8, 16, 32]),
            (&[512, 512, 512], 13, [16, 16, 32]),
            (&[512, 512, 512], 14, [16, 32, 32]),
            (&[512, 512, 3], 12, [32, 32, 4]),
            (&[2, 2, 5000], 12, [2, 2, 1024]),
            (&[2, 1000, 1000], 12, [2, 64, 32]),
            (&[1000, 2, 1000], 12, [64, 2, 32]),
        ] {
            assert_eq!(blocks(extents, b, ROW).sides, sides, "{extents:?}");
        }
        for (extents, b, sides) in [
            (&[512, 512, 512][..], 18, [32, 64, 128]),
            (&[512, 512], 18, [1, 512, 512]),
            (&[4000, 4000], 18, [1, 2048, 128]),
            (&[1 << 20], 18, [1, 1, 1 << 18]),
            (&[512, 512, 512], 16, [16, 32, 128]),
            (&[4000, 4000], 16, [1, 512, 128]),
        ] {
            assert_eq!(blocks(extents, b, 128).sides, sides, "{extents:?}");
        }
    }

    #[test]
    fn blocks_and_bands_cover_the_array_once() {
        for extents in [&[1][..], &[9000], &[63, 200], &[33, 35, 37], &[3, 1, 5], &[5, 700, 2], &[130, 2, 3]] {
            let blocks = blocks(extents, 12, ROW);
            let (row, plane) = blocks.strides();
            let n_elements: u64 = extents.iter().product();
            let mut seen = vec![0; n_elements as usize];
            for index in 0..blocks.n_blocks() {
                let Block { origin: [oz, oy, ox], shape: [sz, sy, sx] } = blocks.block(index);
                for (z, y) in (oz..oz + sz).flat_map(|z| (oy..oy + sy).map(move |y| (z, y))) {
                    seen[z * plane + y * row + ox..][..sx].iter_mut().for_each(|n| *n += 1);
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{extents:?}");
            assert_eq!(blocks.bands().map(|(n, _)| n as u64).sum::<u64>(), n_elements, "{extents:?}");
            assert!(blocks.bands().all(|(_, strip)| strip < blocks.n_strips()));
        }
    }

    #[test]
    fn a_block_is_the_only_one_of_its_region() {
        for extents in [&[9000][..], &[63, 200], &[33, 35, 37], &[5, 700, 2], &[130, 2, 3]] {
            let blocks = blocks(extents, 12, ROW);
            let region = |block: Block| {
                let front = 3 - extents.len();
                let [start, count] = [block.origin, block.shape].map(|n| n.map(|n| n as u64));
                let region = Region::new(&Shape::new(extents).unwrap(), &start[front..], &count[front..]).unwrap();
                region.folded(Fold::Merge, 3)
            };
            let found = |block: Block| blocks.blocks_in(&region(block)).collect::<Vec<_>>();
            let all = Block { origin: [0; 3], shape: blocks.extents };
            assert_eq!(found(all), (0..blocks.n_blocks()).collect::<Vec<_>>());
            assert_eq!(blocks.block_range(&region(all)), blocks.counts.map(|n| 0..n as u64));
            for index in 0..blocks.n_blocks() {
                assert_eq!(found(blocks.block(index)), [index]);
            }
        }
    }
}
