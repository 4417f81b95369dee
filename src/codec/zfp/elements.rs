//! The elements of a block: from their places in the array, and the padding of what the array's end cuts off.

use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::layout::{Block, Layout, MAX_RANK, SIDE};

/// The rows of a block: where each begins in the array, and in the block.
#[inline(always)]
pub fn rows(layout: &Layout, block: &Block) -> impl Iterator<Item = (usize, usize)> {
    let (strides, start) = (layout.strides(), block.start);
    let [nw, nz, ny, _] = block.shape.map(usize::from);
    (0..nw).flat_map(move |w| {
        (0..nz).flat_map(move |z| {
            (0..ny).map(move |y| {
                let from = start + w * strides[0] + z * strides[1] + y * strides[2];
                (from, ((w * SIDE + z) * SIDE + y) * SIDE)
            })
        })
    })
}

/// Elements of the blocks of a group, where they all follow each other in the array as they do in their blocks.
#[inline(always)]
pub fn in_line(layout: &Layout, blocks: &[Block]) -> Option<usize> {
    (layout.rank() == 1).then(|| blocks.iter().map(|block| usize::from(block.shape[MAX_RANK - 1])).sum())
}

/// Brings the elements of the blocks of a group from the array, with padding.
#[inline(always)]
pub fn load<T: Scalar>(src: &[u8], layout: &Layout, blocks: &[Block], elements: &mut [T]) {
    let read = |from: usize, elements: &mut [T]| {
        for (element, bytes) in elements.iter_mut().zip(src[from * T::BYTES..].chunks_exact(T::BYTES)) {
            *element = T::read(bytes);
        }
    };
    let n = layout.block_elements();
    if let (Some(n_in_line), [.., last]) = (in_line(layout, blocks), blocks) {
        read(blocks[0].start, &mut elements[..n_in_line]);
        pad(layout, last, &mut elements[(blocks.len() - 1) * n..]);
        return;
    }
    for (block, elements) in blocks.iter().zip(elements.chunks_exact_mut(n)) {
        let nx = usize::from(block.shape[MAX_RANK - 1]);
        rows(layout, block).for_each(|(from, to)| read(from, &mut elements[to..to + nx]));
        pad(layout, block, elements);
    }
}

/// Fills up what is missing along each axis, x first: element 1 with element 0, 2 with 1, and 3 with 0.
pub fn pad<T: Scalar>(layout: &Layout, block: &Block, elements: &mut [T]) {
    const FROM: [usize; SIDE] = [0, 0, 1, 0];
    if block.shape.map(usize::from) == layout.sides() {
        return;
    }
    let n = layout.block_elements();
    for axis in (MAX_RANK - layout.rank()..MAX_RANK).rev() {
        let stride = SIDE.pow((MAX_RANK - 1 - axis) as u32);
        // A line begins in the array as far as axes are concerned that are not padded yet.
        let mut begins = *block;
        begins.shape[axis..].fill(SIDE as u8);
        for start in (0..n).filter(|index| (index / stride).is_multiple_of(SIDE) && begins.has(*index)) {
            for place in usize::from(block.shape[axis])..SIDE {
                elements[start + place * stride] = elements[start + FROM[place] * stride];
            }
        }
    }
}

/// Writes elements to their bytes, one behind the other.
#[inline(always)]
pub fn store<T: Scalar>(elements: &[T], bytes: &mut [u8]) {
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
            let mut elements = [0i32; 256];
            let mut blocks = [Block::default(); 64];
            let blocks = layout.blocks_of(layout.n_groups() - 1, &mut blocks);
            load(&src, &layout, blocks, &mut elements[..blocks.len() * n]);
            elements[(blocks.len() - 1) * n..blocks.len() * n].to_vec()
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
