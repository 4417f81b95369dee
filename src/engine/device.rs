//! Chunks in GPU memory, for calls that wait for the result.
//!
//! Array and frame stay on the GPU where its kernels can do the whole job; only the header travels. What
//! they cannot do (elements that are stored, big-endian numbers, chunks that do not shrink) goes through
//! host memory and the CPU, and gives the same frames.

use super::{
    Context, FrameInfo, Spec, Verify, check_payload, check_source, compress_bound, entry_of, header_of, is_swapped,
    job, too_small,
};
use crate::codec::Encoded;
use crate::codec::gpu::GpuCodec;
use crate::codec::registry::Entry;
use crate::cuda::{Device, DeviceBuffer, Stream};
pub use crate::cuda::{DeviceSlice, gpu_of_pointer};
use crate::engine::gpu::{or_cpu, read_result, result_buffer};
use crate::error::{Error, Result};
use crate::format::header::{Header, MAX_HEADER_BYTES, header_bytes};
use crate::settings::Backend;
use crate::types::Array;

/// Kernels want payloads to begin at a multiple of this, and may look at the bytes up to the next one.
const ALIGNMENT: u64 = 16;

/// Memory to read.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Of the host.
    Host(&'a [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

/// Memory to write.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Of the host.
    Host(&'a mut [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

impl Source<'_> {
    fn n_bytes(&self) -> u64 {
        match self {
            Source::Host(bytes) => bytes.len() as u64,
            Source::Device(bytes) => bytes.n_bytes(),
        }
    }
}

impl Destination<'_> {
    /// The first `need` bytes.
    fn first(self, need: u64) -> Result<Self> {
        let (have, first) = match self {
            Destination::Host(dst) => (dst.len() as u64, dst.get_mut(..need as usize).map(Destination::Host)),
            Destination::Device(dst) => (dst.n_bytes(), dst.slice(0..need).ok().map(Destination::Device)),
        };
        first.ok_or_else(|| too_small(have, need))
    }
}

/// [`compress`](super::compress) where source, destination or both are memory of GPU `gpu`. What the
/// program's own streams write to the source must be done; the frame is there when this returns.
///
/// # Errors
/// As `compress`, and `Device`.
pub fn compress(
    array: &Array,
    spec: &Spec,
    gpu: u32,
    src: Source,
    dst: Destination,
    context: &Context,
) -> Result<usize> {
    check_source(array, src.n_bytes())?;
    let need = compress_bound(array, spec)?;
    let dst = dst.first(need)?;
    on_gpu(gpu, src, dst, |stream, src, dst| {
        if let Some(n_bytes) = or_cpu(context.settings(), encode(array, spec, stream, src, dst, context))? {
            return Ok(n_bytes);
        }
        through_host(stream, src, dst, need, context, |src, dst, on_cpu| {
            super::compress(array, spec, src, dst, on_cpu)
        })
    })
}

/// [`decompress`](super::decompress) where source, destination or both are memory of GPU `gpu`, likewise.
///
/// # Errors
/// As `decompress`, and `Device`.
pub fn decompress(frame: Source, gpu: u32, dst: Destination, verify: Verify, context: &Context) -> Result<usize> {
    let mut start = [0; MAX_HEADER_BYTES];
    let header = Header::parse(first_bytes(frame, gpu, &mut start)?)?;
    entry_of(&header)?;
    check_payload(&header, frame.n_bytes() - header.n_bytes() as u64)?;
    let need = header.array.n_bytes();
    let dst = dst.first(need)?;
    on_gpu(gpu, frame, dst, |stream, frame, dst| {
        if or_cpu(context.settings(), decode(&header, stream, frame, dst, verify, context))?.is_some() {
            return Ok(need as usize);
        }
        through_host(stream, frame, dst, need, context, |frame, dst, on_cpu| {
            super::decompress(frame, dst, verify, on_cpu)
        })
    })
}

/// [`inspect`](super::inspect) for a frame in memory of GPU `gpu`.
///
/// # Errors
/// As `inspect`, and `Device`.
pub fn inspect(frame: DeviceSlice, gpu: u32) -> Result<FrameInfo> {
    super::inspect(first_bytes(Source::Device(frame), gpu, &mut [0; MAX_HEADER_BYTES])?)
}

/// As many of the first bytes of `src` as fit into `start`, or all of them where they are of the host.
fn first_bytes<'a>(src: Source<'a>, gpu: u32, start: &'a mut [u8]) -> Result<&'a [u8]> {
    match src {
        Source::Host(bytes) => Ok(bytes),
        Source::Device(bytes) => {
            let n_bytes = bytes.n_bytes().min(start.len() as u64);
            let start = &mut start[..n_bytes as usize];
            Device::of_gpu(gpu)?.stream()?.copy_out(bytes.slice(0..n_bytes)?, start)?;
            Ok(start)
        }
    }
}

