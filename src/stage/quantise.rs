//! Quantisers: elements become whole numbers, their codes, and these become elements within a bound of them.
//!
//! A code depends on the element and on what was asked for, on nothing else, and the element that a code stands for has
//! that code again. So an array can be decoded and encoded as often as one likes, whole or in parts, and no element is
//! ever further from what it was at first than the bound. (The idea of cuSZp and others, to predict whole numbers, without
//! their loss: Huang et al., "cuSZp", SC '23.)
//!
//! [`Uniform`] is for floats: multiples of a step of nearly twice the bound. Where elements are large in steps, a product of
//! a float's precision would be rounded by so much that the bound were broken; so there steps have fewer significant bits the
//! larger elements are, and all multiples are exact. [`Whole`] is for integers. [`Relative`] is for bounds in units of the
//! element: it takes the bits of a float as an integer, which is near enough to its logarithm.
//!
//! A quantiser also says which elements have a code, and which of those are within the bound. All arithmetic is that of IEEE
//! 754 in the element's format, or in binary32 for narrower ones, one operation at a time.

use crate::stage::rows::{LANES, Rows};
use crate::stage::word::Word;
use crate::types::DType;

/// What a quantiser makes of a row: the codes, which elements have one, and which of those come back within the bound.
pub struct Coded<R> {
    /// The codes, in two's complement; zeros where there is none.
    pub codes: R,
    /// The lanes of elements that have a code.
    pub are_coded: u32,
    /// The lanes of those that come back within the bound.
    pub are_within: u32,
}

/// A quantiser of words, as elements become words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantiser<W> {
    /// Floats with an absolute bound.
    Uniform(Uniform<W>),
    /// Integers with an absolute bound.
    Whole(Whole),
    /// Floats with a bound relative to each of them.
    Relative(Relative),
}

impl<W: Word> Quantiser<W> {
    /// For elements of a type with numbers of one part, and an absolute bound above 0. `None` if no element has a code.
    pub fn absolute(dtype: DType, bound: f64) -> Option<Self> {
        Float::of(dtype).map_or_else(
            || Some(Self::Whole(Whole::new(dtype, bound))),
            |float| W::uniform(float, bound).map(Self::Uniform),
        )
    }

    /// For floats, and a bound between 0 and 1 in units of each of them. `None` for other elements.
    pub fn relative(dtype: DType, bound: f64) -> Option<Self> {
        Float::of(dtype).map(|float| Self::Relative(Relative::new(float, bound)))
    }

    /// Quantises a row.
    #[inline(always)]
    pub fn code<S: Rows<W>>(&self, s: S, words: S::Row) -> Coded<S::Row> {
        match self {
            Self::Uniform(uniform) => s.codes(uniform, words),
            Self::Whole(whole) => {
                in_lanes(s, words, |word| (W::from_u64(whole.code(word.to_i64()) as u64), true, true))
            }
            Self::Relative(relative) => in_lanes(s, words, |word| match relative.code(word.to_u64()) {
                Some(code) => (W::from_u64(code as u64), true, true),
                None => (W::default(), false, false),
            }),
        }
    }

    /// The words of a row of codes.
    #[inline(always)]
    pub fn value<S: Rows<W>>(&self, s: S, codes: S::Row) -> S::Row {
        match self {
            Self::Uniform(uniform) => s.values(uniform, codes),
            Self::Whole(whole) => map_lanes(s, codes, |code| W::from_u64(whole.value(code.to_i64()) as u64)),
            Self::Relative(relative) => map_lanes(s, codes, |code| W::from_u64(relative.value(code.to_i64()))),
        }
    }
}

/// What a function makes of every word: a code, whether it has one, and whether it is within the bound.
#[inline(always)]
pub fn in_lanes<W: Word, S: Rows<W>>(s: S, words: S::Row, code: impl Fn(W) -> (W, bool, bool)) -> Coded<S::Row> {
    let mut lanes = [W::default(); LANES];
    s.store(words, &mut lanes);
    let (mut are_coded, mut are_within) = (0, 0);
    let mut i = 0;
    while i < LANES {
        let (code, is_coded, is_within) = code(lanes[i]);
        lanes[i] = code;
        are_coded |= u32::from(is_coded) << i;
        are_within |= u32::from(is_within) << i;
        i += 1;
    }
    Coded { codes: s.load(&lanes), are_coded, are_within }
}

