//! Many chunks of one type and shape at once, and their frames packed: each at the first multiple of 16 bytes behind the one
//! before it, with zeros between them.
//!
//! On the CPU every thread takes a chunk. On GPUs batches go through lanes, so that copies and kernels work at the same
//! time; memory that is not pinned is copied by all threads.
#![allow(unsafe_code, reason = "several threads and GPUs write parts of one memory")]

use std::ops::Range;
use std::time::Instant;

use crate::codec::request::Request;
use crate::cpu::ordered;
use crate::cpu::shared::SharedBytes;
use crate::cuda::{Device, DeviceSlice, is_pinned};
use crate::engine::backend::{self, Attempt};
use crate::engine::chunk::{start_of, through_host};
use crate::engine::context::Context;
use crate::engine::frame::{Verify, check_payload};
use crate::engine::lanes::{CompressLane, DecompressLane, Origin, Target, most_packed_bytes};
use crate::engine::launch::FRAME_ALIGNMENT;
use crate::engine::memory::{Destination, Source};
use crate::engine::pace::Pace;
use crate::engine::prepared::Prepared;
use crate::engine::traffic::{self, Compresses, Decompresses};
use crate::engine::{cpu, log};
use crate::error::{Error, ErrorKind, Result, try_vec};
use crate::format::header::{Header, MAX_HEADER_BYTES};
use crate::settings::{Backend, Gpus, Settings};
use crate::types::Array;

/// Chunks of one type and shape: chunk `i` is `i * stride` bytes behind the first.
#[derive(Debug, Clone, Copy)]
pub struct Chunks {
    /// What each chunk is.
    pub array: Array,
    /// How many there are.
    pub n_chunks: usize,
    /// Bytes from array to array, at least those of one. Means nothing where there is one chunk.
    pub stride: u64,
}

/// Where packed frames of these lengths end, if that can be.
fn packed_bytes(lengths: &[u64]) -> Option<u64> {
    let mut ends = lengths.iter().map(|n_bytes| n_bytes.checked_next_multiple_of(FRAME_ALIGNMENT));
    ends.try_fold(0u64, |end, n_bytes| end.checked_add(n_bytes?))
}

/// Bytes in which the packed frames of `n_chunks` chunks surely have room.
///
/// # Errors
/// `InvalidArgument` if so many bytes cannot be addressed.
pub fn packed_bound(array: &Array, n_chunks: usize) -> Result<u64> {
    let each = most_packed_bytes(array);
    each.checked_mul(n_chunks as u64).filter(|&n_bytes| isize::try_from(n_bytes).is_ok()).ok_or_else(|| {
        Error::invalid(format!("{n_chunks} chunks of {} bytes cannot be addressed", array.n_bytes()))
    })
}

impl Chunks {
    /// Bytes from the first array to the end of the last.
    ///
    /// # Errors
    /// `InvalidArgument` for a stride that is too short, or if so many bytes cannot be addressed.
    pub fn span(&self, name: &str) -> Result<u64> {
        let &Self { array, n_chunks, stride } = self;
        let Some(before) = (n_chunks as u64).checked_sub(1) else { return Ok(0) };
        if before > 0 && stride < array.n_bytes() {
            return Err(Error::invalid(format!(
                "{name} is {stride}; it must be at least the {} bytes of an array",
                array.n_bytes()
            )));
        }
        let span = before.checked_mul(stride).and_then(|before| before.checked_add(array.n_bytes()));
        span.filter(|&n| i64::try_from(n).is_ok()).ok_or_else(|| {
            Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} cannot be addressed"))
        })
    }

    /// Bytes from array to array.
    fn step(&self) -> u64 {
        if self.n_chunks == 1 { self.array.n_bytes() } else { self.stride }
    }

    /// Where these arrays are, of which there is one at least.
    fn span_of(&self, chunks: Range<u64>) -> Range<u64> {
        chunks.start * self.step()..(chunks.end - 1) * self.step() + self.array.n_bytes()
    }

    /// Where an array is in the host's memory.
    fn place(&self, i: usize) -> Range<usize> {
        in_memory(self.span_of(i as u64..i as u64 + 1))
    }

    /// Calls `each` for what the `n_bytes` bytes from `at` on of the arrays, one behind the other from chunk `first` on,
    /// are parts of: where that is in memory, and among those bytes.
    fn pieces(&self, first: u64, at: usize, n_bytes: usize, mut each: impl FnMut(Range<usize>, Range<usize>)) {
        let (array_bytes, step) = (self.array.n_bytes() as usize, self.step() as usize);
        let mut done = 0;
        while done < n_bytes {
            let (i, within) = ((at + done) / array_bytes, (at + done) % array_bytes);
            let n = if self.is_dense() { n_bytes } else { (array_bytes - within).min(n_bytes - done) };
            let place = (first as usize + i) * step + within;
            each(place..place + n, done..done + n);
            done += n;
        }
    }

    /// Whether there is nothing between the arrays.
    fn is_dense(&self) -> bool {
        self.step() == self.array.n_bytes()
    }
}

