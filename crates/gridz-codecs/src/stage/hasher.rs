//! Computes the sums of the payload checksum with the best instructions of the CPU, see
//! `format::checksum`.
//!
//! Vectors multiply every other word, so even and odd lanes are summed separately. A row of 64
//! bytes takes two multiplications, two additions and a shift for each register. The keys of a
//! group of rows are computed at once.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use crate::cpu::isa::Isa;
use crate::format::checksum::{Checksum, LaneSums, ROW_BYTES, RowSplit};
#[cfg(target_arch = "x86_64")]
use crate::settings::CpuLevel;

/// Adds up the sums of parts of a payload.
pub struct Hasher {
    level: Isa,
    prefetch: Prefetch,
    lanes: LaneSums,
}

/// Whether to prefetch the bytes that follow the summed bytes, as many as these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// The bytes that follow are read or written soon, after other work.
    Following,
    /// Nothing follows, or the CPU prefetches it by itself.
    Nothing,
}

impl Hasher {
    /// Starts with empty sums and uses the instructions of `level`.
    pub fn new(level: Isa, prefetch: Prefetch) -> Self {
        Self { level, prefetch, lanes: LaneSums::default() }
    }

    /// Adds `bytes`, which are at byte `start` of the payload, a multiple of 4.
    pub fn update(&mut self, bytes: &[u8], start: u64) {
        let split = RowSplit::of(bytes, start);
        match self.level.kind() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` is proof that the CPU has its instructions.
            CpuLevel::Avx512 => unsafe { avx512::add(&mut self.lanes, &split, self.prefetch) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            CpuLevel::Avx2 => unsafe { avx2::add(&mut self.lanes, &split, self.prefetch) },
            _ => split.add(&mut self.lanes),
        }
    }

    /// The sums of all bytes added.
    pub fn checksum(&self) -> Checksum {
        Checksum::from_lanes(&self.lanes)
    }
}

/// Rows whose keys are computed at once.
const GROUP: usize = 16;

/// Sums bytes block by block while they are in the cache. After each block it sums up to the last
/// complete row, or the last complete group of rows. Rows and groups need not end where blocks do.
pub struct IncrementalHasher {
    hasher: Hasher,
    start: u64,
    n_summed: usize,
}

impl IncrementalHasher {
    /// For bytes from byte `start` of the payload on, a multiple of 4; the first `n_summed` are
    /// left out.
    pub fn new(level: Isa, prefetch: Prefetch, start: u64, n_summed: usize) -> Self {
        Self { hasher: Hasher::new(level, prefetch), start, n_summed }
    }

    /// Sums the complete rows or groups of `bytes`, which are all bytes so far.
    pub fn update(&mut self, bytes: &[u8]) {
        let step = match self.hasher.prefetch {
            Prefetch::Following => GROUP * ROW_BYTES,
            // The CPU prefetches the bytes after the last ones read, so these must be the last ones
            // available.
            Prefetch::Nothing => ROW_BYTES,
        };
        let in_step = (self.start + bytes.len() as u64) % step as u64;
        let n_complete = bytes.len().saturating_sub(in_step as usize);
        if n_complete > self.n_summed {
            self.sum(&bytes[..n_complete]);
        }
    }

    /// Returns the sums of `bytes`, which are complete now.
    pub fn finish(mut self, bytes: &[u8]) -> Checksum {
        self.sum(bytes);
        self.hasher.checksum()
    }

    fn sum(&mut self, bytes: &[u8]) {
        self.hasher.update(&bytes[self.n_summed..], self.start + self.n_summed as u64);
        self.n_summed = bytes.len();
    }
}

/// The sums of `bytes`, which are at byte `start` of the payload, a multiple of 4.
pub fn checksum_of(level: Isa, prefetch: Prefetch, bytes: &[u8], start: u64) -> Checksum {
    let mut hasher = Hasher::new(level, prefetch);
    hasher.update(bytes, start);
    hasher.checksum()
}

/// The code of a level's module, which defines the type, the bytes and the operations of a
/// register.
#[cfg(target_arch = "x86_64")]
macro_rules! add {
    ($features:literal) => {
        /// Registers of a row.
        const PARTS: usize = ROW_BYTES / BYTES;

        /// Σ key·w of the even lanes, then of the odd ones.
        struct Registers([[Register; PARTS]; 2]);

        impl Registers {
            /// Adds the words of part `i` of a row.
            #[inline]
            #[target_feature(enable = $features)]
            fn add(&mut self, i: usize, words: Register, key: Register) {
                let [even, odd] = &mut self.0;
                even[i] = plus(even[i], product(words, key));
                odd[i] = plus(odd[i], product(shifted_pairs::<32>(words), key));
            }

            /// Adds a row.
            #[inline]
            #[target_feature(enable = $features)]
            fn add_row(&mut self, row: &Row, key: u32) {
                for (i, part) in row.as_chunks::<BYTES>().0.iter().enumerate() {
                    // SAFETY: a part of a row is as long as a register.
                    self.add(i, unsafe { load(part.as_ptr().cast()) }, broadcast(key as i32));
                }
            }

            /// Adds some words of a row, from lane `first` on.
            #[inline]
            #[target_feature(enable = $features)]
            fn add_some(&mut self, bytes: &[u8], first: usize, key: u32) {
                let row = bytes.as_ptr().wrapping_sub(4 * first);
                for i in 0..PARTS {
                    // SAFETY: what is loaded is within `bytes`.
                    let words = unsafe { load_some(row, i * BYTES / 4, first, first + bytes.len() / 4) };
                    self.add(i, words, broadcast(key as i32));
                }
            }
        }

        /// Vector version of [`RowSplit::add`].
        #[target_feature(enable = $features)]
        pub fn add(lanes: &mut LaneSums, split: &RowSplit, prefetch: Prefetch) {
            match prefetch {
                Prefetch::Following => add_all::<true>(lanes, split),
                Prefetch::Nothing => add_all::<false>(lanes, split),
            }
        }

        #[target_feature(enable = $features)]
        fn add_all<const PREFETCH: bool>(lanes: &mut LaneSums, split: &RowSplit) {
            let mut sums = Registers([[broadcast(0); PARTS]; 2]);
            let fetch = |row: &Row| {
                if PREFETCH {
                    _mm_prefetch::<_MM_HINT_T1>(row.as_ptr().wrapping_add(size_of_val(split.rows)).cast());
                }
            };
            let (groups, rest) = split.rows.as_chunks::<GROUP>();
            let mut number = split.first_row as u32;
            if !split.head.is_empty() {
                sums.add_some(split.head, split.head_lane, key(number.wrapping_sub(1)));
            }
            for group in groups {
                for (row, key) in group.iter().zip(keys_from(number)) {
                    fetch(row);
                    sums.add_row(row, key);
                }
                number = number.wrapping_add(GROUP as u32);
            }
            // With the partial last row, the rest is at most a group.
            if !(rest.is_empty() && split.tail.is_empty()) {
                let keys = keys_from(number);
                for (row, &key) in rest.iter().zip(&keys) {
                    fetch(row);
                    sums.add_row(row, key);
                }
                sums.add_some(split.tail, 0, keys[rest.len()]);
            }
            for (lanes, registers) in lanes.iter_mut().zip(sums.0) {
                let mut sums = [0_u64; LANES / 2];
                for (i, register) in registers.into_iter().enumerate() {
                    // SAFETY: the sums are as long as their registers.
                    unsafe { store(sums[i * BYTES / 8..].as_mut_ptr().cast(), register) };
                }
                for (lane, sum) in lanes.iter_mut().zip(sums) {
                    *lane = lane.wrapping_add(sum);
                }
            }
            split.add_last(lanes);
        }

        /// The keys of a group that begins with row `number`.
        #[inline]
        #[target_feature(enable = $features)]
        fn keys_from(number: u32) -> [u32; GROUP] {
            let mut all = [0; GROUP];
            for (part, first) in all.as_chunks_mut::<{ BYTES / 4 }>().0.iter_mut().zip((0..).step_by(BYTES / 4)) {
                // SAFETY: a part is as long as a register.
                unsafe { store(part.as_mut_ptr().cast(), keys(number.wrapping_add(first))) };
            }
            all
        }

        /// The keys of the rows of a register from `first` on.
        #[inline]
        #[target_feature(enable = $features)]
        fn keys(first: u32) -> Register {
            // SAFETY: there are as many numbers as a register has.
            let steps = unsafe { load(COUNT.as_ptr().cast()) };
            let x =
                times(plus_words(steps, broadcast(first.wrapping_add(1) as i32)), broadcast(MULTIPLIERS[0] as i32));
            let x = times(exclusive(x, shifted::<11>(x)), broadcast(MULTIPLIERS[1] as i32));
            let x = times(exclusive(x, shifted::<15>(x)), broadcast(MULTIPLIERS[2] as i32));
            exclusive(x, shifted::<14>(x))
        }
    };
}
/// Indices of words.
#[cfg(target_arch = "x86_64")]
const COUNT: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use crate::format::checksum::{LANES, MULTIPLIERS, Row, key};
    use std::arch::x86_64::{
        __m512i as Register, _MM_HINT_T1, _mm_prefetch, _mm512_add_epi32 as plus_words, _mm512_add_epi64 as plus,
        _mm512_loadu_si512 as load, _mm512_maskz_loadu_epi32, _mm512_mul_epu32 as product,
        _mm512_mullo_epi32 as times, _mm512_set1_epi32 as broadcast, _mm512_srli_epi32 as shifted,
        _mm512_srli_epi64 as shifted_pairs, _mm512_storeu_si512 as store, _mm512_xor_si512 as exclusive,
    };

    const BYTES: usize = 64;

    /// Loads the words of a row from lane `at` on, if they are in lanes `first..end`; the others
    /// are zeros.
    ///
    /// # Safety
    /// The words in these lanes can be read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_some(row: *const u8, _at: usize, first: usize, end: usize) -> Register {
        let mask = (1_u32 << end) - (1 << first);
        // SAFETY: the caller vouches for the words that are loaded.
        unsafe { _mm512_maskz_loadu_epi32(mask as u16, row.cast()) }
    }

    add!("avx512f");
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use crate::format::checksum::{LANES, MULTIPLIERS, Row, key};
    use std::arch::x86_64::{
        __m256i as Register, _MM_HINT_T1, _mm_prefetch, _mm256_add_epi32 as plus_words, _mm256_add_epi64 as plus,
        _mm256_andnot_si256, _mm256_cmpgt_epi32, _mm256_loadu_si256 as load, _mm256_maskload_epi32,
        _mm256_mul_epu32 as product, _mm256_mullo_epi32 as times, _mm256_set1_epi32 as broadcast,
        _mm256_srli_epi32 as shifted, _mm256_srli_epi64 as shifted_pairs, _mm256_storeu_si256 as store,
        _mm256_xor_si256 as exclusive,
    };

    const BYTES: usize = 32;

    /// Loads the words of a row from lane `at` on, if they are in lanes `first..end`; the others
    /// are zeros.
    ///
    /// # Safety
    /// The words in these lanes can be read.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_some(row: *const u8, at: usize, first: usize, end: usize) -> Register {
        // SAFETY: there are as many numbers as a register has.
        let lane = plus_words(unsafe { load(COUNT.as_ptr().cast()) }, broadcast(at as i32));
        let mask = _mm256_andnot_si256(
            _mm256_cmpgt_epi32(broadcast(first as i32), lane),
            _mm256_cmpgt_epi32(broadcast(end as i32), lane),
        );
        // SAFETY: the caller vouches for the words that are loaded.
        unsafe { _mm256_maskload_epi32(row.wrapping_add(4 * at).cast(), mask) }
    }

    add!("avx2");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_summed_once() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        let cases = [(0, 0, 4), (64, 0, 100), (20, 8, 36), (4, 640, 1000), (60, 64, 64), (1000, 24, 3000)];
        for ((start, left_out, step), prefetch) in
            cases.into_iter().flat_map(|case| [(case, Prefetch::Nothing), (case, Prefetch::Following)])
        {
            let mut hasher = IncrementalHasher::new(Isa::best(), prefetch, start, left_out);
            (left_out..bytes.len()).step_by(step).for_each(|end| hasher.update(&bytes[..end]));
            let expected = Checksum::of(&bytes[left_out..], start + left_out as u64);
            assert_eq!(hasher.finish(&bytes), expected, "{start} {left_out} {step}");
        }
    }

    #[test]
    fn every_level_sums_alike_wherever_the_bytes_are() {
        let bytes: Vec<u8> = (0..6000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        for level in Isa::all() {
            for start in [0, 4, 16, 60, 64, 1 << 20, (1 << 38) - 128] {
                for n in (0..150).chain([1024, 1027, 4096, 6000]) {
                    let bytes = &bytes[..n];
                    let sums = checksum_of(level, Prefetch::Following, bytes, start);
                    assert_eq!(sums, Checksum::of(bytes, start), "{level:?} {start} {n}");
                }
            }
        }
    }
}
