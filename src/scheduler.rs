//! Schedules the batches of a call over the pipelines and retires them in order.
//!
//! Frames are packed in the order of their chunks. So batches are downloaded and retired in order,
//! whichever pipeline runs them.
#![allow(unsafe_code, reason = "lends memory to pipelines")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

use crate::batch_sizer::BatchSizer;
use crate::frame::FRAME_ALIGNMENT;
use crate::pipeline::compress::CompressPipeline;
use crate::pipeline::decompress::DecompressPipeline;
use crate::pipeline::{DEPTH, DrainFn, FillFn, Input, Output, Pipeline};
use crate::staging::{self, StagingPool};
use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::error::Result;
use gridz_cuda::{DeviceSlice, Stream};

/// Input and output of a compression. Memory that it lends must stay unchanged, and no other code
/// may access it, until the pipelines are dropped. In staged copies, several threads call `fill`
/// and `drain`, once for every byte.
pub trait CompressIo<'d>: Sync {
    /// Location of the arrays of these chunks.
    fn arrays(&self, chunks: Range<u64>) -> Result<Input<'d>>;

    /// Copies bytes of these arrays, as if they were adjacent, to `bytes`; `at` is the offset of
    /// the first one. Called for staged input.
    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Starts kernels that write these arrays to `dst`, one after the other. Called for gathered
    /// input.
    fn gather(&self, chunks: &Range<u64>, stream: &Stream, dst: DeviceSlice) -> Result<()>;

    /// Destination of the packed frames with these lengths. Called in the order of the chunks.
    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Output<'_>>;

    /// Stores bytes of these packed frames; `at` is the offset of the first one. Called for staged
    /// output.
    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);

    /// Called when the frames of these chunks have arrived, in the order of the chunks.
    fn done(&mut self, chunks: Range<u64>) -> Result<()>;
}

/// The chunks that are not yet assigned. Pipelines take them from the front, CPU threads from the
/// back.
#[derive(Debug)]
pub struct WorkQueue(Mutex<Range<u64>>);

impl WorkQueue {
    /// Chunks 0 to `n_chunks` − 1.
    pub fn new(n_chunks: u64) -> Self {
        Self(Mutex::new(0..n_chunks))
    }

    /// Takes up to `n_chunks` chunks.
    fn pop_front(&self, n_chunks: u64) -> Option<Range<u64>> {
        let mut range = lock(&self.0);
        let taken = range.start..range.end.min(range.start + n_chunks);
        range.start = taken.end;
        (!taken.is_empty()).then_some(taken)
    }

    /// Removes all chunks.
    pub fn clear(&self) {
        *lock(&self.0) = 0..0;
    }

    /// Takes the last chunk, unless fewer than `n_chunks` are left.
    pub fn pop_back(&self, n_chunks: u64) -> Option<u64> {
        let mut range = lock(&self.0);
        if range.end - range.start < n_chunks { None } else { range.next_back() }
    }
}

/// Input and output of a decompression, with the same rules as [`CompressIo`].
pub trait DecompressIo<'d>: Sync {
    /// Lengths and location of the packed frames of these chunks.
    fn frames(&self, chunks: Range<u64>) -> Result<(&'d [u64], Input<'d>)>;

    /// Copies bytes of these packed frames to `bytes`; `at` is the offset of the first one. Called
    /// for staged input.
    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Destination of the arrays of these chunks.
    fn arrays(&self, chunks: Range<u64>) -> Result<Output<'_>>;

    /// Stores bytes of these arrays, as if they were adjacent; `at` is the offset of the first one.
    /// Called for staged output.
    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);

    /// Starts kernels that copy these arrays from `src`, where they are adjacent. Called for
    /// scattered output.
    fn scatter(&self, chunks: &Range<u64>, stream: &Stream, src: DeviceSlice) -> Result<()>;

    /// Called for a chunk whose frame the GPU rejected, after its output was written. The output is
    /// unspecified and must be rewritten.
    fn rejected(&self, i: u64) -> Result<()>;

    /// Called when these arrays are complete, in the order of the chunks.
    fn done(&self, chunks: Range<u64>) -> Result<()>;
}

