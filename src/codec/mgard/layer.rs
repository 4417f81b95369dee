//! Further layers: what is left of every element after the layers before, in bins. Nothing is predicted, since that is nearly noise.
//!
//! An element that one layer does not keep is exact in the whole frame. So an encoder looks at all layers first, element by
//! element, which needs no memory for their numbers, and marks those.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::codec::Job;
use crate::codec::mgard::real::Real;
use crate::codec::mgard::refine::{Errors, Limit, Numbers, Rule, TILE, measure, ordinary, quantise};
use crate::error::{Result, try_vec};
use crate::stage::rows::{RowWord, Rows, Task, at_level};
use crate::stage::word::Word;

/// What an encoder does in a layer.
#[derive(Clone, Copy)]
pub struct Layer<T: Real> {
    pub rule: Rule<T>,
    pub limit: Limit<T>,
    /// No error is larger.
    pub bound: f64,
}

/// An array whose layers are encoded.
pub struct Layers<'a, T: Real> {
    pub job: &'a Job<'a>,
    pub array: &'a [T::Bytes],
    /// A bit for each element that is kept exactly.
    pub exact: &'a [AtomicU32],
}

impl<T: Real> Layers<'_, T> {
    /// Follows some layers from the values before the first one on. If errors are to be measured, in units of which 1 has `units`,
    /// they are those after the last one; else the elements are marked that one of them does not keep.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn look(&self, values: &[T::Bytes], layers: &[Layer<T>], units: Option<T>) -> Result<Errors> {
        let piece = piece::<T>(self.job, values.len());
        let parts = self.array.chunks(piece).zip(self.exact.chunks(piece / 32)).zip(values.chunks(piece));
        let tasks = parts.map(|((array, exact), values)| Look { array, exact, values, layers, units });
        run(self.job, values.len().div_ceil(piece), tasks, Errors::plus)
    }

    /// Finds the numbers of a layer, and makes values those after it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode(&self, layer: &Layer<T>, values: &mut [T::Bytes], numbers: &mut [T::Bytes]) -> Result<()> {
        let n = values.len();
        let piece = piece::<T>(self.job, n);
        let parts = self.array.chunks(piece).zip(self.exact.chunks(piece / 32));
        let parts = parts.zip(values.chunks_mut(piece).zip(numbers.chunks_mut(piece)));
        let task =
            |((array, exact), (values, numbers))| Encode::<T> { array, exact, layer: *layer, values, numbers };
        run(self.job, n.div_ceil(piece), parts.map(task), |(), ()| ())
    }
}

/// Makes values those after a layer with these numbers.
///
/// # Errors
/// `OutOfMemory`.
pub fn decode<T: Real>(job: &Job, numbers: Numbers<T>, bin: T, values: &mut [T::Bytes]) -> Result<()> {
    let piece = piece::<T>(job, values.len());
    let n_pieces = values.len().div_ceil(piece);
    let tasks = values.chunks_mut(piece).enumerate();
    run(job, n_pieces, tasks.map(|(i, values)| Decode { numbers, at: i * piece, bin, values }), |(), ()| ())
}

/// Elements that a thread does together: whole tiles.
fn piece<T: Real>(job: &Job, n: usize) -> usize {
    n.div_ceil(job.pool.pieces((n * size_of::<T>()) as u64)).next_multiple_of(TILE)
}

/// Does tasks, of which there are so many, and adds up what comes of them.
fn run<W: RowWord, K: Task<W> + Send>(
    job: &Job,
    n: usize,
    mut tasks: impl Iterator<Item = K>,
    plus: impl Fn(K::Output, K::Output) -> K::Output,
) -> Result<K::Output>
where
    K::Output: Default + Send,
{
    if n == 1 {
        return Ok(tasks.next().map_or_else(K::Output::default, |task| at_level(job.level, task)));
    }
    let mut all = try_vec(n, "bookkeeping")?;
    all.extend(tasks);
    let done = job.pool.map(all, |task| at_level(job.level, task));
    Ok(done.into_iter().fold(K::Output::default(), plus))
}

/// Elements, and what comes of them.
struct Tile<T> {
    elements: [T; TILE],
    values: [T; TILE],
}

