//! Compares ndzip payloads with the published implementation's.

use crate::common::ndzip::{decode, encode};
use crate::common::vectors::vectors;
use crate::common::{assert_same_bytes, compress, decompress, generate::Input, sha256};
use gridz::{Array, ByteOrder, Context, DType, Shape};
use gridz_codecs::cpu::pool::Pool;
use serde::Deserialize;

#[test]
fn all_reference_vectors_both_ways() {
    let pool = Pool::new(1);
    for vector in vectors("all_reference_vectors_both_ways").unwrap_or_default() {
        let stream = encode(vector.dtype, &vector.extents, &vector.raw, &pool);
        assert_same_bytes(&stream, &vector.stream, &vector.name);
        let decoded = |stream: &[u8]| decode(vector.dtype, &vector.extents, stream, &pool).unwrap();
        assert_same_bytes(&decoded(&vector.stream), &vector.raw, &vector.name);
        if let Some(pad) = vector.pad {
            // Other encoders may leave arbitrary bytes in the padding: readers ignore them.
            let mut stream = vector.stream.clone();
            stream[pad].fill(0xff);
            assert_same_bytes(&decoded(&stream), &vector.raw, &vector.name);
        }
    }
}

#[derive(Deserialize)]
struct Rebuilt {
    vector: Vec<RebuiltVector>,
}

#[derive(Deserialize)]
struct RebuiltVector {
    source: Source,
    #[serde(flatten)]
    input: Input,
    raw_sha256: String,
    stream_sha256: String,
}

/// The source of the stream.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Source {
    Reference,
    Oracle,
}

/// The same check for checkouts without the reference files: streams whose input can be regenerated
/// are compared by their hash.
#[test]
fn rebuilt_reference_vectors() {
    let vectors: Rebuilt = toml::from_str(include_str!("../vectors.toml")).unwrap();
    let count = |source| vectors.vector.iter().filter(|vector| vector.source == source).count();
    assert!(count(Source::Reference) >= 22, "only {} rows of the reference", count(Source::Reference));
    assert!(count(Source::Oracle) >= 20, "only {} rows of the oracle", count(Source::Oracle));
    for vector in &vectors.vector {
        let what = format!("{:?}", vector.input);
        let raw = vector.input.bytes();
        assert_eq!(sha256(&raw), vector.raw_sha256, "input of {what}");
        let dtype = vector.input.array().dtype();
        let stream = encode(dtype, &vector.input.extents, &raw, &Pool::new(1));
        assert_eq!(sha256(&stream), vector.stream_sha256, "stream of {what}");
        let back = decode(dtype, &vector.input.extents, &stream, &Pool::new(1)).unwrap();
        assert_same_bytes(&back, &raw, &what);
    }
}

/// The format does not depend on the number of threads.
#[test]
fn threads_do_not_change_a_byte() {
    for (dtype, extents) in [
        (DType::F32, &[1_500_000][..]),
        (DType::F32, &[1000, 1300]),
        (DType::F64, &[100, 113, 127]),
        (DType::F32, &[16, 300, 300]),
    ] {
        let input = Input::new("walk", dtype, extents);
        let raw = input.bytes();
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap();
        let serial = compress(&array, &crate::common::ndzip(), &raw, &Context::new(Some(1), None).unwrap());
        assert_eq!(gridz::inspect(&serial).unwrap().codec, crate::common::ndzip().codec());
        for threads in [2, 3, 7] {
            let context = Context::new(Some(threads), None).unwrap();
            let frame = compress(&array, &crate::common::ndzip(), &raw, &context);
            assert_same_bytes(&frame, &serial, &format!("{threads} threads {extents:?}"));
            assert_same_bytes(
                &decompress(&frame, &context).unwrap(),
                &raw,
                &format!("{threads} threads {extents:?}"),
            );
        }
    }
}
