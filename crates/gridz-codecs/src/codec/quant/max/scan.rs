//! The traversal of a block, which encoder and decoder share. 32 lanes predict their numbers and
//! determine the contexts in which the residuals are coded.

use crate::codec::quant::max::view::{Kind, MARGIN, Schedule, View};
use crate::codec::quant::max::weights::{Neighbours, TAPS, Weights};
use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;

/// Number of contexts of symbols.
pub const CONTEXTS: usize = 28;
/// Maximum magnitude of a residual in the sums that determine contexts.
pub const MAX_SIZE: u32 = (1 << 11) - 1;
/// Magnitude of a filled element in these sums.
pub const FILL_SIZE: u32 = 1 << 15;
/// For longer sums of magnitudes, the rounding error of a prediction does not matter.
const ROUNDED_UP_TO: u32 = 5;
/// Longer sums share one context.
const MAX_LENGTH: u32 = 12;
const LONGER_AT: u32 = 3 * (ROUNDED_UP_TO + 1);
const FILL_MASK_AT: u32 = LONGER_AT + MAX_LENGTH - ROUNDED_UP_TO;
/// Used in place of a neighbor that is not examined.
const NOWHERE: (isize, u32) = (0, 0);

/// The 32 numbers of a time step.
pub struct Step<R> {
    /// Number of previous time steps.
    pub time: usize,
    /// The lanes that have a number.
    pub lanes: u32,
    /// The index of that number in the block.
    pub places: [u32; LANES],
    /// Its prediction.
    pub predicted: R,
    /// All bits are set if the prediction was rounded up; then the residual has the opposite sign.
    pub signs: R,
    /// The context of its symbol.
    pub contexts: R,
}

/// A coder returns the numbers of a step and the magnitudes of their residuals. Lanes without a
/// number do not matter.
pub trait Coder<W: Word, S: Simd<W>> {
    /// Codes the numbers of a step.
    fn code(&mut self, s: S, step: &Step<S::Row>) -> (S::Row, S::Row);
}

/// Buffers with one entry per cell.
pub struct Cells<'a, W> {
    /// Numbers.
    pub numbers: &'a mut [W],
    /// The magnitudes of their residuals.
    pub sizes: &'a mut [W],
}

/// The neighbors whose magnitudes determine the context: their offsets, and their factors in the
/// sum.
fn near(view: &View) -> [(isize, u32); 8] {
    let cell = LANES as isize;
    if view.is_line() {
        return [(-cell, 4), (-2 * cell, 3), (-3 * cell, 2), (-4 * cell, 1), NOWHERE, NOWHERE, NOWHERE, NOWHERE];
    }
    let (row, plane) = (view.row_step() as isize, (view.row_step() * view.per_plane) as isize);
    let of_plane = if view.is_deep() { [(-plane, 2), (-plane + cell, 1), (row - plane, 1)] } else { [NOWHERE; 3] };
    let [behind, beside, below] = of_plane;
    [(-cell, 2), (-2 * cell, 1), (-row, 2), (-row - cell, 1), (-row + cell, 1), behind, beside, below]
}

