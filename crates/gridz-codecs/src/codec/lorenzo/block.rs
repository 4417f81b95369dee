//! Encodes one block, choosing the shortest coding, and decodes it.

use crate::codec::lorenzo::header::{self, BITS, CONST, CUT, DECIMAL, FIXED, HUFF, Meaning, RAW, SPARSE, SPLIT};
use crate::codec::lorenzo::layout::UNIT;
use crate::codec::lorenzo::mask::Mask;
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::{cut, decimal, dict, huff, loops, map, mask};
use crate::cpu::thread_cache::{ThreadCache, at_least};
use crate::error::{Error, Result};
use crate::stage::bitmap::Bitmap;
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::source::{self, BlockWords, Source, SourcePrefetcher};
use crate::stage::blocks::target::{Buffered, Direct, Line, Shifted, Target};
use crate::stage::element::Element;
use crate::stage::pack;
use crate::stage::predict::{self, Each, SampledRows, Start};
use crate::stage::rows::{CACHE_LINE, LANES, Simd};
use crate::stage::samples::{FEW, Samples};
use crate::stage::sparse;
use crate::stage::word::Word;

/// Buffer sizes are multiples of this many words, so that all buffers begin at a cache line if the
/// first one does. Then no vector load crosses a line.
const ALIGNMENT: usize = CACHE_LINE / size_of::<u32>();

/// If the sampled rows take less than one bit per this many elements of the block, the orders are
/// chosen again with all rows.
const FEW_BITS: usize = 256;

/// Tails cost time. Where time matters, CUT must save this fraction of the bits (1 /
/// `LEAST_SAVING`).
const LEAST_SAVING: u64 = 32;

/// Scratch buffers of a block.
const BUFFERS: usize = 5;

/// Scratch memory for a block's numbers, cached per thread. Its contents between blocks are
/// arbitrary. Buffers are more than a row longer than a block, so that whole rows can be read and
/// written anywhere.
pub struct Work<W: Word> {
    memory: ThreadCache<Vec<W>>,
    /// Words of each buffer.
    n: usize,
    scratch: pack::Scratch<W>,
}

impl<W: Word> Work<W> {
    /// Allocates for the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout) -> Result<Self> {
        let n = (layout.blocks.block_elements() + 2 * LANES).next_multiple_of(ALIGNMENT);
        let mut memory = ThreadCache::<Vec<W>>::take();
        at_least(&mut memory, BUFFERS * n + ALIGNMENT)?;
        Ok(Self { memory, n, scratch: pack::Scratch::new() })
    }

    /// The buffers. The first one has the words of the block, which the coding overwrites.
    #[inline(always)]
    fn buffers(&mut self) -> ([&mut [W]; BUFFERS], &mut pack::Scratch<W>) {
        let start = self.memory.as_ptr().align_offset(CACHE_LINE).min(ALIGNMENT);
        let (first, rest) = self.memory[start..].split_at_mut(self.n);
        let (second, rest) = rest.split_at_mut(self.n);
        let (third, rest) = rest.split_at_mut(self.n);
        let (fourth, rest) = rest.split_at_mut(self.n);
        ([first, second, third, fourth, &mut rest[..self.n]], &mut self.scratch)
    }
}

