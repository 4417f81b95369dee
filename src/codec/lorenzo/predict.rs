//! Prediction: differences along the axes, as often as an order for each axis says.
//!
//! Order 1 on every axis is the Lorenzo predictor, which subtracts from each number the corner values
//! of the cube before it with alternating signs; order 2 and more do the same again, as for polynomials of higher
//! degree. Since differences along different axes commute, a block is predicted by plain passes over its rows.
//!
//! Which orders suit a block is estimated on some of its rows by the bits that the differences would
//! take. Smooth arrays of f64 gain from orders as high as 5, noisy ones from order 1 or 0; so after a few orders that are
//! good for most arrays the estimate follows the direction in which it improves.

use crate::codec::lorenzo::rows::{Ahead, LANES, Rows, first_lanes};
use crate::codec::lorenzo::word::Word;

/// Largest order on an axis.
pub const MAX_ORDER: u8 = 7;
/// Of so many rows one is looked at for the estimate …
const SAMPLE_EVERY: usize = 17;
/// … this one …
const SAMPLED: usize = 8;
/// … unless there are fewer rows than this: then all are.
const SAMPLE_FROM: usize = 34;
/// Rows of fewer elements are not worth a row of lanes each.
const SHORT: usize = 8;

/// Orders along z, y and x.
pub type Orders = [u8; 3];

/// A prediction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction<W> {
    pub orders: Orders,
    /// What is subtracted from every number beforehand, in addition to the first one.
    pub base: W,
    /// Estimated bits of the sampled numbers.
    pub cost: u64,
}

impl<W: Word> Prediction<W> {
    /// None yet.
    pub const NONE: Self = Self { orders: [0; 3], base: W::ZERO, cost: u64::MAX };
}

/// Elements from a number to the one before it along y and along z. Without differences along z all rows are one
/// sequence, and what is before along z is never asked for.
#[inline(always)]
fn strides([_, sy, sx]: [usize; 3]) -> (usize, usize) {
    (sx, sy * sx)
}

/// Rows of a plane as a prediction sees the block.
#[inline(always)]
fn plane_rows([sz, sy, _]: [usize; 3], [oz, ..]: Orders) -> usize {
    if oz == 0 { sz * sy } else { sy }
}

// ---- differences ----------------------------------------------------------------------------------

/// Replaces the numbers `v` by the unsigned differences of the numbers less `base`. There is room for a row behind the
/// block. The base is zero unless the orders are. Lines of `ahead` are fetched meanwhile.
#[inline(always)]
pub fn apply<W: Word, S: Rows<W>>(
    s: S,
    v: &mut [W],
    shape: [usize; 3],
    orders: Orders,
    base: W,
    ahead: &mut impl Ahead,
) {
    let n: usize = shape.iter().product();
    let [oz, oy, ox] = orders;
    if shape[2] <= LANES && shape[2] >= SHORT && oz <= 1 && oy <= 1 && ox <= 1 {
        match orders {
            [0, 0, 0] => row_differences::<_, _, _, false, false, false>(s, v, shape, base, ahead),
            [0, 0, _] => row_differences::<_, _, _, false, false, true>(s, v, shape, base, ahead),
            [0, _, 0] => row_differences::<_, _, _, false, true, false>(s, v, shape, base, ahead),
            [0, _, _] => row_differences::<_, _, _, false, true, true>(s, v, shape, base, ahead),
            [_, 0, 0] => row_differences::<_, _, _, true, false, false>(s, v, shape, base, ahead),
            [_, 0, _] => row_differences::<_, _, _, true, false, true>(s, v, shape, base, ahead),
            [_, _, 0] => row_differences::<_, _, _, true, true, false>(s, v, shape, base, ahead),
            _ => row_differences::<_, _, _, true, true, true>(s, v, shape, base, ahead),
        }
        return;
    }
    let base = s.splat(base);
    let mut at = 0;
    while at < n {
        s.store(s.minus(s.load(&v[at..]), base), &mut v[at..]);
        at += LANES;
    }
    let (row, plane) = strides(shape);
    for _ in 0..oz {
        differences(s, v, plane, n, plane);
    }
    let rows = plane_rows(shape, orders) * row;
    for _ in 0..oy {
        let mut start = 0;
        while start < n {
            differences(s, v, start + row, start + rows, row);
            start += rows;
        }
    }
    for _ in 0..ox {
        neighbour_differences(s, v, n, row);
    }
    let mut at = 0;
    while at < n {
        s.store(s.zigzag(s.load(&v[at..])), &mut v[at..]);
        at += LANES;
    }
}

