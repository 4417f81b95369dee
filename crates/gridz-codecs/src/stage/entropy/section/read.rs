//! Reads a section. For damaged bytes, all CPU levels read the same numbers, or all report an error.

use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::stage::bits::peek_32;
use crate::stage::entropy::lanes::{Codes, LANES, Reader, Table, WORD_BYTES};
use crate::stage::entropy::section::{GAP, HEAD_BYTES, LEAST_GAP, MARKED, Work, look_up};
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx2, Avx512, lanes as simd, lanes_avx2};
use crate::stage::entropy::symbols::{Number, above_tail};

/// Reads a section at the start of `bytes`; returns its byte count. There is at least one number,
/// and at most as many as `work` has memory for.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
pub fn read<T: Number>(bytes: &[u8], numbers: &mut [T], work: &mut Work<T>, level: Isa) -> Result<usize> {
    let early = || damage("too few bytes");
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(early)?;
    let field = |i: usize| usize::from(u16::from_le_bytes([head[2 * i], head[2 * i + 1]]));
    let [lowest, n_symbols, length_bytes, n_words] = [field(0), field(1), field(2), field(3)];
    let last = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    let n_rows = numbers.len().div_ceil(LANES);
    let bitmap_bytes = if last & MARKED > 0 { n_rows.div_ceil(8) } else { 0 };
    if lowest + n_symbols > T::SYMBOLS {
        return Err(damage("invalid symbols"));
    }
    let (words, rest) = rest.split_at_checked(WORD_BYTES * n_words).ok_or_else(early)?;
    let (bitmap, rest) = rest.split_at_checked(bitmap_bytes).ok_or_else(early)?;
    let (lengths, rest) = rest.split_at_checked(length_bytes).ok_or_else(early)?;
    let tails = rest.get(..(last & !MARKED) as usize).ok_or_else(early)?;
    let n_bytes = bytes.len() - rest.len() + tails.len();

    let of_symbols = &mut work.lengths[..n_symbols];
    of_symbols.fill(0);
    read_lengths(lengths, of_symbols)?;
    let codes = Codes::new(of_symbols).ok_or_else(|| damage("codes that overlap or are incomplete"))?;
    let n_used = codes.rank(of_symbols, lowest, &mut work.by_rank);
    let is_marked = |row: usize| bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
    let n_coded = LANES * (0..n_rows).filter(|&row| !is_marked(row)).count();
    if n_used == 0 && n_coded > 0 {
        return Err(damage("numbers without codes"));
    }
    let (by_rank, ranks) = (&mut work.by_rank[..n_used], &mut work.symbols[..n_coded]);
    let entries = &mut work.codes[..n_coded];
    let reader = Reader::new(words);
    if bitmap.is_empty() && n_coded == numbers.len() {
        let n_read = read_rows(&codes, by_rank, reader, &mut work.table, ranks, numbers, level)?;
        read_tails(&mut numbers[n_read..], &ranks[n_read..], by_rank, &mut entries[n_read..], tails, level)?;
        return Ok(n_bytes);
    }
    let coded = &mut work.coded[..n_coded];
    let n_read = read_rows(&codes, by_rank, reader, &mut work.table, ranks, coded, level)?;
    let ends_coded = n_rows > 0 && !is_marked(n_rows - 1);
    let n_numbers = n_coded - if ends_coded { n_rows * LANES - numbers.len() } else { 0 };
    let rest = &mut coded[n_read.min(n_numbers)..n_numbers];
    read_tails(rest, &ranks[n_read..], by_rank, &mut entries[n_read..], tails, level)?;
    let mut coded = coded.chunks_exact(LANES);
    for (row, numbers) in numbers.chunks_mut(LANES).enumerate() {
        match if is_marked(row) { None } else { coded.next() } {
            Some(coded) => numbers.copy_from_slice(&coded[..numbers.len()]),
            None => numbers.fill(T::default()),
        }
    }
    Ok(n_bytes)
}

