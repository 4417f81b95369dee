//! HUFF: bit lengths as Huffman codes, and the bits below the highest one verbatim.
//!
//! Numbers of similar length cluster, so a code depends on the two previous lengths: there are four
//! contexts, each with a code of its own. The block is split among 32 lanes with a bit string each.
//! Decoding one string is a chain of dependent steps; a CPU interleaves several strings, and a GPU
//! gives each to a thread. A run of zeros takes one bit.

mod read;
mod write;

use crate::error::Error;
use crate::stage::word::Word;
pub use read::read;
pub use write::Coding;

/// Bits of the longest code.
const MAX_BITS: u32 = 10;
/// Symbols are bit lengths.
const MAX_SYMBOLS: usize = 65;
/// Numbers of a run.
const RUN: usize = 32;
const LANES: usize = 32;
const CONTEXTS: usize = 4;
/// Maximum number of runs of a block.
const MAX_RUNS: usize = (1 << 14) / RUN;

/// True if the numbers of a block are coded by columns. In short rows, neighbors along a row are
/// often of different kinds, such as the components of a vector.
pub fn is_by_columns(shape: [usize; 3], is_masked: bool) -> bool {
    shape[2] < RUN && shape[0] * shape[1] > 1 && !is_masked
}

/// Transposes numbers with rows of `row` elements: writes them by columns to the start of `out`.
pub fn to_columns<W: Word>(numbers: &[W], row: usize, out: &mut [W]) {
    for (x, column) in out.chunks_exact_mut(numbers.len() / row).take(row).enumerate() {
        for (number, row) in column.iter_mut().zip(numbers.chunks_exact(row)) {
            *number = row[x];
        }
    }
}

/// The inverse of [`to_columns`].
pub fn from_columns<W: Word>(numbers: &[W], row: usize, out: &mut [W]) {
    for (x, column) in numbers.chunks_exact(numbers.len() / row).enumerate() {
        for (&number, row) in column.iter().zip(out.chunks_exact_mut(row)) {
            row[x] = number;
        }
    }
}

/// The context after two symbols with this sum. `pivot` is the median symbol.
#[inline(always)]
fn context(sum: u32, pivot: u32) -> u32 {
    // 0 below 2 · pivot − 3, 1 below 2 · pivot, 2 up to 2 · pivot + 1, and 3 above.
    u32::from(sum + 3 >= 2 * pivot) + u32::from(sum >= 2 * pivot) + u32::from(sum > 2 * pivot + 1)
}

/// Bytes of the header: the lowest and the highest symbol, the pivot, the flags, and the fewest bytes
/// of a lane.
const HEADER: usize = 6;
/// The flag that says that a bitmap of runs of zeros follows; the bits below are those of a lane's
/// field.
const HAS_ZERO_RUNS: u8 = 0x80;
/// Maximum number of bits of a lane's field.
const MAX_FIELD_BITS: u32 = 16;

