//! Predicts the next number in several ways, and selects the prediction that was best nearby.
//!
//! Predictions are computed in float64 from the values of previous elements. Every operation is a
//! single one of IEEE 754, in this order, so all machines agree.

use crate::codec::lorenzo::max::domain::Domain;
use crate::codec::lorenzo::max::lookback::Lookback;
use crate::codec::lorenzo::max::lorenzo::Lorenzo;
use crate::stage::rows::{FACTORS, KEYS, Keys, Lanes, VALUES};
use crate::stage::word::Word;

/// Number of predictions.
pub const N: usize = 12;
/// The previous element, or its substitute at the start of a row.
pub const BASE: usize = 0;
/// Integer differences of arbitrary orders.
pub const ORDERS: usize = 9;
/// A sum of neighbors with adaptive weights.
pub const WEIGHTED: usize = 10;
/// The number that followed the last similar position.
pub const LOOKBACK: usize = 11;

/// N is at most 2^`LOG2_N`, the number of lanes of operations on all predictions. The active
/// predictions have the first lanes, in ascending order.
const LOG2_N: u32 = 4;
pub const LANES: usize = 1 << LOG2_N;
const _: () = assert!(LANES == KEYS && LANES == 2 * VALUES && N <= LANES);
/// Bits of a key other than the prediction's lane, which is in the low bits. As a score this
/// exceeds the sum of any two scores; a score is at most 2^10.
const INACTIVE: u16 = u16::MAX << LOG2_N;

/// Number of weighted neighbors; and of those in the same row, if the block has only one row.
const WEIGHTS: usize = FACTORS;
const STEPS: usize = 8;
/// The learning rate of weights: 2^-7.
const PACE: f64 = 0.0078125;
/// Limit of the squared error, relative to the squared norm of the features. Larger errors do not
/// change weights.
const LARGEST: f64 = 1048576.0;

/// The values so far, row by row, each row followed by a zero. Leading zeros substitute neighbors
/// that do not exist.
pub struct Values<'a> {
    pub all: &'a mut [f64],
    pub shape: [usize; 3],
    /// The period in rows; 0 if there is no period.
    pub lag: usize,
}

impl Values<'_> {
    /// Distance from one row to the next.
    fn stride([_, _, sx]: [usize; 3]) -> usize {
        sx + 1
    }

    /// Leading zeros: a row with a zero on each side, and the reach of features.
    fn zeros(shape: [usize; 3]) -> usize {
        Self::stride(shape) + STEPS + 1
    }

    /// The `N` values from `place` on.
    #[inline(always)]
    fn at<const N: usize>(&self, place: usize) -> [f64; N] {
        *self.all[place..].first_chunk().expect("no neighbours after the block")
    }

    /// Number of values that a block needs.
    pub fn needs(shape: [usize; 3]) -> usize {
        Self::zeros(shape) + shape[0] * shape[1] * Self::stride(shape)
    }
}

/// Positions in the values of the rows around a row, and which of these exist.
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
        let ([_, sy, _], lag) = (values.shape, values.lag);
        let row = z * sy + y;
        let has = [y > 0, y > 1, z > 0, z > 0 && y > 0, z > 0 && y + 1 < sy, lag > 0 && row >= lag];
        let stride = Values::stride(values.shape);
        let here = Values::zeros(values.shape) + row * stride;
        let at = |exists: bool, rows_back: usize| if exists { here - rows_back * stride } else { 1 };
        Self {
            here,
            north: at(has[0], 1),
            far_north: at(has[1], 2),
            up: at(has[2], sy),
            up_north: at(has[3], sy + 1),
            up_south: at(has[4], sy.wrapping_sub(1)),
            earlier: at(has[5], lag),
            has,
        }
    }
}

/// The range of positions of a row at which each feature exists; 0 and 0 if it never does.
#[derive(Clone, Copy)]
struct Ends {
    from: [u32; WEIGHTS],
    to: [u32; WEIGHTS],
}

