//! What the next number may be: several predictions, of which the one is taken that was best nearby.
//!
//! Predictions are made in float64, of the values of the elements before; every operation is a single one of IEEE 754, in
//! this order, so all machines agree.

use crate::codec::lorenzo::max::domain::Domain;
use crate::codec::lorenzo::max::lorenzo::Lorenzo;
use crate::codec::lorenzo::max::lookback::Lookback;
use crate::stage::word::Word;

/// Predictions.
pub const N: usize = 12;
/// The element before, or what stands for it at the start of a row.
pub const BASE: usize = 0;
/// Integer differences of any orders.
pub const ORDERS: usize = 9;
/// A sum of neighbours with weights that adapt.
pub const WEIGHTED: usize = 10;
/// What followed the last place like this one.
pub const LOOKBACK: usize = 11;

/// Neighbours with weights.
const WEIGHTS: usize = 12;
/// How far weights go towards what would have been right: 2^-7.
const PACE: f64 = 0.0078125;
/// Larger errors, by the size of the features, do not change weights.
const LARGEST: f64 = 1048576.0;

/// The neighbours of one element.
struct Near {
    predictions: [f64; N],
    features: [f64; WEIGHTS],
    n_features: usize,
    base: f64,
}

/// The values so far, behind some zeros which stand for neighbours that do not exist.
pub struct Values<'a> {
    pub all: &'a mut [f64],
    pub shape: [usize; 3],
    /// Elements back to the same place one period earlier; 0 if there is no period.
    pub lag: usize,
}

impl Values<'_> {
    /// Zeros in front.
    pub fn zeros([_, _, sx]: [usize; 3]) -> usize {
        sx + 2
    }
}

/// Where the rows around one row are in the values, and which of them exist.
struct Rows {
    here: usize,
    north: usize,
    far_north: usize,
    up: usize,
    up_north: usize,
    up_south: usize,
    earlier: usize,
    has: [bool; 6],
}

impl Rows {
    fn new(values: &Values, z: usize, y: usize) -> Self {
        let [_, sy, sx] = values.shape;
        let row = (z * sy + y) * sx;
        let here = Values::zeros(values.shape) + row;
        let has = [
            y > 0,
            y > 1,
            z > 0,
            z > 0 && y > 0,
            z > 0 && y + 1 < sy,
            values.lag > 0 && row >= values.lag,
        ];
        // A row of zeros, with a zero on each side.
        let at = |exists: bool, back: usize| if exists { here - back } else { 1 };
        let plane = sy * sx;
        Self {
            here,
            north: at(has[0], sx),
            far_north: at(has[1], 2 * sx),
            up: at(has[2], plane),
            up_north: at(has[3], plane + sx),
            up_south: at(has[4], plane.wrapping_sub(sx)),
            earlier: at(has[5], values.lag),
            has,
        }
    }
}

/// Scores are 16 times a number of bits.
pub const SCORE: u32 = 16;

/// The predictions of a block, and how good they are.
pub struct Predictor<'a> {
    values: Values<'a>,
    rows: Rows,
    /// Those that take part, in their order.
    active: [usize; N],
    n_active: usize,
    weights: [f64; WEIGHTS],
    near: Near,
    numbers: [i64; N],
    /// Of the predictions along the row, and of each place in the row before.
    scores: [u32; N],
    above: &'a mut [[u16; N]],
    pub lorenzo: Lorenzo<'a>,
    pub lookback: Lookback<'a>,
}

/// The best prediction of an element.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    pub number: i64,
    /// Which it is.
    pub which: usize,
    /// Twice the bits that are expected to be left, times [`SCORE`].
    pub score: u32,
    /// The second best one less this one.
    pub other: i64,
}

impl<'a> Predictor<'a> {
    /// For a block. `above` is for a row.
    pub fn new(
        values: Values<'a>,
        above: &'a mut [[u16; N]],
        active: u16,
        lorenzo: Lorenzo<'a>,
        lookback: Lookback<'a>,
    ) -> Self {
        values.all[..Values::zeros(values.shape)].fill(0.0);
        above.fill([0; N]);
        let mut list = [0; N];
        let mut n_active = 0;
        for k in (0..N).filter(|&k| active >> k & 1 == 1) {
            list[n_active] = k;
            n_active += 1;
        }
        let rows = Rows::new(&values, 0, 0);
        Self {
            values,
            rows,
            active: list,
            n_active,
            weights: [0.0; WEIGHTS],
            near: Near { predictions: [0.0; N], features: [0.0; WEIGHTS], n_features: 0, base: 0.0 },
            numbers: [0; N],
            scores: [0; N],
            above,
            lorenzo,
            lookback,
        }
    }

    /// A row follows.
    pub fn start_row(&mut self, z: usize, y: usize) {
        self.rows = Rows::new(&self.values, z, y);
        self.lorenzo.start_row(y);
    }

    /// What the element at `x` may be.
    #[inline(always)]
    pub fn best<D: Domain>(&mut self, domain: &D, x: usize) -> Best {
        self.look(x);
        let n_active = self.n_active;
        let above = &self.above[x.min(self.above.len() - 1)];
        let (mut best, mut second) = ((u32::MAX, 0), (u32::MAX, 0));
        for &k in &self.active[..n_active] {
            self.numbers[k] = match k {
                ORDERS => self.lorenzo.prediction(x),
                LOOKBACK => self.lookback.prediction().unwrap_or_else(|| domain.number(self.near.base)),
                _ => domain.number(self.near.predictions[k]),
            };
            let score = self.scores[k] + u32::from(above[k]);
            if score < best.0 {
                second = best;
                best = (score, k);
            } else if score < second.0 {
                second = (score, k);
            }
        }
        let (number, other) = (self.numbers[best.1], self.numbers[second.1]);
        Best { number, which: best.1, score: best.0, other: other.wrapping_sub(number) }
    }

