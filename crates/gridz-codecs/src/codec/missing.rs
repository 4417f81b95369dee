//! Missing data: how an array marks elements without a value, following netCDF and CF.
//!
//! An element is missing if it equals one of the *fill values* bit for bit (HDF5's fill value,
//! `_FillValue`, `missing_value`), or lies outside the *valid range* (`valid_min`, `valid_max`,
//! `valid_range`). A lossy codec restores missing elements bit for bit, and decodes no other
//! element to a missing one. It excludes missing elements from ranges and predictions.
//!
//! [`Missing`] belongs to a request, whose element type may be unknown. [`MissingElements`] is the
//! same for a known type, as codecs, frames and datasets use it.

use std::fmt;

use crate::codec::fill::{Fill, MAX_FILL_BYTES};
use crate::error::{Error, Result};
use crate::stage::element::Element;
pub use crate::stage::missing::MAX_FILLS;
use crate::stage::missing::MissingWords;
use crate::stage::quantize::Numbers;
use crate::stage::word::Word;
use crate::types::DType;

/// The names of the valid range's limits in request text.
pub const LIMITS: [&str; 2] = ["valid_min", "valid_max"];

/// The fill values and the valid range of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Missing {
    fills: [Option<Fill>; MAX_FILLS],
    limits: [Option<Fill>; 2],
}

impl Missing {
    /// No element is missing.
    pub const NONE: Self = Self { fills: [None; MAX_FILLS], limits: [None; 2] };

    /// True if no element is missing.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The distinct fill values.
    pub fn fills(&self) -> impl Iterator<Item = Fill> {
        self.fills.iter().copied().flatten()
    }

    /// The smallest and the largest valid number.
    pub fn limits(&self) -> [Option<Fill>; 2] {
        self.limits
    }

    /// Adds a fill value, unless it is present already.
    ///
    /// # Errors
    /// `UnsupportedJob` for more than [`MAX_FILLS`].
    pub fn add(&mut self, fill: Fill) -> Result<()> {
        if self.fills().any(|known| known == fill) {
            return Ok(());
        }
        *self.fills.iter_mut().find(|free| free.is_none()).ok_or_else(too_many)? = Some(fill);
        Ok(())
    }

    /// Sets the smallest (0) or the largest (1) valid number, unless it is set already. Returns
    /// true if it was not set.
    pub fn limit(&mut self, which: usize, number: Fill) -> bool {
        let is_new = self.limits[which].is_none();
        self.limits[which].get_or_insert(number);
        is_new
    }

    /// Removes the values that no element of this type can have; they belonged to another array.
    pub fn of_type(mut self, dtype: DType, element_size: u64) -> Self {
        let is_element = |fill: &Option<Fill>| fill.is_some_and(|fill| fill.bits(dtype, element_size).is_ok());
        let fills = self.fills;
        self.fills = [None; MAX_FILLS];
        for (to, fill) in self.fills.iter_mut().zip(fills.into_iter().filter(is_element)) {
            *to = fill;
        }
        self.limits = self.limits.map(|limit| limit.filter(|limit| is_element(&Some(*limit))));
        self
    }

    /// Converts the values to elements of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for values that no element can have, and for a valid range that contains
    /// no number.
    pub fn elements(&self, dtype: DType, element_size: u64) -> Result<MissingElements> {
        let mut elements = MissingElements::none(element_size);
        for fill in self.fills() {
            elements.add(&fill.bits(dtype, element_size)?.to_le_bytes()[..elements.size()])?;
        }
        for (which, limit) in self.limits.iter().enumerate() {
            let Some(limit) = limit else { continue };
            let name = LIMITS[which];
            let wrong = |why: &str| Err(Error::invalid(format!("{name}={limit}: {why}; remove it")));
            if Element::of(dtype).is_none() {
                return wrong(&format!("{} elements are not ordered, so they cannot have limits", dtype.name()));
            }
            let bits = limit
                .bits(dtype, element_size)
                .map_err(|error| Error::invalid(error.context().replacen("fill", name, 1)))?;
            if is_nan(dtype, bits) {
                return wrong("NaN cannot be a limit");
            }
            elements.set_limit(which, &bits.to_le_bytes()[..elements.size()])?;
        }
        if let [Some(least), Some(most)] = self.limits
            && let [Some(low), Some(high)] = elements.limits()
            && !is_ordered(dtype, low, high)
        {
            return Err(Error::invalid(format!(
                "valid_min={least} is above valid_max={most}, so no element is valid; correct the limits, or \
                 remove them"
            )));
        }
        Ok(elements)
    }

