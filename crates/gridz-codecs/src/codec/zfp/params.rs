//! The parameters of a frame, and the accepted requests.
//!
//! ```text
//! u8 mode | u8 code of the missing elements | u16 minbits | u16 maxbits | u8 maxprec | u8 0 | i16 minexp | u16 0 | f64 value |
//! missing elements
//! ```
//!
//! Version 1 has no missing elements or one nonzero fill value, and the code 0
//! ([`MissingElements::code`]).

use crate::codec::Params;
use crate::codec::encode_params::{CodecParam, EncodeParams};
use crate::codec::missing::{Missing, MissingElements};
use crate::codec::mode::Mode;
use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::layout::{MAX_RANK, block_elements};
use crate::codec::zfp::numbers::{Numbers, REVERSIBLE};
use crate::error::{Error, Result};
use crate::types::DType;

/// Bytes before the missing elements.
const FIXED_BYTES: usize = 20;
/// Byte offset of the code of the missing elements.
const MISSING_AT: usize = 1;
/// Byte offsets of the bytes that are always 0.
const RESERVED: [usize; 3] = [7, 10, 11];
/// Valid exponents of the lowest coded bit plane.
const MINEXPS: std::ops::RangeInclusive<i32> = Numbers::DEFAULT.minexp..=1023;

/// The parameters of mode expert, in the order of their words in cd_values.
pub const CODEC_PARAMS: &[CodecParam] = &[
    expert_number("minbits", Numbers::DEFAULT.minbits as f64),
    expert_number("maxbits", Numbers::DEFAULT.maxbits as f64),
    expert_number("maxprec", Numbers::DEFAULT.maxprec as f64),
    expert_number("minexp", Numbers::DEFAULT.minexp as f64),
];

const fn expert_number(name: &'static str, default: f64) -> CodecParam {
    CodecParam { name, default, is_whole: true, modes: &[Mode::Expert] }
}

/// The request, as a frame stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// The meaning of the value.
    pub mode: Mode,
    /// The value; 0 if the mode has none.
    pub value: f64,
    /// The truncation of blocks; with a relative bound, as if there were no bound.
    pub numbers: Numbers,
    /// The missing elements, little-endian; none in mode lossless.
    pub missing: MissingElements,
}

impl Asked {
    /// Converts the parameters for arrays of a type and rank.
    ///
    /// # Errors
    /// `UnsupportedJob` for requests that zfp does not support, `InvalidArgument` for a fill value
    /// that no element can have.
    pub fn new(encode_params: &EncodeParams, dtype: DType, rank: usize) -> Result<Self> {
        let &EncodeParams { mode, value, codec_params, missing, .. } = encode_params;
        let (mode_name, name) = (mode.name(), dtype.name());
        if matches!(mode, Mode::Abs | Mode::Rel) && !is_float(dtype) {
            return Err(Error::unsupported(format!(
                "zfp, {mode_name}: zfp keeps no error bound for {name} elements, which are integers; use quant, or \
                 mode rate or precision"
            )));
        }
        let numbers =
            if mode == Mode::Expert { expert(codec_params) } else { numbers_of(mode, value, dtype, rank) };
        let Some(numbers) = numbers.filter(|numbers| are_possible(mode, numbers, dtype)) else {
            let n = block_elements(rank);
            let (least, most) = (least_maxbits(dtype), Numbers::DEFAULT.maxbits);
            let [minbits, maxbits, maxprec, minexp] = codec_params;
            return Err(Error::unsupported(match mode {
                Mode::Rate => format!(
                    "zfp, {mode_name}: with {value} bits per element, a block of {n} elements is outside the \
                     limits of 1 to {most} bits; use a rate from {} to {}",
                    0.5 / n as f64,
                    f64::from(most) / n as f64
                ),
                Mode::Precision => {
                    format!(
                        "zfp, {mode_name}: {value} bit planes are too many; use at most {}",
                        Numbers::DEFAULT.maxprec
                    )
                }
                _ => format!(
                    "zfp, {mode_name}: for {name} elements minbits must be from 0 to maxbits, maxbits from {least} \
                     to {most}, maxprec from 1 to {}, and minexp from {} to {}, but they are {minbits}, {maxbits}, \
                     {maxprec} and {minexp}; for a minexp of {REVERSIBLE} use mode lossless",
                    Numbers::DEFAULT.maxprec,
                    MINEXPS.start(),
                    MINEXPS.end()
                ),
            }));
        };
        let missing = if mode == Mode::Lossless { Missing::NONE } else { missing };
        let missing = missing.elements(dtype, dtype.size().unwrap_or_default().into())?;
        Ok(Self { mode, value, numbers, missing })
    }

    /// Encodes the request as a frame's parameters.
    pub fn to_params(self) -> Params {
        let mut bytes = [0; FIXED_BYTES];
        let Numbers { minbits, maxbits, maxprec, minexp } = self.numbers;
        (bytes[0], bytes[MISSING_AT]) = (self.mode.id(), self.missing.code());
        bytes[2..4].copy_from_slice(&(minbits as u16).to_le_bytes());
        bytes[4..6].copy_from_slice(&(maxbits as u16).to_le_bytes());
        bytes[6] = maxprec as u8;
        bytes[8..10].copy_from_slice(&(minexp as i16).to_le_bytes());
        bytes[12..].copy_from_slice(&self.value.to_le_bytes());
        let mut params = Params::new(&bytes);
        self.missing.in_params().for_each(|element| params.push(element));
        params
    }

