//! All batches of a call through lanes: who is begun when, and in what order they are finished.
//!
//! Frames are packed in the order of their chunks, so batches are fetched and finished in order, whichever lane they
//! went through.
#![allow(unsafe_code, reason = "lends memory to lanes")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

use crate::ferry::{self, Fleet};
use crate::frame::FRAME_ALIGNMENT;
use crate::lanes::{CompressLane, DEPTH, DecompressLane, Lane, LoadFn, Origin, Target, UnloadFn};
use crate::pace::Pace;
use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::error::Result;

/// Both ends of a compression: where arrays come from, and where frames go. What is lent stays as it is, and nobody else
/// touches it, until the lanes are dropped. What crosses is loaded and unloaded by several threads, once every byte.
pub trait Compresses<'d>: Sync {
    /// Where the arrays of these chunks are.
    fn arrays(&self, chunks: Range<u64>) -> Result<Origin<'d>>;

    /// Loads the bytes from `at` on of these arrays, one behind the other, if they cross.
    fn load(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Where frames of these lengths, packed, are to go, which are behind all those before them.
    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Target<'_>>;

    /// Unloads the bytes from `at` on of these packed frames, if they cross.
    fn unload(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);
}

/// Chunks that nobody has: lanes take them from the front, and who works beside them from the back.
#[derive(Debug)]
pub struct Left(Mutex<Range<u64>>);

impl Left {
    /// So many, from 0 on.
    pub fn new(n_chunks: u64) -> Self {
        Self(Mutex::new(0..n_chunks))
    }

    /// The first ones, at most so many.
    fn first(&self, n_chunks: u64) -> Option<Range<u64>> {
        let mut left = lock(&self.0);
        let taken = left.start..left.end.min(left.start + n_chunks);
        left.start = taken.end;
        (!taken.is_empty()).then_some(taken)
    }

    /// Leaves none.
    pub fn clear(&self) {
        *lock(&self.0) = 0..0;
    }

    /// The last one, if there are at least so many.
    pub fn last_of(&self, n_chunks: u64) -> Option<u64> {
        let mut left = lock(&self.0);
        if left.end - left.start < n_chunks { None } else { left.next_back() }
    }
}

/// Both ends of a decompression, likewise.
pub trait Decompresses<'d>: Sync {
    /// How long the frames of these chunks are, and where they are, packed.
    fn frames(&self, chunks: Range<u64>) -> Result<(&'d [u64], Origin<'d>)>;

    /// Loads the bytes from `at` on of these packed frames, if they cross.
    fn load(&self, chunks: &Range<u64>, at: usize, bytes: &mut [u8]);

    /// Where the arrays of these chunks are to go.
    fn arrays(&self, chunks: Range<u64>) -> Result<Target<'_>>;

    /// Unloads the bytes from `at` on of these arrays, if they cross.
    fn unload(&self, chunks: &Range<u64>, at: usize, bytes: &[u8]);

    /// The array of chunk `i`, which has been unloaded like the others, is unspecified: the kernels could not decompress its
    /// frame.
    fn failed(&self, i: u64) -> Result<()>;
}

/// A batch on its way.
#[derive(Clone)]
struct Going {
    lane: usize,
    place: usize,
    chunks: Range<u64>,
    stage: Stage,
}

/// What is to happen with it next.
#[derive(Clone, Copy)]
enum Stage {
    /// Its bytes cross.
    Loads,
    /// It is worked on, and then fetched.
    Works,
    /// It is there when it is done.
    Comes,
    /// When it is done, so many bytes cross.
    Unloads(u64),
}

impl Going {
    fn n_chunks(&self) -> u64 {
        self.chunks.end - self.chunks.start
    }
}

/// What is on its way, and what comes next.
struct Traffic<'p> {
    pace: &'p mut Pace,
    left: &'p Left,
    /// Free places, each with its lane; lanes take turns.
    free: VecDeque<(usize, usize)>,
    going: VecDeque<Going>,
}

impl<'p> Traffic<'p> {
    fn new(n_lanes: usize, left: &'p Left, pace: &'p mut Pace) -> Self {
        let free = (0..DEPTH).flat_map(|place| (0..n_lanes).map(move |lane| (lane, place))).collect();
        Self { pace, left, free, going: VecDeque::new() }
    }