/// What a function makes of every word.
#[inline(always)]
pub fn map_lanes<W: Word, S: Rows<W>>(s: S, words: S::Row, f: impl Fn(W) -> W) -> S::Row {
    let mut lanes = [W::default(); LANES];
    s.store(words, &mut lanes);
    let mut i = 0;
    while i < LANES {
        lanes[i] = f(lanes[i]);
        i += 1;
    }
    s.load(&lanes)
}

/// What words say of numbers: which are finite, and their order.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    dtype: DType,
}

impl Numbers {
    /// Of elements with one part.
    pub fn of(dtype: DType) -> Self {
        Self { dtype }
    }

    /// The places of a row of words in the order of their numbers, as signed integers, and the lanes of those that are
    /// finite.
    #[inline(always)]
    pub fn places<W: Word, S: Rows<W>>(self, s: S, words: S::Row) -> (S::Row, u32) {
        if let Some(float) = Float::of(self.dtype) {
            let (fraction_bits, bits) = float.bits();
            let sizes = s.and(words, s.splat(W::low_mask(bits - 1)));
            let last_finite = (W::low_mask(bits - 1 - fraction_bits) << fraction_bits).minus(W::from_u64(1));
            // What is negative is in the opposite order.
            let signs = s.and(s.shift_right_signed(words, W::BITS - 1), s.splat(W::low_mask(W::BITS - 1)));
            return (s.xor(words, signs), !s.larger(sizes, last_finite));
        }
        let is_unsigned = matches!(self.dtype, DType::U32 | DType::U64);
        let turned = if is_unsigned { W::from_u64(1) << (W::BITS - 1) } else { W::default() };
        (s.xor(words, s.splat(turned)), u32::MAX)
    }

    /// The word at a place.
    pub fn at_place<W: Word>(self, place: W) -> W {
        let top = W::from_u64(1) << (W::BITS - 1);
        match self.dtype {
            DType::U32 | DType::U64 => place ^ top,
            _ if Float::of(self.dtype).is_some() && place & top != W::default() => place ^ !top,
            _ => place,
        }
    }

    /// The difference of two numbers, the larger one first, rounded down to a float, the largest one if it is too much.
    pub fn difference_down<W: Word>(self, most: W, least: W) -> f64 {
        let Some(float) = Float::of(self.dtype) else {
            let whole = Whole::new(self.dtype, 0.0);
            let range = (whole.number(most.to_i64()) - whole.number(least.to_i64())) as u128;
            let nearest = range as f64;
            return if nearest as u128 > range { nearest.next_down() } else { nearest };
        };
        let number = |word: W| match float {
            Float::F64 => f64::from_bits(word.to_u64()),
            _ => widen(float, word.to_u64() as u32).into(),
        };
        let (a, b) = (number(most), number(least));
        let nearest = a - b;
        if nearest.is_infinite() {
            return f64::MAX;
        }
        // What was rounded off (Knuth, TAOCP vol. 2, 4.2.2, theorem B).
        let b_part = a - nearest;
        let a_part = nearest + b_part;
        let rest = (a - a_part) + (b_part - b);
        if rest < 0.0 { nearest.next_down() } else { nearest }
    }
}

/// Formats of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Float {
    /// That of a type's elements.
    fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            DType::F32 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Narrower than a word, and so computed with as binary32.
    #[inline(always)]
    pub fn is_narrow(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// Bits of the fraction field, and of the whole.
    fn bits(self) -> (u32, u32) {
        match self {
            Self::F16 => (10, 16),
            Self::Bf16 => (7, 16),
            Self::F32 => (23, 32),
            Self::F64 => (52, 64),
        }
    }
}

/// Zones of magnitude with a step each.
pub const ZONES: usize = 4;
/// Significant bits of the step in each zone. With so many more bits as an element has, it counts steps.
const STEP_BITS: [u32; ZONES] = [10, 6, 3, 1];

