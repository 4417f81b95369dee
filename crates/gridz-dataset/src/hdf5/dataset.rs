//! Describes the chunks of an HDF5 dataset in the types of gridz.

use std::ffi::{CStr, c_int};

use super::abi::{self, Hid, class, order};
use super::api::{Api, FloatFields, PipelineEntry};
use super::cd::Values;
use gridz::{Mode, Request};
use gridz_codecs::error::{Error, ErrorKind, Result, try_vec};
use gridz_codecs::format::header::MAX_PARAMS;
use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// A dataset about to be created or written.
pub struct Dataset {
    /// Codec and parameters.
    pub request: Request,
    /// Type and extents of one chunk.
    pub array: Array,
    /// Flags of the gridz filter in the pipeline.
    pub flags: u32,
    /// The filter that runs before gridz.
    pub before: Before,
}

/// The filters that HDF5 applies to a chunk before gridz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// None.
    Nothing,
    /// Only the shuffle filter, with elements of that many bytes. gridz can undo it.
    Shuffle(u32),
    /// Others; this is the number of the last one. Its output is not the array, and its length is
    /// unknown.
    Other(c_int),
}

impl Before {
    /// Name of the filter for people.
    fn name(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Shuffle(_) => Some("the shuffle filter".into()),
            Self::Other(id) => Some(format!("HDF5 filter {id}")),
        }
    }

    /// Classifies the filters before gridz in the pipeline, for a datatype of `size` bytes.
    fn of(filters: &[PipelineEntry], size: usize) -> Self {
        match filters {
            [] => Self::Nothing,
            [shuffle] if shuffle.id == abi::FILTER_SHUFFLE => {
                // If its own `set_local` has run, which is before ours, it has stored the size, in
                // 32 bits.
                let noted = shuffle.values.first().copied().filter(|&size| size > 0);
                u32::try_from(size).map_or(Self::Other(shuffle.id), |size| Self::Shuffle(noted.unwrap_or(size)))
            }
            [.., last] => Self::Other(last.id),
        }
    }
}

impl Dataset {
    /// Queries the calling library for filter `id` in `dcpl`, for the datatype and the chunk
    /// extents. It does not ask for the fill value: for an existing dataset the record has it, and
    /// the query crashes some versions of libhdf5.
    ///
    /// # Errors
    /// The reason why such a dataset cannot be written, in words for its creator.
    pub fn describe(api: &Api, id: c_int, dcpl: Hid, dtype: Hid, space: Hid) -> Result<Self> {
        if dcpl < 0 || dtype < 0 || space < 0 {
            return Err(Error::unsupported(
                "gridz compresses datasets, not groups; remove it from the group's filters",
            ));
        }
        let pipeline = api.pipeline(dcpl).ok_or_else(|| not_reported("the filter pipeline"))?;
        let ours = pipeline
            .iter()
            .position(|entry| entry.id == id)
            .ok_or_else(|| not_reported("the position of gridz in the filter pipeline"))?;
        let PipelineEntry { flags, ref values, n_values, .. } = pipeline[ours];
        if n_values > values.len() {
            return Err(Error::invalid(format!(
                "{n_values} cd_values are too many; gridz supports at most {}",
                values.len()
            )));
        }
        let values = Values::parse(values)?;
        let request = values.request()?;
        let extents = api.extents(space).ok_or_else(|| not_reported("the extents of the chunks"))?;
        let array = chunk(api, dtype, &extents)?;
        let size = api.size(dtype).ok_or_else(|| not_reported("the size of the datatype"))?;
        let before = Before::of(&pipeline[..ours], size);
        let array = match before {
            Before::Other(_) => Array::bytes(array.n_bytes())?,
            _ => array,
        };
        // A record's missing elements may belong to another array. A user's must fit this one.
        let request = if let Values::Record(_) = values { request.with_missing_of(&array) } else { request };
        request.check_dataset(array.dtype(), before.name().as_deref())?;
        if request.mode() != Mode::Lossless {
            if is_enumeration(api, dtype) {
                return Err(Error::unsupported(format!(
                    "{request}: the elements are an enumeration, in which a neighboring number has another \
                     meaning; use a lossless codec"
                )));
            }
            // The codec may reject such chunks.
            gridz::compress_bound(&array, &request)?;
        }
        check_frame_fits(api, &array)?;
        Ok(Self { request, array, flags, before })
    }

    /// Adds the fill value, for a dataset that is being created. HDF5 crashes if this is queried
    /// for an existing dataset while that is opened for writing; its record has the value.
    ///
    /// # Errors
    /// Those of reading a fill value that the codec needs.
    pub fn with_fill(self, api: &Api, dcpl: Hid, dtype: Hid) -> Result<Self> {
        let request = with_fill(api, dcpl, dtype, &self.array, self.request)?;
        Ok(Self { request, ..self })
    }

