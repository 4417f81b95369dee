//! Ranges of device memory, given by address.
#![allow(unsafe_code, reason = "who names memory by an address answers for it")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;

use crate::sys::CUdeviceptr;

use gridz_codecs::error::{Error, Result};

/// A range of device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSlice<'a> {
    address: CUdeviceptr,
    n_bytes: u64,
    owner: PhantomData<&'a ()>,
}

impl DeviceSlice<'_> {
    /// A caller's device memory.
    ///
    /// # Safety
    /// `pointer` must be the address of `n_bytes` bytes that the device can access. They must live
    /// as long as the result, and as long as work on streams uses them.
    pub unsafe fn from_raw(pointer: *const c_void, n_bytes: u64) -> Self {
        Self { address: pointer as CUdeviceptr, n_bytes, owner: PhantomData }
    }

    /// Length in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Its address, for the arguments of kernels.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A part of the range.
    ///
    /// # Errors
    /// `Internal` if `range` is not inside.
    pub fn slice(self, range: Range<u64>) -> Result<Self> {
        if range.start > range.end || range.end > self.n_bytes {
            return Err(Error::internal(format_args!("{range:?} of {} GPU bytes", self.n_bytes)));
        }
        Ok(Self { address: self.address + range.start, n_bytes: range.end - range.start, owner: PhantomData })
    }
}
