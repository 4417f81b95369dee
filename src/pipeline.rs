//! Lanes: batches of chunks through one GPU, several of them on their way at the same time.
//!
//! ```text
//! bring   host -> GPU        batch 3 |          |
//! work    kernels, packing           | batch 2  |
//! fetch   GPU -> host                |          | batch 1
//! ```
//!
//! Three streams, and events between them. A lane has a ring of places for batches, each with memory of its own on both
//! sides; who uses it begins a batch in a free buffers, and finishes it later. What the kernels of one batch leave to those of
//! the next, such as the slots of frames, is there once.
//!
//! - Compression: arrays come, or are there; kernels make frames in slots, and move them together; their lengths are written to
//!   pinned memory. Once the host knows these, exactly so many bytes go back.
//! - Decompression: packed frames come, with a table of where they are; kernels move them to slots and make arrays, which
//!   go back, or are where they should be.
//!
//! A lane waits for its streams before it gives memory back. Nothing else here waits, but what says so.
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

/// Batches on their way at the same time: one for each stream.
pub const DEPTH: usize = 3;

/// How long a lane's streams worked.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamTimes {
    /// On copies to the GPU.
    pub upload: Duration,
    /// On kernels.
    pub compute: Duration,
    /// On copies from the GPU.
    pub download: Duration,
}

/// Where what a batch begins with is: arrays to be compressed, or packed frames. Arrays follow each other without gaps, or, on
/// the GPU, are so many bytes apart.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// In this pinned memory.
    Pinned(&'a [u8]),
    /// In GPU memory of the lane, to which they crossed before.
    Staged,
    /// In memory of the lane's GPU.
    Device(DeviceSlice<'a>, u64),
}

/// Where the result of a batch is to go, likewise.
pub enum Output<'a> {
    /// To this pinned memory.
    Pinned(&'a mut [u8]),
    /// It crosses later.
    Staged,
    /// To memory of the lane's GPU.
    Device(DeviceSlice<'a>, u64),
}

/// Loads boats: see [`Up`] and [`Down`].
pub type FillFn<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);
/// Unloads boats.
pub type DrainFn<'a> = &'a (dyn Fn(usize, &[u8]) + Sync);

/// The streams.
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

    /// Waits until no work of theirs uses any memory.
    fn synchronize(&self) {
        for stream in [&self.upload, &self.compute, &self.download] {
            // If it fails, the context is lost and nothing runs on.
            let _ = stream.synchronize();
        }
    }
}

/// When what a batch does on a stream began and ended.
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

/// The events of a batch.
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

