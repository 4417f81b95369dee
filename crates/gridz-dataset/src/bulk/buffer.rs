//! Memory for chunks on their way.
#![allow(unsafe_code, reason = "memory of the C heap")]

use std::arch::asm;
use std::ffi::c_void;
use std::ptr::NonNull;

use gridz_codecs::cpu::kept::{Keep, Kept};
use gridz_codecs::cpu::pages::{HUGE_FROM, HUGE_PAGE, ask_for_huge};
use gridz_codecs::error::{Error, Result};

/// A buffer of the C heap, freed when dropped. It holds anything: what codecs write needs no zeros first, which for
/// chunks of megabytes would cost a pass over memory.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: it owns its memory, as a box does.
unsafe impl Send for Buffer {}

/// Memory in huge pages, where the system gives them to those who ask. Null if there is not so much.
fn huge(n_bytes: usize) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    // SAFETY: writes one pointer, to memory of that size, to be freed with `free`.
    if unsafe { libc::posix_memalign(&raw mut start, HUGE_PAGE, n_bytes) } != 0 {
        return std::ptr::null_mut();
    }
    // Memory of this size mostly comes from the system anew, which makes and zeroes every page when it is first touched; with
    // small pages that takes half as long as to decompress it.
    // SAFETY: our own memory, which may be uninitialised.
    ask_for_huge(unsafe { std::slice::from_raw_parts_mut(start.cast(), n_bytes) });
    start
}

impl Buffer {
    /// `n_bytes` bytes.
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

    /// `n_bytes` zeros. Where the C heap gets them from the system, no page takes memory before it is used.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeroed(n_bytes: usize) -> Result<Self> {
        // SAFETY: calloc takes any size. One byte at least, so that null always means failure.
        Self::of(unsafe { libc::calloc(n_bytes.max(1), 1) }, n_bytes)
    }

    fn of(start: *mut c_void, n_bytes: usize) -> Result<Self> {
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::out_of_memory(n_bytes as u64, "chunk"))?;
        // From here on the bytes count as initialised: an asm block that may write memory, as this one may, stands for
        // one that has written arbitrary bytes to it. The block is empty, so their values are those that are there.
        // SAFETY: it reads one register and does nothing.
        unsafe { asm!("/* {0} */", in(reg) start.as_ptr(), options(nostack, preserves_flags)) };
        Ok(Self { start, n_bytes })
    }

    /// How many bytes it has.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: we own that many bytes, which count as initialised (see `new`), and the borrow is ours.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes) }
    }

    /// Its memory, for who frees it with `free`.
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

/// A buffer in which a thread makes frames, and which it keeps for the next one. The heap would give pages of megabytes back
/// after every chunk, and the next chunk would wait for new ones: with chunks of 4 MiB longer than it takes to compress them.
pub struct FrameBuffer(Kept<Idle>);

/// The buffer between two frames.
#[derive(Default)]
struct Idle(Option<Buffer>);

impl Keep for Idle {
    fn n_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Buffer::n_bytes)
    }
}

impl FrameBuffer {
    /// At least `n_bytes` bytes: the buffer that the thread has kept, if it is large enough.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n_bytes: usize) -> Result<Self> {
        let mut idle = Kept::<Idle>::take();
        if idle.n_bytes() < n_bytes {
            // The old one goes first.
            idle.0 = None;
            idle.0 = Some(Buffer::new(n_bytes)?);
        }
        Ok(Self(idle))
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.0.0.as_mut().map_or(&mut [], Buffer::bytes)
    }

    /// The buffer itself, which the thread does not keep then; `None` if it has no bytes.
    pub fn take_buffer(&mut self) -> Option<Buffer> {
        self.0.0.take()
    }
}
