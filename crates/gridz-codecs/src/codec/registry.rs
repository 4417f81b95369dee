//! The table of codecs. CONTRIBUTING.md lists what else a new codec needs.

pub use crate::codec::encode_params::CodecParam;
use crate::codec::gpu::GpuCodec;
use crate::codec::mode::Mode;
use crate::codec::third_party::ThirdPartyFilter;
use crate::codec::{Codec, Plan, lorenzo, stored};
use crate::types::{Array, DType};

/// One codec of this version of gridz.
pub struct Entry {
    /// Number in files; never reused.
    pub id: u8,
    /// Name, the same in every interface.
    pub name: &'static str,
    /// Its name before the first release. Requests may use it.
    pub former_name: Option<&'static str>,
    /// Purpose, in one line.
    pub about: &'static str,
    /// The versions that it can read, that is, every version that a release wrote.
    pub reads: &'static [u8],
    /// Its levels. Level 0 of a request means the first one; files never contain 0. Empty: the
    /// codec has no levels.
    pub levels: &'static [Level],
    /// The modes that it supports.
    pub modes: &'static [Mode],
    /// Its further parameters, in the order of their words in cd_values.
    pub codec_params: &'static [CodecParam],
    /// True if, in lossy modes, an element can change a little further each time that the elements
    /// next to it are rewritten.
    pub drifts: bool,
    /// True if it stores missing elements separately (`missing`). Other codecs are lossless and get
    /// none.
    pub wants_missing: bool,
    /// Maximum number of raw bytes that one payload byte can stand for: bounds what a reader
    /// without other knowledge of the array's size may allocate.
    pub max_expansion: u64,
    /// Element types it encodes; arrays of other types are `stored`.
    pub dtypes: &'static [DType],
    /// True if it takes the array's bytes verbatim: no folding, no byte swap.
    pub verbatim: bool,
    /// The implementation.
    pub codec: &'static dyn Codec,
    /// Its kernels, if it has any.
    pub gpu: Option<&'static dyn GpuCodec>,
    /// The third-party HDF5 filter whose chunks it decodes, if any.
    pub third_party: Option<&'static dyn ThirdPartyFilter>,
}

impl Entry {
    /// True for the codec's name and for its former one.
    pub fn has_name(&self, name: &str) -> bool {
        self.name == name || self.former_name == Some(name)
    }

    /// The numbers of its levels; only 0 if it has none.
    pub fn level_numbers(&self) -> impl Iterator<Item = u16> {
        let none = self.levels.is_empty().then_some(0);
        none.into_iter().chain(self.levels.iter().map(|level| level.number))
    }
}

/// One effort level of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Its number, from 1.
    pub number: u16,
    pub name: &'static str,
}

/// Integers, floats and complex numbers, in this order.
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
    DType::C64,
    DType::C128,
];

/// The common values of most codecs, which are lossless. Each entry sets its own id, name,
/// description, expansion, types and implementation.
const LOSSLESS: Entry = Entry {
    id: STORED,
    name: "",
    former_name: None,
    about: "",
    reads: &[1],
    levels: &[],
    modes: &[Mode::Lossless],
    codec_params: &[],
    drifts: false,
    wants_missing: false,
    max_expansion: 0,
    dtypes: &[],
    verbatim: false,
    codec: &stored::Stored,
    gpu: None,
    third_party: None,
};