fn too_small(have: u64, array: &Array, n_chunks: usize) -> Error {
    let need = most_packed_bytes(array).saturating_mul(n_chunks as u64);
    let text = format!("a destination of {have} bytes is too small; {need} are enough for any values");
    Error::new(ErrorKind::DstTooSmall { need }, text)
}

fn check_lengths(chunks: &Chunks, lengths: &[u64]) -> Result<()> {
    match lengths.len() == chunks.n_chunks {
        true => Ok(()),
        false => Err(Error::invalid(format!("{} lengths for {} frames", lengths.len(), chunks.n_chunks))),
    }
}

/// The GPUs for such a call; none if the CPU is to do it. Memory of a GPU is that one's; for chunks in host memory it is as
/// [`backend::for_host_memory`] says, but pinned memory is for GPUs if there are any.
///
/// # Errors
/// As `for_host_memory`.
fn devices_for(
    memory_of: Option<&'static Device>,
    (src, dst): (&Source, &Destination),
    raw_bytes: u64,
    context: &Context,
) -> Result<Vec<&'static Device>> {
    let settings = context.settings()?;
    let (Source::Host(src), Destination::Host(dst)) = (src, dst) else {
        return Ok(memory_of.filter(|_| settings.backend != Backend::Cpu).into_iter().collect());
    };
    let threads = if is_pinned(src) && is_pinned(dst) { 1 } else { context.pool().threads() };
    match (backend::for_host_memory(settings, raw_bytes, threads)?, settings.gpus) {
        (Some(_), Gpus::All) => Device::all(),
        (chosen, _) => Ok(chosen.into_iter().collect()),
    }
}

