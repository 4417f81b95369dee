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
//! - Compression: arrays are uploaded or already in GPU memory. Kernels write frames to slots, pack
//!   them, and write their lengths to pinned memory. Once the host knows the lengths, exactly that
//!   many bytes are downloaded.
//! - Decompression: packed frames are uploaded with a table of their offsets. Kernels copy them to
//!   slots and write arrays, which are downloaded unless the output is GPU memory.
//!
//! Dropping a pipeline synchronizes its streams. No other call blocks unless its documentation says
//! so.
#![allow(unsafe_code, reason = "gives memory to streams")]

use std::ops::Range;
use std::time::Duration;

use crate::backend::Attempt;
use crate::frame::{FRAME_ALIGNMENT, Verify, max_packed_bytes, stored_bytes};
use crate::launch::{GpuPlan, LaunchMemory};
use crate::packing::Packing;
use crate::prepared::Prepared;
use crate::staging::{Download, Upload};
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::error::{Error, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Event, PinnedBuffer, Stream};

/// Most batches in flight: one per stream.
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
    /// Memory of the pipeline's GPU, and the bytes from array to array.
    Device(DeviceSlice<'a>, u64),
}

/// Destination of a batch's result: arrays or packed frames, laid out as in [`Input`].
pub enum Output<'a> {
    /// Pinned memory.
    Pinned(&'a mut [u8]),
    /// The pipeline's own output buffer, from which a staged copy follows.
    Staged,
    /// Memory of the pipeline's GPU, and the bytes from array to array.
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

/// The part that both directions share.
pub struct Pipeline {
    streams: Streams,
    ring: Vec<BatchBuffers>,
    slots: GrowBuffer,
    times: StreamTimes,
}

impl Drop for Pipeline {
    /// Must run before any field is dropped: pinned memory returns to a cache that all threads
    /// share.
    fn drop(&mut self) {
        self.streams.synchronize();
    }
}

impl Pipeline {
    fn new(device: &'static Device) -> Result<Self> {
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
        })
    }

    pub fn device(&self) -> &'static Device {
        self.streams.device()
    }

    /// Allocates the input buffer of a free entry for the next batch, which will get `n_bytes`
    /// bytes by a staged copy.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn reserve_input(&mut self, index: usize, n_bytes: u64) -> Result<()> {
        let Self { streams, ring, .. } = self;
        let BatchBuffers { events, input_buffer, has_upload, .. } = &mut ring[index];
        *has_upload = true;
        input_buffer.reserve(&streams.upload, n_bytes)?;
        streams.upload.record(&events.upload.begin)
    }

    /// The upload into the buffer that [`reserve_input`](Self::reserve_input) has allocated.
    ///
    /// # Errors
    /// `Internal` if it was not called.
    pub fn staged_upload<'a>(&'a self, index: usize, n_bytes: u64, fill: FillFn<'a>) -> Result<Upload<'a>> {
        Ok(Upload { dst: self.ring[index].input_buffer.slice(0..n_bytes)?, stream: &self.streams.upload, fill })
    }

    /// The download from the output buffer of an entry whose batch is done.
    ///
    /// # Errors
    /// `Internal` if there is no output buffer.
    pub fn staged_download<'a>(&'a self, index: usize, n_bytes: u64, drain: DrainFn<'a>) -> Result<Download<'a>> {
        Ok(Download {
            src: self.ring[index].output_buffer.slice(0..n_bytes)?,
            stream: &self.streams.download,
            drain,
        })
    }

    /// Waits until the batch of an entry is done.
    fn finish(&mut self, index: usize) -> Result<&BatchBuffers> {
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

impl AsMut<Pipeline> for CompressPipeline<'_> {
    fn as_mut(&mut self) -> &mut Pipeline {
        &mut self.base
    }
}

impl AsRef<Pipeline> for CompressPipeline<'_> {
    fn as_ref(&self) -> &Pipeline {
        &self.base
    }
}

impl AsMut<Pipeline> for DecompressPipeline {
    fn as_mut(&mut self) -> &mut Pipeline {
        &mut self.base
    }
}

impl AsRef<Pipeline> for DecompressPipeline {
    fn as_ref(&self) -> &Pipeline {
        &self.base
    }
}

/// A pipeline that compresses.
pub struct CompressPipeline<'p> {
    base: Pipeline,
    prepared: &'p Prepared,
    plan: GpuPlan,
}

