//! Deterministic arrays, by integer arithmetic only, so that every machine makes the same bytes.

use gridz::{Array, ByteOrder, DType, Shape};

use super::{fields, indices};

/// One input: a rule, an element type and extents, as written in `vectors.toml` and the golden
/// manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Input {
    pub generator: String,
    pub dtype: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub big_endian: bool,
    pub extents: Vec<u64>,
    /// Other data by the same rule.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seed: u64,
}

fn is_zero(seed: &u64) -> bool {
    *seed == 0
}

/// Every rule that makes an array of any extents, but those of [`fields`].
pub const GENERATORS: [&str; 27] = [
    "zero",
    "negative_zero",
    "pi",
    "minus_seven_and_a_quarter",
    "one",
    "ramp",
    "random",
    "walk",
    "special",
    "wave",
    "cubic",
    "patches",
    "few",
    "islands",
    "gaps",
    "decimals",
    "decimal_gaps",
    "jumps",
    "uneven",
    "ripples",
    "faint_ripples",
    "ripple_gaps",
    "steps",
    "stencil",
    "mesh",
    "columns",
    "pointers",
];

impl Input {
    pub fn new(generator: &str, dtype: DType, extents: &[u64]) -> Self {
        Self {
            generator: generator.into(),
            dtype: dtype.name().into(),
            extents: extents.to_vec(),
            ..Self::default()
        }
    }

    pub fn array(&self) -> Array {
        let dtype = DType::ALL.into_iter().find(|d| d.name() == self.dtype).expect("a known element type");
        let order = if self.big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let shape = Shape::new(&self.extents).unwrap();
        match dtype {
            DType::Opaque => Array::opaque(5, shape).unwrap(),
            _ => Array::new(dtype, order, shape).unwrap(),
        }
    }

    /// The array's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let array = self.array();
        let size = array.element_size() as usize;
        if let Some(words) = fields::words(&self.generator, array.dtype(), &self.extents, self.seed) {
            return self.in_order(&words, size / fields::parts(array.dtype()).1);
        }
        // Elements of up to 8 bytes come from one word each; the others are filled with noise.
        if !matches!(size, 1 | 2 | 4 | 8) {
            return noise(array.n_bytes() as usize);
        }
        self.in_order(&words(&self.generator, &self.extents, 8 * size as u32, self.seed), size)
    }

    /// The low bytes of each word, in the array's byte order.
    fn in_order(&self, words: &[u64], size: usize) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| {
                let mut bytes = word.to_le_bytes()[..size].to_vec();
                if self.big_endian {
                    bytes.reverse();
                }
                bytes
            })
            .collect()
    }
}

/// Bytes of a xorshift generator.
pub fn noise(n: usize) -> Vec<u8> {
    let mut state = Xorshift::new(n as u64 + 1);
    (0..n).map(|_| (state.next() >> 32) as u8).collect()
}

pub struct Xorshift(u64);

impl Xorshift {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}

