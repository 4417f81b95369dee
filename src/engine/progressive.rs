//! Less than there is in a frame: its first layers, or a coarser grid of its array, from the first bytes of the frame.

use std::time::Instant;

use crate::codec::{Detail, Part, Progressive, Promise};
use crate::engine::context::Context;
use crate::engine::frame::{Verify, check_destination, check_payload, entry_of};
use crate::engine::memory::{Destination, Source};
use crate::engine::prepared::Prepared;
use crate::engine::{cpu, log};
use crate::error::{Error, Result};
use crate::format::header::Header;
use crate::types::Shape;

/// What comes of a part of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartInfo {
    /// What comes back: the array, or a coarser grid of it. Where the codec merges axes of the array, a coarser grid has
    /// the axes that are left.
    pub shape: Shape,
    /// The bytes of that.
    pub n_bytes: u64,
    /// The first bytes of the frame that are needed.
    pub frame_bytes: u64,
    /// The level of the grid, 0 for the array, and how many there are above that.
    pub level: u32,
    /// Levels above that of the array.
    pub n_levels: u32,
    /// Layers that are read.
    pub layers: u32,
    /// Layers that there are.
    pub n_layers: u32,
    /// What holds for what comes back.
    pub promise: Promise,
}

/// A frame that may be cut.
struct Cut<'a> {
    header: Header<'a>,
    payload: &'a [u8],
    prepared: Prepared,
    codec: &'static dyn Progressive,
}

impl<'a> Cut<'a> {
    fn parse(frame: &'a [u8]) -> Result<Self> {
        let header = Header::parse(frame)?;
        let payload = &frame[header.n_bytes()..];
        let entry = entry_of(&header)?;
        check_payload(&header, (payload.len() as u64).max(header.payload_bytes))?;
        let codec = entry.codec.progressive().ok_or_else(|| {
            let text =
                format!("frames of {} are read as a whole; mgard has levels, and with layers= layers", entry.name);
            Error::unsupported(text)
        })?;
        Ok(Self { header, payload, prepared: Prepared::of(&header)?, codec })
    }

    fn part(&self, detail: Detail) -> Result<(Part, PartInfo)> {
        let part = self.codec.part(&self.prepared.layout, self.payload, self.header.payload_bytes, detail)?;
        let Part { level, n_levels, layers, n_layers, promise, .. } = part;
        let array = &self.header.array;
        let n_merged = array.shape().extents().iter().filter(|&&n| n > 1).count();
        let is_merged = n_merged > self.prepared.entry.codec.max_rank();
        let whole = if level > 0 && is_merged { self.prepared.shape } else { *array.shape() };
        // Levels are no more than extents have bits.
        let extents: Vec<u64> = whole.extents().iter().map(|n| n.div_ceil(1 << level)).collect();
        let shape = Shape::new(&extents)?;
        let n_bytes = shape.n_elements() * u64::from(array.element_size());
        let frame_bytes = self.header.n_bytes() as u64 + part.n_bytes;
        Ok((part, PartInfo { shape, n_bytes, frame_bytes, level, n_levels, layers, n_layers, promise }))
    }
}

/// What [`decompress_progressive`] would do. `frame` may be its first bytes: for layers the head of the payload is enough, less
/// than 2600 bytes, for levels its table, 8 bytes for each 65536 elements, or a few more.
///
/// # Errors
/// `UnsupportedJob` for codecs that have no layers and levels, `InvalidArgument` for a layer or level that there is not, `Truncated`,
/// `Corrupt`, `UnsupportedFormat`.
pub fn inspect_progressive(frame: &[u8], detail: Detail) -> Result<PartInfo> {
    Ok(Cut::parse(frame)?.part(detail)?.1)
}

/// Decompresses as much of `frame` as `detail` asks for to the start of `dst`, and tells what that is. The frame may be
/// cut behind the bytes that are needed.
///
/// Unless only structure is verified, the blocks that are read are compared with their checks, and the whole with its checksum where
/// it is read.
///
/// # Errors
/// As [`inspect_progressive`]; `DstTooSmall` if it does not fit, `OutOfMemory`.
pub fn decompress_progressive(
    frame: &[u8],
    detail: Detail,
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<PartInfo> {
    let begin = Instant::now();
    let cut = Cut::parse(frame)?;
    let (part, info) = cut.part(detail)?;
    check_destination(dst.len() as u64, info.n_bytes)?;
    let dst = &mut dst[..info.n_bytes as usize];
    let (header, prepared) = (&cut.header, &cut.prepared);
    let job = cpu::job(prepared, verify, context)?;
    let sums = cut.codec.decode_part(&job, cut.payload, header.payload_bytes, &part, dst)?;
    let is_all = part.level == 0 && part.layers == part.n_layers;
    let payload = &cut.payload[..part.n_bytes as usize];
    cpu::check_sums((is_all && verify == Verify::Checksum).then_some(sums), payload, header.payload_checksum)?;
    if prepared.is_swapped() {
        cpu::swap_bytes(dst, header.array.dtype());
    }
    let (array, name) = (&header.array, prepared.entry.name);
    log::chunk("decompressed a part of", array, name, (info.frame_bytes, info.n_bytes), begin, log::CPU);
    Ok(info)
}

/// [`inspect_progressive`] of a frame that is in host memory as yet.
///
/// # Errors
/// As that; `UnsupportedJob` for memory of a GPU.
pub fn inspect_progressive_from(frame: Source, detail: Detail) -> Result<PartInfo> {
    inspect_progressive(frame.on_host("gridz_inspect_progressive")?, detail)
}

/// [`decompress_progressive`] in host memory as yet.
///
/// # Errors
/// As that; `UnsupportedJob` for memory of a GPU.
pub fn decompress_progressive_from(
    frame: Source,
    detail: Detail,
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<PartInfo> {
    let function = "gridz_decompress_progressive";
    decompress_progressive(frame.on_host(function)?, detail, dst.on_host(function)?, verify, context)
}
