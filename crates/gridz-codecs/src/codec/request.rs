//! Requests: the codec and its parameters for compressing a chunk.
//!
//! A request is a codec and its parameters: a mode with its parameter, a level, and the codec's own
//! parameters. Every host has its own form of a request. All forms are converted here, so the same
//! requests are accepted everywhere, with the same error messages:
//!
//! | where | form |
//! |---|---|
//! | cd_values of HDF5 | nothing, `[codec]`, `[codec, 0]`, `[codec, 0, level]` |
//! | the same, with a mode | `[codec, mode, low, high]`, `[codec, mode, low, high, level, param …, missing …]` |
//! | C | the fields of `gridz_options`, or text in its field `codec` |
//! | text | `lorenzo`, `lorenzo,level=dense`, `quant,abs=1e-3,level=2,fill=-999,fill=1e20,valid_min=0` |
//!
//! Fill values and the valid range ([`Missing`]) may also come from the array: from pointers in C,
//! and HDF5's fill value from the dataset's property list. A lossless codec does not need them;
//! they are accepted and ignored.

use std::fmt;
use std::str::FromStr;

use crate::codec::encode_params::{EncodeParams, MAX_CODEC_PARAMS};
use crate::codec::fill::{Fill, shortest};
use crate::codec::missing::{LIMITS, Missing, MissingElements};
use crate::codec::mode::Mode;
use crate::codec::registry::{self, CodecParam, Entry, Level};
use crate::error::{Error, Result};
use crate::types::{Array, ByteOrder, DType};

/// The codec and its parameters for compression. Codec and level are always resolved, never "the
/// default".
#[derive(Clone, Copy)]
pub struct Request {
    pub entry: &'static Entry,
    pub encode_params: EncodeParams,
}

