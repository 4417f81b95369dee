use super::uniform::narrow_half;
use super::whole::Integers;
use super::*;
use crate::cpu::isa::Isa;
use crate::stage::rows::{PORTABLE, SimdWord, WithSimd, dispatch};

/// Quantizes rows of words and converts the codes back.
struct There<'a, W> {
    quantizer: &'a Quantizer<W>,
    words: &'a [W],
}

#[derive(Debug, PartialEq)]
struct Seen<W> {
    codes: Vec<W>,
    are_coded: Vec<u32>,
    are_within: Vec<u32>,
    values: Vec<W>,
}

impl<W: Word> WithSimd<W> for There<'_, W> {
    type Output = Seen<W>;

    fn run<S: Simd<W>>(self, s: S) -> Seen<W> {
        let n = self.words.len();
        let mut seen = Seen {
            codes: vec![W::default(); n],
            are_coded: vec![],
            are_within: vec![],
            values: vec![W::default(); n],
        };
        for at in (0..n).step_by(LANES) {
            let coded = self.quantizer.code(s, s.load(&self.words[at..]));
            s.store(coded.codes, &mut seen.codes[at..]);
            seen.are_coded.push(coded.are_coded);
            seen.are_within.push(coded.are_within);
            s.store(self.quantizer.value(s, coded.codes), &mut seen.values[at..]);
        }
        seen
    }
}

/// The results for words, which must be the same on every level.
fn see<W: SimdWord + std::fmt::Debug>(quantizer: &Quantizer<W>, words: &[W]) -> Seen<W> {
    let seen = There { quantizer, words }.run(PORTABLE);
    for level in Isa::all() {
        assert!(dispatch(level, There { quantizer, words }) == seen, "{level:?} {quantizer:?}");
    }
    seen
}

impl<W> Seen<W> {
    fn is_coded(&self, i: usize) -> bool {
        self.are_coded[i / LANES] >> (i % LANES) & 1 == 1
    }

    fn is_within(&self, i: usize) -> bool {
        self.are_within[i / LANES] >> (i % LANES) & 1 == 1
    }
}

fn noise(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
}

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];
const WHOLE: [DType; 8] =
    [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];

