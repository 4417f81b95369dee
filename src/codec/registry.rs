//! The table of codecs. A new codec is one row here.

use crate::codec::gpu::GpuCodec;
use crate::codec::{Codec, lorenzo, ndzip, stored};
use crate::types::DType;

/// One codec of this version of gridz.
pub struct Entry {
    /// Number in files; never reused.
    pub id: u8,
    /// Name, the same in every interface.
    pub name: &'static str,
    /// Version of the payload it writes, and the only one it reads. A codec that gets a second one keeps
    /// reading the first.
    pub version: u8,
    /// Largest level; 0 = the codec knows only its default.
    pub max_level: u16,
    /// The level that 0 stands for in this version. It is what files name.
    pub default_level: u16,
    /// Most raw bytes one payload byte can stand for: bounds what a reader without other knowledge
    /// of the array's size may allocate.
    pub max_expansion: u64,
    /// Element types it encodes; chunks of others are kept as `stored`.
    pub dtypes: &'static [DType],
    /// Takes the array's bytes as they are: no folding, no byte swap.
    pub verbatim: bool,
    /// The implementation.
    pub codec: &'static dyn Codec,
    /// Its kernels, if it has any.
    pub gpu: Option<&'static dyn GpuCodec>,
}

/// Integers and floats.
const NUMBERS: &[DType] = &[
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::Bf16,
    DType::F32,
    DType::F64,
];

/// All codecs, by id.
pub static CODECS: &[Entry] = &[
    Entry {
        id: STORED,
        name: "stored",
        version: 1,
        max_level: 0,
        default_level: 0,
        max_expansion: 1,
        dtypes: &DType::ALL,
        verbatim: true,
        codec: &stored::Stored,
        gpu: Some(&stored::Stored),
    },
    Entry {
        id: 1,
        name: "ndzip",
        version: 1,
        max_level: 0,
        default_level: 0,
        max_expansion: 64,
        dtypes: &[DType::F32, DType::F64],
        verbatim: false,
        codec: &ndzip::Ndzip,
        gpu: Some(&ndzip::Ndzip),
    },
    Entry {
        id: 2,
        name: "lorenzo",
        version: 1,
        max_level: lorenzo::params::MAX_LEVEL,
        default_level: 1,
        max_expansion: 5462,
        dtypes: NUMBERS,
        verbatim: false,
        codec: &lorenzo::Lorenzo,
        gpu: Some(&lorenzo::Lorenzo),
    },
];

/// The codec that every chunk can fall back to.
pub const STORED: u8 = 0;
/// The lossless codec used where none is named. Datasets keep the codec this stood for when they
/// were created.
pub const DEFAULT: u8 = 2;

/// The row of codec `id`.
pub fn find(id: u8) -> Option<&'static Entry> {
    CODECS.iter().find(|entry| entry.id == id)
}

/// `0 stored, 1 ndzip, …`: for messages.
pub fn available() -> String {
    let names: Vec<String> = CODECS.iter().map(|entry| format!("{} {}", entry.id, entry.name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Array, ByteOrder, Shape};

    #[test]
    fn a_codec_plans_for_the_types_in_its_row() {
        for (entry, dtype) in CODECS.iter().flat_map(|entry| DType::ALL.map(|dtype| (entry, dtype))) {
            let shape = Shape::new(&[100, 100]).unwrap();
            let array = Array::with_size(dtype, ByteOrder::Little, dtype.size().unwrap_or(3), shape).unwrap();
            let is_planned = entry.codec.plan(&array, entry.default_level).is_some();
            assert_eq!(is_planned, entry.dtypes.contains(&dtype), "{} {}", entry.name, dtype.name());
        }
    }

    #[test]
    fn ids_and_names_are_unique_and_the_fixed_rows_exist() {
        for (i, entry) in CODECS.iter().enumerate() {
            assert!(CODECS[..i].iter().all(|other| other.id < entry.id && other.name != entry.name));
            assert!(entry.default_level <= entry.max_level && (entry.default_level == 0) == (entry.max_level == 0));
        }
        assert_eq!(find(STORED).unwrap().name, "stored");
        assert!(find(DEFAULT).is_some());
        assert!(find(255).is_none());
    }
}