/// What comes of `work` on GPUs, or `None` for the CPU to do it: where there are none, and as [`backend::or_cpu`].
fn by_any<R>(
    devices: &[&'static Device],
    settings: &Settings,
    work: impl FnOnce() -> Result<Attempt<R>>,
) -> Result<Option<R>> {
    if devices.is_empty() { Ok(None) } else { backend::or_cpu(settings, work()) }
}

/// Compresses all chunks of `src`, which has their [`span`](Chunks::span), into packed frames at the start of `dst`, and
/// returns where they end. `lengths` gets the bytes of each frame.
///
/// # Errors
/// `DstTooSmall` if the frames do not fit; as [`compress`](super::compress).
pub fn compress_chunks(
    chunks: &Chunks,
    request: &Request,
    src: Source,
    mut dst: Destination,
    lengths: &mut [u64],
    context: &Context,
) -> Result<u64> {
    check_lengths(chunks, lengths)?;
    let prepared = Prepared::new(&chunks.array, request)?;
    let settings = context.settings()?;
    let memory_of = context.device_of(&src, &dst)?;
    if chunks.n_chunks == 0 {
        return Ok(0);
    }
    let (begin, raw_bytes) = (Instant::now(), chunks.n_chunks as u64 * chunks.array.n_bytes());
    let devices = devices_for(memory_of, (&src, &dst), raw_bytes, context)?;
    let by_gpus = by_any(&devices, settings, || {
        by_lanes(&devices, chunks, &prepared, src, dst.reborrow(), lengths, context)
    })?;
    let (end, by) = match by_gpus {
        Some(end) => (end, log::CUDA),
        None => {
            let need = most_packed_bytes(&chunks.array) * chunks.n_chunks as u64;
            let need = need.min(dst.n_bytes());
            let work = |src: &[u8], dst: &mut [u8]| {
                by_threads(chunks, &prepared, src, dst, lengths, context).map(|end| end as usize)
            };
            (through_host(memory_of, src, dst, need, context, work)? as u64, log::CPU)
        }
    };
    log::chunks("compressed", chunks.n_chunks, (raw_bytes, end), begin, by);
    Ok(end)
}

/// Decompresses packed frames of these `lengths`, which together are `frames`, to the chunks of `dst`, which has their
/// [`span`](Chunks::span).
///
/// # Errors
/// As [`decompress`](super::decompress), with the number of the first frame that cannot be decompressed; `InvalidArgument` if a
/// frame is of another array.
pub fn decompress_chunks(
    chunks: &Chunks,
    frames: Source,
    lengths: &[u64],
    mut dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<()> {
    check_lengths(chunks, lengths)?;
    let settings = context.settings()?;
    let memory_of = context.device_of(&frames, &dst)?;
    if chunks.n_chunks == 0 {
        return Ok(());
    }
    let end = packed_bytes(lengths).filter(|&end| end <= frames.n_bytes()).ok_or_else(|| {
        let text =
            format!("the lengths of the frames add up to more than the {} bytes there are", frames.n_bytes());
        Error::new(ErrorKind::Truncated, text)
    })?;
    let (begin, raw_bytes) = (Instant::now(), chunks.n_chunks as u64 * chunks.array.n_bytes());
    let devices = devices_for(memory_of, (&frames, &dst), raw_bytes, context)?;
    let by_gpus = by_any(&devices, settings, || {
        from_lanes(&devices, chunks, frames, lengths, dst.reborrow(), verify, context)
    })?;
    let by = match by_gpus {
        Some(()) => log::CUDA,
        None => {
            let work = |frames: &[u8], dst: &mut [u8]| {
                from_threads(chunks, frames, lengths, dst, verify, context).map(|()| dst.len())
            };
            match (memory_of, dst) {
                (Some(device), Destination::Device(dst)) => {
                    // What is between the arrays stays as it is.
                    let dense = Chunks { stride: chunks.array.n_bytes(), ..*chunks };
                    let mut arrays = context.scratch(raw_bytes as usize)?;
                    let work = |frames: &[u8], dst: &mut [u8]| {
                        from_threads(&dense, frames, lengths, dst, verify, context).map(|()| dst.len())
                    };
                    let to = Destination::Host(&mut arrays);
                    through_host(memory_of, frames, to, raw_bytes, context, work)?;
                    let stream = device.stream()?;
                    for i in 0..chunks.n_chunks as u64 {
                        let array = &arrays[in_memory(dense.span_of(i..i + 1))];
                        stream.copy_in(dst.slice(chunks.span_of(i..i + 1))?, array)?;
                    }
                }
                (_, dst) => drop(through_host(memory_of, frames, dst, 0, context, work)?),
            }
            log::CPU
        }
    };
    log::chunks("decompressed", chunks.n_chunks, (end, raw_bytes), begin, by);
    Ok(())
}

// ---- by the CPU ------------------------------------------------------------------------------------

/// Compresses a chunk to the start of `out`, which need not have the bound, with zeros up to where the next frame
/// begins. Returns the bytes of the frame.
fn pack_one(prepared: &Prepared, chunk: &[u8], out: &mut [u8], context: &Context) -> Result<u64> {
    let bound = prepared.bound() as usize;
    let n_bytes = if out.len() >= bound {
        cpu::compress(prepared, chunk, out, context)?
    } else {
        let mut own = context.scratch(bound)?;
        let n_bytes = cpu::compress(prepared, chunk, &mut own, context)?;
        let room = out.get_mut(..n_bytes).ok_or_else(|| too_small(0, &prepared.array, 1))?;
        room.copy_from_slice(&own[..n_bytes]);
        n_bytes
    };
    let end = n_bytes.next_multiple_of(FRAME_ALIGNMENT as usize);
    out.get_mut(n_bytes..end).ok_or_else(|| too_small(0, &prepared.array, 1))?.fill(0);
    Ok(n_bytes as u64)
}

/// Most chunks of a round.
const MOST_AT_ONCE: usize = 1 << 16;

/// Rounds of as many chunks as surely have room.
fn by_threads(
    chunks: &Chunks,
    prepared: &Prepared,
    src: &[u8],
    dst: &mut [u8],
    lengths: &mut [u64],
    context: &Context,
) -> Result<u64> {
    let pool = context.pool();
    let alone = context.of_one_thread()?;
    let most = (prepared.bound() as usize).next_multiple_of(FRAME_ALIGNMENT as usize);
    let (mut next, mut end) = (0, 0);
    while next < chunks.n_chunks {
        let room = &mut dst[end..];
        let n_left = (chunks.n_chunks - next).min(MOST_AT_ONCE);
        let n_sure = (room.len() / most_packed_bytes(&chunks.array) as usize).min(n_left);
        if n_sure < pool.threads() || !context.affords((pool.threads() * most) as u64) {
            // One after the other, each by all threads.
            let chunk = &src[chunks.place(next)];
            let n_bytes = pack_one(prepared, chunk, room, context).map_err(|error| match error.kind() {
                ErrorKind::DstTooSmall { .. } => too_small(dst.len() as u64, &chunks.array, chunks.n_chunks),
                _ => error,
            })?;
            lengths[next] = n_bytes;
            end += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
            next += 1;
            continue;
        }
        let make = |&mut i: &mut usize, _: Option<usize>, out: &mut [u8]| {
            let made = pack_one(prepared, &src[chunks.place(i)], out, &alone);
            let n_bytes = made.as_ref().map_or(0, |n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT));
            (n_bytes as usize, made)
        };
        let items = (next..next + n_sure).collect();
        let (n_bytes, made) = ordered::concatenate(pool, items, most, room, make, |_, made, _, _| made);
        for (length, made) in lengths[next..].iter_mut().zip(made) {
            *length = made?;
        }
        next += n_sure;
        end += n_bytes;
    }
    Ok(end as u64)
}

/// Decompresses frame `i`.
fn unpack_one(
    array: &Array,
    i: usize,
    frame: &[u8],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let mut unpack = || {
        let header = Header::parse(frame)?;
        if header.array != *array {
            return Err(other_array(&header.array, array));
        }
        let payload = &frame[header.n_bytes()..];
        check_payload(&header, payload.len() as u64)?;
        cpu::decompress(&Prepared::of(&header)?, header.payload_checksum, payload, dst, verify, context)
    };
    unpack().map_err(|error| of_frame(i, &error))
}

fn of_frame(i: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("frame {i}: {}", error.context()))
}