impl<T: Real> Tile<T> {
    /// Elements that are exact are NaN, which nothing keeps.
    #[inline(always)]
    fn bring(array: &[T::Bytes], exact: &[AtomicU32], values: &[T::Bytes]) -> Self {
        let mut tile = Self { elements: [T::ZERO; TILE], values: [T::ZERO; TILE] };
        let n = array.len();
        let (of, values) = (&mut tile.elements[..n], &values[..n]);
        let mut k = 0;
        while k < n {
            of[k] = T::of(array[k]);
            tile.values[k] = T::of(values[k]);
            k += 1;
        }
        for (word, elements) in exact.iter().zip(of.chunks_mut(32)) {
            let word = word.load(Ordering::Relaxed);
            if word != 0 {
                elements.iter_mut().enumerate().filter(|(i, _)| word >> i & 1 == 1).for_each(|(_, x)| *x = nan());
            }
        }
        tile
    }
}

fn nan<T: Real>() -> T {
    T::of(T::put(T::Word::low_mask(T::Word::BITS)))
}

struct Look<'a, T: Real> {
    array: &'a [T::Bytes],
    exact: &'a [AtomicU32],
    values: &'a [T::Bytes],
    layers: &'a [Layer<T>],
    units: Option<T>,
}

impl<T: Real> Task<T::Word> for Look<'_, T> {
    type Output = Errors;

    #[inline(always)]
    fn run<S: Rows<T::Word>>(self, _: S) -> Errors {
        let Self { array, exact, values, layers, units } = self;
        let mut errors = Errors::default();
        let mut codes = [T::Bytes::default(); TILE];
        let mut at = 0;
        while at < array.len() {
            let n = TILE.min(array.len() - at);
            let marks = &exact[at / 32..(at + n).div_ceil(32)];
            let mut tile = Tile::<T>::bring(&array[at..at + n], marks, &values[at..at + n]);
            let (elements, values) = (&mut tile.elements[..n], &mut tile.values[..n]);
            let mut last = (None, 0);
            for layer in layers {
                let n_kept = quantise(&layer.rule, &layer.limit, elements, values, &mut codes[..n]);
                if n_kept < n {
                    lose(&layer.limit, elements, values, if units.is_none() { marks } else { &[] });
                }
                last = (Some(layer), n_kept);
            }
            if let ((Some(layer), n_kept), Some(scale)) = (last, units) {
                errors = errors.plus(measure(&layer.limit, scale, elements, values, n_kept));
            }
            at += n;
        }
        errors
    }
}

/// Elements that are not kept are exact from now on.
#[inline(never)]
fn lose<T: Real>(limit: &Limit<T>, elements: &mut [T], values: &[T], marks: &[AtomicU32]) {
    for (k, (element, &value)) in elements.iter_mut().zip(values).enumerate() {
        if !limit.is_kept(*element, value, T::ZERO) {
            *element = nan();
            if let Some(word) = marks.get(k / 32) {
                word.fetch_or(1 << (k % 32), Ordering::Relaxed);
            }
        }
    }
}

struct Encode<'a, T: Real> {
    array: &'a [T::Bytes],
    exact: &'a [AtomicU32],
    layer: Layer<T>,
    values: &'a mut [T::Bytes],
    numbers: &'a mut [T::Bytes],
}

impl<T: Real> Task<T::Word> for Encode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Rows<T::Word>>(self, _: S) {
        let Self { array, exact, layer, values, numbers } = self;
        let mut at = 0;
        while at < array.len() {
            let n = TILE.min(array.len() - at);
            let back = &mut values[at..at + n];
            let mut tile = Tile::<T>::bring(&array[at..at + n], &exact[at / 32..(at + n).div_ceil(32)], back);
            let values = &mut tile.values[..n];
            quantise(&layer.rule, &layer.limit, &tile.elements[..n], values, &mut numbers[at..at + n]);
            let mut k = 0;
            while k < n {
                back[k] = values[k].bytes();
                k += 1;
            }
            at += n;
        }
    }
}

struct Decode<'a, T: Real> {
    numbers: Numbers<'a, T>,
    /// The first element, of all.
    at: usize,
    bin: T,
    values: &'a mut [T::Bytes],
}

impl<T: Real> Task<T::Word> for Decode<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Rows<T::Word>>(self, _: S) {
        let Self { numbers, at: first, bin, values } = self;
        let mut codes = [T::Bytes::default(); TILE];
        let mut at = 0;
        while at < values.len() {
            let n = TILE.min(values.len() - at);
            let (codes, values) = (&mut codes[..n], &mut values[at..at + n]);
            numbers.bring(first + at, codes);
            let mut k = 0;
            while k < n {
                values[k] = ordinary(T::of(values[k]) + T::whole(T::word(codes[k])) * bin).bytes();
                k += 1;
            }
            at += n;
        }
    }
}
