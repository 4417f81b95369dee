//! Positions of blocks in the array, of groups and sections of blocks, and of the parts of a
//! payload.
//!
//! ```text
//! stream | ends of sections | lengths of groups | ends of exceptions | exceptions | tail
//! ```

use std::ops::Range;

use crate::codec::zfp::block::GROUP;
use crate::format::region::{AXES, FoldedRegion};
use crate::types::Shape;

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = AXES;
/// Elements of a whole block along an axis.
pub const SIDE: usize = 4;
/// Extents of a whole block of every rank.
const WHOLE: [[u8; MAX_RANK]; MAX_RANK + 1] = [[1; 4], [1, 1, 1, 4], [1, 1, 4, 4], [1, 4, 4, 4], [4; 4]];
/// Elements of the blocks of a section.
pub const SECTION_ELEMENTS: usize = GROUP * GROUPS_PER_SECTION;
/// Groups of a section.
pub const GROUPS_PER_SECTION: usize = 32;
/// Maximum number of bits of a section, given that the lengths of its groups are u16.
pub const MOST_SECTION_BITS: u64 = GROUPS_PER_SECTION as u64 * u16::MAX as u64;
/// Bytes of the tail.
pub const TAIL_BYTES: usize = 24;
/// All parts of a payload begin at multiples of this, in bytes.
pub const UNIT: usize = 8;

/// Elements of a block with `rank` axes.
pub const fn block_elements(rank: usize) -> usize {
    SIDE.pow(rank as u32)
}

/// A block in the array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// Index of its first element in the array.
    pub start: usize,
    /// Its elements along the axes, 1 to 4.
    pub shape: [u8; MAX_RANK],
}

/// Maximum number of blocks of a group.
pub const MOST_BLOCKS: usize = GROUP / SIDE;

impl Block {
    /// Elements of a row.
    #[inline(always)]
    pub fn row(&self) -> usize {
        usize::from(self.shape[MAX_RANK - 1])
    }

    /// True if an element of the array, not padding, is at this index of the padded block.
    #[inline(always)]
    pub fn has(&self, index: usize) -> bool {
        let [w, z, y, x] = self.shape.map(usize::from);
        index % SIDE < x && index / SIDE % SIDE < y && index / SIDE.pow(2) % SIDE < z && index / SIDE.pow(3) < w
    }
}

/// The blocks of one array, with extents padded to the largest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Rank of the blocks.
    rank: usize,
    /// Extents, padded with leading ones.
    extents: [usize; MAX_RANK],
    /// Blocks along each axis.
    counts: [usize; MAX_RANK],
}

impl Layout {
    /// The layout of an array of rank 1 to 4. Returns `None` for other ranks, for an empty array,
    /// or for 2^32 blocks or more.
    pub fn new(shape: &Shape) -> Option<Self> {
        let rank = shape.extents().len();
        if shape.n_elements() == 0 || rank == 0 {
            return None;
        }
        let mut extents = [1; MAX_RANK];
        for (extent, &n) in extents[MAX_RANK.checked_sub(rank)?..].iter_mut().zip(shape.extents()) {
            *extent = usize::try_from(n).ok()?;
        }
        let counts = extents.map(|extent| extent.div_ceil(SIDE));
        let layout = Self { rank, extents, counts };
        u32::try_from(layout.n_blocks()).ok()?;
        Some(layout)
    }

    /// Rank of the blocks.
    #[inline(always)]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Elements of a block, including padding.
    #[inline(always)]
    pub fn block_elements(&self) -> usize {
        block_elements(self.rank)
    }

    #[inline(never)] // a long loop, in many places
    pub fn n_blocks(&self) -> usize {
        self.counts.iter().product()
    }

    /// Blocks of a group.
    #[inline(always)]
    pub fn per_group(&self) -> usize {
        GROUP >> (2 * self.rank)
    }

    /// Blocks of a section.
    #[inline(always)]
    pub fn per_section(&self) -> usize {
        SECTION_ELEMENTS >> (2 * self.rank)
    }

    pub fn n_groups(&self) -> usize {
        self.n_blocks().div_ceil(self.per_group())
    }

    pub fn n_sections(&self) -> usize {
        self.n_blocks().div_ceil(self.per_section())
    }

    /// The blocks of a group.
    pub fn group(&self, group: usize) -> Range<usize> {
        let start = group * self.per_group();
        start..(start + self.per_group()).min(self.n_blocks())
    }

    /// The blocks of a section.
    pub fn section(&self, section: usize) -> Range<usize> {
        let start = section * self.per_section();
        start..(start + self.per_section()).min(self.n_blocks())
    }

