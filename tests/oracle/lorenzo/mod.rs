//! A second encoder of `lorenzo`, written from `SPEC.md` and `docs/writer.md` alone.
//!
//! Every step follows the definition, one number at a time. Nothing is optimized, and no code is
//! shared with the crate. Words and derived values are in two's complement in i64, whatever their
//! width; the r_i are u64.

mod agreement;
mod bitmap;
mod bits;
mod data;
mod dict;
mod huff;
mod map;
mod mask;
mod predict;
mod sparse;
mod split;

use gridz::DType;
use map::Mapped;
use mask::Mask;

const RAW: u8 = 0;
const CONST: u8 = 1;
const SPLIT: u8 = 2;
const HUFF: u8 = 3;
const SPARSE: u8 = 4;
const DICT: u8 = 2;

/// Conversion of elements to words.
#[derive(Clone, Copy)]
pub struct Element {
    pub bytes: usize,
    is_unsigned: bool,
    is_float: bool,
}

impl Element {
    pub fn of(dtype: DType) -> Self {
        Self {
            bytes: dtype.size().unwrap() as usize,
            is_unsigned: matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64),
            is_float: matches!(dtype, DType::F32 | DType::F64),
        }
    }

    /// W of SPEC.md.
    pub fn word_bits(self) -> u32 {
        if self.bytes == 8 { 64 } else { 32 }
    }

    pub fn word(self, bytes: &[u8]) -> i64 {
        let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | i64::from(byte));
        let is_narrow = self.bytes < 4;
        if self.is_unsigned && is_narrow { word } else { wrap(word, 8 * self.bytes as u32) }
    }
}

/// Wraps a number to a signed word of `bits` bits.
fn wrap(number: i64, bits: u32) -> i64 {
    number << (64 - bits) >> (64 - bits)
}

/// The sampled values.
fn samples(values: &[i64]) -> Vec<i64> {
    (0..32).map(|j| values[j * values.len() / 32]).collect()
}

/// bl of SPEC.md.
fn bit_length(number: u64) -> u32 {
    64 - number.leading_zeros()
}

/// An array's type, extents and block size.
pub struct Lorenzo {
    element: Element,
    /// Folded, padded with ones in front.
    extents: [usize; 3],
    sides: [usize; 3],
    is_dense: bool,
}

impl Lorenzo {
    /// `log2` is L.
    pub fn new(dtype: DType, extents: &[u64], log2: u8) -> Self {
        let extents = folded(extents);
        Self { element: Element::of(dtype), extents, sides: sides(extents, 1 << log2), is_dense: log2 > 12 }
    }

    fn blocks(&self) -> [usize; 3] {
        [0, 1, 2].map(|k| self.extents[k].div_ceil(self.sides[k]))
    }

    pub fn n_blocks(&self) -> usize {
        self.blocks().iter().product()
    }

    /// The payload for the array `raw`, with all checks zero.
    pub fn encode(&self, raw: &[u8]) -> Vec<u8> {
        let (mut table, mut data) = (vec![], vec![]);
        let [nz, ny, nx] = self.blocks();
        for (z, y, x) in (0..nz * ny * nx).map(|i| (i / nx / ny, i / nx % ny, i % nx)) {
            data.extend(self.encode_block(raw, [z * self.sides[0], y * self.sides[1], x * self.sides[2]]));
            table.extend((data.len() as u32 / 16).to_le_bytes());
            table.extend([0; 4]);
        }
        [filled_up(table), data].concat()
    }

