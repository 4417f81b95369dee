//! Many chunks on GPUs. Batches go through pipelines, so that copies and kernels overlap. All CPU
//! threads copy pageable memory; if all memory is pinned, they can help to decompress instead.
#![allow(unsafe_code, reason = "several threads and GPUs write parts of one memory")]

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{Attempt, PINNED_SPEED};
use crate::batch_sizer::BatchSizer;
use crate::chunk_array::{ChunkArray, array_mismatch, frame_error, to_usize, too_small};
use crate::chunks_cpu::decompress_one;
use crate::context::Context;
use crate::frame::{FRAME_ALIGNMENT, Verify, max_packed_bytes};
use crate::log;
use crate::memory::{Destination, Source, start_of, through_host};
use crate::pipeline::compress::CompressPipeline;
use crate::pipeline::decompress::DecompressPipeline;
use crate::pipeline::{Input, Output};
use crate::prepared::Prepared;
use crate::scheduler::{self, CompressIo, DecompressIo, WorkQueue};
use gridz_codecs::codec::Speeds;
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Error, Result, try_vec};
use gridz_codecs::format::header::{Header, MAX_HEADER_BYTES};
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, DeviceSlice, Stream, is_pinned};

/// Host or GPU memory that receives a result.
enum Endpoint<'d> {
    Device(DeviceSlice<'d>),
    /// Pinned, and without gaps between arrays.
    Pinned(SharedBytes<'d>),
    Host(SharedBytes<'d>),
}

impl<'d> Endpoint<'d> {
    fn new(dst: Destination<'d>, is_dense: bool) -> Self {
        match dst {
            Destination::Device(dst) => Self::Device(dst),
            Destination::Host(dst) if is_dense && is_pinned(dst) => Self::Pinned(SharedBytes::new(dst)),
            Destination::Host(dst) => Self::Host(SharedBytes::new(dst)),
        }
    }

    /// A part of the memory as a batch's output.
    fn output(&self, bytes: Range<u64>, stride: u64) -> Result<Output<'_>> {
        Ok(match self {
            Self::Device(dst) => Output::Device(dst.slice(bytes)?, stride),
            // SAFETY: each part is the output of one batch, and no other code accesses it before
            // that is done.
            Self::Pinned(dst) => Output::Pinned(unsafe { dst.part(to_usize(bytes)) }),
            Self::Host(_) => Output::Staged,
        })
    }

    /// Stores bytes of a staged copy.
    fn drain(&self, at: usize, bytes: &[u8]) {
        if let Self::Host(dst) = self {
            // SAFETY: every byte is drained once, and no other code accesses it before the batch is
            // done.
            unsafe { dst.write(at, bytes) };
        }
    }
}

/// A part of the source as a batch's input.
fn input(src: Source<'_>, is_pinned: bool, bytes: Range<u64>, stride: u64) -> Result<Input<'_>> {
    Ok(match src {
        Source::Device(src) => Input::Device(src.slice(bytes)?, stride),
        Source::Host(src) if is_pinned => Input::Pinned(&src[to_usize(bytes)]),
        Source::Host(_) => Input::Staged,
    })
}

/// A compression from memory to memory.
struct Compression<'d> {
    chunks: &'d ChunkArray,
    src: Source<'d>,
    /// True if the GPU can read the source directly.
    is_pinned: bool,
    dst: Endpoint<'d>,
    capacity: u64,
    lengths: &'d mut [u64],
    /// Offset of each frame so far, and the end of the last one.
    offsets: Vec<u64>,
}

impl<'d> CompressIo<'d> for Compression<'d> {
    fn arrays(&self, chunks: Range<u64>) -> Result<Input<'d>> {
        input(self.src, self.is_pinned, self.chunks.span_of(chunks), self.chunks.step())
    }

    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        let Source::Host(src) = self.src else { return };
        self.chunks.pieces(chunks.start, at, bytes.len(), |range, piece| {
            bytes[piece].copy_from_slice(&src[range]);
        });
    }

    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Output<'_>> {
        self.lengths[to_usize(chunks)].copy_from_slice(lengths);
        let mut end = self.end();
        let begin = end;
        for n_bytes in lengths {
            end += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
            self.offsets.push(end);
        }
        if end > self.capacity {
            return Err(too_small(self.capacity, &self.chunks.array, self.chunks.n_chunks));
        }
        self.dst.output(begin..end, 0)
    }

    fn gather(&self, _chunks: &Range<u64>, _stream: &Stream, _dst: DeviceSlice) -> Result<()> {
        Err(Error::internal("chunks of one stride need not be gathered"))
    }

    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        self.dst.drain(self.offsets[chunks.start as usize] as usize + at, bytes);
    }

    fn done(&mut self, _chunks: Range<u64>) -> Result<()> {
        Ok(())
    }
}

impl Compression<'_> {
    fn end(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }
}

