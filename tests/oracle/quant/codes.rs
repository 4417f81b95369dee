//! Codes of elements, and the elements that codes stand for. Words and codes are in two's complement
//! in i64.

use gridz::DType;
use gridz_codecs::codec::mode::Mode;

use crate::lorenzo::wrap;

/// The code of an element, and whether the decoded element is within the bound.
#[derive(Clone, Copy)]
pub struct Code {
    pub k: i64,
    pub is_within: bool,
}

pub enum Codes {
    None,
    Zones(Zones),
    Steps(Steps),
    Patterns(Patterns),
}

impl Codes {
    pub fn new(dtype: DType, mode: Mode, bound: f64) -> Self {
        match (Float::of(dtype), mode) {
            (Some(float), Mode::Pwrel) => Codes::Patterns(Patterns::new(float, bound)),
            _ if bound == 0.0 => Codes::None,
            (Some(float), _) => Zones::new(float, bound).map_or(Codes::None, Codes::Zones),
            (None, _) => Codes::Steps(Steps::new(dtype, bound)),
        }
    }

    pub fn code(&self, word: i64) -> Option<Code> {
        match self {
            Codes::None => None,
            Codes::Zones(zones) => zones.code(word),
            Codes::Steps(steps) => Some(Code { k: steps.code(word), is_within: true }),
            Codes::Patterns(patterns) => Some(Code { k: patterns.code(word)?, is_within: true }),
        }
    }

    /// The word that a code stands for.
    pub fn stands_for(&self, k: i64) -> i64 {
        match self {
            Codes::None => unreachable!("there are no codes"),
            Codes::Zones(zones) => zones.float.word(zones.stands_for(k)),
            Codes::Steps(steps) => steps.stands_for(k),
            Codes::Patterns(patterns) => patterns.stands_for(k),
        }
    }
}

/// A floating-point type.
#[derive(Clone, Copy)]
pub struct Float {
    dtype: DType,
    /// M + 1 of SPEC.md.
    p: u32,
    bits: u32,
}

impl Float {
    pub fn of(dtype: DType) -> Option<Self> {
        let (p, bits) = match dtype {
            DType::F16 => (11, 16),
            DType::Bf16 => (8, 16),
            DType::F32 => (24, 32),
            DType::F64 => (53, 64),
            _ => return None,
        };
        Some(Self { dtype, p, bits })
    }

    /// The value of a word.
    pub fn value(self, word: i64) -> f64 {
        match self.dtype {
            DType::F64 => f64::from_bits(word as u64),
            DType::F32 => f32::from_bits(word as u32).into(),
            DType::Bf16 => f32::from_bits((word as u32) << 16).into(),
            _ => {
                let (field, fraction) = (word >> 10 & 31, (word & 1023) as f64);
                let size = match field {
                    31 if fraction > 0.0 => f64::NAN,
                    31 => f64::INFINITY,
                    0 => fraction * 2f64.powi(-24),
                    _ => (1024.0 + fraction) * 2f64.powi(field as i32 - 25),
                };
                if word < 0 { -size } else { size }
            }
        }
    }

    /// The word of an arithmetic result, rounded to the type.
    fn word(self, value: f64) -> i64 {
        let bits = match self.dtype {
            DType::F64 => value.to_bits() as i64,
            DType::F32 => i64::from((value as f32).to_bits()),
            DType::Bf16 => {
                let bits = i64::from((value as f32).to_bits());
                let (high, low) = (bits >> 16, bits & 0xffff);
                if low > 0x8000 || low == 0x8000 && high & 1 == 1 { high + 1 } else { high }
            }
            _ => {
                let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
                let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-14);
                let in_units = (value.abs() * 2f64.powi(10 - exponent.min(1000))).round_ties_even();
                let size =
                    if value.abs() >= 65520.0 { 0x7c00 } else { ((exponent as i64 + 14) << 10) + in_units as i64 };
                sign | size
            }
        };
        wrap(bits, self.bits)
    }

    /// Rounds a result to this type. An operation on two binary32 numbers that is computed in
    /// binary64 and then rounded to binary32 gives the correctly rounded result.
    fn rounded(self, result: f64) -> f64 {
        if self.dtype == DType::F64 { result } else { f64::from(result as f32) }
    }

    /// W of SPEC.md.
    fn word_bits(self) -> u32 {
        self.bits.max(32)
    }
}

/// Codes of floats in modes 1 and 2.
pub struct Zones {
    float: Float,
    bound: f64,
    s: [f64; 4],
    t: [f64; 5],
    f: [u64; 4],
}

impl Zones {
    /// `None` if there are no codes.
    fn new(float: Float, bound: f64) -> Option<Self> {
        let largest = if float.dtype == DType::F64 { f64::MAX } else { f32::MAX.into() };
        let s0 = cut((2.0 * bound * (1.0 - 2f64.powi(-10))).min(largest), 10);
        let s = [s0, cut(s0, 6), cut(s0, 3), cut(s0, 1)].map(|s| float.rounded(s));
        let g = s[3];
        if s[0] == 0.0 || float.rounded(1.0 / g).is_infinite() {
            return None;
        }
        let p = float.p as i32;
        let times = |exponent: i32| float.rounded(g * 2f64.powi(exponent));
        let t = [0.0, times((p - 10).max(0)), times(p - 6), times(p - 3), f64::INFINITY];
        let mut zones = Self { float, bound: rounded_down(float, bound), s, t, f: [0; 4] };
        for j in 0..3 {
            let end = t[j + 1];
            zones.f[j + 1] = if end.is_infinite() {
                1 << (float.word_bits() - 2)
            } else {
                zones.f[j] + zones.number(j, end) as u64 + 1
            };
        }
        Some(zones)
    }

