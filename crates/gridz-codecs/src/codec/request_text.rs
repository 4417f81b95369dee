//! The text form of a [`Request`]: the codec's name, then a mode, a level, the codec's own
//! parameters and missing elements, separated by commas.

use std::fmt;
use std::str::FromStr;

use crate::codec::encode_params::MAX_CODEC_PARAMS;
use crate::codec::fill::{Fill, shortest};
use crate::codec::missing::{LIMITS, Missing};
use crate::codec::mode::Mode;
use crate::codec::registry::{self, Entry};
use crate::codec::request::{Request, check_codec_param, check_codec_param_mode, named, unknown_level};
use crate::error::{Error, Result};

impl Request {
    /// Parses request text, for the codecs in a table.
    pub(super) fn parse(codecs: &'static [Entry], text: &str) -> Result<Self> {
        let mut parts = text.split(',').map(str::trim);
        let entry = named(codecs, parts.next().unwrap_or_default())?;
        let (mut mode, mut level, mut missing, mut codec_params) =
            (None, None, Missing::NONE, [None; MAX_CODEC_PARAMS]);
        for part in parts {
            let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
            let number = |text: &str| {
                let wrong = |_| {
                    Error::invalid(format!(
                        "{part} is not valid: write {key}=NUMBER, where NUMBER is a decimal number such as 16 or 1e-3"
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

/// The number of a level by its name or number; 0 is the default.
fn level_of(entry: &Entry, text: &str) -> Result<u32> {
    let by_name = entry.levels.iter().find(|level| level.name == text).map(|level| level.number.into());
    by_name.or_else(|| text.parse().ok()).ok_or_else(|| unknown_level(entry, &text))
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
    use proptest::prelude::*;

    use super::*;
    use crate::codec::request::tests::{CODECS, parse};
    use crate::types::{Array, ByteOrder, DType, Shape};

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
        for (text, level) in [(None, 2), (Some("lorenzo"), 2)] {
            assert_eq!(Request::by_name(text, 0, 0.0, level).unwrap(), dense, "{text:?}");
        }
        assert_eq!(Request::default().to_string(), "lorenzo,level=fast");
        assert_eq!(parse("any,abs=0.001,level=max").unwrap().to_string(), "any,abs=1e-3,level=max");
        assert_eq!(parse("flat,abs=16").unwrap().to_string(), "flat,abs=16");
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
            ("any,abs=", "abs= is not valid: write abs=NUMBER"),
            ("any,abs=1mm", "abs=1mm is not valid: write abs=NUMBER"),
            ("any,minexp=.5", "any: minexp must be a whole number from -2^31 to 2^31-1, not 0.5"),
            ("any,minexp=3e9", "any: minexp must be a whole number from -2^31 to 2^31-1, not 3000000000"),
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
        assert!(said(Request::by_name(Some("lorenzo,level=dense"), 0, 0.0, 0)).contains("lorenzo,level=dense"));
        assert!(said(Request::with_mode(2, 0, f64::NAN, 0)).contains("must be 0, not NaN"));
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
