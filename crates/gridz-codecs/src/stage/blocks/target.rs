//! Stores a block's elements, row by row as soon as they are known.

use crate::stage::element::Element;
use crate::stage::predict::{Plane, Sink};
use crate::stage::rows::{CACHE_LINE, LANES, RowSink, Simd, WithSimd};
use crate::stage::word::Word;

/// The destination of a block's elements.
pub struct Target<'t, 'a> {
    /// One band for each plane, which has the rows of the block, or one for all planes.
    pub bands: &'t mut [&'a mut [u8]],
    /// With one band for all planes, the elements from one plane to the next.
    pub plane: Option<usize>,
    /// Elements before the block's first one in each band.
    pub offset: usize,
    /// Elements from one row to the next.
    pub row: usize,
}

impl Target<'_, '_> {
    /// The band of row y of plane z, and the number of elements before the row in the band.
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
    pub fn plane(&mut self, z: usize, element_bytes: usize) -> &mut [u8] {
        let (band, start) = self.place(z, 0);
        &mut self.bands[band][start * element_bytes..]
    }

    /// Row y of plane z, from its first element on.
    #[inline(always)]
    pub fn row(&mut self, z: usize, y: usize, element_bytes: usize) -> &mut [u8] {
        let (band, start) = self.place(z, y);
        &mut self.bands[band][start * element_bytes..]
    }

    /// Writes the elements of a block of this shape, which are all of `elements`, unchanged.
    pub fn copy(&mut self, elements: &[u8], [_, sy, sx]: [usize; 3], element_bytes: usize) {
        for (r, row) in elements.chunks_exact(sx * element_bytes).enumerate() {
            self.row(r / sy, r % sy, element_bytes)[..row.len()].copy_from_slice(row);
        }
    }

    /// Writes part `i` of `parts` of the elements of a block of this shape.
    pub fn store_part(&mut self, part: &[u8], [sz, sy, sx]: [usize; 3], part_bytes: usize, [i, parts]: [usize; 2]) {
        let size = part_bytes * parts;
        for (r, part) in part.chunks_exact(sx * part_bytes).take(sz * sy).enumerate() {
            let row = &mut self.row(r / sy, r % sy, size)[..sx * size];
            for (element, part) in row.chunks_exact_mut(size).zip(part.chunks_exact(part_bytes)) {
                element[i * part_bytes..(i + 1) * part_bytes].copy_from_slice(part);
            }
        }
    }

    /// Writes the elements of a block of this shape, given their words. `words` has room for one
    /// more row.
    #[inline(always)]
    pub fn store<W: Word, S: Simd<W>>(&mut self, s: S, words: &[W], shape: [usize; 3], element: Element) {
        s.outlined(Store { target: self, words, shape, element });
    }

    #[inline(always)]
    fn store_inlined<W: Word, S: Simd<W>>(&mut self, s: S, words: &[W], shape: [usize; 3], element: Element) {
        // Merge rows and planes that are contiguous in the array, too.
        let [mut nz, mut ny, mut nx] = shape;
        if nx == self.row {
            (ny, nx) = (1, ny * nx);
            if self.plane == Some(nx) {
                (nz, nx) = (1, nz * nx);
            }
        }
        let (row_bytes, n_bytes) = (self.row * element.bytes, nx * element.bytes);
        let mut from = 0;
        for z in 0..nz {
            let plane = self.plane(z, element.bytes);
            let mut at = 0;
            for _ in 0..ny {
                let (row, next) = plane[at..].split_at_mut(n_bytes);
                if nx <= LANES {
                    // The next block is beside this one.
                    for line in 0..LANES * W::BYTES / CACHE_LINE {
                        s.prefetch(next.as_ptr().wrapping_add(line * CACHE_LINE));
                    }
                }
                if nx == LANES && element.bytes == W::BYTES {
                    s.store_bytes(s.load(&words[from..]), row);
                } else {
                    store_row(s, &words[from..], nx, row, element);
                }
                from += nx;
                at += row_bytes;
            }
        }
    }
}

/// [`Target::store`] as a task.
struct Store<'s, 't, 'a, W> {
    target: &'s mut Target<'t, 'a>,
    words: &'s [W],
    shape: [usize; 3],
    element: Element,
}

impl<W: Word> WithSimd<W> for Store<'_, '_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) {
        self.target.store_inlined(s, self.words, self.shape, self.element);
    }
}

