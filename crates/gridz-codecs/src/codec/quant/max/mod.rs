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

mod scan;
#[cfg(test)]
mod tests;
mod view;
mod weights;

use crate::codec::BlockCounts;
use crate::codec::quant::block::{
    CONST, Coding, FEW, FILL_MASK, OUTLIERS, RAW, RAW_HEAD, WORDS, code_row, constant, decode_plain, newer,
    no_codes, write_raw,
};
use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, at_least, bytes_of};
use crate::error::{Error, Result};
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::source::{BlockWords, Source};
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::entropy::frequencies::{self, LOG2_TOTAL};
use crate::stage::entropy::rans::{Decoder, Encoder, put_words};
use crate::stage::entropy::{steps, tables};
use crate::stage::exceptions::{ALIGNMENT, place, take};
use crate::stage::missing::MissingWords;
use crate::stage::rows::{LANES, Simd, first_lanes, mask_of};
use crate::stage::word::Word;
use scan::{CONTEXTS, Cells, Coder, FILL_SIZE, MAX_SIZE, Step, scan};
pub use view::View;
use weights::{Differences, Neighbours, SAMPLES, SQUARES, Weights};

/// The symbols of filled elements and of outliers.
const FILL: u8 = 0;
const OUTLIER: u8 = 1;
/// The symbol of 0, the first one of residuals.
const ZERO: u8 = 2;
/// Used in place of a symbol and its context if a lane has none.
const NO_SYMBOL: u16 = u16::MAX;
/// Limit of symbols combined with their contexts in the upper bits. It also limits [`NO_SYMBOL`],
/// which acts as an unused symbol.
const IN_CONTEXTS: usize = CONTEXTS.next_power_of_two() << u8::BITS;
/// Bits of a header that describe the prediction.
const HEAD: u16 = SQUARES | (SQUARES - 1);
/// Most bytes of all tables.
const TABLES_BYTES: usize = tables::tables_bytes(CONTEXTS);

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

/// The properties of a block's numbers.
struct Numbers<W> {
    /// The value subtracted from all of them.
    base: W,
    /// The fill value.
    fill: Option<W>,
    n_outliers: usize,
}

/// Quantizes words, each minus `first`. Returns `None` if too many elements would have to be stored
/// exactly. Buffers are padded by a row.
#[inline(always)]
fn quantize<W: Word, S: Simd<W>>(
    s: S,
    coding: &Coding<W>,
    missing: Option<&MissingWords<W>>,
    words: &[W],
    first: W,
    codes: &mut [W],
    kinds: &mut [u8],
) -> Option<Numbers<W>> {
    let n = kinds.len();
    let quantizer = coding.quantizer?;
    let first_row = s.splat(first);
    kinds.fill(CODED);
    let (mut n_uncoded, mut n_outliers) = (0, 0);
    for at in (0..n).step_by(LANES) {
        let row = s.add(s.load(&words[at..]), first_row);
        let coded = code_row(s, &quantizer, row, missing);
        s.store(coded.codes, &mut codes[at..]);
        let exact = first_lanes(n - at) & !(coded.are_coded & coded.are_within);
        for lane in (0..LANES).filter(|lane| exact >> lane & 1 != 0) {
            let is_coded = coded.are_coded >> lane & 1 != 0;
            kinds[at + lane] = if is_coded { IS_OUTLIER } else { IS_FILL };
            n_outliers += usize::from(is_coded);
            n_uncoded += usize::from(!is_coded);
        }
    }
    let mut fill = None;
    let mut before = codes[0];
    if n_uncoded > 0 {
        before = codes[kinds.iter().position(|&kind| kind != IS_FILL)?];
        let base = before;
        for ((kind, code), &word) in kinds.iter_mut().zip(codes.iter_mut()).zip(words) {
            if *kind == IS_FILL {
                *code = before;
                if *fill.get_or_insert(word) != word {
                    *kind = IS_OUTLIER;
                    n_outliers += 1;
                }
            }
            before = *code;
        }
        before = base;
    }
    if n_outliers * FEW > n {
        return None;
    }
    let base = s.splat(before);
    for at in (0..n).step_by(LANES) {
        s.store(s.sub(s.load(&codes[at..]), base), &mut codes[at..]);
    }
    Some(Numbers { base: before, fill: fill.map(|fill| fill.wrapping_add(first)), n_outliers })
}

