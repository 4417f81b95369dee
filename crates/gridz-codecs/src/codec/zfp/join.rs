//! Appends the streams of pieces, which begin at bit 0 of their own memory, to one stream. The
//! position of a piece depends only on the lengths of the previous pieces and on the word in which
//! it begins. So threads move its bits without waiting for each other.

use crate::codec::zfp::block::bits::low_mask;
use crate::codec::zfp::index::Index;
use crate::codec::zfp::memory::Work;
use crate::cpu::thread_cache::ThreadCache;
use crate::error::Result;
use crate::stage::bits;

/// The payload so far.
pub struct Joined<'d> {
    /// The destination after the whole words of the stream.
    rest: &'d mut [u8],
    /// Bits of the stream so far.
    pub n_bits: u64,
    /// The last bits, which do not fill a word yet.
    pub waiting: u64,
    /// The data that will follow the stream.
    pub index: ThreadCache<Index>,
}

/// The place of a piece's bits in the stream.
pub struct Place<'d> {
    /// The destination from the first word of the bits on, in whole words.
    pub bytes: &'d mut [u8],
    /// Its offset in the payload.
    pub start: usize,
    /// The bits before the piece in its first word, and their number.
    before: u64,
    n_before: usize,
}

impl<'d> Joined<'d> {
    /// An empty stream in `dst`.
    pub fn new(dst: &'d mut [u8]) -> Self {
        let mut index = ThreadCache::<Index>::take();
        index.clear();
        Self { rest: dst, n_bits: 0, waiting: 0, index }
    }

    /// Reserves the place of the next piece. Returns `None` if it does not fit.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn take(&mut self, work: &Work) -> Result<Option<Place<'d>>> {
        let (start, n_before) = (self.n_bits as usize / 64 * 8, self.n_bits as usize % 64);
        let n_bits = n_before + work.n_bits;
        let (n_bytes, n_waiting) = (n_bits / 64 * 8, n_bits % 64);
        let rest = std::mem::take(&mut self.rest);
        let Some((bytes, rest)) = rest.split_at_mut_checked(n_bytes) else { return Ok(None) };
        if rest.len() < self.index.exceptions.len() {
            return Ok(None);
        }
        let before = self.waiting;
        self.rest = rest;
        self.n_bits += work.n_bits as u64;
        self.waiting = word(&work.stream, before, n_before, n_bytes / 8) & low_mask(n_waiting as u32);
        self.index.append(&work.index)?;
        Ok(Some(Place { bytes, start, before, n_before }))
    }
}

impl Place<'_> {
    /// Writes all whole words.
    pub fn write(&mut self, stream: &[u8]) {
        for (i, bytes) in self.bytes.as_chunks_mut().0.iter_mut().enumerate() {
            *bytes = word(stream, self.before, self.n_before, i).to_le_bytes();
        }
    }
}

/// Word number `i` of the bit string that consists of `n_before` bits and then a stream.
#[inline(always)]
fn word(stream: &[u8], before: u64, n_before: usize, i: usize) -> u64 {
    match i {
        0 => before | bits::peek(stream, 0) << n_before,
        _ => bits::peek(stream, 64 * i - n_before),
    }
}
