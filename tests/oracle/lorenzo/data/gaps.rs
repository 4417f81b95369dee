//! Arrays with missing elements, which all have the same fill word.

use gridz::DType;

use super::{Draw, coordinates, decimals, elements};

/// The elements' bytes.
pub fn bytes(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed ^ 1 << 42);
    let mut raw = field(&mut draw, dtype, extents, seed);
    open(&mut draw, dtype, extents, &mut raw);
    raw
}

/// Overwrites some elements with the fill word.
pub fn open(draw: &mut Draw, dtype: DType, extents: &[u64], raw: &mut [u8]) {
    let size = dtype.size().unwrap() as usize;
    let fills = fills(dtype);
    let fill = fills[draw.below(fills.len() as u64) as usize];
    let is_missing = missing(draw, extents, raw.len() / size);
    for (element, _) in raw.chunks_mut(size).zip(is_missing).filter(|(_, is_missing)| *is_missing) {
        element.copy_from_slice(&fill.to_le_bytes()[..size]);
    }
}

/// Fill words: zero, and values in common use.
fn fills(dtype: DType) -> Vec<u64> {
    match dtype {
        DType::F64 => vec![0, 1e20f64.to_bits(), f64::NAN.to_bits(), (-9999f64).to_bits(), (-0f64).to_bits()],
        DType::F32 => {
            [0.0, 1e20f32, f32::NAN, -9999.0, -0.0].iter().map(|fill| u64::from(fill.to_bits())).collect()
        }
        // Infinity, NaN, −65504; 1e20 and NaN.
        DType::F16 => vec![0, 0x7c00, 0x7e00, 0xfbff],
        DType::Bf16 => vec![0, 0x60ad, 0x7fc0],
        _ => vec![0, 1 << (8 * dtype.size().unwrap() - 1), u64::MAX, -9999i64 as u64],
    }
}

/// The other elements: mixtures, decimals, smooth data, or a constant.
fn field(draw: &mut Draw, dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let n = extents.iter().product::<u64>() as usize;
    match draw.below(8) {
        0 => vec![draw.below(256) as u8; n * dtype.size().unwrap() as usize],
        1..4 if matches!(dtype, DType::F32 | DType::F64) => decimals::bytes(dtype, extents, seed),
        1..6 => {
            // Smooth along all axes.
            let slope = draw.noise(6);
            let heights = (0..n as u64).map(|i| coordinates(i, extents).iter().map(|x| x * slope).sum());
            elements(draw, dtype, &heights.collect::<Vec<i64>>())
        }
        _ => super::bytes(dtype, extents, seed),
    }
}

/// Selects the missing elements.
fn missing(draw: &mut Draw, extents: &[u64], n: usize) -> Vec<bool> {
    let all = n as u64;
    match draw.below(7) {
        // A prefix, a suffix.
        0 => {
            let end = draw.below(all);
            (0..all).map(|i| i < end).collect()
        }
        1 => {
            let start = draw.below(all);
            (0..all).map(|i| i >= start).collect()
        }
        // Scattered elements, many or few.
        2 => {
            let (seldom, is_inverse) = (1 + draw.below(6), draw.chance(2));
            (0..n).map(|_| draw.chance(seldom) != is_inverse).collect()
        }
        // Runs.
        3 => {
            let (longest, mut is_missing, mut left) = (1 + draw.below(400), false, 0);
            let mut next = |_| {
                if left == 0 {
                    (is_missing, left) = (!is_missing, 1 + draw.below(longest));
                }
                left -= 1;
                is_missing
            };
            (0..n).map(&mut next).collect()
        }
        // The inside or the outside of a random ellipsoid, similar to coastlines.
        4 | 5 => {
            let is_inverse = draw.chance(2);
            let centre: Vec<i64> = extents.iter().map(|&n| draw.below(n) as i64).collect();
            let radius: Vec<f64> = extents.iter().map(|&n| 1.0 + draw.below(n) as f64).collect();
            let is_inside = |i| {
                let x = coordinates(i, extents);
                let part = |k: usize| ((x[k] - centre[k]) as f64 / radius[k]).powi(2);
                (0..x.len()).map(part).sum::<f64>() < 1.0
            };
            (0..all).map(|i| is_inside(i) != is_inverse).collect()
        }
        // Whole columns: the same elements in each row and each plane.
        _ => {
            let (width, seldom) = (*extents.last().unwrap(), 1 + draw.below(4));
            let columns: Vec<bool> = (0..width).map(|_| draw.chance(seldom)).collect();
            (0..all).map(|i| columns[(i % width) as usize]).collect()
        }
    }
}
