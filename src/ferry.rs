//! Copies between the GPU and memory that is not pinned.
//!
//! The driver copies such memory with one thread. Here pinned boats go to and fro: all workers load and unload them, a share
//! each, and the calling thread, which alone talks to the driver, sends them off. Boats are few, and so stay in the CPU's
//! cache: memory is read once, or written once. Both directions go at the same time, because the bus has a lane for each.
#![allow(unsafe_code, reason = "gives memory to streams, and parts of it to several threads")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Event, PinnedBuffer, Stream, is_pinned};

/// Bytes of a boat: shorter copies are slower on the bus.
const BOAT_BYTES: usize = 8 << 20;
/// Boats for each direction.
const BOATS: usize = 6;
/// What a worker loads or unloads at a time.
const SHARE_BYTES: usize = 256 << 10;

/// What goes to the GPU: `load` writes the bytes from some byte on.
pub struct Up<'a> {
    /// Where it goes.
    pub dst: DeviceSlice<'a>,
    /// The stream for whose work it is.
    pub stream: &'a Stream<'a>,
    /// Called by several threads, once for every part.
    pub load: &'a (dyn Fn(usize, &mut [u8]) + Sync),
}

/// What comes from the GPU, where it is there: `unload` gets the bytes from some byte on.
pub struct Down<'a> {
    /// Where it is.
    pub src: DeviceSlice<'a>,
    /// A stream that is free.
    pub stream: &'a Stream<'a>,
    /// Called by several threads, once for every part.
    pub unload: &'a (dyn Fn(usize, &[u8]) + Sync),
}

/// Pinned memory that goes to and fro.
struct Boat {
    pinned: PinnedBuffer,
    arrives: Event,
    /// It left, and nobody has seen it arrive.
    is_away: bool,
}

impl Boat {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { pinned: device.pinned(BOAT_BYTES)?, arrives: device.event()?, is_away: false })
    }
}

impl Drop for Boat {
    fn drop(&mut self) {
        if self.is_away {
            // If it fails, nothing goes on all the same.
            let _ = self.arrives.synchronize();
        }
    }
}

/// What a worker does: it loads or unloads some bytes of a boat's.
struct Share {
    is_up: bool,
    boat: usize,
    /// Of the boat's memory, and of all.
    bytes: Range<usize>,
    at: usize,
}

/// Shares that wait for a worker, and how many of each boat's are not done.
#[derive(Default)]
struct Shares {
    waiting: Mutex<VecDeque<Share>>,
    up: [AtomicUsize; BOATS],
    down: [AtomicUsize; BOATS],
    /// A worker has panicked.
    is_broken: AtomicBool,
}

/// Tells, unless it is forgotten, that a worker has panicked.
struct Broken<'a>(&'a AtomicBool);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Shares {
    fn left(&self, is_up: bool, boat: usize) -> &AtomicUsize {
        if is_up { &self.up[boat] } else { &self.down[boat] }
    }

    /// Adds those of the boat that has these bytes of all.
    fn add(&self, is_up: bool, boat: usize, all: Range<usize>, call_worker: &dyn Fn()) {
        let n_shares = all.len().div_ceil(SHARE_BYTES);
        self.left(is_up, boat).store(n_shares, Ordering::Relaxed);
        for i in 0..n_shares {
            let bytes = i * SHARE_BYTES..((i + 1) * SHARE_BYTES).min(all.len());
            let share = Share { is_up, boat, at: all.start + bytes.start, bytes };
            lock(&self.waiting).push_back(share);
            call_worker();
        }
    }

    /// Does one with what loads and unloads, if there is one.
    fn step(&self, load: impl Fn(&Share), unload: impl Fn(&Share)) -> bool {
        let next = lock(&self.waiting).pop_front();
        let Some(share) = next else { return false };
        let unless_done = Broken(&self.is_broken);
        if share.is_up {
            load(&share)
        } else {
            unload(&share)
        }
        std::mem::forget(unless_done);
        // What it has written is there for who sees this.
        self.left(share.is_up, share.boat).fetch_sub(1, Ordering::Release);
        true
    }

