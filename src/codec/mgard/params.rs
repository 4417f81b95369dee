//! What a frame says of the parameters, and what may be asked for.
//!
//! ```text
//! u8 mode | u8 level | u16 0 | u32 0 | f64 value | the fill value, one element, if there is one
//! ```

use crate::codec::Params;
use crate::codec::mode::Mode;
use crate::codec::terms::Terms;
use crate::error::Result;
use crate::types::DType;

/// The only level so far: interpolation.
pub const FAST: u8 = 1;
/// Bytes in front of a fill value.
const FIXED_BYTES: usize = 16;
/// Bytes that are always 0.
const RESERVED: std::ops::Range<usize> = 2..8;
/// Most bytes of a fill value.
const MAX_FILL_BYTES: usize = 8;

/// What was asked for, as a frame has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// What the value means.
    pub mode: Mode,
    /// The value, above 0.
    pub value: f64,
    /// The bits of the fill value, if there is one; not 0.
    pub fill: Option<u64>,
}

impl Asked {
    /// What terms ask for elements of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for a fill value that no element can be.
    pub fn new(terms: &Terms, dtype: DType) -> Result<Self> {
        let size = dtype.size().unwrap_or_default().into();
        // Every element may become zero.
        let fill = terms.fill.map(|fill| fill.bits(dtype, size)).transpose()?.filter(|&bits| bits != 0);
        Ok(Self { mode: terms.mode, value: terms.value, fill: fill.map(|bits| bits as u64) })
    }

    /// As a frame has it.
    pub fn to_params(self, element_bytes: usize) -> Params {
        let mut bytes = [0; FIXED_BYTES + MAX_FILL_BYTES];
        (bytes[0], bytes[1]) = (self.mode.id(), FAST);
        bytes[8..FIXED_BYTES].copy_from_slice(&self.value.to_le_bytes());
        bytes[FIXED_BYTES..].copy_from_slice(&self.fill.unwrap_or(0).to_le_bytes());
        Params::new(&bytes[..FIXED_BYTES + if self.fill.is_some() { element_bytes } else { 0 }])
    }

    /// Whether a later version of the codec has written these parameters.
    pub fn is_later(params: &[u8]) -> bool {
        let is_other = |at: usize, known: u8| params.get(at).is_some_and(|&byte| byte != known);
        is_other(1, FAST) || RESERVED.into_iter().any(|at| is_other(at, 0))
    }

    /// What a frame says, of elements of so many bytes if that is known; `None` if the codec cannot have written that.
    pub fn of_params(params: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (fixed, fill) = params.split_first_chunk::<FIXED_BYTES>()?;
        let mode =
            Mode::from_id(fixed[0].into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Rms))?;
        let value = f64::from_le_bytes(*fixed.last_chunk()?);
        let is_sound = value.is_finite()
            && value > 0.0
            && (fill.is_empty() || element_bytes.unwrap_or(fill.len()) == fill.len())
            && fill.len() <= MAX_FILL_BYTES;
        if !is_sound || Self::is_later(params) {
            return None;
        }
        let mut bytes = [0; MAX_FILL_BYTES];
        bytes[..fill.len()].copy_from_slice(fill);
        let bits = u64::from_le_bytes(bytes);
        // A fill value of zero is none.
        ((bits == 0) == fill.is_empty()).then_some(Self { mode, value, fill: (bits != 0).then_some(bits) })
    }
}
