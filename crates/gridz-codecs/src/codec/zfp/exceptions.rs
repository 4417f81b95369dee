//! Elements of a section that have another word than its blocks: holes, which all have one word, and others, with a word
//! each.
//!
//! ```text
//! u16 holes | u16 others | u16 bytes of the holes' marks | u16 those of the others' | hole | marks | marks | words
//! ```
//!
//! Every part begins at a multiple of four bytes. A land mask is coded as the changes from place to place, because neighbours in a
//! block are neighbours in the array.

use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::layout::{Block, SECTION_ELEMENTS};
use crate::error::{Error, Result};
use crate::stage::marks::Marks;
use crate::stage::word::Word;

/// Parts are filled up with zeros to a multiple of this.
pub const ALIGNMENT: usize = 4;
/// Bytes in front of the parts.
const HEAD_BYTES: usize = 8;
/// Bytes of marks that are not coded.
const PLAIN_BYTES: usize = SECTION_ELEMENTS / 8;
/// Set in the bytes of marks that are coded.
const CODED: u16 = 1 << 15;
/// Most bytes of the exceptions of a section.
const MOST_BYTES: usize = HEAD_BYTES + 8 + 2 * PLAIN_BYTES + 8 * SECTION_ELEMENTS;
/// Places of a word of marks.
const MARKS: usize = 32;

fn damage() -> Error {
    Error::corrupt("the exceptions of a zfp section are not what it says")
}

/// The exceptions of a section, in order, as they are found.
#[derive(Default)]
pub struct Found {
    places: Vec<u16>,
    words: Vec<u64>,
}

impl Found {
    /// Makes room for as many as a section has, none of which is found yet.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn begin(&mut self) -> Result<()> {
        self.places.clear();
        self.words.clear();
        reserve(&mut self.places, SECTION_ELEMENTS)?;
        reserve(&mut self.words, SECTION_ELEMENTS)
    }

    /// The element at a place behind all others.
    pub fn push<W: Word>(&mut self, place: usize, word: W) {
        self.places.push(place as u16);
        self.words.push(word.to_u64());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Writes them behind `out`, if there are any.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn write<W: Word>(&self, out: &mut Vec<u8>) -> Result<()> {
        let Some(&hole) = self.words.first() else { return Ok(()) };
        reserve(out, MOST_BYTES)?;
        let (mut holes, mut others) = (Marks::new(SECTION_ELEMENTS), Marks::new(SECTION_ELEMENTS));
        for (&place, &word) in self.places.iter().zip(&self.words) {
            let marks = if word == hole { &mut holes } else { &mut others };
            marks.words_mut()[usize::from(place) / MARKS] |= 1 << (usize::from(place) % MARKS);
        }
        let start = out.len();
        append(out, HEAD_BYTES, |_| ());
        append(out, W::BYTES, |bytes| W::from_u64(hole).write(bytes));
        let (n_holes, n_others) = (holes.count() as u16, others.count() as u16);
        let of_holes = append_marks(out, &holes.changes(1), &holes);
        let of_others = if n_others > 0 { append_marks(out, &others, &others) } else { 0 };
        for &word in self.words.iter().filter(|&&word| word != hole) {
            append(out, W::BYTES, |bytes| W::from_u64(word).write(bytes));
        }
        for (bytes, field) in out[start..].chunks_exact_mut(2).zip([n_holes, n_others, of_holes, of_others]) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        Ok(())
    }
}

/// Makes room for `n` more items.
///
/// # Errors
/// `OutOfMemory`.
pub fn reserve<T>(items: &mut Vec<T>, n: usize) -> Result<()> {
    let n_bytes = (n * size_of::<T>()) as u64;
    items.try_reserve(n).map_err(|_| Error::out_of_memory(n_bytes, "bookkeeping"))
}

/// Appends bytes that `write` writes to zeros, and zeros behind them.
fn append(out: &mut Vec<u8>, n: usize, write: impl FnOnce(&mut [u8])) {
    let start = out.len();
    out.resize(start + n.next_multiple_of(ALIGNMENT), 0);
    write(&mut out[start..start + n]);
}

/// Appends marks as they are, or `coded` if that is shorter, and returns what the head says of them.
fn append_marks(out: &mut Vec<u8>, coded: &Marks, marks: &Marks) -> u16 {
    let n_bytes = coded.n_bytes();
    if n_bytes < PLAIN_BYTES {
        append(out, n_bytes, |bytes| coded.write(bytes));
        return n_bytes as u16 | CODED;
    }
    append(out, PLAIN_BYTES, |bytes| {
        for (out, word) in bytes.chunks_exact_mut(4).zip(marks.words()) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    });
    PLAIN_BYTES as u16
}

/// The exceptions of a section in a payload.
pub struct Exceptions<'p, W> {
    hole: W,
    holes: Marks,
    others: Marks,
    words: &'p [u8],
    /// How many others are before each word of marks.
    before: [u16; SECTION_ELEMENTS / MARKS],
}

