//! Device memory and pinned host memory, cached between calls.
//!
//! Device memory comes from a memory pool of our own, so the application's pool and its settings are
//! left alone. The pool is stream-ordered: what is freed may be given to the same stream at once, and to
//! others when the work before is done. Up to [`cache_bytes`] stay in it when nothing uses them. Pinned
//! memory has free lists by power of two with the same bound, because pinning costs more than copying.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUdeviceptr, CUmemoryPool};

use crate::cuda::context::{Device, Handle};
use crate::cuda::stream::Stream;
use crate::error::{Error, Result};
use crate::settings;

/// What a device keeps: its pool and its idle pinned memory.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pool: Mutex<Option<Handle<CUmemoryPool>>>,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    blocks: Vec<Block>,
    n_bytes: u64,
}

/// Bytes that may stay allocated without use, of device memory and of pinned memory: 1 GiB divided by
/// the MPI ranks of this node.
fn cache_bytes() -> u64 {
    (1 << 30) / settings::local_ranks() as u64
}

impl Arena {
    fn pool(&self, device: &Device) -> Result<CUmemoryPool> {
        let mut pool = lock(&self.pool);
        if let Some(pool) = *pool {
            return Ok(pool.0);
        }
        // SAFETY: a struct of integers, enums that have a 0, and a pointer that may be null.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = device.gpu().ordinal as i32;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle.
        device.check(unsafe { sys::cuMemPoolCreate(&raw mut raw, &raw const properties) }, "no memory pool")?;
        let mut threshold = cache_bytes();
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: reads one u64.
        let code = unsafe { sys::cuMemPoolSetAttribute(raw, attribute, (&raw mut threshold).cast::<c_void>()) };
        if let Err(error) = device.check(code, "the memory pool takes no limit") {
            // SAFETY: made above, and nothing is in it.
            let _ = unsafe { sys::cuMemPoolDestroy(raw) };
            return Err(error);
        }
        *pool = Some(Handle(raw));
        Ok(raw)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is whole at every step, so a panic of another thread does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---- device memory ---------------------------------------------------------------------------------

/// Device memory, for work on one stream; it is freed in the order of that stream, so it may be dropped
/// as soon as the work is given to the stream.
#[derive(Debug)]
pub struct DeviceBuffer<'s> {
    stream: &'s Stream,
    address: CUdeviceptr,
    n_bytes: u64,
}

impl Stream {
    /// Device memory of `n_bytes`, with anything in it, aligned to 256 bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if the GPU has no more, `Device`.
    pub fn alloc(&self, n_bytes: u64) -> Result<DeviceBuffer<'_>> {
        let _entered = self.device.enter()?;
        let pool = self.device.arena.pool(self.device)?;
        let mut address = 0;
        // Nothing has no address, but callers need not know that.
        let size = usize::try_from(n_bytes.max(1)).map_err(|_| Error::out_of_memory(n_bytes, "GPU memory"))?;
        // SAFETY: writes one address; pool and stream are alive.
        let code = unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, size, pool, self.raw.0) };
        self.device.check(code, format_args!("no {n_bytes} bytes of GPU memory"))?;
        Ok(DeviceBuffer { stream: self, address, n_bytes })
    }
}

impl DeviceBuffer<'_> {
    /// All of it.
    pub fn all(&self) -> DeviceSlice<'_> {
        DeviceSlice { address: self.address, n_bytes: self.n_bytes, owner: PhantomData }
    }

    /// A part.
    ///
    /// # Errors
    /// `Internal` if it is not inside.
    pub fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.all().slice(range)
    }
}

impl Drop for DeviceBuffer<'_> {
    fn drop(&mut self) {
        if let Ok(_entered) = self.stream.device.enter() {
            // SAFETY: allocated on this stream and not used by anything that is given to it later. The
            // check notes a lost device; nothing else can be done about an error.
            let code = unsafe { sys::cuMemFreeAsync(self.address, self.stream.raw.0) };
            let _ = self.stream.device.check(code, "GPU memory is not given back");
        }
    }
}

