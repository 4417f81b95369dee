//! The table of codecs. A new codec is one row here.

use crate::codec::gpu::GpuCodec;
use crate::codec::{Codec, Plan, lorenzo, ndzip, stored};
use crate::types::Array;

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
    /// Takes the array's bytes as they are: no folding, no byte swap.
    pub verbatim: bool,
    /// The implementation.
    pub codec: &'static dyn Codec,
    /// Its kernels, if it has any.
    pub gpu: Option<&'static dyn GpuCodec>,
}

/// All codecs, by id.
pub static CODECS: &[Entry] = &[
    Entry {
        id: STORED,
        name: "stored",
        version: 1,
        max_level: 0,
        default_level: 0,
        max_expansion: 1,
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

/// The row of [`STORED`], and its plan for an array.
pub fn stored(array: &Array) -> (&'static Entry, Plan) {
    (find(STORED).expect("stored is in the table"), stored::plan(array))
}

/// `0 stored, 1 ndzip, …`: for messages.
pub fn available() -> String {
    let names: Vec<String> = CODECS.iter().map(|entry| format!("{} {}", entry.id, entry.name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
