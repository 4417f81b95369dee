//! An original array and its decoded copy, side by side.

use std::ops::Range;

use crate::exact::Exact;
use crate::moments::{Moments, Scales};
use crate::number::{AnyNumber, Kind, Number};
use gridz::MissingElements;
use gridz_codecs::types::ByteOrder;

/// Numbers in a block, which is the unit of processing.
pub const BLOCK: usize = 1024;

/// Two arrays of the same type and shape.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Bytes of the original and of the decoded array.
    pub bytes: [&'a [u8]; 2],
    /// Order of the bytes in a number.
    pub order: ByteOrder,
    /// Numbers in an element: 2 if it is complex, else 1.
    pub parts: usize,
    /// The missing elements, in that byte order.
    pub missing: &'a MissingElements,
    /// A bound on errors, relative to each number's own magnitude.
    pub pwrel: Option<f64>,
}

/// Result of comparing the two numbers at one position.
enum Match<N> {
    /// Both are finite and neither is missing.
    Numbers(N, N),
    /// They have the same bits, but are missing or not finite.
    Same,
    /// One at least is missing, and the elements differ.
    MissingDiffers,
    /// One is NaN, and the other has other bits.
    NanDiffers,
    /// One is infinite, and the other has other bits.
    InfinityDiffers,
}

/// An error, and the position of its number.
pub type Place<E> = Option<(E, usize)>;

/// All results of one pass over a piece of the arrays.
#[derive(Debug, Clone, Copy)]
pub struct Findings {
    /// Numbers that were compared.
    pub numbers: u64,
    /// Elements that are missing in at least one array and whose bytes differ between the arrays.
    pub fill_mismatches: u64,
    /// Numbers that are NaN in one array and differ in the other.
    pub nan_mismatches: u64,
    /// Numbers that are infinite in one array and differ in the other.
    pub infinity_mismatches: u64,
    /// The largest error.
    pub largest: Place<Exact>,
    /// The largest error relative to the original number's magnitude.
    pub largest_relative: Place<f64>,
    /// True if an error exceeds the bound of `Pair::pwrel`.
    pub exceeds_pwrel: bool,
    /// The smallest and the largest original number.
    pub extremes: Option<[AnyNumber; 2]>,
    /// The largest magnitude in either array.
    pub magnitude: f64,
    /// Means, squares and products.
    pub moments: Moments,
}

/// The compared numbers of a block, stored densely from index 0.
struct Block {
    numbers: usize,
    original: [f64; BLOCK],
    decoded: [f64; BLOCK],
    nearest: [f64; BLOCK],
    rests: [f64; BLOCK],
    places: [usize; BLOCK],
}

/// True if an element is missing. The limits of a valid range apply to elements of one number.
pub fn is_missing<N: Number>(missing: &MissingElements, element: &[u8], order: ByteOrder) -> bool {
    let [least, most] = missing.limits().map(|limit| limit.map(|bytes| N::at(bytes, 0, order)));
    missing.fills().any(|fill| fill == element)
        || least.is_some_and(|least| N::at(element, 0, order).is_below(least))
        || most.is_some_and(|most| most.is_below(N::at(element, 0, order)))
}

impl Pair<'_> {
    /// The two numbers at a position.
    #[inline(always)]
    fn at<N: Number>(&self, place: usize) -> [N; 2] {
        let [a, b] = self.bytes;
        [N::at(a, place, self.order), N::at(b, place, self.order)]
    }

    /// `None` if neither element at a position is missing; otherwise whether both elements have the
    /// same bytes.
    #[inline(always)]
    fn is_missing<N: Number>(&self, place: usize) -> Option<bool> {
        if self.missing.is_none() {
            return None;
        }
        let element_bytes = N::BYTES * self.parts;
        let start = place / self.parts * element_bytes;
        let [a, b] = self.bytes.map(|bytes| &bytes[start..start + element_bytes]);
        [a, b].iter().any(|element| is_missing::<N>(self.missing, element, self.order)).then(|| a == b)
    }

    #[inline(always)]
    fn look_at<N: Number>(&self, place: usize) -> Match<N> {
        let [a, b] = self.at::<N>(place);
        match self.is_missing::<N>(place) {
            Some(true) => return Match::Same,
            Some(false) => return Match::MissingDiffers,
            None => {}
        }
        let is_same = || a.bits() == b.bits();
        match [a.kind(), b.kind()] {
            [Kind::Finite, Kind::Finite] => Match::Numbers(a, b),
            _ if is_same() => Match::Same,
            [Kind::Nan, _] => Match::NanDiffers,
            [Kind::Infinite, _] | [_, Kind::Infinite] => Match::InfinityDiffers,
            [_, Kind::Nan] => Match::NanDiffers,
        }
    }

    /// Reads the numbers of consecutive elements as f64, from position `start` on. Both are NaN where
    /// they are not compared.
    pub fn read<N: Number>(&self, start: usize, [of_a, of_b]: [&mut [f64]; 2]) {
        for (i, (a, b)) in of_a.iter_mut().zip(of_b).enumerate() {
            (*a, *b) = match self.look_at::<N>(start + i * self.parts) {
                Match::Numbers(a, b) => (a.to_f64(), b.to_f64()),
                _ => (f64::NAN, f64::NAN),
            };
        }
    }

    /// Compares the numbers at these positions.
    pub fn look<N: Number>(&self, places: Range<usize>, scales: Scales) -> Findings {
        let (mut found, mut extremes) = (Findings::default(), None);
        let mut block = Block {
            numbers: 0,
            original: [0.0; BLOCK],
            decoded: [0.0; BLOCK],
            nearest: [0.0; BLOCK],
            rests: [0.0; BLOCK],
            places: [0; BLOCK],
        };
        for start in places.clone().step_by(BLOCK) {
            block.numbers = 0;
            for place in start..places.end.min(start + BLOCK) {
                match self.look_at::<N>(place) {
                    Match::Numbers(a, b) => {
                        block.add(a, b, place);
                        extremes = Some(extremes.map_or([a, a], |extremes| widened(extremes, a)));
                    }
                    Match::Same => {}
                    // Count elements, not each of their parts.
                    Match::MissingDiffers => found.fill_mismatches += u64::from(place.is_multiple_of(self.parts)),
                    Match::NanDiffers => found.nan_mismatches += 1,
                    Match::InfinityDiffers => found.infinity_mismatches += 1,
                }
            }
            if block.numbers > 0 {
                found = found.and(block.findings(self.pwrel, scales));
            }
        }
        Findings { extremes: extremes.map(|extremes: [N; 2]| extremes.map(N::exactly)), ..found }
    }
}