    /// Why gridz will not compress any chunk of the dataset, if the user did not ask for that.
    pub fn why_stored(&self) -> Option<String> {
        match self.before {
            _ if self.request.codec() == gridz::STORED => None,
            Before::Other(_) => Some(format!(
                "{} runs before gridz, so gridz stores the output of that filter uncompressed; put gridz first, or \
                 remove one of them",
                self.before.name().unwrap_or_default()
            )),
            _ => self.request.why_stored(self.array.dtype()),
        }
    }
}

/// Adds the fill value that the user has set in `dcpl`, if any and if the codec uses missing
/// elements.
pub(super) fn with_fill(api: &Api, dcpl: Hid, dtype: Hid, array: &Array, request: Request) -> Result<Request> {
    if !request.wants_missing() {
        return Ok(request);
    }
    let unknown = || {
        let text =
            "whether the dataset has a fill value, which the codec needs; use a program with a shared libhdf5";
        not_reported(text)
    };
    if !api.has_fill(dcpl).ok_or_else(unknown)? {
        return Ok(request);
    }
    let n_bytes = api.size(dtype).ok_or_else(unknown)?;
    let mut bytes = try_vec(n_bytes, "a fill value")?;
    bytes.resize(n_bytes, 0);
    api.read_fill(dcpl, dtype, &mut bytes).ok_or_else(|| not_reported("the fill value of the dataset"))?;
    request.with_fill(array, one_element(&bytes, array.element_size() as usize)?)
}

/// The single value of a fill value. If the datatype is an array, all its elements must be equal.
fn one_element(bytes: &[u8], size: usize) -> Result<&[u8]> {
    match bytes.split_at_checked(size) {
        Some((first, rest)) if rest.chunks(size).all(|other| other == first) => Ok(first),
        _ => Err(Error::unsupported(
            "the fill value of the dataset is an array of different values, but only one can be kept; set a fill \
             value with equal elements or none, or use a lossless codec",
        )),
    }
}

/// Rejects chunks that are too large for libhdf5 before 2.0, which stores the length of a filtered
/// chunk in 32 bits.
fn check_frame_fits(api: &Api, array: &Array) -> Result<()> {
    let (major, minor) = api.version();
    if major < 2 && gridz::stored_bytes(array) + MAX_PARAMS as u64 > u64::from(u32::MAX) {
        let n_bytes = array.n_bytes();
        return Err(Error::unsupported(format!(
            "a chunk of {n_bytes} bytes may exceed the limit of HDF5 {major}.{minor}, 4 GiB for a compressed \
             chunk; choose smaller chunks"
        )));
    }
    Ok(())
}

/// Describes one element of `dtype`. For an array type this is an array.
pub(super) fn element(api: &Api, dtype: Hid) -> Result<Array> {
    chunk(api, dtype, &[])
}

/// Describes one chunk of `extents` elements of `dtype`.
fn chunk(api: &Api, dtype: Hid, extents: &[u64]) -> Result<Array> {
    if api.class(dtype) == Some(class::ARRAY)
        && let Some((base, inner)) = api.base(dtype).zip(api.array_extents(dtype))
        && extents.len() + inner.len() <= MAX_RANK
    {
        // Elements that are arrays become additional axes.
        return chunk(api, base.id(), &[extents, &inner].concat());
    }
    let shape = Shape::new(extents)?;
    let size = api.size(dtype).ok_or_else(|| not_reported("the size of the datatype"))?;
    match number(api, dtype, size) {
        Some((number, order)) => Array::new(number, order, shape),
        None => match u32::try_from(size) {
            Ok(size) => Array::opaque(size, shape),
            Err(_) => {
                let n_bytes = shape.n_elements().checked_mul(size as u64);
                Array::bytes(n_bytes.ok_or_else(|| {
                    Error::invalid(format!(
                        "chunks {shape:?} of elements of {size} bytes have 2^64 bytes or more, which is not supported"
                    ))
                })?)
            }
        },
    }
}

/// Whether elements of `dtype` are enumerations, such as h5py's booleans, or arrays of these.
pub(super) fn is_enumeration(api: &Api, dtype: Hid) -> bool {
    match api.class(dtype) {
        Some(class::ENUMERATION) => true,
        Some(class::ARRAY) => api.base(dtype).is_some_and(|base| is_enumeration(api, base.id())),
        _ => false,
    }
}

