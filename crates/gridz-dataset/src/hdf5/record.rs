//! The record that is stored with a dataset in the filter's cd_values. `format/CD_VALUES.md`
//! fixes its layout.
//!
//! The record holds the resolved request, so that a later default never changes an old dataset. It
//! also describes a chunk, so that encoding need not query libhdf5.

use gridz::{MAX_CODEC_PARAMS, MAX_FILLS, MAX_MISSING_WORDS, MissingElements, Request};
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
pub(super) const IS_SHUFFLED: u8 = 1;
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
pub(super) const HAS_CHECK: u8 = 16;

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
            return Err(needs_newer("its filter values contain entries that this version does not know"));
        }
        // If this version rejects the request, a later version wrote the record.
        let codec_params = &self.codec_params[..self.n_codec_params];
        Request::with_codec_params(codec, mode, f64::from_bits(self.value), level, codec_params)
            .and_then(|request| request.with_elements(&self.array, &self.missing))
            .map_err(|error| needs_newer(error.context()))
    }

    /// Parses a record, which begins with the magic number.
    ///
    /// # Errors
    /// `Corrupt`; `UnsupportedFormat` for a later version.
    pub(super) fn parse(words: &[u32]) -> Result<Self> {
        if words[0] != RECORD_MAGIC | RECORD_VERSION {
            return Err(needs_newer(&format!("its filter values have version {}", words[0] & 0xffff)));
        }
        let &[_, what, layout, element_size, value_low, value_high, ref rest @ ..] = verified(words)? else {
            return Err(damaged("too few values"));
        };
        let [codec, mode, level @ ..] = what.to_le_bytes();
        let [dtype, order, rank, flags] = layout.to_le_bytes();
        let mut more = rest;
        let array = take_array([dtype, order, rank], element_size, &mut more)?;
        let (shuffle, mut more) = match (flags & IS_SHUFFLED, more) {
            (0, _) => (None, more),
            (_, [0, ..] | []) => return Err(damaged("the element size of the shuffle filter is missing")),
            (_, [size, rest @ ..]) => (Some(*size), rest),
        };
        let value = u64::from(value_low) | u64::from(value_high) << 32;
        let mut missing = MissingElements::none(element_size.into());
        // In this version missing elements are numbers. A later version may have longer ones.
        let is_number = element_size <= MAX_ELEMENT_BYTES;
        if flags & HAS_FILL != 0 {
            let bytes = take_element(element_size, &mut more)?;
            if is_number {
                missing.add(&bytes[..element_size as usize])?;
            }
        }
        // Words of an unknown flag would come first, and their number is unknown.
        let is_known = flags & !(IS_SHUFFLED | HAS_FILL | HAS_CODEC_PARAMS | HAS_MISSING | HAS_CHECK) == 0
            && (is_number || flags & (HAS_FILL | HAS_MISSING) == 0);
        let no_codec_params = || damaged("codec parameters are missing");
        let (found, mut more) = match more {
            _ if flags & HAS_CODEC_PARAMS == 0 || !is_known => (&[][..], more),
            [] | [0, ..] => return Err(no_codec_params()),
            [n, rest @ ..] => rest.split_at_checked(*n as usize).ok_or_else(no_codec_params)?,
        };
        let (mut codec_params, n_codec_params) =
            ([0; MAX_CODEC_PARAM_WORDS], found.len().min(MAX_CODEC_PARAM_WORDS));
        codec_params[..n_codec_params].copy_from_slice(&found[..n_codec_params]);
        if flags & HAS_MISSING != 0 && is_known {
            take_missing(flags, element_size, &mut more, &mut missing)?;
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

/// Checksum of a record's words.
fn check_of(words: &[u32]) -> u32 {
    words.iter().fold(0, |crc, word| crc32c::crc32c_append(crc, &word.to_le_bytes()))
}

pub(super) fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The words without their checksum, which is compared if there is one.
fn verified(words: &[u32]) -> Result<&[u32]> {
    let has_check = words.get(2).is_some_and(|layout| layout.to_le_bytes()[3] & HAS_CHECK != 0);
    match words {
        [words @ .., check] if has_check && *check == check_of(words) => Ok(words),
        _ if has_check => Err(damaged("their checksum does not match")),
        _ => Ok(words),
    }
}

/// Takes the extents from the start of `words`. Returns the chunk's description.
fn take_array([dtype, order, rank]: [u8; 3], element_size: u32, words: &mut &[u32]) -> Result<Array> {
    let dtype = DType::from_id(dtype).ok_or_else(|| damaged("unknown element type"))?;
    let order = match order {
        0 => ByteOrder::Little,
        1 => ByteOrder::Big,
        _ => return Err(damaged("unknown byte order")),
    };
    let n_words = 2 * usize::from(rank);
    let (extents, more) = words.split_at_checked(n_words).ok_or_else(|| damaged("too few extents"))?;
    *words = more;
    let mut shape = [0; MAX_RANK];
    for (extent, pair) in shape.iter_mut().zip(extents.chunks_exact(2)) {
        *extent = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    shape
        .get(..usize::from(rank))
        .ok_or_else(|| Error::invalid(format!("rank {rank} is over the limit of {MAX_RANK}")))
        .and_then(Shape::new)
        .and_then(|shape| Array::with_size(dtype, order, element_size, shape))
        .map_err(|error| damaged(error.context()))
}

/// Takes the bytes of an element, as whole words, from the start of `words`.
fn take_element(element_size: u32, words: &mut &[u32]) -> Result<[u8; MAX_ELEMENT_BYTES as usize]> {
    let cut = || damaged("a fill value or limit is incomplete");
    let (these, rest) = words.split_at_checked(element_size.div_ceil(4) as usize).ok_or_else(cut)?;
    *words = rest;
    let mut bytes = [0; MAX_ELEMENT_BYTES as usize];
    for (to, word) in bytes.chunks_exact_mut(4).zip(these) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let padding = bytes.get(element_size as usize..).unwrap_or_default();
    if padding.iter().any(|&byte| byte != 0) {
        return Err(damaged("a fill value or limit is longer than an element"));
    }
    Ok(bytes)
}

/// Takes several fill values and limits, with their head, from the start of `words`.
fn take_missing(flags: u8, element_size: u32, words: &mut &[u32], missing: &mut MissingElements) -> Result<()> {
    let wrong = || damaged("the list of fill values and limits is invalid");
    let (&count, rest) = words.split_first().ok_or_else(wrong)?;
    let [n_fills, limits, 0, 0] = count.to_le_bytes() else { return Err(wrong()) };
    if usize::from(n_fills) > MAX_FILLS {
        return Err(needs_newer(&format!("it has {n_fills} fill values, more than this version supports")));
    }
    if limits > 3 || (n_fills < 2 && limits == 0) || flags & HAS_FILL != 0 {
        return Err(wrong());
    }
    *words = rest;
    for _ in 0..n_fills {
        missing.add(&take_element(element_size, words)?[..element_size as usize])?;
    }
    for which in (0..2).filter(|which| limits >> which & 1 == 1) {
        missing.set_limit(which, &take_element(element_size, words)?[..element_size as usize])?;
    }
    if missing.fills().len() != usize::from(n_fills) {
        return Err(damaged("two fill values are equal"));
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("damaged filter values of a gridz dataset: {what}"))
}

fn needs_newer(what: &str) -> Error {
    Error::new(ErrorKind::UnsupportedFormat, format!("this dataset needs a newer gridz: {what}"))
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
pub(super) mod tests {
    use super::super::cd::Values;
    use super::*;

    pub fn array(extents: &[u64]) -> Array {
        Array::new(DType::F32, ByteOrder::Big, Shape::new(extents).unwrap()).unwrap()
    }

    pub fn parsed(text: &str) -> Result<Request> {
        text.parse()
    }

    /// The words of a record without its checksum.
    pub fn unchecked(words: &[u32]) -> Vec<u32> {
        let mut words = words[..words.len() - 1].to_vec();
        words[2] &= !(u32::from(HAS_CHECK) << 24);
        words
    }

    /// Words with a checksum.
    pub fn checked(words: &[u32]) -> Vec<u32> {
        let mut words = words.to_vec();
        if let Some(layout) = words.get_mut(2) {
            *layout |= u32::from(HAS_CHECK) << 24;
        }
        let check = check_of(&words);
        words.push(check);
        words
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
}
