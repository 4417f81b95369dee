//! Encoding: for each layer, chooses bound and bins, then refines step by step from the first
//! element to the array.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::codec::mode::Mode;
use crate::codec::multigrid::Chunk;
use crate::codec::multigrid::accuracy::{Errors, Limit, Marked, Watch};
use crate::codec::multigrid::arrays::Arrays;
use crate::codec::multigrid::choose::{Place, Sampler};
use crate::codec::multigrid::exact;
use crate::codec::multigrid::norm;
use crate::codec::multigrid::numbers;
use crate::codec::multigrid::params::MAX_LAYERS;
use crate::codec::multigrid::payload::{self, Head, Layer};
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::Refine;
use crate::codec::multigrid::walk::{self, Memory};
use crate::codec::{Encoded, Job};
use crate::cpu::float::Ieee;
use crate::cpu::thread_cache::ThreadCache;
use crate::error::{Result, try_vec};
use crate::format::checksum::Checksum;
use crate::stage::blocks::table::check_of;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::quantize;
use crate::stage::range::Ranger;
use crate::stage::rows::{LANES, Simd, WithSimd, dispatch};
use crate::stage::word::Word;

/// Ratio of the bins of consecutive levels, and limit of the total ratio: coarser levels get
/// shorter bins. Applies if the mean square error counts and there are several axes. Few nodes have
/// these bins, and the rest is predicted from them.
const FINER: f64 = 1.5;
const FINEST: f64 = 4.0;
/// Number of walks that measure errors to find the largest bins for a mean square error.
const TRIES: usize = 4;
const TRIES_OF_NORMS: usize = 8;
/// Limit of a single error, relative to the requested root mean square. In a field that is nearly
/// constant everywhere, the few other elements would otherwise be lost.
const LARGEST_ERROR: f64 = 8.0;
/// Errors are measured in units; a whole bin has this many.
const UNITS: f64 = 32768.0;
/// The true root mean square error can exceed that of errors rounded to whole units by at most this
/// many units.
const ROUNDED: f64 = 0.511;

/// Relative margin by which a norm can exceed the one computed with rounding.
const ROUNDED_NORM: f64 = 1e-9;

/// Number of samples whose median is taken.
const MIDDLE_OF: usize = 63;

/// Encodes `src` into `dst`, which has at least the planned number of bytes.
///
/// # Errors
/// `OutOfMemory`.
pub fn encode<T: Real>(chunk: &Chunk, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
    let _ieee = Ieee::begin();
    let mut memory = ThreadCache::<Memory<T>>::take();
    let (array, asked) = (T::elements(src), chunk.asked);
    let n_words = array.len().div_ceil(32);
    let Memory { grids, numbers, values, exact, exact_before } = &mut *memory;
    walk::at_least(exact, n_words)?;
    walk::at_least(exact_before, n_words)?;
    let [exact, exact_before] = [&exact[..n_words], &exact_before[..n_words]];
    exact_before.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    let missing = Marked::new(chunk.missing::<T>().as_ref());
    let mut coder = Coder::<T> { chunk, job, array, missing, grids, numbers, values, exact, exact_before };

    let mut plan = coder.plan(src)?;
    let (n_head, n_all) = (payload::head_bytes(&chunk.grid, asked.n_layers), chunk.payload_bound() as usize);
    let stored = Ok(Encoded { n_bytes: src.len(), sums: Checksum::default() });
    let (front, rest) = dst[..n_all].split_at_mut(n_head);
    let (mut end, mut sums) = (0, Checksum::default());
    for k in 0..asked.n_layers {
        coder.choose(&mut plan, k)?;
        coder.walk(&plan.head, k, None)?;
        let grid = plan.head.grid;
        // If the payload does not fit, the array is stored. Every writer has the same limits: one
        // for layer 0, and twice that for all layers.
        let room = if k == 0 { chunk.room() as usize - n_head } else { rest.len() };
        let arrays = Arrays::new(grid);
        if (k > 0 && n_head + end >= src.len()) || end + arrays.most_bytes(size_of::<T>()) > room {
            return stored;
        }
        let layer = &mut plan.head.layers[k];
        let (n_bytes, of_numbers) =
            numbers::encode::<T>(&arrays, job, coder.numbers, n_head + end, &mut rest[end..room])?;
        layer.n_bytes = n_bytes;
        end += n_bytes;
        sums = sums.combine(of_numbers);
        if coder.has_exact(k) {
            let row = grid.extents[3];
            let written = exact::write::<T>(array, row, exact, chunk.element()?, &mut rest[end..room]);
            let Some(n_exact) = written else { return stored };
            layer.n_exact = n_exact;
            let bytes = &rest[end..][..n_exact];
            let of_exact = checksum_of(job.level, Prefetch::Nothing, bytes, (n_head + end) as u64);
            layer.exact_check = check_of(of_exact, n_exact);
            sums = sums.combine(of_exact);
            end += n_exact;
        }
        if k + 1 < asked.n_layers {
            coder.keep_layer();
        }
    }
    plan.head.write(front);
    sums = sums.combine(checksum_of(job.level, Prefetch::Nothing, front, 0));
    Ok(Encoded { n_bytes: n_head + end, sums })
}

