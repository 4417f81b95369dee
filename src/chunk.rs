//! The door: one chunk from a source to a destination, wherever they are.

use std::time::Instant;

use crate::context::Context;
use crate::frame::{self, FrameInfo, Verify, check_destination, check_payload, check_source, stored_bytes};
use crate::launch::Procedure;
use crate::memory::{Destination, Source, device_of};
use crate::prepared::Prepared;
use crate::{backend, cpu, gpu, log};
use gridz_codecs::codec::BlockCounts;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::codec::request::Request;
use gridz_codecs::error::Result;
use gridz_codecs::format::header::{Header, MAX_HEADER_BYTES};
use gridz_codecs::settings::Backend;
use gridz_codecs::types::Array;
use gridz_cuda::Device;

/// Bytes that [`compress`] needs as destination: no chunk of this array, whatever its values, takes
/// more while it is being compressed. A multiple of 16. The result itself is never longer than the raw bytes and the
/// header.
///
/// # Errors
/// `InvalidArgument` if so many bytes cannot be addressed.
pub fn compress_bound(array: &Array, request: &Request) -> Result<u64> {
    Prepared::new(array, request).map(|prepared| prepared.bound())
}

/// Compresses the chunk `src` of `array` into a frame at the start of `dst` and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` is shorter than
/// [`compress_bound`], `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn compress(array: &Array, request: &Request, src: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    compress_from(array, request, Source::Host(src), Destination::Host(dst), context)
}

/// [`compress`] where source, destination or both may be memory of a GPU. What the program's own streams do with that
/// must be done; the frame is there when this returns.
///
/// # Errors
/// As `compress`; `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
pub fn compress_from(
    array: &Array,
    request: &Request,
    src: Source,
    dst: Destination,
    context: &Context,
) -> Result<usize> {
    Prepared::new(array, request)?.compress(src, dst, context)
}

impl Prepared {
    /// Compresses one chunk: as [`compress`](crate::compress) and [`device::compress`](crate::device::compress).
    ///
    /// # Errors
    /// As those.
    pub fn compress(&self, src: Source, mut dst: Destination, context: &Context) -> Result<usize> {
        let Self { array, entry, .. } = self;
        let settings = context.settings()?;
        let memory_of = context.device_of(&src, &dst)?;
        check_source(array, src.n_bytes())?;
        check_destination(dst.n_bytes(), self.bound())?;
        let begin = Instant::now();
        let device = match memory_of {
            Some(_) if settings.backend == Backend::Cpu => None,
            Some(device) => Some(device),
            // What is only copied is copied fastest where it is.
            None if entry.id == STORED => None,
            None => backend::for_host_memory(settings, array.n_bytes(), context.pool().threads(), Device::in_turn)?,
        };
        let by_gpu = device.map(|device| gpu::compress(device, self, src, dst.reborrow(), context));
        let by_gpu = by_gpu.map_or(Ok(None), |attempt| backend::or_cpu(settings, attempt))?;
        let (n_bytes, by) = match by_gpu {
            Some(n_bytes) => (n_bytes, log::CUDA),
            None => {
                let work = |src: &[u8], dst: &mut [u8]| cpu::compress(self, src, dst, context);
                (through_host(memory_of, src, dst, self.bound(), context, work)?, log::CPU)
            }
        };
        // What a codec shrinks is shorter than a stored frame.
        let name = if n_bytes as u64 == stored_bytes(array) { "stored" } else { entry.name };
        log::chunk("compressed", array, name, (array.n_bytes(), n_bytes as u64), begin, by);
        Ok(n_bytes)
    }
}

/// Writes `src` as a `stored` frame, which every array can be, and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` has no room for it
/// and the header.
pub fn store(array: &Array, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    check_source(array, src.len() as u64)?;
    check_destination(dst.len() as u64, stored_bytes(array))?;
    cpu::compress(&Prepared::stored(array), src, dst, &Context::lenient())
}

/// Decompresses `frame`, which must be exactly one frame, to the start of `dst` and returns the
/// array's bytes. After an error the contents of `dst` are unspecified.
///
/// # Errors
/// `DstTooSmall` if the array does not fit, `Truncated`, `Corrupt`, `UnsupportedFormat`,
/// `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn decompress(frame: &[u8], dst: &mut [u8], verify: Verify, context: &Context) -> Result<usize> {
    decompress_from(Source::Host(frame), Destination::Host(dst), verify, context)
}

