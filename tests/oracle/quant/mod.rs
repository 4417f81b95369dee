//! A second encoder of `quant`, written from `SPEC.md` and `docs/writer.md` alone.
//!
//! Every step follows the definition, one number at a time. Parts that the text takes from `lorenzo`
//! use lorenzo's oracle.

mod agreement;
mod codes;
mod range;
mod widths;

use gridz::DType;
use gridz_codecs::codec::mode::Mode;

use crate::lorenzo::predict::{Block, Orders, Rows, Rule};
use crate::lorenzo::{Element, bit_length, bitmap, bits, folded, sides, wrap};
use codes::Codes;

const RAW: u16 = 0x8000;
const CONST: u16 = 0x8001;
const WORDS: u16 = 1 << 12;
const HOLES: u16 = 1 << 13;
const OTHERS: u16 = 1 << 14;

const RULE: Rule = Rule {
    first: &[[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 0, 0], [1, 1, 0]],
    one_of: 13,
    together: 8,
};

/// A request: mode, value, fill value.
#[derive(Clone, Debug)]
pub struct Bound {
    pub mode: Mode,
    pub value: f64,
    /// The bytes of one element, not all zero.
    pub fill: Option<Vec<u8>>,
}

/// An array's type, extents and request.
pub struct Quant<'a> {
    /// Type of the parts of an element.
    dtype: DType,
    element: Element,
    n_parts: usize,
    extents: [usize; 3],
    sides: [usize; 3],
    bound: &'a Bound,
}

/// A block that may have exceptions: its codes or words, and its sections of exceptions.
struct Numbers {
    v: Vec<i64>,
    h: u16,
    exceptions: Vec<u8>,
}

impl<'a> Quant<'a> {
    pub fn new(dtype: DType, extents: &[u64], bound: &'a Bound) -> Self {
        let (dtype, n_parts) = match dtype {
            DType::C64 => (DType::F32, 2),
            DType::C128 => (DType::F64, 2),
            _ => (dtype, 1),
        };
        let extents = folded(extents);
        Self { dtype, element: Element::of(dtype), n_parts, extents, sides: sides(extents, 1 << 12), bound }
    }

    fn blocks(&self) -> [usize; 3] {
        [0, 1, 2].map(|k| self.extents[k].div_ceil(self.sides[k]))
    }

    /// Number of blocks of parts.
    pub fn n_blocks(&self) -> usize {
        self.blocks().iter().product::<usize>() * self.n_parts
    }

    /// The parameters of the frame.
    pub fn parameters(&self) -> Vec<u8> {
        let sizes = self.origins().map(|origin| self.shape(origin).iter().product::<usize>() * self.element.bytes);
        let in_units =
            |u: u32| sizes.clone().map(|n| ((4 + n) as u64).div_ceil(1 << u)).sum::<u64>() * self.n_parts as u64;
        let u = (2..5).find(|&u| in_units(u) < 1 << 32).unwrap();
        let mut parameters = vec![12, u as u8, self.bound.mode.id(), 0];
        parameters.extend(self.bound.value.to_le_bytes());
        parameters.extend(self.bound.fill.iter().flatten());
        parameters
    }

    fn origins(&self) -> impl Iterator<Item = [usize; 3]> + Clone {
        let ([nz, ny, nx], sides) = (self.blocks(), self.sides);
        (0..nz * ny * nx).map(move |i| [i / nx / ny * sides[0], i / nx % ny * sides[1], i % nx * sides[2]])
    }