impl Ends {
    fn new([sz, sy, sx]: [usize; 3], rows: &Rows) -> Self {
        let [north, far_north, up, up_north, up_south, _] = rows.has;
        let sx = sx as u32;
        let none = (0, 0);
        // Excluding the first or the last element, or as many as the feature reaches.
        let all = |exists: bool| if exists { (0, sx) } else { none };
        let before = |exists: bool, n: u32| if exists { (n, sx) } else { none };
        let behind = |exists: bool| if exists { (0, sx - 1) } else { none };
        let ends = if sz * sy == 1 {
            std::array::from_fn(|k| before(k < STEPS, k as u32 + 2))
        } else {
            [
                before(true, 2),
                before(true, 3),
                all(north),
                before(north, 1),
                behind(north),
                all(far_north),
                all(up),
                before(up, 1),
                all(up_north),
                behind(up),
                before(up_north, 1),
                all(up_south),
            ]
        };
        Self { from: ends.map(|(from, _)| from), to: ends.map(|(_, to)| to) }
    }
}

/// A score is a number of bits times 16.
pub const SCORE: u32 = 16;

/// Numbers that fill registers. Loads that follow stores across two cache lines are slow.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Lines<T>(T);

/// Scores of all predictions at one position.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub struct Scores([u16; LANES]);

/// The predictions of a block, and their scores.
pub struct Predictor<'a, K> {
    k: K,
    values: Values<'a>,
    rows: Rows,
    ends: Ends,
    /// The prediction of each lane, in halves.
    of_lanes: [Lanes; 2],
    /// The lanes, OR [`INACTIVE`] for those without an active prediction.
    names: [u16; LANES],
    /// The number of halves of the lanes that have active predictions.
    n_halves: usize,
    /// For each half, the lanes of [`ORDERS`] and of [`LOOKBACK`], as masks.
    given: [[u8; 2]; 2],
    /// True if [`WEIGHTED`] is active.
    is_weighted: bool,
    /// True if [`ORDERS`] is active.
    has_orders: bool,
    weights: Lines<[f64; WEIGHTS]>,
    features: Lines<[f64; WEIGHTS]>,
    /// The dot product of the features with themselves.
    size: f64,
    weighted: f64,
    numbers: Lines<[[i64; VALUES]; 2]>,
    /// The last three values of the row, the last one first. Wide loads from memory would wait for
    /// the stores of these values.
    west: [f64; 3],
    /// The scores of predictions along the row, and at each position of the previous row.
    scores: Scores,
    above: &'a mut [Scores],
    pub lorenzo: Lorenzo<'a>,
    pub lookback: Lookback<'a>,
}

/// The best prediction of an element.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    pub number: i64,
    /// Its index.
    pub which: usize,
    /// Twice the expected number of remaining bits, times [`SCORE`].
    pub score: u32,
    /// The second best prediction minus this one.
    pub other: i64,
}

impl<'a, K: Keys> Predictor<'a, K> {
    /// The initial state for a block. `above` has room for a row.
    pub fn new(
        k: K,
        values: Values<'a>,
        above: &'a mut [Scores],
        active: u16,
        lorenzo: Lorenzo<'a>,
        lookback: Lookback<'a>,
    ) -> Self {
        let stride = Values::stride(values.shape);
        let (front, rows) = values.all[..Values::needs(values.shape)].split_at_mut(Values::zeros(values.shape));
        front.fill(0.0);
        for row in rows.chunks_exact_mut(stride) {
            row[stride - 1] = 0.0;
        }
        above.fill(Scores::default());
        let rows = Rows::new(&values, 0, 0);
        let ends = Ends::new(values.shape, &rows);
        let (mut of_lanes, mut n_active) = ([Lanes([BASE as u64; VALUES]); 2], 0);
        for k in (0..N).filter(|k| active >> k & 1 == 1) {
            of_lanes[n_active / VALUES].0[n_active % VALUES] = k as u64;
            n_active += 1;
        }
        let mask = |half: usize, which: usize| {
            let lanes = (0..VALUES).filter(|lane| half * VALUES + lane < n_active);
            lanes.filter(|&lane| of_lanes[half].0[lane] == which as u64).map(|lane| 1 << lane).sum()
        };
        Self {
            k,
            values,
            rows,
            ends,
            of_lanes,
            names: std::array::from_fn(|lane| lane as u16 | if lane < n_active { 0 } else { INACTIVE }),
            n_halves: n_active.div_ceil(VALUES),
            given: [0, 1].map(|half| [ORDERS, LOOKBACK].map(|which| mask(half, which))),
            is_weighted: active >> WEIGHTED & 1 == 1,
            has_orders: active >> ORDERS & 1 == 1,
            weights: Lines::default(),
            features: Lines::default(),
            size: 0.0,
            weighted: 0.0,
            numbers: Lines::default(),
            west: [0.0; 3],
            scores: Scores::default(),
            above,
            lorenzo,
            lookback,
        }
    }