/// A batch in flight: its pipeline and its entry in that pipeline's ring.
#[derive(Clone)]
struct InFlight {
    pipeline: usize,
    index: usize,
    chunks: Range<u64>,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Its input is copied through staging buffers.
    Uploading,
    /// Kernels run; a download follows.
    Running,
    /// It is done once the pipeline's work has completed.
    Downloading,
    /// Once the pipeline's work has completed, this many bytes are copied through staging buffers.
    Draining(u64),
    /// Once the pipeline's work has completed, kernels copy this many bytes.
    Scattering(u64),
}

impl InFlight {
    fn n_chunks(&self) -> u64 {
        self.chunks.end - self.chunks.start
    }
}

/// Batches in flight, oldest first, and the resources for further ones.
struct Scheduler<'p> {
    sizer: &'p mut BatchSizer,
    queue: &'p WorkQueue,
    /// Free entries as (pipeline, index). Pipelines take turns.
    free: VecDeque<(usize, usize)>,
    in_flight: VecDeque<InFlight>,
}

impl<'p> Scheduler<'p> {
    fn new(n_pipelines: usize, queue: &'p WorkQueue, sizer: &'p mut BatchSizer) -> Self {
        let free = (0..DEPTH).flat_map(|index| (0..n_pipelines).map(move |pipeline| (pipeline, index))).collect();
        Self { sizer, queue, free, in_flight: VecDeque::new() }
    }

    /// Assigns chunks to the entry that has been free for longest. `None` if there are no chunks or
    /// no free entry.
    fn next_batch(&mut self) -> Option<InFlight> {
        let &(pipeline, index) = self.free.front()?;
        let chunks = self.queue.pop_front(self.sizer.n_chunks())?;
        self.free.pop_front();
        let batch = InFlight { pipeline, index, chunks, stage: Stage::Uploading };
        self.in_flight.push_back(batch.clone());
        Some(batch)
    }

    /// Sets the stage of the newest batch.
    fn set_stage(&mut self, stage: Stage) {
        self.in_flight.back_mut().expect("a batch was added").stage = stage;
    }

    /// Removes the oldest batch, which is done.
    fn retire(&mut self) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        self.free.push_back((batch.pipeline, batch.index));
        self.sizer.record(batch.n_chunks());
    }
}

/// A batch with a staged copy: the number of bytes, and the callback that fills or drains buffers.
type StagedBatch<'a, F> = Option<(&'a InFlight, u64, F)>;

/// The staging buffers of each pipeline.
struct StagingPools {
    upload: Vec<StagingPool>,
    download: Vec<StagingPool>,
}

impl StagingPools {
    fn of<D>(pipelines: &[Pipeline<D>]) -> Self {
        let pools = || pipelines.iter().map(|pipeline| StagingPool::new(pipeline.device())).collect();
        Self { upload: pools(), download: pools() }
    }

    /// Uploads input of one batch and downloads output of another one at the same time.
    fn copy<D>(
        &mut self,
        pipelines: &mut [Pipeline<D>],
        upload: StagedBatch<FillFn>,
        download: StagedBatch<DrainFn>,
        pool: &Pool,
    ) -> Result<()> {
        let Some(pipeline) =
            download.map(|(batch, ..)| batch.pipeline).or(upload.map(|(batch, ..)| batch.pipeline))
        else {
            return Ok(());
        };
        let _entered = pipelines[pipeline].device().enter()?;
        if let Some((batch, n_bytes, _)) = upload {
            pipelines[batch.pipeline].reserve_input(batch.index, n_bytes)?;
        }
        let upload = upload.map(|(batch, n_bytes, callback)| {
            Ok((
                pipelines[batch.pipeline].staged_upload(batch.index, n_bytes, callback)?,
                &mut self.upload[batch.pipeline],
            ))
        });
        let download = download.map(|(batch, n_bytes, callback)| {
            Ok((
                pipelines[batch.pipeline].staged_download(batch.index, n_bytes, callback)?,
                &mut self.download[batch.pipeline],
            ))
        });
        let (upload, download) = (upload.transpose()?, download.transpose()?);
        // SAFETY: the pipelines' memory lives as long as the pipelines, which synchronize their
        // streams when dropped.
        unsafe { staging::staged_copy(pool, upload, download) }
    }
}

