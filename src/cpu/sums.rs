//! The payload checksum's sums with vector instructions, see `format::checksum`.
//!
//! Words with even and with odd numbers are squared apart, because the multiplication takes every other word.

#![allow(unsafe_code)] // vector instructions and loads

use std::arch::x86_64::*;

use crate::format::checksum::{K, Sums};

/// What is summed at a time.
pub type Row = [u8; 64];

/// The sums with registers of `$bytes`.
macro_rules! level {
    (
        $name:ident, $register:ty, $bytes:literal, $load:ident, $store:ident, $zero:ident, $set1:ident, $xor:ident,
        $odd:ident, $mul:ident, $add:ident
    ) => {
        /// Sums over rows.
        #[derive(Clone, Copy)]
        pub struct $name {
            plain: [$register; 2],
            running: [$register; 2],
        }

        impl $name {
            /// # Safety
            /// The CPU must have the instructions. That holds for the methods, too.
            #[inline(always)]
            pub unsafe fn new() -> Self {
                // SAFETY: the caller's promise.
                unsafe { Self { plain: [$zero(); 2], running: [$zero(); 2] } }
            }

            /// Adds a row.
            ///
            /// # Safety
            /// As for [`Self::new`].
            #[inline(always)]
            pub unsafe fn add(&mut self, row: &Row) {
                // SAFETY: the caller's promise; a part of a row is as long as a register.
                unsafe {
                    for part in row.as_chunks::<$bytes>().0 {
                        let words = $xor($load(part.as_ptr().cast()), $set1(K as i32));
                        let words = [words, $odd::<32>(words)];
                        for odd in 0..2 {
                            self.plain[odd] = $add(self.plain[odd], $mul(words[odd], words[odd]));
                            self.running[odd] = $add(self.running[odd], self.plain[odd]);
                        }
                    }
                }
            }

            /// The sums of the rows, of which there were so many.
            ///
            /// # Safety
            /// As for [`Self::new`].
            #[inline(always)]
            pub unsafe fn total(self, n_rows: usize) -> Sums {
                const LANES: usize = $bytes / 8;
                let mut lanes = [[0; 2 * LANES]; 2];
                for (lanes, sums) in lanes.iter_mut().zip([self.plain, self.running]) {
                    for odd in 0..2 {
                        let mut half = [0u64; LANES];
                        // SAFETY: the caller's promise; the lanes are as long as a register.
                        unsafe { $store(half.as_mut_ptr().cast(), sums[odd]) };
                        for lane in 0..LANES {
                            lanes[2 * lane + odd] = half[lane];
                        }
                    }
                }
                let [plain, running] = lanes;
                Sums::from_lanes(&plain, &running, n_rows * (size_of::<Row>() / $bytes))
            }

            /// The sums of `bytes`.
            ///
            /// # Safety
            /// As for [`Self::new`].
            #[inline(always)]
            pub unsafe fn of(bytes: &[u8]) -> Sums {
                let (rows, rest) = bytes.as_chunks();
                // SAFETY: the caller's promise.
                unsafe {
                    let mut sums = Self::new();
                    for row in rows {
                        // What follows is mostly the next block's, and about as long: to be read, or to be written.
                        _mm_prefetch::<_MM_HINT_T1>(row.as_ptr().wrapping_add(bytes.len()).cast());
                        sums.add(row);
                    }
                    sums.total(rows.len()).then_bytes(rest)
                }
            }
        }
    };
}

level!(
    Avx512,
    __m512i,
    64,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_setzero_si512,
    _mm512_set1_epi32,
    _mm512_xor_si512,
    _mm512_srli_epi64,
    _mm512_mul_epu32,
    _mm512_add_epi64
);
level!(
    Avx2,
    __m256i,
    32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_setzero_si256,
    _mm256_set1_epi32,
    _mm256_xor_si256,
    _mm256_srli_epi64,
    _mm256_mul_epu32,
    _mm256_add_epi64
);
