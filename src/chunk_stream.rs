//! The chunks of a dataset on GPUs: arrays are gathered from, or scattered to, memory of any layout,
//! and every frame has its own place, such as a file.
//!
//! A thread of the call runs the pipelines. The calling thread receives what is complete, in the
//! order of the chunks, so that it can write frames to a file meanwhile.
#![allow(unsafe_code, reason = "lends memory to pipelines")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::backend::{self, Attempt, Copies, HostWork};
use crate::batch_sizer::BatchSizer;
use crate::chunks::on_gpus;
use crate::chunks_gpu::pipelines;
use crate::context::Context;
use crate::frame::{FRAME_ALIGNMENT, Verify, max_packed_bytes};
use crate::log;
use crate::pipeline::compress::CompressPipeline;
use crate::pipeline::decompress::DecompressPipeline;
use crate::pipeline::{DEPTH, Input, Output};
use crate::prepared::Prepared;
use crate::scheduler::{self, CompressIo, DecompressIo, WorkQueue};
use crate::strided_copy::{DeviceBox, StridedCopy};
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::cpu::pages::can_map;
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, DeviceSlice, PinnedBuffer, Stream};

/// The arrays of chunks that are compressed.
#[derive(Clone, Copy)]
pub enum ChunkInputs<'a> {
    /// In host memory. Copies bytes of the array of a chunk, from the given offset on. Several
    /// threads call it, each byte in exactly one call.
    Host(&'a (dyn Fn(u64, usize, &mut [u8]) + Sync)),
    /// In GPU memory.
    Device(DeviceChunks<'a>),
}

/// The arrays of chunks that are decompressed.
#[derive(Clone, Copy)]
pub enum ChunkOutputs<'a> {
    /// In host memory. Stores bytes of the array of a chunk, from the given offset on. Several
    /// threads call it, each byte in exactly one call.
    Host(&'a (dyn Fn(u64, usize, &[u8]) + Sync)),
    /// In GPU memory.
    Device(DeviceChunks<'a>),
}

/// Chunks in GPU memory.
#[derive(Clone, Copy)]
pub struct DeviceChunks<'a> {
    /// Memory that contains all elements.
    pub memory: DeviceSlice<'a>,
    /// The elements of a chunk that the memory contains.
    pub copy_of: &'a (dyn Fn(u64) -> StridedCopy + Sync),
    /// The element in the rest of a chunk.
    pub padding: &'a [u8],
}

/// Reads bytes of a frame, from the given offset on.
pub type ReadFrame<'a> = dyn Fn(u64, usize, &mut [u8]) -> Result<()> + Sync + 'a;

/// Frames that are decompressed.
pub struct FrameInputs<'a> {
    /// The length of each frame.
    pub lengths: &'a [u64],
    /// Several threads call it, each byte in exactly one call.
    pub read: &'a ReadFrame<'a>,
    /// Decompresses a frame without a GPU. Called for frames that the kernels reject: those of
    /// other codecs, and damaged ones.
    pub decompress: &'a (dyn Fn(u64) -> Result<()> + Sync),
}

/// Chunks of one array type that GPUs process.
pub struct ChunkStream<'a> {
    /// The plan of all chunks.
    prepared: &'a Prepared,
    batch_bytes: u64,
    context: &'a Context,
    devices: Vec<&'static Device>,
}

/// Maximum raw bytes of a batch. Its frames fit into 64 MiB with their headers. The memory of all
/// batches in flight fits into the caches of GPU memory and of pinned memory, so that it need not be
/// allocated again in every call.
const MAX_BATCH_BYTES: u64 = 63 << 20;
/// Memory that must be available for the stack and the heap of a further thread.
const THREAD_BYTES: usize = 8 << 20;

/// Frames that are downloaded to host memory, or have arrived there.
struct Download {
    chunks: Range<u64>,
    lengths: Vec<u64>,
    packed: PinnedBuffer,
}

/// The calling thread has stopped, for a reason that it reports itself.
fn stopped() -> Error {
    Error::internal("the thread that receives chunks has stopped")
}

