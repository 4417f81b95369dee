//! Grids: coarser and coarser views of an array, and the steps that refine them.
//!
//! The grid of level l has every 2^l-th node of the array along each axis, so the coarsest one has
//! a single node, the first element. A step refines a grid along one axis: it adds a node between
//! each two nodes. From each level to the next finer one there is a step for each axis along which
//! there are new nodes. The payload determines the order of these axes. The last one adds the most
//! nodes, so it should be the axis along which the array is smoothest.

use crate::types::Shape;

/// Maximum number of axes of an array.
pub const MAX_RANK: usize = 4;
/// Maximum number of levels above the array's, and of steps: an array has at most 2^32 elements.
pub const MAX_LEVELS: usize = 33;
pub const MAX_STEPS: usize = MAX_LEVELS + MAX_RANK;
/// The numbers of the first steps are coded together, up to a grid with this many nodes.
const FRONT_NODES: usize = 1 << 12;

/// The extents of a nonempty array, and the order of its axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Extents, padded with leading ones.
    pub extents: [usize; MAX_RANK],
    /// The axes in the order of the steps.
    pub order: [u8; MAX_RANK],
}

/// One refinement step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The axis along which the grid becomes finer.
    pub axis: usize,
    /// The level of the new nodes.
    pub level: u32,
    /// Extents after the step.
    pub after: [usize; MAX_RANK],
    /// Strides in the array, in elements, between neighboring nodes along each axis, after the
    /// step.
    pub strides: [usize; MAX_RANK],
}

impl Grid {
    /// The grids of an array of rank 1 to 4. Returns `None` if it is empty or has more than 2^32
    /// elements.
    pub fn new(shape: &Shape) -> Option<Self> {
        let mut extents = [1; MAX_RANK];
        let rank = shape.extents().len();
        for (extent, &n) in extents[MAX_RANK.checked_sub(rank)?..].iter_mut().zip(shape.extents()) {
            *extent = usize::try_from(n).ok().filter(|&n| n > 0)?;
        }
        let n = extents.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
        (n <= 1 << 32).then_some(Self { extents, order: [0, 1, 2, 3] })
    }

    /// The same grid with another order of axes. Returns `None` if an axis is missing.
    pub fn ordered(self, order: [u8; MAX_RANK]) -> Option<Self> {
        (0..MAX_RANK as u8).all(|axis| order.contains(&axis)).then_some(Self { order, ..self })
    }

    /// Number of nodes of the finest grid.
    pub fn n_nodes(&self) -> usize {
        self.extents.iter().product()
    }

    /// Number of levels above the array's.
    pub fn n_levels(&self) -> u32 {
        self.extents.iter().map(|&n| usize::BITS - (n - 1).leading_zeros()).max().unwrap_or(0)
    }

    /// Number of steps up to the grid of a level.
    pub fn n_steps(self, level: u32) -> usize {
        self.steps().take_while(|step| step.level >= level).count()
    }

    /// Index in the grid of a level of the element at `place`, if that is a node of it.
    pub fn node(&self, level: u32, place: usize) -> Option<usize> {
        let (mut rest, mut node, mut stride) = (place, 0, 1);
        for axis in (0..MAX_RANK).rev() {
            let at = rest % self.extents[axis];
            rest /= self.extents[axis];
            if at & ((1 << level) - 1) != 0 {
                return None;
            }
            node += (at >> level) * stride;
            stride *= self.extent(axis, level);
        }
        Some(node)
    }

    /// Number of nodes along an axis at a level.
    pub fn extent(&self, axis: usize, level: u32) -> usize {
        ((self.extents[axis] - 1) >> level) + 1
    }