/// Floats as steps from the start of a zone. Floats are kept as their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uniform<W> {
    /// The format of the elements.
    pub float: Float,
    /// The magnitude with which each zone begins, the first one with 0; infinite if no float is in it.
    pub starts: [W; ZONES],
    /// From one magnitude of a zone to the next.
    pub steps: [W; ZONES],
    /// The floats nearest to 1 / step.
    pub inverses: [W; ZONES],
    /// The codes of the starts; larger than any that counts if no float is in the zone.
    pub firsts: [W; ZONES],
    /// So many steps have no code, as a float. From here on all elements are multiples of the last step.
    pub most: W,
    /// The bound, rounded down to a float.
    pub bound: W,
}

/// Of codes only so many low bits of their magnitude count, so that it is a number in any arithmetic.
pub const SPARE_BITS: u32 = 2;

/// The quantiser of words of one width, in scalar form.
macro_rules! uniform {
    ($word:ty, $signed:ty, $float:ty, $towards_zero:expr, $narrow:expr, $widen:expr) => {
        impl Uniform<$word> {
            /// For a bound above 0; `None` if there are no such steps.
            pub fn new(float: Float, bound: f64) -> Option<Self> {
                let all: $float = $towards_zero(2.0 * bound * (1.0 - STEP_MARGIN));
                let length = (all.to_bits() & ((1 << (<$float>::MANTISSA_DIGITS - 1)) - 1)
                    | <$word>::from(all >= <$float>::MIN_POSITIVE) << (<$float>::MANTISSA_DIGITS - 1))
                    .bit_length();
                let cut = |bits: u32| {
                    let n = length.saturating_sub(bits);
                    <$float>::from_bits(all.to_bits() >> n << n)
                };
                let unit = cut(1);
                if unit == 0.0 || (1.0 / unit).is_infinite() {
                    return None;
                }
                let mut this = Self {
                    float,
                    starts: [0; ZONES],
                    steps: STEP_BITS.map(|bits| cut(bits).to_bits()),
                    inverses: STEP_BITS.map(|bits| (1.0 / cut(bits)).to_bits()),
                    firsts: [0; ZONES],
                    most: (((1 as $word) << (float.bits().0 + 2)) as $float).to_bits(),
                    bound: $towards_zero(bound).to_bits(),
                };
                for k in 1..ZONES {
                    let in_units = (1 as $word) << (float.bits().0 + 1).saturating_sub(STEP_BITS[k - 1]);
                    let start: $float = unit * in_units as $float;
                    this.starts[k] = start.to_bits();
                    this.firsts[k] = if start.is_finite() {
                        this.firsts[k - 1] + this.steps_to(start, k - 1) as $word + 1
                    } else {
                        1 << (<$word>::BITS - SPARE_BITS)
                    };
                }
                Some(this)
            }

            /// The code of an element, whether it has one, and whether that is within the bound.
            #[inline(always)]
            pub fn code(&self, word: $word) -> ($word, bool, bool) {
                let [most, bound] = [self.most, self.bound].map(<$float>::from_bits);
                let x: $float = $widen(self.float, word);
                let size = x.abs();
                let mut k = 0;
                for &start in &self.starts[1..] {
                    k += usize::from(size >= <$float>::from_bits(start));
                }
                let steps = self.steps_to(size, k);
                // It is not if it is no number.
                let is_coded = steps < most;
                if !is_coded {
                    return (0, false, false);
                }
                let size = (steps as $word).wrapping_add(self.firsts[k]);
                let code = if x < 0.0 { size.wrapping_neg() } else { size };
                let error = x - $widen(self.float, self.value(code));
                (code, true, error.abs() <= bound)
            }

            /// The element that a code stands for.
            #[inline(always)]
            pub fn value(&self, code: $word) -> $word {
                let size = (code as $signed).unsigned_abs() & (<$word>::MAX >> SPARE_BITS);
                let mut k = 0;
                for &first in &self.firsts[1..] {
                    k += usize::from(size >= first);
                }
                let [start, step] = [self.starts[k], self.steps[k]].map(<$float>::from_bits);
                let end = self.starts.get(k + 1).map_or(<$float>::INFINITY, |&end| <$float>::from_bits(end));
                let x = ((size - self.firsts[k]) as $float * step + start).min(end);
                $narrow(self.float, if (code as $signed) < 0 { -x } else { x })
            }

            /// The number of steps from the start of zone `k` that a magnitude is nearest to.
            #[inline(always)]
            fn steps_to(&self, size: $float, k: usize) -> $float {
                let [start, step, inverse] =
                    [self.starts[k], self.steps[k], self.inverses[k]].map(<$float>::from_bits);
                let rest = size - start;
                let steps = (rest * inverse).round_ties_even();
                if k == 0 {
                    return steps;
                }
                // Large numbers of steps may be rounded to the next one; all of this is exact.
                let (error, half) = (rest - steps * step, step * 0.5);
                steps + if error > half { 1.0 } else { 0.0 } - if error < -half { 1.0 } else { 0.0 }
            }
        }
    };
}