    /// Encodes the values as words of a user's cd_values. Each value has a head: its lowest byte is
    /// the kind of value (1 fill value, 2 valid_min, 3 valid_max), and the next byte is the form in
    /// which the value follows.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        let fills = self.fills().map(|fill| (1, fill));
        let limits = self.limits.into_iter().zip(2..).filter_map(|(limit, what)| limit.map(|limit| (what, limit)));
        fills.chain(limits).flat_map(|(what, value)| {
            let (form, bits, n_words) = match value {
                // Most integers are exact as float64, which is shorter.
                Fill::Whole(number) if Fill::number(number as f64) == value => {
                    (FLOAT, u128::from((number as f64).to_bits()), 2)
                }
                Fill::Whole(number) => (WHOLE, number as u128, 4),
                Fill::Number(number) => (FLOAT, number.to_bits().into(), 2),
                Fill::Bits { n_bytes, bits } => (BITS + u32::from(n_bytes), bits, usize::from(n_bytes.div_ceil(4))),
            };
            let value = (0..n_words).map(move |i| (bits >> (32 * i)) as u32);
            std::iter::once(what | form << 8).chain(value)
        })
    }

    /// Decodes the words of [`Missing::words`]. Returns `None` for other words.
    pub fn of_words(mut words: &[u32]) -> Option<Result<Self>> {
        let mut missing = Self::NONE;
        while let &[head, ref rest @ ..] = words {
            let (what, form) = (head & 0xff, head >> 8);
            let n_words = match form {
                FLOAT => 2,
                WHOLE => 4,
                _ if (1..=MAX_FILL_BYTES as u32).contains(&form.wrapping_sub(BITS)) => {
                    (form - BITS).div_ceil(4) as usize
                }
                _ => return None,
            };
            let (value, rest) = rest.split_at_checked(n_words)?;
            let bits = value.iter().rev().fold(0, |bits: u128, &word| bits << 32 | u128::from(word));
            let value = match form {
                FLOAT => Fill::number(f64::from_bits(bits as u64)),
                WHOLE => Fill::Whole(bits as i128),
                _ if bits.checked_shr(8 * (form - BITS)).unwrap_or(0) != 0 => return None,
                _ => Fill::Bits { n_bytes: (form - BITS) as u8, bits },
            };
            match what {
                1 => {
                    if let Err(error) = missing.add(value) {
                        return Some(Err(error));
                    }
                }
                2 | 3 if missing.limit(what as usize - 2, value) => {}
                _ => return None,
            }
            words = rest;
        }
        Some(Ok(missing))
    }
}

/// Forms of values in words: a float64; a 128-bit integer; and the bits of an element, with the
/// number of bytes added.
const FLOAT: u32 = 0;
const WHOLE: u32 = 1;
const BITS: u32 = 16;

/// Maximum number of words of [`Missing::words`].
pub const MAX_MISSING_WORDS: usize = (MAX_FILLS + 2) * 5;

impl fmt::Display for Missing {
    /// `,fill=-999,valid_min=0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fills().try_for_each(|fill| write!(f, ",fill={fill}"))?;
        let limits = LIMITS.into_iter().zip(self.limits);
        limits.into_iter().try_for_each(|(name, limit)| limit.map_or(Ok(()), |limit| write!(f, ",{name}={limit}")))
    }
}

fn too_many() -> Error {
    Error::unsupported(format!(
        "a codec with an error bound supports at most {MAX_FILLS} fill values; give fewer, or use a lossless codec"
    ))
}

fn is_nan(dtype: DType, bits: u128) -> bool {
    match dtype {
        DType::F32 => f32::from_bits(bits as u32).is_nan(),
        DType::F64 => f64::from_bits(bits as u64).is_nan(),
        DType::F16 => bits & 0x7fff > 0x7c00,
        DType::Bf16 => bits & 0x7fff > 0x7f80,
        _ => false,
    }
}

