//! cd_values of the filter: the words that a user passes, and the words stored with a dataset.
//!
//! Pure functions. `format/SPEC.md`, section "Stored cd_values", fixes the stored layout.
//!
//! [`Request::from_words`] parses a user's words. `set_local` replaces them by the dataset's
//! record. The record holds the resolved request, so that a later default never changes an old
//! dataset. It also describes a chunk, so that encoding need not query libhdf5.

use gridz::{MAX_CODEC_PARAMS, MAX_FILLS, MAX_MISSING_WORDS, MissingElements, Mode, Request};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// First word of a record: "GZ" in the upper half, the version of the layout in the lower half.
pub const RECORD_MAGIC: u32 = 0x475a_0000;
/// Version of the record that this library writes, and the newest it reads.
pub const RECORD_VERSION: u32 = 1;
/// Words before the extents.
const FIXED_WORDS: usize = 6;
/// Size limit of an element that can be a fill value, in bytes.
const MAX_ELEMENT_BYTES: u32 = 16;
/// Maximum number of words for codec parameters.
const MAX_CODEC_PARAM_WORDS: usize = 2 * MAX_CODEC_PARAMS;
/// Length limit of a record: fixed words, extents, the element size of a shuffle, codec parameters
/// with their count, missing elements, and a checksum.
pub const MAX_WORDS: usize = FIXED_WORDS + 2 * MAX_RANK + 1 + 1 + MAX_CODEC_PARAM_WORDS + MAX_MISSING_WORDS + 1;
/// Flag in the last byte of word 2: HDF5's shuffle runs before gridz, with the element size that
/// follows the extents.
const IS_SHUFFLED: u8 = 1;
/// Flag in the same byte: a fill value follows, as the bytes of one element in whole words.
const HAS_FILL: u8 = 2;
/// Flag in the same byte: codec parameters follow, a count of words and then that many words.
const HAS_CODEC_PARAMS: u8 = 4;
/// Flag in the same byte, in place of [`HAS_FILL`]: after the codec parameters follow several fill
/// values or a valid range. The first word holds the number of fill values, and in bits 8 and 9
/// whether there are a least and a greatest valid element. These elements follow, each in whole
/// words.
const HAS_MISSING: u8 = 8;
/// Flag in the same byte: the last word is a checksum of all words before it. Records without a
/// checksum are still read.
const HAS_CHECK: u8 = 16;

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

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
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

/// Checksum of a record's words.
fn check_of(words: &[u32]) -> u32 {
    words.iter().fold(0, |crc, word| crc32c::crc32c_append(crc, &word.to_le_bytes()))
}

/// The description that is stored with a dataset. A later version may store more than this one
/// knows. The description of the chunk is then still valid, but writing more chunks is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    codec: u8,
    mode: u8,
    level: u16,
    /// The bits of the mode's value.
    value: u64,
    array: Array,
    /// Element size of the shuffle filter that runs before ours.
    shuffle: Option<u32>,
    /// The missing elements, in the file's byte order.
    missing: MissingElements,
    /// Words of the codec parameters, and their number.
    codec_params: [u32; MAX_CODEC_PARAM_WORDS],
    n_codec_params: usize,
    /// True if there are flags or words that this version does not know.
    has_more: bool,
}

impl Record {
    /// Describes `request` for chunks like `array`. `shuffle` is the element size if HDF5 shuffles
    /// chunks before gridz gets them.
    ///
    /// # Errors
    /// `InvalidArgument` if the request's missing elements do not fit the array's type.
    pub fn new(request: &Request, array: Array, shuffle: Option<u32>) -> Result<Self> {
        let missing = request.missing_elements(&array)?;
        let (codec, mode, level) = (request.codec(), request.mode().id(), request.level());
        let (mut codec_params, mut n_codec_params) = ([0; MAX_CODEC_PARAM_WORDS], 0);
        for (to, word) in codec_params.iter_mut().zip(request.codec_param_words()) {
            (*to, n_codec_params) = (word, n_codec_params + 1);
        }
        let value = request.value().to_bits();
        Ok(Self {
            codec,
            mode,
            level,
            value,
            array,
            shuffle,
            missing,
            codec_params,
            n_codec_params,
            has_more: false,
        })
    }

    /// One chunk of the dataset.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The element size if HDF5 shuffles chunks before gridz gets them.
    pub fn shuffle(&self) -> Option<u32> {
        self.shuffle
    }

