//! One block: its header, and the choice of what codes it best.

use std::cell::Cell;

use crate::codec::BlockCounts;
use crate::codec::lorenzo::layout::{Layout, UNIT};
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::predict::{self, ANY, LineSums, MAX_ORDER, Orders, Plane, Sink};
use crate::codec::lorenzo::rows::{Ahead, CACHE_LINE, LANES, RowSink, Rows, first_lanes};
use crate::codec::lorenzo::word::{Element, Word};
use crate::codec::lorenzo::{dict, huff, map, split};
use crate::error::{Error, ErrorKind, Result};

const RAW: u8 = 0;
const CONST: u8 = 1;
const SPLIT: u8 = 2;
const HUFF: u8 = 3;

const BITS: u8 = 0;
const FIXED: u8 = 1;
const DICT: u8 = 2;

/// Words of which buffers have a multiple, so that all begin with a line of the cache if one does: then no register is
/// loaded from two lines.
const ALIGNMENT: usize = CACHE_LINE / size_of::<u32>();

/// A block's numbers while it is coded. Longer than the block by more than a row, so that whole rows can be read and
/// written anywhere. The memory is kept by the thread; what is in it does not matter.
pub struct Work<W: Word> {
    memory: Vec<W>,
    /// Words of each buffer.
    n: usize,
    scratch: split::Scratch<W>,
}

impl<W: Word> Work<W> {
    /// For the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout) -> Result<Self> {
        let n = (layout.block_elements() + 2 * LANES).next_multiple_of(ALIGNMENT);
        // At the end of a thread there may be nothing kept any more.
        let mut memory = W::kept().try_with(Cell::take).unwrap_or_default();
        let need = 3 * n + ALIGNMENT;
        let missing = need.saturating_sub(memory.len());
        let bytes = (need * W::BYTES) as u64;
        memory.try_reserve_exact(missing).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
        memory.resize(memory.len() + missing, W::default());
        Ok(Self { memory, n, scratch: split::Scratch::new() })
    }

    /// The words of the block, which become what is coded of them, and two buffers for anything else.
    #[inline(always)]
    fn buffers(&mut self) -> (&mut [W], &mut [W], &mut [W], &mut split::Scratch<W>) {
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

/// Where the elements of a block are.
pub struct Source<'a> {
    /// The array from the block's first element on.
    pub bytes: &'a [u8],
    /// The same for the next block.
    pub next: &'a [u8],
    /// Elements from one row to the next, and from one plane to the next.
    pub row: usize,
    pub plane: usize,
}

/// Where the elements of a block go.
pub struct Target<'t, 'a> {
    /// The planes, each as far as there are rows of the block, or all in one.
    pub bands: &'t mut [&'a mut [u8]],
    /// In that case, elements from one plane to the next.
    pub plane: Option<usize>,
    /// Elements before the block's first one in each.
    pub offset: usize,
    /// Elements from one row to the next.
    pub row: usize,
}

impl Target<'_, '_> {
    /// The band of row y of plane z, and the elements before the row in it.
    #[inline(always)]
    fn place(&self, z: usize, y: usize) -> (usize, usize) {
        let in_plane = y * self.row + self.offset;
        match self.plane {
            Some(plane) => (0, z * plane + in_plane),
            None => (z, in_plane),
        }
    }

    /// Plane z, from the block's first row on.
    #[inline(always)]
    fn plane(&mut self, z: usize, element_bytes: usize) -> &mut [u8] {
        let (band, start) = self.place(z, 0);
        &mut self.bands[band][start * element_bytes..]
    }

    /// Row y of plane z, from its first element on.
    #[inline(always)]
    fn row(&mut self, z: usize, y: usize, element_bytes: usize) -> &mut [u8] {
        let (band, start) = self.place(z, y);
        &mut self.bands[band][start * element_bytes..]
    }
}