    /// The code of the missing elements in such parameters.
    pub fn missing_code(params: &[u8]) -> u8 {
        params.get(MISSING_AT).copied().unwrap_or_default()
    }

    /// True if only a later version of the codec can have written these parameters.
    pub fn is_later(params: &[u8]) -> bool {
        RESERVED.iter().any(|&at| params.get(at).is_some_and(|&byte| byte != 0))
    }

    /// Decodes only mode and value, which do not depend on the array.
    pub fn mode_of(params: &[u8]) -> Option<(Mode, f64)> {
        let (fixed, _) = params.split_first_chunk::<FIXED_BYTES>()?;
        let mode = Mode::from_id(fixed[0].into())?;
        let value = f64::from_le_bytes(*fixed.last_chunk()?);
        Some((mode, value))
    }

    /// Decodes a frame's parameters for arrays of a type and rank. Returns `None` if the codec
    /// cannot have written them.
    pub fn of_params(params: &[u8], dtype: DType, rank: usize) -> Option<Self> {
        let (fixed, missing) = params.split_first_chunk::<FIXED_BYTES>()?;
        let (mode, value) = Self::mode_of(params)?;
        let missing = MissingElements::of_params(fixed[MISSING_AT], missing, Some(dtype.size()? as usize))?;
        let pair = |at: usize| [fixed[at], fixed[at + 1]];
        let numbers = Numbers {
            minbits: u16::from_le_bytes(pair(2)).into(),
            maxbits: u16::from_le_bytes(pair(4)).into(),
            maxprec: fixed[6].into(),
            minexp: i16::from_le_bytes(pair(8)).into(),
        };
        let is_sound = match mode {
            Mode::Lossless | Mode::Expert => value.to_bits() == 0,
            Mode::Abs | Mode::Rel => is_float(dtype) && value.is_finite() && value > 0.0,
            Mode::Rate | Mode::Precision => value.is_finite() && value > 0.0,
            _ => false,
        };
        let is_as_asked = mode == Mode::Expert || numbers_of(mode, value, dtype, rank) == Some(numbers);
        let is_needed = missing.is_none() || mode != Mode::Lossless;
        let is_sound = is_sound && is_as_asked && is_needed && are_possible(mode, &numbers, dtype);
        is_sound.then_some(Self { mode, value, numbers, missing })
    }
}

/// True if elements are floats.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Minimum number of bits to which a block may be truncated: the flag for nonzero blocks, and their
/// exponent.
fn least_maxbits(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 1 + f32::EXPONENT_BITS,
        DType::F64 => 1 + f64::EXPONENT_BITS,
        _ => 1,
    }
}

/// The parameters of mode expert.
fn expert(codec_params: [f64; 4]) -> Option<Numbers> {
    let [minbits, maxbits, maxprec, minexp] = codec_params.map(|param| param as i32);
    let bits = |bits: i32| u32::try_from(bits).ok();
    Some(Numbers { minbits: bits(minbits)?, maxbits: bits(maxbits)?, maxprec: bits(maxprec)?, minexp })
}

/// The parameters of another mode with this value.
fn numbers_of(mode: Mode, value: f64, dtype: DType, rank: usize) -> Option<Numbers> {
    let default = Numbers::DEFAULT;
    Some(match mode {
        Mode::Lossless => Numbers { minexp: REVERSIBLE, ..default },
        Mode::Abs => bounded(value),
        Mode::Rel => default,
        Mode::Rate => {
            let bits = (block_elements(rank) as f64 * value + 0.5).floor().min(f64::from(u16::MAX)) as u32;
            let bits = bits.max(if is_float(dtype) { least_maxbits(dtype) } else { 0 });
            Numbers { minbits: bits, maxbits: bits, ..default }
        }
        Mode::Precision if value.fract() == 0.0 && value <= f64::from(default.maxprec) => {
            Numbers { maxprec: value as u32, ..default }
        }
        _ => return None,
    })
}

/// The parameters that keep errors within an absolute bound.
pub fn bounded(bound: f64) -> Numbers {
    // The exponent field of a float64 is the integer part of its logarithm. Below the normal
    // numbers, the leading bit gives the exact plane.
    let exponent = (bound.to_bits() >> 52) as i32 - 1023;
    let subnormal = || bound.to_bits().checked_ilog2().map_or(0, |log2| log2 as i32) - 1074;
    let minexp = if exponent > -1023 { exponent } else { subnormal() };
    Numbers { minexp, ..Numbers::DEFAULT }
}

/// True if blocks can be truncated like this.
pub fn are_possible(mode: Mode, numbers: &Numbers, dtype: DType) -> bool {
    let &Numbers { minbits, maxbits, maxprec, minexp } = numbers;
    minbits <= maxbits
        && (least_maxbits(dtype)..=Numbers::DEFAULT.maxbits).contains(&maxbits)
        && (1..=Numbers::DEFAULT.maxprec).contains(&maxprec)
        && (MINEXPS.contains(&minexp) || mode == Mode::Lossless)
}

const _: () = assert!(MAX_RANK == 4, "blocks of more elements would have more bits than the default");