    /// The groups of a section.
    pub fn groups_of(&self, section: usize) -> Range<usize> {
        let start = section * GROUPS_PER_SECTION;
        start..(start + GROUPS_PER_SECTION).min(self.n_groups())
    }

    /// Strides of the array, in elements.
    #[inline(always)]
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let [_, nz, ny, nx] = self.extents;
        [nz * ny * nx, ny * nx, nx, 1]
    }

    /// Extents of a whole block.
    #[inline(always)]
    pub fn sides(&self) -> [usize; MAX_RANK] {
        WHOLE[self.rank].map(usize::from)
    }

    /// A whole block, at the start of the array.
    pub fn whole_block(&self) -> Block {
        Block { start: 0, shape: WHOLE[self.rank] }
    }

    /// True if the array's end does not clip the block.
    #[inline(always)]
    pub fn is_whole(&self, block: &Block) -> bool {
        block.shape == WHOLE[self.rank]
    }

    /// Position in the array of the first element of block number `index`.
    pub fn origin(&self, index: usize) -> [usize; MAX_RANK] {
        self.coordinates(index).map(|at| at * SIDE)
    }

    fn coordinates(&self, index: usize) -> [usize; MAX_RANK] {
        let [_, nz, ny, nx] = self.counts;
        [index / nx / ny / nz, index / nx / ny % nz, index / nx % ny, index % nx]
    }

    #[inline(always)]
    fn block_at(&self, at: [usize; MAX_RANK]) -> Block {
        let (origin, strides) = (at.map(|at| at * SIDE), self.strides());
        let start = (0..MAX_RANK).map(|axis| origin[axis] * strides[axis]).sum();
        Block { start, shape: std::array::from_fn(|axis| SIDE.min(self.extents[axis] - origin[axis]) as u8) }
    }

    /// Writes the blocks of a group to the start of `to`.
    pub fn blocks_of<'b>(&self, group: usize, to: &'b mut [Block; MOST_BLOCKS]) -> &'b [Block] {
        next(&mut self.blocks(self.group(group)), to)
    }

    /// Consecutive blocks.
    #[inline(always)]
    pub fn blocks(&self, range: Range<usize>) -> impl Iterator<Item = Block> {
        let mut at = self.coordinates(range.start);
        range.map(move |_| {
            let block = self.block_at(at);
            for axis in (0..MAX_RANK).rev() {
                at[axis] += 1;
                if at[axis] < self.counts[axis] {
                    break;
                }
                at[axis] = 0;
            }
            block
        })
    }

    /// The blocks that contain elements of a region, in order.
    pub fn blocks_in(&self, region: &FoldedRegion) -> impl Iterator<Item = usize> {
        let [_, nz, ny, nx] = self.counts;
        let along = |axis: usize| region.axes[axis].blocks(SIDE as u64).map(|block| block as usize);
        along(0).flat_map(move |w| {
            along(1).flat_map(move |z| {
                along(2).flat_map(move |y| along(3).map(move |x| ((w * nz + z) * ny + y) * nx + x))
            })
        })
    }

    /// Positions of the parts of a payload whose stream has `n_bits` bits, and whose exceptions
    /// have `n_units` units of 4 bytes.
    pub fn parts(&self, is_fixed: bool, n_bits: u64, n_units: u32) -> Parts {
        let stream = n_bits.div_ceil(64) * 8;
        let index = |n: usize, n_bytes: u64| (n as u64 * n_bytes).next_multiple_of(UNIT as u64);
        let (n_sections, n_groups) = if is_fixed { (0, 0) } else { (self.n_sections(), self.n_groups()) };
        let groups = stream + index(n_sections, 8);
        let exception_ends = groups + index(n_groups, 2);
        let n_ends = if n_units == 0 { 0 } else { self.n_sections() };
        let exceptions = exception_ends + index(n_ends, 4);
        let tail = exceptions + index(1, 4 * u64::from(n_units));
        Parts { stream, groups, exception_ends, exceptions, tail }
    }
}

/// Writes the next blocks to the start of `to`, as many as are left and fit.
#[inline(always)]
pub fn next<'b>(blocks: &mut impl Iterator<Item = Block>, to: &'b mut [Block]) -> &'b [Block] {
    let mut n = 0;
    for (to, block) in to.iter_mut().zip(blocks) {
        *to = block;
        n += 1;
    }
    &to[..n]
}

