//! The caller's wish: a codec and its level.

use crate::codec::registry::{self, Entry};
use crate::error::{Error, Result};
use crate::types::DType;

/// What to compress with.
#[derive(Clone, Copy)]
pub struct Spec {
    pub(super) entry: &'static Entry,
    pub(super) level: u16,
}

impl Spec {
    /// Codec `codec` at `level`, where 0 is the codec's default.
    ///
    /// # Errors
    /// `UnsupportedJob` naming what this version has.
    pub fn new(codec: u32, level: u32) -> Result<Self> {
        let entry = u8::try_from(codec).ok().and_then(registry::find).ok_or_else(|| {
            let available = registry::available();
            Error::unsupported(format!("codec {codec} is unknown to gridz {}; it has {available}", crate::VERSION))
        })?;
        let level = u16::try_from(level).ok().filter(|&level| level <= entry.max_level).ok_or_else(|| {
            let Entry { name, max_level, .. } = entry;
            Error::unsupported(match max_level {
                0 => format!("{name} knows only level 0, not {level}"),
                _ => format!("{name} has levels 0 to {max_level}, not {level}"),
            })
        })?;
        Ok(Self { entry, level: if level == 0 { entry.default_level } else { level } })
    }

    /// The codec's number.
    pub fn codec(&self) -> u8 {
        self.entry.id
    }

    /// The codec's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// Why chunks of this type will be kept as they are whatever their values, and what helps; `None` if the codec
    /// encodes them.
    pub fn why_stored(&self, dtype: DType) -> Option<String> {
        let takes = |entry: &Entry| entry.dtypes.contains(&dtype);
        if takes(self.entry) {
            return None;
        }
        let elements = match dtype {
            DType::Opaque => "opaque elements (strings, compounds, enumerations and the like)",
            dtype => &format!("{} elements", dtype.name()),
        };
        let remedy = match registry::CODECS.iter().find(|entry| entry.id != registry::STORED && takes(entry)) {
            Some(entry) => format!("{} (codec {}) takes them", entry.name, entry.id),
            None => format!("no codec of gridz {} takes them", crate::VERSION),
        };
        Some(format!("{} does not take {elements}: the data is kept uncompressed; {remedy}", self.name()))
    }

    /// The level; 0 only if the codec has none.
    pub fn level(&self) -> u16 {
        self.level
    }
}

impl Default for Spec {
    /// The default lossless codec of this version.
    fn default() -> Self {
        Self::new(u32::from(registry::DEFAULT), 0).expect("the default codec is in the table")
    }
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} level {}", self.name(), self.level)
    }
}
