//! Integer logarithms, the same on every machine.

/// Logarithm of 2: logarithms are in sixteenths of a bit.
pub const LOG_OF_2: u64 = 16;

/// Logarithm of a number above 0, rounded down, with linear interpolation between powers of two.
pub fn log(number: u64) -> u64 {
    let whole = number.ilog2();
    let below = number << (63 - whole) << 1 >> 60;
    LOG_OF_2 * u64::from(whole) + below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_rounded_down() {
        for number in (1..5000).chain([u64::from(u32::MAX), u64::MAX]) {
            let exact = LOG_OF_2 as f64 * (number as f64).log2();
            // The interpolation is below the logarithm, but not by much.
            assert!((exact - 2.5..=exact).contains(&(log(number) as f64)), "{number}");
        }
        assert_eq!([1, 2, 3, 1 << 20].map(log), [0, 16, 24, 320]);
    }
}
