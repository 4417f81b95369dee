//! Floats that change sign and range over many powers of two.

use std::f64::consts::PI;

use gridz::DType;

use super::{Draw, coordinates, gaps, low_bytes, sprinkle};

/// The bytes of the elements; other mixtures for types that are not f32 or f64.
pub fn bytes(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return super::bytes(dtype, extents, seed);
    }
    let mut draw = Draw::new(seed ^ 1 << 43);
    let n = extents.iter().product::<u64>();
    let periods: Vec<f64> = extents.iter().map(|_| 4.0 + draw.below(200) as f64).collect();
    // The decay for each element along an axis, in binades: 0, or random.
    let decays: Vec<f64> = extents.iter().map(|_| (draw.below(3) * draw.below(60)) as f64 / 100.0).collect();
    let (first, range) = if dtype == DType::F32 { (120, 260) } else { (1015, 2080) };
    let largest = (first - if draw.chance(2) { first } else { draw.below(range) as i64 }) as f64;
    let is_positive = draw.chance(6);
    let noise = if draw.chance(3) { 0.0 } else { (-(draw.below(60) as f64)).exp2() };
    // Clears low bits.
    let rounds = if draw.chance(4) { draw.below(40) } else { 0 };
    let height = |i: u64, noise: f64| {
        let x = coordinates(i, extents);
        let wave = |k: usize| (2.0 * PI * (x[k] as f64 + 0.3) / periods[k]).sin();
        let decay: f64 = (0..x.len()).map(|k| x[k] as f64 * decays[k]).sum();
        let height = ((0..x.len()).map(wave).product::<f64>() + noise) * (largest - decay % 400.0).exp2();
        if is_positive { height.abs() } else { height }
    };
    let mut words: Vec<u64> = (0..n)
        .map(|i| {
            let height = height(i, noise * (draw.below(1 << 20) as f64 / (1u64 << 20) as f64 - 0.5));
            match dtype {
                DType::F32 => u64::from((height as f32).to_bits()) >> (rounds / 2) << (rounds / 2),
                _ => height.to_bits() >> rounds << rounds,
            }
        })
        .collect();
    if draw.chance(3) {
        sprinkle(&mut draw, dtype, &mut words);
    }
    let mut raw = low_bytes(dtype, &words);
    if draw.chance(3) {
        gaps::open(&mut draw, dtype, extents, &mut raw);
    }
    raw
}
