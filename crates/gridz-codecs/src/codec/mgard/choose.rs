//! What an encoder chooses: the order of the axes, and what each step predicts from. Other choices are as good for a decoder.
//!
//! Some nodes of the finest levels are predicted along each axis, from elements rounded to whole bins in place of what a decoder
//! would have. The axis along which least is left is the last one of each level, since most nodes are predicted along that. Costs are whole
//! numbers, so that they are the same on every back end.
//!
//! In a further layer the layers before tell within which bin an element is. Where their bins are shorter than predictions are off, that is all
//! that can be known; where they are longer, because the array is smooth, predictions know more.

use crate::codec::mgard::grid::{Grid, MAX_RANK, Step};
use crate::codec::mgard::real::Real;
use crate::codec::mgard::refine::{Marked, cubic, linear, near};
use crate::stage::entropy::log::log;
use crate::stage::word::Word;

/// Levels that are looked at; those above are like the last one.
const LEVELS: u32 = 3;
/// Of so many elements one is looked at for the finest level, within these numbers; half as many for each level above.
const SAMPLE_EVERY: usize = 1 << 10;
const LEAST_SAMPLES: usize = 1 << 6;
const MOST_SAMPLES: usize = 1 << 10;

/// A place in [0, 1), in 2^-64, of which digits of any bases can be taken. Two that follow each other are far apart.
pub struct Place(u64);

impl Place {
    /// Number `i`: multiples of the golden section.
    pub fn number(i: usize) -> Self {
        Self((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next digit to a base.
    pub fn digit(&mut self, base: usize) -> usize {
        let product = u128::from(self.0) * base as u128;
        self.0 = product as u64;
        (product >> 64) as usize
    }
}

/// What is looked at.
pub struct Sampler<'a, T: Real> {
    pub array: &'a [T::Bytes],
    /// What layers before have of it, and how near that is.
    pub layers: Option<(&'a [T::Bytes], T)>,
    pub grid: Grid,
    /// The bin of the finest level, and its inverse.
    pub bin: T,
    pub inverse: T,
    /// The elements that are missing.
    pub missing: Marked<T>,
}

/// What is left of samples without predictions from nodes, by linear and by cubic predictions, and how many samples that are.
#[derive(Debug, Clone, Copy, Default)]
struct Costs {
    nothing: u64,
    linear: u64,
    cubic: u64,
    n: u64,
}

impl Costs {
    fn predicts(&self) -> bool {
        self.linear.min(self.cubic) < self.nothing
    }

    fn is_cubic(&self) -> bool {
        self.cubic < self.linear
    }

    /// The lower one of a sample, in 2^-16 of its unit.
    fn each(&self) -> u64 {
        (self.linear.min(self.cubic) << 16).checked_div(self.n).unwrap_or(0)
    }
}

/// Those of each axis and level.
type AllCosts = [[Costs; LEVELS as usize]; MAX_RANK];

/// A bit for each step of a grid whose costs are such.
fn steps_that(grid: Grid, costs: &AllCosts, are: impl Fn(&Costs) -> bool) -> u64 {
    let level = |step: &Step| step.level.min(LEVELS - 1) as usize;
    grid.steps().enumerate().map(|(i, step)| u64::from(are(&costs[step.axis][level(&step)])) << i).sum()
}

impl<T: Real> Sampler<'_, T> {
    /// The grid with an order, and a bit for each step with cubic predictions.
    pub fn choose(&self) -> (Grid, u64) {
        let costs = self.all_costs();
        // Where there is nothing to choose, the first axis comes last: what follows it are whole rows.
        let mut order = [3, 2, 1, 0u8];
        order.sort_by_key(|&axis| std::cmp::Reverse(costs[usize::from(axis)][0].each()));
        let grid = Grid { order, ..self.grid };
        (grid, steps_that(grid, &costs, Costs::is_cubic))
    }

    /// A bit for each step that is to predict in a further layer, and one for each with cubic predictions.
    pub fn choose_further(&self) -> (u64, u64) {
        let costs = self.all_costs();
        (steps_that(self.grid, &costs, Costs::predicts), steps_that(self.grid, &costs, Costs::is_cubic))
    }

    fn all_costs(&self) -> AllCosts {
        std::array::from_fn(|axis| std::array::from_fn(|level| self.costs(axis, level as u32)))
    }

    /// What is left along an axis at a level.
    fn costs(&self, axis: usize, level: u32) -> Costs {
        let mut costs = Costs::default();
        let extents = self.grid.extents;
        let n_new = ((extents[axis] - 1) >> level).div_ceil(2);
        if n_new == 0 {
            return costs;
        }
        let strides = self.grid.strides();
        let step = strides[axis] << level;
        let last = (extents[axis] - 1) >> level;
        let n = (self.array.len() / SAMPLE_EVERY).clamp(LEAST_SAMPLES, MOST_SAMPLES) >> level;
        for i in 0..n {
            let mut digits = Place::number(i);
            let along = 2 * digits.digit(n_new) + 1;
            let others = (0..MAX_RANK).filter(|&other| other != axis);
            let beside: usize = others.map(|other| digits.digit(extents[other]) * strides[other]).sum();
            let place = along * step + beside;
            let sample = self.sample(place, step, along, last);
            if let Some([of_nothing, of_linear, of_cubic]) = sample {
                costs.nothing += of_nothing;
                costs.linear += of_linear;
                costs.cubic += of_cubic;
                costs.n += 1;
            }
        }
        costs
    }

    /// What is left of the node `along` an axis, of which `last` is the last one, without predictions from nodes and with them. `None` if it is no ordinary
    /// number, or is beside such.
    fn sample(&self, place: usize, step: usize, along: usize, last: usize) -> Option<[u64; 3]> {
        let element = |place: usize| {
            let element = T::of(self.array[place]);
            self.missing.is_ordinary(element).then_some(element)
        };
        let rounded = |place: usize| {
            let element = element(place)?;
            let n_bins = element * self.inverse;
            Some(if n_bins.size() < T::CODES { n_bins.nearest().0 * self.bin } else { element })
        };
        let (of, before) = (element(place)?, rounded(place - step)?);
        let of_layers = self.layers.map(|(values, reach)| (T::of(values[place]), reach));
        let cost = |predicted: T| {
            let predicted = of_layers.map_or(predicted, |(value, reach)| near(predicted, value, reach));
            let n_bins = ((of - predicted) * self.inverse).size();
            let n_bins = if n_bins < T::CODES { n_bins } else { T::CODES };
            log(1 + n_bins.nearest().1.to_u64())
        };
        let of_nothing = of_layers.map_or(0, |(value, _)| cost(value));
        if along == last {
            let of_before = cost(before);
            return Some([of_nothing, of_before, of_before]);
        }
        let after = rounded(place + step)?;
        let of_linear = cost(linear(before, after));
        if along < 3 || along + 3 > last {
            return Some([of_nothing, of_linear, of_linear]);
        }
        let far = [rounded(place - 3 * step)?, rounded(place + 3 * step)?];
        Some([of_nothing, of_linear, cost(cubic(far[0], before, after, far[1]))])
    }
}
