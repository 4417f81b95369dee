//! Means and sums of squares, of single blocks and combined.

/// Independent partial sums, so that the additions do not form one dependency chain.
const LANES: usize = 8;

/// Moments of two lists of numbers, the originals and the decoded ones. They hold the count, the
/// means, the sums of squares and products of deviations from the means, and the sum of squared
/// errors.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    numbers: f64,
    means: [f64; 2],
    squares: [f64; 2],
    product: f64,
    errors: f64,
}

/// Powers of two that multiply numbers before they are squared.
#[derive(Debug, Clone, Copy)]
pub struct Scales {
    /// For numbers.
    pub numbers: f64,
    /// For errors.
    pub errors: f64,
}

impl Scales {
    /// For numbers whose squares and sums f64 can represent.
    pub const NONE: Self = Self { numbers: 1.0, errors: 1.0 };

    /// For numbers and errors up to these magnitudes.
    pub fn of(numbers: f64, errors: f64) -> Self {
        Self { numbers: scale_of(numbers), errors: scale_of(errors) }
    }
}

/// The power of two that scales `magnitude` close to 1, within the range of normal numbers.
pub fn scale_of(magnitude: f64) -> f64 {
    let exponent = (magnitude.to_bits() >> 52).clamp(1, 2045);
    f64::from_bits((2046 - exponent) << 52)
}

impl Moments {
    /// Moments of lists of the same length; `errors` are the magnitudes of their errors.
    pub fn of([original, decoded]: [&[f64]; 2], errors: &[f64], scales: Scales) -> Self {
        let numbers = original.len() as f64;
        let means = [original, decoded].map(|list| sum(list, list, |a, _| a * scales.numbers) / numbers);
        let [from_original, from_decoded] =
            [0, 1].map(|which| move |number: f64| number * scales.numbers - means[which]);
        Self {
            numbers,
            means,
            squares: [
                sum(original, original, |a, _| from_original(a) * from_original(a)),
                sum(decoded, decoded, |b, _| from_decoded(b) * from_decoded(b)),
            ],
            product: sum(original, decoded, |a, b| from_original(a) * from_decoded(b)),
            errors: sum(errors, errors, |e, _| (e * scales.errors) * (e * scales.errors)),
        }
    }

    /// Combines the moments of two pairs of lists into those of the concatenated lists.
    pub fn and(self, next: Self) -> Self {
        if self.numbers == 0.0 || next.numbers == 0.0 {
            return if self.numbers == 0.0 { next } else { self };
        }
        let numbers = self.numbers + next.numbers;
        let apart = [0, 1].map(|i| next.means[i] - self.means[i]);
        let weight = self.numbers * (next.numbers / numbers);
        Self {
            numbers,
            means: [0, 1].map(|i| self.means[i] + apart[i] * (next.numbers / numbers)),
            squares: [0, 1].map(|i| self.squares[i] + next.squares[i] + apart[i] * apart[i] * weight),
            product: self.product + next.product + apart[0] * apart[1] * weight,
            errors: self.errors + next.errors,
        }
    }

    /// True if no sum has overflowed or underflowed. `has_range` and `has_errors` say whether the
    /// range and the largest error are nonzero.
    pub fn are_sound(&self, has_range: bool, has_errors: bool) -> bool {
        let is_sound = |sum: f64, is_some: bool| sum.is_finite() && (sum > 1e-250 || !is_some);
        let has_means = self.means.iter().all(|mean| mean.is_finite());
        has_means
            && is_sound(self.errors, has_errors)
            && is_sound(self.squares[0], has_range)
            && is_sound(self.squares[1], self.squares[1] != 0.0)
            && self.product.is_finite()
    }

    /// Root of the sum of the squares of the errors.
    pub fn l2_error(&self, scales: Scales) -> f64 {
        self.errors.sqrt() / scales.errors
    }

    /// Root of the mean of the squares of the errors. NaN if there are no numbers.
    pub fn root_mean_square_error(&self, scales: Scales) -> f64 {
        (self.errors / self.numbers).sqrt() / scales.errors
    }

    /// Pearson's correlation. NaN if all numbers of a list are the same.
    pub fn correlation(&self) -> f64 {
        let spread = self.squares[0].sqrt() * self.squares[1].sqrt();
        if spread > 0.0 { (self.product / spread).clamp(-1.0, 1.0) } else { f64::NAN }
    }
}

/// The sum of `of` over all pairs.
#[inline(always)]
fn sum(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((rows_a, rest_a), (rows_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (row_a, row_b) in rows_a.iter().zip(rows_b) {
        for i in 0..LANES {
            lanes[i] += of(row_a[i], row_b[i]);
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(&a, &b)| of(a, b)).sum();
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_together_are_the_whole() {
        let original: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 37)).collect();
        let decoded: Vec<f64> = original.iter().enumerate().map(|(i, x)| x + (i % 3) as f64 * 0.25).collect();
        let errors: Vec<f64> = original.iter().zip(&decoded).map(|(x, y)| (x - y).abs()).collect();
        let of = |range: std::ops::Range<usize>| {
            Moments::of([&original[range.clone()], &decoded[range.clone()]], &errors[range], Scales::NONE)
        };
        let (whole, parts) = (of(0..1000), of(0..10).and(of(10..701)).and(of(701..701)).and(of(701..1000)));
        assert!((whole.correlation() - parts.correlation()).abs() < 1e-12);
        assert_eq!(whole.l2_error(Scales::NONE), parts.l2_error(Scales::NONE));
        // The same by the simplest sums, after subtracting the billion.
        let mean = |list: &[f64]| list.iter().map(|x| x - 1e9).sum::<f64>() / 1000.0;
        let (mx, my) = (mean(&original), mean(&decoded));
        let pairs = || original.iter().zip(&decoded).map(|(x, y)| (x - 1e9 - mx, y - 1e9 - my));
        let product: f64 = pairs().map(|(x, y)| x * y).sum();
        let squares: [f64; 2] = [pairs().map(|(x, _)| x * x).sum(), pairs().map(|(_, y)| y * y).sum()];
        assert!((whole.correlation() - product / (squares[0] * squares[1]).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn scales_bring_all_magnitudes_close_to_one() {
        for magnitude in [1.0, 3.5, 1e300, 1e-300, f64::MAX, f64::MIN_POSITIVE] {
            assert!((0.25..=4.0).contains(&(magnitude * scale_of(magnitude))), "{magnitude}");
        }
        assert!(f64::from_bits(1) * scale_of(f64::from_bits(1)) > 1e-16);
        assert!(scale_of(0.0).is_finite());
    }
}
