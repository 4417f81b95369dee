//! lorenzo on a GPU: the kernels in `kernels/lorenzo`.

use crate::codec::gpu::{Direction, GpuCodec, Kernel, Names};
use crate::codec::lorenzo::Lorenzo;
use crate::codec::lorenzo::layout::LOG2_SIZES;
use crate::codec::lorenzo::params::{self, Mode};
use crate::codec::lorenzo::word::Element;
use crate::types::{Array, Shape};

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

impl GpuCodec for Lorenzo {
    /// Only `fast` compresses on a GPU.
    fn takes(&self, direction: Direction, params: &[u8]) -> bool {
        direction == Direction::Decompress || matches!(params, &[b] if Mode::of(b) == Mode::Fast)
    }

    fn kernel(&self, direction: Direction, array: &Array, shape: &Shape, params: &[u8]) -> Option<Kernel> {
        let element = Element::of(array.dtype())?;
        let (layout, b) = params::layout(shape, element, params)?;
        let of_word = usize::from(element.word_bits() == 64);
        let names = match direction {
            Direction::Compress => COMPRESS[of_word],
            Direction::Decompress => DECOMPRESS[of_word][usize::from(b - LOG2_SIZES.start())],
        };
        let mut extents = [1; 3];
        extents[3 - shape.extents().len()..].copy_from_slice(shape.extents());
        Some(Kernel {
            fatbin: "lorenzo",
            names,
            unaligned: None,
            row_bytes: extents[2] * u64::from(array.element_size()),
            table_bytes: layout.table_bytes() as u64,
            extents,
            n_blocks: layout.n_blocks() as u64,
            n_border: 0,
        })
    }
}
