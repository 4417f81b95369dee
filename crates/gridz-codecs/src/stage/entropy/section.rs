//! A section: the numbers of a block as Huffman codes and tails.
//!
//! ```text
//! head, 12 bytes | words of the lanes | bitmap of zero rows | code lengths | tails
//! ```
//!
//! Numbers are coded in rows of 32. Rows of zeros may be flagged in a bitmap and omitted. The last
//! coded row is padded with copies of the last number. Codes have at most 11 bits if few symbols
//! are used, else up to 14.

use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::bytes_of;
use crate::error::{Error, Result, try_vec};
use crate::stage::bits::{self, peek_32};
use crate::stage::entropy::lanes::{
    Codes, LANES, MAX_BITS, Reader, Table, WORD_BITS, WORD_BYTES, Writer, code_of, ended,
};
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx512, lanes as simd};
use crate::stage::entropy::symbols::{Number, above_tail, any_symbol, have_tails, symbol, tail_bits};
use crate::stage::rows::{Simd, WithSimd, dispatch};

/// Maximum numbers in a block. It ensures that 16 bits can count the block's words.
pub const MAX_NUMBERS: usize = 1 << 16;
const MAX_ROWS: usize = MAX_NUMBERS / LANES;
/// Longest code if few symbols are used …
const FEW_BITS: u32 = 11;
/// … and otherwise, how many bits longer than the logarithm of the number of used symbols.
const MORE_BITS: u32 = 3;
const HEAD_BYTES: usize = 12;
/// Flag in the head's last field: the bitmap of zero rows is present. The bits below are the byte
/// count of the tails.
const MARKED: u32 = 1 << 31;
/// Escape among the 4-bit code lengths: the next 4 bits are the length of a run of symbols without
/// a code, minus `LEAST_GAP`.
const GAP: u8 = 15;
const LEAST_GAP: usize = 3;

