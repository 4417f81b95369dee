//! The one place that starts kernels, and the structs that kernels and host share.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use crate::cuda::modules::Function;
use crate::cuda::stream::Stream;
use crate::error::{Error, ErrorKind, Result};

/// A struct that the kernels know as well. Made by [`kernel_struct!`](crate::kernel_struct) only.
///
/// # Safety
/// `repr(C)`, without padding, of integers that may have any value.
pub unsafe trait KernelStruct: Copy + 'static {
    /// The struct with these bytes, if they are as many.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: as many bytes, any of which are a value of this type; they need not be aligned.
        (bytes.len() == size_of::<Self>()).then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// Its bytes.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: there is no padding, so every byte is initialised.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).cast::<u8>(), size_of::<Self>()) }
    }
}

/// What the fields of a [`KernelStruct`] may be.
///
/// # Safety
/// An integer, or an array or [`KernelStruct`] of integers: no padding, and any bytes are a value.
pub unsafe trait Plain {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}
// SAFETY: an array has no padding that its elements do not have.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Defines structs that host and kernels share, `size` bytes each; the kernels' source asserts the same
/// size. Device pointers are `u64`.
///
/// ```
/// gridz::kernel_struct! {
///     /// Arguments of some kernel.
///     pub struct Args, size 16 {
///         /// Where the data is.
///         pub src: u64,
///         /// How many chunks there are.
///         pub n_chunks: u32,
///         /// Always 0.
///         pub reserved: u32,
///     }
/// }
/// ```
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
            const fn plain<T: $crate::cuda::launch::Plain>() -> usize {
                size_of::<T>()
            }
            assert!(size_of::<$name>() == $size, "the kernels have another size");
            assert!(0 $(+ plain::<$type>())+ == $size, "there is padding");
        };

        #[allow(unsafe_code, reason = "what the trait asks for is asserted above")]
        // SAFETY: repr(C), plain fields, no padding.
        unsafe impl $crate::cuda::launch::KernelStruct for $name {}

        #[allow(unsafe_code, reason = "what the trait asks for is asserted above")]
        // SAFETY: the same.
        unsafe impl $crate::cuda::launch::Plain for $name {}
    )+};
}

/// How many blocks of how many threads a kernel gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks, in one dimension.
    pub blocks: u32,
    /// Threads per block, in one dimension.
    pub threads: u32,
    /// Dynamic shared memory per block.
    pub shared_bytes: u32,
}

/// Most blocks in one dimension.
const MAX_BLOCKS: u32 = i32::MAX as u32;

impl<A: super::KernelStruct> Function<A> {
    /// Starts the kernel on `stream`, in the background. What goes wrong while it runs is told by the
    /// stream's next calls.
    ///
    /// The addresses in `args` are what makes a kernel right or wrong; they come from
    /// [`DeviceSlice`](super::DeviceSlice)s, and the codec that fills `args` answers for their lengths. A
    /// wrong one damages memory that the GPU reaches, or loses the device.
    ///
    /// # Errors
    /// `Internal` for a grid that is no grid or a stream of another device, `Device`.
    pub fn launch(&self, grid: Grid, stream: &Stream, args: &A) -> Result<()> {
        let _entered = self.device.enter()?;
        let (name, max_threads) = (self.kernel.name, self.kernel.max_threads);
        let Grid { blocks, threads, shared_bytes } = grid;
        let is_grid = (1..=MAX_BLOCKS).contains(&blocks) && (1..=max_threads).contains(&threads);
        if !is_grid || !ptr::eq(stream.device, self.device) {
            let text = format!("defect in gridz, please report it: {name} cannot start with {grid:?}");
            return Err(Error::new(ErrorKind::Internal, text));
        }
        self.allow_shared(shared_bytes)?;
        let mut params = [ptr::from_ref(args).cast::<c_void>().cast_mut()];
        // SAFETY: kernel and stream are of the device whose context is current. The kernel has one argument
        // of exactly the size of `A`, which `Module::function` has checked and the driver copies now.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.kernel.raw.0,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                stream.raw.0,
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.device.check(code, format_args!("the kernel {name} does not start"))
    }
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