/// A decompression from memory to memory.
struct Decompression<'d> {
    chunks: &'d ChunkArray,
    frames: Source<'d>,
    /// True if the GPU can read the frames directly.
    is_pinned: bool,
    lengths: &'d [u64],
    /// Offset of each frame, and the end of the last one.
    offsets: &'d [u64],
    dst: Endpoint<'d>,
    verify: Verify,
    context: &'d Context,
}

impl<'d> DecompressIo<'d> for Decompression<'d> {
    fn frames(&self, chunks: Range<u64>) -> Result<(&'d [u64], Input<'d>)> {
        let packed = self.offsets[chunks.start as usize]..self.offsets[chunks.end as usize];
        Ok((&self.lengths[to_usize(chunks)], input(self.frames, self.is_pinned, packed, 0)?))
    }

    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        if let Source::Host(frames) = self.frames {
            let at = self.offsets[chunks.start as usize] as usize + at;
            bytes.copy_from_slice(&frames[at..at + bytes.len()]);
        }
    }

    fn arrays(&self, chunks: Range<u64>) -> Result<Output<'_>> {
        self.dst.output(self.chunks.span_of(chunks), self.chunks.step())
    }

    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        self.chunks.pieces(chunks.start, at, bytes.len(), |range, piece| {
            self.dst.drain(range.start, &bytes[piece]);
        });
    }

    fn scatter(&self, _chunks: &Range<u64>, _stream: &Stream, _src: DeviceSlice) -> Result<()> {
        Err(Error::internal("chunks of one stride need not be scattered"))
    }

    fn done(&self, _chunks: Range<u64>) -> Result<()> {
        Ok(())
    }

    /// The frame is damaged, or a valid one of another codec.
    fn rejected(&self, i: u64) -> Result<()> {
        self.decompress_on_cpu(i, self.context)
    }
}

impl Decompression<'_> {
    /// Decompresses frame `i` on the CPU. No batch in flight may contain it.
    fn decompress_on_cpu(&self, i: u64, context: &Context) -> Result<()> {
        let begin = self.offsets[i as usize];
        let (packed, range) = (begin..begin + self.lengths[i as usize], self.chunks.span_of(i..i + 1));
        let frame = match self.frames {
            Source::Host(frames) => Source::Host(&frames[to_usize(packed)]),
            Source::Device(frames) => Source::Device(frames.slice(packed)?),
        };
        let dst = match &self.dst {
            Endpoint::Device(dst) => Destination::Device(dst.slice(range)?),
            // SAFETY: no batch in flight contains the chunk, and the part belongs to that chunk
            // alone.
            Endpoint::Pinned(dst) | Endpoint::Host(dst) => Destination::Host(unsafe { dst.part(to_usize(range)) }),
        };
        let device = self.context.device_of(&frame, &dst)?;
        let (array, verify) = (&self.chunks.array, self.verify);
        let work = |frame: &[u8], dst: &mut [u8]| {
            decompress_one(array, i as usize, frame, dst, verify, context).map(|()| dst.len())
        };
        through_host(device, frame, dst, array.n_bytes(), context, work).map(drop)
    }
}

