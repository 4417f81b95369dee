//! How many chunks go together in a batch, found by measuring.
//!
//! A batch that is too small does not fill the GPU, and its launches cost more than they should; one that is too large takes
//! memory, and what comes first and last is not hidden behind anything. So batches begin small, and are doubled as long
//! as that makes them faster. The bytes of frames do not depend on it.

use std::time::{Duration, Instant};

/// Bytes of the first batches, and of those that cross by boats, of which each end is a moment when few are under way.
const FIRST_BYTES: u64 = 16 << 20;
const FIRST_STAGED_BYTES: u64 = 64 << 20;
/// And of the largest.
const MAX_BYTES: u64 = 256 << 20;
/// What a chunk counts at least: its frame, and what is noted of it, take memory too.
const MIN_CHUNK_BYTES: u64 = 4096;
/// Batches that are measured at a size.
const WINDOW: u32 = 6;
/// By how much twice the size must be faster.
const GAIN: f64 = 1.02;

/// The size of batches.
#[derive(Debug)]
pub struct BatchSizer {
    n_chunks: u64,
    max_chunks: u64,
    /// When the first batch of the window was done, and what came behind it: batches and chunks.
    window: Option<(Instant, u32, u64)>,
    /// Time for a chunk with half the size. `None` once a size is found.
    half_size: Option<Duration>,
}

impl BatchSizer {
    /// For chunks of so many bytes, where a batch may have at max_chunks `limit` bytes, but always one chunk. `is_staged`: one of its ends
    /// is not pinned.
    pub fn new(chunk_bytes: u64, limit: u64, is_staged: bool) -> Self {
        let first = if is_staged { FIRST_STAGED_BYTES } else { FIRST_BYTES };
        let chunks = |n_bytes: u64| (n_bytes.min(limit) / chunk_bytes.max(MIN_CHUNK_BYTES)).max(1);
        let (n_chunks, max_chunks) = (chunks(first), chunks(MAX_BYTES));
        Self { n_chunks, max_chunks, window: None, half_size: Some(Duration::MAX) }
    }

    /// Chunks of the next batch.
    pub fn n_chunks(&self) -> u64 {
        self.n_chunks
    }

    /// A batch of so many chunks is done.
    pub fn record(&mut self, n_chunks: u64) {
        self.record_at(n_chunks, Instant::now());
    }

    fn record_at(&mut self, n_chunks: u64, now: Instant) {
        let Some(half_size) = self.half_size.filter(|_| n_chunks == self.n_chunks) else { return };
        let Some((begin, batches, chunks)) = &mut self.window else {
            self.window = Some((now, 0, 0));
            return;
        };
        *batches += 1;
        *chunks += n_chunks;
        if *batches < WINDOW {
            return;
        }
        let per_chunk = (now - *begin).div_f64(*chunks as f64);
        let is_faster = half_size == Duration::MAX || per_chunk.mul_f64(GAIN) < half_size;
        self.window = None;
        if !is_faster {
            self.n_chunks = (self.n_chunks / 2).max(1);
        }
        self.half_size = (is_faster && self.n_chunks * 2 <= self.max_chunks).then_some(per_chunk);
        if self.half_size.is_some() {
            self.n_chunks *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size that is found where a batch takes `fixed` microseconds, and one for each chunk.
    fn found(fixed: u64, chunk_bytes: u64, limit: u64) -> u64 {
        let (mut sizer, mut now) = (BatchSizer::new(chunk_bytes, limit, false), Instant::now());
        for _ in 0..1000 {
            let n_chunks = sizer.n_chunks();
            now += Duration::from_micros(fixed + n_chunks);
            sizer.record_at(n_chunks, now);
        }
        sizer.n_chunks()
    }

    #[test]
    fn batches_grow_while_that_pays() {
        let mib = 1 << 20;
        assert_eq!(found(0, mib, u64::MAX), 16);
        assert_eq!(found(1, mib, u64::MAX), 32);
        assert_eq!(found(100, mib, u64::MAX), 256);
        assert_eq!(found(100, mib, 50 * mib), 32);
        assert_eq!(found(100, 1000 * mib, u64::MAX), 1);
        assert_eq!(found(0, 0, 0), 1);
        assert_eq!(found(0, 4, u64::MAX), 4096);
        assert_eq!(BatchSizer::new(mib, u64::MAX, true).n_chunks(), 64);
    }

    /// The last batch is shorter, and says nothing.
    #[test]
    fn a_short_batch_is_not_measured() {
        let (mut sizer, now) = (BatchSizer::new(1 << 20, u64::MAX, false), Instant::now());
        for _ in 0..100 {
            sizer.record_at(3, now);
        }
        assert_eq!((sizer.n_chunks(), sizer.window), (16, None));
    }
}
