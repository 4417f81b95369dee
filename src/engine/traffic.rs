//! All batches of a call through lanes: who is begun when, and in what order they are finished.
//!
//! Frames are packed in the order of their chunks, so batches are fetched and finished in order, whichever lane they
//! went through.
#![allow(unsafe_code, reason = "lends memory to lanes")]

use std::collections::VecDeque;
use std::ops::Range;

use crate::engine::lanes::{CompressLane, DEPTH, DecompressLane, Decompressed, Origin, Target};
use crate::engine::launch::FRAME_ALIGNMENT;
use crate::engine::pace::Pace;
use crate::error::Result;

/// Both ends of a compression: where arrays come from, and where frames go. What is lent stays as it is, and nobody else
/// touches it, until the lanes are dropped.
pub trait Compresses<'d> {
    /// Where the arrays of these chunks are, if a GPU can read them there.
    fn arrays(&self, chunks: Range<u64>) -> Result<Option<Origin<'d>>>;

    /// Copies the arrays of these chunks to `staging`, one behind the other.
    fn stage(&mut self, chunks: Range<u64>, staging: &mut [u8]) -> Result<()>;

    /// Where frames of these lengths, packed, are to go, which are behind all those before them.
    fn frames(&mut self, chunks: Range<u64>, lengths: &[u64]) -> Result<Target<'_>>;

    /// The packed frames of these chunks are where they should be, or in `staged`.
    fn deliver(&mut self, chunks: Range<u64>, staged: &[u8]) -> Result<()>;
}

/// Both ends of a decompression, likewise.
pub trait Decompresses<'d> {
    /// How long the frames of these chunks are, or at most are. One of 0 bytes will fail.
    fn lengths(&mut self, chunks: Range<u64>) -> Result<Vec<u64>>;

    /// Where the packed frames of these chunks are, if a GPU can read them there.
    fn frames(&self, chunks: Range<u64>) -> Result<Option<Origin<'d>>>;

    /// Copies the frames of these chunks to `staging`, packed, and says in `lengths` how long they are after all.
    fn stage(&mut self, chunks: Range<u64>, lengths: &mut [u64], staging: &mut [u8]) -> Result<()>;

    /// Where the arrays of these chunks are to go.
    fn arrays(&mut self, chunks: Range<u64>) -> Result<Target<'_>>;

    /// The arrays of these chunks are where they should be, or in `done.arrays`, but those that have failed.
    fn deliver(&mut self, chunks: Range<u64>, done: &Decompressed) -> Result<()>;
}

/// A batch on its way.
struct Going {
    lane: usize,
    place: usize,
    chunks: Range<u64>,
    is_fetched: bool,
}

/// What is on its way, and what comes next.
struct Traffic<'p> {
    pace: &'p mut Pace,
    next: u64,
    n_chunks: u64,
    /// Free places of each lane.
    free: Vec<Vec<usize>>,
    going: VecDeque<Going>,
}

impl<'p> Traffic<'p> {
    fn new(n_lanes: usize, n_chunks: u64, pace: &'p mut Pace) -> Self {
        Self { pace, next: 0, n_chunks, free: vec![(0..DEPTH).collect(); n_lanes], going: VecDeque::new() }
    }

    /// The next batch and a place for it, of the lane that has most, if there are both.
    fn begin(&mut self) -> Option<(usize, usize, Range<u64>)> {
        if self.next == self.n_chunks {
            return None;
        }
        let (lane, places) = self.free.iter_mut().enumerate().max_by_key(|(_, places)| places.len())?;
        let place = places.pop()?;
        let chunks = self.next..(self.next + self.pace.n_chunks()).min(self.n_chunks);
        self.next = chunks.end;
        self.going.push_back(Going { lane, place, chunks: chunks.clone(), is_fetched: false });
        Some((lane, place, chunks))
    }

    /// The oldest batch is done.
    fn end(&mut self) {
        let Some(Going { lane, place, chunks, .. }) = self.going.pop_front() else { return };
        self.free[lane].push(place);
        self.pace.done(chunks.end - chunks.start);
    }
}

/// Compresses `n_chunks` chunks.
///
/// # Errors
/// Those of the lanes and of the ends. The lanes are to be dropped then.
pub fn compress(
    lanes: &mut [CompressLane],
    ends: &mut dyn Compresses<'_>,
    n_chunks: u64,
    array_bytes: u64,
    pace: &mut Pace,
) -> Result<()> {
    let mut traffic = Traffic::new(lanes.len(), n_chunks, pace);
    loop {
        let begun = traffic.begin();
        if let Some((lane, place, chunks)) = &begun {
            let (lane, n_chunks) = (&mut lanes[*lane], chunks.end - chunks.start);
            let origin = match ends.arrays(chunks.clone())? {
                Some(origin) => origin,
                None => {
                    ends.stage(chunks.clone(), lane.staging(*place, n_chunks * array_bytes)?)?;
                    Origin::Staged
                }
            };
            // SAFETY: what the ends lend stays as it is until the lanes are dropped.
            unsafe { lane.begin(*place, n_chunks, origin)? };
        }
        // What is made is fetched, in order. As long as no batch can be begun, that is all there is to do.
        loop {
            for batch in traffic.going.iter_mut().filter(|batch| !batch.is_fetched) {
                let lane = &mut lanes[batch.lane];
                if !lane.is_made(batch.place)? {
                    break;
                }
                let lengths: Vec<u64> = lane.lengths(batch.place)?.collect();
                let target = ends.frames(batch.chunks.clone(), &lengths)?;
                // SAFETY: as above.
                unsafe { lane.fetch(batch.place, target)? };
                batch.is_fetched = true;
            }
            let Some(Going { lane, place, chunks, is_fetched }) = traffic.going.front() else { return Ok(()) };
            if *is_fetched && lanes[*lane].is_done(*place)? {
                ends.deliver(chunks.clone(), lanes[*lane].finish(*place)?)?;
                traffic.end();
                break;
            }
            if begun.is_some() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// Decompresses `n_chunks` chunks.
///
/// # Errors
/// Those of the lanes and of the ends. The lanes are to be dropped then.
pub fn decompress(
    lanes: &mut [DecompressLane],
    ends: &mut dyn Decompresses<'_>,
    n_chunks: u64,
    pace: &mut Pace,
) -> Result<()> {
    let mut traffic = Traffic::new(lanes.len(), n_chunks, pace);
    loop {
        if let Some((lane, place, chunks)) = traffic.begin() {
            let lane = &mut lanes[lane];
            let mut lengths = ends.lengths(chunks.clone())?;
            let origin = match ends.frames(chunks.clone())? {
                Some(origin) => origin,
                None => {
                    let staging = lane.staging(place, packed_bytes(&lengths))?;
                    ends.stage(chunks.clone(), &mut lengths, staging)?;
                    Origin::Staged
                }
            };
            // SAFETY: what the ends lend stays as it is until the lanes are dropped.
            unsafe { lane.begin(place, &lengths, origin, ends.arrays(chunks)?)? };
        } else if let Some(Going { lane, place, chunks, .. }) = traffic.going.front() {
            ends.deliver(chunks.clone(), &lanes[*lane].finish(*place)?)?;
            traffic.end();
        } else {
            return Ok(());
        }
    }
}

/// Where packed frames of these lengths end.
pub fn packed_bytes(lengths: &[u64]) -> u64 {
    lengths.iter().map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum()
}
