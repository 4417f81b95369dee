//! Norms of arrays of errors in which coarse components weigh more than fine ones.
//!
//! Let Q_l e be the least-squares approximation of an array e by piecewise linear arrays: linear
//! between the nodes of the grid of level l, and constant after the last ones. The components
//! Q_l e - Q_(l+1) e of an array are orthogonal, so the squares of their norms add up to that of the
//! array. The norm s weighs the square of level l by 4^(-s·l). With s = 0 it is the root mean
//! square. With s = -1 it is at least 2^l times the norm of Q_l e, so means over regions of 2^l
//! elements along each axis are that much more accurate. (These are the norms of Ainsworth, Tugluk,
//! Whitney, Klasky, "Multilevel techniques for compression and reduction of scientific data -
//! quantitative control of accuracy in derived quantities", 2019, with sums for integrals.)
//!
//! An array of level l has coefficients c, those of its nodes, and equals P c. The approximation of
//! e has c = M^-1 b with the moments b = Pᵀe and the masses M = PᵀP. The square of its norm is bᵀ
//! M^-1 b. Moments and masses of a level are computed from those of the next finer one, along one
//! axis after the other. The masses of an axis are tridiagonal.

use crate::codec::multigrid::grid::MAX_RANK;
use crate::error::{Result, try_vec};

