use super::*;
use crate::codec::BlockCounts;
use crate::codec::quant::MAX_PARTS;
use crate::codec::quant::block::{CONST, Coding, RAW, RAW_HEAD, WORDS};
use crate::codec::quant::params;
use crate::cpu::isa::Isa;
use crate::stage::blocks::layout::Form;
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::exceptions::ALIGNMENT;
use crate::stage::missing::MissingWords;
use crate::stage::quantize::{self, Quantizer};
use crate::stage::rows::{SimdWord, WithSimd, dispatch};
use crate::types::{DType, Shape};

const UNIT: usize = 4;

/// A block that is a whole array, and the quantization of its elements.
struct Case<W: Word> {
    shape: [usize; 3],
    elements: Vec<u8>,
    coding: Coding<W>,
}

struct Encode<'a, W: Word>(&'a Case<W>, &'a mut Work<W>, &'a mut [u8]);
struct Decode<'a, W: Word>(&'a Case<W>, &'a mut Work<W>, &'a [u8], &'a mut [u8]);

impl<W: Word> WithSimd<W> for Encode<'_, W> {
    type Output = usize;

    fn run<S: Simd<W>>(self, s: S) -> usize {
        let Self(Case { shape, elements, coding }, work, out) = self;
        let source = Source { bytes: elements, next: elements, row: shape[2], plane: shape[1] * shape[2], part: 0 };
        encode(s, work, coding, UNIT, &source, *shape, out)
    }
}

impl<W: Word> WithSimd<W> for Decode<'_, W> {
    type Output = Result<()>;

    fn run<S: Simd<W>>(self, s: S) -> Result<()> {
        let Self(Case { shape, coding, .. }, work, bytes, out) = self;
        let mut target = Target { bands: &mut [out], plane: Some(shape[1] * shape[2]), offset: 0, row: shape[2] };
        decode(s, work, coding, UNIT, *shape, bytes, &mut target)
    }
}

impl<W: SimdWord> Case<W> {
    fn new(dtype: DType, shape: [usize; 3], bound: f64, fill: Option<W>, word: impl Fn(usize) -> W) -> Self {
        let element = Element::of(dtype).unwrap();
        let words: Vec<W> = (0..shape.iter().product()).map(word).collect();
        let mut elements = vec![0; words.len() * element.bytes];
        element.store(&words, &mut elements);
        let quantizer = Quantizer::absolute(dtype, bound);
        Self {
            shape,
            elements,
            coding: Coding {
                element,
                quantizer,
                missing: fill
                    .map(|fill| [MissingWords::new(quantize::Numbers::of(dtype), &[fill], [None; 2]); MAX_PARTS]),
            },
        }
    }

    fn layout(&self) -> Layout {
        let form =
            Form { head_bytes: 8, unit: UNIT, row: params::QuantLevel::Max.row(), block_head: RAW_HEAD, parts: 1 };
        let shape = Shape::new(&self.shape.map(|n| n as u64)).unwrap();
        Layout::new(&shape, self.coding.element.bytes, params::QuantLevel::Max.log2_size(), form).unwrap()
    }

    /// The expected decoded elements.
    fn expected(&self) -> Vec<u8> {
        let element = self.coding.element;
        let mut words = vec![W::ZERO; self.elements.len() / element.bytes];
        element.load(&self.elements, &mut words);
        for word in &mut words {
            let Some(quantizer) = self.coding.quantizer else { continue };
            let coded = quantizer.code(crate::stage::rows::PORTABLE, [*word; LANES]);
            let value = quantizer.value_of(coded.codes[0]);
            let missing = self.coding.missing_of(0);
            if coded.are_coded & coded.are_within & 1 == 1
                && missing.is_none_or(|missing| !missing.has(value) && !missing.has(*word))
            {
                *word = value;
            }
        }
        let mut elements = vec![0; self.elements.len()];
        element.store(&words, &mut elements);
        elements
    }

    /// Encodes and decodes the case at every level. Returns the bytes of the block.
    fn check(&self) -> Vec<u8> {
        let layout = self.layout();
        let mut first: Option<Vec<u8>> = None;
        for level in Isa::all() {
            let mut out = vec![0xa5; layout.block_bound(self.elements.len() / self.coding.element.bytes)];
            let n_bytes = dispatch(level, Encode(self, &mut Work::new(&layout, true, level).unwrap(), &mut out));
            out.truncate(n_bytes);
            assert!(first.as_ref().is_none_or(|first| *first == out), "{level:?}");
            let mut back = vec![0x5a; self.elements.len()];
            dispatch(level, Decode(self, &mut Work::new(&layout, false, level).unwrap(), &out, &mut back)).unwrap();
            let header = out.first_chunk().map_or(CONST, |&header| u16::from_le_bytes(header));
            let mut elements = self.elements.chunks_exact(self.coding.element.bytes);
            let first_element = elements.next();
            let is_still = elements.all(|element| Some(element) == first_element);
            let is_exact = header == RAW || is_still || header & (RAW | WORDS) == WORDS;
            let expected = if is_exact { self.elements.clone() } else { self.expected() };
            assert!(back == expected, "{level:?} {:?}", self.shape);
            let mut counts = BlockCounts::default();
            count::<W>(&out, self.shape, self.coding.element, &mut counts).unwrap();
            first = Some(out);
        }
        first.unwrap()
    }

