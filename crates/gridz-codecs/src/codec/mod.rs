//! Codecs: each turns the bytes of one chunk into a payload and back.
//!
//! A codec is one folder here, one entry in [`registry`], one section of `SPEC.md` and its goldens.
//! It is independent of frames, HDF5 and C. Planning (pure, cheap) is separate from encoding, so a
//! decoder never needs the writer's heuristics.

#[cfg(feature = "cci")]
pub mod cci;
pub mod encode_params;
pub mod fill;
pub mod fold_choice;
pub mod gpu;
#[cfg(feature = "huffman")]
pub mod huffman;
pub mod lorenzo;
pub mod missing;
pub mod mode;
#[cfg(feature = "multigrid")]
pub mod multigrid;
#[cfg(feature = "ndzip")]
pub mod ndzip;
#[cfg(feature = "quant")]
pub mod quant;
pub mod registry;
pub mod request;
mod request_text;
mod request_words;
mod state;
pub mod stored;
pub mod third_party;
#[cfg(feature = "zfp")]
pub mod zfp;

pub use crate::codec::encode_params::EncodeParams;
use crate::codec::fold_choice::FoldChoice;
use crate::codec::mode::Mode;
pub use crate::codec::state::CodecState;
use crate::cpu::isa::Isa;
use crate::cpu::pool::Pool;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::payload::{Blocks, Worker};
use crate::types::{Array, DType, Shape};

#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
/// A codec's answer to the request to encode arrays of a given type and extents.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The codec encodes them with this plan.
    Take(Plan),
    /// The codec does not support such data; it is `stored`.
    Store,
    /// The request is invalid for this array. Storing it raw would hide the error. The text is for
    /// the user.
    Refuse(Error),
}

/// A codec's decisions, made before it sees the data.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How the extents are folded.
    pub fold: Fold,
    /// Parameters for the frame header.
    pub params: Params,
    /// Maximum size in bytes of a payload, with either fold if there are two.
    pub bound: u64,
    /// The codec's layout of such arrays: the result of [`Codec::layout`] for the folded shape and
    /// the parameters.
    pub layout: CodecState,
}

/// Speeds of compression and decompression in GB/s of raw data, with float32 or uint32, on the host of
/// an H200.
#[derive(Debug, Clone, Copy)]
pub struct Speeds {
    /// Each of 16 CPU cores with AVX-512, while all of them work.
    pub core: [f32; 2],
    /// One GPU, if its kernels are slower than copies between host and GPU; 0 without kernels.
    pub slow_kernels: Option<[f32; 2]>,
}

impl Speeds {
    /// Speeds of a codec whose kernels are faster than copies.
    pub const fn of_core(compress: f32, decompress: f32) -> Self {
        Self { core: [compress, decompress], slow_kernels: None }
    }
}

/// Maximum size in bytes of the parameters of any current codec; a frame has room for 255.
const MAX_PARAMS: usize = 191;

/// A codec's parameters in a frame, stored inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Params {
    n_bytes: u8,
    bytes: [u8; MAX_PARAMS],
}

impl Params {
    /// No parameters.
    pub const NONE: Self = Self { n_bytes: 0, bytes: [0; MAX_PARAMS] };

    /// Copies these parameters.
    ///
    /// # Panics
    /// If there are more than 191 bytes; no codec has that many.
    pub fn new(params: &[u8]) -> Self {
        let mut this = Self::NONE;
        this.push(params);
        this
    }

    /// Appends parameters.
    ///
    /// # Panics
    /// If there are then more than 191 bytes.
    pub fn push(&mut self, params: &[u8]) {
        let start = usize::from(self.n_bytes);
        self.bytes[start..start + params.len()].copy_from_slice(params);
        self.n_bytes += params.len() as u8;
    }
}

impl std::ops::Deref for Params {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.n_bytes)]
    }
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// One chunk as its codec sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Element type.
    pub dtype: DType,
    /// Folded extents, at most [`Codec::max_rank`] of them.
    pub shape: Shape,
    /// Positions of everything: from [`Plan`] or [`Codec::layout`].
    pub layout: &'a CodecState,
    /// Workers for large chunks.
    pub pool: &'a Pool,
    /// The CPU level to use. It does not change the payload.
    pub level: Isa,
    /// True if decoding verifies the checksums that are part of a payload.
    pub verify: bool,
}

