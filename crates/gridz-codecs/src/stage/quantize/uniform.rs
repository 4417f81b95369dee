//! Floats as multiples of a step of nearly twice the bound.

use super::{Float, lanes_set};
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Number of zones of magnitude, each with its own step.
pub const ZONES: usize = 4;
/// Significant bits of the step in each zone. The other bits of an element's precision count steps.
const STEP_BITS: [u32; ZONES] = [10, 6, 3, 1];

/// Quantizes floats to steps from the start of a zone. Here, floats are stored as their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uniform<W> {
    /// The format of the elements.
    pub float: Float,
    /// The magnitude at which each zone starts; the first one starts at 0. Infinite if no float is
    /// in the zone.
    pub starts: [W; ZONES],
    /// The step from one magnitude of a zone to the next.
    pub steps: [W; ZONES],
    /// The floats nearest to 1 / step.
    pub inverses: [W; ZONES],
    /// The codes of the starts. If no float is in the zone, it is larger than any valid code.
    pub firsts: [W; ZONES],
    /// From this number of steps on, as a float, there is no code: all larger elements are
    /// multiples of the last step.
    pub most: W,
    /// The bound, rounded down to a float.
    pub bound: W,
}

/// This many top bits of a code's magnitude are ignored, so that it is a valid number in any
/// arithmetic.
pub const SPARE_BITS: u32 = 2;

