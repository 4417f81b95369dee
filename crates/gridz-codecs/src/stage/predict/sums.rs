//! Sums, which turn differences back into numbers.

use crate::stage::predict::starts::Starts;
use crate::stage::predict::{MAX_ORDER, Orders, SHORT, Start, plane_rows, strides, work_words};
use crate::stage::rows::{LANES, RowSink, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// Receives the rows of a block as soon as their numbers are known.
pub trait Sink<W: Word> {
    /// A plane of the block.
    type Plane<'p>: Plane<W>
    where
        Self: 'p;

    /// True if taking a row takes longer than summing it up. Then there are few loops for special
    /// orders, because each of them contains the sink.
    const IS_SLOW: bool = false;
    /// True if it stores rows in the array, which rows that are small do not.
    const IS_DIRECT: bool = false;

    /// Plane z; planes are requested in order.
    fn plane(&mut self, z: usize) -> Self::Plane<'_>;
}

/// Receives the rows of a plane.
pub trait Plane<W: Word> {
    /// Takes row y; rows arrive in order. Only as many lanes count as the block's rows have
    /// numbers.
    fn put<S: Simd<W>>(&mut self, s: S, y: usize, row: S::Row);
}

/// Whether [`undo_rows`] can be used. For orders along z it needs planes of whole rows as `work`.
#[inline(always)]
pub fn is_in_rows(shape: [usize; 3], orders: Orders, work: usize) -> bool {
    (SHORT..=LANES).contains(&shape[2]) && work_words(shape, orders) <= work
}

outlined! {
    /// The inverse of [`apply`](super::apply), in one pass, for blocks that [`is_in_rows`].
    pub fn undo_rows<'a, W, K: Sink<W>>(
        s,
        r: &'a [W],
        work: &'a mut [W],
        shape: [usize; 3],
        orders: (Orders, Start),
        base: W,
        sink: &'a mut K,
    ) {
        match orders.0 {
            _ if S::IS_SMALL && K::IS_DIRECT => unreachable!("rows are completed in memory"),
            [0, ..] if S::IS_SMALL || K::IS_SLOW => {
                sum_rows::<_, _, _, 0, ANY, ANY>(s, r, work, shape, orders, base, sink)
            }
            _ if S::IS_SMALL || K::IS_SLOW => {
                sum_rows::<_, _, _, ANY, ANY, ANY>(s, r, work, shape, orders, base, sink)
            }
            [0, 0, 0] => sum_rows::<_, _, _, 0, 0, 0>(s, r, work, shape, orders, base, sink),
            [0, 0, 1] => sum_rows::<_, _, _, 0, 0, 1>(s, r, work, shape, orders, base, sink),
            [0, 1, 0] => sum_rows::<_, _, _, 0, 1, 0>(s, r, work, shape, orders, base, sink),
            [0, 1, 1] => sum_rows::<_, _, _, 0, 1, 1>(s, r, work, shape, orders, base, sink),
            [1, 0, 1] => sum_rows::<_, _, _, 1, 0, 1>(s, r, work, shape, orders, base, sink),
            [1, 1, 1] => sum_rows::<_, _, _, 1, 1, 1>(s, r, work, shape, orders, base, sink),
            [0, ..] => sum_rows::<_, _, _, 0, ANY, ANY>(s, r, work, shape, orders, base, sink),
            _ => sum_rows::<_, _, _, ANY, ANY, ANY>(s, r, work, shape, orders, base, sink),
        }
    }
}

/// The sums along x, y and z. `Z`, `Y` and `X` are the orders along them, or [`ANY`].
#[inline(always)]
fn sum_rows<W: Word, S: Simd<W>, K: Sink<W>, const Z: usize, const Y: usize, const X: usize>(
    s: S,
    r: &[W],
    work: &mut [W],
    shape: [usize; 3],
    (orders, start): (Orders, Start),
    base: W,
    sink: &mut K,
) {
    let zero = s.splat(W::default());
    let base = s.splat(base);
    let [sz, sy, sx] = shape;
    let order = |fixed: usize, order: u8| if fixed == ANY { usize::from(order) } else { fixed };
    let (oz, oy, ox) = (order(Z, orders[0]), order(Y, orders[1]), order(X, orders[2]));
    let mut above = [zero; MAX_ORDER as usize];
    for z in 0..sz {
        if Z > 0 {
            above = [zero; MAX_ORDER as usize];
        }
        let r = &r[z * sy * sx..];
        let mut plane = sink.plane(z);
        for y in 0..sy {
            let mut t = s.unzigzag(s.load(&r[y * sx..]));
            for k in (0..ox).rev() {
                t = lane_sums(s, t, start.of_pass(k));
            }
            // Without differences along z, all rows are one plane.
            let row = if Z == 0 { z * sy + y } else { y };
            for above in above[..start.passes(oy, row)].iter_mut().rev() {
                t = s.add(t, *above);
                *above = t;
            }
            if Z == 0 {
                t = s.add(t, base);
            }
            for k in (0..start.passes(oz, z)).rev() {
                // The sums of the plane before; pass 0 starts with the base.
                let work = &mut work[(k * sy + y) * LANES..];
                let first = if k == 0 { base } else { zero };
                t = s.add(t, if z == start.of_pass(k) { first } else { s.load(work) });
                s.store(t, work);
            }
            plane.put(s, y, t);
        }
    }
}

/// Adds to each lane those before it, from lane `first` on; lanes before it are kept.
#[inline(always)]
fn lane_sums<W: Word, S: Simd<W>>(s: S, row: S::Row, first: usize) -> S::Row {
    if first == 0 {
        return s.prefix_sum(row);
    }
    let kept = first_lanes(first);
    s.select(kept, row, s.prefix_sum(s.select_or_zero(!kept, row)))
}

