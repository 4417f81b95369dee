//! What a frame says of the parameters, and what may be asked for.
//!
//! ```text
//! u8 mode | u8 0 | u16 minbits | u16 maxbits | u8 maxprec | u8 0 | i16 minexp | u16 0 | f64 value | the fill value, one element, if there is one
//! ```

use crate::codec::Params;
use crate::codec::mode::Mode;
use crate::codec::terms::{Extra, Terms};
use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::layout::{MAX_RANK, block_elements};
use crate::codec::zfp::numbers::{Numbers, REVERSIBLE};
use crate::error::{Error, Result};
use crate::types::DType;

/// Bytes in front of a fill value.
const FIXED_BYTES: usize = 20;
/// Where the bytes are that are always 0.
const RESERVED: [usize; 4] = [1, 7, 10, 11];
/// Most bytes of a fill value.
const MAX_FILL_BYTES: usize = 8;
/// Exponents that the lowest plane that is kept can have.
const MINEXPS: std::ops::RangeInclusive<i32> = Numbers::DEFAULT.minexp..=1023;

/// The numbers of mode expert, in the order of their words in cd_values.
pub const EXTRAS: &[Extra] = &[
    Extra { name: "minbits", default: Numbers::DEFAULT.minbits as f64, is_whole: true },
    Extra { name: "maxbits", default: Numbers::DEFAULT.maxbits as f64, is_whole: true },
    Extra { name: "maxprec", default: Numbers::DEFAULT.maxprec as f64, is_whole: true },
    Extra { name: "minexp", default: Numbers::DEFAULT.minexp as f64, is_whole: true },
];

/// What was asked for, as a frame has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// What the value means.
    pub mode: Mode,
    /// The value; 0 if there is none.
    pub value: f64,
    /// How blocks are cut; with a relative bound as if there were no bound.
    pub numbers: Numbers,
    /// The bytes of the fill value, not all zero, and zeros.
    pub fill: Option<[u8; MAX_FILL_BYTES]>,
}

impl Asked {
    /// What terms ask for arrays of a type with so many axes.
    ///
    /// # Errors
    /// `UnsupportedJob` for what zfp cannot do, `InvalidArgument` for a fill value that no element can be.
    pub fn new(terms: &Terms, dtype: DType, rank: usize) -> Result<Self> {
        let &Terms { mode, value, extras, fill, .. } = terms;
        let (mode_name, name) = (mode.name(), dtype.name());
        if matches!(mode, Mode::Abs | Mode::Rel) && !is_float(dtype) {
            return Err(Error::unsupported(format!(
                "zfp, {mode_name}: of {name} elements, which are integers, zfp keeps no bound; use szp, or rate or precision"
            )));
        }
        let numbers = if mode == Mode::Expert {
            expert(extras)
        } else {
            let others = EXTRAS.iter().zip(extras).find(|(extra, given)| extra.default != *given);
            if let Some((extra, _)) = others {
                let text =
                    format!("zfp, {mode_name}: {} belongs to mode expert; leave it out, or use that", extra.name);
                return Err(Error::unsupported(text));
            }
            numbers_of(mode, value, dtype, rank)
        };
        let Some(numbers) = numbers.filter(|numbers| are_possible(mode, numbers, dtype)) else {
            let n = block_elements(rank);
            let (least, most) = (least_maxbits(dtype), Numbers::DEFAULT.maxbits);
            return Err(Error::unsupported(match mode {
                Mode::Rate => format!(
                    "zfp, {mode_name}: {value} bits for each of {n} elements of a block are not between 1 and {most} bits; \
                     use a rate from {} to {}",
                    0.5 / n as f64,
                    f64::from(most) / n as f64
                ),
                Mode::Precision => {
                    format!("zfp, {mode_name}: {value} bit planes; there are {} at most", Numbers::DEFAULT.maxprec)
                }
                _ => format!(
                    "zfp, {mode_name}: for {name} elements minbits must be from 0 to maxbits, maxbits from {least} to {most}, \
                     maxprec from 1 to {}, minexp from {} to {}; for a minexp of {REVERSIBLE} use lossless",
                    Numbers::DEFAULT.maxprec,
                    MINEXPS.start(),
                    MINEXPS.end()
                ),
            }));
        };
        let size = dtype.size().unwrap_or_default().into();
        let fill = fill.map(|fill| fill.bits(dtype, size)).transpose()?;
        // Every element may become zero, and what is lossless keeps all.
        let fill = fill.filter(|&bits| bits != 0 && mode != Mode::Lossless);
        Ok(Self { mode, value, numbers, fill: fill.map(|bits| (bits as u64).to_le_bytes()) })
    }