/// All codecs, by id.
pub static CODECS: &[Entry] = &[
    Entry {
        id: STORED,
        name: "stored",
        about: "the bytes unchanged, with a header and a checksum",
        max_expansion: 1,
        dtypes: &DType::ALL,
        verbatim: true,
        codec: &stored::Stored,
        gpu: Some(&stored::Stored),
        ..LOSSLESS
    },
    #[cfg(feature = "ndzip")]
    Entry {
        id: 1,
        name: "ndzip",
        about: "the published codec for float32 and float64: fastest",
        max_expansion: 64,
        dtypes: &[DType::F32, DType::F64],
        codec: &crate::codec::ndzip::Ndzip,
        gpu: Some(&crate::codec::ndzip::Ndzip),
        ..LOSSLESS
    },
    Entry {
        id: 2,
        name: "lorenzo",
        about: "integers, floats and complex numbers: fast, dense, or max for archives",
        reads: &[1, 2],
        levels: &[
            Level { number: 1, name: "fast" },
            Level { number: 2, name: "dense" },
            Level { number: 3, name: "max" },
        ],
        max_expansion: 52429,
        dtypes: NUMBERS,
        codec: &lorenzo::Lorenzo,
        gpu: Some(&lorenzo::Lorenzo),
        ..LOSSLESS
    },
    #[cfg(feature = "quant")]
    Entry {
        id: 3,
        name: "quant",
        former_name: Some("szp"),
        reads: &[1, 2],
        about: "all numeric types, each element within a bound of its original value, however often it is \
                rewritten",
        levels: &[
            Level { number: 1, name: "fast" },
            Level { number: 2, name: "dense" },
            Level { number: 3, name: "max" },
        ],
        modes: &[Mode::Abs, Mode::Rel, Mode::Pwrel],
        wants_missing: true,
        max_expansion: 1 << 16,
        dtypes: NUMBERS,
        codec: &crate::codec::quant::Quant,
        gpu: Some(&crate::codec::quant::Quant),
        ..LOSSLESS
    },
    #[cfg(feature = "zfp")]
    Entry {
        id: 4,
        name: "zfp",
        reads: &[1, 2],
        about: "the stream of libzfp, for 32-bit and 64-bit floats and integers; drifts if parts are rewritten",
        levels: &[Level { number: 1, name: "fast" }],
        modes: &[Mode::Lossless, Mode::Abs, Mode::Rel, Mode::Rate, Mode::Precision, Mode::Expert],
        codec_params: crate::codec::zfp::params::CODEC_PARAMS,
        drifts: true,
        wants_missing: true,
        max_expansion: 16384,
        dtypes: &[DType::I32, DType::I64, DType::F32, DType::F64],
        codec: &crate::codec::zfp::Zfp,
        gpu: Some(&crate::codec::zfp::Zfp),
        third_party: Some(&crate::codec::zfp::Zfp),
        ..LOSSLESS
    },
    #[cfg(feature = "multigrid")]
    Entry {
        id: 5,
        name: "multigrid",
        former_name: Some("mgard"),
        reads: &[1, 2],
        about: "floats predicted from coarser grids, within a bound on each error or on their root mean square; \
                drifts if parts are rewritten",
        levels: &[Level { number: 1, name: "fast" }],
        modes: &[Mode::Abs, Mode::Rel, Mode::Rms],
        codec_params: crate::codec::multigrid::params::CODEC_PARAMS,
        drifts: true,
        wants_missing: true,
        max_expansion: 1 << 16,
        dtypes: &[DType::F32, DType::F64],
        codec: &crate::codec::multigrid::Multigrid,
        gpu: Some(&crate::codec::multigrid::Multigrid),
        ..LOSSLESS
    },
    #[cfg(feature = "huffman")]
    Entry {
        id: 6,
        name: "huffman",
        about: "integers of up to 32 bits, coded by the frequency of each value: for data that is neither smooth \
                nor repetitive",
        max_expansion: 10923,
        dtypes: &[DType::U8, DType::U16, DType::U32, DType::I8, DType::I16, DType::I32],
        codec: &crate::codec::huffman::Huffman,
        gpu: Some(&crate::codec::huffman::Huffman),
        ..LOSSLESS
    },
    #[cfg(feature = "cci")]
    Entry {
        id: 7,
        name: "cci",
        about: "32-bit and 64-bit indices of sparse matrices, meshes and tables: rows that resemble earlier rows",
        levels: &[Level { number: 2, name: "dense" }, Level { number: 1, name: "fast" }],
        max_expansion: 13108,
        dtypes: &[DType::U32, DType::U64, DType::I32, DType::I64],
        codec: &crate::codec::cci::Cci,
        gpu: Some(&crate::codec::cci::Cci),
        ..LOSSLESS
    },
];

