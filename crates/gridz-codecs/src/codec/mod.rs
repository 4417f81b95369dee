//! Codecs: what turns the bytes of one chunk into a payload and back.
//!
//! A codec is one folder here, one entry in [`registry`], one section of `SPEC.md` and its goldens.
//! It knows nothing of frames, HDF5 or C. Planning (pure, cheap) is apart from encoding, so a decoder
//! never needs the writer's heuristics.

pub mod cci;
pub mod fill;
pub mod foreign;
pub mod gpu;
pub mod huffman;
mod kept;
pub mod lorenzo;
pub mod mgard;
pub mod missing;
pub mod mode;
pub mod ndzip;
pub mod registry;
pub mod request;
pub mod stored;
pub mod szp;
pub mod terms;
pub mod zfp;

pub use crate::codec::kept::Kept;
use crate::codec::mode::Mode;
pub use crate::codec::terms::Terms;
use crate::cpu::level::Level;
use crate::cpu::pool::Pool;
use crate::error::{Error, Result};
use crate::format::checksum::Sums;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::types::{Array, DType, Shape};

#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
/// What a codec answers when it is asked to encode arrays of some type and extents.
#[derive(Debug, Clone)]
pub enum Decision {
    /// It encodes them so.
    Take(Plan),
    /// They are no data of its kind: they are `stored`.
    Store,
    /// They cannot be encoded as was asked, and to store them is not what was meant. The text is for who asked.
    Refuse(Error),
}

/// What a codec decides before it sees the data.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How the extents are folded.
    pub fold: Fold,
    /// Parameters for the frame header.
    pub params: Params,
    /// Most payload bytes that encoding can write.
    pub bound: u64,
    /// The codec's layout of such arrays: what [`Codec::layout`] answers for the folded shape and the parameters.
    pub layout: Kept,
}

/// Most bytes of parameters of the codecs that there are; a frame has room for 255.
const MAX_PARAMS: usize = 191;

/// A codec's parameters in a frame, in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Params {
    n_bytes: u8,
    bytes: [u8; MAX_PARAMS],
}

impl Params {
    /// No parameters.
    pub const NONE: Self = Self { n_bytes: 0, bytes: [0; MAX_PARAMS] };

    /// These parameters.
    ///
    /// # Panics
    /// If there are more than 191 bytes: no codec takes so many.
    pub fn new(params: &[u8]) -> Self {
        let mut this = Self::NONE;
        this.push(params);
        this
    }

    /// Adds parameters.
    ///
    /// # Panics
    /// If there are more than 191 bytes then.
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

/// One chunk as a codec sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Element type.
    pub dtype: DType,
    /// Folded extents, at most [`Codec::max_rank`] of them.
    pub shape: Shape,
    /// Where everything is: from [`Plan`] or [`Codec::layout`].
    pub layout: &'a Kept,
    /// Workers for large chunks.
    pub pool: &'a Pool,
    /// Instructions that may be used. They do not change the payload.
    pub level: Level,
    /// Whether checks that are part of a payload are compared when it is decoded.
    pub verify: bool,
}

/// Bytes of a payload and their checksum sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Payload bytes at the start of the destination.
    pub n_bytes: usize,
    /// Sums over those bytes.
    pub sums: Sums,
}

/// How many blocks of a payload are coded in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// All blocks.
    pub all: u64,
    /// Those that hold their elements as they are.
    pub raw: u64,
    /// Those of a single value.
    pub constant: u64,
    /// Those with numbers of fixed widths.
    pub packed: u64,
    /// Those with an entropy code.
    pub entropy: u64,
    /// Of those with numbers: those in which floats are multiples of a power of two.
    pub fixed_point: u64,
    /// Of the packed ones: those with a dictionary.
    pub dictionary: u64,
    /// Those with the few of their numbers that are not zero.
    pub sparse: u64,
    /// Of those with numbers: those in which floats are decimal fractions.
    pub decimal: u64,
    /// Those of the cut map of lorenzo, with tails.
    pub cut: u64,
    /// Of those with numbers: those that leave out elements with a fill value.
    pub masked: u64,
    /// Elements, of complex ones parts, that a codec with a bound keeps exactly in blocks of several values.
    pub exact: u64,
}

