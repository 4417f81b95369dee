//! Magnitudes without rounding: a bound is compared with the exact error, not with its f64
//! approximation.

use std::cmp::Ordering;

/// A nonnegative number, as the sum of the nearest f64 and a rest. Infinite if it exceeds the range
/// of f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exact {
    /// The nearest f64.
    pub nearest: f64,
    /// The exact number minus `nearest`; either sign.
    pub rest: f64,
}

impl Exact {
    /// |a − b|
    #[inline(always)]
    pub fn difference(a: f64, b: f64) -> Self {
        // Fast two-sum: exact if the first one has the larger magnitude.
        let (large, small) = if a.abs() < b.abs() { (b, a) } else { (a, b) };
        let nearest = large - small;
        let rest = if nearest.is_finite() { (large - nearest) - small } else { 0.0 };
        if nearest < 0.0 { Self { nearest: -nearest, rest: -rest } } else { Self { nearest: nearest.abs(), rest } }
    }

    /// An integer, exactly.
    pub fn of_integer(number: u64) -> Self {
        let nearest = number as f64;
        Self { nearest, rest: (i128::from(number) - nearest as i128) as f64 }
    }

    /// Orders two numbers by their exact values.
    #[inline(always)]
    pub fn order(self, other: Self) -> Ordering {
        // Rounding is monotone, so the rests decide if the nearest values are equal.
        let order = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        order(self.nearest, other.nearest).then(order(self.rest, other.rest))
    }

    /// True if it is more than `bound`.
    pub fn exceeds(self, bound: f64) -> bool {
        self.nearest > bound || self.nearest == bound && self.rest > 0.0
    }

    /// True if this error is more than `value` · `magnitude`. Both factors are nonnegative, and `value`
    /// is below 1.
    pub fn exceeds_product(self, value: f64, magnitude: f64) -> bool {
        // Two factors of 2^500 move small products away from the subnormal numbers, where products
        // and rests are rounded.
        const UP: f64 = f64::from_bits((1023 + 500) << 52);
        let ([value, magnitude], error) = match value * magnitude < 1.0 / UP {
            false => ([value, magnitude], self),
            true => {
                let factors =
                    if magnitude > 1.0 { [value * UP * UP, magnitude] } else { [value * UP, magnitude * UP] };
                (factors, Self { nearest: self.nearest * UP * UP, rest: self.rest * UP * UP })
            }
        };
        let nearest = value * magnitude;
        let product = Self { nearest, rest: value.mul_add(magnitude, -nearest) };
        error.order(product) == Ordering::Greater
    }

    /// `value` times this, both rounded down, which is how the codecs derive a bound from a range.
    pub fn times_down(self, value: f64) -> f64 {
        let factor = if self.rest < 0.0 { self.nearest.next_down() } else { self.nearest }.min(f64::MAX);
        let product = (factor * value).min(f64::MAX);
        // `rest` is exact except near the subnormal numbers.
        let rest = factor.mul_add(value, -product);
        let is_exact = rest >= 0.0 && product >= f64::MIN_POSITIVE / f64::EPSILON;
        if is_exact || product == 0.0 { product } else { product.next_down() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Exact = Exact { nearest: 0.0, rest: 0.0 };

    #[test]
    fn differences_lose_nothing() {
        assert_eq!(Exact::difference(1e20, 1.0), Exact { nearest: 1e20, rest: -1.0 });
        assert_eq!(Exact::difference(-1.0, 1e20), Exact { nearest: 1e20, rest: 1.0 });
        assert_eq!(Exact::difference(0.1, 0.1), ZERO);
        assert_eq!(Exact::difference(-f64::MAX, f64::MAX), Exact { nearest: f64::INFINITY, rest: 0.0 });
        assert_eq!(Exact::of_integer(u64::MAX), Exact { nearest: 2f64.powi(64), rest: -1.0 });
    }

    #[test]
    fn the_rest_decides() {
        let bound = 1e20;
        assert!(!Exact::difference(bound, 1.0).exceeds(bound));
        assert!(!Exact::difference(bound, 0.0).exceeds(bound));
        assert!(Exact::difference(bound, -1.0).exceeds(bound));
        let third = 1.0 / 3.0;
        // 3 · (1/3) is below 1 by 2^-54, and the product rounded to f64 is 1.
        assert!(Exact::difference(1.0, 0.0).exceeds_product(third, 3.0));
        assert!(!Exact::difference(1.0, 2f64.powi(-54)).exceeds_product(third, 3.0));
    }

    #[test]
    fn small_products_are_exact_too() {
        let least = f64::from_bits(1);
        assert!(Exact::difference(least, 0.0).exceeds_product(0.5, least));
        assert!(Exact::difference(least, 0.0).exceeds_product(0.9, least));
        assert!(!Exact::difference(least, 0.0).exceeds_product(0.5, 2.0 * least));
        assert!(Exact::difference(1.0, 0.0).exceeds_product(1e-300, 1e-300));
        assert!(!ZERO.exceeds_product(1e-300, 1e-300));
        assert!(!ZERO.exceeds_product(0.5, 0.0));
    }

    #[test]
    fn bounds_of_ranges_are_rounded_down() {
        assert_eq!(Exact::difference(3.0, 0.0).times_down(1.0 / 3.0), 1f64.next_down());
        assert_eq!(Exact::difference(1e20, 1.0).times_down(1.0), 1e20f64.next_down());
        assert_eq!(ZERO.times_down(0.1), 0.0);
        assert_eq!(Exact::difference(8.0, 0.0).times_down(0.125), 1.0);
    }
}
