//! Copies between the GPU and pageable host memory, through pinned staging buffers.
//!
//! The driver copies pageable memory with one thread. Here, copies go through a ring of pinned
//! staging buffers. All worker threads fill and drain them; only the calling thread issues driver
//! calls. The ring is small enough to stay in the CPU's cache, so host memory is read once or
//! written once. Uploads and downloads run at the same time, because the bus is full duplex.
#![allow(unsafe_code, reason = "gives memory to streams, and parts of it to several threads")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::cpu::shared::SharedBytes;
use gridz_codecs::error::{Error, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Event, PinnedBuffer, Stream, is_pinned};

/// Bytes of a staging buffer: shorter copies are slower on the bus.
const BUFFER_BYTES: usize = 8 << 20;
/// Staging buffers per direction.
const N_BUFFERS: usize = 6;
/// Maximum number of bytes that a worker fills or drains at a time.
pub const JOB_BYTES: usize = 256 << 10;

/// A copy to the GPU.
pub struct Upload<'a> {
    /// Destination.
    pub dst: DeviceSlice<'a>,
    /// The stream to which the copies are added.
    pub stream: &'a Stream<'a>,
    /// Writes the source's bytes from the given offset on. Called by several threads, once for
    /// every part.
    pub fill: &'a (dyn Fn(usize, &mut [u8]) + Sync),
}

/// A copy from the GPU of data that is already complete there.
pub struct Download<'a> {
    /// Source.
    pub src: DeviceSlice<'a>,
    /// An idle stream.
    pub stream: &'a Stream<'a>,
    /// Stores the bytes for the given offset. Called by several threads, once for every part.
    pub drain: &'a (dyn Fn(usize, &[u8]) + Sync),
}

/// A pinned buffer, and the event that marks the end of its last copy.
struct StagingBuffer {
    pinned: PinnedBuffer,
    completed: Event,
    /// True from the start of a copy until its completion has been observed.
    in_flight: bool,
}

impl StagingBuffer {
    fn new(device: &'static Device) -> Result<Self> {
        Ok(Self { pinned: device.pinned(BUFFER_BYTES)?, completed: device.event()?, in_flight: false })
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        if self.in_flight {
            // If it fails, no copy continues either.
            let _ = self.completed.synchronize();
        }
    }
}

/// Part of a staging buffer for a worker to fill or drain.
struct CopyJob {
    is_upload: bool,
    buffer: usize,
    /// The part's range within the buffer; `at` is its offset in the whole copy.
    bytes: Range<usize>,
    at: usize,
}

/// Jobs that wait for a worker, and for each buffer the number of its unfinished jobs.
#[derive(Default)]
struct CopyJobs {
    queue: Mutex<VecDeque<CopyJob>>,
    upload: [AtomicUsize; N_BUFFERS],
    download: [AtomicUsize; N_BUFFERS],
    /// Set when a worker thread panicked.
    is_poisoned: AtomicBool,
}

/// Sets the flag when dropped by a panic; on success it is forgotten.
struct PoisonOnPanic<'a>(&'a AtomicBool);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl CopyJobs {
    fn pending(&self, is_upload: bool, buffer: usize) -> &AtomicUsize {
        if is_upload { &self.upload[buffer] } else { &self.download[buffer] }
    }

    /// Adds the jobs of a buffer that holds the range `all` of the copy, and calls a worker for
    /// each.
    fn push(&self, is_upload: bool, buffer: usize, all: Range<usize>, call_worker: &dyn Fn()) {
        let n_jobs = all.len().div_ceil(JOB_BYTES);
        self.pending(is_upload, buffer).store(n_jobs, Ordering::Relaxed);
        for i in 0..n_jobs {
            let bytes = i * JOB_BYTES..((i + 1) * JOB_BYTES).min(all.len());
            let job = CopyJob { is_upload, buffer, at: all.start + bytes.start, bytes };
            lock(&self.queue).push_back(job);
            call_worker();
        }
    }

