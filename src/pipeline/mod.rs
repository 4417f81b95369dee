//! GPU pipelines: batches of chunks on one GPU, several of them in flight at the same time.
//!
//! ```text
//! upload    host -> GPU        batch 3 |          |
//! compute   kernels, packing           | batch 2  |
//! download  GPU -> host                |          | batch 1
//! ```
//!
//! A pipeline has three streams, ordered by events. It has a ring of [`DEPTH`] entries, each with
//! the GPU buffers and pinned buffers of one batch. The caller begins a batch in a free entry and
//! finishes it later. Buffers that only kernels use, such as the slots of frames, exist once: the
//! kernels of all batches run in order on one stream.
//!
//! `compress` and `decompress` describe the work of one batch in each direction.
//!
//! Dropping a pipeline synchronizes its streams. No other call blocks unless its documentation says
//! so.
#![allow(unsafe_code, reason = "gives memory to streams")]

pub mod compress;
pub mod decompress;

use std::ops::Range;
use std::time::Duration;

use crate::staging::{Download, Upload};
use gridz_codecs::error::{Error, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Event, PinnedBuffer, Stream};

/// Maximum number of batches in flight: one per stream.
pub const DEPTH: usize = 3;

/// Time that a pipeline's streams were busy.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamTimes {
    /// Host to device copies.
    pub upload: Duration,
    /// Kernels.
    pub compute: Duration,
    /// Device to host copies.
    pub download: Duration,
}

/// Location of a batch's input: raw arrays, or packed frames. Arrays are adjacent, or in GPU memory
/// the given number of bytes apart.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Pinned memory.
    Pinned(&'a [u8]),
    /// The pipeline's own input buffer, filled before by a staged copy.
    Staged,
    /// The same, filled by kernels on the upload stream.
    Gathered,
    /// Memory of the pipeline's GPU, and the bytes from array to array; 0 for packed frames.
    Device(DeviceSlice<'a>, u64),
}

/// Destination of a batch's result: arrays or packed frames, laid out as in [`Input`].
pub enum Output<'a> {
    /// Pinned memory.
    Pinned(&'a mut [u8]),
    /// The pipeline's own output buffer, from which a staged copy follows.
    Staged,
    /// The same, from which kernels on the download stream read.
    Scattered,
    /// Memory of the pipeline's GPU, and the bytes from array to array; 0 for packed frames.
    Device(DeviceSlice<'a>, u64),
}

/// Fills staging buffers: see [`Upload`].
pub type FillFn<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);
/// Drains staging buffers: see [`Download`].
pub type DrainFn<'a> = &'a (dyn Fn(usize, &[u8]) + Sync);

struct Streams {
    upload: Stream<'static>,
    compute: Stream<'static>,
    download: Stream<'static>,
}

impl Streams {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { upload: device.stream()?, compute: device.stream()?, download: device.stream()? })
    }

    fn device(&self) -> &'static Device {
        self.upload.device()
    }

    /// Waits until no work on the streams uses any memory.
    fn synchronize(&self) {
        for stream in [&self.upload, &self.compute, &self.download] {
            // If it fails, the CUDA context is lost and no work continues.
            let _ = stream.synchronize();
        }
    }
}

/// Begin and end of a batch's work on one stream.
struct StageEvents {
    begin: Event,
    end: Event,
}

impl StageEvents {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { begin: device.timed_event()?, end: device.timed_event()? })
    }

    fn elapsed(&self) -> Result<Duration> {
        self.end.time_since(&self.begin)
    }
}

struct BatchEvents {
    upload: StageEvents,
    compute: StageEvents,
    download: StageEvents,
}

impl BatchEvents {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self {
            upload: StageEvents::new(device)?,
            compute: StageEvents::new(device)?,
            download: StageEvents::new(device)?,
        })
    }
}

