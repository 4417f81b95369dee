//! Loads a block's elements.

use crate::stage::element::Element;
use crate::stage::rows::{CACHE_LINE, LANES, Prefetcher, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// The location of a block's elements.
pub struct Source<'a> {
    /// The array from the block's first element on.
    pub bytes: &'a [u8],
    /// The array from the next block's first element on.
    pub next: &'a [u8],
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one plane to the next.
    pub plane: usize,
    /// Which part of the array's elements these are.
    pub part: usize,
}

impl Source<'_> {
    /// Copies the elements of a block of this shape unchanged to the start of `out`.
    pub fn copy(&self, [sz, sy, sx]: [usize; 3], element: Element, out: &mut [u8]) {
        for (r, out) in out.chunks_exact_mut(sx * element.bytes).take(sz * sy).enumerate() {
            let at = (r / sy * self.plane + r % sy * self.row) * element.bytes;
            out.copy_from_slice(&self.bytes[at..at + sx * element.bytes]);
        }
    }

    /// Copies part `i` of `parts` of the elements of a block of this shape to the start of `out`.
    pub fn copy_part(&self, [sz, sy, sx]: [usize; 3], part_bytes: usize, [i, parts]: [usize; 2], out: &mut [u8]) {
        let size = part_bytes * parts;
        for (r, out) in out.chunks_exact_mut(sx * part_bytes).take(sz * sy).enumerate() {
            let at = (r / sy * self.plane + r % sy * self.row) * size;
            let elements = self.bytes[at..at + sx * size].chunks_exact(size);
            for (out, element) in out.chunks_exact_mut(part_bytes).zip(elements) {
                out.copy_from_slice(&element[i * part_bytes..(i + 1) * part_bytes]);
            }
        }
    }
}

/// Prefetches the rows of the next block, whose shape is at most this one's.
pub struct SourcePrefetcher {
    /// The last byte of the next line to prefetch. The first byte may be in the same cache line as
    /// the end of the row before.
    at: *const u8,
    /// Bytes from one row to the next, and from the last row of a plane to the next plane.
    row: usize,
    plane: usize,
    /// Rows of a plane, in all and still to come.
    n_rows: usize,
    n_left: usize,
}

impl SourcePrefetcher {
    /// Prefetches a part of each row: one line, or two for words of 64 bits, from number `line` on.
    pub fn new(source: &Source, [sz, sy, _]: [usize; 3], element: Element, line: usize) -> Self {
        // A single row is treated as many rows of lanes, which are contiguous.
        let row = if sz * sy == 1 { LANES } else { source.row };
        let [row, plane] = [row, source.plane].map(|n| n * element.bytes);
        let at = source.next.as_ptr().wrapping_add((line + 1) * CACHE_LINE - 1);
        let plane = if sz == 1 { 0 } else { plane.wrapping_sub(sy * row) };
        Self { at, row, plane, n_rows: sy, n_left: sy }
    }
}

impl Prefetcher for SourcePrefetcher {
    #[inline(always)]
    fn prefetch_next<W: Word, S: Simd<W>>(&mut self, s: S) {
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

/// Properties of a block's words.
pub struct BlockWords<W> {
    /// The word of the first element.
    pub first: W,
    /// Bits that are set in any of them.
    pub all: W,
    /// The smallest and the largest one, as signed numbers.
    pub range: [W; 2],
}

impl<W: Word> BlockWords<W> {
    /// [`load`] after merging. `IS_WHOLE`: elements are as wide as words, and rows are
    /// whole rows of lanes.
    #[inline(always)]
    fn load_rows<S: Simd<W>, const IS_WHOLE: bool>(
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
                    s.store(s.sub(row, first), &mut words[at..]);
                    at += n;
                    x += LANES;
                }
            }
        }
        Self { first: one[0], all: s.any(all), range: [s.lowest(lowest), s.highest(highest)] }
    }
}

outlined! {
    /// Writes the words of the block's elements, minus the first, to `words`. Returns the properties of
    /// the words.
    pub fn load<'a, 'b, W>(
        s,
        source: &'a Source<'b>,
        shape: [usize; 3],
        element: Element,
        words: &'a mut [W],
    ) -> BlockWords<W> {
        // Merge rows and planes that are contiguous in the array, too.
        let [mut nz, mut ny, mut nx] = shape;
        if nx == source.row {
            (ny, nx) = (1, ny * nx);
            if nx == source.plane {
                (nz, nx) = (1, nz * nx);
            }
        }
        if element.bytes == W::BYTES && nx.is_multiple_of(LANES) {
            BlockWords::load_rows::<S, true>(s, source, [nz, ny, nx], element, words)
        } else {
            BlockWords::load_rows::<S, false>(s, source, [nz, ny, nx], element, words)
        }
    }
}

/// Loads a row of `n` elements, followed by `fill`.
#[inline(always)]
fn load_row<W: Word, S: Simd<W>>(s: S, bytes: &[u8], n: usize, element: Element, fill: S::Row) -> S::Row {
    let row = if bytes.len() >= LANES * element.bytes {
        s.load_elements(element, bytes)
    } else {
        let mut words = [W::default(); LANES];
        element.load(&bytes[..n * element.bytes], &mut words[..n]);
        s.load(&words)
    };
    let mask = first_lanes(n);
    s.select(mask, row, fill)
}
