//! Arrays of chunks of one type and shape, and their packed frames: each frame begins at the first
//! multiple of 16 bytes after the previous one, with zeros in between.

use std::ops::Range;

use crate::frame::{FRAME_ALIGNMENT, max_packed_bytes};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;

/// Chunks of one type and shape in one memory: chunk `i` begins at `i * stride` bytes.
#[derive(Debug, Clone, Copy)]
pub struct ChunkArray {
    /// Type and shape of each chunk.
    pub array: Array,
    /// Number of chunks.
    pub n_chunks: usize,
    /// Bytes from chunk to chunk, at least the length of a chunk. Ignored if there is only one.
    pub stride: u64,
}

/// Total length of packed frames with these lengths; `None` if it overflows.
pub fn packed_bytes(lengths: &[u64]) -> Option<u64> {
    let mut ends = lengths.iter().map(|n_bytes| n_bytes.checked_next_multiple_of(FRAME_ALIGNMENT));
    ends.try_fold(0u64, |end, n_bytes| end.checked_add(n_bytes?))
}

/// Number of bytes that are enough for the packed frames of `n_chunks` chunks.
///
/// # Errors
/// `InvalidArgument` if that many bytes cannot be addressed.
pub fn packed_bound(array: &Array, n_chunks: usize) -> Result<u64> {
    let each = max_packed_bytes(array);
    each.checked_mul(n_chunks as u64).filter(|&n_bytes| isize::try_from(n_bytes).is_ok()).ok_or_else(|| {
        Error::invalid(format!("{n_chunks} chunks of {} bytes exceed the address space", array.n_bytes()))
    })
}

impl ChunkArray {
    /// Bytes from the start of the first chunk to the end of the last. `name` is the stride's name
    /// in errors.
    ///
    /// # Errors
    /// `InvalidArgument` for a stride that is too short, or if that many bytes cannot be addressed.
    pub fn span(&self, name: &str) -> Result<u64> {
        let &Self { array, n_chunks, stride } = self;
        let Some(before) = (n_chunks as u64).checked_sub(1) else { return Ok(0) };
        if before > 0 && stride < array.n_bytes() {
            return Err(Error::invalid(format!(
                "{name} is {stride}; it must be at least the size of an array, {} bytes",
                array.n_bytes()
            )));
        }
        let span = before.checked_mul(stride).and_then(|before| before.checked_add(array.n_bytes()));
        span.filter(|&n| i64::try_from(n).is_ok()).ok_or_else(|| {
            Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} exceed the address space"))
        })
    }

    /// Bytes from chunk to chunk.
    pub fn step(&self) -> u64 {
        if self.n_chunks == 1 { self.array.n_bytes() } else { self.stride }
    }

    /// Byte range of these chunks, at least one.
    pub fn span_of(&self, chunks: Range<u64>) -> Range<u64> {
        chunks.start * self.step()..(chunks.end - 1) * self.step() + self.array.n_bytes()
    }

    /// Byte range of a chunk in host memory.
    pub fn host_range(&self, i: usize) -> Range<usize> {
        to_usize(self.span_of(i as u64..i as u64 + 1))
    }

    /// Splits a range of the chunks' bytes into contiguous pieces. The range has `n_bytes` bytes
    /// and begins at byte `at` of the chunks from `first` on, counted as if they were adjacent.
    /// Calls `each` with the byte range of a piece in memory, and its range within the `n_bytes`
    /// bytes.
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

    /// True if there are no gaps between the chunks.
    pub fn is_dense(&self) -> bool {
        self.step() == self.array.n_bytes()
    }
}

pub fn too_small(have: u64, array: &Array, n_chunks: usize) -> Error {
    let need = max_packed_bytes(array).saturating_mul(n_chunks as u64);
    let text = format!("a destination of {have} bytes is too small; {need} bytes are always enough");
    Error::new(ErrorKind::DstTooSmall { need }, text)
}

pub fn check_lengths(chunks: &ChunkArray, lengths: &[u64]) -> Result<()> {
    match lengths.len() == chunks.n_chunks {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{} lengths were given for {} frames; give one per frame",
            lengths.len(),
            chunks.n_chunks
        ))),
    }
}

pub fn frame_error(i: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("frame {i}: {}", error.context()))
}

pub fn array_mismatch(have: &Array, want: &Array) -> Error {
    Error::invalid(format!("its array is {have:?}, but the call describes {want:?}"))
}

/// A range of offsets in GPU memory or a frame, as one for host memory.
pub fn to_usize(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
