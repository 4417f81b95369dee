//! cd_values of the filter: the words that a user passes, and the words stored with a dataset.
//!
//! Pure functions. [`Request::from_words`] parses a user's words. `set_local` replaces them by the
//! dataset's [`Record`].

use super::record::{IS_SHUFFLED, RECORD_MAGIC, Record, halves};
use gridz::{Mode, Request};
use gridz_codecs::error::{Error, ErrorKind, Result};

/// Parsed cd_values of a filter.
#[allow(clippy::large_enum_variant)] // one at a time, on the stack
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// A user's request.
    User(Request),
    /// The record that `set_local` stored.
    Record(Record),
}

impl Values {
    /// Parses either form.
    ///
    /// # Errors
    /// `InvalidArgument` or `UnsupportedJob` with the allowed values, `UnsupportedFormat` for the
    /// record of a later version.
    pub fn parse(words: &[u32]) -> Result<Self> {
        match words {
            [first, ..] if first & 0xffff_0000 == RECORD_MAGIC => Record::parse(words).map(Values::Record),
            _ => Request::from_words(words).map(Values::User),
        }
    }

    /// The request of the user, or of the dataset's creator.
    ///
    /// # Errors
    /// As [`Record::request`].
    pub fn request(&self) -> Result<Request> {
        match self {
            Values::User(request) => Ok(*request),
            Values::Record(record) => record.request(),
        }
    }
}

/// Converts a request to the shortest words that a user can pass for it.
pub fn user_words(request: &Request) -> Vec<u32> {
    let (mode, level) = (request.mode(), u32::from(request.level()));
    let mut words = vec![request.codec().into(), mode.id().into()];
    if mode != Mode::Lossless {
        words.extend(halves(request.value().to_bits()));
    }
    words.push(level);
    if mode != Mode::Lossless {
        words.extend(request.words_after_level());
    }
    words
}

