//! Lanes: batches of chunks through one GPU, several of them on their way at the same time.
//!
//! ```text
//! bring   host -> GPU        batch 3 |          |
//! work    kernels, packing           | batch 2  |
//! fetch   GPU -> host                |          | batch 1
//! ```
//!
//! Three streams, and events between them. A lane has a ring of places for batches, each with memory of its own on both
//! sides; who uses it begins a batch in a free place, and finishes it later. What the kernels of one batch leave to those of
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
use crate::ferry::{Down, Up};
use crate::frame::{FRAME_ALIGNMENT, Verify, stored_bytes};
use crate::launch::{Memory, Procedure};
use crate::packing::Packing;
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Event, PinnedBuffer, Stream};

/// Batches on their way at the same time: one for each stream.
pub const DEPTH: usize = 3;

/// How long a lane's streams worked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Busy {
    /// On copies to the GPU.
    pub bring: Duration,
    /// On kernels.
    pub work: Duration,
    /// On copies from the GPU.
    pub fetch: Duration,
}

/// Where what a batch begins with is: arrays to be compressed, or packed frames. Arrays follow each other without gaps, or, on
/// the GPU, are so many bytes apart.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// In this pinned memory.
    Pinned(&'a [u8]),
    /// In GPU memory of the lane, to which they crossed before.
    Ferried,
    /// In memory of the lane's GPU.
    Device(DeviceSlice<'a>, u64),
}

/// Where the result of a batch is to go, likewise.
pub enum Target<'a> {
    /// To this pinned memory.
    Pinned(&'a mut [u8]),
    /// It crosses later.
    Ferried,
    /// To memory of the lane's GPU.
    Device(DeviceSlice<'a>, u64),
}

/// Loads boats: see [`Up`] and [`Down`].
pub type LoadFn<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);
/// Unloads boats.
pub type UnloadFn<'a> = &'a (dyn Fn(usize, &[u8]) + Sync);

/// The streams.
struct Streams {
    bring: Stream<'static>,
    work: Stream<'static>,
    fetch: Stream<'static>,
}

impl Streams {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { bring: device.stream()?, work: device.stream()?, fetch: device.stream()? })
    }

    fn device(&self) -> &'static Device {
        self.bring.device()
    }
}

impl Streams {
    /// Waits until no work of theirs uses any memory.
    fn settle(&self) {
        for stream in [&self.bring, &self.work, &self.fetch] {
            // If it fails, the context is lost and nothing runs on.
            let _ = stream.synchronize();
        }
    }
}

/// When what a batch does on a stream began and ended.
struct Span {
    begin: Event,
    end: Event,
}

impl Span {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { begin: device.timed_event()?, end: device.timed_event()? })
    }

    fn time(&self) -> Result<Duration> {
        self.end.time_since(&self.begin)
    }
}

/// The spans of a batch.
struct Spans {
    bring: Span,
    work: Span,
    fetch: Span,
}

impl Spans {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { bring: Span::new(device)?, work: Span::new(device)?, fetch: Span::new(device)? })
    }
}

