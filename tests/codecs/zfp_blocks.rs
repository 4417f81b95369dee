//! Blocks of zfp: compared with libzfp's streams, and every level compared with the definition.

use crate::common::zfp::{self, Vector, vectors};
use crate::common::{assert_same_bytes, sha256};
use gridz_codecs::codec::zfp::block::{BitWriter, GROUP, Parameters, Value, decode, encode};
use gridz_codecs::codec::zfp::numbers::{Numbers, REVERSIBLE};
use gridz_codecs::cpu::isa::Isa;

fn elements<T: Value>(raw: &[u8]) -> Vec<T> {
    raw.chunks_exact(T::BYTES).map(T::read).collect()
}

fn bytes<T: Value>(elements: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; elements.len() * T::BYTES];
    for (bytes, element) in bytes.chunks_exact_mut(T::BYTES).zip(elements) {
        element.write(bytes);
    }
    bytes
}

#[test]
fn all_streams_of_libzfp_both_ways() {
    fn check<T: Value>(level: Isa, vector: &Vector) {
        let Vector { name, extents, numbers, .. } = vector;
        let stream = zfp::encode::<T>(level, extents, numbers, &elements(&vector.raw));
        assert_same_bytes(&stream, &vector.stream, name);
        let decoded = bytes(&zfp::decode::<T>(level, extents, numbers, &vector.stream));
        assert_eq!(sha256(&decoded), vector.decoded_sha256, "{name}");
    }
    for vector in vectors("all_streams_of_libzfp_both_ways").unwrap_or_default() {
        for level in Isa::all() {
            if vector.is_double { check::<f64>(level, &vector) } else { check::<f32>(level, &vector) }
        }
    }
}

/// Random blocks of every kind that a coder may encounter: of floats, or of integers as the floats with their bits.
fn blocks<T: Value>(seed: u64, n: usize, are_integers: bool, is_reversible: bool) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let kind = random() % 7;
    let scale = [1e-3, 1.0, 1e6, 1e30][random() as usize % 4];
    let mut element = |i: usize| {
        let noise = random() as i64 as f64 / i64::MAX as f64;
        let value = match kind {
            0 => (i as f64 * 0.1).sin() * scale,
            1 => noise * scale,
            2 => noise * (noise * 80.0).exp(),
            3 if !random().is_multiple_of(4) => 0.0,
            4 => (noise * 8.0).round(),
            5 => noise * 1e-40,
            _ => (i as f64 * 0.03).cos() + noise * 1e-3,
        };
        let special = [f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE, -1e38][random() as usize % 5];
        let is_special = is_reversible && kind == 6 && random().is_multiple_of(16);
        element_of::<T>(if is_special { special } else { value }, are_integers, random())
    };
    (0..n).map(&mut element).collect()
}

/// A float of this value, or an integer of the same relative magnitude in its type.
fn element_of<T: Value>(value: f64, is_integer: bool, random: u64) -> T {
    match (is_integer, T::BYTES) {
        (false, 4) => T::read(&(value as f32).to_le_bytes()),
        (false, _) => T::read(&value.to_le_bytes()),
        (true, 4) => T::read(&((value * 1e3) as i32 >> 2).to_le_bytes()),
        (true, _) if random.is_multiple_of(2) => T::read(&((value * 1e12) as i64 >> 2).to_le_bytes()),
        _ => T::read(&((value * 1e3) as i64 >> 2).to_le_bytes()),
    }
}

