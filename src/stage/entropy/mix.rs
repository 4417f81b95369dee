//! Models of bits, and their mixture.
//!
//! A model is a probability that follows the bits it saw, at first quickly. A mixture adds the logits of several models,
//! each times a weight that follows what the model was worth.

use crate::stage::entropy::range::Coder;

/// Models in a mixture.
pub const MODELS: usize = 4;

/// By how many bits a model has seen, up to the last: it moves by 2^-n of the way.
const RATES: [u8; 12] = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5];

/// Logits have 8 bits below the point, and are limited to ±2047.
const MOST: i32 = 2047;
/// Logits of knots, between which the logistic function is made of straight lines.
const STEP: i32 = 128;
/// 2^16 / (1 + e^-x), rounded, for x from −8 to 8 in steps of a half.
const KNOTS: [u16; 33] = [
    22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11953, 17625, 24743, 32768, 40793, 47911,
    53583, 57724, 60565, 62428, 63615, 64357, 64816, 65097, 65269, 65374, 65438, 65476, 65500, 65514,
];

/// Probabilities, in 2^-16, by logit + 2048.
static SQUASHED: [u16; 4096] = {
    let mut table = [0; 4096];
    let mut i = 0;
    while i < 4096 {
        let (knot, part) = (i / STEP as usize, i as i32 % STEP);
        let (a, b) = (KNOTS[knot] as i32, KNOTS[knot + 1] as i32);
        table[i] = (a + (b - a) * part / STEP) as u16;
        i += 1;
    }
    table
};

/// The least logit whose probability is not below (i + 1/2) / 4096, by i.
static STRETCHED: [i16; 4096] = {
    let mut table = [0; 4096];
    let mut logit = -MOST;
    let mut i = 0;
    while i < 4096 {
        while logit < MOST && (SQUASHED[(logit + 2048) as usize] as usize) < 16 * i + 8 {
            logit += 1;
        }
        table[i] = logit as i16;
        i += 1;
    }
    table
};

/// The probability that a bit is 1, by what it was before.
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
        let rate = RATES[usize::from(self.n_seen)];
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

/// Weights of models.
#[derive(Debug, Clone, Copy)]
pub struct Mixer([i32; MODELS]);

impl Mixer {
    /// Models count alike, and a little more than their mean.
    pub const NEW: Self = Self([3 << 13; MODELS]);
    /// Weights have 16 bits below the point, and stay at most 8, so that products with logits have 31 bits.
    const LIMIT: i32 = 8 << 16;

    /// Codes a bit by these models, of which each is in a table of its own.
    #[inline(always)]
    pub fn code<C: Coder>(&mut self, coder: &mut C, models: [&mut Model; MODELS], bit: bool) -> bool {
        let p = (u32::from(models[0].p) + u32::from(models[1].p)) / 2;
        let bit = coder.bit(p, bit);
        let [a,b,_,_]=models; a.update(bit); b.update(bit);
        bit
    }
}
