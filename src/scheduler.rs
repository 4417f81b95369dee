//! All batches of a call through pipelines: who is next when, and in what order they are finished.
//!
//! Frames are packed in the order of their chunks, so batches are fetched and finished in order, whichever pipeline they
//! went through.
#![allow(unsafe_code, reason = "lends memory to pipelines")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

use crate::batch_sizer::BatchSizer;
use crate::frame::FRAME_ALIGNMENT;
use crate::pipeline::{CompressPipeline, DEPTH, DecompressPipeline, DrainFn, FillFn, Input, Output, Pipeline};
use crate::staging::{self, StagingPool};
use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::error::Result;

/// Both io of a compression: where arrays come from, and where frames go. What is lent stays as it is, and nobody else
/// touches it, until the pipelines are dropped. What crosses is loaded and unloaded by several threads, once every byte.
pub trait CompressIo<'d>: Sync {
    /// Where the arrays of these chunks are.
    fn arrays(&self, chunks: Range<u64>) -> Result<Input<'d>>;

    /// Loads the bytes from `at` on of these arrays, one behind the other, if they cross.
    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Where frames of these lengths, packed, are to go, which are behind all those before them.
    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Output<'_>>;

    /// Unloads the bytes from `at` on of these packed frames, if they cross.
    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);
}

/// Chunks that nobody has: pipelines take them from the front, and who works beside them from the back.
#[derive(Debug)]
pub struct WorkQueue(Mutex<Range<u64>>);

impl WorkQueue {
    /// So many, from 0 on.
    pub fn new(n_chunks: u64) -> Self {
        Self(Mutex::new(0..n_chunks))
    }

    /// The first ones, at most so many.
    fn pop_front(&self, n_chunks: u64) -> Option<Range<u64>> {
        let mut range = lock(&self.0);
        let taken = range.start..range.end.min(range.start + n_chunks);
        range.start = taken.end;
        (!taken.is_empty()).then_some(taken)
    }

    /// Leaves none.
    pub fn clear(&self) {
        *lock(&self.0) = 0..0;
    }

    /// The last one, if there are at least so many.
    pub fn pop_back(&self, n_chunks: u64) -> Option<u64> {
        let mut range = lock(&self.0);
        if range.end - range.start < n_chunks { None } else { range.next_back() }
    }
}

/// Both io of a decompression, likewise.
pub trait DecompressIo<'d>: Sync {
    /// How long the frames of these chunks are, and where they are, packed.
    fn frames(&self, chunks: Range<u64>) -> Result<(&'d [u64], Input<'d>)>;

    /// Loads the bytes from `at` on of these packed frames, if they cross.
    fn fill(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Where the arrays of these chunks are to go.
    fn arrays(&self, chunks: Range<u64>) -> Result<Output<'_>>;

    /// Unloads the bytes from `at` on of these arrays, if they cross.
    fn drain(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);

    /// The array of chunk `i`, which has been unloaded like the others, is unspecified: the kernels could not decompress its
    /// frame.
    fn rejected(&self, i: u64) -> Result<()>;
}

/// A batch on its way.
#[derive(Clone)]
struct InFlight {
    pipeline: usize,
    index: usize,
    chunks: Range<u64>,
    stage: Stage,
}

/// What is to happen with it next.
#[derive(Clone, Copy)]
enum Stage {
    /// Its bytes cross.
    Uploading,
    /// It is worked on, and then fetched.
    Running,
    /// It is there when it is done.
    Downloading,
    /// When it is done, so many bytes cross.
    Draining(u64),
}

impl InFlight {
    fn n_chunks(&self) -> u64 {
        self.chunks.end - self.chunks.start
    }
}

/// What is on its way, and what comes next.
struct Scheduler<'p> {
    sizer: &'p mut BatchSizer,
    queue: &'p WorkQueue,
    /// Free places, each with its pipeline; pipelines take turns.
    free: VecDeque<(usize, usize)>,
    in_flight: VecDeque<InFlight>,
}

impl<'p> Scheduler<'p> {
    fn new(n_pipelines: usize, queue: &'p WorkQueue, sizer: &'p mut BatchSizer) -> Self {
        let free = (0..DEPTH).flat_map(|index| (0..n_pipelines).map(move |pipeline| (pipeline, index))).collect();
        Self { sizer, queue, free, in_flight: VecDeque::new() }
    }

