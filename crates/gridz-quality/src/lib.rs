//! Compares decoded arrays with their originals: errors, and the usual metrics for comparing
//! codecs.
//!
//! [`compare`] is the entry point. It reads both arrays once (`pair`), and once more for each kind
//! of structural similarity (`ssim`), which needs the range. Differences are kept exactly
//! (`exact`), so rounding cannot decide whether a bound is kept. The division of the arrays into
//! pieces for threads depends on the array alone, and results are combined in order. So the report
//! does not depend on the number of threads. `range` computes the range alone.

mod exact;
mod moments;
mod number;
mod pair;
mod range;
mod ssim;

use std::ops::Range;

use gridz::{Context, MissingElements, Mode};
use gridz_codecs::cpu::float::Ieee;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};
use gridz_codecs::types::{Array, DType, Shape};
use moments::Scales;
use number::{AnyNumber, Number, Task, with_numbers_of};
use pair::{BLOCK, Findings, Pair};
use ssim::{Read, Similarities, Ssim};

pub use range::{range, relative_bound};

/// Smallest piece of work for a thread: numbers in the pass over both arrays, tiles of windows for
/// structural similarity.
const PIECE: [usize; 2] = [256 * BLOCK, 16];
/// Largest number of pieces, which limits the number of partial results to combine.
const MAX_PIECES: usize = 4096;

/// The largest allowed error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// No bound.
    None,
    /// An absolute error.
    Abs(f64),
    /// An error as a multiple of the original's range.
    Rel(f64),
    /// An error as a multiple of the original number's magnitude.
    Pwrel(f64),
}

impl Bound {
    /// The bound of a mode.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that the mode does not allow, `UnsupportedJob` for a mode that
    /// does not bound each single error.
    pub fn new(mode: Mode, value: f64) -> Result<Self> {
        let (bound, is_right) = match mode {
            Mode::Lossless => (Self::None, value == 0.0),
            Mode::Abs => (Self::Abs(value), value > 0.0 && value.is_finite()),
            Mode::Rel => (Self::Rel(value), value > 0.0 && value.is_finite()),
            Mode::Pwrel => (Self::Pwrel(value), value > 0.0 && value < 1.0),
            other => {
                let text = format!("mode {} does not bound each error; use abs, rel or pwrel", other.name());
                return Err(Error::unsupported(text));
            }
        };
        let wrong = || {
            let name = mode.name();
            Error::invalid(format!(
                "{name}={value} is invalid; use 0 for lossless, a finite number above 0 for abs and rel, and \
                 a number between 0 and 1 for pwrel"
            ))
        };
        if is_right { Ok(bound) } else { Err(wrong()) }
    }
}

/// Result of [`compare`]. Numbers are elements, or the two parts of each complex element. Indices
/// are those of elements in C order; of several equal errors, the first counts. A field is NaN if
/// it has no defined value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Elements of the array.
    pub elements: u64,
    /// Numbers that are finite and not missing in both arrays. All fields below describe these
    /// numbers, except the mismatches.
    pub numbers: u64,
    /// Elements that are missing in at least one array and whose bytes differ between the arrays.
    pub fill_mismatches: u64,
    /// Numbers that are NaN in one array, and not the same NaN in the other.
    pub nan_mismatches: u64,
    /// Numbers that are infinite in one array, and not the same infinity in the other.
    pub infinity_mismatches: u64,
    /// Largest absolute error.
    pub largest_error: f64,
    /// The exact largest error minus `largest_error`.
    pub largest_error_rest: f64,
    /// Element with the largest error.
    pub largest_error_index: Option<u64>,
    /// Largest quotient of an error and the magnitude of the original number.
    pub largest_relative_error: f64,
    /// Element with the largest relative error.
    pub largest_relative_error_index: Option<u64>,
    /// The bound as an absolute error.
    pub bound: f64,
    /// Largest quotient of an error and its bound: above 1 if and only if an error exceeds its
    /// bound.
    pub error_over_bound: f64,
    /// Smallest original number.
    pub minimum: f64,
    /// Largest original number.
    pub maximum: f64,
    /// Largest minus smallest original number.
    pub range: f64,
    /// Root of the sum of the squares of all errors.
    pub l2_error: f64,
    /// Root of the mean of the squares of all errors.
    pub rmse: f64,
    /// `rmse` divided by the range.
    pub nrmse: f64,
    /// 20 log₁₀ of the range divided by `rmse`, in dB.
    pub psnr: f64,
    /// Pearson's correlation.
    pub correlation: f64,
    /// Mean structural similarity of planes of the last two axes.
    pub ssim_2d: f64,
    /// Mean structural similarity of volumes of the last three axes.
    pub ssim_3d: f64,
}

