//! Compares encoders with second, naive ones; see [`ndzip`] and [`lorenzo`].

#[path = "../common/mod.rs"]
mod common;
mod lorenzo;
mod ndzip;

use std::io::Write;
use std::path::Path;

use common::generate::{GENERATORS, Input};
use common::vectors::vectors;
use common::{assert_same_bytes, cases, sha256};
use gridz::DType;
use gridz_codecs::cpu::pool::Pool;
use ndzip::Ndzip;
use proptest::prelude::*;

/// Extents of rank 1 to 5 with few elements or some blocks.
fn extents_of_blocks() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        (1..20_000u64).prop_map(|n| vec![n]),
        (1..200u64, 1..100u64).prop_map(|(y, x)| vec![y, x]),
        (1..40u64, 1..20u64, 1..40u64).prop_map(|(z, y, x)| vec![z, y, x]),
        (1..4u64, 1..4u64, 1..3000u64).prop_map(|(z, y, x)| vec![z, y, x]),
        prop::collection::vec(1..8u64, 4..=5),
    ]
}

fn oracle(dtype: DType, extents: &[u64]) -> Ndzip {
    Ndzip::new(8 * dtype.size().unwrap() as usize, extents)
}

fn serial() -> Pool {
    Pool::new(1)
}

/// The oracle itself is correct: it produces every stream of the published implementation.
#[test]
fn the_oracle_equals_all_reference_vectors() {
    for vector in vectors("the_oracle_equals_all_reference_vectors").unwrap_or_default() {
        let oracle = oracle(vector.dtype, &vector.extents);
        assert_same_bytes(&oracle.encode(&vector.raw), &vector.stream, &vector.name);
        assert_same_bytes(&oracle.decode(&vector.stream).unwrap(), &vector.raw, &vector.name);
    }
}

/// Every row of `vectors.toml`, from any source, equals the oracle's stream.
#[test]
fn the_oracle_equals_the_committed_hashes() {
    for row in rows() {
        let input: Input = row.clone().try_into().unwrap();
        let (dtype, raw) = (input.array().dtype(), input.bytes());
        let stream = oracle(dtype, &input.extents).encode(&raw);
        assert_eq!(row["stream_sha256"].as_str(), Some(sha256(&stream).as_str()), "{input:?}");
    }
}

fn rows() -> Vec<toml::Value> {
    let rows: toml::Table = toml::from_str(include_str!("../vectors.toml")).unwrap();
    rows["vector"].as_array().unwrap().clone()
}

/// Extents of rank 1 to 3 that have no block, some, or many, with and without a border.
fn extents() -> impl Strategy<Value = Vec<u64>> {
    let around = |side: u64, most: u64| {
        prop_oneof![1..side, Just(side), Just(side + 1), Just(2 * side - 1), side..=most * side + 3]
    };
    prop_oneof![
        around(4096, 5).prop_map(|n| vec![n]),
        (around(64, 3), around(64, 3)).prop_map(|(a, b)| vec![a, b]),
        (around(16, 3), around(16, 3), around(16, 3)).prop_map(|(a, b, c)| vec![a, b, c]),
    ]
}

fn input() -> impl Strategy<Value = (DType, Input)> {
    let dtype = prop::sample::select(vec![DType::F32, DType::F64]);
    (dtype, prop::sample::select(&GENERATORS[..]), extents(), any::<u32>()).prop_map(
        |(dtype, generator, extents, seed)| {
            (dtype, Input { seed: u64::from(seed), ..Input::new(generator, dtype, &extents) })
        },
    )
}

/// Ways to damage a stream.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Word(prop::sample::Index, u32),
    Cut(prop::sample::Index),
    Append(u8),
}

impl Damage {
    fn apply(&self, stream: &mut Vec<u8>) {
        match self {
            Damage::Flip(at, bit) => {
                let at = at.index(stream.len());
                stream[at] ^= 1 << bit;
            }
            Damage::Word(at, word) => {
                let at = at.index(stream.len().div_ceil(4)) * 4;
                let n = (stream.len() - at).min(4);
                stream[at..at + n].copy_from_slice(&word.to_le_bytes()[..n]);
            }
            Damage::Cut(at) => stream.truncate(at.index(stream.len())),
            Damage::Append(n) => stream.extend(std::iter::repeat_n(0, usize::from(*n))),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => (any::<prop::sample::Index>(), any::<u32>()).prop_map(|(at, word)| Damage::Word(at, word)),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => (1..20u8).prop_map(Damage::Append),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn both_encoders_and_decoders_agree((dtype, input) in input()) {
        let raw = input.bytes();
        let stream = oracle(dtype, &input.extents).encode(&raw);
        assert_same_bytes(&common::ndzip::encode(dtype, &input.extents, &raw, &serial()), &stream, "stream");
        let back = common::ndzip::decode(dtype, &input.extents, &stream, &serial());
        assert_same_bytes(&back.unwrap(), &raw, "crate's decoder");
        assert_same_bytes(&oracle(dtype, &input.extents).decode(&stream).unwrap(), &raw, "oracle's decoder");
    }

    /// For a damaged stream, both decoders return the same array, or both refuse it.
    #[test]
    fn both_decoders_judge_damage_alike((dtype, input) in input(), damage in damage()) {
        let mut stream = oracle(dtype, &input.extents).encode(&input.bytes());
        damage.apply(&mut stream);
        let ours = common::ndzip::decode(dtype, &input.extents, &stream, &serial());
        match oracle(dtype, &input.extents).decode(&stream) {
            Some(array) => assert_same_bytes(&ours.unwrap(), &array, "decoded damage"),
            None => prop_assert!(ours.is_err(), "the crate accepts a stream that it must refuse"),
        }
    }
}

/// Appends the oracle's rows that `vectors.toml` lacks: `cargo test --test oracle -- --ignored
/// bless`.
#[test]
#[ignore = "writes tests/vectors.toml"]
fn bless() {
    let known: Vec<Input> = rows().into_iter().map(|row| row.try_into().unwrap()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors.toml");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    for dtype in [DType::F32, DType::F64] {
        for (generator, extents) in [
            ("walk", &[1][..]),
            ("random", &[4095]),
            ("walk", &[12305]),
            ("special", &[8193]),
            ("ramp", &[63, 64]),
            ("walk", &[64, 127]),
            ("ramp", &[130, 201]),
            ("random", &[65, 64]),
            ("special", &[129, 66]),
            ("walk", &[200, 64]),
            ("walk", &[16, 16, 15]),
            ("ramp", &[17, 16, 40]),
            ("random", &[16, 17, 18]),
            ("wave", &[33, 35, 37]),
            ("special", &[20, 33, 16]),
        ] {
            let input = Input::new(generator, dtype, extents);
            if known.contains(&input) {
                continue;
            }
            let raw = input.bytes();
            let stream = oracle(dtype, extents).encode(&raw);
            let (name, raw, stream) = (dtype.name(), sha256(&raw), sha256(&stream));
            write!(
                file,
                "\n[[vector]]\nsource = \"oracle\"\ngenerator = \"{generator}\"\ndtype = \"{name}\"\n\
                 extents = {extents:?}\nraw_sha256 = \"{raw}\"\nstream_sha256 = \"{stream}\"\n"
            )
            .unwrap();
        }
    }
}
