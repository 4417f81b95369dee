//! The choice between two folds of an array, by its data.
//!
//! Codecs that distinguish three axes merge the leading ones of an array with more. If the first
//! axis is time, the step along it is lost, which may be the one that predicts best. So arrays with
//! four axes or more can also be folded by [`Fold::Middle`], which keeps the first axis. Arrays
//! with fewer axes but long rows can be folded to one row: rows may be unlike each other, for
//! example if each is another quantity, and then blocks of one row are better.
//!
//! An encoder takes samples, [`N_RUNS`] runs of consecutive elements, and adds up the bits of their
//! differences along the axes of each fold, for some orders of prediction. Elements are predicted
//! by those at the same distance before them in memory, also across the end of a row or plane. The
//! fold with fewer bits is taken, unless there is hardly any difference. This takes about as long
//! as to compress one block. `docs/writer.md` has the rules, `kernels/folds` the same for GPUs.

use crate::codec::gpu::{Kernel, Names, Passes, names};
use crate::cpu::isa::Isa;
use crate::format::fold::Fold;
use crate::stage::element::Element;
use crate::stage::rows::{LANES, Simd, SimdWord, WithSimd, dispatch};
use crate::stage::word::Word;
use crate::types::{DType, Shape};

/// The number of axes of codecs that choose.
const RANK: usize = 3;
/// Minimum number of elements of an array with two folds.
const MIN_ELEMENTS: u64 = 1 << 12;
/// Minimum length of rows that may become one row.
const LONG_ROW: u64 = 1 << 12;
/// Number of samples, each a run of [`LANES`] elements.
const N_RUNS: u64 = 32;
/// Sums of differences that are compared: by the orders (z, y, x) = (0, 0, 1), (0, 0, 2), (0, 1, 0),
/// (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0) and (1, 1, 1).
const N_ORDERS: usize = 8;

/// The other fold that an encoder may take instead of [`Fold::Merge`] for arrays of this shape, if
/// its codec distinguishes three axes.
pub fn alternative(shape: &Shape) -> Option<Fold> {
    let merged = Fold::Merge.apply(shape, RANK);
    if merged.n_elements() < MIN_ELEMENTS {
        return None;
    }
    match merged.extents() {
        [_, _, _] if shape.extents().iter().filter(|&&n| n != 1).count() > RANK => Some(Fold::Middle),
        [_, .., row] if *row >= LONG_ROW => Some(Fold::Flat),
        _ => None,
    }
}

crate::kernel_struct! {
    /// How elements are compared (`FoldChoice` in `kernels/folds/folds.cu`). Of both folds, first
    /// that of [`Fold::Merge`]: the elements of a row and of a plane, or 0 if there is one row, or
    /// one plane.
    pub struct FoldChoice, size 48 {
        n_elements: u64,
        rows: [u64; 2],
        planes: [u64; 2],
        log2_parts: u32,
        /// The number of the other fold.
        other: u32,
    }
}

const KERNELS: [Names; 2] = [names!("folds_choose_u32"), names!("folds_choose_u64")];

impl FoldChoice {
    /// The choice for arrays of this type and shape between [`Fold::Merge`] and `other`.
    pub fn new(dtype: DType, shape: &Shape, other: Fold) -> Self {
        let (mut rows, mut planes) = ([0; 2], [0; 2]);
        for (i, fold) in [Fold::Merge, other].into_iter().enumerate() {
            match *fold.apply(shape, RANK).extents() {
                [_, y, x] => (rows[i], planes[i]) = (x, y * x),
                [_, x] => rows[i] = x,
                _ => {}
            }
        }
        let log2_parts = dtype.parts().1.ilog2();
        Self { n_elements: shape.n_elements(), rows, planes, log2_parts, other: other as u32 }
    }

    /// True if the other fold suits an array with these elements better. They are little-endian
    /// numbers of type `dtype`.
    pub fn takes_other(&self, dtype: DType, bytes: &[u8], level: Isa) -> bool {
        let element = Element::of(dtype.parts().0).expect("codecs that choose a fold take numbers");
        let costs = match element.word_bits() {
            64 => dispatch::<u64, _>(level, Costs { choice: self, element, bytes }),
            _ => dispatch::<u32, _>(level, Costs { choice: self, element, bytes }),
        };
        self.is_better(costs)
    }

