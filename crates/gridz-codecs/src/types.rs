//! Description of an array: element type, byte order, extents.

use crate::error::{Error, Result};

/// Largest rank of an array (HDF5's own limit).
pub const MAX_RANK: usize = 32;

/// Element type. The numbers are stored in files and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// Elements of any size that gridz treats as plain bytes: strings, compounds, …
    Opaque = 0,
    /// Unsigned 8-bit integer.
    U8 = 1,
    /// Unsigned 16-bit integer.
    U16 = 2,
    /// Unsigned 32-bit integer.
    U32 = 3,
    /// Unsigned 64-bit integer.
    U64 = 4,
    /// Signed 8-bit integer.
    I8 = 5,
    /// Signed 16-bit integer.
    I16 = 6,
    /// Signed 32-bit integer.
    I32 = 7,
    /// Signed 64-bit integer.
    I64 = 8,
    /// IEEE binary16.
    F16 = 9,
    /// bfloat16 (the upper half of binary32).
    Bf16 = 10,
    /// IEEE binary32.
    F32 = 11,
    /// IEEE binary64.
    F64 = 12,
    /// Two binary32: real, imaginary.
    C64 = 13,
    /// Two binary64: real, imaginary.
    C128 = 14,
}

impl DType {
    /// Every element type, in the order of the stored numbers.
    pub const ALL: [DType; 15] = [
        DType::Opaque,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// The type with the stored number `id`.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The stored number.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Bytes of one element; `None` for [`DType::Opaque`], whose size is part of the array's
    /// description.
    pub fn size(self) -> Option<u32> {
        match self {
            DType::Opaque => None,
            DType::U8 | DType::I8 => Some(1),
            DType::U16 | DType::I16 | DType::F16 | DType::Bf16 => Some(2),
            DType::U32 | DType::I32 | DType::F32 => Some(4),
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => Some(8),
            DType::C128 => Some(16),
        }
    }

    /// The type of the numbers in an element, and how many numbers an element has: two if it is
    /// complex, else one.
    pub fn parts(self) -> (Self, usize) {
        match self {
            DType::C64 => (DType::F32, 2),
            DType::C128 => (DType::F64, 2),
            other => (other, 1),
        }
    }

    /// Bytes of one number; a complex element has two of them.
    pub fn number_size(self) -> Option<u32> {
        self.parts().0.size()
    }

    /// Short name, as numpy spells it where numpy has the type.
    pub fn name(self) -> &'static str {
        match self {
            DType::Opaque => "opaque",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }
}

/// Order of the bytes within an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// Extents of an array, slowest-varying first (C order). Rank 0 is a scalar: one element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: u8,
    extents: [u64; MAX_RANK],
}

impl Shape {
    /// A shape from its extents.
    ///
    /// # Errors
    /// `InvalidArgument` if there are more than [`MAX_RANK`] extents or their product exceeds
    /// 2^64−1.
    pub fn new(extents: &[u64]) -> Result<Self> {
        if extents.len() > MAX_RANK {
            return Err(Error::invalid(format!("rank {} is over the limit of {MAX_RANK}", extents.len())));
        }
        let mut shape = Self { rank: extents.len() as u8, extents: [0; MAX_RANK] };
        shape.extents[..extents.len()].copy_from_slice(extents);
        match shape.product_without_zeros() {
            Some(_) => Ok(shape),
            None => Err(Error::invalid(format!(
                "the extents {extents:?} are too large: the product of all that are not 0 exceeds 2^64-1"
            ))),
        }
    }

    /// The product of all extents except zeros. If it does not overflow, no product of some of the
    /// extents does.
    fn product_without_zeros(&self) -> Option<u64> {
        self.extents().iter().filter(|&&n| n != 0).try_fold(1u64, |product, &n| product.checked_mul(n))
    }

    /// The extents, slowest first.
    pub fn extents(&self) -> &[u64] {
        &self.extents[..usize::from(self.rank)]
    }

    /// Number of extents.
    pub fn rank(&self) -> u8 {
        self.rank
    }

    /// Number of elements.
    pub fn n_elements(&self) -> u64 {
        self.extents().iter().product()
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.extents()).finish()
    }
}