/// As [`apply`] for orders up to 1 and blocks whose rows are no longer than a row of lanes: all in one pass.
#[inline(always)]
fn row_differences<W: Word, S: Rows<W>, A: Ahead, const Z: bool, const Y: bool, const X: bool>(
    s: S,
    v: &mut [W],
    shape: [usize; 3],
    base: W,
    ahead: &mut A,
) {
    let zero = s.splat(W::default());
    let base = s.splat(base);
    let (row, plane) = strides(shape);
    let mask = first_lanes(row);
    let n_rows = plane_rows(shape, [Z.into(), 0, 0]);
    let mut start: usize = shape.iter().product();
    while start > 0 {
        // The last plane first, so that nothing is replaced that is still needed.
        start -= n_rows * row;
        let mut above = zero;
        for y in 0..n_rows {
            ahead.fetch(s);
            let at = start + y * row;
            let this = s.load(&v[at..]);
            let mut t = this;
            if Z && start > 0 {
                t = s.minus(t, s.load(&v[at - plane..]));
            }
            if !Z && !Y && !X {
                t = s.minus(t, base);
            }
            if Y {
                (t, above) = (s.minus(t, above), t);
            }
            if X {
                t = s.minus(t, s.predecessors(t, zero));
            }
            t = s.zigzag(t);
            if row < LANES {
                t = s.or(s.keep(mask, t), s.keep(!mask, this));
            }
            s.store(t, &mut v[at..]);
        }
    }
}

/// Subtracts from the numbers from `start` to `end` those `distance` before them.
#[inline(always)]
fn differences<W: Word, S: Rows<W>>(s: S, v: &mut [W], start: usize, end: usize, distance: usize) {
    let mut at = end;
    while at > start {
        // From the end on, so that nothing is replaced that is still needed.
        let n = (at - start).min(LANES);
        at -= n;
        let before = s.keep(first_lanes(n), s.load(&v[at - distance..]));
        s.store(s.minus(s.load(&v[at..]), before), &mut v[at..]);
    }
}

/// Subtracts from every number of `n` the one before it in its row.
#[inline(always)]
fn neighbour_differences<W: Word, S: Rows<W>>(s: S, v: &mut [W], n: usize, row: usize) {
    let mut starts = Starts::new(row);
    let mut before = s.splat(W::default());
    let mut at = 0;
    while at < n {
        let this = s.load(&v[at..]);
        let predecessors = s.keep(!starts.next(), s.predecessors(this, before));
        s.store(s.minus(this, predecessors), &mut v[at..]);
        before = this;
        at += LANES;
    }
}

/// Where rows of the block start among every 32 numbers.
struct Starts {
    row: usize,
    /// The next 32 numbers begin in a row, this far from its start.
    offset: usize,
    /// Every multiple of the length of a row.
    multiples: u64,
}

impl Starts {
    #[inline(always)]
    fn new(row: usize) -> Self {
        let mut multiples = 0;
        let mut at = 0;
        while at < 64 {
            multiples |= 1 << at;
            at += row;
        }
        Self { row, offset: 0, multiples }
    }

    #[inline(always)]
    fn next(&mut self) -> u32 {
        let first = if self.offset == 0 { 0 } else { self.row - self.offset };
        self.offset = if self.row > LANES { self.offset + LANES } else { self.offset + LANES % self.row };
        if self.offset >= self.row {
            self.offset -= self.row;
        }
        if first < LANES { (self.multiples << first) as u32 } else { 0 }
    }
}

// ---- sums -----------------------------------------------------------------------------------------

/// Where the rows of a block go as their numbers are known.
pub trait Sink<W: Word, S: Rows<W>> {
    type Plane<'p>: Plane<W, S>
    where
        Self: 'p;

    fn plane(&mut self, z: usize) -> Self::Plane<'_>;
}

/// A plane of it.
pub trait Plane<W: Word, S: Rows<W>> {
    /// Row y, which is the next one; only as many lanes count as the block's rows have.
    fn put(&mut self, s: S, y: usize, row: S::Row);
}

/// Whether [`undo_rows`] can be used, which needs a plane of whole rows.
#[inline(always)]
pub fn is_in_rows([_, sy, sx]: [usize; 3], work: usize) -> bool {
    (SHORT..=LANES).contains(&sx) && sy * LANES <= work
}

