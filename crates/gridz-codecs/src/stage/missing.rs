//! Missing elements as words: a codec with a bound keeps them bit for bit, and no other element may
//! become one of them.
//!
//! An element is missing if it has the bits of a fill value, or if it is outside of the valid
//! range. The request defines the fill values and the range of an array (`codec::missing`); here
//! they are words of one element type.

use crate::stage::quantize::Numbers;
use crate::stage::rows::Simd;
use crate::stage::word::Word;

/// Maximum number of fill values of an array.
pub const MAX_FILLS: usize = 8;

/// The missing elements of an array, or of one part of its complex elements.
#[derive(Debug, Clone, Copy)]
pub struct MissingWords<W> {
    n_fills: usize,
    fills: [W; MAX_FILLS],
    valid: Option<Valid<W>>,
}

/// A range of numbers, by their places in the order of numbers.
#[derive(Debug, Clone, Copy)]
struct Valid<W> {
    numbers: Numbers,
    /// The place of the least valid number.
    least: W,
    /// The number of places from there to the greatest valid one.
    span: W,
}

impl<W: Word> MissingWords<W> {
    /// The elements with these words, at most [`MAX_FILLS`], and those below and above the limits
    /// of the valid range.
    pub fn new(numbers: Numbers, fills: &[W], limits: [Option<W>; 2]) -> Self {
        let mut missing = Self { n_fills: fills.len(), fills: [W::default(); MAX_FILLS], valid: None };
        missing.fills[..fills.len()].copy_from_slice(fills);
        if limits.iter().any(Option::is_some) {
            let top = W::from_u64(1) << (W::BITS - 1);
            // Zeros of both signs are the same number, with two places.
            let zeros = numbers.negative_zero().map(|negative| [negative, W::default()]);
            let place = |word: W, which: usize| {
                let zero = zeros.filter(|zeros| zeros.contains(&word)).map(|zeros| zeros[which]);
                numbers.place(zero.unwrap_or(word))
            };
            let least = limits[0].map_or(top, |word| place(word, 0));
            let most = limits[1].map_or(!top, |word| place(word, 1));
            missing.valid = Some(Valid { numbers, least, span: most.wrapping_sub(least) });
        }
        missing
    }

    /// The words of the fill values.
    pub fn fills(&self) -> &[W] {
        &self.fills[..self.n_fills]
    }

    /// Whether there is a valid range.
    pub fn has_range(&self) -> bool {
        self.valid.is_some()
    }

    /// The place of the least valid number in the order of numbers, a signed integer; and the
    /// number of places from there to the greatest valid number.
    pub fn places(&self) -> Option<(W, W)> {
        self.valid.map(|valid| (valid.least, valid.span))
    }

    /// The words of the valid range's limits, where it has limits.
    pub fn range(&self) -> [Option<W>; 2] {
        let top = W::from_u64(1) << (W::BITS - 1);
        self.valid.map_or([None; 2], |Valid { numbers, least, span }| {
            let most = least.wrapping_add(span);
            [(least, top), (most, !top)].map(|(place, none)| (place != none).then(|| numbers.at_place(place)))
        })
    }

    /// Whether an element with this word is missing.
    #[inline(always)]
    pub fn has(&self, word: W) -> bool {
        self.fills().contains(&word)
            || self.valid.is_some_and(|valid| valid.numbers.place(word).wrapping_sub(valid.least) > valid.span)
    }

    /// The lanes of a row whose elements are not missing.
    #[inline(always)]
    pub fn present<S: Simd<W>>(&self, s: S, row: S::Row) -> u32 {
        let mut present = u32::MAX;
        for &fill in self.fills() {
            present &= s.gt_mask(s.xor(row, s.splat(fill)), W::default());
        }
        if let Some(Valid { numbers, least, span }) = self.valid {
            let (places, _) = numbers.places(s, row);
            present &= !s.gt_mask(s.sub(places, s.splat(least)), span);
        }
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Isa;
    use crate::stage::rows::{LANES, WithSimd, dispatch};
    use crate::types::DType;

    struct Present<'a> {
        missing: &'a MissingWords<u32>,
        words: [u32; LANES],
    }

    impl WithSimd<u32> for Present<'_> {
        type Output = u32;

        fn run<S: Simd<u32>>(self, s: S) -> u32 {
            self.missing.present(s, s.load(&self.words))
        }
    }

    #[test]
    fn rows_and_words_agree_with_numbers() {
        let floats =
            [0.0f32, -0.0, 1.0, -1.0, 5.0, 5.5, -999.0, 1e20, f32::INFINITY, f32::MIN_POSITIVE, -3e-40, f32::MAX];
        let words: [u32; LANES] = std::array::from_fn(|i| floats[i % floats.len()].to_bits());
        let fills = [(-999f32).to_bits(), 0];
        let limits = [None, Some(-0.0f32), Some(0.0), Some(-1.0), Some(5.0), Some(f32::INFINITY), Some(f32::MIN)];
        let mut n_missing = 0;
        for n_fills in 0..=2 {
            for least in limits {
                for most in limits
                    .into_iter()
                    .filter(|most| most.is_none_or(|most| least.is_none_or(|least| least <= most)))
                {
                    let bits = [least, most].map(|limit| limit.map(f32::to_bits));
                    let missing = MissingWords::new(Numbers::of(DType::F32), &fills[..n_fills], bits);
                    for level in Isa::all() {
                        let present = dispatch(level, Present { missing: &missing, words });
                        for (lane, &word) in words.iter().enumerate() {
                            let x = f32::from_bits(word);
                            let is_outside =
                                least.is_some_and(|least| x < least) || most.is_some_and(|most| x > most);
                            let expected = fills[..n_fills].contains(&word) || is_outside;
                            assert_eq!(
                                missing.has(word),
                                expected,
                                "{x} of {n_fills} fills, {least:?} to {most:?}"
                            );
                            assert_eq!(present >> lane & 1 == 0, expected);
                            n_missing += u32::from(expected);
                        }
                    }
                }
            }
        }
        assert!(n_missing > 500, "{n_missing}");
        // Words of narrow floats are sign-extended.
        for dtype in [DType::F16, DType::Bf16] {
            let [zero, negative, two, minus_two] = [0, !0x7fff, 0x4000, 0x4000 | !0x7fff];
            let above = MissingWords::new(Numbers::of(dtype), &[], [Some(zero), None]);
            let below = MissingWords::new(Numbers::of(dtype), &[], [None, Some(negative)]);
            assert_eq!(
                [zero, negative, two, minus_two].map(|word: u32| above.has(word)),
                [false, false, false, true]
            );
            assert_eq!(
                [zero, negative, two, minus_two].map(|word: u32| below.has(word)),
                [false, false, true, false]
            );
        }
        let unsigned = MissingWords::new(Numbers::of(DType::U32), &[], [Some(7), Some(u32::MAX - 1)]);
        let signed = MissingWords::new(Numbers::of(DType::I32), &[], [Some(-7i32 as u32), Some(9)]);
        assert_eq!(
            [6, 7, 1 << 31, u32::MAX - 1, u32::MAX].map(|word| unsigned.has(word)),
            [true, false, false, false, true]
        );
        assert_eq!(
            [-8i32, -7, 0, 9, 10].map(|number| signed.has(number as u32)),
            [true, false, false, false, true]
        );
    }
}
