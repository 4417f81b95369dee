//! szp's choices for a whole array: the quantiser, the size of its blocks, and what a frame says of them.
//!
//! ```text
//! u8 b | u8 logarithm of a unit | u8 mode | u8 level + 4 · code of the missing elements | f64 value | missing elements
//! ```
//!
//! Version 1 has none, or one fill value that is not zero, and the code 0 ([`MissingElements::code`]).

use crate::codec::Params;
use crate::codec::missing::MissingElements;
use crate::codec::mode::Mode;
use crate::codec::terms::Terms;
use crate::error::Result;
use crate::stage::blocks::ROW;
use crate::types::DType;

/// Most axes the codec looks along.
pub const MAX_RANK: usize = 3;
/// What is done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Small blocks, predicted and packed.
    Fast,
    /// Larger ones, in contexts.
    Dense,
    /// As large, with weights of their own.
    Max,
}

impl Level {
    /// All of them.
    const ALL: [Self; 3] = [Self::Fast, Self::Dense, Self::Max];

    /// That of a request, which knows no others.
    fn of(number: u16) -> Self {
        match number {
            2 => Self::Dense,
            3 => Self::Max,
            _ => Self::Fast,
        }
    }

    /// What a frame says.
    fn id(self) -> u8 {
        match self {
            Self::Fast => 0,
            Self::Dense => 2,
            Self::Max => 3,
        }
    }

    /// The logarithm of a block's elements.
    pub fn log2_size(self) -> u8 {
        match self {
            Self::Fast => 12,
            Self::Dense | Self::Max => 16,
        }
    }

    /// MissingElements of a block's rows: where rows are coded side by side, the shorter they are the longer lanes wait for the row before.
    pub fn row(self) -> usize {
        match self {
            Self::Fast | Self::Dense => ROW,
            Self::Max => 128,
        }
    }
}

/// Logarithms of units that the format knows: blocks begin at multiples of these.
pub const LOG2_UNITS: std::ops::RangeInclusive<u8> = 2..=4;
/// Where the level is, and above it the code of the missing elements.
const AT_LEVEL: usize = 3;
/// Bits of the level there.
const LEVEL_BITS: u32 = 2;
/// Bytes in front of the missing elements.
const FIXED_BYTES: usize = 12;

/// What was asked for, as a frame has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// What the value means.
    pub mode: Mode,
    /// The value, above 0.
    pub value: f64,
    /// The missing elements, little-endian.
    pub missing: MissingElements,
    /// The logarithm of a unit.
    pub log2_unit: u8,
    /// What is done with blocks.
    pub level: Level,
}

impl Asked {
    /// What terms ask for elements of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for a fill value that no element can be.
    pub fn new(terms: &Terms, dtype: DType, log2_unit: u8) -> Result<Self> {
        let missing = terms.missing.elements(dtype, dtype.size().unwrap_or_default().into())?;
        Ok(Self { mode: terms.mode, value: terms.value, missing, log2_unit, level: Level::of(terms.level) })
    }

    /// Whether parameters have a level that only a later version knows.
    pub fn is_later(params: &[u8]) -> bool {
        let is_known = |id: u8| Level::ALL.iter().any(|level| level.id() == id % (1 << LEVEL_BITS));
        params.get(AT_LEVEL).is_some_and(|&id| !is_known(id))
    }

    /// The code of the missing elements of such parameters.
    pub fn missing_code(params: &[u8]) -> u8 {
        params.get(AT_LEVEL).map_or(0, |byte| byte >> LEVEL_BITS)
    }

    /// As a frame has it.
    pub fn to_params(self) -> Params {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..3].copy_from_slice(&[self.level.log2_size(), self.log2_unit, self.mode.id()]);
        bytes[AT_LEVEL] = self.level.id() | self.missing.code() << LEVEL_BITS;
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        let mut params = Params::new(&bytes);
        self.missing.in_params().for_each(|element| params.push(element));
        params
    }

    /// What a frame says, of elements of so many bytes if that is known; `None` if the codec cannot have written that.
    pub fn of_params(params: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (fixed, missing) = params.split_first_chunk::<FIXED_BYTES>()?;
        let &[log2_size, log2_unit, mode, id, ref value @ ..] = fixed;
        let missing = MissingElements::of_params(id >> LEVEL_BITS, missing, element_bytes)?;
        let id = id % (1 << LEVEL_BITS);
        let level = Level::ALL.into_iter().find(|level| (level.log2_size(), level.id()) == (log2_size, id))?;
        let mode = Mode::from_id(mode.into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Pwrel))?;
        let value = f64::from_le_bytes(*value.first_chunk()?);
        let is_sound = LOG2_UNITS.contains(&log2_unit)
            && value.is_finite()
            && value > 0.0
            && (mode != Mode::Pwrel || value < 1.0);
        is_sound.then_some(Self { mode, value, missing, log2_unit, level })
    }
}