/// Reads the ranks of whole rows. May write the first numbers directly instead, without their
/// ranks; returns how many.
fn read_rows<T: Number>(
    codes: &Codes,
    by_rank: &[u16],
    mut reader: Reader,
    table: &mut Table,
    ranks: &mut [u16],
    numbers: &mut [T],
    level: Isa,
) -> Result<usize> {
    let (mut n_ranks, mut n_numbers) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        if let Some(bytes) = T::as_bytes_mut(numbers) {
            let by_rank = std::array::from_fn(|rank| by_rank.get(rank).map_or(0, |&symbol| symbol as u8));
            n_numbers = simd::read_bytes(avx512, codes, &by_rank, &mut reader, bytes);
            n_ranks = n_numbers;
        } else {
            n_ranks = simd::read(avx512, codes, &mut reader, ranks);
        }
    } else if let Some(avx2) = Avx2::at(level) {
        if let Some(bytes) = T::as_bytes_mut(numbers) {
            n_numbers = lanes_avx2::read_bytes(avx2, codes, by_rank, &mut reader, bytes);
            n_ranks = n_numbers;
        } else {
            n_ranks = lanes_avx2::read(avx2, codes, &mut reader, ranks);
        }
    }
    reader.read(codes, table, &mut ranks[n_ranks..]);
    if !reader.is_done() {
        return Err(damage("a wrong number of words"));
    }
    Ok(n_numbers)
}

/// Width of the field for a tail's bit count, which is below 32. The bits above the field are the
/// number without its tail.
pub const LOG_BITS: u32 = 5;

/// Builds numbers from the ranks of their symbols, in whole rows, and from their tails. Overwrites
/// `by_rank` and `entries`.
fn read_tails<T: Number>(
    numbers: &mut [T],
    ranks: &[u16],
    by_rank: &mut [u16],
    entries: &mut [u16],
    tails: &[u8],
    level: Isa,
) -> Result<()> {
    for symbol in by_rank.iter_mut() {
        let (above, n_bits) = above_tail((*symbol).into());
        *symbol = (above << LOG_BITS | n_bits) as u16;
    }
    look_up(by_rank, 0, ranks, entries, level);
    let have_tails = |row: &[u16]| row.iter().fold(0, |any, entry| any | entry) % (1 << LOG_BITS) > 0;
    let (mut done, mut at) = (0, 0);
    // Often only few rows have tails, such as the first row of differences.
    while done < numbers.len() {
        let mut rows = entries[done..].chunks(LANES).map(have_tails).peekable();
        let with_tails = rows.peek() == Some(&true);
        let n_rows = rows.take_while(|&with| with == with_tails).count();
        let end = numbers.len().min(done + LANES * n_rows);
        let (numbers, entries) = (&mut numbers[done..end], &entries[done..end]);
        if with_tails {
            at = read_with_tails(numbers, entries, tails, at, level);
        } else {
            for (number, &entry) in numbers.iter_mut().zip(entries) {
                *number = T::from_u32(u32::from(entry) >> LOG_BITS);
            }
        }
        done = end;
    }
    if at.div_ceil(8) == tails.len() { Ok(()) } else { Err(damage("a wrong number of tail bits")) }
}

/// Builds numbers from `entries` and from their tails, which begin at bit `at`; returns the end of
/// these.
fn read_with_tails<T: Number>(
    numbers: &mut [T],
    entries: &[u16],
    tails: &[u8],
    mut at: usize,
    level: Isa,
) -> usize {
    let mut n_read = 0;
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        (n_read, at) = simd::read_tails(avx512, entries, tails, at, numbers);
    }
    // Without branches: whether a number has a tail is hard to predict.
    for (number, &entry) in numbers[n_read..].iter_mut().zip(&entries[n_read..]) {
        let n_bits = u32::from(entry) % (1 << LOG_BITS);
        let tail = peek_32(tails, at) & ((1 << n_bits) - 1);
        *number = T::from_u32(u32::from(entry) >> LOG_BITS << n_bits | tail);
        at += n_bits as usize;
    }
    at
}

/// Reads code lengths from 4-bit values. No byte may be left over.
fn read_lengths(bytes: &[u8], lengths: &mut [u8]) -> Result<()> {
    let mut halves = bytes.iter().flat_map(|byte| [byte % 16, byte / 16]);
    let mut n_read = 0_usize;
    let mut next = || {
        n_read += 1;
        halves.next().ok_or_else(|| damage("too few bytes"))
    };
    let mut at = 0;
    while at < lengths.len() {
        match next()? {
            GAP => at += LEAST_GAP + usize::from(next()?),
            length => {
                lengths[at] = length;
                at += 1;
            }
        }
    }
    if at > lengths.len() || n_read.div_ceil(2) != bytes.len() || halves.any(|half| half != 0) {
        return Err(damage("a wrong number of symbols"));
    }
    Ok(())
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a section of Huffman codes is damaged: it has {what}"))
}
