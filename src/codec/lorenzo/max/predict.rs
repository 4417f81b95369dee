//! What the next number may be: several predictions, of which the one is taken that was best nearby.
//!
//! Predictions are made in float64, of the values of the elements before; every operation is a single one of IEEE 754, in
//! this order, so all machines agree.

use crate::codec::lorenzo::max::domain::Domain;
use crate::codec::lorenzo::max::lookback::Lookback;
use crate::codec::lorenzo::max::lorenzo::Lorenzo;
use crate::stage::rows::{KEYS, Keys};
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

/// N is at most 2^`LOG2_N`, and that are the lanes of what is done with all predictions at once.
const LOG2_N: u32 = 4;
pub const LANES: usize = 1 << LOG2_N;
const _: () = assert!(LANES == KEYS && N <= LANES);
/// Bits of a key without the number of a prediction, which is below: more than any sum of two scores, each up to 2^10.
const INACTIVE: u16 = u16::MAX << LOG2_N;

/// Neighbours with weights, and how many of one row if there is no other.
const WEIGHTS: usize = 12;
const STEPS: usize = 8;
/// How far weights go towards what would have been right: 2^-7.
const PACE: f64 = 0.0078125;
/// Larger errors, by the size of the features, do not change weights.
const LARGEST: f64 = 1048576.0;

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
        let has = [y > 0, y > 1, z > 0, z > 0 && y > 0, z > 0 && y + 1 < sy, values.lag > 0 && row >= values.lag];
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
pub struct Predictor<'a, K> {
    k: K,
    values: Values<'a>,
    rows: Rows,
    /// Their own numbers, above them [`INACTIVE`] for those that do not take part.
    names: [u16; LANES],
    /// Whether [`WEIGHTED`] does.
    is_weighted: bool,
    weights: [f64; WEIGHTS],
    features: [f64; WEIGHTS],
    weighted: f64,
    numbers: [i64; LANES],
    /// Of the predictions along the row, and of each place in the row before.
    scores: [u16; LANES],
    above: &'a mut [[u16; LANES]],
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

