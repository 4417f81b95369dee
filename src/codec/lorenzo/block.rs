//! One block: the choice of what codes it best, and the way back.

use std::cell::Cell;

use crate::codec::lorenzo::header::{self, BITS, CONST, FIXED, HUFF, Meaning, RAW, SPLIT};
use crate::codec::lorenzo::layout::{Layout, UNIT};
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::{dict, huff, map};
use crate::error::{Error, Result};
use crate::stage::blocks::source::{AheadOfSource, BlockWords, Source, range};
use crate::stage::blocks::target::{Buffered, Direct, Line, Target};
use crate::stage::element::Element;
use crate::stage::pack;
use crate::stage::predict::{self, ANY, LineSums};
use crate::stage::rows::{CACHE_LINE, LANES, Rows};
use crate::stage::word::Word;

/// Words of which buffers have a multiple, so that all begin with a line of the cache if one does: then no register is
/// loaded from two lines.
const ALIGNMENT: usize = CACHE_LINE / size_of::<u32>();

/// A block's numbers while it is coded. Longer than the block by more than a row, so that whole rows can be read and
/// written anywhere. The memory is kept by the thread; what is in it does not matter.
pub struct Work<W: Word> {
    memory: Vec<W>,
    /// Words of each buffer.
    n: usize,
    scratch: pack::Scratch<W>,
}

impl<W: Word> Work<W> {
    /// For the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout) -> Result<Self> {
        let n = (layout.blocks.block_elements() + 2 * LANES).next_multiple_of(ALIGNMENT);
        // At the end of a thread there may be nothing kept any more.
        let mut memory = W::kept().try_with(Cell::take).unwrap_or_default();
        let need = 3 * n + ALIGNMENT;
        let missing = need.saturating_sub(memory.len());
        let bytes = (need * W::BYTES) as u64;
        memory.try_reserve_exact(missing).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
        memory.resize(memory.len() + missing, W::default());
        Ok(Self { memory, n, scratch: pack::Scratch::new() })
    }

    /// The words of the block, which become what is coded of them, and two buffers for anything else.
    #[inline(always)]
    fn buffers(&mut self) -> (&mut [W], &mut [W], &mut [W], &mut pack::Scratch<W>) {
        let start = self.memory.as_ptr().align_offset(CACHE_LINE).min(ALIGNMENT);
        let (words, rest) = self.memory[start..].split_at_mut(self.n);
        let (other, rest) = rest.split_at_mut(self.n);
        (words, other, &mut rest[..self.n], &mut self.scratch)
    }
}

impl<W: Word> Drop for Work<W> {
    fn drop(&mut self) {
        // Blocks are small, so this is.
        let _ = W::kept().try_with(|kept| kept.set(std::mem::take(&mut self.memory)));
    }
}

/// Replaces differences to `first` by those of the same numbers shifted to the right.
#[inline(always)]
fn shift_words<W: Word, S: Rows<W>>(s: S, words: &mut [W], n: usize, first: W, shift: u32) {
    let (first, base) = (s.splat(first), s.splat(first.shift_signed(shift)));
    let mut at = 0;
    while at < n {
        let row = s.shift_right_signed(s.plus(s.load(&words[at..]), first), shift);
        s.store(s.minus(row, base), &mut words[at..]);
        at += LANES;
    }
}

/// Subtracts the first number, which is returned, from all, and finds their range before that.
#[inline(always)]
fn subtract_first<W: Word, S: Rows<W>>(s: S, v: &mut [W], n: usize) -> (W, [W; 2]) {
    let base = v[0];
    let first = s.splat(base);
    // What is behind the numbers is like the first.
    v[n..n + LANES].fill(base);
    let (mut lowest, mut highest) = (first, first);
    let mut at = 0;
    while at < n {
        let row = s.load(&v[at..]);
        lowest = s.min_signed(lowest, row);
        highest = s.max_signed(highest, row);
        s.store(s.minus(row, first), &mut v[at..]);
        at += LANES;
    }
    (base, range(s, lowest, highest))
}

