//! The maps BITS and FIXED.

use super::bit_length;

pub const BITS: u8 = 0;
pub const FIXED: u8 = 1;

/// The numbers of a block by a map, with its t or e.
pub struct Mapped {
    pub map: u8,
    pub parameter: u16,
    pub v: Vec<i64>,
}

impl Mapped {
    pub fn bits(words: &[i64]) -> Self {
        let t = words.iter().fold(0, |any, word| any | word).trailing_zeros();
        Self { map: BITS, parameter: t as u16, v: words.iter().map(|word| word >> t).collect() }
    }

    /// `None` where FIXED is not considered. For words of floats.
    pub fn fixed(words: &[i64], w: u32) -> Option<Self> {
        let m = if w == 32 { 23 } else { 52 };
        let special = (1 << (w - 1 - m)) - 1;
        let negative_zero = i64::MIN >> (64 - w);
        let (smallest, largest) = (words.iter().min()?, words.iter().max()?);
        if smallest >> m == largest >> m {
            return None;
        }
        // Sign, x and f of each.
        let mut parts = vec![];
        for &word in words {
            let field = word >> m & special;
            if field == special || word == negative_zero {
                return None;
            }
            let fraction = word & ((1 << m) - 1);
            let f = if field > 0 { fraction | 1 << m } else { fraction };
            parts.push((word < 0, field.max(1) as u32, f as u64));
        }
        let not_zero = || parts.iter().filter(|part| part.2 > 0);
        let e = not_zero().map(|(_, x, f)| x + f.trailing_zeros()).min()?;
        let top = not_zero().map(|&(_, x, f)| x + bit_length(f)).max()?;
        if top - e > w - 2 {
            return None;
        }
        let number = |&(is_negative, x, f): &(bool, u32, u64)| {
            let size = match f {
                0 => 0,
                _ if x >= e => (f as i64) << (x - e),
                _ => f as i64 >> (e - x),
            };
            if is_negative { -size } else { size }
        };
        Some(Self { map: FIXED, parameter: e as u16, v: parts.iter().map(number).collect() })
    }
}
