//! Structural similarity (Wang et al., 2004), in two and three dimensions.
//!
//! The definition is that of scikit-image with its defaults, computed in f64. Windows have 7
//! numbers along each axis, all of the same weight, at every position where they fit. K₁ = 0.01, K₂
//! = 0.03, L is the range of the original, and variances are sample variances.

use std::ops::Range;

use crate::exact::Exact;
use crate::moments::scale_of;
use crate::pair::Pair;
use gridz_codecs::error::{Result, try_vec};

/// Numbers of a window along each axis.
const WINDOW: usize = 7;
/// Quantities that a window sums: both numbers, their squares, their product.
const SUMS: usize = 5;
/// Windows along each axis that are computed together, for planes and for volumes. Their sums take
/// less than 1 MiB.
const TILES: [[usize; 3]; 2] = [[1, 64, 128], [8, 16, 64]];
/// Largest number of values along the last axis that these windows cover.
const MOST_IN_ROW: usize = TILES[0][2] + WINDOW - 1;
/// Numbers further than this many ranges from the middle are clamped, so that their squares stay
/// finite.
const FAR: f64 = 1e60;

/// [`Pair::read`] for one type of numbers, so that all other code is compiled only once.
pub type Read = fn(&Pair, usize, [&mut [f64]; 2]);

/// Planes or volumes of an array, with the normalization of their numbers.
pub struct Ssim<'a> {
    pair: &'a Pair<'a>,
    read: Read,
    /// Extents of a volume; the first is 1 for a plane.
    extents: [usize; 3],
    /// Number of volumes; the parts of complex elements count separately.
    volumes: usize,
    /// Extents of a window.
    window: [usize; 3],
    /// Windows along each axis, in total and in a tile.
    windows: [usize; 3],
    tile: [usize; 3],
    /// The normalization: subtract `middle`, then multiply by `scale`, a power of two.
    middle: f64,
    scale: f64,
    /// The range after scaling.
    range: f64,
}

/// The sum of similarities, and the number of windows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Similarities {
    sum: f64,
    windows: u64,
}

impl Similarities {
    /// Adds two sums.
    pub fn and(self, next: Self) -> Self {
        Self { sum: self.sum + next.sum, windows: self.windows + next.windows }
    }

    /// The mean similarity. NaN if there are no windows.
    pub fn mean(self) -> f64 {
        self.sum / self.windows as f64
    }
}

impl<'a> Ssim<'a> {
    /// For the last `rank` axes (2 or 3) whose extent is not 1. `None` if there are fewer axes, if
    /// one is shorter than a window, or if the range is zero or not finite.
    pub fn new(
        pair: &'a Pair<'a>,
        read: Read,
        rank: usize,
        shape: &[u64],
        extremes: [f64; 2],
        range: Exact,
    ) -> Option<Self> {
        let axes: Vec<usize> = shape.iter().filter(|&&n| n != 1).map(|&n| n as usize).collect();
        let (outer, inner) = axes.split_at_checked(axes.len().checked_sub(rank)?)?;
        if inner.iter().any(|&n| n < WINDOW) || !(range.nearest > 0.0 && range.nearest.is_finite()) {
            return None;
        }
        let (mut extents, mut window) = ([1; 3], [1; 3]);
        extents[3 - rank..].copy_from_slice(inner);
        window[3 - rank..].fill(WINDOW);
        let scale = scale_of(range.nearest);
        Some(Self {
            pair,
            read,
            extents,
            volumes: outer.iter().product::<usize>() * pair.parts,
            window,
            windows: [0, 1, 2].map(|axis| extents[axis] + 1 - window[axis]),
            tile: TILES[rank - 2],
            middle: extremes[0] / 2.0 + extremes[1] / 2.0,
            scale,
            range: range.nearest * scale,
        })
    }

    pub fn n_tiles(&self) -> usize {
        self.tiles().iter().product::<usize>() * self.volumes
    }

    fn tiles(&self) -> [usize; 3] {
        [0, 1, 2].map(|axis| self.windows[axis].div_ceil(self.tile[axis]))
    }

