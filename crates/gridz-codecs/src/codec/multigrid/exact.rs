//! Elements that are stored exactly: NaN, infinities, fill values, and elements that would not be
//! decoded within the bound.
//!
//! ```text
//! u32 bytes of each piece | pieces
//! a piece: u16 flags | u16 0 | fill mask, if flag 1 | outliers, if flag 2
//! ```
//!
//! The array is split into consecutive pieces of 2^15 elements. Within a piece, the stored elements
//! that share one word are filled elements, so a masked region costs little more than its border.
//! The other elements (outliers) have a position and a word each.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::codec::multigrid::real::Real;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::element::Element;
use crate::stage::exceptions::{ALIGNMENT, Bitmap, FillMask, Outliers, outlier_bytes, place, take, write_outliers};
use crate::stage::word::Word;

/// Elements of a piece.
const PIECE: usize = 1 << 15;
/// Flags of a piece's sections.
const FILL_MASK: u16 = 1;
const OUTLIERS: u16 = 2;

/// Bytes of a table entry.
const ENTRY: usize = 4;

/// Row length of a piece of `n` elements, if it has several rows. Bitmaps change little from row to
/// row.
fn rows(n: usize, row: usize) -> Option<usize> {
    (row < n).then_some(row)
}

/// The word that more than half of the words equal, if there is one; otherwise an arbitrary one of
/// them.
fn majority<W: Word>(words: impl Iterator<Item = W>) -> Option<W> {
    // The Boyer–Moore majority vote: different words cancel in pairs.
    let mut lead = (None, 0usize);
    for word in words {
        lead = match lead {
            (Some(most), n) if most == word => (lead.0, n + 1),
            (Some(_), n) if n > 0 => (lead.0, n - 1),
            _ => (Some(word), 1),
        };
    }
    lead.0
}

/// Number of pieces of an array with `n` elements.
pub fn n_pieces(n: usize) -> usize {
    n.div_ceil(PIECE)
}

/// Bytes of the table of pieces.
fn table_bytes(n: usize) -> usize {
    ENTRY * n_pieces(n)
}

/// Writes the marked elements of an array with rows of `row` elements to the start of `out`.
/// Returns the number of bytes, or `None` if `out` is too short.
pub fn write<T: Real>(
    array: &[T::Bytes],
    row: usize,
    exact: &[AtomicU32],
    element: Element,
    out: &mut [u8],
) -> Option<usize> {
    let mut end = table_bytes(array.len());
    out.get_mut(..end)?.fill(0);
    for (i, (elements, words)) in array.chunks(PIECE).zip(exact.chunks(PIECE / 32)).enumerate() {
        let mut bitmap = Bitmap::new(elements.len());
        for (mark, word) in bitmap.words_mut().iter_mut().zip(words) {
            *mark = word.load(Ordering::Relaxed);
        }
        let word = |at: u32| T::word(elements[at as usize]);
        let Some(fill) = majority(bitmap.marked().map(word)) else { continue };
        let mut fill_mask = Bitmap::new(elements.len());
        bitmap
            .marked()
            .filter(|&at| word(at) == fill)
            .for_each(|at| fill_mask.words_mut()[at as usize / 32] |= 1 << (at % 32));
        // A single filled element is shorter as an outlier, and without a majority word, a fill
        // mask does not pay.
        if fill_mask.count() < 2 || 2 * fill_mask.count() <= bitmap.count() {
            fill_mask.restart(elements.len());
        }
        let mut outliers = bitmap;
        outliers.words_mut().iter_mut().zip(fill_mask.words()).for_each(|(other, fill)| *other &= !fill);
        let n_outliers = outliers.count();
        let fill_mask = (fill_mask.count() > 0).then(|| FillMask::new(fill, fill_mask, rows(elements.len(), row)));
        let n_bytes = ALIGNMENT
            + fill_mask.as_ref().map_or(0, FillMask::n_bytes)
            + if n_outliers > 0 { outlier_bytes(n_outliers, element) } else { 0 };
        let mut rest = out.get_mut(end..end + n_bytes)?;
        end += n_bytes;
        let flags = if fill_mask.is_some() { FILL_MASK } else { 0 } | if n_outliers > 0 { OUTLIERS } else { 0 };
        place(&mut rest, 2).copy_from_slice(&flags.to_le_bytes());
        if let Some(fill_mask) = fill_mask {
            fill_mask.write(&mut rest);
        }
        if n_outliers > 0 {
            write_outliers(&outliers, |at| T::word(elements[at]), element, &mut rest);
        }
        (n_bytes as u32).write(&mut out[ENTRY * i..]);
    }
    Some(end)
}

