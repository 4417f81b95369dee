//! Differences of blocks of which some numbers are masked.
//!
//! A masked number is what its prediction says, so its difference is zero and need not be kept. What the prediction says
//! depends on other masked numbers before it: rows are done one after the other.

use crate::stage::marks::Marks;
use crate::stage::predict::{Orders, plane_rows, strides};
use crate::stage::word::Word;

/// Writes the unsigned differences of those numbers less `base` that are not masked behind each other to `r`, and returns
/// how many there are. Masked numbers become their predictions. No order is above 1.
#[inline(always)]
pub fn apply_masked<W: Word>(
    v: &mut [W],
    masked: &Marks,
    shape: [usize; 3],
    orders: Orders,
    base: W,
    r: &mut [W],
) -> usize {
    let (row, plane) = strides(shape);
    let n_rows = plane_rows(shape, orders);
    let [oz, oy, ox] = orders.map(|order| order > 0);
    let mut n = 0;
    for number in 0..shape[0] * shape[1] {
        let (z, y) = (number / n_rows, number % n_rows);
        let at = number * row;
        let mut before = W::default();
        for i in at..at + row {
            let mut above = W::default();
            if oy && y > 0 {
                above = v[i - row];
            }
            if oz && z > 0 {
                above = above.plus(v[i - plane]);
                if oy && y > 0 {
                    above = above.minus(v[i - plane - row]);
                }
            }
            if masked.has(i) {
                let u = if ox { before } else { W::default() };
                v[i] = u.plus(above).plus(base);
                continue;
            }
            let u = v[i].minus(base).minus(above);
            let d = if ox { u.minus(before) } else { u };
            before = u;
            r[n] = d.plus(d) ^ d.shift_signed(W::BITS - 1);
            n += 1;
        }
    }
    n
}