/// The inverse of [`apply`], in one pass, for blocks that [`is_in_rows`]. `r` is changed, and `work` used.
#[inline(always)]
pub fn undo_rows<W: Word, S: Rows<W>>(
    s: S,
    r: &mut [W],
    work: &mut [W],
    shape: [usize; 3],
    orders: Orders,
    base: W,
    sink: &mut impl Sink<W, S>,
) {
    let [oz, oy, ox] = orders;
    if oz > 1 {
        // Seldom so: sums along z first, up to the last ones.
        let n: usize = shape.iter().product();
        let (_, plane) = strides(shape);
        unzigzag(s, r, n);
        for _ in 1..oz {
            sums(s, r, n, plane);
        }
        match (oy, ox) {
            (1, 1) => sum_rows::<_, _, _, false, true, 1, 1>(s, r, work, shape, orders, base, sink),
            _ => sum_rows::<_, _, _, false, true, 7, 7>(s, r, work, shape, orders, base, sink),
        }
        return;
    }
    match orders {
        [0, 0, 0] => sum_rows::<_, _, _, true, false, 0, 0>(s, r, work, shape, orders, base, sink),
        [0, 0, 1] => sum_rows::<_, _, _, true, false, 0, 1>(s, r, work, shape, orders, base, sink),
        [0, 1, 0] => sum_rows::<_, _, _, true, false, 1, 0>(s, r, work, shape, orders, base, sink),
        [0, 1, 1] => sum_rows::<_, _, _, true, false, 1, 1>(s, r, work, shape, orders, base, sink),
        [1, 0, 1] => sum_rows::<_, _, _, true, true, 0, 1>(s, r, work, shape, orders, base, sink),
        [1, 1, 1] => sum_rows::<_, _, _, true, true, 1, 1>(s, r, work, shape, orders, base, sink),
        [0, ..] => sum_rows::<_, _, _, true, false, 7, 7>(s, r, work, shape, orders, base, sink),
        _ => sum_rows::<_, _, _, true, true, 7, 7>(s, r, work, shape, orders, base, sink),
    }
}

/// The sums along x, y and, if `IS_Z`, once along z. `Y` and `X` are the orders along y and x, or 7 for those in
/// `orders`.
#[inline(always)]
fn sum_rows<
    W: Word,
    S: Rows<W>,
    K: Sink<W, S>,
    const IS_ZIGZAG: bool,
    const IS_Z: bool,
    const Y: usize,
    const X: usize,
>(
    s: S,
    r: &[W],
    work: &mut [W],
    shape: [usize; 3],
    orders: Orders,
    base: W,
    sink: &mut K,
) {
    let zero = s.splat(W::default());
    let base = s.splat(base);
    let [sz, sy, sx] = shape;
    let order = |fixed: usize, order: u8| if fixed == 7 { usize::from(order) } else { fixed };
    let (oy, ox) = (order(Y, orders[1]), order(X, orders[2]));
    let mut above = [zero; MAX_ORDER as usize];
    for z in 0..sz {
        if IS_Z {
            above = [zero; MAX_ORDER as usize];
        }
        let r = &r[z * sy * sx..];
        let mut plane = sink.plane(z);
        for y in 0..sy {
            let mut t = s.load(&r[y * sx..]);
            if IS_ZIGZAG {
                t = s.unzigzag(t);
            }
            for _ in 0..ox {
                t = s.running_sums(t);
            }
            for above in &mut above[..oy] {
                t = s.plus(t, *above);
                *above = t;
            }
            if IS_Z {
                let work = &mut work[y * LANES..];
                t = s.plus(t, if z == 0 { base } else { s.load(work) });
                s.store(t, work);
            } else {
                t = s.plus(t, base);
            }
            plane.put(s, y, t);
        }
    }
}

/// The inverse of [`apply`] for any block, in `r`, which has room for a row behind it.
#[inline(always)]
pub fn undo<W: Word, S: Rows<W>>(s: S, r: &mut [W], shape: [usize; 3], orders: Orders, base: W) {
    let n: usize = shape.iter().product();
    let (row, plane) = strides(shape);
    let [oz, oy, ox] = orders;
    unzigzag(s, r, n);
    for _ in 0..oz {
        sums(s, r, n, plane);
    }
    let rows = plane_rows(shape, orders) * row;
    for _ in 0..oy {
        let mut start = 0;
        while start < n {
            sums(s, &mut r[start..], rows, row);
            start += rows;
        }
    }
    for _ in 0..ox {
        neighbour_sums(s, r, n, row);
    }
    let base = s.splat(base);
    let mut at = 0;
    while at < n {
        s.store(s.plus(s.load(&r[at..]), base), &mut r[at..]);
        at += LANES;
    }
}

