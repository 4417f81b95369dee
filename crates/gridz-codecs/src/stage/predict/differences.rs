//! Differences, which make numbers small.

use crate::stage::predict::starts::Starts;
use crate::stage::predict::{MAX_ORDER, Orders, SHORT, Start, plane_rows, strides, work_words};
use crate::stage::rows::{LANES, Prefetcher, Simd, first_lanes, outlined};
use crate::stage::word::Word;

outlined! {
    /// Computes the unsigned differences of the numbers `v` minus `base`, in `v` or in `spare`, and
    /// returns that slice. Both have room for one more row after the block. The base is zero unless all
    /// orders are zero. `work` is used if it is long enough. Prefetches lines of `ahead` meanwhile.
    #[expect(clippy::too_many_arguments)]
    pub fn apply<'a, 'w, W, P: Prefetcher>(
        s,
        v: &'a mut [W],
        spare: &'a mut [W],
        work: &'w mut [W],
        shape: [usize; 3],
        orders: (Orders, Start),
        base: W,
        ahead: &'w mut P,
    ) -> &'a mut [W] {
        let (orders, start) = orders;
        let n: usize = shape.iter().product();
        let [oz, oy, ox] = orders;
        let is_in_rows = (SHORT..=LANES).contains(&shape[2]);
        let is_low = orders.iter().all(|&order| order <= 1);
        if is_in_rows && !is_low && work_words(shape, orders) <= work.len() {
            return if shape[2] == LANES {
                rows_of_differences(s, v, None, work, shape, (orders, start), ahead);
                v
            } else {
                rows_of_differences(s, v, Some(spare), work, shape, (orders, start), ahead);
                spare
            };
        }
        if is_in_rows && is_low {
            if shape[2] == LANES {
                row_differences::<_, _, _, true>(s, v, spare, shape, orders, base, ahead);
                return v;
            }
            row_differences::<_, _, _, false>(s, v, spare, shape, orders, base, ahead);
            return spare;
        }
        let base = s.splat(base);
        let mut at = 0;
        while at < n {
            s.store(s.sub(s.load(&v[at..]), base), &mut v[at..]);
            at += LANES;
        }
        let (row, plane) = strides(shape);
        for k in 0..usize::from(oz) {
            differences(s, v, (start.of_pass(k) + 1) * plane, n, plane);
        }
        let rows = plane_rows(shape, orders) * row;
        for k in 0..usize::from(oy) {
            let mut at = 0;
            while at < n {
                differences(s, v, at + (start.of_pass(k) + 1) * row, at + rows, row);
                at += rows;
            }
        }
        for k in 0..usize::from(ox) {
            neighbour_differences(s, v, n, row, start.of_pass(k));
        }
        let mut at = 0;
        while at < n {
            s.store(s.zigzag(s.load(&v[at..])), &mut v[at..]);
            at += LANES;
        }
        v
    }
}

/// [`apply`] for any orders but 0, in one pass. Whole rows are replaced. Shorter rows go to
/// `spare`, because they overlap when they are loaded and stored.
#[inline(always)]
fn rows_of_differences<W: Word, S: Simd<W>>(
    s: S,
    v: &mut [W],
    mut spare: Option<&mut [W]>,
    work: &mut [W],
    shape: [usize; 3],
    (orders, start): (Orders, Start),
    ahead: &mut impl Prefetcher,
) {
    let zero = s.splat(W::default());
    let [oz, oy, ox] = orders.map(usize::from);
    let n_rows = plane_rows(shape, orders);
    let mut above = [zero; MAX_ORDER as usize];
    let mut number = 0;
    while number < shape[0] * shape[1] {
        ahead.prefetch_next(s);
        let (z, y) = (number / n_rows, number % n_rows);
        if y == 0 {
            above = [zero; MAX_ORDER as usize];
        }
        let at = number * shape[2];
        let mut t = s.load(&v[at..]);
        for k in 0..start.passes(oz, z) {
            // The same value in the plane before.
            let work = &mut work[(k * n_rows + y) * LANES..];
            let before = if z == start.of_pass(k) { zero } else { s.load(work) };
            s.store(t, work);
            t = s.sub(t, before);
        }
        for above in &mut above[..start.passes(oy, y)] {
            (t, *above) = (s.sub(t, *above), t);
        }
        for k in 0..ox {
            t = lane_differences(s, t, zero, start.of_pass(k));
        }
        let to = match &mut spare {
            Some(spare) => &mut **spare,
            None => &mut *v,
        };
        s.store(s.zigzag(t), &mut to[at..]);
        number += 1;
    }
}

