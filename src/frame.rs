//! Frames: their headers, and the checks before one is read or written.

use crate::context::Context;
use crate::decompress::{self, Part};
use crate::detail::{self, PartInfo};
use crate::memory::{Destination, Source, device_of, start_of};
use gridz_codecs::codec::registry::{self, Entry, STORED};
use gridz_codecs::codec::{Detail, Promise};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::{Header, MAX_HEADER_BYTES, header_bytes};
use gridz_codecs::types::Array;

/// Alignment of frames in a batch.
pub const FRAME_ALIGNMENT: u64 = 16;

/// The description of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameInfo {
    /// Its array.
    pub array: Array,
    /// Number of the codec that wrote the payload.
    pub codec: u8,
    /// The codec's name; `None` if this version does not have it.
    pub codec_name: Option<&'static str>,
    /// Number of bytes of the whole frame.
    pub frame_bytes: u64,
    /// The guarantee for its elements; `None` if this version does not have the codec.
    pub promise: Option<Promise>,
}

/// How decompression checks a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Compares checksums.
    Checksum,
    /// Checks only what decoding needs to be safe.
    Structure,
}

/// Number of bytes of `array` as a `stored` frame. No frame that [`compress`](crate::compress)
/// returns is longer.
pub fn stored_bytes(array: &Array) -> u64 {
    header_bytes(array.shape().rank(), 0) as u64 + array.n_bytes()
}

/// Maximum size in bytes of a packed frame: [`stored_bytes`], rounded up to [`FRAME_ALIGNMENT`].
pub(super) fn max_packed_bytes(array: &Array) -> u64 {
    stored_bytes(array).next_multiple_of(FRAME_ALIGNMENT)
}

/// A frame in host memory with a valid header, which is checked only once. Its payload may be
/// damaged, or cut after the bytes that a partial read needs.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    pub(super) header: Header<'a>,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads the header at the start of `bytes`. The payload may be missing.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedFormat` for a header that cannot be used.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { header: Header::parse(bytes)?, bytes })
    }

    /// The available bytes after the header.
    pub(super) fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header.n_bytes()..]
    }

    /// The frame's description.
    ///
    /// # Errors
    /// `Corrupt` if the frame's length cannot be addressed.
    pub fn info(&self) -> Result<FrameInfo> {
        let Header { codec, array, params, payload_bytes, .. } = self.header;
        let entry = registry::find(codec);
        Ok(FrameInfo {
            array,
            codec,
            codec_name: entry.map(|entry| entry.name),
            frame_bytes: self.header.frame_bytes()?,
            promise: entry.map(|entry| entry.codec.promise(params, self.payload(), payload_bytes)),
        })
    }

    /// Number of bytes to allocate for the array. A damaged or hostile frame must not choose that
    /// freely: the result is at most what a payload of this length can expand to, and at most
    /// `expected`, the number of bytes that the caller expects. A `stored` frame may exceed
    /// `expected`, because a filter that ran before may have made the chunk longer.
    ///
    /// # Errors
    /// `Corrupt` if the frame claims more or bytes follow it, `Truncated` if its end is missing,
    /// `UnsupportedFormat` if its codec is unknown.
    pub fn array_bytes(&self, expected: Option<u64>) -> Result<u64> {
        let entry = entry_of(&self.header)?;
        check_payload(&self.header, self.payload().len() as u64)?;
        let possible = self.header.payload_bytes.saturating_mul(entry.max_expansion);
        let limit = match expected {
            Some(expected) if entry.id != STORED => expected.min(possible),
            _ => possible,
        };
        let n_bytes = self.header.array.n_bytes();
        if n_bytes > limit {
            let text = format!("the frame claims an array of {n_bytes} bytes; at most {limit} are possible");
            return Err(Error::corrupt(text));
        }
        Ok(n_bytes)
    }

    /// Describes the part of the frame that a detail selects.
    ///
    /// # Errors
    /// As [`inspect_part`](crate::inspect_part).
    pub fn part(&self, detail: Detail) -> Result<PartInfo> {
        Ok(detail::select(self, detail)?.1)
    }

    /// Decompresses the frame or a part of it.
    ///
    /// # Errors
    /// As [`decompress`](crate::decompress).
    pub fn decompress<'d>(
        &self,
        part: Part,
        dst: impl Into<Destination<'d>>,
        verify: Verify,
        context: &Context,
    ) -> Result<usize> {
        let dst = dst.into();
        let source = Source::Host(self.bytes);
        let device = context.device_of(&source, &dst)?;
        decompress::run(self, source, device, part, dst, verify, context)
    }
}

/// Describes a frame. Reads only its header; the payload may be missing.
///
/// # Errors
/// `Truncated`, `Corrupt` or `UnsupportedFormat` for a header that cannot be used; `Device` for
/// memory of a GPU.
pub fn inspect<'a>(frame: impl Into<Source<'a>>) -> Result<FrameInfo> {
    let frame = frame.into();
    let device = device_of(&frame, &Destination::Host(&mut []))?;
    Frame::parse(start_of(device, frame, &mut [0; MAX_HEADER_BYTES])?)?.info()
}

/// The codec of a frame.
pub(super) fn entry_of(header: &Header) -> Result<&'static Entry> {
    let (codec, version) = (header.codec, header.codec_version);
    registry::find(codec).filter(|entry| entry.reads.contains(&version)).ok_or_else(|| {
        let ours = gridz_codecs::VERSION;
        let text =
            format!("codec {codec} version {version} is unknown to gridz {ours}; a newer gridz may read this data");
        Error::new(ErrorKind::UnsupportedFormat, text)
    })
}

/// Checks that exactly the frame's payload follows the header.
pub(super) fn check_payload(header: &Header, have: u64) -> Result<()> {
    let need = header.payload_bytes;
    if have < need {
        return Err(Error::new(
            ErrorKind::Truncated,
            format!("the frame is truncated: it has {have} of {need} bytes of payload"),
        ));
    }
    if have > need {
        return Err(Error::corrupt(format!("{} bytes follow the frame; pass exactly one frame", have - need)));
    }
    Ok(())
}

/// Checks that a source has the array's length.
pub(super) fn check_source(array: &Array, have: u64) -> Result<()> {
    let need = array.n_bytes();
    if have != need {
        return Err(Error::invalid(format!("the source has {have} bytes, but the array has {need}")));
    }
    Ok(())
}

/// Checks that a destination is large enough.
pub(super) fn check_destination(have: u64, need: u64) -> Result<()> {
    if have < need {
        let text = format!("a destination of {have} bytes is too small; {need} are needed");
        return Err(Error::new(ErrorKind::DstTooSmall { need }, text));
    }
    Ok(())
}