/// The quantizer of words of one width.
macro_rules! uniform {
    (
        $module:ident, $word:ty, $signed:ty, $float:ty, $towards_zero:expr, $number:expr,
        $widen:path, $narrow:path, $round:path
    ) => {
        mod $module {
            use super::*;

            impl Uniform<$word> {
                /// For a bound above 0; `None` if such steps do not exist.
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
                            this.firsts[k - 1] + this.zone(k - 1).steps_to(start) as $word + 1
                        } else {
                            1 << (<$word>::BITS - SPARE_BITS)
                        };
                    }
                    Some(this)
                }

                /// Converts elements to codes; returns the lanes that have one, and those that come
                /// back within the bound.
                #[inline(always)]
                pub fn quantize(&self, lanes: &mut [$word; LANES]) -> (u32, u32) {
                    let (most, bound) = (<$float>::from_bits(self.most), <$float>::from_bits(self.bound));
                    let mut x = [0.0; LANES];
                    $widen(self.float, lanes, &mut x);
                    let (mut values, mut are_coded) = ([0.0; LANES], [0; LANES]);
                    let mut i = 0;
                    while i < LANES {
                        let size = x[i].abs();
                        let mut zone = self.zone(0);
                        let mut k = 1;
                        while k < ZONES {
                            let next = self.zone(k);
                            zone = if size >= next.start { next } else { zone };
                            k += 1;
                        }
                        let steps = zone.steps_to(size);
                        // False for NaN.
                        let is_coded = steps < most;
                        let code = counted(steps).wrapping_add(zone.first);
                        let code = if x[i] < 0.0 { code.wrapping_neg() } else { code };
                        lanes[i] = if is_coded { code } else { 0 };
                        are_coded[i] = <$word>::from(is_coded);
                        values[i] = zone.value(steps);
                        i += 1;
                    }
                    $round(self.float, &mut values);
                    let mut are_within = are_coded;
                    let mut some_are_not = 0;
                    i = 0;
                    while i < LANES {
                        are_within[i] &= <$word>::from((x[i].abs() - values[i]).abs() <= bound);
                        some_are_not |= are_within[i] ^ 1;
                        i += 1;
                    }
                    if some_are_not == 0 {
                        return (u32::MAX, u32::MAX);
                    }
                    (lanes_set(&are_coded), lanes_set(&are_within))
                }

                /// The result of [`Uniform::quantize`] if all elements are as wide as a word, are
                /// in the first zone and are decoded within the bound.
                #[inline(always)]
                pub fn first_codes(&self, lanes: &[$word; LANES]) -> Option<[$word; LANES]> {
                    if self.float.is_narrow() {
                        return None;
                    }
                    let Zone { inverse, step, end, .. } = self.zone(0);
                    let bound = <$float>::from_bits(self.bound);
                    let mut codes = [0; LANES];
                    let mut some_are_not = 0;
                    let mut i = 0;
                    while i < LANES {
                        let sign = (lanes[i] as $signed >> (<$word>::BITS - 1)) as $word;
                        let size = <$float>::from_bits(lanes[i]).abs();
                        let sum = size * inverse + WHOLE;
                        let value = lesser((sum - WHOLE) * step, end);
                        let is_within = (size < end) & ((size - value).abs() <= bound);
                        some_are_not |= <$word>::from(!is_within);
                        let code = sum.to_bits().wrapping_sub(WHOLE.to_bits());
                        codes[i] = (code ^ sign).wrapping_sub(sign);
                        i += 1;
                    }
                    (some_are_not == 0).then_some(codes)
                }

                /// Converts codes to elements.
                #[inline(always)]
                pub fn dequantize(&self, lanes: &mut [$word; LANES]) {
                    let mut values = [0.0; LANES];
                    let mut i = 0;
                    while i < LANES {
                        let sign = (lanes[i] as $signed >> (<$word>::BITS - 1)) as $word;
                        let size = (lanes[i] ^ sign).wrapping_sub(sign) & (<$word>::MAX >> SPARE_BITS);
                        let mut zone = self.zone(0);
                        let mut k = 1;
                        while k < ZONES {
                            let next = self.zone(k);
                            zone = if size >= next.first { next } else { zone };
                            k += 1;
                        }
                        let value = zone.value($number(size.wrapping_sub(zone.first)));
                        values[i] = <$float>::from_bits(value.to_bits() | sign & (1 << (<$word>::BITS - 1)));
                        i += 1;
                    }
                    $narrow(self.float, &values, lanes);
                }

                /// The result of [`Uniform::dequantize`] if all elements are as wide as a word and
                /// all codes are in the first zone.
                #[inline(always)]
                pub fn first_values(&self, lanes: &[$word; LANES]) -> Option<[$word; LANES]> {
                    if self.float.is_narrow() {
                        return None;
                    }
                    let Zone { step, end, .. } = self.zone(0);
                    // The bits of 2^n combined by OR with a smaller integer are the bits of their
                    // sum.
                    let limit = self.firsts[1].min(1 << (<$float>::MANTISSA_DIGITS - 1));
                    let mut values = [0; LANES];
                    let mut some_are_not = 0;
                    let mut i = 0;
                    while i < LANES {
                        let sign = (lanes[i] as $signed >> (<$word>::BITS - 1)) as $word;
                        let size = (lanes[i] ^ sign).wrapping_sub(sign);
                        some_are_not |= <$word>::from(size >= limit);
                        let steps = <$float>::from_bits(size | WHOLE.to_bits()) - WHOLE;
                        let value = lesser(steps * step, end);
                        values[i] = value.to_bits() | sign & (1 << (<$word>::BITS - 1));
                        i += 1;
                    }
                    (some_are_not == 0).then_some(values)
                }

                /// A zone as numbers.
                #[inline(always)]
                fn zone(&self, k: usize) -> Zone {
                    let end = if k + 1 < ZONES { <$float>::from_bits(self.starts[k + 1]) } else { <$float>::INFINITY };
                    Zone {
                        start: <$float>::from_bits(self.starts[k]),
                        end,
                        step: <$float>::from_bits(self.steps[k]),
                        inverse: <$float>::from_bits(self.inverses[k]),
                        first: self.firsts[k],
                    }
                }
            }

            /// A zone of magnitudes.
            #[derive(Clone, Copy)]
            struct Zone {
                start: $float,
                /// The start of the next one.
                end: $float,
                step: $float,
                inverse: $float,
                /// The code of the start.
                first: $word,
            }

            impl Zone {
                /// The number of steps from the start that is nearest to a magnitude.
                #[inline(always)]
                fn steps_to(&self, size: $float) -> $float {
                    let rest = size - self.start;
                    let product = rest * self.inverse;
                    // Larger floats are integers already.
                    let steps = if product < WHOLE { product + WHOLE - WHOLE } else { product };
                    // A large number of steps may be off by one; all of this is exact. It does not
                    // happen in the first zone.
                    let (error, half) = (rest - steps * self.step, self.step * 0.5);
                    let half = if self.start > 0.0 { half } else { <$float>::INFINITY };
                    steps + if error > half { 1.0 } else { 0.0 } - if error < -half { 1.0 } else { 0.0 }
                }

                /// The magnitude that is this number of steps from the start.
                #[inline(always)]
                fn value(&self, steps: $float) -> $float {
                    lesser(steps * self.step + self.start, self.end)
                }
            }

            /// From here on, all floats are integers; up to twice this, all integers are floats.
            const WHOLE: $float = (1 as $word << (<$float>::MANTISSA_DIGITS - 1)) as $float;

            /// Converts an integer below four times [`WHOLE`], without a conversion instruction,
            /// which may not exist.
            #[inline(always)]
            fn counted(x: $float) -> $word {
                let fraction = (1 << (<$float>::MANTISSA_DIGITS - 1)) - 1;
                let large = x.to_bits() & fraction | fraction + 1;
                let small = (x + WHOLE).to_bits() & fraction;
                let large = if x < 2.0 * WHOLE { large } else { large << 1 };
                if x < WHOLE { small } else { large }
            }

            /// The lesser of two numbers; the second one if either is NaN.
            #[inline(always)]
            fn lesser(a: $float, b: $float) -> $float {
                if a < b { a } else { b }
            }
        }
    };
}

uniform!(words_of_32, u32, i32, f32, towards_zero, |n: u32| n as i32 as f32, widen_row, narrow_row, round_row);
uniform!(words_of_64, u64, i64, f64, |x: f64| x.min(f64::MAX), |n: u64| n as f64, from_bits, to_bits, as_they_are);

