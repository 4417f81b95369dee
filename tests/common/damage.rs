//! Damaged frames that reach the decoders: requests for every codec, level and mode, frames of small arrays, and ways to damage
//! a payload.

use std::collections::BTreeMap;

use gridz::{Array, DType, Mode, Request, Result};
use gridz_codecs::codec::registry::{self, CODECS, Entry};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::region::Region;

use super::compress_at_level;
use super::decoder::Decoder;
use super::generate::{Input, Xorshift};
use super::repair::{close_table, repair, reseal};

/// Requests for every codec, level and mode of the registry, with each kind of missing elements if
/// the codec supports them, and for the parameters of multigrid.
pub fn requests() -> Vec<Request> {
    let mut texts = Vec::new();
    for entry in CODECS {
        for (level, &mode) in
            entry.level_numbers().flat_map(|level| entry.modes.iter().map(move |mode| (level, mode)))
        {
            let mode_text = match mode {
                Mode::Lossless => "",
                Mode::Abs => ",abs=1e-3",
                Mode::Rel => ",rel=1e-4",
                Mode::Rate => ",rate=9.5",
                Mode::Precision => ",precision=14",
                Mode::Pwrel => ",pwrel=1e-3",
                Mode::Rms => ",rms=1e-2",
                Mode::Expert => ",expert,minbits=20,maxbits=300",
            };
            let level_text = if entry.levels.is_empty() { String::new() } else { format!(",level={level}") };
            let text = format!("{}{mode_text}{level_text}", entry.name);
            if entry.wants_missing && mode != Mode::Lossless {
                // The first one is written as version 1 of the codec, the others as version 2.
                for missing in [",fill=99", ",fill=99,fill=0", ",fill=99,valid_min=1,valid_max=110"] {
                    texts.push(format!("{text}{missing}"));
                }
            }
            texts.push(text);
        }
    }
    let further = [
        "quant,abs=40",
        "multigrid,abs=1e-3,layers=3",
        "multigrid,rms=1e-2,layers=2",
        "multigrid,abs=1e-3,layers=2,fill=99,fill=0",
        "multigrid,rms=1e-2,s=-0.25",
    ];
    texts.extend(further.map(String::from));
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// True if a codec supports such arrays with this request: types, bounds and missing elements must
/// be compatible.
pub fn is_possible(spec: &Request, array: &Array) -> bool {
    let entry = registry::find(spec.codec()).unwrap();
    entry.dtypes.contains(&array.dtype()) && gridz::compress_bound(array, spec).is_ok()
}

/// The frame, of the request's own level, of an array with some of the request's missing elements.
pub fn frame_of(spec: &Request, input: &Input, context: &gridz::Context) -> Vec<u8> {
    let (array, mut raw) = (input.array(), input.bytes());
    let missing = spec.missing_elements(&array).unwrap();
    let size = array.element_size() as usize;
    for (i, fill) in missing.fills().enumerate() {
        raw.chunks_exact_mut(size)
            .skip(3 + i)
            .step_by(11 + 3 * i)
            .for_each(|element| element.copy_from_slice(fill));
    }
    compress_at_level(&array, spec, &raw, context)
}

/// Decodes a box at a random corner; also returns the expected elements from `whole`.
pub fn decode_box(
    decoder: &Decoder,
    pool: &Pool,
    random: &mut Xorshift,
    verify: bool,
    whole: &[u8],
) -> (Result<Option<Checksum>>, Vec<u8>, Vec<u8>) {
    let size = decoder.array.element_size() as usize;
    let extents = decoder.shape.extents();
    let start: Vec<u64> = extents.iter().map(|&n| random.below(n)).collect();
    let count: Vec<u64> = extents.iter().zip(&start).map(|(n, at)| 1 + random.below(n - at)).collect();
    let region =
        Region::new(&decoder.shape, &start, &count).unwrap().folded(Fold::Merge, decoder.entry.codec.max_rank());
    let n = count.iter().product::<u64>();
    let mut part = vec![0; n as usize * size];
    let job = decoder.job(pool, Isa::best(), verify);
    let result = decoder.entry.codec.decode_region(&job, decoder.payload, &region, &mut part);
    let expected = (0..n).flat_map(|i| {
        let (mut rest, mut place, mut stride) = (i, 0, 1);
        for axis in (0..extents.len()).rev() {
            place += (start[axis] + rest % count[axis]) * stride;
            rest /= count[axis];
            stride *= extents[axis];
        }
        whole[place as usize * size..][..size].iter().copied()
    });
    (result, part, expected.collect())
}

/// Error-prone values.
fn edge(random: &mut Xorshift, n_bits: u32, old: u64, n: usize) -> u64 {
    let mask = u64::MAX >> (64 - n_bits);
    let value = match random.below(10) {
        0 => 0,
        1 => 1,
        2 => mask,
        3 => mask >> 1,
        4 => old.wrapping_add(1),
        5 => old.wrapping_sub(1),
        6 => 1 << random.below(u64::from(n_bits)),
        7 => n as u64,
        8 => old ^ 1 << random.below(u64::from(n_bits)),
        _ => random.next(),
    };
    value & mask
}

/// A damaged copy of a frame, with valid checks and checksums. `other` is another frame of the same
/// codec.
pub fn damaged(frame: &[u8], other: &[u8], random: &mut Xorshift) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    let (rank, n_params) = (usize::from(frame[9]), usize::from(frame[11]));
    let header = gridz_codecs::format::header::header_bytes(frame[9], n_params);
    let n = frame.len() - header;
    // An offset in the payload, often near its start, which has heads and tables.
    let place = |random: &mut Xorshift, n: usize| match random.below(3) {
        0 => header + random.below(n.min(96) as u64) as usize,
        _ => header + random.below(n as u64) as usize,
    };
    match random.below(16) {
        0..=2 if n > 0 => {
            for _ in 0..1 + random.below(3) {
                bytes[place(random, n)] ^= 1 << random.below(8);
            }
        }
        3..=5 if n > 0 => {
            for _ in 0..1 + random.below(4) {
                let at = place(random, n);
                bytes[at] = edge(random, 8, bytes[at].into(), n) as u8;
            }
        }
        6..=8 if n >= 8 => {
            let width = [2, 4, 8][random.below(3) as usize];
            let at = header + (place(random, n) - header) / width * width;
            let at = at.min(header + n - width);
            let mut old = [0; 8];
            old[..width].copy_from_slice(&bytes[at..at + width]);
            let new = edge(random, 8 * width as u32, u64::from_le_bytes(old), n);
            bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
        }
        9 if n > 0 => {
            let at = place(random, n);
            let end = (at + 1 + random.below(24) as usize).min(header + n);
            let kind = random.below(3);
            bytes[at..end].fill_with(|| [0, 0xff, random.next() as u8][kind as usize]);
        }
        10 if n > 0 => {
            let (from, to) = (place(random, n), place(random, n));
            let length = (1 + random.below(40) as usize).min(header + n - from.max(to));
            bytes.copy_within(from..from + length, to);
        }
        11 => {
            bytes.truncate(header + random.below(n as u64 + 1) as usize);
            finish(&mut bytes, header, random.below(4) > 0);
        }
        12 => {
            let kind = random.below(2);
            let length = bytes.len() + 1 + random.below(64) as usize;
            bytes.resize_with(length, || if kind == 0 { 0 } else { random.next() as u8 });
            finish(&mut bytes, header, random.below(4) > 0);
        }
        13 if n > 0 => {
            let at = place(random, n);
            bytes[at..].fill_with(|| random.next() as u8);
        }
        14 if n_params > 0 => {
            bytes[40 + 8 * rank + random.below(n_params as u64) as usize] ^= 1 << random.below(8);
        }
        _ => {
            // The first bytes of one payload, followed by bytes of another one.
            let of_other = gridz_codecs::format::header::header_bytes(other[9], usize::from(other[11]));
            let at = random.below(n as u64 + 1) as usize;
            let rest = other.get(of_other + at..).unwrap_or_default();
            bytes.truncate(header + at);
            bytes.extend(rest);
            finish(&mut bytes, header, random.below(2) > 0);
        }
    }
    reseal(&mut bytes);
    bytes
}