/// Compresses the chunks of the queue, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the pipelines and of `io`. The caller must then drop the pipelines.
pub fn compress(
    pipelines: &mut [CompressPipeline],
    io: &mut dyn CompressIo<'_>,
    (queue, array_bytes): (&WorkQueue, u64),
    sizer: &mut BatchSizer,
    pool: &Pool,
) -> Result<()> {
    let (mut scheduler, mut pools) = (Scheduler::new(pipelines.len(), queue, sizer), StagingPools::of(pipelines));
    loop {
        let (next, mut upload) = (scheduler.next_batch(), None);
        if let Some(batch) = &next {
            match io.arrays(batch.chunks.clone())? {
                Input::Staged => upload = Some(batch),
                input => {
                    if matches!(input, Input::Gathered) {
                        let (pipeline, n_bytes) = (&mut pipelines[batch.pipeline], batch.n_chunks() * array_bytes);
                        let (stream, dst) = pipeline.reserve_input(batch.index, n_bytes)?;
                        io.gather(&batch.chunks, stream, dst)?;
                    }
                    // SAFETY: memory that `io` lends stays valid and unchanged until the pipelines
                    // are dropped.
                    unsafe { pipelines[batch.pipeline].begin(batch.index, batch.n_chunks(), input)? };
                    scheduler.set_stage(Stage::Running);
                }
            }
        }
        // Compressed batches are downloaded in order, once their lengths are known.
        for batch in &mut scheduler.in_flight {
            let pipeline = &mut pipelines[batch.pipeline];
            match batch.stage {
                Stage::Downloading | Stage::Draining(_) | Stage::Scattering(_) => continue,
                Stage::Running if pipeline.is_compressed(batch.index)? => {}
                Stage::Running | Stage::Uploading => break,
            }
            let lengths: Vec<u64> = pipeline.lengths(batch.index)?.collect();
            let output = io.frames(batch.chunks.clone(), &lengths)?;
            batch.stage = match output {
                Output::Staged => Stage::Draining(sum_packed_bytes(&lengths)),
                _ => Stage::Downloading,
            };
            // SAFETY: as above.
            unsafe { pipeline.download(batch.index, output)? };
        }
        let Some(oldest) = scheduler.in_flight.front() else { return Ok(()) };
        let download = match oldest.stage {
            Stage::Draining(n_bytes) => Some((oldest, n_bytes)),
            _ => None,
        };
        let fill = |at: usize, bytes: &mut [u8]| upload.iter().for_each(|batch| io.fill(&batch.chunks, at, bytes));
        let drain = |at: usize, bytes: &[u8]| io.drain(&oldest.chunks, at, bytes);
        let upload_bytes = |batch: &InFlight| batch.n_chunks() * array_bytes;
        pools.copy(
            pipelines,
            upload.map(|batch| (batch, upload_bytes(batch), &fill as FillFn)),
            download.map(|(batch, n_bytes)| (batch, n_bytes, &drain as DrainFn)),
            pool,
        )?;
        let is_done = download.is_some()
            || matches!(oldest.stage, Stage::Downloading) && pipelines[oldest.pipeline].is_done(oldest.index)?;
        if is_done {
            pipelines[oldest.pipeline].finish(oldest.index)?;
            io.done(oldest.chunks.clone())?;
        }
        if let Some(batch) = upload {
            // SAFETY: as above.
            unsafe { pipelines[batch.pipeline].begin(batch.index, batch.n_chunks(), Input::Staged)? };
            scheduler.set_stage(Stage::Running);
        }
        if is_done {
            scheduler.retire();
        } else if next.is_none() {
            std::thread::yield_now();
        }
    }
}

