//! The short way: slices and vectors of numbers instead of bytes.

use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::{Array, ByteOrder, DType, Shape};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::compress::compress;
use crate::context::Context;
use crate::decompress::Part;
use crate::frame::{Frame, Verify};
use crate::into_request::IntoRequest;
use crate::prepared::Prepared;

/// A Rust type that is an element type of gridz: integers and floats of 8 to 64 bits, and complex
/// numbers as `[f32; 2]` and `[f64; 2]`, real part first.
pub trait Element: private::Bytes {
    /// The element type that frames record.
    const DTYPE: DType;
}

mod private {
    use super::{FromBytes, IntoBytes};

    /// Keeps [`Element`](super::Element) to types without padding whose bits are all valid.
    pub trait Bytes: Copy + FromBytes + IntoBytes + zerocopy::Immutable {
        /// The element with the bytes of each number reversed.
        fn reversed(self) -> Self;
    }
}

macro_rules! elements {
    ($($type:ty, $dtype:ident, $value:ident => $reversed:expr;)+) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }

        impl private::Bytes for $type {
            fn reversed(self) -> Self {
                let $value = self;
                $reversed
            }
        }
    )+};
}

elements! {
    u8, U8, x => x;
    u16, U16, x => x.swap_bytes();
    u32, U32, x => x.swap_bytes();
    u64, U64, x => x.swap_bytes();
    i8, I8, x => x;
    i16, I16, x => x.swap_bytes();
    i32, I32, x => x.swap_bytes();
    i64, I64, x => x.swap_bytes();
    f32, F32, x => Self::from_bits(x.to_bits().swap_bytes());
    f64, F64, x => Self::from_bits(x.to_bits().swap_bytes());
    [f32; 2], C64, x => x.map(private::Bytes::reversed);
    [f64; 2], C128, x => x.map(private::Bytes::reversed);
}

/// Compresses an array and returns its frame. `values` has the array's elements in C order: the
/// last of the `extents` varies fastest.
///
/// ```
/// use gridz::{Codec, Level, Request};
///
/// # fn main() -> gridz::Result<()> {
/// let field: Vec<f64> = (0..6000).map(|i| (i as f64 * 1e-3).sin()).collect();
/// let exact = gridz::compress_slice(&field, &[20, 300], "lorenzo")?;
/// let bounded = gridz::compress_slice(&field, &[20, 300], "quant,abs=1e-3")?;
/// let smaller = gridz::compress_slice(&field, &[20, 300], Codec::Quant.abs(1e-3).level(Level::Dense))?;
/// let parsed: Request = "quant,abs=1e-3".parse()?; // once, for many arrays
/// assert_eq!(gridz::compress_slice(&field, &[20, 300], parsed)?, bounded);
/// assert!(bounded.len() < exact.len() && smaller.len() < 8 * field.len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidArgument` if `values` does not have as many elements as the extents say, or for request
/// text that cannot be parsed; `UnsupportedJob` for a bound that the codec does not have;
/// `OutOfMemory`.
pub fn compress_slice<T: Element>(values: &[T], extents: &[usize], request: impl IntoRequest) -> Result<Vec<u8>> {
    let request = request.into_request()?;
    let wide: Vec<u64> = extents.iter().map(|&extent| extent as u64).collect();
    let array = Array::new(T::DTYPE, ByteOrder::NATIVE, Shape::new(&wide)?)?;
    let needed = array.shape().n_elements();
    if values.len() as u64 != needed {
        let have = values.len();
        return Err(Error::invalid(format!(
            "the slice has {have} elements, but extents of {extents:?} need {needed}"
        )));
    }
    let bound = Prepared::new(&array, &request)?.bound();
    let mut frame: Vec<u8> = zeros(bound)?;
    let n = compress(&array, &request, values.as_bytes(), &mut frame[..], &Context::default())?;
    frame.truncate(n);
    frame.shrink_to_fit();
    Ok(frame)
}

/// Decompresses a frame and returns its elements in C order, and its extents. The elements are in
/// the byte order of this machine, whatever the frame's is.
///
/// ```
/// # fn main() -> gridz::Result<()> {
/// let frame = gridz::compress_slice(&[1i32, 2, 3, 4, 5, 6], &[2, 3], "lorenzo")?;
/// let (values, extents) = gridz::decompress_vec::<i32>(&frame)?;
/// assert_eq!((values.as_slice(), extents.as_slice()), ([1, 2, 3, 4, 5, 6].as_slice(), [2, 3].as_slice()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidArgument` if the frame's elements are of another type; `Truncated`, `Corrupt` or
/// `UnsupportedFormat` for a frame that cannot be used; `OutOfMemory`.
pub fn decompress_vec<T: Element>(frame: &[u8]) -> Result<(Vec<T>, Vec<usize>)> {
    let frame = Frame::parse(frame)?;
    let array = frame.header.array;
    if array.dtype() != T::DTYPE {
        let (have, asked) = (array.dtype().name(), std::any::type_name::<T>());
        let expected = T::DTYPE.name();
        return Err(Error::invalid(format!(
            "the frame has elements of type {have}, but {asked} was requested, which is {expected}"
        )));
    }
    let n_bytes = frame.array_bytes(None)?;
    let mut values: Vec<T> = zeros(n_bytes / size_of::<T>() as u64)?;
    frame.decompress(Part::All, values.as_mut_bytes(), Verify::Checksum, &Context::lenient())?;
    if array.order() != ByteOrder::NATIVE && T::DTYPE.number_size() != Some(1) {
        values.iter_mut().for_each(|value| *value = value.reversed());
    }
    // An array in memory has extents that fit, unless one of them is 0.
    let extents = array.shape().extents().iter().map(|&extent| extent as usize).collect();
    Ok((values, extents))
}

/// A vector of `n` zeros, or an error instead of an abort.
fn zeros<T: FromZeros>(n: u64) -> Result<Vec<T>> {
    let n_bytes = n.saturating_mul(size_of::<T>() as u64);
    let made = usize::try_from(n).ok().and_then(|n| T::new_vec_zeroed(n).ok());
    made.ok_or_else(|| Error::out_of_memory(n_bytes, "elements"))
}

/// [`compress_slice`] of an `ndarray`. An array that is not in C order is copied first.
///
/// ```
/// use ndarray::Array3;
///
/// # fn main() -> gridz::Result<()> {
/// let field = Array3::from_shape_fn((8, 16, 32), |(z, y, x)| (x + y * z) as f32);
/// let frame = gridz::compress_array(&field, "lorenzo")?;
/// assert_eq!(gridz::decompress_array::<f32>(&frame)?, field.into_dyn());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`compress_slice`].
#[cfg(feature = "ndarray")]
pub fn compress_array<T, S, D>(array: &ndarray::ArrayBase<S, D>, request: impl IntoRequest) -> Result<Vec<u8>>
where
    T: Element,
    S: ndarray::Data<Elem = T>,
    D: ndarray::Dimension,
{
    let values = array.as_standard_layout();
    compress_slice(values.as_slice().expect("the standard layout is one slice"), array.shape(), request)
}

/// [`decompress_vec`] as an `ndarray` of any rank; `into_dimensionality` converts it to a known one.
///
/// # Errors
/// As [`decompress_vec`].
#[cfg(feature = "ndarray")]
pub fn decompress_array<T: Element>(frame: &[u8]) -> Result<ndarray::ArrayD<T>> {
    let (values, extents) = decompress_vec(frame)?;
    Ok(ndarray::ArrayD::from_shape_vec(extents, values).expect("the frame has as many elements as its extents say"))
}
