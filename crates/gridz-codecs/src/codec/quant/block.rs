//! One block: codes or words, predicted and packed; and the elements that are stored exactly.
//!
//! ```text
//! u16 header | widths | base | fill mask | outliers | entries | packed groups
//! u16 header | base | fill mask | outliers | numbers in contexts
//! ```
//!
//! Every section begins at a multiple of four bytes. In a block of zero bytes, all words are 0.

use crate::codec::BlockCounts;
use crate::codec::quant::loops::{self, LineValues, RelativeValues, Values};
use crate::codec::quant::packing::Packing;
use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::{ThreadCache, at_least};
use crate::error::{Error, ErrorKind, Result};
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::source::{self, Source, SourcePrefetcher};
use crate::stage::blocks::target::{Buffered, Direct, Line, Target};
use crate::stage::element::Element;
use crate::stage::exceptions::{ALIGNMENT, Bitmap, FillMask, Outliers, outlier_bytes, place, write_outliers};
use crate::stage::missing::MissingWords;
use crate::stage::predict::{self, MAX_ORDER, Orders, SampledRows, Start};
use crate::stage::quantize::{Coded, Quantizer};
use crate::stage::rows::{CACHE_LINE, LANES, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// Headers of blocks without prediction.
pub const RAW: u16 = 1 << 15;
pub const CONST: u16 = RAW | 1;
/// Flags of other headers: elements have words instead of codes; there is a fill mask; there are
/// outliers ("other exceptions").
pub const WORDS: u16 = 1 << 12;
pub const FILL_MASK: u16 = 1 << 13;
pub const OUTLIERS: u16 = 1 << 14;
/// Bits of one prediction order.
const ORDER_BITS: u16 = 3;
/// Position and size of the bit field that holds the number of widths minus 1.
const WIDTHS_AT: u16 = 9;
const WIDTHS_BITS: u16 = 3;
/// A block has at most one outlier per this many elements; otherwise it has words instead of codes.
pub const FEW: usize = 8;
/// Maximum number of bytes of a raw block in addition to its elements.
pub const RAW_HEAD: usize = ALIGNMENT;

/// Buffer sizes are multiples of this many words, so that all buffers begin at a cache line if the
/// first one does.
const LINE_WORDS: usize = CACHE_LINE / size_of::<u32>();
/// Maximum number of parts of an element.
pub const MAX_PARTS: usize = 2;
/// Scratch buffers of a block.
const BUFFERS: usize = 4;

/// Scratch memory for a block's numbers, cached per thread. Its contents between blocks are
/// arbitrary.
pub struct Work<W: Word, P> {
    memory: ThreadCache<Vec<W>>,
    /// Words of each buffer.
    n: usize,
    packing: P,
    exceptions: Exceptions<W>,
}

impl<W: Word, P: Packing<W>> Work<W, P> {
    /// Allocates for encoding, or only for decoding, the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout, encodes: bool, level: Isa) -> Result<Self> {
        let n = (layout.blocks.block_elements() + 2 * LANES).next_multiple_of(LINE_WORDS);
        let mut memory = ThreadCache::<Vec<W>>::take();
        at_least(&mut memory, BUFFERS * n + LINE_WORDS)?;
        Ok(Self { memory, n, packing: P::new(layout, encodes, level)?, exceptions: Exceptions::new() })
    }

    #[inline(always)]
    fn buffers(&mut self) -> ([&mut [W]; BUFFERS], &mut P, &mut Exceptions<W>) {
        let start = self.memory.as_ptr().align_offset(CACHE_LINE).min(LINE_WORDS);
        let (first, rest) = self.memory[start..].split_at_mut(self.n);
        let (second, rest) = rest.split_at_mut(self.n);
        let (third, rest) = rest.split_at_mut(self.n);
        ([first, second, third, &mut rest[..self.n]], &mut self.packing, &mut self.exceptions)
    }
}

/// The length of a block's rows, if it has several.
fn rows_of([sz, sy, sx]: [usize; 3]) -> Option<usize> {
    (sz * sy > 1).then_some(sx)
}