impl<'a, K: Keys> Predictor<'a, K> {
    /// For a block. `above` is for a row.
    pub fn new(
        k: K,
        values: Values<'a>,
        above: &'a mut [[u16; LANES]],
        active: u16,
        lorenzo: Lorenzo<'a>,
        lookback: Lookback<'a>,
    ) -> Self {
        values.all[..Values::zeros(values.shape)].fill(0.0);
        above.fill([0; LANES]);
        let rows = Rows::new(&values, 0, 0);
        Self {
            k,
            values,
            rows,
            names: std::array::from_fn(|k| k as u16 | if active >> k & 1 == 1 { 0 } else { INACTIVE }),
            is_weighted: active >> WEIGHTED & 1 == 1,
            weights: [0.0; WEIGHTS],
            features: [0.0; WEIGHTS],
            weighted: 0.0,
            numbers: [0; LANES],
            scores: [0; LANES],
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
        let near = self.near(x);
        if self.is_weighted {
            self.weigh(&near, x);
        }
        let Near { base, w, n, u, nw, uw, un, unw, .. } = near;
        let [has_north, _, has_up, .., has_earlier] = self.rows.has;
        let or_base = |exists: bool, value: f64| if exists { value } else { base };
        let (t, tw) = (self.values.all[self.rows.earlier + x], self.before(self.rows.earlier, x));
        let mut values = [base; LANES];
        values[1] = or_base(has_north, n);
        values[2] = or_base(has_up, u);
        values[3] = or_base(has_earlier, t);
        values[4] = (w + n) - nw;
        values[5] = (w + u) - uw;
        values[6] = (n + u) - un;
        values[7] = (((w + n) + u) - ((nw + uw) + un)) + unw;
        values[8] = (w + t) - tw;
        values[WEIGHTED] = self.weighted;
        // A loop, since `map` is compiled for any processor.
        for (number, &value) in self.numbers.iter_mut().zip(&values) {
            *number = domain.number(value);
        }
        self.numbers[ORDERS] = self.lorenzo.prediction(x);
        if let Some(number) = self.lookback.prediction() {
            self.numbers[LOOKBACK] = number;
        }
        let above = &self.above[x.min(self.above.len() - 1)];
        let mut keys = [0; LANES];
        for k in 0..LANES {
            keys[k] = (self.scores[k] + above[k]) << LOG2_N | self.names[k];
        }
        let best = self.k.least(&keys);
        for key in &mut keys {
            if *key == best {
                *key = u16::MAX;
            }
        }
        let second = self.k.least(&keys);
        let which = usize::from(best) % LANES;
        let other = if second >= INACTIVE { which } else { usize::from(second) % LANES };
        let number = self.numbers[which];
        let score = u32::from(best >> LOG2_N);
        Best { number, which, score, other: self.numbers[other].wrapping_sub(number) }
    }

    /// The number of the element at `x` is known.
    #[inline(always)]
    pub fn learn<D: Domain>(&mut self, domain: &D, x: usize, number: i64) {
        let place = x.min(self.above.len() - 1);
        let above = &mut self.above[place];
        for (k, place) in above.iter_mut().enumerate() {
            let bits = (SCORE * left(number, self.numbers[k])) as u16;
            self.scores[k] = self.scores[k] - self.scores[k] / 4 + bits / 4;
            *place = *place - *place / 2 + bits / 2;
        }
        self.note(domain, x, number);
        let value = self.values.all[self.rows.here + x];
        if self.is_weighted {
            let error = value - self.weighted;
            let features = &self.features;
            let size = dot(features, features);
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
        self.lookback.learn(domain, numbers, i, self.scores[BASE].into());
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

    /// The value before the place `x` of a row, or 0.
    #[inline(always)]
    fn before(&self, row: usize, x: usize) -> f64 {
        if x > 0 { self.values.all[row + x - 1] } else { 0.0 }
    }

    /// The neighbours of the element at `x`.
    #[inline(always)]
    fn near(&self, x: usize) -> Near {
        let (all, rows) = (&*self.values.all, &self.rows);
        Near {
            base: self.base(x),
            w: self.before(rows.here, x),
            n: all[rows.north + x],
            u: all[rows.up + x],
            nw: self.before(rows.north, x),
            uw: self.before(rows.up, x),
            un: all[rows.up_north + x],
            unw: self.before(rows.up_north, x),
        }
    }

    /// The prediction with weights for the element at `x`, of features that are differences of neighbours.
    #[inline(always)]
    fn weigh(&mut self, near: &Near, x: usize) {
        let [sz, sy, sx] = self.values.shape;
        let (all, rows) = (&*self.values.all, &self.rows);
        let [has_north, has_far_north, has_up, has_up_north, has_up_south, _] = rows.has;
        let &Near { base, n, u, nw, uw, un, unw, .. } = near;
        let behind = |row: usize| if x + 1 < sx { all[row + x + 1] } else { 0.0 };
        // The difference of the values i and i + 1 back.
        let step = |i: usize| if x > i { all[rows.here + x - i] - all[rows.here + x - i - 1] } else { 0.0 };
        let from_base = |exists: bool, value: f64| if exists { value - base } else { 0.0 };
        // In place they would be stored one by one, and loads of several would wait for that.
        let mut features = [0.0; WEIGHTS];
        if sz * sy == 1 {
            for (i, feature) in features[..STEPS].iter_mut().enumerate() {
                *feature = step(i + 1);
            }
        } else {
            features[0] = step(1);
            features[1] = step(2);
            features[2] = from_base(has_north, n);
            features[3] = from_base(has_north && x > 0, nw);
            features[4] = from_base(has_north && x + 1 < sx, behind(rows.north));
            features[5] = from_base(has_far_north, all[rows.far_north + x]);
            if sz > 1 {
                features[6] = from_base(has_up, u);
                features[7] = from_base(has_up && x > 0, uw);
                features[8] = from_base(has_up_north, un);
                features[9] = from_base(has_up && x + 1 < sx, behind(rows.up));
                features[10] = from_base(has_up_north && x > 0, unw);
                features[11] = from_base(has_up_south, all[rows.up_south + x]);
            }
        }
        self.weighted = base + dot(&self.weights, &features);
        self.features = features;
    }
}

/// The values around one element: west, north, up and between these; 0 where there is none.
struct Near {
    base: f64,
    w: f64,
    n: f64,
    u: f64,
    nw: f64,
    uw: f64,
    un: f64,
    unw: f64,
}

/// The sum of products, in four lanes.
#[inline(always)]
fn dot(a: &[f64; WEIGHTS], b: &[f64; WEIGHTS]) -> f64 {
    let mut sums = [0.0; 4];
    for k in 0..WEIGHTS {
        sums[k % 4] += a[k] * b[k];
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Bits of the difference of two numbers.
#[inline(always)]
pub fn left(a: i64, b: i64) -> u32 {
    (a.wrapping_sub(b).unsigned_abs()).bit_length()
}
