//! The parameters of a request, as its codec receives them.
//!
//! This module is independent of any codec. `request.rs`, `request_text.rs` and `request_words.rs`
//! build the parameters from user options and text, within the limits of the codec's registry
//! entry. The codec builds its plan from them.

use crate::codec::missing::Missing;
use crate::codec::mode::Mode;

/// Maximum number of parameters that a codec can have in addition to the common ones.
pub const MAX_CODEC_PARAMS: usize = 4;

/// A numeric parameter that only one codec has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodecParam {
    /// Name in request text.
    pub name: &'static str,
    /// Value if the request does not give one.
    pub default: f64,
    /// True: a 32-bit integer, one word in cd_values. False: a float64, two words.
    pub is_whole: bool,
    /// Modes that accept it.
    pub modes: &'static [Mode],
}

impl CodecParam {
    /// Its number of words in cd_values.
    pub fn n_words(&self) -> usize {
        if self.is_whole { 1 } else { 2 }
    }
}

/// The parameters of a codec. They hold nothing that the codec's registry entry does not list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodeParams {
    /// What the codec may do to the values.
    pub mode: Mode,
    /// The mode's parameter; 0 if the mode has none.
    pub value: f64,
    /// The effort level; 0 only if the codec has none.
    pub level: u16,
    /// One number per codec parameter, in the order of the codec's entry; the rest is 0.
    pub codec_params: [f64; MAX_CODEC_PARAMS],
    /// The missing elements, if the codec stores those separately.
    pub missing: Missing,
}

impl EncodeParams {
    /// Lossless, at a level.
    pub const fn lossless(level: u16) -> Self {
        Self {
            mode: Mode::Lossless,
            value: 0.0,
            level,
            codec_params: [0.0; MAX_CODEC_PARAMS],
            missing: Missing::NONE,
        }
    }

    /// The same at another level.
    pub fn at_level(self, level: u16) -> Self {
        Self { level, ..self }
    }
}