    /// Compares the bits of both folds. Rows that need not be together are better apart.
    fn is_better(&self, [merged, other]: [u64; 2]) -> bool {
        if self.other == Fold::Flat as u32 { 64 * other <= 65 * merged } else { 32 * other < 31 * merged }
    }

    /// The pass that chooses on a GPU, for elements of type `dtype`.
    pub fn passes(&self, dtype: DType) -> Passes {
        let is_wide = Element::of(dtype.parts().0).is_some_and(|element| element.word_bits() == 64);
        Passes::one("folds", Kernel::Always(KERNELS[usize::from(is_wide)]), [1, 0], self, 0)
    }
}

/// Computes the bits of the samples with both folds.
struct Costs<'a> {
    choice: &'a FoldChoice,
    element: Element,
    bytes: &'a [u8],
}

impl Costs<'_> {
    /// The elements from number `at` on. Those before the first one are 0.
    #[inline(always)]
    fn load<W: Word, S: Simd<W>>(&self, s: S, at: u64, distance: u64) -> S::Row {
        let size = self.element.bytes;
        let pitch = size << self.choice.log2_parts;
        if at >= distance && pitch == size {
            return s.load_elements(self.element, &self.bytes[(at - distance) as usize * size..]);
        }
        let mut words = [W::ZERO; LANES];
        let mut lane = 0;
        while lane < LANES {
            let own = at + lane as u64;
            if own >= distance {
                self.element
                    .load(&self.bytes[(own - distance) as usize * pitch..][..size], &mut words[lane..=lane]);
            }
            lane += 1;
        }
        s.load(&words)
    }
}

