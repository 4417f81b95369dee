//! szp's choices for a whole array: the quantiser, the size of its blocks, and what a frame says of them.
//!
//! ```text
//! u8 b | u8 logarithm of a unit | u8 mode | u8 level | f64 value | the fill value, one element, if there is one
//! ```

use crate::codec::Params;
use crate::codec::fill::MAX_FILL_BYTES;
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

    /// Elements of a block's rows: where rows are coded side by side, the shorter they are the longer lanes wait for the row before.
    pub fn row(self) -> usize {
        match self {
            Self::Fast | Self::Dense => ROW,
            Self::Max => 128,
        }
    }
}

/// Logarithms of units that the format knows: blocks begin at multiples of these.
pub const LOG2_UNITS: std::ops::RangeInclusive<u8> = 2..=4;
/// Where the level is.
const AT_LEVEL: usize = 3;
/// Bytes in front of a fill value.
const FIXED_BYTES: usize = 12;

/// What was asked for, as a frame has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// What the value means.
    pub mode: Mode,
    /// The value, above 0.
    pub value: f64,
    /// The bytes of the fill value, not all zero, and zeros.
    pub fill: Option<[u8; MAX_FILL_BYTES]>,
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
        let size = dtype.size().unwrap_or_default().into();
        // What is zero has a code anyway, and everything may become zero.
        let fill = terms.fill.map(|fill| fill.bits(dtype, size)).transpose()?.filter(|&bits| bits != 0);
        let fill = fill.map(u128::to_le_bytes);
        Ok(Self { mode: terms.mode, value: terms.value, fill, log2_unit, level: Level::of(terms.level) })
    }

    /// Whether parameters have a level that only a later version knows.
    pub fn is_later(params: &[u8]) -> bool {
        params.get(AT_LEVEL).is_some_and(|&id| Level::ALL.iter().all(|level| level.id() != id))
    }

    /// As a frame has it.
    pub fn to_params(self, element_bytes: usize) -> Params {
        let mut bytes = [0; FIXED_BYTES + MAX_FILL_BYTES];
        bytes[..3].copy_from_slice(&[self.level.log2_size(), self.log2_unit, self.mode.id()]);
        bytes[AT_LEVEL] = self.level.id();
        bytes[4..FIXED_BYTES].copy_from_slice(&self.value.to_le_bytes());
        bytes[FIXED_BYTES..].copy_from_slice(&self.fill.unwrap_or_default());
        Params::new(&bytes[..FIXED_BYTES + if self.fill.is_some() { element_bytes } else { 0 }])
    }

    /// What a frame says, of elements of so many bytes if that is known; `None` if the codec cannot have written that.
    pub fn of_params(params: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (fixed, fill) = params.split_first_chunk::<FIXED_BYTES>()?;
        let &[log2_size, log2_unit, mode, id, ref value @ ..] = fixed;
        let level = Level::ALL.into_iter().find(|level| (level.log2_size(), level.id()) == (log2_size, id))?;
        let mode = Mode::from_id(mode.into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Pwrel))?;
        let value = f64::from_le_bytes(*value.first_chunk()?);
        let is_sound = LOG2_UNITS.contains(&log2_unit)
            && (fill.is_empty() || element_bytes.unwrap_or(fill.len()) == fill.len())
            && fill.len() <= MAX_FILL_BYTES
            && value.is_finite()
            && value > 0.0
            && (mode != Mode::Pwrel || value < 1.0);
        if !is_sound {
            return None;
        }
        let mut bytes = [0; MAX_FILL_BYTES];
        bytes[..fill.len()].copy_from_slice(fill);
        let is_zero = bytes == [0; MAX_FILL_BYTES];
        if is_zero != fill.is_empty() {
            return None;
        }
        let fill = (!is_zero).then_some(bytes);
        Some(Self { mode, value, fill, log2_unit, level })
    }
}
