//! The choice between two folds of an array, by its data.
//!
//! Codecs that distinguish three axes merge the leading ones of an array with more. If the first
//! axis is time, the step along it is lost, which may be the one that predicts best. So arrays with
//! four axes or more can also be folded by [`Fold::Middle`], which keeps the first axis. Arrays
//! with fewer axes but long rows can be folded to one row: rows may be unlike each other, for
//! example if each is another quantity, and then blocks of one row are better.
//!
//! An encoder takes samples, [`N_RUNS`] runs of consecutive elements. Each element is a number, its
//! word or its code. The bits of the numbers' differences along the axes of each fold are added up,
//! for some orders of prediction. Elements are predicted by those at the same distance before them
//! in memory, also across the end of a row or plane. The fold with fewer bits is taken, unless
//! there is hardly any difference. This takes about as long as to compress one block.
//! `docs/writer.md` has the rules, `kernels/stage/fold_choice.cuh` the same for GPUs.

use crate::cpu::isa::Isa;
use crate::format::fold::Fold;
use crate::stage::element::Element;
use crate::stage::missing::MissingWords;
use crate::stage::quantize::Numbers;
use crate::stage::rows::{LANES, Simd, SimdWord, WithSimd, dispatch};
use crate::stage::word::Word;
use crate::types::Shape;

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
    /// How elements are compared (`FoldChoice` in
    /// `kernels/stage/fold_choice.cuh`). Of both folds, first
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

impl FoldChoice {
    /// The choice for arrays of this shape, whose elements have this many parts, between
    /// [`Fold::Merge`] and `other`.
    pub fn new(shape: &Shape, n_parts: usize, other: Fold) -> Self {
        let (mut rows, mut planes) = ([0; 2], [0; 2]);
        for (i, fold) in [Fold::Merge, other].into_iter().enumerate() {
            match *fold.apply(shape, RANK).extents() {
                [_, y, x] => (rows[i], planes[i]) = (x, y * x),
                [_, x] => rows[i] = x,
                _ => {}
            }
        }
        let log2_parts = n_parts.ilog2();
        Self { n_elements: shape.n_elements(), rows, planes, log2_parts, other: other as u32 }
    }

    /// Compares the bits of both folds. Rows that need not be together are better apart.
    fn is_better(&self, [merged, other]: [u64; 2]) -> bool {
        if self.other == Fold::Flat as u32 { 64 * other <= 65 * merged } else { 32 * other < 31 * merged }
    }

    /// The first element of a run of samples. Their distances vary, because rows and planes are
    /// periodic.
    #[inline(always)]
    fn run_start(&self, run: u64) -> u64 {
        let step = (self.n_elements - LANES as u64) / N_RUNS;
        run * step + ((40503 * run % (1 << 16) * step) >> 16)
    }
}

/// The samples of an array, or of the real parts of its elements.
pub struct Samples<'a> {
    /// The two folds.
    pub choice: &'a FoldChoice,
    /// How a part of an element maps to a word.
    pub element: Element,
    /// All elements, little-endian.
    pub bytes: &'a [u8],
    /// Instructions that may be used.
    pub level: Isa,
}

/// The numbers that words are encoded as.
pub trait ToNumbers<W: Word> {
    /// Converts a row.
    fn convert<S: Simd<W>>(&self, s: S, words: S::Row) -> S::Row;
}

/// Words are encoded as they are.
pub struct Words;

impl<W: Word> ToNumbers<W> for Words {
    #[inline(always)]
    fn convert<S: Simd<W>>(&self, _: S, words: S::Row) -> S::Row {
        words
    }
}

impl Samples<'_> {
    /// True if the other fold suits the array better.
    pub fn take_other<W: SimdWord>(&self, to_numbers: &impl ToNumbers<W>) -> bool {
        self.choice.is_better(dispatch::<W, _>(self.level, Costs { samples: self, to_numbers }))
    }

    /// The least and the greatest place, in the order of the numbers, of samples that are finite
    /// and not missing.
    pub fn range<W: SimdWord>(&self, numbers: Numbers, missing: Option<&MissingWords<W>>) -> Option<[W; 2]> {
        dispatch::<W, _>(self.level, Range { samples: self, numbers, missing })
    }

    /// The words of the elements `distance` before those from number `at` on. Before the first
    /// element they are 0.
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

/// Finds the range of the samples.
struct Range<'a, W> {
    samples: &'a Samples<'a>,
    numbers: Numbers,
    missing: Option<&'a MissingWords<W>>,
}

