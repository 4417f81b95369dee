//! ndzip on a GPU: the launches of the kernels in `kernels/ndzip`.

use crate::codec::Job;
use crate::codec::gpu::GpuCodec;
use crate::codec::ndzip::layout::{BLOCK, Layout};
use crate::codec::ndzip::{Ndzip, layout_of};
use crate::cuda::{DeviceSlice, Fatbin, Grid, KernelStruct, Module, Stream};
use crate::error::{Error, Result};
use crate::types::DType;

crate::kernel_struct! {
    /// `NdzipCompressArgs` in `kernels/common/types.cuh`.
    struct CompressArgs, size 80 {
        src: u64,
        src_stride: u64,
        dst: u64,
        dst_stride: u64,
        results: u64,
        scratch: u64,
        extents: [u64; 3],
        n_chunks: u32,
        reserved: u32,
    }

    /// `NdzipDecompressArgs` there.
    struct DecompressArgs, size 88 {
        src: u64,
        src_stride: u64,
        src_bytes: u64,
        dst: u64,
        dst_stride: u64,
        results: u64,
        scratch: u64,
        extents: [u64; 3],
        n_chunks: u32,
        reserved: u32,
    }

    /// `LaunchInfo` there: how a kernel wants to be started.
    struct LaunchInfo, size 40 {
        threads: u32,
        shared_bytes: u32,
        persistent: u32,
        blocks_per_tile: u32,
        scratch_fixed_bytes: u64,
        scratch_bytes_per_chunk: u64,
        scratch_bytes_per_tile: u64,
    }
}

/// Names of a kernel and of its [`LaunchInfo`], by type and rank.
type Names = [[(&'static str, &'static str); 3]; 2];

macro_rules! names {
    ($direction:literal) => {
        names!(@rows $direction, "f32", "f64")
    };
    (@rows $direction:literal, $($dtype:literal),*) => {
        [$([names!(@one $direction, $dtype, "1d"), names!(@one $direction, $dtype, "2d"), names!(@one $direction, $dtype, "3d")]),*]
    };
    (@one $direction:literal, $dtype:literal, $rank:literal) => {
        (concat!("ndzip_", $direction, "_", $dtype, "_", $rank), concat!("ndzip_", $direction, "_", $dtype, "_", $rank, "_info"))
    };
}

const COMPRESS: Names = names!("compress");
const DECOMPRESS: Names = names!("decompress");

impl GpuCodec for Ndzip {
    fn encode(
        &self,
        job: &Job,
        stream: &Stream,
        src: DeviceSlice,
        dst: DeviceSlice,
        result: DeviceSlice,
    ) -> Result<()> {
        let launch = Launch::new(job, stream, &COMPRESS)?;
        let scratch = stream.alloc(launch.scratch_bytes())?;
        stream.zero(scratch.all())?;
        let args = CompressArgs {
            src: src.address(),
            src_stride: src.n_bytes(),
            dst: dst.address(),
            dst_stride: dst.n_bytes(),
            results: result.address(),
            scratch: scratch.all().address(),
            extents: launch.extents,
            n_chunks: 1,
            reserved: 0,
        };
        launch.start(stream, &args)
    }

    fn decode(
        &self,
        job: &Job,
        stream: &Stream,
        src: DeviceSlice,
        dst: DeviceSlice,
        result: DeviceSlice,
    ) -> Result<()> {
        let launch = Launch::new(job, stream, &DECOMPRESS)?;
        // The payload's length goes along with the scratch memory.
        let scratch = stream.alloc(launch.scratch_bytes() + 8)?;
        stream.zero(scratch.all())?;
        let length = scratch.slice(launch.scratch_bytes()..launch.scratch_bytes() + 8)?;
        stream.copy_in(length, &src.n_bytes().to_le_bytes())?;
        let args = DecompressArgs {
            src: src.address(),
            src_stride: src.n_bytes(),
            src_bytes: length.address(),
            dst: dst.address(),
            dst_stride: dst.n_bytes(),
            results: result.address(),
            scratch: scratch.all().address(),
            extents: launch.extents,
            n_chunks: 1,
            reserved: 0,
        };
        launch.start(stream, &args)
    }
}

/// One kernel, ready for one chunk.
struct Launch {
    module: Module,
    name: &'static str,
    info: LaunchInfo,
    n_tiles: u64,
    extents: [u64; 3],
}

impl Launch {
    fn new(job: &Job, stream: &Stream, names: &Names) -> Result<Self> {
        let layout = layout_of(job)?;
        let module = stream.device().module(Fatbin::find("ndzip")?)?;
        let (name, info_name) = names[usize::from(job.dtype == DType::F64)][layout.rank() - 1];
        let info: LaunchInfo = module.global(info_name)?;
        let n_tiles = n_tiles(&layout, u64::from(info.blocks_per_tile));
        let mut extents = [1; 3];
        extents[3 - job.shape.extents().len()..].copy_from_slice(job.shape.extents());
        Ok(Self { module, name, info, n_tiles, extents })
    }

    /// Memory that the kernel wants zeroed, a multiple of 8 bytes.
    fn scratch_bytes(&self) -> u64 {
        let info = &self.info;
        let bytes =
            info.scratch_fixed_bytes + info.scratch_bytes_per_chunk + info.scratch_bytes_per_tile * self.n_tiles;
        bytes.next_multiple_of(8)
    }

    fn start<A: KernelStruct>(&self, stream: &Stream, args: &A) -> Result<()> {
        let kernel = self.module.function::<A>(self.name)?;
        let LaunchInfo { threads, shared_bytes, persistent, .. } = self.info;
        let limit = match persistent {
            0 => u32::MAX,
            _ => kernel.resident_blocks(threads, shared_bytes)?,
        };
        let blocks = u32::try_from(self.n_tiles.min(u64::from(limit)))
            .map_err(|_| Error::invalid("a chunk too large for the GPU"))?;
        kernel.launch(Grid { blocks, threads, shared_bytes }, stream, args)
    }
}

/// Tiles of a chunk: those of blocks, then those of the border, at least one.
fn n_tiles(layout: &Layout, blocks_per_tile: u64) -> u64 {
    let (n_blocks, n_border) = (layout.n_blocks() as u64, layout.n_border() as u64);
    let border_per_tile = blocks_per_tile * BLOCK as u64;
    (n_blocks.div_ceil(blocks_per_tile) + n_border.div_ceil(border_per_tile)).max(1)
}