/// What a frame promises of its elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// What the codec was allowed to do.
    pub mode: Mode,
    /// The number that belongs to the mode; 0 if none does.
    pub value: f64,
    /// The largest absolute error that there can be: `None` if there is no such bound, or it is not known from what was
    /// given of the frame.
    pub bound: Option<f64>,
}

impl Promise {
    /// Every bit.
    pub const LOSSLESS: Self = Self { mode: Mode::Lossless, value: 0.0, bound: Some(0.0) };
    /// Nothing: the frame is not known.
    pub const NONE: Self = Self { mode: Mode::Expert, value: 0.0, bound: None };
}

/// How much of a frame to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// The grid of a level, every 2^level-th element along each axis, from the first layer. Level 0 is the array.
    Level(u32),
    /// So many layers, the first ones.
    Layers(u32),
    /// As few layers as have a bound that is not above this, or such a root mean square where that was asked for; all if
    /// none has.
    Error(f64),
}

/// What a [`Detail`] is of one payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The level of the grid, 0 for the array, and how many there are above that.
    pub level: u32,
    /// Levels above that of the array.
    pub n_levels: u32,
    /// Layers that are read.
    pub layers: u32,
    /// Layers that there are.
    pub n_layers: u32,
    /// The first bytes of the payload that are needed.
    pub n_bytes: u64,
    /// What holds for what comes back.
    pub promise: Promise,
}

/// What codecs do whose payloads need not be read to their end. A payload has `n_all` bytes, of which there may be the
/// first ones only.
pub trait Progressive: Sync {
    /// What a detail is of a payload.
    ///
    /// # Errors
    /// `InvalidArgument` for what there is not, `Corrupt`, `Truncated`, `UnsupportedFormat`.
    fn part(&self, layout: &Kept, payload: &[u8], n_all: u64, detail: Detail) -> Result<Part>;

    /// Decodes what [`Progressive::part`] has told into `dst`, which has exactly its bytes, and returns the sums of what
    /// was read.
    ///
    /// # Errors
    /// As [`Codec::decode`].
    fn decode_part(&self, job: &Job, payload: &[u8], n_all: u64, part: &Part, dst: &mut [u8]) -> Result<Sums>;
}

/// A compression method. Implementations are stateless; all methods may run at the same time.
pub trait Codec: Sync {
    /// The largest rank the codec works on; the engine folds arrays down to it.
    fn max_rank(&self) -> usize;

    /// How to encode such an array on these terms, which the codec's entry in the registry has.
    fn plan(&self, array: &Array, terms: &Terms) -> Decision;

    /// What the codec has to know of arrays of this type and folded shape to decode their payloads, for which a frame
    /// has these parameters.
    ///
    /// # Errors
    /// `Corrupt` if this codec cannot have written such a frame.
    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<Kept>;

    /// Version of the payload and parameters of frames with these parameters.
    fn version(&self, _params: &[u8]) -> u8 {
        1
    }

    /// Encodes `src` into `dst`, which has at least [`Plan::bound`] bytes. Where the result is as long as `src` or longer
    /// the engine stores the chunk instead, and what is in `dst` need not be it.
    ///
    /// # Errors
    /// `OutOfMemory` only: every array that was planned can be encoded.
    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded>;

    /// Decodes `payload` into `dst`, which has exactly the bytes of the array, and returns the sums of
    /// the payload. `payload` may be anything: it is checked before it is used. After an error the
    /// contents of `dst` are unspecified.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for bytes this codec cannot have written, `OutOfMemory`.
    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums>;

    /// What frames with these parameters promise, of whose payload there may be as little as nothing; it has so many bytes.
    fn promise(&self, _params: &[u8], _payload: &[u8], _n_bytes: u64) -> Promise {
        Promise::LOSSLESS
    }

    /// How less than a whole payload is read. `None`: it cannot be.
    fn progressive(&self) -> Option<&dyn Progressive> {
        None
    }

    /// Counts the blocks of a payload by how they are coded. `None`: the codec has no kinds of blocks.
    fn count_blocks(&self, _job: &Job, _payload: &[u8]) -> Option<Result<BlockCounts>> {
        None
    }

    /// Decodes the elements of `region`, which are some of the job's shape, into `dst`, which has exactly their bytes, and
    /// no more blocks than it touches. As [`Codec::decode`], but the sums of the payload are made only where `job` asks for
    /// checks and blocks have none of their own.
    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Sums>>;
}