impl<W: SimdWord> WithSimd<W> for Costs<'_> {
    type Output = [u64; 2];

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> [u64; 2] {
        let &FoldChoice { n_elements, rows, planes, .. } = self.choice;
        let step = (n_elements - LANES as u64) / N_RUNS;
        let mut zeros = [[s.no_sum(); N_ORDERS]; 2];
        let mut run = 0;
        while run < N_RUNS {
            // Not periodic, because rows and planes are.
            let at = run * step + ((40503 * run % (1 << 16) * step) >> 16);
            let this = self.load(s, at, 0);
            let (one, two) = (self.load(s, at, 1), self.load(s, at, 2));
            let along_x = s.sub(this, one);
            let twice = s.sub(along_x, s.sub(one, two));
            let mut i = 0;
            while i < 2 {
                let (row, plane) = (rows[i], planes[i]);
                let mut differences = [along_x, twice, this, this, this, this, this, this];
                if row > 0 {
                    let above = self.load(s, at, row);
                    let along_xy = s.sub(along_x, s.sub(above, self.load(s, at, row + 1)));
                    (differences[2], differences[3]) = (s.sub(this, above), along_xy);
                    if plane > 0 {
                        let behind = self.load(s, at, plane);
                        let along_xz = s.sub(behind, self.load(s, at, plane + 1));
                        let behind_above = self.load(s, at, plane + row);
                        let behind_along_xy =
                            s.sub(along_xz, s.sub(behind_above, self.load(s, at, plane + row + 1)));
                        differences[4] = s.sub(this, behind);
                        differences[5] = s.sub(along_x, along_xz);
                        differences[6] = s.sub(differences[2], s.sub(behind, behind_above));
                        differences[7] = s.sub(along_xy, behind_along_xy);
                    }
                }
                let mut k = 0;
                while k < N_ORDERS {
                    zeros[i][k] = s.add_group_zeros(zeros[i][k], s.zigzag(differences[k]));
                    k += 1;
                }
                i += 1;
            }
            run += 1;
        }
        let mut costs = [0; 2];
        let mut i = 0;
        while i < 2 {
            let n_possible = [2, 4, 8][usize::from(rows[i] > 0) + usize::from(planes[i] > 0)];
            let (mut most, mut k) = (0, 0);
            while k < n_possible {
                most = s.total(zeros[i][k]).max(most);
                k += 1;
            }
            costs[i] = N_RUNS * (LANES / 8) as u64 * u64::from(W::BITS) - most;
            i += 1;
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(extents: &[u64]) -> Shape {
        Shape::new(extents).unwrap()
    }

    /// Whether the other fold is taken for the numbers of a function of the position, at all levels.
    fn takes<const N: usize>(extents: [u64; N], number: impl Fn([u64; N]) -> f64) -> bool {
        let mut bytes = Vec::new();
        for i in 0..extents.iter().product::<u64>() {
            let (mut at, mut rest) = ([0; N], i);
            for axis in (0..N).rev() {
                (at[axis], rest) = (rest % extents[axis], rest / extents[axis]);
            }
            bytes.extend(number(at).to_le_bytes());
        }
        let shape = shape(&extents);
        let choice = FoldChoice::new(DType::F64, &shape, alternative(&shape).unwrap());
        let mut all = Isa::all().map(|level| choice.takes_other(DType::F64, &bytes, level));
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first));
        first
    }

    #[test]
    fn few_shapes_have_another_fold() {
        for extents in [&[] as &[u64], &[1 << 20], &[64, 64, 64], &[1, 4, 4, 4, 63], &[2, 4095], &[3, 4, 5, 6]] {
            assert_eq!(alternative(&shape(extents)), None, "{extents:?}");
        }
        assert_eq!(alternative(&shape(&[2, 4096])), Some(Fold::Flat));
        assert_eq!(alternative(&shape(&[2, 1, 3, 4096, 1])), Some(Fold::Flat));
        assert_eq!(alternative(&shape(&[8, 8, 8, 8])), Some(Fold::Middle));
        assert_eq!(alternative(&shape(&[2, 2, 2, 4096])), Some(Fold::Middle));
    }

    /// A number that depends on the position, and on nothing near it.
    fn noise(at: &[u64]) -> f64 {
        let mixed =
            at.iter().fold(1u64, |mixed, &k| (mixed ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
        (mixed >> 12) as f64 / (1u64 << 52) as f64
    }

    #[test]
    fn the_axis_that_predicts_is_kept() {
        let of_time = |[t, z, y, x]: [u64; 4]| 1.0 + noise(&[z, y, x]) + 1e-9 * t as f64;
        assert!(takes([20, 6, 10, 12], of_time));
        assert!(!takes([20, 6, 10, 12], |[t, z, y, x]| 1.0 + noise(&[t, y, x]) + 1e-9 * z as f64));
        let unlike = |[y, x]: [u64; 2]| noise(&[y]) * 1e3 + 1e-5 * x as f64;
        assert!(takes([3, 5000], unlike));
        assert!(!takes([3, 5000], |[y, x]| 1.0 + noise(&[x]) + 1e-9 * y as f64));
    }

    #[test]
    fn all_types_and_the_shortest_arrays_are_compared() {
        let mut n_taken = 0;
        for dtype in DType::ALL.into_iter().filter(|dtype| Element::of(dtype.parts().0).is_some()) {
            for extents in [&[8u64, 8, 8, 8] as &[u64], &[3, 4096], &[40, 3, 5, 7, 2]] {
                let shape = shape(extents);
                let n_bytes = shape.n_elements() as usize * dtype.size().unwrap() as usize;
                // Planes along the first axis are the same.
                let plane = n_bytes / extents[0] as usize;
                let bytes: Vec<u8> = (0..n_bytes).map(|i| (noise(&[(i % plane) as u64]) * 256.0) as u8).collect();
                let choice = FoldChoice::new(dtype, &shape, alternative(&shape).unwrap());
                let mut all = Isa::all().map(|level| choice.takes_other(dtype, &bytes, level));
                let first = all.next().unwrap();
                assert!(all.all(|other| other == first), "{dtype:?} {extents:?}");
                n_taken += usize::from(first);
            }
        }
        assert_eq!(n_taken, 2 * 14);
    }
}