/// Index of the limits among the elements.
const LIMITS_AT: usize = MAX_FILLS;

/// The fill values and the valid range of an array, as elements of its type, in little-endian or in
/// the array's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingElements {
    /// Bytes of an element; 0 for types whose elements cannot be missing.
    size: u8,
    n_fills: u8,
    has_limit: [bool; 2],
    bytes: [[u8; MAX_FILL_BYTES]; MAX_FILLS + 2],
}

impl MissingElements {
    /// No missing elements.
    pub fn none(element_size: u64) -> Self {
        let size = u8::try_from(element_size).ok().filter(|&size| usize::from(size) <= MAX_FILL_BYTES);
        let bytes = [[0; MAX_FILL_BYTES]; MAX_FILLS + 2];
        Self { size: size.unwrap_or_default(), n_fills: 0, has_limit: [false; 2], bytes }
    }

    /// True if no element is missing.
    pub fn is_none(&self) -> bool {
        self.n_fills == 0 && self.has_limit == [false; 2]
    }

    fn size(&self) -> usize {
        self.size.into()
    }

    /// The fill values.
    pub fn fills(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes[..self.n_fills.into()].iter().map(|bytes| &bytes[..self.size()])
    }

    /// The smallest and the largest valid element.
    pub fn limits(&self) -> [Option<&[u8]>; 2] {
        [0, 1].map(|which| self.has_limit[which].then(|| &self.bytes[LIMITS_AT + which][..self.size()]))
    }

    /// Adds a fill value, unless it is present already.
    ///
    /// # Errors
    /// `UnsupportedJob` for more than [`MAX_FILLS`], `InvalidArgument` if the number of bytes is
    /// not that of an element.
    pub fn add(&mut self, element: &[u8]) -> Result<()> {
        self.check("a fill value", element)?;
        if self.fills().any(|known| known == element) {
            return Ok(());
        }
        let n = usize::from(self.n_fills);
        if n == MAX_FILLS {
            return Err(too_many());
        }
        self.bytes[n][..element.len()].copy_from_slice(element);
        self.n_fills += 1;
        Ok(())
    }

    /// Sets the smallest (0) or the largest (1) valid element.
    ///
    /// # Errors
    /// `InvalidArgument` if the number of bytes is not that of an element.
    pub fn set_limit(&mut self, which: usize, element: &[u8]) -> Result<()> {
        self.check(LIMITS[which], element)?;
        self.bytes[LIMITS_AT + which][..element.len()].copy_from_slice(element);
        self.has_limit[which] = true;
        Ok(())
    }

    fn check(&self, name: &str, element: &[u8]) -> Result<()> {
        if element.len() == self.size() && !element.is_empty() {
            return Ok(());
        }
        let (n_bytes, size) = (element.len(), self.size);
        if size == 0 {
            return Err(Error::unsupported(format!(
                "{name} is not supported, because elements of the array do not have 1 to {MAX_FILL_BYTES} bytes; \
                 use a lossless codec"
            )));
        }
        Err(Error::invalid(format!(
            "{name} has {n_bytes} bytes; it must have {size} bytes, as an element of the array does"
        )))
    }

    /// Reverses the bytes of every number.
    pub fn swapped(mut self, number_size: u32) -> Self {
        let size = self.size();
        for bytes in &mut self.bytes {
            bytes[..size].chunks_mut(number_size as usize).for_each(<[u8]>::reverse);
        }
        self
    }

    /// The missing words of one of `n_parts` parts of the elements, whose numbers are of this type.
    /// The elements must be little-endian.
    pub fn of_part<W: Word>(&self, number: DType, part: usize, n_parts: usize) -> MissingWords<W> {
        let n_bytes = self.size() / n_parts;
        let word = |bytes: &[u8]| word_of(number, &bytes[part * n_bytes..][..n_bytes]);
        let mut fills = [W::default(); MAX_FILLS];
        for (to, fill) in fills.iter_mut().zip(self.fills()) {
            *to = word(fill);
        }
        MissingWords::new(
            Numbers::of(number),
            &fills[..self.n_fills.into()],
            self.limits().map(|limit| limit.map(word)),
        )
    }