/// Encodes the block of this shape to the start of `out`, which has room for any block. Returns the
/// bytes of the result, a multiple of `unit`.
#[inline(always)]
pub fn encode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    coding: &Coding<W>,
    unit: usize,
    source: &Source,
    shape: [usize; 3],
    out: &mut [u8],
) -> usize {
    let n = shape[0] * shape[1] * shape[2];
    let element = coding.element;
    let (level, memory) = (work.level, &mut *work.memory);
    let Memory { words, codes, kinds, numbers, sizes, left, symbols, string, samples, .. } = memory;
    let kinds = &mut kinds[..n];
    let block = BlockWords::load(s, source, shape, element, words);
    if block.range[0] == block.range[1] {
        return constant(block.first, unit, out);
    }
    let quantized = quantize(s, coding, coding.missing_of(source.part), words, block.first, codes, kinds);
    let (of, flags, in_rows) = match &quantized {
        Some(of) => {
            let outliers = if of.n_outliers > 0 { OUTLIERS } else { 0 };
            (of, outliers | if of.fill.is_some() { FILL_MASK } else { 0 }, &*codes)
        }
        None => {
            kinds.fill(CODED);
            (&Numbers { base: block.first, fill: None, n_outliers: 0 }, WORDS, &*words)
        }
    };
    let (values, in_rows) = (&in_rows[..n], &in_rows[..n + LANES]);
    if flags == 0 && values.iter().all(|&value| value == W::ZERO) {
        return constant(coding.value(of.base), unit, out);
    }

    let view = View::new(shape);
    let neighbours = Neighbours::new(view);
    let weights = Weights::choose(&neighbours, values, samples);
    let n_cells = LANES * view.n_times();
    let (left, symbols) = (&mut left[..n_cells], &mut symbols[..n_cells]);
    let exceptions = (flags & (FILL_MASK | OUTLIERS) != 0).then_some(&*kinds);
    let mut finding = Finding { values: in_rows, exceptions, left, symbols };
    scan(s, &view, &weights, &mut Cells { numbers, sizes }, &mut finding);

    let (mut of_contexts, mut ranges) = ([0; TABLES_BYTES], [0; IN_CONTEXTS]);
    let mut counts = frequencies::count::<CONTEXTS, IN_CONTEXTS>(symbols);
    let tables_bytes = tables::write(&mut counts, &mut ranges, &mut of_contexts);
    let mut encoder = Encoder::new(string, level);
    for (symbols, left) in symbols.as_chunks().0.iter().zip(left.as_chunks().0).rev() {
        write_step(&mut encoder, symbols, left, &ranges);
    }

    let aligned = |n: usize| n.next_multiple_of(ALIGNMENT);
    let weights_bytes = weights.n_bytes(&neighbours);
    let outlier_bytes = if of.n_outliers > 0 { ALIGNMENT + aligned(of.n_outliers * element.bytes) } else { 0 };
    let fill_mask_bytes = if of.fill.is_some() { W::BYTES + ALIGNMENT } else { 0 };
    let front_bytes =
        ALIGNMENT + W::BYTES + fill_mask_bytes + outlier_bytes + aligned(weights_bytes) + aligned(tables_bytes);
    let raw_bytes = (RAW_HEAD + n * element.bytes).next_multiple_of(unit);
    let n_bytes = |string: &[u16]| (front_bytes + 2 * string.len()).next_multiple_of(unit);
    let Some(string) = encoder.finish().filter(|string| n_bytes(string) < raw_bytes) else {
        write_raw(source, shape, element, &mut out[..raw_bytes]);
        return raw_bytes;
    };
    let n_bytes = n_bytes(string);
    let mut rest = &mut out[..n_bytes];
    place(&mut rest, 2).copy_from_slice(&(flags | weights.head).to_le_bytes());
    of.base.write(place(&mut rest, W::BYTES));
    if let Some(fill) = of.fill {
        fill.write(place(&mut rest, W::BYTES));
        let n_filled = kinds.iter().filter(|&&kind| kind == IS_FILL).count();
        place(&mut rest, 4).copy_from_slice(&(n_filled as u32).to_le_bytes());
    }
    if of.n_outliers > 0 {
        place(&mut rest, 4).copy_from_slice(&(of.n_outliers as u32).to_le_bytes());
        let elements = place(&mut rest, of.n_outliers * element.bytes);
        let outliers = words.iter().zip(kinds.iter()).filter(|&(_, &kind)| kind == IS_OUTLIER);
        for (out, (word, _)) in elements.chunks_exact_mut(element.bytes).zip(outliers) {
            element.store(&[word.wrapping_add(block.first)], out);
        }
    }
    weights.write(&neighbours, place(&mut rest, weights_bytes));
    place(&mut rest, tables_bytes).copy_from_slice(&of_contexts[..tables_bytes]);
    let (to, zeros) = rest.split_at_mut(2 * string.len());
    put_words(string, to);
    zeros.fill(0);
    n_bytes
}