/// Starts kernels that copy the arrays of `chunks` between `adjacent`, which has `array_bytes` bytes
/// for each, and the caller's memory.
fn copy_boxes(
    device_chunks: &DeviceChunks,
    chunks: &Range<u64>,
    stream: &Stream,
    adjacent: DeviceSlice,
    array_bytes: u64,
    is_gathered: bool,
) -> Result<()> {
    let DeviceChunks { memory, copy_of, padding } = *device_chunks;
    let mut padding_on_device = None;
    for (i, number) in chunks.clone().enumerate() {
        let copy = copy_of(number);
        let chunk = adjacent.slice(i as u64 * array_bytes..(i as u64 + 1) * array_bytes)?;
        let chunk_box = DeviceBox { stream, array: memory, chunk };
        if is_gathered && copy.n_bytes() < array_bytes {
            if padding_on_device.is_none() {
                let element = stream.alloc(padding.len() as u64)?;
                stream.copy_in(element.all(), padding)?;
                padding_on_device = Some(element);
            }
            let element = padding_on_device.as_ref().expect("it was allocated");
            // SAFETY: the element is freed in stream order. The chunk lives as long as the pipeline.
            unsafe { chunk_box.fill(element.all())? };
        }
        // SAFETY: the pipelines synchronize their streams before the caller's memory is returned.
        unsafe { if is_gathered { chunk_box.gather(&copy)? } else { chunk_box.scatter(&copy)? } }
    }
    Ok(())
}

/// Calls `visit` for each chunk that has bytes in a range of adjacent arrays of `array_bytes` bytes.
/// The range has `n_bytes` bytes and begins at byte `at` of chunk `first`. Arguments: the chunk, the
/// offset in it, and the range within the `n_bytes` bytes.
fn for_each_chunk(
    (first, at, n_bytes): (u64, usize, usize),
    array_bytes: usize,
    mut visit: impl FnMut(u64, usize, Range<usize>),
) {
    let mut done = 0;
    while done < n_bytes {
        let (i, within) = ((at + done) / array_bytes, (at + done) % array_bytes);
        let n = (array_bytes - within).min(n_bytes - done);
        visit(first + i as u64, within, done..done + n);
        done += n;
    }
}

struct Compression<'a> {
    inputs: ChunkInputs<'a>,
    array_bytes: u64,
    device: &'static Device,
    /// Frames whose download has begun, oldest first.
    in_flight: VecDeque<Download>,
    arrived: Sender<Download>,
    /// Buffers that the calling thread has returned, and the number of those not yet allocated. The
    /// mutex lets threads share the rest.
    free: Mutex<Receiver<PinnedBuffer>>,
    n_new: usize,
}

impl<'a> CompressIo<'a> for Compression<'a> {
    fn arrays(&self, _chunks: Range<u64>) -> Result<Input<'a>> {
        Ok(match self.inputs {
            ChunkInputs::Host(_) => Input::Staged,
            ChunkInputs::Device(_) => Input::Gathered,
        })
    }

    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        let ChunkInputs::Host(copy) = self.inputs else { return };
        for_each_chunk((chunks.start, at, bytes.len()), self.array_bytes as usize, |i, within, range| {
            copy(i, within, &mut bytes[range]);
        });
    }

    fn gather(&self, chunks: &Range<u64>, stream: &Stream, dst: DeviceSlice) -> Result<()> {
        match &self.inputs {
            ChunkInputs::Host(_) => Ok(()),
            ChunkInputs::Device(arrays) => copy_boxes(arrays, chunks, stream, dst, self.array_bytes, true),
        }
    }

    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Output<'_>> {
        let n_bytes = lengths.iter().map(|n| n.next_multiple_of(FRAME_ALIGNMENT)).sum::<u64>() as usize;
        let free = lock(&self.free);
        let buffer = match self.n_new {
            0 => Some(free.recv().map_err(|_| stopped())?),
            _ => free.try_recv().ok(),
        };
        drop(free);
        self.n_new -= usize::from(buffer.is_none());
        let packed = match buffer.filter(|buffer| buffer.len() >= n_bytes) {
            Some(buffer) => buffer,
            None => self.device.pinned(n_bytes)?,
        };
        self.in_flight.push_back(Download { chunks, lengths: lengths.to_vec(), packed });
        let packed = &mut self.in_flight.back_mut().expect("it was added").packed;
        Ok(Output::Pinned(&mut packed[..n_bytes]))
    }

    fn drain(&self, _chunks: &Range<u64>, _at: usize, _bytes: &[u8]) {}

    fn done(&mut self, _chunks: Range<u64>) -> Result<()> {
        let arrived = self.in_flight.pop_front().ok_or_else(|| Error::internal("frames arrived twice"))?;
        self.arrived.send(arrived).map_err(|_| stopped())
    }
}

struct Decompression<'a> {
    frames: &'a FrameInputs<'a>,
    outputs: ChunkOutputs<'a>,
    array_bytes: u64,
    /// Offset of each frame, as if they were packed.
    offsets: Vec<u64>,
    done: Sender<Range<u64>>,
    /// The first error of reading a frame.
    failed: Mutex<Option<Error>>,
}

