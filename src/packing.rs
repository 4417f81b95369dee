//! Packs frames on a GPU from their slots, and unpacks them again (`kernels/packing`).
#![allow(unsafe_code, reason = "starts kernels")]

use crate::frame::FRAME_ALIGNMENT;
use crate::kernels;
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
        let pieces = self.slot_stride.div_ceil(PIECE_BYTES).max(1);
        let too_many = || {
            let Self { n_frames, slot_stride, .. } = self;
            Error::unsupported(format!(
                "{n_frames} frames with a frame_stride of {slot_stride} exceed the limit of one launch, {MAX_CTAS} \
                 pieces of {PIECE_BYTES} bytes; use fewer frames or a smaller stride"
            ))
        };
        let ctas = self.n_frames.checked_mul(pieces).filter(|&n| n <= MAX_CTAS).ok_or_else(too_many)?;
        let args = PackingArgs {
            slots: self.slots.address(),
            slot_stride: self.slot_stride,
            packed: self.packed.address(),
            packed_bytes: self.packed.n_bytes(),
            offsets: self.offsets.address(),
            frame_bytes: self.frame_bytes.address(),
            lengths: self.lengths.map_or(0, |lengths| lengths.address()),
            n_frames: self.n_frames as u32,
            pieces: pieces as u32,
        };
        let grid = grid.unwrap_or(Grid { ctas: ctas as u32, threads: COPY_THREADS, shared_bytes: 0 });
        let function = stream.device().module(kernels::find("packing")?)?.function(kernel)?;
        // SAFETY: the kernel accesses only this memory, which is valid by this function's contract.
        unsafe { function.launch(grid, stream, args.as_bytes()) }
    }
}