    /// The next batch, in the place that has been free for longest, if there are both.
    fn begin(&mut self) -> Option<Going> {
        let &(lane, place) = self.free.front()?;
        let chunks = self.left.first(self.pace.n_chunks())?;
        self.free.pop_front();
        let batch = Going { lane, place, chunks, stage: Stage::Loads };
        self.going.push_back(batch.clone());
        Some(batch)
    }

    /// What is to happen next with the newest batch.
    fn has_begun(&mut self, stage: Stage) {
        self.going.back_mut().expect("it has begun").stage = stage;
    }

    /// The oldest batch is done.
    fn end(&mut self) {
        let Some(batch) = self.going.pop_front() else { return };
        self.free.push_back((batch.lane, batch.place));
        self.pace.done(batch.n_chunks());
    }
}

/// What crosses of a batch.
type Crosses<'a, F> = Option<(&'a Going, u64, F)>;

/// The boats of each lane.
struct Fleets {
    up: Vec<Fleet>,
    down: Vec<Fleet>,
}

impl Fleets {
    fn of(lanes: &[impl AsRef<Lane>]) -> Self {
        let fleets = || lanes.iter().map(|lane| Fleet::new(lane.as_ref().device())).collect();
        Self { up: fleets(), down: fleets() }
    }

    /// Lets bytes of two batches cross at the same time.
    fn cross<L: AsMut<Lane> + AsRef<Lane>>(
        &mut self,
        lanes: &mut [L],
        up: Crosses<LoadFn>,
        down: Crosses<UnloadFn>,
        pool: &Pool,
    ) -> Result<()> {
        let Some(lane) = down.map(|(batch, ..)| batch.lane).or(up.map(|(batch, ..)| batch.lane)) else {
            return Ok(());
        };
        let _entered = lanes[lane].as_ref().device().enter()?;
        up.map_or(Ok(()), |(batch, n_bytes, _)| lanes[batch.lane].as_mut().expect(batch.place, n_bytes))?;
        let up = up.map(|(batch, n_bytes, by)| {
            Ok((lanes[batch.lane].as_ref().up(batch.place, n_bytes, by)?, &mut self.up[batch.lane]))
        });
        let down = down.map(|(batch, n_bytes, by)| {
            Ok((lanes[batch.lane].as_ref().down(batch.place, n_bytes, by)?, &mut self.down[batch.lane]))
        });
        let (up, down) = (up.transpose()?, down.transpose()?);
        // SAFETY: the lanes' memory lives as long as the lanes, which wait for their streams.
        unsafe { ferry::cross(pool, up, down) }
    }
}

/// Compresses the chunks that are left, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the lanes and of the ends. The lanes are to be dropped then.
pub fn compress(
    lanes: &mut [CompressLane],
    ends: &mut dyn Compresses<'_>,
    (left, array_bytes): (&Left, u64),
    pace: &mut Pace,
    pool: &Pool,
) -> Result<()> {
    let (mut traffic, mut fleets) = (Traffic::new(lanes.len(), left, pace), Fleets::of(lanes));
    loop {
        let (begun, mut up) = (traffic.begin(), None);
        if let Some(batch) = &begun {
            match ends.arrays(batch.chunks.clone())? {
                Origin::Ferried => up = Some(batch),
                origin => {
                    // SAFETY: what the ends lend stays as it is until the lanes are dropped.
                    unsafe { lanes[batch.lane].begin(batch.place, batch.n_chunks(), origin)? };
                    traffic.has_begun(Stage::Works);
                }
            }
        }
        // What is made is fetched, in order, once its lengths are known.
        for batch in &mut traffic.going {
            let lane = &mut lanes[batch.lane];
            match batch.stage {
                Stage::Comes | Stage::Unloads(_) => continue,
                Stage::Works if lane.is_made(batch.place)? => {}
                Stage::Works | Stage::Loads => break,
            }
            let lengths: Vec<u64> = lane.lengths(batch.place)?.collect();
            let target = ends.frames(batch.chunks.clone(), &lengths)?;
            batch.stage = match target {
                Target::Ferried => Stage::Unloads(packed_bytes(&lengths)),
                _ => Stage::Comes,
            };
            // SAFETY: as above.
            unsafe { lane.fetch(batch.place, target)? };
        }
        let Some(oldest) = traffic.going.front() else { return Ok(()) };
        let down = match oldest.stage {
            Stage::Unloads(n_bytes) => Some((oldest, n_bytes)),
            _ => None,
        };
        let load = |at: usize, bytes: &mut [u8]| up.iter().for_each(|batch| ends.load(&batch.chunks, at, bytes));
        let unload = |at: usize, bytes: &[u8]| ends.unload(&oldest.chunks, at, bytes);
        let up_bytes = |batch: &Going| batch.n_chunks() * array_bytes;
        fleets.cross(
            lanes,
            up.map(|batch| (batch, up_bytes(batch), &load as LoadFn)),
            down.map(|(batch, n_bytes)| (batch, n_bytes, &unload as UnloadFn)),
            pool,
        )?;
        let is_done =
            down.is_some() || matches!(oldest.stage, Stage::Comes) && lanes[oldest.lane].is_done(oldest.place)?;
        if is_done {
            lanes[oldest.lane].finish(oldest.place)?;
        }
        if let Some(batch) = up {
            // SAFETY: as above.
            unsafe { lanes[batch.lane].begin(batch.place, batch.n_chunks(), Origin::Ferried)? };
            traffic.has_begun(Stage::Works);
        }
        if is_done {
            traffic.end();
        } else if begun.is_none() {
            std::thread::yield_now();
        }
    }
}