/// The codec that every chunk can fall back to.
pub const STORED: u8 = 0;
/// The lossless codec used if a request names none. Datasets keep the codec that was the default
/// when they were created.
pub const DEFAULT: u8 = 2;

/// The entry of codec `id`.
pub fn find(id: u8) -> Option<&'static Entry> {
    CODECS.iter().find(|entry| entry.id == id)
}

/// The entry of [`STORED`], and its plan for an array.
pub fn stored(array: &Array) -> (&'static Entry, Plan) {
    (find(STORED).expect("stored is in the table"), stored::plan(array))
}

/// `0 stored, 1 ndzip, …`, for messages.
pub fn available() -> String {
    let names: Vec<String> = CODECS.iter().map(|entry| format!("{} {}", entry.id, entry.name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::encode_params::MAX_CODEC_PARAMS;
    use crate::codec::{Decision, EncodeParams};
    use crate::types::{Array, ByteOrder, Shape};

    #[test]
    fn a_codec_plans_for_the_types_in_its_entry() {
        for (entry, dtype) in CODECS.iter().flat_map(|entry| DType::ALL.map(|dtype| (entry, dtype))) {
            let shape = Shape::new(&[100, 100]).unwrap();
            let array = Array::with_size(dtype, ByteOrder::Little, dtype.size().unwrap_or(3), shape).unwrap();
            let is_planned = entry
                .level_numbers()
                .flat_map(|level| entry.modes.iter().map(move |&mode| (level, mode)))
                .all(|(level, mode)| {
                    let value = match mode {
                        Mode::Lossless | Mode::Expert => 0.0,
                        Mode::Precision => 9.0,
                        _ => 0.5,
                    };
                    let mut codec_params = [0.0; MAX_CODEC_PARAMS];
                    codec_params
                        .iter_mut()
                        .zip(entry.codec_params)
                        .for_each(|(value, param)| *value = param.default);
                    let encode_params = EncodeParams { mode, value, codec_params, ..EncodeParams::lossless(level) };
                    // No codec supports relative bounds for integers, and zfp supports no bounds
                    // for them.
                    let is_refused =
                        mode == Mode::Pwrel || entry.name == "zfp" && matches!(mode, Mode::Abs | Mode::Rel);
                    matches!(entry.codec.plan(&array, &encode_params), Decision::Take(_))
                        || is_refused && entry.dtypes.contains(&dtype) && dtype.name().contains("int")
                });
            assert_eq!(is_planned, entry.dtypes.contains(&dtype), "{} {}", entry.name, dtype.name());
        }
    }

    #[test]
    fn ids_and_names_are_unique_and_the_fixed_ones_exist() {
        for (i, entry) in CODECS.iter().enumerate() {
            assert!(CODECS[..i].iter().all(|other| other.id < entry.id && other.name != entry.name));
            assert!(!entry.reads.is_empty() && !entry.modes.is_empty());
            assert!(!entry.name.is_empty() && !entry.about.is_empty());
            assert!(entry.max_expansion > 0 && !entry.dtypes.is_empty());
            assert!(entry.codec_params.len() <= MAX_CODEC_PARAMS);
            assert!(entry.codec_params.iter().all(|param| !["level", "fill"].contains(&param.name)));
            let levels = entry.levels;
            let is_new =
                |i: usize| levels[..i].iter().all(|l| l.number != levels[i].number && l.name != levels[i].name);
            assert!((0..levels.len()).all(|i| levels[i].number > 0 && is_new(i)), "{levels:?}");
        }
        assert_eq!(find(STORED).unwrap().name, "stored");
        assert!(find(DEFAULT).is_some());
        assert!(find(255).is_none());
    }
}
