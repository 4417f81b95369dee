//! Exceptions: elements of a section that the stream does not reproduce. They are filled elements,
//! which share one word, and others (outliers), with a word each.
//!
//! ```text
//! u16 filled | u16 outliers | u16 bytes of the fill mask | u16 bytes of the outlier bitmap | fill value | fill mask | outlier bitmap | words
//! ```
//!
//! Every part begins at a multiple of four bytes. The bitmap of a land mask is coded as changes
//! from position to position, because neighbors in a block are neighbors in the array.

use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::layout::{Block, SECTION_ELEMENTS};
use crate::error::{Error, Result};
use crate::stage::bitmap::Bitmap;
use crate::stage::word::Word;

/// Parts are padded with zeros to a multiple of this, in bytes.
pub const ALIGNMENT: usize = 4;
/// Bytes before the parts.
const HEAD_BYTES: usize = 8;
/// Bytes of a bitmap that is not coded.
const PLAIN_BYTES: usize = SECTION_ELEMENTS / 8;
/// Flag in the length of a bitmap: the bitmap is coded.
const CODED: u16 = 1 << 15;
/// Maximum total size in bytes of the exceptions of a section.
const MOST_BYTES: usize = HEAD_BYTES + 8 + 2 * PLAIN_BYTES + 8 * SECTION_ELEMENTS;
/// Positions per word of a bitmap.
const MARKS: usize = 32;

fn damage() -> Error {
    Error::corrupt("a zfp section is damaged: its exceptions do not match their description")
}

/// The exceptions of a section, in order, collected during encoding.
#[derive(Default)]
pub struct Found {
    places: Vec<u16>,
    words: Vec<u64>,
}

impl Found {
    /// Clears the list and reserves memory for the most that a section can have.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn begin(&mut self) -> Result<()> {
        self.places.clear();
        self.words.clear();
        reserve(&mut self.places, SECTION_ELEMENTS)?;
        reserve(&mut self.words, SECTION_ELEMENTS)
    }

    /// Appends the element at `place`, which must be after all previous ones.
    pub fn push<W: Word>(&mut self, place: usize, word: W) {
        self.places.push(place as u16);
        self.words.push(word.to_u64());
    }

    /// Number of exceptions.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Appends the encoded exceptions to `out`, if there are any.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn write<W: Word>(&self, out: &mut Vec<u8>) -> Result<()> {
        let Some(&fill) = self.words.first() else { return Ok(()) };
        reserve(out, MOST_BYTES)?;
        let (mut fill_mask, mut outliers) = (Bitmap::new(SECTION_ELEMENTS), Bitmap::new(SECTION_ELEMENTS));
        for (&place, &word) in self.places.iter().zip(&self.words) {
            let bitmap = if word == fill { &mut fill_mask } else { &mut outliers };
            bitmap.words_mut()[usize::from(place) / MARKS] |= 1 << (usize::from(place) % MARKS);
        }
        let start = out.len();
        append(out, HEAD_BYTES, |_| ());
        append(out, W::BYTES, |bytes| W::from_u64(fill).write(bytes));
        let (n_filled, n_outliers) = (fill_mask.count() as u16, outliers.count() as u16);
        let of_fill = append_bitmap(out, &fill_mask.changes(1), &fill_mask);
        let of_outliers = if n_outliers > 0 { append_bitmap(out, &outliers, &outliers) } else { 0 };
        for &word in self.words.iter().filter(|&&word| word != fill) {
            append(out, W::BYTES, |bytes| W::from_u64(word).write(bytes));
        }
        for (bytes, field) in out[start..].chunks_exact_mut(2).zip([n_filled, n_outliers, of_fill, of_outliers]) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        Ok(())
    }
}

/// Reserves memory for `n` more items.
///
/// # Errors
/// `OutOfMemory`.
pub fn reserve<T>(items: &mut Vec<T>, n: usize) -> Result<()> {
    let n_bytes = (n * size_of::<T>()) as u64;
    items.try_reserve(n).map_err(|_| Error::out_of_memory(n_bytes, "bookkeeping"))
}

/// Appends `n` bytes, which `write` fills in, and zero padding.
fn append(out: &mut Vec<u8>, n: usize, write: impl FnOnce(&mut [u8])) {
    let start = out.len();
    out.resize(start + n.next_multiple_of(ALIGNMENT), 0);
    write(&mut out[start..start + n]);
}