impl<'p> CompressPipeline<'p> {
    /// A pipeline on `device`, if there are kernels.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn new(device: &'static Device, prepared: &'p Prepared) -> Result<Attempt<Self>> {
        let plan = match GpuPlan::new(Direction::Compress, prepared, Verify::Checksum) {
            Attempt::Done(plan) => plan,
            Attempt::Unsupported(reason) => return Ok(Attempt::Unsupported(reason)),
        };
        Ok(Attempt::Done(Self { base: Pipeline::new(device)?, prepared, plan }))
    }

    /// Time that the streams were busy with finished batches.
    pub fn times(&self) -> StreamTimes {
        self.base.times
    }

    /// Begins to compress `n_chunks` arrays in a free entry.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// `arrays` must contain `n_chunks` arrays. They must stay valid and unchanged until the batch
    /// is finished or the pipeline is dropped.
    pub unsafe fn begin(&mut self, index: usize, n_chunks: u64, arrays: Input) -> Result<()> {
        let Self { base: Pipeline { streams, ring, slots, .. }, prepared, plan } = self;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        buffers.n_chunks = n_chunks;
        buffers.has_upload = !matches!(arrays, Input::Device(..));
        buffers.has_download = false;
        let BatchBuffers { events, input_buffer, tables, status_host, output_buffer, .. } = buffers;
        let array_bytes = prepared.array.n_bytes();
        let all_bytes = n_chunks * array_bytes;
        let (arrays, array_stride) = match arrays {
            Input::Device(arrays, stride) if (arrays.address() | stride).is_multiple_of(plan.alignment) => {
                (arrays, stride)
            }
            Input::Device(from, stride) => {
                let to = input_buffer.reserve(&streams.compute, all_bytes)?;
                // SAFETY: the caller's memory lives long enough by this function's contract, the
                // pipeline's as long as the pipeline.
                unsafe { copy_arrays(&streams.compute, (to, array_bytes), (from, stride), n_chunks, array_bytes)? };
                (to, array_bytes)
            }
            host => {
                // SAFETY: as above.
                unsafe { upload(streams, events, input_buffer, host, all_bytes)? };
                wait_for_upload(streams, events)?;
                (input_buffer.slice(0..all_bytes)?, array_bytes)
            }
        };
        let slot_bytes = prepared.bound();
        let slots = slots.reserve(&streams.compute, n_chunks * slot_bytes)?;
        let tables = tables.reserve(&streams.compute, 8 * (2 * n_chunks + 1))?;
        let packed = output_buffer.reserve(&streams.compute, n_chunks * max_packed_bytes(&prepared.array))?;
        status_host.reserve(device, 8 * n_chunks)?;
        let memory = LaunchMemory {
            arrays,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: tables.slice(0..8 * n_chunks)?,
            statuses: None,
        };
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(8 * n_chunks..8 * (2 * n_chunks + 1))?,
            frame_bytes: memory.frame_bytes,
            lengths: Some(status_host.on_device()?),
        };
        let launch = plan.launch(device, n_chunks, arrays.address() | array_stride)?;
        let scratch = streams.compute.alloc(launch.scratch_bytes())?;
        streams.compute.record(&events.compute.begin)?;
        // SAFETY: all memory has the lengths that the kernels need. The pipeline's memory lives as
        // long as the pipeline, which synchronizes its streams when dropped; the caller's lives
        // long enough by this function's contract; scratch memory is freed in stream order.
        unsafe {
            launch.start(&streams.compute, &memory, scratch.all())?;
            packing.pack(&streams.compute)?;
        }
        streams.compute.record(&events.compute.end)
    }

    /// True once the frames of an entry are complete: then [`lengths`](Self::lengths) does not
    /// block.
    ///
    /// # Errors
    /// `Device`, also for errors of the kernels.
    pub fn is_compressed(&self, index: usize) -> Result<bool> {
        self.base.ring[index].events.compute.end.is_reached()
    }

    /// Waits until the frames of an entry are complete and returns their lengths.
    ///
    /// # Errors
    /// As [`is_compressed`](Self::is_compressed); `Internal` for an impossible length.
    pub fn lengths(&self, index: usize) -> Result<impl Iterator<Item = u64>> {
        let max_bytes = stored_bytes(&self.prepared.array);
        let buffers = &self.base.ring[index];
        buffers.events.compute.end.synchronize()?;
        let lengths =
            || buffers.status_host.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let lengths = move || lengths().take(buffers.n_chunks as usize);
        if let Some(n_bytes) = lengths().find(|&n_bytes| n_bytes == 0 || n_bytes > max_bytes) {
            return Err(Error::internal(format_args!("a kernel returned a frame of {n_bytes} bytes")));
        }
        Ok(lengths())
    }

    /// Begins to download the packed frames of an entry to the start of `output`. Waits for their
    /// lengths.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    ///
    /// # Safety
    /// `output` must have room for the frames. It must stay valid, and no other code may access it,
    /// until the batch is finished or the pipeline is dropped.
    pub unsafe fn download(&mut self, index: usize, output: Output) -> Result<()> {
        let packed_bytes = self.lengths(index)?.map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum();
        let Pipeline { streams, ring, .. } = &mut self.base;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        let packed = buffers.output_buffer.slice(0..packed_bytes)?;
        streams.download.record(&buffers.events.download.begin)?;
        // SAFETY: the kernels have written that many bytes, as the host has checked. The pipeline's
        // memory lives as long as the pipeline, and the output long enough by this function's
        // contract.
        unsafe {
            match output {
                Output::Pinned(to) => streams.download.fetch(packed, &mut to[..packed_bytes as usize])?,
                Output::Device(to, _) => streams.download.copy(to.slice(0..packed_bytes)?, packed)?,
                Output::Staged => return Ok(()),
            }
        }
        buffers.has_download = true;
        streams.download.record(&buffers.events.download.end)
    }

    /// True once the download of an entry has completed, or if it has none: then
    /// [`finish`](Self::finish) does not block.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        let buffers = &self.base.ring[index];
        Ok(!buffers.has_download || buffers.events.download.end.is_reached()?)
    }

    /// Waits until the batch of an entry is done. The entry is free afterwards.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<()> {
        self.base.finish(index).map(drop)
    }
}

