//! Encodes and decodes whole arrays as zfp streams, block by block; and loads streams of libzfp,
//! which are not part of the project.

use gridz_codecs::codec::zfp::block::{self, BitWriter, Parameters, Value};
use gridz_codecs::codec::zfp::numbers::{Numbers, REVERSIBLE};
use gridz_codecs::cpu::isa::Isa;
use serde::Deserialize;

use super::{sha256, shared};

#[derive(Deserialize)]
struct Manifest {
    arrays: Vec<Row>,
    blob: String,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    dtype: String,
    shape_c_order: Vec<usize>,
    raw: Place,
    sha256: String,
    streams: Vec<StreamRow>,
}

#[derive(Deserialize)]
struct StreamRow {
    mode: String,
    param: Option<f64>,
    stream: Place,
    sha256: String,
    decoded_sha256: String,
}

#[derive(Deserialize)]
struct Place {
    offset: usize,
    len: usize,
}

impl Place {
    fn of(&self, blob: &[u8]) -> Vec<u8> {
        blob[self.offset..self.offset + self.len].to_vec()
    }
}

/// An array and its stream.
pub struct Vector {
    pub name: String,
    pub is_double: bool,
    pub extents: Vec<usize>,
    pub numbers: Numbers,
    /// The request to libzfp, in gridz's text form.
    pub asked: String,
    pub raw: Vec<u8>,
    pub stream: Vec<u8>,
    pub decoded_sha256: String,
}

/// All 488 vectors, or `None` if they are not available: then `test` is skipped, see [`shared`].
pub fn vectors(test: &str) -> Option<Vec<Vector>> {
    let folder = shared(test)?.join("vectors/zfp");
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
    let blob = std::fs::read(folder.join(manifest.blob)).unwrap();
    let mut vectors = Vec::new();
    for row in manifest.arrays {
        let raw = row.raw.of(&blob);
        assert_eq!(sha256(&raw), row.sha256, "{}", row.name);
        for stream in row.streams {
            let name = format!("{} {} {:?}", row.name, stream.mode, stream.param);
            let bytes = stream.stream.of(&blob);
            assert_eq!(sha256(&bytes), stream.sha256, "{name}");
            vectors.push(Vector {
                name,
                is_double: row.dtype == "f64",
                extents: row.shape_c_order.clone(),
                numbers: numbers(&stream.mode, stream.param.unwrap_or(0.0), row.shape_c_order.len()),
                asked: match (stream.mode.as_str(), stream.param) {
                    ("accuracy", Some(value)) => format!("zfp,abs={value}"),
                    (mode, Some(value)) => format!("zfp,{mode}={value}"),
                    _ => "zfp".to_owned(),
                },
                raw: raw.clone(),
                stream: bytes,
                decoded_sha256: stream.decoded_sha256,
            });
        }
    }
    assert_eq!(vectors.len(), 488);
    Some(vectors)
}

/// The numbers that libzfp derives from a mode, for floats.
pub fn numbers(mode: &str, value: f64, rank: usize) -> Numbers {
    let default = Numbers::DEFAULT;
    match mode {
        "reversible" => Numbers { minexp: REVERSIBLE, ..default },
        "rate" => {
            let bits = (4f64.powi(rank as i32) * value + 0.5).floor() as u32;
            Numbers { minbits: bits, maxbits: bits, ..default }
        }
        "precision" => Numbers { maxprec: value as u32, ..default },
        "accuracy" => Numbers { minexp: value.log2().floor() as i32, ..default },
        _ => panic!("no mode {mode}"),
    }
}

/// For every block of an array, the indices of its elements, and whether each is padding. Padding
/// has the index of the element that it copies.
pub fn blocks(extents: &[usize]) -> Vec<Vec<(usize, bool)>> {
    let Some((&extent, inner)) = extents.split_first() else { return vec![vec![(0, false)]] };
    let (inner_blocks, stride) = (blocks(inner), inner.iter().product::<usize>());
    let mut all = Vec::new();
    for start in (0..extent).step_by(4) {
        for block in &inner_blocks {
            let row = |k: usize| {
                let present = (extent - start).min(4);
                let from = if k < present { k } else { [0, 0, 1, 0][k] };
                // The element to be copied may itself be outside the array.
                let from = if from < present { from } else { 0 };
                block.iter().map(move |&(at, is_pad)| ((start + from) * stride + at, is_pad || k >= present))
            };
            all.push((0..4).flat_map(row).collect());
        }
    }
    all
}

/// Encodes an array of floats to a stream.
pub fn encode<T: Value>(level: Isa, extents: &[usize], numbers: &Numbers, array: &[T]) -> Vec<u8> {
    let numbers = &Parameters { numbers, are_integers: false };
    let mut bytes = vec![0xee; (array.len() * 4usize.pow(extents.len() as u32) * 10 + 64).next_multiple_of(8)];
    let mut out = BitWriter::new(&mut bytes, 0);
    for block in blocks(extents) {
        let elements: Vec<T> = block.iter().map(|&(at, _)| array[at]).collect();
        let start = out.position();
        let n_bits = block::encode(level, extents.len(), numbers, &elements, &mut out, None);
        assert_eq!(out.position() - start, n_bits as usize);
    }
    assert!(!out.ran_out());
    let n_bytes = out.position().div_ceil(64) * 8;
    out.finish();
    bytes.truncate(n_bytes);
    bytes
}

/// Decodes a stream of floats.
pub fn decode<T: Value>(level: Isa, extents: &[usize], numbers: &Numbers, stream: &[u8]) -> Vec<T> {
    let numbers = &Parameters { numbers, are_integers: false };
    let mut array = vec![T::default(); extents.iter().product()];
    let mut at = [0];
    let mut elements = vec![T::default(); 4usize.pow(extents.len() as u32)];
    for block in blocks(extents) {
        block::decode(level, extents.len(), numbers, stream, &mut at, &mut elements);
        for (&(at, is_pad), &element) in block.iter().zip(&elements) {
            if !is_pad {
                array[at] = element;
            }
        }
    }
    array
}