#[inline(always)]
fn unzigzag<W: Word, S: Rows<W>>(s: S, r: &mut [W], n: usize) {
    let mut at = 0;
    while at < n {
        s.store(s.unzigzag(s.load(&r[at..])), &mut r[at..]);
        at += LANES;
    }
}

/// Adds to the first `n` numbers, but for the first `distance`, those that far before them.
#[inline(always)]
fn sums<W: Word, S: Rows<W>>(s: S, v: &mut [W], n: usize, distance: usize) {
    if distance < LANES {
        for at in distance..n {
            v[at] = v[at].plus(v[at - distance]);
        }
        return;
    }
    let mut at = distance;
    while at < n {
        let before = s.keep(first_lanes(n - at), s.load(&v[at - distance..]));
        s.store(s.plus(s.load(&v[at..]), before), &mut v[at..]);
        at += LANES;
    }
}

/// Adds to every number of `n` all that are before it in its row.
#[inline(always)]
fn neighbour_sums<W: Word, S: Rows<W>>(s: S, v: &mut [W], n: usize, row: usize) {
    let mut start = 0;
    while start < n {
        let end = start + row;
        let mut before = s.splat(W::default());
        while start + LANES <= end {
            let this = s.plus(s.running_sums(s.load(&v[start..])), before);
            s.store(this, &mut v[start..]);
            before = s.last(this);
            start += LANES;
        }
        let mut sum = if row >= LANES && start < end { v[start - 1] } else { W::default() };
        for v in &mut v[start..end] {
            sum = sum.plus(*v);
            *v = sum;
        }
        start = end;
    }
}

// ---- choice ---------------------------------------------------------------------------------------

/// The numbers of a block less the first of them.
pub struct Numbers<'a, W> {
    /// The numbers, and room for a row behind them. The first is zero.
    pub v: &'a [W],
    pub shape: [usize; 3],
    /// The smallest and the largest number.
    pub range: [W; 2],
}

impl<W: Word> Numbers<'_, W> {
    /// Orders along axes that are there.
    #[inline(always)]
    fn is_possible(&self, [z, y, x]: Orders) -> bool {
        (z == 0 || self.shape[0] > 1) && (y == 0 || self.shape[1] > 1) && (x == 0 || self.shape[2] > 1)
    }

    /// The middle of the range where numbers are coded as they are, else the first number, which is zero.
    #[inline(always)]
    fn base(&self, orders: Orders) -> W {
        let [lowest, highest] = self.range;
        let range = highest.minus(lowest);
        let middle = lowest.plus((range >> 1).plus(range & W::from_u64(1)));
        if orders == [0; 3] { middle } else { W::default() }
    }

    #[inline(always)]
    fn estimate<S: Rows<W>>(&self, s: S, orders: Orders) -> Prediction<W> {
        let base = self.base(orders);
        Prediction { orders, base, cost: cost(s, self.v, self.shape, orders, base) }
    }
}