/// Checks that the named buffers have the array's length, and that a valid range suits its element
/// type.
fn check(array: &Array, memory: &[(&str, &[u8])], missing: &MissingElements) -> Result<()> {
    for (name, bytes) in memory {
        if bytes.len() as u64 != array.n_bytes() {
            let (n, need) = (bytes.len(), array.n_bytes());
            return Err(Error::invalid(format!("{name} has {n} bytes, but the array has {need}")));
        }
    }
    let has_range = missing.limits() != [None; 2];
    if has_range && matches!(array.dtype(), DType::C64 | DType::C128 | DType::Opaque) {
        let name = array.dtype().name();
        return Err(Error::invalid(format!(
            "{name} elements are not ordered, so they cannot have a valid range; remove it"
        )));
    }
    Ok(())
}

/// Compares two arrays; missing elements are in the array's byte order.
///
/// # Errors
/// `InvalidArgument` for buffers whose length is not the array's and for a valid range of elements
/// without an order; `UnsupportedJob` for elements that are no numbers and for a `Pwrel` bound on
/// integers; `OutOfMemory`.
pub fn compare(
    array: &Array,
    original: &[u8],
    decoded: &[u8],
    bound: Bound,
    missing: &MissingElements,
    context: &Context,
) -> Result<Report> {
    check(array, &[("original", original), ("decoded", decoded)], missing)?;
    use DType::*;
    let dtype = array.dtype();
    let is_float = matches!(dtype, F16 | Bf16 | F32 | F64 | C64 | C128);
    let pwrel = match bound {
        Bound::Pwrel(_) if !is_float => {
            return Err(Error::unsupported(format!(
                "mode pwrel does not support {} elements, which are integers; use abs",
                dtype.name()
            )));
        }
        Bound::Pwrel(value) => Some(value),
        _ => None,
    };
    let parts = if matches!(dtype, C64 | C128) { 2 } else { 1 };
    let pair = Pair { bytes: [original, decoded], order: array.order(), parts, missing, pwrel };
    let comparison = Comparison { pair, shape: array.shape(), bound, pool: context.pool() };
    let (look, read) = with_numbers_of(dtype, Functions)?;
    comparison.report(look, read)
}

/// [`Pair::look`] for numbers of a type.
type Look = fn(&Pair, Range<usize>, Scales) -> Findings;

/// The functions of [`Pair`] for numbers of a type. All other code is compiled once for all types.
struct Functions;

impl Task for Functions {
    type Output = (Look, Read);

    fn run<N: Number>(self) -> Result<(Look, Read)> {
        Ok((|pair, places, scales| pair.look::<N>(places, scales), |pair, start, rows| pair.read::<N>(start, rows)))
    }
}

/// Two arrays, and the bound to check.
struct Comparison<'a> {
    pair: Pair<'a>,
    shape: &'a Shape,
    bound: Bound,
    pool: &'a Pool,
}

