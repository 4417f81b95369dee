//! Looking back (a match model): predicts the number that followed the last similar position.

use crate::codec::lorenzo::max::domain::Domain;
use crate::codec::lorenzo::max::predict::{SCORE, left};
use crate::stage::entropy::model::Model;
use crate::stage::entropy::range::Coder;

/// Base-2 logarithm of the entries of a table.
pub const LOG2_PLACES: u32 = 16;
/// A match continues while its error has at least this many bits fewer than predictions without
/// looking back.
const LEAST_GAIN: u32 = 6;
/// Match lengths that have models of their own.
const LENGTHS: usize = 16;

/// Hash tables of positions: by the number alone, and by the number and the previous one. An entry
/// is the position plus 1, or 0.
#[derive(Default)]
pub struct Tables {
    pub one: Vec<u32>,
    pub two: Vec<u32>,
}

/// The match state of a block.
pub struct Lookback<'a> {
    tables: &'a mut Tables,
    is_used: bool,
    /// The position whose number is expected, and whether with the opposite sign.
    place: Option<usize>,
    is_negated: bool,
    /// The number of consecutive exact matches, and the results of the last comparisons.
    length: usize,
    history: usize,
    expected: i64,
    key_before: u64,
    of_length: [[Model; 16]; LENGTHS],
}

impl<'a> Lookback<'a> {
    /// The initial state; `is_used` is false for blocks that do not look back.
    pub fn new(tables: &'a mut Tables, is_used: bool) -> Self {
        if is_used {
            tables.one.fill(0);
            tables.two.fill(0);
        }
        Self {
            tables,
            is_used,
            place: None,
            is_negated: false,
            length: 0,
            history: 0,
            expected: 0,
            key_before: 0,
            of_length: [[Model::NEW; 16]; LENGTHS],
        }
    }

    /// The expected number, if there is a match.
    #[inline(always)]
    pub fn prediction(&self) -> Option<i64> {
        self.place.map(|_| self.expected)
    }

    /// Codes whether the number equals the expected one. Returns that.
    #[inline(always)]
    pub fn code<C: Coder>(&mut self, coder: &mut C, number: i64) -> bool {
        if self.place.is_none() {
            return false;
        }
        let model = &mut self.of_length[self.length.min(LENGTHS - 1)][self.history];
        let is_same = model.code(coder, number == self.expected);
        self.history = (2 * self.history + usize::from(is_same)) % 16;
        is_same
    }

    /// Learns the number of element `i`. `bits_else` is the recent average of remaining bits
    /// without looking back, times [`SCORE`].
    #[inline(always)]
    pub fn learn(&mut self, domain: Domain, numbers: &[i64], i: usize, bits_else: u32) {
        if !self.is_used {
            return;
        }
        let number = numbers[i];
        let [coarse, fine] = domain.keys(number);
        let one = place_of(fine);
        let two = place_of(coarse.wrapping_mul(3).wrapping_add(self.key_before));
        self.key_before = place_of(coarse) as u64;
        if let Some(place) = self.place {
            let bits = left(number, self.expected);
            self.length = if bits == 0 { self.length + 1 } else { 0 };
            let is_like = bits == 0 || SCORE * (bits + LEAST_GAIN) <= bits_else;
            self.place = is_like.then_some(place + 1);
        }
        if self.place.is_none() {
            self.length = 0;
            let candidates = [self.tables.two[two], self.tables.one[one]];
            self.place = candidates.into_iter().find(|&place| place > 0).map(|place| place as usize);
            if let Some(place) = self.place {
                self.is_negated = domain.is_float() && (numbers[place - 1] < 0) != (number < 0);
            }
        }
        (self.tables.one[one], self.tables.two[two]) = (i as u32 + 1, i as u32 + 1);
        if let Some(place) = self.place {
            // The ordered word of a float with the opposite sign.
            self.expected = if self.is_negated { !numbers[place] } else { numbers[place] };
        }
    }
}

#[inline(always)]
fn place_of(key: u64) -> usize {
    (key.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LOG2_PLACES)) as usize
}
