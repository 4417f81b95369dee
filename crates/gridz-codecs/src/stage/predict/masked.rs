//! Differences of blocks with masked numbers.
//!
//! A masked number equals its prediction, so its difference is zero and is not stored. The
//! prediction depends on masked numbers before it, so rows are done one after the other.

use crate::stage::bitmap::Bitmap;
use crate::stage::predict::{Orders, plane_rows, strides};
use crate::stage::rows::{LANES, Prefetcher, first_lanes, outlined};

outlined! {
    /// Writes the unsigned differences of the unmasked numbers minus `base` contiguously to `r`;
    /// returns how many there are. Writes all numbers to `predicted`, masked ones as their predictions.
    /// No order is above 1. All slices have room for one more row after the block. Prefetches lines of
    /// `ahead` meanwhile.
    #[expect(clippy::too_many_arguments)]
    pub fn apply_masked<'a, W, P: Prefetcher>(
        s,
        v: &'a [W],
        masked: &'a Bitmap,
        shape: [usize; 3],
        orders: Orders,
        base: W,
        predicted: &'a mut [W],
        r: &'a mut [W],
        ahead: &'a mut P,
    ) -> usize {
        let (row, plane) = strides(shape);
        let n_rows = plane_rows(shape, orders);
        let [oz, oy, ox] = [orders[0] > 0, orders[1] > 0, orders[2] > 0];
        let (zero, base) = (s.splat(W::default()), s.splat(base));
        let mut n = 0;
        let mut number = 0;
        while number < shape[0] * shape[1] {
            let (z, y) = (number / n_rows, number % n_rows);
            let mut before = zero;
            let mut start = 0;
            while start < row {
                ahead.prefetch_next(s);
                let at = number * row + start;
                let lanes = first_lanes(row - start);
                let bitmap = masked.window(at) & lanes;
                let mut above = base;
                if oy && y > 0 {
                    above = s.add(above, s.load(&predicted[at - row..]));
                }
                if oz && z > 0 {
                    above = s.add(above, s.load(&predicted[at - plane..]));
                    if oy && y > 0 {
                        above = s.sub(above, s.load(&predicted[at - plane - row..]));
                    }
                }
                let u = s.sub(s.load(&v[at..]), above);
                // A masked number has no difference from the one before.
                let (u, differences) = if ox {
                    let u = s.fill_forward(bitmap, u, before);
                    (u, s.sub(u, s.shift_in(u, before)))
                } else {
                    (s.select_or_zero(!bitmap, u), u)
                };
                before = u;
                // The next row overwrites the lanes after this row.
                s.store(s.add(u, above), &mut predicted[at..]);
                let coded = lanes & !bitmap;
                s.compress(coded, s.zigzag(differences), &mut r[n..]);
                n += coded.count_ones() as usize;
                start += LANES;
            }
            number += 1;
        }
        n
    }
}
