//! Decodes streams written by H5Z-ZFP, HDF5 filter 32013.
//!
//! A chunk is a stream of zfp without header and index, truncated after its last byte. The filter's
//! cd_values are a word of versions, followed by zfp's own header as a bit string of 32-bit words:
//!
//! ```text
//! 'z' 'f' 'p' | u8 version of the stream, 5 | 2 bits element type − 1 | 2 bits rank − 1 | 48 bits extents − 1, last axis first | mode
//! mode, 12 bits: maxbits − 1 of a rate, from 2048 on maxprec − 1, 2176 reversible, from 2177 on minexp + 1074
//! mode, 64 bits: 12 ones | 15 bits minbits − 1 | 15 bits maxbits − 1 | 7 bits maxprec − 1 | 15 bits minexp + 16495
//! ```

use crate::codec::CodecState;
use crate::codec::mode::Mode;
use crate::codec::third_party::{FilterParams, ThirdPartyFilter};
use crate::codec::zfp::block::{BitReader, Parameters};
use crate::codec::zfp::layout::Layout;
use crate::codec::zfp::numbers::{Numbers, REVERSIBLE};
use crate::codec::zfp::params::are_possible;
use crate::codec::zfp::{Zfp, are_integers, by_float, decode};
use crate::cpu::isa::Isa;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{DType, Shape};

const FILTER_ID: i32 = 32013;
/// Version of the stream.
const VERSION: u64 = 5;
/// Words of the cd_values up to the end of a short mode.
const LEAST_WORDS: usize = 1 + 3;
/// The mode that is followed by the four numbers.
const LONG: u64 = 0xfff;
/// The first short mode of each kind: with a precision, reversible, and with an accuracy.
const PRECISION: u64 = 2048;
const REVERSIBLE_MODE: u64 = 2176;
const ACCURACY: u64 = 2177;

/// The common data of all chunks.
#[derive(Clone, Copy)]
struct Stream {
    layout: Layout,
    dtype: DType,
    numbers: Numbers,
}

impl ThirdPartyFilter for Zfp {
    fn filter_id(&self) -> i32 {
        FILTER_ID
    }

    fn params(&self, cd_values: &[u32]) -> Result<FilterParams> {
        let wrong = || Error::corrupt("the cd_values of filter 32013 do not contain a zfp header");
        if cd_values.len() < LEAST_WORDS {
            return Err(wrong());
        }
        let header: Vec<u8> = cd_values[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bits = BitReader::new(&header, 0);
        if bits.take(24) != u64::from(u32::from_le_bytes(*b"zfp\0")) {
            return Err(wrong());
        }
        let version = bits.take(8);
        if version != VERSION {
            let text = format!("the zfp stream has version {version}; gridz reads version {VERSION} only");
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let dtype = [DType::I32, DType::I64, DType::F32, DType::F64][bits.take(2) as usize];
        let rank = bits.take(2) as usize + 1;
        let mut extents = [0; 4];
        for extent in extents[..rank].iter_mut().rev() {
            *extent = bits.take(48 / rank as u32) + 1;
        }
        let numbers = numbers(&mut bits);
        let mode = if numbers.is_reversible() { Mode::Lossless } else { Mode::Expert };
        let shape = Shape::new(&extents[..rank])?;
        let layout = Layout::new(&shape).filter(|_| are_possible(mode, &numbers, dtype)).ok_or_else(wrong)?;
        // One bit per number and one more per plane, plus the bits before the planes.
        let most_bits = 65 * layout.block_elements() as u64 + 32;
        let block_bits = most_bits.min(numbers.maxbits.into()).max(numbers.minbits.into());
        Ok(FilterParams {
            n_bytes: shape.n_elements() * u64::from(dtype.size().unwrap_or_default()),
            bound: (layout.n_blocks() as u64 * block_bits).div_ceil(64) * 8,
            layout: CodecState::new(Stream { layout, dtype, numbers }),
        })
    }

    fn decode(&self, layout: &CodecState, level: Isa, stored: &[u8], dst: &mut [u8]) -> Result<()> {
        let Stream { layout, dtype, numbers } = layout.get();
        let numbers = &Parameters { numbers, are_integers: are_integers(*dtype) };
        let n_bits = by_float!(dtype, decode::decode_stream(layout, numbers, level, stored, dst));
        if n_bits > 8 * stored.len() {
            let text =
                format!("a zfp stream is truncated: it has {} of {} bytes", stored.len(), n_bits.div_ceil(8));
            return Err(Error::new(ErrorKind::Truncated, text));
        }
        Ok(())
    }
}

/// Reads the numbers of a header's mode.
fn numbers(bits: &mut BitReader) -> Numbers {
    let default = Numbers::DEFAULT;
    match bits.take(12) {
        LONG => {
            let [minbits, maxbits, maxprec] = [15, 15, 7].map(|n| bits.take(n) as u32 + 1);
            // An exponent below that of the smallest float means that the stream is lossless.
            let minexp = (bits.take(15) as i32 - 16495).max(REVERSIBLE);
            Numbers { minbits, maxbits, maxprec, minexp }
        }
        rate @ ..PRECISION => Numbers { minbits: rate as u32 + 1, maxbits: rate as u32 + 1, ..default },
        precision @ PRECISION..REVERSIBLE_MODE => {
            Numbers { maxprec: (precision - PRECISION) as u32 + 1, ..default }
        }
        REVERSIBLE_MODE => Numbers { minexp: REVERSIBLE, ..default },
        accuracy => Numbers { minexp: (accuracy - ACCURACY) as i32 + default.minexp, ..default },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers that H5Z-ZFP 1.1.1 wrote for chunks of 8 × 33 × 17 float64.
    #[test]
    fn headers_tell_type_extents_and_numbers() {
        let default = Numbers::DEFAULT;
        let head = [0x1010_5111, 0x0570_667a, 0x0200_010b];
        for (mode, expected) in [
            (&[0x1ff0_0070][..], Numbers { minbits: 512, maxbits: 512, ..default }),
            (&[0x80f0_0070], Numbers { maxprec: 16, ..default }),
            (&[0xca90_0070], Numbers { minexp: -10, ..default }),
            (&[0x8800_0070], Numbers { minexp: REVERSIBLE, ..default }),
            (
                &[0xfff0_0070, 0xc1f3_8000, 0x0008_0b64],
                Numbers { minbits: 1, maxbits: 1000, maxprec: 20, minexp: -20 },
            ),
        ] {
            let values = [&head[..], mode].concat();
            let params = ThirdPartyFilter::params(&Zfp, &values).unwrap();
            let &Stream { layout, dtype, numbers } = params.layout.get();
            assert_eq!(
                (dtype, layout.strides(), params.n_bytes),
                (DType::F64, [8 * 33 * 17, 33 * 17, 17, 1], 35904)
            );
            assert_eq!(numbers, expected);
            assert!(params.bound < 3 * params.n_bytes);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for values in
            [&[][..], &[0x1010_5111, 0x0570_667a, 0x0200_010b], &[0x1010_5111, 0x0570_667b, 0x0200_010b, 0]]
        {
            assert_eq!(ThirdPartyFilter::params(&Zfp, values).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        let later = [0x1010_5111, 0x0670_667a, 0x0200_010b, 0x1ff0_0070];
        assert_eq!(ThirdPartyFilter::params(&Zfp, &later).unwrap_err().kind(), ErrorKind::UnsupportedFormat);
        // Fewer than the bits of an exponent.
        assert!(ThirdPartyFilter::params(&Zfp, &[0, 0x0570_667a, 0x0200_010b, 0x0010_0070]).is_err());
    }
}