impl<'a> DecompressIo<'a> for Decompression<'a> {
    fn frames(&self, chunks: Range<u64>) -> Result<(&'a [u64], Input<'a>)> {
        Ok((&self.frames.lengths[chunks.start as usize..chunks.end as usize], Input::Staged))
    }

    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        let (begin, n_bytes) = (self.offsets[chunks.start as usize] + at as u64, bytes.len() as u64);
        let first = self.offsets.partition_point(|&offset| offset <= begin) - 1;
        for i in first..self.frames.lengths.len() {
            let (from, to) = (self.offsets[i].max(begin), self.offsets[i + 1].min(begin + n_bytes));
            if self.offsets[i] >= begin + n_bytes {
                break;
            }
            if from >= to {
                continue;
            }
            let (frame, padding) = bytes[(from - begin) as usize..(to - begin) as usize]
                .split_at_mut(((self.offsets[i] + self.frames.lengths[i]).min(to).saturating_sub(from)) as usize);
            padding.fill(0);
            if !frame.is_empty()
                && let Err(error) = (self.frames.read)(i as u64, (from - self.offsets[i]) as usize, frame)
            {
                frame.fill(0);
                lock(&self.failed).get_or_insert(error);
            }
        }
    }

    fn arrays(&self, _chunks: Range<u64>) -> Result<Output<'_>> {
        Ok(match self.outputs {
            ChunkOutputs::Host(_) => Output::Staged,
            ChunkOutputs::Device(_) => Output::Scattered,
        })
    }

    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        let ChunkOutputs::Host(store) = self.outputs else { return };
        for_each_chunk((chunks.start, at, bytes.len()), self.array_bytes as usize, |i, within, range| {
            store(i, within, &bytes[range]);
        });
    }

    fn scatter(&self, chunks: &Range<u64>, stream: &Stream, src: DeviceSlice) -> Result<()> {
        match &self.outputs {
            ChunkOutputs::Host(_) => Ok(()),
            ChunkOutputs::Device(arrays) => copy_boxes(arrays, chunks, stream, src, self.array_bytes, false),
        }
    }

    fn rejected(&self, i: u64) -> Result<()> {
        self.check_reads()?;
        (self.frames.decompress)(i)
    }

    fn done(&self, chunks: Range<u64>) -> Result<()> {
        self.check_reads()?;
        self.done.send(chunks).map_err(|_| stopped())
    }
}

impl Decompression<'_> {
    /// # Errors
    /// The first error of reading a frame.
    fn check_reads(&self) -> Result<()> {
        lock(&self.failed).take().map_or(Ok(()), Err)
    }
}

