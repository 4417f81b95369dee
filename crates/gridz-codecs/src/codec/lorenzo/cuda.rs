//! lorenzo on a GPU: the kernels in `kernels/lorenzo`.

use crate::codec::fold_choice::FoldChoice;
use crate::codec::gpu::{self, Answer, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::codec::lorenzo::layout::LOG2_SIZES;
use crate::codec::lorenzo::{Chunk, Lorenzo, Mode};
use crate::format::region::FoldedRegion;

/// Kernels by the bits of a word, 32 or 64, and by the base-2 logarithm of a block's elements. No
/// encoder writes blocks of the last size.
const COMPRESS: [[Names; 2]; 2] = [
    [names!("lorenzo_compress_u32_12"), names!("lorenzo_compress_u32_13")],
    [names!("lorenzo_compress_u64_12"), names!("lorenzo_compress_u64_13")],
];
const DECOMPRESS: [[Names; 3]; 2] = [
    [names!("lorenzo_decompress_u32_12"), names!("lorenzo_decompress_u32_13"), names!("lorenzo_decompress_u32_14")],
    [names!("lorenzo_decompress_u64_12"), names!("lorenzo_decompress_u64_13"), names!("lorenzo_decompress_u64_14")],
];

const REGION: [[Names; 3]; 2] = [
    [names!("lorenzo_region_u32_12"), names!("lorenzo_region_u32_13"), names!("lorenzo_region_u32_14")],
    [names!("lorenzo_region_u64_12"), names!("lorenzo_region_u64_13"), names!("lorenzo_region_u64_14")],
];

const CHOOSE: [Names; 2] = [names!("lorenzo_choose_u32"), names!("lorenzo_choose_u64")];

crate::kernel_struct! {
    /// The array, with leading extents of 1, and the base-2 logarithm of the parts of an element.
    struct Blocks, size 32 {
        extents: [u64; 3],
        n_blocks: u32,
        log2_parts: u32,
    }
}

impl GpuCodec for Lorenzo {
    fn passes(&self, direction: Direction, chunks: &gpu::Chunks) -> Answer {
        let &Chunk { layout, element, b, .. } = chunks.layout.get();
        if Mode::of(b) == Mode::Max {
            return not_at_max();
        }
        let (of_word, of_size) = (usize::from(element.word_bits() == 64), usize::from(b - LOG2_SIZES.start()));
        let names = match direction {
            Direction::Compress => match COMPRESS[of_word].get(of_size) {
                Some(&names) => names,
                None => {
                    return Answer::NotHere(
                        "lorenzo has no compression kernels for blocks of 2^14 elements".into(),
                    );
                }
            },
            Direction::Decompress => DECOMPRESS[of_word][of_size],
        };
        run(chunks, names, layout.n_blocks() as u64)
    }

    fn choose_fold(&self, choice: &FoldChoice, chunks: &gpu::Chunks) -> Option<Passes> {
        let &Chunk { element, .. } = chunks.layout.get();
        let names = CHOOSE[usize::from(element.word_bits() == 64)];
        Some(Passes::one("lorenzo", Kernel::Always(names), [1, 0], choice, 0))
    }

    /// Blocks have their own checksums.
    fn region(&self, chunks: &gpu::Chunks, region: &FoldedRegion, _compares: bool) -> Answer {
        let &Chunk { layout, element, b, .. } = chunks.layout.get();
        if Mode::of(b) == Mode::Max {
            return not_at_max();
        }
        let names = REGION[usize::from(element.word_bits() == 64)][usize::from(b - LOG2_SIZES.start())];
        let n_boxes: u64 = layout.blocks.block_range(region).iter().map(|along| along.end - along.start).product();
        run(chunks, names, n_boxes * layout.parts() as u64)
    }
}

/// Level 3 has CPU code only.
fn not_at_max() -> Answer {
    Answer::NotHere("lorenzo at level 3 has no kernels".into())
}

/// One pass over `n_tiles` blocks.
fn run(chunks: &gpu::Chunks, names: Names, n_tiles: u64) -> Answer {
    let &Chunk { layout, .. } = chunks.layout.get();
    let (mut extents, from) = ([1; 3], chunks.shape.extents());
    extents[3 - from.len()..].copy_from_slice(from);
    // A layout has fewer than 2^32 blocks.
    let n_blocks = layout.n_blocks() as u32;
    let args = Blocks { extents, n_blocks, log2_parts: layout.parts().ilog2() };
    let (kernel, table_bytes) = (Kernel::Always(names), layout.table_bytes() as u64);
    Answer::Run(Passes::one("lorenzo", kernel, [n_tiles, 0], &args, table_bytes))
}