/// GPU memory that grows as batches do, used by a stream's work in order, or by one batch at a time.
#[derive(Default)]
struct Room(Option<DeviceBuffer<'static>>);

impl Room {
    /// At least `n_bytes` bytes, of which what was there is lost if there were fewer.
    fn of(&mut self, stream: &Stream<'static>, n_bytes: u64) -> Result<DeviceSlice<'_>> {
        if self.0.as_ref().is_none_or(|have| have.all().n_bytes() < n_bytes) {
            // First back, then more: the pool may give the same.
            self.0 = None;
            self.0 = Some(stream.alloc(n_bytes)?);
        }
        self.0.as_ref().expect("it was allocated").slice(0..n_bytes)
    }

    fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.0.as_ref().ok_or_else(|| defect("memory that nobody asked for"))?.slice(range)
    }
}

/// Pinned memory of a batch.
#[derive(Default)]
struct Staging(Option<PinnedBuffer>);

impl Staging {
    /// At least `n_bytes` bytes, with anything in it.
    fn of(&mut self, device: &'static Device, n_bytes: u64) -> Result<&mut [u8]> {
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
        Ok(self.0.as_ref().ok_or_else(|| defect("memory that nobody asked for"))?.on_device())
    }
}

/// Memory of a batch, and what is known of it.
struct Place {
    spans: Spans,
    n_chunks: u64,
    /// Whether anything was brought, and is to be fetched.
    is_brought: bool,
    is_fetched: bool,
    /// What it begins with.
    origin: Room,
    /// Offsets and bytes of frames.
    tables: Room,
    tables_staged: Staging,
    statuses: Room,
    /// What the host is told of each frame: its bytes, or its status.
    told: Staging,
    result: Room,
}

/// What both directions have.
pub struct Lane {
    streams: Streams,
    ring: Vec<Place>,
    slots: Room,
    busy: Busy,
}

impl Drop for Lane {
    /// Before any field is dropped: pinned memory goes back to a cache that all threads share.
    fn drop(&mut self) {
        self.streams.settle();
    }
}

impl Lane {
    fn new(device: &'static Device) -> Result<Self> {
        let place = || {
            Ok::<_, Error>(Place {
                spans: Spans::new(device)?,
                n_chunks: 0,
                is_brought: false,
                is_fetched: false,
                origin: Room::default(),
                tables: Room::default(),
                tables_staged: Staging::default(),
                statuses: Room::default(),
                told: Staging::default(),
                result: Room::default(),
            })
        };
        Ok(Self {
            streams: Streams::new(device)?,
            ring: (0..DEPTH).map(|_| place()).collect::<Result<_>>()?,
            slots: Room::default(),
            busy: Busy::default(),
        })
    }

    /// The GPU.
    pub fn device(&self) -> &'static Device {
        self.streams.device()
    }

    /// Makes room where the next batch of a place, which is free, begins: so many bytes will cross to there.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn expect(&mut self, place: usize, n_bytes: u64) -> Result<()> {
        let Self { streams, ring, .. } = self;
        let Place { spans, origin, is_brought, .. } = &mut ring[place];
        *is_brought = true;
        origin.of(&streams.bring, n_bytes)?;
        streams.bring.record(&spans.bring.begin)
    }

    /// What is to cross to where room was made for it.
    ///
    /// # Errors
    /// `Internal` if none was.
    pub fn up<'a>(&'a self, place: usize, n_bytes: u64, load: LoadFn<'a>) -> Result<Up<'a>> {
        Ok(Up { dst: self.ring[place].origin.slice(0..n_bytes)?, stream: &self.streams.bring, load })
    }

    /// What is to cross from the result of a place, whose batch is done.
    ///
    /// # Errors
    /// `Internal` if it has none.
    pub fn down<'a>(&'a self, place: usize, n_bytes: u64, unload: UnloadFn<'a>) -> Result<Down<'a>> {
        Ok(Down { src: self.ring[place].result.slice(0..n_bytes)?, stream: &self.streams.fetch, unload })
    }

    /// Waits until all of a place's batch is done.
    fn finish(&mut self, place: usize) -> Result<&Place> {
        let place = &self.ring[place];
        let Spans { bring, work, fetch } = &place.spans;
        if place.is_fetched {
            fetch.end.synchronize()?
        } else {
            work.end.synchronize()?
        };
        if place.is_brought {
            self.busy.bring += bring.time()?;
        }
        self.busy.work += work.time()?;
        if place.is_fetched {
            self.busy.fetch += fetch.time()?;
        }
        Ok(place)
    }
}

impl AsMut<Lane> for CompressLane<'_> {
    fn as_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl AsRef<Lane> for CompressLane<'_> {
    fn as_ref(&self) -> &Lane {
        &self.lane
    }
}

impl AsMut<Lane> for DecompressLane {
    fn as_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl AsRef<Lane> for DecompressLane {
    fn as_ref(&self) -> &Lane {
        &self.lane
    }
}

/// Bytes of a frame that is packed, at most.
pub fn most_packed_bytes(array: &Array) -> u64 {
    stored_bytes(array).next_multiple_of(FRAME_ALIGNMENT)
}

/// Compression.
pub struct CompressLane<'p> {
    lane: Lane,
    prepared: &'p Prepared,
    procedure: Procedure,
}