    fn are_done(&self, is_up: bool, boat: usize) -> bool {
        self.left(is_up, boat).load(Ordering::Acquire) == 0
    }
}

/// Bytes of the boat number `i` of a crossing.
fn cargo(i: usize, n_bytes: usize) -> Range<usize> {
    i * BOAT_BYTES..((i + 1) * BOAT_BYTES).min(n_bytes)
}

fn in_slice(bytes: &Range<usize>) -> Range<u64> {
    bytes.start as u64..bytes.end as u64
}

/// Marks where a boat arrives. Without the mark nobody would know, so then it is waited for here.
fn depart(stream: &Stream, arrives: &Event) -> Result<()> {
    stream.record(arrives).inspect_err(|_| drop(stream.synchronize()))
}

/// The boats of one direction, of one GPU.
pub struct Fleet {
    device: &'static Device,
    boats: Vec<Boat>,
}

impl Fleet {
    /// For memory of `device`. Boats are made when they are needed.
    pub fn new(device: &'static Device) -> Self {
        Self { device, boats: Vec::new() }
    }

    /// As many boats of a fleet as so many bytes need, at most all.
    fn ready(this: Option<&mut Self>, n_bytes: usize) -> Result<Ready<'_>> {
        let Some(Self { device, boats }) = this else { return Ok(Ready::default()) };
        while boats.len() < n_bytes.div_ceil(BOAT_BYTES).min(BOATS) {
            boats.push(Boat::new(device)?);
        }
        let boats = boats.iter_mut();
        let (memory, boats) =
            boats.map(|boat| (SharedBytes::new(&mut boat.pinned), (&boat.arrives, &mut boat.is_away))).unzip();
        Ok(Ready { memory, boats })
    }
}

/// Boats of a crossing: their memory, which workers share, and what the calling thread knows of each.
#[derive(Default)]
struct Ready<'a> {
    memory: Vec<SharedBytes<'a>>,
    boats: Vec<(&'a Event, &'a mut bool)>,
}

