//! lorenzo on a GPU: the kernels in `kernels/lorenzo`.

use crate::codec::gpu::{self, Answer, Args, Direction, GpuCodec, Kernel, Names, Pass, Passes, Scratch};
use crate::codec::lorenzo::layout::LOG2_SIZES;
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::{Chunk, Lorenzo};

macro_rules! names {
    ($name:literal) => {
        (concat!("lorenzo_", $name), concat!("lorenzo_", $name, "_info"))
    };
}

/// By the bits of a word: 32 or 64.
const COMPRESS: [Names; 2] = [names!("compress_u32"), names!("compress_u64")];
/// And by the logarithm of a block's elements.
const DECOMPRESS: [[Names; 3]; 2] = [
    [names!("decompress_u32_12"), names!("decompress_u32_13"), names!("decompress_u32_14")],
    [names!("decompress_u64_12"), names!("decompress_u64_13"), names!("decompress_u64_14")],
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
        let (kernel, args) = (Kernel::Always(names), Args::new(&args));
        let first = Pass { kernel, units: [n_blocks, 0], args, scratch: Scratch::Zeroed };
        Answer::Run(Passes { fatbin: "lorenzo", table_bytes: layout.table_bytes() as u64, first, then: Vec::new() })
    }
}
