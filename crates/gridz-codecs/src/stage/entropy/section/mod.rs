//! A section: the numbers of a block as Huffman codes and tails.
//!
//! ```text
//! head, 12 bytes | words of the lanes | bitmap of zero rows | code lengths | tails
//! ```
//!
//! Numbers are coded in rows of 32. Rows of zeros may be flagged in a bitmap and omitted. The last
//! coded row is padded with copies of the last number. Codes have at most 11 bits if few symbols
//! are used, else up to 14.

mod read;
mod write;

use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::bytes_of;
use crate::error::{Result, try_vec};
use crate::stage::entropy::lanes::{LANES, Table};
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx2, Avx512, lanes as simd, lanes_avx2};
use crate::stage::entropy::symbols::Number;
pub use read::{LOG_BITS, read};
pub use write::{Coding, count};

/// Maximum number of numbers in a block. It ensures that 16 bits can count the block's words.
pub const MAX_NUMBERS: usize = 1 << 16;
const MAX_ROWS: usize = MAX_NUMBERS / LANES;
const HEAD_BYTES: usize = 12;
/// Flag in the head's last field: the bitmap of zero rows is present. The bits below are the byte
/// count of the tails.
const MARKED: u32 = 1 << 31;
/// Escape among the 4-bit code lengths: the next 4 bits are the length of a run of symbols without
/// a code, minus `LEAST_GAP`.
const GAP: u8 = 15;
const LEAST_GAP: usize = 3;

/// Scratch memory, reused from block to block.
pub struct Work<T: Number> {
    /// Numbers of the coded rows, padded to whole rows; used for reading.
    coded: Vec<T>,
    /// Symbols of the coded numbers; when reading, the ranks of their codes.
    symbols: Vec<u16>,
    /// Codes of the coded numbers in the form of `lanes::ended`; when reading, scratch memory.
    codes: Vec<u16>,
    /// Four tables of partial counts.
    quarters: Vec<T::Counts>,
    /// For each symbol: the count, the code in the form of `lanes::ended`, and the code length.
    counts: Vec<u32>,
    code_of: Vec<u16>,
    lengths: Vec<u8>,
    /// 4-bit values that encode the code lengths.
    halves: Vec<u8>,
    /// Symbols in the order of the ranks of their codes.
    by_rank: Vec<u16>,
    table: Table,
}

impl<T: Number> Work<T> {
    /// Allocates memory for blocks of up to `n` numbers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize) -> Result<Self> {
        fn filled<T: Copy + Default>(n: usize) -> Result<Vec<T>> {
            let mut all = try_vec(n, "a block")?;
            all.resize(n, T::default());
            Ok(all)
        }
        let n = n.next_multiple_of(LANES);
        let mut quarters = try_vec(4, "a block")?;
        quarters.resize_with(4, T::no_counts);
        Ok(Self {
            coded: filled(n)?,
            symbols: filled(n)?,
            codes: filled(n)?,
            quarters,
            counts: filled(T::SYMBOLS)?,
            code_of: filled(T::SYMBOLS)?,
            lengths: filled(T::SYMBOLS)?,
            halves: filled(T::SYMBOLS)?,
            by_rank: filled(T::SYMBOLS)?,
            table: Table::new()?,
        })
    }

    /// Bytes of the memory, without the table.
    pub fn n_bytes(&self) -> usize {
        let Self { coded, symbols, codes, quarters, counts, code_of, lengths, halves, by_rank, table: _ } = self;
        let of_symbols = [symbols, codes, code_of, by_rank].map(bytes_of).iter().sum::<usize>();
        let of_counts = bytes_of(quarters) + bytes_of(counts) + bytes_of(lengths) + bytes_of(halves);
        bytes_of(coded) + of_symbols + of_counts
    }
}

