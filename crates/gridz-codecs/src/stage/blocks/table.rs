//! The table that precedes blocks. It has two u32 for each block: its end, in units after the
//! table, and its check.

use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::word::Word;

/// Bytes of an entry.
pub const ENTRY: usize = 8;

/// The end of an entry's block, in bytes.
fn end_of(entry: &[u8], unit: usize) -> usize {
    u32::read(entry) as usize * unit
}

/// The end of the last entry's block, in bytes; 0 if there are no entries.
pub fn end_of_last(entries: &[u8], unit: usize) -> usize {
    entries.last_chunk::<ENTRY>().map_or(0, |entry| end_of(entry, unit))
}

/// The check of a block, or of another part of a payload, with this many bytes and these sums: half
/// of a payload's checksum, computed from these sums alone.
pub fn check_of(sums: Checksum, n_bytes: usize) -> u32 {
    sums.finish(n_bytes as u64) as u32
}

/// Writes the table of blocks that begin at multiples of `unit`.
#[derive(Clone, Copy)]
pub struct Writer {
    /// Instructions that may be used.
    pub level: Isa,
    /// Bytes of a unit.
    pub unit: usize,
    /// Where the first block begins in the payload.
    pub at: usize,
}

impl Writer {
    /// Stores the end of an entry's block, in bytes from the start of the first block of its piece.
    pub fn note(&self, entry: &mut [u8], end: usize) {
        ((end / self.unit) as u32).write(entry);
    }

    /// Completes the entries of a piece, in which the ends are stored already. `bytes` are the
    /// piece's blocks, which begin `start` bytes after the table. Returns their sums.
    pub fn finish(&self, entries: &mut [u8], start: usize, bytes: &[u8]) -> Checksum {
        let (mut first, mut all) = (0, Checksum::default());
        for entry in entries.chunks_exact_mut(ENTRY) {
            let end = end_of(entry, self.unit);
            all = all.combine(self.complete(entry, start + first, &bytes[first..end]));
            first = end;
        }
        all
    }

    /// Writes the entry of a block with these bytes, which begin `start` bytes after the table.
    /// Returns their sums.
    pub fn complete(&self, entry: &mut [u8], start: usize, bytes: &[u8]) -> Checksum {
        let sums = checksum_of(self.level, Prefetch::Following, bytes, (self.at + start) as u64);
        self.note(entry, start + bytes.len());
        check_of(sums, bytes.len()).write(&mut entry[4..]);
        sums
    }
}

/// A table and its blocks in a payload.
#[derive(Clone, Copy)]
pub struct Table<'p> {
    entries: &'p [u8],
    blocks: &'p [u8],
    /// Where the blocks begin in the payload.
    at: usize,
    unit: usize,
    /// The codec's name, for messages.
    name: &'static str,
}

impl<'p> Table<'p> {
    /// Checks the ends of all blocks, so that each can be sliced. The blocks begin at byte `at` of
    /// the payload, and at multiples of `unit`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn new(name: &'static str, entries: &'p [u8], blocks: &'p [u8], at: usize, unit: usize) -> Result<Self> {
        let mut last = 0;
        for (index, entry) in entries.chunks_exact(ENTRY).enumerate() {
            let end = end_of(entry, unit);
            if end < last {
                return Err(Error::corrupt(format!(
                    "the table of a {name} payload is damaged: block {index} ends before it begins"
                )));
            }
            last = end;
        }
        if last != blocks.len() {
            let have = blocks.len();
            return Err(Error::corrupt(format!(
                "a {name} payload is damaged: it has {have} bytes of blocks instead of {last}"
            )));
        }
        Ok(Self { entries, blocks, at, unit, name })
    }

    /// The bytes of a block, and their sums. If `verify` is set, compares the sums with the block's
    /// check.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn block(&self, index: usize, level: Isa, verify: bool) -> Result<(&'p [u8], Checksum)> {
        let entry = &self.entries[ENTRY * index..];
        let start = if index == 0 { 0 } else { end_of(&self.entries[ENTRY * (index - 1)..], self.unit) };
        let bytes = &self.blocks[start..end_of(entry, self.unit)];
        let sums = checksum_of(level, Prefetch::Following, bytes, (self.at + start) as u64);
        if verify && check_of(sums, bytes.len()) != u32::read(&entry[4..]) {
            let name = self.name;
            return Err(Error::corrupt(format!("{name} block {index} is damaged: its checksum does not match")));
        }
        Ok((bytes, sums))
    }
}
