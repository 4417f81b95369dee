//! Accuracy of the elements: the error bound, the missing elements, and the measured errors.
//!
//! An encoder marks the elements whose decoded values are not acceptable. Those are stored exactly.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::runs::{Run, Runs};
use crate::stage::missing::{MAX_FILLS, MissingWords};
use crate::stage::word::Word;

/// The missing elements, in a form for vectorized loops: the number of comparisons is constant.
#[derive(Clone, Copy)]
pub struct Marked<T: Real> {
    /// The words of fill values, the last one repeated as needed. Without fill values they are NaN,
    /// which is never an ordinary element anyway.
    fills: [T::Word; MAX_FILLS],
    /// The valid range.
    least: T,
    most: T,
    /// True if only the first fill value must be compared.
    is_one: bool,
}

impl<T: Real> Marked<T> {
    /// The missing elements of a chunk.
    pub fn new(missing: Option<&MissingWords<T::Word>>) -> Self {
        let mut fills = [T::Word::low_mask(T::Word::BITS); MAX_FILLS];
        let mut range = [T::ZERO - T::INFINITY, T::INFINITY];
        let Some(missing) = missing else { return Self { fills, least: range[0], most: range[1], is_one: true } };
        if let Some(&first) = missing.fills().first() {
            fills = [first; MAX_FILLS];
            fills[..missing.fills().len()].copy_from_slice(missing.fills());
        }
        for (to, word) in range.iter_mut().zip(missing.range()) {
            *to = word.map_or(*to, |word| T::of(T::put(word)));
        }
        let is_one = missing.fills().len() <= 1 && !missing.has_range();
        Self { fills, least: range[0], most: range[1], is_one }
    }

    /// True if an element is missing. Without `MANY`, only the first fill value is compared.
    #[inline(always)]
    pub fn has<const MANY: bool>(&self, x: T) -> bool {
        let word = x.to_word();
        if !MANY {
            return word == self.fills[0];
        }
        let mut has = x < self.least || x > self.most;
        let mut k = 0;
        while k < MAX_FILLS {
            has |= word == self.fills[k];
            k += 1;
        }
        has
    }

    /// True if an element is finite and not missing.
    #[inline(always)]
    pub fn is_ordinary(&self, x: T) -> bool {
        x.size() <= T::MAX && if self.is_one { !self.has::<false>(x) } else { !self.has::<true>(x) }
    }

    /// True if [`Marked::has`] must compare more than the first fill value.
    pub fn are_many(&self) -> bool {
        !self.is_one
    }
}

/// The condition under which a decoded value is acceptable for an element.
#[derive(Clone, Copy)]
pub struct Limit<T: Real> {
    /// Errors must be smaller than this.
    pub bound: T,
    /// The missing elements. They have no acceptable decoded value, and no other element may decode
    /// to one of them.
    pub missing: Marked<T>,
}

impl<T: Real> Limit<T> {
    /// True if an element may decode to `back`.
    #[inline(always)]
    pub(super) fn is_kept<const MANY: bool>(&self, element: T, back: T, n_bins: T) -> bool {
        (element - back).size() < self.bound
            && n_bins.size() < T::CODES
            && !self.missing.has::<MANY>(element)
            && !self.missing.has::<MANY>(back)
    }

    /// As [`Self::is_kept`], for a single element.
    pub(super) fn keeps(&self, element: T, back: T) -> bool {
        if self.missing.are_many() {
            self.is_kept::<true>(element, back, T::ZERO)
        } else {
            self.is_kept::<false>(element, back, T::ZERO)
        }
    }
}

/// An encoder's error bound for elements, and the elements that violate it.
pub struct Watch<'a, T: Real> {
    /// The array.
    pub array: &'a [T::Bytes],
    /// A bit for each element that previous layers store exactly, if any.
    pub exact_before: Option<&'a [AtomicU32]>,
    pub limit: Limit<T>,
    /// A bit for each element of the array that this layer cannot approximate.
    pub exact: &'a [AtomicU32],
    /// If errors are measured: the number of error units in 1.0.
    pub units: Option<T>,
}

/// Replaces elements that are already stored exactly by NaN, which is never acceptable.
#[inline(never)]
pub(super) fn hide<T: Real>(exact: &[AtomicU32], mut runs: Runs, elements: &mut [T]) {
    let mut k = 0;
    while let Some(Run { place, stride, n }) = runs.next() {
        for place in (0..n).map(|i| place + i * stride) {
            if exact[place / 32].load(Ordering::Relaxed) >> (place % 32) & 1 == 1 {
                elements[k] = T::of(T::put(T::Word::low_mask(T::Word::BITS)));
            }
            k += 1;
        }
    }
}

impl<T: Real> Watch<'_, T> {
    /// Marks the first element if `first` is not acceptable for it. Returns its error if errors are
    /// measured.
    pub fn begin(&self, first: T) -> Errors {
        let is_exact = |exact: &[AtomicU32]| exact[0].load(Ordering::Relaxed) & 1 == 1;
        if self.exact_before.is_some_and(is_exact) {
            return Errors::default();
        }
        let element = T::of(self.array[0]);
        let is_kept = self.limit.keeps(element, first);
        if !is_kept {
            self.mark(0);
        }
        let measure = |scale| measure_with(&self.limit, scale, &[element], &[first], is_kept.into());
        self.units.map_or_else(Errors::default, measure)
    }

    pub(super) fn mark(&self, place: usize) {
        self.exact[place / 32].fetch_or(1 << (place % 32), Ordering::Relaxed);
    }
}

/// Measured errors: the sum of their squares, and the number of elements that have one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errors {
    pub squares: u128,
    pub n: u64,
}

impl Errors {
    /// Adds the errors of two parts.
    pub fn combine(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, n: self.n + other.n }
    }
}

/// Sums the squares of errors.
#[inline(always)]
pub(super) fn measure_with<T: Real>(
    limit: &Limit<T>,
    scale: T,
    elements: &[T],
    new: &[T],
    n_kept: usize,
) -> Errors {
    if limit.missing.are_many() {
        measure::<T, true>(limit, scale, elements, new, n_kept)
    } else {
        measure::<T, false>(limit, scale, elements, new, n_kept)
    }
}

#[inline(always)]
fn measure<T: Real, const MANY: bool>(
    limit: &Limit<T>,
    scale: T,
    elements: &[T],
    new: &[T],
    n_kept: usize,
) -> Errors {
    let n = new.len();
    let elements = &elements[..n];
    let mut squares = 0u64;
    let mut k = 0;
    while k < n {
        let error =
            if limit.is_kept::<MANY>(elements[k], new[k], T::ZERO) { elements[k] - new[k] } else { T::ZERO };
        // This is below 2^15, so the sum of squares of a tile is below 2^39.
        let size = (error * scale).nearest().1.to_u64().div_ceil(2);
        squares += size * size;
        k += 1;
    }
    Errors { squares: squares.into(), n: n_kept as u64 }
}