/// Writes the payload's length to the header; with `closes_table`, also to the end of the last
/// block.
fn finish(frame: &mut Vec<u8>, header: usize, closes_table: bool) {
    let set_length = |frame: &mut [u8]| {
        let n_bytes = (frame.len() - header) as u64;
        frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
        repair(frame);
    };
    set_length(frame);
    if closes_table {
        close_table(frame);
        set_length(frame);
    }
}

/// The error messages of decoders, without their numbers, and the count of each.
#[derive(Debug, Default)]
pub struct Answers(pub BTreeMap<String, u64>);

impl Answers {
    pub fn add(&mut self, answer: &str) {
        let text: String = answer.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        let mut short = String::new();
        for c in text.chars() {
            if c != '#' || !short.ends_with('#') {
                short.push(c);
            }
        }
        *self.0.entry(short).or_default() += 1;
    }
}

/// Samples of a codec at a level: small frames of every request, of every supported type, of
/// several shapes. Every request and type has some.
pub fn samples(entry: &Entry, level: u16, context: &gridz::Context) -> Vec<Vec<u8>> {
    const RULES: [&str; 19] = [
        "stencil",
        "columns",
        "pointers",
        "cubic",
        "field",
        "ramp",
        "wave",
        "gaps",
        "few",
        "ripples",
        "field_gaps",
        "decimals",
        "walk",
        "islands",
        "jumps",
        "special",
        "mesh",
        "field_nan",
        "steps",
    ];
    const SHAPES: [&[u64]; 8] =
        [&[300], &[20, 21], &[6, 7, 8], &[4, 5, 3, 6], &[1], &[4500], &[65, 66], &[17, 16, 18]];
    let mut samples = Vec::new();
    let mut turn = 0;
    for spec in requests().iter().filter(|spec| (spec.codec(), spec.level()) == (entry.id, level)) {
        let mut n_of_spec = 0;
        for &dtype in entry.dtypes {
            let mut n_of_type = 0;
            for (shape, extents) in SHAPES.iter().enumerate() {
                let n_rules = match shape {
                    0..3 => 4,
                    // ndzip stores arrays without a complete block.
                    5.. if entry.name == "ndzip" => 8,
                    _ => 1,
                };
                for _ in 0..n_rules {
                    turn += 1;
                    let rule = match (dtype, turn % 3) {
                        (DType::U8 | DType::I8, 0) => "few",
                        (DType::Opaque, _) => "random",
                        _ => RULES[turn % RULES.len()],
                    };
                    let input = Input::new(rule, dtype, extents);
                    let input = Input { big_endian: turn % 7 == 0 && dtype != DType::Opaque, ..input };
                    if !is_possible(spec, &input.array()) {
                        continue;
                    }
                    let frame = frame_of(spec, &input, context);
                    // Incompressible arrays are stored.
                    if frame[5] == entry.id {
                        samples.push(frame);
                        n_of_type += 1;
                    }
                }
            }
            let is_taken = is_possible(spec, &Input::new("ramp", dtype, &[300]).array());
            assert!(n_of_type > 0 || !is_taken, "{spec} {}: {n_of_type} frames", dtype.name());
            n_of_spec += n_of_type;
        }
        assert!(n_of_spec > 5, "{spec}: {n_of_spec} frames");
    }
    samples
}
