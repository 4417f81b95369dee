//! Deterministic arrays, by integer arithmetic only, so that every machine makes the same bytes.

use gridz::{Array, ByteOrder, DType, Shape};

/// One input: a rule, an element type and extents, as written in `vectors.toml` and the golden
/// manifest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Input {
    pub generator: String,
    pub dtype: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub big_endian: bool,
    pub extents: Vec<u64>,
}

impl Input {
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
        // Elements of up to 8 bytes come from one word each; the others are filled with noise.
        if !matches!(size, 1 | 2 | 4 | 8) {
            return noise(array.n_bytes() as usize);
        }
        let words = words(&self.generator, &self.extents, 8 * size as u32);
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
}

/// The bit patterns of an array, `bits` wide, in C order.
fn words(generator: &str, extents: &[u64], bits: u32) -> Vec<u64> {
    let n = extents.iter().product::<u64>() as usize;
    let top = 1u64 << (bits - 1);
    let mask = u64::MAX >> (64 - bits);
    let mut random = Xorshift::new(n as u64);
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
        // Inputs whose transformed words are chosen.
        "walking_bit" => inverse_transform(extents, bits, |i| {
            let (group, j) = (i / bits as usize, i % bits as usize);
            if j == group % bits as usize { 1 << (group % bits as usize) } else { 0 }
        }),
        "worst_case" => inverse_transform(extents, bits, |_| mask),
        other => panic!("unknown generator {other}"),
    }
}

/// The bits of i/4 as a float, exact for i < 2^24.
fn quarters(i: u64, bits: u32) -> u64 {
    if bits == 64 { (i as f64 * 0.25).to_bits() } else { u64::from((i as f32 * 0.25).to_bits()) }
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
