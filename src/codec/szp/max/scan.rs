//! The way through a block, which encoder and decoder share: 32 lanes predict their numbers, and tell in which context
//! what is left of them is coded.

use crate::codec::szp::max::view::{Kind, MARGIN, Schedule, View};
use crate::codec::szp::max::weights::{Neighbours, TAPS, Weights};
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Contexts of symbols.
pub const CONTEXTS: usize = 28;
/// The size of what was left of a number is at most this …
pub const MAX_SIZE: u32 = (1 << 11) - 1;
/// … and that of a hole.
pub const HOLE_SIZE: u32 = 1 << 15;
/// With sums of sizes that are longer, how a prediction was rounded does not matter.
const ROUNDED_UP_TO: u32 = 5;
/// Longer ones are in the same context.
const MAX_LENGTH: u32 = 12;
const LONGER_AT: u32 = 3 * (ROUNDED_UP_TO + 1);
const HOLES_AT: u32 = LONGER_AT + MAX_LENGTH - ROUNDED_UP_TO;
/// In place of a size that is not looked at.
const NOWHERE: (isize, u32) = (0, 0);

/// The 32 numbers of a time.
pub struct Step<W> {
    /// How many times were before.
    pub time: usize,
    /// The lanes that have a number.
    pub lanes: u32,
    /// Which number of the block that is.
    pub places: [u32; LANES],
    /// What it is expected to be.
    pub predicted: [W; LANES],
    /// All bits are set where that was rounded up: what is left has the other sign then.
    pub signs: [W; LANES],
    /// The context of its symbol.
    pub contexts: [u32; LANES],
}

/// What a coder makes of a step: the numbers, and the sizes of what was left of them. Lanes without one do not matter.
pub trait Coder<W> {
    /// Codes the numbers of a step.
    fn code(&mut self, step: &Step<W>) -> ([W; LANES], [u32; LANES]);
}

/// Memory of a cell each.
pub struct Cells<'a, W> {
    /// Numbers.
    pub numbers: &'a mut [W],
    /// Sizes of what was left of them.
    pub sizes: &'a mut [u32],
}

/// The lanes' neighbours in one direction.
#[inline(always)]
fn at<W>(cells: &[W], at: usize, offset: isize) -> &[W; LANES] {
    cells[at.wrapping_add_signed(offset)..].first_chunk().expect("cells lie side by side")
}

/// Sizes that decide about the context: where they are, and how often they count in their sum.
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

/// Codes all numbers of a block.
#[inline(always)]
pub fn scan<W: Word>(view: &View, weights: &Weights, cells: &mut Cells<W>, coder: &mut impl Coder<W>) {
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
    cells.numbers[..front].fill(W::ZERO);
    cells.sizes[..front].fill(0);

    let fraction = weights.fraction;
    let half = W::from_u64(1 << fraction >> 1);
    let mut schedule = Schedule::new(*view);
    for time in 0..view.n_times() {
        let here = front + LANES * time;
        if let Some(row) = schedule.begin() {
            let lane = row % LANES;
            weights.give(view.kind(row), lane, &mut of_lanes);
            let first = if row > 0 { cells.numbers[here + lane - view.row_step()] } else { W::ZERO };
            (1..=MARGIN).for_each(|k| cells.numbers[here + lane - k * LANES] = first);
        }
        let before = *at(cells.numbers, here, offsets[0]);
        let mut sums = [half; LANES];
        for (weights, &offset) in of_lanes[..count].iter().zip(&offsets) {
            let neighbours = at(cells.numbers, here, offset);
            for lane in 0..LANES {
                sums[lane] = sums[lane].plus(weights[lane].times(neighbours[lane]));
            }
        }
        let mut sizes = [0; LANES];
        for &(offset, factor) in near.iter().filter(|&&size| size != NOWHERE) {
            let of = at(cells.sizes, here, offset);
            for lane in 0..LANES {
                sizes[lane] += factor * of[lane];
            }
        }
        let (mut predicted, mut signs, mut contexts) = (before, before, sizes);
        for lane in 0..LANES {
            predicted[lane] = before[lane].plus(sums[lane].shift_signed(fraction));
            let above = (sums[lane] & W::low_mask(fraction)).minus(half);
            signs[lane] = above.shift_signed(W::BITS - 1);
            let distance = (above ^ signs[lane]).minus(signs[lane]);
            contexts[lane] = context(sizes[lane], (distance.to_u64() as u32 * 6) >> fraction);
        }
        let step = Step { time, lanes: schedule.lanes, places: schedule.places, predicted, signs, contexts };
        let (numbers, sizes) = coder.code(&step);
        // What is behind a row is its last number.
        for lane in 0..LANES {
            let is_one = schedule.lanes >> lane & 1 != 0;
            cells.numbers[here + lane] = if is_one { numbers[lane] } else { before[lane] };
            cells.sizes[here + lane] = if is_one { sizes[lane] } else { 0 };
        }
        schedule.end();
    }
}

/// The context for a sum of sizes, and a distance of the prediction from its rounded value in sixths.
#[inline(always)]
fn context(sizes: u32, sixths: u32) -> u32 {
    let length = u32::BITS - sizes.leading_zeros();
    let rounded = 3 * length + sixths.min(2);
    let longer = LONGER_AT + length.min(MAX_LENGTH).wrapping_sub(ROUNDED_UP_TO + 1);
    let holes = sizes / HOLE_SIZE;
    let of_holes = HOLES_AT + u32::from(holes >= 4) + u32::from(holes >= 8);
    let of_sizes = if length <= ROUNDED_UP_TO { rounded } else { longer };
    if holes > 0 { of_holes } else { of_sizes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_all_there_is() {
        let mut seen = [false; CONTEXTS];
        for sizes in (0..HOLE_SIZE).chain((1..12).map(|holes| holes * HOLE_SIZE)) {
            (0..4).for_each(|sixths| seen[context(sizes, sixths) as usize] = true);
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
