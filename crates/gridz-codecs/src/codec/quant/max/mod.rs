//! Level max: predicts each code from previous codes with weights that are fitted to the block, and
//! codes the residuals with rANS.
//!
//! ```text
//! u16 header | u16 0 | base | fill mask | outliers | weights | tables | states | string
//! ```
//!
//! Every section but the last begins at a multiple of four bytes. Elements without a code have
//! symbols of their own in the string. Such a symbol has no residual, so the code equals its
//! prediction.

mod decode;
mod encode;
mod scan;
#[cfg(test)]
mod tests;
mod view;
mod weights;

use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, at_least, bytes_of};
use crate::error::{Error, Result};
use crate::stage::blocks::layout::Layout;
use crate::stage::entropy::frequencies::LOG2_TOTAL;
use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;
pub use decode::{count, decode};
pub use encode::encode;
use scan::{CONTEXTS, MAX_SIZE};
pub use view::View;
use weights::{Differences, SAMPLES};

/// The symbols of filled elements and of outliers.
const FILL: u8 = 0;
const OUTLIER: u8 = 1;
/// The symbol of 0, the first one of residuals.
const ZERO: u8 = 2;

/// Kinds of elements.
const CODED: u8 = 0;
const IS_FILL: u8 = 1;
const IS_OUTLIER: u8 = 2;

/// Scratch memory for blocks, cached per thread. Its contents between blocks are arbitrary.
pub struct Work<W: Word> {
    memory: ThreadCache<Memory<W>>,
    level: Isa,
}

#[derive(Default)]
struct Memory<W> {
    /// Words of elements, and their codes minus the first one.
    words: Vec<W>,
    codes: Vec<W>,
    /// The kinds of elements.
    kinds: Vec<u8>,
    /// For each cell: the number, the magnitude of its residual, the residual as an unsigned
    /// number, and symbol and context.
    numbers: Vec<W>,
    sizes: Vec<W>,
    left: Vec<W>,
    symbols: Vec<u16>,
    /// The string grows down from the end of this buffer.
    string: Vec<u16>,
    samples: Vec<Differences>,
    /// The decoding slots of all contexts.
    slots: Vec<u32>,
}

impl<W: Word> Cacheable for Memory<W> {
    fn n_bytes(&self) -> usize {
        let Self { words, codes, kinds, numbers, sizes, left, symbols, string, samples, slots } = self;
        let of_words = [words, codes, numbers, sizes, left].map(bytes_of).iter().sum::<usize>();
        let of_symbols = bytes_of(kinds) + bytes_of(symbols) + bytes_of(string);
        of_words + of_symbols + bytes_of(samples) + bytes_of(slots)
    }
}

impl<W: Word> Work<W> {
    /// Allocates for encoding, or only for decoding, the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout, for_encoding: bool, level: Isa) -> Result<Self> {
        let n = layout.blocks.block_elements();
        let kinds = layout.blocks.kinds().filter(|&(n, _)| n > 0);
        let n_cells = kinds.map(|(_, shape)| View::new(shape).n_cells()).max().unwrap_or_default();
        let mut memory = ThreadCache::<Memory<W>>::take();
        at_least(&mut memory.words, n + LANES)?;
        at_least(&mut memory.codes, n + LANES)?;
        at_least(&mut memory.kinds, n)?;
        at_least(&mut memory.numbers, n_cells)?;
        at_least(&mut memory.sizes, n_cells)?;
        if for_encoding {
            at_least(&mut memory.left, n_cells)?;
            at_least(&mut memory.symbols, n_cells)?;
            at_least(&mut memory.string, layout.block_bound(n) / 2)?;
            let missing = SAMPLES.saturating_sub(memory.samples.len());
            let bytes = (SAMPLES * size_of::<Differences>()) as u64;
            memory.samples.try_reserve_exact(missing).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
        } else {
            at_least(&mut memory.slots, CONTEXTS << LOG2_TOTAL)?;
        }
        Ok(Self { memory, level })
    }
}

#[inline(always)]
fn at_most_max<W: Word, S: Simd<W>>(s: S, size: S::Row) -> S::Row {
    let max = W::from_u64(MAX_SIZE.into());
    s.select(s.gt_mask(size, max), s.splat(max), size)
}
