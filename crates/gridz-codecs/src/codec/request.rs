//! Requests: the codec and its parameters for compressing a chunk.
//!
//! A request is a codec and its parameters: a mode with its parameter, a level, and the codec's own
//! parameters. Every host has its own form of a request. `request_words` converts cd_values, and
//! `request_text` converts text. This module checks the result, so the same requests are accepted
//! everywhere, with the same error messages:
//!
//! | where | form |
//! |---|---|
//! | cd_values of HDF5 | nothing, `[codec]`, `[codec, 0]`, `[codec, 0, level]` |
//! | the same, with a mode | `[codec, mode, low, high]`, `[codec, mode, low, high, level, param …, missing …]` |
//! | C | text in the field `request` of `gridz_options` |
//! | text | `lorenzo`, `lorenzo,level=dense`, `quant,abs=1e-3,level=2,fill=-999,fill=1e20,valid_min=0` |
//!
//! Fill values and the valid range ([`Missing`]) may also come from the array: from pointers in C,
//! and HDF5's fill value from the dataset's property list. A lossless codec does not need them;
//! they are accepted and ignored.

use std::fmt;

use crate::codec::encode_params::{EncodeParams, MAX_CODEC_PARAMS};
use crate::codec::fill::Fill;
use crate::codec::missing::{LIMITS, Missing, MissingElements};
use crate::codec::mode::Mode;
use crate::codec::registry::{self, CodecParam, Entry, Level};
use crate::error::{Error, Result};
use crate::types::{Array, ByteOrder, DType};

/// The codec and its parameters for compression. Codec and level are always resolved, never "the
/// default".
#[derive(Clone, Copy)]
pub struct Request {
    #[doc(hidden)] // of the codecs, and no part of the crate gridz
    pub entry: &'static Entry,
    #[doc(hidden)]
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

    /// As [`Request::with_mode`], with the codec's name, or `None` for the default codec.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn by_name(codec: Option<&str>, mode: u32, value: f64, level: u32) -> Result<Self> {
        let entry = match codec {
            Some(name) => named(registry::CODECS, name.trim())?,
            None => Self::default().entry,
        };
        Self::check(entry, mode, value, level)
    }

    /// Checks a request: the only place that decides whether a codec supports it.
    pub(super) fn check(entry: &'static Entry, mode: u32, value: f64, level: u32) -> Result<Self> {
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

pub(super) fn named(codecs: &'static [Entry], name: &str) -> Result<&'static Entry> {
    codecs.iter().find(|entry| entry.has_name(name)).ok_or_else(|| unknown_codec(&format_args!("\"{name}\"")))
}

/// Converts elements between the byte order of `array` and little-endian, each number separately.
fn in_other_order(array: &Array, elements: MissingElements) -> MissingElements {
    match (array.order(), array.dtype().number_size()) {
        (ByteOrder::Big, Some(size)) => elements.swapped(size),
        _ => elements,
    }
}

pub(super) fn check_codec_param(entry: &Entry, param: &CodecParam, value: f64) -> Result<()> {
    let what = match param.is_whole {
        true if f64::from(value as i32) == value => return Ok(()),
        false if value.is_finite() => return Ok(()),
        true => "a whole number from -2^31 to 2^31-1",
        false => "a finite number",
    };
    Err(Error::invalid(format!("{}: {} must be {what}, not {value}", entry.name, param.name)))
}

/// Rejects a parameter that has no meaning in a mode.
pub(super) fn check_codec_param_mode(entry: &Entry, param: &CodecParam, mode: Mode) -> Result<()> {
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

pub(super) fn unknown_level(entry: &Entry, level: &dyn fmt::Display) -> Error {
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

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

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
    pub(in crate::codec) static CODECS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
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

    pub(in crate::codec) fn parse(text: &str) -> Result<Request> {
        Request::parse(&CODECS, text)
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

    #[test]
    fn a_fill_value_is_as_long_as_an_opaque_element() {
        let array = Array::opaque(5, Shape::new(&[3]).unwrap()).unwrap();
        let request = parse("any,abs=1").unwrap();
        assert!(request.with_fill(&array, &[0; 5]).is_ok());
        assert_eq!(request.with_fill(&array, &[0; 3]).unwrap_err().kind(), ErrorKind::InvalidArgument);
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
}