/// Decompresses the chunks of the queue, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the pipelines and of `io`. The caller must then drop the pipelines.
pub fn decompress(
    pipelines: &mut [DecompressPipeline],
    io: &dyn DecompressIo<'_>,
    (queue, array_bytes): (&WorkQueue, u64),
    sizer: &mut BatchSizer,
    pool: &Pool,
) -> Result<()> {
    let (mut scheduler, mut pools) = (Scheduler::new(pipelines.len(), queue, sizer), StagingPools::of(pipelines));
    loop {
        let (next, mut upload) = (scheduler.next_batch(), None);
        if let Some(batch) = &next {
            let (lengths, input) = io.frames(batch.chunks.clone())?;
            match input {
                Input::Staged => upload = Some((batch, lengths)),
                input => scheduler.set_stage(begin_decompress(pipelines, io, batch, lengths, input, array_bytes)?),
            }
        }
        let Some(oldest) = scheduler.in_flight.front().cloned() else { return Ok(()) };
        let is_done =
            !matches!(oldest.stage, Stage::Uploading) && pipelines[oldest.pipeline].is_done(oldest.index)?;
        let download = match oldest.stage {
            Stage::Draining(n_bytes) if is_done => Some((&oldest, n_bytes)),
            _ => None,
        };
        let fill =
            |at: usize, bytes: &mut [u8]| upload.iter().for_each(|(batch, _)| io.fill(&batch.chunks, at, bytes));
        let drain = |at: usize, bytes: &[u8]| io.drain(&oldest.chunks, at, bytes);
        pools.copy(
            pipelines,
            upload.map(|(batch, lengths)| (batch, sum_packed_bytes(lengths), &fill as FillFn)),
            download.map(|(batch, n_bytes)| (batch, n_bytes, &drain as DrainFn)),
            pool,
        )?;
        if is_done {
            let pipeline = &mut pipelines[oldest.pipeline];
            if let Stage::Scattering(n_bytes) = oldest.stage {
                let (stream, src) = pipeline.output(oldest.index, n_bytes)?;
                io.scatter(&oldest.chunks, stream, src)?;
                stream.synchronize()?;
            }
            let rejected = pipeline.finish(oldest.index)?;
            rejected.iter().try_for_each(|i| io.rejected(oldest.chunks.start + i))?;
            io.done(oldest.chunks.clone())?;
        }
        if let Some((batch, lengths)) = upload {
            scheduler.set_stage(begin_decompress(pipelines, io, batch, lengths, Input::Staged, array_bytes)?);
        }
        if is_done {
            scheduler.retire();
        } else if next.is_none() {
            pipelines[oldest.pipeline].wait(oldest.index)?;
        }
    }
}

/// Begins to decompress a batch. Returns its next stage.
fn begin_decompress(
    pipelines: &mut [DecompressPipeline],
    io: &dyn DecompressIo<'_>,
    batch: &InFlight,
    lengths: &[u64],
    input: Input,
    array_bytes: u64,
) -> Result<Stage> {
    let output = io.arrays(batch.chunks.clone())?;
    let stage = match output {
        Output::Staged => Stage::Draining(batch.n_chunks() * array_bytes),
        Output::Scattered => Stage::Scattering(batch.n_chunks() * array_bytes),
        _ => Stage::Downloading,
    };
    // SAFETY: memory that `io` lends stays valid and unchanged until the pipelines are dropped.
    unsafe { pipelines[batch.pipeline].begin(batch.index, lengths, input, output)? };
    Ok(stage)
}

/// Bytes of packed frames with these lengths, which are known to fit.
fn sum_packed_bytes(lengths: &[u64]) -> u64 {
    lengths.iter().map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum()
}
