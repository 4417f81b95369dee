//! huffman on a GPU: the kernels in `kernels/huffman`, which decompress.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::codec::huffman::{Chunk, Huffman};
use crate::format::region::FoldedRegion;

/// By the logarithm of an element's bytes.
const DECOMPRESS: [Names; 3] =
    [names!("huffman_decompress_u8"), names!("huffman_decompress_u16"), names!("huffman_decompress_u32")];
const REGION: [Names; 3] = [names!("huffman_region_u8"), names!("huffman_region_u16"), names!("huffman_region_u32")];

crate::kernel_struct! {
    /// The array (`Numbers` in `kernels/huffman/layout.cuh`).
    struct Numbers, size 16 {
        n: u64,
        n_blocks: u32,
        how: u32,
    }
}

impl GpuCodec for Huffman {
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        match direction {
            Direction::Compress => Answer::NotHere("huffman has no kernels that compress".into()),
            Direction::Decompress => run(chunks, &DECOMPRESS, chunk.layout.blocks.n_blocks() as u64),
        }
    }

    /// Blocks have checks of their own.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        run(chunks, &REGION, chunk.layout.blocks.touched(region).iter().map(|along| along.end - along.start).product())
    }
}

/// One pass over so many blocks.
fn run(chunks: &Chunks, names: &[Names; 3], n_tiles: u64) -> Answer {
    let &Chunk { layout, element, is_signed } = chunks.layout.get();
    // Of a single block, which may be shorter, any that is not too small.
    let log2_block = layout.blocks.block_elements().next_power_of_two().ilog2();
    let args = Numbers {
        n: chunks.shape.n_elements(),
        // A layout has fewer than 2^32.
        n_blocks: layout.blocks.n_blocks() as u32,
        how: log2_block | u32::from(is_signed) << 8,
    };
    let kernel = Kernel::Always(names[element.bytes.ilog2() as usize]);
    Answer::Run(Passes::one("huffman", kernel, [n_tiles, 0], &args, layout.table_bytes() as u64))
}