/// Converts a float of a type to a number, independently of the quantizer.
fn number(dtype: DType, word: u64) -> f64 {
    let (fraction_bits, bits) = Float::of(dtype).unwrap().bits();
    let exponent_bits = bits - 1 - fraction_bits;
    let (exponent, fraction) =
        (word >> fraction_bits & u64::low_mask(exponent_bits), word & u64::low_mask(fraction_bits));
    let bias = (1 << (exponent_bits - 1)) - 1;
    let scale = |n: i64| if n < -1000 { 2f64.powi(n as i32 + 200) * 2f64.powi(-200) } else { 2f64.powi(n as i32) };
    let size = match exponent {
        0 => fraction as f64 * scale(1 - bias - i64::from(fraction_bits)),
        _ if exponent == u64::low_mask(exponent_bits) => {
            if fraction == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        _ => (1.0 + fraction as f64 / (1u64 << fraction_bits) as f64) * scale(exponent as i64 - bias),
    };
    if word >> (bits - 1) & 1 == 1 { -size } else { size }
}

/// Whether |a − b| is at most a bound, exactly.
fn is_near(a: f64, b: f64, bound: f64) -> bool {
    let difference = a - b;
    let b_part = a - difference;
    let rest = (a - (difference + b_part)) + (b_part - b);
    let (size, rest) = if difference < 0.0 { (-difference, -rest) } else { (difference, rest) };
    size < bound || size == bound && rest <= 0.0
}

/// Words of a type: special ones, ones near multiples of a bound, and random ones.
fn words_of<W: Word>(dtype: DType, bound: f64, n: u64) -> Vec<W> {
    let bits = 8 * dtype.size().unwrap();
    let extend = |x: u64| {
        let is_signed = !matches!(dtype, DType::U8 | DType::U16);
        let unused = 64 - bits;
        W::from_u64(if is_signed { ((x << unused) as i64 >> unused) as u64 } else { x << unused >> unused })
    };
    let mut words: Vec<W> = (0..n).map(|i| extend(noise(i) >> (noise(i ^ 99) % 64))).collect();
    words.extend((0..n).map(|i| extend(noise(i + n))));
    for i in 0..n {
        let near = bound * (noise(i + 2 * n) >> (noise(i) % 60)) as f64 * 0.5;
        let float = match dtype {
            DType::F32 => u64::from((near as f32).to_bits()),
            DType::F64 => near.to_bits(),
            DType::Bf16 => u64::from((near as f32).to_bits() >> 16),
            DType::F16 => u64::from(narrow_half((near as f32).to_bits())),
            _ => near as u64,
        };
        words.push(extend(float ^ (noise(i) & 1) << (bits - 1)));
    }
    for x in [0, 1, 2, 3, u64::MAX, 1 << (bits - 1), u64::low_mask(bits - 1), (1 << (bits - 1)) + 1] {
        words.push(extend(x));
    }
    words.resize(words.len().next_multiple_of(LANES), W::default());
    words
}

/// Checks that values are within the bound and have the same codes again.
fn keeps_its_bound<W: SimdWord + std::fmt::Debug>(dtype: DType, bound: f64, words: &[W]) -> usize {
    let Some(quantizer) = Quantizer::absolute(dtype, bound) else { return 0 };
    let seen = see(&quantizer, words);
    let again = see(&quantizer, &seen.values);
    let mut n_within = 0;
    for (i, &word) in words.iter().enumerate() {
        assert!(!seen.is_within(i) || seen.is_coded(i));
        if !seen.is_within(i) {
            continue;
        }
        n_within += 1;
        let value = seen.values[i];
        let is_kept = match Float::of(dtype) {
            Some(_) => is_near(number(dtype, word.to_u64()), number(dtype, value.to_u64()), bound),
            None => {
                let integers = Integers::of(dtype);
                let [x, y] = [word, value].map(|word| integers.number(word.to_i64()));
                (integers.least..=integers.most).contains(&y) && x.abs_diff(y) <= bound as u128
            }
        };
        assert!(is_kept, "{dtype:?} {bound:e} {word:x?} {value:x?}");
        assert!(again.is_within(i), "{dtype:?} {bound:e} {word:x?} {value:x?}");
        assert_eq!(again.values[i], value, "{dtype:?} {bound:e} {word:x?}");
    }
    n_within
}

#[test]
fn bounds_are_kept_and_nothing_drifts() {
    for exponent in -330..310 {
        for digit in [1.0, 1.9, 2.0 - 1.0 / 512.0, 3.0, 7.7] {
            let bound: f64 = format!("{digit}e{exponent}").parse().unwrap();
            if bound == 0.0 || bound.is_infinite() {
                continue;
            }
            for dtype in FLOATS {
                match dtype {
                    DType::F64 => keeps_its_bound::<u64>(dtype, bound, &words_of(dtype, bound, 20)),
                    _ => keeps_its_bound::<u32>(dtype, bound, &words_of(dtype, bound, 20)),
                };
            }
            for dtype in WHOLE {
                if (-1..21).contains(&exponent) {
                    match dtype {
                        DType::U64 | DType::I64 => {
                            keeps_its_bound::<u64>(dtype, bound, &words_of(dtype, bound, 20))
                        }
                        _ => keeps_its_bound::<u32>(dtype, bound, &words_of(dtype, bound, 20)),
                    };
                }
            }
        }
    }
}

/// Checks every float of two bytes, and all integers of one and two, at bounds of all kinds.
#[test]
fn all_narrow_elements_keep_their_bounds() {
    let words: Vec<u32> = (0..1u32 << 16).collect();
    let signed: Vec<u32> = words.iter().map(|&word| word as u16 as i16 as u32).collect();
    for i in 0..60u64 {
        let bound = 2f64.powi(i as i32 - 30) * (1.0 + (noise(i) % 1000) as f64 / 1000.0);
        for dtype in [DType::F16, DType::Bf16] {
            // Larger elements are farther apart than steps.
            let most = bound * if dtype == DType::F16 { 2048.0 } else { 256.0 };
            let small: Vec<u32> =
                signed.iter().copied().filter(|&word| number(dtype, word.into()).abs() < most).collect();
            let mut padded = small.clone();
            padded.resize(small.len().next_multiple_of(LANES), 0);
            let within = keeps_its_bound(dtype, bound, &padded);
            keeps_its_bound(dtype, bound, &signed);
            // Subnormal elements are not as exact as the bound, and the largest values may
            // overflow.
            assert!(
                within * 100 > small.len() * 99 || !(1e-6..1e4).contains(&bound),
                "{dtype:?} {bound}: {within} of {}",
                small.len()
            );
        }
        assert_eq!(keeps_its_bound(DType::U16, bound, &words), words.len());
        assert_eq!(keeps_its_bound(DType::I16, bound, &signed), words.len());
        assert_eq!(keeps_its_bound(DType::U8, bound, &words[..256]), 256);
    }
}

/// Checks every `step`-th word of f32 from `first` on.
fn patterns(quantizer: &Quantizer<u32>, bound: f64, first: u64, step: u64) -> u64 {
    let mut exact = 0;
    let words: Vec<u32> = (first..1 << 32).step_by(step as usize).map(|word| word as u32).collect();
    for words in words.chunks(1 << 12) {
        let mut words = words.to_vec();
        words.resize(words.len().next_multiple_of(LANES), 0);
        let seen = see(quantizer, &words);
        let again = see(quantizer, &seen.values);
        for (i, &word) in words.iter().enumerate() {
            let (x, y) = (f32::from_bits(word), f32::from_bits(seen.values[i]));
            if seen.is_within(i) {
                assert!((f64::from(x) - f64::from(y)).abs() <= bound, "{bound:e} {word:x}");
                assert!(again.is_within(i) && again.values[i] == seen.values[i], "{bound:e} {word:x}");
            } else if x.is_finite() {
                exact += 1;
            }
        }
    }
    exact
}

const BOUNDS: [f64; 5] = [1e-30, 1e-3, 0.1 + 1e-17, 12345.678, 3e33];

#[test]
fn patterns_of_f32_keep_their_bounds() {
    for bound in BOUNDS {
        let quantizer = Quantizer::absolute(DType::F32, bound).unwrap();
        patterns(&quantizer, bound, noise(bound.to_bits()) % 4096, 4099);
    }
}

/// All patterns; this takes some minutes for each bound.
#[test]
#[ignore = "takes long; for releases"]
fn every_pattern_of_f32_keeps_its_bounds() {
    std::thread::scope(|scope| {
        for bound in BOUNDS {
            scope.spawn(move || {
                let quantizer = Quantizer::absolute(DType::F32, bound).unwrap();
                let exact: u64 = (0..256).map(|i| patterns(&quantizer, bound, i, 256)).sum();
                println!("{bound:e}: {exact} finite floats are kept exactly");
            });
        }
    });
}

/// Elements of moderate size need no exceptions.
#[test]
fn floats_have_codes_within_the_bound() {
    for dtype in [DType::F32, DType::F64] {
        for i in 0..2000u64 {
            let bound = 1.0 + (noise(i) % 4096) as f64 / 4096.0;
            let words: Vec<u64> = (0..LANES as u64)
                .map(|lane| {
                    let x = (noise(i * 64 + lane) >> 40 >> (noise(lane) % 24)) as f64
                        + (noise(lane) % 999) as f64 / 1e3;
                    if dtype == DType::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() }
                })
                .collect();
            let n = if dtype == DType::F32 {
                keeps_its_bound(dtype, bound, &words.iter().map(|&x| x as u32).collect::<Vec<_>>())
            } else {
                keeps_its_bound(dtype, bound, &words)
            };
            assert!(n + 1 >= LANES, "{dtype:?} {bound} {n} of {LANES}");
        }
    }
}

