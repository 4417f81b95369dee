//! Integers whose differences are mostly 0.

use gridz::DType;

use super::{Draw, elements};

/// The elements' bytes.
pub fn bytes(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed ^ 1 << 41);
    let n = extents.iter().product::<u64>() as usize;
    let heights = match draw.below(3) {
        0 => mesh(&mut draw, *extents.last().unwrap() as usize, n),
        _ => lines(&mut draw, n),
    };
    elements(&mut draw, dtype, &heights)
}

/// A line with constant steps, rare changes of the step, and stretches in which every step differs.
fn lines(draw: &mut Draw, n: usize) -> Vec<i64> {
    let bits = 8 + draw.below(30);
    let (seldom, longest) = (1 + draw.below(300), 1 + draw.below(1500));
    let (mut step, mut height, mut left) = (if draw.chance(2) { 0 } else { draw.noise(8) }, draw.noise(bits), 0);
    let mut next = |_| {
        height += step;
        if left == 0 && draw.chance(20 * longest) {
            left = draw.below(longest);
        }
        if left > 0 {
            left -= 1;
            height += draw.noise(bits) - draw.noise(bits);
        } else if draw.chance(seldom) {
            height += draw.noise(bits) - draw.noise(bits);
            step += if draw.chance(4) { draw.noise(3) } else { 0 };
        }
        height
    };
    (0..n).map(&mut next).collect()
}

/// The corners of mesh cells; most cells follow the previous one.
fn mesh(draw: &mut Draw, n_corners: usize, n: usize) -> Vec<i64> {
    let (width, seldom) = (10 + draw.below(1000) as i64, 1 + draw.below(200));
    let mut cell = draw.noise(20);
    let corner = |k: usize| (k as i64 & 1) + width * (k as i64 >> 1 & 1) + width * width * (k as i64 >> 2);
    let mut next = |i: usize| {
        if i.is_multiple_of(n_corners) {
            cell += if draw.chance(seldom) { draw.noise(9) } else { 1 };
        }
        cell + corner(i % n_corners)
    };
    (0..n).map(&mut next).collect()
}