/// Chooses the prediction of a block. With `search`, orders of which none is that of another axis are tried too.
#[inline(always)]
pub fn choose<W: Word, S: Rows<W>>(s: S, numbers: &Numbers<W>, search: bool) -> Prediction<W> {
    const FIRST: [Orders; 6] = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]];
    let shape = numbers.shape;
    let order = |n: usize| if n > 1 { 3 } else { 0 };
    let cubic = [order(shape[0]), order(shape[1]), order(shape[2])];
    let is_rows = shape[0] * shape[1] > 1 && shape[2] <= LANES;
    let first_costs = if is_rows { first_costs(s, numbers) } else { [0; 6] };
    let mut best = Prediction::NONE;
    for i in 0..7 {
        let orders = if i < 6 { FIRST[i] } else { cubic };
        if numbers.is_possible(orders) && (i == 0 || orders != [0; 3]) {
            let base = numbers.base(orders);
            let cost = if is_rows && i < 6 { first_costs[i] } else { cost(s, numbers.v, shape, orders, base) };
            if cost < best.cost {
                best = Prediction { orders, base, cost };
            }
        }
    }
    let order = best.orders[0].max(best.orders[1]).max(best.orders[2]);
    if order > 0 {
        // All orders are that, or none.
        let [uz, uy, ux] = best.orders.map(|o| u8::from(o > 0));
        for order in order + 1..=MAX_ORDER {
            let other = numbers.estimate(s, [uz * order, uy * order, ux * order]);
            if other.cost >= best.cost {
                break;
            }
            best = other;
        }
    }
    if !search {
        return best;
    }
    loop {
        let from = best;
        for (axis, step) in [(2, 1), (1, 1), (0, 1), (2, -1), (1, -1), (0, -1)] {
            let mut orders = from.orders;
            let Some(order) = orders[axis].checked_add_signed(step).filter(|&order| order <= MAX_ORDER) else {
                continue;
            };
            orders[axis] = order;
            if numbers.is_possible(orders) {
                let other = numbers.estimate(s, orders);
                if other.cost < best.cost {
                    best = other;
                }
            }
        }
        if best == from {
            return best;
        }
    }
}

/// The first number of the sampled rows, and from one to the next.
#[inline(always)]
fn sample(n_rows: usize) -> (usize, usize) {
    if n_rows < SAMPLE_FROM { (0, 1) } else { (SAMPLED, SAMPLE_EVERY) }
}

/// Per lane, the bits that the unsigned forms of differences have not; outside of a mask these count as zeros.
#[inline(always)]
fn missing_bits<W: Word, S: Rows<W>>(s: S, mask: u32, differences: S::Row) -> S::Row {
    s.leading_zeros(s.keep(mask, s.zigzag(differences)))
}

/// The bits that so many rows have of which these are missing.
#[inline(always)]
fn present_bits<W: Word, S: Rows<W>>(s: S, n_rows: usize, missing: S::Row) -> u64 {
    (n_rows * LANES) as u64 * u64::from(W::BITS) - s.total(missing).to_u64()
}

/// [`cost`] of the orders up to 1 that are always tried, for blocks whose rows are no longer than a row of lanes.
#[inline(always)]
fn first_costs<W: Word, S: Rows<W>>(s: S, numbers: &Numbers<W>) -> [u64; 6] {
    let Numbers { v, shape: [sz, sy, sx], .. } = *numbers;
    let mask = first_lanes(sx);
    let zero = s.splat(W::default());
    let middle = s.splat(numbers.base([0; 3]));
    let mut missing = [zero; 6];
    let (first, step) = sample(sz * sy);
    let mut number = first;
    while number < sz * sy {
        let at = number * sx;
        // The row, and those before it along y, along z, and along both, or zeros.
        let this = s.load(&v[at..]);
        let above = if number > 0 { s.load(&v[at - sx..]) } else { zero };
        let is_first_row = number % sy == 0;
        let behind = if number >= sy { s.load(&v[at - sy * sx..]) } else { zero };
        let both = if number >= sy && !is_first_row { s.load(&v[at - sy * sx - sx..]) } else { zero };
        let along_y = s.minus(this, above);
        let along_z = s.minus(this, behind);
        // In a plane for itself, its first row has none above.
        let above_in_plane = if is_first_row { zero } else { s.minus(above, both) };
        let along_zy = s.minus(along_z, above_in_plane);
        let differences = [
            s.minus(this, middle),
            s.minus(this, s.predecessors(this, zero)),
            along_y,
            s.minus(along_y, s.predecessors(along_y, zero)),
            s.minus(along_z, s.predecessors(along_z, zero)),
            s.minus(along_zy, s.predecessors(along_zy, zero)),
        ];
        for i in 0..6 {
            missing[i] = s.plus(missing[i], missing_bits(s, mask, differences[i]));
        }
        number += step;
    }
    let mut costs = [0; 6];
    for i in 0..6 {
        costs[i] = present_bits(s, (number - first) / step, missing[i]);
    }
    costs
}