    /// Runs one job, if any is waiting.
    fn run_one(&self, fill: impl Fn(&CopyJob), drain: impl Fn(&CopyJob)) -> bool {
        let next = lock(&self.queue).pop_front();
        let Some(job) = next else { return false };
        let poison_on_panic = PoisonOnPanic(&self.is_poisoned);
        if job.is_upload {
            fill(&job)
        } else {
            drain(&job)
        }
        std::mem::forget(poison_on_panic);
        // Release: a thread that sees the new count also sees the bytes that this job has written.
        self.pending(job.is_upload, job.buffer).fetch_sub(1, Ordering::Release);
        true
    }

    fn are_done(&self, is_upload: bool, buffer: usize) -> bool {
        self.pending(is_upload, buffer).load(Ordering::Acquire) == 0
    }
}

/// The bytes of the copy that its `i`-th buffer holds.
fn byte_range(i: usize, n_bytes: usize) -> Range<usize> {
    i * BUFFER_BYTES..((i + 1) * BUFFER_BYTES).min(n_bytes)
}

fn to_u64(bytes: &Range<usize>) -> Range<u64> {
    bytes.start as u64..bytes.end as u64
}

/// Records the event that marks the end of a buffer's copy. If that fails, waits for the stream,
/// because the end could not be observed otherwise.
fn record(stream: &Stream, completed: &Event) -> Result<()> {
    stream.record(completed).inspect_err(|_| drop(stream.synchronize()))
}

/// The staging buffers of one GPU for one direction.
pub struct StagingPool {
    device: &'static Device,
    buffers: Vec<StagingBuffer>,
}

impl StagingPool {
    /// A pool without buffers; they are allocated on demand.
    pub fn new(device: &'static Device) -> Self {
        Self { device, buffers: Vec::new() }
    }

    /// As many buffers as `n_bytes` bytes need, at most [`N_BUFFERS`].
    fn acquire(this: Option<&mut Self>, n_bytes: usize) -> Result<ReadyBuffers<'_>> {
        let Some(Self { device, buffers }) = this else { return Ok(ReadyBuffers::default()) };
        while buffers.len() < n_bytes.div_ceil(BUFFER_BYTES).min(N_BUFFERS) {
            buffers.push(StagingBuffer::new(device)?);
        }
        let buffers = buffers.iter_mut();
        let (memory, buffers) = buffers
            .map(|buffer| (SharedBytes::new(&mut buffer.pinned), (&buffer.completed, &mut buffer.in_flight)))
            .unzip();
        Ok(ReadyBuffers { memory, buffers })
    }
}

/// The buffers of a copy: their memory, which the workers share, and their state, which only the
/// calling thread uses.
#[derive(Default)]
struct ReadyBuffers<'a> {
    memory: Vec<SharedBytes<'a>>,
    buffers: Vec<(&'a Event, &'a mut bool)>,
}

/// An upload in progress, buffer by buffer. `filling` counts the buffers that have been given to
/// workers, `sent` those whose copies have been started.
struct Uploading<'a> {
    copy: &'a Upload<'a>,
    memory: &'a [SharedBytes<'a>],
    buffers: Vec<(&'a Event, &'a mut bool)>,
    n_bytes: usize,
    filling: usize,
    sent: usize,
}

impl Uploading<'_> {
    fn is_done(&self) -> bool {
        self.sent == self.n_bytes.div_ceil(BUFFER_BYTES)
    }

    /// Has workers fill a free buffer, and sends a filled one. Returns false if there is neither.
    ///
    /// # Safety
    /// The GPU memory must live until the stream has completed the work.
    unsafe fn advance(&mut self, jobs: &CopyJobs, call_worker: &dyn Fn()) -> Result<bool> {
        let (before, n_buffers) = ((self.filling, self.sent), self.buffers.len());
        if self.filling < self.n_bytes.div_ceil(BUFFER_BYTES).min(self.sent + n_buffers) {
            let buffer = self.filling % n_buffers;
            let (completed, in_flight) = &mut self.buffers[buffer];
            if !**in_flight || completed.is_reached()? {
                **in_flight = false;
                jobs.push(true, buffer, byte_range(self.filling, self.n_bytes), call_worker);
                self.filling += 1;
            }
        }
        if self.sent < self.filling && jobs.are_done(true, self.sent % n_buffers) {
            let (buffer, bytes) = (self.sent % n_buffers, byte_range(self.sent, self.n_bytes));
            let to = self.copy.dst.slice(to_u64(&bytes))?;
            // SAFETY: the buffer is filled, and no thread accesses it before its copy has
            // completed. The GPU memory lives, by this function's contract.
            unsafe { self.copy.stream.bring(to, self.memory[buffer].part(0..bytes.len()))? };
            let (completed, in_flight) = &mut self.buffers[buffer];
            **in_flight = true;
            record(self.copy.stream, completed)?;
            self.sent += 1;
        }
        Ok(before != (self.filling, self.sent))
    }
}

