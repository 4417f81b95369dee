//! Adaptive models of bits.

use crate::stage::entropy::range::Coder;

/// Adaptation rates by the number of bits seen so far: the model moves by 2^-n of the distance. The
/// final rate is repeated up to a power of two, so that an index needs no bounds check.
const RATES: [u8; 16] = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5];

/// Probability that a bit is 1, in units of 2^-16, adapted to the bits before it.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    p: u16,
    n_seen: u16,
}

impl Model {
    /// Initial state: 0 and 1 are equally likely.
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