/// Copies both ways, between the same GPU and the host or two of them. What comes has been unloaded when this returns; what goes
/// has been loaded, and is under way on its stream.
///
/// # Errors
/// `Device`, `OutOfMemory`.
///
/// # Safety
/// The GPUs' memory lives until the streams have done the work.
pub unsafe fn cross(pool: &Pool, up: Option<(Up, &mut Fleet)>, down: Option<(Down, &mut Fleet)>) -> Result<()> {
    let ((up, up_fleet), (down, down_fleet)) = (up.unzip(), down.unzip());
    let (up, down) = (up.as_ref(), down.as_ref());
    let up_bytes = up.map_or(0, |up| up.dst.n_bytes() as usize);
    let down_bytes = down.map_or(0, |down| down.src.n_bytes() as usize);
    let (n_up, n_down) = (up_bytes.div_ceil(BOAT_BYTES), down_bytes.div_ceil(BOAT_BYTES));
    let Ready { memory: up_memory, boats: mut up_boats } = Fleet::ready(up_fleet, up_bytes)?;
    let Ready { memory: down_memory, boats: mut down_boats } = Fleet::ready(down_fleet, down_bytes)?;
    let (of_up, of_down) = (up_boats.len().max(1), down_boats.len().max(1));
    let shares = Shares::default();
    let load = |Share { boat, bytes, at, .. }: &Share| {
        // SAFETY: a share is one worker's, and the boat does not leave before all of its shares are done.
        up.iter().for_each(|up| (up.load)(*at, unsafe { up_memory[*boat].part(bytes.clone()) }));
    };
    let unload = |Share { boat, bytes, at, .. }: &Share| {
        // SAFETY: as above: the boat has arrived, and does not leave.
        down.iter().for_each(|down| (down.unload)(*at, unsafe { down_memory[*boat].part(bytes.clone()) }));
    };
    let step = || shares.step(load, unload);
    pool.run_with_helpers(&step, |call_worker| {
        let (mut loading, mut sent) = (0, 0);
        let (mut called, mut arrived, mut unloaded) = (0, 0, 0);
        while sent < n_up || unloaded < n_down {
            let before = (loading, sent, called, arrived, unloaded);
            if let Some(up) = up {
                if loading < n_up.min(sent + of_up) {
                    let (arrives, is_away) = &mut up_boats[loading % of_up];
                    if !**is_away || arrives.is_reached()? {
                        **is_away = false;
                        shares.add(true, loading % of_up, cargo(loading, up_bytes), call_worker);
                        loading += 1;
                    }
                }
                let boat = sent % of_up;
                if sent < loading && shares.are_done(true, boat) {
                    let (bytes, (arrives, is_away)) = (cargo(sent, up_bytes), &mut up_boats[boat]);
                    // SAFETY: the boat is loaded, and nobody touches it before it has arrived; the GPU's memory lives, by
                    // the promise.
                    unsafe {
                        up.stream.bring(up.dst.slice(in_slice(&bytes))?, up_memory[boat].part(0..bytes.len()))?
                    };
                    **is_away = true;
                    depart(up.stream, arrives)?;
                    sent += 1;
                }
            }
            if let Some(down) = down {
                if unloaded < arrived && shares.are_done(false, unloaded % of_down) {
                    unloaded += 1;
                }
                if called < n_down.min(unloaded + of_down) {
                    let boat = called % of_down;
                    let (bytes, (arrives, is_away)) = (cargo(called, down_bytes), &mut down_boats[boat]);
                    // SAFETY: the boat is unloaded, and nobody touches it before it has arrived; the GPU's memory lives, by
                    // the promise.
                    unsafe {
                        down.stream
                            .fetch(down.src.slice(in_slice(&bytes))?, down_memory[boat].part(0..bytes.len()))?;
                    }
                    **is_away = true;
                    depart(down.stream, arrives)?;
                    called += 1;
                }
                if arrived < called {
                    let (arrives, is_away) = &mut down_boats[arrived % of_down];
                    if arrives.is_reached()? {
                        **is_away = false;
                        shares.add(false, arrived % of_down, cargo(arrived, down_bytes), call_worker);
                        arrived += 1;
                    }
                }
            }
            if shares.is_broken.load(Ordering::Relaxed) {
                // The panic itself goes on to the caller.
                return Err(Error::new(
                    ErrorKind::Internal,
                    "defect in gridz, please report it: a worker has panicked",
                ));
            }
            let moved = before != (loading, sent, called, arrived, unloaded);
            if !moved && !step() {
                std::thread::yield_now();
            }
        }
        Ok(())
    })
}

/// Whether the workers are faster than the driver, which they are not alone, nor with few bytes or what is pinned.
fn pays(bytes: &[u8], pool: &Pool) -> bool {
    bytes.len() >= 2 * BOAT_BYTES && pool.threads() > 1 && !is_pinned(bytes)
}

/// Copies `src` to all of `dst`, which has as many bytes. `src` has been read when this returns.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_in(dst: &DeviceBuffer, src: &[u8], pool: &Pool) -> Result<()> {
    let stream = dst.stream();
    if !pays(src, pool) {
        return stream.copy_in(dst.all(), src);
    }
    let load = |at: usize, bytes: &mut [u8]| bytes.copy_from_slice(&src[at..at + bytes.len()]);
    // SAFETY: the buffer is freed in the order of its stream.
    unsafe {
        cross(pool, Some((Up { dst: dst.all(), stream, load: &load }, &mut Fleet::new(stream.device()))), None)
    }
}

/// Copies the first bytes of `src` to all of `dst`, and waits for it, and so for everything that was given to the stream of
/// `src` before.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_out(src: &DeviceBuffer, dst: &mut [u8], pool: &Pool) -> Result<()> {
    let stream = src.stream();
    let wanted = src.slice(0..dst.len() as u64)?;
    if !pays(dst, pool) {
        return stream.copy_out(wanted, dst);
    }
    let dst = SharedBytes::new(dst);
    // SAFETY: every byte crosses once.
    let unload = |at: usize, bytes: &[u8]| unsafe { dst.write(at, bytes) };
    // SAFETY: the buffer is freed in the order of its stream.
    unsafe {
        cross(pool, None, Some((Down { src: wanted, stream, unload: &unload }, &mut Fleet::new(stream.device()))))
    }
}