#[test]
fn relative_bounds_are_kept() {
    for dtype in FLOATS {
        for i in 0..300u64 {
            let bound = (noise(i) >> 11) as f64 / (1u64 << 53) as f64 * 2f64.powi(-((i % 50) as i32));
            match dtype {
                DType::F64 => keeps_its_relative_bound::<u64>(dtype, bound),
                _ => keeps_its_relative_bound::<u32>(dtype, bound),
            }
        }
    }
}

/// Like [`keeps_its_bound`], for bounds relative to each element.
fn keeps_its_relative_bound<W: SimdWord + std::fmt::Debug>(dtype: DType, bound: f64) {
    let quantizer = Quantizer::relative(dtype, bound).unwrap();
    let (fraction_bits, bits) = Float::of(dtype).unwrap().bits();
    let words = words_of::<W>(dtype, 1e-3, 20);
    let seen = see(&quantizer, &words);
    let again = see(&quantizer, &seen.values);
    assert_eq!(seen.are_coded, seen.are_within);
    for (i, &word) in words.iter().enumerate() {
        let place = word.to_u64() & u64::low_mask(bits - 1);
        let is_normal =
            place >> fraction_bits > 0 && place < u64::low_mask(bits - 1 - fraction_bits) << fraction_bits;
        if !seen.is_coded(i) {
            assert!(!is_normal || place as f64 * (1.0 + bound) > u64::low_mask(bits - 2) as f64);
            assert_eq!(seen.codes[i], W::default());
            continue;
        }
        let (code, value) = (seen.codes[i], seen.values[i]);
        // A value that became subnormal has no code any more and stays unchanged.
        assert!(!again.is_coded(i) || again.codes[i] == code, "{dtype:?} {bound} {word:x?}");
        if code == W::default() {
            assert_eq!((word, value), (W::default(), W::default()));
            continue;
        }
        let [x, y] = [word, value].map(|word| number(dtype, word.to_u64()));
        if x.abs() > 1e-250 {
            // The product and its rounding error.
            let (error, product) = ((x - y).abs(), bound * x.abs());
            let rest = bound.mul_add(x.abs(), -product);
            let is_kept = error < product || error == product && rest >= 0.0;
            assert!((x < 0.0) == (y < 0.0) && is_kept, "{dtype:?} {bound} {x:e} {y:e}");
        }
    }
}

