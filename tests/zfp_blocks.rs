//! Blocks of zfp: against streams of libzfp, and every level against the definition.

mod common;

use common::zfp::{Vector, decode, encode, vectors};
use common::{assert_same_bytes, sha256};
use gridz::codec::zfp::block::Value;
use gridz::cpu::level::Level;

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
    fn check<T: Value>(level: Level, vector: &Vector) {
        let Vector { name, extents, numbers, .. } = vector;
        let stream = encode::<T>(level, extents, numbers, &elements(&vector.raw));
        assert_same_bytes(&stream, &vector.stream, name);
        let decoded = bytes(&decode::<T>(level, extents, numbers, &vector.stream));
        assert_eq!(sha256(&decoded), vector.decoded_sha256, "{name}");
    }
    for vector in vectors("all_streams_of_libzfp_both_ways").unwrap_or_default() {
        for level in Level::all() {
            if vector.is_double { check::<f64>(level, &vector) } else { check::<f32>(level, &vector) }
        }
    }
}
