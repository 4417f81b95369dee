//! ndzip on a GPU: the kernels in `kernels/ndzip`.

use crate::codec::gpu::{Direction, GpuCodec, Kernel, Names};
use crate::codec::ndzip::{Ndzip, layout_of};
use crate::types::{Array, DType, Shape};

macro_rules! names {
    ($name:literal) => {
        (concat!("ndzip_", $name), concat!("ndzip_", $name, "_info"))
    };
}

/// By type and rank.
const COMPRESS: [[Names; 3]; 2] = [
    [names!("compress_f32_1d"), names!("compress_f32_2d"), names!("compress_f32_3d")],
    [names!("compress_f64_1d"), names!("compress_f64_2d"), names!("compress_f64_3d")],
];
const DECOMPRESS: [[Names; 3]; 2] = [
    [names!("decompress_f32_1d"), names!("decompress_f32_2d"), names!("decompress_f32_3d")],
    [names!("decompress_f64_1d"), names!("decompress_f64_2d"), names!("decompress_f64_3d")],
];
const DECOMPRESS_F32_3D_UNALIGNED: Names = names!("decompress_f32_3d_unaligned");

impl GpuCodec for Ndzip {
    /// Compression needs a complete block: without any, the stream is the array and would only be stored.
    fn kernel(&self, direction: Direction, array: &Array, shape: &Shape, params: &[u8]) -> Option<Kernel> {
        let layout = layout_of(array.dtype(), shape, params).ok()?;
        let by_type = match direction {
            Direction::Compress if layout.n_blocks() == 0 => return None,
            Direction::Compress => &COMPRESS,
            Direction::Decompress => &DECOMPRESS,
        };
        let names = by_type[usize::from(array.dtype() == DType::F64)][layout.rank() - 1];
        let unaligned = (names == DECOMPRESS[0][2]).then_some(DECOMPRESS_F32_3D_UNALIGNED);
        let mut extents = [1; 3];
        extents[3 - shape.extents().len()..].copy_from_slice(shape.extents());
        let (n_blocks, n_border) = (layout.n_blocks() as u64, layout.n_border() as u64);
        let row_bytes = extents[2] * u64::from(array.element_size());
        let table_bytes = layout.table_bytes() as u64;
        Some(Kernel { fatbin: "ndzip", names, unaligned, row_bytes, table_bytes, extents, n_blocks, n_border })
    }
}