/// Encodes the block of this shape to the start of `out`, which has room for any block. Returns the
/// bytes of the result, a multiple of [`UNIT`].
#[inline(always)]
pub fn encode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    source: &Source,
    shape: [usize; 3],
    element: Element,
    mode: Mode,
    out: &mut [u8],
) -> usize {
    let n = shape[0] * shape[1] * shape[2];
    let is_dense = mode == Mode::Dense;
    let ([words, fixed, decimals, cuts, kept], scratch) = work.buffers();
    let block = source::load(s, source, shape, element, words);
    if block.range[0] == block.range[1] {
        out[..UNIT].fill(0);
        out[0] = CONST;
        block.first.write(&mut out[8..]);
        return UNIT;
    }
    // A dictionary covers all words, masked or not.
    let (dict_first, dict_shift) = (block.first, block.all.trailing_zeros());
    if is_dense {
        kept[..n].copy_from_slice(&words[..n]);
    }
    let samples = Samples::new(&words[..n]);
    let mask = mask::choose(s, &words[..n], &samples, block.first, shape, element.bytes);
    let (block, samples) = match &mask {
        Some(mask) => (mask::fill(s, mask, words, n, block.first), Samples::new(&words[..n])),
        None => (block, samples),
    };
    let masked = mask.as_ref().map(|mask| &mask.bitmap);
    let chosen = choose(s, [words, fixed, decimals, cuts], &block, &samples, shape, element, masked, is_dense);
    // Half of the next block is prefetched now, the rest while the numbers are packed or the
    // dictionary is built.
    let ahead = |half: usize| SourcePrefetcher::new(source, shape, element, half * W::BYTES / 4);
    let orders = chosen.prediction.orders;
    let head = Head {
        meaning: Meaning::Differences {
            map: chosen.map,
            unit: chosen.unit as u16,
            orders,
            base: chosen.base.wrapping_add(chosen.prediction.base),
            is_masked: mask.is_some(),
        },
        mask: mask.as_ref(),
        tails: chosen.tails,
    };
    let (numbers, spare, n_coded) = differences(s, chosen, shape, masked, &mut ahead(0));

    let raw_bytes = UNIT + (n * element.bytes).next_multiple_of(UNIT);
    let mut shortest = Shortest { out, n_bytes: raw_bytes };
    if is_dense {
        write_entropy(s, &numbers[..n_coded], spare, shape, &head, &mut shortest);
    }
    write_differences(s, numbers, n_coded, &head, scratch, &mut ahead(1), &mut shortest);
    if is_dense {
        write_dictionary(s, kept, n, dict_first, dict_shift, numbers, scratch, &mut ahead(1), &mut shortest);
    }
    if shortest.n_bytes == raw_bytes {
        let out = shortest.out;
        out[..UNIT].fill(0);
        fill(out, n * element.bytes);
        source.copy(shape, element, &mut out[UNIT..]);
        return raw_bytes;
    }
    shortest.n_bytes
}

/// A block's numbers, and their map and prediction, which are chosen together.
struct Chosen<'a, W> {
    /// The numbers, each minus `base`.
    numbers: &'a mut [W],
    base: W,
    /// Two buffers of the same size.
    spare: [&'a mut [W]; 2],
    map: u8,
    /// The map's parameter, common to all numbers.
    unit: u32,
    prediction: predict::Prediction<W>,
    /// The bits to code after the numbers.
    tails: Option<cut::Tails<'a, W>>,
}

/// Chooses map and prediction. The first buffer has the words, each minus the first; `samples` are
/// samples of these.
#[inline(always)]
#[expect(clippy::too_many_arguments)]
fn choose<'a, W: Word, S: Simd<W>>(
    s: S,
    [words, fixed, decimals, cuts]: [&'a mut [W]; 4],
    block: &BlockWords<W>,
    samples: &Samples<W>,
    shape: [usize; 3],
    element: Element,
    masked: Option<&'a Bitmap>,
    is_dense: bool,
) -> Chosen<'a, W> {
    let n = shape[0] * shape[1] * shape[2];
    let BlockWords { first, all, range: [lowest, highest] } = *block;
    let shift = all.trailing_zeros() % W::BITS;
    // Words of one sign and exponent give the same numbers in BITS and FIXED, except for a
    // constant. All words share the leading bits that the smallest and the largest have in common.
    let is_fixed_better = element.is_float && (lowest ^ highest) >> W::FRACTION_BITS != W::default();
    let unit = if is_fixed_better { map::to_fixed(s, words, n, samples, first, fixed) } else { None };
    let digits = if element.is_float { decimal::to_decimal(s, words, n, samples, first, decimals) } else { None };
    let cut_unit = if element.is_float { cut::to_cut(s, words, n, first, [lowest, highest], cuts) } else { None };
    if shift > 0 {
        loops::shift_words(s, words, n, first, shift);
    }
    let first = first.shift_signed(shift);

    let (mut base, mut best, mut map, mut map_unit) = (first, predict::Prediction::NONE, BITS, shift);
    for (other_map, other_unit) in [(BITS, Some(shift)), (FIXED, unit), (DECIMAL, digits), (CUT, cut_unit)] {
        let Some(other_unit) = other_unit else { continue };
        let v = match other_map {
            BITS => &mut *words,
            FIXED => &mut *fixed,
            DECIMAL => &mut *decimals,
            _ => &mut *cuts,
        };
        let other_base = if other_map == BITS { first } else { loops::subtract_first(s, v, n) };
        let candidate = predict::Numbers {
            v,
            shape,
            middle: Samples::middle::<FEW>(&v[..n], other_base),
            start: Start::Rising,
            rows: if is_dense { SampledRows::Enough } else { SampledRows::EveryNth },
            masked,
        };
        let mut prediction = predict::choose::<_, _, Each>(s, &candidate, is_dense);
        if other_map == CUT {
            prediction.cost +=
                predict::measure(s, &candidate, &cut::TailBits { base: other_base, unit: other_unit });
            prediction.cost += if is_dense { 0 } else { prediction.cost / LEAST_SAVING };
        }
        if prediction.cost < best.cost {
            (base, best, map, map_unit) = (other_base, prediction, other_map, other_unit);
        }
    }
    let mut tails = None;
    let (numbers, spare) = match map {
        BITS => (words, [fixed, decimals]),
        FIXED => (fixed, [words, decimals]),
        DECIMAL => (decimals, [words, fixed]),
        _ => {
            tails = Some(cut::tails(s, words, n, first, shift, map_unit, masked, fixed));
            (cuts, [fixed, decimals])
        }
    };
    if is_dense && masked.is_none() && best.cost < (n / FEW_BITS) as u64 {
        // With so low a cost, the differences that are not zero may all be in rows that were not
        // sampled. So all rows are measured.
        let middle = Samples::middle::<FEW>(&numbers[..n], base);
        best = predict::choose::<_, _, Each>(
            s,
            &predict::Numbers { v: numbers, shape, middle, start: Start::Rising, rows: SampledRows::All, masked },
            true,
        );
    }
    Chosen { numbers, base, spare, map, unit: map_unit, prediction: best, tails }
}