/// The decisions made before a walk.
#[derive(Clone, Copy)]
struct Plan {
    head: Head,
    /// The bound of the whole payload; in mode rms, the value.
    of_all: f64,
    /// Approximate rounding error to expect.
    unit: f64,
}

/// The encoder of one chunk.
struct Coder<'a, T: Real> {
    chunk: &'a Chunk,
    job: &'a Job<'a>,
    array: &'a [T::Bytes],
    missing: Marked<T>,
    grids: &'a mut [Vec<T::Bytes>; 2],
    numbers: &'a mut Vec<T::Bytes>,
    values: &'a mut Vec<T::Bytes>,
    exact: &'a [AtomicU32],
    exact_before: &'a [AtomicU32],
}

impl<T: Real> Coder<'_, T> {
    /// Makes the decisions that all layers share.
    fn plan(&self, src: &[u8]) -> Result<Plan> {
        let asked = self.chunk.asked;
        let of_all = if asked.mode == Mode::Rel { self.relative_bound(src)? } else { asked.value };
        let bound = asked.of_layer(0, of_all);
        let middle = self.middle();
        let largest = self.largest(middle, T::at_most(bound));
        let unit = if largest == T::ZERO { 0.0 } else { power_of_2(exponent(largest) - T::FRACTION_BITS as i32) };
        let first = self.first(middle, T::at_most(bound)).to_word().to_u64();
        let layers = [Layer::NEW; MAX_LAYERS];
        let head = Head { first, grid: self.chunk.grid, layers, n_layers: asked.n_layers };
        Ok(Plan { head, of_all, unit })
    }

    /// Chooses a layer's bins and the predictions of its steps. For layer 0, also chooses the order
    /// of the axes.
    fn choose(&mut self, plan: &mut Plan, k: usize) -> Result<()> {
        let bound = self.chunk.asked.of_layer(k, plan.of_all);
        plan.set_bins::<T>(k, within(bound, plan.unit), bound, [1.0; 2]);
        let Head { grid, layers, .. } = &mut plan.head;
        let bin = T::at_most(layers[k].bins[0]);
        // The samples are taken from the finest levels, whose bins are the longest.
        let reach = |k: usize| T::at_most(layers[k].bins[0]) * T::HALF;
        let before = (k > 0).then(|| (&self.values[..self.array.len()], reach(k - 1)));
        let sampler = Sampler {
            array: self.array,
            layers: before,
            grid: *grid,
            bin,
            inverse: bin.inverse(),
            missing: self.missing,
        };
        if k == 0 {
            (*grid, layers[k].cubic) = sampler.choose();
        } else {
            (layers[k].predicts, layers[k].cubic) = sampler.choose_further();
        }
        if self.chunk.asked.mode == Mode::Rms { self.widen(plan, k, bound) } else { Ok(()) }
    }

    /// Converts the value of mode rel to an absolute bound for this array.
    fn relative_bound(&self, src: &[u8]) -> Result<f64> {
        let Chunk { dtype, asked, .. } = *self.chunk;
        let missing = self.chunk.missing::<T>();
        let element = self.chunk.element()?;
        let numbers = quantize::Numbers::of(dtype);
        let ranger = Ranger { pool: self.job.pool, level: self.job.level, element, numbers };
        ranger.bound(src, missing.as_ref().map(std::slice::from_ref), asked.value)
    }

    /// An ordinary element that is the median of some samples, or 0 if there is none. Magnitudes
    /// are measured relative to it, so it must not be an outlier itself.
    fn middle(&self) -> T {
        let n = self.array.len();
        let element = |i: usize| T::of(self.array[i]);
        let (mut some, mut n_some) = ([T::ZERO; MIDDLE_OF], 0);
        for i in 0..MIDDLE_OF {
            some[n_some] = element(Place::number(i).digit(n));
            n_some += usize::from(self.missing.is_ordinary(some[n_some]));
        }
        let some = &mut some[..n_some];
        some.sort_unstable_by(|a, b| a.to_f64().total_cmp(&b.to_f64()));
        let any = || (0..n).map(element).find(|&x| self.missing.is_ordinary(x)).unwrap_or(T::ZERO);
        some.get(some.len() / 2).copied().unwrap_or_else(any)
    }

    /// The prediction of the first element. With several layers it is the element itself, unless
    /// that is an outlier. Then it need not be stored exactly, and coarse grids without exact
    /// elements need fewer bytes.
    fn first(&self, middle: T, bound: T) -> T {
        let first = T::of(self.array[0]);
        let is_near = self.missing.is_ordinary(first) && (first - middle).size() < bound * T::CODES;
        if self.chunk.asked.n_layers > 1 && is_near { first } else { middle }
    }

    /// The magnitude of the largest ordinary element that may have a code with this bound.
    fn largest(&self, middle: T, bound: T) -> T {
        let largest = |piece: &[T::Bytes]| {
            dispatch(self.job.level, Largest { piece, middle, farthest: bound * T::CODES, missing: self.missing })
        };
        let n_pieces = self.job.pool.pieces(size_of_val(self.array) as u64);
        if n_pieces == 1 {
            return largest(self.array);
        }
        let pieces = self.array.chunks(self.array.len().div_ceil(n_pieces)).collect();
        self.job.pool.map(pieces, largest).into_iter().fold(T::ZERO, |a, b| if b > a { b } else { a })
    }

    /// Performs all steps of a layer and computes their numbers, those of each step in the order of
    /// its nodes. If `units` is given, returns the errors, measured such that 1.0 has `units`
    /// units.
    fn walk(&mut self, head: &Head, k: usize, units: Option<T>) -> Result<Errors> {
        let (grid, n) = (&head.grid, self.array.len());
        self.exact.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let is_any = self.exact_before.iter().any(|word| word.load(Ordering::Relaxed) != 0);
        let exact_before = is_any.then_some(self.exact_before);
        let limit = Limit { bound: limit(head.layers[k].bound), missing: self.missing };
        let watch = Watch { array: self.array, exact_before, limit, exact: self.exact, units };
        let first = T::of(T::put(T::Word::from_u64(head.first)));
        let mut errors = watch.begin(first);
        let layers = (k > 0).then(|| &self.values[..n]);
        // The next layer begins with the values after the last step.
        let (n_steps, is_kept) = (grid.n_steps(0), k + 1 < head.n_layers || self.chunk.asked.s != 0.0);
        walk::reserve(grid, n_steps, is_kept, self.grids)?;
        walk::at_least(self.numbers, n - 1)?;
        self.grids[0][0] = first.bytes();
        let mut at = 0;
        for (i, step) in grid.steps().enumerate() {
            let [even, odd] = &mut *self.grids;
            let (before, after) = if i % 2 == 0 { (even, odd) } else { (odd, even) };
            let is_kept = is_kept || i + 1 < n_steps;
            let after = if is_kept { &mut after[..step.n_nodes()] } else { &mut [][..] };
            let refine = Refine::<T> { step: &step, rule: head.rule(k, i, &step), before, layers };
            let numbers = &mut self.numbers[at..at + step.n_new()];
            at += step.n_new();
            errors = errors.combine(walk::encode(&refine, &watch, self.job, numbers, after)?);
        }
        Ok(errors)
    }

    /// Searches for the largest bins of a layer whose root mean square error does not exceed the
    /// value. On entry, the bins are those for a bound on every element; they remain if no larger
    /// ones are found.
    fn widen(&mut self, plan: &mut Plan, k: usize, value: f64) -> Result<()> {
        let (unit, s) = (plan.unit, f64::from(self.chunk.asked.s));
        let n_axes = self.chunk.grid.extents.iter().filter(|&&n| n > 1).count();
        let finer = if n_axes > 1 { FINER } else { 1.0 };
        // With other norms, coarse levels weigh more, and their bins are shorter by the same
        // factor.
        let finer = finer.max(2f64.powf(-s));
        let finest = FINEST.max(2f64.powf(-s * f64::from(self.chunk.grid.n_levels())));
        let (tries, least) = if s == 0.0 { (TRIES, 0.125) } else { (TRIES_OF_NORMS, 0.0) };
        // Start with the bin whose errors, if uniformly distributed, have this root mean square.
        // Then correct by the measurement, minus a small margin.
        let (mut half, mut best, mut too_wide) = (value * 3f64.sqrt(), None, f64::INFINITY);
        for _ in 0..tries {
            let mut wider = *plan;
            wider.set_bins::<T>(k, half, (half + unit.min(half)).min(f64::MAX), [finer, finest]);
            let units = units::<T>(wider.head.layers[k].bins[0]);
            let errors = self.walk(&wider.head, k, Some(units))?;
            let root = if s == 0.0 { root(errors, units) } else { self.norm(errors.n, value)? };
            let next = half * (value / root * if root <= value { 0.9995 } else { 0.998 }).clamp(least, 8.0);
            if root <= value && best.as_ref().is_none_or(|&(of_best, _)| half > of_best) {
                best = Some((half, wider));
                if !next.is_finite() || next < half * 1.005 {
                    break;
                }
            }
            if root > value {
                too_wide = too_wide.min(half);
            }
            let mut next = next.min(LARGEST_ERROR * value);
            if let Some((kept, _)) = best
                && s != 0.0
                && !(kept < next && next < too_wide)
                && too_wide.is_finite()
            {
                // Norms vary less smoothly than means, so try the middle of the accepted and the
                // rejected bin.
                next = (kept * too_wide).sqrt();
            }
            if next == half {
                break;
            }
            half = next;
        }
        if let Some((_, wider)) = best {
            *plan = wider;
        } else if s != 0.0 {
            // The norm is below the value if each error is below the value divided by the largest
            // weight.
            let bound = value * 2f64.powf(s * f64::from(self.chunk.grid.n_levels()));
            plan.set_bins::<T>(k, within(bound, unit), bound, [1.0; 2]);
        }
        // The root mean square is below the value if each error is.
        Ok(())
    }

    /// An upper bound on the norm of the errors after a walk; `n` elements are not stored exactly.
    /// Errors are about as large as `value`. They are scaled by its power of two, so that their
    /// squares neither underflow nor overflow.
    fn norm(&self, n: u64, value: f64) -> Result<f64> {
        let scale = power_of_2(-exponent(value).clamp(-1022, 1022));
        let mut errors = try_vec(self.array.len(), "the errors of a chunk")?;
        let nodes = &self.grids[self.chunk.grid.n_steps(0) % 2];
        let exact = |i: usize| {
            let [now, before] = [self.exact, self.exact_before].map(|exact| exact[i / 32].load(Ordering::Relaxed));
            (now | before) >> (i % 32) & 1 == 1
        };
        errors.extend(self.array.iter().zip(nodes).enumerate().map(|(i, (&element, &node))| {
            if exact(i) { 0.0 } else { (T::of(element).to_f64() - T::of(node).to_f64()) * scale }
        }));
        let square = norm::square(errors, self.chunk.grid.extents, self.chunk.asked.s.into())?;
        let norm = (square / n.max(1) as f64).sqrt() * (1.0 + ROUNDED_NORM) / scale;
        // Only subnormal quotients are rounded.
        Ok(if norm < f64::MIN_POSITIVE { norm.next_up() } else { norm })
    }

    /// True if the layer just walked has elements that it must store exactly and that no earlier
    /// layer has stored. From now on, only these are marked.
    fn has_exact(&self, k: usize) -> bool {
        let mut all = 0;
        for (word, before) in self.exact.iter().zip(self.exact_before) {
            let (marked, known) = (word.load(Ordering::Relaxed), before.load(Ordering::Relaxed));
            if k > 0 && marked & known != 0 {
                word.store(marked & !known, Ordering::Relaxed);
            }
            all |= marked & !known;
        }
        all != 0
    }

    /// Saves the result of the layer just walked for the next layer.
    fn keep_layer(&mut self) {
        for (word, before) in self.exact.iter().zip(self.exact_before) {
            before.fetch_or(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        std::mem::swap(self.values, &mut self.grids[self.chunk.grid.n_steps(0) % 2]);
    }
}

impl Plan {
    /// Sets the bound and the bins of a layer. The finest level has bins with this half-width; each
    /// coarser level has bins shorter by `finer`, in total by at most `finest`.
    fn set_bins<T: Real>(&mut self, k: usize, half: f64, bound: f64, [finer, finest]: [f64; 2]) {
        let mut factor = 1.0;
        let layer = &mut self.head.layers[k];
        for bin in &mut layer.bins[..self.head.grid.n_levels() as usize] {
            *bin = T::at_most(self::bin::<T>(half) / factor).to_f64();
            factor = finest.min(factor * finer);
        }
        layer.bound = bound;
    }
}

/// The magnitude of the largest element that is not missing and is nearer to `middle` than
/// `farthest`.
struct Largest<'a, T: Real> {
    piece: &'a [T::Bytes],
    middle: T,
    farthest: T,
    missing: Marked<T>,
}