/// What the numbers of a block mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning<W> {
    /// Differences of an integer map: its parameter, orders and base.
    Differences { map: u8, unit: u16, orders: Orders, base: W },
    /// Indices into a dictionary, with t.
    Dictionary(u16, dict::Fields<W>),
}

/// Writes the header of a block whose numbers follow.
fn emit_header<W: Word>(out: &mut [u8], coder: u8, meaning: Meaning<W>) {
    out[..UNIT].fill(0);
    let (map, base) = match meaning {
        Meaning::Differences { map, unit, orders: [oz, oy, ox], base } => {
            out[1] = ox | oy << 4;
            out[2] = oz;
            out[4..6].copy_from_slice(&unit.to_le_bytes());
            (map, base)
        }
        Meaning::Dictionary(shift, fields) => {
            out[1..4].copy_from_slice(&[fields.low_bits, fields.delta_bits, fields.delta_shift]);
            out[4..6].copy_from_slice(&shift.to_le_bytes());
            out[6..8].copy_from_slice(&fields.n_entries.to_le_bytes());
            (DICT, fields.base)
        }
    };
    out[0] = coder | map << 4;
    base.write(&mut out[8..]);
}

/// The coder and, where numbers follow, their meaning.
fn parse_header<W: Word>(header: &[u8; UNIT]) -> Result<(u8, Option<Meaning<W>>, W)> {
    let newer = || {
        let text = "a lorenzo block is of a kind unknown to this version; a newer gridz may read this data";
        Error::new(ErrorKind::UnsupportedFormat, text)
    };
    let damage = || Error::corrupt("a lorenzo block has an impossible header");
    let (coder, map) = (header[0] % 16, header[0] / 16);
    let pair = |k: usize| u16::from_le_bytes([header[k], header[k + 1]]);
    let base = W::read(&header[8..]);
    if header[8 + W::BYTES..].iter().any(|&byte| byte != 0) {
        return Err(newer());
    }
    let meaning = match (coder, map) {
        (RAW | CONST, BITS) => {
            if header[1..8].iter().any(|&byte| byte != 0) || (coder == RAW && base != W::default()) {
                return Err(newer());
            }
            None
        }
        (SPLIT | HUFF, BITS | FIXED) => {
            if header[1] & 0x88 != 0 || header[2] > MAX_ORDER || header[3] != 0 || pair(6) != 0 {
                return Err(newer());
            }
            let unit = pair(4);
            if (map == BITS && u32::from(unit) >= W::BITS) || (map == FIXED && unit == 0) {
                return Err(damage());
            }
            Some(Meaning::Differences { map, unit, orders: [header[2], header[1] >> 4, header[1] & 7], base })
        }
        (SPLIT, DICT) => {
            if u32::from(pair(4)) >= W::BITS {
                return Err(damage());
            }
            let [_, low_bits, delta_bits, delta_shift, ..] = *header;
            let fields = dict::Fields { low_bits, delta_bits, delta_shift, n_entries: pair(6), base };
            Some(Meaning::Dictionary(pair(4), fields))
        }
        _ => return Err(newer()),
    };
    Ok((coder, meaning, base))
}

/// The rows of the next block, which has the shape of this one at most.
struct AheadOfSource {
    /// The end of the next line to be fetched: its start may be the end of the row before.
    at: *const u8,
    /// Bytes from one row to the next, and from the last row of a plane to the next plane.
    row: usize,
    plane: usize,
    /// Rows of a plane, in all and still to come.
    n_rows: usize,
    n_left: usize,
}

impl AheadOfSource {
    /// A part of the rows: so many lines of each from this one on.
    fn new(source: &Source, [sz, sy, _]: [usize; 3], element: Element, line: usize) -> Self {
        // One row is as long as many rows of lanes, which follow each other.
        let row = if sz * sy == 1 { LANES } else { source.row };
        let [row, plane] = [row, source.plane].map(|n| n * element.bytes);
        let at = source.next.as_ptr().wrapping_add((line + 1) * CACHE_LINE - 1);
        let plane = if sz == 1 { 0 } else { plane.wrapping_sub(sy * row) };
        Self { at, row, plane, n_rows: sy, n_left: sy }
    }
}

