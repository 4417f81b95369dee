//! Less than there is in a frame: its first layers, or a coarser grid of its array, from the first bytes of the frame.

use std::time::Instant;

use zerocopy::FromZeros;

use crate::backend::{self, Attempt};
use crate::chunk::{decompress, decompress_from, start_of, through_host};
use crate::context::Context;
use crate::frame::{Verify, check_destination, check_payload, entry_of};
use crate::memory::{Destination, Source, device_of};
use crate::prepared::Prepared;
use crate::{cpu, log};
use gridz_codecs::codec::{Detail, Part, Progressive, Promise};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::Header;
use gridz_codecs::settings::Backend;
use gridz_codecs::types::Shape;
use gridz_cuda::Device;

/// First bytes of a frame in memory of a GPU that are looked at: more than heads have. If they are too few, so many times as many.
const START_BYTES: usize = 4096;
const LONGER: usize = 16;

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
            let text = format!(
                "frames of {} are read as a whole; multigrid has levels, and with layers= layers",
                entry.name
            );
            Error::unsupported(text)
        })?;
        Ok(Self { header, payload, prepared: Prepared::of(&header)?, codec })
    }

    fn part(&self, detail: Detail) -> Result<(Part, PartInfo)> {
        let part = self.codec.part(&self.prepared.layout, self.payload, self.header.payload_bytes, detail)?;
        let Part { level, n_levels, layers, n_layers, promise, .. } = part;
        let array = &self.header.array;
        // Axes of one element aside, unless some were merged.
        let [axes, folded] =
            [array.shape(), &self.prepared.shape].map(|shape| shape.extents().iter().filter(|&&n| n > 1));
        let whole = if level > 0 && !axes.eq(folded) { self.prepared.shape } else { *array.shape() };
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
/// As [`inspect_progressive`]; `DstTooSmall` if it does not fit, `OutOfMemory`; `Device` where a GPU is required and there is
/// none.
pub fn decompress_progressive(
    frame: &[u8],
    detail: Detail,
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<PartInfo> {
    let settings = context.settings()?;
    backend::check(settings)?;
    let begin = Instant::now();
    let cut = Cut::parse(frame)?;
    let (part, info) = cut.part(detail)?;
    check_destination(dst.len() as u64, info.n_bytes)?;
    let is_all = part.level == 0 && part.layers == part.n_layers;
    if settings.backend == Backend::Cuda {
        if is_all {
            // Bytes may follow the frame.
            decompress(&frame[..frame.len().min(info.frame_bytes as usize)], dst, verify, context)?;
            return Ok(info);
        }
        let reason = "there are no kernels for levels and layers of a frame";
        backend::or_cpu(settings, Ok(Attempt::<()>::NotHere(reason.into())))?;
    }
    let dst = &mut dst[..info.n_bytes as usize];
    let (header, prepared) = (&cut.header, &cut.prepared);
    let job = cpu::job(prepared, verify, context)?;
    let sums = cut.codec.decode_part(&job, cut.payload, header.payload_bytes, &part, dst)?;
    let payload = &cut.payload[..part.n_bytes as usize];
    cpu::check_sums((is_all && verify == Verify::Checksum).then_some(sums), payload, header.payload_checksum)?;
    if prepared.is_swapped() {
        cpu::swap_bytes(dst, header.array.dtype());
    }
    let (array, name) = (&header.array, prepared.entry.name);
    log::chunk("decompressed a part of", array, name, (info.frame_bytes, info.n_bytes), begin, log::CPU);
    Ok(info)
}

/// [`inspect_progressive`] of a frame in host memory or that of a GPU.
///
/// # Errors
/// As that, and `Device`.
pub fn inspect_progressive_from(frame: Source, detail: Detail) -> Result<PartInfo> {
    inspect_start(device_of(&frame, &Destination::Host(&mut []))?, frame, detail)
}

/// The same; of a frame in memory of `device`, from as few first bytes as are enough.
fn inspect_start(device: Option<&'static Device>, frame: Source, detail: Detail) -> Result<PartInfo> {
    if let Source::Host(frame) = frame {
        return inspect_progressive(frame, detail);
    }
    let mut start = vec![0; START_BYTES];
    loop {
        let found = inspect_progressive(start_of(device, frame, &mut start)?, detail);
        let is_short = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Truncated);
        if !is_short || start.len() as u64 >= frame.n_bytes() {
            return found;
        }
        let longer = (start.len() * LONGER).min(frame.n_bytes() as usize);
        start =
            u8::new_vec_zeroed(longer).map_err(|_| Error::out_of_memory(longer as u64, "the start of a frame"))?;
    }
}

/// [`decompress_progressive`] where the frame, the destination or both may be memory of a GPU. All of a frame is decompressed
/// there; the CPU does parts, for which the bytes that are needed are copied.
///
/// # Errors
/// As that, and as [`decompress_from`].
pub fn decompress_progressive_from(
    frame: Source,
    detail: Detail,
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<PartInfo> {
    let (frame, dst) = match (frame, dst) {
        (Source::Host(frame), Destination::Host(dst)) => {
            return decompress_progressive(frame, detail, dst, verify, context);
        }
        others => others,
    };
    let device = context.device_of(&frame, &dst)?;
    let info = inspect_start(device, frame, detail)?;
    check_destination(dst.n_bytes(), info.n_bytes)?;
    let frame = frame.start(info.frame_bytes)?;
    if info.level == 0 && info.layers == info.n_layers {
        decompress_from(frame, dst, verify, context)?;
        return Ok(info);
    }
    let work = |frame: &[u8], dst: &mut [u8]| {
        decompress_progressive(frame, detail, dst, verify, context).map(|info| info.n_bytes as usize)
    };
    through_host(device, frame, dst, info.n_bytes, context, work)?;
    Ok(info)
}