/// Looks up symbols, in whole rows, in `table`. No symbol is below `first`.
fn look_up(table: &[u16], first: usize, symbols: &[u16], found: &mut [u16], level: Isa) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        return simd::look_up(avx512, table, symbols, found);
    } else if let Some(avx2) = Avx2::at(level) {
        return lanes_avx2::look_up(avx2, table, first, symbols, found);
    }
    found.iter_mut().zip(symbols).for_each(|(found, &symbol)| *found = table[usize::from(symbol)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::entropy::huffman;
    use crate::stage::entropy::lanes::Codes;

    fn noise(i: usize) -> u64 {
        let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Numbers of varying bit lengths; short ones are frequent.
    fn falling<T: Number>(n: usize, spread: u64) -> Vec<T> {
        (0..n).map(|i| T::from_u32((noise(i) >> 32 >> (noise(i + n) % spread)) as u32)).collect()
    }

    fn written<T: Number>(numbers: &[T], level: Isa) -> Vec<u8> {
        let mut work = Work::new(numbers.len()).unwrap();
        let mut rows = numbers.to_vec();
        rows.resize(numbers.len().next_multiple_of(LANES), T::default());
        let coding = Coding::choose(&mut rows, numbers.len(), &mut work, level);
        let mut out = vec![0xee; coding.n_bytes()];
        coding.write(&rows, &work, level, &mut out);
        out
    }

    fn round_trip<T: Number>(numbers: &[T]) -> Vec<u8> {
        let out = written(numbers, Isa::PORTABLE);
        for level in Isa::all() {
            assert!(written(numbers, level) == out, "{level:?} writes the same");
            let mut work = Work::new(numbers.len()).unwrap();
            let mut back = vec![T::from_u32(7); numbers.len()];
            let behind = [&out[..], &[0xaa; 3]].concat();
            assert_eq!(read(&behind, &mut back, &mut work, level).unwrap(), out.len());
            assert!(back == numbers, "{level:?}");
        }
        out
    }

    #[test]
    fn numbers_come_back() {
        for n in [1, 2, 31, 32, 33, 63, 64, 1000, 1024, 1025, 4096, 1 << 15, MAX_NUMBERS] {
            for spread in [1, 2, 9, 32] {
                round_trip(&falling::<u8>(n, spread));
                round_trip(&falling::<u16>(n, spread));
                round_trip(&falling::<u32>(n, spread));
            }
            round_trip(&vec![5u8; n]);
            round_trip(&vec![0u16; n]);
            round_trip(&vec![u32::MAX; n]);
            round_trip(&(0..n).map(|i| (i / 700 % 2) as u16 * 2000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_symbols_at_once_come_back() {
        round_trip(&(0..MAX_NUMBERS).map(|i| i as u16).collect::<Vec<_>>());
        round_trip(&(0..MAX_NUMBERS).map(|i| (noise(i) >> 32 >> (i % 32)) as u32).collect::<Vec<_>>());
        round_trip(&(0..256).map(|i| i as u8).collect::<Vec<_>>());
    }

    #[test]
    fn fibonacci_numbers_of_each_come_back() {
        let mut numbers = Vec::new();
        let (mut n, mut next) = (1, 1);
        for symbol in 0..23 {
            numbers.extend(std::iter::repeat_n(symbol, n));
            (n, next) = (next, n + next);
        }
        numbers.truncate(MAX_NUMBERS);
        round_trip::<u8>(&numbers);
        round_trip(&numbers.iter().map(|&n| u16::from(n)).collect::<Vec<_>>());
    }

    #[test]
    fn rows_of_zeros_take_a_bit() {
        let numbers: Vec<u16> =
            (0..MAX_NUMBERS).map(|i| if i / 500 % 8 == 3 { 1 + (i % 7) as u16 } else { 0 }).collect();
        assert!(round_trip(&numbers).len() < 6000);
        assert!(round_trip(&vec![0u8; MAX_NUMBERS]).len() < 300);
        // The last row is short, and marked or not.
        for n in [70, 97] {
            let mut numbers = vec![0u8; n];
            numbers[0] = 1;
            round_trip(&numbers);
            numbers[n - 1] = 1;
            round_trip(&numbers);
        }
    }

    #[test]
    fn sizes_are_near_the_entropy() {
        for (spread, most) in [(3, 1.03), (6, 1.02)] {
            let numbers = falling::<u16>(1 << 15, spread).iter().map(|&n| n >> 7).collect::<Vec<u16>>();
            let mut counts = [0u32; 1 << 9];
            numbers.iter().for_each(|&n| counts[usize::from(n)] += 1);
            let n = numbers.len() as f64;
            let of = |&count: &u32| f64::from(count) * (n / f64::from(count)).log2();
            let bits: f64 = counts.iter().filter(|&&count| count > 0).map(of).sum();
            let lengths = huffman::lengths(&counts, 14);
            let coded: f64 =
                counts.iter().zip(lengths).map(|(&count, length)| f64::from(count * u32::from(length))).sum();
            assert!(coded < bits * 1.01);
            assert!((8 * round_trip(&numbers).len()) as f64 <= most * coded + 8.0 * 300.0);
        }
    }

    /// For any damage, all levels read the same numbers, or all report an error.
    #[test]
    fn damage_is_the_same_to_all() {
        fn check<T: Number>(numbers: &[T]) {
            let out = written(numbers, Isa::PORTABLE);
            let mut n_read = 0;
            for at in 0..out.len() {
                let with = |value: u8| [&out[..at], &[value], &out[at + 1..]].concat();
                for damaged in [out[..at].to_vec(), with(out[at] ^ 1 << (noise(at) % 8)), with(0), with(0xff)] {
                    let all: Vec<Option<(usize, Vec<T>)>> = Isa::all()
                        .map(|level| {
                            let mut work = Work::new(numbers.len()).unwrap();
                            let mut back = vec![T::default(); numbers.len()];
                            read(&damaged, &mut back, &mut work, level).ok().map(|n| (n, back))
                        })
                        .collect();
                    assert!(all.iter().all(|one| *one == all[0]), "byte {at}");
                    n_read += usize::from(all[0].is_some());
                }
            }
            assert!(n_read > 0);
        }
        check(&falling::<u8>(700, 9));
        check(&falling::<u16>(900, 12));
        check(&falling::<u32>(650, 20));
        check(&(0..3000).map(|i| if i / 64 % 5 == 0 { noise(i) as u16 >> 9 } else { 0 }).collect::<Vec<_>>());
    }

    #[test]
    fn tails_must_be_there() {
        // All numbers have the same symbol, which has a tail.
        let bytes = [0, 8, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        let (mut work, mut back) = (Work::new(40).unwrap(), [0_u16; 40]);
        for level in Isa::all() {
            assert!(read(&bytes, &mut back, &mut work, level).is_err());
        }
    }

    #[test]
    fn codes_must_be_complete() {
        assert!(Codes::new(&[1, 1]).is_some() && Codes::new(&[1]).is_some() && Codes::new(&[0, 0]).is_some());
        assert!(Codes::new(&[2, 2, 1]).is_some());
        for wrong in [&[1, 1, 1][..], &[2], &[2, 2, 2], &[1, 2], &[15], &[1, 15]] {
            assert!(Codes::new(wrong).is_none(), "{wrong:?}");
        }
    }
}
