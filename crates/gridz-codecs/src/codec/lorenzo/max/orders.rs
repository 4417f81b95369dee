//! A writer's choice of the orders of differences, from samples of the numbers.

use crate::stage::predict::{MAX_ORDER, Orders};
use crate::stage::word::Word;

/// Largest order along z: each order needs a plane of numbers in memory.
const MOST_ALONG_Z: u8 = 3;
/// Number of samples to choose orders.
const ORDER_SAMPLES: usize = 512;

/// The maximum orders.
pub fn most_orders(shape: [usize; 3]) -> Orders {
    let most = [MOST_ALONG_Z, MAX_ORDER, MAX_ORDER];
    [0, 1, 2].map(|k| if shape[k] > 1 { most[k] } else { 0 })
}

/// Searches for orders of differences with few remaining bits, using samples.
#[inline(always)]
pub fn orders_of(numbers: &[i64], shape: [usize; 3]) -> Orders {
    let most = most_orders(shape);
    let is_possible = |orders: &Orders| (0..3).all(|k| orders[k] <= most[k]);
    let mut best = ([0; 3], cost_of(numbers, shape, [0; 3], u64::MAX));
    let take = |orders: Orders, best: &mut (Orders, u64)| {
        if is_possible(&orders) {
            let cost = cost_of(numbers, shape, orders, best.1);
            if cost < best.1 {
                *best = (orders, cost);
                return true;
            }
        }
        false
    };
    for orders in [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 1], [0, 3, 3], [3, 3, 3]] {
        take(orders, &mut best);
    }
    loop {
        let orders = best.0;
        let mut is_better = false;
        for k in [2, 1, 0] {
            let (mut more, mut less) = (orders, orders);
            more[k] += 1;
            is_better |= take(more, &mut best);
            if orders[k] > 0 {
                less[k] -= 1;
                is_better |= take(less, &mut best);
            }
        }
        if !is_better {
            return best.0;
        }
    }
}

/// Bits that remain of some samples after differences of these orders, if below `most`.
#[inline(always)]
fn cost_of(numbers: &[i64], [_, sy, sx]: [usize; 3], orders: Orders, most: u64) -> u64 {
    let [oz, oy, ox] = orders.map(usize::from);
    let n = numbers.len();
    let step = n.div_ceil(ORDER_SAMPLES) | 1;
    let mut cost = 0;
    for i in (0..n).step_by(step) {
        if cost >= most {
            break;
        }
        let (x, y, z) = (i % sx, i / sx % sy, i / sx / sy);
        let mut sum = 0i64;
        let mut along_z = 1i64;
        for a in 0..=oz.min(z) {
            let mut along_y = along_z;
            for b in 0..=oy.min(y) {
                let mut along_x = along_y;
                for c in 0..=ox.min(x) {
                    sum = sum.wrapping_add(along_x.wrapping_mul(numbers[i - (a * sy + b) * sx - c]));
                    along_x = -along_x * (ox - c) as i64 / (c + 1) as i64;
                }
                along_y = -along_y * (oy - b) as i64 / (b + 1) as i64;
            }
            along_z = -along_z * (oz - a) as i64 / (a + 1) as i64;
        }
        cost += u64::from(sum.unsigned_abs().bit_length());
    }
    cost
}
