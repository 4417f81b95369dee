//! The mask of a block: the elements that share one word, such as a fill value, NaN or zero, and
//! are omitted.

use crate::codec::lorenzo::layout::UNIT;
use crate::error::{Error, Result};
use crate::stage::bitmap::Bitmap;
use crate::stage::blocks::source::BlockWords;
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::samples::Samples;
use crate::stage::word::Word;

/// Blocks with fewer elements have no mask.
const LEAST_ELEMENTS: usize = 64;
/// At least this many samples must have the masked word.
const LEAST_SAMPLES: u32 = 3;
/// Masks are padded to this. The header of a block is a multiple of it.
const ALIGNMENT: usize = 8;
/// The bit of the bitmap's bytes that says that the bitmap is coded.
const CODED: u16 = 0x8000;

/// Bytes of the word, the number of masked elements, and the bytes of the bitmap.
const fn header_bytes<W: Word>() -> usize {
    W::BYTES + 4
}

/// The masked elements of a block.
pub struct Mask<W> {
    /// The word of the masked elements.
    pub word: W,
    /// A bit for each masked element.
    pub bitmap: Bitmap,
    /// The bitmap as it is written, if it is coded: the changes from row to row or, in a block of
    /// one row, the bitmap itself.
    coded: Option<Bitmap>,
    /// Bytes of the bitmap.
    bitmap_bytes: usize,
    n_masked: usize,
}

impl<W: Word> Mask<W> {
    /// Bytes of the mask, with its padding.
    pub fn n_bytes(&self) -> usize {
        (header_bytes::<W>() + self.bitmap_bytes).next_multiple_of(ALIGNMENT)
    }

    /// Writes the mask to `out`, which has exactly [`Mask::n_bytes`].
    pub fn write(&self, out: &mut [u8]) {
        out.fill(0);
        let (header, bitmap) = out.split_at_mut(header_bytes::<W>());
        let coded = if self.coded.is_some() { CODED } else { 0 };
        self.word.write(header);
        header[W::BYTES..][..2].copy_from_slice(&(self.n_masked as u16).to_le_bytes());
        header[W::BYTES + 2..].copy_from_slice(&(self.bitmap_bytes as u16 | coded).to_le_bytes());
        match &self.coded {
            Some(changes) => changes.write(&mut bitmap[..self.bitmap_bytes]),
            None => {
                for (out, word) in bitmap.chunks_exact_mut(4).zip(self.bitmap.words()) {
                    out.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
    }

    /// Returns the word, the bitmap and the bytes of a mask at the start of `bytes`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(bytes: &[u8], shape: [usize; 3]) -> Result<(W, Bitmap, usize)> {
        let damage = || Error::corrupt("a lorenzo block is damaged: its mask does not match its header");
        let n: usize = shape.iter().product();
        let (header, rest) = bytes.split_at_checked(header_bytes::<W>()).ok_or_else(damage)?;
        let pair = |k: usize| u16::from_le_bytes([header[k], header[k + 1]]);
        let (n_masked, size) = (usize::from(pair(W::BYTES)), pair(W::BYTES + 2));
        let (is_coded, bitmap_bytes) = (size & CODED != 0, usize::from(size & !CODED));
        let coded = rest.get(..bitmap_bytes).ok_or_else(damage)?;
        let (mut bitmap, n_bytes) = if is_coded { Bitmap::read(coded, n)? } else { Bitmap::read_plain(coded, n)? };
        if is_coded && shape[0] * shape[1] > 1 {
            bitmap.undo_changes(shape[2]);
        }
        if n_bytes != bitmap_bytes || n_masked == 0 || n_masked >= n || bitmap.count() != n_masked {
            return Err(damage());
        }
        Ok((W::read(header), bitmap, (header_bytes::<W>() + bitmap_bytes).next_multiple_of(ALIGNMENT)))
    }
}

outlined! {
    /// Chooses the mask of a block of this shape, if its bytes are few compared with those of the
    /// elements that it masks. `words` are each minus `first`, and `samples` are samples of these.
    pub fn choose<'a, W>(
        s,
        words: &'a [W],
        samples: &'a Samples<W>,
        first: W,
        shape: [usize; 3],
        element_bytes: usize,
    ) -> Option<Mask<W>> {
        if words.len() < LEAST_ELEMENTS {
            return None;
        }
        let (word, n_samples) = samples.most_frequent(s);
        if n_samples < LEAST_SAMPLES {
            return None;
        }
        let bitmap = bitmap_of(s, words, word);
        let n_masked = bitmap.count();
        let changes = if shape[0] * shape[1] > 1 { bitmap.changes(shape[2]) } else { bitmap.clone() };
        let (plain_bytes, coded_bytes) = (4 * bitmap.words().len(), changes.n_bytes());
        let (coded, bitmap_bytes) =
            if coded_bytes <= plain_bytes { (Some(changes), coded_bytes) } else { (None, plain_bytes) };
        let mask = Mask { word: word.wrapping_add(first), bitmap, coded, bitmap_bytes, n_masked };
        // With a mask, orders are lower, so small savings are none.
        let cost = UNIT + bitmap_bytes.next_multiple_of(UNIT);
        (8 * cost <= n_masked * element_bytes).then_some(mask)
    }

    /// Replaces each masked word by the previous unmasked word or, at the start, by the first
    /// unmasked one. The first `n` of `words` are relative to `first` before, and relative to the
    /// new first word afterwards. They are padded by a row.
    pub fn fill<'a, W>(s, mask: &'a Mask<W>, words: &'a mut [W], n: usize, first: W) -> BlockWords<W> {
        let start = mask.bitmap.first_other().expect("a word that is not masked");
        let base = words[start];
        let new_first = base.wrapping_add(first);
        let (base, to_word) = (s.splat(base), s.splat(new_first));
        let mut before = s.splat(W::default());
        let (mut all, mut lowest, mut highest) = (to_word, to_word, to_word);
        let mut k = 0;
        while k * LANES < n {
            let at = k * LANES;
            let others = mask.bitmap.others(k);
            let row = s.fill_forward(!others, s.sub(s.load(&words[at..]), base), before);
            s.store(row, &mut words[at..]);
            before = row;
            // Filled-in words repeat words that are counted anyway.
            let row = s.add(row, to_word);
            all = s.or(all, row);
            lowest = s.min_signed(lowest, row);
            highest = s.max_signed(highest, row);
            k += 1;
        }
        BlockWords { first: new_first, all: s.any(all), range: [s.lowest(lowest), s.highest(highest)] }
    }
}

/// A bitmap of the values that equal `value`.
#[inline(always)]
fn bitmap_of<W: Word, S: Simd<W>>(s: S, values: &[W], value: W) -> Bitmap {
    let mut bitmap = Bitmap::new(values.len());
    let value = s.splat(value);
    let whole = values.len() / LANES;
    let mut k = 0;
    while k < bitmap.words().len() {
        let row = if k < whole {
            s.load(&values[k * LANES..])
        } else {
            let mut last = [W::default(); LANES];
            last[..values.len() % LANES].copy_from_slice(&values[k * LANES..]);
            s.load(&last)
        };
        let lanes = first_lanes(values.len() - k * LANES);
        bitmap.words_mut()[k] = lanes & !s.gt_mask(s.xor(row, value), W::default());
        k += 1;
    }
    bitmap
}