uniform!(u32, i32, f32, towards_zero, narrow, widen);
uniform!(u64, i64, f64, |x: f64| x.min(f64::MAX), |_, x: f64| x.to_bits(), |_, word| f64::from_bits(word));

/// The largest f32 that is not above a number above 0.
fn towards_zero(x: f64) -> f32 {
    let nearest = (x as f32).min(f32::MAX);
    if f64::from(nearest) > x { nearest.next_down() } else { nearest }
}

/// Steps are less than twice the bound by this part of it: where a number of them is small, it need not be the nearest.
const STEP_MARGIN: f64 = 1.0 / 1024.0;

/// A float, whose bits are those of a word, as an f32.
#[inline(always)]
fn widen(float: Float, word: u32) -> f32 {
    match float {
        Float::F16 => f32::from_bits(half_bits(word)),
        Float::Bf16 => f32::from_bits(word << 16),
        _ => f32::from_bits(word),
    }
}

/// The bits of the f32 that a binary16 float is.
#[inline(always)]
fn half_bits(word: u32) -> u32 {
    let (sign, size) = ((word & 0x8000) << 16, word & 0x7fff);
    sign | match size >> 10 {
        0 => (size as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
        0x1f => 0x7f80_0000 | (size & 0x3ff) << 13,
        _ => (size << 13) + ((127 - 15) << 23),
    }
}

/// The word of the nearest float to an f32, of two equally near ones the even one. The f32 is no NaN.
#[inline(always)]
fn narrow(float: Float, x: f32) -> u32 {
    let bits = x.to_bits();
    let size = bits & 0x7fff_ffff;
    // Half a last place is added, and a bit more where that makes an odd number.
    let shifted = |n: u32| (size + ((1 << (n - 1)) - 1) + (size >> n & 1)) >> n;
    let half = match float {
        Float::F16 if size < (127 - 14) << 23 => (f32::from_bits(size) * 16_777_216.0).round_ties_even() as u32,
        Float::F16 => (shifted(13) - ((127 - 15) << 10)).min(0x7c00),
        Float::Bf16 => shifted(16),
        _ => return bits,
    };
    // The word has the sign above the element.
    half | if x.is_sign_negative() { 0xffff_8000 } else { 0 }
}

/// Integers as multiples of an odd number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// The bound as a whole number: elements become multiples of twice that and one.
    pub bound: u64,
    /// The smallest and the largest element of the type.
    least: i128,
    most: i128,
    /// Bits of a word that is an element without a sign, else 0.
    unsigned_bits: u32,
}