/// Bits of the sampled numbers after a prediction. The base is zero unless the orders are.
#[inline(always)]
fn cost<W: Word, S: Rows<W>>(s: S, v: &[W], shape: [usize; 3], orders: Orders, base: W) -> u64 {
    let [sz, sy, sx] = shape;
    let base = s.splat(base);
    let zero = s.splat(W::default());
    let (mut missing, mut n_rows) = (zero, 0);
    if sz * sy == 1 {
        let (mut run, step) = sample(sx.div_ceil(LANES));
        while run < sx.div_ceil(LANES) {
            let at = run * LANES;
            let mut this = s.minus(s.load(&v[at..]), base);
            // Of the run before, the last lanes are right, as many as are needed.
            let mut before = s.splat(W::default());
            if run > 0 {
                before = s.load(&v[at - LANES..]);
            }
            for _ in 0..orders[2] {
                this = s.minus(this, s.predecessors(this, before));
                before = s.minus(before, s.predecessors(before, s.splat(W::default())));
            }
            missing = s.plus(missing, missing_bits(s, first_lanes(sx - at), this));
            n_rows += 1;
            run += step;
        }
        return present_bits(s, n_rows, missing);
    }
    let rows = plane_rows(shape, orders);
    let (factors_z, factors_y) = (binomials(orders[0]), binomials(orders[1]));
    // Differences along x of what is before this row of lanes, if anything can be.
    let mut before = [zero; MAX_ORDER as usize];
    let is_short = sx <= LANES;
    let (mut number, step) = sample(sz * sy);
    while number < sz * sy {
        let (z, y) = (number / rows, number % rows);
        if !is_short {
            before = [zero; MAX_ORDER as usize];
        }
        let mut start = 0;
        while start < sx {
            let at = number * sx + start;
            let mut this = match orders {
                [2, 2, _] => cube::<_, _, 3>(s, v, at, [z, y], [rows * sx, sx]),
                [3, 3, _] => cube::<_, _, 4>(s, v, at, [z, y], [rows * sx, sx]),
                _ => {
                    let mut sum = s.splat(W::default());
                    for i in 0..=usize::from(orders[0]).min(z) {
                        for j in 0..=usize::from(orders[1]).min(y) {
                            let from = s.load(&v[at - (i * rows + j) * sx..]);
                            let factor = factors_z[i].wrapping_mul(factors_y[j]);
                            sum = s.plus(sum, s.times(from, W::from_u64(factor as u64)));
                        }
                    }
                    sum
                }
            };
            this = s.minus(this, base);
            if is_short {
                for _ in 0..orders[2] {
                    this = s.minus(this, s.predecessors(this, zero));
                }
            } else {
                for before in &mut before[..usize::from(orders[2])] {
                    (this, *before) = (s.minus(this, s.predecessors(this, *before)), this);
                }
            }
            missing = s.plus(missing, missing_bits(s, first_lanes(sx - start), this));
            n_rows += 1;
            start += LANES;
        }
        number += step;
    }
    present_bits(s, n_rows, missing)
}

/// The differences of order N − 1 along z and y at `at`, which has so many planes and rows before it, so far apart.
#[inline(always)]
fn cube<W: Word, S: Rows<W>, const N: usize>(
    s: S,
    v: &[W],
    at: usize,
    [z, y]: [usize; 2],
    [plane, row]: [usize; 2],
) -> S::Row {
    let zero = s.splat(W::default());
    let mut along_y = [zero; N];
    for i in 0..N {
        if i <= z {
            let mut rows = [zero; N];
            for j in 0..N {
                rows[j] = if j <= y { s.load(&v[at - i * plane - j * row..]) } else { zero };
            }
            along_y[i] = repeated_difference(s, rows);
        }
    }
    repeated_difference(s, along_y)
}

/// The difference of order N − 1 of N rows.
#[inline(always)]
fn repeated_difference<W: Word, S: Rows<W>, const N: usize>(s: S, mut rows: [S::Row; N]) -> S::Row {
    for n in (1..N).rev() {
        for i in 0..n {
            rows[i] = s.minus(rows[i], rows[i + 1]);
        }
    }
    rows[0]
}

