//! Codecs on a GPU: kernels that make and read whole frames, for batches of chunks of one type and shape.
//!
//! A codec only says which of its kernels does a job, as a [`Kernel`]; starting it is the same for all.
//! `kernels/README.md` has the rules for both sides.

use crate::codec::form::FrameForm;
use crate::cuda::{Device, DeviceSlice, Fatbin, Grid, KernelStruct, Module, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Array, Shape};

crate::kernel_struct! {
    /// `CompressArgs` in `kernels/common/types.cuh`.
    struct CompressArgs, size 2248 {
        src: u64,
        src_stride: u64,
        dst: u64,
        dst_stride: u64,
        frame_bytes: u64,
        scratch: u64,
        extents: [u64; 3],
        n_blocks: u32,
        n_border: u32,
        n_chunks: u32,
        flags: u32,
        encoded: FrameForm,
        stored: FrameForm,
    }

    /// `DecompressArgs` there.
    struct DecompressArgs, size 2264 {
        src: u64,
        src_stride: u64,
        frame_bytes: u64,
        max_frame_bytes: u64,
        dst: u64,
        dst_stride: u64,
        statuses: u64,
        scratch: u64,
        extents: [u64; 3],
        n_blocks: u32,
        n_border: u32,
        n_chunks: u32,
        flags: u32,
        encoded: FrameForm,
        stored: FrameForm,
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

/// The elements are big-endian.
const SWAP_BYTES: u32 = 1;
/// The payload's checksum is not compared.
const SKIP_CHECKSUM: u32 = 2;

/// Frames begin at multiples of this.
pub const FRAME_ALIGNMENT: u64 = 16;
/// Elements outside of blocks that count as one.
const BORDER_BLOCK: u64 = 4096;
/// What GPUs transfer at least.
pub const SECTOR: u64 = 32;

/// What a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Arrays become frames.
    Compress,
    /// Frames become arrays.
    Decompress,
}

/// Names of a kernel and of its `LaunchInfo`.
pub type Names = (&'static str, &'static str);

/// One entry point of a codec's kernels, for chunks of one type and shape.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Where it is.
    pub fatbin: &'static str,
    /// Its names.
    pub names: Names,
    /// Those of one that is better where rows of the arrays do not begin at multiples of [`SECTOR`] bytes. It
    /// needs as much working memory.
    pub unaligned: Option<Names>,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// First bytes of a payload that decompression reads, however long the frame is: every sound one has so many.
    pub table_bytes: u64,
    /// What it takes for the extents of a chunk.
    pub extents: [u64; 3],
    /// What the codec cuts a chunk into: blocks …
    pub n_blocks: u64,
    /// … and elements outside of them, of which 4096 count as a block. A tile is so many blocks as the kernel says.
    pub n_border: u64,
}

/// A codec's kernels.
pub trait GpuCodec: Sync {
    /// Whether there are kernels for frames with these `params`, whatever the arrays are; else the CPU has to do it.
    fn takes(&self, _direction: Direction, _params: &[u8]) -> bool {
        true
    }

    /// The kernel for chunks of `array`, folded to `shape`, and frames with these `params`. `None`: the codec
    /// has none for them. If it has planned the array, compression cannot shrink that, and the chunks are
    /// stored; else no frame is like that.
    fn kernel(&self, direction: Direction, array: &Array, shape: &Shape, params: &[u8]) -> Option<Kernel>;
}

/// The frames of a batch: what their headers have in common, and how to make or read them.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    /// Headers of frames by the codec.
    pub encoded: FrameForm,
    /// Headers of those that it does not make smaller.
    pub stored: FrameForm,
    /// The array's elements are to be swapped for the codec.
    pub swap_bytes: bool,
    /// The payload's checksum is not compared.
    pub skip_checksum: bool,
}