/// The bit patterns of an array, `bits` wide, in C order.
fn words(generator: &str, extents: &[u64], bits: u32, seed: u64) -> Vec<u64> {
    let n = extents.iter().product::<u64>() as usize;
    let top = 1u64 << (bits - 1);
    let mask = u64::MAX >> (64 - bits);
    let mut random = Xorshift::new(n as u64 ^ seed << 32);
    if let Some(indices) = indices::words(generator, n, &mut random) {
        return indices.into_iter().map(|index| index & mask).collect();
    }
    match generator {
        "zero" => vec![0; n],
        "negative_zero" => vec![top; n],
        // pi, -7.25 and 1.0 as the type's bit pattern
        "pi" => vec![if bits == 64 { 0x4009_21fb_5444_2d18 } else { 0x4049_0fdb }; n],
        "minus_seven_and_a_quarter" => vec![if bits == 64 { 0xc01d_0000_0000_0000 } else { 0xc0e8_0000 }; n],
        "one" => vec![if bits == 64 { 0x3ff0_0000_0000_0000 } else { 0x3f80_0000 }; n],
        "ramp" => (0..n).map(|i| quarters(i as u64, bits)).collect(),
        "random" => (0..n).map(|_| random.next() & mask).collect(),
        // A slow walk with rare jumps and special values.
        "walk" => {
            let mut value = mask / 3;
            (0..n)
                .map(|_| {
                    let r = random.next();
                    let step = r >> 40 & 0xfff;
                    value = (if r & 1 == 0 { value.wrapping_add(step) } else { value.wrapping_sub(step) }) & mask;
                    match r >> 8 & 0x3ff {
                        0 => 0,
                        1 => top,
                        2 => mask,
                        3 => mask ^ top,
                        _ => value,
                    }
                })
                .collect()
        }
        // Infinities, quiet and signalling NaN with payloads, subnormals, zeros of both signs, any bits.
        "special" => {
            let mantissa_bits = [(64, 52), (32, 23), (16, 10), (8, 3)].into_iter().find(|(b, _)| *b == bits);
            let mantissa = (1u64 << mantissa_bits.unwrap().1) - 1;
            let infinity = mask >> 1 & !mantissa;
            (0..n)
                .map(|_| {
                    let (r, sign) = (random.next(), random.next() & top);
                    sign | match r & 7 {
                        0 => 0,
                        1 => infinity,
                        2 => infinity | (mantissa.div_ceil(2) | r >> 3 & mantissa),
                        3 => infinity | (r >> 3 & mantissa >> 1).max(1),
                        4 => r >> 3 & mantissa,
                        5 => 1,
                        _ => r & mask >> 1,
                    }
                })
                .collect()
        }
        // Triangle waves along every axis, with a little noise, in quarters.
        "wave" => (0..n as u64)
            .map(|i| {
                let mut rest = i;
                let mut height = random.next() & 3;
                for (k, &extent) in extents.iter().enumerate().rev() {
                    let period = 32 << k;
                    height += (rest % extent % period).abs_diff(period / 2) * 40;
                    rest /= extent;
                }
                quarters(height, bits)
            })
            .collect(),
        // Polynomials of third degree along every axis, as floats where the type is one of 32 or 64 bits.
        "cubic" => (0..n as u64)
            .map(|i| {
                let mut rest = i;
                let mut height = 0u64;
                for (k, &extent) in extents.iter().enumerate().rev() {
                    let x = rest % extent % 200;
                    height += x * x * x + (k as u64 + 3) * x * 17;
                    rest /= extent;
                }
                if bits < 32 { height >> 9 & mask } else { quarters(height & 0xff_ffff, bits) }
            })
            .collect(),
        // Integers of which most are small, some longer and a few as long as the type allows.
        "patches" => (0..n)
            .map(|_| {
                let r = random.next();
                let length = match r % 256 {
                    0..4 => bits,
                    4..40 => bits / 2,
                    _ => bits / 5,
                };
                r.rotate_right(8) & u64::MAX >> (64 - length.max(1))
            })
            .collect(),
        // A few values in no order.
        "few" => {
            let values: Vec<u64> = (0..37).map(|_| random.next() & mask).collect();
            (0..n).map(|_| values[(random.next() >> 20) as usize % values.len()]).collect()
        }
        // Noise in a sea of zeros.
        "islands" => (0..n)
            .map(|i| {
                let r = random.next();
                if i / 700 % 5 == 2 { r & mask >> (bits / 3) } else { 0 }
            })
            .collect(),
        // Waves with regions, of another border in every row, that have a fill value.
        "gaps" => (0..n as u64)
            .map(|i| {
                let (x, y) = (i % 37, i / 37);
                let is_gap = (x + y % 11 + y / 19) % 37 < 14 + y % 3;
                if is_gap { mask / 5 * 3 } else { quarters(1000 + x * y % 999 + (random.next() & 3), bits) & mask }
            })
            .collect(),
        // Numbers with one digit behind the point, seldom two; small integers where the type has no floats.
        "decimals" => (0..n as u64).map(|i| decimal(i, random.next(), bits) & mask).collect(),
        // The same with gaps.
        "decimal_gaps" => (0..n as u64)
            .map(|i| {
                let number = decimal(i, random.next(), bits) & mask;
                if i / 45 % 3 == 1 { mask } else { number }
            })
            .collect(),
        // Ramps with a few jumps.
        "jumps" => {
            let mut value = 0u64;
            (0..n)
                .map(|i| {
                    let r = random.next();
                    value = value.wrapping_add(if r.is_multiple_of(499) { r >> 50 } else { 3 + (i as u64 >> 20) });
                    value & mask
                })
                .collect()
        }
        // Waves that change sign and fade over many powers of two.
        "ripples" => (0..n as u64).map(|i| ripple(i, extents, random.next(), bits, 0) & mask).collect(),
        // The same around the least normal number.
        "faint_ripples" => (0..n as u64)
            .map(|i| ripple(i, extents, random.next(), bits, if bits == 64 { 1018 } else { 122 }) & mask)
            .collect(),
        // Ripples with gaps.
        "ripple_gaps" => (0..n as u64)
            .map(|i| {
                let number = ripple(i, extents, random.next(), bits, 0) & mask;
                if (i + i / 41 % 13) % 41 < 14 { mask } else { number }
            })
            .collect(),
        // A level that seldom rises, and in every second stretch often.
        "steps" => {
            let mut level = mask / 3;
            (0..n)
                .map(|i| {
                    let r = random.next();
                    let seldom = if i / 1500 % 2 == 1 { 5 } else { 71 };
                    if (r >> 20).is_multiple_of(seldom) {
                        level = level.wrapping_add(r >> 58);
                    }
                    level & mask
                })
                .collect()
        }
        // Small numbers, but every now and then as many as a lane of HUFF has that are any.
        "uneven" => (0..n)
            .map(|i| {
                let r = random.next();
                if i / 256 % 13 == 5 { r & mask } else { r >> 20 & 0x3f & mask }
            })
            .collect(),
        // Inputs whose transformed words are chosen.
        "walking_bit" => inverse_transform(extents, bits, |i| {
            let (group, j) = (i / bits as usize, i % bits as usize);
            if j == 7 * group % bits as usize { 1 << (3 * group % bits as usize) } else { 0 }
        }),
        "worst_case" => inverse_transform(extents, bits, |_| mask),
        other => panic!("unknown generator {other}"),
    }
}