#[inline(always)]
fn widened<N: Number>([least, most]: [N; 2], number: N) -> [N; 2] {
    [if number.is_below(least) { number } else { least }, if most.is_below(number) { number } else { most }]
}

impl Block {
    #[inline(always)]
    fn add<N: Number>(&mut self, a: N, b: N, place: usize) {
        let (at, error) = (self.numbers, a.difference(b));
        (self.original[at], self.decoded[at]) = (a.to_f64(), b.to_f64());
        (self.nearest[at], self.rests[at]) = (error.nearest, error.rest);
        self.places[at] = place;
        self.numbers += 1;
    }

    fn findings(&self, pwrel: Option<f64>, scales: Scales) -> Findings {
        let n = self.numbers;
        let [original, decoded, nearest] = [&self.original[..n], &self.decoded[..n], &self.nearest[..n]];
        let error = |i: usize| Exact { nearest: nearest[i], rest: self.rests[i] };
        let top = nearest.iter().fold(0.0, |top: f64, &error| top.max(error));
        let mut largest = None;
        for i in (0..n).filter(|&i| nearest[i] == top) {
            largest = larger(largest, Some((error(i), self.places[i])), |a, b| a.order(b).is_lt());
        }

        let relatives = nearest
            .iter()
            .zip(original)
            .map(|(&error, number)| if error == 0.0 { 0.0 } else { error / number.abs() });
        let (mut top, mut at) = (0.0, 0);
        let mut exceeds_pwrel = false;
        for (i, relative) in relatives.enumerate() {
            if relative > top {
                (top, at) = (relative, i);
            }
            // The quotient has a rounding error only, so the exact product is needed only near the
            // bound or above it.
            exceeds_pwrel |= pwrel.is_some_and(|value| {
                relative >= value * 0.99 && error(i).exceeds_product(value, original[i].abs())
            });
        }
        let magnitude = original.iter().chain(decoded).fold(0.0, |most: f64, number| most.max(number.abs()));
        Findings {
            numbers: n as u64,
            largest,
            largest_relative: Some((top, self.places[at])),
            exceeds_pwrel,
            magnitude,
            moments: Moments::of([original, decoded], nearest, scales),
            ..Findings::default()
        }
    }
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            numbers: 0,
            fill_mismatches: 0,
            nan_mismatches: 0,
            infinity_mismatches: 0,
            largest: None,
            largest_relative: None,
            exceeds_pwrel: false,
            extremes: None,
            magnitude: 0.0,
            moments: Moments::default(),
        }
    }
}

impl Findings {
    /// Combines these findings with those of the following positions.
    pub fn and(self, next: Self) -> Self {
        let extremes = match (self.extremes, next.extremes) {
            (Some(mine), Some(next)) => Some(AnyNumber::extremes(mine, next)),
            (mine, other) => mine.or(other),
        };
        Self {
            numbers: self.numbers + next.numbers,
            fill_mismatches: self.fill_mismatches + next.fill_mismatches,
            nan_mismatches: self.nan_mismatches + next.nan_mismatches,
            infinity_mismatches: self.infinity_mismatches + next.infinity_mismatches,
            largest: larger(self.largest, next.largest, |a, b| a.order(b).is_lt()),
            largest_relative: larger(self.largest_relative, next.largest_relative, |a, b| a < b),
            exceeds_pwrel: self.exceeds_pwrel || next.exceeds_pwrel,
            extremes,
            magnitude: self.magnitude.max(next.magnitude),
            moments: self.moments.and(next.moments),
        }
    }

    /// The largest original number minus the smallest one; `None` if there are none.
    pub fn range(&self) -> Option<Exact> {
        self.extremes.map(|[least, most]| most.difference(least))
    }
}

/// The larger of two errors; the first one if they are equal.
fn larger<E: Copy>(first: Place<E>, second: Place<E>, is_below: impl Fn(E, E) -> bool) -> Place<E> {
    match (first, second) {
        (Some((a, _)), Some((b, _))) if is_below(a, b) => second,
        (None, second) => second,
        (first, _) => first,
    }
}
