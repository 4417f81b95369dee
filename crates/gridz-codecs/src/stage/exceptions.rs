//! Exceptions: elements that are stored exactly. Filled elements all have the same word; each other
//! exception has its own.
//!
//! A fill value or NaN may cover half of a block. Only a bitmap is stored for it, encoded as
//! changes from row to row. All other elements that have no code, or would not be decoded within
//! the bound, are few: each is stored with its place.

use crate::error::{Error, Result};
use crate::stage::bitmap;
use crate::stage::element::Element;
use crate::stage::word::Word;

/// A bitmap for the blocks of every level that has exceptions.
pub type Bitmap = bitmap::Bitmap<{ (1 << 16) / 32 }>;

/// Sections of a block are padded with zeros to a multiple of this.
pub const ALIGNMENT: usize = 4;
/// Flag in the byte count of a bitmap: the bitmap is encoded.
const CODED: u16 = 1 << 15;

fn damage() -> Error {
    Error::corrupt("a block is damaged: its exceptions do not match their description")
}

/// Takes the next `n` bytes, and skips their padding.
pub fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Result<&'b [u8]> {
    let (section, rest) = bytes.split_at_checked(n.next_multiple_of(ALIGNMENT)).ok_or_else(damage)?;
    *bytes = rest;
    Ok(&section[..n])
}

/// Takes the room for the next `n` bytes, and writes their padding.
pub fn place<'b>(out: &mut &'b mut [u8], n: usize) -> &'b mut [u8] {
    let (section, rest) = std::mem::take(out).split_at_mut(n.next_multiple_of(ALIGNMENT));
    *out = rest;
    let (section, zeros) = section.split_at_mut(n);
    zeros.fill(0);
    section
}

/// Elements that all have the same word.
pub struct FillMask<W> {
    /// That word.
    pub word: W,
    /// Where they are.
    pub bitmap: Bitmap,
    /// The bits that are written if the bitmap is encoded: changes from row to row or, in a block
    /// of one row, the bits themselves.
    coded: Option<Bitmap>,
    /// Bytes of the bitmap.
    bitmap_bytes: usize,
}

impl<W: Word> FillMask<W> {
    /// The fill mask of a block; `row` is the length of its rows, if there are several.
    pub fn new(word: W, bitmap: Bitmap, row: Option<usize>) -> Self {
        let changes = row.map_or_else(|| bitmap.clone(), |row| bitmap.changes(row));
        let (plain_bytes, coded_bytes) = (4 * bitmap.words().len(), changes.n_bytes());
        let is_coded = coded_bytes <= plain_bytes;
        Self { word, bitmap, coded: is_coded.then_some(changes), bitmap_bytes: coded_bytes.min(plain_bytes) }
    }

    /// Bytes that [`FillMask::write`] writes.
    pub fn n_bytes(&self) -> usize {
        W::BYTES + ALIGNMENT + self.bitmap_bytes.next_multiple_of(ALIGNMENT)
    }

    /// Writes the fill mask with its padding.
    pub fn write(&self, out: &mut &mut [u8]) {
        self.word.write(place(out, W::BYTES));
        let head = place(out, ALIGNMENT);
        let flag = if self.coded.is_some() { CODED } else { 0 };
        head[..2].copy_from_slice(&(self.bitmap.count() as u16).to_le_bytes());
        head[2..].copy_from_slice(&(self.bitmap_bytes as u16 | flag).to_le_bytes());
        let bitmap = place(out, self.bitmap_bytes);
        match &self.coded {
            Some(changes) => changes.write(bitmap),
            None => {
                for (out, word) in bitmap.chunks_exact_mut(4).zip(self.bitmap.words()) {
                    out.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
    }

    /// Reads the fill value and the fill mask from the start of `bytes`, and advances `bytes`. The
    /// block has `n` elements; `row` is the length of its rows, if there are several.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(bytes: &mut &[u8], n: usize, row: Option<usize>) -> Result<(W, Bitmap)> {
        let word = W::read(take(bytes, W::BYTES)?);
        let head = take(bytes, ALIGNMENT)?;
        let pair = |k: usize| u16::from_le_bytes([head[k], head[k + 1]]);
        let (n_marked, n_bytes, is_coded) = (pair(0), usize::from(pair(2) & !CODED), pair(2) & CODED != 0);
        let coded = take(bytes, n_bytes)?;
        let (mut bitmap, used) = if is_coded { Bitmap::read(coded, n)? } else { Bitmap::read_plain(coded, n)? };
        if let Some(row) = row.filter(|_| is_coded) {
            bitmap.undo_changes(row);
        }
        if used != n_bytes || n_marked == 0 || bitmap.count() != usize::from(n_marked) {
            return Err(damage());
        }
        Ok((word, bitmap))
    }
}

/// Bytes of `n` other exceptions.
pub fn outlier_bytes(n: usize, element: Element) -> usize {
    (2 + 2 * n).next_multiple_of(ALIGNMENT) + (n * element.bytes).next_multiple_of(ALIGNMENT)
}

/// Writes the other exceptions of a block; `word` returns the word of any element.
pub fn write_outliers<W: Word>(bitmap: &Bitmap, word: impl Fn(usize) -> W, element: Element, out: &mut &mut [u8]) {
    let n = bitmap.count();
    let places = place(out, 2 + 2 * n);
    places[..2].copy_from_slice(&(n as u16).to_le_bytes());
    for (at, out) in bitmap.marked().zip(places[2..].chunks_exact_mut(2)) {
        out.copy_from_slice(&(at as u16).to_le_bytes());
    }
    let elements = place(out, n * element.bytes);
    for (at, out) in bitmap.marked().zip(elements.chunks_exact_mut(element.bytes)) {
        element.store(&[word(at as usize)], out);
    }
}

/// The other exceptions of a block.
pub struct Outliers<'b> {
    places: &'b [u8],
    elements: &'b [u8],
}

impl<'b> Outliers<'b> {
    /// Reads the other exceptions of a block with `n` elements from the start of `bytes`, and
    /// advances `bytes`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(bytes: &mut &'b [u8], n: usize, element: Element) -> Result<Self> {
        let count = usize::from(u16::from_le_bytes(*bytes.first_chunk().ok_or_else(damage)?));
        let places = &take(bytes, 2 + 2 * count)?[2..];
        let elements = take(bytes, count * element.bytes)?;
        let outliers = Self { places, elements };
        let mut next = 0;
        for at in outliers.places() {
            if at < next || at >= n {
                return Err(damage());
            }
            next = at + 1;
        }
        if count == 0 { Err(damage()) } else { Ok(outliers) }
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<'b> {
        self.places.as_chunks().0.iter().map(|&place| usize::from(u16::from_le_bytes(place)))
    }

    /// The place and the bytes of each exception.
    pub fn elements(&self, element: Element) -> impl Iterator<Item = (usize, &'b [u8])> {
        self.places().zip(self.elements.chunks_exact(element.bytes))
    }
}