/// The quantization of a chunk's elements.
#[derive(Clone, Copy)]
pub struct Coding<W> {
    /// How elements map to words.
    pub element: Element,
    /// How words map to codes; `None` if all elements are stored exactly.
    pub quantizer: Option<Quantizer<W>>,
    /// The missing words of each part of the elements.
    pub missing: Option<[MissingWords<W>; MAX_PARTS]>,
}

/// The elements of a block that are stored exactly: filled elements, which share one word, and
/// outliers (`outliers`).
struct Exceptions<W> {
    /// Elements without a code.
    uncoded: Bitmap,
    fill_mask: Option<FillMask<W>>,
    /// Outliers: all other elements that are stored exactly, and their number.
    outliers: Bitmap,
    n_outliers: usize,
}

impl<W: Word> Exceptions<W> {
    /// No exceptions.
    fn new() -> Self {
        Self { uncoded: Bitmap::new(0), fill_mask: None, outliers: Bitmap::new(0), n_outliers: 0 }
    }

    /// Resets to no exceptions, for a block of `n` elements.
    #[inline(always)]
    fn restart(&mut self, n: usize) {
        self.uncoded.restart(n);
        self.outliers.restart(n);
        (self.fill_mask, self.n_outliers) = (None, 0);
    }

    /// The flags of these exceptions in a block's header.
    fn flags(&self) -> u16 {
        let fill_mask = if self.fill_mask.is_some() { FILL_MASK } else { 0 };
        fill_mask | if self.n_outliers > 0 { OUTLIERS } else { 0 }
    }

    /// Bytes that [`Self::write`] writes.
    fn n_bytes(&self, element: Element) -> usize {
        self.fill_mask.as_ref().map_or(0, FillMask::n_bytes)
            + if self.n_outliers > 0 { outlier_bytes(self.n_outliers, element) } else { 0 }
    }

    /// Writes the exceptions. `words` are all words, each minus `first`.
    fn write(&self, words: &[W], first: W, element: Element, out: &mut &mut [u8]) {
        if let Some(fill_mask) = &self.fill_mask {
            fill_mask.write(out);
        }
        if self.n_outliers > 0 {
            write_outliers(&self.outliers, |at| words[at].wrapping_add(first), element, out);
        }
    }
}

impl<W: Word> Coding<W> {
    /// The code of a word; 0 if it has none.
    pub fn code(&self, word: W) -> W {
        self.quantizer.map_or(word, |quantizer| quantizer.code_of(word))
    }

    /// The missing words of a part of the elements.
    pub fn missing_of(&self, part: usize) -> Option<&MissingWords<W>> {
        self.missing.as_ref().map(|missing| &missing[part % MAX_PARTS])
    }

    /// The word that a code decodes to.
    pub fn value(&self, code: W) -> W {
        self.quantizer.map_or(code, |quantizer| quantizer.value_of(code))
    }
}

/// The words of a block, each minus the first one.
struct Words<'a, W> {
    words: &'a [W],
    first: W,
    shape: [usize; 3],
    /// The missing words of this part, if any.
    missing: Option<&'a MissingWords<W>>,
}

/// Quantizes a row of words. Missing words get no code, and no other word gets a code that would
/// decode to a missing word.
#[inline(always)]
pub fn code_row<W: Word, S: Simd<W>>(
    s: S,
    quantizer: &Quantizer<W>,
    row: S::Row,
    missing: Option<&MissingWords<W>>,
) -> Coded<S::Row> {
    let mut coded = quantizer.code(s, row);
    if let Some(missing) = missing {
        coded.are_coded &= missing.present(s, row);
        coded.are_within &= missing.present(s, quantizer.value(s, coded.codes));
    }
    coded
}

