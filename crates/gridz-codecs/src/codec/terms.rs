//! Terms: what a request asks of its codec.
//!
//! This knows no codec. `request.rs` makes terms of what people and programs write, as the codec's entry in the
//! registry allows, and the codec makes its plan of them.

use crate::codec::missing::Missing;
use crate::codec::mode::Mode;

/// Most extras that a codec has.
pub const MAX_EXTRAS: usize = 4;

/// A parameter of one codec alone: a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extra {
    /// Its name in text.
    pub name: &'static str,
    /// What it is where nobody says anything.
    pub default: f64,
    /// A whole number of 32 bits, one word; else a float64, two words.
    pub is_whole: bool,
    /// The modes that it belongs to.
    pub modes: &'static [Mode],
}

impl Extra {
    /// Its words in cd_values.
    pub fn n_words(&self) -> usize {
        if self.is_whole { 1 } else { 2 }
    }
}

/// What a codec is asked for: nothing that its entry in the registry does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// What it may do to the values.
    pub mode: Mode,
    /// The number that belongs to the mode; 0 if none does.
    pub value: f64,
    /// The level; 0 only if the codec has none.
    pub level: u16,
    /// One number for each of the codec's extras, in the order of its entry; the rest is 0.
    pub extras: [f64; MAX_EXTRAS],
    /// The elements that are missing, if the codec keeps those apart.
    pub missing: Missing,
}

impl Terms {
    /// Every bit of every value, at a level.
    pub fn lossless(level: u16) -> Self {
        Self { mode: Mode::Lossless, value: 0.0, level, extras: [0.0; MAX_EXTRAS], missing: Missing::NONE }
    }
}