impl Ahead for AheadOfSource {
    #[inline(always)]
    fn fetch<W: Word, S: Rows<W>>(&mut self, s: S) {
        for line in 0..W::BYTES / 4 {
            s.prefetch(self.at.wrapping_add(line * CACHE_LINE));
        }
        self.at = self.at.wrapping_add(self.row);
        self.n_left -= 1;
        if self.n_left == 0 {
            self.n_left = self.n_rows;
            self.at = self.at.wrapping_add(self.plane);
        }
    }
}

/// What the words of a block have in common.
struct Words<W> {
    first: W,
    /// Bits that are set in any of them.
    all: W,
    /// The smallest and the largest one, as signed numbers.
    range: [W; 2],
}

impl<W: Word> Words<W> {
    /// Writes the words of the block's elements, less the first, to `words`, and looks at them.
    #[inline(always)]
    fn load<S: Rows<W>>(s: S, source: &Source, shape: [usize; 3], element: Element, words: &mut [W]) -> Self {
        // Rows and planes that follow each other in the array too are one.
        let [mut nz, mut ny, mut nx] = shape;
        if nx == source.row {
            (ny, nx) = (1, ny * nx);
            if nx == source.plane {
                (nz, nx) = (1, nz * nx);
            }
        }
        if element.bytes == W::BYTES && nx.is_multiple_of(LANES) {
            Self::load_rows::<S, true>(s, source, [nz, ny, nx], element, words)
        } else {
            Self::load_rows::<S, false>(s, source, [nz, ny, nx], element, words)
        }
    }

    /// As [`Words::load`]. `IS_WHOLE` if elements are words and whole rows of lanes.
    #[inline(always)]
    fn load_rows<S: Rows<W>, const IS_WHOLE: bool>(
        s: S,
        source: &Source,
        [nz, ny, nx]: [usize; 3],
        element: Element,
        words: &mut [W],
    ) -> Self {
        let mut one = [W::default()];
        element.load(&source.bytes[..element.bytes], &mut one);
        let first = s.splat(one[0]);
        let mut all = s.splat(W::default());
        let (mut lowest, mut highest) = (first, first);
        let mut at = 0;
        for z in 0..nz {
            for y in 0..ny {
                let start = z * source.plane + y * source.row;
                let mut x = 0;
                while x < nx {
                    let bytes = &source.bytes[(start + x) * element.bytes..];
                    let n = if IS_WHOLE { LANES } else { LANES.min(nx - x) };
                    let row = if IS_WHOLE { s.load_bytes(bytes) } else { load_row(s, bytes, n, element, first) };
                    all = s.or(all, row);
                    lowest = s.min_signed(lowest, row);
                    highest = s.max_signed(highest, row);
                    s.store(s.minus(row, first), &mut words[at..]);
                    at += n;
                    x += LANES;
                }
            }
        }
        Self { first: one[0], all: s.any(all), range: range(s, lowest, highest) }
    }
}

/// The lowest of some numbers and the highest of others.
#[inline(always)]
fn range<W: Word, S: Rows<W>>(s: S, lowest: S::Row, highest: S::Row) -> [W; 2] {
    let [mut low, mut high] = [[W::default(); LANES]; 2];
    s.store(lowest, &mut low);
    s.store(highest, &mut high);
    let mut range = [low[0], high[0]];
    for i in 1..LANES {
        range = [range[0].min_max_signed(low[i]).0, range[1].min_max_signed(high[i]).1];
    }
    range
}