outlined! {
    /// Quantizes words. Returns the first code, which is subtracted from all codes. Returns `None` if
    /// too many elements would have to be stored exactly. `codes` is padded by a row.
    fn quantize<'a, W>(
        s,
        coding: &'a Coding<W>,
        block: &'a Words<'a, W>,
        codes: &'a mut [W],
        exceptions: &'a mut Exceptions<W>,
    ) -> Option<W> {
        let Words { words, first, shape, missing } = *block;
        let n = shape[0] * shape[1] * shape[2];
        exceptions.restart(n);
        let quantizer = coding.quantizer?;
        let base = s.splat(first);
        let mut first_code = coding.code(first);
        let first_row = s.splat(first_code);
        let (mut any_uncoded, mut n_outliers) = (0, 0);
        let mut at = 0;
        while at < n {
            let row = s.add(s.load(&words[at..]), base);
            let coded = code_row(s, &quantizer, row, missing);
            let lanes = first_lanes(n - at);
            let uncoded = lanes & !coded.are_coded;
            let outliers = lanes & coded.are_coded & !coded.are_within;
            exceptions.uncoded.words_mut()[at / LANES] = uncoded;
            exceptions.outliers.words_mut()[at / LANES] = outliers;
            any_uncoded |= uncoded;
            n_outliers += outliers.count_ones() as usize;
            s.store(s.sub(coded.codes, first_row), &mut codes[at..]);
            at += LANES;
        }
        if any_uncoded != 0 {
            let start = exceptions.uncoded.first_other()?;
            first_code = fill_up(s, codes, n, &exceptions.uncoded, start, first_code);
            let first_uncoded = exceptions.uncoded.marked().next().map_or(0, |at| at as usize);
            let (fill, mut fill_mask) = (words[first_uncoded], Bitmap::new(n));
            let fill_row = s.splat(fill);
            let mut k = 0;
            while k * LANES < n {
                let are_fill = !s.gt_mask(s.xor(s.load(&words[k * LANES..]), fill_row), W::default());
                let uncoded = exceptions.uncoded.words()[k];
                fill_mask.words_mut()[k] = uncoded & are_fill;
                exceptions.outliers.words_mut()[k] |= uncoded & !are_fill;
                k += 1;
            }
            n_outliers = exceptions.outliers.count();
            exceptions.fill_mask = Some(FillMask::new(fill.wrapping_add(first), fill_mask, rows_of(shape)));
        }
        exceptions.n_outliers = n_outliers;
        (n_outliers * FEW <= n).then_some(first_code)
    }
}

/// Replaces the code of every element without one by its predecessor's code or, at the front, by
/// the first code of the block, that of element `start`. On entry, codes are relative to `first`;
/// on return, they are relative to the new first code, which is returned.
#[inline(always)]
fn fill_up<W: Word, S: Simd<W>>(s: S, codes: &mut [W], n: usize, uncoded: &Bitmap, start: usize, first: W) -> W {
    let base = codes[start];
    let base_row = s.splat(base);
    let mut before = s.splat(W::default());
    let mut k = 0;
    while k * LANES < n {
        let at = k * LANES;
        let row = s.fill_forward(uncoded.words()[k], s.sub(s.load(&codes[at..]), base_row), before);
        s.store(row, &mut codes[at..]);
        before = row;
        k += 1;
    }
    base.wrapping_add(first)
}