/// Writes `n` elements.
#[inline(always)]
fn store_row<W: Word, S: Simd<W>>(s: S, words: &[W], n: usize, out: &mut [u8], element: Element) {
    let mut at = 0;
    while at + LANES <= n {
        s.store_elements(s.load(&words[at..]), element, &mut out[at * element.bytes..]);
        at += LANES;
    }
    if at == n {
        return;
    }
    let out = &mut out[at * element.bytes..];
    if element.bytes == W::BYTES {
        s.store_some_bytes(s.load(&words[at..]), n - at, out);
    } else {
        element.store(&words[at..n], out);
    }
}

/// The last conversion of a block's rows, which results in words.
pub trait Finish<W: Word> {
    /// True if a conversion takes longer than summing up a row: see [`Sink::IS_SLOW`].
    const IS_SLOW: bool = false;

    /// Converts a row to words.
    fn words<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row;
}

/// Shifts words to the left by this number of bits.
pub struct Shifted(pub u32);

impl<W: Word> Finish<W> for Shifted {
    #[inline(always)]
    fn words<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row {
        if self.0 > 0 { s.shift_left(row, self.0) } else { row }
    }
}

/// Stores a line of elements that are as wide as words.
pub struct Line<'a, F> {
    /// The room that is left.
    pub bytes: &'a mut [u8],
    /// Converts rows to words.
    pub finish: F,
}

impl<W: Word, S: Simd<W>, F: Finish<W>> RowSink<W, S> for Line<'_, F> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        let row = self.finish.words(s, row);
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

/// Stores planes of elements that are as wide as words.
pub struct Direct<'s, 't, 'a, F> {
    /// The block's destination.
    pub target: &'s mut Target<'t, 'a>,
    /// The extents of the block.
    pub shape: [usize; 3],
    /// Converts rows to words.
    pub finish: F,
}

/// How far ahead destinations are prefetched. This is less than a block, because rows at distances
/// of a power of two share few places in the cache.
const PLANES_AHEAD: usize = 3;
const ROWS_AHEAD: usize = 8;
/// The same for contiguous lines.
const LINES_AHEAD: usize = 16;

impl<W: Word, F: Finish<W>> Sink<W> for Direct<'_, '_, '_, F> {
    type Plane<'p>
        = DirectPlane<'p, F>
    where
        Self: 'p;
    const IS_SLOW: bool = F::IS_SLOW;
    const IS_DIRECT: bool = true;

    #[inline(always)]
    fn plane(&mut self, z: usize) -> DirectPlane<'_, F> {
        let [sz, sy, sx] = self.shape;
        // At the end of the block, prefetch the next one, which is beside it.
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
            finish: &self.finish,
        }
    }
}

/// A plane of [`Direct`].
pub struct DirectPlane<'p, F> {
    bytes: &'p mut [u8],
    /// Offset of the next row.
    at: usize,
    /// Bytes from one row to the next.
    row_bytes: usize,
    /// The last byte of the first line of the plane to prefetch. That may be this plane, from
    /// `rows_ahead` rows on.
    ahead: *const u8,
    rows_ahead: usize,
    sy: usize,
    sx: usize,
    finish: &'p F,
}

impl<W: Word, F: Finish<W>> Plane<W> for DirectPlane<'_, F> {
    #[inline(always)]
    fn put<S: Simd<W>>(&mut self, s: S, y: usize, row: S::Row) {
        let y_ahead = y + self.rows_ahead;
        let at = if y_ahead < self.sy {
            y_ahead * self.row_bytes
        } else {
            (y_ahead - self.sy) * self.row_bytes + self.sx * W::BYTES
        };
        for line in 0..LANES * W::BYTES / CACHE_LINE {
            s.prefetch(self.ahead.wrapping_add(at + line * CACHE_LINE));
        }
        let row = self.finish.words(s, row);
        let out = &mut self.bytes[self.at..];
        self.at += self.row_bytes;
        if self.sx == LANES {
            s.store_bytes(row, out);
        } else {
            s.store_some_bytes(row, self.sx, out);
        }
    }
}

/// Stores rows contiguously.
pub struct Buffered<'s, W> {
    /// Room for them, and for one more row.
    pub words: &'s mut [W],
    /// The extents of the block.
    pub shape: [usize; 3],
}

impl<W: Word> Sink<W> for Buffered<'_, W> {
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

/// A plane of [`Buffered`].
pub struct BufferedPlane<'p, W> {
    words: &'p mut [W],
    sx: usize,
}

impl<W: Word> Plane<W> for BufferedPlane<'_, W> {
    #[inline(always)]
    fn put<S: Simd<W>>(&mut self, s: S, y: usize, row: S::Row) {
        // The next row overwrites the lanes after this row.
        s.store(row, &mut self.words[y * self.sx..]);
    }
}
