//! Arrays on which a writer has choices to make. Each is a mixture of a signal and disturbances,
//! converted to elements in one of several ways; a seed determines all of it.

pub mod decimals;
pub mod gaps;
pub mod jumps;
pub mod ripples;

use gridz::DType;

use crate::common::generate::Xorshift;

/// Generates the bytes of an array from its type, its extents and a seed.
pub type Make = fn(DType, &[u64], u64) -> Vec<u8>;

/// A source of random numbers.
pub struct Draw(Xorshift);

impl Draw {
    fn new(seed: u64) -> Self {
        let mut draw = Self(Xorshift::new(seed));
        (0..8).for_each(|_| _ = draw.below(2));
        draw
    }

    fn below(&mut self, n: u64) -> u64 {
        // The generator's first numbers are similar for similar seeds.
        (self.0.next() >> 11) % n
    }

    /// A random number of up to `bits` bits.
    fn noise(&mut self, bits: u64) -> i64 {
        if bits == 0 { 0 } else { (self.0.next() >> (64 - bits)) as i64 }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The elements' bytes.
pub fn bytes(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed);
    let size = dtype.size().unwrap() as usize;
    let n = extents.iter().product::<u64>() as usize;
    let mut heights = signal(&mut draw, extents, n, 8 * size as u64);
    disturb(&mut draw, &mut heights, 8 * size as u64);
    let mut words = dress(&mut draw, dtype, &heights);
    if draw.chance(4) {
        sprinkle(&mut draw, dtype, &mut words);
    }
    low_bytes(dtype, &words)
}

/// The bytes of elements with these heights.
fn elements(draw: &mut Draw, dtype: DType, heights: &[i64]) -> Vec<u8> {
    low_bytes(dtype, &dress(draw, dtype, heights))
}

fn coordinates(i: u64, extents: &[u64]) -> Vec<i64> {
    let distance = |k: usize| extents[k + 1..].iter().product::<u64>();
    (0..extents.len()).map(|k| (i / distance(k) % extents[k]) as i64).collect()
}

fn low_bytes(dtype: DType, words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()[..dtype.size().unwrap() as usize].to_vec()).collect()
}

/// A random signal of integers.
fn signal(draw: &mut Draw, extents: &[u64], n: usize, bits: u64) -> Vec<i64> {
    match draw.below(10) {
        // Polynomials along each axis, and products of them.
        0 | 1 => {
            let degrees: Vec<u64> = extents.iter().map(|_| draw.below(9)).collect();
            let factors: Vec<i64> = extents.iter().map(|_| 1 + draw.noise(4)).collect();
            let is_product = draw.chance(2);
            let (offset, noise) = (draw.below(30) as i64, draw.below(4));
            let height = |i: usize| {
                let (mut rest, mut height) = (i as u64, i64::from(is_product));
                for (k, &extent) in extents.iter().enumerate().rev() {
                    let x = (rest % extent) as i64 - offset;
                    let power = (0..degrees[k]).fold(factors[k], |power, _| power.wrapping_mul(x));
                    height = if is_product { height.wrapping_mul(power) } else { height.wrapping_add(power) };
                    rest /= extent;
                }
                height
            };
            (0..n).map(|i| height(i).wrapping_add(draw.noise(noise))).collect()
        }
        // Random walks, whose steps are all alike or change slowly.
        2 | 3 => {
            let (step, jerk) = (draw.below(bits.min(24)), draw.below(3));
            let (mut value, mut speed) = (draw.noise(12), 0i64);
            let walk = |_| {
                speed += draw.noise(jerk) - draw.noise(jerk);
                value += draw.noise(step) - draw.noise(step) + if jerk > 0 { speed / 16 } else { 0 };
                value
            };
            (0..n).map(walk).collect()
        }
        // A level for each row, plane, or both, so that only some axes are smooth.
        4 => {
            let axis = draw.below(extents.len() as u64) as usize;
            let distance: u64 = extents[axis + 1..].iter().product();
            let levels: Vec<i64> = (0..extents[axis]).map(|_| draw.noise(16)).collect();
            let noise = draw.below(8);
            (0..n).map(|i| levels[(i as u64 / distance % extents[axis]) as usize] + draw.noise(noise)).collect()
        }
        // Few values: in no order, at equal distances, or with noise in their low bits.
        5 | 6 => {
            let most = if draw.chance(2) { 40 } else { 3000 };
            let n_values = 1 + draw.below(most);
            let (value, low) = (draw.below(bits) + 1, if draw.chance(2) { draw.below(14) } else { 0 });
            let distance = if draw.chance(3) { Some(1 + draw.noise(10)) } else { None };
            let make = |i| match distance {
                Some(distance) => (i * distance) << low,
                None => draw.noise(value) << low,
            };
            let values: Vec<i64> = (0..n_values as i64).map(make).collect();
            (0..n).map(|_| values[draw.below(n_values) as usize].wrapping_add(draw.noise(low))).collect()
        }
        // Noise of a few lengths, some of them rare.
        7 => {
            let lengths: Vec<(u64, u64)> =
                (0..2 + draw.below(6)).map(|_| (draw.below(bits), draw.below(12))).collect();
            let height = |_| {
                let rare = lengths.iter().find(|(_, halvings)| draw.noise(*halvings) == 0);
                let (length, _) = rare.unwrap_or(&lengths[0]);
                draw.noise(*length) - draw.noise(*length)
            };
            (0..n).map(height).collect()
        }
        8 => vec![0; n],
        // White noise.
        _ => {
            let bits = draw.below(bits) + 1;
            (0..n).map(|_| draw.noise(bits)).collect()
        }
    }
}