/// [`decompress`] where source, destination or both may be memory of a GPU, likewise.
///
/// # Errors
/// As `decompress`; `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
pub fn decompress_from(frame: Source, mut dst: Destination, verify: Verify, context: &Context) -> Result<usize> {
    let settings = context.settings()?;
    let memory_of = context.device_of(&frame, &dst)?;
    let mut start;
    let header = Header::parse(match frame {
        Source::Host(frame) => frame,
        Source::Device(_) => {
            start = [0; MAX_HEADER_BYTES];
            start_of(memory_of, frame, &mut start)?
        }
    })?;
    let (header_bytes, checksum, n_bytes) = (header.n_bytes(), header.payload_checksum, header.array.n_bytes());
    frame::entry_of(&header)?;
    check_payload(&header, frame.n_bytes() - header_bytes as u64)?;
    check_destination(dst.n_bytes(), n_bytes)?;
    let prepared = Prepared::of(&header)?;
    let Prepared { array, entry, .. } = &prepared;
    let begin = Instant::now();
    let device = match memory_of {
        Some(_) if settings.backend == Backend::Cpu => None,
        Some(device) => Some(device),
        None if entry.id == STORED => None,
        None => backend::for_host_memory(settings, n_bytes, context.pool().threads(), Device::in_turn)?,
    };
    let by_gpu = device.map(|device| {
        let procedure = Procedure::new(Direction::Decompress, &prepared, verify);
        gpu::decompress(device, procedure, frame, dst.reborrow(), n_bytes, context)
    });
    let by_gpu = by_gpu.map_or(Ok(None), |attempt| backend::or_cpu(settings, attempt))?;
    let by = match by_gpu {
        Some(()) => log::CUDA,
        None => {
            let work = |frame: &[u8], dst: &mut [u8]| {
                let dst = &mut dst[..n_bytes as usize];
                cpu::decompress(&prepared, checksum, &frame[header_bytes..], dst, verify, context)?;
                Ok(n_bytes as usize)
            };
            through_host(memory_of, frame, dst, n_bytes, context, work)?;
            log::CPU
        }
    };
    log::chunk("decompressed", array, entry.name, (frame.n_bytes(), n_bytes), begin, by);
    Ok(n_bytes as usize)
}

/// [`inspect`](crate::inspect) for a frame in host memory or that of a GPU.
///
/// # Errors
/// As `inspect`, and `Device`.
pub fn inspect_from(frame: Source) -> Result<FrameInfo> {
    let device = device_of(&frame, &Destination::Host(&mut []))?;
    frame::inspect(start_of(device, frame, &mut [0; MAX_HEADER_BYTES])?)
}

/// Counts the blocks of the payload in `frame` by how they are coded, and compares their checks.
///
/// # Errors
/// `UnsupportedJob` for codecs that have no kinds of blocks, `Truncated`, `Corrupt`, `UnsupportedFormat`.
pub fn count_blocks(frame: &[u8], context: &Context) -> Result<BlockCounts> {
    let header = Header::parse(frame)?;
    let payload = &frame[header.n_bytes()..];
    frame::entry_of(&header)?;
    check_payload(&header, payload.len() as u64)?;
    cpu::count_blocks(&Prepared::of(&header)?, payload, context)
}

/// [`count_blocks`] of a frame in host memory or that of a GPU, which is copied: the CPU counts.
///
/// # Errors
/// As `count_blocks`, and `Device`.
pub fn count_blocks_from(frame: Source, context: &Context) -> Result<BlockCounts> {
    let nothing = Destination::Host(&mut []);
    let device = context.device_of(&frame, &nothing)?;
    let mut counts = BlockCounts::default();
    let count = |frame: &[u8], _: &mut [u8]| {
        counts = count_blocks(frame, context)?;
        Ok(0)
    };
    through_host(device, frame, nothing, 0, context, count)?;
    Ok(counts)
}

/// The frame, or, of one in memory of `device`, as many of its first bytes as fit into `start`.
pub(super) fn start_of<'a>(
    device: Option<&'static Device>,
    frame: Source<'a>,
    start: &'a mut [u8],
) -> Result<&'a [u8]> {
    match (frame, device) {
        (Source::Device(frame), Some(device)) => {
            let n_bytes = frame.n_bytes().min(start.len() as u64);
            let start = &mut start[..n_bytes as usize];
            device.stream()?.copy_out(frame.slice(0..n_bytes)?, start)?;
            Ok(start)
        }
        (Source::Host(frame), _) => Ok(frame),
        (Source::Device(_), None) => unreachable!("memory of a GPU has a device"),
    }
}

/// What the CPU is to do: `work` on copies in host memory of what is in that of `device`, `need` bytes of the
/// destination.
pub(super) fn through_host(
    device: Option<&'static Device>,
    src: Source,
    dst: Destination,
    need: u64,
    context: &Context,
    work: impl FnOnce(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let device = match (device, src, dst) {
        (_, Source::Host(src), Destination::Host(dst)) => return work(src, dst),
        (device, src, dst) => (device.expect("memory of a GPU has a device"), src, dst),
    };
    let (device, src, dst) = device;
    let stream = device.stream()?;
    let mut host_src;
    let src = match src {
        Source::Host(bytes) => bytes,
        Source::Device(bytes) => {
            host_src = context.scratch(bytes.n_bytes() as usize)?;
            stream.copy_out(bytes, &mut host_src)?;
            &host_src
        }
    };
    match dst {
        Destination::Host(bytes) => work(src, bytes),
        Destination::Device(bytes) => {
            let mut host_dst = context.scratch(need as usize)?;
            let n_bytes = work(src, &mut host_dst)?;
            stream.copy_in(bytes.slice(0..n_bytes as u64)?, &host_dst[..n_bytes])?;
            Ok(n_bytes)
        }
    }
}