    fn encode_block(&self, raw: &[u8], origin: [usize; 3]) -> Vec<u8> {
        let shape = [0, 1, 2].map(|k| self.sides[k].min(self.extents[k] - origin[k]));
        let ([_, dy, dx], [sz, sy, sx], size) = (self.extents, shape, self.element.bytes);
        let mut elements: Vec<&[u8]> = vec![];
        for z in origin[0]..origin[0] + sz {
            for y in origin[1]..origin[1] + sy {
                for x in origin[2]..origin[2] + sx {
                    elements.push(&raw[((z * dy + y) * dx + x) * size..][..size]);
                }
            }
        }
        let words: Vec<i64> = elements.iter().map(|element| self.element.word(element)).collect();
        let w = self.element.word_bits();
        if words.iter().all(|&word| word == words[0]) {
            return header(CONST, 0, [0; 3], [0; 2], words[0], w);
        }

        let mask = Mask::of(&words, shape, self.element);
        let all = Mapped::bits(&words);
        let words = mask.as_ref().map_or(words.clone(), |mask| mask.replaced(&words));
        let mut maps = vec![Mapped::bits(&words)];
        if self.element.is_float {
            maps.extend(Mapped::fixed(&words, w));
            maps.extend(Mapped::decimal(&words, w));
            maps.extend(Mapped::cut(&words, w));
        }
        let best = predict::best(&maps, mask.as_ref(), shape, w, self.is_dense);
        let [oz, oy, ox] = best.orders;
        let with_header = |coder: u8, mut contents: Vec<u8>| {
            if best.map == map::CUT {
                contents.resize(contents.len().next_multiple_of(8), 0);
            }
            let three = [ox | oy << 4, oz, mask.is_some().into()];
            let header = header(coder, best.map, three, [best.parameter, 0], best.base, w);
            let mask = mask.iter().flat_map(|mask| mask.bytes.clone()).collect();
            filled_up([header, mask, contents, best.tails.clone()].concat())
        };

        let mut block = filled_up([header(RAW, 0, [0; 3], [0; 2], 0, w), elements.concat()].concat());
        let mut consider = |other: Vec<u8>| {
            if other.len() < block.len() {
                block = other;
            }
            block.len()
        };
        if self.is_dense {
            consider(with_header(HUFF, huff::encode(&huff::ordered(&best.r, shape, mask.is_some()))));
        }
        let mut n_bytes = consider(with_header(SPLIT, split::encode(&best.r, w)));
        if let Some(contents) = sparse::encode(&best.r) {
            n_bytes = consider(with_header(SPARSE, contents));
        }
        if self.is_dense
            && let Some(dict) = dict::Dictionary::of(&all.v, w, 8 * n_bytes)
        {
            let header =
                header(SPLIT, DICT, dict.fields, [all.parameter, dict.entries.len() as u16], dict.entries[0], w);
            consider(filled_up([header, dict.encode(w)].concat()));
        }
        block
    }
}

/// The 16-byte header: bytes 1 to 3, the next two numbers, the base.
fn header(coder: u8, map: u8, three: [u8; 3], two: [u16; 2], base: i64, w: u32) -> Vec<u8> {
    let mut header = vec![coder | map << 4];
    header.extend(three);
    header.extend(two.iter().flat_map(|n| n.to_le_bytes()));
    header.extend(&base.to_le_bytes()[..w as usize / 8]);
    filled_up(header)
}

/// The bytes, zero-padded to a multiple of 16.
fn filled_up(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes
}

/// Fold 0 to three extents, padded with ones in front.
fn folded(extents: &[u64]) -> [usize; 3] {
    let mut extents: Vec<usize> = extents.iter().map(|&n| n as usize).filter(|&n| n != 1).collect();
    while extents.len() > 3 {
        let first = extents.remove(0);
        extents[0] *= first;
    }
    while extents.len() < 3 {
        extents.insert(0, 1);
    }
    extents.try_into().unwrap()
}

/// The block shape.
fn sides([dz, dy, dx]: [usize; 3], e: usize) -> [usize; 3] {
    let p = usize::next_power_of_two;
    if dz == 1 && dy == 1 {
        return [1, 1, e];
    }
    let rows = e / p(dx).min(32);
    let (bz, by) = if dz == 1 {
        (1, p(dy).min(rows))
    } else {
        let mut half = 1;
        while half * half < rows {
            half *= 2;
        }
        let by = p(dy).min(half);
        let bz = p(dz).min(rows / by);
        (bz, p(dy).min(rows / bz))
    };
    [bz, by, p(dx).min(e / (by * bz))]
}

/// A payload with its checks set to zero, as in [`Lorenzo::encode`]. The goldens verify the checks.
fn without_checks(mut payload: Vec<u8>, n_blocks: usize) -> Vec<u8> {
    for block in 0..n_blocks {
        payload[8 * block + 4..8 * block + 8].fill(0);
    }
    payload
}
