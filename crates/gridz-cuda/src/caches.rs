//! Caches of a device: a memory pool and streams. `pinned` has the third cache. Each cache is
//! bounded, and all of them can be released.
//!
//! Device memory is allocated from our own memory pool, so the application's pool and its settings
//! stay unchanged. The pool is stream-ordered: freed memory can be reused at once on the same
//! stream, and on other streams once the preceding work has completed. Up to [`cache_bytes`] of
//! unused memory stay in the pool.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sys::{self, CUmemoryPool, CUstream};

use crate::context::{DriverContext, Handle};
use gridz_codecs::error::Result;
use gridz_codecs::settings;

/// Number of bytes of unused device memory, and of unused pinned memory, that may stay allocated.
/// It is the value of `GRIDZ_CACHE_MIB`, by default 1 GiB divided by the MPI ranks of this node.
pub(super) fn cache_bytes() -> u64 {
    settings::or_default().cache_bytes.unwrap_or_else(|| (1 << 30) / settings::local_ranks() as u64)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The contents are valid at every step, so a panic of another thread does no harm.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory pool of a context, created on first use.
#[derive(Debug, Default)]
pub(super) struct MemoryPool(Mutex<Option<Handle<CUmemoryPool>>>);

impl MemoryPool {
    pub(super) fn get(&self, context: &DriverContext) -> Result<CUmemoryPool> {
        let mut pool = lock(&self.0);
        if let Some(pool) = *pool {
            return Ok(pool.0);
        }
        // SAFETY: the fields are integers and one pointer, which may all be zero.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.alloc_type = sys::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location_type = sys::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location_id = context.gpu.ordinal as i32;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle.
        let code = unsafe { sys::cuMemPoolCreate(&raw mut raw, &raw const properties) };
        context.check(code, "creating a memory pool failed")?;
        let mut threshold = cache_bytes();
        let attribute = sys::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: reads one u64.
        let code = unsafe { sys::cuMemPoolSetAttribute(raw, attribute, (&raw mut threshold).cast::<c_void>()) };
        if let Err(error) = context.check(code, "setting the limit of the memory pool failed") {
            // SAFETY: created above, and still empty.
            let _ = unsafe { sys::cuMemPoolDestroy(raw) };
            return Err(error);
        }
        *pool = Some(Handle(raw));
        Ok(raw)
    }

    /// Frees unused memory. The context must be current.
    pub(super) fn release(&self, context: &DriverContext) {
        if let Some(pool) = *lock(&self.0) {
            // SAFETY: the pool is alive. The check records a lost context; no other error can be
            // handled here.
            let _ = context.check(unsafe { sys::cuMemPoolTrimTo(pool.0, 0) }, "freeing cached GPU memory failed");
        }
    }
}

/// A stream that gridz owns. It does not synchronize with the legacy default stream.
#[derive(Debug)]
pub(super) struct OwnStream {
    context: &'static DriverContext,
    pub(super) raw: Handle<CUstream>,
}

impl OwnStream {
    /// The context must be current.
    fn new(context: &'static DriverContext) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let flags = sys::CU_STREAM_NON_BLOCKING;
        // SAFETY: writes one handle; the context is current.
        context.check(unsafe { sys::cuStreamCreate(&raw mut raw, flags) }, "creating a stream failed")?;
        Ok(Self { context, raw: Handle(raw) })
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: the stream is alive and not used again; work that is still running on it
            // completes.
            let code = unsafe { sys::cuStreamDestroy_v2(self.raw.0) };
            let _ = self.context.check(code, "destroying a stream failed");
        }
    }
}

/// Cached streams, because creating one takes longer than compressing a small chunk. A stream is
/// idle if only this list refers to it. Work on a reused stream runs after the work that is still
/// queued on it.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Arc<OwnStream>>>);

/// Largest number of cached streams.
const MAX_STREAMS: usize = 64;

impl Streams {
    /// An idle stream, or a new one. The context must be current.
    pub(super) fn get(&self, context: &'static DriverContext) -> Result<Arc<OwnStream>> {
        let mut kept = lock(&self.0);
        if let Some(idle) = kept.iter().find(|stream| Arc::strong_count(stream) == 1) {
            return Ok(Arc::clone(idle));
        }
        let new = Arc::new(OwnStream::new(context)?);
        if kept.len() < MAX_STREAMS {
            kept.push(Arc::clone(&new));
        }
        Ok(new)
    }

    /// Destroys the idle streams.
    pub(super) fn release(&self) {
        lock(&self.0).retain(|stream| Arc::strong_count(stream) > 1);
    }
}