/// Determines the symbols of numbers.
struct Finding<'a, W> {
    /// The numbers of the block, padded by a row.
    values: &'a [W],
    /// The kinds of elements, if some of them are exceptions.
    exceptions: Option<&'a [u8]>,
    left: &'a mut [W],
    symbols: &'a mut [u16],
}

impl<W: Word> Finding<'_, W> {
    /// The lanes whose elements are of this kind.
    #[inline(always)]
    fn lanes_of<R>(&self, step: &Step<R>, kind: u8) -> u32 {
        let Some(kinds) = self.exceptions else { return 0 };
        let is_one = |lane: usize| step.lanes >> lane & 1 != 0 && kinds[step.places[lane] as usize] == kind;
        mask_of(&std::array::from_fn(|lane| is_one(lane).into()))
    }
}

impl<W: Word, S: Simd<W>> Coder<W, S> for Finding<'_, W> {
    #[inline(always)]
    fn code(&mut self, s: S, step: &Step<S::Row>) -> (S::Row, S::Row) {
        let word = |n: u32| s.splat(W::from_u64(n.into()));
        // Lanes without a number also have a position, less than a row beyond the block.
        let values: [W; LANES] = std::array::from_fn(|lane| self.values[step.places[lane] as usize]);
        let (fill_mask, outliers) = (self.lanes_of(step, IS_FILL), self.lanes_of(step, IS_OUTLIER));
        let numbers = s.select(fill_mask | outliers, step.predicted, s.load(&values));
        let left = s.sub(numbers, step.predicted);
        let left = s.sub(s.xor(left, step.signs), step.signs);
        let (size, folded) = folded(s, left);
        let mut symbol = s.add(steps::symbols(s, folded), word(ZERO.into()));
        if fill_mask | outliers != 0 {
            symbol = s.select(fill_mask, word(FILL.into()), s.select(outliers, word(OUTLIER.into()), symbol));
        }
        let symbol = s.or(symbol, s.shift_left(step.contexts, u8::BITS));
        let mut words = [W::ZERO; LANES];
        s.store(s.select(step.lanes, symbol, word(NO_SYMBOL.into())), &mut words);
        let at = LANES * step.time;
        s.store(folded, &mut self.left[at..]);
        let symbols: &mut [u16; LANES] = self.symbols[at..].first_chunk_mut().expect("a step");
        *symbols = words.map(|word| word.to_u64() as u16);
        (numbers, s.select(fill_mask, word(FILL_SIZE), size))
    }
}

/// The magnitudes of residuals, and the residuals as unsigned numbers: 0, -1, 1, -2, …
#[inline(always)]
fn folded<W: Word, S: Simd<W>>(s: S, left: S::Row) -> (S::Row, S::Row) {
    let sign = s.shift_right_signed(left, W::BITS - 1);
    let size = s.sub(s.xor(left, sign), sign);
    (at_most_max(s, size), s.xor(s.shift_left(left, 1), sign))
}

#[inline(always)]
fn at_most_max<W: Word, S: Simd<W>>(s: S, size: S::Row) -> S::Row {
    let max = W::from_u64(MAX_SIZE.into());
    s.select(s.gt_mask(size, max), s.splat(max), size)
}

/// Writes the symbols of a time step, and their tails, before those of all later steps.
#[inline(always)]
fn write_step<W: Word>(
    encoder: &mut Encoder,
    symbols: &[u16; LANES],
    left: &[W; LANES],
    ranges: &[u32; IN_CONTEXTS],
) {
    let of_lanes = symbols.map(|symbol| ranges[usize::from(symbol) % IN_CONTEXTS]);
    let of_numbers =
        symbols.map(|symbol| if symbol == NO_SYMBOL { 0 } else { (symbol as u8).saturating_sub(ZERO) });
    let lanes = mask_of(&symbols.map(|symbol| u8::from(symbol != NO_SYMBOL)));
    steps::write(encoder, &of_numbers, left, (&of_lanes, lanes));
}

