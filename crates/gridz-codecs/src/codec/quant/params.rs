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
    const ALL: [Self; 3] = [Self::Fast, Self::Dense, Self::Max];

    /// The level with this number of a request; other numbers are rejected earlier.
    fn of(number: u16) -> Self {
        match number {
            2 => Self::Dense,
            3 => Self::Max,
            _ => Self::Fast,
        }
    }

    /// The id in a frame.
    fn id(self) -> u8 {
        match self {
            Self::Fast => 0,
            Self::Dense => 2,
            Self::Max => 3,
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

/// Base-2 logarithms of units that the format allows. Blocks begin at multiples of a unit.
pub const LOG2_UNITS: std::ops::RangeInclusive<u8> = 2..=4;
/// Byte offset of the level; the code of the missing elements is in its upper bits.
const AT_LEVEL: usize = 3;
/// Bits of the level in that byte.
const LEVEL_BITS: u32 = 2;
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
        })
    }

    /// True if the parameters have a level that only a later version has.
    pub fn is_later(params: &[u8]) -> bool {
        let is_known = |id: u8| QuantLevel::ALL.iter().any(|level| level.id() == id % (1 << LEVEL_BITS));
        params.get(AT_LEVEL).is_some_and(|&id| !is_known(id))
    }

    /// The code of the missing elements in such parameters.
    pub fn missing_code(params: &[u8]) -> u8 {
        params.get(AT_LEVEL).map_or(0, |byte| byte >> LEVEL_BITS)
    }

    /// Encodes the request as a frame's parameters.
    pub fn to_params(self) -> Params {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..3].copy_from_slice(&[self.level.log2_size(), self.log2_unit, self.mode.id()]);
        bytes[AT_LEVEL] = self.level.id() | self.missing.code() << LEVEL_BITS;
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
        let id = id % (1 << LEVEL_BITS);
        let level = QuantLevel::ALL.into_iter().find(|level| (level.log2_size(), level.id()) == (log2_size, id))?;
        let mode = Mode::from_id(mode.into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Pwrel))?;
        let value = f64::from_le_bytes(*value.first_chunk()?);
        let is_sound = LOG2_UNITS.contains(&log2_unit)
            && value.is_finite()
            && value > 0.0
            && (mode != Mode::Pwrel || value < 1.0);
        is_sound.then_some(Self { mode, value, missing, log2_unit, level })
    }
}