/// Stands for an order that is only known from a block's header.
pub const ANY: usize = MAX_ORDER as usize;

/// The inverse of [`apply`](super::apply) for a block of one row: sums up rows of lanes and passes
/// them on. `ORDER` is the order along x or [`ANY`].
pub struct LineSums<'a, R, T, const ORDER: usize> {
    order: usize,
    /// How the next row of lanes starts.
    start: Start,
    /// The last sum of every order in all lanes.
    before: [R; ORDER],
    base: R,
    to: &'a mut T,
}

impl<'a, R: Copy, T, const ORDER: usize> LineSums<'a, R, T, ORDER> {
    /// Starts a row. Orders along the other axes change nothing, because nothing is before the row
    /// there.
    #[inline(always)]
    pub fn new<W: Word, S: Simd<W, Row = R>>(
        s: S,
        ([.., order], start): (Orders, Start),
        base: W,
        to: &'a mut T,
    ) -> Self {
        let order = if ORDER == ANY { usize::from(order) } else { ORDER };
        Self { order, start, before: [s.splat(W::default()); ORDER], base: s.splat(base), to }
    }
}

impl<W: Word, S: Simd<W>, T: RowSink<W, S>, const ORDER: usize> RowSink<W, S> for LineSums<'_, S::Row, T, ORDER> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        let order = if ORDER == ANY { self.order } else { ORDER };
        let mut t = s.unzigzag(row);
        for (k, before) in self.before[..order].iter_mut().enumerate().rev() {
            t = s.add(lane_sums(s, t, self.start.of_pass(k)), *before);
            *before = s.last(t);
        }
        // All passes affect the lanes of further rows.
        self.start = Start::Zeros;
        self.to.take(s, s.add(t, self.base));
    }
}

outlined! {
    /// The inverse of [`apply`](super::apply) for any block, in place in `r`, which has room for one
    /// more row.
    pub fn undo<'a, W>(s, r: &'a mut [W], shape: [usize; 3], orders: (Orders, Start), base: W) {
        let (orders, start) = orders;
        let n: usize = shape.iter().product();
        let (row, plane) = strides(shape);
        let [oz, oy, ox] = orders;
        unzigzag(s, r, n);
        // Along z, then along y in each plane, or in all planes together. One call, because it is inlined.
        for (order, distance, length) in [(oz, plane, n), (oy, row, plane_rows(shape, orders) * row)] {
            for k in (0..usize::from(order)).rev() {
                let first = length.min(start.of_pass(k) * distance);
                let mut at = 0;
                while at < n {
                    sums(s, &mut r[at + first..], length - first, distance);
                    at += length;
                }
            }
        }
        for k in (0..usize::from(ox)).rev() {
            neighbour_sums(s, r, n, row, start.of_pass(k));
        }
        let base = s.splat(base);
        let mut at = 0;
        while at < n {
            s.store(s.add(s.load(&r[at..]), base), &mut r[at..]);
            at += LANES;
        }
    }
}

#[inline(always)]
fn unzigzag<W: Word, S: Simd<W>>(s: S, r: &mut [W], n: usize) {
    let mut at = 0;
    while at < n {
        s.store(s.unzigzag(s.load(&r[at..])), &mut r[at..]);
        at += LANES;
    }
}

/// Adds to each of the first `n` numbers the one `distance` before it; the first `distance` numbers
/// have none.
#[inline(always)]
fn sums<W: Word, S: Simd<W>>(s: S, v: &mut [W], n: usize, distance: usize) {
    match distance {
        1 => short_sums::<_, 1>(&mut v[..n]),
        2 => short_sums::<_, 2>(&mut v[..n]),
        3 => short_sums::<_, 3>(&mut v[..n]),
        4 => short_sums::<_, 4>(&mut v[..n]),
        5 => short_sums::<_, 5>(&mut v[..n]),
        6 => short_sums::<_, 6>(&mut v[..n]),
        7 => short_sums::<_, 7>(&mut v[..n]),
        ..LANES => {
            for at in distance..n {
                v[at] = v[at].wrapping_add(v[at - distance]);
            }
        }
        _ => {
            let mut at = distance;
            while at < n {
                let before = s.select_or_zero(first_lanes(n - at), s.load(&v[at - distance..]));
                s.store(s.add(s.load(&v[at..]), before), &mut v[at..]);
                at += LANES;
            }
        }
    }
}

/// [`sums`] of all numbers, whose count is a multiple of `N`. Keeps the sums in registers, because
/// reading them back from memory would take longer than the additions.
#[inline(always)]
fn short_sums<W: Word, const N: usize>(v: &mut [W]) {
    let mut sums = [W::default(); N];
    for row in v.as_chunks_mut::<N>().0 {
        for (sum, v) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(*v);
            *v = *sum;
        }
    }
}

/// Adds to each of `n` numbers all that are before it in its row, from number `first` of the row on.
#[inline(always)]
fn neighbour_sums<W: Word, S: Simd<W>>(s: S, v: &mut [W], n: usize, row: usize, first: usize) {
    let mut starts = Starts::new(row);
    let zero = s.splat(W::default());
    // The sum of all numbers before, and of those before this row.
    let (mut all, mut before) = (zero, zero);
    let mut at = 0;
    while at < n {
        let row = s.load(&v[at..]);
        let (is_start, is_kept) = starts.next_with(first);
        let this = s.select_or_zero(!is_kept, row);
        let sums = s.add(s.prefix_sum(this), all);
        before = s.fill_forward(!is_start, s.sub(sums, this), before);
        s.store(s.select(is_kept, row, s.sub(sums, before)), &mut v[at..]);
        all = s.last(sums);
        at += LANES;
    }
}