/// A row of `n` elements, and `fill` behind them.
#[inline(always)]
fn load_row<W: Word, S: Rows<W>>(s: S, bytes: &[u8], n: usize, element: Element, fill: S::Row) -> S::Row {
    let row = if element.bytes == W::BYTES && bytes.len() >= LANES * W::BYTES {
        s.load_bytes(bytes)
    } else {
        let mut words = [W::default(); LANES];
        element.load(&bytes[..n * element.bytes], &mut words[..n]);
        s.load(&words)
    };
    let mask = first_lanes(n);
    s.or(s.keep(mask, row), s.keep(!mask, fill))
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
    let Words { first, all, range: [lowest, highest] } = Words::load(s, source, shape, element, words);
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
            emit_header(out, HUFF, meaning);
            coding.write(&numbers[..n], &mut out[UNIT..]);
        }
    }
    let coding = split::Coding::choose(s, numbers, n, scratch);
    if let Some(out) = shorter(&mut n_bytes, coding.n_bytes(), out) {
        emit_header(out, SPLIT, meaning);
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
            emit_header(out, SPLIT, Meaning::Dictionary(shift as u16, coding.fields));
            coding.write(s, numbers, scratch, &mut out[UNIT..]);
        }
    }
    if n_bytes == raw_bytes {
        out[..UNIT].fill(0);
        fill(out, n * element.bytes);
        copy_raw(source, shape, element, &mut out[UNIT..]);
    }
    n_bytes
}

/// Copies the block's elements as they are.
fn copy_raw(source: &Source, [sz, sy, sx]: [usize; 3], element: Element, out: &mut [u8]) {
    for (r, out) in out.chunks_exact_mut(sx * element.bytes).take(sz * sy).enumerate() {
        let at = (r / sy * source.plane + r % sy * source.row) * element.bytes;
        out.copy_from_slice(&source.bytes[at..at + sx * element.bytes]);
    }
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
    let (coder, meaning, base) = parse_header::<W>(header)?;
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
                    split::read_rows(s, rest, n, scratch, &mut sums)?
                } else {
                    let mut sums = LineSums::<_, _, ANY>::new(s, orders, base, &mut line);
                    split::read_rows(s, rest, n, scratch, &mut sums)?
                };
                (n_bytes, None)
            } else {
                let n_bytes = match coder {
                    SPLIT => split::read(s, rest, n, numbers, scratch)?,
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

/// The places of a line's words that are elements, once they are shifted.
struct Line<'a> {
    /// Those that are left.
    bytes: &'a mut [u8],
    shift: u32,
}

impl<W: Word, S: Rows<W>> RowSink<W, S> for Line<'_> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        let row = if self.shift > 0 { s.shift_left(row, self.shift) } else { row };
        for line in 0..LANES * W::BYTES / CACHE_LINE {
            s.prefetch(self.bytes.as_ptr().wrapping_add((LINES_AHEAD + line) * CACHE_LINE));
        }
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.len() >= LANES * W::BYTES {
            let (place, rest) = bytes.split_at_mut(LANES * W::BYTES);
            s.store_bytes(row, place);
            self.bytes = rest;
        } else {
            s.store_some_bytes(row, bytes.len() / W::BYTES, bytes);
        }
    }
}

/// Planes of words that are elements, once they are shifted.
struct Direct<'s, 't, 'a> {
    target: &'s mut Target<'t, 'a>,
    shape: [usize; 3],
    shift: u32,
}

/// How far ahead places are fetched into the cache. Not a whole block, because rows whose distance is a power of two share
/// few places in it.
const PLANES_AHEAD: usize = 3;
const ROWS_AHEAD: usize = 8;
/// The same where all lines follow each other.
const LINES_AHEAD: usize = 16;