/// The numbers of a row of elements of 64 bits.
#[inline(always)]
fn from_bits(_: Float, words: &[u64; LANES], x: &mut [f64; LANES]) {
    let mut i = 0;
    while i < LANES {
        x[i] = f64::from_bits(words[i]);
        i += 1;
    }
}

/// The inverse of [`from_bits`].
#[inline(always)]
fn to_bits(_: Float, x: &[f64; LANES], words: &mut [u64; LANES]) {
    let mut i = 0;
    while i < LANES {
        words[i] = x[i].to_bits();
        i += 1;
    }
}

/// These numbers need not be rounded.
#[inline(always)]
fn as_they_are(_: Float, _: &mut [f64; LANES]) {}

/// The numbers of a row of elements of up to 32 bits.
#[inline(always)]
fn widen_row(float: Float, words: &[u32; LANES], x: &mut [f32; LANES]) {
    let mut i = 0;
    match float {
        Float::F16 => {
            while i < LANES {
                x[i] = f32::from_bits(half_bits(words[i]));
                i += 1;
            }
        }
        Float::Bf16 => {
            while i < LANES {
                x[i] = f32::from_bits(words[i] << 16);
                i += 1;
            }
        }
        _ => {
            while i < LANES {
                x[i] = f32::from_bits(words[i]);
                i += 1;
            }
        }
    }
}

/// The elements nearest to numbers that are not NaN; ties go to the even one.
#[inline(always)]
fn narrow_row(float: Float, x: &[f32; LANES], words: &mut [u32; LANES]) {
    let mut i = 0;
    match float {
        Float::F16 => {
            while i < LANES {
                words[i] = narrow_half(x[i].to_bits());
                i += 1;
            }
        }
        Float::Bf16 => {
            while i < LANES {
                words[i] = narrow_upper(x[i].to_bits());
                i += 1;
            }
        }
        _ => {
            while i < LANES {
                words[i] = x[i].to_bits();
                i += 1;
            }
        }
    }
}

/// Rounds numbers to those of a format.
#[inline(always)]
fn round_row(float: Float, x: &mut [f32; LANES]) {
    if float.is_narrow() {
        let mut words = [0; LANES];
        narrow_row(float, x, &mut words);
        widen_row(float, &words, x);
    }
}

/// Converts a word to an f32.
pub fn widen(float: Float, word: u32) -> f32 {
    let mut x = [0.0; LANES];
    widen_row(float, &[word; LANES], &mut x);
    x[0]
}

/// The largest f32 that is not above a number above 0.
fn towards_zero(x: f64) -> f32 {
    let nearest = (x as f32).min(f32::MAX);
    if f64::from(nearest) > x { nearest.next_down() } else { nearest }
}

/// Steps are less than twice the bound by this fraction of it. So a small number of steps need not
/// be the nearest one.
const STEP_MARGIN: f64 = 1.0 / 1024.0;

/// Converts the bits of a binary16 float to those of an f32.
#[inline(always)]
fn half_bits(word: u32) -> u32 {
    let (sign, size) = ((word & 0x8000) << 16, word & 0x7fff);
    let subnormal = (size as i32 as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
    let normal = (size << 13) + ((127 - 15) << 23);
    let infinite = size << 13 | 0x7f80_0000;
    let finite = if size < 1 << 10 { subnormal } else { normal };
    sign | if size < 0x1f << 10 { finite } else { infinite }
}

/// Shifts the bits of an f32 without the sign to the right, and rounds to nearest, ties to even. It
/// adds half a last place less one bit, and that bit, too, if the truncated result is odd.
#[inline(always)]
fn rounded_bits(size: u32, n: u32) -> u32 {
    (size + ((1 << (n - 1)) - 1) + (size >> n & 1)) >> n
}

/// The sign of an f32, in all bits from the sign bit of a narrow float on.
#[inline(always)]
fn narrow_sign(bits: u32) -> u32 {
    (bits as i32 >> 16) as u32 & 0xffff_8000
}

/// The word of the binary16 float that is nearest to an f32.
#[inline(always)]
pub fn narrow_half(bits: u32) -> u32 {
    let size = bits & 0x7fff_ffff;
    // Adding 2^23 rounds to an integer.
    let subnormal = (f32::from_bits(size) * 16_777_216.0 + 8_388_608.0).to_bits() & 0x7f_ffff;
    let normal = rounded_bits(size, 13).wrapping_sub((127 - 15) << 10).min(0x1f << 10);
    narrow_sign(bits) | if size < (127 - 14) << 23 { subnormal } else { normal }
}

/// The word of the bf16 float that is nearest to an f32.
#[inline(always)]
fn narrow_upper(bits: u32) -> u32 {
    narrow_sign(bits) | rounded_bits(bits & 0x7fff_ffff, 16)
}