    fn shape(&self, origin: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|k| self.sides[k].min(self.extents[k] - origin[k]))
    }

    /// The words of the parts, element by element.
    fn words(&self, raw: &[u8]) -> Vec<i64> {
        raw.chunks_exact(self.element.bytes).map(|bytes| self.element.word(bytes)).collect()
    }

    /// The payload for the array `raw`, with all checks zero.
    pub fn encode(&self, raw: &[u8]) -> Vec<u8> {
        let words = self.words(raw);
        let fills = self.bound.fill.as_ref().map(|fill| self.words(fill));
        let bound = match self.bound.mode {
            Mode::Rel => range::bound(self.dtype, self.bound.value, &words, fills.as_deref()),
            _ => self.bound.value,
        };
        let codes = Codes::new(self.dtype, self.bound.mode, bound);
        let (mut table, mut data) = (vec![], vec![]);
        let [_, dy, dx] = self.extents;
        for origin in self.origins() {
            let shape = self.shape(origin);
            let [sz, sy, sx] = shape;
            for part in 0..self.n_parts {
                let word = |i: usize| {
                    let (z, y, x) = (origin[0] + i / sx / sy, origin[1] + i / sx % sy, origin[2] + i % sx);
                    words[((z * dy + y) * dx + x) * self.n_parts + part]
                };
                let words: Vec<i64> = (0..sz * sy * sx).map(word).collect();
                data.extend(self.encode_block(&words, shape, &codes, fills.as_ref().map(|fills| fills[part])));
                table.extend((data.len() as u32 / 4).to_le_bytes());
                table.extend([0; 4]);
            }
        }
        [bound.to_le_bytes().to_vec(), table, data].concat()
    }

    /// The bytes of an element with this word.
    fn bytes(&self, word: i64) -> Vec<u8> {
        word.to_le_bytes()[..self.element.bytes].to_vec()
    }

    /// The bytes of this word.
    fn word_bytes(&self, word: i64) -> Vec<u8> {
        word.to_le_bytes()[..self.element.word_bits() as usize / 8].to_vec()
    }

    fn constant(&self, word: i64) -> Vec<u8> {
        if word == 0 { vec![] } else { [head(CONST, &[]), self.word_bytes(word)].concat() }
    }

    fn encode_block(&self, words: &[i64], shape: [usize; 3], codes: &Codes, fill: Option<i64>) -> Vec<u8> {
        if words.iter().all(|&word| word == words[0]) {
            return self.constant(words[0]);
        }
        let numbers = self.in_codes(words, shape, codes, fill);
        if let Some(Numbers { v, h: 0, .. }) = &numbers
            && v.iter().all(|&code| code == v[0])
        {
            return self.constant(codes.stands_for(v[0]));
        }
        let Numbers { v, h, exceptions } =
            numbers.unwrap_or_else(|| Numbers { v: words.to_vec(), h: WORDS, exceptions: vec![] });

        let w = self.element.word_bits();
        let tails = vec![(0, 0); v.len()];
        let v = v.iter().map(|&v| wrap(v, w)).collect();
        let block = Block { v, tails, is_masked: None, shape, w, rows: Rows::Sampled, rule: RULE };
        let (_, orders) = block.choose(false);
        let [z, y, x]: Orders = orders;
        let base = block.base(orders);
        let r = block.predict(orders, base);

        let table = widths::table(&r);
        let h = h | u16::from(x) | u16::from(y) << 3 | u16::from(z) << 6 | (table.len() as u16 - 1) << 9;
        let widths: Vec<u8> = table.iter().map(|&width| width as u8).collect();
        let (entries, groups) = widths::encode(&r, &table);
        let sections = [head(h, &widths), self.word_bytes(base), exceptions, filled_up(entries), filled_up(groups)];
        let block = sections.concat();
        let elements: Vec<u8> = words.iter().flat_map(|&word| self.bytes(word)).collect();
        let raw = filled_up([head(RAW, &[]), elements].concat());
        if block.len() < raw.len() { block } else { raw }
    }

    /// The block in codes; `None` if the block has words.
    fn in_codes(&self, words: &[i64], shape: [usize; 3], codes: &Codes, fill: Option<i64>) -> Option<Numbers> {
        let m = words.len();
        let code = |&word: &i64| if Some(word) == fill { None } else { codes.code(word) };
        let coded: Vec<Option<codes::Code>> = words.iter().map(code).collect();
        let hole = (0..m).find(|&i| coded[i].is_none()).map(|i| words[i]);
        let is_hole: Vec<bool> = (0..m).map(|i| coded[i].is_none() && Some(words[i]) == hole).collect();
        let is_other = |i: usize| match coded[i] {
            None => !is_hole[i],
            Some(code) => !code.is_within || fill.is_some_and(|fill| codes.stands_for(code.k) == fill),
        };
        let others: Vec<usize> = (0..m).filter(|&i| is_other(i)).collect();
        let first = coded.iter().flatten().next()?;
        if 8 * others.len() > m {
            return None;
        }

        let mut last = first;
        let mut v = vec![];
        for code in &coded {
            last = code.as_ref().unwrap_or(last);
            v.push(last.k);
        }
        let (mut h, mut exceptions) = (0, vec![]);
        if let Some(word) = hole {
            h |= HOLES;
            let (is_coded, bitmap) = bitmap::of_block(&is_hole, shape);
            let k = is_hole.iter().filter(|&&is_hole| is_hole).count();
            exceptions.extend(self.word_bytes(word));
            exceptions.extend((k as u16).to_le_bytes());
            exceptions.extend((bitmap.len() as u16 | u16::from(is_coded) << 15).to_le_bytes());
            exceptions.extend(filled_up(bitmap));
        }
        if !others.is_empty() {
            h |= OTHERS;
            let numbers = [others.len()].into_iter().chain(others.iter().copied());
            exceptions.extend(filled_up(numbers.flat_map(|n| (n as u16).to_le_bytes()).collect()));
            exceptions.extend(filled_up(others.iter().flat_map(|&i| self.bytes(words[i])).collect()));
        }
        Some(Numbers { v, h, exceptions })
    }
}

/// The first section of a block.
fn head(h: u16, widths: &[u8]) -> Vec<u8> {
    filled_up([&h.to_le_bytes()[..], widths].concat())
}

/// The bytes, zero-padded to a multiple of 4.
fn filled_up(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