/// Decodes the block of this shape in `bytes` to its position in the array.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    coding: &Coding<W>,
    unit: usize,
    shape: [usize; 3],
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    let n = shape[0] * shape[1] * shape[2];
    let element = coding.element;
    let (level, memory) = (work.level, &mut *work.memory);
    let Memory { words, codes, kinds, numbers, sizes, slots, .. } = memory;
    let Some(header) = decode_plain(s, words, element, unit, shape, bytes, target)? else { return Ok(()) };
    let mut rest = bytes;
    let front = Front::<W>::read(header, &mut rest, element)?;
    let quantizer = if header & WORDS != 0 { None } else { Some(coding.quantizer.ok_or_else(no_codes)?) };
    let view = View::new(shape);
    let neighbours = Neighbours::new(view);
    let (weights, weights_bytes) = Weights::read(header & HEAD, &neighbours, rest)?;
    take(&mut rest, weights_bytes)?;
    let tables_bytes = tables::read::<CONTEXTS>(rest, slots)?;
    take(&mut rest, tables_bytes)?;
    let kinds = &mut kinds[..n];
    kinds.fill(CODED);
    let decoder = Decoder::new(rest, level)?;
    let mut reading = Reading {
        decoder,
        slots,
        codes: &mut *codes,
        kinds: &mut *kinds,
        n_outliers: 0,
        is_sound: true,
        n_filled: 0,
    };
    scan(s, &view, &weights, &mut Cells { numbers, sizes }, &mut reading);
    let Reading { decoder, n_outliers, n_filled, is_sound, .. } = reading;
    let used = bytes.len() - rest.len() + decoder.finish()?;
    let matches_header = n_outliers * element.bytes == front.outliers.len() && n_filled == front.n_filled;
    if !is_sound || !matches_header || used.next_multiple_of(unit) != bytes.len() {
        return Err(Error::corrupt("a quant block is damaged: its contents do not match its header"));
    }

    let base = s.splat(front.base);
    for at in (0..n).step_by(LANES) {
        s.store(s.add(s.load(&codes[at..]), base), &mut words[at..]);
    }
    if let Some(quantizer) = &quantizer {
        quantizer.values(s, &mut words[..n.next_multiple_of(LANES)]);
    }
    if front.n_filled > 0 {
        for (word, _) in words.iter_mut().zip(kinds.iter()).filter(|&(_, &kind)| kind == IS_FILL) {
            *word = front.fill;
        }
    }
    let outliers = words.iter_mut().zip(kinds.iter()).filter(|&(_, &kind)| kind == IS_OUTLIER);
    for ((word, _), bytes) in outliers.zip(front.outliers.chunks_exact(element.bytes)) {
        element.load(bytes, std::slice::from_mut(word));
    }
    target.store(s, words, shape, element);
    Ok(())
}

/// The sections before the weights.
struct Front<'b, W> {
    base: W,
    /// The fill value, and the number of filled elements.
    fill: W,
    n_filled: usize,
    /// The elements of the outliers.
    outliers: &'b [u8],
}

impl<'b, W: Word> Front<'b, W> {
    /// Reads the sections of a block that is neither raw nor constant from the start of `bytes`,
    /// which becomes the rest.
    fn read(header: u16, bytes: &mut &'b [u8], element: Element) -> Result<Self> {
        let head = take(bytes, ALIGNMENT)?;
        let is_known = header & !(HEAD | WORDS | FILL_MASK | OUTLIERS) == 0 && head[2..] == [0; 2];
        if !is_known || header & WORDS != 0 && header & (FILL_MASK | OUTLIERS) != 0 {
            return Err(newer());
        }
        let base = W::read(take(bytes, W::BYTES)?);
        let none = || Error::corrupt("a quant block is damaged: its number of exceptions is invalid");
        let count = |bytes: &mut &'b [u8]| {
            let n = u32::from_le_bytes(*take(bytes, 4)?.first_chunk().expect("four bytes"));
            if n > 0 { Ok(n as usize) } else { Err(none()) }
        };
        let (mut fill, mut n_filled, mut outliers) = (W::ZERO, 0, &[][..]);
        if header & FILL_MASK != 0 {
            fill = W::read(take(bytes, W::BYTES)?);
            n_filled = count(bytes)?;
        }
        if header & OUTLIERS != 0 {
            let n_bytes = count(bytes)?.checked_mul(element.bytes).filter(|&n_bytes| n_bytes <= bytes.len());
            outliers = take(bytes, n_bytes.ok_or_else(none)?)?;
        }
        Ok(Self { base, fill, n_filled, outliers })
    }
}