impl Request {
    /// A lossless request for codec `codec` at `level`; level 0 is the codec's default.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn new(codec: u32, level: u32) -> Result<Self> {
        Self::with_mode(codec, Mode::Lossless.id().into(), 0.0, level)
    }

    /// A request given as numbers.
    ///
    /// # Errors
    /// `UnsupportedJob` or `InvalidArgument`, with the allowed values.
    pub fn with_mode(codec: u32, mode: u32, value: f64, level: u32) -> Result<Self> {
        let entry = u8::try_from(codec).ok().and_then(registry::find).ok_or_else(|| unknown_codec(&codec))?;
        Self::check(entry, mode, value, level)
    }

    /// As [`Request::with_mode`], with words for the codec's own parameters, followed by words for
    /// missing elements. Parameters omitted at the end have their defaults.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn with_codec_params(codec: u32, mode: u32, value: f64, level: u32, codec_params: &[u32]) -> Result<Self> {
        Self::with_mode(codec, mode, value, level)?.and_words(codec_params)
    }

    fn and_words(mut self, words: &[u32]) -> Result<Self> {
        let (mut rest, mode) = (words, self.mode());
        for (value, param) in self.encode_params.codec_params.iter_mut().zip(self.entry.codec_params) {
            (*value, rest) = match (param.is_whole, rest) {
                (true, &[word, ref rest @ ..]) => (f64::from(word as i32), rest),
                (false, &[low, high, ref rest @ ..]) => (float(low, high), rest),
                _ => break,
            };
            check_codec_param(self.entry, param, *value)?;
            if *value != param.default {
                check_codec_param_mode(self.entry, param, mode)?;
            }
        }
        let Some(missing) = Missing::of_words(rest) else {
            let (name, n) = (self.name(), words.len());
            let known: usize = self.entry.codec_params.iter().map(CodecParam::n_words).sum();
            let text = format!(
                "{n} words follow the level: {name} has {known} words of codec parameters, and the remaining words \
                 are not fill values and limits"
            );
            return Err(Error::unsupported(text));
        };
        let missing = missing?;
        if self.wants_missing() {
            self.encode_params.missing = missing;
        }
        Ok(self)
    }

    /// The codec's extras as words: all of them, or none if all have their defaults.
    pub fn codec_param_words(&self) -> impl Iterator<Item = u32> {
        let is_default = self.codec_params_with_values().all(|(param, value)| param.default == value);
        self.all_codec_param_words().take(if is_default { 0 } else { usize::MAX })
    }

    /// Words for the codec's own parameters and missing elements, as they follow the level in a
    /// user's cd_values.
    pub fn words_after_level(&self) -> impl Iterator<Item = u32> {
        let missing = self.encode_params.missing;
        let codec_params: Vec<u32> = if missing.is_none() {
            self.codec_param_words().collect()
        } else {
            self.all_codec_param_words().collect()
        };
        codec_params.into_iter().chain(missing.words().collect::<Vec<u32>>())
    }

    fn codec_params_with_values(&self) -> impl Iterator<Item = (&'static CodecParam, f64)> {
        self.entry.codec_params.iter().zip(self.encode_params.codec_params)
    }

    fn all_codec_param_words(&self) -> impl Iterator<Item = u32> {
        self.codec_params_with_values().flat_map(|(param, value)| {
            let bits = value.to_bits();
            let words = if param.is_whole { [value as i32 as u32, 0] } else { [bits as u32, (bits >> 32) as u32] };
            words.into_iter().take(param.n_words())
        })
    }

    /// As [`Request::with_mode`], with the codec's name, or `None` for the default codec. The name
    /// may also be a whole request in text form; then the numbers must be 0.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn by_name(codec: Option<&str>, mode: u32, value: f64, level: u32) -> Result<Self> {
        let entry = match codec {
            Some(text) if text.contains(',') && (mode, value, level) == (0, 0.0, 0) => return text.parse(),
            Some(text) if text.contains(',') => {
                return Err(Error::invalid(format!(
                    "\"{text}\" is a whole request in text form; leave mode, value and level 0, or pass only the \
                     name of the codec"
                )));
            }
            Some(name) => named(registry::CODECS, name.trim())?,
            None => Self::default().entry,
        };
        Self::check(entry, mode, value, level)
    }

    /// Parses a request from a user's cd_values.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn from_words(words: &[u32]) -> Result<Self> {
        match *words {
            [] => Ok(Self::default()),
            [codec] | [codec, 0] => Self::new(codec, 0),
            [codec, 0, level] => Self::new(codec, level),
            [codec, mode @ 1..=u32::MAX, low, high] => Self::with_mode(codec, mode, float(low, high), 0),
            [codec, mode @ 1..=u32::MAX, low, high, level, ref codec_params @ ..] => {
                Self::with_codec_params(codec, mode, float(low, high), level, codec_params)
            }
            _ => {
                let shown: Vec<String> = words.iter().take(6).map(u32::to_string).collect();
                let (shown, more) = (shown.join(", "), if words.len() > 6 { ", …" } else { "" });
                Err(Error::invalid(format!(
                    "cd_values [{shown}{more}] are invalid; allowed are: no value (the default lossless codec), \
                     [codec], [codec, 0], [codec, 0, level], [codec, mode, low, high] and [codec, mode, low, high, \
                     level, param …], where low and high are the halves of a float64"
                )))
            }
        }
    }

    /// Parses request text, for the codecs in a table.
    fn parse(codecs: &'static [Entry], text: &str) -> Result<Self> {
        let mut parts = text.split(',').map(str::trim);
        let entry = named(codecs, parts.next().unwrap_or_default())?;
        let (mut mode, mut level, mut missing, mut codec_params) =
            (None, None, Missing::NONE, [None; MAX_CODEC_PARAMS]);
        for part in parts {
            let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
            let number = |text: &str| {
                let wrong = |_| {
                    Error::invalid(format!(
                        "{part} is not valid: {key} must be followed by a number, such as {key}=1e-3"
                    ))
                };
                text.parse::<f64>().map_err(wrong)
            };
            let param = entry.codec_params.iter().position(|param| param.name == key);
            let limit = LIMITS.iter().position(|&name| name == key);
            let (what, is_new) = match (key, value, param, Mode::from_name(key)) {
                ("fill", Some(value), ..) => {
                    missing.add(Fill::parse(key, value)?)?;
                    ("fill", true)
                }
                (_, Some(value), ..) if let Some(which) = limit => {
                    (key, missing.limit(which, Fill::parse(key, value)?))
                }
                ("level", Some(value), ..) => ("level", level.replace(level_of(entry, value)?).is_none()),
                (_, Some(value), Some(i), _) => {
                    let value = number(value)?;
                    check_codec_param(entry, &entry.codec_params[i], value)?;
                    (key, codec_params[i].replace(value).is_none())
                }
                (_, value, None, Some(found)) if found.has_value() == value.is_some() => {
                    ("mode", mode.replace((found, value.map_or(Ok(0.0), number)?)).is_none())
                }
                _ => return Err(unknown_key(entry, part)),
            };
            if !is_new {
                return Err(Error::invalid(format!("\"{text}\" contains a second {what}, {part}; remove one")));
            }
        }
        let (mode, value) = mode.unwrap_or((Mode::Lossless, 0.0));
        let mut request = Self::check(entry, mode.id().into(), value, level.unwrap_or(0))?;
        for (i, given) in codec_params.into_iter().enumerate() {
            let Some(given) = given else { continue };
            check_codec_param_mode(entry, &entry.codec_params[i], mode)?;
            request.encode_params.codec_params[i] = given;
        }
        if request.wants_missing() {
            request.encode_params.missing = missing;
        }
        Ok(request)
    }

    /// Checks a request: the only place that decides whether a codec supports it.
    fn check(entry: &'static Entry, mode: u32, value: f64, level: u32) -> Result<Self> {
        let Entry { name, modes, .. } = entry;
        let use_ = || {
            let modes: Vec<String> =
                modes.iter().map(|mode| format!("mode {}, {}", mode.id(), mode.name())).collect();
            format!("{name}: use {}", modes.join(", or "))
        };
        let Some(mode) = Mode::from_id(mode) else {
            return Err(Error::invalid(format!("{}; there is no mode {mode}", use_())));
        };
        if !modes.contains(&mode) {
            return Err(Error::unsupported(format!("{}; it has no mode {}, {}", use_(), mode.id(), mode.name())));
        }
        let wrong =
            |what: &str| Err(Error::invalid(format!("{name}, {}: the value {what}, not {value}", mode.name())));
        match mode {
            Mode::Lossless | Mode::Expert if value != 0.0 => return wrong("must be 0"),
            Mode::Lossless | Mode::Expert => {}
            _ if !(value.is_finite() && value > 0.0) => return wrong("must be a finite number above 0"),
            Mode::Pwrel if value >= 1.0 => return wrong("must be below 1"),
            Mode::Precision if value.fract() != 0.0 => return wrong("must be a whole number of bit planes"),
            _ => {}
        }
        let found = entry.levels.iter().find(|known| u32::from(known.number) == level || level == 0);
        let level = match found {
            Some(found) => found.number,
            None if level == 0 => 0,
            None => return Err(unknown_level(entry, &level)),
        };
        let mut codec_params = [0.0; MAX_CODEC_PARAMS];
        for (value, param) in codec_params.iter_mut().zip(entry.codec_params) {
            *value = param.default;
        }
        Ok(Self { entry, encode_params: EncodeParams { mode, value, level, codec_params, missing: Missing::NONE } })
    }

    /// The codec's number.
    pub fn codec(&self) -> u8 {
        self.entry.id
    }

    /// The codec's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// What the codec may do to the values.
    pub fn mode(&self) -> Mode {
        self.encode_params.mode
    }

    /// The mode's parameter; 0 if it has none.
    pub fn value(&self) -> f64 {
        self.encode_params.value
    }

    /// The level; 0 only if the codec has none.
    pub fn level(&self) -> u16 {
        self.encode_params.level
    }

    /// One number per codec parameter, in the order of the codec's entry; the rest is 0.
    pub fn codec_params(&self) -> [f64; MAX_CODEC_PARAMS] {
        self.encode_params.codec_params
    }

    /// True if an element can change a little further each time that the elements next to it are
    /// rewritten.
    pub fn drifts(&self) -> bool {
        self.entry.drifts && self.mode() != Mode::Lossless
    }

    /// True if the codec stores missing elements separately. Lossless modes do not need to.
    pub fn wants_missing(&self) -> bool {
        self.entry.wants_missing && self.mode() != Mode::Lossless
    }

    /// The missing elements; none if the codec does not store them separately.
    pub fn missing(&self) -> &Missing {
        &self.encode_params.missing
    }

    /// Adds one fill value: the bytes of one element of `array`, in its byte order. Does nothing if
    /// the codec does not store missing elements separately.
    ///
    /// # Errors
    /// `InvalidArgument` if the number of bytes is wrong for an element, or too large for any
    /// number; `UnsupportedJob` for too many fill values.
    pub fn with_fill(self, array: &Array, element: &[u8]) -> Result<Self> {
        if !self.wants_missing() {
            return Ok(self);
        }
        let mut elements = MissingElements::none(array.element_size().into());
        elements.add(element)?;
        self.with_elements(array, &elements)
    }

    /// Adds missing elements of `array`, in its byte order. Does nothing if the codec does not
    /// store missing elements separately.
    ///
    /// # Errors
    /// `InvalidArgument` for limits that the request already has, or that are not numbers;
    /// `UnsupportedJob` for too many fill values.
    pub fn with_elements(mut self, array: &Array, elements: &MissingElements) -> Result<Self> {
        if !self.wants_missing() {
            return Ok(self);
        }
        let (dtype, little) = (array.dtype(), in_other_order(array, *elements));
        let known = self.encode_params.missing.of_type(dtype, array.element_size().into());
        let known = known.elements(dtype, array.element_size().into())?;
        for fill in little.fills().filter(|fill| known.fills().all(|known| known != *fill)) {
            self.encode_params.missing.add(Fill::of_bytes(dtype, fill)?)?;
        }
        for (which, (limit, known)) in little.limits().into_iter().zip(known.limits()).enumerate() {
            let Some(limit) = limit.filter(|&limit| known != Some(limit)) else { continue };
            let number = Fill::of_bytes(dtype, limit)?;
            if !self.encode_params.missing.limit(which, number) {
                let text = format!("{self} has a second {}, {number}; remove one", LIMITS[which]);
                return Err(Error::invalid(text));
            }
        }
        self.encode_params.missing.elements(dtype, array.element_size().into())?;
        Ok(self)
    }

    /// Removes the missing elements that `array` cannot have; they belonged to another array.
    pub fn with_missing_of(mut self, array: &Array) -> Self {
        self.encode_params.missing = self.encode_params.missing.of_type(array.dtype(), array.element_size().into());
        self
    }

    /// The missing elements as elements of `array`, in its byte order.
    ///
    /// # Errors
    /// `InvalidArgument` if the array cannot have such elements.
    pub fn missing_elements(&self, array: &Array) -> Result<MissingElements> {
        let elements = self.encode_params.missing.elements(array.dtype(), array.element_size().into())?;
        Ok(in_other_order(array, elements))
    }

    /// Checks that HDF5's filter can write a dataset of such elements. The filter sees one chunk at
    /// a time, in the form in which the previous filter `before`, if any, leaves it.
    ///
    /// # Errors
    /// `UnsupportedJob` for a bound that could not be guaranteed.
    pub fn check_dataset(&self, dtype: DType, before: Option<&str>) -> Result<()> {
        if self.mode() == Mode::Lossless {
            return Ok(());
        }
        if let Some(before) = before {
            return Err(Error::unsupported(format!(
                "{self}: {before} runs before gridz, so gridz cannot guarantee an error bound; remove that filter, \
                 or put it after gridz"
            )));
        }
        if !self.entry.dtypes.contains(&dtype) {
            let takes: Vec<&str> = self.entry.dtypes.iter().map(|dtype| dtype.name()).collect();
            return Err(Error::unsupported(format!(
                "{self}: the dataset has {}, but {} supports only {}; use a lossless codec",
                elements(dtype),
                self.name(),
                takes.join(", ")
            )));
        }
        if self.mode() == Mode::Rel {
            let or_pwrel = if self.entry.modes.contains(&Mode::Pwrel) { ", or pwrel" } else { "" };
            return Err(Error::unsupported(format!(
                "{self}: the filter processes one chunk at a time and cannot know the range of the dataset; use \
                 abs with the value times that range{or_pwrel}"
            )));
        }
        Ok(())
    }

    /// The reason why chunks of this type will be stored verbatim, whatever their values, and the
    /// remedy. `None` if the codec encodes them.
    pub fn why_stored(&self, dtype: DType) -> Option<String> {
        let takes = |entry: &Entry| entry.dtypes.contains(&dtype);
        if takes(self.entry) {
            return None;
        }
        let may_be_named = |entry: &&Entry| entry.id != registry::STORED && entry.modes.contains(&self.mode());
        let remedy = match registry::CODECS.iter().filter(may_be_named).find(|entry| takes(entry)) {
            Some(entry) => format!("{} (codec {}) supports them", entry.name, entry.id),
            None => format!("no codec of gridz {} supports them", crate::VERSION),
        };
        let (name, elements) = (self.name(), elements(dtype));
        Some(format!("{name} does not support {elements}, so the data is stored uncompressed; {remedy}"))
    }
}

