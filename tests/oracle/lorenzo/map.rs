//! The maps BITS, FIXED, DECIMAL and CUT.

use super::{bit_length, samples};

pub const BITS: u8 = 0;
pub const FIXED: u8 = 1;
pub const DECIMAL: u8 = 3;
pub const CUT: u8 = 4;

/// A block's numbers after a map, with its t or e.
pub struct Mapped {
    pub map: u8,
    pub parameter: u16,
    pub v: Vec<i64>,
    /// The tail that CUT splits off each element, and its length in bits; 0 bits for the other
    /// maps.
    pub tails: Vec<(u64, u32)>,
}

/// The sign, exponent and significand of a float.
struct Parts {
    is_negative: bool,
    x: u32,
    f: u64,
}

/// M of SPEC.md.
fn fraction_bits(w: u32) -> u32 {
    if w == 32 { 23 } else { 52 }
}

/// The parts of all floats; `None` if one is infinite or NaN.
fn parts(words: &[i64], w: u32) -> Option<Vec<Parts>> {
    let m = fraction_bits(w);
    let special = (1 << (w - 1 - m)) - 1;
    let parts = |&word: &i64| {
        let field = word >> m & special;
        let fraction = word & ((1 << m) - 1);
        let f = if field > 0 { fraction | 1 << m } else { fraction };
        (field < special).then_some(Parts { is_negative: word < 0, x: field.max(1) as u32, f: f as u64 })
    };
    words.iter().map(parts).collect()
}

impl Mapped {
    fn new(map: u8, parameter: u32, v: Vec<i64>) -> Self {
        let tails = vec![(0, 0); v.len()];
        Self { map, parameter: parameter as u16, v, tails }
    }

    pub fn bits(words: &[i64]) -> Self {
        let any = words.iter().fold(0, |any, word| any | word);
        let t = if any == 0 { 0 } else { any.trailing_zeros() };
        Self::new(BITS, t, words.iter().map(|word| word >> t).collect())
    }

    /// The map FIXED of the words of floats; `None` if it is not considered.
    pub fn fixed(words: &[i64], w: u32) -> Option<Self> {
        let m = fraction_bits(w);
        let negative_zero = i64::MIN >> (64 - w);
        let (smallest, largest) = (words.iter().min()?, words.iter().max()?);
        if smallest >> m == largest >> m || words.contains(&negative_zero) {
            return None;
        }
        let parts = parts(words, w)?;
        let not_zero = || parts.iter().filter(|part| part.f > 0);
        let e = not_zero().map(|part| part.x + part.f.trailing_zeros()).min()?;
        let top = not_zero().map(|part| part.x + bit_length(part.f)).max()?;
        if top - e > w - 2 {
            return None;
        }
        let number = |&Parts { is_negative, x, f }: &Parts| {
            let size = match f {
                0 => 0,
                _ if x >= e => (f as i64) << (x - e),
                _ => f as i64 >> (e - x),
            };
            if is_negative { -size } else { size }
        };
        Some(Self::new(FIXED, e, parts.iter().map(number).collect()))
    }

    /// The map CUT of the words of floats; `None` if it is not considered.
    pub fn cut(words: &[i64], w: u32) -> Option<Self> {
        let parts = parts(words, w)?;
        let e = parts.iter().map(|part| part.x).max()?;
        let least = parts.iter().map(|part| part.x).min()?;
        if e - least < 2 && parts.iter().all(|part| part.is_negative == parts[0].is_negative) {
            return None;
        }
        let number = |(&word, &Parts { is_negative, x, f }): (&i64, &Parts)| {
            let size = f.checked_shr(e - x).unwrap_or(0).max(1) as i64;
            match word {
                0 => 0,
                _ if is_negative => -size,
                _ => size,
            }
        };
        let v: Vec<i64> = words.iter().zip(&parts).map(number).collect();
        let tail = |i: usize| match v[i] {
            0 => (0, 0),
            1 | -1 => (words[i] as u64, w),
            _ => (parts[i].f, e - parts[i].x),
        };
        let tails = (0..v.len()).map(tail).collect();
        Some(Self { map: CUT, parameter: e as u16, v, tails })
    }

    /// The map DECIMAL of the words of floats; `None` if it is not considered.
    pub fn decimal(words: &[i64], w: u32) -> Option<Self> {
        let limit = if w == 32 { 2f64.powi(23) } else { 2f64.powi(51) };
        let value = |word: i64| match w {
            32 => f64::from(f32::from_bits(word as u32)),
            _ => f64::from_bits(word as u64),
        };
        let back = |v: i64, e: u32| match w {
            32 => i64::from(((v as f64 / power(e)) as f32).to_bits() as i32),
            _ => (v as f64 / power(e)).to_bits() as i64,
        };
        let multiple = |&word: &i64, e: u32| {
            let v = (value(word) * power(e)).round_ties_even();
            (v.abs() < 4.0 * limit).then_some(v as i64).filter(|&v| back(v, e) == word)
        };
        let multiples =
            |words: &[i64], e: u32| words.iter().map(|word| multiple(word, e)).collect::<Option<Vec<i64>>>();

        let samples = samples(words);
        let a = samples.iter().map(|&word| value(word).abs()).fold(0.0, f64::max);
        if a == 0.0 {
            return None;
        }
        let largest = (1..=22).rev().find(|&e| a * power(e) <= limit)?;
        let mut e = largest;
        let mut v = multiples(&samples, e)?;
        while v.iter().all(|v| v % 10 == 0) {
            e -= 1;
            v.iter_mut().for_each(|v| *v /= 10);
            if e == 0 {
                return None;
            }
        }
        let of_all = |e: u32| Some(Self::new(DECIMAL, e, multiples(words, e)?));
        let next = || if e < 22 { of_all(e + 1) } else { None };
        let further = || of_all(largest).and_then(|_| (e..=largest).find_map(of_all));
        of_all(e).or_else(next).or_else(further)
    }
}

/// 10^e, which float64 represents exactly up to e = 22.
fn power(e: u32) -> f64 {
    (0..e).fold(1.0, |power, _| power * 10.0)
}
