//! Large pages of memory.
#![allow(unsafe_code, reason = "advice to the system about memory")]

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