/// The memory of a batch, on one GPU. Chunk and frame `i` are at `i` times their strides.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    /// Arrays, aligned as the codec's elements are.
    pub arrays: DeviceSlice<'a>,
    /// Bytes from array to array.
    pub array_stride: u64,
    /// Slots for frames, aligned to [`FRAME_ALIGNMENT`], each of the compression bound rounded up to that.
    pub frames: DeviceSlice<'a>,
    /// Bytes from frame to frame, a multiple of [`FRAME_ALIGNMENT`].
    pub frame_stride: u64,
    /// Bytes of a slot, at least the kernel's [`table_bytes`](Kernel::table_bytes) and a header. No more are read,
    /// whatever `frame_bytes` says.
    pub slot_bytes: u64,
    /// A u64 for the bytes of each frame: written by compression, read by decompression.
    pub frame_bytes: DeviceSlice<'a>,
    /// An i32 for the status of each frame, written by decompression; not used by compression.
    pub statuses: Option<DeviceSlice<'a>>,
}

/// A kernel, ready to be started on one device for batches of some number of chunks.
#[derive(Debug)]
pub struct Launch {
    name: &'static str,
    extents: [u64; 3],
    n_blocks: u32,
    n_border: u32,
    direction: Direction,
    module: Module,
    grid: Grid,
    n_chunks: u32,
    scratch_bytes: u64,
}

impl Launch {
    /// Finds the kernel and sees how it wants to be started; `address` is that of the arrays, or several of them
    /// combined by OR. What that takes is done once per process and device: from then on nothing here or in
    /// [`start`](Self::start) waits for the GPU.
    ///
    /// # Errors
    /// `UnsupportedJob` for more than a launch can do, `Device`, `OutOfMemory`.
    pub fn new(
        device: &'static Device,
        kernel: &Kernel,
        direction: Direction,
        n_chunks: u64,
        address: u64,
    ) -> Result<Self> {
        let is_aligned = address.is_multiple_of(SECTOR) && kernel.row_bytes.is_multiple_of(SECTOR);
        let (name, info) = kernel.unaligned.filter(|_| !is_aligned).unwrap_or(kernel.names);
        let module = device.module(Fatbin::find(kernel.fatbin)?)?;
        let info: LaunchInfo = module.global(info)?;
        let n_tiles = n_tiles(kernel, &info);
        let all_tiles = n_tiles.checked_mul(n_chunks).filter(|&all| all.max(n_chunks) <= MAX_TILES);
        let (Some(all_tiles), Ok(n_chunks)) = (all_tiles, u32::try_from(n_chunks)) else {
            return Err(Error::unsupported(format!(
                "{n_chunks} chunks of {n_tiles} tiles each are too much for one launch on a GPU, which is below 2^31 \
                 tiles; use fewer or smaller chunks"
            )));
        };
        let grid = match direction {
            Direction::Compress => grid::<CompressArgs>(&module, name, &info, all_tiles)?,
            Direction::Decompress => grid::<DecompressArgs>(&module, name, &info, all_tiles)?,
        };
        let per_chunk = info.scratch_bytes_per_chunk + n_tiles * info.scratch_bytes_per_tile;
        let scratch_bytes = (info.scratch_fixed_bytes + u64::from(n_chunks) * per_chunk).next_multiple_of(8);
        // Kernels that count these have at most 2^32 elements in a chunk; the others ignore them.
        let [n_blocks, n_border] = [kernel.n_blocks, kernel.n_border].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let extents = kernel.extents;
        Ok(Self { name, extents, n_blocks, n_border, direction, module, grid, n_chunks, scratch_bytes })
    }

