//! Codes a number given its prediction: the length of the difference, its sign, its second highest
//! bit and the rest.

use crate::codec::lorenzo::max::predict::{Best, SCORE};
use crate::stage::entropy::model::{self, Model};
use crate::stage::entropy::range::Coder;
use crate::stage::entropy::symbol::{self, SYMBOLS, Symbols};
use crate::stage::rows::Keys;
use crate::stage::word::Word;

/// The symbol of the expected length. The first and the last symbol include all shorter and longer
/// lengths.
const AS_EXPECTED: u32 = 9;
const LAST: u32 = SYMBOLS as u32 - 1;
/// Initial frequencies of the length symbols, typical of most data.
const FREQUENCIES: [u16; SYMBOLS] =
    [32, 48, 80, 128, 256, 512, 1024, 1600, 2800, 4600, 6900, 7600, 4600, 1800, 500, 288];
/// Number of score classes, in steps of half a bit.
const SCORES: usize = 128;
/// Scores below this mean that no difference is expected.
const NO_SCORES: usize = SCORE as usize;
/// Number of classes of length differences.
const NEAR: usize = 16;
/// The bits of longer differences are not modeled.
const MODELLED: u32 = 12;
/// One more than the bits of the largest difference.
const LENGTHS: usize = 65;

/// The models of a block.
pub struct Models {
    /// Models for whether there is a difference although none is expected.
    any_by_score: [Model; NO_SCORES],
    any_by_neighbours: [[Model; NEAR]; NEAR],
    by_score: [Symbols; SCORES],
    by_neighbours: [[Symbols; NEAR]; NEAR],
    /// Models of lengths far below and far above the expected one, by the expected one.
    below: [Symbols; LENGTHS],
    above: [Symbols; LENGTHS],
    signs: [[[[Model; 3]; 3]; 3]; LENGTHS],
    highest: [Model; LENGTHS],
}

impl Models {
    /// Untrained models.
    pub const NEW: Self = Self {
        any_by_score: [Model::NEW; NO_SCORES],
        any_by_neighbours: [[Model::NEW; NEAR]; NEAR],
        by_score: [Symbols::of(FREQUENCIES); SCORES],
        by_neighbours: [[Symbols::of(FREQUENCIES); NEAR]; NEAR],
        below: [Symbols::NEW; LENGTHS],
        above: [Symbols::NEW; LENGTHS],
        signs: [[[[Model::NEW; 3]; 3]; 3]; LENGTHS],
        highest: [Model::NEW; LENGTHS],
    };
}

/// The coded differences around the next element.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around {
    pub west: Coded,
    pub north: Coded,
}

/// Length and sign of a coded difference.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coded {
    pub length: u8,
    /// 0 for 0, 1 for positive, 2 for negative.
    pub sign: u8,
}

/// Codes `number`, given its prediction.
#[inline(always)]
pub fn code<K: Keys, C: Coder>(
    models: &mut Models,
    (k, coder): (K, &mut C),
    best: &Best,
    around: &Around,
    number: i64,
) -> (i64, Coded) {
    let difference = number.wrapping_sub(best.number);
    let size = difference.unsigned_abs();
    let length = length(models, (k, coder), best, around, size.bit_length());
    if length == 0 {
        return (best.number, Coded::default());
    }
    let model = &mut models.signs[length as usize][sign_of(best.other)][usize::from(around.west.sign)]
        [usize::from(around.north.sign)];
    let is_negative = model.code(coder, difference < 0);
    // The highest bit is always 1.
    let mut bits = 1;
    let mut below = length - 1;
    if below > 0 && length <= MODELLED {
        below -= 1;
        let bit = models.highest[length as usize].code(coder, size >> below & 1 == 1);
        bits = 2 + u64::from(bit);
    }
    let size = bits << below | coder.plain(below, size);
    let difference = if is_negative { (size as i64).wrapping_neg() } else { size as i64 };
    (best.number.wrapping_add(difference), Coded { length: length as u8, sign: 1 + u8::from(is_negative) })
}

/// Codes the length of a difference relative to the expected length.
#[inline(always)]
fn length<K: Keys, C: Coder>(
    models: &mut Models,
    (k, coder): (K, &mut C),
    best: &Best,
    around: &Around,
    length: u32,
) -> u32 {
    let expected = ((best.score + SCORE) / (2 * SCORE)).min(LENGTHS as u32 - 1);
    let near = |length: u32| (length + NEAR as u32 / 2).saturating_sub(expected).min(NEAR as u32 - 1) as usize;
    let (west, north) = (near(around.west.length.into()), near(around.north.length.into()));
    if expected == 0 {
        // In most of these cases there is no difference, which branch prediction handles well.
        let by_score = &mut models.any_by_score[best.score as usize % NO_SCORES];
        let by_neighbours = &mut models.any_by_neighbours[west][north];
        if !model::code_by_two(coder, by_score, by_neighbours, length > 0) {
            return 0;
        }
    }
    let by_score = &mut models.by_score[((best.score / SCORE) as usize).min(SCORES - 1)];
    let by_neighbours = &mut models.by_neighbours[west][north];
    let symbol = (length + AS_EXPECTED).saturating_sub(expected).min(LAST);
    let symbol = symbol::code_by_two((k, coder), by_score, by_neighbours, symbol as usize) as u32;
    let at = (symbol + expected).saturating_sub(AS_EXPECTED);
    let below = &mut models.below[expected as usize];
    let above = &mut models.above[expected as usize];
    let length = match symbol {
        0 => at.saturating_sub(further((k, coder), below, at.wrapping_sub(length))),
        LAST => at + further((k, coder), above, length.wrapping_sub(at)),
        _ => at,
    };
    length.min(LENGTHS as u32 - 1)
}

/// Codes the remaining distance to a length. All steps but the last have the maximum size.
#[inline(always)]
fn further<K: Keys, C: Coder>((k, coder): (K, &mut C), model: &mut Symbols, way: u32) -> u32 {
    let mut gone = 0;
    loop {
        let step = model.code((k, coder), way.wrapping_sub(gone).min(LAST) as usize) as u32;
        gone += step;
        if step < LAST || gone >= LENGTHS as u32 {
            return gone;
        }
    }
}

fn sign_of(number: i64) -> usize {
    if number == 0 { 0 } else { 1 + usize::from(number < 0) }
}
