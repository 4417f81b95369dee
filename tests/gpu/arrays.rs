//! Random arrays whose compressibility changes within them.

use gridz::{Array, ByteOrder, DType, Shape};

use crate::common::generate::{GENERATORS, Input, Xorshift};

pub struct Random(Xorshift);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Xorshift::new(seed))
    }

    /// A random number of 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next()
    }

    /// A random number from 0 to n − 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() >> 20) as usize % n
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Contents of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Pieces of any length: noise, small numbers, walks of any step, constants, zeros.
    Mixed,
    Noise,
    Zero,
    Walk,
    /// Noise up to an element, a walk from there on, and vice versa: a compressor that decides by
    /// the first elements is wrong.
    NoiseThenWalk(usize),
    WalkThenNoise(usize),
    /// The output of a generator.
    Rule(&'static str),
}

impl Kind {
    /// A random kind for an array of `n` elements. Contents often change at a border between blocks
    /// or tiles.
    pub fn random(random: &mut Random, n: usize) -> Self {
        let at = match random.below(4) {
            0 => 4096 * (1 + random.below(4)),
            1 => n.saturating_sub(4096 * (1 + random.below(2))),
            2 => n / 2,
            _ => random.below(n + 1),
        };
        match random.below(16) {
            0..4 => Kind::Mixed,
            4 => Kind::Noise,
            5 => Kind::Zero,
            6 => Kind::Walk,
            7 => Kind::WalkThenNoise(at),
            8..10 => Kind::NoiseThenWalk(at),
            _ => Kind::Rule(random.pick(&GENERATORS)),
        }
    }
}

/// The bytes of `array`.
pub fn bytes(array: &Array, kind: Kind, random: &mut Random) -> Vec<u8> {
    let n_bytes = array.n_bytes() as usize;
    if let Kind::Rule(generator) = kind
        && matches!(array.element_size(), 1 | 2 | 4 | 8)
    {
        let extents = array.shape().extents().to_vec();
        let (generator, dtype) = (generator.into(), array.dtype().name().into());
        let big_endian = array.order() == ByteOrder::Big;
        return Input { generator, dtype, big_endian, extents, seed: random.below(1000) as u64 }.bytes();
    }
    // Elements that are not numbers of 4 or 8 bytes are pieces of 8-byte words.
    let size = if array.element_size() == 4 { 4 } else { 8 };
    let words = words(n_bytes.div_ceil(size), 8 * size as u32, kind, random);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(size)).collect();
    if array.order() == ByteOrder::Big {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes.truncate(n_bytes);
    bytes
}

/// `n` numbers of `bits` bits.
fn words(n: usize, bits: u32, kind: Kind, random: &mut Random) -> Vec<u64> {
    match kind {
        // Rules do not generate elements of other sizes.
        Kind::Mixed | Kind::Rule(_) => mixed(n, bits, random),
        Kind::Noise => (0..n).map(|_| random.word()).collect(),
        Kind::Zero => vec![0; n],
        Kind::Walk => {
            let mut value = random.word();
            let step = bits - 4 - random.below(12) as u32;
            (0..n)
                .map(|_| {
                    value = value.wrapping_add(random.word() >> (64 - bits) >> step);
                    value
                })
                .collect()
        }
        Kind::NoiseThenWalk(at) => halves(n, bits, at, [Kind::Noise, Kind::Walk], random),
        Kind::WalkThenNoise(at) => halves(n, bits, at, [Kind::Walk, Kind::Noise], random),
    }
}

fn halves(n: usize, bits: u32, at: usize, kinds: [Kind; 2], random: &mut Random) -> Vec<u64> {
    let first = at.min(n);
    let mut all = words(first, bits, kinds[0], random);
    all.extend(words(n - first, bits, kinds[1], random));
    all
}

fn mixed(n: usize, bits: u32, random: &mut Random) -> Vec<u64> {
    let mut all = Vec::with_capacity(n);
    while all.len() < n {
        let length = if random.once_in(3) { random.below(20_000) } else { random.below(300) };
        let (kind, shift, mut value) = (random.below(5), random.below(bits as usize), random.word());
        for _ in 0..=length.min(n - all.len() - 1) {
            let small = random.word() >> (64 - bits) >> shift;
            all.push(match kind {
                0 => random.word(),
                1 => small,
                2 => {
                    value = value.wrapping_add(small);
                    value
                }
                3 => value,
                _ => 0,
            });
        }
    }
    all
}

/// Extents of rank 1 to 4 with at most `most` elements: often multiples of a block's side or of 4,
/// sometimes 0.
pub fn extents(random: &mut Random, rank: usize, most: usize) -> Vec<u64> {
    let (scale, side) = [(200_000, 4096), (700, 64), (120, 16), (40, 16)][rank - 1];
    loop {
        let extents: Vec<usize> = (0..rank)
            .map(|_| {
                let scale = scale >> random.below(5);
                let n = random.below(scale) + usize::from(!random.once_in(50));
                match random.below(4) {
                    0 => n.next_multiple_of(side),
                    1 => n.next_multiple_of(4),
                    _ => n,
                }
            })
            .collect();
        if extents.iter().product::<usize>() <= most {
            return extents.iter().map(|&n| n as u64).collect();
        }
    }
}

pub fn array(dtype: DType, order: ByteOrder, extents: &[u64]) -> Array {
    Array::new(dtype, order, Shape::new(extents).unwrap()).unwrap()
}