/// Decompresses the chunks that are left, each of `array_bytes` bytes.
///
/// # Errors
/// Those of the lanes and of the ends. The lanes are to be dropped then.
pub fn decompress(
    lanes: &mut [DecompressLane],
    ends: &dyn Decompresses<'_>,
    (left, array_bytes): (&Left, u64),
    pace: &mut Pace,
    pool: &Pool,
) -> Result<()> {
    let (mut traffic, mut fleets) = (Traffic::new(lanes.len(), left, pace), Fleets::of(lanes));
    loop {
        let (begun, mut up) = (traffic.begin(), None);
        if let Some(batch) = &begun {
            let (lengths, origin) = ends.frames(batch.chunks.clone())?;
            match origin {
                Origin::Ferried => up = Some((batch, lengths)),
                origin => traffic.has_begun(unpack(lanes, ends, batch, lengths, origin, array_bytes)?),
            }
        }
        let Some(oldest) = traffic.going.front().cloned() else { return Ok(()) };
        let is_done = !matches!(oldest.stage, Stage::Loads) && lanes[oldest.lane].is_done(oldest.place)?;
        let down = match oldest.stage {
            Stage::Unloads(n_bytes) if is_done => Some((&oldest, n_bytes)),
            _ => None,
        };
        let load =
            |at: usize, bytes: &mut [u8]| up.iter().for_each(|(batch, _)| ends.load(&batch.chunks, at, bytes));
        let unload = |at: usize, bytes: &[u8]| ends.unload(&oldest.chunks, at, bytes);
        fleets.cross(
            lanes,
            up.map(|(batch, lengths)| (batch, packed_bytes(lengths), &load as LoadFn)),
            down.map(|(batch, n_bytes)| (batch, n_bytes, &unload as UnloadFn)),
            pool,
        )?;
        if is_done {
            let failed = lanes[oldest.lane].finish(oldest.place)?;
            failed.iter().try_for_each(|i| ends.failed(oldest.chunks.start + i))?;
        }
        if let Some((batch, lengths)) = up {
            traffic.has_begun(unpack(lanes, ends, batch, lengths, Origin::Ferried, array_bytes)?);
        }
        if is_done {
            traffic.end();
        } else if begun.is_none() {
            lanes[oldest.lane].wait(oldest.place)?;
        }
    }
}

/// Begins to decompress a batch. Returns what is to happen with it next.
fn unpack(
    lanes: &mut [DecompressLane],
    ends: &dyn Decompresses<'_>,
    batch: &Going,
    lengths: &[u64],
    origin: Origin,
    array_bytes: u64,
) -> Result<Stage> {
    let target = ends.arrays(batch.chunks.clone())?;
    let stage = match target {
        Target::Ferried => Stage::Unloads(batch.n_chunks() * array_bytes),
        _ => Stage::Comes,
    };
    // SAFETY: what the ends lend stays as it is until the lanes are dropped.
    unsafe { lanes[batch.lane].begin(batch.place, lengths, origin, target)? };
    Ok(stage)
}

/// Where packed frames of these lengths end.
pub fn packed_bytes(lengths: &[u64]) -> u64 {
    lengths.iter().map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum()
}