/// Adds disturbances: constant stretches, spikes of two sizes, an offset from some index on, zeros
/// in the low bits.
fn disturb(draw: &mut Draw, heights: &mut [i64], bits: u64) {
    if draw.chance(4) {
        let (longest, seldom) = (1 + draw.below(1500), 1 + draw.below(40));
        let mut left = 0;
        for i in 1..heights.len() {
            if left == 0 && draw.chance(seldom) {
                left = draw.below(longest);
            }
            if left > 0 {
                heights[i] = heights[i - 1];
                left -= 1;
            }
        }
    }
    for _ in 0..draw.below(6).saturating_sub(2) {
        let (seldom, spike) = (3 + draw.noise(9) as u64, 1 + draw.below(bits));
        for height in heights.iter_mut() {
            if draw.chance(seldom) {
                *height = height.wrapping_add(draw.noise(spike));
            }
        }
    }
    if draw.chance(5) {
        let (start, noise) = (draw.below(heights.len() as u64) as usize, draw.below(bits));
        heights[start..].iter_mut().for_each(|height| *height = height.wrapping_add(draw.noise(noise)));
    }
    if draw.chance(4) {
        let t = draw.below(bits / 2);
        heights.iter_mut().for_each(|height| *height <<= t);
    }
    if draw.chance(3) {
        let offset = draw.noise(bits.min(40)) / 2;
        heights.iter_mut().for_each(|height| *height = height.wrapping_sub(offset));
    }
}

/// Converts heights to element bits: integers, floats with these values in some unit, or floats
/// with these bits.
fn dress(draw: &mut Draw, dtype: DType, heights: &[i64]) -> Vec<u64> {
    let (way, exponent) = (draw.below(4), draw.below(40) as i32);
    let offset = if draw.chance(2) { 1i64 << draw.below(20) } else { 0 };
    let value = |height: i64| {
        let height = height.wrapping_add(offset) as f64;
        match way {
            0 => height / 10f64.powi(exponent / 5),
            1 => height * 2f64.powi(-exponent),
            _ => height * 2f64.powi(-30 * exponent),
        }
    };
    let word = |&height: &i64| match dtype {
        DType::F32 if way < 3 => u64::from((value(height) as f32).to_bits()),
        DType::F64 if way < 3 => value(height).to_bits(),
        _ => height as u64,
    };
    heights.iter().map(word).collect()
}

/// Inserts rare infinities, NaN, signed zeros, subnormals and other extremes.
fn sprinkle(draw: &mut Draw, dtype: DType, words: &mut [u64]) {
    let bits = 8 * dtype.size().unwrap();
    let fraction = match dtype {
        DType::F64 => 52,
        DType::F32 => 23,
        DType::F16 => 10,
        DType::Bf16 => 7,
        _ => 3,
    };
    let infinity = (1u64 << (bits - 1)) - (1 << fraction);
    let (seldom, kind) = (1 + draw.noise(12) as u64, draw.below(9));
    for word in words {
        if draw.chance(seldom) {
            let special =
                [0, infinity, infinity | 1, infinity | 1 << (fraction - 1), infinity - 1, 1, 1 << (fraction - 2)];
            let sign = if draw.chance(2) { 1 << (bits - 1) } else { 0 };
            *word = match kind {
                0..7 => special[kind as usize] | sign,
                7 => 1 << (bits - 1),
                _ => special[draw.below(7) as usize] | sign,
            };
        }
    }
}
