//! Details of frames: a less accurate or coarser version of the array, from the first bytes.

use std::time::Instant;

use zerocopy::FromZeros;

use crate::backend::{self, Attempt};
use crate::context::Context;
use crate::decompress::{Part, decompress};
use crate::frame::{Frame, Verify, check_destination, check_payload, entry_of};
use crate::memory::{Destination, Source, device_of, start_of, through_host};
use crate::prepared::Prepared;
use crate::{cpu, log};
use gridz_codecs::codec::{self, Detail, Progressive, Promise};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::Backend;
use gridz_codecs::types::Shape;
use gridz_cuda::Device;

/// Number of bytes to download first of a frame in memory of a GPU: more than a head has. If they
/// are too few, `GROWTH` times as many are downloaded.
const START_BYTES: usize = 4096;
const GROWTH: usize = 16;

/// The description of a part of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartInfo {
    /// The extents of the result: those of the array, or of a coarser grid. If the codec merges
    /// axes of the array, a coarser grid has the merged axes.
    pub shape: Shape,
    /// Number of bytes of the result.
    pub n_bytes: u64,
    /// Number of bytes needed from the start of the frame.
    pub frame_bytes: u64,
    /// The level of the grid, 0 for the array.
    pub level: u32,
    /// Number of levels above that of the array.
    pub n_levels: u32,
    /// Number of layers to read.
    pub layers: u32,
    /// Number of layers in the frame.
    pub n_layers: u32,
    /// The guarantee for the result.
    pub promise: Promise,
}

impl PartInfo {
    /// True if the part is the whole array with all layers.
    fn is_all(&self) -> bool {
        self.level == 0 && self.layers == self.n_layers
    }
}

/// The selected part of a frame, as the codec knows it, and its description.
///
/// # Errors
/// As [`inspect_part`].
pub(super) fn select(frame: &Frame, detail: Detail) -> Result<(Selected, PartInfo)> {
    let (header, payload) = (&frame.header, frame.payload());
    let entry = entry_of(header)?;
    check_payload(header, (payload.len() as u64).max(header.payload_bytes))?;
    let codec = entry.codec.progressive().ok_or_else(|| {
        let text = format!(
            "frames of {} cannot be read in part; use multigrid for levels, and its parameter layers for layers",
            entry.name
        );
        Error::unsupported(text)
    })?;
    let prepared = Prepared::of(header)?;
    let part = codec.part(&prepared.layout, payload, header.payload_bytes, detail)?;
    let codec::Part { level, n_levels, layers, n_layers, promise, .. } = part;
    let array = &header.array;
    // The extents are those of the array unless axes were merged; axes of extent 1 do not count.
    let [axes, folded] = [array.shape(), &prepared.shape].map(|shape| shape.extents().iter().filter(|&&n| n > 1));
    let whole = if level > 0 && !axes.eq(folded) { prepared.shape } else { *array.shape() };
    // A level is below the number of bits of an extent.
    let extents: Vec<u64> = whole.extents().iter().map(|n| n.div_ceil(1 << level)).collect();
    let shape = Shape::new(&extents)?;
    let n_bytes = shape.n_elements() * u64::from(array.element_size());
    let frame_bytes = header.n_bytes() as u64 + part.n_bytes;
    let info = PartInfo { shape, n_bytes, frame_bytes, level, n_levels, layers, n_layers, promise };
    Ok((Selected { prepared, codec, part }, info))
}

/// A part that is ready to be decoded.
pub(super) struct Selected {
    prepared: Prepared,
    codec: &'static dyn Progressive,
    part: codec::Part,
}