impl Default for Request {
    /// The default lossless codec of this version.
    fn default() -> Self {
        Self::new(u32::from(registry::DEFAULT), 0).expect("the default codec is in the table")
    }
}

impl FromStr for Request {
    type Err = Error;

    /// The text form: the codec's name, then a mode and a level if they are not the defaults.
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(registry::CODECS, text)
    }
}

impl fmt::Display for Request {
    /// The text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.mode() {
            Mode::Lossless => {}
            mode if mode.has_value() => write!(f, ",{}={}", mode.name(), shortest(self.value()))?,
            mode => write!(f, ",{}", mode.name())?,
        }
        if let Some(level) = self.entry.levels.iter().find(|level| level.number == self.level()) {
            write!(f, ",level={}", level.name)?;
        }
        let mut codec_params = self
            .entry
            .codec_params
            .iter()
            .zip(self.encode_params.codec_params)
            .filter(|(param, value)| param.default != *value);
        codec_params.try_for_each(|(param, value)| write!(f, ",{}={}", param.name, shortest(value)))?;
        write!(f, "{}", self.encode_params.missing)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        (self.entry.id, self.encode_params) == (other.entry.id, other.encode_params)
    }
}

fn named(codecs: &'static [Entry], name: &str) -> Result<&'static Entry> {
    codecs.iter().find(|entry| entry.has_name(name)).ok_or_else(|| unknown_codec(&format_args!("\"{name}\"")))
}

/// Combines two words of cd_values to a float64.
fn float(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// Converts elements between the byte order of `array` and little-endian, each number separately.
fn in_other_order(array: &Array, elements: MissingElements) -> MissingElements {
    match (array.order(), array.dtype().number_size()) {
        (ByteOrder::Big, Some(size)) => elements.swapped(size),
        _ => elements,
    }
}

fn check_codec_param(entry: &Entry, param: &CodecParam, value: f64) -> Result<()> {
    let what = match param.is_whole {
        true if f64::from(value as i32) == value => return Ok(()),
        false if value.is_finite() => return Ok(()),
        true => "a whole number of 32 bits",
        false => "a finite number",
    };
    Err(Error::invalid(format!("{}: {} must be {what}, not {value}", entry.name, param.name)))
}

/// Rejects a parameter that has no meaning in a mode.
fn check_codec_param_mode(entry: &Entry, param: &CodecParam, mode: Mode) -> Result<()> {
    if param.modes.contains(&mode) {
        return Ok(());
    }
    let modes: Vec<&str> = param.modes.iter().map(|mode| mode.name()).collect();
    let (codec, name, mode, modes) = (entry.name, param.name, mode.name(), modes.join(" or "));
    Err(Error::invalid(format!(
        "{codec}: {name} is a parameter of mode {modes}, not of {mode}; use {modes}, or remove {name}"
    )))
}

fn elements(dtype: DType) -> String {
    match dtype {
        DType::Opaque => "opaque elements (strings, compounds and the like)".into(),
        dtype => format!("{} elements", dtype.name()),
    }
}

fn unknown_codec(codec: &dyn fmt::Display) -> Error {
    let available = registry::available();
    Error::unsupported(format!("codec {codec} is unknown to gridz {}; the codecs are {available}", crate::VERSION))
}

/// The number of a level by its name or number; 0 is the default.
fn level_of(entry: &Entry, text: &str) -> Result<u32> {
    let by_name = entry.levels.iter().find(|level| level.name == text).map(|level| level.number.into());
    by_name.or_else(|| text.parse().ok()).ok_or_else(|| unknown_level(entry, &text))
}

fn unknown_level(entry: &Entry, level: &dyn fmt::Display) -> Error {
    let Entry { name, levels, .. } = entry;
    let levels: Vec<String> = levels.iter().map(|Level { number, name }| format!("{number} {name}")).collect();
    Error::unsupported(match levels.as_slice() {
        [] => format!("{name} has no levels; use 0, not {level}"),
        _ => format!(
            "{name} does not have level {level}; its levels are {}, and 0 for the default",
            levels.join(", ")
        ),
    })
}

fn unknown_key(entry: &Entry, part: &str) -> Error {
    let values = entry.modes.iter().map(|mode| match mode.has_value() {
        true => format!("{}=NUMBER", mode.name()),
        false => mode.name().to_owned(),
    });
    let levels: Vec<&str> = entry.levels.iter().map(|level| level.name).collect();
    let level = (!levels.is_empty()).then(|| format!("level={}", levels.join("|")));
    let codec_params = entry.codec_params.iter().map(|param| format!("{}=NUMBER", param.name));
    let missing = ["fill", LIMITS[0], LIMITS[1]].map(|name| format!("{name}=NUMBER"));
    let missing = missing.into_iter().filter(|_| entry.wants_missing);
    let known: Vec<String> = values.chain(level).chain(codec_params).chain(missing).collect();
    Error::invalid(format!("{}: \"{part}\" is unknown; allowed are {}", entry.name, known.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Codec, CodecState, Decision, Encoded, Job};
    use crate::error::ErrorKind;
    use crate::format::checksum::Checksum;
    use crate::format::region::FoldedRegion;
    use crate::types::Shape;

    /// A codec that only reports its request.
    struct Echo;

    impl Codec for Echo {
        fn max_rank(&self) -> usize {
            1
        }

        fn plan(&self, _: &Array, encode_params: &EncodeParams) -> Decision {
            Decision::Refuse(Error::unsupported(format!("{encode_params:?}")))
        }

        fn layout(&self, _: DType, _: &Shape, _: &[u8]) -> Result<CodecState> {
            unreachable!("it has no plan")
        }

        fn encode(&self, _: &Job, _: &[u8], _: &mut [u8]) -> Result<Encoded> {
            unreachable!("it has no plan")
        }

        fn decode(&self, _: &Job, _: &[u8], _: &mut [u8]) -> Result<Checksum> {
            unreachable!("it has no plan")
        }
        fn decode_region(&self, _: &Job, _: &[u8], _: &FoldedRegion, _: &mut [u8]) -> Result<Option<Checksum>> {
            unreachable!("it has no plan")
        }
    }

    /// A table with a codec that supports everything, unlike any real codec.
    static CODECS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        const LEVELS: &[Level] = &[Level { number: 2, name: "dense" }, Level { number: 7, name: "max" }];
        let entry = |name, modes, levels| {
            let stored = registry::find(registry::STORED).unwrap();
            Entry { id: 77, name, modes, levels, dtypes: &[DType::F32, DType::F64], codec: &Echo, ..*stored }
        };
        const CODEC_PARAMS: &[CodecParam] = &[
            CodecParam { name: "minexp", default: -1074.0, is_whole: true, modes: &Mode::ALL },
            CodecParam { name: "s", default: 0.0, is_whole: false, modes: &Mode::ALL },
        ];
        let any = Entry { codec_params: CODEC_PARAMS, wants_missing: true, ..entry("any", &Mode::ALL, LEVELS) };
        vec![any, entry("flat", &[Mode::Abs, Mode::Rms], &[])]
    });

    fn parse(text: &str) -> Result<Request> {
        Request::parse(&CODECS, text)
    }

    fn error(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn texts_say_what_numbers_say() {
        for (text, mode, value, level) in [
            ("any", Mode::Lossless, 0.0, 2),
            ("any,lossless", Mode::Lossless, 0.0, 2),
            ("any,level=0", Mode::Lossless, 0.0, 2),
            ("any,level=7", Mode::Lossless, 0.0, 7),
            ("any,abs=1e-3", Mode::Abs, 1e-3, 2),
            (" any , level=max , pwrel=.5 ", Mode::Pwrel, 0.5, 7),
            ("any,precision=17", Mode::Precision, 17.0, 2),
            ("any,rate=6.5", Mode::Rate, 6.5, 2),
            ("any,expert,level=dense", Mode::Expert, 0.0, 2),
            ("flat,rms=2", Mode::Rms, 2.0, 0),
        ] {
            let request = parse(text).unwrap();
            assert_eq!((request.mode(), request.value(), request.level()), (mode, value, level), "{text}");
            let entry = request.entry;
            let in_numbers = Request::check(entry, mode.id().into(), value, level.into()).unwrap();
            assert_eq!(request, in_numbers, "{text}");
        }
        assert_eq!("lorenzo,level=dense".parse::<Request>().unwrap(), Request::new(2, 2).unwrap());
        let dense = Request::new(2, 2).unwrap();
        for (text, level) in [(None, 2), (Some("lorenzo"), 2), (Some("lorenzo,level=dense"), 0)] {
            assert_eq!(Request::by_name(text, 0, 0.0, level).unwrap(), dense, "{text:?}");
        }
        assert_eq!(Request::default().to_string(), "lorenzo,level=fast");
        assert_eq!(parse("any,abs=0.001,level=max").unwrap().to_string(), "any,abs=1e-3,level=max");
        assert_eq!(parse("flat,abs=16").unwrap().to_string(), "flat,abs=16");
    }

    #[test]
    fn extras_are_the_codecs_own() {
        let request = parse("any,s=-1.5,rms=1e-3").unwrap();
        assert_eq!(request.encode_params.codec_params, [-1074.0, -1.5, 0.0, 0.0]);
        assert_eq!(request.to_string(), "any,rms=1e-3,level=dense,s=-1.5");
        let words: Vec<u32> = request.codec_param_words().collect();
        assert_eq!(words, [-1074i32 as u32, 0, 0xbff8_0000]);
        let plain = parse("any,rms=1e-3").unwrap();
        assert_eq!(plain.and_words(&words).unwrap(), request);
        assert_eq!(plain.and_words(&[]).unwrap(), plain);
        assert_eq!(plain.and_words(&[7]).unwrap(), parse("any,rms=1e-3,minexp=7").unwrap());
        for wrong in [&[1, 0][..], &[1, 0, 0, 0]] {
            let said = plain.and_words(wrong).unwrap_err().to_string();
            assert!(said.starts_with(&format!(
                "{} words follow the level: any has 3 words of codec parameters",
                wrong.len()
            )));
        }
        assert!(plain.and_words(&[1, 0, 0x7ff0_0000]).is_err(), "infinite");
    }

    /// Every host may pass missing elements to a codec that does not store them separately.
    #[test]
    fn missing_elements_are_kept_where_they_are_wanted() {
        let shape = || Shape::new(&[3]).unwrap();
        let array_of = |dtype| Array::new(dtype, ByteOrder::Little, shape()).unwrap();
        let big = Array::new(DType::I16, ByteOrder::Big, shape()).unwrap();
        let (any, flat) = (parse("any,abs=1").unwrap(), parse("flat,abs=1").unwrap());
        let element = (-9999i16).to_be_bytes();
        let with = any.with_fill(&big, &element).unwrap();
        assert_eq!(with.to_string(), "any,abs=1,level=dense,fill=-9999");
        assert_eq!(parse("any,abs=1,fill=-9999").unwrap(), with);
        assert_eq!(with.missing_elements(&big).unwrap().fills().collect::<Vec<_>>(), [element]);
        assert!(any != with && any.missing_elements(&big).unwrap().is_none());
        // Further fill values are added; those that belong to another array are removed.
        let more = with.with_fill(&big, &[0, 7]).unwrap().with_fill(&big, &element).unwrap();
        assert_eq!(more, parse("any,abs=1,fill=-9999,fill=7").unwrap());
        assert_eq!(with.with_missing_of(&array_of(DType::F32)), with);
        assert_eq!(more.with_missing_of(&array_of(DType::U8)), parse("any,abs=1,fill=7").unwrap());
        let limited = parse("any,abs=1,valid_max=300,valid_min=-.5,fill=0").unwrap();
        assert_eq!(limited.to_string(), "any,abs=1,level=dense,fill=0,valid_min=-0.5,valid_max=300");
        let limits = limited.missing_elements(&array_of(DType::F32)).unwrap();
        assert_eq!(any.with_elements(&array_of(DType::F32), &limits).unwrap(), limited);
        let error =
            parse("any,abs=1,valid_min=1").unwrap().with_elements(&array_of(DType::F32), &limits).unwrap_err();
        assert_eq!(
            error.to_string(),
            "any,abs=1,level=dense,fill=0,valid_min=1 has a second valid_min, -0.5; remove one"
        );
        let complex = Array::new(DType::C64, ByteOrder::Big, shape()).unwrap();
        let element = [0x3f, 0x80, 0, 0, 0xc0, 0, 0, 1];
        let with = any.with_fill(&complex, &element).unwrap();
        assert_eq!(with.to_string(), "any,abs=1,level=dense,fill=0xc00000013f800000");
        assert_eq!(with.missing_elements(&complex).unwrap().fills().next().unwrap(), element);
        for wrong in [&[0; 3][..], &[0; 17], &[]] {
            assert_eq!(any.with_fill(&big, wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert_eq!(flat.with_fill(&big, wrong).unwrap(), flat);
        }
        assert!(parse("any,abs=1,fill=.5").unwrap().missing_elements(&big).is_err());
        assert_eq!(parse("any,fill=.5,valid_min=0").unwrap(), parse("any").unwrap(), "lossless");
        assert_eq!(parse("any").unwrap().with_fill(&big, &[0; 17]).unwrap(), parse("any").unwrap());
        assert_eq!(parse("flat,abs=1,fill=-999").unwrap(), flat);
        assert_eq!("lorenzo,fill=1e20".parse::<Request>().unwrap(), Request::default());
    }

    /// With missing elements, all codec parameters are written, so that their end is unambiguous.
    #[test]
    fn missing_elements_follow_the_codec_params() {
        let text = "any,abs=1,s=2,fill=-999,fill=0x7fc00001,fill=18446744073709551615,valid_min=-.5,valid_max=1e30";
        let request = parse(text).unwrap();
        let words: Vec<u32> = request.words_after_level().collect();
        assert_eq!(words[..3], [-1074i32 as u32, 0, 0x4000_0000]);
        assert_eq!(parse("any,abs=1").unwrap().and_words(&words).unwrap(), request);
        let plain = parse("any,abs=1,fill=0").unwrap();
        assert_eq!(plain.words_after_level().count(), 3 + 3);
        assert_eq!(parse("any,abs=1").unwrap().words_after_level().count(), 0);
        assert_eq!(parse("flat,abs=1").unwrap().and_words(&[1, 0, 0]).unwrap(), parse("flat,abs=1").unwrap());
    }

    #[test]
    fn a_parameter_of_another_mode_is_refused() {
        for text in ["zfp,maxprec=10", "zfp,lossless,maxprec=64", "zfp,rate=8,minbits=3", "zfp,abs=1,minexp=-1074"]
        {
            let error = text.parse::<Request>().unwrap_err();
            assert!(error.context().contains("is a parameter of mode expert, not of"), "{error}");
        }
        let error = "multigrid,abs=1e-3,s=-1".parse::<Request>().unwrap_err();
        assert_eq!(error.to_string(), "multigrid: s is a parameter of mode rms, not of abs; use rms, or remove s");
        assert!(Request::with_codec_params(4, 3, 8.0, 0, &[1, 300, 20]).is_err(), "words of another mode");
        assert!(Request::with_codec_params(4, 3, 8.0, 0, &[1, 16658, 64]).is_ok(), "the defaults");
        assert!(
            "zfp,expert,maxprec=10".parse::<Request>().is_ok() && "multigrid,rms=1,s=-1".parse::<Request>().is_ok()
        );
    }

    #[test]
    fn a_fill_value_is_as_long_as_an_opaque_element() {
        let array = Array::opaque(5, Shape::new(&[3]).unwrap()).unwrap();
        let request = parse("any,abs=1").unwrap();
        assert!(request.with_fill(&array, &[0; 5]).is_ok());
        assert_eq!(request.with_fill(&array, &[0; 3]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn what_is_refused_names_what_is_allowed() {
        for (text, said) in [
            ("", "codec \"\" is unknown to gridz"),
            ("lz", "codec \"lz\" is unknown to gridz"),
            ("flat", "flat: use mode 1, abs, or mode 6, rms; it has no mode 0, lossless"),
            ("flat,rel=1e-3", "flat: use mode 1, abs, or mode 6, rms; it has no mode 2, rel"),
            ("flat,abs=1,level=1", "flat has no levels; use 0, not 1"),
            ("any,level=3", "any does not have level 3; its levels are 2 dense, 7 max, and 0 for the default"),
            ("any,level=fast", "any does not have level fast"),
            ("any,level=-1", "any does not have level -1"),
            ("any,levle=1", "any: \"levle=1\" is unknown; allowed are lossless, abs=NUMBER, rel=NUMBER"),
            ("flat,abs", "flat: \"abs\" is unknown; allowed are abs=NUMBER, rms=NUMBER"),
            ("any,lossless=1", "any: \"lossless=1\" is unknown"),
            ("any,", "any: \"\" is unknown"),
            ("any,abs=", "abs= is not valid: abs must be followed by a number"),
            ("any,abs=1mm", "abs=1mm is not valid: abs must be followed by a number"),
            ("any,minexp=.5", "any: minexp must be a whole number of 32 bits, not 0.5"),
            ("any,minexp=3e9", "any: minexp must be a whole number of 32 bits, not 3000000000"),
            ("any,s=nan", "any: s must be a finite number, not NaN"),
            ("any,s=1,s=1", "contains a second s, s=1"),
            ("flat,abs=1,s=1", "flat: \"s=1\" is unknown"),
            (
                "any,x=1",
                "level=dense|max, minexp=NUMBER, s=NUMBER, fill=NUMBER, valid_min=NUMBER, valid_max=NUMBER",
            ),
            ("any,fill", "any: \"fill\" is unknown"),
            ("any,fill=none", "fill=none is not valid; give a number, such as fill=-999"),
            ("flat,abs=1,fill=none", "fill=none is not valid; give a number"),
            ("any,valid_min=1,valid_min=1", "contains a second valid_min, valid_min=1"),
            ("any,abs=1,valid_max", "any: \"valid_max\" is unknown"),
            ("any,abs=1,valid_max=x", "valid_max=x is not valid; give a number, such as valid_max=-999"),
            ("any,abs=1,abs=1", "contains a second mode, abs=1"),
            ("any,abs=1,rms=1", "contains a second mode, rms=1"),
            ("any,level=2,level=2", "contains a second level, level=2"),
            ("any,abs=nan", "any, abs: the value must be a finite number above 0, not NaN"),
            ("any,rms=inf", "must be a finite number above 0, not inf"),
            ("any,abs=0", "must be a finite number above 0, not 0"),
            ("any,abs=-1", "must be a finite number above 0, not -1"),
            ("any,pwrel=1", "any, pwrel: the value must be below 1, not 1"),
            ("any,precision=1.5", "any, precision: the value must be a whole number of bit planes, not 1.5"),
        ] {
            assert!(error(text).contains(said), "{text}: {}", error(text));
        }
        let said = |result: Result<Request>| result.unwrap_err().to_string();
        assert_eq!(said("lorenzo,abs=1e-3".parse()), "lorenzo: use mode 0, lossless; it has no mode 1, abs");
        assert_eq!(said(Request::with_mode(2, 9, 0.0, 0)), "lorenzo: use mode 0, lossless; there is no mode 9");
        assert!(said(Request::with_mode(2, 0, 1.0, 0)).contains("lorenzo, lossless: the value must be 0, not 1"));
        for (mode, value, level) in [(1, 0.0, 0), (0, 1.0, 0), (0, f64::NAN, 0), (0, 0.0, 2)] {
            let twice = said(Request::by_name(Some("lorenzo,level=dense"), mode, value, level));
            assert!(
                twice.contains(
                    "\"lorenzo,level=dense\" is a whole request in text form; leave mode, value and level 0"
                ),
                "{twice}"
            );
        }
        assert!(said(Request::with_mode(2, 0, f64::NAN, 0)).contains("must be 0, not NaN"));
    }

    #[test]
    fn cd_values_say_the_same() {
        let half = 0.5f64.to_bits();
        let (low, high) = (half as u32, (half >> 32) as u32);
        for (words, text) in [
            (&[][..], "lorenzo"),
            (&[1], "ndzip"),
            (&[1, 0], "ndzip"),
            (&[1, 0, 0], "ndzip"),
            (&[2, 0, 2], "lorenzo,level=dense"),
            (&[2, 0, 3], "lorenzo,level=max"),
        ] {
            assert_eq!(Request::from_words(words).unwrap(), text.parse().unwrap(), "{words:?}");
        }
        for (words, text) in [
            (&[2, 1, low, high][..], "lorenzo,abs=.5"),
            (&[2, 5, low, high, 2], "lorenzo,pwrel=.5,level=2"),
            (&[2, 0, 4], "lorenzo,level=4"),
        ] {
            let error = text.parse::<Request>().unwrap_err();
            assert_eq!(Request::from_words(words).unwrap_err(), error, "{words:?}");
        }
        for words in [&[2, 1][..], &[2, 1, 0], &[2, 0, 0, 0], &[2, 0, 0, 0, 0], &[2, 0, 0, 0, 0, 0]] {
            let error = Request::from_words(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.context().contains("are invalid; allowed are: no value"), "{error}");
        }
    }

    #[test]
    fn a_bound_that_a_filter_cannot_keep_is_refused() {
        let refused = |text, dtype, before| match parse(text).unwrap().check_dataset(dtype, before) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(refused("any,abs=1e-3", DType::F32, None), "");
        assert!(
            refused("any,abs=1e-3", DType::F32, Some("shuffle"))
                .contains("abs=1e-3,level=dense: shuffle runs before")
        );
        assert!(refused("any,abs=1e-3", DType::Opaque, None).contains("has opaque elements"));
        assert!(
            refused("any,abs=1e-3", DType::I32, None)
                .contains("has int32 elements, but any supports only float32, float64")
        );
        assert!(refused("any,rel=1e-3", DType::F32, None).contains("use abs"));
        assert_eq!(refused("any", DType::Opaque, Some("shuffle")), "", "lossless");
    }

    proptest! {
        #[test]
        fn a_request_is_what_its_text_says(
            (mode, level) in (0u32..8, prop::sample::select(vec![0u32, 2, 7])),
            (value, minexp, s) in (any::<f64>(), any::<u32>(), any::<f64>()),
            (dtype, fill) in (prop::sample::select(DType::ALL.to_vec()), any::<[u8; 16]>()),
        ) {
            let has_value = Mode::from_id(mode).unwrap().has_value();
            let words = [minexp, s.to_bits() as u32, (s.to_bits() >> 32) as u32];
            let request = Request::check(&CODECS[0], mode, if has_value { value } else { 0.0 }, level);
            if let Ok(request) = request.and_then(|request| request.and_words(&words)) {
                let (n_bytes, shape) = (dtype.size().unwrap_or(13), Shape::new(&[3]).unwrap());
                let array = Array::with_size(dtype, ByteOrder::Big, n_bytes, shape).unwrap();
                let size = n_bytes as usize;
                let request = request.with_fill(&array, &fill[..size]).unwrap();
                let text = request.to_string();
                let back = parse(&text).unwrap();
                prop_assert_eq!(back, request);
                let missing = back.missing_elements(&array).unwrap();
                prop_assert_eq!(missing.fills().len(), usize::from(mode > 0));
                prop_assert!(missing.fills().all(|bytes| bytes == &fill[..size]));
                let words: Vec<u32> = request.words_after_level().collect();
                let plain = Request::check(&CODECS[0], mode, if has_value { value } else { 0.0 }, level).unwrap();
                prop_assert_eq!(plain.and_words(&words).unwrap(), request);
                prop_assert_eq!(back.value().to_bits(), request.value().to_bits());
                prop_assert_eq!(back.to_string(), text);
            }
        }
    }
}