fn other_array(have: &Array, want: &Array) -> Error {
    Error::invalid(format!("it is of another array: {have:?} where {want:?} is wanted"))
}

fn from_threads(
    chunks: &Chunks,
    frames: &[u8],
    lengths: &[u64],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let (pool, alone) = (context.pool(), context.of_one_thread()?);
    let (mut at, mut items) = (0, try_vec(chunks.n_chunks, "places of chunks")?);
    // Arrays of no bytes have no places to be cut into.
    let mut places = dst.chunks_mut(chunks.step().max(1) as usize);
    for (i, &n_bytes) in lengths.iter().enumerate() {
        let place = places.next().unwrap_or_default();
        items.push((i, &frames[at..at + n_bytes as usize], &mut place[..chunks.array.n_bytes() as usize]));
        at += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
    }
    let one = |(i, frame, place): (usize, &[u8], &mut [u8]), context: &Context| {
        unpack_one(&chunks.array, i, frame, place, verify, context)
    };
    if chunks.n_chunks < pool.threads() {
        return items.into_iter().try_for_each(|item| one(item, context));
    }
    pool.map(items, |item| one(item, &alone)).into_iter().collect()
}

// ---- by GPUs ---------------------------------------------------------------------------------------

/// Memory of the host, or of a GPU, as lanes take it.
enum Ends<'d> {
    Device(DeviceSlice<'d>),
    /// Pinned, and without gaps between arrays.
    Pinned(SharedBytes<'d>),
    Host(SharedBytes<'d>),
}

impl<'d> Ends<'d> {
    fn new(dst: Destination<'d>, is_dense: bool) -> Self {
        match dst {
            Destination::Device(dst) => Self::Device(dst),
            Destination::Host(dst) if is_dense && is_pinned(dst) => Self::Pinned(SharedBytes::new(dst)),
            Destination::Host(dst) => Self::Host(SharedBytes::new(dst)),
        }
    }

    /// A part of it as a target.
    fn target(&mut self, bytes: Range<u64>, stride: u64) -> Result<Target<'_>> {
        Ok(match self {
            Self::Device(dst) => Target::Device(dst.slice(bytes)?, stride),
            // SAFETY: each part is the target of one batch, and nobody looks at it before that is done.
            Self::Pinned(dst) => Target::Pinned(unsafe { dst.part(in_memory(bytes)) }),
            Self::Host(_) => Target::Ferried,
        })
    }

    /// Writes what has crossed.
    fn unload(&self, at: usize, bytes: &[u8]) {
        if let Self::Host(dst) = self {
            // SAFETY: every byte crosses once, and nobody looks at it before the batch is done.
            unsafe { dst.write(at, bytes) };
        }
    }
}

/// What a source is for a lane.
fn origin(src: Source<'_>, is_pinned: bool, bytes: Range<u64>, stride: u64) -> Result<Origin<'_>> {
    Ok(match src {
        Source::Device(src) => Origin::Device(src.slice(bytes)?, stride),
        Source::Host(src) if is_pinned => Origin::Pinned(&src[in_memory(bytes)]),
        Source::Host(_) => Origin::Ferried,
    })
}

/// A compression from memory to memory.
struct Compression<'d> {
    chunks: &'d Chunks,
    src: Source<'d>,
    /// The GPU can read the source where it is.
    is_pinned: bool,
    dst: Ends<'d>,
    capacity: u64,
    lengths: &'d mut [u64],
    /// Where the frames of each chunk that is made begin, and the last one ends.
    offsets: Vec<u64>,
}

impl<'d> Compresses<'d> for Compression<'d> {
    fn arrays(&self, chunks: Range<u64>) -> Result<Origin<'d>> {
        origin(self.src, self.is_pinned, self.chunks.span_of(chunks), self.chunks.step())
    }

    fn load(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        let Source::Host(src) = self.src else { return };
        self.chunks.pieces(chunks.start, at, bytes.len(), |place, piece| {
            bytes[piece].copy_from_slice(&src[place]);
        });
    }

    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Target<'_>> {
        self.lengths[in_memory(chunks)].copy_from_slice(lengths);
        let mut end = self.end();
        let begin = end;
        for n_bytes in lengths {
            end += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
            self.offsets.push(end);
        }
        if end > self.capacity {
            return Err(too_small(self.capacity, &self.chunks.array, self.chunks.n_chunks));
        }
        self.dst.target(begin..end, 0)
    }

    fn unload(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        self.dst.unload(self.offsets[chunks.start as usize] as usize + at, bytes);
    }
}

