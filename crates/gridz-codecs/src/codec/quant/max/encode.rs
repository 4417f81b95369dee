//! Encodes blocks: quantizes the elements, fits the weights, and codes the residuals.

use crate::codec::quant::block::{
    Coding, FEW, FILL_MASK, OUTLIERS, RAW_HEAD, WORDS, code_row, constant, write_raw,
};
use crate::codec::quant::max::scan::{CONTEXTS, Cells, Coder, FILL_SIZE, Step, scan};
use crate::codec::quant::max::view::View;
use crate::codec::quant::max::weights::{Neighbours, Weights};
use crate::codec::quant::max::{CODED, FILL, IS_FILL, IS_OUTLIER, Memory, OUTLIER, Work, ZERO, at_most_max};
use crate::stage::blocks::source::{self, Source};
use crate::stage::entropy::rans::{Encoder, put_words};
use crate::stage::entropy::{frequencies, steps, tables};
use crate::stage::exceptions::{ALIGNMENT, place};
use crate::stage::missing::MissingWords;
use crate::stage::rows::{LANES, Simd, first_lanes, mask_of, outlined};
use crate::stage::word::Word;

/// Used in place of a symbol and its context if a lane has none.
const NO_SYMBOL: u16 = u16::MAX;
/// Limit of symbols combined with their contexts in the upper bits. It also limits [`NO_SYMBOL`],
/// which acts as an unused symbol.
const IN_CONTEXTS: usize = CONTEXTS.next_power_of_two() << u8::BITS;
/// Maximum total size in bytes of all tables.
const TABLES_BYTES: usize = tables::tables_bytes(CONTEXTS);

/// The properties of a block's numbers.
struct Numbers<W> {
    /// The value subtracted from all of them.
    base: W,
    /// The fill value.
    fill: Option<W>,
    n_outliers: usize,
}

outlined! {
/// Quantizes words, each minus `first`. Returns `None` if too many elements would have to be stored
/// exactly. Buffers are padded by a row.
fn quantize<'a, W>(
    s,
    coding: &'a Coding<W>,
    missing: Option<&'a MissingWords<W>>,
    words: &'a [W],
    first: W,
    codes: &'a mut [W],
    kinds: &'a mut [u8],
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

/// Determines the symbols of a block's numbers.
fn find<'a, W>(s, view: &'a View, weights: &'a Weights, cells: Cells<'a, W>, finding: Finding<'a, W>) {
    let (mut cells, mut finding) = (cells, finding);
    scan(s, view, weights, &mut cells, &mut finding);
}

/// Encodes the symbols of all time steps, and their tails.
fn write<'a, 'b, W>(
    _s,
    encoder: &'a mut Encoder<'b>,
    symbols: &'a [u16],
    left: &'a [W],
    ranges: &'a [u32; IN_CONTEXTS],
) {
    for (symbols, left) in symbols.as_chunks().0.iter().zip(left.as_chunks().0).rev() {
        write_step(encoder, symbols, left, ranges);
    }
}
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
    let block = source::load(s, source, shape, element, words);
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
    let weights = Weights::choose(s, &neighbours, values, samples);
    let n_cells = LANES * view.n_times();
    let (left, symbols) = (&mut left[..n_cells], &mut symbols[..n_cells]);
    let exceptions = (flags & (FILL_MASK | OUTLIERS) != 0).then_some(&*kinds);
    let finding = Finding { values: in_rows, exceptions, left: &mut *left, symbols: &mut *symbols };
    find(s, &view, &weights, Cells { numbers, sizes }, finding);

    let (mut of_contexts, mut ranges) = ([0; TABLES_BYTES], [0; IN_CONTEXTS]);
    let mut counts = frequencies::count::<CONTEXTS, IN_CONTEXTS>(symbols);
    let tables_bytes = tables::write(&mut counts, &mut ranges, &mut of_contexts);
    let mut encoder = Encoder::new(string, level);
    write(s, &mut encoder, symbols, left, &ranges);

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
