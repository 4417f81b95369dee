//! Blocks of numbers: what is left of the new nodes of a step, in contexts of those near them.
//!
//! ```text
//! u8 kind | u8 0 | u16 0 | numbers
//! ```

use crate::codec::BlockCounts;
use crate::cpu::kept::{Kept, at_least};
use crate::cpu::level::Level;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::blocks::layout::{Form, Layout};
use crate::stage::blocks::payload::BlockCoder;
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::blocks::{ROW, layout};
use crate::stage::element::Element;
use crate::stage::entropy::contexts;
use crate::stage::rows::{LANES, RowSink, RowWord, Rows};
use crate::stage::word::Word;
use crate::types::{DType, Shape};

/// Kinds: words as they are, in contexts, all zero.
const RAW: u8 = 0;
const CODED: u8 = 1;
const ZEROS: u8 = 2;
/// Bytes of a header.
const HEADER: usize = 4;
/// Blocks begin at multiples of this.
pub const UNIT: usize = 4;
/// The logarithm of the numbers of a block, at most.
const LOG2_SIZE: u8 = 16;

/// Where everything is in the section of so many numbers. `None` if there are none, or too many.
pub fn layout(extents: &[usize], words: DType) -> Option<Layout> {
    let form = Form { head_bytes: 0, unit: UNIT, row: ROW, block_head: HEADER, parts: 1 };
    let extents: Vec<u64> = extents.iter().map(|&n| n as u64).collect();
    let shape = crate::format::fold::Fold::Merge.apply(&Shape::new(&extents).ok()?, 3);
    layout::Layout::new(&shape, Element::of(words)?.bytes, LOG2_SIZE, form)
}

/// The numbers of a section.
pub struct Numbers {
    pub layout: Layout,
    pub element: Element,
    pub encodes: bool,
    pub level: Level,
}

/// Memory for the work on blocks, one after the other. The thread keeps it; what is in it does not matter.
pub struct Work<W: Word> {
    words: Kept<Vec<W>>,
    contexts: contexts::Work,
}

/// Rows of numbers, behind each other.
struct Words<'a, W> {
    words: &'a mut [W],
    at: usize,
}

impl<W: Word, S: Rows<W>> RowSink<W, S> for Words<'_, W> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        s.store(row, &mut self.words[self.at..]);
        self.at += LANES;
    }
}

impl<W: RowWord> BlockCoder<W> for Numbers {
    const NAME: &'static str = "mgard";
    type Work = Work<W>;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Element {
        self.element
    }

    fn work(&self) -> Result<Work<W>> {
        let n = self.layout.blocks.block_elements();
        let mut words = Kept::<Vec<W>>::take();
        at_least(&mut words, n + LANES)?;
        let n_bytes = self.encodes.then(|| self.layout.block_bound(n));
        Ok(Work { words, contexts: contexts::Work::new(n, n_bytes, self.level)? })
    }

    #[inline(always)]
    fn encode<S: Rows<W>>(
        &self,
        s: S,
        work: &mut Work<W>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        let Work { words, contexts } = work;
        let [sz, sy, sx] = shape;
        let n = sz * sy * sx;
        let mut any = W::ZERO;
        let mut row = 0;
        while row < sz * sy {
            let from = (row / sy * source.plane + row % sy * source.row) * W::BYTES;
            let words = &mut words[row * sx..][..sx];
            self.element.load(&source.bytes[from..from + sx * W::BYTES], words);
            let mut k = 0;
            while k < sx {
                any |= words[k];
                k += 1;
            }
            row += 1;
        }
        let coded = if any == W::ZERO { None } else { contexts.encode(s, words, shape) };
        let (kind, n_bytes) = match coded {
            _ if any == W::ZERO => (ZEROS, 0),
            Some(n_bytes) if n_bytes < n * W::BYTES => (CODED, n_bytes),
            _ => (RAW, n * W::BYTES),
        };
        let end = (HEADER + n_bytes).next_multiple_of(UNIT);
        let (head, rest) = out[..end].split_at_mut(HEADER);
        head.copy_from_slice(&[kind, 0, 0, 0]);
        let (bytes, zeros) = rest.split_at_mut(n_bytes);
        match kind {
            CODED => contexts.write(bytes),
            RAW => source.copy(shape, self.element, bytes),
            _ => {}
        }
        zeros.fill(0);
        end
    }

    #[inline(always)]
    fn decode<S: Rows<W>>(
        &self,
        s: S,
        work: &mut Work<W>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        let Work { words, contexts } = work;
        let n: usize = shape.iter().product();
        let (kind, rest) = parse(bytes)?;
        let n_bytes = match kind {
            CODED => {
                let n_bytes = contexts.decode(s, rest, shape, &mut Words { words, at: 0 })?;
                target.store(s, words, shape, self.element);
                n_bytes
            }
            RAW => {
                target.copy(rest.get(..n * W::BYTES).ok_or_else(damage)?, shape, W::BYTES);
                n * W::BYTES
            }
            _ => {
                let [sz, sy, sx] = shape;
                for row in 0..sz * sy {
                    target.row(row / sy, row % sy, W::BYTES)[..sx * W::BYTES].fill(0);
                }
                0
            }
        };
        if (HEADER + n_bytes).next_multiple_of(UNIT) == bytes.len() { Ok(()) } else { Err(damage()) }
    }
}

/// The kind of a block, and what is behind its header.
fn parse(bytes: &[u8]) -> Result<(u8, &[u8])> {
    match bytes.split_first_chunk().ok_or_else(damage)? {
        (&[kind @ (RAW | CODED | ZEROS), 0, 0, 0], rest) => Ok((kind, rest)),
        _ => {
            let text = "an mgard block is of a kind unknown to this version; a newer gridz may read this data";
            Err(Error::new(ErrorKind::UnsupportedFormat, text))
        }
    }
}

/// Counts a block by its kind.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
pub fn count(bytes: &[u8], counts: &mut BlockCounts) -> Result<()> {
    counts.all += 1;
    match parse(bytes)?.0 {
        RAW => counts.raw += 1,
        CODED => counts.entropy += 1,
        _ => counts.constant += 1,
    }
    Ok(())
}

fn damage() -> Error {
    Error::corrupt("an mgard block is not as long as its contents")
}