/// The differences to code, a buffer of the same size, and their count. They are padded with zeros
/// to a row.
#[inline(always)]
fn differences<'a, W: Word, S: Simd<W>>(
    s: S,
    chosen: Chosen<'a, W>,
    shape: [usize; 3],
    masked: Option<&Bitmap>,
    ahead: &mut SourcePrefetcher,
) -> (&'a mut [W], &'a mut [W], usize) {
    let Chosen { numbers, spare: [spare, other], prediction: predict::Prediction { orders, base, .. }, .. } =
        chosen;
    let (numbers, n_coded) = match masked {
        None => {
            let numbers = predict::apply(s, numbers, spare, other, shape, (orders, Start::Rising), base, ahead);
            (numbers, shape[0] * shape[1] * shape[2])
        }
        Some(masked) => {
            let n_coded = predict::apply_masked(s, numbers, masked, shape, orders, base, other, spare, ahead);
            (spare, n_coded)
        }
    };
    numbers[n_coded..n_coded + LANES].fill(W::default());
    (numbers, other, n_coded)
}

/// The parts of a block before and after its coded differences.
struct Head<'a, W> {
    meaning: Meaning<W>,
    mask: Option<&'a Mask<W>>,
    tails: Option<cut::Tails<'a, W>>,
}

impl<W: Word> Head<'_, W> {
    /// Bytes of the mask.
    fn mask_bytes(&self) -> usize {
        self.mask.map_or(0, Mask::n_bytes)
    }

    /// Bytes of the mask, `n_bytes` of numbers, and the tails.
    fn with(&self, n_bytes: usize) -> usize {
        let all = self.mask_bytes() + n_bytes;
        self.tails.as_ref().map_or(all, |tails| all.next_multiple_of(cut::ALIGNMENT) + tails.n_bytes)
    }
}

/// The shortest coding of a block so far.
struct Shortest<'a> {
    /// The coded block. If RAW is shortest, it is not written yet.
    out: &'a mut [u8],
    n_bytes: usize,
}