/// The square of the norm `s` of errors, times their number. Overwrites the errors.
///
/// # Errors
/// `OutOfMemory`.
pub fn square(mut errors: Vec<f64>, mut extents: [usize; MAX_RANK], s: f64) -> Result<f64> {
    let mut masses = [const { Masses { own: vec![], next: vec![] } }; MAX_RANK];
    for (masses, &n) in masses.iter_mut().zip(&extents) {
        *masses = Masses::of_elements(n)?;
    }
    let (mut sum, mut weight) = (0.0, 1.0);
    let mut finer = dot(&errors, &errors);
    while extents.iter().any(|&n| n > 1) {
        for (axis, masses) in masses.iter_mut().enumerate() {
            coarsen(&mut errors, &mut extents, axis);
            *masses = masses.coarser()?;
        }
        let mut nearest = try_vec(errors.len(), "errors by levels")?;
        nearest.extend_from_slice(&errors);
        for (axis, masses) in masses.iter().enumerate() {
            masses.solve(&mut nearest, &extents, axis)?;
        }
        let coarser = dot(&errors, &nearest);
        sum += weight * (finer - coarser).max(0.0);
        (finer, weight) = (coarser, weight * 4f64.powf(-s));
    }
    Ok(sum + weight * finer)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Products of the extents before an axis, and after it.
fn around(extents: &[usize; MAX_RANK], axis: usize) -> [usize; 2] {
    [extents[..axis].iter().product(), extents[axis + 1..].iter().product()]
}

/// The share of node `i` that goes to node `i / 2` of the coarser grid, on an axis with `n` nodes;
/// the rest goes to the next node.
fn share(i: usize, n: usize) -> f64 {
    if i % 2 == 1 && i + 1 < n { 0.5 } else { 1.0 }
}

/// Converts moments to those of the grid that is coarser along an axis.
fn coarsen(moments: &mut Vec<f64>, extents: &mut [usize; MAX_RANK], axis: usize) {
    let ([outer, inner], n) = (around(extents, axis), extents[axis]);
    let m = n.div_ceil(2);
    // A write never overtakes the next read.
    for line in 0..outer {
        for j in 0..m {
            for k in 0..inner {
                let moment = |i: usize| moments[(line * n + i) * inner + k];
                let mut sum = moment(2 * j);
                if 2 * j + 1 < n {
                    sum += share(2 * j + 1, n) * moment(2 * j + 1);
                }
                if j > 0 {
                    sum += 0.5 * moment(2 * j - 1);
                }
                moments[(line * m + j) * inner + k] = sum;
            }
        }
    }
    moments.truncate(outer * m * inner);
    extents[axis] = m;
}

/// The mass matrix of an axis: the diagonal, and the off-diagonal between each node and the next.
struct Masses {
    own: Vec<f64>,
    next: Vec<f64>,
}

impl Masses {
    fn zero(n: usize) -> Result<Self> {
        let zeros = || -> Result<Vec<f64>> {
            let mut zeros = try_vec(n, "masses")?;
            zeros.resize(n, 0.0);
            Ok(zeros)
        };
        Ok(Self { own: zeros()?, next: zeros()? })
    }

    /// The masses of level 0.
    fn of_elements(n: usize) -> Result<Self> {
        let mut masses = Self::zero(n)?;
        masses.own.fill(1.0);
        Ok(masses)
    }

    fn coarser(&self) -> Result<Self> {
        let n = self.own.len();
        let mut coarser = Self::zero(n.div_ceil(2))?;
        for i in 0..n {
            let (j, left) = (i / 2, share(i, n));
            let right = 1.0 - left;
            coarser.own[j] += left * left * self.own[i];
            if right > 0.0 {
                coarser.own[j + 1] += right * right * self.own[i];
                coarser.next[j] += left * right * self.own[i];
            }
            if i + 1 == n {
                break;
            }
            // The off-diagonal with the next node, which has the same left neighbor in the coarser
            // grid if this one is even.
            if i % 2 == 0 {
                let left = share(i + 1, n);
                coarser.own[j] += 2.0 * left * self.next[i];
                if left < 1.0 {
                    coarser.next[j] += (1.0 - left) * self.next[i];
                }
            } else {
                coarser.own[j + 1] += 2.0 * right * self.next[i];
                coarser.next[j] += left * self.next[i];
            }
        }
        Ok(coarser)
    }

    /// Converts moments along an axis to coefficients, by Gaussian elimination.
    fn solve(&self, moments: &mut [f64], extents: &[usize; MAX_RANK], axis: usize) -> Result<()> {
        let ([outer, inner], n) = (around(extents, axis), extents[axis]);
        let Self { own: mut pivots, next: factors } = Self::zero(n)?;
        let mut factors = factors;
        pivots[0] = self.own[0];
        for j in 1..n {
            factors[j] = self.next[j - 1] / pivots[j - 1];
            pivots[j] = self.own[j] - factors[j] * self.next[j - 1];
        }
        for line in moments.chunks_exact_mut(n * inner).take(outer) {
            for j in 1..n {
                let (before, these) = line.split_at_mut(j * inner);
                let before = &before[(j - 1) * inner..];
                these[..inner].iter_mut().zip(before).for_each(|(x, last)| *x -= factors[j] * last);
            }
            for j in (0..n).rev() {
                let (these, behind) = line.split_at_mut((j + 1) * inner);
                let these = &mut these[j * inner..];
                if j + 1 < n {
                    these.iter_mut().zip(&behind[..inner]).for_each(|(x, next)| *x -= self.next[j] * next);
                }
                these.iter_mut().for_each(|x| *x /= pivots[j]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[f64], extents: [usize; MAX_RANK], s: f64) -> f64 {
        square(errors.to_vec(), extents, s).unwrap()
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    #[test]
    fn without_weights_it_is_the_sum_of_squares() {
        for extents in [[1, 1, 1, 1], [1, 1, 1, 2], [1, 1, 1, 33], [1, 1, 6, 7], [2, 3, 4, 5], [1, 9, 1, 8]] {
            let n = extents.iter().product::<usize>();
            let errors: Vec<f64> = (0..n).map(|i| (i as f64 * 1.7).sin()).collect();
            assert!(is_near(of(&errors, extents, 0.0), dot(&errors, &errors)), "{extents:?}");
            assert!(of(&errors, extents, -1.0) >= dot(&errors, &errors));
        }
    }

    /// The components of a coarse grid weigh as its level, and are orthogonal to the additional
    /// components of a finer grid.
    #[test]
    fn parts_have_the_weights_of_their_levels() {
        for n in [5, 8, 17, 30] {
            let grid = |nodes: &[f64]| -> Vec<f64> {
                let node = |j: usize| nodes.get(j).copied();
                let at = |i: usize| {
                    let (j, part) = (i / 4, (i % 4) as f64 / 4.0);
                    let here = node(j).unwrap();
                    here + part * (node(j + 1).unwrap_or(here) - here)
                };
                (0..n).map(at).collect()
            };
            let nodes: Vec<f64> = (0..n.div_ceil(4)).map(|j| (j as f64 * 2.3 + 1.0).cos()).collect();
            let coarse = grid(&nodes);
            let square = dot(&coarse, &coarse);
            // All components are of level 2 or above.
            assert!(of(&coarse, [1, 1, 1, n], -1.0) >= 16.0 * square * (1.0 - 1e-9), "{n}");
            assert!(of(&coarse, [1, 1, 1, n], 1.0) <= square / 16.0 * (1.0 + 1e-9), "{n}");
        }
        let constant = vec![3.0; 64];
        assert!(is_near(of(&constant, [1, 4, 4, 4], -1.0), 9.0 * 64.0 * 16.0));
        let rough: Vec<f64> = (0..64).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        // By least squares with all columns of P. Most components outside of the finest level come
        // from the ends.
        assert!(is_near(of(&rough, [1, 1, 1, 64], -1.0), 1.756_459_691_213_403_6 * 64.0));
    }
}
