//! How a number is coded once it is predicted: bits of the difference, its sign, its highest bits.

use crate::codec::lorenzo::max::predict::{Best, SCORE};
use crate::stage::entropy::model::{Model, code_by_two};
use crate::stage::entropy::range::Coder;
use crate::stage::word::Word;

/// Steps from the expected length on that are told apart, both ways.
const STEPS: usize = 32;
/// Expected lengths, in quarters of bits.
const EXPECTED: usize = 256;
/// Differences of lengths that are told apart.
const NEAR: usize = 16;
/// Bits of longer differences are not modelled.
const MODELLED: u32 = 12;
/// Bits of the largest difference, and one more.
const LENGTHS: usize = 65;

/// The models of a block.
pub struct Models {
    by_score: [[Model; STEPS]; EXPECTED],
    by_neighbours: [[[Model; STEPS]; NEAR]; NEAR],
    signs: [[[[Model; 3]; 3]; 3]; LENGTHS],
    highest: [[Model; 4]; LENGTHS],
}

impl Models {
    /// Models that know nothing.
    pub const NEW: Self = Self {
        by_score: [[Model::NEW; STEPS]; EXPECTED],
        by_neighbours: [[[Model::NEW; STEPS]; NEAR]; NEAR],
        signs: [[[[Model::NEW; 3]; 3]; 3]; LENGTHS],
        highest: [[Model::NEW; 4]; LENGTHS],
    };
}

/// What was coded around the next element.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around {
    pub west: Coded,
    pub north: Coded,
}

/// Length and sign of a difference that was coded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coded {
    pub length: u8,
    /// 0 for 0, 1 for positive, 2 for negative.
    pub sign: u8,
}

/// Codes `number`, whose prediction is known.
#[inline(always)]
pub fn code<C: Coder>(
    models: &mut Models,
    coder: &mut C,
    best: &Best,
    around: &Around,
    number: i64,
) -> (i64, Coded) {
    let difference = number.wrapping_sub(best.number);
    let size = difference.unsigned_abs();
    let length = length(models, coder, best, around, size.bit_length());
    if length == 0 {
        return (best.number, Coded::default());
    }
    let model = &mut models.signs[length as usize][sign_of(best.other)][usize::from(around.west.sign)]
        [usize::from(around.north.sign)];
    let is_negative = model.code(coder, difference < 0);
    // The highest bit is known, two more have models.
    let mut bits = 1u64;
    let mut below = length - 1;
    let mut context = 1;
    for _ in 0..2 {
        if below > 0 && length <= MODELLED {
            below -= 1;
            let bit = models.highest[length as usize][context].code(coder, size >> below & 1 == 1);
            bits = 2 * bits + u64::from(bit);
            context = 2 + usize::from(bit);
        }
    }
    let size = bits << below | coder.plain(below, size);
    let difference = if is_negative { (size as i64).wrapping_neg() } else { size as i64 };
    (best.number.wrapping_add(difference), Coded { length: length as u8, sign: 1 + u8::from(is_negative) })
}

/// The models of the steps to a length.
struct Steps<'a> {
    by_score: &'a mut [Model; STEPS],
    by_neighbours: &'a mut [Model; STEPS],
}

impl Steps<'_> {
    #[inline(always)]
    fn go_on<C: Coder>(&mut self, coder: &mut C, step: usize, bit: bool) -> bool {
        code_by_two(coder, &mut self.by_score[step], &mut self.by_neighbours[step], bit)
    }
}

/// Codes the length of a difference, step by step from the expected one on.
#[inline(always)]
fn length<C: Coder>(models: &mut Models, coder: &mut C, best: &Best, around: &Around, length: u32) -> u32 {
    let expected = ((best.score + SCORE) / (2 * SCORE)).min(LENGTHS as u32 - 1);
    let near = |length: u32| (length + NEAR as u32 / 2).saturating_sub(expected).min(NEAR as u32 - 1) as usize;
    let (west, north) = (near(around.west.length.into()), near(around.north.length.into()));
    let mut steps = Steps {
        by_score: &mut models.by_score[(best.score as usize / 8).min(EXPECTED - 1)],
        by_neighbours: &mut models.by_neighbours[west][north],
    };
    let mut at = expected;
    // No length is below 0.
    if at == 0 || steps.go_on(coder, 0, length >= at) {
        let mut step = STEPS / 2;
        while at < LENGTHS as u32 - 1 && steps.go_on(coder, step, length > at) {
            at += 1;
            step = (step + 1).min(STEPS - 1);
        }
    } else {
        at -= 1;
        let mut step = 1;
        while at > 0 && steps.go_on(coder, step, length < at) {
            at -= 1;
            step = (step + 1).min(STEPS / 2 - 1);
        }
    }
    at
}

fn sign_of(number: i64) -> usize {
    if number == 0 { 0 } else { 1 + usize::from(number < 0) }
}