    /// Computes the similarities of all windows of some tiles.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn look(&self, tiles: Range<usize>) -> Result<Similarities> {
        let room = [0, 1, 2].map(|axis| self.tile[axis] + self.window[axis] - 1);
        let n_numbers = room.iter().product::<usize>();
        let mut sums = try_vec(n_numbers * SUMS, "working memory")?;
        sums.resize(n_numbers * SUMS, 0.0);
        let mut found = Similarities::default();
        for tile in tiles {
            found = found.and(self.look_at(tile, room, &mut sums));
        }
        Ok(found)
    }

    fn look_at(&self, tile: usize, room: [usize; 3], sums: &mut [f64]) -> Similarities {
        let tiles = self.tiles();
        let places = [tile / tiles[2] / tiles[1] % tiles[0], tile / tiles[2] % tiles[1], tile % tiles[2]];
        let volume = tile / tiles.iter().product::<usize>();
        let start = [0, 1, 2].map(|axis| places[axis] * self.tile[axis]);
        let windows = [0, 1, 2].map(|axis| self.tile[axis].min(self.windows[axis] - start[axis]));
        let count = [0, 1, 2].map(|axis| windows[axis] + self.window[axis] - 1);

        let n_numbers = room.iter().product::<usize>();
        let first = volume / self.pair.parts * self.extents.iter().product::<usize>();
        let [mut of_a, mut of_b] = [[0.0; MOST_IN_ROW]; 2];
        for z in 0..count[0] {
            for y in 0..count[1] {
                let row = ((start[0] + z) * self.extents[1] + start[1] + y) * self.extents[2] + start[2];
                let at = (z * room[1] + y) * room[2];
                let (of_a, of_b) = (&mut of_a[..count[2]], &mut of_b[..count[2]]);
                let place = (first + row) * self.pair.parts + volume % self.pair.parts;
                (self.read)(self.pair, place, [of_a, of_b]);
                for x in 0..count[2] {
                    let numbers = self.quantities(of_a[x], of_b[x]);
                    let mut i = 0;
                    while i < SUMS {
                        sums[i * n_numbers + at + x] = numbers[i];
                        i += 1;
                    }
                }
            }
        }
        for sums in sums.chunks_exact_mut(n_numbers) {
            add_up(sums, room, count, self.window);
        }

        let mut found = Similarities::default();
        for z in 0..windows[0] {
            for y in 0..windows[1] {
                let at = (z * room[1] + y) * room[2];
                let row = |i: usize| &sums[i * n_numbers + at..][..windows[2]];
                found = found.and(self.similarities([row(0), row(1), row(2), row(3), row(4)]));
            }
        }
        found
    }

    /// The quantities to sum at one position. They are NaN if the numbers are not compared, which
    /// makes every sum over them NaN.
    #[inline(always)]
    fn quantities(&self, a: f64, b: f64) -> [f64; SUMS] {
        let a = ((a - self.middle) * self.scale).clamp(-FAR, FAR);
        let b = ((b - self.middle) * self.scale).clamp(-FAR, FAR);
        [a, b, a * a, b * b, a * b]
    }

    /// The similarities of a row of windows, from the sums of each window.
    fn similarities(&self, [a, b, aa, bb, ab]: [&[f64]; SUMS]) -> Similarities {
        let n = self.window.iter().product::<usize>() as f64;
        let (of_mean, of_samples) = (1.0 / n, n / (n - 1.0));
        let (c1, c2) = ((0.01 * self.range).powi(2), (0.03 * self.range).powi(2));
        let middle = self.middle * self.scale;
        let mut similarities = [0.0; MOST_IN_ROW];
        let similarities = &mut similarities[..a.len()];
        let rows = a.iter().zip(b).zip(aa).zip(bb).zip(ab);
        for (similarity, ((((a, b), aa), bb), ab)) in similarities.iter_mut().zip(rows) {
            let (mean_a, mean_b) = (a * of_mean, b * of_mean);
            let var_a = (aa * of_mean - mean_a * mean_a) * of_samples;
            let var_b = (bb * of_mean - mean_b * mean_b) * of_samples;
            let covar = (ab * of_mean - mean_a * mean_b) * of_samples;
            let (mean_a, mean_b) = (mean_a + middle, mean_b + middle);
            *similarity = (2.0 * mean_a * mean_b + c1) * (2.0 * covar + c2)
                / ((mean_a * mean_a + mean_b * mean_b + c1) * (var_a + var_b + c2));
        }
        let numbers = similarities.iter().filter(|similarity| !similarity.is_nan());
        numbers.fold(Similarities::default(), |all, &sum| all.and(Similarities { sum, windows: 1 }))
    }
}

/// Replaces numbers by the sums of the windows that begin at them, axis by axis.
fn add_up(numbers: &mut [f64], room: [usize; 3], count: [usize; 3], window: [usize; 3]) {
    let plane = room[1] * room[2];
    let windows = [0, 1, 2].map(|axis| count[axis] + 1 - window[axis]);
    for z in 0..windows[0] {
        for next in 1..window[0] {
            add(numbers, z * plane, (z + next) * plane, count[1] * room[2]);
        }
        for y in 0..windows[1] {
            let row = z * plane + y * room[2];
            for next in 1..window[1] {
                add(numbers, row, row + next * room[2], count[2]);
            }
            add_windows(&mut numbers[row..row + count[2]]);
        }
    }
}

/// Replaces the numbers of a row by the sums of the windows that begin at them, for all windows
/// that fit.
fn add_windows(row: &mut [f64]) {
    let mut before = [0.0; MOST_IN_ROW];
    let before = &mut before[..row.len()];
    before.copy_from_slice(row);
    let n = row.len() + 1 - WINDOW;
    let [a, b, c, d, e, f, g] = [0, 1, 2, 3, 4, 5, 6].map(|next| &before[next..next + n]);
    for (x, sum) in row[..n].iter_mut().enumerate() {
        *sum = ((a[x] + b[x]) + (c[x] + d[x])) + ((e[x] + f[x]) + g[x]);
    }
}

/// Adds the `n` numbers at `from` to those at `to`, which lie before them.
fn add(numbers: &mut [f64], to: usize, from: usize, n: usize) {
    let (head, tail) = numbers.split_at_mut(from);
    for (to, from) in head[to..to + n].iter_mut().zip(&tail[..n]) {
        *to += *from;
    }
}
