//! The elements of blocks: their positions in the array, and the padding of blocks that the array's
//! end cuts off.

use crate::codec::zfp::block::{GROUP, Scalar, prefetch};
use crate::codec::zfp::layout::{Block, Layout, MAX_RANK, SIDE};

/// An operation on elements that are contiguous both in the array and in a group.
pub trait Transfer {
    /// Processes `n` elements, from `at` on in the array and from `place` on in the group. Elements
    /// `ahead` after these will be needed soon, unless `ahead` is 0.
    fn transfer(&mut self, at: usize, place: usize, n: usize, ahead: usize);
}

/// Positions of the elements of an array's blocks.
pub struct BlockPositions<'a> {
    layout: &'a Layout,
    /// Offsets of the rows of a whole block from its first element.
    rows: [usize; GROUP / SIDE],
}

impl<'a> BlockPositions<'a> {
    /// The positions for an array with this layout.
    pub fn new(layout: &'a Layout) -> Self {
        let whole = layout.whole_block();
        let mut rows = [0; GROUP / SIDE];
        rows_of(layout, &whole).for_each(|(at, place)| rows[place / SIDE] = at);
        Self { layout, rows }
    }

    /// Applies an operation to all elements of the blocks of a group.
    #[inline(always)]
    pub fn each(&self, blocks: &[Block], mut with: impl Transfer) {
        if let (1, Some(first)) = (self.layout.rank(), blocks.first()) {
            // In one dimension, all elements are contiguous.
            with.transfer(first.start, 0, blocks.iter().map(Block::row).sum(), 0);
            return;
        }
        // The distance at which the next blocks use the same rows. There are more rows than a CPU's
        // prefetcher tracks.
        let (n, ahead) = (self.layout.block_elements(), SIDE * self.layout.per_group());
        for (block, first) in blocks.iter().zip((0..).step_by(n)) {
            if self.layout.is_whole(block) {
                for (row, place) in self.rows.iter().zip((first..first + n).step_by(SIDE)) {
                    with.transfer(block.start + row, place, SIDE, ahead);
                }
            } else {
                rows_of(self.layout, block)
                    .for_each(|(at, place)| with.transfer(at, first + place, block.row(), 0));
            }
        }
    }

    /// Loads the elements of the blocks of a group from the array, with padding.
    #[inline(always)]
    pub fn load<T: Scalar>(&self, array: &[u8], blocks: &[Block], elements: &mut [T]) {
        self.each(blocks, Load { array, elements });
        for (block, elements) in blocks.iter().zip(elements.chunks_exact_mut(self.layout.block_elements())) {
            pad(self.layout, block, elements);
        }
    }
}

/// Loads elements from the array.
struct Load<'a, T> {
    array: &'a [u8],
    elements: &'a mut [T],
}

impl<T: Scalar> Transfer for Load<'_, T> {
    #[inline(always)]
    fn transfer(&mut self, at: usize, place: usize, n: usize, ahead: usize) {
        let (bytes, elements) = (&self.array[at * T::BYTES..][..n * T::BYTES], &mut self.elements[place..][..n]);
        if n == SIDE {
            prefetch(bytes, ahead * T::BYTES);
            // Read all before writing any, so that this is one load and one store.
            let row: [T; SIDE] = std::array::from_fn(|i| T::read(&bytes[i * T::BYTES..]));
            elements.copy_from_slice(&row);
            return;
        }
        for (element, bytes) in elements.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
            *element = T::read(bytes);
        }
    }
}

/// The rows of a block: the start of each in the array, and in the block.
fn rows_of(layout: &Layout, block: &Block) -> impl Iterator<Item = (usize, usize)> {
    let (strides, start) = (layout.strides(), block.start);
    let [nw, nz, ny, _] = block.shape.map(usize::from);
    (0..nw).flat_map(move |w| {
        (0..nz).flat_map(move |z| {
            (0..ny).map(move |y| {
                let at = start + w * strides[0] + z * strides[1] + y * strides[2];
                (at, ((w * SIDE + z) * SIDE + y) * SIDE)
            })
        })
    })
}

/// Pads a clipped block along each axis, x first: element 1 with element 0, 2 with 1, and 3 with 0.
#[inline(always)]
pub fn pad<T: Scalar>(layout: &Layout, block: &Block, elements: &mut [T]) {
    if !layout.is_whole(block) {
        pad_cut(layout, block, elements);
    }
}

fn pad_cut<T: Scalar>(layout: &Layout, block: &Block, elements: &mut [T]) {
    const FROM: [usize; SIDE] = [0, 0, 1, 0];
    let n = layout.block_elements();
    for axis in (MAX_RANK - layout.rank()..MAX_RANK).rev() {
        let stride = SIDE.pow((MAX_RANK - 1 - axis) as u32);
        // Along the axes that are not padded yet, a line must begin within the array.
        let mut begins = *block;
        begins.shape[axis..].fill(SIDE as u8);
        for start in (0..n).filter(|index| (index / stride).is_multiple_of(SIDE) && begins.has(*index)) {
            for place in usize::from(block.shape[axis])..SIDE {
                elements[start + place * stride] = elements[start + FROM[place] * stride];
            }
        }
    }
}

/// Writes elements to consecutive bytes.
#[inline(always)]
pub fn store<T: Scalar>(elements: &[T], bytes: &mut [u8]) {
    if let Ok(row) = <[T; SIDE]>::try_from(elements) {
        // Read all before writing any, so that this is one load and one store.
        (0..SIDE).for_each(|i| row[i].write(&mut bytes[i * T::BYTES..]));
        return;
    }
    for (element, bytes) in elements.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
        element.write(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Shape;

    #[test]
    fn what_is_missing_is_filled_up() {
        let padded = |extents: &[u64], n: usize| {
            let layout = Layout::new(&Shape::new(extents).unwrap()).unwrap();
            let src: Vec<u8> = (1..=extents.iter().product::<u64>() as u32).flat_map(u32::to_le_bytes).collect();
            let mut elements = [0f32; 256];
            let mut blocks = [Block::default(); 64];
            let blocks = layout.blocks_of(layout.n_groups() - 1, &mut blocks);
            BlockPositions::new(&layout).load(&src, blocks, &mut elements[..blocks.len() * n]);
            elements[(blocks.len() - 1) * n..blocks.len() * n]
                .iter()
                .map(|element| element.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(padded(&[1], 4), [1, 1, 1, 1]);
        assert_eq!(padded(&[6], 4), [5, 6, 6, 5]);
        assert_eq!(padded(&[3], 4), [1, 2, 3, 1]);
        assert_eq!(padded(&[4], 4), [1, 2, 3, 4]);
        assert_eq!(padded(&[2, 3], 16), [1, 2, 3, 1, 4, 5, 6, 4, 4, 5, 6, 4, 1, 2, 3, 1]);
        let deep = padded(&[2, 3, 2, 1], 256);
        for (i, element) in deep.into_iter().enumerate() {
            let [w, z, y] = [[0, 1, 1, 0][i / 64], [0, 1, 2, 0][i / 16 % 4], [0, 1, 1, 0][i / 4 % 4]];
            assert_eq!(element as usize, 1 + (w * 3 + z) * 2 + y, "{i}");
        }
    }
}