    /// The request that the dataset was created with.
    ///
    /// # Errors
    /// `UnsupportedFormat` if this version does not understand all of the record.
    pub fn request(&self) -> Result<Request> {
        let (codec, mode, level) = (self.codec.into(), self.mode.into(), self.level.into());
        if self.has_more {
            return Err(needs_newer("filter values that this version does not know"));
        }
        // If this version rejects the request, a later version wrote the record.
        let codec_params = &self.codec_params[..self.n_codec_params];
        Request::with_codec_params(codec, mode, f64::from_bits(self.value), level, codec_params)
            .and_then(|request| request.with_elements(&self.array, &self.missing))
            .map_err(|error| needs_newer(error.context()))
    }

    fn parse(words: &[u32]) -> Result<Self> {
        let damaged = |what: &str| Error::corrupt(format!("damaged filter values of a gridz dataset: {what}"));
        if words[0] != RECORD_MAGIC | RECORD_VERSION {
            return Err(needs_newer(&format!("filter values of version {}", words[0] & 0xffff)));
        }
        let has_check = words.get(2).is_some_and(|layout| layout.to_le_bytes()[3] & HAS_CHECK != 0);
        let words = match words {
            [words @ .., check] if has_check && *check == check_of(words) => words,
            _ if has_check => return Err(damaged("their checksum does not match")),
            _ => words,
        };
        let &[_, what, layout, element_size, value_low, value_high, ref rest @ ..] = words else {
            return Err(damaged("too few"));
        };
        let [codec, mode, level @ ..] = what.to_le_bytes();
        let [dtype, order, rank, flags] = layout.to_le_bytes();
        let dtype = DType::from_id(dtype).ok_or_else(|| damaged("unknown element type"))?;
        let order = match order {
            0 => ByteOrder::Little,
            1 => ByteOrder::Big,
            _ => return Err(damaged("unknown byte order")),
        };
        let n_words = 2 * usize::from(rank);
        let (extents, more) = rest.split_at_checked(n_words).ok_or_else(|| damaged("too few extents"))?;
        let mut shape = [0; MAX_RANK];
        for (extent, pair) in shape.iter_mut().zip(extents.chunks_exact(2)) {
            *extent = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
        let array = shape
            .get(..usize::from(rank))
            .ok_or_else(|| Error::invalid(format!("rank {rank}")))
            .and_then(Shape::new)
            .and_then(|shape| Array::with_size(dtype, order, element_size, shape))
            .map_err(|error| damaged(error.context()))?;
        let (shuffle, more) = match (flags & IS_SHUFFLED, more) {
            (0, _) => (None, more),
            (_, [0, ..] | []) => return Err(damaged("no element size of the shuffle filter")),
            (_, [size, rest @ ..]) => (Some(*size), rest),
        };
        let value = u64::from(value_low) | u64::from(value_high) << 32;
        let mut missing = MissingElements::none(element_size.into());
        // In this version missing elements are numbers. A later version may have longer ones.
        let is_number = element_size <= MAX_ELEMENT_BYTES;
        let element = |words: &mut &[u32]| -> Result<[u8; MAX_ELEMENT_BYTES as usize]> {
            let cut = || damaged("no whole fill value or limit");
            let (these, rest) = words.split_at_checked(element_size.div_ceil(4) as usize).ok_or_else(cut)?;
            *words = rest;
            let mut bytes = [0; MAX_ELEMENT_BYTES as usize];
            for (to, word) in bytes.chunks_exact_mut(4).zip(these) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            if is_number && bytes[element_size as usize..].iter().any(|&byte| byte != 0) {
                return Err(damaged("a fill value or limit that is longer than an element"));
            }
            Ok(bytes)
        };
        let mut more = more;
        if flags & HAS_FILL != 0 {
            let bytes = element(&mut more)?;
            if is_number {
                missing.add(&bytes[..element_size as usize])?;
            }
        }
        // Words of an unknown flag would come first, and their number is unknown.
        let is_known = flags & !(IS_SHUFFLED | HAS_FILL | HAS_CODEC_PARAMS | HAS_MISSING | HAS_CHECK) == 0
            && (is_number || flags & (HAS_FILL | HAS_MISSING) == 0);
        let no_codec_params = || damaged("fewer codec parameters than their count says");
        let (found, mut more) = match more {
            _ if flags & HAS_CODEC_PARAMS == 0 || !is_known => (&[][..], more),
            [] | [0, ..] => return Err(no_codec_params()),
            [n, rest @ ..] => rest.split_at_checked(*n as usize).ok_or_else(no_codec_params)?,
        };
        let (mut codec_params, n_codec_params) =
            ([0; MAX_CODEC_PARAM_WORDS], found.len().min(MAX_CODEC_PARAM_WORDS));
        codec_params[..n_codec_params].copy_from_slice(&found[..n_codec_params]);
        if flags & HAS_MISSING != 0 && is_known {
            let wrong = || damaged("no list of fill values and limits");
            let (&count, rest) = more.split_first().ok_or_else(wrong)?;
            let [n_fills, limits, 0, 0] = count.to_le_bytes() else { return Err(wrong()) };
            if usize::from(n_fills) > MAX_FILLS {
                return Err(needs_newer(&format!("{n_fills} fill values, more than this version has room for,")));
            }
            if limits > 3 || (n_fills < 2 && limits == 0) || flags & HAS_FILL != 0 {
                return Err(wrong());
            }
            more = rest;
            for _ in 0..n_fills {
                missing.add(&element(&mut more)?[..element_size as usize])?;
            }
            for which in (0..2).filter(|which| limits >> which & 1 == 1) {
                missing.set_limit(which, &element(&mut more)?[..element_size as usize])?;
            }
            if missing.fills().len() != usize::from(n_fills) {
                return Err(damaged("the same fill value twice"));
            }
        }
        let has_more = !is_known || !more.is_empty() || found.len() > n_codec_params;
        let level = u16::from_le_bytes(level);
        Ok(Self { codec, mode, level, value, array, shuffle, missing, codec_params, n_codec_params, has_more })
    }

    /// The words to store.
    pub fn words(&self) -> Words {
        let shape = self.array.shape();
        let [level_low, level_high] = self.level.to_le_bytes();
        let order = u8::from(self.array.order() == ByteOrder::Big);
        let codec_params = &self.codec_params[..self.n_codec_params];
        let has_codec_params = if codec_params.is_empty() { 0 } else { HAS_CODEC_PARAMS };
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        let (n_fills, limits) = (self.missing.fills().len(), self.missing.limits());
        let has_list = n_fills > 1 || limits != [None; 2];
        let flags = HAS_CHECK
            | has_codec_params
            | flag(self.shuffle.is_some(), IS_SHUFFLED)
            | flag(n_fills == 1 && !has_list, HAS_FILL)
            | flag(has_list, HAS_MISSING);
        let mut words = Words { words: [0; MAX_WORDS], len: 0 };
        words.push(&[
            RECORD_MAGIC | RECORD_VERSION,
            u32::from_le_bytes([self.codec, self.mode, level_low, level_high]),
            u32::from_le_bytes([self.array.dtype().id(), order, shape.rank(), flags]),
            self.array.element_size(),
        ]);
        words.push(&halves(self.value));
        for &extent in shape.extents() {
            words.push(&halves(extent));
        }
        words.push(self.shuffle.as_slice());
        if !has_list {
            self.missing.fills().for_each(|fill| words.push_element(fill));
        }
        if has_codec_params != 0 {
            words.push(&[codec_params.len() as u32]);
            words.push(codec_params);
        }
        if has_list {
            let [has_least, has_most] = limits.map(|limit| u8::from(limit.is_some()));
            words.push(&[u32::from_le_bytes([n_fills as u8, has_least | has_most << 1, 0, 0])]);
            self.missing.in_params().for_each(|element| words.push_element(element));
        }
        let check = check_of(&words);
        words.push(&[check]);
        words
    }
}

fn needs_newer(what: &str) -> Error {
    Error::new(ErrorKind::UnsupportedFormat, format!("{what}; a newer gridz is needed for this dataset"))
}

/// cd_values in a buffer of fixed size.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    words: [u32; MAX_WORDS],
    len: usize,
}