/// Streams that begin at any bit, of whole groups and shorter ones, in every mode. All levels write
/// the same bits, and read the same elements from them. These equal the definition's and, in
/// lossless modes, the original.
#[test]
fn levels_agree() {
    fn check<T: Value>(seed: u64, are_integers: bool) {
        let rank = 1 + seed as usize % 4;
        let n = 4usize.pow(rank as u32);
        let default = Numbers::DEFAULT;
        let bits = |rate: f64| ((n as f64 * rate) as u32).max(12);
        let numbers = match seed / 4 % 8 {
            0 => Numbers { minexp: REVERSIBLE, ..default },
            1 => Numbers { minexp: -10, ..default },
            2 => Numbers { minexp: 3, minbits: 40, ..default },
            3 => Numbers { maxprec: 1 + seed as u32 % 40, ..default },
            4 => Numbers { maxbits: bits(3.0), maxprec: 20, ..default },
            5 => Numbers { minbits: bits(0.7), maxbits: bits(0.7), ..default },
            6 => Numbers { minbits: bits(8.0), maxbits: bits(8.0), ..default },
            _ => Numbers { minbits: bits(29.3), maxbits: bits(29.3), ..default },
        };
        let n_blocks = if seed.is_multiple_of(3) { GROUP / n } else { 1 + seed as usize % (GROUP / n) };
        let elements = blocks::<T>(seed, n * n_blocks, are_integers, numbers.is_reversible());
        let numbers = Parameters { numbers: &numbers, are_integers };
        let start = seed as usize % 131;
        let (mut wanted, mut wanted_elements) = (Vec::new(), Vec::new());
        for level in Isa::all() {
            for room in [1 << 14, 1 << 17] {
                let mut stream = vec![0xff; room];
                let mut out = BitWriter::new(&mut stream, start);
                let mut checked = vec![T::default(); elements.len()];
                let decoded = Some(&mut checked[..]);
                let n_bits = encode(level, rank, &numbers, &elements, &mut out, decoded) as usize;
                let end = out.position();
                assert_eq!(end, start + n_bits);
                out.finish();
                stream.truncate(end.div_ceil(64) * 8);
                let mut again = vec![0xff; room];
                let mut out = BitWriter::new(&mut again, start);
                assert_eq!(encode(level, rank, &numbers, &elements, &mut out, None) as usize, n_bits);
                out.finish();
                let what = format!("{seed} {level:?} {rank} {are_integers} {:?}", *numbers);
                assert_same_bytes(&again[..stream.len()], &stream, &what);
                if wanted.is_empty() {
                    (wanted, wanted_elements) = (stream.clone(), bytes(&checked));
                }
                assert_same_bytes(&stream, &wanted, &what);
                assert_same_bytes(&bytes(&checked), &wanted_elements, &what);
                let mut decoded = vec![T::default(); elements.len()];
                let mut at = [start];
                decode(level, rank, &numbers, &stream, &mut at, &mut decoded);
                assert_eq!(at, [end], "{what}");
                assert_same_bytes(&bytes(&decoded), &wanted_elements, &what);
                if numbers.is_reversible() {
                    assert_same_bytes(&wanted_elements, &bytes(&elements), &what);
                }
            }
        }
    }
    for seed in 0..2000 {
        for are_integers in [false, true] {
            check::<f32>(seed, are_integers);
            check::<f64>(seed, are_integers);
        }
    }
}

/// Random bits, truncated anywhere: all levels read the same elements.
#[test]
fn rubbish_is_the_same_at_all_levels() {
    fn check<T: Value>(seed: u64, are_integers: bool, stream: &[u8]) {
        let rank = 1 + seed as usize % 4;
        let default = Numbers::DEFAULT;
        let numbers = match seed / 4 % 4 {
            0 => default,
            1 => Numbers { minbits: 100, maxbits: 100, ..default },
            2 => Numbers { maxbits: 77, minexp: -20, ..default },
            _ => Numbers { minexp: REVERSIBLE, ..default },
        };
        let numbers = Parameters { numbers: &numbers, are_integers };
        let mut wanted = None;
        for level in Isa::all() {
            let mut blocks = vec![T::default(); 16 * GROUP];
            // Sixteen sequences together, then four together and each of them alone.
            let starts: [usize; 16] =
                std::array::from_fn(|i| seed as usize % 70 + [0, 1, 40, 300][i % 4] + i / 4 * 777);
            let mut ends = starts;
            decode(level, rank, &numbers, stream, &mut ends, &mut blocks);
            let read = (ends, bytes(&blocks));
            for (i, blocks) in blocks.chunks_exact_mut(4 * GROUP).enumerate() {
                let four = 4 * i..4 * i + 4;
                let mut at: [usize; 4] = starts[four.clone()].try_into().unwrap();
                decode(level, rank, &numbers, stream, &mut at, blocks);
                assert_eq!(at, ends[four]);
            }
            assert!(read.1 == bytes(&blocks), "{seed} {level:?} {rank} {are_integers} {:?}", *numbers);
            for (i, blocks) in blocks.chunks_exact_mut(GROUP).enumerate() {
                let mut at = [starts[i]];
                decode(level, rank, &numbers, stream, &mut at, blocks);
                assert_eq!(at, [ends[i]]);
            }
            assert!(read.1 == bytes(&blocks), "{seed} {level:?} {rank} {are_integers} {:?}", *numbers);
            let wanted = wanted.get_or_insert_with(|| read.clone());
            assert!(*wanted == read, "{seed} {level:?} {rank} {are_integers} {:?}", *numbers);
        }
    }
    for seed in 0..2000u64 {
        let random = blocks::<f64>(7 * seed + 1, 64, true, false);
        let mut stream = bytes(&random);
        if seed.is_multiple_of(3) {
            stream.fill(if seed.is_multiple_of(2) { 0xff } else { 0x55 });
        }
        let stream = &stream[..seed as usize % 512];
        for are_integers in [false, true] {
            check::<f32>(seed, are_integers, stream);
            check::<f64>(seed, are_integers, stream);
        }
    }
}