/// Whether unreadable words may be the record of a dataset whose chunks must be shuffled again
/// after decoding. The shuffle flag has the same place in every version, so a record of a later
/// version is certain. Damaged words count as a damaged record unless they begin with a codec
/// number, as a user's words do.
pub fn may_be_shuffled(words: &[u32], error: &Error) -> bool {
    let is_record = words.first().is_some_and(|first| first & 0xffff_0000 == RECORD_MAGIC);
    let is_shuffled = || words.get(2).is_none_or(|layout| layout.to_le_bytes()[3] & IS_SHUFFLED != 0);
    match error.kind() {
        ErrorKind::UnsupportedFormat if is_record => is_shuffled(),
        _ => is_record || words.first().is_some_and(|&first| first > u32::from(u8::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::HAS_CHECK;
    use super::super::record::tests::{array, checked, parsed, unchecked};
    use super::*;
    use gridz_codecs::types::{Array, DType, Shape};

    fn error(words: &[u32]) -> Error {
        Values::parse(words).unwrap_err()
    }

    /// Any wrong bit in a record is detected, so chunks are never shuffled differently than before.
    #[test]
    fn a_wrong_bit_is_noticed() {
        for shuffle in [None, Some(4)] {
            let words = Record::new(&Request::default(), array(&[90, 90]), shuffle).unwrap().words();
            for bit in 0..32 * words.len() {
                let mut wrong = words.to_vec();
                wrong[bit / 32] ^= 1 << (bit % 32);
                if bit == 64 + 24 + HAS_CHECK.trailing_zeros() as usize {
                    // Without its flag the checksum is a word that this version does not know. The
                    // rest is valid.
                    let Values::Record(back) = Values::parse(&wrong).unwrap() else { panic!("bit {bit}") };
                    assert_eq!((back.shuffle(), *back.array()), (shuffle, array(&[90, 90])));
                    assert_eq!(back.request().unwrap_err().kind(), ErrorKind::UnsupportedFormat);
                    continue;
                }
                let error = error(&wrong);
                let is_version = bit < 16;
                let expected = if is_version { ErrorKind::UnsupportedFormat } else { ErrorKind::Corrupt };
                // The upper half of word 0 marks a record.
                assert!(error.kind() == expected || (16..32).contains(&bit), "bit {bit}: {error}");
                assert!(may_be_shuffled(&wrong, &error) || (is_version && shuffle.is_none()), "bit {bit}");
            }
        }
        assert!(!may_be_shuffled(&[77, 0], &Error::unsupported("a codec of a later version")));
    }

    #[test]
    fn a_record_without_a_checksum_is_read() {
        let record = Record::new(&Request::default(), array(&[90, 90]), Some(4)).unwrap();
        let words = unchecked(&record.words());
        let Values::Record(back) = Values::parse(&words).unwrap() else { panic!("{words:?}") };
        assert_eq!(back, record);
    }

    #[test]
    fn extras_are_in_a_record_where_somebody_says_something() {
        let words_of = |text: &str| {
            let request: Request = text.parse().unwrap();
            let words = Record::new(&request, array(&[90, 90]), None).unwrap().words();
            let Values::Record(back) = Values::parse(&words).unwrap() else { panic!("{words:?}") };
            assert_eq!(back.request().unwrap(), request);
            unchecked(&words)
        };
        let expert = words_of("zfp,expert,maxbits=300,minexp=-20");
        assert_eq!(expert[expert.len() - 5..], [4, 1, 300, 64, -20i32 as u32]);
        assert_eq!(words_of("zfp,rate=8")[2] >> 26, 0);
    }

    #[test]
    fn lists_of_missing_elements_have_their_place() {
        let array = array(&[7]);
        let text = "multigrid,abs=1,layers=2,fill=-999,fill=0,fill=0x7fc00001,valid_min=-5,valid_max=300";
        let mut n_tried = 0;
        for (text, head) in [
            (text, 0x0303),
            ("quant,abs=1,fill=-999,fill=1e20", 2),
            ("quant,abs=1,valid_min=0", 0x100),
            ("quant,abs=1,fill=7,valid_max=0", 0x201),
        ] {
            let request = parsed(text).unwrap();
            for shuffle in [None, Some(4)] {
                let record = Record::new(&request, array, shuffle).unwrap();
                let words = unchecked(&record.words());
                assert_eq!(words[2] >> 24 & 10, 8);
                let n_elements = (head & 0xff) + (head >> 8 & 1) + (head >> 9);
                assert_eq!(words[words.len() - 1 - n_elements as usize], head);
                let Values::Record(back) = Values::parse(&checked(&words)).unwrap() else { panic!("{words:?}") };
                assert_eq!(back, record);
                let again = back.request().unwrap();
                assert_eq!(again.missing_elements(&array).unwrap(), request.missing_elements(&array).unwrap());
                for n in 1..words.len() {
                    assert!(Values::parse(&checked(&words[..n])).is_err(), "{n} of {} words", words.len());
                }
                let start = words.len() - 1 - n_elements as usize;
                // Heads that do not fit the list (one element can be a fill value), and a fill value
                // that occurs twice.
                let heads = [9, 0x404, 0, if n_elements > 1 { 1 } else { 2 }].map(|value| (start, value));
                let twice = (head & 0xff >= 2).then(|| (start + 1, words[start + 2]));
                for (at, value) in heads.into_iter().chain(twice) {
                    let mut wrong = words.to_vec();
                    wrong[at] = value;
                    let found = Values::parse(&checked(&wrong)).and_then(|values| values.request());
                    assert!(words == wrong || found.is_err(), "{text}: {wrong:?} instead of {words:?}");
                    n_tried += u32::from(words != wrong);
                }
            }
        }
        assert!(n_tried >= 32, "{n_tried}");
        let wrong = parsed("quant,abs=1,valid_min=5,valid_max=4").unwrap();
        assert!(Record::new(&wrong, array, None).unwrap_err().context().contains("no element is valid"));
    }

    /// The bits of a fill value have one element size. Opaque elements have any size, so the size
    /// must be compared too.
    #[test]
    fn a_fill_value_of_another_size_is_none() {
        let request = parsed("quant,abs=1,fill=0x01020304").unwrap();
        for size in [20, 2] {
            let array = Array::opaque(size, Shape::new(&[7]).unwrap()).unwrap();
            let words = Record::new(&request, array, None).map(|record| record.words().to_vec());
            assert_eq!(words.unwrap_err().kind(), ErrorKind::InvalidArgument, "{size}");
        }
    }

    #[test]
    fn records_of_later_versions_are_named_as_such() {
        let good = unchecked(&Record::new(&Request::default(), array(&[4, 5]), None).unwrap().words());
        let mut words = good.clone();
        words[0] = RECORD_MAGIC | 2;
        assert_eq!(error(&words).kind(), ErrorKind::UnsupportedFormat);
        for (at, value) in [(1, 0x0101), (2, 0x2002_010b), (2, 0x2802_010b), (4, 1), (5, 1), (10, 0)] {
            let mut words = [&good[..], &[0][..usize::from(at == 10)]].concat();
            words[at] = value;
            let Values::Record(record) = Values::parse(&checked(&words)).unwrap() else { panic!("word {at}") };
            assert_eq!(*record.array(), array(&[4, 5]), "word {at}");
            assert_eq!(record.request().unwrap_err().kind(), ErrorKind::UnsupportedFormat, "word {at}");
        }
        for (at, value) in [(2, 0x0002_020b), (2, 0x0002_00ff), (2, 0x0021_010b), (3, 8), (7, u32::MAX)] {
            let mut words = good.clone();
            words[at] = value;
            assert_eq!(error(&checked(&words)).kind(), ErrorKind::Corrupt, "word {at}");
        }
        // More codec parameters than any codec has, and fewer than their count says.
        for (last, is_damaged) in [(vec![9; 10], false), (vec![2, 0], true), (vec![0], true), (vec![], true)] {
            let mut words = [&good[..], &last].concat();
            words[2] |= 4 << 24;
            let found = Values::parse(&checked(&words)).and_then(|values| values.request());
            let kind = if is_damaged { ErrorKind::Corrupt } else { ErrorKind::UnsupportedFormat };
            assert_eq!(found.unwrap_err().kind(), kind, "{words:?}");
        }
        // A fill value that is cut off, or has bytes after its element.
        for last in [&[][..], &[0x4e]] {
            let mut words = [&good[..], last].concat();
            words[2] = words[2] & !0xff | u32::from(DType::F64.id()) | 2 << 24;
            words[3] = 8;
            assert_eq!(error(&checked(&words)).kind(), ErrorKind::Corrupt, "{words:?}");
        }
        for (last, is_damaged) in [(0xd8f1, false), (0x1_d8f1, true)] {
            let mut words = [&good[..], &[last]].concat();
            words[2] = words[2] & !0xff | u32::from(DType::I16.id()) | 2 << 24;
            words[3] = 2;
            assert_eq!(Values::parse(&checked(&words)).is_err(), is_damaged, "{words:?}");
        }
        // An unsupported element size: the record describes the elements, and nothing else is
        // known.
        for n in [16, 17, 64] {
            let mut words = [&good[..], &[7; 16][..n / 4 + usize::from(n == 17)]].concat();
            words[2] = (words[2] & !0xffff) | 2 << 24;
            words[3] = n as u32;
            let Values::Record(record) = Values::parse(&checked(&words)).unwrap() else { panic!("{words:?}") };
            assert_eq!(record.array().element_size(), n as u32);
            assert_eq!(record.request().is_err(), n > 16, "{n}");
        }
        // The shuffle flag without an element size.
        for last in [&[][..], &[0]] {
            let mut words = [&good[..], last].concat();
            words[2] |= 1 << 24;
            assert_eq!(error(&checked(&words)).kind(), ErrorKind::Corrupt, "{words:?}");
        }
        let mut words = good.clone();
        words[1] = 200;
        let error = Values::parse(&checked(&words)).unwrap().request().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
        assert!(
            error.context().contains("codec 200 is unknown") && error.context().contains("a newer gridz"),
            "{error}"
        );
    }
}
