//! Masks: elements with one common word are left out.

use super::{Element, bitmap, samples};

/// The mask of a block.
pub struct Mask {
    pub is_masked: Vec<bool>,
    /// The bytes that follow the block header.
    pub bytes: Vec<u8>,
}

impl Mask {
    /// Determines the mask of a block; `None` if the block is not masked. `words` must not all be
    /// equal.
    pub fn of(words: &[i64], shape: [usize; 3], element: Element) -> Option<Self> {
        let m = words.len();
        if m < 64 {
            return None;
        }
        let samples = samples(words);
        let occurs = |word: i64| samples.iter().filter(|&&sample| sample == word).count();
        let candidates: Vec<i64> = samples.iter().copied().step_by(4).collect();
        let most = candidates.iter().map(|&word| occurs(word)).max().filter(|&most| most >= 3)?;
        let masked = candidates.into_iter().find(|&word| occurs(word) == most)?;

        let is_masked: Vec<bool> = words.iter().map(|&word| word == masked).collect();
        let k = is_masked.iter().filter(|&&is_masked| is_masked).count();
        let (is_coded, bitmap) = bitmap::of_block(&is_masked, shape);

        let mut bytes = masked.to_le_bytes()[..element.word_bits() as usize / 8].to_vec();
        let coded = if is_coded { 1 << 15 } else { 0 };
        bytes.extend([k as u16, bitmap.len() as u16 + coded].iter().flat_map(|n| n.to_le_bytes()));
        let bitmap_bytes = bitmap.len();
        bytes.extend(bitmap);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let cost = 16 + bitmap_bytes.next_multiple_of(16);
        (8 * cost <= k * element.bytes).then_some(Self { is_masked, bytes })
    }

    /// The words, with each masked one replaced by a word before it (or the first that is not
    /// masked).
    pub fn replaced(&self, words: &[i64]) -> Vec<i64> {
        let first = self.is_masked.iter().position(|is_masked| !is_masked).unwrap();
        let last = |i: usize| (0..=i).rev().find(|&i| !self.is_masked[i]).unwrap_or(first);
        (0..words.len()).map(|i| words[last(i)]).collect()
    }
}