/// Calls `work` with both memories on the GPU, and takes home what belongs to the host: the bytes that
/// `work` says it has written.
fn on_gpu(
    gpu: u32,
    src: Source,
    dst: Destination,
    work: impl FnOnce(&Stream, DeviceSlice, DeviceSlice) -> Result<usize>,
) -> Result<usize> {
    let stream = Device::of_gpu(gpu)?.stream()?;
    let staged_src;
    let src = match src {
        Source::Device(src) => src,
        Source::Host(bytes) => {
            let n_bytes = bytes.len() as u64;
            staged_src = stream.alloc(n_bytes.next_multiple_of(ALIGNMENT))?;
            let staged = staged_src.slice(0..n_bytes)?;
            stream.copy_in(staged, bytes)?;
            staged
        }
    };
    match dst {
        Destination::Device(dst) => work(&stream, src, dst),
        Destination::Host(dst) => {
            let staged = stream.alloc(dst.len() as u64)?;
            let n_bytes = work(&stream, src, staged.all())?;
            stream.copy_out(staged.slice(0..n_bytes as u64)?, &mut dst[..n_bytes])?;
            Ok(n_bytes)
        }
    }
}

/// What only the CPU can do: `work` on copies in host memory, `need` bytes of the destination.
fn through_host(
    stream: &Stream,
    src: DeviceSlice,
    dst: DeviceSlice,
    need: u64,
    context: &Context,
    work: impl FnOnce(&[u8], &mut [u8], &Context) -> Result<usize>,
) -> Result<usize> {
    let mut host_src = context.scratch(src.n_bytes() as usize)?;
    stream.copy_out(src, &mut host_src)?;
    let mut host_dst = context.scratch(need as usize)?;
    let limits = Context { pool: None, memory_limit: context.memory_limit, settings: None };
    let n_bytes = work(&host_src, &mut host_dst, &limits.on(Backend::Cpu, None)?)?;
    stream.copy_in(dst.slice(0..n_bytes as u64)?, &host_dst[..n_bytes])?;
    Ok(n_bytes)
}

/// Whether kernels may be given this address.
fn is_aligned(memory: DeviceSlice, alignment: u64) -> bool {
    memory.address().is_multiple_of(alignment)
}

/// Encodes on the GPU: bytes of the frame, or `None` if the CPU has to do it.
fn encode(
    array: &Array,
    spec: &Spec,
    stream: &Stream,
    src: DeviceSlice,
    dst: DeviceSlice,
    context: &Context,
) -> Result<Option<usize>> {
    let entry = spec.entry;
    let planned = kernels(array, entry, context).zip(entry.codec.plan(array));
    let Some((codec, plan)) = planned else { return Ok(None) };
    if !is_aligned(src, u64::from(array.element_size())) {
        return Ok(None);
    }
    let header_bytes = header_bytes(array.shape().rank(), plan.params.len()) as u64;
    let bound = plan.bound.next_multiple_of(ALIGNMENT);
    // The caller's memory, if it has the room and the alignment that the kernels want.
    let fits = is_aligned(dst, ALIGNMENT) && dst.n_bytes() >= header_bytes + bound;
    let staged = if fits { None } else { Some(stream.alloc(bound)?) };
    let payload = match &staged {
        None => dst.slice(header_bytes..header_bytes + bound)?,
        Some(staged) => staged.all(),
    };
    let result = result_buffer(stream)?;
    codec.encode(&job(array, entry, plan.fold, &plan.params, context), stream, src, payload, result.all())?;
    let (n_bytes, sums) = read_result(stream, result.all())?;
    if n_bytes >= src.n_bytes() {
        return Ok(None);
    }
    if staged.is_some() {
        stream.copy(dst.slice(header_bytes..header_bytes + n_bytes)?, payload.slice(0..n_bytes)?)?;
    }
    let mut header = vec![0; header_bytes as usize];
    header_of(array, entry, &plan, &Encoded { n_bytes: n_bytes as usize, sums }).emit(&mut header);
    stream.copy_in(dst.slice(0..header_bytes)?, &header)?;
    Ok(Some((header_bytes + n_bytes) as usize))
}

/// The kernels for such elements, if there are any and the caller does not want the CPU.
fn kernels(array: &Array, entry: &Entry, context: &Context) -> Option<&'static dyn GpuCodec> {
    entry.gpu.filter(|_| !is_swapped(array, entry) && context.settings().backend != Backend::Cpu)
}

/// Decodes on the GPU; `None` if the CPU has to do it.
fn decode(
    header: &Header,
    stream: &Stream,
    frame: DeviceSlice,
    dst: DeviceSlice,
    verify: Verify,
    context: &Context,
) -> Result<Option<()>> {
    let (array, entry) = (&header.array, entry_of(header)?);
    let header_bytes = header.n_bytes() as u64;
    let codec = kernels(array, entry, context).filter(|_| is_aligned(dst, u64::from(array.element_size())));
    let Some(codec) = codec else { return Ok(None) };
    let payload = frame.slice(header_bytes..frame.n_bytes())?;
    let staged: Option<DeviceBuffer> =
        if is_aligned(payload, ALIGNMENT) && payload.n_bytes().is_multiple_of(ALIGNMENT) {
            None
        } else {
            Some(stream.alloc(payload.n_bytes().next_multiple_of(ALIGNMENT))?)
        };
    let payload = match &staged {
        None => payload,
        Some(staged) => {
            let copy = staged.slice(0..payload.n_bytes())?;
            stream.copy(copy, payload)?;
            copy
        }
    };
    let result = result_buffer(stream)?;
    let job = job(array, entry, header.fold, header.params, context);
    codec.decode(&job, stream, payload, dst.slice(0..array.n_bytes())?, result.all())?;
    let (_, sums) = read_result(stream, result.all())?;
    if verify == Verify::Checksum && sums.mixed() != header.payload_checksum {
        return Err(Error::corrupt("the data is damaged: its checksum does not match"));
    }
    Ok(Some(()))
}
