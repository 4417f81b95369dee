//! Many chunks of one type and shape in one memory, and their frames packed: each at the first multiple of 16 bytes behind the
//! one before it, with zeros between them.

use std::ops::Range;

use crate::frame::{FRAME_ALIGNMENT, max_packed_bytes};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;

/// ChunkArray of one type and shape: chunk `i` is `i * stride` bytes behind the first.
#[derive(Debug, Clone, Copy)]
pub struct ChunkArray {
    /// What each chunk is.
    pub array: Array,
    /// How many there are.
    pub n_chunks: usize,
    /// Bytes from array to array, at least those of one. Means nothing where there is one chunk.
    pub stride: u64,
}

/// Where packed frames of these lengths end, if that can be.
pub fn packed_bytes(lengths: &[u64]) -> Option<u64> {
    let mut ends = lengths.iter().map(|n_bytes| n_bytes.checked_next_multiple_of(FRAME_ALIGNMENT));
    ends.try_fold(0u64, |end, n_bytes| end.checked_add(n_bytes?))
}

/// Bytes in which the packed frames of `n_chunks` chunks surely have room.
///
/// # Errors
/// `InvalidArgument` if so many bytes cannot be addressed.
pub fn packed_bound(array: &Array, n_chunks: usize) -> Result<u64> {
    let each = max_packed_bytes(array);
    each.checked_mul(n_chunks as u64).filter(|&n_bytes| isize::try_from(n_bytes).is_ok()).ok_or_else(|| {
        Error::invalid(format!("{n_chunks} chunks of {} bytes cannot be addressed", array.n_bytes()))
    })
}

impl ChunkArray {
    /// Bytes from the first array to the end of the last.
    ///
    /// # Errors
    /// `InvalidArgument` for a stride that is too short, or if so many bytes cannot be addressed.
    pub fn span(&self, name: &str) -> Result<u64> {
        let &Self { array, n_chunks, stride } = self;
        let Some(before) = (n_chunks as u64).checked_sub(1) else { return Ok(0) };
        if before > 0 && stride < array.n_bytes() {
            return Err(Error::invalid(format!(
                "{name} is {stride}; it must be at least the {} bytes of an array",
                array.n_bytes()
            )));
        }
        let span = before.checked_mul(stride).and_then(|before| before.checked_add(array.n_bytes()));
        span.filter(|&n| i64::try_from(n).is_ok()).ok_or_else(|| {
            Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} cannot be addressed"))
        })
    }

    /// Bytes from array to array.
    pub fn step(&self) -> u64 {
        if self.n_chunks == 1 { self.array.n_bytes() } else { self.stride }
    }

    /// Where these arrays are, of which there is one at least.
    pub fn span_of(&self, chunks: Range<u64>) -> Range<u64> {
        chunks.start * self.step()..(chunks.end - 1) * self.step() + self.array.n_bytes()
    }

    /// Where an array is in the host's memory.
    pub fn host_range(&self, i: usize) -> Range<usize> {
        to_usize(self.span_of(i as u64..i as u64 + 1))
    }

    /// Calls `each` for what the `n_bytes` bytes from `at` on of the arrays, one behind the other from chunk `first` on,
    /// are parts of: where that is in memory, and among those bytes.
    pub fn pieces(&self, first: u64, at: usize, n_bytes: usize, mut each: impl FnMut(Range<usize>, Range<usize>)) {
        let (array_bytes, step) = (self.array.n_bytes() as usize, self.step() as usize);
        let mut done = 0;
        while done < n_bytes {
            let (i, within) = ((at + done) / array_bytes, (at + done) % array_bytes);
            let n = if self.is_dense() { n_bytes } else { (array_bytes - within).min(n_bytes - done) };
            let start = (first as usize + i) * step + within;
            each(start..start + n, done..done + n);
            done += n;
        }
    }

    /// Whether there is nothing between the arrays.
    pub fn is_dense(&self) -> bool {
        self.step() == self.array.n_bytes()
    }
}

pub fn too_small(have: u64, array: &Array, n_chunks: usize) -> Error {
    let need = max_packed_bytes(array).saturating_mul(n_chunks as u64);
    let text = format!("a destination of {have} bytes is too small; {need} are enough for any values");
    Error::new(ErrorKind::DstTooSmall { need }, text)
}

pub fn check_lengths(chunks: &ChunkArray, lengths: &[u64]) -> Result<()> {
    match lengths.len() == chunks.n_chunks {
        true => Ok(()),
        false => Err(Error::invalid(format!("{} lengths for {} frames", lengths.len(), chunks.n_chunks))),
    }
}

pub fn frame_error(i: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("frame {i}: {}", error.context()))
}

pub fn array_mismatch(have: &Array, want: &Array) -> Error {
    Error::invalid(format!("it is of another array: {have:?} where {want:?} is wanted"))
}

/// A range of bytes of the host's memory.
pub fn to_usize(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