impl<'a> ChunkStream<'a> {
    /// The GPUs for about `n_chunks` chunks, whose arrays are in `memory` or, if that is `None`, in
    /// host memory. Batches have at most `batch_bytes` raw bytes. `None`: the CPU should process them,
    /// or a chunk is larger than a batch.
    ///
    /// # Errors
    /// `Device`, `InvalidArgument` if the GPU is required; `InvalidArgument` for memory of another GPU
    /// than the context's.
    pub fn new(
        (prepared, direction): (&'a Prepared, Direction),
        n_chunks: u64,
        memory: Option<DeviceSlice>,
        batch_bytes: u64,
        context: &'a Context,
    ) -> Result<Option<Self>> {
        let (settings, array_bytes) = (context.settings()?, prepared.array.n_bytes());
        let is_too_large = array_bytes > batch_bytes.min(MAX_BATCH_BYTES);
        if n_chunks == 0 || array_bytes == 0 || is_too_large || prepared.entry.id == STORED {
            return Ok(None);
        }
        let devices = if let Some(memory) = memory {
            let device = Device::of_memory(&[memory])?;
            context.check_device(device)?;
            (settings.backend != Backend::Cpu).then(|| vec![device])
        } else {
            let raw_bytes = n_chunks.saturating_mul(array_bytes);
            let (speeds, threads) = (prepared.speeds(), context.pool().threads());
            let work = HostWork { raw_bytes, direction, speeds, threads, copies: Copies::Staged };
            backend::for_host_memory(settings, &work, Device::wanted)?
        };
        Ok(devices.map(|devices| Self { prepared, batch_bytes, context, devices }))
    }

    fn array_bytes(&self) -> u64 {
        self.prepared.array.n_bytes()
    }

    /// `is_staged`: larger batches are faster from the start, because the bus limits them.
    fn sizer(&self, is_staged: bool) -> BatchSizer {
        let limit = (self.batch_bytes / self.devices.len() as u64).min(MAX_BATCH_BYTES);
        BatchSizer::new(self.array_bytes(), limit, is_staged)
    }

    /// Compresses `n_chunks` chunks. The calling thread calls `store` with every chunk and its frame, in
    /// order, while the GPUs go on. Returns the number of chunks that were stored: if it is smaller
    /// than the number of chunks, the CPU must process the rest.
    ///
    /// # Errors
    /// The first error of `store`; those of the GPUs if they are required.
    pub fn compress(
        &self,
        n_chunks: u64,
        inputs: ChunkInputs,
        store: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let (devices, mut stored) = (&self.devices, 0);
        let n_stored = &mut stored;
        on_gpus(devices, self.context.settings()?, || {
            let ((arrived, receiver), (recycle, free)) = (channel(), channel());
            let work = || {
                let mut io = Compression {
                    inputs,
                    array_bytes: self.array_bytes(),
                    device: devices[0],
                    in_flight: VecDeque::new(),
                    arrived,
                    free: Mutex::new(free),
                    // More than the batches in flight, so that the calling thread always has some
                    // that return.
                    n_new: DEPTH * devices.len() + 2,
                };
                // The file is slower than copies, and gets its first frames earlier from small batches.
                let (queue, mut sizer) = (WorkQueue::new(n_chunks), self.sizer(false));
                // The pipelines are dropped before the memory that `io` lends to them.
                pipelines(devices, |device| CompressPipeline::new(device, self.prepared))?.and_then(|mut all| {
                    let chunks = (&queue, self.array_bytes());
                    scheduler::compress(&mut all, &mut io, chunks, &mut sizer, self.context.pool())?;
                    log::stream_times(all.iter().map(CompressPipeline::times), &sizer);
                    Ok(())
                })
            };
            receive(work, receiver, move |Download { chunks, lengths, packed }| {
                let mut at = 0;
                for (i, n_bytes) in chunks.zip(lengths) {
                    store(i, &packed[at..at + n_bytes as usize])?;
                    at += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
                    *n_stored = i + 1;
                }
                // After the last batch, the worker does not receive it.
                let _ = recycle.send(packed);
                Ok(())
            })
        })?;
        Ok(stored)
    }

    /// Decompresses all chunks. The calling thread calls `done` with every range of chunks that is
    /// complete, in order. Returns the number of chunks that are complete, as
    /// [`compress`](Self::compress).
    ///
    /// # Errors
    /// The first error of reading or decompressing a frame, or of `done`; those of the GPUs if they
    /// are required.
    pub fn decompress(
        &self,
        frames: &FrameInputs,
        outputs: ChunkOutputs,
        verify: Verify,
        done: &mut dyn FnMut(Range<u64>) -> Result<()>,
    ) -> Result<u64> {
        let (devices, mut n_done) = (&self.devices, 0);
        on_gpus(devices, self.context.settings()?, || {
            let (sender, receiver) = channel();
            let work = || {
                let mut offsets = vec![0];
                offsets.extend(frames.lengths.iter().scan(0, |end, n_bytes| {
                    *end += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
                    Some(*end)
                }));
                let (array_bytes, failed) = (self.array_bytes(), Mutex::new(None));
                let io = Decompression { frames, outputs, array_bytes, offsets, done: sender, failed };
                let (queue, mut sizer) = (WorkQueue::new(frames.lengths.len() as u64), self.sizer(true));
                // No valid frame is longer than that, whatever the lengths say.
                let longest = frames.lengths.iter().copied().max().unwrap_or(0);
                let longest = longest.min(max_packed_bytes(&self.prepared.array));
                let create = |device| DecompressPipeline::new(device, self.prepared, longest, verify);
                // The pipelines are dropped before the memory that `io` lends to them.
                pipelines(devices, create)?.and_then(|mut all| {
                    let chunks = (&queue, array_bytes);
                    scheduler::decompress(&mut all, &io, chunks, &mut sizer, self.context.pool())?;
                    log::stream_times(all.iter().map(DecompressPipeline::times), &sizer);
                    Ok(())
                })
            };
            receive(work, receiver, |chunks: Range<u64>| {
                n_done = chunks.end;
                done(chunks)
            })
        })?;
        Ok(n_done)
    }
}

/// Runs `work` on a thread of its own, while the calling thread calls `each` with everything that
/// the thread sends.
///
/// # Errors
/// The first error of `each`, which also ends the work; else that of the work.
fn receive<T: Send>(
    work: impl FnOnce() -> Result<Attempt<()>> + Send,
    receiver: Receiver<T>,
    mut each: impl FnMut(T) -> Result<()>,
) -> Result<Attempt<()>> {
    let no_thread = || Error::new(ErrorKind::OutOfMemory, "the system has no memory for a further thread");
    std::thread::scope(move |scope| {
        if !can_map(THREAD_BYTES) {
            return Err(no_thread());
        }
        let worker = std::thread::Builder::new().spawn_scoped(scope, work).map_err(|_| no_thread())?;
        let received = receiver.iter().try_for_each(&mut each);
        // After an error or a panic, the worker must not wait for what `each` would send. It stops
        // when it sends or receives next.
        drop((receiver, each));
        let worked = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.and(worked)
    })
}
