//! The vectors of the published ndzip implementation, which are not part of the project.

use gridz::{Array, ByteOrder, DType, Shape};
use serde::Deserialize;

use super::{sha256, shared};

#[derive(Deserialize)]
struct Manifest {
    vectors: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    dtype: String,
    dims: Vec<u64>,
    raw_file: String,
    stream_file: String,
    stream_sha256: String,
    raw_sha256: String,
    num_blocks: usize,
    header_pad_bytes: usize,
}

/// An array and its stream.
pub struct Vector {
    pub name: String,
    pub dtype: DType,
    pub extents: Vec<u64>,
    pub raw: Vec<u8>,
    pub stream: Vec<u8>,
    /// Range of the padding bytes, if any: readers ignore them, and the reference leaves them
    /// arbitrary.
    pub pad: Option<std::ops::Range<usize>>,
}

impl Vector {
    pub fn array(&self) -> Array {
        Array::new(self.dtype, ByteOrder::Little, Shape::new(&self.extents).unwrap()).unwrap()
    }
}

/// All 82 vectors, or `None` if they are not available: then `test` is skipped, see [`shared`].
pub fn vectors(test: &str) -> Option<Vec<Vector>> {
    let folder = shared(test)?.join("vectors/ndzip");
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest.vectors.len(), 82);
    let read = |row: Row| {
        let (raw, stream) = (
            std::fs::read(folder.join(row.raw_file)).unwrap(),
            std::fs::read(folder.join(row.stream_file)).unwrap(),
        );
        assert_eq!(sha256(&raw), row.raw_sha256, "{}", row.name);
        assert_eq!(sha256(&stream), row.stream_sha256, "{}", row.name);
        let pad = 4 * row.num_blocks..4 * row.num_blocks + row.header_pad_bytes;
        Vector {
            name: row.name,
            dtype: if row.dtype == "f32" { DType::F32 } else { DType::F64 },
            extents: row.dims,
            raw,
            stream,
            pad: Some(pad).filter(|pad| !pad.is_empty()),
        }
    };
    Some(manifest.vectors.into_iter().map(read).collect())
}
