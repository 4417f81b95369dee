//! Fields of numbers, for codecs with error bounds. A rule generates a number for every index,
//! which is converted to the element type. Only operations whose rounding IEEE 754 defines are
//! used, so that every machine generates the same bytes.

use gridz::DType;

use super::generate::Xorshift;

/// Every rule.
pub const FIELDS: [&str; 13] = [
    "field",
    "field_gaps",
    "field_nan",
    "field_spikes",
    "field_scales",
    "field_noise",
    "field_growing",
    "field_still",
    "field_after_bits",
    "field_random_holes",
    "field_power",
    "field_over_time",
    "field_of_rows",
];

/// A generated number.
enum Number {
    Of(f64),
    /// NaN with these payload bits, as far as the type has them.
    Nan(u64),
}

/// The type of the parts of an element, and the number of parts.
pub fn parts(dtype: DType) -> (DType, usize) {
    match dtype {
        DType::C64 => (DType::F32, 2),
        DType::C128 => (DType::F64, 2),
        _ => (dtype, 1),
    }
}

/// The numbers of an array as words; `None` if the rule is not one of these.
pub fn words(rule: &str, dtype: DType, extents: &[u64], seed: u64) -> Option<Vec<u64>> {
    FIELDS.contains(&rule).then_some(())?;
    let (part, n_parts) = parts(dtype);
    let extents = [extents, if n_parts == 2 { &[2] } else { &[] }].concat();
    let n = extents.iter().product::<u64>();
    let mut random = Xorshift::new(n ^ seed << 32);
    (0..8).for_each(|_| _ = random.next());
    Some((0..n).map(|i| element(part, number(rule, i, &extents, random.next()))).collect())
}

fn number(rule: &str, i: u64, extents: &[u64], random: u64) -> Number {
    // From 0 to 1.
    let noise = (random >> 11) as f64 / (1u64 << 53) as f64;
    let wave = wave(i, extents) + 0.004 * noise;
    let (row, column) = (i / 41, i % 41);
    Number::Of(match rule {
        "field_gaps" if (column + row % 9 + row / 23) % 41 < 19 => -999.0,
        "field_nan" => match random % 500 {
            0 => f64::INFINITY,
            1 => -f64::INFINITY,
            2 => return Number::Nan(random >> 40),
            _ if (column + row / 5) % 41 < 15 => return Number::Nan(1),
            _ => wave,
        },
        "field_spikes" if random.is_multiple_of(131) => 1e30 * (noise - 0.5),
        // Half of the magnitudes of float64.
        "field_scales" => {
            let power = |halvings: u64| f64::from_bits((1023 - halvings) << 52);
            let halvings = (i / 300).wrapping_mul(0x9e37_79b9) >> 7 & 0xff;
            wave * power(halvings / 2) * power(halvings - halvings / 2) * if row % 7 == 3 { 0.0 } else { 1.0 }
        }
        "field_noise" => 2000.0 * (noise - 0.5),
        "field_growing" if i < 9000 => 0.0,
        "field_growing" => wave * (i - 9000) as f64 / 1000.0,
        // Random float64 bits in the first 5000 elements.
        "field_after_bits" if i < 5000 => f64::from_bits(random),
        "field_random_holes" if random.is_multiple_of(3) => return Number::Nan(1),
        // Fifth powers, all exactly representable.
        "field_power" => {
            let x = (i % 1500) as f64;
            x * x * x * x * x
        }
        // Noise, and the same a little higher at every step along the first axis.
        "field_over_time" => {
            let plane = extents[1..].iter().product::<u64>();
            scattered(i % plane) + (i / plane) as f64
        }
        // Rows unlike each other, each of short constant pieces.
        "field_of_rows" => scattered(i / 16),
        "field_still" => 7.25 + 0.0001 * noise,
        _ => wave,
    })
}

/// A number that depends on `i`, and is unlike that of other `i`.
fn scattered(i: u64) -> f64 {
    ((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as f64
        / 20.0
}

/// A sum of arches of alternating signs along every axis.
fn wave(i: u64, extents: &[u64]) -> f64 {
    let (mut rest, mut height) = (i, 20.0);
    for (k, &extent) in extents.iter().enumerate().rev() {
        let (x, half) = (rest % extent, 25 + 14 * k as u64);
        let left = 2 * (x % half) + 1;
        let arch = (left * (2 * half - left)) as f64 / (half * half) as f64;
        height += if x / half % 2 == 0 { 30.0 * arch } else { -30.0 * arch };
        rest /= extent;
    }
    height
}

/// The element's bits: the nearest float; for integers and narrow floats, rounded towards zero.
fn element(dtype: DType, number: Number) -> u64 {
    let value = match number {
        Number::Of(value) => value,
        Number::Nan(payload) => {
            let (infinity, fraction) = match dtype {
                DType::F64 => (0x7ff0 << 48, 52),
                DType::F32 => (0x7f80 << 16, 23),
                DType::F16 => (0x7c00, 10),
                DType::Bf16 => (0x7f80, 7),
                _ => return 0,
            };
            return infinity | 1 << (fraction - 1) | payload & ((1 << (fraction - 1)) - 1);
        }
    };
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::Bf16 => u64::from((value as f32).to_bits() >> 16),
        DType::F16 => half(value as f32),
        DType::U8 => u64::from(value as u8),
        DType::U16 => u64::from(value as u16),
        DType::U32 => u64::from(value as u32),
        DType::U64 => value as u64,
        DType::I8 => value as i8 as u64,
        DType::I16 => value as i16 as u64,
        DType::I32 => value as i32 as u64,
        DType::I64 => value as i64 as u64,
        _ => unreachable!("{dtype:?} is not a number"),
    }
}

/// The bits of a float16, rounded towards zero; infinities are kept.
fn half(value: f32) -> u64 {
    let bits = value.to_bits();
    let (sign, field, fraction) = (bits >> 16 & 0x8000, bits >> 23 & 0xff, bits & 0x7f_ffff);
    let size = match field {
        255 => 0x7c00,
        143.. => 0x7bff,
        113.. => (field - 112) << 10 | fraction >> 13,
        103.. => (fraction | 0x80_0000) >> (126 - field),
        _ => 0,
    };
    u64::from(sign | size)
}