impl Compression<'_> {
    fn end(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }
}

/// A decompression from memory to memory.
struct Decompression<'d> {
    chunks: &'d Chunks,
    frames: Source<'d>,
    /// The GPU can read the frames where they are.
    is_pinned: bool,
    lengths: &'d [u64],
    /// Where each frame begins, and the last one ends.
    offsets: &'d [u64],
    dst: Ends<'d>,
    verify: Verify,
    context: &'d Context,
}

impl<'d> Decompresses<'d> for Decompression<'d> {
    fn frames(&self, chunks: Range<u64>) -> Result<(&'d [u64], Origin<'d>)> {
        let packed = self.offsets[chunks.start as usize]..self.offsets[chunks.end as usize];
        Ok((&self.lengths[in_memory(chunks)], origin(self.frames, self.is_pinned, packed, 0)?))
    }

    fn load(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]) {
        if let Source::Host(frames) = self.frames {
            let at = self.offsets[chunks.start as usize] as usize + at;
            bytes.copy_from_slice(&frames[at..at + bytes.len()]);
        }
    }

    fn arrays(&mut self, chunks: Range<u64>) -> Result<Target<'_>> {
        self.dst.target(self.chunks.span_of(chunks), self.chunks.step())
    }

    fn unload(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        self.chunks.pieces(chunks.start, at, bytes.len(), |place, piece| {
            self.dst.unload(place.start, &bytes[piece]);
        });
    }

    /// A damaged frame, or a sound one of another codec.
    fn failed(&mut self, i: u64) -> Result<()> {
        let begin = self.offsets[i as usize];
        let (packed, place) = (begin..begin + self.lengths[i as usize], self.chunks.span_of(i..i + 1));
        let frame = match self.frames {
            Source::Host(frames) => Source::Host(&frames[in_memory(packed)]),
            Source::Device(frames) => Source::Device(frames.slice(packed)?),
        };
        let dst = match &self.dst {
            Ends::Device(dst) => Destination::Device(dst.slice(place)?),
            // SAFETY: its batch is done, and the part is that chunk's alone.
            Ends::Pinned(dst) | Ends::Host(dst) => Destination::Host(unsafe { dst.part(in_memory(place)) }),
        };
        let device = self.context.device_of(&frame, &dst)?;
        let (array, verify, context) = (&self.chunks.array, self.verify, self.context);
        let work = |frame: &[u8], dst: &mut [u8]| {
            unpack_one(array, i as usize, frame, dst, verify, context).map(|()| dst.len())
        };
        through_host(device, frame, dst, array.n_bytes(), context, work).map(drop)
    }
}

