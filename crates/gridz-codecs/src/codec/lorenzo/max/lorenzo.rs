//! Integer differences of arbitrary orders along the axes, one element at a time.

use crate::stage::predict::Orders;

/// The differences of previous elements that later ones need.
pub struct Lorenzo<'a> {
    orders: [usize; 3],
    sizes: [usize; 2],
    /// Differences of the previous plane, by order; of the previous row; and of the previous
    /// element.
    planes: &'a mut [i64],
    rows: &'a mut [i64],
    here: [i64; 7],
    y: usize,
}

impl<'a> Lorenzo<'a> {
    /// The lengths that `planes` and `rows` need.
    pub fn needs(orders: Orders, [_, sy, sx]: [usize; 3]) -> [usize; 2] {
        [usize::from(orders[0]) * sy * sx, usize::from(orders[1]) * sx]
    }

    /// The initial state for a block of this shape. The buffers must have at least the lengths that
    /// [`Self::needs`] returns.
    pub fn new(orders: Orders, [_, sy, sx]: [usize; 3], planes: &'a mut [i64], rows: &'a mut [i64]) -> Self {
        let [n_planes, n_rows] = Self::needs(orders, [1, sy, sx]);
        let (planes, rows) = (&mut planes[..n_planes], &mut rows[..n_rows]);
        planes.fill(0);
        Self { orders: orders.map(usize::from), sizes: [sy, sx], planes, rows, here: [0; 7], y: 0 }
    }

    /// Starts a row.
    pub fn start_row(&mut self, y: usize) {
        self.here = [0; 7];
        self.y = y;
        if y == 0 {
            self.rows.fill(0);
        }
    }

    /// The prediction: the number whose difference is 0.
    #[inline(always)]
    pub fn prediction(&self, x: usize) -> i64 {
        let [sy, sx] = self.sizes;
        let mut sum = 0i64;
        for k in 0..self.orders[0] {
            sum = sum.wrapping_add(self.planes[(k * sy + self.y) * sx + x]);
        }
        for k in 0..self.orders[1] {
            sum = sum.wrapping_add(self.rows[k * sx + x]);
        }
        // No slice: compilers would generate vector code for it, which does not pay for so few
        // orders.
        for (k, number) in self.here.iter().enumerate() {
            if k == self.orders[2] {
                break;
            }
            sum = sum.wrapping_add(*number);
        }
        sum
    }

    /// Learns the number at `x`.
    #[inline(always)]
    pub fn learn(&mut self, x: usize, number: i64) {
        let [sy, sx] = self.sizes;
        let mut left = number;
        for k in 0..self.orders[0] {
            left = replace(&mut self.planes[(k * sy + self.y) * sx + x], left);
        }
        for k in 0..self.orders[1] {
            left = replace(&mut self.rows[k * sx + x], left);
        }
        for (k, kept) in self.here.iter_mut().enumerate() {
            if k == self.orders[2] {
                break;
            }
            left = replace(kept, left);
        }
    }
}

/// Replaces a stored number, and returns the difference.
#[inline(always)]
fn replace(kept: &mut i64, number: i64) -> i64 {
    let difference = number.wrapping_sub(*kept);
    *kept = number;
    difference
}