#[inline(always)]
pub fn scan<W: Word, S: Simd<W>>(
    s: S,
    view: &View,
    weights: &Weights,
    cells: &mut Cells<W>,
    coder: &mut impl Coder<W, S>,
) {
    let Cells { numbers, sizes } = cells;
    let neighbours = Neighbours::new(*view);
    let count = neighbours.count();
    let mut offsets = [0; TAPS];
    (0..count).for_each(|i| offsets[i] = neighbours.offset(i, view.row_step(), LANES));
    let near = near(view);
    let mut of_lanes = [[W::ZERO; LANES]; TAPS];
    if view.is_line() {
        (0..LANES).for_each(|lane| weights.give(Kind::First, lane, &mut of_lanes));
    }
    let front = view.front();
    numbers[..front].fill(W::ZERO);
    sizes[..front].fill(W::ZERO);

    let fraction = weights.fraction;
    let half_word = W::from_u64(1 << fraction >> 1);
    let (half, below) = (s.splat(half_word), s.splat(W::low_mask(fraction)));
    let mut schedule = Schedule::new(*view);
    for time in 0..view.n_times() {
        let here = front + LANES * time;
        if let Some(row) = schedule.begin() {
            let lane = row % LANES;
            weights.give(view.kind(row), lane, &mut of_lanes);
            let first = if row > 0 { numbers[here + lane - view.row_step()] } else { W::ZERO };
            (1..=MARGIN).for_each(|k| numbers[here + lane - k * LANES] = first);
        }
        let before = s.load(&numbers[here - LANES..]);
        let mut sum = half;
        for (weights, &offset) in of_lanes[..count].iter().zip(&offsets) {
            let neighbours = s.load(&numbers[here.wrapping_add_signed(offset)..]);
            sum = s.add(sum, s.mul(s.load(weights), neighbours));
        }
        let mut sizes_near = s.splat(W::ZERO);
        for &(offset, factor) in near.iter().filter(|&&size| size != NOWHERE) {
            let of = s.load(&sizes[here.wrapping_add_signed(offset)..]);
            sizes_near = s.add(sizes_near, s.mul_scalar(of, W::from_u64(factor.into())));
        }
        let above = s.sub(s.and(sum, below), half);
        let signs = s.shift_right_signed(above, W::BITS - 1);
        let distance = s.sub(s.xor(above, signs), signs);
        let sixths = s.shift_right(s.mul_scalar(distance, W::from_u64(6)), fraction);
        let step = Step {
            time,
            lanes: schedule.lanes,
            places: schedule.places,
            predicted: s.add(before, s.shift_right_signed(sum, fraction)),
            signs,
            contexts: contexts(s, sizes_near, sixths),
        };
        let (number, size) = coder.code(s, &step);
        // After the end of a row, its last number is repeated.
        s.store(s.select(schedule.lanes, number, before), &mut numbers[here..]);
        s.store(s.select_or_zero(schedule.lanes, size), &mut sizes[here..]);
        schedule.end();
    }
}

/// The contexts for sums of magnitudes, and for the rounding errors of predictions in sixths.
#[inline(always)]
fn contexts<W: Word, S: Simd<W>>(s: S, sizes: S::Row, sixths: S::Row) -> S::Row {
    let word = |n: u32| W::from_u64(n.into());
    let length = s.sub(s.splat(word(W::BITS)), s.leading_zeros(sizes));
    let rounded = s.add(s.mul_scalar(length, word(3)), s.min_signed(sixths, s.splat(word(2))));
    let longest = s.min_signed(length, s.splat(word(MAX_LENGTH)));
    let longer = s.add(longest, s.splat(word(LONGER_AT - ROUNDED_UP_TO - 1)));
    let contexts = s.select(s.gt_mask(length, word(ROUNDED_UP_TO)), longer, rounded);
    let are_near_fill = s.gt_mask(sizes, word(FILL_SIZE - 1));
    if are_near_fill == 0 {
        return contexts;
    }
    let one = s.splat(word(1));
    let four = s.select_or_zero(s.gt_mask(sizes, word(4 * FILL_SIZE - 1)), one);
    let eight = s.select_or_zero(s.gt_mask(sizes, word(8 * FILL_SIZE - 1)), one);
    let of_fill = s.add(s.splat(word(FILL_MASK_AT)), s.add(four, eight));
    s.select(are_near_fill, of_fill, contexts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::rows::PORTABLE;

    #[test]
    fn contexts_are_all_there_is() {
        let mut seen = [false; CONTEXTS];
        for sizes in (0..FILL_SIZE).chain((1..12).map(|fill_mask| fill_mask * FILL_SIZE)) {
            (0..4).for_each(|sixths| seen[contexts(PORTABLE, [sizes; LANES], [sixths; LANES])[0] as usize] = true);
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