    /// The next batch, in the index that has been free for longest, if there are both.
    fn next_batch(&mut self) -> Option<InFlight> {
        let &(pipeline, index) = self.free.front()?;
        let chunks = self.queue.pop_front(self.sizer.n_chunks())?;
        self.free.pop_front();
        let batch = InFlight { pipeline, index, chunks, stage: Stage::Uploading };
        self.in_flight.push_back(batch.clone());
        Some(batch)
    }

    /// What is to happen next with the newest batch.
    fn set_stage(&mut self, stage: Stage) {
        self.in_flight.back_mut().expect("a batch was added").stage = stage;
    }

    /// The oldest batch is done.
    fn retire(&mut self) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        self.free.push_back((batch.pipeline, batch.index));
        self.sizer.record(batch.n_chunks());
    }
}

/// What crosses of a batch.
type StagedBatch<'a, F> = Option<(&'a InFlight, u64, F)>;

/// The boats of each pipeline.
struct StagingPools {
    upload: Vec<StagingPool>,
    download: Vec<StagingPool>,
}

impl StagingPools {
    fn of(pipelines: &[impl AsRef<Pipeline>]) -> Self {
        let pools = || pipelines.iter().map(|pipeline| StagingPool::new(pipeline.as_ref().device())).collect();
        Self { upload: pools(), download: pools() }
    }

    /// Lets bytes of two batches cross at the same time.
    fn copy<L: AsMut<Pipeline> + AsRef<Pipeline>>(
        &mut self,
        pipelines: &mut [L],
        upload: StagedBatch<FillFn>,
        download: StagedBatch<DrainFn>,
        pool: &Pool,
    ) -> Result<()> {
        let Some(pipeline) =
            download.map(|(batch, ..)| batch.pipeline).or(upload.map(|(batch, ..)| batch.pipeline))
        else {
            return Ok(());
        };
        let _entered = pipelines[pipeline].as_ref().device().enter()?;
        upload.map_or(Ok(()), |(batch, n_bytes, _)| {
            pipelines[batch.pipeline].as_mut().reserve_input(batch.index, n_bytes)
        })?;
        let upload = upload.map(|(batch, n_bytes, callback)| {
            Ok((
                pipelines[batch.pipeline].as_ref().staged_upload(batch.index, n_bytes, callback)?,
                &mut self.upload[batch.pipeline],
            ))
        });
        let download = download.map(|(batch, n_bytes, callback)| {
            Ok((
                pipelines[batch.pipeline].as_ref().staged_download(batch.index, n_bytes, callback)?,
                &mut self.download[batch.pipeline],
            ))
        });
        let (upload, download) = (upload.transpose()?, download.transpose()?);
        // SAFETY: the pipelines' memory lives as long as the pipelines, which wait for their streams.
        unsafe { staging::staged_copy(pool, upload, download) }
    }
}

/// Compresses the chunks that are left, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the pipelines and of the io. The pipelines are to be dropped then.
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
                    // SAFETY: what the io lend stays as it is until the pipelines are dropped.
                    unsafe { pipelines[batch.pipeline].begin(batch.index, batch.n_chunks(), input)? };
                    scheduler.set_stage(Stage::Running);
                }
            }
        }
        // What is made is fetched, in order, once its lengths are known.
        for batch in &mut scheduler.in_flight {
            let pipeline = &mut pipelines[batch.pipeline];
            match batch.stage {
                Stage::Downloading | Stage::Draining(_) => continue,
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

/// Decompresses the chunks that are left, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the pipelines and of the io. The pipelines are to be dropped then.
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
            let rejected = pipelines[oldest.pipeline].finish(oldest.index)?;
            rejected.iter().try_for_each(|i| io.rejected(oldest.chunks.start + i))?;
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

/// Begins to decompress a batch. Returns what is to happen with it next.
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
        _ => Stage::Downloading,
    };
    // SAFETY: what the io lend stays as it is until the pipelines are dropped.
    unsafe { pipelines[batch.pipeline].begin(batch.index, lengths, input, output)? };
    Ok(stage)
}

/// Where packed frames of these lengths end.
fn sum_packed_bytes(lengths: &[u64]) -> u64 {
    lengths.iter().map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum()
}