/// Bytes of the code lengths.
fn length_bytes(lowest: u8, highest: u8) -> usize {
    (CONTEXTS * (usize::from(highest) - usize::from(lowest) + 1)).div_ceil(2)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a lorenzo block is damaged: it has {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::bits::peek;
    use crate::stage::entropy::huffman;

    fn noise(i: usize) -> u64 {
        let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn round_trip<W: Word + std::fmt::Debug>(numbers: &[W]) -> Vec<u8> {
        let coding = Coding::choose(numbers);
        let mut out = vec![0xee; coding.n_bytes()];
        coding.write(numbers, &mut out);
        let mut back = vec![W::from_u64(7); numbers.len()];
        assert_eq!(read(&out, &mut back).unwrap(), out.len());
        assert_eq!(back, numbers);
        out
    }

    #[test]
    fn numbers_of_all_lengths_come_back() {
        for n in [1, 31, 32, 33, 1000, 1024, 1025, 8192, 16384, 16383] {
            for length in [0, 1, 2, 17, 31, 32, 63, 64] {
                let numbers: Vec<u64> = (0..n)
                    .map(|i| noise(i) >> (64 - length.max(1)) >> (noise(i + n) % 9) >> u32::from(length == 0))
                    .collect();
                round_trip(&numbers);
                if length <= 32 {
                    round_trip(&numbers.iter().map(|&x| x as u32).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn columns_come_back() {
        let numbers: Vec<u32> = (0..35).collect();
        for row in [1, 5, 7, 35] {
            let (mut columns, mut back) = ([0; 40], [0; 40]);
            to_columns(&numbers, row, &mut columns);
            assert_eq!(columns[1], if row < 35 { row as u32 } else { 1 });
            from_columns(&columns[..35], row, &mut back);
            assert_eq!(back[..35], numbers);
        }
    }

    #[test]
    fn zero_runs_take_a_bit() {
        let numbers: Vec<u32> =
            (0..8192).map(|i| if i / 500 % 4 == 3 { noise(i) as u32 >> 20 } else { 0 }).collect();
        assert!(round_trip(&numbers).len() < 4500);
        assert!(round_trip(&vec![0u64; 8192]).len() < 50);
    }

    /// The definition, number by number. Returns the numbers and their bytes.
    fn by_definition<W: Word>(bytes: &[u8], n: usize) -> Option<(Vec<W>, usize)> {
        let n_runs = n.div_ceil(RUN);
        let (&[lowest, highest, pivot, flags, low, high], rest) = bytes.split_first_chunk()?;
        let (flag, width) = (flags >> 7, flags & 0x7f);
        if lowest > highest || u32::from(highest.max(pivot)) > W::BITS || width > 16 {
            return None;
        }
        let (bitmap, rest) = rest.split_at_checked(usize::from(flag) * n_runs.div_ceil(8))?;
        let (lengths, rest) = rest.split_at_checked(length_bytes(lowest, highest))?;
        let (fields, strings) = rest.split_at_checked(4 * usize::from(width))?;
        let lane_bytes = |lane: usize| {
            let bit = |k: usize| usize::from(fields[k / 8] >> (k % 8) & 1);
            let width = usize::from(width);
            let field = (0..width).map(|k| bit(lane * width + k) << k).sum::<usize>();
            Some(usize::from(low) + 256 * usize::from(high) + field).filter(|&n| n < 1 << 16)
        };
        if (0..LANES).any(|lane| lane_bytes(lane).is_none()) {
            return None;
        }
        let n_symbols = usize::from(highest - lowest) + 1;
        let mut codes = vec![];
        for context in 0..CONTEXTS {
            let mut of_context = [0; MAX_SYMBOLS];
            for k in 0..n_symbols {
                let at = context * n_symbols + k;
                of_context[usize::from(lowest) + k] = lengths[at / 2] >> (at % 2 * 4) & 15;
            }
            codes.push(huffman::codes(&of_context, MAX_BITS)?.collect::<Vec<_>>());
        }
        let mut numbers = vec![W::default(); n];
        let per_lane = n_runs.div_ceil(LANES);
        let mut end = 0;
        for lane in 0..LANES {
            let mut at = 8 * end;
            end += lane_bytes(lane)?;
            let mut history = [u32::from(pivot); 2];
            for run in (lane * per_lane).min(n_runs)..((lane + 1) * per_lane).min(n_runs) {
                if flag == 1 && bitmap[run / 8] >> (run % 8) & 1 == 1 {
                    history = [0; 2];
                    continue;
                }
                for number in &mut numbers[run * RUN..n.min((run + 1) * RUN)] {
                    let of_context = &codes[context(history[0] + history[1], pivot.into()) as usize];
                    let bits = peek(strings, at);
                    let is_next = |&&(_, code, n): &&(usize, u32, u32)| bits & ((1 << n) - 1) == u64::from(code);
                    let &(symbol, _, n_bits) = of_context.iter().find(is_next)?;
                    let tail_bits = symbol.saturating_sub(1) as u32;
                    let tail = W::from_u64(peek(strings, at + n_bits as usize)) & W::low_mask(tail_bits);
                    *number = if symbol == 0 { tail } else { tail | W::from_u64(1 << tail_bits) };
                    at += (n_bits + tail_bits) as usize;
                    history = [history[1], symbol as u32];
                }
            }
            if at > 8 * end {
                return None;
            }
        }
        (end <= strings.len()).then_some((numbers, bytes.len() - strings.len() + end))
    }

    /// Damages the encoding of these numbers in many ways, and compares the decoder with the
    /// definition.
    fn damage<W: Word + std::fmt::Debug>(numbers: &[W]) {
        let out = round_trip(numbers);
        let mut back = vec![W::default(); numbers.len()];
        let mut n_read = 0;
        for at in 0..out.len() {
            let cut = out[..at].to_vec();
            let with = |value: u8| [&out[..at], &[value], &out[at + 1..]].concat();
            let flipped = with(out[at] ^ 1 << (noise(at) % 8));
            for damaged in [cut, flipped, with(0), with(0xff), with(noise(at) as u8)] {
                let n_bytes = read(&damaged, &mut back).ok();
                n_read += usize::from(n_bytes.is_some());
                let found = n_bytes.map(|n_bytes| (back.clone(), n_bytes));
                assert_eq!(found, by_definition(&damaged, numbers.len()), "byte {at} damaged");
            }
        }
        assert!(n_read > 0);
    }

    #[test]
    fn damaged_numbers_are_those_of_the_definition() {
        for (longest, spread) in [(9, 5), (29, 9), (32, 3)] {
            let short = |i: usize| noise(i) >> (64 - longest) >> (noise(i + 5000) % spread);
            damage::<u32>(&(0..500).map(|i| short(i) as u32).collect::<Vec<_>>());
            damage::<u64>(&(0..500).map(|i| short(i) << (64 - longest)).collect::<Vec<_>>());
            // With runs of zeros in some lanes.
            damage::<u32>(
                &(0..4000).map(|i| if i / 64 % 5 == 0 { short(i) as u32 } else { 0 }).collect::<Vec<_>>(),
            );
        }
    }
}
