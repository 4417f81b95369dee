//! Codecs: what turns the bytes of one chunk into a payload and back.
//!
//! A codec is one folder here, one row in [`registry`], one section of `SPEC.md` and its goldens.
//! It knows nothing of frames, HDF5 or C. Planning (pure, cheap) is apart from encoding, so a decoder
//! never needs the writer's heuristics.

pub mod form;
pub mod gpu;
pub mod lorenzo;
pub mod mode;
pub mod ndzip;
pub mod registry;
pub mod request;
pub mod stored;

use crate::cpu::level::Level;
use crate::cpu::pool::Pool;
use crate::error::Result;
use crate::format::checksum::Sums;
use crate::format::fold::Fold;
use crate::types::{Array, DType, Shape};

/// What a codec decides before it sees the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How the extents are folded.
    pub fold: Fold,
    /// Parameters for the frame header, at most 255 bytes.
    pub params: Vec<u8>,
    /// Most payload bytes that encoding can write.
    pub bound: u64,
}

/// One chunk as a codec sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Element type.
    pub dtype: DType,
    /// Folded extents, at most [`Codec::max_rank`] of them.
    pub shape: Shape,
    /// Parameters from [`Plan`] or from the frame header.
    pub params: &'a [u8],
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
    /// Of the packed ones and those with an entropy code: those in which floats are multiples of a power of two.
    pub fixed_point: u64,
    /// Of the packed ones: those with a dictionary.
    pub dictionary: u64,
}

/// Boxes of an array that differ in their places along the first axis. Their elements are wanted one box after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boxes {
    /// The first place along the first axis, of each box.
    pub starts: Vec<u64>,
    /// Where they begin along the axes; 0 along the first.
    pub origin: Vec<u64>,
    /// Their extents.
    pub count: Vec<u64>,
}

/// A compression method. Implementations are stateless; all methods may run at the same time.
pub trait Codec: Sync {
    /// The largest rank the codec works on; the engine folds arrays down to it.
    fn max_rank(&self) -> usize;

    /// How to encode such an array at a level from 0, the default, to the largest one in the registry. `None` if this
    /// codec cannot: the chunk is `stored` then.
    fn plan(&self, array: &Array, level: u16) -> Option<Plan>;

    /// Encodes `src` into `dst`, which has at least [`Plan::bound`] bytes. The result may be longer
    /// than `src`; the engine then stores the chunk instead.
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

    /// Counts the blocks of a payload by how they are coded. `None`: the codec has no kinds of blocks.
    fn count_blocks(&self, _job: &Job, _payload: &[u8]) -> Option<Result<BlockCounts>> {
        None
    }

    /// Decodes `boxes`, which lie within the job's shape and are not empty, into `dst`, which has exactly their bytes.
    /// `None`: better decode everything. Otherwise as [`Codec::decode`], but
    /// checks that are part of the payload, where `job` asks for them, are all that is compared.
    fn decode_boxes(&self, _job: &Job, _payload: &[u8], _boxes: &Boxes, _dst: &mut [u8]) -> Option<Result<()>> {
        None
    }
}