    /// Starts a row.
    pub fn start_row(&mut self, z: usize, y: usize) {
        let has = self.rows.has;
        self.rows = Rows::new(&self.values, z, y);
        if self.rows.has != has {
            self.ends = Ends::new(self.values.shape, &self.rows);
        }
        let here = self.rows.here;
        self.west = [1, 2, 3].map(|back| self.values.all[here - back]);
        self.lorenzo.start_row(y);
    }

    /// The best prediction of the element at `x`.
    #[inline(always)]
    pub fn best(&mut self, domain: Domain, x: usize) -> Best {
        let near = self.near(x);
        if self.is_weighted {
            self.weigh(&near, x);
        }
        let [has_north, _, has_up, .., has_earlier] = self.rows.has;
        let candidates = Candidates {
            near,
            west: self.west[0],
            earlier: self.values.at(self.rows.earlier + x - 1),
            has: [has_north, has_up, has_earlier],
            weighted: self.weighted,
        };
        let of_orders = if self.has_orders { self.lorenzo.prediction(x) } else { 0 };
        // Without a match, it is the number of the base.
        let of_match = self.lookback.prediction();
        for half in 0..self.n_halves.min(2) {
            let [orders, lookback] = self.given[half];
            let of_match = of_match.map_or((0, 0), |number| (lookback, number));
            let given = [(orders, of_orders), of_match];
            self.numbers.0[half] = domain.numbers(self.k, &candidates, &self.of_lanes[half], given);
        }
        let Scores(above) = &self.above[x.min(self.above.len() - 1)];
        let mut keys = [0; LANES];
        for k in 0..LANES {
            keys[k] = (self.scores.0[k] + above[k]) << LOG2_N | self.names[k];
        }
        let best = self.k.least(&keys);
        for key in &mut keys {
            if *key == best {
                *key = u16::MAX;
            }
        }
        let second = self.k.least(&keys);
        let numbers = self.numbers.0.as_flattened();
        let lane = usize::from(best) % LANES;
        let other = if second >= INACTIVE { lane } else { usize::from(second) % LANES };
        let number = numbers[lane];
        let score = u32::from(best >> LOG2_N);
        Best {
            number,
            which: self.of_lanes[lane / VALUES].0[lane % VALUES] as usize,
            score,
            other: numbers[other].wrapping_sub(number),
        }
    }

    /// Learns the number of the element at `x`.
    #[inline(always)]
    pub fn learn(&mut self, domain: Domain, x: usize, number: i64) {
        self.note(domain, x, number);
        if self.is_weighted {
            let error = self.west[0] - self.weighted;
            if self.size > 0.0 && error * error <= self.size * LARGEST {
                let step = PACE * error / self.size;
                for (weight, feature) in self.weights.0.iter_mut().zip(&self.features.0) {
                    *weight += step * feature;
                }
            }
        }
        let place = x.min(self.above.len() - 1);
        let (above, scores) = (self.above[place].0.as_chunks_mut().0, self.scores.0.as_chunks_mut().0);
        for half in 0..self.n_halves.min(2) {
            rate(&mut scores[half], &mut above[half], &self.numbers.0[half], number);
        }
    }

    /// Learns element `i` of the block for looking back.
    #[inline(always)]
    pub fn look_back(&mut self, domain: Domain, numbers: &[i64], i: usize) {
        // The base is the first prediction.
        let score = if self.of_lanes[0].0[0] == BASE as u64 { self.scores.0[0] } else { 0 };
        self.lookback.learn(domain, numbers, i, score.into());
    }

    /// Records the number of the element at `x` without rating the predictions.
    #[inline(always)]
    pub fn note(&mut self, domain: Domain, x: usize, number: i64) {
        let value = domain.value(number);
        self.values.all[self.rows.here + x] = value;
        self.west = [value, self.west[0], self.west[1]];
        if self.has_orders {
            self.lorenzo.learn(x, number);
        }
    }

    /// The number that substitutes a masked element.
    #[inline(always)]
    pub fn stand_in(&mut self, domain: Domain, x: usize) -> i64 {
        domain.number(self.base(x))
    }