    /// Strides of the array, in elements.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [1; MAX_RANK];
        for axis in (1..MAX_RANK).rev() {
            strides[axis - 1] = strides[axis] * self.extents[axis];
        }
        strides
    }

    /// All steps, from the coarsest grid to the array.
    pub fn steps(self) -> impl Iterator<Item = Step> {
        let is_finer = move |&(axis, level): &(usize, u32)| self.extent(axis, level) > 1;
        let of_level = move |level| self.order.map(|axis| (usize::from(axis), level));
        (0..self.n_levels()).rev().flat_map(of_level).filter(is_finer).map(move |(axis, level)| {
            let place = |of: usize| self.order.iter().position(|&axis| usize::from(axis) == of);
            let levels = [0, 1, 2, 3].map(|other| level + u32::from(place(other) > place(axis)));
            let after = [0, 1, 2, 3].map(|axis| self.extent(axis, levels[axis]));
            let strides = self.strides();
            // An axis with one node has no neighbors.
            let stride = |axis: usize| if after[axis] > 1 { strides[axis] << levels[axis] } else { 0 };
            Step { axis, level, after, strides: [0, 1, 2, 3].map(stride) }
        })
    }

    /// Number of steps whose numbers are coded together.
    pub fn n_front(&self) -> usize {
        self.steps().take_while(|step| step.n_nodes() <= FRONT_NODES).count()
    }
}

impl Step {
    /// Number of nodes after the step.
    pub fn n_nodes(&self) -> usize {
        self.after.iter().product()
    }

    /// Numbers of nodes along the step's axis: after it, before it, and new ones.
    pub fn along(&self) -> [usize; 3] {
        let n = self.after[self.axis];
        [n, n.div_ceil(2), n / 2]
    }

    /// Products of the extents before the step's axis, and after it.
    pub fn around(&self) -> [usize; 2] {
        [self.after[..self.axis].iter().product(), self.after[self.axis + 1..].iter().product()]
    }

    /// The number of new nodes along each axis.
    pub fn new_extents(&self) -> [usize; MAX_RANK] {
        let mut extents = self.after;
        extents[self.axis] /= 2;
        extents
    }

    /// Number of new nodes.
    pub fn n_new(&self) -> usize {
        self.new_extents().iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn grid(extents: &[u64]) -> Grid {
        Grid::new(&Shape::new(extents).unwrap()).unwrap()
    }

    #[test]
    fn every_element_is_new_once() {
        for (extents, order) in [
            (&[1][..], [0, 1, 2, 3]),
            (&[2], [3, 1, 2, 0]),
            (&[1000], [0, 1, 2, 3]),
            (&[7, 8], [0, 3, 1, 2]),
            (&[5, 6, 7], [3, 2, 1, 0]),
            (&[2, 3, 1, 9], [2, 0, 3, 1]),
            (&[4, 5, 6, 7], [1, 0, 3, 2]),
        ] {
            let grid = grid(extents).ordered(order).unwrap();
            let mut seen = BTreeSet::from([0]);
            let mut n_nodes = 1;
            for step in grid.steps() {
                let [z, y, x, w] = step.new_extents();
                for i in 0..z * y * x * w {
                    let mut at = [i / (y * x * w), i / (x * w) % y, i / w % x, i % w];
                    at[step.axis] = 2 * at[step.axis] + 1;
                    assert!(at.iter().zip(step.after).all(|(&at, extent)| at < extent));
                    let place = at.iter().zip(step.strides).map(|(at, stride)| at * stride).sum();
                    assert!(seen.insert(place), "{extents:?}: {place} by {step:?}");
                }
                n_nodes += step.n_new();
                assert_eq!(step.n_nodes(), n_nodes);
            }
            assert_eq!(seen.len(), grid.n_nodes(), "{extents:?}");
            assert_eq!(seen.last(), Some(&(grid.n_nodes() - 1)));
        }
    }

    #[test]
    fn orders_have_every_axis() {
        assert!(grid(&[5]).ordered([0, 1, 2, 2]).is_none());
        assert!(grid(&[5]).ordered([0, 1, 2, 4]).is_none());
    }

    #[test]
    fn small_grids_are_coded_together() {
        assert_eq!(grid(&[16, 16, 16]).n_front(), 12);
        assert_eq!(grid(&[64, 64, 64]).n_front(), 12);
        assert_eq!(grid(&[1 << 20]).n_front(), 12);
        assert_eq!(grid(&[1]).n_front(), 0);
    }
}