    /// The code in the fixed parameters of a frame. It is 0 if version 1 of the codec's parameters
    /// can represent the missing elements (none, or one nonzero fill value). Otherwise it is the
    /// number of fill values, with bits 4 and 5 for the limits.
    pub fn code(&self) -> u8 {
        let is_plain = self.has_limit == [false; 2]
            && (self.n_fills == 0 || self.n_fills == 1 && self.bytes[0] != [0; MAX_FILL_BYTES]);
        let [has_least, has_most] = self.has_limit.map(u8::from);
        if is_plain { 0 } else { self.n_fills | has_least << 4 | has_most << 5 }
    }

    /// The elements that follow a frame's fixed parameters: fill values, then limits.
    pub fn in_params(&self) -> impl Iterator<Item = &[u8]> {
        self.fills().chain(self.limits().into_iter().flatten())
    }

    /// Decodes the missing elements of a frame from the code in its fixed parameters and the bytes
    /// after those. `element_bytes` is the element size, if known. Returns `None` if no codec can
    /// have written them.
    pub fn of_params(code: u8, bytes: &[u8], element_bytes: Option<usize>) -> Option<Self> {
        let (n_fills, has_limit) = match code {
            0 => (usize::from(!bytes.is_empty()), [false; 2]),
            _ => (usize::from(code & 15), [code >> 4 & 1 == 1, code >> 5 & 1 == 1]),
        };
        let n = n_fills + has_limit.iter().filter(|&&has| has).count();
        let size = element_bytes.unwrap_or(bytes.len() / n.max(1));
        if n_fills > MAX_FILLS || code >> 6 != 0 || bytes.len() != n * size || size > MAX_FILL_BYTES {
            return None;
        }
        let mut elements = Self::none(size as u64);
        let mut all = bytes.chunks_exact(size.max(1));
        for fill in all.by_ref().take(n_fills) {
            elements.add(fill).ok()?;
        }
        for (which, limit) in (0..2).filter(|&which| has_limit[which]).zip(all) {
            elements.set_limit(which, limit).ok()?;
        }
        (usize::from(elements.n_fills) == n_fills && elements.code() == code).then_some(elements)
    }
}

/// The word of a number.
fn word_of<W: Word>(number: DType, bytes: &[u8]) -> W {
    let mut word = [W::default()];
    if let Some(element) = Element::of(number) {
        element.load(bytes, &mut word);
    }
    word[0]
}