impl<W: Word, S: Rows<W>> Sink<W, S> for Direct<'_, '_, '_> {
    type Plane<'p>
        = DirectPlane<'p>
    where
        Self: 'p;

    #[inline(always)]
    fn plane(&mut self, z: usize) -> DirectPlane<'_> {
        let [sz, sy, sx] = self.shape;
        // At the end of the block the next one's, which is beside it.
        let (rows_ahead, planes_ahead) = if sz > 1 { (0, z + PLANES_AHEAD) } else { (ROWS_AHEAD, 0) };
        let (band, start) = self.target.place(planes_ahead % sz, 0);
        let start = (start + planes_ahead / sz * sx) * W::BYTES;
        DirectPlane {
            ahead: self.target.bands[band].as_ptr().wrapping_add(start + CACHE_LINE - 1),
            rows_ahead,
            row_bytes: self.target.row * W::BYTES,
            bytes: self.target.plane(z, W::BYTES),
            at: 0,
            sy,
            sx,
            shift: self.shift,
        }
    }
}

/// A plane of it.
struct DirectPlane<'p> {
    bytes: &'p mut [u8],
    /// Where the next row begins.
    at: usize,
    /// From one row to the next.
    row_bytes: usize,
    /// The end of the first line of a plane to be fetched, which may be this one, in rows ahead then.
    ahead: *const u8,
    rows_ahead: usize,
    sy: usize,
    sx: usize,
    shift: u32,
}

impl<W: Word, S: Rows<W>> Plane<W, S> for DirectPlane<'_> {
    #[inline(always)]
    fn put(&mut self, s: S, y: usize, row: S::Row) {
        let y_ahead = y + self.rows_ahead;
        let at = if y_ahead < self.sy {
            y_ahead * self.row_bytes
        } else {
            (y_ahead - self.sy) * self.row_bytes + self.sx * W::BYTES
        };
        for line in 0..LANES * W::BYTES / CACHE_LINE {
            s.prefetch(self.ahead.wrapping_add(at + line * CACHE_LINE));
        }
        let row = if self.shift > 0 { s.shift_left(row, self.shift) } else { row };
        let out = &mut self.bytes[self.at..];
        self.at += self.row_bytes;
        if self.sx == LANES {
            s.store_bytes(row, out);
        } else {
            s.store_some_bytes(row, self.sx, out);
        }
    }
}

/// Rows behind each other.
struct Buffered<'s, W> {
    words: &'s mut [W],
    shape: [usize; 3],
}

impl<W: Word, S: Rows<W>> Sink<W, S> for Buffered<'_, W> {
    type Plane<'p>
        = BufferedPlane<'p, W>
    where
        Self: 'p;

    #[inline(always)]
    fn plane(&mut self, z: usize) -> BufferedPlane<'_, W> {
        let [_, sy, sx] = self.shape;
        BufferedPlane { words: &mut self.words[z * sy * sx..], sx }
    }
}

/// A plane of it.
struct BufferedPlane<'p, W> {
    words: &'p mut [W],
    sx: usize,
}

impl<W: Word, S: Rows<W>> Plane<W, S> for BufferedPlane<'_, W> {
    #[inline(always)]
    fn put(&mut self, s: S, y: usize, row: S::Row) {
        // What is behind the row is written again with the next.
        s.store(row, &mut self.words[y * self.sx..]);
    }
}

/// Counts a block by its kind.
///
/// # Errors
/// As [`decode`] for the header, though not for what depends on the bits of a word.
pub fn count(bytes: &[u8], counts: &mut BlockCounts) -> Result<()> {
    let header = bytes.first_chunk().ok_or_else(|| Error::corrupt("a lorenzo block has no header"))?;
    // Whatever W is, headers are alike but for the values in them.
    let (coder, meaning, _) = parse_header::<u64>(header)?;
    counts.all += 1;
    match coder {
        RAW => counts.raw += 1,
        CONST => counts.constant += 1,
        SPLIT => counts.packed += 1,
        _ => counts.entropy += 1,
    }
    match meaning {
        Some(Meaning::Differences { map: FIXED, .. }) => counts.fixed_point += 1,
        Some(Meaning::Dictionary(..)) => counts.dictionary += 1,
        _ => {}
    }
    Ok(())
}