    /// index(j, v) of SPEC.md.
    fn number(&self, j: usize, a: f64) -> f64 {
        let rounded = |result| self.float.rounded(result);
        let s = self.s[j];
        let r = rounded(a - self.t[j]);
        let n = rounded(r * rounded(1.0 / s)).round_ties_even();
        let rest = rounded(r - rounded(n * s));
        match j {
            1.. if rest > rounded(s / 2.0) => n + 1.0,
            1.. if rest < -rounded(s / 2.0) => n - 1.0,
            _ => n,
        }
    }

    fn code(&self, word: i64) -> Option<Code> {
        let x = self.float.value(word);
        if x.is_nan() {
            return None;
        }
        let j = (0..4).rev().find(|&j| self.t[j] <= x.abs()).unwrap();
        let a = self.number(j, x.abs());
        // For an infinity, a is NaN.
        if a.is_nan() || a >= 2f64.powi(self.float.p as i32 + 1) {
            return None;
        }
        let k = a as i64 + self.f[j] as i64;
        let k = if x.is_sign_negative() { -k } else { k };
        let y = self.float.value(self.float.word(self.stands_for(k)));
        Some(Code { k, is_within: self.float.rounded(x - y).abs() <= self.bound })
    }

    fn stands_for(&self, k: i64) -> f64 {
        let rounded = |result| self.float.rounded(result);
        let n = k.unsigned_abs() & ((1 << (self.float.word_bits() - 2)) - 1);
        let j = (0..4).rev().find(|&j| self.f[j] <= n).unwrap();
        let number = n - self.f[j];
        // A conversion with a single rounding.
        let number = if self.float.dtype == DType::F64 { number as f64 } else { f64::from(number as f32) };
        let size = rounded(rounded(number * self.s[j]) + self.t[j]).min(self.t[j + 1]);
        if k < 0 { -size } else { size }
    }
}

/// x, which is not negative, truncated to at most n significant bits.
fn cut(x: f64, n: u32) -> f64 {
    let mut power = 2f64.powi(1023);
    while power > x {
        power /= 2.0;
    }
    let mut sum = 0.0;
    for _ in 0..n {
        if sum + power <= x {
            sum += power;
        }
        power /= 2.0;
    }
    sum
}

/// The bound rounded down to the type of the arithmetic.
fn rounded_down(float: Float, bound: f64) -> f64 {
    if float.dtype == DType::F64 {
        return bound;
    }
    let nearest = bound as f32;
    f64::from(if f64::from(nearest) > bound { nearest.next_down() } else { nearest })
}

/// Codes of integers in modes 1 and 2.
pub struct Steps {
    f: i128,
    least: i128,
    largest: i128,
    bits: u32,
    is_word_unsigned: bool,
}

impl Steps {
    fn new(dtype: DType, bound: f64) -> Self {
        let bits = 8 * dtype.size().unwrap();
        let is_unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
        let (least, largest) = if is_unsigned {
            (0, (1i128 << bits) - 1)
        } else {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        };
        let f = (bound as i128).min(largest);
        Self { f, least, largest, bits, is_word_unsigned: matches!(dtype, DType::U32 | DType::U64) }
    }

    /// The integer value of a word or code.
    fn number(&self, word: i64) -> i128 {
        let word = i128::from(word);
        if self.is_word_unsigned { word & ((1 << self.bits) - 1) } else { word }
    }

    fn code(&self, word: i64) -> i64 {
        let k = (self.number(word) + self.f).div_euclid(2 * self.f + 1) as i64;
        wrap(k, self.bits.max(32))
    }

    fn stands_for(&self, k: i64) -> i64 {
        let nearest = (self.number(k) * (2 * self.f + 1)).clamp(self.least, self.largest) as i64;
        // Words of narrow unsigned elements have no sign.
        if self.bits < 32 { nearest } else { wrap(nearest, self.bits) }
    }
}

/// Codes in mode 5.
pub struct Patterns {
    float: Float,
    h: u64,
    q0: u64,
}

impl Patterns {
    fn new(float: Float, bound: f64) -> Self {
        let m = float.p - 1;
        let h = (bound * 2f64.powi(m as i32)).floor() as u64;
        Self { float, h, q0: ((1 << m) + h) / (2 * h + 1) }
    }

    fn code(&self, word: i64) -> Option<i64> {
        if word == 0 {
            return Some(0);
        }
        let below_sign = u64::MAX >> (65 - self.float.bits);
        let (p, s) = (word as u64 & below_sign, 2 * self.h + 1);
        let q = (p + self.h) / s;
        // The bits of infinity are the exponent field.
        let infinity = below_sign >> (self.float.p - 1) << (self.float.p - 1);
        if p < 1 << (self.float.p - 1) || p >= infinity || q * s >= infinity {
            return None;
        }
        let k = (q - self.q0 + 1) as i64;
        Some(if word < 0 { -k } else { k })
    }

    fn stands_for(&self, k: i64) -> i64 {
        if k == 0 {
            return 0;
        }
        let pattern =
            (k.unsigned_abs() + self.q0 - 1).wrapping_mul(2 * self.h + 1) & u64::MAX >> (65 - self.float.bits);
        let sign = if k < 0 { 1 << (self.float.bits - 1) } else { 0 };
        wrap((pattern | sign) as i64, self.float.bits)
    }
}
