//! huffman on a GPU: the kernels in `kernels/huffman`.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::codec::huffman::{Chunk, Huffman};
use crate::format::region::FoldedRegion;

/// Kernels by the base-2 logarithm of an element's bytes.
type OfBytes = [Names; 3];
/// The compression passes.
const CHOOSE: OfBytes = [names!("huffman_choose_u8"), names!("huffman_choose_u16"), names!("huffman_choose_u32")];
const WRITE: OfBytes = [names!("huffman_write_u8"), names!("huffman_write_u16"), names!("huffman_write_u32")];
const PLACE: OfBytes = [names!("huffman_place_u8"), names!("huffman_place_u16"), names!("huffman_place_u32")];
/// The decompression passes.
const DECOMPRESS: OfBytes =
    [names!("huffman_decompress_u8"), names!("huffman_decompress_u16"), names!("huffman_decompress_u32")];
const REGION: OfBytes = [names!("huffman_region_u8"), names!("huffman_region_u16"), names!("huffman_region_u32")];

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
        let n_blocks = chunk.layout.blocks.n_blocks() as u64;
        Answer::Run(match direction {
            Direction::Compress => one(chunks, &CHOOSE, n_blocks)
                .then([&WRITE, &PLACE].map(|names| one(chunks, names, n_blocks).first)),
            Direction::Decompress => one(chunks, &DECOMPRESS, n_blocks),
        })
    }

    /// Blocks have their own checksums.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let chunk: &Chunk = chunks.layout.get();
        let block_range = chunk.layout.blocks.block_range(region);
        Answer::Run(one(chunks, &REGION, block_range.iter().map(|along| along.end - along.start).product()))
    }
}

/// One pass over `n_tiles` blocks.
fn one(chunks: &Chunks, names: &OfBytes, n_tiles: u64) -> Passes {
    let &Chunk { layout, element, is_signed } = chunks.layout.get();
    // A single block may be shorter than the codec's block size; then its length is rounded up
    // to a power of two.
    let log2_block = layout.blocks.block_elements().next_power_of_two().ilog2();
    let args = Numbers {
        n: chunks.shape.n_elements(),
        // A layout has fewer than 2^32 blocks.
        n_blocks: layout.blocks.n_blocks() as u32,
        how: log2_block | u32::from(is_signed) << 8,
    };
    let kernel = Kernel::Always(names[element.bytes.ilog2() as usize]);
    Passes::one("huffman", kernel, [n_tiles, 0], &args, layout.table_bytes() as u64)
}