    /// Checks that decoding a damaged block does not panic.
    fn attack(&self, bytes: &[u8]) {
        let layout = self.layout();
        let mut work = Work::new(&layout, false, Isa::best()).unwrap();
        let mut back = vec![0; self.elements.len()];
        for i in (0..90).filter(|_| !bytes.is_empty()) {
            let mut other = bytes.to_vec();
            let at = if i < 60 { i * 5 % other.len() } else { i * 7919 % other.len() };
            other[at] = other[at].wrapping_add([1, 0x80, 0x7f, 0xff][i % 4]);
            let _ = dispatch(Isa::best(), Decode(self, &mut work, &other, &mut back));
            other.truncate(at / UNIT * UNIT);
            let _ = dispatch(Isa::best(), Decode(self, &mut work, &other, &mut back));
        }
    }
}

const SHAPES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [1, 1, 33],
    [1, 1, 5000],
    [1, 7, 100],
    [1, 40, 3],
    [1, 50, 61],
    [1, 9, 97],
    [20, 30, 3],
    [12, 2, 40],
    [9, 3, 16],
    [7, 11, 29],
    [5, 40, 126],
];

fn mixed(i: usize) -> u32 {
    let x = (i as u32).wrapping_mul(0x9e37_79b9);
    (x ^ x >> 15).wrapping_mul(0x85eb_ca6b)
}

/// A wave with a little noise, and optionally a spike, NaN and missing elements.
fn wave(i: usize, noise: f64, kind: usize) -> f64 {
    let value =
        (i as f64 / 31.0).sin() * 40.0 + (i as f64 / 977.0).cos() * 90.0 + f64::from(mixed(i) >> 24) * noise;
    match kind {
        1 if i % 97 < 40 => -999.0,
        2 if i % 61 == 5 => 1e35,
        3 if i % 97 < 40 => f64::NAN,
        4 if mixed(i) % 5 < 2 => f64::NAN,
        4 if mixed(i) % 50 == 3 => f64::INFINITY,
        5 => f64::from_bits(u64::from(mixed(i)) << 32 | u64::from(mixed(!i))),
        _ => value,
    }
}

#[test]
fn floats_come_back_within_the_bound() {
    for shape in SHAPES {
        for (noise, kind) in [(0.0, 0), (0.1, 0), (0.1, 1), (0.01, 2), (0.0, 3), (0.1, 4), (0.0, 5)] {
            for bound in [1e-3, 0.5, 30.0] {
                let fill = (kind == 1).then(|| (-999.0f32).to_bits());
                let case = Case::new(DType::F32, shape, bound, fill, |i| (wave(i, noise, kind) as f32).to_bits());
                case.attack(&case.check());
                let fill = (kind == 1).then(|| (-999.0f64).to_bits());
                let case = Case::new(DType::F64, shape, bound, fill, |i| wave(i, noise, kind).to_bits());
                case.check();
            }
        }
    }
}

#[test]
fn integers_come_back_within_the_bound() {
    for shape in SHAPES {
        for bound in [0.5, 7.0] {
            Case::<u32>::new(DType::U8, shape, bound, None, |i| wave(i, 0.1, 0) as u8 as u32).check();
            Case::<u32>::new(DType::I16, shape, bound, None, |i| wave(i, 0.1, 0) as i16 as u32).check();
            let large = Case::<u32>::new(DType::I32, shape, bound, None, |i| (wave(i, 0.0, 0) * 1e7) as i32 as u32);
            large.attack(&large.check());
            let all = Case::<u64>::new(DType::I64, shape, bound, None, |i| (wave(i, 0.1, 0) * 1e15) as i64 as u64);
            all.attack(&all.check());
            Case::<u64>::new(DType::U64, shape, bound, None, |i| u64::from(mixed(i)) << (i % 40)).check();
        }
    }
}

#[test]
fn blocks_without_codes_have_words() {
    let mut case = Case::new(DType::F32, [1, 60, 70], 1.0, None, |i| (i as f32).to_bits());
    case.coding.quantizer = None;
    let bytes = case.check();
    assert!(bytes[1] & (WORDS >> 8) as u8 != 0 && bytes.len() < case.elements.len());
}

#[test]
fn still_blocks_are_short() {
    let zeros = Case::<u32>::new(DType::F32, [4, 50, 60], 1.0, None, |_| 0);
    assert_eq!(zeros.check().len(), 0);
    let still = Case::<u32>::new(DType::F32, [4, 50, 60], 1.0, None, |i| (7.0 + (i % 3) as f32 / 10.0).to_bits());
    assert_eq!(still.check().len(), ALIGNMENT + 4);
}