impl Whole {
    /// For elements of a type of integers, and a bound above 0.
    fn new(dtype: DType, bound: f64) -> Self {
        let bits = 8 * dtype.size().map_or(8, u32::from);
        let is_unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
        let (least, most) =
            if is_unsigned { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) };
        let bound = (bound as u64).min(most as u64);
        Self { bound, least, most, unsigned_bits: if is_unsigned && bits >= 32 { bits } else { 0 } }
    }

    /// The number that a word or a code is, which is filled up with its top bit.
    fn number(&self, word: i64) -> i128 {
        match self.unsigned_bits {
            0 => word.into(),
            32 => (word as u32).into(),
            _ => (word as u64).into(),
        }
    }

    /// The code of an element.
    fn code(&self, word: i64) -> i64 {
        let (x, bound) = (self.number(word), i128::from(self.bound));
        match i32::try_from(x) {
            // The same in fewer instructions.
            Ok(x) if self.bound < 1 << 31 => {
                let bound = self.bound as i64;
                (i64::from(x) + bound).div_euclid(2 * bound + 1)
            }
            _ => (x + bound).div_euclid(2 * bound + 1) as i64,
        }
    }

    /// The element that a code stands for.
    fn value(&self, code: i64) -> i64 {
        // What passes i128 passes the type too.
        let value = self.number(code).saturating_mul(2 * i128::from(self.bound) + 1);
        value.clamp(self.least, self.most) as i64
    }
}

/// Floats of which only every so many are used, by their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative {
    /// So many places to either side become one float.
    pub bound: u64,
    /// Bits of the fraction field, and of an element.
    fraction_bits: u32,
    bits: u32,
    /// What the least code above 0 stands for, as a multiple.
    first: u64,
}

impl Relative {
    /// For a bound between 0 and 1.
    fn new(float: Float, bound: f64) -> Self {
        let (fraction_bits, bits) = float.bits();
        // A power of two times the bound is exact.
        let bound = (bound * (1u64 << fraction_bits) as f64) as u64;
        Self { bound, fraction_bits, bits, first: ((1 << fraction_bits) + bound) / (2 * bound + 1) }
    }

    /// The code of an element, of whose bits there may be copies above it.
    fn code(&self, word: u64) -> Option<i64> {
        let sign = word >> (self.bits - 1) & 1;
        let place = word & u64::low_mask(self.bits - 1);
        let infinity = u64::low_mask(self.bits - 1 - self.fraction_bits) << self.fraction_bits;
        if place == 0 && sign == 0 {
            return Some(0);
        }
        if place >> self.fraction_bits == 0 || place >= infinity {
            return None;
        }
        let multiple = (place + self.bound) / (2 * self.bound + 1);
        let size = (multiple - self.first + 1) as i64;
        (multiple * (2 * self.bound + 1) < infinity).then_some(if sign == 1 { -size } else { size })
    }

    /// The element that a code stands for, with its top bit above it.
    fn value(&self, code: i64) -> u64 {
        if code == 0 {
            return 0;
        }
        let multiple = code.unsigned_abs().wrapping_add(self.first).wrapping_sub(1);
        let place = multiple.wrapping_mul(2 * self.bound + 1) & u64::low_mask(self.bits - 1);
        place | if code < 0 { !u64::low_mask(self.bits - 1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::level::Level;
    use crate::stage::rows::{Portable, RowWord, Task, at_level};

    /// Codes and values of rows of words: the codes, the lanes, and the words that come back.
    struct There<'a, W> {
        quantiser: &'a Quantiser<W>,
        words: &'a [W],
    }

    #[derive(Debug, PartialEq)]
    struct Seen<W> {
        codes: Vec<W>,
        are_coded: Vec<u32>,
        are_within: Vec<u32>,
        values: Vec<W>,
    }

    impl<W: Word> Task<W> for There<'_, W> {
        type Output = Seen<W>;

        fn run<S: Rows<W>>(self, s: S) -> Seen<W> {
            let n = self.words.len();
            let mut seen = Seen {
                codes: vec![W::default(); n],
                are_coded: vec![],
                are_within: vec![],
                values: vec![W::default(); n],
            };
            for at in (0..n).step_by(LANES) {
                let coded = self.quantiser.code(s, s.load(&self.words[at..]));
                s.store(coded.codes, &mut seen.codes[at..]);
                seen.are_coded.push(coded.are_coded);
                seen.are_within.push(coded.are_within);
                s.store(self.quantiser.value(s, coded.codes), &mut seen.values[at..]);
            }
            seen
        }
    }

    /// What is seen of words, on every level alike.
    fn see<W: RowWord + std::fmt::Debug>(quantiser: &Quantiser<W>, words: &[W]) -> Seen<W> {
        let seen = There { quantiser, words }.run(Portable);
        for level in Level::all() {
            assert!(at_level(level, There { quantiser, words }) == seen, "{level:?} {quantiser:?}");
        }
        seen
    }

    impl<W> Seen<W> {
        fn is_coded(&self, i: usize) -> bool {
            self.are_coded[i / LANES] >> (i % LANES) & 1 == 1
        }

        fn is_within(&self, i: usize) -> bool {
            self.are_within[i / LANES] >> (i % LANES) & 1 == 1
        }
    }

    fn noise(i: u64) -> u64 {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
    }

    const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];
    const WHOLE: [DType; 8] =
        [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];