impl Job<'_> {
    /// The worker for blocks of this chunk.
    pub fn worker<'b>(&'b self, blocks: &'b dyn Blocks) -> Worker<'b> {
        Worker { blocks, pool: self.pool, level: self.level, verify: self.verify }
    }
}

/// Length of a payload and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Payload bytes at the start of the destination.
    pub n_bytes: usize,
    /// Checksum of those bytes.
    pub sums: Checksum,
}

/// Counts of the blocks of a payload, by the way they are coded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// All blocks.
    pub all: u64,
    /// Blocks that store their elements verbatim.
    pub raw: u64,
    /// Blocks of a single value.
    pub constant: u64,
    /// Blocks of numbers with fixed widths.
    pub packed: u64,
    /// Blocks with an entropy code.
    pub entropy: u64,
    /// Of the blocks of numbers: those whose floats are multiples of a power of two.
    pub fixed_point: u64,
    /// Of the packed blocks: those with a dictionary.
    pub dictionary: u64,
    /// Blocks that list only their few nonzero numbers.
    pub sparse: u64,
    /// Of the blocks of numbers: those whose floats are decimal fractions.
    pub decimal: u64,
    /// Blocks of lorenzo's cut map, with tails.
    pub cut: u64,
    /// Of the blocks of numbers: those that omit elements with a fill value.
    pub masked: u64,
    /// Elements (of complex arrays: parts) that a lossy codec stores exactly, in blocks of several
    /// values.
    pub exact: u64,
}

/// A frame's guarantee for its elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// What the codec was allowed to do to the values.
    pub mode: Mode,
    /// The mode's parameter; 0 if it has none.
    pub value: f64,
    /// The largest possible absolute error. `None` if there is no such bound, or if the available
    /// bytes of the frame do not contain it.
    pub bound: Option<f64>,
}

impl Promise {
    /// Every bit is preserved.
    pub const LOSSLESS: Self = Self { mode: Mode::Lossless, value: 0.0, bound: Some(0.0) };
    /// No guarantee: the frame is unknown.
    pub const NONE: Self = Self { mode: Mode::Expert, value: 0.0, bound: None };
}

/// How much of a frame to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// The grid of a level, from the first layer: every 2^level-th element along each axis. Level 0
    /// is the array.
    Level(u32),
    /// This many layers, from the first.
    Layers(u32),
    /// The fewest layers whose error bound (root mean square in mode `rms`) is at most this; all
    /// layers if none qualifies.
    Error(f64),
}

/// The result of a [`Detail`] for one payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The level of the grid that is decoded; 0 is the array.
    pub level: u32,
    /// The number of levels above the array's.
    pub n_levels: u32,
    /// Layers that are read.
    pub layers: u32,
    /// All layers of the payload.
    pub n_layers: u32,
    /// The number of leading bytes of the payload that are needed.
    pub n_bytes: u64,
    /// The guarantee for the decoded elements.
    pub promise: Promise,
}

/// Codecs whose payloads can be decoded from a prefix. The whole payload has `n_all` bytes;
/// `payload` may be truncated.
pub trait Progressive: Sync {
    /// Resolves a detail for a payload.
    ///
    /// # Errors
    /// `InvalidArgument` for a detail that the payload does not offer, `Corrupt`, `Truncated`,
    /// `UnsupportedFormat`.
    fn part(&self, layout: &CodecState, payload: &[u8], n_all: u64, detail: Detail) -> Result<Part>;

    /// Decodes the result of [`Progressive::part`] into `dst`, which has exactly its bytes, and
    /// returns the checksum of the bytes that were read.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn decode_part(&self, job: &Job, payload: &[u8], n_all: u64, part: &Part, dst: &mut [u8]) -> Result<Checksum>;
}