/// A range of bytes of the host's memory.
fn in_memory(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A lane on each device, if there are kernels.
fn lanes<L>(
    devices: &[&'static Device],
    make: impl Fn(&'static Device) -> Result<Attempt<L>>,
) -> Result<Attempt<Vec<L>>> {
    let mut lanes = Vec::new();
    for device in devices {
        match make(device)? {
            Attempt::Done(lane) => lanes.push(lane),
            Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
        }
    }
    Ok(Attempt::Done(lanes))
}

fn by_lanes(
    devices: &[&'static Device],
    chunks: &Chunks,
    prepared: &Prepared,
    src: Source,
    dst: Destination,
    lengths: &mut [u64],
    context: &Context,
) -> Result<Attempt<u64>> {
    let made = match lanes(devices, |device| CompressLane::new(device, prepared))? {
        Attempt::Done(lanes) => lanes,
        Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
    };
    let mut ends = Compression {
        chunks,
        src,
        is_pinned: matches!(src, Source::Host(bytes) if is_pinned(bytes)) && chunks.is_dense(),
        capacity: dst.n_bytes(),
        dst: Ends::new(dst, true),
        lengths,
        offsets: vec![0],
    };
    // Dropped before what they were lent.
    let mut lanes = made;
    let size = (chunks.n_chunks as u64, chunks.array.n_bytes());
    let crosses = matches!(ends.dst, Ends::Host(_)) || matches!(src, Source::Host(_)) && !ends.is_pinned;
    let mut pace = Pace::new(size.1, context.batch_bytes(), crosses);
    traffic::compress(&mut lanes, &mut ends, size, &mut pace, context.pool())?;
    log::busy(lanes.iter().map(CompressLane::busy), &pace);
    Ok(Attempt::Done(ends.end()))
}

fn from_lanes(
    devices: &[&'static Device],
    chunks: &Chunks,
    frames: Source,
    lengths: &[u64],
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<Attempt<()>> {
    let mut offsets = try_vec(lengths.len() + 1, "places of frames")?;
    let mut end = 0;
    for n_bytes in lengths {
        offsets.push(end);
        end += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
    }
    offsets.push(end);
    // The first frame tells of which codec they are, and any that are not are done one by one.
    let mut start = [0; MAX_HEADER_BYTES];
    let first = match frames {
        Source::Host(frames) => Source::Host(&frames[..lengths[0] as usize]),
        Source::Device(frames) => Source::Device(frames.slice(0..lengths[0])?),
    };
    let header = Header::parse(start_of(devices.first().copied(), first, &mut start)?)
        .map_err(|error| of_frame(0, &error))?;
    if header.array != chunks.array {
        return Err(of_frame(0, &other_array(&header.array, &chunks.array)));
    }
    let prepared = Prepared::of(&header).map_err(|error| of_frame(0, &error))?;
    // None that is sound is longer, whatever the lengths say.
    let most = lengths.iter().copied().max().unwrap_or(0).min(most_packed_bytes(&chunks.array));
    let made = match lanes(devices, |device| DecompressLane::new(device, &prepared, most, verify))? {
        Attempt::Done(lanes) => lanes,
        Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
    };
    let mut ends = Decompression {
        chunks,
        frames,
        is_pinned: matches!(frames, Source::Host(bytes) if is_pinned(bytes)),
        lengths,
        offsets: &offsets,
        dst: Ends::new(dst, chunks.is_dense()),
        verify,
        context,
    };
    // Dropped before what they were lent.
    let mut lanes = made;
    let size = (chunks.n_chunks as u64, chunks.array.n_bytes());
    let crosses = matches!(ends.dst, Ends::Host(_)) || matches!(frames, Source::Host(_)) && !ends.is_pinned;
    let mut pace = Pace::new(size.1, context.batch_bytes(), crosses);
    traffic::decompress(&mut lanes, &mut ends, size, &mut pace, context.pool())?;
    log::busy(lanes.iter().map(DecompressLane::busy), &pace);
    Ok(Attempt::Done(()))
}