/// The bits of i/4 as a float, exact for i < 2^24.
fn quarters(i: u64, bits: u32) -> u64 {
    if bits == 64 { (i as f64 * 0.25).to_bits() } else { u64::from((i as f32 * 0.25).to_bits()) }
}

/// The bits of a float: a product of arches along every axis, of alternating signs, times a factor that halves every 64
/// elements along an axis and once for each of `halvings`, with noise in the last bits, and seldom a zero, negative zero,
/// or the least number. Thousandths of it where the type has no floats.
fn ripple(i: u64, extents: &[u64], noise: u64, bits: u32, halvings: u64) -> u64 {
    let (mut rest, mut height, mut distance) = (i, 1.0, 0);
    for (k, &extent) in extents.iter().enumerate().rev() {
        let (x, half) = (rest % extent, 30 + 12 * k as u64);
        // Twice the distances of the middle of the element from both ends of its arch.
        let left = 2 * (x % half) + 1;
        let arch = (left * (2 * half - left)) as f64 / (half * half) as f64;
        height *= if x / half % 2 == 0 { arch } else { -arch };
        distance += x;
        rest /= extent;
    }
    let (halving, part) = (distance / 64 % 10 + halvings, distance % 64);
    let factor = (128 - part) as f64 / 128.0;
    // 1 + noise·2^−50
    let noisy = 1.0 + (noise >> 40) as f64 / (1u64 << 50) as f64;
    // A power of two that float64 has even where it has no normal numbers: its exponent field alone.
    let power = |halvings: u64| f64::from_bits((1023 - halvings) << 52);
    let height = height * factor * noisy * power(halving / 2) * power(halving - halving / 2);
    let top = 1u64 << (bits - 1);
    match (noise & 0xfff, bits) {
        (0..5, _) => 0,
        (5..7, _) => top,
        (7, _) => 1,
        (_, 64) => height.to_bits(),
        (_, 32) => u64::from((height as f32).to_bits()),
        _ => (height * 1000.0) as i64 as u64,
    }
}

/// The bits of the float nearest to a number with few digits behind the point.
fn decimal(i: u64, noise: u64, bits: u32) -> u64 {
    let number = (i % 300 * 7 + noise % 16) as f64 - 900.0;
    let (number, unit) = if noise >> 40 & 0x3ff == 0 { (10.0 * number + 1.0, 100.0) } else { (number, 10.0) };
    match bits {
        64 => (number / unit).to_bits(),
        32 => u64::from(((number / unit) as f32).to_bits()),
        _ => number as i64 as u64,
    }
}

/// The array of exactly one block whose words after sign folding are `stored(i)`.
fn inverse_transform(extents: &[u64], bits: u32, stored: impl Fn(usize) -> u64) -> Vec<u64> {
    let mask = u64::MAX >> (64 - bits);
    let top = 1u64 << (bits - 1);
    let n = extents.iter().product::<u64>() as usize;
    let mut words: Vec<u64> =
        (0..n).map(stored).map(|word| if word & top != 0 { word ^ (mask ^ top) } else { word }).collect();
    let mut stride = 1;
    for &extent in extents.iter().rev() {
        for i in 0..n {
            if i / stride % extent as usize != 0 {
                words[i] = words[i].wrapping_add(words[i - stride]) & mask;
            }
        }
        stride *= extent as usize;
    }
    words.iter().map(|&word| (word >> 1) | (word & 1) << (bits - 1)).collect()
}