/// The contents of a piece.
struct Piece<'b, W> {
    /// The fill value, and the fill mask.
    fill_mask: Option<(W, Bitmap)>,
    outliers: Option<Outliers<'b>>,
}

impl<'b, W: Word> Piece<'b, W> {
    /// Parses a piece of `n` elements.
    fn parse(mut bytes: &'b [u8], n: usize, row: usize, element: Element) -> Result<Self> {
        let head = take(&mut bytes, ALIGNMENT)?;
        let flags = u16::from_le_bytes([head[0], head[1]]);
        if flags == 0 || flags & !(FILL_MASK | OUTLIERS) != 0 || head[2..] != [0; 2] {
            let text = "the elements that a multigrid payload stores without loss have an unknown encoding; a newer gridz may read \
                        this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let fill_mask =
            (flags & FILL_MASK != 0).then(|| FillMask::read(&mut bytes, n, rows(n, row))).transpose()?;
        let outliers = (flags & OUTLIERS != 0).then(|| Outliers::read(&mut bytes, n, element)).transpose()?;
        if bytes.is_empty() { Ok(Self { fill_mask, outliers }) } else { Err(damage()) }
    }
}

/// The nonempty pieces of a section: index of the first element, number of elements, and bytes.
fn pieces(section: &[u8], n: usize) -> Result<impl Iterator<Item = (usize, usize, &[u8])>> {
    let (table, rest) = section.split_at_checked(table_bytes(n)).ok_or_else(damage)?;
    let total: usize = table.chunks_exact(ENTRY).map(|entry| u32::read(entry) as usize).sum();
    if total != rest.len() {
        return Err(damage());
    }
    let mut rest = rest;
    let starts = (0..n).step_by(PIECE);
    Ok(table.chunks_exact(ENTRY).zip(starts).filter_map(move |(entry, start)| {
        let (bytes, behind) = rest.split_at(u32::read(entry) as usize);
        rest = behind;
        (!bytes.is_empty()).then_some((start, PIECE.min(n - start), bytes))
    }))
}

/// Calls `put` with the position and the bytes of each element of a section, for an array of
/// `n_all` elements with rows of `row`.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for pieces that only a later version can have written.
pub fn read<T: Real>(
    section: &[u8],
    n_all: usize,
    row: usize,
    element: Element,
    mut put: impl FnMut(usize, T::Bytes),
) -> Result<()> {
    for (start, n, bytes) in pieces(section, n_all)? {
        let Piece { fill_mask, outliers } = Piece::<T::Word>::parse(bytes, n, row, element)?;
        if let Some((fill, bitmap)) = fill_mask {
            bitmap.marked().for_each(|at| put(start + at as usize, T::put(fill)));
        }
        for (at, bytes) in outliers.iter().flat_map(|outliers| outliers.elements(element)) {
            put(start + at, T::elements(bytes)[0]);
        }
    }
    Ok(())
}

/// Counts the elements of a section, for an array of `n_all` elements with rows of `row`.
///
/// # Errors
/// As [`read`].
pub fn count<T: Real>(section: &[u8], n_all: usize, row: usize, element: Element) -> Result<u64> {
    let mut count = 0;
    for (_, n, bytes) in pieces(section, n_all)? {
        let Piece { fill_mask, outliers } = Piece::<T::Word>::parse(bytes, n, row, element)?;
        let n_outliers = outliers.map_or(0, |outliers| outliers.elements(element).count());
        count += (fill_mask.map_or(0, |(_, bitmap)| bitmap.count()) + n_outliers) as u64;
    }
    Ok(count)
}

fn damage() -> Error {
    Error::corrupt("the exact elements of a multigrid payload are damaged: they do not match their description")
}