impl<T: Real> Largest<'_, T> {
    #[inline(always)]
    fn find<const MANY: bool>(self) -> T {
        let Self { piece, middle, farthest, missing } = self;
        let mut largest = [T::ZERO; LANES];
        let mut at = 0;
        while at < piece.len() {
            let n = LANES.min(piece.len() - at);
            let row = &piece[at..at + n];
            let mut lane = 0;
            while lane < n {
                let x = T::of(row[lane]);
                // The comparison is false for elements that are not finite.
                let is_counted = (x - middle).size() < farthest && !missing.has::<MANY>(x);
                let size = if is_counted { x.size() } else { T::ZERO };
                largest[lane] = if size > largest[lane] { size } else { largest[lane] };
                lane += 1;
            }
            at += LANES;
        }
        largest.into_iter().fold(T::ZERO, |a, b| if b > a { b } else { a })
    }
}

impl<T: Real> WithSimd<T::Word> for Largest<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<S: Simd<T::Word>>(self, _: S) -> T {
        if self.missing.are_many() { self.find::<true>() } else { self.find::<false>() }
    }
}

/// The bin with this half-width. Four times its length and more must be finite.
fn bin<T: Real>(half: f64) -> f64 {
    (2.0 * half).min(T::MAX.to_f64() / 16.0)
}

