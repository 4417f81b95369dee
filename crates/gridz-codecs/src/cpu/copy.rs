//! Copies that bypass the cache.
//!
//! A store to memory that is not in the cache first reads the old contents. If much is written that
//! is not read soon, these reads are a third of the traffic on the memory bus, and the cache loses
//! its contents. Streaming stores avoid both.
#![allow(unsafe_code, reason = "streaming stores are intrinsics")]

/// If at least this many bytes are written, they do not stay in a cache anyway.
pub const LARGE_BYTES: usize = 64 << 20;

/// Copies `src` to `dst`, which has the same length. Another thread sees the copy after [`settle`]
/// on this thread, followed by the usual synchronization of the two threads.
///
/// # Panics
/// If the lengths differ.
pub fn stream(src: &[u8], dst: &mut [u8]) {
    assert_eq!(src.len(), dst.len(), "the same length");
    #[cfg(target_arch = "x86_64")]
    {
        /// Bytes of a cache line.
        const LINE: usize = 64;
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = dst.as_ptr().align_offset(LINE).min(dst.len());
        let (src, rest_of_src) = src.split_at(head);
        let (dst, rest_of_dst) = dst.split_at_mut(head);
        dst.copy_from_slice(src);
        let mut lines = rest_of_dst.chunks_exact_mut(LINE);
        for (dst, src) in lines.by_ref().zip(rest_of_src.chunks_exact(LINE)) {
            let (dst, src) = (dst.as_mut_ptr().cast::<__m128i>(), src.as_ptr().cast::<__m128i>());
            // SAFETY: both are a line of four such words, and the line of `dst` is aligned. Every
            // x86-64 has these instructions.
            unsafe {
                // Written out, because closures that a build does not inline cost more than the
                // copy.
                let (a, b) = (_mm_loadu_si128(src), _mm_loadu_si128(src.add(1)));
                let (c, d) = (_mm_loadu_si128(src.add(2)), _mm_loadu_si128(src.add(3)));
                _mm_stream_si128(dst, a);
                _mm_stream_si128(dst.add(1), b);
                _mm_stream_si128(dst.add(2), c);
                _mm_stream_si128(dst.add(3), d);
            }
        }
        let tail = lines.into_remainder();
        tail.copy_from_slice(&rest_of_src[rest_of_src.len() - tail.len()..]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    dst.copy_from_slice(src);
}

/// Orders this thread's streaming stores before its next stores.
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_and_no_others() {
        let src: Vec<u8> = (0..1000).map(|i| (i * 7 + i / 256) as u8).collect();
        for from in [0, 1, 15, 16, 40] {
            for to in 0..70 {
                for n in [0, 1, 15, 63, 64, 65, 127, 128, 500, 900] {
                    let mut dst = vec![0xa5; 1000];
                    stream(&src[from..from + n], &mut dst[to..to + n]);
                    settle();
                    assert_eq!(dst[to..to + n], src[from..from + n]);
                    assert!(dst[..to].iter().chain(&dst[to + n..]).all(|&byte| byte == 0xa5));
                }
            }
        }
    }
}