/// Describes the part of a frame that a detail selects. `frame` may be its first bytes. For layers,
/// the head of the payload is enough, less than 2600 bytes. For levels, its table is needed: 8
/// bytes for each 65536 elements, and a few more.
///
/// # Errors
/// `UnsupportedJob` for codecs without layers and levels, `InvalidArgument` for a missing layer or
/// level, `Truncated`, `Corrupt`, `UnsupportedFormat`; `Device` for memory of a GPU.
pub fn inspect_part<'a>(frame: impl Into<Source<'a>>, detail: Detail) -> Result<PartInfo> {
    let frame = frame.into();
    inspect_start(device_of(&frame, &Destination::Host(&mut []))?, frame, detail)
}

/// [`inspect_part`] of a frame in host memory or in memory of `device`. In the latter case,
/// downloads only as many bytes as are needed.
fn inspect_start(device: Option<&'static Device>, frame: Source, detail: Detail) -> Result<PartInfo> {
    if let Source::Host(frame) = frame {
        return Frame::parse(frame)?.part(detail);
    }
    let mut start = vec![0; START_BYTES];
    loop {
        let found = start_of(device, frame, &mut start).and_then(Frame::parse).and_then(|frame| frame.part(detail));
        let is_short = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Truncated);
        if !is_short || start.len() as u64 >= frame.n_bytes() {
            return found;
        }
        let longer = (start.len() * GROWTH).min(frame.n_bytes() as usize);
        start =
            u8::new_vec_zeroed(longer).map_err(|_| Error::out_of_memory(longer as u64, "the start of a frame"))?;
    }
}

/// Decompresses a detail of a frame in memory of `device`. The GPU decompresses whole frames; for
/// parts, the needed bytes are downloaded and the CPU decodes.
pub(super) fn from_device(
    device: Option<&'static Device>,
    frame: Source,
    detail: Detail,
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let info = inspect_start(device, frame, detail)?;
    check_destination(dst.n_bytes(), info.n_bytes)?;
    let frame = frame.start(info.frame_bytes)?;
    if info.is_all() {
        return decompress(frame, Part::All, dst, verify, context);
    }
    let work = |frame: &[u8], dst: &mut [u8]| decompress(frame, Part::Detail(detail), dst, verify, context);
    through_host(device, frame, dst, info.n_bytes, context, work)
}

/// Decompresses a detail of a frame in host memory; `memory_of` owns the destination.
pub(super) fn run(
    frame: &Frame,
    source: Source,
    memory_of: Option<&'static Device>,
    detail: Detail,
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let settings = context.settings()?;
    backend::check(settings)?;
    let begin = Instant::now();
    let (Selected { prepared, codec, part }, info) = select(frame, detail)?;
    check_destination(dst.n_bytes(), info.n_bytes)?;
    if info.is_all() && (settings.backend == Backend::Cuda || memory_of.is_some()) {
        // Bytes may follow the frame.
        let source = source.start(info.frame_bytes.min(source.n_bytes()))?;
        return decompress(source, Part::All, dst, verify, context);
    }
    if settings.backend == Backend::Cuda {
        let reason = "there are no kernels for reading levels and layers";
        backend::or_cpu(settings, Ok(Attempt::<()>::Unsupported(reason.into())))?;
    }
    let header = &frame.header;
    let work = |frame: &[u8], dst: &mut [u8]| {
        let (payload, dst) = (&frame[header.n_bytes()..], &mut dst[..info.n_bytes as usize]);
        let job = cpu::job(&prepared, verify, context)?;
        let sums = codec.decode_part(&job, payload, header.payload_bytes, &part, dst)?;
        let read = &payload[..part.n_bytes as usize];
        cpu::check_sums(
            (info.is_all() && verify == Verify::Checksum).then_some(sums),
            read,
            header.payload_checksum,
        )?;
        if prepared.is_swapped() {
            cpu::swap_bytes(dst, header.array.dtype());
        }
        Ok(dst.len())
    };
    through_host(memory_of, source, dst, info.n_bytes, context, work)?;
    let (array, name) = (&header.array, prepared.entry.name);
    log::chunk("decompressed a part of", array, name, (info.frame_bytes, info.n_bytes), begin, log::CPU);
    Ok(info.n_bytes as usize)
}
