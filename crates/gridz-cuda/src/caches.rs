//! What a device keeps between calls: a memory pool and streams. `pinned` has the third cache. Each is bounded, and all
//! of them can be released.
//!
//! Device memory comes from a memory pool of our own, so the application's pool and its settings are
//! left alone. The pool is stream-ordered: what is freed may be given to the same stream at once, and to
//! others when the work before is done. Up to [`cache_bytes`] stay in it when nothing uses them.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sys::{self, CUmemoryPool, CUstream};

use crate::context::{DriverContext, Handle};
use gridz_codecs::error::Result;
use gridz_codecs::settings;

/// Bytes that may stay allocated without use, of device memory and of pinned memory: what `GRIDZ_CACHE_MIB` says, else 1 GiB
/// divided by the MPI ranks of this node.
pub(super) fn cache_bytes() -> u64 {
    settings::or_default().cache_bytes.unwrap_or_else(|| (1 << 30) / settings::local_ranks() as u64)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole at every step, so a panic of another thread does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory pool of a context, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct MemoryPool(Mutex<Option<Handle<CUmemoryPool>>>);

impl MemoryPool {
    pub(super) fn get(&self, context: &DriverContext) -> Result<CUmemoryPool> {
        let mut pool = lock(&self.0);
        if let Some(pool) = *pool {
            return Ok(pool.0);
        }
        // SAFETY: a struct of integers, enums that have a 0, and a pointer that may be null.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.alloc_type = sys::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location_type = sys::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location_id = context.gpu.ordinal as i32;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle.
        context.check(unsafe { sys::cuMemPoolCreate(&raw mut raw, &raw const properties) }, "no memory pool")?;
        let mut threshold = cache_bytes();
        let attribute = sys::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: reads one u64.
        let code = unsafe { sys::cuMemPoolSetAttribute(raw, attribute, (&raw mut threshold).cast::<c_void>()) };
        if let Err(error) = context.check(code, "the memory pool takes no limit") {
            // SAFETY: made above, and nothing is in it.
            let _ = unsafe { sys::cuMemPoolDestroy(raw) };
            return Err(error);
        }
        *pool = Some(Handle(raw));
        Ok(raw)
    }

    /// Gives back what nothing uses. The context is current.
    pub(super) fn release(&self, context: &DriverContext) {
        if let Some(pool) = *lock(&self.0) {
            // SAFETY: the pool is alive. The check notes a lost context; nothing else can be done about an error.
            let _ = context.check(unsafe { sys::cuMemPoolTrimTo(pool.0, 0) }, "GPU memory is not given back");
        }
    }
}

/// A stream of ours, which does not wait for the legacy default stream.
#[derive(Debug)]
pub(super) struct OwnStream {
    context: &'static DriverContext,
    pub(super) raw: Handle<CUstream>,
}

impl OwnStream {
    /// The context is current.
    fn new(context: &'static DriverContext) -> Result<Self> {
        let mut raw = ptr::null_mut();
        let flags = sys::CU_STREAM_NON_BLOCKING;
        // SAFETY: writes one handle; the context is current.
        context.check(unsafe { sys::cuStreamCreate(&raw mut raw, flags) }, "no stream can be made")?;
        Ok(Self { context, raw: Handle(raw) })
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: the stream is alive and not used again; what is still running on it ends by itself.
            let code = unsafe { sys::cuStreamDestroy_v2(self.raw.0) };
            let _ = self.context.check(code, "a stream is not given back");
        }
    }
}

/// Streams to be used again, because making one takes longer than compressing a small chunk: those that are held by
/// nobody but this list. Who gets one comes after what is still running on it.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Arc<OwnStream>>>);

/// Most streams that are kept.
const MAX_STREAMS: usize = 64;

impl Streams {
    /// A stream that nobody uses. The context is current.
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

    /// Destroys those that nobody uses.
    pub(super) fn release(&self) {
        lock(&self.0).retain(|stream| Arc::strong_count(stream) > 1);
    }
}