    /// Bytes of working memory that [`start`](Self::start) needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    /// Starts the kernel on `stream`, in the background. `scratch` is of [`scratch_bytes`](Self::scratch_bytes)
    /// at a multiple of 8 and need not be initialised. Damaged frames are no error here but a status there.
    ///
    /// # Errors
    /// `Device`.
    pub fn start(&self, stream: &Stream, frames: &Frames, memory: &Memory, scratch: DeviceSlice) -> Result<()> {
        let scratch = scratch.slice(0..self.scratch_bytes)?;
        if self.scratch_bytes > 0 {
            stream.zero(scratch)?;
        }
        let Self { extents, n_blocks, n_border, n_chunks, .. } = *self;
        let Frames { encoded, stored, .. } = *frames;
        let flags =
            if frames.swap_bytes { SWAP_BYTES } else { 0 } | if frames.skip_checksum { SKIP_CHECKSUM } else { 0 };
        let (frame_bytes, scratch) = (memory.frame_bytes.address(), scratch.address());
        let (arrays, array_stride) = (memory.arrays.address(), memory.array_stride);
        let (slots, frame_stride) = (memory.frames.address(), memory.frame_stride);
        let statuses = memory.statuses;
        match (self.direction, statuses) {
            (Direction::Compress, _) => self.launch(
                stream,
                &CompressArgs {
                    src: arrays,
                    src_stride: array_stride,
                    dst: slots,
                    dst_stride: frame_stride,
                    frame_bytes,
                    scratch,
                    extents,
                    n_blocks,
                    n_border,
                    n_chunks,
                    flags,
                    encoded,
                    stored,
                },
            ),
            (Direction::Decompress, Some(statuses)) => self.launch(
                stream,
                &DecompressArgs {
                    src: slots,
                    src_stride: frame_stride,
                    frame_bytes,
                    max_frame_bytes: memory.slot_bytes,
                    dst: arrays,
                    dst_stride: array_stride,
                    statuses: statuses.address(),
                    scratch,
                    extents,
                    n_blocks,
                    n_border,
                    n_chunks,
                    flags,
                    encoded,
                    stored,
                },
            ),
            (Direction::Decompress, None) => {
                Err(Error::new(ErrorKind::Internal, "defect in gridz, please report it: no room for statuses"))
            }
        }
    }

    fn launch<A: KernelStruct>(&self, stream: &Stream, args: &A) -> Result<()> {
        self.module.function::<A>(self.name)?.launch(self.grid, stream, args)
    }
}

/// Most tiles of a launch: kernels count them in 31 bits.
const MAX_TILES: u64 = i32::MAX as u64;

/// Tiles of one chunk, at least one.
fn n_tiles(kernel: &Kernel, info: &LaunchInfo) -> u64 {
    let per_tile = u64::from(info.blocks_per_tile).max(1);
    (kernel.n_blocks.div_ceil(per_tile) + kernel.n_border.div_ceil(per_tile * BORDER_BLOCK)).max(1)
}

fn grid<A: KernelStruct>(module: &Module, name: &'static str, info: &LaunchInfo, all_tiles: u64) -> Result<Grid> {
    let LaunchInfo { threads, shared_bytes, persistent, .. } = *info;
    let function = module.function::<A>(name)?;
    let resident = function.resident_blocks(threads, shared_bytes)?;
    let limit = if persistent == 0 { MAX_TILES } else { u64::from(resident) };
    Ok(Grid { blocks: all_tiles.min(limit) as u32, threads, shared_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_of_one_kind_of_block() {
        let info = |blocks_per_tile| LaunchInfo {
            threads: 1,
            shared_bytes: 0,
            persistent: 0,
            blocks_per_tile,
            scratch_fixed_bytes: 0,
            scratch_bytes_per_chunk: 0,
            scratch_bytes_per_tile: 0,
        };
        let kernel = |[n_blocks, n_border]: [u64; 2]| Kernel {
            fatbin: "f",
            names: ("n", "i"),
            unaligned: None,
            row_bytes: 1,
            table_bytes: 0,
            extents: [1; 3],
            n_blocks,
            n_border,
        };
        for (blocks, per_tile, expected) in
            [([0, 0], 2, 1), ([1, 0], 2, 1), ([1, 1], 2, 2), ([5, 8193], 2, 5), ([5, 8193], 1, 8), ([7, 0], 1, 7)]
        {
            assert_eq!(n_tiles(&kernel(blocks), &info(per_tile)), expected, "{blocks:?} {per_tile}");
        }
    }

    #[test]
    fn kernels_find_the_arguments_where_they_look() {
        use std::mem::offset_of;
        assert_eq!((offset_of!(CompressArgs, extents), offset_of!(CompressArgs, n_chunks)), (48, 80));
        assert_eq!(offset_of!(CompressArgs, encoded), 88);
        assert_eq!((offset_of!(DecompressArgs, extents), offset_of!(DecompressArgs, n_chunks)), (64, 96));
        assert_eq!(offset_of!(DecompressArgs, encoded), 104);
        assert_eq!(offset_of!(LaunchInfo, scratch_fixed_bytes), 16);
    }
}
