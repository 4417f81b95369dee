//! Advice to the system and the CPU about memory that is read sequentially.
#![allow(unsafe_code, reason = "advice to the system and the CPU")]

use std::mem::MaybeUninit;

/// Bytes of a huge page of Linux, on machines with pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;
/// Memory of at least this many bytes should consist of huge pages.
pub const HUGE_FROM: usize = 2 * HUGE_PAGE;

/// Asks the system to use huge pages for memory that has not been touched yet, where it does so on
/// request. They are mapped and zeroed in fewer steps, and a CPU that reads them sequentially does
/// not stop at the end of every small page.
pub fn ask_for_huge(memory: &mut [MaybeUninit<u8>]) {
    let before = memory.as_ptr().align_offset(HUGE_PAGE);
    let n_bytes = memory.len().saturating_sub(before) & !(HUGE_PAGE - 1);
    #[cfg(target_os = "linux")]
    if n_bytes > 0 {
        // SAFETY: whole pages of memory that is borrowed mutably. The advice changes no byte,
        // whether or not it is taken.
        unsafe { libc::madvise(memory.as_mut_ptr().add(before).cast(), n_bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = n_bytes;
}

/// Whether the system can map this much memory for the process. Memory that the heap already has is
/// not counted, since the heap may not share it with new threads.
pub fn can_map(n_bytes: usize) -> bool {
    #[cfg(unix)]
    {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), n_bytes, access, kind, -1, 0) };
        // SAFETY: this mapping, which nothing has used.
        start != libc::MAP_FAILED && unsafe { libc::munmap(start, n_bytes) } == 0
    }
    #[cfg(not(unix))]
    {
        let _ = n_bytes;
        true
    }
}

/// Prefetches the bytes one page after some bytes that are read sequentially. CPUs that prefetch by
/// themselves stop at the end of a page and look less far ahead during gathers; some ignore masked
/// loads.
#[inline(always)]
pub fn fetch_ahead(bytes: &[u8]) {
    /// Bytes of a page.
    #[cfg(target_arch = "x86_64")]
    const AHEAD: usize = 4096;
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes.len()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has this instruction, which has no visible effect and accepts any
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(AHEAD + line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