/// Decodes symbols to numbers.
struct Reading<'a, W> {
    decoder: Decoder<'a>,
    slots: &'a [u32],
    codes: &'a mut [W],
    kinds: &'a mut [u8],
    n_filled: usize,
    n_outliers: usize,
    /// False once an invalid symbol was found.
    is_sound: bool,
}

impl<W: Word, S: Simd<W>> Coder<W, S> for Reading<'_, W> {
    #[inline(always)]
    fn code(&mut self, s: S, step: &Step<S::Row>) -> (S::Row, S::Row) {
        let mut contexts = [W::ZERO; LANES];
        s.store(s.shift_left(step.contexts, LOG2_TOTAL), &mut contexts);
        let symbols =
            self.decoder.symbols(self.slots, &contexts.map(|context| context.to_u64() as u32), step.lanes);
        let exceptions = step.lanes & !s.gt_mask_bytes(&symbols, ZERO - 1);
        let mut of_numbers = [0; LANES];
        for lane in 0..LANES {
            let takes_part = step.lanes >> lane & 1 != 0;
            of_numbers[lane] = if takes_part { symbols[lane].saturating_sub(ZERO) } else { 0 };
        }
        let mut numbers = match steps::numbers(&mut self.decoder, &of_numbers) {
            Some(numbers) => numbers,
            None => {
                self.is_sound = false;
                [W::ZERO; LANES]
            }
        };
        // Exceptions have no residual.
        let folded = s.select_or_zero(!exceptions, s.load(&numbers));
        let sign = s.sub(s.splat(W::ZERO), s.and(folded, s.splat(W::from_u64(1))));
        let left = s.xor(s.shift_right(folded, 1), sign);
        let mut size = at_most_max(s, s.sub(s.xor(left, sign), sign));
        let row = s.add(step.predicted, s.sub(s.xor(left, step.signs), step.signs));
        s.store(row, &mut numbers);
        for (lane, &number) in numbers.iter().enumerate() {
            if step.lanes >> lane & 1 != 0 {
                self.codes[step.places[lane] as usize] = number;
            }
        }
        if exceptions != 0 {
            let mut fill_mask = 0;
            for lane in (0..LANES).filter(|lane| exceptions >> lane & 1 != 0) {
                let is_fill = symbols[lane] == FILL;
                fill_mask |= u32::from(is_fill) << lane;
                self.kinds[step.places[lane] as usize] = if is_fill { IS_FILL } else { IS_OUTLIER };
            }
            self.n_filled += fill_mask.count_ones() as usize;
            self.n_outliers += (exceptions & !fill_mask).count_ones() as usize;
            size = s.select(fill_mask, s.splat(W::from_u64(FILL_SIZE.into())), size);
        }
        (row, size)
    }
}

/// Counts a block of this shape by how it is coded, and the elements that it stores exactly.
///
/// # Errors
/// `Corrupt` or `UnsupportedFormat`.
pub fn count<W: Word>(bytes: &[u8], shape: [usize; 3], element: Element, counts: &mut BlockCounts) -> Result<()> {
    let n = shape.iter().product::<usize>() as u64;
    counts.all += 1;
    let Some(header) = bytes.first_chunk() else {
        counts.constant += 1;
        return Ok(());
    };
    let header = u16::from_le_bytes(*header);
    match header {
        RAW => (counts.raw, counts.exact) = (counts.raw + 1, counts.exact + n),
        CONST => counts.constant += 1,
        _ if header & RAW != 0 => return Err(newer()),
        _ => {
            let front = Front::<W>::read(header, &mut &bytes[..], element)?;
            counts.entropy += 1;
            counts.masked += u64::from(front.n_filled > 0);
            let n_exact = (front.n_filled + front.outliers.len() / element.bytes) as u64;
            if n_exact > n {
                return Err(Error::corrupt("a quant block is damaged: its contents do not match its header"));
            }
            counts.exact += if header & WORDS != 0 { n } else { n_exact };
        }
    }
    Ok(())
}
