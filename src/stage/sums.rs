//! The payload checksum's sums with the best instructions there are, see `format::checksum`.
//!
//! Vectors multiply every other word, so even and odd lanes are summed apart: a row of 64 bytes takes two
//! multiplications, two additions and a shift for each register, while the scalar units make its key. (Keys that are
//! made by vectors and read back from memory are faster alone, but not here: they wait behind what has just been written.)

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use crate::cpu::level::Level;
use crate::format::checksum::{Cut, LaneSums, ROW_BYTES, Row, Sums, add_rows};
use crate::settings::CpuLevel;

/// Adds up the sums of parts of a payload.
pub struct Summer {
    level: Level,
    ahead: Ahead,
    lanes: LaneSums,
}

/// Whether the CPU is told to fetch what follows the bytes that are summed, as much as those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// It follows soon, to be read or to be written, after work elsewhere.
    Fetch,
    /// Nothing follows, or the CPU foresees it.
    Leave,
}

impl Summer {
    /// Nothing summed so far, by the instructions of `level`.
    pub fn new(level: Level, ahead: Ahead) -> Self {
        Self { level, ahead, lanes: LaneSums::default() }
    }

    /// Adds `bytes`, which are in the payload from byte `start` on, a multiple of 4.
    pub fn add(&mut self, bytes: &[u8], start: u64) {
        let cut = Cut::of(bytes, start);
        match self.level.kind() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Level` is proof that the CPU has its instructions.
            CpuLevel::Avx512 => unsafe { avx512::add_rows(&mut self.lanes, cut.rows, cut.first_row, self.ahead) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            CpuLevel::Avx2 => unsafe { avx2::add_rows(&mut self.lanes, cut.rows, cut.first_row, self.ahead) },
            _ => add_rows(&mut self.lanes, cut.rows, cut.first_row),
        }
        // Later, as single lanes that were just written could not be read as vectors at once.
        cut.add_ends(&mut self.lanes);
    }

    /// The sums of all that was added.
    pub fn sums(&self) -> Sums {
        Sums::from_lanes(&self.lanes)
    }
}

/// Sums bytes that come block by block while they are in the cache: after each block the rows that are complete, which do
/// not end where blocks do.
pub struct Follower {
    summer: Summer,
    start: u64,
    n_summed: usize,
}

impl Follower {
    /// For bytes that are in the payload from byte `start` on, a multiple of 4; the first `n_summed` are left out.
    pub fn new(level: Level, ahead: Ahead, start: u64, n_summed: usize) -> Self {
        Self { summer: Summer::new(level, ahead), start, n_summed }
    }

    /// There are `bytes` now.
    pub fn follow(&mut self, bytes: &[u8]) {
        let in_row = (self.start + bytes.len() as u64) % ROW_BYTES as u64;
        let n_complete = bytes.len().saturating_sub(in_row as usize);
        if n_complete > self.n_summed {
            self.sum(&bytes[..n_complete]);
        }
    }

    /// The sums of `bytes`, which are all.
    pub fn finish(mut self, bytes: &[u8]) -> Sums {
        self.sum(bytes);
        self.summer.sums()
    }

    fn sum(&mut self, bytes: &[u8]) {
        self.summer.add(&bytes[self.n_summed..], self.start + self.n_summed as u64);
        self.n_summed = bytes.len();
    }
}

/// The sums of `bytes`, which are in the payload from byte `start` on, a multiple of 4.
pub fn sums_of(level: Level, ahead: Ahead, bytes: &[u8], start: u64) -> Sums {
    let mut summer = Summer::new(level, ahead);
    summer.add(bytes, start);
    summer.sums()
}

/// A level with registers of `$bytes`, of which `$n` are a row.
#[cfg(target_arch = "x86_64")]
macro_rules! level {
    (
        $name:ident, $features:literal, $register:ty, $bytes:literal, $n:literal, $load:ident, $store:ident, $set1:ident,
        $mul:ident, $odd:ident, $add:ident
    ) => {
        mod $name {
            use super::*;
            use crate::format::checksum::key;
            use std::arch::x86_64::*;

            /// As [`add_rows`](super::add_rows).
            #[target_feature(enable = $features)]
            pub fn add_rows(lanes: &mut LaneSums, rows: &[Row], first: u64, ahead: Ahead) {
                let load = |from: *const u64| {
                    // SAFETY: the lanes are as long as their registers.
                    unsafe { $load(from.cast()) }
                };
                let mut sums: [[$register; $n]; 2] =
                    [0, 1].map(|odd| std::array::from_fn(|i| load(lanes[odd][i * $bytes / 8..].as_ptr())));
                for (row, number) in rows.iter().zip(first..) {
                    if ahead == Ahead::Fetch {
                        _mm_prefetch::<_MM_HINT_T1>(row.as_ptr().wrapping_add(size_of_val(rows)).cast());
                    }
                    let key = $set1(key(number as u32) as i32);
                    for (i, part) in row.as_chunks::<$bytes>().0.iter().enumerate() {
                        // SAFETY: a part of a row is as long as a register.
                        let words = unsafe { $load(part.as_ptr().cast()) };
                        sums[0][i] = $add(sums[0][i], $mul(words, key));
                        sums[1][i] = $add(sums[1][i], $mul($odd::<32>(words), key));
                    }
                }
                for odd in 0..2 {
                    for i in 0..$n {
                        // SAFETY: as for the loads.
                        unsafe { $store(lanes[odd][i * $bytes / 8..].as_mut_ptr().cast(), sums[odd][i]) };
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
level!(
    avx512,
    "avx512f",
    __m512i,
    64,
    1,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_set1_epi32,
    _mm512_mul_epu32,
    _mm512_srli_epi64,
    _mm512_add_epi64
);
#[cfg(target_arch = "x86_64")]
level!(
    avx2,
    "avx2",
    __m256i,
    32,
    2,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_set1_epi32,
    _mm256_mul_epu32,
    _mm256_srli_epi64,
    _mm256_add_epi64
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_summed_once() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        for (start, left_out, step) in [(0, 0, 4), (64, 0, 100), (20, 8, 36), (4, 640, 1000), (60, 64, 64)] {
            let mut follower = Follower::new(Level::best(), Ahead::Leave, start, left_out);
            (left_out..bytes.len()).step_by(step).for_each(|end| follower.follow(&bytes[..end]));
            let expected = Sums::of(&bytes[left_out..], start + left_out as u64);
            assert_eq!(follower.finish(&bytes), expected, "{start} {left_out} {step}");
        }
    }

    #[test]
    fn every_level_sums_alike_wherever_the_bytes_are() {
        let bytes: Vec<u8> = (0..6000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        for level in Level::all() {
            for start in [0, 4, 16, 60, 64, 1 << 20, (1 << 38) - 128] {
                for n in (0..150).chain([1024, 1027, 4096, 6000]) {
                    let bytes = &bytes[..n];
                    let sums = sums_of(level, Ahead::Fetch, bytes, start);
                    assert_eq!(sums, Sums::of(bytes, start), "{level:?} {start} {n}");
                }
            }
        }
    }
}
