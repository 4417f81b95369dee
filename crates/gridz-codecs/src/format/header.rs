//! The frame header: everything a reader must know before it touches the payload.
//!
//! The layout is fixed by `SPEC.md`, section "Frame". Parsing checks every field, and allocates
//! nothing: a header that parses describes an array this machine can address.

use crate::error::{Error, ErrorKind, Result};
use crate::format::fold::Fold;
use crate::types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// First four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"GRDZ";
/// Version of the frame. Those before it were never published.
pub const FORMAT_VERSION: u8 = 8;
/// Bytes before the extents.
const FIXED_BYTES: usize = 40;
/// Header lengths are multiples of this.
const ALIGNMENT: usize = 16;
/// Largest number of bytes of codec parameters.
pub const MAX_PARAMS: usize = 255;
/// Longest possible header.
pub const MAX_HEADER_BYTES: usize = (FIXED_BYTES + 8 * MAX_RANK + MAX_PARAMS).next_multiple_of(ALIGNMENT);

const FLAG_BIG_ENDIAN: u8 = 1;
/// Offset of the header's own CRC-32C, little-endian. The CRC covers the header with zeros here.
pub const CRC_AT: usize = 32;
/// Offsets of the two fields that depend on the payload: its length in bytes and its checksum, a
/// little-endian u64 each.
pub const PAYLOAD_FIELDS: std::ops::Range<usize> = 16..32;

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Codec of the payload.
    pub codec: u8,
    /// Version of that codec's payload.
    pub codec_version: u8,
    /// How the extents were folded for the codec.
    pub fold: Fold,
    /// The array, before folding.
    pub array: Array,
    /// The codec's parameters, at most [`MAX_PARAMS`] bytes.
    pub params: &'a [u8],
    /// Bytes after the header.
    pub payload_bytes: u64,
    /// [`crate::format::checksum::checksum`] of the payload.
    pub payload_checksum: u64,
}

/// Bytes of a header with `rank` extents and `n_params` bytes of parameters.
pub fn header_bytes(rank: u8, n_params: usize) -> usize {
    (FIXED_BYTES + 8 * usize::from(rank) + n_params).next_multiple_of(ALIGNMENT)
}

impl<'a> Header<'a> {
    /// Bytes of this header.
    pub fn n_bytes(&self) -> usize {
        header_bytes(self.array.shape().rank(), self.params.len())
    }

    /// Bytes of the whole frame.
    ///
    /// # Errors
    /// `Corrupt` if no frame can be that long.
    pub fn frame_bytes(&self) -> Result<u64> {
        let n_bytes = self.payload_bytes.checked_add(self.n_bytes() as u64);
        n_bytes.ok_or_else(|| {
            let n_bytes = self.payload_bytes;
            Error::corrupt(format!(
                "the frame header is damaged: with a payload of {n_bytes} bytes, the frame would exceed 2^64-1 bytes"
            ))
        })
    }

