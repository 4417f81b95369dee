//! Buffers for chunks in flight.
#![allow(unsafe_code, reason = "memory of the C heap")]

use std::arch::asm;
use std::ffi::c_void;
use std::ptr::NonNull;

use gridz_codecs::cpu::pages::{HUGE_FROM, HUGE_PAGE, ask_for_huge};
use gridz_codecs::cpu::thread_cache::{Cacheable, ThreadCache};
use gridz_codecs::error::{Error, Result};

/// A buffer of the C heap, freed when dropped. Its initial contents are arbitrary: codecs overwrite
/// them, and zeroing a chunk of megabytes first would cost a pass over memory.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: it owns its memory, as a `Box` does.
unsafe impl Send for Buffer {}

/// Allocates memory in huge pages, where the system supports them on request. Null on failure.
fn huge(n_bytes: usize) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    // SAFETY: writes one pointer, to memory of that size, to be freed with `free`.
    if unsafe { libc::posix_memalign(&raw mut start, HUGE_PAGE, n_bytes) } != 0 {
        return std::ptr::null_mut();
    }
    // Memory of this size usually comes fresh from the system, which zeroes every page when it is
    // first touched. With small pages this takes half as long as decompressing the chunk.
    // SAFETY: our own memory, which may be uninitialized.
    ask_for_huge(unsafe { std::slice::from_raw_parts_mut(start.cast(), n_bytes) });
    start
}

impl Buffer {
    /// Allocates `n_bytes` bytes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n_bytes: usize) -> Result<Self> {
        let start = if n_bytes < HUGE_FROM {
            // SAFETY: malloc takes any size. One byte at least, so that null always means failure.
            unsafe { libc::malloc(n_bytes.max(1)) }
        } else {
            huge(n_bytes)
        };
        Self::of(start, n_bytes)
    }

    /// Allocates `n_bytes` zeros. If the C heap gets them from the system, pages take no memory
    /// before they are touched.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeroed(n_bytes: usize) -> Result<Self> {
        // SAFETY: calloc takes any size. One byte at least, so that null always means failure.
        Self::of(unsafe { libc::calloc(n_bytes.max(1), 1) }, n_bytes)
    }

    fn of(start: *mut c_void, n_bytes: usize) -> Result<Self> {
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::out_of_memory(n_bytes as u64, "chunk"))?;
        // From here on the bytes count as initialized. To the compiler, an asm block that may write
        // memory has written arbitrary bytes to it. The block is empty, so the bytes keep their
        // values.
        // SAFETY: it reads one register and does nothing.
        unsafe { asm!("/* {0} */", in(reg) start.as_ptr(), options(nostack, preserves_flags)) };
        Ok(Self { start, n_bytes })
    }

    /// Length in bytes.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: we own that many bytes, which count as initialized (see `new`), and the borrow is
        // ours.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes) }
    }

    /// Its first `n_bytes` bytes. If it has fewer, it is replaced by a new buffer.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn reserve(&mut self, n_bytes: usize) -> Result<&mut [u8]> {
        if self.n_bytes < n_bytes {
            *self = Self::new(n_bytes)?;
        }
        Ok(&mut self.bytes()[..n_bytes])
    }

    /// Gives up the ownership of the memory, which the caller frees with `free`.
    pub fn into_raw(self) -> *mut c_void {
        let start = self.start.as_ptr().cast();
        std::mem::forget(self);
        start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from malloc, freed once.
        unsafe { libc::free(self.start.as_ptr().cast()) };
    }
}

/// A buffer for frames that a thread caches for its next frame. The heap would return pages of
/// megabytes to the system after every chunk, and the next chunk would wait for new ones. With
/// chunks of 4 MiB that takes longer than compressing them.
pub struct FrameBuffer(ThreadCache<Idle>);

/// The cached buffer between two frames.
#[derive(Default)]
struct Idle(Option<Buffer>);

impl Cacheable for Idle {
    fn n_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Buffer::n_bytes)
    }
}

impl FrameBuffer {
    /// A buffer of at least `n_bytes` bytes: the thread's cached one if it is large enough, else a
    /// new one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n_bytes: usize) -> Result<Self> {
        let mut idle = ThreadCache::<Idle>::take();
        if idle.n_bytes() < n_bytes {
            // Free the old buffer first.
            idle.0 = None;
            idle.0 = Some(Buffer::new(n_bytes)?);
        }
        Ok(Self(idle))
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.0.0.as_mut().map_or(&mut [], Buffer::bytes)
    }

    /// Takes the buffer out, so that the thread does not cache it. `None` if it has no bytes.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.0.0.take()
    }
}
