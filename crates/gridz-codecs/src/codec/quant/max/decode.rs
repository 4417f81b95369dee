//! Decodes blocks, and counts them by how they are coded.

use crate::codec::BlockCounts;
use crate::codec::quant::block::{CONST, Coding, FILL_MASK, OUTLIERS, RAW, WORDS, decode_plain, newer, no_codes};
use crate::codec::quant::max::scan::{CONTEXTS, Cells, Coder, FILL_SIZE, Step, scan};
use crate::codec::quant::max::view::View;
use crate::codec::quant::max::weights::{Neighbours, SQUARES, Weights};
use crate::codec::quant::max::{CODED, FILL, IS_FILL, IS_OUTLIER, Memory, Work, ZERO, at_most_max};
use crate::error::{Error, Result};
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::entropy::frequencies::LOG2_TOTAL;
use crate::stage::entropy::rans::Decoder;
use crate::stage::entropy::{steps, tables};
use crate::stage::exceptions::{ALIGNMENT, take};
use crate::stage::rows::{LANES, Simd, outlined};
use crate::stage::word::Word;

/// Bits of a header that describe the prediction.
const HEAD: u16 = SQUARES | (SQUARES - 1);

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
    let (tables_bytes, first) = tables::read::<CONTEXTS>(rest, slots)?;
    // A shift finds the slots of a context. Those of later contexts come from no later place.
    for (context, &from) in first.iter().enumerate().rev() {
        let from = from as usize;
        slots.copy_within(from..from + (1 << LOG2_TOTAL), context << LOG2_TOTAL);
    }
    take(&mut rest, tables_bytes)?;
    let kinds = &mut kinds[..n];
    kinds.fill(CODED);
    let decoder = Decoder::new(rest, level)?;
    let reading = Reading {
        decoder,
        slots,
        codes: &mut *codes,
        kinds: &mut *kinds,
        n_outliers: 0,
        is_sound: true,
        n_filled: 0,
    };
    let reading = read(s, &view, &weights, Cells { numbers, sizes }, reading);
    let Reading { decoder, n_outliers, n_filled, is_sound, .. } = reading;
    let used = bytes.len() - rest.len() + decoder.finish()?;
    let matches_header = n_outliers * element.bytes == front.outliers.len() && n_filled == front.n_filled;
    if !is_sound || !matches_header || used.next_multiple_of(unit) != bytes.len() {
        return Err(Error::corrupt("a quant block is damaged: its contents do not match its header"));
    }

    add_base(s, front.base, codes, &mut words[..n.next_multiple_of(LANES)]);
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

outlined! {
/// Decodes a block's numbers.
fn read<'a, W>(
    s,
    view: &'a View,
    weights: &'a Weights,
    cells: Cells<'a, W>,
    reading: Reading<'a, W>,
) -> Reading<'a, W> {
    let (mut cells, mut reading) = (cells, reading);
    scan(s, view, weights, &mut cells, &mut reading);
    reading
}

/// Adds the base to the codes of whole rows.
fn add_base<'a, W>(s, base: W, codes: &'a [W], words: &'a mut [W]) {
    let base = s.splat(base);
    for at in (0..words.len()).step_by(LANES) {
        s.store(s.add(s.load(&codes[at..]), base), &mut words[at..]);
    }
}
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
