//! Models of bits: probabilities that follow what was seen.

use crate::stage::entropy::range::Coder;

/// By how many bits a model has seen, up to the last: it moves by 2^-n of the way. Those behind the last let it be found
/// without a look at the bounds.
const RATES: [u8; 16] = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5];

/// The probability that a bit is 1, in 2^-16, by what it was before.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    p: u16,
    n_seen: u16,
}

impl Model {
    /// Of bits that nothing is known of.
    pub const NEW: Self = Self { p: 1 << 15, n_seen: 0 };

    #[inline(always)]
    fn update(&mut self, bit: bool) {
        let rate = RATES[usize::from(self.n_seen) % RATES.len()];
        self.n_seen = (self.n_seen + 1).min(RATES.len() as u16 - 1);
        // Towards 0, or 2^16 − 1.
        let up = 0u16.wrapping_sub(bit.into());
        self.p = ((self.p ^ up) - ((self.p ^ up) >> rate)) ^ up;
    }

    /// Codes a bit by this model alone.
    #[inline(always)]
    pub fn code<C: Coder>(&mut self, coder: &mut C, bit: bool) -> bool {
        let bit = coder.bit(self.p.into(), bit);
        self.update(bit);
        bit
    }
}

/// Codes a bit by the mean of two models.
#[inline(always)]
pub fn code_by_two<C: Coder>(coder: &mut C, a: &mut Model, b: &mut Model, bit: bool) -> bool {
    let bit = coder.bit((u32::from(a.p) + u32::from(b.p)) / 2, bit);
    a.update(bit);
    b.update(bit);
    bit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::entropy::range::{Decoder, Encoder};

    #[test]
    fn models_learn_and_stay_between_0_and_1() {
        let mut bytes = vec![0; 10_000];
        for value in [false, true] {
            let mut model = Model::NEW;
            let mut encoder = Encoder::new(&mut bytes);
            for _ in 0..10_000 {
                model.code(&mut encoder, value);
                assert!(model.p > 0 && model.p < u16::MAX);
            }
            let (coded, plain) = encoder.finish().unwrap();
            assert!(coded < 32 && plain == 0);
            let (mut model, mut decoder) = (Model::NEW, Decoder::new(&bytes[..coded]));
            assert!((0..10_000).all(|_| model.code(&mut decoder, false) == value));
        }
    }
}
