//! Integer differences of any orders along the axes, one element at a time.

use crate::stage::predict::Orders;

/// The differences of the elements before, as far as the next ones need them.
pub struct Lorenzo<'a> {
    orders: [usize; 3],
    sizes: [usize; 2],
    /// Of the plane before, order after order; of the row before; and of the element before.
    planes: &'a mut [i64],
    rows: &'a mut [i64],
    here: [i64; 7],
    y: usize,
}

impl<'a> Lorenzo<'a> {
    /// Numbers of planes and of rows that are to be kept.
    pub fn needs(orders: Orders, [_, sy, sx]: [usize; 3]) -> [usize; 2] {
        [usize::from(orders[0]) * sy * sx, usize::from(orders[1]) * sx]
    }

    /// For a block of this shape; the memory has at least what it needs.
    pub fn new(orders: Orders, [_, sy, sx]: [usize; 3], planes: &'a mut [i64], rows: &'a mut [i64]) -> Self {
        let [n_planes, n_rows] = Self::needs(orders, [1, sy, sx]);
        let (planes, rows) = (&mut planes[..n_planes], &mut rows[..n_rows]);
        planes.fill(0);
        Self { orders: orders.map(usize::from), sizes: [sy, sx], planes, rows, here: [0; 7], y: 0 }
    }

    /// A row follows.
    pub fn start_row(&mut self, y: usize) {
        self.here = [0; 7];
        self.y = y;
        if y == 0 {
            self.rows.fill(0);
        }
    }

    /// The number whose difference is 0.
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
        // So few that vectors do not pay, which a slice would become.
        for (k, number) in self.here.iter().enumerate() {
            if k == self.orders[2] {
                break;
            }
            sum = sum.wrapping_add(*number);
        }
        sum
    }

    /// The number at `x` is known.
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

/// Keeps a number instead of the one before; the difference.
#[inline(always)]
fn replace(kept: &mut i64, number: i64) -> i64 {
    let difference = number.wrapping_sub(*kept);
    *kept = number;
    difference
}
