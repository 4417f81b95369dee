//! Requests as text or as Rust values.

use gridz_codecs::codec::mode::Mode;
use gridz_codecs::codec::registry;
use gridz_codecs::codec::request::Request;
use gridz_codecs::error::{Error, Result};

/// Conversion to a [`Request`]: from text such as `"quant,abs=1e-3"`, from a [`Codec`], or from a
/// [`Setting`], which is a codec with a bound and a level.
pub trait IntoRequest {
    /// The checked request.
    ///
    /// # Errors
    /// `InvalidArgument` or `UnsupportedJob`, with the allowed values.
    fn into_request(self) -> Result<Request>;
}

impl IntoRequest for Request {
    fn into_request(self) -> Result<Request> {
        Ok(self)
    }
}

impl IntoRequest for &Request {
    fn into_request(self) -> Result<Request> {
        Ok(*self)
    }
}

impl IntoRequest for &str {
    fn into_request(self) -> Result<Request> {
        self.parse()
    }
}

impl IntoRequest for &String {
    fn into_request(self) -> Result<Request> {
        self.parse()
    }
}

impl IntoRequest for Codec {
    fn into_request(self) -> Result<Request> {
        self.try_into()
    }
}

impl IntoRequest for Setting {
    fn into_request(self) -> Result<Request> {
        self.try_into()
    }
}

/// A codec. As a request, it has its default level and compresses without loss; [`Codec::abs`] and
/// the functions after it set a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// No compression.
    Stored,
    /// The codec of ndzip: lossless, for floats.
    Ndzip,
    /// The default: lossless, for all numbers.
    Lorenzo,
    /// Errors within a bound, fast; a file that is rewritten again and again does not drift.
    Quant,
    /// The stream of libzfp.
    Zfp,
    /// Errors within a bound, smallest for smooth fields; written once.
    Multigrid,
    /// An entropy coder for bytes and small integers, lossless.
    Huffman,
    /// Indices of sparse matrices and meshes, lossless.
    Cci,
}

impl Codec {
    /// Returns the name in request text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Ndzip => "ndzip",
            Self::Lorenzo => "lorenzo",
            Self::Quant => "quant",
            Self::Zfp => "zfp",
            Self::Multigrid => "multigrid",
            Self::Huffman => "huffman",
            Self::Cci => "cci",
        }
    }

    /// Every value keeps within `bound` of the original.
    pub fn abs(self, bound: f64) -> Setting {
        self.mode(Mode::Abs, bound)
    }

    /// As [`Codec::abs`], with the bound relative to the array's range, largest minus smallest value.
    pub fn rel(self, bound: f64) -> Setting {
        self.mode(Mode::Rel, bound)
    }

    /// As [`Codec::abs`], with the bound relative to the magnitude of each element.
    pub fn pwrel(self, bound: f64) -> Setting {
        self.mode(Mode::Pwrel, bound)
    }

    /// The root mean square of the errors is at most `bound`.
    pub fn rms(self, bound: f64) -> Setting {
        self.mode(Mode::Rms, bound)
    }

    /// Every value takes this number of bits.
    pub fn rate(self, bits: f64) -> Setting {
        self.mode(Mode::Rate, bits)
    }

    /// Without loss, at a level that is not the default.
    pub fn level(self, level: Level) -> Setting {
        self.mode(Mode::Lossless, 0.0).level(level)
    }

    fn mode(self, mode: Mode, value: f64) -> Setting {
        Setting { codec: self, mode, value, level: None }
    }
}

/// How much work a codec may spend on a smaller frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The fastest.
    Fast,
    /// Smaller, for less speed.
    Dense,
    /// The smallest.
    Max,
}

impl Level {
    /// Returns the name in request text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Dense => "dense",
            Self::Max => "max",
        }
    }
}

/// A codec with a bound or a level, such as `Codec::Quant.abs(1e-3).level(Level::Dense)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    codec: Codec,
    mode: Mode,
    value: f64,
    level: Option<Level>,
}

impl Setting {
    /// Sets the level.
    pub fn level(self, level: Level) -> Self {
        Self { level: Some(level), ..self }
    }
}

impl TryFrom<Codec> for Request {
    type Error = Error;

    fn try_from(codec: Codec) -> Result<Self> {
        codec.mode(Mode::Lossless, 0.0).try_into()
    }
}

impl TryFrom<Setting> for Request {
    type Error = Error;

    fn try_from(Setting { codec, mode, value, level }: Setting) -> Result<Self> {
        let name = codec.name();
        // A codec that was not compiled in is reported by its name.
        let Some(entry) = registry::CODECS.iter().find(|entry| entry.name == name) else {
            return name.parse();
        };
        let level = match level {
            None => 0,
            Some(level) => match entry.levels.iter().find(|known| known.name == level.name()) {
                Some(known) => known.number.into(),
                None => return format!("{name},level={}", level.name()).parse(),
            },
        };
        Self::with_mode(entry.id.into(), mode.id().into(), value, level)
    }
}