impl Words {
    fn push(&mut self, words: &[u32]) {
        self.words[self.len..self.len + words.len()].copy_from_slice(words);
        self.len += words.len();
    }

    /// Appends the bytes of an element as whole words, padded with zeros.
    fn push_element(&mut self, element: &[u8]) {
        for bytes in element.chunks(4) {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            self.push(&[u32::from_le_bytes(word)]);
        }
    }
}

impl std::ops::Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(extents: &[u64]) -> Array {
        Array::new(DType::F32, ByteOrder::Big, Shape::new(extents).unwrap()).unwrap()
    }

    fn parsed(text: &str) -> Result<Request> {
        text.parse()
    }

    fn error(words: &[u32]) -> Error {
        Values::parse(words).unwrap_err()
    }

    /// The words of a record without its checksum.
    fn unchecked(words: &[u32]) -> Vec<u32> {
        let mut words = words[..words.len() - 1].to_vec();
        words[2] &= !(u32::from(HAS_CHECK) << 24);
        words
    }

    /// Words with a checksum.
    fn checked(words: &[u32]) -> Vec<u32> {
        let mut words = words.to_vec();
        if let Some(layout) = words.get_mut(2) {
            *layout |= u32::from(HAS_CHECK) << 24;
        }
        let check = check_of(&words);
        words.push(check);
        words
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
    fn a_record_comes_back() {
        for extents in [&[][..], &[7], &[1 << 33, 2, 3], &[2; 6], &[1; MAX_RANK]] {
            for (shuffle, n_codec_params) in
                [(None, 0), (Some(12), 0), (None, 3), (Some(12), MAX_CODEC_PARAM_WORDS)]
            {
                let record = Record::new(&Request::default(), array(extents), shuffle).unwrap();
                let mut codec_params = [0; MAX_CODEC_PARAM_WORDS];
                codec_params[..n_codec_params].fill(7);
                let record = Record { codec_params, n_codec_params, ..record };
                let words = record.words();
                assert!(extents.len() > 6 || n_codec_params > 0 || words.len() <= 20);
                // The default codec has no parameters of its own.
                assert_eq!(record.request().is_ok(), n_codec_params == 0);
                let Values::Record(back) = Values::parse(&words).unwrap() else { panic!("{words:?}") };
                assert_eq!(back, record);
                for n in 1..words.len() {
                    assert!(Values::parse(&words[..n]).is_err(), "{n} of {} words", words.len());
                }
            }
        }
    }

    /// In the file's byte order, between the element size of a shuffle and the codec parameters.
    #[test]
    fn a_fill_value_has_its_place() {
        for (dtype, order, element, words) in [
            (DType::I16, ByteOrder::Little, &[0xf1, 0xd8][..], &[0xd8f1][..]),
            (DType::I16, ByteOrder::Big, &[0xd8, 0xf1], &[0xf1d8]),
            (DType::F32, ByteOrder::Big, &[0xc4, 0x79, 0xc0, 0], &[0x00c0_79c4]),
            (DType::F64, ByteOrder::Little, &[0, 0, 0, 0, 0, 0x38, 0x8f, 0xc0], &[0, 0xc08f_3800]),
            (
                DType::C128,
                ByteOrder::Little,
                &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3],
                &[1, 0, 2, 3 << 24],
            ),
        ] {
            let array = Array::new(dtype, order, Shape::new(&[7]).unwrap()).unwrap();
            let request = parsed("quant,abs=1").unwrap().with_fill(&array, element).unwrap();
            for (shuffle, n_codec_params) in [(None, 0), (Some(12), MAX_CODEC_PARAM_WORDS)] {
                let codec_params = [5; MAX_CODEC_PARAM_WORDS].map(|word| if n_codec_params > 0 { word } else { 0 });
                let record =
                    Record { codec_params, n_codec_params, ..Record::new(&request, array, shuffle).unwrap() };
                let found = unchecked(&record.words());
                let (before, after) =
                    (8 + shuffle.iter().len(), if n_codec_params > 0 { 1 + n_codec_params } else { 0 });
                assert_eq!(found[before..found.len() - after], *words);
                assert_eq!(found[2] >> 24 & 2, 2);
                let Values::Record(back) = Values::parse(&checked(&found)).unwrap() else { panic!("{found:?}") };
                assert_eq!(back, record);
                for n in 1..found.len() {
                    assert!(Values::parse(&checked(&found[..n])).is_err(), "{n} of {} words", found.len());
                }
            }
        }
        // A codec of this version ignores a stored fill value that it does not use.
        let array = array(&[4]);
        let mut missing = MissingElements::none(4);
        missing.add(&[1; 4]).unwrap();
        let record = Record { missing, ..Record::new(&Request::default(), array, None).unwrap() };
        assert_eq!(record.request().unwrap(), Request::default());
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