/// Type and byte order of a number. `None` for all types that gridz does not interpret.
fn number(api: &Api, dtype: Hid, size: usize) -> Option<(DType, ByteOrder)> {
    match api.class(dtype)? {
        class::INTEGER if api.precision(dtype)? == 8 * size => {
            let number = match (size, api.is_signed(dtype)?) {
                (1, false) => DType::U8,
                (2, false) => DType::U16,
                (4, false) => DType::U32,
                (8, false) => DType::U64,
                (1, true) => DType::I8,
                (2, true) => DType::I16,
                (4, true) => DType::I32,
                (8, true) => DType::I64,
                _ => return None,
            };
            Some((number, byte_order(api, dtype)?))
        }
        class::FLOAT if api.precision(dtype)? == 8 * size => {
            Some((float(size, api.float_fields(dtype))?, byte_order(api, dtype)?))
        }
        class::ENUMERATION => number(api, api.base(dtype)?.id(), size),
        class::COMPLEX => {
            let base = api.base(dtype)?;
            complex(number(api, base.id(), api.size(base.id())?)?)
        }
        class::COMPOUND => {
            let half = size / 2;
            let parts = COMPLEX_NAMES.iter().find_map(|&[re, im]| api.two_members(dtype, [(re, 0), (im, half)]))?;
            let [re, im] =
                parts.map(|part| number(api, part.id(), half).filter(|_| api.size(part.id()) == Some(half)));
            complex(re.filter(|_| re == im)?)
        }
        _ => None,
    }
}

/// Names of the members of compounds that are complex numbers: those of h5py and PyTables, and of
/// other programs.
const COMPLEX_NAMES: [[&CStr; 2]; 4] = [[c"r", c"i"], [c"re", c"im"], [c"real", c"imag"], [c"real", c"imaginary"]];

/// The complex type whose parts have this type.
fn complex((part, order): (DType, ByteOrder)) -> Option<(DType, ByteOrder)> {
    match part {
        DType::F32 => Some((DType::C64, order)),
        DType::F64 => Some((DType::C128, order)),
        _ => None,
    }
}

fn byte_order(api: &Api, dtype: Hid) -> Option<ByteOrder> {
    match api.order(dtype)? {
        order::LITTLE => Some(ByteOrder::Little),
        order::BIG => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The float type of `size` bytes with these bit fields. Without known fields, 4 and 8 bytes are
/// assumed to be IEEE: another format would only compress less well.
fn float(size: usize, fields: Option<FloatFields>) -> Option<DType> {
    let Some(fields) = fields else {
        return match size {
            4 => Some(DType::F32),
            8 => Some(DType::F64),
            _ => None,
        };
    };
    let known = [(DType::F16, 16, 10), (DType::Bf16, 16, 7), (DType::F32, 32, 23), (DType::F64, 64, 52)];
    let found = known.into_iter().find(|&(_, bits, mantissa)| fields_of(bits, mantissa) == fields);
    found.map(|(float, ..)| float)
}

/// Layout of an IEEE-like float of `bits` with `mantissa` of them in the fraction.
fn fields_of(bits: usize, mantissa: usize) -> FloatFields {
    let exponent = bits - 1 - mantissa;
    FloatFields {
        sign: bits - 1,
        exponent: (mantissa, exponent),
        mantissa: (0, mantissa),
        bias: (1 << (exponent - 1)) - 1,
    }
}

pub(super) fn not_reported(what: &str) -> Error {
    Error::new(ErrorKind::Host, format!("HDF5 did not report {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shuffle_alone_can_be_undone() {
        let filter =
            |id, values: &[u32]| PipelineEntry { id, flags: 0, values: values.to_vec(), n_values: values.len() };
        let (shuffle, fletcher32) = (|| filter(abi::FILTER_SHUFFLE, &[12]), || filter(3, &[]));
        assert_eq!(Before::of(&[], 4), Before::Nothing);
        assert_eq!(Before::of(&[shuffle()], 4), Before::Shuffle(12));
        assert_eq!(Before::of(&[filter(abi::FILTER_SHUFFLE, &[])], 4), Before::Shuffle(4));
        assert_eq!(
            Before::of(&[filter(abi::FILTER_SHUFFLE, &[4])], (1 << 32) + 4),
            Before::Other(abi::FILTER_SHUFFLE)
        );
        assert_eq!(Before::of(&[fletcher32()], 4), Before::Other(3));
        assert_eq!(Before::of(&[shuffle(), fletcher32()], 4), Before::Other(3));
        assert_eq!(Before::of(&[shuffle(), shuffle()], 4), Before::Other(abi::FILTER_SHUFFLE));
    }

    #[test]
    fn floats_are_distinguished_by_their_fields() {
        let double = FloatFields { sign: 63, exponent: (52, 11), mantissa: (0, 52), bias: 1023 };
        assert_eq!(float(8, Some(double)), Some(DType::F64));
        let half = FloatFields { sign: 15, exponent: (10, 5), mantissa: (0, 10), bias: 15 };
        assert_eq!(float(2, Some(half)), Some(DType::F16));
        let bfloat = FloatFields { sign: 15, exponent: (7, 8), mantissa: (0, 7), bias: 127 };
        assert_eq!(float(2, Some(bfloat)), Some(DType::Bf16));
        let vax = FloatFields { sign: 31, exponent: (23, 8), mantissa: (0, 23), bias: 128 };
        assert_eq!(float(4, Some(vax)), None);
        assert_eq!(float(4, None), Some(DType::F32));
        assert_eq!(float(2, None), None);
    }
}
