//! The mask of a block: elements that all have the same word, such as a fill value, NaN or zero, and are left out.

use crate::codec::lorenzo::layout::UNIT;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::blocks::source::BlockWords;
use crate::stage::marks::Marks;
use crate::stage::rows::{LANES, Rows, first_lanes};
use crate::stage::samples::Samples;
use crate::stage::word::Word;

/// Blocks of fewer elements have none.
const LEAST_ELEMENTS: usize = 64;
/// So many samples have the word that is masked at least.
const LEAST_SAMPLES: u32 = 3;

/// The masked elements of a block.
pub struct Mask<W> {
    /// Their word.
    pub word: W,
    /// Which they are.
    pub marks: Marks,
    /// What is written of the marks, if they are coded: changes from row to row or, in a block of one row, they
    /// themselves.
    coded: Option<Marks>,
    /// Bytes of the marks.
    marks_bytes: usize,
    n_masked: usize,
}

impl<W: Word> Mask<W> {
    /// The mask of a block of this shape, if it takes few bytes beside those of the elements that it masks. The `words`, of which
    /// these are samples, are less `first`.
    #[inline(always)]
    pub fn choose<S: Rows<W>>(
        s: S,
        words: &[W],
        samples: &Samples<W>,
        first: W,
        shape: [usize; 3],
        element_bytes: usize,
    ) -> Option<Self> {
        if words.len() < LEAST_ELEMENTS {
            return None;
        }
        let (word, n_samples) = samples.most_frequent(s);
        if n_samples < LEAST_SAMPLES {
            return None;
        }
        let marks = marks_of(s, words, word);
        let n_masked = marks.count();
        let changes = if shape[0] * shape[1] > 1 { marks.changes(shape[2]) } else { marks.clone() };
        let (plain_bytes, coded_bytes) = (4 * marks.words().len(), changes.n_bytes());
        let (coded, marks_bytes) =
            if coded_bytes <= plain_bytes { (Some(changes), coded_bytes) } else { (None, plain_bytes) };
        let mask = Self { word: word.plus(first), marks, coded, marks_bytes, n_masked };
        (8 * mask.n_bytes() <= n_masked * element_bytes).then_some(mask)
    }

    /// Bytes of the mask, with the zeros behind it.
    pub fn n_bytes(&self) -> usize {
        UNIT + self.marks_bytes.next_multiple_of(UNIT)
    }

    /// Replaces each masked word by the one before it that is not, or by the first one that is not; the first `n` of
    /// `words`, which have room for a row behind them, are less `first` before, and less the new first word after that.
    #[inline(always)]
    pub fn fill<S: Rows<W>>(&self, s: S, words: &mut [W], n: usize, first: W) -> BlockWords<W> {
        let start = self.marks.first_other().expect("a word that is not masked");
        let base = words[start];
        let new_first = base.plus(first);
        let (base, to_word) = (s.splat(base), s.splat(new_first));
        let mut before = s.splat(W::default());
        let (mut all, mut lowest, mut highest) = (to_word, to_word, to_word);
        let mut k = 0;
        while k * LANES < n {
            let at = k * LANES;
            let others = self.marks.others(k);
            let row = s.fill_forward(!others, s.minus(s.load(&words[at..]), base), before);
            s.store(row, &mut words[at..]);
            before = row;
            // Those that are filled in are there already.
            let row = s.plus(row, to_word);
            all = s.or(all, row);
            lowest = s.min_signed(lowest, row);
            highest = s.max_signed(highest, row);
            k += 1;
        }
        BlockWords { first: new_first, all: s.any(all), range: [s.lowest(lowest), s.highest(highest)] }
    }

    /// Writes the mask to `out`, which has exactly [`Mask::n_bytes`].
    pub fn write(&self, out: &mut [u8]) {
        out.fill(0);
        self.word.write(out);
        out[8..10].copy_from_slice(&(self.n_masked as u16).to_le_bytes());
        out[10..12].copy_from_slice(&(self.marks_bytes as u16).to_le_bytes());
        let (header, marks) = out.split_at_mut(UNIT);
        match &self.coded {
            Some(changes) => {
                header[12] = 1;
                changes.write(&mut marks[..self.marks_bytes]);
            }
            None => {
                for (out, word) in marks.chunks_exact_mut(4).zip(self.marks.words()) {
                    out.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
    }

    /// The word, the marks and the bytes of a mask at the start of `bytes`.
    ///
    /// # Errors
    /// `Corrupt`, or `UnsupportedFormat` for what only a later version can have written.
    pub fn read(bytes: &[u8], shape: [usize; 3]) -> Result<(W, Marks, usize)> {
        let damage = || Error::corrupt("the mask of a lorenzo block is not what it says");
        let n: usize = shape.iter().product();
        let (header, rest) = bytes.split_first_chunk::<UNIT>().ok_or_else(damage)?;
        let pair = |k: usize| usize::from(u16::from_le_bytes([header[k], header[k + 1]]));
        let (n_masked, marks_bytes) = (pair(8), pair(10));
        if header[12] > 1 || header[13..].iter().chain(&header[W::BYTES..8]).any(|&byte| byte != 0) {
            let text =
                "the mask of a lorenzo block is of a kind unknown to this version; a newer gridz may read it";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let coded = rest.get(..marks_bytes).ok_or_else(damage)?;
        let (mut marks, n_bytes) =
            if header[12] == 1 { Marks::read(coded, n)? } else { Marks::read_plain(coded, n)? };
        if header[12] == 1 && shape[0] * shape[1] > 1 {
            marks.undo_changes(shape[2]);
        }
        if n_bytes != marks_bytes || n_masked == 0 || n_masked >= n || marks.count() != n_masked {
            return Err(damage());
        }
        Ok((W::read(header), marks, UNIT + marks_bytes.next_multiple_of(UNIT)))
    }
}

/// Marks of those values that are equal to one of them.
#[inline(always)]
fn marks_of<W: Word, S: Rows<W>>(s: S, values: &[W], value: W) -> Marks {
    let mut marks = Marks::new(values.len());
    let value = s.splat(value);
    let whole = values.len() / LANES;
    let mut k = 0;
    while k < marks.words().len() {
        let row = if k < whole {
            s.load(&values[k * LANES..])
        } else {
            let mut last = [W::default(); LANES];
            last[..values.len() % LANES].copy_from_slice(&values[k * LANES..]);
            s.load(&last)
        };
        let lanes = first_lanes(values.len() - k * LANES);
        marks.words_mut()[k] = lanes & !s.larger(s.xor(row, value), W::default());
        k += 1;
    }
    marks
}
