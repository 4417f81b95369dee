//! Streams of pieces, which begin at bit 0 of their own memory, behind each other in one stream. Where a piece goes takes
//! only the lengths of those before it and the word in which it begins; its bits are moved without anybody waiting.

use crate::codec::zfp::block::bits::low_mask;
use crate::codec::zfp::index::Index;
use crate::codec::zfp::memory::Work;
use crate::cpu::kept::Kept;
use crate::error::Result;
use crate::stage::bits;

/// The payload so far.
pub struct Joined<'d> {
    /// Room behind the whole words of the stream.
    rest: &'d mut [u8],
    /// Bits of the stream.
    pub n_bits: u64,
    /// Those of them that are no whole word yet.
    pub waiting: u64,
    /// What is to be behind it.
    pub index: Kept<Index>,
}

/// Where a piece's bits go.
pub struct Place<'d> {
    /// From their first word on, as far as words are whole.
    pub bytes: &'d mut [u8],
    /// Where in the payload that is.
    pub start: usize,
    /// The bits in front of them in that word, and how many.
    before: u64,
    n_before: usize,
}

impl<'d> Joined<'d> {
    /// Nothing yet, in all of `dst`.
    pub fn new(dst: &'d mut [u8]) -> Self {
        let mut index = Kept::<Index>::take();
        index.clear();
        Self { rest: dst, n_bits: 0, waiting: 0, index }
    }

    /// The place of the next piece; `None` if there is no room.
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

/// Word number `i` of a bit string that is `n_before` bits and then a stream.
#[inline(always)]
fn word(stream: &[u8], before: u64, n_before: usize, i: usize) -> u64 {
    match i {
        0 => before | bits::peek(stream, 0) << n_before,
        _ => bits::peek(stream, 64 * i - n_before),
    }
}
