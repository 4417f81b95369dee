//! Pinned host memory, cached in power-of-two sizes because pinning costs more than copying. Up to
//! [`cache_bytes`] of unused memory stay allocated.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use crate::sys;

use crate::caches::{cache_bytes, lock};
use crate::context::DriverContext;
use crate::slice::DeviceSlice;
use gridz_codecs::error::{Error, Result};

/// Host memory that the GPU reads and writes directly. Dereferences to its bytes, whose contents
/// are unspecified.
#[derive(Debug)]
pub struct PinnedBuffer {
    context: &'static DriverContext,
    cache: &'static PinnedCache,
    allocation: Allocation,
    n_bytes: usize,
}

/// Unused pinned memory.
#[derive(Debug, Default)]
pub(super) struct PinnedCache(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    allocations: Vec<Allocation>,
    n_bytes: u64,
}

/// An allocation whose size is a power of two.
#[derive(Debug)]
struct Allocation {
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: plain memory that one value owns.
unsafe impl Send for Allocation {}
// SAFETY: as for `Send`; shared references only read.
unsafe impl Sync for Allocation {}

/// The smallest allocation; smaller ones would save nothing.
const MIN_BYTES: usize = 64 << 10;

impl PinnedCache {
    /// Frees all unused memory. The context must be current.
    pub(super) fn release(&self, context: &DriverContext) {
        let idle = std::mem::take(&mut *lock(&self.0));
        for allocation in idle.allocations {
            // The check records a lost context; no other error can be handled here.
            let _ = allocation.free(context);
        }
    }
}

impl Allocation {
    /// The context must be current.
    fn new(context: &DriverContext, size: usize) -> Result<Self> {
        let mut address = ptr::null_mut();
        // SAFETY: writes one pointer; the context is current.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut address, size, sys::CU_MEMHOSTALLOC_PORTABLE) };
        context.check(code, format_args!("allocating {size} bytes of pinned memory failed"))?;
        let address =
            NonNull::new(address.cast::<u8>()).ok_or_else(|| Error::out_of_memory(size as u64, "pinned memory"))?;
        // SAFETY: the driver has just allocated it. Rust requires that memory is initialized before
        // it is read.
        unsafe { address.write_bytes(0, size) };
        Ok(Self { address, size })
    }

    /// The context must be current.
    fn free(self, context: &DriverContext) -> Result<()> {
        // SAFETY: allocated by the driver, and no copy uses it any more.
        context.check(unsafe { sys::cuMemFreeHost(self.address.as_ptr().cast()) }, "freeing pinned memory failed")
    }
}

impl PinnedBuffer {
    /// Pinned memory of `n_bytes` for a context.
    pub(super) fn new(
        context: &'static DriverContext,
        cache: &'static PinnedCache,
        n_bytes: usize,
    ) -> Result<Self> {
        let _entered = context.enter()?;
        let size = n_bytes
            .max(MIN_BYTES)
            .checked_next_power_of_two()
            .ok_or_else(|| Error::out_of_memory(n_bytes as u64, "pinned memory"))?;
        let idle = {
            let mut idle = lock(&cache.0);
            let found = idle.allocations.iter().position(|allocation| allocation.size == size);
            found.map(|i| {
                idle.n_bytes -= size as u64;
                idle.allocations.swap_remove(i)
            })
        };
        let allocation = match idle {
            Some(allocation) => allocation,
            None => Allocation::new(context, size)?,
        };
        Ok(Self { context, cache, allocation, n_bytes })
    }

    /// The memory as a device slice, for kernels.
    pub fn on_device(&self) -> DeviceSlice<'_> {
        // SAFETY: pinned memory has the same address on the host and on all GPUs, and lives as long
        // as the result.
        unsafe { DeviceSlice::from_raw(self.allocation.address.as_ptr().cast(), self.n_bytes as u64) }
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation has that many initialized bytes, and a copy in the background owns
        // the buffer.
        unsafe { std::slice::from_raw_parts(self.allocation.address.as_ptr(), self.n_bytes) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and this value owns the allocation.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.address.as_ptr(), self.n_bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // If the device is lost, or in a forked process, the memory is left alone.
        let Ok(_entered) = self.context.enter() else {
            return;
        };
        let allocation = Allocation { ..self.allocation };
        let size = allocation.size as u64;
        {
            let mut idle = lock(&self.cache.0);
            if idle.n_bytes + size <= cache_bytes() {
                idle.n_bytes += size;
                idle.allocations.push(allocation);
                return;
            }
        }
        // The check records a lost context; no other error can be handled here.
        let _ = allocation.free(self.context);
    }
}
