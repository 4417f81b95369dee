//! Floats converted from decimal numbers of a few digits.

use gridz::DType;

use super::Draw;

/// The bytes of the elements, for f32 and f64.
pub fn bytes(dtype: DType, extents: &[u64], seed: u64) -> Vec<u8> {
    let mut draw = Draw::new(seed ^ 1 << 40);
    let n = extents.iter().product::<u64>() as usize;
    let most = if draw.chance(6) { 22 } else { 7 };
    let digits = 1 + draw.below(most) as usize;
    let mut decimals = integers(&mut draw, dtype, n);
    if draw.chance(6) {
        // Fewer significant digits than the exponent suggests.
        decimals.iter_mut().for_each(|decimal| *decimal *= 10);
    }
    let mut texts: Vec<String> = decimals.iter().map(|decimal| format!("{decimal}e-{digits}")).collect();
    for _ in 0..draw.below(4).saturating_sub(1) {
        except(&mut draw, &mut texts, digits);
    }
    match dtype {
        DType::F32 => texts.iter().flat_map(|text| text.parse::<f32>().unwrap().to_le_bytes()).collect(),
        _ => texts.iter().flat_map(|text| text.parse::<f64>().unwrap().to_le_bytes()).collect(),
    }
}

/// The decimals as integers, without the decimal point; most are within the limits of DECIMAL.
fn integers(draw: &mut Draw, dtype: DType, n: usize) -> Vec<i64> {
    let most = if dtype == DType::F32 { 26 } else { 54 };
    let bits = if draw.chance(3) { most - draw.below(6) } else { 2 + draw.below(most / 2) };
    let mut walk = if draw.chance(2) { 0 } else { draw.noise(bits) };
    let (step, is_negative, is_noise) = (draw.below(bits), draw.chance(3), draw.chance(4));
    let mut next = |_| {
        walk += draw.noise(step) - draw.noise(step);
        let decimal = if is_noise { draw.noise(bits) - draw.noise(bits) } else { walk };
        if is_negative { -decimal } else { decimal }
    };
    (0..n).map(&mut next).collect()
}

/// Replaces one element or several by a value that is not a multiple of the unit, or has a smaller
/// unit.
fn except(draw: &mut Draw, texts: &mut [String], digits: usize) {
    let text = match draw.below(9) {
        0 => "-0".into(),
        1 => "nan".into(),
        2 => "inf".into(),
        3 => "1e30".into(),
        4 => "1e-30".into(),
        5 => format!("{}e-{}", draw.below(1000), digits + 2),
        _ => format!("{}e-{}", draw.below(100_000), digits + 1),
    };
    let n = texts.len() as u64;
    for _ in 0..if draw.chance(3) { draw.below(n) } else { 1 } {
        texts[draw.below(n) as usize] = text.clone();
    }
}