/// Part of some device memory.
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
    /// `pointer` names `n_bytes` bytes that the device can reach and that live as long as the result, and
    /// what is done with it on a stream.
    pub unsafe fn from_raw(pointer: *const c_void, n_bytes: u64) -> Self {
        Self { address: pointer as CUdeviceptr, n_bytes, owner: PhantomData }
    }

    /// Its bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Its address, for the arguments of kernels.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A part.
    ///
    /// # Errors
    /// `Internal` if it is not inside.
    pub fn slice(self, range: Range<u64>) -> Result<Self> {
        if range.start > range.end || range.end > self.n_bytes {
            let text = format!("defect in gridz, please report it: {range:?} of {} GPU bytes", self.n_bytes);
            return Err(Error::new(crate::error::ErrorKind::Internal, text));
        }
        Ok(Self { address: self.address + range.start, n_bytes: range.end - range.start, owner: PhantomData })
    }
}

// ---- pinned memory ---------------------------------------------------------------------------------

/// Host memory that the GPU reads and writes without detour. Dereferences to its bytes, with anything in
/// them.
#[derive(Debug)]
pub struct PinnedBuffer {
    device: &'static Device,
    block: Block,
    n_bytes: usize,
}

/// An allocation of a power of two.
#[derive(Debug)]
struct Block {
    address: NonNull<u8>,
    size: usize,
}

// SAFETY: plain memory that one value owns.
unsafe impl Send for Block {}
// SAFETY: the same; shared references only read.
unsafe impl Sync for Block {}

/// The smallest block: below, one is as good as another.
const MIN_BLOCK: usize = 64 << 10;

impl Device {
    /// Pinned memory of `n_bytes`.
    ///
    /// # Errors
    /// `OutOfMemory`, `Device`.
    pub fn pinned(&'static self, n_bytes: usize) -> Result<PinnedBuffer> {
        let _entered = self.enter()?;
        let size = n_bytes
            .max(MIN_BLOCK)
            .checked_next_power_of_two()
            .ok_or_else(|| Error::out_of_memory(n_bytes as u64, "pinned memory"))?;
        let idle = {
            let mut idle = lock(&self.arena.idle);
            let found = idle.blocks.iter().position(|block| block.size == size);
            found.map(|i| {
                idle.n_bytes -= size as u64;
                idle.blocks.swap_remove(i)
            })
        };
        let block = match idle {
            Some(block) => block,
            None => Block::new(self, size)?,
        };
        Ok(PinnedBuffer { device: self, block, n_bytes })
    }
}

impl Block {
    fn new(device: &Device, size: usize) -> Result<Self> {
        let mut address = ptr::null_mut();
        // SAFETY: writes one pointer; the context is current.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut address, size, sys::CU_MEMHOSTALLOC_PORTABLE) };
        device.check(code, format_args!("no {size} bytes of pinned memory"))?;
        let address =
            NonNull::new(address.cast::<u8>()).ok_or_else(|| Error::out_of_memory(size as u64, "pinned memory"))?;
        // SAFETY: the driver has just allocated it. Rust wants memory that it reads to be initialised.
        unsafe { address.write_bytes(0, size) };
        Ok(Self { address, size })
    }

    /// The context is current.
    fn free(self, device: &Device) -> Result<()> {
        // SAFETY: allocated by the driver, and no copy uses it any more.
        device.check(unsafe { sys::cuMemFreeHost(self.address.as_ptr().cast()) }, "pinned memory is not given back")
    }
}

impl PinnedBuffer {
    /// The first `n_bytes`.
    ///
    /// # Errors
    /// `InvalidArgument` if there are fewer.
    pub(super) fn first(&self, n_bytes: u64) -> Result<&[u8]> {
        let have = self.n_bytes;
        usize::try_from(n_bytes)
            .ok()
            .and_then(|n| self.get(..n))
            .ok_or_else(|| Error::invalid(format!("a copy of {n_bytes} bytes with a pinned buffer of {have}")))
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block has that many initialised bytes, and a copy in the background owns the buffer.
        unsafe { std::slice::from_raw_parts(self.block.address.as_ptr(), self.n_bytes) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and this value owns the block.
        unsafe { std::slice::from_raw_parts_mut(self.block.address.as_ptr(), self.n_bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // Of a lost device or in a fork, it is left alone.
        let Ok(_entered) = self.device.enter() else {
            return;
        };
        let block = Block { ..self.block };
        let size = block.size as u64;
        {
            let mut idle = lock(&self.device.arena.idle);
            if idle.n_bytes + size <= cache_bytes() {
                idle.n_bytes += size;
                idle.blocks.push(block);
                return;
            }
        }
        // Noted by the check; nothing else can be done about an error.
        let _ = block.free(self.device);
    }
}
