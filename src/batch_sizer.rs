//! Finds the number of chunks per batch by measuring.
//!
//! A batch that is too small does not fill the GPU, and its launch overhead dominates. A batch that
//! is too large takes memory, and its first upload and last download overlap with nothing. So
//! batches begin small and are doubled as long as that makes them faster. The bytes of frames do
//! not depend on the batch size.

use std::time::{Duration, Instant};

/// Initial batch size in bytes; larger for staged copies, whose pipeline drains at every batch
/// boundary.
const FIRST_BYTES: u64 = 16 << 20;
const FIRST_STAGED_BYTES: u64 = 64 << 20;
/// Largest batch size in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Each chunk counts as at least this many bytes, because its frame and its table entries take
/// memory too.
const MIN_CHUNK_BYTES: u64 = 4096;
/// Number of batches measured per size.
const WINDOW: u32 = 6;
/// The doubled size must be faster by this factor.
const GAIN: f64 = 1.02;

/// The current batch size, and the measurement of it.
#[derive(Debug)]
pub struct BatchSizer {
    n_chunks: u64,
    max_chunks: u64,
    /// The end of the window's first batch, and the number of batches and chunks after it.
    window: Option<(Instant, u32, u64)>,
    /// Time per chunk at half the size. `None` once the size is final.
    half_size: Option<Duration>,
}

impl BatchSizer {
    /// A sizer for chunks of `chunk_bytes` bytes and batches of at most `limit` bytes, or one
    /// chunk. `is_staged`: the input or output is not pinned.
    pub fn new(chunk_bytes: u64, limit: u64, is_staged: bool) -> Self {
        let first = if is_staged { FIRST_STAGED_BYTES } else { FIRST_BYTES };
        let chunks = |n_bytes: u64| (n_bytes.min(limit) / chunk_bytes.max(MIN_CHUNK_BYTES)).max(1);
        let (n_chunks, max_chunks) = (chunks(first), chunks(MAX_BYTES));
        Self { n_chunks, max_chunks, window: None, half_size: Some(Duration::MAX) }
    }

    /// Number of chunks of the next batch.
    pub fn n_chunks(&self) -> u64 {
        self.n_chunks
    }

    /// Reports that a batch of `n_chunks` chunks is done.
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

    /// The final size if a batch takes `fixed` microseconds, and one more per chunk.
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
    fn batches_grow_while_that_is_faster() {
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

    /// The last batch of a call is shorter, so its time is not comparable.
    #[test]
    fn a_short_batch_is_not_measured() {
        let (mut sizer, now) = (BatchSizer::new(1 << 20, u64::MAX, false), Instant::now());
        for _ in 0..100 {
            sizer.record_at(3, now);
        }
        assert_eq!((sizer.n_chunks(), sizer.window), (16, None));
    }
}