/// GPU memory that grows as batches do, used by a stream's work in order, or by one batch at a time.
#[derive(Default)]
struct GrowBuffer(Option<DeviceBuffer<'static>>);

impl GrowBuffer {
    /// At least `n_bytes` bytes, of which what was there is lost if there were fewer.
    fn reserve(&mut self, stream: &Stream<'static>, n_bytes: u64) -> Result<DeviceSlice<'_>> {
        if self.0.as_ref().is_none_or(|have| have.all().n_bytes() < n_bytes) {
            // First back, then more: the pool may give the same.
            self.0 = None;
            self.0 = Some(stream.alloc(n_bytes)?);
        }
        self.0.as_ref().expect("it was allocated").slice(0..n_bytes)
    }

    fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.0.as_ref().ok_or_else(|| Error::internal("a buffer was used before it was allocated"))?.slice(range)
    }
}

/// Pinned memory of a batch.
#[derive(Default)]
struct GrowPinned(Option<PinnedBuffer>);

impl GrowPinned {
    /// At least `n_bytes` bytes, with anything in it.
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

/// Memory of a batch, and what is known of it.
struct BatchBuffers {
    events: BatchEvents,
    n_chunks: u64,
    /// Whether anything was brought, and is to be fetched.
    has_upload: bool,
    has_download: bool,
    /// What it begins with.
    input_buffer: GrowBuffer,
    /// Offsets and bytes of frames.
    tables: GrowBuffer,
    tables_host: GrowPinned,
    statuses: GrowBuffer,
    /// What the host is status_host of each frame: its bytes, or its status.
    status_host: GrowPinned,
    output_buffer: GrowBuffer,
}

/// What both directions have.
pub struct Pipeline {
    streams: Streams,
    ring: Vec<BatchBuffers>,
    slots: GrowBuffer,
    times: StreamTimes,
}

impl Drop for Pipeline {
    /// Before any field is dropped: pinned memory goes back to a cache that all threads share.
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

    /// The GPU.
    pub fn device(&self) -> &'static Device {
        self.streams.device()
    }

    /// Makes room where the next batch of a buffers, which is free, begins: so many bytes will cross to there.
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

    /// What is to cross to where room was made for it.
    ///
    /// # Errors
    /// `Internal` if none was.
    pub fn staged_upload<'a>(&'a self, index: usize, n_bytes: u64, fill: FillFn<'a>) -> Result<Upload<'a>> {
        Ok(Upload { dst: self.ring[index].input_buffer.slice(0..n_bytes)?, stream: &self.streams.upload, fill })
    }

    /// What is to cross from the result of a buffers, whose batch is done.
    ///
    /// # Errors
    /// `Internal` if it has none.
    pub fn staged_download<'a>(&'a self, index: usize, n_bytes: u64, drain: DrainFn<'a>) -> Result<Download<'a>> {
        Ok(Download {
            src: self.ring[index].output_buffer.slice(0..n_bytes)?,
            stream: &self.streams.download,
            drain,
        })
    }

    /// Waits until all of a buffers's batch is done.
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

/// Compression.
pub struct CompressPipeline<'p> {
    base: Pipeline,
    prepared: &'p Prepared,
    plan: GpuPlan,
}

impl<'p> CompressPipeline<'p> {
    /// A lane on `device`, if there are kernels.
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

    /// How long the streams worked on what is finished.
    pub fn times(&self) -> StreamTimes {
        self.base.times
    }

    /// Begins to compress `n_chunks` arrays in a buffers where no batch is.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// The arrays are as many, live, and stay as they are until the batch is finished, or the lane is dropped.
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
                // SAFETY: the caller's memory lives long enough by the promise, ours as long as the lane.
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
        // SAFETY: all memory is as long as it must be. The lane's lives as long as the lane, which waits for its streams; the
        // caller's lives long enough by the promise; scratch memory is freed in the stream's order.
        unsafe {
            launch.start(&streams.compute, &memory, scratch.all())?;
            packing.pack(&streams.compute)?;
        }
        streams.compute.record(&events.compute.end)
    }

    /// Whether the frames of a buffers are made: then [`lengths`](Self::lengths) does not wait.
    ///
    /// # Errors
    /// `Device`, also for what the kernels did wrong.
    pub fn is_compressed(&self, index: usize) -> Result<bool> {
        self.base.ring[index].events.compute.end.is_reached()
    }

    /// Waits until the frames of a buffers are made, and tells how long each is.
    ///
    /// # Errors
    /// As for [`is_made`](Self::is_made).
    pub fn lengths(&self, index: usize) -> Result<impl Iterator<Item = u64>> {
        let most = stored_bytes(&self.prepared.array);
        let buffers = &self.base.ring[index];
        buffers.events.compute.end.synchronize()?;
        let lengths =
            || buffers.status_host.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let lengths = move || lengths().take(buffers.n_chunks as usize);
        if let Some(wrong) = lengths().find(|&n_bytes| n_bytes == 0 || n_bytes > most) {
            return Err(Error::internal(format_args!("a kernel returned a frame of {wrong} bytes")));
        }
        Ok(lengths())
    }

    /// Begins to fetch the packed frames of a buffers, whose lengths are known, to the start of `target`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    ///
    /// # Safety
    /// The target has room for them, lives, and nobody touches it until the batch is finished, or the lane is dropped.
    pub unsafe fn download(&mut self, index: usize, output: Output) -> Result<()> {
        let packed_bytes = self.lengths(index)?.map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum();
        let Pipeline { streams, ring, .. } = &mut self.base;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        let packed = buffers.output_buffer.slice(0..packed_bytes)?;
        streams.download.record(&buffers.events.download.begin)?;
        // SAFETY: the kernels have made so many bytes, as the host has seen. The lane's memory lives as long as the lane, and
        // the target long enough, by the promise.
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

    /// Whether the frames of a buffers, which were to be fetched, are there: then [`finish`](Self::finish) does not wait.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        let buffers = &self.base.ring[index];
        Ok(!buffers.has_download || buffers.events.download.end.is_reached()?)
    }

    /// Waits until the batch of a buffers is done. It is free then.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<()> {
        self.base.finish(index).map(drop)
    }
}

