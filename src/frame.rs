//! Frames: what they say of themselves, and what must fit together before one is read or written.

use gridz_codecs::codec::Promise;
use gridz_codecs::codec::registry::{self, Entry, STORED};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::{Header, header_bytes};
use gridz_codecs::types::Array;

/// Frames begin at multiples of this.
pub const FRAME_ALIGNMENT: u64 = 16;

/// What a frame says about itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameInfo {
    /// The array inside.
    pub array: Array,
    /// Number of the codec that wrote the payload.
    pub codec: u8,
    /// Its name, if this version has it.
    pub codec_name: Option<&'static str>,
    /// Bytes of the whole frame.
    pub frame_bytes: u64,
    /// What it promises of the elements; `None` if this version does not have the codec.
    pub promise: Option<Promise>,
}

/// Whether decompression compares the payload with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Compare.
    Checksum,
    /// Only check what decoding needs to be safe.
    Structure,
}

/// Bytes of `array` as a `stored` frame: no frame that [`compress`](crate::compress) returns is longer.
pub fn stored_bytes(array: &Array) -> u64 {
    header_bytes(array.shape().rank(), 0) as u64 + array.n_bytes()
}

/// What `frame` is. Reads the header only; the payload may be missing.
///
/// # Errors
/// `Truncated`, `Corrupt` or `UnsupportedFormat` for a header that cannot be used.
pub fn inspect(frame: &[u8]) -> Result<FrameInfo> {
    let header = Header::parse(frame)?;
    let entry = registry::find(header.codec);
    let payload = frame.get(header.n_bytes()..).unwrap_or_default();
    Ok(FrameInfo {
        array: header.array,
        codec: header.codec,
        codec_name: entry.map(|entry| entry.name),
        frame_bytes: header.frame_bytes()?,
        promise: entry.map(|entry| entry.codec.promise(header.params, payload, header.payload_bytes)),
    })
}

/// Bytes to allocate for the array in `frame`, which may be damaged or hostile and must not choose that freely: at most what a payload of
/// its length can expand to, and at most `expected`, the bytes that its owner expects. A `stored` frame may be longer than that, since a
/// filter that ran before may have made the chunk longer.
///
/// # Errors
/// As [`inspect`]; `Corrupt` if the frame asks for more or bytes follow it, `Truncated` if its end is missing, `UnsupportedFormat` if
/// its codec is unknown.
pub fn array_bytes(frame: &[u8], expected: Option<u64>) -> Result<u64> {
    let header = Header::parse(frame)?;
    let entry = entry_of(&header)?;
    check_payload(&header, (frame.len() as u64).saturating_sub(header.n_bytes() as u64))?;
    let possible = header.payload_bytes.saturating_mul(entry.max_expansion);
    let limit = match expected {
        Some(expected) if entry.id != STORED => expected.min(possible),
        _ => possible,
    };
    let n_bytes = header.array.n_bytes();
    if n_bytes > limit {
        let text = format!("the frame claims an array of {n_bytes} bytes where at most {limit} can be");
        return Err(Error::corrupt(text));
    }
    Ok(n_bytes)
}

/// The codec of a frame.
pub(super) fn entry_of(header: &Header) -> Result<&'static Entry> {
    let (codec, version) = (header.codec, header.codec_version);
    registry::find(codec).filter(|entry| entry.format_of(version) == Some(header.format)).ok_or_else(|| {
        let ours = gridz_codecs::VERSION;
        let text =
            format!("codec {codec} version {version} in format {} is unknown to gridz {ours}; a newer gridz may read this data", header.format);
        Error::new(ErrorKind::UnsupportedFormat, text)
    })
}

/// Whether exactly the frame's payload follows the header.
pub(super) fn check_payload(header: &Header, have: u64) -> Result<()> {
    let need = header.payload_bytes;
    if have < need {
        return Err(Error::new(ErrorKind::Truncated, format!("the frame has {have} of {need} bytes of payload")));
    }
    if have > need {
        return Err(Error::corrupt(format!("{} bytes follow the frame", have - need)));
    }
    Ok(())
}

/// Whether a source has the array's bytes.
pub(super) fn check_source(array: &Array, have: u64) -> Result<()> {
    let need = array.n_bytes();
    if have != need {
        return Err(Error::invalid(format!("the source has {have} bytes, the array {need}")));
    }
    Ok(())
}

/// Whether a destination has the bytes that are needed.
pub(super) fn check_destination(have: u64, need: u64) -> Result<()> {
    if have < need {
        let text = format!("a destination of {have} bytes is too small; {need} are needed");
        return Err(Error::new(ErrorKind::DstTooSmall { need }, text));
    }
    Ok(())
}
