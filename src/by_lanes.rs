//! Many chunks by GPUs: batches go through lanes, so that copies and kernels work at the same time. Memory that is not pinned is
//! copied by all threads; where it is, threads can work beside the GPUs.
#![allow(unsafe_code, reason = "several threads and GPUs write parts of one memory")]

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::Attempt;
use crate::by_threads::unpack_one;
use crate::context::Context;
use crate::frame::{FRAME_ALIGNMENT, Verify};
use crate::lanes::{CompressLane, DecompressLane, Origin, Target, most_packed_bytes};
use crate::list::{Chunks, in_memory, of_frame, other_array, too_small};
use crate::log;
use crate::memory::{Destination, Source, start_of, through_host};
use crate::pace::Pace;
use crate::prepared::Prepared;
use crate::traffic::{self, Compresses, Decompresses, Left};
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Result, try_vec};
use gridz_codecs::format::header::{Header, MAX_HEADER_BYTES};
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, DeviceSlice, is_pinned};

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
    fn target(&self, bytes: Range<u64>, stride: u64) -> Result<Target<'_>> {
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

    fn arrays(&self, chunks: Range<u64>) -> Result<Target<'_>> {
        self.dst.target(self.chunks.span_of(chunks), self.chunks.step())
    }

    fn unload(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]) {
        self.chunks.pieces(chunks.start, at, bytes.len(), |place, piece| {
            self.dst.unload(place.start, &bytes[piece]);
        });
    }

    /// A damaged frame, or a sound one of another codec.
    fn failed(&self, i: u64) -> Result<()> {
        self.by_cpu(i, self.context)
    }
}

impl Decompression<'_> {
    /// Decompresses frame `i`, which is nobody else's, by the CPU.
    fn by_cpu(&self, i: u64, context: &Context) -> Result<()> {
        let begin = self.offsets[i as usize];
        let (packed, place) = (begin..begin + self.lengths[i as usize], self.chunks.span_of(i..i + 1));
        let frame = match self.frames {
            Source::Host(frames) => Source::Host(&frames[in_memory(packed)]),
            Source::Device(frames) => Source::Device(frames.slice(packed)?),
        };
        let dst = match &self.dst {
            Ends::Device(dst) => Destination::Device(dst.slice(place)?),
            // SAFETY: no batch has it, or that is done, and the part is that chunk's alone.
            Ends::Pinned(dst) | Ends::Host(dst) => Destination::Host(unsafe { dst.part(in_memory(place)) }),
        };
        let device = self.context.device_of(&frame, &dst)?;
        let (array, verify) = (&self.chunks.array, self.verify);
        let work = |frame: &[u8], dst: &mut [u8]| {
            unpack_one(array, i as usize, frame, dst, verify, context).map(|()| dst.len())
        };
        through_host(device, frame, dst, array.n_bytes(), context, work).map(drop)
    }
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

/// Compresses by these devices, of which there is one at least, as [`compress_chunks`](crate::chunks::compress_chunks).
pub fn by_lanes(
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
    // Declared here, lanes are dropped before the ends, which lend them memory.
    let mut lanes = made;
    let (left, array_bytes) = (Left::new(chunks.n_chunks as u64), chunks.array.n_bytes());
    let crosses = matches!(ends.dst, Ends::Host(_)) || matches!(src, Source::Host(_)) && !ends.is_pinned;
    let mut pace = Pace::new(array_bytes, context.batch_bytes() / devices.len() as u64, crosses);
    traffic::compress(&mut lanes, &mut ends, (&left, array_bytes), &mut pace, context.pool())?;
    log::busy(lanes.iter().map(CompressLane::busy), &pace);
    Ok(Attempt::Done(ends.end()))
}

/// Decompresses likewise.
pub fn from_lanes(
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
    let ends = Decompression {
        chunks,
        frames,
        is_pinned: matches!(frames, Source::Host(bytes) if is_pinned(bytes)),
        lengths,
        offsets: &offsets,
        dst: Ends::new(dst, chunks.is_dense()),
        verify,
        context,
    };
    // Declared here, lanes are dropped before the ends, which lend them memory.
    let mut lanes = made;
    let (left, array_bytes) = (Left::new(chunks.n_chunks as u64), chunks.array.n_bytes());
    let crosses = matches!(ends.dst, Ends::Host(_)) || matches!(frames, Source::Host(_)) && !ends.is_pinned;
    let mut pace = Pace::new(array_bytes, context.batch_bytes() / devices.len() as u64, crosses);
    let mut work = || traffic::decompress(&mut lanes, &ends, (&left, array_bytes), &mut pace, context.pool());
    // Threads have nothing to copy then, and the bus is what GPUs wait for.
    let both_pinned = ends.is_pinned && matches!(ends.dst, Ends::Pinned(_));
    if both_pinned && context.settings()?.backend == Backend::Auto {
        beside(&ends, &left, devices.len(), context, work)?
    } else {
        work()?
    }
    log::busy(lanes.iter().map(DecompressLane::busy), &pace);
    Ok(Attempt::Done(()))
}

/// A GPU brings so many chunks back in the time that a thread takes for one (51 GB/s and 2): where fewer are left, the thread
/// would be waited for.
const GPU_OVER_THREAD: u64 = 32;

/// Does `work`, by which GPUs decompress what is left from the front, and beside it the same with workers, from the back.
fn beside(
    ends: &Decompression,
    left: &Left,
    n_gpus: usize,
    context: &Context,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (pool, alone) = (context.pool(), context.of_one_thread()?);
    let (n_done, failed) = (AtomicU64::new(0), Mutex::new(None));
    let enough = GPU_OVER_THREAD * n_gpus as u64;
    let step = || {
        let Some(i) = left.last_of(enough) else { return false };
        n_done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = ends.by_cpu(i, &alone) {
            let mut first = lock(&failed);
            if first.as_ref().is_none_or(|&(known, _)| i < known) {
                *first = Some((i, error));
            }
        }
        true
    };
    pool.run_with_helpers(&step, |call_worker| {
        (1..pool.threads()).for_each(|_| call_worker());
        // Nobody needs what is left then.
        work().inspect_err(|_| left.clear())
    })?;
    log::also(log::CPU, n_done.into_inner());
    lock(&failed).take().map_or(Ok(()), |(_, error)| Err(error))
}
