//! Advice about memory that is read from its beginning to its end: to the system, and to the CPU.
#![allow(unsafe_code, reason = "advice to the system and the CPU")]

use std::mem::MaybeUninit;

/// Pages that Linux has beside the small ones, on machines with pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;
/// Memory of so many bytes should be made of them.
pub const HUGE_FROM: usize = 2 * HUGE_PAGE;

/// Asks the system to make memory that nobody has touched of huge pages, where it gives them to those who ask: they are made, and
/// zeroed, in fewer steps, and a CPU that reads them in order is not stopped at the end of every small one.
pub fn ask_for_huge(memory: &mut [MaybeUninit<u8>]) {
    let before = memory.as_ptr().align_offset(HUGE_PAGE);
    let n_bytes = memory.len().saturating_sub(before) & !(HUGE_PAGE - 1);
    #[cfg(target_os = "linux")]
    if n_bytes > 0 {
        // SAFETY: memory that we were lent, whole pages of it. It is advice: whether it is taken changes no byte.
        unsafe { libc::madvise(memory.as_mut_ptr().add(before).cast(), n_bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = n_bytes;
}

/// Whether the system has memory of this size for the process. Memory that the heap has already is not counted, since the heap may not
/// share it with new threads.
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

/// Begins to read what comes a page behind some bytes that are read in order. CPUs that read ahead by themselves stop where a page ends, look less
/// far while gathers are under way, and some do not look at loads with masks.
#[inline(always)]
pub fn fetch_ahead(bytes: &[u8]) {
    /// A page.
    #[cfg(target_arch = "x86_64")]
    const AHEAD: usize = 4096;
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes.len()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has this instruction, which reads nothing that the program sees, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(AHEAD + line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