/// A contiguous array in C order, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    dtype: DType,
    order: ByteOrder,
    element_size: u32,
    shape: Shape,
}

impl Array {
    /// An array of a type whose size is known.
    ///
    /// # Errors
    /// `InvalidArgument` for [`DType::Opaque`] (use [`Array::opaque`]) or if the size in bytes cannot
    /// be addressed.
    pub fn new(dtype: DType, order: ByteOrder, shape: Shape) -> Result<Self> {
        let size = dtype.size().ok_or_else(|| Error::invalid("opaque elements need an element size"))?;
        Self::with_size(dtype, order, size, shape)
    }

    /// An array of elements that are plain bytes, `element_size` of them each.
    ///
    /// # Errors
    /// `InvalidArgument` if `element_size` is 0 or the size in bytes cannot be addressed.
    pub fn opaque(element_size: u32, shape: Shape) -> Result<Self> {
        Self::with_size(DType::Opaque, ByteOrder::Little, element_size, shape)
    }

    /// `n_bytes` bytes without any known structure.
    ///
    /// # Errors
    /// `InvalidArgument` if that many bytes cannot be addressed.
    pub fn bytes(n_bytes: u64) -> Result<Self> {
        Self::opaque(1, Shape::new(&[n_bytes])?)
    }

    /// An array whose parts come from a file or a C caller. `element_size` must be that of `dtype`.
    ///
    /// # Errors
    /// `InvalidArgument` if the parts contradict each other or the size in bytes cannot be addressed.
    pub fn with_size(dtype: DType, order: ByteOrder, element_size: u32, shape: Shape) -> Result<Self> {
        match dtype.size() {
            None if element_size == 0 => return Err(Error::invalid("opaque elements cannot have 0 bytes")),
            Some(size) if size != element_size => {
                let name = dtype.name();
                return Err(Error::invalid(format!("{name} elements have {size} bytes, not {element_size}")));
            }
            _ => {}
        }
        // Byte order has no meaning for opaque and one-byte elements: normalize it to
        // little-endian.
        let order = if dtype.size().is_none_or(|size| size == 1) { ByteOrder::Little } else { order };
        let array = Self { dtype, order, element_size, shape };
        let bytes = shape.product_without_zeros().and_then(|n| n.checked_mul(u64::from(element_size)));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            let zeros = if shape.extents().contains(&0) { " (extents of 0 count as 1)" } else { "" };
            return Err(Error::invalid(format!(
                "an array {shape:?} of elements of {element_size} bytes exceeds the address space{zeros}"
            )));
        }
        Ok(array)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Byte order of the elements; little for opaque and one-byte elements.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes of one element.
    pub fn element_size(&self) -> u32 {
        self.element_size
    }

    /// Extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes of the whole array; fits `isize`.
    pub fn n_bytes(&self) -> u64 {
        self.shape.n_elements() * u64::from(self.element_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_numbers_are_their_positions() {
        for (i, dtype) in DType::ALL.iter().enumerate() {
            assert_eq!(usize::from(dtype.id()), i);
            assert_eq!(DType::from_id(i as u8), Some(*dtype));
        }
        assert_eq!(DType::from_id(DType::ALL.len() as u8), None);
    }

    #[test]
    fn a_scalar_has_one_element_and_a_zero_extent_none() {
        assert_eq!(Shape::new(&[]).unwrap().n_elements(), 1);
        assert_eq!(Shape::new(&[5, 0, 7]).unwrap().n_elements(), 0);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Shape::new(&[1 << 32, 1 << 32]).is_err());
        assert!(Shape::new(&[0, 1 << 32, 1 << 32]).is_err());
        assert!(Shape::new(&[1; MAX_RANK + 1]).is_err());
        let shape = Shape::new(&[1 << 61]).unwrap();
        assert!(Array::new(DType::F64, ByteOrder::Little, shape).is_err());
        assert!(Array::new(DType::U8, ByteOrder::Little, shape).is_ok());
        let empty = Shape::new(&[0, 1 << 61]).unwrap();
        assert!(Array::new(DType::F64, ByteOrder::Little, empty).is_err());
        assert!(Array::opaque(0, shape).is_err());
        assert!(Array::with_size(DType::F32, ByteOrder::Little, 8, shape).is_err());
    }
}