/// Subtracts from each lane the one before it, and `before` from the first one; the first `kept`
/// lanes after that one are kept.
#[inline(always)]
pub(super) fn lane_differences<W: Word, S: Simd<W>>(s: S, row: S::Row, before: S::Row, kept: usize) -> S::Row {
    let predecessors = s.shift_in(row, before);
    if kept == 0 {
        return s.sub(row, predecessors);
    }
    s.sub(row, s.select_or_zero(!first_lanes(kept + 1), predecessors))
}

/// [`apply`] for orders up to 1 and rows no longer than a row of lanes, in one pass. Whole rows are
/// replaced. Shorter rows go to `spare`, because they overlap when they are loaded and stored.
#[inline(always)]
fn row_differences<W: Word, S: Simd<W>, A: Prefetcher, const IS_WHOLE: bool>(
    s: S,
    v: &mut [W],
    spare: &mut [W],
    shape: [usize; 3],
    orders: Orders,
    base: W,
    ahead: &mut A,
) {
    match orders {
        [0, 0, 0] => one_pass::<_, _, _, IS_WHOLE, false, false, false>(s, v, spare, shape, base, ahead),
        [0, 0, _] => one_pass::<_, _, _, IS_WHOLE, false, false, true>(s, v, spare, shape, base, ahead),
        [0, _, 0] => one_pass::<_, _, _, IS_WHOLE, false, true, false>(s, v, spare, shape, base, ahead),
        [0, _, _] => one_pass::<_, _, _, IS_WHOLE, false, true, true>(s, v, spare, shape, base, ahead),
        [_, 0, 0] => one_pass::<_, _, _, IS_WHOLE, true, false, false>(s, v, spare, shape, base, ahead),
        [_, 0, _] => one_pass::<_, _, _, IS_WHOLE, true, false, true>(s, v, spare, shape, base, ahead),
        [_, _, 0] => one_pass::<_, _, _, IS_WHOLE, true, true, false>(s, v, spare, shape, base, ahead),
        _ => one_pass::<_, _, _, IS_WHOLE, true, true, true>(s, v, spare, shape, base, ahead),
    }
}

/// [`row_differences`] for orders of 1 on the axes whose constant is set, else 0.
#[inline(always)]
fn one_pass<
    W: Word,
    S: Simd<W>,
    A: Prefetcher,
    const IS_WHOLE: bool,
    const Z: bool,
    const Y: bool,
    const X: bool,
>(
    s: S,
    v: &mut [W],
    spare: &mut [W],
    shape: [usize; 3],
    base: W,
    ahead: &mut A,
) {
    let zero = s.splat(W::default());
    let base = s.splat(base);
    let (row, plane) = strides(shape);
    let n_rows = plane_rows(shape, [Z.into(), 0, 0]);
    let n: usize = shape.iter().product();
    let mut n_done = 0;
    while n_done < n {
        // Rows are replaced from the last plane on, so that no row is replaced while it is still
        // needed.
        let start = if IS_WHOLE { n - n_done - n_rows * row } else { n_done };
        let mut above = zero;
        for y in 0..n_rows {
            ahead.prefetch_next(s);
            let at = start + y * row;
            let mut t = s.load(&v[at..]);
            if Z && start > 0 {
                t = s.sub(t, s.load(&v[at - plane..]));
            }
            if !Z && !Y && !X {
                t = s.sub(t, base);
            }
            if Y {
                (t, above) = (s.sub(t, above), t);
            }
            if X {
                t = s.sub(t, s.shift_in(t, zero));
            }
            t = s.zigzag(t);
            if IS_WHOLE {
                s.store(t, &mut v[at..]);
            } else {
                // The next row overwrites the lanes after this row.
                s.store(t, &mut spare[at..]);
            }
        }
        n_done += n_rows * row;
    }
}

/// Subtracts from each number from `start` to `end` the one `distance` before it.
#[inline(always)]
fn differences<W: Word, S: Simd<W>>(s: S, v: &mut [W], start: usize, end: usize, distance: usize) {
    let mut at = end;
    while at > start {
        // From the end on, so that no number is replaced while it is still needed.
        let n = (at - start).min(LANES);
        at -= n;
        let before = s.select_or_zero(first_lanes(n), s.load(&v[at - distance..]));
        s.store(s.sub(s.load(&v[at..]), before), &mut v[at..]);
    }
}

/// Subtracts from every number of `n` the one before it in its row, except from the first ones up to
/// number `first`.
#[inline(always)]
fn neighbour_differences<W: Word, S: Simd<W>>(s: S, v: &mut [W], n: usize, row: usize, first: usize) {
    let mut starts = Starts::new(row);
    let mut before = s.splat(W::default());
    let mut at = 0;
    while at < n {
        let this = s.load(&v[at..]);
        let predecessors = s.select_or_zero(!starts.next_with(first + 1).1, s.shift_in(this, before));
        s.store(s.sub(this, predecessors), &mut v[at..]);
        before = this;
        at += LANES;
    }
}
