//! Differences, by which numbers become small.

use crate::stage::predict::{Orders, SHORT, plane_rows, strides};
use crate::stage::rows::{Ahead, LANES, Rows, first_lanes};
use crate::stage::word::Word;

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