/// A download in progress, buffer by buffer. `requested` counts the copies that have been started,
/// `arrived` those that have completed, and `drained` those that workers have drained.
struct Downloading<'a> {
    copy: &'a Download<'a>,
    memory: &'a [SharedBytes<'a>],
    buffers: Vec<(&'a Event, &'a mut bool)>,
    n_bytes: usize,
    requested: usize,
    arrived: usize,
    drained: usize,
}

impl Downloading<'_> {
    fn is_done(&self) -> bool {
        self.drained == self.n_bytes.div_ceil(BUFFER_BYTES)
    }

    /// Starts a copy to a drained buffer, and has workers drain a filled one. Returns false if there
    /// is neither.
    ///
    /// # Safety
    /// The GPU memory must live until the stream has completed the work.
    unsafe fn advance(&mut self, jobs: &CopyJobs, call_worker: &dyn Fn()) -> Result<bool> {
        let (before, n_buffers) = ((self.requested, self.arrived, self.drained), self.buffers.len());
        if self.drained < self.arrived && jobs.are_done(false, self.drained % n_buffers) {
            self.drained += 1;
        }
        if self.requested < self.n_bytes.div_ceil(BUFFER_BYTES).min(self.drained + n_buffers) {
            let (buffer, bytes) = (self.requested % n_buffers, byte_range(self.requested, self.n_bytes));
            let from = self.copy.src.slice(to_u64(&bytes))?;
            // SAFETY: the buffer is drained, and no thread accesses it before its copy has
            // completed. The GPU memory lives, by this function's contract.
            unsafe { self.copy.stream.fetch(from, self.memory[buffer].part(0..bytes.len()))? };
            let (completed, in_flight) = &mut self.buffers[buffer];
            **in_flight = true;
            record(self.copy.stream, completed)?;
            self.requested += 1;
        }
        if self.arrived < self.requested {
            let buffer = self.arrived % n_buffers;
            let (completed, in_flight) = &mut self.buffers[buffer];
            if completed.is_reached()? {
                **in_flight = false;
                jobs.push(false, buffer, byte_range(self.arrived, self.n_bytes), call_worker);
                self.arrived += 1;
            }
        }
        Ok(before != (self.requested, self.arrived, self.drained))
    }
}