/// The error of [`Codec::layout`] for a header that codec `name` does not write.
fn not_written(name: &str, dtype: DType, shape: &Shape, params: &[u8]) -> Error {
    let dtype = dtype.name();
    Error::corrupt(format!(
        "the frame header is damaged: {name} cannot have written {dtype} elements of (folded) shape {shape:?} with \
         parameters {params:?}"
    ))
}

/// The error of [`Codec::layout`] for parameters that later versions of codec `name` may write.
#[cfg(any(feature = "multigrid", feature = "quant", feature = "zfp"))]
fn unknown_params(name: &str, params: &[u8]) -> Error {
    let text =
        format!("the frame header has unknown {name} parameters, {params:?}; a newer gridz may read this data");
    Error::new(crate::error::ErrorKind::UnsupportedFormat, text)
}

/// A compression method. Implementations are stateless; all methods may run concurrently.
pub trait Codec: Sync {
    /// The largest rank the codec works on; the engine folds arrays down to it.
    fn max_rank(&self) -> usize;

    /// The other fold that frames of arrays of this shape may have if [`Codec::plan`] folds them by
    /// [`Fold::Merge`], with the same parameters. The engine asks
    /// [`Codec::takes_other_fold`], or its kernels, which one to take.
    fn alternative_fold(&self, _shape: &Shape) -> Option<Fold> {
        None
    }

    /// True if the alternative fold suits these elements better, of a job with either fold.
    fn takes_other_fold(&self, _choice: &FoldChoice, _job: &Job, _src: &[u8]) -> bool {
        false
    }

    /// Plans how to encode such an array with these parameters. The codec's registry entry
    /// must allow them.
    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision;

    /// Levels to try in addition to this one, the highest first: the engine encodes a chunk at each
    /// of them, too, and keeps the shortest frame. Requests cannot have levels that the codec's
    /// registry entry does not list. A level that has kernels has at most one such level.
    fn fallback_levels(&self, _level: u16) -> &'static [u16] {
        &[]
    }

    /// The other parameters that frames of the same request may have, for a codec with kernels.
    fn sibling_params(&self, _params: &[u8]) -> Option<Params> {
        None
    }

    /// Approximate speeds with these parameters. Only the choice between CPU and GPU depends on them.
    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(1.0, 1.0)
    }

    /// The state that decoding needs for arrays of this type and folded shape, whose frame has
    /// these parameters.
    ///
    /// # Errors
    /// `Corrupt` if this codec cannot have written such a frame.
    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState>;

    /// Version of the payload and parameters, for frames with these parameters.
    fn version(&self, _params: &[u8]) -> u8 {
        1
    }

    /// Encodes `src` into `dst`, which has at least [`Plan::bound`] bytes. If the result is as long
    /// as `src` or longer, the engine stores the chunk instead; then the contents of `dst` are
    /// unspecified.
    ///
    /// # Errors
    /// `OutOfMemory` only: every planned array can be encoded.
    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded>;

    /// Decodes `payload` into `dst`, which has exactly the bytes of the array, and returns the
    /// checksum of the payload. `payload` is untrusted: it is checked before it is used. After an
    /// error the contents of `dst` are unspecified.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for bytes this codec cannot have written, `OutOfMemory`.
    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum>;

    /// The guarantee of a frame with these parameters. `payload` may be truncated or empty;
    /// `n_bytes` is its full length.
    fn promise(&self, _params: &[u8], _payload: &[u8], _n_bytes: u64) -> Promise {
        Promise::LOSSLESS
    }

    /// The interface for reading a prefix of a payload. `None`: the codec has none.
    fn progressive(&self) -> Option<&dyn Progressive> {
        None
    }

    /// Counts the blocks of a payload by how they are coded. `None`: the codec has no kinds of
    /// blocks.
    fn count_blocks(&self, _job: &Job, _payload: &[u8]) -> Option<Result<BlockCounts>> {
        None
    }

    /// Decodes the elements of `region`, a part of the job's shape, into `dst`, which has exactly
    /// their bytes. Decodes only the blocks that the region touches. As [`Codec::decode`], except
    /// that it computes the payload's checksum only if `job` asks for verification and blocks have
    /// no checksums of their own.
    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>>;
}