/// Encodes the block of this shape to the start of `out`, which has room for any block. Returns the
/// bytes of the result, a multiple of `unit`.
#[inline(always)]
pub fn encode<W: Word, S: Simd<W>, P: Packing<W>>(
    s: S,
    work: &mut Work<W, P>,
    coding: &Coding<W>,
    unit: usize,
    source: &Source,
    shape: [usize; 3],
    out: &mut [u8],
) -> usize {
    let n = shape[0] * shape[1] * shape[2];
    let element = coding.element;
    let ([words, codes, spare, other], packing, exceptions) = work.buffers();
    let block = source::load(s, source, shape, element, words);
    if block.range[0] == block.range[1] {
        return constant(block.first, unit, out);
    }
    let missing = coding.missing_of(source.part);
    let of_block = Words { words, first: block.first, shape, missing };
    let first_code = quantize(s, coding, &of_block, codes, exceptions);
    let (v, words, first, kind) = match first_code {
        Some(first) => (codes, &*words, first, exceptions.flags()),
        None => (words, &*codes, block.first, WORDS),
    };
    if kind == 0 && loops::is_zero(s, v, n) {
        return constant(coding.value(first), unit, out);
    }
    let numbers = predict::Numbers {
        v,
        shape,
        middle: P::middle(&v[..n], first),
        start: Start::Zeros,
        rows: SampledRows::EveryNth,
        masked: None,
    };
    let predict::Prediction { orders, base, .. } = predict::choose::<_, _, P::Cost>(s, &numbers, P::SEARCHES);
    // Half of the next block is prefetched now, the rest while the numbers are packed.
    let ahead = |half: usize| SourcePrefetcher::new(source, shape, element, half * W::BYTES / 4);
    let r = predict::apply(s, v, spare, other, shape, (orders, Start::Zeros), base, &mut ahead(0));
    r[n..n + LANES].fill(W::default());
    let packed_bytes = packing.choose(s, r, shape);
    let exceptions_bytes = if kind == WORDS { 0 } else { exceptions.n_bytes(element) };
    let n_widths = packing.table().len();
    let front_bytes = (2 + n_widths).next_multiple_of(ALIGNMENT) + W::BYTES + exceptions_bytes;
    let raw_bytes = (RAW_HEAD + n * element.bytes).next_multiple_of(unit);
    let n_bytes = packed_bytes.map_or(raw_bytes, |n_bytes| (front_bytes + n_bytes).next_multiple_of(unit));
    let packed_bytes = packed_bytes.unwrap_or_default();
    if n_bytes >= raw_bytes {
        write_raw(source, shape, element, &mut out[..raw_bytes]);
        return raw_bytes;
    }
    let [oz, oy, ox] = orders.map(u16::from);
    let of_widths = (n_widths as u16).saturating_sub(1) << WIDTHS_AT;
    let header = ox | oy << ORDER_BITS | oz << (2 * ORDER_BITS) | of_widths | kind;
    let mut rest = &mut out[..n_bytes];
    let front = place(&mut rest, 2 + n_widths);
    front[..2].copy_from_slice(&header.to_le_bytes());
    front[2..].copy_from_slice(packing.table());
    first.wrapping_add(base).write(place(&mut rest, W::BYTES));
    if kind != WORDS {
        exceptions.write(words, block.first, element, &mut rest);
    }
    let (packed, zeros) = rest.split_at_mut(packed_bytes);
    packing.write(s, r, packed, &mut ahead(1));
    zeros.fill(0);
    n_bytes
}

/// Writes a block that stores its elements verbatim.
pub fn write_raw(source: &Source, shape: [usize; 3], element: Element, out: &mut [u8]) {
    let n_bytes = shape.iter().product::<usize>() * element.bytes;
    out.fill(0);
    out[..2].copy_from_slice(&RAW.to_le_bytes());
    source.copy(shape, element, &mut out[RAW_HEAD..RAW_HEAD + n_bytes]);
}

/// Writes a block whose elements all have this word. Returns its bytes.
pub fn constant<W: Word>(word: W, unit: usize, out: &mut [u8]) -> usize {
    if word == W::default() {
        return 0;
    }
    let n_bytes = (ALIGNMENT + W::BYTES).next_multiple_of(unit);
    out[..n_bytes].fill(0);
    out[..2].copy_from_slice(&CONST.to_le_bytes());
    word.write(&mut out[ALIGNMENT..]);
    n_bytes
}