    /// Writes the header to the start of `dst`, which must have room for [`Header::n_bytes`].
    ///
    /// # Panics
    /// If `dst` is too short or `params` longer than [`MAX_PARAMS`]: the engine sized both.
    pub fn emit(&self, dst: &mut [u8]) {
        let dst = &mut dst[..self.n_bytes()];
        dst.fill(0);
        dst[0..4].copy_from_slice(&MAGIC);
        dst[4] = FORMAT_VERSION;
        dst[5] = self.codec;
        dst[6] = self.codec_version;
        dst[7] = if self.array.order() == ByteOrder::Big { FLAG_BIG_ENDIAN } else { 0 };
        dst[8] = self.array.dtype().id();
        dst[9] = self.array.shape().rank();
        dst[10] = self.fold as u8;
        dst[11] = u8::try_from(self.params.len()).expect("at most 255 bytes of parameters");
        dst[12..16].copy_from_slice(&self.array.element_size().to_le_bytes());
        dst[16..24].copy_from_slice(&self.payload_bytes.to_le_bytes());
        dst[24..32].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let extents = self.array.shape().extents();
        for (field, extent) in dst[FIXED_BYTES..].chunks_exact_mut(8).zip(extents) {
            field.copy_from_slice(&extent.to_le_bytes());
        }
        let params_at = FIXED_BYTES + 8 * extents.len();
        dst[params_at..params_at + self.params.len()].copy_from_slice(self.params);
        let crc = crc32c::crc32c(dst);
        dst[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads and checks the header at the start of `frame`. The payload may be missing or cut.
    ///
    /// # Errors
    /// `Truncated` if `frame` ends within the header, `Corrupt` if it is damaged or not a gridz
    /// frame, `UnsupportedFormat` if it has a version that this library does not read.
    pub fn parse(frame: &'a [u8]) -> Result<Self> {
        let cut = || {
            let have = frame.len();
            Error::new(ErrorKind::Truncated, format!("the frame is truncated: its header ends after {have} bytes"))
        };
        let magic = frame.get(..4).ok_or_else(cut)?;
        if magic != MAGIC {
            return Err(Error::corrupt("not a gridz frame: the data does not begin with GRDZ"));
        }
        let fixed: &[u8; FIXED_BYTES] = frame.first_chunk().ok_or_else(cut)?;
        if (1..FORMAT_VERSION).contains(&fixed[4]) {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                "the frame was written before the first published version of gridz, and no published version reads \
                 it; compress the data again",
            ));
        }
        if fixed[4] != FORMAT_VERSION {
            return Err(unsupported(format!(
                "frame format {} is unknown; this version of gridz reads format {FORMAT_VERSION}",
                fixed[4]
            )));
        }
        let (rank, n_params) = (fixed[9], usize::from(fixed[11]));
        if usize::from(rank) > MAX_RANK {
            return Err(Error::corrupt(format!(
                "the frame header is damaged: rank {rank} is over the limit of {MAX_RANK}"
            )));
        }
        let header = frame.get(..header_bytes(rank, n_params)).ok_or_else(cut)?;
        let stored_crc = u32::from_le_bytes(word(fixed, CRC_AT));
        let crc = crc32c::crc32c(&header[..CRC_AT]);
        let crc = crc32c::crc32c_append(crc, &[0; 4]);
        let crc = crc32c::crc32c_append(crc, &header[CRC_AT + 4..]);
        if crc != stored_crc {
            return Err(Error::corrupt("the frame header is damaged: its checksum does not match"));
        }
        // The CRC matches, so a writer wrote these bytes. An unknown value comes from a newer or
        // foreign writer.
        let flags = fixed[7];
        if flags & !FLAG_BIG_ENDIAN != 0 {
            return Err(unsupported(format!("frame flags {flags:#04x} are unknown to this version")));
        }
        let dtype = DType::from_id(fixed[8])
            .ok_or_else(|| unsupported(format!("element type {} is unknown to this version", fixed[8])))?;
        let fold = Fold::from_id(fixed[10])?;
        if fixed[36..40] != [0; 4] {
            let reserved = &fixed[36..40];
            return Err(unsupported(format!("the reserved field of the frame header is {reserved:?} and not 0")));
        }
        let params_at = FIXED_BYTES + 8 * usize::from(rank);
        let mut extents = [0; MAX_RANK];
        for (extent, field) in extents.iter_mut().zip(header[FIXED_BYTES..params_at].chunks_exact(8)) {
            *extent = u64::from_le_bytes(word(field, 0));
        }
        let (params, pad) = header[params_at..].split_at(n_params);
        if pad.iter().any(|&b| b != 0) {
            return Err(unsupported(format!("the padding of the frame header is {pad:?} and not 0")));
        }
        let order = if flags & FLAG_BIG_ENDIAN != 0 { ByteOrder::Big } else { ByteOrder::Little };
        let element_size = u32::from_le_bytes(word(fixed, 12));
        let array = Shape::new(&extents[..usize::from(rank)])
            .and_then(|shape| Array::with_size(dtype, order, element_size, shape))
            .map_err(|e| Error::corrupt(format!("the frame header is damaged: {e}")))?;
        if array.order() != order {
            return Err(Error::corrupt(format!(
                "the frame header is damaged: {} elements, which have no byte order, are marked as big-endian",
                dtype.name()
            )));
        }
        Ok(Self {
            codec: fixed[5],
            codec_version: fixed[6],
            fold,
            array,
            params,
            payload_bytes: u64::from_le_bytes(word(fixed, 16)),
            payload_checksum: u64::from_le_bytes(word(fixed, 24)),
        })
    }
}