/// Offsets at which the parts of a payload begin. Each part ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// End of the stream, where the ends of sections begin.
    pub stream: u64,
    /// The lengths of groups.
    pub groups: u64,
    /// The ends of exceptions.
    pub exception_ends: u64,
    /// The exceptions.
    pub exceptions: u64,
    /// The tail.
    pub tail: u64,
}

impl Parts {
    /// Bytes of the payload.
    pub fn n_bytes(&self) -> u64 {
        self.tail + TAIL_BYTES as u64
    }
}

/// The last bytes of a payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Bits of the stream.
    pub n_bits: u64,
    /// The bound in force; 0 without one.
    pub bound: f64,
    /// Number of elements that are exceptions, saturated to 32 bits.
    pub n_exceptions: u32,
    /// Units of 4 bytes of the exceptions.
    pub n_units: u32,
}

impl Tail {
    /// Encodes the tail.
    pub fn to_bytes(self) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        bytes[..8].copy_from_slice(&self.n_bits.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bound.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.n_exceptions.to_le_bytes());
        bytes[20..].copy_from_slice(&self.n_units.to_le_bytes());
        bytes
    }

    /// Decodes the tail of a payload, if it is long enough.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let (words, _) = payload.last_chunk::<TAIL_BYTES>()?.as_chunks();
        let (n_exceptions, n_units) = words[2].split_at(4);
        let low = |half: &[u8]| half.first_chunk().map(|&bytes| u32::from_le_bytes(bytes));
        Some(Self {
            n_bits: u64::from_le_bytes(words[0]),
            bound: f64::from_le_bytes(words[1]),
            n_exceptions: low(n_exceptions)?,
            n_units: low(n_units)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(extents: &[u64]) -> Layout {
        Layout::new(&Shape::new(extents).unwrap()).unwrap()
    }

    #[test]
    fn blocks_cover_the_array_once() {
        for extents in [&[1][..], &[4099], &[17, 33], &[5, 6, 7], &[3, 1, 9, 5], &[9, 8, 2, 1]] {
            let layout = layout(extents);
            let strides = layout.strides();
            let mut seen = vec![0; extents.iter().product::<u64>() as usize];
            for (index, block) in layout.blocks(0..layout.n_blocks()).enumerate() {
                let origin = layout.origin(index);
                assert_eq!(block.start, (0..4).map(|k| origin[k] * strides[k]).sum::<usize>());
                let [w, z, y, x] = block.shape.map(usize::from);
                for i in 0..w * z * y * x {
                    let at = [i / x / y / z, i / x / y % z, i / x % y, i % x];
                    seen[block.start + (0..4).map(|k| at[k] * strides[k]).sum::<usize>()] += 1;
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{extents:?}");
            let middle = layout.n_blocks() / 2;
            assert_eq!(layout.blocks(middle..middle + 1).next(), layout.blocks(0..middle + 1).last());
            let mut blocks = [Block::default(); MOST_BLOCKS];
            assert!(layout.blocks_of(0, &mut blocks).iter().copied().eq(layout.blocks(layout.group(0))));
        }
    }

    #[test]
    fn groups_and_sections_have_as_many_elements_in_every_rank() {
        for (extents, n_blocks, n_groups, n_sections) in [
            (&[1 << 20][..], 1 << 18, 1 << 12, 1 << 7),
            (&[1 << 10, 1 << 10], 1 << 16, 1 << 12, 1 << 7),
            (&[64, 128, 128], 1 << 14, 1 << 12, 1 << 7),
            (&[32, 32, 32, 32], 1 << 12, 1 << 12, 1 << 7),
            (&[9], 3, 1, 1),
            (&[1 << 34], 0, 0, 0),
        ] {
            match Layout::new(&Shape::new(extents).unwrap()) {
                Some(layout) => {
                    let (blocks, groups) = (layout.n_blocks(), layout.n_groups());
                    assert_eq!((blocks, groups, layout.n_sections()), (n_blocks, n_groups, n_sections));
                    assert_eq!(layout.group(groups - 1).end, blocks);
                    assert_eq!(layout.section(n_sections - 1).end, blocks);
                    assert_eq!(layout.groups_of(n_sections - 1).end, groups);
                }
                None => assert_eq!(n_blocks, 0),
            }
        }
    }

    #[test]
    fn tails_come_back() {
        let tail = Tail { n_bits: 12345, bound: 0.5, n_exceptions: 7, n_units: 9 };
        assert_eq!(Tail::of(&[&[1, 2, 3][..], &tail.to_bytes()].concat()), Some(tail));
        assert_eq!(Tail::of(&[0; 23]), None);
    }
}
