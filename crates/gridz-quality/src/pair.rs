//! Two arrays side by side, the original and what came back.

use std::ops::Range;

use crate::exact::Exact;
use crate::moments::{Moments, Scales};
use crate::number::{Kind, Number};
use gridz::MissingElements;
use gridz_codecs::types::ByteOrder;

/// Numbers that are looked at together.
pub const BLOCK: usize = 1024;

/// Two arrays of the same type and shape.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Bytes of the original and of the decoded one.
    pub bytes: [&'a [u8]; 2],
    /// Order of the bytes in a number.
    pub order: ByteOrder,
    /// Numbers in an element: 2 in complex ones.
    pub parts: usize,
    /// The missing elements, in that order.
    pub missing: &'a MissingElements,
    /// A bound on errors by the number's own magnitude.
    pub pwrel: Option<f64>,
}

/// What two numbers of the same place are to each other.
enum Match<N> {
    /// Both are finite and neither is missing.
    Numbers(N, N),
    /// They are the same, but nothing to compute with.
    Same,
    /// One of the two is missing, and the other is not the same.
    MissingDiffers,
    /// One is NaN, and the other is not the same NaN.
    NanDiffers,
    /// One is infinite, and the other is not the same.
    InfinityDiffers,
}

/// An error, and the number that has it.
pub type Place<E> = Option<(E, usize)>;

/// All that one pass finds in a piece of the arrays.
#[derive(Debug, Clone, Copy)]
pub struct Findings<N> {
    /// Numbers that were compared.
    pub numbers: u64,
    /// Elements that are missing in one array, and not the same in the other one.
    pub fill_mismatches: u64,
    /// Numbers with a NaN that is not the same.
    pub nan_mismatches: u64,
    /// Numbers with an infinity that is not the same.
    pub infinity_mismatches: u64,
    /// The largest error.
    pub largest: Place<Exact>,
    /// The largest error by the original number's magnitude.
    pub largest_relative: Place<f64>,
    /// An error is larger than the bound of `Pair::pwrel`.
    pub exceeds_pwrel: bool,
    /// The smallest and the largest original number.
    pub extremes: Option<[N; 2]>,
    /// The largest magnitude in either array.
    pub magnitude: f64,
    /// Sums.
    pub moments: Moments,
}

/// The numbers of a block that are compared, densely.
struct Block {
    numbers: usize,
    original: [f64; BLOCK],
    decoded: [f64; BLOCK],
    nearest: [f64; BLOCK],
    rests: [f64; BLOCK],
    places: [usize; BLOCK],
}

/// Whether an element is missing; the limits of a valid range are numbers of one part.
pub fn is_missing<N: Number>(missing: &MissingElements, element: &[u8], order: ByteOrder) -> bool {
    let [least, most] = missing.limits().map(|limit| limit.map(|bytes| N::at(bytes, 0, order)));
    missing.fills().any(|fill| fill == element)
        || least.is_some_and(|least| N::at(element, 0, order).is_below(least))
        || most.is_some_and(|most| most.is_below(N::at(element, 0, order)))
}

impl Pair<'_> {
    /// The numbers at a place.
    #[inline(always)]
    fn at<N: Number>(&self, place: usize) -> [N; 2] {
        let [a, b] = self.bytes;
        [N::at(a, place, self.order), N::at(b, place, self.order)]
    }

    /// Whether the element of the numbers at a place is missing in one of the arrays, and whether it is the same in both.
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

    /// The numbers at a place as f64, if they are compared.
    #[inline(always)]
    pub fn numbers_at<N: Number>(&self, place: usize) -> Option<[f64; 2]> {
        match self.look_at::<N>(place) {
            Match::Numbers(a, b) => Some([a.to_f64(), b.to_f64()]),
            _ => None,
        }
    }

    /// Looks at the numbers at these places.
    pub fn look<N: Number>(&self, places: Range<usize>, scales: Scales) -> Findings<N> {
        let mut found = Findings::default();
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
                        found.extremes = found.extremes.map_or(Some([a, a]), |extremes| Some(widened(extremes, a)));
                    }
                    Match::Same => {}
                    // Of an element, not of each of its parts.
                    Match::MissingDiffers => found.fill_mismatches += u64::from(place.is_multiple_of(self.parts)),
                    Match::NanDiffers => found.nan_mismatches += 1,
                    Match::InfinityDiffers => found.infinity_mismatches += 1,
                }
            }
            if block.numbers > 0 {
                found = found.and(block.findings(self.pwrel, scales));
            }
        }
        found
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

    fn findings<N: Number>(&self, pwrel: Option<f64>, scales: Scales) -> Findings<N> {
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
            // A quotient is no more than rounded, so far below the bound nothing has to be multiplied.
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

impl<N> Default for Findings<N> {
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

impl<N: Number> Findings<N> {
    /// These and those of the places behind.
    pub fn and(self, next: Self) -> Self {
        let extremes = match (self.extremes, next.extremes) {
            (Some(mine), Some([least, most])) => Some(widened(widened(mine, least), most)),
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

/// The larger one of two, of equal ones the first.
fn larger<E: Copy>(first: Place<E>, second: Place<E>, is_below: impl Fn(E, E) -> bool) -> Place<E> {
    match (first, second) {
        (Some((a, _)), Some((b, _))) if is_below(a, b) => second,
        (None, second) => second,
        (first, _) => first,
    }
}