/// The limit that errors must stay below, for a bound.
fn limit<T: Real>(bound: f64) -> T {
    // Below the smallest positive number there is only the error 0.
    let (bound, least) = (T::at_most(bound), T::of(T::put(T::Word::from_u64(1))));
    if bound < least { least } else { bound }
}

/// The number of error units in 1.0, from the finest bin.
fn units<T: Real>(bin: f64) -> T {
    T::at_most(UNITS / bin)
}

/// An upper bound on the root mean square of errors, which are given in such units.
fn root<T: Real>(errors: Errors, units: T) -> f64 {
    let mean = errors.squares as f64 / errors.n.max(1) as f64;
    (mean.sqrt() + ROUNDED) / units.to_f64()
}

/// The half-width of a bin that keeps errors within a bound if rounding adds up to `unit`; at least
/// half of the bound.
fn within(bound: f64, unit: f64) -> f64 {
    (bound - unit).max(bound / 2.0)
}

/// 2^`exponent`, or 0 if that is below the normal numbers.
fn power_of_2(exponent: i32) -> f64 {
    if exponent > -1023 { f64::from_bits(((exponent + 1023) as u64) << 52) } else { 0.0 }
}

/// The binary exponent of a number above 0.
fn exponent<T: Real>(x: T) -> i32 {
    (x.to_f64().to_bits() >> 52) as i32 - 1023
}
