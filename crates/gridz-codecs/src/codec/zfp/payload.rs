//! A payload split into parts, checked as far as possible without decoding a block.

use std::ops::Range;

use crate::codec::zfp::exceptions::{ALIGNMENT, Exceptions};
use crate::codec::zfp::layout::{GROUPS_PER_SECTION, Layout, MOST_SECTION_BITS, Parts, TAIL_BYTES, Tail};
use crate::codec::zfp::numbers::Numbers;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::word::Word;

/// A payload whose parts have valid positions, and whose section ends do not decrease.
pub struct Payload<'p> {
    /// The stream, padded to whole words.
    pub stream: &'p [u8],
    /// The last bytes.
    pub tail: Tail,
    layout: &'p Layout,
    /// Bits of every block, if they are fixed.
    fixed_bits: Option<u32>,
    ends: &'p [[u8; 8]],
    groups: &'p [[u8; 2]],
    exception_ends: &'p [[u8; 4]],
    exceptions: &'p [u8],
}

impl<'p> Payload<'p> {
    /// Locates the parts.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn parse(layout: &'p Layout, numbers: &Numbers, payload: &'p [u8]) -> Result<Self> {
        let tail = Tail::of(payload).ok_or_else(|| {
            let have = payload.len();
            let text = format!("a zfp payload is truncated: it has {have} of the {TAIL_BYTES} bytes of its tail");
            Error::new(ErrorKind::Truncated, text)
        })?;
        let Parts { stream, groups, exception_ends, exceptions, tail: at_tail } =
            layout.parts(numbers.is_fixed(), tail.n_bits, tail.n_units);
        if at_tail + TAIL_BYTES as u64 != payload.len() as u64 {
            let (have, need) = (payload.len(), at_tail + TAIL_BYTES as u64);
            return Err(Error::corrupt(format!("a zfp payload is damaged: it has {have} bytes instead of {need}")));
        }
        // All offsets are at most the length of the payload.
        let part = |from: u64, to: u64| &payload[from as usize..to as usize];
        let this = Self {
            stream: &payload[..stream as usize],
            tail,
            layout,
            fixed_bits: numbers.is_fixed().then_some(numbers.maxbits),
            ends: part(stream, groups).as_chunks().0,
            groups: part(groups, exception_ends).as_chunks().0,
            exception_ends: part(exception_ends, exceptions).as_chunks().0,
            exceptions: part(exceptions, at_tail),
        };
        let n_bits = match this.fixed_bits {
            Some(bits) => Some(layout.n_blocks() as u64 * u64::from(bits)),
            None => last_of_rising(this.ends.iter().map(|&end| u64::from_le_bytes(end)), MOST_SECTION_BITS),
        };
        let n_sections = layout.n_sections();
        let n_units = match tail.n_units {
            0 => Some(0),
            _ => last_of_rising(
                this.exception_ends[..n_sections].iter().map(|&end| u64::from(u32::from_le_bytes(end))),
                u64::from(u32::MAX),
            ),
        };
        if n_bits != Some(tail.n_bits) || n_units != Some(u64::from(tail.n_units)) {
            return Err(Error::corrupt("a zfp payload is damaged: the ends of its sections are invalid"));
        }
        Ok(this)
    }

    /// The bit range of a section in the stream. Its groups must end where it ends.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn section(&self, section: usize) -> Result<Range<usize>> {
        if let Some(bits) = self.fixed_bits {
            let blocks = self.layout.section(section);
            return Ok(blocks.start * bits as usize..blocks.end * bits as usize);
        }
        let end = |section: usize| u64::from_le_bytes(self.ends[section]) as usize;
        let start = if section == 0 { 0 } else { end(section - 1) };
        let n_bits: usize = self.layout.groups_of(section).map(|group| self.group_bits(group)).sum();
        if start + n_bits != end(section) {
            return Err(Error::corrupt(format!(
                "zfp section {section} is damaged: its groups do not end at the end of the section"
            )));
        }
        Ok(start..end(section))
    }

    /// The bit range of a group of a section that begins at bit `start`.
    pub fn group(&self, group: usize, start: usize) -> Range<usize> {
        let first = group / GROUPS_PER_SECTION * GROUPS_PER_SECTION;
        let start = start + (first..group).map(|group| self.group_bits(group)).sum::<usize>();
        start..start + self.group_bits(group)
    }

    /// Bits of a group.
    #[inline(always)]
    pub fn group_bits(&self, group: usize) -> usize {
        match self.fixed_bits {
            Some(bits) => self.layout.group(group).len() * bits as usize,
            None => usize::from(u16::from_le_bytes(self.groups[group])),
        }
    }

    /// The exceptions of a section, if it has any.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn exceptions<W: Word>(&self, section: usize) -> Result<Option<Exceptions<'p, W>>> {
        if self.tail.n_units == 0 {
            return Ok(None);
        }
        let end = |section: usize| u32::from_le_bytes(self.exception_ends[section]) as usize * ALIGNMENT;
        let bytes = &self.exceptions[if section == 0 { 0 } else { end(section - 1) }..end(section)];
        let n_places = self.layout.section(section).len() * self.layout.block_elements();
        if bytes.is_empty() { Ok(None) } else { Exceptions::read(bytes, n_places).map(Some) }
    }
}

/// Returns the last of some ends. `None` if one is below its predecessor, or exceeds it by more
/// than `most`.
fn last_of_rising(mut ends: impl Iterator<Item = u64>, most: u64) -> Option<u64> {
    ends.try_fold(0, |last, end| (end >= last && end - last <= most).then_some(end))
}