/// Decodes a block that is raw or constant; returns the header of any other block.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for headers that only a later version can have written.
#[inline(always)]
pub fn decode_plain<W: Word, S: Simd<W>>(
    s: S,
    words: &mut [W],
    element: Element,
    unit: usize,
    shape: [usize; 3],
    bytes: &[u8],
    target: &mut Target,
) -> Result<Option<u16>> {
    let n = shape[0] * shape[1] * shape[2];
    let damage = || Error::corrupt("a quant block is damaged: its length does not match its contents");
    let whole = |n_bytes: usize| if n_bytes.next_multiple_of(unit) == bytes.len() { Ok(()) } else { Err(damage()) };
    if bytes.is_empty() {
        words[..n].fill(W::default());
        target.store(s, words, shape, element);
        return Ok(None);
    }
    let header = u16::from_le_bytes(*bytes.first_chunk().ok_or_else(damage)?);
    if header & RAW == 0 {
        return Ok(Some(header));
    }
    let zeros_and_rest = bytes.get(2..).ok_or_else(damage)?;
    let (zeros, rest) = zeros_and_rest.split_at_checked(ALIGNMENT - 2).ok_or_else(damage)?;
    if !matches!(header, RAW | CONST) || zeros.iter().any(|&byte| byte != 0) {
        return Err(newer());
    }
    if header == RAW {
        whole(RAW_HEAD + n * element.bytes)?;
        target.copy(&rest[..n * element.bytes], shape, element.bytes);
        return Ok(None);
    }
    whole(ALIGNMENT + W::BYTES)?;
    words[..n].fill(W::read(rest));
    target.store(s, words, shape, element);
    Ok(None)
}

/// Decodes the block of this shape in `bytes` to its position in the array.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word, S: Simd<W>, P: Packing<W>>(
    s: S,
    work: &mut Work<W, P>,
    coding: &Coding<W>,
    unit: usize,
    shape: [usize; 3],
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    let n = shape[0] * shape[1] * shape[2];
    let element = coding.element;
    let damage = || Error::corrupt("a quant block is damaged: its length does not match its contents");
    let ([words, numbers, other, _], packing, _) = work.buffers();
    let whole = |n_bytes: usize| if n_bytes.next_multiple_of(unit) == bytes.len() { Ok(()) } else { Err(damage()) };
    let Some(header) = decode_plain(s, words, element, unit, shape, bytes, target)? else { return Ok(()) };
    let order = |k: u16| (header >> (k * ORDER_BITS)) as u8 & MAX_ORDER;
    let orders: Orders = [order(2), order(1), order(0)];
    let quantizer = if header & WORDS != 0 { None } else { Some(coding.quantizer.ok_or_else(no_codes)?) };
    if header & WORDS != 0 && header & (FILL_MASK | OUTLIERS) != 0 {
        return Err(newer());
    }
    let mut rest = &bytes[2..];
    let n_widths = widths_of::<W, P>(header)?;
    let table = rest.get(..n_widths).ok_or_else(damage)?;
    rest = bytes.get((2 + n_widths).next_multiple_of(ALIGNMENT)..).ok_or_else(damage)?;
    let base = W::read(rest.get(..W::BYTES).ok_or_else(damage)?);
    rest = &rest[W::BYTES..];
    let fill_mask = if header & FILL_MASK != 0 {
        Some(FillMask::read(&mut rest, shape.iter().product(), rows_of(shape))?)
    } else {
        None
    };
    let outliers = if header & OUTLIERS != 0 { Some(Outliers::read(&mut rest, n, element)?) } else { None };
    let is_whole = |n_bytes: usize| whole(bytes.len() - rest.len() + n_bytes);

    // The quantizer of integers is not worth a copy in every loop that stores.
    let (uniform, relative) = match &quantizer {
        Some(Quantizer::Uniform(uniform)) => (Some(uniform), None),
        Some(Quantizer::Relative(relative)) => (None, Some(relative)),
        _ => (None, None),
    };
    let is_whole_words = element.bytes == W::BYTES && fill_mask.is_none() && !s.is_small();
    let is_direct = is_whole_words && (quantizer.is_none() || uniform.is_some());
    if (is_direct || is_whole_words && relative.is_some()) && shape[..2] == [1, 1] {
        let bytes = &mut target.row(0, 0, W::BYTES)[..n * W::BYTES];
        let line = &mut Line { bytes, finish: LineValues { uniform, relative } };
        is_whole(loops::unpack_line(s, packing, table, rest, shape, orders, base, line)?)?;
        put_outliers(&outliers, element, shape, target);
        return Ok(());
    }
    is_whole(packing.unpack_to(s, table, rest, shape, numbers)?)?;
    let words = if !predict::is_in_rows(shape, orders, other.len()) {
        numbers[n..n + LANES].fill(W::default());
        predict::undo(s, numbers, shape, (orders, Start::Zeros), base);
        numbers
    } else if is_direct {
        let mut sink = Direct { target, shape, finish: Values(uniform) };
        predict::undo_rows(s, numbers, other, shape, (orders, Start::Zeros), base, &mut sink);
        put_outliers(&outliers, element, shape, target);
        return Ok(());
    } else if let (Some(relative), true) = (relative, is_whole_words) {
        let mut sink = Direct { target, shape, finish: RelativeValues(relative) };
        predict::undo_rows(s, numbers, other, shape, (orders, Start::Zeros), base, &mut sink);
        put_outliers(&outliers, element, shape, target);
        return Ok(());
    } else {
        let mut sink = Buffered { words: &mut *words, shape };
        predict::undo_rows(s, numbers, other, shape, (orders, Start::Zeros), base, &mut sink);
        words
    };
    if let Some(quantizer) = &quantizer {
        quantizer.values(s, &mut words[..n.next_multiple_of(LANES)]);
    }
    if let Some((word, bitmap)) = &fill_mask {
        loops::put_filled(s, *word, bitmap, words);
    }
    target.store(s, words, shape, element);
    put_outliers(&outliers, element, shape, target);
    Ok(())
}