/// Binomial coefficients with alternating signs: what an element and those before it contribute to differences.
#[inline(always)]
fn binomials(order: u8) -> [i64; MAX_ORDER as usize + 1] {
    let order = i64::from(order);
    let mut factors = [1; MAX_ORDER as usize + 1];
    for i in 1..factors.len() {
        factors[i] = -factors[i - 1] * (order - i as i64 + 1) / i as i64;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::lorenzo::rows::{Nothing, Portable};

    /// Numbers with room for a row behind them.
    fn padded<W: Word>(v: &[W]) -> Vec<W> {
        [v, &[W::default(); LANES]].concat()
    }

    struct Collected(Vec<[u32; LANES]>);

    impl Sink<u32, Portable> for Collected {
        type Plane<'p> = &'p mut Vec<[u32; LANES]>;

        fn plane(&mut self, _: usize) -> Self::Plane<'_> {
            &mut self.0
        }
    }

    impl Plane<u32, Portable> for &mut Vec<[u32; LANES]> {
        fn put(&mut self, _: Portable, _: usize, row: [u32; LANES]) {
            self.push(row);
        }
    }

    fn noise(n: usize) -> Vec<u32> {
        (0..n as u32).map(|i| (i ^ i << 7).wrapping_mul(0x9e37_79b9) >> (i % 13)).collect()
    }

    #[test]
    fn undo_is_the_inverse() {
        for shape in [
            [1, 1, 1],
            [1, 1, 100],
            [1, 7, 32],
            [3, 4, 5],
            [8, 16, 32],
            [5, 1, 3],
            [2, 3, 1],
            [4, 5, 9],
            [3, 2, 70],
        ] {
            let v = noise(shape.iter().product());
            for orders in (0..512u16).map(|i| [i >> 6, i >> 3 & 7, i & 7].map(|order| order as u8)) {
                let n = v.len();
                let mut r = padded(&v);
                apply(Portable, &mut r, shape, orders, 0, &mut Nothing);
                let mut sums = r.clone();
                undo(Portable, &mut sums, shape, orders, 0);
                assert_eq!(sums[..n], v, "{shape:?} {orders:?}");
                let mut work = vec![0; shape[1] * LANES];
                if is_in_rows(shape, work.len()) {
                    let mut out = Collected(vec![]);
                    undo_rows(Portable, &mut r, &mut work, shape, orders, 0, &mut out);
                    let rows: Vec<u32> = out.0.iter().flat_map(|row| &row[..shape[2]]).copied().collect();
                    assert_eq!(rows, v, "{shape:?} {orders:?}");
                }
            }
        }
    }

    /// The estimate without sampling is what the passes give.
    #[test]
    fn rows_are_estimated_as_they_are_coded() {
        for shape in [[1, 1, 100], [1, 7, 32], [3, 4, 5], [4, 8, 32], [2, 3, 1], [1, 1, 1050], [2, 3, 100]] {
            let v = noise(shape.iter().product());
            for orders in (0..512u16).map(|i| [i >> 6, i >> 3 & 7, i & 7].map(|order| order as u8)) {
                let mut r = padded(&v);
                let base = if orders == [0; 3] { 12345 } else { 0 };
                apply(Portable, &mut r, shape, orders, base, &mut Nothing);
                let bits: u64 = r[..v.len()].iter().map(|r| u64::from(r.bit_length())).sum();
                let is_run = shape[0] * shape[1] == 1;
                if is_run && orders[..2] != [0, 0] {
                    continue;
                }
                assert_eq!(cost(Portable, &padded(&v), shape, orders, base), bits, "{shape:?} {orders:?}");
            }
        }
    }

    /// The same costs as one by one.
    #[test]
    fn first_orders_are_estimated_together() {
        for shape in [[1, 7, 32], [3, 4, 5], [4, 8, 32], [8, 16, 32], [2, 3, 1]] {
            let v = padded(&noise(shape.iter().product()));
            let together = first_costs(Portable, &Numbers { v: &v, shape, range: [777; 2] });
            for (i, orders) in
                [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]].into_iter().enumerate()
            {
                let base = if i == 0 { 777 } else { 0 };
                assert_eq!(together[i], cost(Portable, &v, shape, orders, base), "{shape:?} {orders:?}");
            }
        }
    }

    #[test]
    fn polynomials_vanish() {
        let choose = |v: Vec<u64>, shape, search| {
            let range = [*v.iter().min().unwrap(), *v.iter().max().unwrap()];
            choose(Portable, &Numbers { v: &padded(&v), shape, range }, search)
        };
        let best = choose((0..4096u64).map(|i| i * i * i).collect(), [1, 1, 4096], false);
        assert_eq!((best.orders, best.cost), ([0, 0, 4], 0));
        let v = (0..4096).map(|i| (i % 32) * (i % 32) + (i / 32) * 7).collect();
        let best = choose(v, [8, 16, 32], true);
        assert!(best.orders[2] == 2 || best.orders[2] == 3, "{best:?}");
    }
}
