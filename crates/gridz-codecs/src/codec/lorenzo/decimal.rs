//! DECIMAL: floats that are decimal numbers with few digits, as multiples of a power of ten.
//!
//! Such a number is the float nearest to k / 10^e. Division restores it exactly. Both types use the
//! same precision, and every operation is one of IEEE 754 rounded to nearest, so all machines
//! agree. A few samples of a block are tested first; most other blocks fail at the first one.

use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::samples::Samples;
use crate::stage::word::Word;

/// Largest e: the last power of ten that a float64 represents exactly.
pub const MAX_DIGITS: u32 = 22;

/// Powers of ten.
pub const POWERS: [f64; MAX_DIGITS as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
    1e20, 1e21, 1e22,
];

/// Powers of ten as integers.
const POWERS_OF_INTEGERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut e = 1;
    while e < powers.len() {
        powers[e] = 10 * powers[e - 1];
        e += 1;
    }
    powers
};

/// Limit of samples as multiples: with more digits, any float would be a decimal number.
fn limit<W: Word>() -> f64 {
    if W::BITS == 32 { (1u64 << 23) as f64 } else { (1u64 << 51) as f64 }
}

/// Exclusive limit of all multiples.
pub fn most_multiple<W: Word>() -> f64 {
    4.0 * limit::<W>()
}

outlined! {
    /// Writes floats as multiples of 10^-e to `v` and returns e, or `None` if that is impossible. The
    /// floats are the first `n` of `words`, each minus `base`, and `samples` are samples of these. Both
    /// buffers are padded by a row.
    pub fn to_decimal<'a, W>(
        s,
        words: &'a [W],
        n: usize,
        samples: &'a Samples<W>,
        base: W,
        v: &'a mut [W],
    ) -> Option<u32> {
        let base = s.splat(base);
        let (least, most) = digits_of_samples(s, s.add(s.load(&samples.0), base))?;
        // Small elements can have more digits than the samples, which are often larger. All e from
        // `least` on are tried up to `most`, but above `least` + 1 only if `most` itself suits.
        let (mut e, mut suits_most) = (least, false);
        while e <= MAX_DIGITS {
            let mut at = 0;
            while at < n {
                let floats = s.add(s.load(&words[at..]), base);
                let lanes = first_lanes(n - at);
                // Blocks that cannot be mapped soon show it.
                let Some(multiples) = s.to_multiples(lanes, floats, POWERS[e as usize], most_multiple::<W>()) else {
                    break;
                };
                s.store(multiples, &mut v[at..]);
                at += LANES;
            }
            if at >= n && (suits_most || e <= least + 2) {
                return Some(e);
            }
            if at >= n {
                (suits_most, e) = (true, least + 2);
            } else if e == least || suits_most {
                e += 1;
            } else if e == least + 1 && most > e {
                e = most;
            } else {
                return None;
            }
        }
        None
    }
}

/// The smallest e, from 1 on, for which all samples are multiples, and the largest e for which the
/// multiples of the samples are below the limit.
#[inline(always)]
fn digits_of_samples<W: Word, S: Simd<W>>(s: S, samples: S::Row) -> Option<(u32, u32)> {
    // Without signs, floats have the order of their words, and NaN follows the last one.
    let largest = s.highest(s.and(samples, s.splat(W::low_mask(W::BITS - 1)))).to_float();
    if !(0.0 < largest && largest < limit::<W>() && largest * POWERS[1] <= limit::<W>()) {
        return None;
    }
    let most = POWERS.partition_point(|power| largest * power <= limit::<W>()) as u32 - 1;
    let multiples = s.to_multiples(u32::MAX, samples, POWERS[most as usize], most_multiple::<W>())?;
    let mut words = [W::default(); LANES];
    s.store(multiples, &mut words);
    // The number of trailing zeros that all multiples have.
    let mut n_zeros = most.min(POWERS_OF_INTEGERS.len() as u32 - 1);
    for word in words {
        let multiple = word.to_i64();
        while multiple % POWERS_OF_INTEGERS[n_zeros as usize] != 0 {
            n_zeros -= 1;
        }
    }
    (n_zeros < most).then(|| (most - n_zeros, most))
}

outlined! {
    /// Converts the first `n` of `v`, multiples of 10^-`digits`, to floats. `v` is padded by a row.
    pub fn from_decimal<'a, W>(s, v: &'a mut [W], n: usize, digits: u32) {
        let mut at = 0;
        while at < n {
            s.store(s.quotients(s.load(&v[at..]), POWERS[digits as usize]), &mut v[at..]);
            at += LANES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::predict::tests::padded;
    use crate::stage::rows::PORTABLE;

    fn to_decimal<W: Word>(words: &[W], n: usize, v: &mut [W]) -> Option<u32> {
        super::to_decimal(PORTABLE, words, n, &Samples::new(&words[..n]), W::default(), v)
    }

    fn decimal(values: &[f64]) -> Option<(u32, Vec<i64>)> {
        let words: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
        let n = words.len();
        let mut v = padded(&words);
        let digits = to_decimal(&padded(&words), n, &mut v)?;
        let multiples = v[..n].iter().map(|&v| v as i64).collect();
        from_decimal(PORTABLE, &mut v, n, digits);
        assert_eq!(v[..n], words, "{values:?}");
        Some((digits, multiples))
    }

    #[test]
    fn decimal_numbers_are_multiples() {
        assert_eq!(decimal(&[0.1, -0.2, 1234.5]), Some((1, vec![1, -2, 12345])));
        assert_eq!(decimal(&[1.25, 3.0, 0.0]), Some((2, vec![125, 300, 0])));
        assert_eq!(decimal(&[1e-9, 7e-9]), Some((9, vec![1, 7])));
        // Element 1 is no sample.
        let with = |value: f64| {
            let mut values = [0.5; 64];
            values[1] = value;
            decimal(&values).map(|(digits, _)| digits)
        };
        assert_eq!([0.25, 0.125, 0.0625, 1e-14, 1e-15].map(with), [Some(2), Some(3), Some(4), Some(14), Some(15)]);
        assert_eq!([1e-16, 1e-17, -0.0, f64::NAN].map(with), [None; 4]);
    }

    #[test]
    fn others_are_none() {
        for values in [
            &[std::f64::consts::PI][..],
            &[0.1, -0.0],
            &[0.1, f64::NAN],
            &[f64::NAN, 0.1],
            &[0.1, f64::INFINITY],
            &[0.0, 0.0],
            &[3.0, 17.0],
            &[1e300, 0.1],
            &[1e-300],
        ] {
            assert_eq!(decimal(values), None, "{values:?}");
        }
    }

    #[test]
    fn floats_of_32_bits_too() {
        let words: Vec<u32> = (-5000..5000).map(|k| (k as f32 / 100.0).to_bits()).collect();
        let (n, words) = (words.len(), padded(&words));
        let mut v = words.clone();
        let digits = to_decimal(&words, n, &mut v).unwrap();
        assert_eq!((digits, v[0] as i32, v[9999] as i32), (2, -5000, 4999));
        from_decimal(PORTABLE, &mut v, n, digits);
        assert_eq!(v[..n], words[..n]);
        assert_eq!(to_decimal(&padded(&[0x3dcc_cccdu32, 0x3dcc_ccce]), 2, &mut v), None);
    }
}