    /// As a frame has it.
    pub fn to_params(self, element_bytes: usize) -> Params {
        let mut bytes = [0; FIXED_BYTES + MAX_FILL_BYTES];
        let Numbers { minbits, maxbits, maxprec, minexp } = self.numbers;
        bytes[0] = self.mode.id();
        bytes[2..4].copy_from_slice(&(minbits as u16).to_le_bytes());
        bytes[4..6].copy_from_slice(&(maxbits as u16).to_le_bytes());
        bytes[6] = maxprec as u8;
        bytes[8..10].copy_from_slice(&(minexp as i16).to_le_bytes());
        bytes[12..FIXED_BYTES].copy_from_slice(&self.value.to_le_bytes());
        bytes[FIXED_BYTES..].copy_from_slice(&self.fill.unwrap_or_default());
        Params::new(&bytes[..FIXED_BYTES + if self.fill.is_some() { element_bytes } else { 0 }])
    }

    /// Whether a later version of the codec has written these parameters.
    pub fn is_later(params: &[u8]) -> bool {
        RESERVED.iter().any(|&at| params.get(at).is_some_and(|&byte| byte != 0))
    }

    /// What a frame says: the mode and the value alone, which need no array.
    pub fn mode_of(params: &[u8]) -> Option<(Mode, f64)> {
        let (fixed, _) = params.split_first_chunk::<FIXED_BYTES>()?;
        let mode = Mode::from_id(fixed[0].into())?;
        let value = f64::from_le_bytes(*fixed.last_chunk()?);
        Some((mode, value))
    }

    /// What a frame says of an array of a type with so many axes; `None` if the codec cannot have written that.
    pub fn of_params(params: &[u8], dtype: DType, rank: usize) -> Option<Self> {
        let (fixed, fill) = params.split_first_chunk::<FIXED_BYTES>()?;
        let (mode, value) = Self::mode_of(params)?;
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
        if !is_sound || !is_as_asked || !are_possible(mode, &numbers, dtype) {
            return None;
        }
        let has_fill = !fill.is_empty();
        let mut bytes = [0; MAX_FILL_BYTES];
        if has_fill && (mode == Mode::Lossless || fill.len() as u32 != dtype.size()?) {
            return None;
        }
        bytes[..fill.len()].copy_from_slice(fill);
        let fill = has_fill.then_some(bytes);
        if fill == Some([0; MAX_FILL_BYTES]) { None } else { Some(Self { mode, value, numbers, fill }) }
    }
}

/// Whether elements are floats.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Fewest bits that a block may be cut to: what says that it has numbers, and their exponent.
fn least_maxbits(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 1 + f32::EXPONENT_BITS,
        DType::F64 => 1 + f64::EXPONENT_BITS,
        _ => 1,
    }
}

/// Numbers of mode expert.
fn expert(extras: [f64; 4]) -> Option<Numbers> {
    let [minbits, maxbits, maxprec, minexp] = extras.map(|extra| extra as i32);
    let bits = |bits: i32| u32::try_from(bits).ok();
    Some(Numbers { minbits: bits(minbits)?, maxbits: bits(maxbits)?, maxprec: bits(maxprec)?, minexp })
}

/// The numbers of another mode with this value.
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

/// The numbers with which errors are up to an absolute bound.
pub fn bounded(bound: f64) -> Numbers {
    // The exponent field of a float64 is the whole part of its logarithm; below the normal numbers a plane is none too many.
    let exponent = (bound.to_bits() >> 52) as i32 - 1023;
    let subnormal = || bound.to_bits().checked_ilog2().map_or(0, |log2| log2 as i32) - 1074;
    let minexp = if exponent > -1023 { exponent } else { subnormal() };
    Numbers { minexp, ..Numbers::DEFAULT }
}

/// Whether blocks can be cut so.
fn are_possible(mode: Mode, numbers: &Numbers, dtype: DType) -> bool {
    let &Numbers { minbits, maxbits, maxprec, minexp } = numbers;
    minbits <= maxbits
        && (least_maxbits(dtype)..=Numbers::DEFAULT.maxbits).contains(&maxbits)
        && (1..=Numbers::DEFAULT.maxprec).contains(&maxprec)
        && (MINEXPS.contains(&minexp) || mode == Mode::Lossless)
}

const _: () = assert!(MAX_RANK == 4, "blocks of more elements would have more bits than the default");
