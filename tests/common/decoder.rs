//! Determines whether a frame reaches the decoder of its codec, and provides that decoder. The fuzz
//! targets use this file too.

use gridz::{Array, Result, Shape};
use gridz_codecs::codec::registry::{self, Entry};
use gridz_codecs::codec::{CodecState, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::header::Header;

/// The stage at which a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The header is refused.
    Header,
    /// The codec or its version is unknown, or the length differs from the header's.
    Frame,
    /// The codec refuses the parameters.
    Parameters,
}

/// The decoder that a frame reaches, and its input.
pub struct Decoder<'f> {
    pub entry: &'static Entry,
    pub array: Array,
    pub shape: Shape,
    pub layout: CodecState,
    pub payload: &'f [u8],
}

impl<'f> Decoder<'f> {
    /// The decoder of a frame, or the stage at which the frame is refused. The payload's checksum
    /// is not verified.
    pub fn of(frame: &'f [u8]) -> std::result::Result<Self, Stage> {
        let header = Header::parse(frame).map_err(|_| Stage::Header)?;
        let Header { array, fold, params, .. } = header;
        let entry = registry::find(header.codec).ok_or(Stage::Frame)?;
        let payload = &frame[header.n_bytes()..];
        let is_known = entry.reads.contains(&header.codec_version);
        if !is_known || payload.len() as u64 != header.payload_bytes {
            return Err(Stage::Frame);
        }
        let shape = if entry.verbatim { *array.shape() } else { fold.apply(array.shape(), entry.codec.max_rank()) };
        if entry.codec.version(params) != header.codec_version {
            return Err(Stage::Parameters);
        }
        let layout = entry.codec.layout(array.dtype(), &shape, params).map_err(|_| Stage::Parameters)?;
        Ok(Self { entry, array, shape, layout, payload })
    }

    pub fn job<'a>(&'a self, pool: &'a Pool, level: Isa, verify: bool) -> Job<'a> {
        Job { dtype: self.array.dtype(), shape: self.shape, layout: &self.layout, pool, level, verify }
    }

    /// Decodes the payload into `dst`, which has the size of the array.
    pub fn decode(&self, pool: &Pool, level: Isa, verify: bool, dst: &mut [u8]) -> Result<Checksum> {
        self.entry.codec.decode(&self.job(pool, level, verify), self.payload, dst)
    }
}