    /// The number of the element at `x` is known.
    #[inline(always)]
    pub fn learn<D: Domain>(&mut self, domain: &D, x: usize, number: i64) {
        let place = x.min(self.above.len() - 1);
        let above = &mut self.above[place];
        for &k in &self.active[..self.n_active] {
            let bits = SCORE * left(number, self.numbers[k]);
            let (score, place) = (self.scores[k], u32::from(above[k]));
            self.scores[k] = score - score / 4 + bits / 4;
            above[k] = (place - place / 2 + bits / 2) as u16;
        }
        self.note(domain, x, number);
        let value = self.values.all[self.rows.here + x];
        let is_weighted = self.active[..self.n_active].contains(&WEIGHTED);
        if is_weighted {
            let error = value - self.near.predictions[WEIGHTED];
            let features = &self.near.features[..self.near.n_features];
            let mut size = 0.0;
            for feature in features {
                size += feature * feature;
            }
            if size > 0.0 && error * error <= size * LARGEST {
                let step = PACE * error / size;
                for (weight, feature) in self.weights.iter_mut().zip(features) {
                    *weight += step * feature;
                }
            }
        }
    }

    /// Element `i` of the block is known.
    #[inline(always)]
    pub fn look_back<D: Domain>(&mut self, domain: &D, numbers: &[i64], i: usize) {
        self.lookback.learn(domain, numbers, i, self.scores[BASE]);
    }

    /// The number of the element at `x` is known, and says nothing of predictions.
    #[inline(always)]
    pub fn note<D: Domain>(&mut self, domain: &D, x: usize, number: i64) {
        self.values.all[self.rows.here + x] = domain.value(number);
        self.lorenzo.learn(x, number);
    }

    /// What stands for an element that is masked.
    #[inline(always)]
    pub fn stand_in<D: Domain>(&mut self, domain: &D, x: usize) -> i64 {
        domain.number(self.base(x))
    }

    #[inline(always)]
    fn base(&self, x: usize) -> f64 {
        let (all, rows) = (&*self.values.all, &self.rows);
        if x > 0 {
            all[rows.here + x - 1]
        } else if rows.has[0] {
            all[rows.north]
        } else {
            // 0 if there is none.
            all[rows.up]
        }
    }

    /// Predictions for the element at `x`.
    #[inline(always)]
    fn look(&mut self, x: usize) {
        let [sz, sy, sx] = self.values.shape;
        let (all, rows) = (&*self.values.all, &self.rows);
        let [has_north, has_far_north, has_up, has_up_north, has_up_south, has_earlier] = rows.has;
        let base = self.base(x);
        let at = |row: usize| all[row + x];
        let before = |row: usize| if x > 0 { all[row + x - 1] } else { 0.0 };
        let behind = |row: usize| if x + 1 < sx { all[row + x + 1] } else { 0.0 };
        let (w, n, u) = (before(rows.here), at(rows.north), at(rows.up));
        let (nw, uw, un, unw) = (before(rows.north), before(rows.up), at(rows.up_north), before(rows.up_north));
        let t = at(rows.earlier);
        let or_base = |exists: bool, value: f64| if exists { value } else { base };
        let p = &mut self.near.predictions;
        p[BASE] = base;
        p[1] = or_base(has_north, n);
        p[2] = or_base(has_up, u);
        p[3] = or_base(has_earlier, t);
        p[4] = (w + n) - nw;
        p[5] = (w + u) - uw;
        p[6] = (n + u) - un;
        p[7] = (((w + n) + u) - ((nw + uw) + un)) + unw;
        p[8] = (w + t) - before(rows.earlier);

        let features = &mut self.near.features;
        let mut k = 0;
        let mut put = |exists: bool, value: f64| {
            features[k] = if exists { value } else { 0.0 };
            k += 1;
        };
        let back = |i: usize| all[rows.here + x - i];
        put(x > 1, if x > 1 { back(1) - back(2) } else { 0.0 });
        put(x > 2, if x > 2 { back(2) - back(3) } else { 0.0 });
        if sy * sz == 1 {
            for i in 3..8 {
                put(x > i, if x > i { back(i) - back(i + 1) } else { 0.0 });
            }
        }
        if sy > 1 {
            put(has_north, n - base);
            put(has_north && x > 0, nw - base);
            put(has_north && x + 1 < sx, behind(rows.north) - base);
            put(has_far_north, at(rows.far_north) - base);
        }
        if sz > 1 {
            put(has_up, u - base);
            put(has_up && x > 0, uw - base);
            put(has_up_north, un - base);
            put(has_up && x + 1 < sx, behind(rows.up) - base);
            put(has_up_north && x > 0, unw - base);
            put(has_up_south, at(rows.up_south) - base);
        }
        self.near.n_features = k;
        self.near.base = base;
        let mut sum = base;
        for (weight, feature) in self.weights.iter().zip(&self.near.features[..k]) {
            sum += weight * feature;
        }
        self.near.predictions[WEIGHTED] = sum;
    }
}

/// Bits of the difference of two numbers.
#[inline(always)]
pub fn left(a: i64, b: i64) -> u32 {
    (a.wrapping_sub(b).unsigned_abs()).bit_length()
}
