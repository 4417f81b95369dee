//! lorenzo on a GPU: the kernels in `kernels/lorenzo`.

use crate::codec::gpu::{self, Answer, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::codec::lorenzo::layout::LOG2_SIZES;
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::{Chunk, Lorenzo};

/// By the bits of a word: 32 or 64.
const COMPRESS: [Names; 2] = [names!("lorenzo_compress_u32"), names!("lorenzo_compress_u64")];
/// And by the logarithm of a block's elements.
const DECOMPRESS: [[Names; 3]; 2] = [
    [names!("lorenzo_decompress_u32_12"), names!("lorenzo_decompress_u32_13"), names!("lorenzo_decompress_u32_14")],
    [names!("lorenzo_decompress_u64_12"), names!("lorenzo_decompress_u64_13"), names!("lorenzo_decompress_u64_14")],
];

crate::kernel_struct! {
    /// The array, with leading ones.
    struct Blocks, size 32 {
        extents: [u64; 3],
        n_blocks: u32,
        reserved: u32,
    }
}

impl GpuCodec for Lorenzo {
    /// Only `fast` compresses on a GPU.
    fn passes(&self, direction: Direction, chunks: &gpu::Chunks) -> Answer {
        let &Chunk { layout, element, b } = chunks.layout.get();
        let of_word = usize::from(element.word_bits() == 64);
        let names = match direction {
            Direction::Compress if Mode::of(b) == Mode::Dense => {
                return Answer::NotHere("lorenzo at level 2 has no kernels that compress".into());
            }
            Direction::Compress => COMPRESS[of_word],
            Direction::Decompress => DECOMPRESS[of_word][usize::from(b - LOG2_SIZES.start())],
        };
        let (mut extents, from) = ([1; 3], chunks.shape.extents());
        extents[3 - from.len()..].copy_from_slice(from);
        let n_blocks = layout.blocks.n_blocks() as u64;
        // Where there are more, no launch is large enough.
        let args = Blocks { extents, n_blocks: u32::try_from(n_blocks).unwrap_or(u32::MAX), reserved: 0 };
        let (kernel, table_bytes) = (Kernel::Always(names), layout.table_bytes() as u64);
        Answer::Run(Passes::one("lorenzo", kernel, [n_blocks, 0], &args, table_bytes))
    }
}
