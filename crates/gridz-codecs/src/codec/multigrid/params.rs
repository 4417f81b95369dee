//! The parameters of a frame, and the accepted requests.
//!
//! ```text
//! u8 mode | u8 level | u8 layers - 1 | u8 code of the missing elements | f32 s | f64 value | missing elements
//! ```
//!
//! Version 1 has no missing elements or one nonzero fill value, and the code 0
//! ([`MissingElements::code`]).

use crate::codec::Params;
use crate::codec::encode_params::{CodecParam, EncodeParams};
use crate::codec::missing::MissingElements;
use crate::codec::mode::Mode;
use crate::error::{Error, Result};
use crate::types::DType;

/// The only level so far: interpolation.
pub const FAST: u8 = 1;
/// Bytes before the missing elements.
const FIXED_BYTES: usize = 16;
/// Byte offset of the number of layers minus 1.
const LAYERS_AT: usize = 2;
/// Byte offset of the code of the missing elements.
const MISSING_AT: usize = 3;
/// Byte range of s.
const S_AT: std::ops::Range<usize> = 4..8;
/// Maximum number of layers.
pub const MAX_LAYERS: usize = 8;
/// The bound of a layer is larger than that of the next one by this power of two.
const LAYER_BITS: usize = 3;

/// The smallest s.
const LEAST_S: f64 = -2.0;

/// `layers`: the number of layers; a reader may read only the first ones. `s`: the norm that
/// measures errors.
pub const CODEC_PARAMS: &[CodecParam] = &[
    CodecParam { name: "layers", default: 1.0, is_whole: true, modes: &[Mode::Abs, Mode::Rel, Mode::Rms] },
    CodecParam { name: "s", default: 0.0, is_whole: false, modes: &[Mode::Rms] },
];

/// The request, as a frame stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// The meaning of the value.
    pub mode: Mode,
    /// The value, above 0.
    pub value: f64,
    /// 1 to [`MAX_LAYERS`].
    pub n_layers: usize,
    /// The norm that is bounded in mode rms (`norm.rs`), at most 0; 0 in other modes.
    pub s: f32,
    /// The missing elements, little-endian.
    pub missing: MissingElements,
}

impl Asked {
    /// Converts the parameters for elements of a type.
    ///
    /// # Errors
    /// `UnsupportedJob` for an invalid number of layers or s, `InvalidArgument` for a fill value
    /// that no element can have.
    pub fn new(encode_params: &EncodeParams, dtype: DType) -> Result<Self> {
        let [layers, s, ..] = encode_params.codec_params;
        if !(1.0..=MAX_LAYERS as f64).contains(&layers) {
            return Err(Error::unsupported(format!(
                "multigrid: layers must be from 1 to {MAX_LAYERS}, not {layers}"
            )));
        }
        if s > 0.0 {
            let text = format!(
                "multigrid: s must be from {LEAST_S} to 0, not {s}; for differences of neighbors use s=0, where \
                 their error is at most about twice the rms"
            );
            return Err(Error::unsupported(text));
        }
        if !(LEAST_S..=0.0).contains(&s) {
            return Err(Error::unsupported(format!("multigrid: s must be from {LEAST_S} to 0, not {s}")));
        }
        let missing = encode_params.missing.elements(dtype, dtype.size().unwrap_or_default().into())?;
        // A zero has no sign.
        let s = if s == 0.0 { 0.0 } else { s as f32 };
        Ok(Self { mode: encode_params.mode, value: encode_params.value, n_layers: layers as usize, s, missing })
    }

    /// Encodes the request as a frame's parameters.
    pub fn to_params(self) -> Params {
        let mut bytes = [0; FIXED_BYTES];
        (bytes[0], bytes[1], bytes[LAYERS_AT]) = (self.mode.id(), FAST, self.n_layers as u8 - 1);
        bytes[MISSING_AT] = self.missing.code();
        bytes[S_AT].copy_from_slice(&self.s.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
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
        let is_other = |at: usize, known: u8| params.get(at).is_some_and(|&byte| byte != known);
        let has_more = params.get(LAYERS_AT).is_some_and(|&last| usize::from(last) >= MAX_LAYERS);
        has_more || is_other(1, FAST)
    }

    /// Converts a value for the whole frame to that for layer `k`.
    pub fn of_layer(&self, k: usize, value: f64) -> f64 {
        (value * (1u64 << (LAYER_BITS * (self.n_layers - 1 - k))) as f64).min(f64::MAX)
    }

    /// Decodes a frame's parameters. `element_bytes` is the element size, if known. Returns `None`
    /// if the codec cannot have written them.
    pub fn of_params(params: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (fixed, missing) = params.split_first_chunk::<FIXED_BYTES>()?;
        let missing = MissingElements::of_params(fixed[MISSING_AT], missing, element_bytes)?;
        let mode =
            Mode::from_id(fixed[0].into()).filter(|mode| matches!(mode, Mode::Abs | Mode::Rel | Mode::Rms))?;
        let value = f64::from_le_bytes(*fixed.last_chunk()?);
        let s = f32::from_le_bytes(*fixed[S_AT].first_chunk()?);
        let is_norm = mode == Mode::Rms && s < 0.0 && f64::from(s) >= LEAST_S;
        let is_sound = value.is_finite() && value > 0.0 && (is_norm || s.to_bits() == 0) && !Self::is_later(params);
        let n_layers = usize::from(fixed[LAYERS_AT]) + 1;
        is_sound.then_some(Self { mode, value, n_layers, s, missing })
    }
}
