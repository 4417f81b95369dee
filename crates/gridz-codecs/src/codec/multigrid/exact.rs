//! Elements that are stored exactly: NaN, infinities, fill values, and elements that would not be
//! decoded within the bound.
//!
//! ```text
//! u32 bytes of each piece | pieces
//! a piece: u16 flags | u16 0 | holes, if flag 1 | others, if flag 2
//! ```
//!
//! The array is split into consecutive pieces of 2^15 elements. Within a piece, the stored elements
//! that share one word are holes, so a masked region costs little more than its border. The other
//! elements (outliers) have a position and a word each.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::codec::multigrid::real::Real;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::element::Element;
use crate::stage::exceptions::{ALIGNMENT, Bitmap, Holes, Others, others_bytes, place, take, write_others};
use crate::stage::word::Word;

/// Elements of a piece.
const PIECE: usize = 1 << 15;
/// Flags of a piece's sections.
const HOLES: u16 = 1;
const OTHERS: u16 = 2;

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
        let Some(hole) = majority(bitmap.marked().map(word)) else { continue };
        let mut holes = Bitmap::new(elements.len());
        bitmap
            .marked()
            .filter(|&at| word(at) == hole)
            .for_each(|at| holes.words_mut()[at as usize / 32] |= 1 << (at % 32));
        // A single hole is shorter as an outlier, and without a majority word, holes do not pay.
        if holes.count() < 2 || 2 * holes.count() <= bitmap.count() {
            holes.restart(elements.len());
        }
        let mut others = bitmap;
        others.words_mut().iter_mut().zip(holes.words()).for_each(|(other, hole)| *other &= !hole);
        let n_others = others.count();
        let holes = (holes.count() > 0).then(|| Holes::new(hole, holes, rows(elements.len(), row)));
        let n_bytes = ALIGNMENT
            + holes.as_ref().map_or(0, Holes::n_bytes)
            + if n_others > 0 { others_bytes(n_others, element) } else { 0 };
        let mut rest = out.get_mut(end..end + n_bytes)?;
        end += n_bytes;
        let flags = if holes.is_some() { HOLES } else { 0 } | if n_others > 0 { OTHERS } else { 0 };
        place(&mut rest, 2).copy_from_slice(&flags.to_le_bytes());
        if let Some(holes) = holes {
            holes.write(&mut rest);
        }
        if n_others > 0 {
            write_others(&others, |at| T::word(elements[at]), element, &mut rest);
        }
        (n_bytes as u32).write(&mut out[ENTRY * i..]);
    }
    Some(end)
}

/// The contents of a piece.
struct Piece<'b, W> {
    /// The word of the holes, and their bitmap.
    holes: Option<(W, Bitmap)>,
    others: Option<Others<'b>>,
}

impl<'b, W: Word> Piece<'b, W> {
    /// Parses a piece of `n` elements.
    fn parse(mut bytes: &'b [u8], n: usize, row: usize, element: Element) -> Result<Self> {
        let head = take(&mut bytes, ALIGNMENT)?;
        let flags = u16::from_le_bytes([head[0], head[1]]);
        if flags == 0 || flags & !(HOLES | OTHERS) != 0 || head[2..] != [0; 2] {
            let text = "a multigrid piece is of a kind unknown to this version; a newer gridz may read this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let holes = (flags & HOLES != 0).then(|| Holes::read(&mut bytes, n, rows(n, row))).transpose()?;
        let others = (flags & OTHERS != 0).then(|| Others::read(&mut bytes, n, element)).transpose()?;
        if bytes.is_empty() { Ok(Self { holes, others }) } else { Err(damage()) }
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
        let Piece { holes, others } = Piece::<T::Word>::parse(bytes, n, row, element)?;
        if let Some((hole, bitmap)) = holes {
            bitmap.marked().for_each(|at| put(start + at as usize, T::put(hole)));
        }
        for (at, bytes) in others.iter().flat_map(|others| others.elements(element)) {
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
        let Piece { holes, others } = Piece::<T::Word>::parse(bytes, n, row, element)?;
        let n_others = others.map_or(0, |others| others.elements(element).count());
        count += (holes.map_or(0, |(_, bitmap)| bitmap.count()) + n_others) as u64;
    }
    Ok(count)
}

fn damage() -> Error {
    Error::corrupt("the exact elements of a multigrid payload are not what it says")
}
