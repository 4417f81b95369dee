//! ndzip on a GPU: the kernels in `kernels/ndzip`.

use crate::codec::gpu::{Answer, Chunks, Direction, GpuCodec, Kernel, Names, Passes, names};
use crate::codec::ndzip::Ndzip;
use crate::codec::ndzip::layout::Layout;
use crate::format::region::FoldedRegion;
use crate::types::{DType, Shape};

/// Kernels by type and rank.
const COMPRESS: [[Names; 3]; 2] = [
    [names!("ndzip_compress_f32_1d"), names!("ndzip_compress_f32_2d"), names!("ndzip_compress_f32_3d")],
    [names!("ndzip_compress_f64_1d"), names!("ndzip_compress_f64_2d"), names!("ndzip_compress_f64_3d")],
];
const DECOMPRESS: [[Names; 3]; 2] = [
    [names!("ndzip_decompress_f32_1d"), names!("ndzip_decompress_f32_2d"), names!("ndzip_decompress_f32_3d")],
    [names!("ndzip_decompress_f64_1d"), names!("ndzip_decompress_f64_2d"), names!("ndzip_decompress_f64_3d")],
];
const REGION: [[Names; 3]; 2] = [
    [names!("ndzip_region_f32_1d"), names!("ndzip_region_f32_2d"), names!("ndzip_region_f32_3d")],
    [names!("ndzip_region_f64_1d"), names!("ndzip_region_f64_2d"), names!("ndzip_region_f64_3d")],
];
const DECOMPRESS_F32_3D_UNALIGNED: Names = names!("ndzip_decompress_f32_3d_unaligned");

crate::kernel_struct! {
    /// The array, with leading extents of 1.
    struct Blocks, size 32 {
        extents: [u64; 3],
        n_blocks: u32,
        n_border: u32,
    }
}

/// Border elements that count as one block.
const BORDER_BLOCK: u64 = 4096;

/// Bytes of a payload that a tile of the region kernel hashes.
const SUMMED_BYTES: u64 = 32 << 10;

impl Blocks {
    fn of(layout: &Layout, shape: &Shape) -> Self {
        let mut extents = [1; 3];
        extents[3 - shape.extents().len()..].copy_from_slice(shape.extents());
        // Both fit: an array with a layout has fewer than 2^32 elements.
        Self { extents, n_blocks: layout.n_blocks() as u32, n_border: layout.n_border() as u32 }
    }
}

impl GpuCodec for Ndzip {
    /// Tiles are the blocks that the region touches, then the region's elements in the border, then
    /// parts of the payload. The payload has the only checksum.
    fn region(&self, chunks: &Chunks, region: &FoldedRegion, compares: bool) -> Answer {
        let &Chunks { array, shape, layout } = chunks;
        let layout: &Layout = layout.get();
        let names = REGION[usize::from(array.dtype() == DType::F64)][layout.rank() - 1];
        let (blocks, n_border) = layout.block_range(region);
        let n_blocks: u64 = blocks.iter().map(|along| along.end - along.start).product();
        let n_summed = if compares { layout.payload_bound().div_ceil(SUMMED_BYTES) } else { 0 };
        let units = [n_blocks, n_border.div_ceil(BORDER_BLOCK) + n_summed];
        let args = Blocks::of(layout, shape);
        Answer::Run(Passes::one("ndzip", Kernel::Always(names), units, &args, layout.table_bytes() as u64))
    }

    /// Compression needs a complete block: without any, the stream is the array and would only be stored.
    fn passes(&self, direction: Direction, chunks: &Chunks) -> Answer {
        let &Chunks { array, shape, layout } = chunks;
        let layout: &Layout = layout.get();
        let by_type = match direction {
            Direction::Compress if layout.n_blocks() == 0 => return Answer::Incompressible,
            Direction::Compress => &COMPRESS,
            Direction::Decompress => &DECOMPRESS,
        };
        let names = by_type[usize::from(array.dtype() == DType::F64)][layout.rank() - 1];
        let args = Blocks::of(layout, shape);
        let kernel = match names == DECOMPRESS[0][2] {
            true => Kernel::ByRows {
                row_bytes: args.extents[2] * u64::from(array.element_size()),
                aligned: names,
                unaligned: DECOMPRESS_F32_3D_UNALIGNED,
            },
            false => Kernel::Always(names),
        };
        let units = [u64::from(args.n_blocks), u64::from(args.n_border).div_ceil(BORDER_BLOCK)];
        Answer::Run(Passes::one("ndzip", kernel, units, &args, layout.table_bytes() as u64))
    }
}