/// True if the valid range between these limits, which are numbers of this type, is not empty.
fn is_ordered(number: DType, low: &[u8], high: &[u8]) -> bool {
    fn has_low<W: Word>(number: DType, low: &[u8], high: &[u8]) -> bool {
        // Numbers that are not above `high`: a range with an upper limit only.
        let below = MissingWords::<W>::new(Numbers::of(number), &[], [None, Some(word_of(number, high))]);
        !below.has(word_of(number, low))
    }
    if low.len() == 8 { has_low::<u64>(number, low, high) } else { has_low::<u32>(number, low, high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(fills: &[&str], limits: [Option<&str>; 2]) -> Missing {
        let mut missing = Missing::NONE;
        for fill in fills {
            missing.add(fill.parse().unwrap()).unwrap();
        }
        for (which, limit) in limits.into_iter().enumerate() {
            if let Some(limit) = limit {
                assert!(missing.limit(which, limit.parse().unwrap()));
            }
        }
        missing
    }

    #[test]
    fn words_come_back() {
        let fills = ["-999", "1e20", "0", "nan", "-0", "0x7fc00001", "170141183460469231731687303715884105727"];
        for n in 0..=fills.len() {
            for limits in
                [[None; 2], [Some("0"), None], [None, Some("-9007199254740993")], [Some("-.5"), Some("0x3c00")]]
            {
                let missing = missing(&fills[..n], limits);
                let words: Vec<u32> = missing.words().collect();
                assert!(words.len() <= MAX_MISSING_WORDS);
                assert_eq!(Missing::of_words(&words).unwrap().unwrap(), missing, "{words:?}");
                let whole = [0, 1, 2].map(|less| words.len().checked_sub(less));
                assert!(whole.into_iter().skip(1).flatten().all(|n| n == 0 || {
                    let cut = Missing::of_words(&words[..n]);
                    cut.is_none_or(|cut| cut.is_ok_and(|cut| cut != missing))
                }));
            }
        }
        for wrong in [&[0, 0, 0][..], &[4, 0, 0], &[1 | 2 << 8, 0, 0], &[1 | 18 << 8, 1 << 16], &[2, 0, 0, 2, 0, 0]]
        {
            assert!(Missing::of_words(wrong).is_none(), "{wrong:?}");
        }
        let many: Vec<u32> =
            (0..=MAX_FILLS as u64).flat_map(|i| [1, 0, (i as f64).to_bits().wrapping_shr(32) as u32]).collect();
        assert!(
            Missing::of_words(&many).unwrap().unwrap_err().context().contains("supports at most 8 fill values")
        );
    }

    #[test]
    fn elements_come_back_from_parameters() {
        let mut n_lists = 0;
        for (dtype, size) in [(DType::F16, 2), (DType::F32, 4), (DType::I64, 8), (DType::U16, 2), (DType::C128, 16)]
        {
            for fills in [&[][..], &["7"], &["0"], &["7", "0", "9"], &["1", "2", "3", "4", "5", "6", "7", "8"]] {
                for limits in [[None; 2], [Some("1"), None], [None, Some("3")], [Some("1"), Some("3")]] {
                    let missing = missing(fills, limits);
                    if dtype == DType::C128 && limits != [None; 2] {
                        assert!(missing.elements(dtype, size).unwrap_err().context().contains("are not ordered"));
                        continue;
                    }
                    let elements = missing.elements(dtype, size).unwrap();
                    let bytes: Vec<u8> = elements.in_params().flatten().copied().collect();
                    let size = Some(size as usize);
                    assert_eq!(MissingElements::of_params(elements.code(), &bytes, size), Some(elements));
                    assert_eq!(
                        MissingElements::of_params(elements.code(), &bytes, None).map(|e| e.code()),
                        Some(elements.code())
                    );
                    let is_plain = limits == [None; 2] && (fills.is_empty() || fills == ["7"]);
                    assert_eq!(elements.code() == 0, is_plain);
                    n_lists += usize::from(!is_plain);
                    for code in (0..=255).filter(|&code| code != elements.code()) {
                        assert!(MissingElements::of_params(code, &bytes, size) != Some(elements));
                    }
                }
            }
        }
        assert_eq!(n_lists, 4 * 18 + 3);
        assert_eq!(MissingElements::of_params(2, &[1, 0, 1, 0], Some(2)), None, "the same fill value twice");
        assert_eq!(MissingElements::of_params(0, &[0, 0], Some(2)), None, "zero in the first form");
        assert_eq!(MissingElements::of_params(1, &[1, 0], Some(2)), None, "another in the second");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        let error = |limits, dtype, size| missing(&[], limits).elements(dtype, size).unwrap_err().to_string();
        assert!(error([Some("5"), Some("4")], DType::U8, 1).contains("valid_min=5 is above valid_max=4"));
        assert!(error([Some("-1"), Some("-2")], DType::F16, 2).contains("no element is valid"));
        assert!(error([Some("-1"), Some("-2")], DType::I32, 4).contains("no element is valid"));
        assert!(error([Some("nan"), None], DType::F64, 8).contains("valid_min=NaN: NaN cannot be a limit"));
        assert!(error([None, Some("300")], DType::U8, 1).contains("valid_max=300 is not a value of type uint8"));
        for (dtype, size) in [(DType::I32, 4), (DType::F16, 2), (DType::F64, 8), (DType::I64, 8), (DType::I8, 1)] {
            assert!(missing(&[], [Some("-5"), Some("4")]).elements(dtype, size).is_ok());
            assert!(missing(&[], [Some("-5"), Some("-5")]).elements(dtype, size).is_ok());
        }
        assert!(missing(&[], [Some("0"), Some("-0")]).elements(DType::F32, 4).is_ok());
        let mut many = missing(&["1", "2", "3", "4", "5", "6", "7", "8"], [None; 2]);
        assert!(many.add("8".parse().unwrap()).is_ok() && many.add("9".parse().unwrap()).is_err());
    }
}