/// GPU memory that grows with the batches. It is used by one stream's work in order, or by one
/// batch at a time.
#[derive(Default)]
struct GrowBuffer(Option<DeviceBuffer<'static>>);

impl GrowBuffer {
    /// At least `n_bytes` bytes. If the buffer must grow, its contents are lost.
    fn reserve(&mut self, stream: &Stream<'static>, n_bytes: u64) -> Result<DeviceSlice<'_>> {
        if self.0.as_ref().is_none_or(|have| have.all().n_bytes() < n_bytes) {
            // Free first, then allocate: the memory pool may return the same memory.
            self.0 = None;
            self.0 = Some(stream.alloc(n_bytes)?);
        }
        self.0.as_ref().expect("it was allocated").slice(0..n_bytes)
    }

    fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.0.as_ref().ok_or_else(|| Error::internal("a buffer was used before it was allocated"))?.slice(range)
    }
}

/// Pinned memory that grows with the batches.
#[derive(Default)]
struct GrowPinned(Option<PinnedBuffer>);

impl GrowPinned {
    /// At least `n_bytes` bytes with arbitrary contents.
    fn reserve(&mut self, device: &'static Device, n_bytes: u64) -> Result<&mut [u8]> {
        if self.0.as_ref().is_none_or(|have| (have.len() as u64) < n_bytes) {
            self.0 = None;
            self.0 = Some(device.pinned(n_bytes as usize)?);
        }
        Ok(&mut self.0.as_mut().expect("it was allocated")[..n_bytes as usize])
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    fn on_device(&self) -> Result<DeviceSlice<'_>> {
        Ok(self.0.as_ref().ok_or_else(|| Error::internal("a buffer was used before it was allocated"))?.on_device())
    }
}

/// An entry of the ring: the buffers and the state of one batch.
struct BatchBuffers {
    events: BatchEvents,
    n_chunks: u64,
    /// True if the batch has work on the upload stream; `has_download`: on the download stream.
    has_upload: bool,
    has_download: bool,
    /// The arrays or packed frames.
    input_buffer: GrowBuffer,
    /// Offsets and lengths of the frames.
    tables: GrowBuffer,
    tables_host: GrowPinned,
    statuses: GrowBuffer,
    /// Pinned result for each frame: its length (compression) or its status (decompression).
    status_host: GrowPinned,
    output_buffer: GrowBuffer,
}

/// A pipeline on one GPU, with the state `D` of its direction.
pub struct Pipeline<D> {
    streams: Streams,
    ring: Vec<BatchBuffers>,
    slots: GrowBuffer,
    times: StreamTimes,
    direction: D,
}

impl<D> Drop for Pipeline<D> {
    /// Must run before any field is dropped: pinned memory returns to a cache that all threads
    /// share.
    fn drop(&mut self) {
        self.streams.synchronize();
    }
}

impl<D> Pipeline<D> {
    fn with(device: &'static Device, direction: D) -> Result<Self> {
        let buffers = || {
            Ok::<_, Error>(BatchBuffers {
                events: BatchEvents::new(device)?,
                n_chunks: 0,
                has_upload: false,
                has_download: false,
                input_buffer: GrowBuffer::default(),
                tables: GrowBuffer::default(),
                tables_host: GrowPinned::default(),
                statuses: GrowBuffer::default(),
                status_host: GrowPinned::default(),
                output_buffer: GrowBuffer::default(),
            })
        };
        Ok(Self {
            streams: Streams::new(device)?,
            ring: (0..DEPTH).map(|_| buffers()).collect::<Result<_>>()?,
            slots: GrowBuffer::default(),
            times: StreamTimes::default(),
            direction,
        })
    }

    pub fn device(&self) -> &'static Device {
        self.streams.device()
    }

    /// Time that the streams were busy with finished batches.
    pub fn times(&self) -> StreamTimes {
        self.times
    }

    /// Allocates the input buffer of a free entry for the next batch of `n_bytes` bytes, which the
    /// caller copies there on the upload stream. Returns both.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn reserve_input(&mut self, index: usize, n_bytes: u64) -> Result<(&Stream<'static>, DeviceSlice<'_>)> {
        let Self { streams, ring, .. } = self;
        let BatchBuffers { events, input_buffer, has_upload, .. } = &mut ring[index];
        *has_upload = true;
        let buffer = input_buffer.reserve(&streams.upload, n_bytes)?;
        streams.upload.record(&events.upload.begin)?;
        Ok((&streams.upload, buffer))
    }

    /// The upload into the buffer that [`reserve_input`](Self::reserve_input) has allocated.
    ///
    /// # Errors
    /// `Internal` if it was not called.
    pub fn staged_upload<'a>(&'a self, index: usize, n_bytes: u64, fill: FillFn<'a>) -> Result<Upload<'a>> {
        Ok(Upload { dst: self.ring[index].input_buffer.slice(0..n_bytes)?, stream: &self.streams.upload, fill })
    }

    /// The download stream, and the output buffer of an entry whose batch is done.
    ///
    /// # Errors
    /// `Internal` if there is no output buffer.
    pub fn output(&self, index: usize, n_bytes: u64) -> Result<(&Stream<'static>, DeviceSlice<'_>)> {
        Ok((&self.streams.download, self.ring[index].output_buffer.slice(0..n_bytes)?))
    }

    /// The download from the output buffer of an entry whose batch is done.
    ///
    /// # Errors
    /// As [`output`](Self::output).
    pub fn staged_download<'a>(&'a self, index: usize, n_bytes: u64, drain: DrainFn<'a>) -> Result<Download<'a>> {
        let (stream, src) = self.output(index, n_bytes)?;
        Ok(Download { src, stream, drain })
    }

    /// Waits until the batch of an entry is done.
    fn finish_batch(&mut self, index: usize) -> Result<&BatchBuffers> {
        let buffers = &self.ring[index];
        let BatchEvents { upload, compute, download } = &buffers.events;
        if buffers.has_download {
            download.end.synchronize()?
        } else {
            compute.end.synchronize()?
        };
        if buffers.has_upload {
            self.times.upload += upload.elapsed()?;
        }
        self.times.compute += compute.elapsed()?;
        if buffers.has_download {
            self.times.download += download.elapsed()?;
        }
        Ok(buffers)
    }
}