/// Encodes the block of this shape to the start of `out`, which has room for any; bytes of the result, a multiple of
/// [`UNIT`].
#[inline(always)]
pub fn encode<W: Word, S: Rows<W>>(
    s: S,
    work: &mut Work<W>,
    source: &Source,
    shape: [usize; 3],
    element: Element,
    mode: Mode,
    out: &mut [u8],
) -> usize {
    let n = shape[0] * shape[1] * shape[2];
    let raw_bytes = UNIT + (n * element.bytes).next_multiple_of(UNIT);
    let (words, other, kept, scratch) = work.buffers();
    let BlockWords { first, all, range: [lowest, highest] } = BlockWords::load(s, source, shape, element, words);
    if lowest == highest {
        out[..UNIT].fill(0);
        out[0] = CONST;
        first.write(&mut out[8..]);
        return UNIT;
    }
    let shift = all.trailing_zeros();
    // Words of one sign and exponent are the same numbers in both maps, up to a constant. All have the bits on top that
    // the smallest and the largest have in common.
    let is_fixed_better = element.is_float && (lowest ^ highest) >> W::FRACTION_BITS != W::default();
    let unit = if is_fixed_better { map::to_fixed(&words[..n], first, &mut other[..n]) } else { None };
    if shift > 0 {
        shift_words(s, words, n, first, shift);
    }
    let first = first.shift_signed(shift);
    let range = [lowest.shift_signed(shift).minus(first), highest.shift_signed(shift).minus(first)];

    // Both maps, unless only the first can be.
    let is_dense = mode == Mode::Dense;
    let (mut base, mut best, mut map, mut map_unit) = (first, predict::Prediction::NONE, BITS, shift);
    let mut candidate = predict::Numbers { v: words, shape, range };
    for other_map in [BITS, FIXED] {
        let (mut other_base, mut other_unit) = (first, shift);
        if other_map == FIXED {
            let Some(unit) = unit else { break };
            let (fixed_first, [lowest, highest]) = subtract_first(s, other, n);
            let range = [lowest.minus(fixed_first), highest.minus(fixed_first)];
            candidate = predict::Numbers { v: other, shape, range };
            (other_base, other_unit) = (fixed_first, unit);
        }
        let prediction = predict::choose(s, &candidate, is_dense);
        if prediction.cost < best.cost {
            (base, best, map, map_unit) = (other_base, prediction, other_map, other_unit);
        }
    }
    if is_dense {
        // For the dictionary.
        kept[..n].copy_from_slice(&words[..n]);
    }
    let numbers = if map == BITS { words } else { other };
    // Half of the next block is fetched now, the rest when the numbers are packed.
    let ahead = |half: usize| AheadOfSource::new(source, shape, element, half * W::BYTES / 4);
    predict::apply(s, numbers, shape, best.orders, best.base, &mut ahead(0));
    numbers[n..n + LANES].fill(W::default());
    let base = base.plus(best.base);
    let meaning = Meaning::Differences { map, unit: map_unit as u16, orders: best.orders, base };

    let mut n_bytes = raw_bytes;
    if is_dense {
        let coding = huff::Coding::choose(&numbers[..n]);
        if let Some(out) = shorter(&mut n_bytes, coding.n_bytes(), out) {
            header::emit(out, HUFF, meaning);
            coding.write(&numbers[..n], &mut out[UNIT..]);
        }
    }
    let coding = pack::Coding::choose(s, numbers, n, scratch);
    if let Some(out) = shorter(&mut n_bytes, coding.n_bytes(), out) {
        header::emit(out, SPLIT, meaning);
        coding.write(s, numbers, scratch, &mut out[UNIT..], &mut ahead(1));
    }
    if is_dense {
        // Dictionaries are of the words themselves.
        let mut at = 0;
        while at < n {
            s.store(s.plus(s.load(&kept[at..]), s.splat(first)), &mut kept[at..]);
            at += LANES;
        }
        if let Some(coding) = dict::Coding::choose(s, &kept[..n], numbers, scratch, n_bytes)
            && let Some(out) = shorter(&mut n_bytes, coding.n_bytes(), out)
        {
            header::emit(out, SPLIT, Meaning::Dictionary(shift as u16, coding.fields));
            coding.write(s, numbers, scratch, &mut out[UNIT..]);
        }
    }
    if n_bytes == raw_bytes {
        out[..UNIT].fill(0);
        fill(out, n * element.bytes);
        source.copy(shape, element, &mut out[UNIT..]);
    }
    n_bytes
}