/// The `N` bytes of `bytes` at offset `at`. All callers pass constant offsets within fixed-size
/// parts.
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

fn unsupported(context: String) -> Error {
    Error::new(ErrorKind::UnsupportedFormat, format!("{context}; a newer gridz may read this data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(params: &[u8]) -> Header<'_> {
        let shape = Shape::new(&[3, 5, 1 << 40]).unwrap();
        Header {
            codec: 9,
            codec_version: 2,
            fold: Fold::Flat,
            array: Array::new(DType::I16, ByteOrder::Big, shape).unwrap(),
            params,
            payload_bytes: 0x1122_3344_5566,
            payload_checksum: 0xdead_beef_0bad_cafe,
        }
    }

    #[test]
    fn parse_reads_what_emit_wrote() {
        for n_params in [0, 1, 7, 8, 9, MAX_PARAMS] {
            let params: Vec<u8> = (1..=n_params as u8).collect();
            let header = sample(&params);
            let mut bytes = vec![0xaa; header.n_bytes() + 3];
            header.emit(&mut bytes);
            assert_eq!(Header::parse(&bytes).unwrap(), header);
            assert_eq!(bytes[header.n_bytes()..], [0xaa; 3]);
        }
    }

    #[test]
    fn three_extents_without_parameters_take_64_bytes() {
        assert_eq!([0, 1, 3, 4, 32].map(|rank| header_bytes(rank, 0)), [48, 48, 64, 80, 304]);
        assert_eq!(header_bytes(MAX_RANK as u8, MAX_PARAMS), MAX_HEADER_BYTES);
    }

    #[test]
    fn every_truncation_and_bit_flip_is_refused() {
        let header = sample(&[1, 2, 3]);
        let mut bytes = vec![0; header.n_bytes()];
        header.emit(&mut bytes);
        for n in 0..bytes.len() {
            assert_eq!(Header::parse(&bytes[..n]).unwrap_err().kind(), ErrorKind::Truncated, "{n} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&flipped).is_err(), "bit {bit}");
        }
    }

    /// A writer of another version keeps the checksum right, so the check of each field must report it.
    #[test]
    fn unknown_values_under_a_valid_checksum_are_unsupported() {
        let header = sample(&[1, 2, 3]);
        let mut good = vec![0; header.n_bytes()];
        header.emit(&mut good);
        let last = good.len() - 1;
        for (at, value, kind) in [
            (4, FORMAT_VERSION - 1, ErrorKind::UnsupportedFormat),
            (4, FORMAT_VERSION + 1, ErrorKind::UnsupportedFormat),
            (7, 3, ErrorKind::UnsupportedFormat),
            (8, 200, ErrorKind::UnsupportedFormat),
            (10, 2, ErrorKind::UnsupportedFormat),
            (36, 1, ErrorKind::UnsupportedFormat),
            (last, 1, ErrorKind::UnsupportedFormat),
            (9, 33, ErrorKind::Corrupt),
            (12, 4, ErrorKind::Corrupt),
            (47, 0xff, ErrorKind::Corrupt),
            (8, 1, ErrorKind::Corrupt),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes[CRC_AT..CRC_AT + 4].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Header::parse(&bytes).unwrap_err().kind(), kind, "byte {at} = {value}");
        }
    }
}
