//! Packs frames on a GPU from their slots, and unpacks them again (`kernels/packing`).
#![allow(unsafe_code, reason = "starts kernels")]

use crate::frame::FRAME_ALIGNMENT;
use crate::kernels;
use crate::launch::LaunchMemory;
use gridz_codecs::error::{Error, Result};
use gridz_cuda::{DeviceSlice, Grid, KernelStruct, Stream};

gridz_codecs::kernel_struct! {
    /// `PackingArgs` in `kernels/packing/packing.cu`.
    struct PackingArgs, size 64 {
        slots: u64,
        slot_stride: u64,
        packed: u64,
        packed_bytes: u64,
        offsets: u64,
        frame_bytes: u64,
        lengths: u64,
        n_frames: u32,
        pieces: u32,
    }
}

gridz_codecs::kernel_struct! {
    /// `ShorterArgs` in `kernels/packing/packing.cu`.
    struct ShorterArgs, size 56 {
        slots: u64,
        slot_stride: u64,
        frame_bytes: u64,
        others: u64,
        other_stride: u64,
        other_bytes: u64,
        n_frames: u32,
        pieces: u32,
    }
}

/// Threads of the kernel that computes offsets, and of the kernels that copy.
const PLACE_THREADS: u32 = 1024;
const COPY_THREADS: u32 = 256;
/// Bytes that a CTA copies.
const PIECE_BYTES: u64 = 32 << 10;
/// Maximum number of CTAs of a launch.
const MAX_CTAS: u64 = i32::MAX as u64;

/// Frames in slots, and packed. Each packed frame begins at the first multiple of 16 after the
/// previous one.
#[derive(Debug, Clone, Copy)]
pub struct Packing<'a> {
    /// Number of frames, at least one.
    pub n_frames: u64,
    /// Slots, aligned to 16 bytes.
    pub slots: DeviceSlice<'a>,
    /// Bytes from slot to slot, a multiple of 16. No frame is longer.
    pub slot_stride: u64,
    /// Packed frames, aligned to 16 bytes.
    pub packed: DeviceSlice<'a>,
    /// A u64 for the offset of each packed frame. Packing also writes the end of the last frame.
    pub offsets: DeviceSlice<'a>,
    /// A u64 for the length of each frame.
    pub frame_bytes: DeviceSlice<'a>,
    /// A u64 for each frame, to which its length is written: 0 for a frame that cannot be unpacked.
    pub lengths: Option<DeviceSlice<'a>>,
}

impl Packing<'_> {
    /// Computes the offsets of the frames in the slots, and copies those that fit.
    ///
    /// # Errors
    /// `UnsupportedJob` for too many frames, `Device`.
    ///
    /// # Safety
    /// All memory must have the required length, and live until the stream has completed the work.
    pub unsafe fn pack(&self, stream: &Stream) -> Result<()> {
        let grid = Grid { ctas: 1, threads: PLACE_THREADS, shared_bytes: 0 };
        // SAFETY: by this function's contract.
        unsafe {
            self.start(stream, "packing_place", Some(grid))?;
            self.start(stream, "packing_pack", None)
        }
    }

    /// Copies the packed frames to the slots. A frame that is not inside `packed`, or longer than a
    /// slot, gets the length 0.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    ///
    /// # Safety
    /// As [`pack`](Self::pack); `lengths` must be present.
    pub unsafe fn unpack(&self, stream: &Stream) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.start(stream, "packing_unpack", None) }
    }

    /// Launches one kernel. Without `grid`, one CTA copies one piece.
    ///
    /// # Safety
    /// As [`pack`](Self::pack).
    unsafe fn start(&self, stream: &Stream, kernel: &'static str, grid: Option<Grid>) -> Result<()> {
        debug_assert!(self.slot_stride.is_multiple_of(FRAME_ALIGNMENT));
        let (pieces, copying) = grid_of_copies(self.n_frames, self.slot_stride)?;
        let args = PackingArgs {
            slots: self.slots.address(),
            slot_stride: self.slot_stride,
            packed: self.packed.address(),
            packed_bytes: self.packed.n_bytes(),
            offsets: self.offsets.address(),
            frame_bytes: self.frame_bytes.address(),
            lengths: self.lengths.map_or(0, |lengths| lengths.address()),
            n_frames: self.n_frames as u32,
            pieces,
        };
        let grid = grid.unwrap_or(copying);
        let function = stream.device().module(kernels::find("packing")?)?.function(kernel)?;
        // SAFETY: the kernel accesses only this memory, which is valid by this function's contract.
        unsafe { function.launch(grid, stream, args.as_bytes()) }
    }
}

/// Pieces of a slot, and the grid of a kernel in which one CTA copies one piece.
///
/// # Errors
/// `UnsupportedJob` for too many frames.
fn grid_of_copies(n_frames: u64, stride: u64) -> Result<(u32, Grid)> {
    let pieces = stride.div_ceil(PIECE_BYTES).max(1);
    let ctas = n_frames.checked_mul(pieces).filter(|&n| n <= MAX_CTAS).ok_or_else(|| {
        Error::unsupported(format!(
            "{n_frames} frames with a frame_stride of {stride} exceed the limit of one launch, {MAX_CTAS} pieces of \
             {PIECE_BYTES} bytes; use fewer frames or a smaller stride"
        ))
    })?;
    Ok((pieces as u32, Grid { ctas: ctas as u32, threads: COPY_THREADS, shared_bytes: 0 }))
}

/// Replaces each frame by the other frame of the same chunk if that is shorter.
///
/// # Errors
/// `UnsupportedJob` for too many frames, `Device`.
///
/// # Safety
/// All memory of frames must have the required length, and live until the stream has completed the
/// work.
pub unsafe fn take_shorter(
    stream: &Stream,
    frames: &LaunchMemory,
    others: &LaunchMemory,
    n_frames: u32,
) -> Result<()> {
    let (pieces, copying) = grid_of_copies(n_frames.into(), others.slot_bytes)?;
    let args = ShorterArgs {
        slots: frames.frames.address(),
        slot_stride: frames.frame_stride,
        frame_bytes: frames.frame_bytes.address(),
        others: others.frames.address(),
        other_stride: others.frame_stride,
        other_bytes: others.frame_bytes.address(),
        n_frames,
        pieces,
    };
    let of_lengths = Grid { ctas: n_frames.div_ceil(COPY_THREADS), threads: COPY_THREADS, shared_bytes: 0 };
    let module = stream.device().module(kernels::find("packing")?)?;
    for (name, grid) in [("packing_take_shorter", copying), ("packing_take_lengths", of_lengths)] {
        let function = module.function(name)?;
        // SAFETY: the kernel accesses only this memory, which is valid by this function's contract.
        unsafe { function.launch(grid, stream, args.as_bytes())? };
    }
    Ok(())
}