/// Decompression.
pub struct DecompressPipeline {
    base: Pipeline,
    plan: GpuPlan,
    array_bytes: u64,
    slot_bytes: u64,
    /// Bytes of the frames in the slots.
    lengths: GrowBuffer,
}

impl DecompressPipeline {
    /// A lane on `device` for frames like those of `prepared`, none of them longer than `slot_bytes`, if there are kernels.
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

    /// How long the streams worked on what is finished.
    pub fn times(&self) -> StreamTimes {
        self.base.times
    }

    /// Begins to decompress the frames of these lengths in a buffers where no batch is, and to bring the arrays to `target`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// The packed frames and the target are as long as that, live, and the first stay as they are and nobody touches the
    /// latter until the batch is finished, or the lane is dropped.
    pub unsafe fn begin(&mut self, index: usize, lengths: &[u64], packed: Input, output: Output) -> Result<()> {
        let Self { base: Pipeline { streams, ring, slots, .. }, plan, lengths: checked, .. } = self;
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
        let (offsets, copy_of_lengths) = table.split_at_mut(table_bytes as usize);
        let mut packed_bytes = 0;
        for ((offset, copy), n_bytes) in
            offsets.chunks_exact_mut(8).zip(copy_of_lengths.chunks_exact_mut(8)).zip(lengths)
        {
            offset.copy_from_slice(&u64::to_le_bytes(packed_bytes));
            copy.copy_from_slice(&n_bytes.to_le_bytes());
            packed_bytes += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
        }
        let tables = tables.reserve(&streams.upload, 2 * table_bytes)?;
        let packed = match packed {
            Input::Device(packed, _) if packed.address().is_multiple_of(FRAME_ALIGNMENT) => packed,
            Input::Device(from, _) => {
                let to = input_buffer.reserve(&streams.compute, packed_bytes)?;
                // SAFETY: the caller's memory lives long enough by the promise, ours as long as the lane.
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
        let checked = checked.reserve(&streams.compute, table_bytes)?;
        let statuses = statuses.reserve(&streams.compute, 4 * n_chunks)?;
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(0..table_bytes)?,
            frame_bytes: tables.slice(table_bytes..2 * table_bytes)?,
            lengths: Some(checked),
        };
        let memory = LaunchMemory {
            arrays: to,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: checked,
            statuses: Some(statuses),
        };
        let launch = plan.launch(device, n_chunks, to.address() | array_stride)?;
        let scratch = streams.compute.alloc(launch.scratch_bytes())?;
        streams.compute.record(&events.compute.begin)?;
        // SAFETY: all memory is as long as it must be. The lane's lives as long as the lane, which waits for its streams; the
        // caller's lives long enough by the promise; scratch memory is freed in the stream's order.
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

    /// Whether the batch of a buffers is done: then [`finish`](Self::finish) does not wait, and what is to cross can.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        self.base.ring[index].events.download.end.is_reached()
    }

    /// Waits for that.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, index: usize) -> Result<()> {
        self.base.ring[index].events.download.end.synchronize()
    }

    /// Waits until the batch of a buffers is done. It is free then. Returns the numbers of the frames in it that the kernels could
    /// not decompress, whose arrays are unspecified.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<Vec<u64>> {
        let buffers = self.base.finish(index)?;
        let statuses = buffers.status_host.bytes().chunks_exact(4).take(buffers.n_chunks as usize);
        let failed = statuses.zip(0..).filter(|(status, _)| status.iter().any(|&byte| byte != 0));
        Ok(failed.map(|(_, i)| i).collect())
    }
}

/// Brings the `n_bytes` bytes of a batch to its memory, unless they have crossed.
///
/// # Safety
/// All memory lives until the streams have done the work.
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
    // SAFETY: the same promise.
    unsafe { streams.upload.bring(to, from) }
}

/// Lets the work wait for what was brought.
fn wait_for_upload(streams: &Streams, events: &BatchEvents) -> Result<()> {
    streams.upload.record(&events.upload.end)?;
    streams.compute.wait(&events.upload.end)
}

/// Copies arrays that are so many bytes apart to others, on the GPU.
///
/// # Safety
/// Both memories live until the stream has done the work.
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
        // SAFETY: the same promise.
        unsafe { stream.copy(to, from)? };
    }
    Ok(())
}
