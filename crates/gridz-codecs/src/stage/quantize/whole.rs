//! Integers as multiples of an odd number.

use super::Divisor;
use crate::stage::rows::LANES;
use crate::stage::word::Word;
use crate::types::DType;

/// The integers of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integers {
    /// The smallest and the largest one.
    pub least: i128,
    pub most: i128,
    /// Bits of an element if it is unsigned and as wide as a word, else 0.
    unsigned_bits: u32,
}

impl Integers {
    pub fn of(dtype: DType) -> Self {
        let bits = 8 * dtype.size().map_or(8, u32::from);
        let is_unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
        let (least, most) =
            if is_unsigned { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) };
        Self { least, most, unsigned_bits: if is_unsigned && bits >= 32 { bits } else { 0 } }
    }

    /// The number that a sign-extended word or code stands for.
    pub fn number(&self, word: i64) -> i128 {
        match self.unsigned_bits {
            0 => word.into(),
            32 => (word as u32).into(),
            _ => (word as u64).into(),
        }
    }
}

/// Integers as multiples of 2 · bound + 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<W> {
    /// The bound as a whole number.
    bound: u64,
    integers: Integers,
    /// The arithmetic in words; `None` if it needs more bits than a word.
    in_words: Option<InWords<W>>,
}

impl<W: Word> Whole<W> {
    /// For elements of a type of integers, and a bound above 0.
    pub fn new(dtype: DType, bound: f64) -> Self {
        let integers = Integers::of(dtype);
        let bound = (bound as u64).min(integers.most as u64);
        let in_words = (bound < 1 << (W::BITS - 2)).then(|| InWords {
            half: W::from_u64(bound),
            step: Divisor::new(W::from_u64(2 * bound + 1)),
            signs: if integers.unsigned_bits == 0 { !W::default() } else { W::default() },
            limits: [integers.most, -integers.least].map(|size| W::from_u64(size as u64)),
        });
        Self { bound, integers, in_words }
    }

    /// Converts elements to codes.
    #[inline(always)]
    pub fn quantize(&self, lanes: &mut [W; LANES]) {
        match &self.in_words {
            Some(in_words) => in_words.quantize(lanes),
            None => self.far_codes(lanes),
        }
    }

    /// Converts codes to elements.
    #[inline(always)]
    pub fn dequantize(&self, lanes: &mut [W; LANES]) {
        match &self.in_words {
            Some(in_words) => in_words.dequantize(lanes),
            None => self.far_values(lanes),
        }
    }

    /// [`Self::quantize`] for any bound.
    #[cold]
    fn far_codes(&self, lanes: &mut [W; LANES]) {
        let bound = i128::from(self.bound);
        for lane in lanes {
            let code = (self.integers.number(lane.to_i64()) + bound).div_euclid(2 * bound + 1);
            *lane = W::from_u64(code as u64);
        }
    }

    /// [`Self::dequantize`] for any bound.
    #[cold]
    fn far_values(&self, lanes: &mut [W; LANES]) {
        let Integers { least, most, .. } = self.integers;
        for lane in lanes {
            // A product that overflows i128 exceeds the type, too.
            let value = self.integers.number(lane.to_i64()).saturating_mul(2 * i128::from(self.bound) + 1);
            *lane = W::from_u64(value.clamp(least, most) as u64);
        }
    }
}

/// The same arithmetic with magnitudes in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InWords<W> {
    half: W,
    step: Divisor<W>,
    /// All bits are set if words have signs.
    signs: W,
    /// The largest magnitudes of positive and of negative numbers.
    limits: [W; 2],
}

impl<W: Word> InWords<W> {
    #[inline(always)]
    fn quantize(&self, lanes: &mut [W; LANES]) {
        let one = W::from_u64(1);
        // With remainders above these, the nearest multiple is the next one, and the one after
        // that.
        let [next, last] = [self.half, self.half.wrapping_add(self.step.divisor)];
        let mut i = 0;
        while i < LANES {
            let sign = lanes[i].shift_signed(W::BITS - 1) & self.signs;
            let size = (lanes[i] ^ sign).wrapping_sub(sign);
            let (mut multiple, rest) = self.step.divide(size);
            multiple = multiple.wrapping_add(if rest > next { one } else { W::default() });
            multiple = multiple.wrapping_add(if rest > last { one } else { W::default() });
            lanes[i] = (multiple ^ sign).wrapping_sub(sign);
            i += 1;
        }
    }

    #[inline(always)]
    fn dequantize(&self, lanes: &mut [W; LANES]) {
        let mut i = 0;
        while i < LANES {
            let sign = lanes[i].shift_signed(W::BITS - 1) & self.signs;
            let multiple = (lanes[i] ^ sign).wrapping_sub(sign);
            let limit = if sign == W::default() { self.limits[0] } else { self.limits[1] };
            let product = multiple.wrapping_mul(self.step.divisor);
            let is_beyond = (multiple.high_product(self.step.divisor) != W::default()) | (product > limit);
            let size = if is_beyond { limit } else { product };
            lanes[i] = (size ^ sign).wrapping_sub(sign);
            i += 1;
        }
    }
}