/// Appends the bitmap `bitmap` verbatim, or `coded` if that is shorter. Returns its length field
/// for the head.
fn append_bitmap(out: &mut Vec<u8>, coded: &Bitmap, bitmap: &Bitmap) -> u16 {
    let n_bytes = coded.n_bytes();
    if n_bytes < PLAIN_BYTES {
        append(out, n_bytes, |bytes| coded.write(bytes));
        return n_bytes as u16 | CODED;
    }
    append(out, PLAIN_BYTES, |bytes| {
        for (out, word) in bytes.chunks_exact_mut(4).zip(bitmap.words()) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    });
    PLAIN_BYTES as u16
}

/// The exceptions of a section in a payload.
pub struct Exceptions<'p, W> {
    fill: W,
    fill_mask: Bitmap,
    outliers: Bitmap,
    words: &'p [u8],
    /// Number of outliers before each word of the bitmap.
    before: [u16; SECTION_ELEMENTS / MARKS],
}

impl<'p, W: Word> Exceptions<'p, W> {
    /// Reads the exceptions of a section whose blocks have `n_places` positions.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(mut bytes: &'p [u8], n_places: usize) -> Result<Self> {
        let head = take(&mut bytes, HEAD_BYTES)?;
        let field = |k: usize| u16::from_le_bytes([head[2 * k], head[2 * k + 1]]);
        let (n_filled, n_outliers) = (field(0), field(1));
        let fill = if n_filled > 0 { W::read(take(&mut bytes, W::BYTES)?) } else { W::default() };
        let fill_mask = read_bitmap(&mut bytes, n_filled, field(2), n_places, true)?;
        let outliers = read_bitmap(&mut bytes, n_outliers, field(3), n_places, false)?;
        let words = take(&mut bytes, usize::from(n_outliers) * W::BYTES)?;
        let is_twice = fill_mask.words().iter().zip(outliers.words()).any(|(a, b)| a & b != 0);
        if n_filled == 0 && n_outliers == 0 || is_twice || !bytes.is_empty() {
            return Err(damage());
        }
        let mut n = 0;
        let before = std::array::from_fn(|k| {
            n += outliers.words()[k].count_ones() as u16;
            n - outliers.words()[k].count_ones() as u16
        });
        Ok(Self { fill, fill_mask, outliers, words, before })
    }

    /// Number of exceptions.
    pub fn count(&self) -> u64 {
        (self.fill_mask.count() + self.outliers.count()) as u64
    }

    /// Writes the exceptions of a block to its elements. `start` is the position in the section of
    /// its first element.
    ///
    /// # Errors
    /// `Corrupt` if the bitmap has bits in the padding.
    pub fn apply<T: Scalar<Word = W>>(&self, start: usize, block: &Block, elements: &mut [T]) -> Result<()> {
        for (k, elements) in elements.chunks_mut(MARKS).enumerate() {
            let start = start + k * MARKS;
            let mask = u32::MAX >> (MARKS - elements.len());
            let (fill_mask, outliers) = (self.fill_mask.window(start) & mask, self.outliers.window(start) & mask);
            let mut left = fill_mask | outliers;
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                if !block.has(k * MARKS + i) {
                    return Err(damage());
                }
                let word = if fill_mask >> i & 1 == 1 { self.fill } else { self.other(start + i) };
                elements[i] = T::of_word(word);
            }
        }
        Ok(())
    }

    /// The word of the outlier at a marked position.
    fn other(&self, place: usize) -> W {
        let below = self.outliers.words()[place / MARKS] & !(u32::MAX << (place % MARKS));
        let n = usize::from(self.before[place / MARKS]) + below.count_ones() as usize;
        W::read(&self.words[n * W::BYTES..])
    }
}

/// Takes the next `n` bytes and their zero padding.
fn take<'p>(bytes: &mut &'p [u8], n: usize) -> Result<&'p [u8]> {
    let (part, rest) = bytes.split_at_checked(n.next_multiple_of(ALIGNMENT)).ok_or_else(damage)?;
    *bytes = rest;
    Ok(&part[..n])
}