impl Shortest<'_> {
    /// If a coding with `need` bytes after the header is shorter, returns the place for these bytes
    /// and the header. The padding after them is zeroed.
    fn replace(&mut self, need: usize) -> Option<&mut [u8]> {
        let all = padded(need);
        if all >= self.n_bytes {
            return None;
        }
        self.n_bytes = all;
        fill(self.out, need);
        Some(&mut self.out[..UNIT + need])
    }

    /// If coding the differences in `n_bytes` is shorter, writes header and mask, and returns the
    /// place for the differences.
    #[inline(always)]
    fn replace_differences<W: Word, S: Simd<W>>(
        &mut self,
        s: S,
        head: &Head<W>,
        coder: u8,
        n_bytes: usize,
    ) -> Option<&mut [u8]> {
        let out = self.replace(head.with(n_bytes))?;
        header::emit(out, coder, head.meaning);
        let (mask_place, contents) = out[UNIT..].split_at_mut(head.mask_bytes());
        if let Some(mask) = head.mask {
            mask.write(mask_place);
        }
        let (contents, behind) = contents.split_at_mut(n_bytes);
        if let Some(tails) = &head.tails {
            let (zeros, tails_place) = behind.split_at_mut(behind.len() - tails.n_bytes);
            zeros.fill(0);
            cut::write(s, tails, tails_place);
        }
        Some(contents)
    }
}

/// Codes differences with HUFF. `shape` is that of the block.
#[inline(always)]
fn write_entropy<W: Word, S: Simd<W>>(
    s: S,
    numbers: &[W],
    spare: &mut [W],
    shape: [usize; 3],
    head: &Head<W>,
    shortest: &mut Shortest,
) {
    let by_columns = huff::is_by_columns(shape, head.mask.is_some());
    if by_columns {
        huff::to_columns(numbers, shape[2], spare);
    }
    let numbers = if by_columns { &spare[..numbers.len()] } else { numbers };
    let coding = loops::plan_entropy(s, numbers);
    if let Some(out) = shortest.replace_differences(s, head, HUFF, coding.n_bytes()) {
        loops::write_entropy(s, &coding, numbers, out);
    }
}

/// Codes differences with every other coder that may suit them.
#[inline(always)]
fn write_differences<W: Word, S: Simd<W>>(
    s: S,
    numbers: &[W],
    n: usize,
    head: &Head<W>,
    scratch: &mut pack::Scratch<W>,
    ahead: &mut SourcePrefetcher,
    shortest: &mut Shortest,
) {
    let coding = pack::choose(s, numbers, n, scratch);
    if let Some(out) = shortest.replace_differences(s, head, SPLIT, coding.n_bytes()) {
        pack::write(s, &coding, numbers, scratch, out, ahead);
    }
    let is_short = |(count, width)| padded(head.with(sparse::least_bytes(count, width))) < shortest.n_bytes;
    if coding.nonzero().is_some_and(is_short) {
        let coding = sparse::choose(s, numbers, n);
        if let Some(out) = shortest.replace_differences(s, head, SPARSE, coding.n_bytes()) {
            sparse::write(s, &coding, numbers, out);
        }
    }
}

/// Codes `n` words, each minus `first`, with a dictionary, omitting the zero bits that all have at
/// the end.
#[inline(always)]
#[expect(clippy::too_many_arguments)]
fn write_dictionary<W: Word, S: Simd<W>>(
    s: S,
    words: &mut [W],
    n: usize,
    first: W,
    shift: u32,
    numbers: &mut [W],
    scratch: &mut pack::Scratch<W>,
    ahead: &mut SourcePrefetcher,
    shortest: &mut Shortest,
) {
    loops::add_and_shift(s, words, n, first, shift, ahead);
    if let Some(coding) = dict::Coding::choose(s, &words[..n], numbers, scratch, shortest.n_bytes)
        && let Some(out) = shortest.replace(coding.n_bytes())
    {
        header::emit(out, SPLIT, Meaning::Dictionary(shift as u16, coding.fields));
        coding.write(s, numbers, scratch, &mut out[UNIT..], ahead);
    }
}

/// Bytes of a block that has `n_bytes` bytes after its header.
fn padded(n_bytes: usize) -> usize {
    UNIT + n_bytes.next_multiple_of(UNIT)
}

/// Zeroes the padding of a block that has `n_bytes` bytes after its header.
fn fill(out: &mut [u8], n_bytes: usize) {
    out[UNIT + n_bytes..padded(n_bytes)].fill(0);
}

