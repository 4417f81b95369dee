//! Structs that host and kernels share.
#![allow(unsafe_code, reason = "structs that are read as bytes")]

use std::ptr;

/// A struct with the same layout on host and GPU. Only [`kernel_struct!`](crate::kernel_struct)
/// implements this trait.
///
/// # Safety
/// The type must be `repr(C)` without padding, and consist of integers that may have any value.
pub unsafe trait KernelStruct: Copy + 'static {
    /// The struct with these bytes, or `None` if their number is wrong.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the number of bytes is right, any bytes are a value of this type, and they need
        // not be aligned.
        (bytes.len() == size_of::<Self>()).then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// The bytes of the struct.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: there is no padding, so every byte is initialized.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).cast::<u8>(), size_of::<Self>()) }
    }
}

/// A type that a field of a [`KernelStruct`] may have.
///
/// # Safety
/// The type must be an integer, or an array or [`KernelStruct`] of integers: without padding, and
/// any bytes are a value.
pub unsafe trait Plain {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an array has no padding beyond that of its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Defines structs that host and kernels share. `size` is the size in bytes; the kernels' source
/// asserts the same size. Device pointers are `u64`.
///
/// ```
/// gridz_codecs::kernel_struct! {
///     /// Arguments of some kernel.
///     pub struct Args, size 16 {
///         /// Address of the data.
///         pub src: u64,
///         /// Number of chunks.
///         pub n_chunks: u32,
///         /// Always 0.
///         pub reserved: u32,
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! kernel_struct {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident, size $size:literal {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)+
        }

        const _: () = {
            const fn plain<T: $crate::kernel_struct::Plain>() -> usize {
                size_of::<T>()
            }
            assert!(size_of::<$name>() == $size, "the kernels have another size");
            assert!(0 $(+ plain::<$type>())+ == $size, "there is padding");
        };

        #[allow(unsafe_code, reason = "what the trait asks for is asserted above")]
        // SAFETY: repr(C), plain fields, no padding.
        unsafe impl $crate::kernel_struct::KernelStruct for $name {}

        #[allow(unsafe_code, reason = "what the trait asks for is asserted above")]
        // SAFETY: as above.
        unsafe impl $crate::kernel_struct::Plain for $name {}
    )+};
}

#[cfg(test)]
mod tests {
    use super::KernelStruct;

    crate::kernel_struct! {
        /// Every kind of field.
        struct Fields, size 40 {
            a: u64,
            b: [u64; 3],
            c: u32,
            d: u32,
        }
    }

    #[test]
    fn bytes_are_those_of_c() {
        let fields = Fields { a: 1, b: [2, 3, 4], c: 5, d: 6 };
        let bytes = fields.as_bytes();
        assert_eq!((bytes[0], bytes[8], bytes[24], bytes[32], bytes[36]), (1, 2, 4, 5, 6));
        assert_eq!(Fields::from_bytes(bytes), Some(fields));
        assert_eq!(Fields::from_bytes(&bytes[1..]), None);
    }
}
