//! One block: the choice of what codes it best, and the way back.

use std::cell::Cell;

use crate::codec::lorenzo::header::{self, BITS, CONST, DECIMAL, FIXED, HUFF, Meaning, RAW, SPARSE, SPLIT};
use crate::codec::lorenzo::layout::{Layout, UNIT};
use crate::codec::lorenzo::mask::Mask;
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::{decimal, dict, huff, map};
use crate::error::{Error, Result};
use crate::stage::blocks::source::{AheadOfSource, BlockWords, Source};
use crate::stage::blocks::target::{Buffered, Direct, Line, Target};
use crate::stage::element::Element;
use crate::stage::marks::Marks;
use crate::stage::pack;
use crate::stage::predict::{self, ANY, LineSums};
use crate::stage::rows::{CACHE_LINE, LANES, Rows};
use crate::stage::samples::Samples;
use crate::stage::sparse;
use crate::stage::word::Word;

/// Words of which buffers have a multiple, so that all begin with a line of the cache if one does: then no register is
/// loaded from two lines.
const ALIGNMENT: usize = CACHE_LINE / size_of::<u32>();

/// Buffers of a block.
const BUFFERS: usize = 4;

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
        let need = BUFFERS * n + ALIGNMENT;
        let missing = need.saturating_sub(memory.len());
        let bytes = (need * W::BYTES) as u64;
        memory.try_reserve_exact(missing).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
        memory.resize(memory.len() + missing, W::default());
        Ok(Self { memory, n, scratch: pack::Scratch::new() })
    }

    /// Buffers, the first for the words of the block, which become what is coded of them.
    #[inline(always)]
    fn buffers(&mut self) -> ([&mut [W]; BUFFERS], &mut pack::Scratch<W>) {
        let start = self.memory.as_ptr().align_offset(CACHE_LINE).min(ALIGNMENT);
        let (first, rest) = self.memory[start..].split_at_mut(self.n);
        let (second, rest) = rest.split_at_mut(self.n);
        let (third, rest) = rest.split_at_mut(self.n);
        ([first, second, third, &mut rest[..self.n]], &mut self.scratch)
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

/// Subtracts the first number, which is returned, from all.
#[inline(always)]
fn subtract_first<W: Word, S: Rows<W>>(s: S, v: &mut [W], n: usize) -> W {
    let base = v[0];
    let first = s.splat(base);
    let mut at = 0;
    while at < n {
        s.store(s.minus(s.load(&v[at..]), first), &mut v[at..]);
        at += LANES;
    }
    base
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
    let ([words, fixed, decimals, kept], scratch) = work.buffers();
    let mut block = BlockWords::load(s, source, shape, element, words);
    if block.range[0] == block.range[1] {
        out[..UNIT].fill(0);
        out[0] = CONST;
        block.first.write(&mut out[8..]);
        return UNIT;
    }
    let is_dense = mode == Mode::Dense;
    // A dictionary is of all words.
    let (dict_first, dict_shift) = (block.first, block.all.trailing_zeros());
    if is_dense {
        kept[..n].copy_from_slice(&words[..n]);
    }
    let mask = Mask::choose(s, &words[..n], block.first, shape, element.bytes);
    if let Some(mask) = &mask {
        block = mask.fill(&mut words[..n], block.first);
    }
    let masked = mask.as_ref().map(|mask| &mask.marks);
    let BlockWords { first, all, range: [lowest, highest] } = block;
    let shift = all.trailing_zeros() % W::BITS;
    // Words of one sign and exponent are the same numbers in BITS and FIXED, up to a constant. All have the bits on top that
    // the smallest and the largest have in common.
    let is_fixed_better = element.is_float && (lowest ^ highest) >> W::FRACTION_BITS != W::default();
    let unit = if is_fixed_better { map::to_fixed(&words[..n], first, &mut fixed[..n]) } else { None };
    let digits = if element.is_float { decimal::to_decimal(&words[..n], first, &mut decimals[..n]) } else { None };
    if shift > 0 {
        shift_words(s, words, n, first, shift);
    }
    let first = first.shift_signed(shift);

    let (mut base, mut best, mut map, mut map_unit) = (first, predict::Prediction::NONE, BITS, shift);
    for (other_map, other_unit) in [(BITS, Some(shift)), (FIXED, unit), (DECIMAL, digits)] {
        let Some(other_unit) = other_unit else { continue };
        let v = match other_map {
            BITS => &mut *words,
            FIXED => &mut *fixed,
            _ => &mut *decimals,
        };
        let other_base = if other_map == BITS { first } else { subtract_first(s, v, n) };
        let candidate = predict::Numbers { v, shape, middle: Samples::middle(&v[..n], other_base), masked };
        let prediction = predict::choose(s, &candidate, is_dense);
        if prediction.cost < best.cost {
            (base, best, map, map_unit) = (other_base, prediction, other_map, other_unit);
        }
    }
    let (numbers, spare) = match map {
        BITS => (words, fixed),
        FIXED => (fixed, words),
        _ => (decimals, words),
    };
    // Half of the next block is fetched now, the rest when the numbers are packed.
    let ahead = |half: usize| AheadOfSource::new(source, shape, element, half * W::BYTES / 4);
    let (numbers, n_coded) = match masked {
        None => {
            predict::apply(s, numbers, shape, best.orders, best.base, &mut ahead(0));
            (numbers, n)
        }
        Some(masked) => {
            let n_coded = predict::apply_masked(numbers, masked, shape, best.orders, best.base, spare);
            (spare, n_coded)
        }
    };
    numbers[n_coded..n_coded + LANES].fill(W::default());
    let base = base.plus(best.base);
    let meaning =
        Meaning::Differences { map, unit: map_unit as u16, orders: best.orders, base, is_masked: mask.is_some() };
    let mask_bytes = mask.as_ref().map_or(0, Mask::n_bytes);
    // Writes header and mask.
    let begin = |out: &mut [u8], coder: u8| {
        header::emit(out, coder, meaning);
        if let Some(mask) = &mask {
            mask.write(&mut out[UNIT..][..mask_bytes]);
        }
    };
    let contents = UNIT + mask_bytes;

    let mut n_bytes = raw_bytes;
    if is_dense {
        let coding = huff::Coding::choose(&numbers[..n_coded]);
        if let Some(out) = shorter(&mut n_bytes, mask_bytes + coding.n_bytes(), out) {
            begin(out, HUFF);
            coding.write(&numbers[..n_coded], &mut out[contents..]);
        }
    }
    let coding = pack::Coding::choose(s, numbers, n_coded, scratch);
    if let Some(out) = shorter(&mut n_bytes, mask_bytes + coding.n_bytes(), out) {
        begin(out, SPLIT);
        coding.write(s, numbers, scratch, &mut out[contents..], &mut ahead(1));
    }
    // SPARSE takes more than these, by its marks.
    if coding.nonzero_bytes().is_some_and(|bytes| padded(mask_bytes + bytes) < n_bytes) {
        let coding = sparse::Coding::choose(&numbers[..n_coded]);
        if let Some(out) = shorter(&mut n_bytes, mask_bytes + coding.n_bytes(), out) {
            begin(out, SPARSE);
            coding.write(&numbers[..n_coded], &mut out[contents..]);
        }
    }
    if is_dense {
        let mut at = 0;
        while at < n {
            let row = s.plus(s.load(&kept[at..]), s.splat(dict_first));
            s.store(s.shift_right_signed(row, dict_shift), &mut kept[at..]);
            at += LANES;
        }
        if let Some(coding) = dict::Coding::choose(s, &kept[..n], numbers, scratch, n_bytes)
            && let Some(out) = shorter(&mut n_bytes, coding.n_bytes(), out)
        {
            header::emit(out, SPLIT, Meaning::Dictionary(dict_shift as u16, coding.fields));
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
    let ([words, other, numbers, _], scratch) = work.buffers();
    let mut mask = None;
    let (n_bytes, left) = match meaning {
        Some(Meaning::Differences { map, unit, orders, base, is_masked }) => {
            if map != BITS && !element.is_float {
                return Err(Error::corrupt("a lorenzo block has floats where integers are"));
            }
            let unit = u32::from(unit);
            let is_direct = map == BITS && element.bytes == W::BYTES && !is_masked;
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
                let (mut n_coded, mut mask_bytes) = (n, 0);
                if is_masked {
                    let (word, marks, n_bytes) = Mask::read(rest, shape)?;
                    (n_coded, mask_bytes) = (n - marks.count(), n_bytes);
                    mask = Some((word, marks));
                }
                let rest = rest.get(mask_bytes..).ok_or_else(damage)?;
                let n_bytes = mask_bytes
                    + match coder {
                        SPLIT => pack::read(s, rest, n_coded, numbers, scratch)?,
                        SPARSE => sparse::read(rest, &mut numbers[..n_coded])?,
                        _ => huff::read(rest, &mut numbers[..n_coded])?,
                    };
                if let Some((_, marks)) = &mask {
                    spread(s, marks, numbers, n_coded, other);
                    numbers[..n].copy_from_slice(&other[..n]);
                }
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
        if let Some((_, marks)) = &mask {
            // What is predicted for them may be beyond the type.
            put_masked(s, W::default(), marks, words);
        }
        map::from_fixed(&mut words[..n], unit)?;
    } else if map == DECIMAL {
        decimal::from_decimal(&mut words[..n], unit);
    } else if unit > 0 {
        let mut at = 0;
        while at < n {
            s.store(s.shift_left(s.load(&words[at..]), unit), &mut words[at..]);
            at += LANES;
        }
    }
    if let Some((word, marks)) = &mask {
        put_masked(s, *word, marks, words);
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

/// Puts numbers, of which there are `n`, to those places of `to` that are not masked, and zeros to the others.
#[inline(always)]
fn spread<W: Word, S: Rows<W>>(s: S, masked: &Marks, numbers: &mut [W], n: usize, to: &mut [W]) {
    // Where another row would be read.
    numbers[n..n + LANES].fill(W::default());
    let (mut from, mut k) = (0, 0);
    while k < masked.words().len() {
        let coded = masked.others(k);
        s.store(s.spread(coded, &numbers[from..]), &mut to[k * LANES..]);
        from += coded.count_ones() as usize;
        k += 1;
    }
}

/// Gives the masked elements their word.
#[inline(always)]
fn put_masked<W: Word, S: Rows<W>>(s: S, word: W, masked: &Marks, words: &mut [W]) {
    let word = s.splat(word);
    let mut k = 0;
    while k < masked.words().len() {
        let (marks, at) = (masked.words()[k], k * LANES);
        let row = s.or(s.keep(marks, word), s.keep(!marks, s.load(&words[at..])));
        s.store(row, &mut words[at..]);
        k += 1;
    }
}