impl Comparison<'_> {
    fn report(self, look: Look, read: Read) -> Result<Report> {
        let _ieee = Ieee::begin();
        let (mut found, mut scales) = (self.look(look, Scales::NONE)?, Scales::NONE);
        let range = found.range();
        let largest = found.largest.map(|(error, _)| error);
        let is_some = |exact: Option<exact::Exact>| exact.is_some_and(|exact| exact.nearest > 0.0);
        if found.numbers > 0 && !found.moments.are_sound(is_some(range), is_some(largest)) {
            scales = Scales::of(found.magnitude, largest.map_or(0.0, |error| error.nearest));
            found = self.look(look, scales)?;
        }

        let index = |number: usize| (number / self.pair.parts) as u64;
        let extremes = found.extremes.map_or([f64::NAN; 2], |extremes| extremes.map(AnyNumber::to_f64));
        let (nearest_range, rmse) =
            (range.map_or(f64::NAN, |range| range.nearest), found.moments.root_mean_square_error(scales));
        let largest_relative_error = found.largest_relative.map_or(f64::NAN, |(error, _)| error);
        // The bound, the rounded quotient of the largest error and the bound, and whether the bound
        // is broken.
        let judged = match (self.bound, largest, range) {
            (Bound::Abs(bound), Some(error), _) => Some((bound, error.nearest / bound, error.exceeds(bound))),
            (Bound::Rel(value), Some(error), Some(range)) => {
                let bound = range.times_down(value);
                let quotient = if error.nearest == 0.0 { 0.0 } else { error.nearest / bound };
                Some((bound, quotient, error.exceeds(bound)))
            }
            (Bound::Pwrel(value), Some(_), _) => {
                Some((f64::NAN, largest_relative_error / value, found.exceeds_pwrel))
            }
            _ => None,
        };
        let (bound, error_over_bound) = match judged {
            Some((bound, quotient, true)) => (bound, quotient.max(1f64.next_up())),
            Some((bound, quotient, false)) => (bound, quotient.min(1.0)),
            None => (f64::NAN, f64::NAN),
        };
        let similarity = |rank| match range {
            Some(range) => self.similarity(read, rank, extremes, range),
            None => Ok(f64::NAN),
        };
        Ok(Report {
            elements: self.shape.n_elements(),
            numbers: found.numbers,
            fill_mismatches: found.fill_mismatches,
            nan_mismatches: found.nan_mismatches,
            infinity_mismatches: found.infinity_mismatches,
            largest_error: largest.map_or(f64::NAN, |error| error.nearest),
            largest_error_rest: largest.map_or(f64::NAN, |error| error.rest),
            largest_error_index: found.largest.map(|(_, number)| index(number)),
            largest_relative_error,
            largest_relative_error_index: found.largest_relative.map(|(_, number)| index(number)),
            bound,
            error_over_bound,
            minimum: extremes[0],
            maximum: extremes[1],
            range: nearest_range,
            l2_error: if found.numbers > 0 { found.moments.l2_error(scales) } else { f64::NAN },
            rmse,
            nrmse: rmse / nearest_range,
            psnr: 20.0 * (nearest_range.log10() - rmse.log10()),
            correlation: found.moments.correlation(),
            ssim_2d: similarity(2)?,
            ssim_3d: similarity(3)?,
        })
    }

    /// Reads all numbers. `scales` are the powers of two that apply before squaring.
    fn look(&self, look: Look, scales: Scales) -> Result<Findings> {
        let n_numbers = self.shape.n_elements() as usize * self.pair.parts;
        let work = |places: Range<usize>| {
            let _ieee = Ieee::begin();
            look(&self.pair, places, scales)
        };
        let found = self.pool.map(pieces(n_numbers, PIECE[0])?, work);
        Ok(found.into_iter().fold(Findings::default(), Findings::and))
    }

    fn similarity(&self, read: Read, rank: usize, extremes: [f64; 2], range: exact::Exact) -> Result<f64> {
        let Some(ssim) = Ssim::new(&self.pair, read, rank, self.shape.extents(), extremes, range) else {
            return Ok(f64::NAN);
        };
        let look = |tiles: Range<usize>| {
            let _ieee = Ieee::begin();
            ssim.look(tiles)
        };
        let found = self.pool.map(pieces(ssim.n_tiles(), PIECE[1])?, look);
        let all: Result<Similarities> =
            found.into_iter().try_fold(Similarities::default(), |all, next| Ok(all.and(next?)));
        Ok(all?.mean())
    }
}

/// Divides `n` items into pieces of at least `least` items, independent of the number of threads.
fn pieces(n: usize, least: usize) -> Result<Vec<Range<usize>>> {
    let length = n.div_ceil(MAX_PIECES).next_multiple_of(least).max(least);
    let mut pieces = try_vec(n.div_ceil(length), "bookkeeping")?;
    pieces.extend((0..n).step_by(length).map(|start| start..n.min(start + length)));
    Ok(pieces)
}
