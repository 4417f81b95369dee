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
/// Bytes that a worker fills or drains at a time.
const JOB_BYTES: usize = 256 << 10;

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
    /// Set when a worker has panicked.
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
    let (n_uploads, n_downloads) = (upload_bytes.div_ceil(BUFFER_BYTES), download_bytes.div_ceil(BUFFER_BYTES));
    let ReadyBuffers { memory: upload_memory, buffers: mut upload_buffers } =
        StagingPool::acquire(upload_pool, upload_bytes)?;
    let ReadyBuffers { memory: download_memory, buffers: mut download_buffers } =
        StagingPool::acquire(download_pool, download_bytes)?;
    let (n_upload_buffers, n_download_buffers) = (upload_buffers.len().max(1), download_buffers.len().max(1));
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
        let (mut filling, mut sent) = (0, 0);
        let (mut requested, mut arrived, mut drained) = (0, 0, 0);
        while sent < n_uploads || drained < n_downloads {
            let progress = (filling, sent, requested, arrived, drained);
            if let Some(upload) = upload {
                if filling < n_uploads.min(sent + n_upload_buffers) {
                    let (completed, in_flight) = &mut upload_buffers[filling % n_upload_buffers];
                    if !**in_flight || completed.is_reached()? {
                        **in_flight = false;
                        jobs.push(true, filling % n_upload_buffers, byte_range(filling, upload_bytes), call_worker);
                        filling += 1;
                    }
                }
                let buffer = sent % n_upload_buffers;
                if sent < filling && jobs.are_done(true, buffer) {
                    let (bytes, (completed, in_flight)) =
                        (byte_range(sent, upload_bytes), &mut upload_buffers[buffer]);
                    // SAFETY: the buffer is filled, and no thread accesses it before its copy has
                    // completed. The GPU memory lives, by this function's contract.
                    unsafe {
                        upload
                            .stream
                            .bring(upload.dst.slice(to_u64(&bytes))?, upload_memory[buffer].part(0..bytes.len()))?
                    };
                    **in_flight = true;
                    record(upload.stream, completed)?;
                    sent += 1;
                }
            }
            if let Some(download) = download {
                if drained < arrived && jobs.are_done(false, drained % n_download_buffers) {
                    drained += 1;
                }
                if requested < n_downloads.min(drained + n_download_buffers) {
                    let buffer = requested % n_download_buffers;
                    let (bytes, (completed, in_flight)) =
                        (byte_range(requested, download_bytes), &mut download_buffers[buffer]);
                    // SAFETY: the buffer is drained, and no thread accesses it before its copy has
                    // completed. The GPU memory lives, by this function's contract.
                    unsafe {
                        download.stream.fetch(
                            download.src.slice(to_u64(&bytes))?,
                            download_memory[buffer].part(0..bytes.len()),
                        )?;
                    }
                    **in_flight = true;
                    record(download.stream, completed)?;
                    requested += 1;
                }
                if arrived < requested {
                    let (completed, in_flight) = &mut download_buffers[arrived % n_download_buffers];
                    if completed.is_reached()? {
                        **in_flight = false;
                        jobs.push(
                            false,
                            arrived % n_download_buffers,
                            byte_range(arrived, download_bytes),
                            call_worker,
                        );
                        arrived += 1;
                    }
                }
            }
            if jobs.is_poisoned.load(Ordering::Relaxed) {
                // The pool passes the panic itself on to the caller.
                return Err(Error::internal("a worker has panicked"));
            }
            let advanced = progress != (filling, sent, requested, arrived, drained);
            if !advanced && !step() {
                std::thread::yield_now();
            }
        }
        Ok(())
    })
}

/// True if several workers are faster than the driver. A single thread is not, and neither are
/// several for few bytes or for pinned memory.
fn is_worthwhile(bytes: &[u8], pool: &Pool) -> bool {
    bytes.len() >= 2 * BUFFER_BYTES && pool.threads() > 1 && !is_pinned(bytes)
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