/// Copies to and from the GPU at the same time; the two copies may use different GPUs. On return,
/// the download is complete and drained. The upload's source has been read, but its last copies may
/// still be in flight on the stream.
///
/// # Errors
/// `Device`, `OutOfMemory`.
///
/// # Safety
/// The GPU memory must live until the streams have completed the work.
pub unsafe fn staged_copy(
    pool: &Pool,
    upload: Option<(Upload, &mut StagingPool)>,
    download: Option<(Download, &mut StagingPool)>,
) -> Result<()> {
    let ((upload, upload_pool), (download, download_pool)) = (upload.unzip(), download.unzip());
    let (upload, download) = (upload.as_ref(), download.as_ref());
    let upload_bytes = upload.map_or(0, |upload| upload.dst.n_bytes() as usize);
    let download_bytes = download.map_or(0, |download| download.src.n_bytes() as usize);
    let ReadyBuffers { memory: upload_memory, buffers } = StagingPool::acquire(upload_pool, upload_bytes)?;
    let (n_bytes, memory) = (upload_bytes, &upload_memory);
    let mut uploading = upload.map(|copy| Uploading { copy, memory, buffers, n_bytes, filling: 0, sent: 0 });
    let ReadyBuffers { memory: download_memory, buffers } = StagingPool::acquire(download_pool, download_bytes)?;
    let (n_bytes, memory) = (download_bytes, &download_memory);
    let mut downloading =
        download.map(|copy| Downloading { copy, memory, buffers, n_bytes, requested: 0, arrived: 0, drained: 0 });
    let jobs = CopyJobs::default();
    let fill = |CopyJob { buffer, bytes, at, .. }: &CopyJob| {
        // SAFETY: each job belongs to one worker, and the buffer's copy does not start before all
        // of its jobs are done.
        upload.iter().for_each(|copy| (copy.fill)(*at, unsafe { upload_memory[*buffer].part(bytes.clone()) }));
    };
    let drain = |CopyJob { buffer, bytes, at, .. }: &CopyJob| {
        // SAFETY: as above: the buffer's copy has completed, and the next one does not start before
        // all of its jobs are done.
        download.iter().for_each(|copy| (copy.drain)(*at, unsafe { download_memory[*buffer].part(bytes.clone()) }));
    };
    let step = || jobs.run_one(fill, drain);
    pool.run_with_helpers(&step, |call_worker| {
        while !(uploading.as_ref().is_none_or(Uploading::is_done)
            && downloading.as_ref().is_none_or(Downloading::is_done))
        {
            let mut advanced = false;
            // SAFETY: the GPU memory lives, by this function's contract.
            unsafe {
                if let Some(uploading) = &mut uploading {
                    advanced |= uploading.advance(&jobs, call_worker)?;
                }
                if let Some(downloading) = &mut downloading {
                    advanced |= downloading.advance(&jobs, call_worker)?;
                }
            }
            if jobs.is_poisoned.load(Ordering::Relaxed) {
                // The pool passes the panic itself on to the caller.
                return Err(Error::internal("a worker thread panicked"));
            }
            if !advanced && !step() {
                std::thread::yield_now();
            }
        }
        Ok(())
    })
}

/// From this number of bytes on, several workers are faster than the driver.
pub const PARALLEL_BYTES: usize = 2 * BUFFER_BYTES;

/// True if several workers are faster than the driver. A single thread is not, and neither are
/// several for few bytes or for pinned memory.
fn is_worthwhile(bytes: &[u8], pool: &Pool) -> bool {
    bytes.len() >= PARALLEL_BYTES && pool.threads() > 1 && !is_pinned(bytes)
}

/// Copies `src` to `dst`, which has the same length. `src` has been read on return.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn h2d(dst: &DeviceBuffer, src: &[u8], pool: &Pool) -> Result<()> {
    let stream = dst.stream();
    if !is_worthwhile(src, pool) {
        return stream.copy_in(dst.all(), src);
    }
    let fill = |at: usize, bytes: &mut [u8]| bytes.copy_from_slice(&src[at..at + bytes.len()]);
    // SAFETY: the buffer is freed in stream order.
    unsafe {
        staged_copy(
            pool,
            Some((Upload { dst: dst.all(), stream, fill: &fill }, &mut StagingPool::new(stream.device()))),
            None,
        )
    }
}

/// Copies the first bytes of `src` to all of `dst`. Waits for the copy, and so for all earlier work
/// on the stream of `src`.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn d2h(src: &DeviceBuffer, dst: &mut [u8], pool: &Pool) -> Result<()> {
    let stream = src.stream();
    let wanted = src.slice(0..dst.len() as u64)?;
    if !is_worthwhile(dst, pool) {
        return stream.copy_out(wanted, dst);
    }
    let dst = SharedBytes::new(dst);
    // SAFETY: every byte is drained once.
    let drain = |at: usize, bytes: &[u8]| unsafe { dst.write(at, bytes) };
    // SAFETY: the buffer is freed in stream order.
    unsafe {
        staged_copy(
            pool,
            None,
            Some((Download { src: wanted, stream, drain: &drain }, &mut StagingPool::new(stream.device()))),
        )
    }
}