    /// A float of a type as a number, by another way than the quantiser's.
    fn number(dtype: DType, word: u64) -> f64 {
        let (fraction_bits, bits) = Float::of(dtype).unwrap().bits();
        let exponent_bits = bits - 1 - fraction_bits;
        let (exponent, fraction) =
            (word >> fraction_bits & u64::low_mask(exponent_bits), word & u64::low_mask(fraction_bits));
        let bias = (1 << (exponent_bits - 1)) - 1;
        let scale =
            |n: i64| if n < -1000 { 2f64.powi(n as i32 + 200) * 2f64.powi(-200) } else { 2f64.powi(n as i32) };
        let size = match exponent {
            0 => fraction as f64 * scale(1 - bias - i64::from(fraction_bits)),
            _ if exponent == u64::low_mask(exponent_bits) => {
                if fraction == 0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            _ => (1.0 + fraction as f64 / (1u64 << fraction_bits) as f64) * scale(exponent as i64 - bias),
        };
        if word >> (bits - 1) & 1 == 1 { -size } else { size }
    }

    /// Whether |a − b| is at most a bound, exactly.
    fn is_near(a: f64, b: f64, bound: f64) -> bool {
        let difference = a - b;
        let b_part = a - difference;
        let rest = (a - (difference + b_part)) + (b_part - b);
        let (size, rest) = if difference < 0.0 { (-difference, -rest) } else { (difference, rest) };
        size < bound || size == bound && rest <= 0.0
    }

    /// Words of a type: its special ones, those near multiples of a bound, and any.
    fn words_of<W: Word>(dtype: DType, bound: f64, n: u64) -> Vec<W> {
        let bits = 8 * dtype.size().unwrap();
        let extend = |x: u64| {
            let is_signed = !matches!(dtype, DType::U8 | DType::U16);
            let unused = 64 - bits;
            W::from_u64(if is_signed { ((x << unused) as i64 >> unused) as u64 } else { x << unused >> unused })
        };
        let mut words: Vec<W> = (0..n).map(|i| extend(noise(i) >> (noise(i ^ 99) % 64))).collect();
        words.extend((0..n).map(|i| extend(noise(i + n))));
        for i in 0..n {
            let near = bound * (noise(i + 2 * n) >> (noise(i) % 60)) as f64 * 0.5;
            let float = match dtype {
                DType::F32 => u64::from((near as f32).to_bits()),
                DType::F64 => near.to_bits(),
                DType::Bf16 => u64::from((near as f32).to_bits() >> 16),
                DType::F16 => u64::from(narrow(Float::F16, near as f32)),
                _ => near as u64,
            };
            words.push(extend(float ^ (noise(i) & 1) << (bits - 1)));
        }
        for x in [0, 1, 2, 3, u64::MAX, 1 << (bits - 1), u64::low_mask(bits - 1), (1 << (bits - 1)) + 1] {
            words.push(extend(x));
        }
        words.resize(words.len().next_multiple_of(LANES), W::default());
        words
    }

    /// Codes keep the bound, and what they stand for has them again.
    fn keeps_its_bound<W: RowWord + std::fmt::Debug>(dtype: DType, bound: f64, words: &[W]) -> usize {
        let Some(quantiser) = Quantiser::absolute(dtype, bound) else { return 0 };
        let seen = see(&quantiser, words);
        let again = see(&quantiser, &seen.values);
        let mut n_within = 0;
        for (i, &word) in words.iter().enumerate() {
            assert!(!seen.is_within(i) || seen.is_coded(i));
            if !seen.is_within(i) {
                continue;
            }
            n_within += 1;
            let value = seen.values[i];
            let is_kept = match Float::of(dtype) {
                Some(_) => is_near(number(dtype, word.to_u64()), number(dtype, value.to_u64()), bound),
                None => {
                    let whole = Whole::new(dtype, bound);
                    let [x, y] = [word, value].map(|word| whole.number(word.to_i64()));
                    (whole.least..=whole.most).contains(&y) && x.abs_diff(y) <= bound as u128
                }
            };
            assert!(is_kept, "{dtype:?} {bound:e} {word:x?} {value:x?}");
            assert!(again.is_within(i), "{dtype:?} {bound:e} {word:x?} {value:x?}");
            assert_eq!(again.values[i], value, "{dtype:?} {bound:e} {word:x?}");
        }
        n_within
    }

    #[test]
    fn bounds_are_kept_and_nothing_drifts() {
        for exponent in -330..310 {
            for digit in [1.0, 1.9, 2.0 - 1.0 / 512.0, 3.0, 7.7] {
                let bound: f64 = format!("{digit}e{exponent}").parse().unwrap();
                if bound == 0.0 || bound.is_infinite() {
                    continue;
                }
                for dtype in FLOATS {
                    match dtype {
                        DType::F64 => keeps_its_bound::<u64>(dtype, bound, &words_of(dtype, bound, 20)),
                        _ => keeps_its_bound::<u32>(dtype, bound, &words_of(dtype, bound, 20)),
                    };
                }
                for dtype in WHOLE {
                    if (-1..21).contains(&exponent) {
                        match dtype {
                            DType::U64 | DType::I64 => {
                                keeps_its_bound::<u64>(dtype, bound, &words_of(dtype, bound, 20))
                            }
                            _ => keeps_its_bound::<u32>(dtype, bound, &words_of(dtype, bound, 20)),
                        };
                    }
                }
            }
        }
    }

    /// Every float of two bytes, and all integers of one and two, at bounds of all kinds.
    #[test]
    fn all_narrow_elements_keep_their_bounds() {
        let words: Vec<u32> = (0..1u32 << 16).collect();
        let signed: Vec<u32> = words.iter().map(|&word| word as u16 as i16 as u32).collect();
        for i in 0..60u64 {
            let bound = 2f64.powi(i as i32 - 30) * (1.0 + (noise(i) % 1000) as f64 / 1000.0);
            for dtype in [DType::F16, DType::Bf16] {
                // Of elements that are larger there are fewer than steps.
                let most = bound * if dtype == DType::F16 { 2048.0 } else { 256.0 };
                let small: Vec<u32> =
                    signed.iter().copied().filter(|&word| number(dtype, word.into()).abs() < most).collect();
                let mut padded = small.clone();
                padded.resize(small.len().next_multiple_of(LANES), 0);
                let within = keeps_its_bound(dtype, bound, &padded);
                keeps_its_bound(dtype, bound, &signed);
                // Subnormal ones are not as exact as their bound, and the largest may become too large.
                assert!(
                    within * 100 > small.len() * 99 || !(1e-6..1e4).contains(&bound),
                    "{dtype:?} {bound}: {within} of {}",
                    small.len()
                );
            }
            assert_eq!(keeps_its_bound(DType::U16, bound, &words), words.len());
            assert_eq!(keeps_its_bound(DType::I16, bound, &signed), words.len());
            assert_eq!(keeps_its_bound(DType::U8, bound, &words[..256]), 256);
        }
    }

    /// Words of f32 from one on in so many steps.
    fn patterns(quantiser: &Quantiser<u32>, bound: f64, first: u64, step: u64) -> u64 {
        let mut exact = 0;
        let words: Vec<u32> = (first..1 << 32).step_by(step as usize).map(|word| word as u32).collect();
        for words in words.chunks(1 << 12) {
            let mut words = words.to_vec();
            words.resize(words.len().next_multiple_of(LANES), 0);
            let seen = see(quantiser, &words);
            let again = see(quantiser, &seen.values);
            for (i, &word) in words.iter().enumerate() {
                let (x, y) = (f32::from_bits(word), f32::from_bits(seen.values[i]));
                if seen.is_within(i) {
                    assert!((f64::from(x) - f64::from(y)).abs() <= bound, "{bound:e} {word:x}");
                    assert!(again.is_within(i) && again.values[i] == seen.values[i], "{bound:e} {word:x}");
                } else if x.is_finite() {
                    exact += 1;
                }
            }
        }
        exact
    }

    const BOUNDS: [f64; 5] = [1e-30, 1e-3, 0.1 + 1e-17, 12345.678, 3e33];

    #[test]
    fn patterns_of_f32_keep_their_bounds() {
        for bound in BOUNDS {
            let quantiser = Quantiser::absolute(DType::F32, bound).unwrap();
            patterns(&quantiser, bound, noise(bound.to_bits()) % 4096, 4099);
        }
    }

    /// All of them: some minutes for each bound.
    #[test]
    #[ignore = "takes long; for releases"]
    fn every_pattern_of_f32_keeps_its_bounds() {
        std::thread::scope(|scope| {
            for bound in BOUNDS {
                scope.spawn(move || {
                    let quantiser = Quantiser::absolute(DType::F32, bound).unwrap();
                    let exact: u64 = (0..256).map(|i| patterns(&quantiser, bound, i, 256)).sum();
                    println!("{bound:e}: {exact} finite floats are kept exactly");
                });
            }
        });
    }

    /// Elements of moderate size need no exceptions.
    #[test]
    fn floats_have_codes_within_the_bound() {
        for dtype in [DType::F32, DType::F64] {
            for i in 0..2000u64 {
                let bound = 1.0 + (noise(i) % 4096) as f64 / 4096.0;
                let words: Vec<u64> = (0..LANES as u64)
                    .map(|lane| {
                        let x = (noise(i * 64 + lane) >> 40 >> (noise(lane) % 24)) as f64
                            + (noise(lane) % 999) as f64 / 1e3;
                        if dtype == DType::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() }
                    })
                    .collect();
                let n = if dtype == DType::F32 {
                    keeps_its_bound(dtype, bound, &words.iter().map(|&x| x as u32).collect::<Vec<_>>())
                } else {
                    keeps_its_bound(dtype, bound, &words)
                };
                assert!(n + 1 >= LANES, "{dtype:?} {bound} {n} of {LANES}");
            }
        }
    }