/// Scratch memory, reused from block to block.
pub struct Work<T> {
    /// Numbers of the coded rows, padded to whole rows; used for reading.
    coded: Vec<T>,
    /// Symbols of the coded numbers; when reading, the ranks of their codes.
    symbols: Vec<u16>,
    /// Codes of the coded numbers in the form of [`ended`]; when reading, scratch memory.
    codes: Vec<u16>,
    /// For each symbol: four partial counts, the total count, the code in the form of [`ended`],
    /// and the code length.
    quarters: Vec<[u16; 4]>,
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
        Ok(Self {
            coded: filled(n)?,
            symbols: filled(n)?,
            codes: filled(n)?,
            quarters: filled(T::SYMBOLS)?,
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

/// Encodes the code lengths of consecutive symbols as 4-bit values; returns the number of values.
fn halve(lengths: &[u8], halves: &mut [u8]) -> usize {
    let (mut at, mut n) = (0, 0);
    while at < lengths.len() {
        let zeros =
            lengths[at..].iter().take(LEAST_GAP + usize::from(GAP)).take_while(|&&length| length == 0).count();
        if zeros < LEAST_GAP {
            halves[n] = lengths[at];
            (at, n) = (at + 1, n + 1);
        } else {
            (halves[n], halves[n + 1]) = (GAP, (zeros - LEAST_GAP) as u8);
            (at, n) = (at + zeros, n + 2);
        }
    }
    n
}

/// How the numbers of a block will be coded.
pub struct Coding {
    lowest: usize,
    n_symbols: usize,
    /// Number of 4-bit values that encode the code lengths.
    n_halves: usize,
    /// One bit for each row, set if the row is all zeros.
    bitmap: [u32; MAX_ROWS / 32],
    bitmap_bytes: usize,
    /// Numbers in the coded rows, with and without the padding.
    n_coded: usize,
    n_numbers: usize,
    longest: u32,
    lane_bits: [u32; LANES],
    n_words: usize,
    tail_bits: usize,
}

impl Coding {
    /// Chooses the coding of the first `n` numbers of `rows`: at least one, and at most as many as
    /// `work` has memory for. `rows` consists of whole rows. Afterwards it begins with the numbers
    /// that are coded.
    pub fn choose<T: Number>(rows: &mut [T], n: usize, work: &mut Work<T>, level: Isa) -> Self {
        dispatch(level, Choose { rows, n, work, level })
    }

    #[inline(always)]
    fn choose_inlined<T: Number>(rows: &mut [T], n: usize, work: &mut Work<T>, level: Isa) -> Self {
        let n_rows = n.div_ceil(LANES);
        let mut bitmap = [0u32; MAX_ROWS / 32];
        let mut n_marked = 0;
        for (row, numbers) in rows[..n].chunks(LANES).enumerate() {
            let is_zero = numbers.iter().fold(T::default(), |any, &number| any | number) == T::default();
            bitmap[row / 32] |= u32::from(is_zero) << (row % 32);
            n_marked += usize::from(is_zero);
        }
        // Omit zero rows if that pays: a zero takes at least one bit, a row in the bitmap exactly
        // one.
        let is_marked = LANES * n_marked > n_rows;
        let mut n_coded = n;
        if is_marked {
            n_coded = 0;
            for (row, from) in (0..n).step_by(LANES).enumerate() {
                if bitmap[row / 32] >> (row % 32) & 1 == 0 {
                    let end = n.min(from + LANES);
                    rows.copy_within(from..end, n_coded);
                    n_coded += end - from;
                }
            }
        }
        let n_numbers = n_coded;
        n_coded = n_numbers.next_multiple_of(LANES);
        if let Some(&last) = rows[..n_numbers].last() {
            rows[n_numbers..n_coded].fill(last);
        }
        let coded = &rows[..n_coded];
        let symbols = &mut work.symbols[..n_coded];
        let [lowest, end] = dispatch(level, Symbols { numbers: coded, symbols });
        let (quarters, counts) = (&mut work.quarters[..end], &mut work.counts[..end]);
        quarters.fill([0; 4]);
        count(symbols, quarters);
        counts.iter_mut().zip(quarters).for_each(|(count, quarters)| *count = whole(*quarters));
        let n_used = counts.iter().filter(|&&count| count > 0).count();
        let max_bits = (n_used.max(1).ilog2() + MORE_BITS).clamp(FEW_BITS, MAX_BITS);
        let lengths = &mut work.lengths[lowest..end];
        lengths.fill(0);
        T::set_lengths(&counts[lowest..], max_bits, lengths);
        let of_copies: usize = coded[n_numbers..].iter().map(|&number| symbol(number).1 as usize).sum();
        let mut coding = Self {
            lowest,
            n_symbols: end - lowest,
            n_halves: halve(lengths, &mut work.halves),
            bitmap,
            bitmap_bytes: if is_marked { n_rows.div_ceil(8) } else { 0 },
            n_coded,
            n_numbers,
            longest: 0,
            lane_bits: [0; LANES],
            n_words: 0,
            tail_bits: tail_bits(counts) - of_copies,
        };
        if n_used > 1 {
            coding.make_codes(work, level);
        }
        coding
    }

    /// Builds the codes of the coded numbers and counts their bits and words.
    #[inline(always)]
    fn make_codes<T: Number>(&mut self, work: &mut Work<T>, level: Isa) {
        let end = self.lowest + self.n_symbols;
        let lengths = &work.lengths[self.lowest..end];
        let all = Codes::new(lengths).expect("codes of lengths made here");
        self.longest = all.longest;
        let n_used = all.rank(lengths, self.lowest, &mut work.by_rank);
        for (rank, &symbol) in work.by_rank[..n_used].iter().enumerate() {
            let length = u32::from(work.lengths[usize::from(symbol)]);
            let code = (rank as u16).wrapping_sub(all.offsets[length as usize]);
            work.code_of[usize::from(symbol)] = ended(code << (WORD_BITS - length), length);
        }
        let codes = &mut work.codes[..self.n_coded];
        look_up(&work.code_of[..end], &work.symbols[..self.n_coded], codes, level);
        let mut lane_bits = [0; LANES];
        for row in codes.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                lane_bits[lane] += code_of(row[lane]).1 as u16;
            }
        }
        self.lane_bits = lane_bits.map(u32::from);
        self.n_words = Writer::new(&self.lane_bits, &last_row(codes), self.longest).n_words(&self.lane_bits);
    }

    /// Bytes of the section.
    pub fn n_bytes(&self) -> usize {
        HEAD_BYTES
            + WORD_BYTES * self.n_words
            + self.bitmap_bytes
            + self.length_bytes()
            + self.tail_bits.div_ceil(8)
    }

    fn length_bytes(&self) -> usize {
        self.n_halves.div_ceil(2)
    }

    /// Writes the section to `out`, which has exactly [`Coding::n_bytes`]. `rows` and `work` are
    /// those of the call of [`Coding::choose`]; no other block may have used `work` since.
    pub fn write<T: Number>(&self, rows: &[T], work: &Work<T>, level: Isa, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(HEAD_BYTES);
        let fields = [self.lowest, self.n_symbols, self.length_bytes(), self.n_words];
        for (field, bytes) in fields.iter().zip(head.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&(*field as u16).to_le_bytes());
        }
        let marked = if self.bitmap_bytes > 0 { MARKED } else { 0 };
        head[8..].copy_from_slice(&(self.tail_bits.div_ceil(8) as u32 | marked).to_le_bytes());
        let (words, rest) = rest.split_at_mut(WORD_BYTES * self.n_words);
        if self.n_words > 0 {
            let codes = &work.codes[..self.n_coded];
            write_words(Writer::new(&self.lane_bits, &last_row(codes), self.longest), codes, level, words);
        }
        let (bitmap, rest) = rest.split_at_mut(self.bitmap_bytes);
        bitmap
            .iter_mut()
            .zip(self.bitmap.iter().flat_map(|word| word.to_le_bytes()))
            .for_each(|(to, byte)| *to = byte);
        let (lengths, tails) = rest.split_at_mut(self.length_bytes());
        for (halves, to) in work.halves[..self.n_halves].chunks(2).zip(lengths) {
            *to = halves[0] | halves.get(1).map_or(0, |half| half << 4);
        }
        if self.tail_bits > 0 {
            dispatch(level, Tails { numbers: &rows[..self.n_numbers], out: tails });
        }
    }
}

