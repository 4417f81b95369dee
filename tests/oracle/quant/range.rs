//! The bound of mode 2.

use gridz::DType;

use super::codes::Float;

/// The bound for an array given as words of parts. The parts of an element are consecutive, as in
/// its fill value.
pub fn bound(dtype: DType, value: f64, words: &[i64], fills: Option<&[i64]>) -> f64 {
    let is_fill = |i: usize| fills.is_some_and(|fills| fills[i % fills.len()] == words[i]);
    let words: Vec<i64> = (0..words.len()).filter(|&i| !is_fill(i)).map(|i| words[i]).collect();
    let range = match Float::of(dtype) {
        Some(float) => of_floats(words.iter().map(|&word| float.value(word))),
        None => of_integers(dtype, &words),
    };
    let Some(range) = range.filter(|&range| range > 0.0) else { return 0.0 };
    let product = value * range;
    match product {
        f64::INFINITY => f64::MAX,
        _ if product < 2f64.powi(-970) => product.next_down().max(0.0),
        // The rounding error of the product, by its sign: the product is too large.
        _ if value.mul_add(range, -product) < 0.0 => product.next_down(),
        _ => product,
    }
}

fn of_floats(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let finite = values.filter(|value| value.is_finite());
    let (least, largest) = (finite.clone().reduce(f64::min)?, finite.reduce(f64::max)?);
    let range = largest - least;
    if range.is_infinite() {
        return Some(f64::MAX);
    }
    // The rounding error of the range, exactly.
    let back = range - largest;
    let added = (largest - (range - back)) + (-least - back);
    Some(if added < 0.0 { range.next_down() } else { range })
}

fn of_integers(dtype: DType, words: &[i64]) -> Option<f64> {
    let number = |&word: &i64| match dtype {
        DType::U64 => i128::from(word as u64),
        DType::U32 => i128::from(word as u32),
        _ => i128::from(word),
    };
    let range = words.iter().map(number).max()? - words.iter().map(number).min()?;
    let nearest = range as f64;
    Some(if nearest as i128 > range { nearest.next_down() } else { nearest })
}