    #[test]
    fn relative_bounds_are_kept() {
        for dtype in FLOATS {
            let float = Float::of(dtype).unwrap();
            let (fraction_bits, bits) = float.bits();
            for i in 0..300u64 {
                let bound = (noise(i) >> 11) as f64 / (1u64 << 53) as f64 * 2f64.powi(-((i % 50) as i32));
                let relative = Relative::new(float, bound);
                for word in words_of::<u64>(dtype, 1e-3, 20) {
                    let place = word & u64::low_mask(bits - 1);
                    let is_normal = place >> fraction_bits > 0
                        && place < u64::low_mask(bits - 1 - fraction_bits) << fraction_bits;
                    let Some(code) = relative.code(word) else {
                        assert!(!is_normal || place as f64 * (1.0 + bound) > u64::low_mask(bits - 2) as f64);
                        continue;
                    };
                    let value = relative.value(code);
                    // What became subnormal has no code any more, and stays as it is.
                    let again = relative.code(value).unwrap_or(code);
                    assert_eq!(again, code, "{dtype:?} {bound} {word:x}");
                    if code == 0 {
                        assert_eq!((word, value), (0, 0));
                        continue;
                    }
                    let [x, y] = [word, value].map(|word| number(dtype, word));
                    if x.abs() > 1e-250 {
                        // The product and what was rounded off.
                        let (error, product) = ((x - y).abs(), bound * x.abs());
                        let rest = bound.mul_add(x.abs(), -product);
                        let is_kept = error < product || error == product && rest >= 0.0;
                        assert!((x < 0.0) == (y < 0.0) && is_kept, "{dtype:?} {bound} {x:e} {y:e}");
                    }
                }
            }
        }
    }
}