/// A pipeline that decompresses.
pub struct DecompressPipeline {
    base: Pipeline,
    plan: GpuPlan,
    array_bytes: u64,
    slot_bytes: u64,
    /// Length of the frame in each slot, 0 for frames that were not copied there.
    lengths: GrowBuffer,
}

impl DecompressPipeline {
    /// A pipeline on `device`, if there are kernels, for frames like those of `prepared` with at
    /// most `slot_bytes` bytes.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn new(
        device: &'static Device,
        prepared: &Prepared,
        slot_bytes: u64,
        verify: Verify,
    ) -> Result<Attempt<Self>> {
        let plan = match GpuPlan::new(Direction::Decompress, prepared, verify) {
            Attempt::Done(plan) => plan,
            Attempt::Unsupported(reason) => return Ok(Attempt::Unsupported(reason)),
        };
        let (base, array_bytes, lengths) =
            (Pipeline::new(device)?, prepared.array.n_bytes(), GrowBuffer::default());
        let slot_bytes = slot_bytes.max(plan.min_frame_bytes()).next_multiple_of(FRAME_ALIGNMENT);
        Ok(Attempt::Done(Self { base, plan, array_bytes, slot_bytes, lengths }))
    }

    /// Time that the streams were busy with finished batches.
    pub fn times(&self) -> StreamTimes {
        self.base.times
    }

    /// Begins to decompress frames of these lengths in a free entry, and to move the arrays to
    /// `output`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// `packed` must contain frames of these lengths, and `output` must have room for their arrays.
    /// Until the batch is finished or the pipeline is dropped, both must stay valid, `packed` must
    /// not change, and no other code may access `output`.
    pub unsafe fn begin(&mut self, index: usize, lengths: &[u64], packed: Input, output: Output) -> Result<()> {
        let Self { base: Pipeline { streams, ring, slots, .. }, plan, lengths: checked_lengths, .. } = self;
        let (array_bytes, slot_bytes) = (self.array_bytes, self.slot_bytes);
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        let n_chunks = lengths.len() as u64;
        buffers.n_chunks = n_chunks;
        buffers.has_upload = !matches!(packed, Input::Device(..));
        buffers.has_download = true;
        let BatchBuffers {
            events, input_buffer, tables, tables_host, statuses, status_host, output_buffer, ..
        } = buffers;
        let table_bytes = 8 * n_chunks;
        let table = tables_host.reserve(device, 2 * table_bytes)?;
        let (offsets, lengths_table) = table.split_at_mut(table_bytes as usize);
        let mut packed_bytes = 0;
        for ((offset, length), n_bytes) in
            offsets.chunks_exact_mut(8).zip(lengths_table.chunks_exact_mut(8)).zip(lengths)
        {
            offset.copy_from_slice(&u64::to_le_bytes(packed_bytes));
            length.copy_from_slice(&n_bytes.to_le_bytes());
            packed_bytes += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
        }
        let tables = tables.reserve(&streams.upload, 2 * table_bytes)?;
        let packed = match packed {
            Input::Device(packed, _) if packed.address().is_multiple_of(FRAME_ALIGNMENT) => packed,
            Input::Device(from, _) => {
                let to = input_buffer.reserve(&streams.compute, packed_bytes)?;
                // SAFETY: the caller's memory lives long enough by this function's contract, the
                // pipeline's as long as the pipeline.
                unsafe { streams.compute.copy(to, from)? };
                to
            }
            host => {
                // SAFETY: as above.
                unsafe { upload(streams, events, input_buffer, host, packed_bytes)? };
                input_buffer.slice(0..packed_bytes)?
            }
        };
        // SAFETY: as above.
        unsafe { streams.upload.bring(tables, &*table)? };
        wait_for_upload(streams, events)?;
        let (to, array_stride) = match &output {
            Output::Device(to, stride) if (to.address() | stride).is_multiple_of(plan.alignment) => (*to, *stride),
            _ => (output_buffer.reserve(&streams.compute, n_chunks * array_bytes)?, array_bytes),
        };
        let slots = slots.reserve(&streams.compute, n_chunks * slot_bytes)?;
        let checked_lengths = checked_lengths.reserve(&streams.compute, table_bytes)?;
        let statuses = statuses.reserve(&streams.compute, 4 * n_chunks)?;
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(0..table_bytes)?,
            frame_bytes: tables.slice(table_bytes..2 * table_bytes)?,
            lengths: Some(checked_lengths),
        };
        let memory = LaunchMemory {
            arrays: to,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: checked_lengths,
            statuses: Some(statuses),
        };
        let launch = plan.launch(device, n_chunks, to.address() | array_stride)?;
        let scratch = streams.compute.alloc(launch.scratch_bytes())?;
        streams.compute.record(&events.compute.begin)?;
        // SAFETY: all memory has the lengths that the kernels need. The pipeline's memory lives as
        // long as the pipeline, which synchronizes its streams when dropped; the caller's lives
        // long enough by this function's contract; scratch memory is freed in stream order.
        unsafe {
            packing.unpack(&streams.compute)?;
            launch.start(&streams.compute, &memory, scratch.all())?;
        }
        streams.compute.record(&events.compute.end)?;
        streams.download.wait(&events.compute.end)?;
        streams.download.record(&events.download.begin)?;
        // SAFETY: as above.
        unsafe {
            streams.download.fetch(statuses, status_host.reserve(device, 4 * n_chunks)?)?;
            match output {
                Output::Pinned(dst) => streams.download.fetch(to, dst)?,
                Output::Device(dst, stride) if dst.address() != to.address() => {
                    copy_arrays(&streams.download, (dst, stride), (to, array_bytes), n_chunks, array_bytes)?;
                }
                Output::Device(..) | Output::Staged => {}
            }
        }
        streams.download.record(&events.download.end)
    }

    /// True once the batch of an entry is done: then [`finish`](Self::finish) does not block, and a
    /// staged download can begin.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        self.base.ring[index].events.download.end.is_reached()
    }

    /// Waits until the batch of an entry is done.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, index: usize) -> Result<()> {
        self.base.ring[index].events.download.end.synchronize()
    }

    /// Waits until the batch of an entry is done. The entry is free afterwards. Returns the indices
    /// within the batch of the frames that the kernels rejected; their arrays are unspecified.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<Vec<u64>> {
        let buffers = self.base.finish(index)?;
        let statuses = buffers.status_host.bytes().chunks_exact(4).take(buffers.n_chunks as usize);
        let rejected = statuses.zip(0..).filter(|(status, _)| status.iter().any(|&byte| byte != 0));
        Ok(rejected.map(|(_, i)| i).collect())
    }
}

/// Uploads the `n_bytes` bytes of a batch from pinned memory. Does nothing for other inputs.
///
/// # Safety
/// All memory must live until the streams have completed the work.
unsafe fn upload(
    streams: &Streams,
    events: &BatchEvents,
    to: &mut GrowBuffer,
    from: Input,
    n_bytes: u64,
) -> Result<()> {
    let from = match from {
        Input::Pinned(bytes) => bytes,
        Input::Staged | Input::Device(..) => return Ok(()),
    };
    let from = from.get(..n_bytes as usize).ok_or_else(|| Error::internal("a batch is shorter than its size"))?;
    let to = to.reserve(&streams.upload, n_bytes)?;
    streams.upload.record(&events.upload.begin)?;
    // SAFETY: by this function's contract.
    unsafe { streams.upload.bring(to, from) }
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