/// Reads the next bitmap, of `n` elements in `n_places` positions. If coded, it may hold changes.
fn read_bitmap(bytes: &mut &[u8], n: u16, field: u16, n_places: usize, are_changes: bool) -> Result<Bitmap> {
    if n == 0 {
        return if field == 0 { Ok(Bitmap::new(SECTION_ELEMENTS)) } else { Err(damage()) };
    }
    let (n_bytes, is_coded) = (usize::from(field & !CODED), field & CODED != 0);
    let part = take(bytes, n_bytes)?;
    let (mut bitmap, used) = match is_coded {
        true => Bitmap::read(part, SECTION_ELEMENTS)?,
        false => Bitmap::read_plain(part, SECTION_ELEMENTS)?,
    };
    if is_coded && are_changes {
        bitmap.undo_changes(1);
    }
    let is_outside = (n_places..SECTION_ELEMENTS).step_by(MARKS).any(|at| bitmap.window(at) != 0);
    if used != n_bytes || bitmap.count() != usize::from(n) || is_outside {
        return Err(damage());
    }
    Ok(bitmap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceptions(n: usize, exceptional: impl Fn(usize) -> Option<u32>) -> Vec<u8> {
        let mut found = Found::default();
        found.begin().unwrap();
        (0..n).for_each(|place| exceptional(place).into_iter().for_each(|word| found.push(place, word)));
        let mut bytes = Vec::new();
        found.write::<u32>(&mut bytes).unwrap();
        assert!(bytes.len() <= MOST_BYTES && bytes.len().is_multiple_of(ALIGNMENT));
        bytes
    }

    const WHOLE: Block = Block { start: 0, shape: [1, 4, 4, 4] };

    #[test]
    fn exceptions_come_back() {
        let cases: [&dyn Fn(usize) -> Option<u32>; 5] = [
            &|place| (place / 900 % 2 == 1).then_some(7),
            &|place| (place == 8191).then_some(9),
            &|place| place.is_multiple_of(3).then_some(place as u32 % 5),
            &|place| Some(place as u32),
            &|place| (place * place % 7 < 3).then_some(1),
        ];
        for exceptional in cases {
            let bytes = exceptions(SECTION_ELEMENTS, exceptional);
            let read = Exceptions::<u32>::read(&bytes, SECTION_ELEMENTS).unwrap();
            let n = (0..SECTION_ELEMENTS).filter(|&place| exceptional(place).is_some()).count();
            assert_eq!(read.count(), n as u64);
            for start in (0..SECTION_ELEMENTS).step_by(64) {
                let mut elements = [f32::from_bits(u32::MAX); 64];
                read.apply(start, &WHOLE, &mut elements).unwrap();
                for (i, element) in elements.into_iter().enumerate() {
                    assert_eq!(element.to_bits(), exceptional(start + i).unwrap_or(u32::MAX));
                }
            }
            for cut in 0..bytes.len().min(2000) {
                assert!(Exceptions::<u32>::read(&bytes[..cut], SECTION_ELEMENTS).is_err());
            }
        }
        assert!(exceptions(SECTION_ELEMENTS, |_| None).is_empty());
    }

    #[test]
    fn padding_is_not_marked() {
        let bytes = exceptions(128, |place| (place == 127).then_some(3));
        assert!(Exceptions::<u32>::read(&bytes, 127).is_err());
        let read = Exceptions::<u32>::read(&bytes, 128).unwrap();
        let clipped = Block { shape: [1, 4, 4, 3], ..WHOLE };
        assert!(read.apply(64, &WHOLE, &mut [0f32; 64]).is_ok());
        assert!(read.apply(64, &clipped, &mut [0f32; 64]).is_err());
    }

    #[test]
    fn a_filled_element_is_not_an_outlier() {
        let mut bytes = exceptions(64, |place| [Some(1), Some(2)].get(place).copied().flatten());
        assert_eq!(Exceptions::<u32>::read(&bytes, 64).unwrap().count(), 2);
        // The coded bitmap of the outliers: the byte of the first word.
        let at = bytes.iter().rposition(|&byte| byte == 2).unwrap();
        assert_eq!(bytes[at..], [2, 0, 0, 0]);
        let bitmap = bytes[..at].iter().rposition(|&byte| byte == 2).unwrap();
        bytes[bitmap] = 1;
        assert!(Exceptions::<u32>::read(&bytes, 64).is_err());
    }
}