/// The place for a header and `need` bytes behind it, if that is less than `n_bytes`, which it then becomes; what is
/// behind them up to that is zeros.
fn shorter<'a>(n_bytes: &mut usize, need: usize, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let all = padded(need);
    if all >= *n_bytes {
        return None;
    }
    *n_bytes = all;
    fill(out, need);
    Some(&mut out[..UNIT + need])
}

/// Bytes of a block whose header so many bytes follow.
fn padded(n_bytes: usize) -> usize {
    UNIT + n_bytes.next_multiple_of(UNIT)
}

/// Writes the zeros behind them.
fn fill(out: &mut [u8], n_bytes: usize) {
    out[UNIT + n_bytes..padded(n_bytes)].fill(0);
}

/// Decodes the block of this shape in `bytes` to its place.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word, S: Rows<W>>(
    s: S,
    work: &mut Work<W>,
    shape: [usize; 3],
    element: Element,
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    let n = shape[0] * shape[1] * shape[2];
    let damage = || Error::corrupt("a lorenzo block is not as long as its contents");
    let (header, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
    let (coder, meaning, base) = header::parse::<W>(header)?;
    let (words, other, numbers, scratch) = work.buffers();
    let (n_bytes, left) = match meaning {
        Some(Meaning::Differences { map, unit, orders, base }) => {
            if map == FIXED && !element.is_float {
                return Err(Error::corrupt("a lorenzo block has floats where integers are"));
            }
            let unit = u32::from(unit);
            let is_direct = map == BITS && element.bytes == W::BYTES;
            if coder == SPLIT && is_direct && shape[..2] == [1, 1] {
                let mut line = Line { bytes: &mut target.row(0, 0, W::BYTES)[..n * W::BYTES], shift: unit };
                let n_bytes = if orders[2] == 1 {
                    let mut sums = LineSums::<_, _, 1>::new(s, orders, base, &mut line);
                    pack::read_rows(s, rest, n, scratch, &mut sums)?
                } else {
                    let mut sums = LineSums::<_, _, ANY>::new(s, orders, base, &mut line);
                    pack::read_rows(s, rest, n, scratch, &mut sums)?
                };
                (n_bytes, None)
            } else {
                let n_bytes = match coder {
                    SPLIT => pack::read(s, rest, n, numbers, scratch)?,
                    _ => huff::read(rest, &mut numbers[..n])?,
                };
                let left = if !predict::is_in_rows(shape, other.len()) {
                    predict::undo(s, numbers, shape, orders, base);
                    Some((numbers, map, unit))
                } else if is_direct {
                    let mut sink = Direct { target, shape, shift: unit };
                    predict::undo_rows(s, numbers, other, shape, orders, base, &mut sink);
                    None
                } else {
                    let mut sink = Buffered { words, shape };
                    predict::undo_rows(s, numbers, other, shape, orders, base, &mut sink);
                    Some((words, map, unit))
                };
                (n_bytes, left)
            }
        }
        Some(Meaning::Dictionary(shift, fields)) => {
            let n_bytes = dict::read(s, &fields, rest, n, words, scratch)?;
            (n_bytes, Some((words, BITS, shift.into())))
        }
        None if coder == RAW => {
            let n_bytes = n * element.bytes;
            let elements = rest.get(..n_bytes).ok_or_else(damage)?;
            let [_, sy, sx] = shape;
            for (r, row) in elements.chunks_exact(sx * element.bytes).enumerate() {
                target.row(r / sy, r % sy, element.bytes)[..row.len()].copy_from_slice(row);
            }
            (n_bytes, None)
        }
        None => {
            words[..n].fill(base);
            (0, Some((words, BITS, 0)))
        }
    };
    if padded(n_bytes) != bytes.len() {
        return Err(damage());
    }
    let Some((words, map, unit)) = left else { return Ok(()) };
    if map == FIXED {
        map::from_fixed(&mut words[..n], unit)?;
    } else if unit > 0 {
        let mut at = 0;
        while at < n {
            s.store(s.shift_left(s.load(&words[at..]), unit), &mut words[at..]);
            at += LANES;
        }
    }
    let [sz, sy, sx] = shape;
    for z in 0..sz {
        for y in 0..sy {
            let row = target.row(z, y, element.bytes);
            element.store(&words[(z * sy + y) * sx..][..sx], &mut row[..sx * element.bytes]);
        }
    }
    Ok(())
}
