//! Starts kernels; no other code does.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ptr;

use crate::sys;

use crate::modules::Function;
use crate::stream::Stream;
use gridz_codecs::error::{Error, Result};

/// Launch configuration of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Number of CTAs (thread blocks), in one dimension.
    pub ctas: u32,
    /// Threads per CTA, in one dimension.
    pub threads: u32,
    /// Dynamic shared memory per CTA, in bytes.
    pub shared_bytes: u32,
}

/// Largest number of CTAs in one dimension.
const MAX_CTAS: u32 = i32::MAX as u32;

impl Function {
    /// Starts the kernel on `stream`, in the background. Later calls on the stream report errors of
    /// its execution.
    ///
    /// `args` are the bytes of the kernel's only argument.
    ///
    /// # Errors
    /// `Internal` if the size of the arguments differs from the kernel's, if the grid is invalid,
    /// or if the stream belongs to another device; `Device`.
    ///
    /// # Safety
    /// With these arguments and this grid, the kernel must access only memory that is meant for it
    /// and that lives until the stream has completed the work.
    pub unsafe fn launch(&self, grid: Grid, stream: &Stream, args: &[u8]) -> Result<()> {
        let _entered = self.context.enter()?;
        let (name, max_threads) = (self.kernel.name, self.kernel.max_threads);
        let Grid { ctas, threads, shared_bytes } = grid;
        let is_grid = (1..=MAX_CTAS).contains(&ctas) && (1..=max_threads).contains(&threads);
        if !is_grid || !ptr::eq(&raw const stream.device().context, self.context) {
            return Err(Error::internal(format_args!("kernel {name} cannot be launched with {grid:?}")));
        }
        self.kernel.check_args(args.len())?;
        self.allow_shared(shared_bytes)?;
        let mut params = [args.as_ptr().cast::<c_void>().cast_mut()];
        // SAFETY: kernel and stream belong to the device whose context is current. The kernel has
        // one argument with exactly this number of bytes, as checked above, which the driver copies
        // now. The rest is the caller's promise.
        let code = unsafe {
            sys::cuLaunchKernel(
                self.kernel.raw.0,
                ctas,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                stream.raw(),
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.context.check(code, format_args!("launching kernel {name} failed"))
    }
}