/// Decodes the block of this shape in `bytes` to its position in the array.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    shape: [usize; 3],
    element: Element,
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    let n = shape[0] * shape[1] * shape[2];
    let damage = || Error::corrupt("a lorenzo block is damaged: its length does not match its contents");
    let (header, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
    let (coder, meaning, base) = header::parse::<W>(header)?;
    let ([words, mut other, mut numbers, lengths, tail_words], scratch) = work.buffers();
    let mut mask = None;
    let (mut n_bytes, mut left) = match meaning {
        Some(Meaning::Differences { map, unit, orders, base, is_masked }) => {
            if map != BITS && !element.is_float {
                return Err(Error::corrupt("a lorenzo block is damaged: it uses a float coding for integers"));
            }
            let unit = u32::from(unit);
            let is_direct = map == BITS && element.bytes == W::BYTES && !is_masked && !s.is_small();
            if coder == SPLIT && is_direct && shape[..2] == [1, 1] {
                let bytes = &mut target.row(0, 0, W::BYTES)[..n * W::BYTES];
                let mut line = Line { bytes, finish: Shifted(unit) };
                (loops::read_line(s, rest, n, orders, base, scratch, &mut line)?, None)
            } else {
                let (mut n_coded, mut mask_bytes) = (n, 0);
                if is_masked {
                    let (word, bitmap, n_bytes) = Mask::read(rest, shape)?;
                    (n_coded, mask_bytes) = (n - bitmap.count(), n_bytes);
                    mask = Some((word, bitmap));
                }
                let rest = rest.get(mask_bytes..).ok_or_else(damage)?;
                let n_bytes = mask_bytes
                    + match coder {
                        SPLIT => pack::read(s, rest, n_coded, numbers, scratch)?,
                        SPARSE => sparse::read(rest, &mut numbers[..n_coded])?,
                        _ => {
                            let columns = huff::is_by_columns(shape, is_masked).then_some(shape[2]);
                            loops::read_entropy(s, rest, n_coded, columns, other, numbers)?
                        }
                    };
                if let Some((_, bitmap)) = &mask {
                    loops::expand(s, bitmap, numbers, n_coded, other);
                    (numbers, other) = (other, numbers);
                }
                let left = if !predict::is_in_rows(shape, orders, other.len()) {
                    predict::undo(s, numbers, shape, (orders, Start::Rising), base);
                    Some((numbers, map, unit))
                } else if is_direct {
                    let mut sink = Direct { target, shape, finish: Shifted(unit) };
                    predict::undo_rows(s, numbers, other, shape, (orders, Start::Rising), base, &mut sink);
                    None
                } else {
                    let mut sink = Buffered { words, shape };
                    predict::undo_rows(s, numbers, other, shape, (orders, Start::Rising), base, &mut sink);
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
            target.copy(elements, shape, element.bytes);
            (n_bytes, None)
        }
        None => {
            words[..n].fill(base);
            (0, Some((words, BITS, 0)))
        }
    };
    if let Some((words, CUT, unit)) = &mut left {
        let bitmap = mask.as_ref().map(|(_, bitmap)| bitmap);
        n_bytes = n_bytes.next_multiple_of(cut::ALIGNMENT);
        let tails = rest.get(n_bytes..).ok_or_else(damage)?;
        n_bytes += cut::from_cut(s, words, n, bitmap, *unit, tails, [lengths, tail_words])?;
    }
    if padded(n_bytes) != bytes.len() {
        return Err(damage());
    }
    let Some((words, map, unit)) = left else { return Ok(()) };
    to_words(s, words, n, (map, unit), mask.as_ref())?;
    target.store(s, words, shape, element);
    Ok(())
}

/// Converts the numbers of a map with this parameter to words, in place.
#[inline(always)]
fn to_words<W: Word, S: Simd<W>>(
    s: S,
    words: &mut [W],
    n: usize,
    (map, unit): (u8, u32),
    mask: Option<&(W, Bitmap)>,
) -> Result<()> {
    if map == FIXED {
        if let Some((_, bitmap)) = mask {
            // The predictions of masked elements may be beyond the type.
            loops::put_masked(s, W::default(), bitmap, words);
        }
        map::from_fixed(s, words, n, unit)?;
    } else if map == DECIMAL {
        decimal::from_decimal(s, words, n, unit);
    } else if map == BITS && unit > 0 {
        loops::shift_left(s, words, n, unit);
    }
    if let Some((word, bitmap)) = mask {
        loops::put_masked(s, *word, bitmap, words);
    }
    Ok(())
}