/// [`Coding::choose`], compiled for a level.
struct Choose<'a, T> {
    rows: &'a mut [T],
    n: usize,
    work: &'a mut Work<T>,
    level: Isa,
}

impl<T: Number> WithSimd<u32> for Choose<'_, T> {
    type Output = Coding;

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) -> Coding {
        Coding::choose_inlined(self.rows, self.n, self.work, self.level)
    }
}

/// Writes the symbols of numbers; returns the lowest symbol and one more than the highest.
struct Symbols<'a, T> {
    numbers: &'a [T],
    symbols: &'a mut [u16],
}

impl<T: Number> WithSimd<u32> for Symbols<'_, T> {
    type Output = [usize; 2];

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) -> [usize; 2] {
        let Self { numbers, symbols } = self;
        let (mut least, mut end) = (u16::MAX, 0);
        let symbols = &mut symbols[..numbers.len()];
        for i in 0..numbers.len() {
            let symbol = any_symbol(numbers[i]).0 as u16;
            symbols[i] = symbol;
            (least, end) = (least.min(symbol), end.max(symbol + 1));
        }
        [least.min(end).into(), end.into()]
    }
}

/// Writes the tails of numbers.
struct Tails<'a, T> {
    numbers: &'a [T],
    out: &'a mut [u8],
}

impl<T: Number> WithSimd<u32> for Tails<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) {
        let mut writer = bits::Writer::new(self.out);
        let (rows, rest) = self.numbers.as_chunks();
        for row in rows {
            put_tails(row, &mut writer);
        }
        let mut last = [T::default(); LANES];
        last[..rest.len()].copy_from_slice(rest);
        put_tails(&last, &mut writer);
        writer.finish();
    }
}

