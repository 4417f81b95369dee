//! `gridz_progressive.h`: parts of `multigrid` frames, with fewer layers or on coarser grids.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::Options;
use crate::convert;
use crate::guard::guard;
use crate::ptr::{self, OutStruct};
use crate::status::gridz_status;
use crate::types::{GRIDZ_MAX_RANK, gridz_options};

/// `detail`: the grid of level `value`, which holds every 2^level-th element along each axis,
/// decoded from the first layer. Level 0 is the whole array.
pub const GRIDZ_DETAIL_LEVEL: u32 = 0;
/// `detail`: all elements, decoded from the first `value` layers.
pub const GRIDZ_DETAIL_LAYERS: u32 = 1;
/// `detail`: all elements, from the fewest layers whose error bound is at most `value`; all layers
/// if none qualifies. For a frame in mode `GRIDZ_MODE_RMS` the root mean square counts instead of
/// the bound.
pub const GRIDZ_DETAIL_ERROR: u32 = 2;

/// Description of a part of a frame: a coarser grid, or fewer layers. Only `multigrid` supports parts.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_part_info {
    /// `sizeof(gridz_part_info)`, set by the caller.
    pub struct_size: usize,
    /// Number of extents of the result. It is the rank of the array, with one exception. For a
    /// level above 0 and an array with more than 4 axes of several elements it is 4: the first of
    /// these axes are merged.
    pub rank: u32,
    /// Level of the result. 0 = the array.
    pub level: u32,
    /// `rank` extents in elements, slowest-varying first. The remaining entries are 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Bytes of the result, which is the destination size that `gridz_decompress_progressive`
    /// needs. A damaged or hostile frame can claim any value.
    pub array_bytes: u64,
    /// Number of bytes at the start of the frame that are needed, header included.
    pub frame_bytes: u64,
    /// Number of levels above level 0.
    pub n_levels: u32,
    /// Number of layers that are read.
    pub layers: u32,
    /// Number of layers in the frame.
    pub n_layers: u32,
    /// Mode that holds for the result, as in `gridz_frame_info`.
    pub mode: u32,
    /// The number that belongs to `mode`.
    pub value: f64,
    /// Largest absolute difference between an element of the result and its original. See
    /// `gridz_frame_info`.
    pub bound: f64,
}

/// Decompresses a part of a `multigrid` frame from its first bytes: its first layers, or a coarser
/// grid. Describes the result in `*info`, whose `struct_size` the caller has set.
///
/// `detail` is one of `GRIDZ_DETAIL_*` and `value` the number that belongs to it. `frame` may be
/// cut: `frame_bytes` must be at least the `frame_bytes` that `gridz_inspect_progressive` reports
/// for the same detail. Writes the result to the start of `dst`, which has `dst_capacity` bytes, in
/// C order and in its original byte order.
///
/// `frame`, `dst` or both may be memory of a GPU. GPUs decompress whole frames only. For a part,
/// the CPU copies the bytes that it needs and decompresses them. If a GPU is required, the call
/// fails where no GPU is available, and logs a warning where the CPU decompresses.
///
/// The blocks that are read are compared with their checksums. If the whole frame is read, so is
/// its checksum.
///
/// Errors: those of `gridz_decompress`, `DST_TOO_SMALL` with the needed bytes in
/// `info->array_bytes`; `INVALID_ARGUMENT` for a level or layer that the frame does not have;
/// `UNSUPPORTED_JOB` for frames of other codecs. An array that `multigrid` could not make smaller is
/// such a frame, written by `stored`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_progressive(
    frame: *const c_void,
    frame_bytes: usize,
    detail: u32,
    value: f64,
    dst: *mut c_void,
    dst_capacity: usize,
    info: *mut gridz_part_info,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (info, options, buffers) = unsafe {
            (
                OutStruct::new(info)?,
                Options::read(options, None)?,
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let (detail, (frame, dst)) = (convert::detail(detail, value)?, buffers);
        // Filled in before decompression, so that a caller whose destination is too small gets it
        // too.
        info.write(&convert::part_info(&gridz::inspect_part(frame, detail)?));
        gridz::decompress(frame, gridz::Part::Detail(detail), dst, options.verify, options.context).map(|_| ())
    })
}

/// Describes the result of `gridz_decompress_progressive` for a level or a number of layers,
/// without decompressing anything.
///
/// `frame` may be the first bytes of a frame. For layers 3072 bytes are enough. A level above 0
/// also needs the frame's table: 8 bytes for each 65536 elements, and a few more for each level.
///
/// Errors: `INVALID_ARGUMENT`, also for a level or layer that the frame does not have;
/// `UNSUPPORTED_JOB` for frames of other codecs; `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect_progressive(
    frame: *const c_void,
    frame_bytes: usize,
    detail: u32,
    value: f64,
    info: *mut gridz_part_info,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (info, frame) = unsafe { (OutStruct::new(info)?, ptr::source("frame", frame, frame_bytes)?) };
        info.write(&convert::part_info(&gridz::inspect_part(frame, convert::detail(detail, value)?)?));
        Ok(())
    })
}