impl<'p> CompressLane<'p> {
    /// A lane on `device`, if there are kernels.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn new(device: &'static Device, prepared: &'p Prepared) -> Result<Attempt<Self>> {
        let procedure = match Procedure::new(Direction::Compress, prepared, Verify::Checksum) {
            Attempt::Done(procedure) => procedure,
            Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
        };
        Ok(Attempt::Done(Self { lane: Lane::new(device)?, prepared, procedure }))
    }

    /// How long the streams worked on what is finished.
    pub fn busy(&self) -> Busy {
        self.lane.busy
    }

    /// Begins to compress `n_chunks` arrays in a place where no batch is.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// The arrays are as many, live, and stay as they are until the batch is finished, or the lane is dropped.
    pub unsafe fn begin(&mut self, place: usize, n_chunks: u64, arrays: Origin) -> Result<()> {
        let Self { lane: Lane { streams, ring, slots, .. }, prepared, procedure } = self;
        let (device, place) = (streams.device(), &mut ring[place]);
        let _entered = device.enter()?;
        place.n_chunks = n_chunks;
        place.is_brought = !matches!(arrays, Origin::Device(..));
        place.is_fetched = false;
        let Place { spans, origin, tables, told, result, .. } = place;
        let array_bytes = prepared.array.n_bytes();
        let all_bytes = n_chunks * array_bytes;
        let (arrays, array_stride) = match arrays {
            Origin::Device(arrays, stride) if (arrays.address() | stride).is_multiple_of(procedure.alignment) => {
                (arrays, stride)
            }
            Origin::Device(from, stride) => {
                let to = origin.of(&streams.work, all_bytes)?;
                // SAFETY: the caller's memory lives long enough by the promise, ours as long as the lane.
                unsafe { copy_arrays(&streams.work, (to, array_bytes), (from, stride), n_chunks, array_bytes)? };
                (to, array_bytes)
            }
            host => {
                // SAFETY: as above.
                unsafe { bring(streams, spans, origin, host, all_bytes)? };
                arrive(streams, spans)?;
                (origin.slice(0..all_bytes)?, array_bytes)
            }
        };
        let slot_bytes = prepared.bound();
        let slots = slots.of(&streams.work, n_chunks * slot_bytes)?;
        let tables = tables.of(&streams.work, 8 * (2 * n_chunks + 1))?;
        let packed = result.of(&streams.work, n_chunks * most_packed_bytes(&prepared.array))?;
        told.of(device, 8 * n_chunks)?;
        let memory = Memory {
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
            lengths: Some(told.on_device()?),
        };
        let launch = procedure.launch(device, n_chunks, arrays.address() | array_stride)?;
        let scratch = streams.work.alloc(launch.scratch_bytes())?;
        streams.work.record(&spans.work.begin)?;
        // SAFETY: all memory is as long as it must be. The lane's lives as long as the lane, which waits for its streams; the
        // caller's lives long enough by the promise; scratch memory is freed in the stream's order.
        unsafe {
            launch.start(&streams.work, &memory, scratch.all())?;
            packing.pack(&streams.work)?;
        }
        streams.work.record(&spans.work.end)
    }

    /// Whether the frames of a place are made: then [`lengths`](Self::lengths) does not wait.
    ///
    /// # Errors
    /// `Device`, also for what the kernels did wrong.
    pub fn is_made(&self, place: usize) -> Result<bool> {
        self.lane.ring[place].spans.work.end.is_reached()
    }

    /// Waits until the frames of a place are made, and tells how long each is.
    ///
    /// # Errors
    /// As for [`is_made`](Self::is_made).
    pub fn lengths(&self, place: usize) -> Result<impl Iterator<Item = u64>> {
        let most = stored_bytes(&self.prepared.array);
        let place = &self.lane.ring[place];
        place.spans.work.end.synchronize()?;
        let lengths =
            || place.told.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let lengths = move || lengths().take(place.n_chunks as usize);
        if let Some(wrong) = lengths().find(|&n_bytes| n_bytes == 0 || n_bytes > most) {
            return Err(defect(&format!("a kernel made a frame of {wrong} bytes")));
        }
        Ok(lengths())
    }

    /// Begins to fetch the packed frames of a place, whose lengths are known, to the start of `target`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    ///
    /// # Safety
    /// The target has room for them, lives, and nobody touches it until the batch is finished, or the lane is dropped.
    pub unsafe fn fetch(&mut self, place: usize, target: Target) -> Result<()> {
        let packed_bytes = self.lengths(place)?.map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum();
        let Lane { streams, ring, .. } = &mut self.lane;
        let (device, place) = (streams.device(), &mut ring[place]);
        let _entered = device.enter()?;
        let packed = place.result.slice(0..packed_bytes)?;
        streams.fetch.record(&place.spans.fetch.begin)?;
        // SAFETY: the kernels have made so many bytes, as the host has seen. The lane's memory lives as long as the lane, and
        // the target long enough, by the promise.
        unsafe {
            match target {
                Target::Pinned(to) => streams.fetch.fetch(packed, &mut to[..packed_bytes as usize])?,
                Target::Device(to, _) => streams.fetch.copy(to.slice(0..packed_bytes)?, packed)?,
                Target::Ferried => return Ok(()),
            }
        }
        place.is_fetched = true;
        streams.fetch.record(&place.spans.fetch.end)
    }

    /// Whether the frames of a place, which were to be fetched, are there: then [`finish`](Self::finish) does not wait.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, place: usize) -> Result<bool> {
        let place = &self.lane.ring[place];
        Ok(!place.is_fetched || place.spans.fetch.end.is_reached()?)
    }

    /// Waits until the batch of a place is done. It is free then.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, place: usize) -> Result<()> {
        self.lane.finish(place).map(drop)
    }
}