/// Appends the tails of a row, four at a time, or two at a time if four do not fit in 64 bits.
#[inline(always)]
fn put_tails<T: Number>(row: &[T; LANES], writer: &mut bits::Writer) {
    // Often only few numbers have tails, such as the first difference of a block.
    if !have_tails(row) {
        return;
    }
    let (mut tails, mut n_bits) = ([0; LANES], [0; LANES]);
    for i in 0..LANES {
        n_bits[i] = any_symbol(row[i]).1;
        tails[i] = row[i].to_u32() & ((1 << n_bits[i]) - 1);
    }
    let (mut of_two, mut bits_of_two) = ([0; LANES / 2], [0; LANES / 2]);
    for i in 0..LANES / 2 {
        of_two[i] = u64::from(tails[2 * i]) | u64::from(tails[2 * i + 1]) << n_bits[2 * i];
        bits_of_two[i] = n_bits[2 * i] + n_bits[2 * i + 1];
    }
    let mut most = 0;
    for i in 0..LANES / 4 {
        most = most.max(bits_of_two[2 * i] + bits_of_two[2 * i + 1]);
    }
    if most > u64::BITS {
        for i in 0..LANES / 2 {
            writer.push_any(of_two[i], bits_of_two[i]);
        }
        return;
    }
    for i in 0..LANES / 4 {
        let of_four = of_two[2 * i] | of_two[2 * i + 1] << bits_of_two[2 * i];
        writer.push_any(of_four, bits_of_two[2 * i] + bits_of_two[2 * i + 1]);
    }
}

/// Code lengths of the last row, or zeros if there are no rows.
fn last_row(codes: &[u16]) -> [u32; LANES] {
    codes.last_chunk().map_or([0; LANES], |last: &[u16; LANES]| last.map(|code| code_of(code).1))
}

/// Builds the histogram of symbols. Every fourth symbol uses the same partial count: neighbors are
/// often equal, and no increment should wait for the one before.
#[inline(never)] // the vector instructions of the caller are of no use here
pub fn count(symbols: &[impl Copy + Into<usize>], quarters: &mut [[u16; 4]]) {
    let (fours, rest) = symbols.as_chunks::<4>();
    for four in fours {
        for (i, &symbol) in four.iter().enumerate() {
            quarters[symbol.into()][i] += 1;
        }
    }
    rest.iter().for_each(|&symbol| quarters[symbol.into()][0] += 1);
}

/// Sum of a symbol's partial counts.
pub fn whole(quarters: [u16; 4]) -> u32 {
    quarters.iter().map(|&count| u32::from(count)).sum()
}

/// Looks up symbols, in whole rows, in `table`.
fn look_up(table: &[u16], symbols: &[u16], found: &mut [u16], level: Isa) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        return simd::look_up(avx512, table, symbols, found);
    }
    found.iter_mut().zip(symbols).for_each(|(found, &symbol)| *found = table[usize::from(symbol)]);
}

/// Writes the words of whole rows of codes; they fill `out` exactly.
fn write_words(mut writer: Writer, codes: &[u16], level: Isa, out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        let end = simd::write(avx512, &mut writer, codes, out);
        writer.finish(&mut out[..end]);
        return;
    }
    let end = writer.write(codes, out);
    writer.finish(&mut out[..end]);
}

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
    let mut any_bits = 0;
    for symbol in by_rank.iter_mut() {
        let (above, n_bits) = above_tail((*symbol).into());
        any_bits |= n_bits;
        *symbol = (above << LOG_BITS | n_bits) as u16;
    }
    look_up(by_rank, ranks, entries, level);
    let (mut n_read, mut at) = (0, 0);
    if any_bits == 0 {
        for (number, &entry) in numbers.iter_mut().zip(&*entries) {
            *number = T::from_u32(u32::from(entry) >> LOG_BITS);
        }
        n_read = numbers.len();
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level).filter(|_| any_bits > 0) {
        (n_read, at) = simd::read_tails(avx512, entries, tails, numbers);
    }
    // Without branches: whether a number has a tail is hard to predict.
    for (number, &entry) in numbers[n_read..].iter_mut().zip(&entries[n_read..]) {
        let n_bits = u32::from(entry) % (1 << LOG_BITS);
        let tail = peek_32(tails, at) & ((1 << n_bits) - 1);
        *number = T::from_u32(u32::from(entry) >> LOG_BITS << n_bits | tail);
        at += n_bits as usize;
    }
    if at.div_ceil(8) == tails.len() { Ok(()) } else { Err(damage("a wrong number of tail bits")) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::entropy::huffman;

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
