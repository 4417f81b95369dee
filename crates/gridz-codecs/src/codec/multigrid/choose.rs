//! The encoder's choices: the order of the axes, and the prediction of each step. A decoder accepts
//! any choice.
//!
//! Some nodes of the finest levels are predicted along each axis, from elements rounded to whole
//! bins, which approximate a decoder's values. The axis with the smallest residuals becomes the
//! last one of each level, because most nodes are predicted along it. Costs are integers, so that
//! they are the same on every back end.
//!
//! In a further layer, the previous layers give the bin that contains an element. If their bins are
//! shorter than the errors of predictions, predictions add nothing; if they are longer, because the
//! array is smooth, predictions add information.

use crate::codec::multigrid::accuracy::Marked;
use crate::codec::multigrid::grid::{Grid, MAX_RANK, Step};
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::{cubic, linear, near};
use crate::stage::entropy::log::log;
use crate::stage::word::Word;

/// Levels that are sampled; coarser levels are treated as the last of these.
const LEVELS: u32 = 3;
/// The finest level has one sample per this many elements, within these limits. Each coarser level
/// has half as many.
const SAMPLE_EVERY: usize = 1 << 10;
const LEAST_SAMPLES: usize = 1 << 6;
const MOST_SAMPLES: usize = 1 << 10;

/// A position in [0, 1), in units of 2^-64, from which digits to any bases can be extracted.
/// Consecutive positions are far apart.
pub struct Place(u64);

impl Place {
    /// Position `i`: a multiple of the golden ratio.
    pub fn number(i: usize) -> Self {
        Self((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Extracts the next digit to a base.
    pub fn digit(&mut self, base: usize) -> usize {
        let product = u128::from(self.0) * base as u128;
        self.0 = product as u64;
        (product >> 64) as usize
    }
}

/// The data that is sampled.
pub struct Sampler<'a, T: Real> {
    pub array: &'a [T::Bytes],
    /// The values of the previous layers, and their maximum distance from the array.
    pub layers: Option<(&'a [T::Bytes], T)>,
    pub grid: Grid,
    /// The bin of the finest level, and its inverse.
    pub bin: T,
    pub inverse: T,
    /// The elements that are missing.
    pub missing: Marked<T>,
}

/// Costs of the residuals of samples: without predictions from nodes, with linear, and with cubic
/// predictions; and the number of samples.
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

    /// The lower cost of the two predictions per sample, in units of 2^-16.
    fn each(&self) -> u64 {
        (self.linear.min(self.cubic) << 16).checked_div(self.n).unwrap_or(0)
    }
}

/// The costs of each axis and level.
type AllCosts = [[Costs; LEVELS as usize]; MAX_RANK];

/// A bit for each step of a grid whose costs satisfy `are`.
fn steps_that(grid: Grid, costs: &AllCosts, are: impl Fn(&Costs) -> bool) -> u64 {
    let level = |step: &Step| step.level.min(LEVELS - 1) as usize;
    grid.steps().enumerate().map(|(i, step)| u64::from(are(&costs[step.axis][level(&step)])) << i).sum()
}

impl<T: Real> Sampler<'_, T> {
    /// Returns the grid with the best order of axes, and a bit for each step with cubic
    /// predictions.
    pub fn choose(&self) -> (Grid, u64) {
        let costs = self.all_costs();
        // If all costs are equal, the first axis comes last: its nodes are whole rows.
        let mut order = [3, 2, 1, 0u8];
        order.sort_by_key(|&axis| std::cmp::Reverse(costs[usize::from(axis)][0].each()));
        let grid = Grid { order, ..self.grid };
        (grid, steps_that(grid, &costs, Costs::is_cubic))
    }

    /// For a further layer: a bit for each step that predicts from nodes, and one for each with
    /// cubic predictions.
    pub fn choose_further(&self) -> (u64, u64) {
        let costs = self.all_costs();
        (steps_that(self.grid, &costs, Costs::predicts), steps_that(self.grid, &costs, Costs::is_cubic))
    }

    fn all_costs(&self) -> AllCosts {
        std::array::from_fn(|axis| std::array::from_fn(|level| self.costs(axis, level as u32)))
    }

    /// The costs along an axis at a level.
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

    /// The costs of node number `along` on an axis whose last node is `last`: without predictions
    /// from nodes, with linear, and with cubic ones. Returns `None` if the node or one of its
    /// neighbors is not an ordinary number.
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