/// Checks the codes and values of integers against the definition.
fn whole_numbers_are_the_defined_ones<W: SimdWord + std::fmt::Debug>(dtype: DType, bound: u64) {
    let integers = Integers::of(dtype);
    let quantizer = Quantizer::<W>::absolute(dtype, bound as f64).unwrap();
    let bound = i128::from(bound as f64 as u64).min(integers.most);
    let words = words_of::<W>(dtype, bound as f64, 20);
    let seen = see(&quantizer, &words);
    for (i, &word) in words.iter().enumerate() {
        let code = (integers.number(word.to_i64()) + bound).div_euclid(2 * bound + 1);
        let value = (code * (2 * bound + 1)).clamp(integers.least, integers.most);
        let defined = [code, value].map(|number| W::from_u64(number as u64));
        assert_eq!([seen.codes[i], seen.values[i]], defined, "{dtype:?} {bound} {word:x?}");
    }
}

#[test]
fn any_whole_bound_of_integers() {
    for dtype in WHOLE {
        let bits = 8 * dtype.size().unwrap();
        for i in 0..400 {
            let near = (1u64 << (i % 64)).wrapping_add(noise(i) % 5).wrapping_sub(2);
            for bound in [near, noise(i) >> (i % 64)] {
                match bits {
                    64 => whole_numbers_are_the_defined_ones::<u64>(dtype, bound.max(1)),
                    _ => whole_numbers_are_the_defined_ones::<u32>(dtype, bound.max(1)),
                }
            }
        }
    }
}