/// A pipeline on each device, if there are kernels.
pub fn pipelines<P>(
    devices: &[&'static Device],
    create: impl Fn(&'static Device) -> Result<Attempt<P>>,
) -> Result<Attempt<Vec<P>>> {
    let mut pipelines = Vec::new();
    for device in devices {
        match create(device)? {
            Attempt::Done(pipeline) => pipelines.push(pipeline),
            Attempt::Unsupported(reason) => return Ok(Attempt::Unsupported(reason)),
        }
    }
    Ok(Attempt::Done(pipelines))
}

/// Compresses on these devices, at least one, as
/// [`compress_chunks`](crate::chunks::compress_chunks).
pub fn compress_gpu(
    devices: &[&'static Device],
    chunks: &ChunkArray,
    prepared: &Prepared,
    src: Source,
    dst: Destination,
    lengths: &mut [u64],
    context: &Context,
) -> Result<Attempt<u64>> {
    let mut io = Compression {
        chunks,
        src,
        is_pinned: matches!(src, Source::Host(bytes) if is_pinned(bytes)) && chunks.is_dense(),
        capacity: dst.n_bytes(),
        dst: Endpoint::new(dst, true),
        lengths,
        offsets: vec![0],
    };
    let (queue, array_bytes) = (WorkQueue::new(chunks.n_chunks as u64), chunks.array.n_bytes());
    let is_staged = matches!(io.dst, Endpoint::Host(_)) || matches!(src, Source::Host(_)) && !io.is_pinned;
    let mut sizer = BatchSizer::new(array_bytes, context.batch_bytes() / devices.len() as u64, is_staged);
    // The pipelines are dropped before the memory that `io` lends to them.
    pipelines(devices, |device| CompressPipeline::new(device, prepared))?.and_then(|mut pipelines| {
        scheduler::compress(&mut pipelines, &mut io, (&queue, array_bytes), &mut sizer, context.pool())?;
        log::stream_times(pipelines.iter().map(CompressPipeline::times), &sizer);
        Ok(io.end())
    })
}

/// Decompresses on these devices, at least one, as
/// [`decompress_chunks`](crate::chunks::decompress_chunks).
pub fn decompress_gpu(
    devices: &[&'static Device],
    chunks: &ChunkArray,
    frames: Source,
    lengths: &[u64],
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<Attempt<()>> {
    let mut offsets = try_vec(lengths.len() + 1, "offsets of frames")?;
    let mut end = 0;
    for n_bytes in lengths {
        offsets.push(end);
        end += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
    }
    offsets.push(end);
    // The first frame determines the codec. Frames of other codecs are rejected by the kernels and
    // decompressed one by one.
    let mut start = [0; MAX_HEADER_BYTES];
    let first = match frames {
        Source::Host(frames) => Source::Host(&frames[..lengths[0] as usize]),
        Source::Device(frames) => Source::Device(frames.slice(0..lengths[0])?),
    };
    let header = Header::parse(start_of(devices.first().copied(), first, &mut start)?)
        .map_err(|error| frame_error(0, &error))?;
    if header.array != chunks.array {
        return Err(frame_error(0, &array_mismatch(&header.array, &chunks.array)));
    }
    let prepared = Prepared::of(&header).map_err(|error| frame_error(0, &error))?.with_variants();
    // No valid frame is longer than that, whatever the lengths say.
    let max_frame_bytes = lengths.iter().copied().max().unwrap_or(0).min(max_packed_bytes(&chunks.array));
    let io = Decompression {
        chunks,
        frames,
        is_pinned: matches!(frames, Source::Host(bytes) if is_pinned(bytes)),
        lengths,
        offsets: &offsets,
        dst: Endpoint::new(dst, chunks.is_dense()),
        verify,
        context,
    };
    let (queue, array_bytes) = (WorkQueue::new(chunks.n_chunks as u64), chunks.array.n_bytes());
    let is_staged = matches!(io.dst, Endpoint::Host(_)) || matches!(frames, Source::Host(_)) && !io.is_pinned;
    let mut sizer = BatchSizer::new(array_bytes, context.batch_bytes() / devices.len() as u64, is_staged);
    let create = |device| DecompressPipeline::new(device, &prepared, max_frame_bytes, verify);
    // The pipelines are dropped before the memory that `io` lends to them.
    pipelines(devices, create)?.and_then(|mut pipelines| {
        let mut work =
            || scheduler::decompress(&mut pipelines, &io, (&queue, array_bytes), &mut sizer, context.pool());
        // Then CPU threads have nothing to copy, and the bus limits the GPUs.
        let both_pinned = io.is_pinned && matches!(io.dst, Endpoint::Pinned(_));
        if both_pinned && context.settings()?.backend == Backend::Auto {
            with_cpu_help(&io, &queue, (devices.len(), prepared.speeds()), context, work)?
        } else {
            work()?
        }
        log::stream_times(pipelines.iter().map(DecompressPipeline::times), &sizer);
        Ok(())
    })
}

/// Runs `work`, in which GPUs decompress chunks from the front of the queue, while worker threads
/// decompress chunks from its back.
fn with_cpu_help(
    io: &Decompression,
    queue: &WorkQueue,
    (n_gpus, speeds): (usize, Speeds),
    context: &Context,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (pool, one_thread) = (context.pool(), context.of_one_thread()?);
    let (n_done, failed) = (AtomicU64::new(0), Mutex::new(None));
    // Chunks that the GPUs decompress while a thread decompresses one. If fewer are left, the GPUs
    // would wait for the thread.
    let [_, of_core] = speeds.core;
    let of_gpu = speeds.slow_kernels.map_or(PINNED_SPEED, |[_, kernels]| kernels.min(PINNED_SPEED));
    let min_left = (of_gpu / of_core).ceil() as u64 * n_gpus as u64;
    let step = || {
        let Some(i) = queue.pop_back(min_left) else { return false };
        n_done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = io.decompress_on_cpu(i, &one_thread) {
            let mut first = lock(&failed);
            if first.as_ref().is_none_or(|&(known, _)| i < known) {
                *first = Some((i, error));
            }
        }
        true
    };
    pool.run_with_helpers(&step, |call_worker| {
        (1..pool.threads()).for_each(|_| call_worker());
        // After an error the remaining chunks are not needed.
        work().inspect_err(|_| queue.clear())
    })?;
    log::cpu_help(log::CPU, n_done.into_inner());
    lock(&failed).take().map_or(Ok(()), |(_, error)| Err(error))
}
