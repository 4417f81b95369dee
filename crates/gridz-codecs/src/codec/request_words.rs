//! The form of a [`Request`] as numbers: the cd_values of HDF5.
//!
//! A float64 takes two words, the lower half first. The codec's own parameters follow the level in
//! the order of the codec's registry entry; words for missing elements ([`Missing`]) follow them.

use crate::codec::missing::Missing;
use crate::codec::registry::CodecParam;
use crate::codec::request::{Request, check_codec_param, check_codec_param_mode};
use crate::error::{Error, Result};

impl Request {
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
                     level, param …], where mode is not 0, and low and high are the halves of a float64"
                )))
            }
        }
    }

    /// As [`Request::with_mode`], with words for the codec's own parameters, followed by words for
    /// missing elements. Parameters omitted at the end have their defaults.
    ///
    /// # Errors
    /// As [`Request::with_mode`].
    pub fn with_codec_params(codec: u32, mode: u32, value: f64, level: u32, codec_params: &[u32]) -> Result<Self> {
        Self::with_mode(codec, mode, value, level)?.and_words(codec_params)
    }

    pub(super) fn and_words(mut self, words: &[u32]) -> Result<Self> {
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
}

/// Combines two words of cd_values to a float64.
fn float(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

#[cfg(test)]
mod tests {
    use crate::codec::request::Request;
    use crate::codec::request::tests::parse;
    use crate::error::ErrorKind;

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
}