/// Decompression.
pub struct DecompressLane {
    lane: Lane,
    procedure: Procedure,
    array_bytes: u64,
    slot_bytes: u64,
    /// Bytes of the frames in the slots.
    lengths: Room,
}

impl DecompressLane {
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
        let procedure = match Procedure::new(Direction::Decompress, prepared, verify) {
            Attempt::Done(procedure) => procedure,
            Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
        };
        let (lane, array_bytes, lengths) = (Lane::new(device)?, prepared.array.n_bytes(), Room::default());
        let slot_bytes = slot_bytes.max(procedure.least_frame_bytes()).next_multiple_of(FRAME_ALIGNMENT);
        Ok(Attempt::Done(Self { lane, procedure, array_bytes, slot_bytes, lengths }))
    }

    /// How long the streams worked on what is finished.
    pub fn busy(&self) -> Busy {
        self.lane.busy
    }

    /// Begins to decompress the frames of these lengths in a place where no batch is, and to bring the arrays to `target`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// The packed frames and the target are as long as that, live, and the first stay as they are and nobody touches the
    /// latter until the batch is finished, or the lane is dropped.
    pub unsafe fn begin(&mut self, place: usize, lengths: &[u64], packed: Origin, target: Target) -> Result<()> {
        let Self { lane: Lane { streams, ring, slots, .. }, procedure, lengths: checked, .. } = self;
        let (array_bytes, slot_bytes) = (self.array_bytes, self.slot_bytes);
        let (device, place) = (streams.device(), &mut ring[place]);
        let _entered = device.enter()?;
        let n_chunks = lengths.len() as u64;
        place.n_chunks = n_chunks;
        place.is_brought = !matches!(packed, Origin::Device(..));
        place.is_fetched = true;
        let Place { spans, origin, tables, tables_staged, statuses, told, result, .. } = place;
        let table_bytes = 8 * n_chunks;
        let table = tables_staged.of(device, 2 * table_bytes)?;
        let (offsets, copy_of_lengths) = table.split_at_mut(table_bytes as usize);
        let mut packed_bytes = 0;
        for ((offset, copy), n_bytes) in
            offsets.chunks_exact_mut(8).zip(copy_of_lengths.chunks_exact_mut(8)).zip(lengths)
        {
            offset.copy_from_slice(&u64::to_le_bytes(packed_bytes));
            copy.copy_from_slice(&n_bytes.to_le_bytes());
            packed_bytes += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
        }
        let tables = tables.of(&streams.bring, 2 * table_bytes)?;
        let packed = match packed {
            Origin::Device(packed, _) if packed.address().is_multiple_of(FRAME_ALIGNMENT) => packed,
            Origin::Device(from, _) => {
                let to = origin.of(&streams.work, packed_bytes)?;
                // SAFETY: the caller's memory lives long enough by the promise, ours as long as the lane.
                unsafe { streams.work.copy(to, from)? };
                to
            }
            host => {
                // SAFETY: as above.
                unsafe { bring(streams, spans, origin, host, packed_bytes)? };
                origin.slice(0..packed_bytes)?
            }
        };
        // SAFETY: as above.
        unsafe { streams.bring.bring(tables, &*table)? };
        arrive(streams, spans)?;
        let (to, array_stride) = match &target {
            Target::Device(to, stride) if (to.address() | stride).is_multiple_of(procedure.alignment) => {
                (*to, *stride)
            }
            _ => (result.of(&streams.work, n_chunks * array_bytes)?, array_bytes),
        };
        let slots = slots.of(&streams.work, n_chunks * slot_bytes)?;
        let checked = checked.of(&streams.work, table_bytes)?;
        let statuses = statuses.of(&streams.work, 4 * n_chunks)?;
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(0..table_bytes)?,
            frame_bytes: tables.slice(table_bytes..2 * table_bytes)?,
            lengths: Some(checked),
        };
        let memory = Memory {
            arrays: to,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: checked,
            statuses: Some(statuses),
        };
        let launch = procedure.launch(device, n_chunks, to.address() | array_stride)?;
        let scratch = streams.work.alloc(launch.scratch_bytes())?;
        streams.work.record(&spans.work.begin)?;
        // SAFETY: all memory is as long as it must be. The lane's lives as long as the lane, which waits for its streams; the
        // caller's lives long enough by the promise; scratch memory is freed in the stream's order.
        unsafe {
            packing.unpack(&streams.work)?;
            launch.start(&streams.work, &memory, scratch.all())?;
        }
        streams.work.record(&spans.work.end)?;
        streams.fetch.wait(&spans.work.end)?;
        streams.fetch.record(&spans.fetch.begin)?;
        // SAFETY: as above.
        unsafe {
            streams.fetch.fetch(statuses, told.of(device, 4 * n_chunks)?)?;
            match target {
                Target::Pinned(dst) => streams.fetch.fetch(to, dst)?,
                Target::Device(dst, stride) if dst.address() != to.address() => {
                    copy_arrays(&streams.fetch, (dst, stride), (to, array_bytes), n_chunks, array_bytes)?;
                }
                Target::Device(..) | Target::Ferried => {}
            }
        }
        streams.fetch.record(&spans.fetch.end)
    }

    /// Whether the batch of a place is done: then [`finish`](Self::finish) does not wait, and what is to cross can.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, place: usize) -> Result<bool> {
        self.lane.ring[place].spans.fetch.end.is_reached()
    }

    /// Waits for that.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, place: usize) -> Result<()> {
        self.lane.ring[place].spans.fetch.end.synchronize()
    }

    /// Waits until the batch of a place is done. It is free then. Returns the numbers of the frames in it that the kernels could
    /// not decompress, whose arrays are unspecified.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, place: usize) -> Result<Vec<u64>> {
        let place = self.lane.finish(place)?;
        let statuses = place.told.bytes().chunks_exact(4).take(place.n_chunks as usize);
        let failed = statuses.zip(0..).filter(|(status, _)| status.iter().any(|&byte| byte != 0));
        Ok(failed.map(|(_, i)| i).collect())
    }
}

/// Brings the `n_bytes` bytes of a batch to its memory, unless they have crossed.
///
/// # Safety
/// All memory lives until the streams have done the work.
unsafe fn bring(streams: &Streams, spans: &Spans, to: &mut Room, from: Origin, n_bytes: u64) -> Result<()> {
    let from = match from {
        Origin::Pinned(bytes) => bytes,
        Origin::Ferried | Origin::Device(..) => return Ok(()),
    };
    let from = from.get(..n_bytes as usize).ok_or_else(|| defect("a batch of other bytes than it says"))?;
    let to = to.of(&streams.bring, n_bytes)?;
    streams.bring.record(&spans.bring.begin)?;
    // SAFETY: the same promise.
    unsafe { streams.bring.bring(to, from) }
}

/// Lets the work wait for what was brought.
fn arrive(streams: &Streams, spans: &Spans) -> Result<()> {
    streams.bring.record(&spans.bring.end)?;
    streams.work.wait(&spans.bring.end)
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

fn defect(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("defect in gridz, please report it: {what}"))
}
