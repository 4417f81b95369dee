//! Modes: what a codec may do to the values, and the meaning of the mode's parameter.

/// What a codec may do to the values. cd_values and the C API use the numbers; everything else uses
/// the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Every bit of every value is preserved.
    Lossless = 0,
    /// The value is the largest absolute error.
    Abs = 1,
    /// The value is the largest error, relative to the array's range (largest minus smallest
    /// value).
    Rel = 2,
    /// The value is the number of bits per value.
    Rate = 3,
    /// The value is the number of bit planes.
    Precision = 4,
    /// The value is the largest error, relative to each element's own magnitude.
    Pwrel = 5,
    /// The value is the root mean square error.
    Rms = 6,
    /// The codec's own parameters.
    Expert = 7,
}

impl Mode {
    /// Every mode, in the order of the numbers.
    pub const ALL: [Self; 8] =
        [Self::Lossless, Self::Abs, Self::Rel, Self::Rate, Self::Precision, Self::Pwrel, Self::Rms, Self::Expert];

    /// The mode with this number.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Its number in cd_values and in C.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Its name in request text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Abs => "abs",
            Self::Rel => "rel",
            Self::Rate => "rate",
            Self::Precision => "precision",
            Self::Pwrel => "pwrel",
            Self::Rms => "rms",
            Self::Expert => "expert",
        }
    }

    /// True if the mode has a parameter.
    pub fn has_value(self) -> bool {
        !matches!(self, Self::Lossless | Self::Expert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_names_are_unique() {
        for (i, mode) in Mode::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(mode.id()), i);
            assert_eq!(Mode::from_id(i as u32), Some(mode));
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
        assert_eq!(Mode::from_id(8), None);
        assert_eq!(Mode::from_name("ABS"), None);
    }
}