/// A batch's input on the GPU, as `n` parts of `n_bytes` bytes, and the bytes from part to part.
/// Uploads it from pinned memory. Copies it within the GPU if its address or stride is not a
/// multiple of `alignment`.
///
/// # Safety
/// All memory must live until the streams have completed the work.
unsafe fn input_on_device<'a>(
    streams: &Streams,
    events: &BatchEvents,
    buffer: &'a mut GrowBuffer,
    input: Input<'a>,
    alignment: u64,
    (n, n_bytes): (u64, u64),
) -> Result<(DeviceSlice<'a>, u64)> {
    let all_bytes = n * n_bytes;
    match input {
        Input::Device(from, stride) if (from.address() | stride).is_multiple_of(alignment) => {
            return Ok((from, stride));
        }
        Input::Device(from, stride) => {
            let to = buffer.reserve(&streams.compute, all_bytes)?;
            // SAFETY: by this function's contract.
            unsafe { copy_arrays(&streams.compute, (to, n_bytes), (from, stride), n, n_bytes)? };
        }
        Input::Pinned(bytes) => {
            let too_short = || Error::internal("a batch is shorter than its size");
            let from = bytes.get(..all_bytes as usize).ok_or_else(too_short)?;
            let to = buffer.reserve(&streams.upload, all_bytes)?;
            streams.upload.record(&events.upload.begin)?;
            // SAFETY: by this function's contract.
            unsafe { streams.upload.bring(to, from)? };
        }
        Input::Staged | Input::Gathered => {}
    }
    Ok((buffer.slice(0..all_bytes)?, n_bytes))
}

/// Makes the compute stream wait for the upload.
fn wait_for_upload(streams: &Streams, events: &BatchEvents) -> Result<()> {
    streams.upload.record(&events.upload.end)?;
    streams.compute.wait(&events.upload.end)
}

/// Copies arrays within the GPU, from one stride to another.
///
/// # Safety
/// Both memories must live until the stream has completed the work.
unsafe fn copy_arrays(
    stream: &Stream,
    (dst, dst_stride): (DeviceSlice, u64),
    (src, src_stride): (DeviceSlice, u64),
    n_arrays: u64,
    n_bytes: u64,
) -> Result<()> {
    if n_bytes == 0 {
        return Ok(());
    }
    for i in 0..n_arrays {
        let to = dst.slice(i * dst_stride..i * dst_stride + n_bytes)?;
        let from = src.slice(i * src_stride..i * src_stride + n_bytes)?;
        // SAFETY: by this function's contract.
        unsafe { stream.copy(to, from)? };
    }
    Ok(())
}
