//! quant's parameters of an array: the quantizer, the block size, and their encoding in a frame.
//!
//! ```text
//! u8 b | u8 logarithm of a unit | u8 mode | u8 level + 4 · code of the missing elements | f64 value | missing elements
//! ```
//!
//! Version 1 has no missing elements or one nonzero fill value, and the code 0
//! ([`MissingElements::code`]).

use crate::codec::Params;
use crate::codec::encode_params::EncodeParams;
use crate::codec::missing::MissingElements;
use crate::codec::mode::Mode;
use crate::error::Result;
use crate::stage::blocks::ROW;
use crate::types::DType;

/// Maximum number of axes that the codec distinguishes.
pub const MAX_RANK: usize = 3;
/// How blocks are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantLevel {
    /// Small blocks, predicted and packed.
    Fast,
    /// Larger blocks, coded with contexts.
    Dense,
    /// Blocks of the same size, with adaptive weights of their own.
    Max,
}

impl QuantLevel {
    /// The level with this number of a request, or of [`fallback_levels`]; other numbers are
    /// rejected earlier.
    fn of(number: u16) -> Self {
        match number {
            2 | DENSE_FOR_MAX => Self::Dense,
            MAX => Self::Max,
            _ => Self::Fast,
        }
    }

    /// Base-2 logarithm of a block's elements.
    pub fn log2_size(self) -> u8 {
        match self {
            Self::Fast => 12,
            Self::Dense | Self::Max => 16,
        }
    }

    /// Elements of a block's rows. Where rows are coded side by side, shorter rows make lanes wait
    /// longer for the previous row.
    pub fn row(self) -> usize {
        match self {
            Self::Fast | Self::Dense => ROW,
            Self::Max => 128,
        }
    }
}

/// The number of level max in a request.
const MAX: u16 = 3;
/// A level that no request has: blocks of level dense, in the frame of a request for max.
const DENSE_FOR_MAX: u16 = 4;

/// The levels to try in addition to that of a request. Blocks of level max have tables and weights
/// that small blocks do not repay, and rows that smooth data does not suit.
pub fn fallback_levels(level: u16) -> &'static [u16] {
    if level == MAX { &[DENSE_FOR_MAX] } else { &[] }
}

/// Base-2 logarithms of units that the format allows. Blocks begin at multiples of a unit.
pub const LOG2_UNITS: std::ops::RangeInclusive<u8> = 2..=4;
/// Byte offset of the level; the code of the missing elements is in its upper bits.
const AT_LEVEL: usize = 3;
/// Bits of the level in that byte.
const LEVEL_BITS: u32 = 2;
/// The levels by their ids in these bits, and whether the request was for max.
const LEVELS: [(QuantLevel, bool); 1 << LEVEL_BITS] =
    [(QuantLevel::Fast, false), (QuantLevel::Dense, true), (QuantLevel::Dense, false), (QuantLevel::Max, true)];
/// The bit that differs between the ids of both kinds of frames of a request for max.
const KIND_AT_MAX: u8 = 2;
/// Bytes before the missing elements.
const FIXED_BYTES: usize = 12;

/// The request, as a frame stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// The meaning of the value.
    pub mode: Mode,
    /// The value, above 0.
    pub value: f64,
    /// The missing elements, little-endian.
    pub missing: MissingElements,
    /// Base-2 logarithm of a unit.
    pub log2_unit: u8,
    /// How blocks are coded.
    pub level: QuantLevel,
    /// True if the request was for level max. Its frames have blocks of level dense if that makes
    /// them shorter.
    pub is_for_max: bool,
}

impl Asked {
    /// Converts the parameters for elements of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for a fill value that no element can have.
    pub fn new(encode_params: &EncodeParams, dtype: DType, log2_unit: u8) -> Result<Self> {
        let missing = encode_params.missing.elements(dtype, dtype.size().unwrap_or_default().into())?;
        Ok(Self {
            mode: encode_params.mode,
            value: encode_params.value,
            missing,
            log2_unit,
            level: QuantLevel::of(encode_params.level),
            is_for_max: encode_params.level >= MAX,
        })
    }

    /// True if the parameters have a level that only a later version has: id 1 with small blocks.
    pub fn is_later(params: &[u8]) -> bool {
        let is_reserved = |id: u8| LEVELS[usize::from(id) % LEVELS.len()] == (QuantLevel::Dense, true);
        params.get(AT_LEVEL).is_some_and(|&id| is_reserved(id)) && params[0] == QuantLevel::Fast.log2_size()
    }

    /// The request with the other kind of blocks, if frames of the same request can have them.
    pub fn sibling(self) -> Option<Self> {
        let level = match self.level {
            _ if !self.is_for_max => return None,
            QuantLevel::Dense => QuantLevel::Max,
            _ => QuantLevel::Dense,
        };
        Some(Self { level, ..self })
    }

    /// [`sibling`](Self::sibling), of encoded parameters.
    pub fn sibling_params(params: &[u8]) -> Option<Params> {
        let (before, rest) = params.split_at_checked(AT_LEVEL)?;
        let (&id, after) = rest.split_first()?;
        let (_, is_for_max) = LEVELS[usize::from(id) % LEVELS.len()];
        is_for_max.then(|| {
            let mut sibling = Params::new(before);
            sibling.push(&[id ^ KIND_AT_MAX]);
            sibling.push(after);
            sibling
        })
    }

    /// The code of the missing elements in such parameters.
    pub fn missing_code(params: &[u8]) -> u8 {
        params.get(AT_LEVEL).map_or(0, |byte| byte >> LEVEL_BITS)
    }

    /// Encodes the request as a frame's parameters.
    pub fn to_params(self) -> Params {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..3].copy_from_slice(&[self.level.log2_size(), self.log2_unit, self.mode.id()]);
        let level = (self.level, self.is_for_max);
        let id = LEVELS.iter().position(|&known| known == level).expect("all levels have ids") as u8;
        bytes[AT_LEVEL] = id | self.missing.code() << LEVEL_BITS;
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        let mut params = Params::new(&bytes);
        self.missing.in_params().for_each(|element| params.push(element));
        params
    }

    /// Decodes a frame's parameters. `element_bytes` is the element size, if known. Returns `None`
    /// if the codec cannot have written them.
    pub fn of_params(params: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (fixed, missing) = params.split_first_chunk::<FIXED_BYTES>()?;
        let &[log2_size, log2_unit, mode, id, ref value @ ..] = fixed;
        let missing = MissingElements::of_params(id >> LEVEL_BITS, missing, element_bytes)?;
        let (level, is_for_max) = LEVELS[usize::from(id) % LEVELS.len()];
        let mode = Mode::from_id(mode.into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Pwrel))?;
        let value = f64::from_le_bytes(*value.first_chunk()?);
        let is_sound = LOG2_UNITS.contains(&log2_unit)
            && level.log2_size() == log2_size
            && value.is_finite()
            && value > 0.0
            && (mode != Mode::Pwrel || value < 1.0);
        is_sound.then_some(Self { mode, value, missing, log2_unit, level, is_for_max })
    }
}