impl<W: SimdWord> WithSimd<W> for Range<'_, W> {
    type Output = Option<[W; 2]>;

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> Option<[W; 2]> {
        let (last, first) = (W::low_mask(W::BITS - 1), W::from_u64(1) << (W::BITS - 1));
        let (mut least, mut most, mut any) = (s.splat(last), s.splat(first), 0);
        let mut run = 0;
        while run < N_RUNS {
            let words = self.samples.load(s, self.samples.choice.run_start(run), 0);
            let (places, mut counting) = self.numbers.places(s, words);
            if let Some(missing) = self.missing {
                counting &= missing.present(s, words);
            }
            least = s.select(counting, s.min_signed(least, places), least);
            most = s.select(counting, s.max_signed(most, places), most);
            any |= counting;
            run += 1;
        }
        (any != 0).then(|| [s.lowest(least), s.highest(most)])
    }
}

/// Number of elements before a sample along the rows and planes of a fold.
const NEIGHBORS: usize = 6;

/// Computes the bits of the samples with both folds.
struct Costs<'a, T> {
    samples: &'a Samples<'a>,
    to_numbers: &'a T,
}

impl<W: SimdWord, T: ToNumbers<W>> WithSimd<W> for Costs<'_, T> {
    type Output = [u64; 2];

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> [u64; 2] {
        let &FoldChoice { rows, planes, .. } = self.samples.choice;
        let mut zeros = [[s.no_sum(); N_ORDERS]; 2];
        // The samples, two elements before each, and the neighbors of each fold. Loaded in one place,
        // because the conversion is inlined there.
        let mut distances = [0; 3 + 2 * NEIGHBORS];
        (distances[1], distances[2]) = (1, 2);
        let mut are_used = [true; 3 + 2 * NEIGHBORS];
        let mut i = 0;
        while i < 2 {
            let (row, plane) = (rows[i], planes[i]);
            let neighbors = [row, row + 1, plane, plane + 1, plane + row, plane + row + 1];
            let mut k = 0;
            while k < NEIGHBORS {
                distances[3 + NEIGHBORS * i + k] = neighbors[k];
                are_used[3 + NEIGHBORS * i + k] = row > 0 && (k < 2 || plane > 0);
                k += 1;
            }
            i += 1;
        }
        let mut numbers = [s.splat(W::ZERO); 3 + 2 * NEIGHBORS];
        let mut run = 0;
        while run < N_RUNS {
            let at = self.samples.choice.run_start(run);
            let mut k = 0;
            while k < numbers.len() {
                if are_used[k] {
                    numbers[k] = self.to_numbers.convert(s, self.samples.load(s, at, distances[k]));
                }
                k += 1;
            }
            let [this, one, two, ..] = numbers;
            let along_x = s.sub(this, one);
            let twice = s.sub(along_x, s.sub(one, two));
            let mut i = 0;
            while i < 2 {
                let (row, plane) = (rows[i], planes[i]);
                let mut differences = [along_x, twice, this, this, this, this, this, this];
                if row > 0 {
                    let near = 3 + NEIGHBORS * i;
                    let above = numbers[near];
                    let along_xy = s.sub(along_x, s.sub(above, numbers[near + 1]));
                    (differences[2], differences[3]) = (s.sub(this, above), along_xy);
                    if plane > 0 {
                        let behind = numbers[near + 2];
                        let along_xz = s.sub(behind, numbers[near + 3]);
                        let behind_above = numbers[near + 4];
                        let behind_along_xy = s.sub(along_xz, s.sub(behind_above, numbers[near + 5]));
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
    use crate::types::DType;

    fn shape(extents: &[u64]) -> Shape {
        Shape::new(extents).unwrap()
    }

    /// Whether the other fold is taken, at all levels.
    fn take_other(dtype: DType, shape: &Shape, bytes: &[u8]) -> bool {
        let (part, n_parts) = dtype.parts();
        let (choice, element) =
            (FoldChoice::new(shape, n_parts, alternative(shape).unwrap()), Element::of(part).unwrap());
        let mut all = Isa::all().map(|level| {
            let samples = Samples { choice: &choice, element, bytes, level };
            if element.word_bits() == 64 {
                samples.take_other::<u64>(&Words)
            } else {
                samples.take_other::<u32>(&Words)
            }
        });
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first), "{dtype:?} {shape:?}");
        first
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
        take_other(DType::F64, &shape, &bytes)
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
                n_taken += usize::from(take_other(dtype, &shape, &bytes));
            }
        }
        assert_eq!(n_taken, 2 * 14);
    }
}