impl<'p, W: Word> Exceptions<'p, W> {
    /// Those of a section with so many places of blocks.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(mut bytes: &'p [u8], n_places: usize) -> Result<Self> {
        let head = take(&mut bytes, HEAD_BYTES)?;
        let field = |k: usize| u16::from_le_bytes([head[2 * k], head[2 * k + 1]]);
        let (n_holes, n_others) = (field(0), field(1));
        let hole = if n_holes > 0 { W::read(take(&mut bytes, W::BYTES)?) } else { W::default() };
        let holes = read_marks(&mut bytes, n_holes, field(2), n_places, true)?;
        let others = read_marks(&mut bytes, n_others, field(3), n_places, false)?;
        let words = take(&mut bytes, usize::from(n_others) * W::BYTES)?;
        let is_twice = holes.words().iter().zip(others.words()).any(|(a, b)| a & b != 0);
        if n_holes == 0 && n_others == 0 || is_twice || !bytes.is_empty() {
            return Err(damage());
        }
        let mut n = 0;
        let before = std::array::from_fn(|k| {
            n += others.words()[k].count_ones() as u16;
            n - others.words()[k].count_ones() as u16
        });
        Ok(Self { hole, holes, others, words, before })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        (self.holes.count() + self.others.count()) as u64
    }

    /// Puts those of a block into its elements, of which the first is at place `start` of the section.
    ///
    /// # Errors
    /// `Corrupt` if padding is marked.
    pub fn apply<T: Scalar<Word = W>>(&self, start: usize, block: &Block, elements: &mut [T]) -> Result<()> {
        for (k, elements) in elements.chunks_mut(MARKS).enumerate() {
            let start = start + k * MARKS;
            let mask = u32::MAX >> (MARKS - elements.len());
            let (holes, others) = (self.holes.window(start) & mask, self.others.window(start) & mask);
            let mut left = holes | others;
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                if !block.has(k * MARKS + i) {
                    return Err(damage());
                }
                let word = if holes >> i & 1 == 1 { self.hole } else { self.other(start + i) };
                elements[i] = T::of_word(word);
            }
        }
        Ok(())
    }

    /// The word of the other exception at a place that is marked.
    fn other(&self, place: usize) -> W {
        let below = self.others.words()[place / MARKS] & !(u32::MAX << (place % MARKS));
        let n = usize::from(self.before[place / MARKS]) + below.count_ones() as usize;
        W::read(&self.words[n * W::BYTES..])
    }
}

/// The next bytes, with the zeros behind them.
fn take<'p>(bytes: &mut &'p [u8], n: usize) -> Result<&'p [u8]> {
    let (part, rest) = bytes.split_at_checked(n.next_multiple_of(ALIGNMENT)).ok_or_else(damage)?;
    *bytes = rest;
    Ok(&part[..n])
}

/// The next marks, of so many elements that are in so many places; coded ones may be changes.
fn read_marks(bytes: &mut &[u8], n: u16, field: u16, n_places: usize, are_changes: bool) -> Result<Marks> {
    if n == 0 {
        return if field == 0 { Ok(Marks::new(SECTION_ELEMENTS)) } else { Err(damage()) };
    }
    let (n_bytes, is_coded) = (usize::from(field & !CODED), field & CODED != 0);
    let part = take(bytes, n_bytes)?;
    let (mut marks, used) = match is_coded {
        true => Marks::read(part, SECTION_ELEMENTS)?,
        false => Marks::read_plain(part, SECTION_ELEMENTS)?,
    };
    if is_coded && are_changes {
        marks.undo_changes(1);
    }
    let is_outside = (n_places..SECTION_ELEMENTS).step_by(MARKS).any(|at| marks.window(at) != 0);
    if used != n_bytes || marks.count() != usize::from(n) || is_outside {
        return Err(damage());
    }
    Ok(marks)
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
                let mut elements = [-1i32; 64];
                read.apply(start, &WHOLE, &mut elements).unwrap();
                for (i, element) in elements.into_iter().enumerate() {
                    assert_eq!(element, exceptional(start + i).map_or(-1, |word| word as i32));
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
        assert!(read.apply(64, &WHOLE, &mut [0i32; 64]).is_ok());
        assert!(read.apply(64, &clipped, &mut [0i32; 64]).is_err());
    }

    #[test]
    fn what_is_a_hole_is_nothing_else() {
        let mut bytes = exceptions(64, |place| [Some(1), Some(2)].get(place).copied().flatten());
        assert_eq!(Exceptions::<u32>::read(&bytes, 64).unwrap().count(), 2);
        // Coded marks of the others: the byte of the first word.
        let at = bytes.iter().rposition(|&byte| byte == 2).unwrap();
        assert_eq!(bytes[at..], [2, 0, 0, 0]);
        let marks = bytes[..at].iter().rposition(|&byte| byte == 2).unwrap();
        bytes[marks] = 1;
        assert!(Exceptions::<u32>::read(&bytes, 64).is_err());
    }
}