/// Writes the outliers of a block of this shape to their positions.
fn put_outliers(outliers: &Option<Outliers>, element: Element, [_, sy, sx]: [usize; 3], target: &mut Target) {
    for (at, bytes) in outliers.iter().flat_map(|outliers| outliers.elements(element)) {
        let row = target.row(at / sx / sy, at / sx % sy, element.bytes);
        row[at % sx * element.bytes..][..element.bytes].copy_from_slice(bytes);
    }
}

/// The number of widths of a block with this header.
fn widths_of<W: Word, P: Packing<W>>(header: u16) -> Result<usize> {
    P::table_bytes(header >> WIDTHS_AT & ((1 << WIDTHS_BITS) - 1)).ok_or_else(newer)
}

pub fn newer() -> Error {
    let text = "a quant block is of an unknown kind; a newer gridz may read this data";
    Error::new(ErrorKind::UnsupportedFormat, text)
}

pub fn no_codes() -> Error {
    Error::corrupt("a quant block is damaged: it has quantized elements, but the frame has no bound")
}

/// Counts a block of this shape by how it is coded, and the elements that it stores exactly.
///
/// # Errors
/// `Corrupt` or `UnsupportedFormat`.
pub fn count<W: Word, P: Packing<W>>(
    bytes: &[u8],
    shape: [usize; 3],
    element: Element,
    counts: &mut BlockCounts,
) -> Result<()> {
    let n = shape.iter().product::<usize>();
    let damage = || Error::corrupt("a quant block is damaged: its header is incomplete");
    counts.all += 1;
    if bytes.is_empty() {
        counts.constant += 1;
        return Ok(());
    }
    let header = u16::from_le_bytes(*bytes.first_chunk().ok_or_else(damage)?);
    match header {
        RAW => (counts.raw, counts.exact) = (counts.raw + 1, counts.exact + n as u64),
        CONST => counts.constant += 1,
        _ if header & RAW != 0 => return Err(newer()),
        _ => {
            *(if P::IS_ENTROPY { &mut counts.entropy } else { &mut counts.packed }) += 1;
            counts.exact += if header & WORDS != 0 { n as u64 } else { 0 };
            let front = (2 + widths_of::<W, P>(header)?).next_multiple_of(ALIGNMENT) + W::BYTES;
            let mut rest = bytes.get(front..).ok_or_else(damage)?;
            if header & FILL_MASK != 0 {
                counts.masked += 1;
                counts.exact +=
                    FillMask::<W>::read(&mut rest, shape.iter().product(), rows_of(shape))?.1.count() as u64;
            }
            if header & OUTLIERS != 0 {
                counts.exact += Outliers::read(&mut rest, n, element)?.elements(element).count() as u64;
            }
        }
    }
    Ok(())
}