    /// The value of the nearest previous element of the element at `x`, or 0 if there is none.
    #[inline(always)]
    fn base(&self, x: usize) -> f64 {
        let (all, rows) = (&*self.values.all, &self.rows);
        if x > 0 {
            self.west[0]
        } else if rows.has[0] {
            all[rows.north]
        } else {
            all[rows.up]
        }
    }

    /// The neighbors of the element at `x`.
    #[inline(always)]
    fn near(&self, x: usize) -> Near {
        let (values, rows) = (&self.values, &self.rows);
        Near {
            base: self.base(x),
            north: values.at(rows.north + x - 1),
            up: values.at(rows.up + x - 1),
            up_north: values.at(rows.up_north + x - 1),
        }
    }

    /// Computes the weighted prediction of the element at `x`. Its features are differences of
    /// neighbors.
    #[inline(always)]
    fn weigh(&mut self, near: &Near, x: usize) {
        let (values, rows) = (&self.values, &self.rows);
        let [w, ww, www] = self.west;
        let &Near { base, north: [nw, n, ne], up: [uw, u, ue], up_north: [unw, un] } = near;
        let [sz, sy, _] = values.shape;
        let differences: [f64; WEIGHTS] = if sz * sy == 1 {
            let back: [f64; STEPS + 1] = values.at(rows.here + x - STEPS - 1);
            std::array::from_fn(|k| if k < STEPS { back[STEPS - k] - back[STEPS - 1 - k] } else { 0.0 })
        } else {
            let [nn] = values.at(rows.far_north + x);
            let [us] = values.at(rows.up_south + x);
            let of = [w, ww, n, nw, ne, nn, u, uw, un, ue, unw, us];
            let less = [ww, www, base, base, base, base, base, base, base, base, base, base];
            std::array::from_fn(|k| of[k] - less[k])
        };
        // Written in place, features would be stored one by one, and vector loads would stall on
        // these stores.
        let mut features = [0.0; WEIGHTS];
        for k in 0..WEIGHTS {
            let is_there = x as u32 >= self.ends.from[k] && (x as u32) < self.ends.to[k];
            features[k] = if is_there { differences[k] } else { 0.0 };
        }
        self.weighted = base + self.k.dot(&self.weights.0, &features);
        self.size = self.k.dot(&features, &features);
        self.features = Lines(features);
    }
}

/// The values around one element, those of each row in order: around it in the rows to the north and
/// above. Missing values are 0.
#[derive(Clone, Copy)]
struct Near {
    base: f64,
    north: [f64; 3],
    up: [f64; 3],
    up_north: [f64; 2],
}

/// The neighbors, from which the predicted values of an element are computed.
pub struct Candidates {
    near: Near,
    west: f64,
    earlier: [f64; 2],
    /// Whether the rows to the north, above and one period earlier exist.
    has: [bool; 3],
    weighted: f64,
}

impl Candidates {
    /// The predicted values. They are computed in every place that converts them: in an array that
    /// several places share, they would be stored one by one, and vector loads would stall on these stores.
    #[inline(always)]
    pub fn values(&self) -> [f64; LANES] {
        let Self { near, west: w, earlier: [tw, t], has: [has_north, has_up, has_earlier], weighted } = *self;
        let Near { base, north: [nw, n, _], up: [uw, u, _], up_north: [unw, un] } = near;
        let or_base = |exists: bool, value: f64| if exists { value } else { base };
        let mut values = [base; LANES];
        values[1] = or_base(has_north, n);
        values[2] = or_base(has_up, u);
        values[3] = or_base(has_earlier, t);
        values[4] = (w + n) - nw;
        values[5] = (w + u) - uw;
        values[6] = (n + u) - un;
        values[7] = (((w + n) + u) - ((nw + uw) + un)) + unw;
        values[8] = (w + t) - tw;
        values[WEIGHTED] = weighted;
        values
    }
}

/// Updates the scores of predictions along the row and at a position.
#[inline(always)]
fn rate(along: &mut [u16; VALUES], at: &mut [u16; VALUES], numbers: &[i64; VALUES], number: i64) {
    for lane in 0..VALUES {
        let bits = (SCORE * left(number, numbers[lane])) as u16;
        along[lane] = along[lane] - along[lane] / 4 + bits / 4;
        at[lane] = at[lane] - at[lane] / 2 + bits / 2;
    }
}

/// Bits of the difference of two numbers.
#[inline(always)]
pub fn left(a: i64, b: i64) -> u32 {
    (a.wrapping_sub(b).unsigned_abs()).bit_length()
}
