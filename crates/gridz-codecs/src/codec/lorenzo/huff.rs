//! HUFF: bit lengths as Huffman codes, and the bits below the highest one verbatim.
//!
//! Numbers of similar length cluster, so a code depends on the two previous lengths: there are four
//! contexts, each with a code of its own. The block is split among 32 lanes with a bit string each.
//! Decoding one string is a chain of dependent steps; a CPU interleaves several strings, and a GPU
//! gives each to a thread. A run of zeros takes one bit.

use crate::error::{Error, Result};
use crate::stage::bits::{WINDOW_BITS, Writer, peek, window};
use crate::stage::entropy::huffman;
use crate::stage::word::Word;

/// Bits of the longest code.
const MAX_BITS: u32 = 10;
/// Symbols are bit lengths.
const MAX_SYMBOLS: usize = 65;
/// Numbers of a run.
const RUN: usize = 32;
const LANES: usize = 32;
const CONTEXTS: usize = 4;
/// Most runs of a block.
const MAX_RUNS: usize = (1 << 14) / RUN;
/// Two numbers are read per window, unless more table entries than this belong to numbers that are
/// too long for that. If one in 32 numbers were too long, half of all runs would be decoded twice.
const MANY_LONG: u32 = (CONTEXTS << MAX_BITS) as u32 / 128;
/// Lanes that are decoded side by side.
const AT_ONCE: usize = 4;

/// The keys of all symbols in all contexts. A key is `symbol` + `MAX_SYMBOLS` · `context`.
const KEYS: usize = CONTEXTS * MAX_SYMBOLS;

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

/// A plan for coding some numbers.
pub struct Coding {
    n: usize,
    lowest: u8,
    highest: u8,
    pivot: u8,
    /// True for the runs that are all zeros.
    is_zero: [bool; MAX_RUNS],
    /// True if a bitmap of these runs is written, and they have no codes.
    has_zero_runs: bool,
    lengths: [[u8; MAX_SYMBOLS]; CONTEXTS],
    lane_bytes: [usize; LANES],
    /// The key of every number.
    keys: [u16; MAX_RUNS * RUN],
}

impl Coding {
    /// Plans how to code numbers.
    #[inline(always)]
    pub fn choose<W: Word>(numbers: &[W]) -> Self {
        let n = numbers.len();
        let n_runs = n.div_ceil(RUN);
        let mut symbols = [0u8; MAX_RUNS * RUN];
        let symbols = &mut symbols[..n];
        for (symbol, number) in symbols.iter_mut().zip(numbers) {
            *symbol = number.bit_length() as u8;
        }
        let mut is_zero = [false; MAX_RUNS];
        let mut n_zero_runs = 0;
        // Consecutive numbers often have the same length. With several tables, an increment need
        // not wait for the previous one.
        let mut counts = [[0u16; MAX_SYMBOLS]; 4];
        for (is_zero, run) in is_zero.iter_mut().zip(symbols.chunks(RUN)) {
            let mut any = 0;
            for (i, &symbol) in run.iter().enumerate() {
                any |= symbol;
                counts[i % 4][usize::from(symbol)] += 1;
            }
            *is_zero = any == 0;
            n_zero_runs += usize::from(any == 0);
        }
        let mut pivot = 0;
        let mut below = 0;
        for symbol in 0..MAX_SYMBOLS {
            for counts in &counts {
                below += usize::from(counts[symbol]);
            }
            if 2 * below > n {
                pivot = symbol as u8;
                break;
            }
        }
        let mut coding = Self {
            n,
            lowest: 0,
            highest: 0,
            pivot,
            is_zero,
            // A zero takes at least one bit.
            has_zero_runs: RUN * n_zero_runs > n_runs,
            lengths: [[0; MAX_SYMBOLS]; CONTEXTS],
            lane_bytes: [0; LANES],
            keys: [0; MAX_RUNS * RUN],
        };
        let lane = n_runs.div_ceil(LANES) * RUN;
        for (keys, symbols) in coding.keys[..n].chunks_mut(lane).zip(symbols.chunks(lane)) {
            make_keys(keys, symbols, pivot);
        }
        coding.choose_codes();
        coding
    }

    /// True if the numbers of a run have codes.
    #[inline(always)]
    fn is_coded(&self, run: usize) -> bool {
        !(self.has_zero_runs && self.is_zero[run])
    }

    #[inline(always)]
    fn choose_codes(&mut self) {
        let mut counts = [[0u16; KEYS]; 2];
        for (run, keys) in self.keys[..self.n].chunks(RUN).enumerate() {
            if self.is_coded(run) {
                for (i, &key) in keys.iter().enumerate() {
                    counts[i % 2][usize::from(key)] += 1;
                }
            }
        }
        let mut totals = [[0u32; MAX_SYMBOLS]; CONTEXTS];
        let (mut lowest, mut highest) = (MAX_SYMBOLS, 0);
        for (key, total) in totals.as_flattened_mut().iter_mut().enumerate() {
            *total = u32::from(counts[0][key]) + u32::from(counts[1][key]);
            if *total > 0 {
                lowest = lowest.min(key % MAX_SYMBOLS);
                highest = highest.max(key % MAX_SYMBOLS);
            }
        }
        (self.lowest, self.highest) = (lowest.min(highest) as u8, highest as u8);
        let mut bits = [0u32; KEYS];
        for (context, counts) in totals.iter().enumerate() {
            self.lengths[context] = huffman::lengths(counts, MAX_BITS);
            for (symbol, &length) in self.lengths[context].iter().enumerate() {
                bits[context * MAX_SYMBOLS + symbol] = u32::from(length) + symbol.saturating_sub(1) as u32;
            }
        }
        let per_lane = self.n.div_ceil(RUN).div_ceil(LANES);
        for (run, keys) in self.keys[..self.n].chunks(RUN).enumerate() {
            if self.is_coded(run) {
                let mut sum = 0;
                for &key in keys {
                    sum += bits[usize::from(key)];
                }
                self.lane_bytes[run / per_lane] += sum as usize;
            }
        }
        for bits in &mut self.lane_bytes {
            *bits = bits.div_ceil(8);
        }
    }

    fn zero_run_bytes(&self) -> usize {
        if self.has_zero_runs { self.n.div_ceil(RUN).div_ceil(8) } else { 0 }
    }

    fn length_bytes(&self) -> usize {
        length_bytes(self.lowest, self.highest)
    }

    /// Bytes of the encoded numbers.
    pub fn n_bytes(&self) -> usize {
        4 + self.zero_run_bytes() + self.length_bytes() + 2 * LANES + self.lane_bytes.iter().sum::<usize>()
    }

    /// Writes the planned numbers to `out`, which has exactly [`Coding::n_bytes`].
    #[inline(always)]
    pub fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let (start, out) = out.split_at_mut(4);
        start.copy_from_slice(&[self.lowest, self.highest, self.pivot, self.has_zero_runs.into()]);
        let (bitmap, out) = out.split_at_mut(self.zero_run_bytes());
        if self.has_zero_runs {
            let mut writer = Writer::new(bitmap);
            self.is_zero[..self.n.div_ceil(RUN)].iter().for_each(|&is_zero| writer.push(is_zero.into(), 1));
            writer.finish();
        }
        let (lengths, out) = out.split_at_mut(self.length_bytes());
        let mut writer = Writer::new(lengths);
        for of_context in &self.lengths {
            let used = &of_context[usize::from(self.lowest)..=usize::from(self.highest)];
            used.iter().for_each(|&length| writer.push(length.into(), 4));
        }
        writer.finish();
        let (lane_bytes, mut out) = out.split_at_mut(2 * LANES);
        for (bytes, &n) in lane_bytes.chunks_exact_mut(2).zip(&self.lane_bytes) {
            bytes.copy_from_slice(&(n as u16).to_le_bytes());
        }
        let mut codes = [(0, 0, 0); KEYS];
        for (context, lengths) in self.lengths.iter().enumerate() {
            for (symbol, code, length) in huffman::codes(lengths, MAX_BITS).expect("lengths of a tree") {
                codes[context * MAX_SYMBOLS + symbol] = (code, length, symbol.saturating_sub(1) as u32);
            }
        }
        let n_runs = self.n.div_ceil(RUN);
        let per_lane = n_runs.div_ceil(LANES);
        for (lane, &n) in self.lane_bytes.iter().enumerate() {
            let string;
            (string, out) = out.split_at_mut(n);
            let mut writer = Writer::new(string);
            for run in (lane * per_lane).min(n_runs)..((lane + 1) * per_lane).min(n_runs) {
                if !self.is_coded(run) {
                    continue;
                }
                let range = run * RUN..self.n.min((run + 1) * RUN);
                for (&key, &number) in self.keys[range.clone()].iter().zip(&numbers[range]) {
                    let (code, length, tail_bits) = codes[usize::from(key)];
                    let tail = number.to_u64() & ((1 << tail_bits) - 1);
                    if W::BITS == 32 {
                        writer.push(u64::from(code) | tail << length, length + tail_bits);
                    } else {
                        writer.push(code.into(), length);
                        writer.push(tail, tail_bits);
                    }
                }
            }
            writer.finish();
        }
    }
}

/// Computes the keys of a lane's numbers. After a run without codes, the history is as after zeros,
/// because all its symbols are zeros; so such runs need no special case here.
#[inline(always)]
fn make_keys(keys: &mut [u16], symbols: &[u8], pivot: u8) {
    let mut history = [pivot; 2];
    let pivot = u32::from(pivot);
    for (i, (key, &symbol)) in keys.iter_mut().zip(symbols).enumerate().take(2) {
        let sum = u32::from(history[0]) + u32::from(history[1]);
        *key = (u32::from(symbol) + MAX_SYMBOLS as u32 * context(sum, pivot)) as u16;
        history[i] = symbol;
    }
    if symbols.len() < 2 {
        return;
    }
    for ((key, pair), &symbol) in keys[2..].iter_mut().zip(symbols.windows(2)).zip(&symbols[2..]) {
        let sum = u32::from(pair[0]) + u32::from(pair[1]);
        *key = (u32::from(symbol) + MAX_SYMBOLS as u32 * context(sum, pivot)) as u16;
    }
}

/// Bytes of the code lengths.
fn length_bytes(lowest: u8, highest: u8) -> usize {
    (CONTEXTS * (usize::from(highest) - usize::from(lowest) + 1)).div_ceil(2)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a lorenzo block is damaged: it has {what}"))
}

/// A decoding table entry, in fields of a byte. From the lowest byte on: bits of code and tail
/// together, bits of the code, bits of the tail, and the symbol. The highest byte of the sum of two
/// entries is the sum of their symbols.
type Entry = u32;

/// The entry for invalid codes: a symbol that no number has, and more bits than a window has.
const NO_CODE: Entry = 0x80 << SYMBOL | 64;
const CODE_BITS: u32 = 8;
const TAIL_BITS: u32 = 16;
const SYMBOL: u32 = 24;

/// A field of an entry.
#[inline(always)]
fn field(entry: Entry, at: u32) -> u32 {
    entry >> at & 0xff
}

/// The entries for the next bits, in one context.
type Table = [Entry; 1 << MAX_BITS];

/// Builds the table for codes of these lengths. Returns the number of entries for long numbers (two
/// may not fit a window), or `None` if codes overlap.
fn fill(table: &mut Table, lengths: &[u8; MAX_SYMBOLS]) -> Option<u32> {
    // Codes are ordered by length. For short codes a small table suffices; longer ones start from
    // copies of it.
    let mut size = 64;
    table[..size].fill(NO_CODE);
    let mut n_long = 0;
    for (symbol, code, code_bits) in huffman::codes(lengths, MAX_BITS)? {
        while size < 1 << code_bits {
            table.copy_within(..size, size);
            size *= 2;
        }
        let tail_bits = symbol.saturating_sub(1) as u32;
        let entry =
            (symbol as u32) << SYMBOL | tail_bits << TAIL_BITS | code_bits << CODE_BITS | (code_bits + tail_bits);
        if 2 * (code_bits + tail_bits) > WINDOW_BITS {
            n_long += 1 << (MAX_BITS - code_bits);
        }
        let mut at = code as usize;
        while at < size {
            table[at] = entry;
            at += 1 << code_bits;
        }
    }
    while size < table.len() {
        table.copy_within(..size, size);
        size *= 2;
    }
    Some(n_long)
}

/// Decodes the strings of a block.
struct Decoder<'a> {
    strings: &'a [u8],
    /// The tables, indexed by the sum of the two previous symbols.
    contexts: [&'a Table; 256],
}

/// The decoding state of a lane.
#[derive(Clone, Copy)]
struct Lane {
    /// Index of the next bit in the strings of all lanes.
    at: usize,
    /// The last entry, and its sum with the one before.
    last: Entry,
    sum: Entry,
}

impl Decoder<'_> {
    /// Looks up the entry of a lane's next number, which begins with these bits.
    #[inline(always)]
    fn entry(&self, lane: &mut Lane, bits: u64) -> Entry {
        let table = self.contexts[(lane.sum >> SYMBOL) as usize];
        let entry = table[bits as usize % (1 << MAX_BITS)];
        (lane.last, lane.sum) = (entry, lane.last.wrapping_add(entry));
        entry
    }

    /// Decodes the next number of a lane.
    #[inline(always)]
    fn next<W: Word>(&self, lane: &mut Lane, all: &mut Entry) -> W {
        let bits = peek(self.strings, lane.at);
        let entry = self.entry(lane, bits);
        let tail = match W::BITS {
            // A code and a tail of up to 31 bits fit one word.
            32 => bits >> field(entry, CODE_BITS),
            _ => peek(self.strings, lane.at + field(entry, CODE_BITS) as usize),
        };
        lane.at += field(entry, 0) as usize;
        *all |= entry;
        number(tail, entry)
    }

    /// Decodes the next numbers of a lane.
    #[inline(never)] // seldom needed, and inlining it would cost the other loops registers
    fn one_by_one<W: Word>(&self, lane: &mut Lane, all: &mut Entry, out: &mut [W]) {
        for number in out {
            *number = self.next(lane, all);
        }
    }

    /// Decodes one whole run of each of some lanes side by side, with `PER_WORD` numbers for each
    /// word read. Runs that are not coded become zeros; their lookups are discarded.
    #[inline(always)]
    fn runs<W: Word, const PER_WORD: usize>(
        &self,
        lanes: &mut [Lane; AT_ONCE],
        all: &mut Entry,
        runs: [usize; AT_ONCE],
        is_coded: [bool; AT_ONCE],
        numbers: &mut [W],
        found: &mut [Found; AT_ONCE],
    ) {
        // Perform each step for all lanes before the next step, which depends on it: the CPU's
        // lookahead is limited.
        let mut ends = *lanes;
        for i in 0..RUN / PER_WORD {
            let mut words = [0; AT_ONCE];
            for k in 0..AT_ONCE {
                words[k] = window(self.strings, ends[k].at);
            }
            for k in 0..AT_ONCE {
                found[k].words[i] = words[k];
            }
            let mut sums: [Entry; AT_ONCE] = [0; AT_ONCE];
            for j in 0..PER_WORD {
                for k in 0..AT_ONCE {
                    let entry = self.entry(&mut ends[k], words[k]);
                    found[k].entries[i * PER_WORD + j] = entry;
                    words[k] >>= entry % 64;
                    sums[k] = sums[k].wrapping_add(entry);
                }
            }
            for k in 0..AT_ONCE {
                ends[k].at += field(sums[k], 0) as usize;
            }
        }

        let mut n_bits = [0; RUN];
        for k in 0..AT_ONCE {
            let out = &mut numbers[runs[k] * RUN..][..RUN];
            if is_coded[k] {
                found[k].numbers::<W, PER_WORD>(out);
                found[k].count::<PER_WORD>(&mut n_bits);
            } else {
                out.fill(W::default());
                ends[k] = Lane { at: lanes[k].at, last: 0, sum: 0 };
            }
        }
        if largest(&n_bits) <= WINDOW_BITS {
            *lanes = ends;
            return;
        }
        for k in 0..AT_ONCE {
            let mut n_bits = [0; RUN];
            if is_coded[k] {
                found[k].count::<PER_WORD>(&mut n_bits);
            }
            if largest(&n_bits) <= WINDOW_BITS {
                lanes[k] = ends[k];
            } else {
                // Some numbers extend beyond their word, or a code is invalid.
                self.one_by_one(&mut lanes[k], all, &mut numbers[runs[k] * RUN..][..RUN]);
            }
        }
    }
}

#[inline(always)]
fn largest(numbers: &[u32; RUN]) -> u32 {
    let mut largest = 0;
    for &number in numbers {
        largest = number.max(largest);
    }
    largest
}

/// The decoded entries of a run, and the words in which its numbers begin.
#[derive(Clone, Copy)]
struct Found {
    words: [u64; RUN],
    entries: [Entry; RUN],
}

impl Found {
    /// Extracts the numbers from the words. Numbers that extend beyond their word are wrong.
    #[inline(always)]
    fn numbers<W: Word, const PER_WORD: usize>(&self, out: &mut [W]) {
        for i in 0..RUN / PER_WORD {
            let mut n_bits = 0;
            for k in 0..PER_WORD {
                let entry = self.entries[i * PER_WORD + k];
                let start = n_bits + field(entry, CODE_BITS);
                out[i * PER_WORD + k] = number(self.words[i] >> (start % 64), entry);
                n_bits += field(entry, 0);
            }
        }
    }

    /// Computes the bits of the numbers in each word, and updates the maximum.
    #[inline(always)]
    fn count<const PER_WORD: usize>(&self, most_bits: &mut [u32; RUN]) {
        for (i, most_bits) in most_bits[..RUN / PER_WORD].iter_mut().enumerate() {
            let mut n_bits = 0;
            for k in 0..PER_WORD {
                n_bits += field(self.entries[i * PER_WORD + k], 0);
            }
            *most_bits = n_bits.max(*most_bits);
        }
    }
}

/// Builds the number with this entry; `bits` begins with its tail.
#[inline(always)]
fn number<W: Word>(bits: u64, entry: Entry) -> W {
    let tail_bits = field(entry, TAIL_BITS);
    let top = W::from_u64(u64::from(entry >> SYMBOL != 0)) << tail_bits;
    (W::from_u64(bits) & !(!W::default() << tail_bits)) | top
}

/// Reads numbers from the start of `bytes`. Returns the number of bytes read.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
#[inline(always)]
pub fn read<W: Word>(bytes: &[u8], numbers: &mut [W]) -> Result<usize> {
    let early = || damage("too few bytes");
    let n_runs = numbers.len().div_ceil(RUN);
    let (&[lowest, highest, pivot, flag], rest) = bytes.split_first_chunk().ok_or_else(early)?;
    let limit = W::BITS as u8;
    if lowest > highest || highest > limit || pivot > limit || flag > 1 {
        return Err(damage("invalid symbols"));
    }
    let (bitmap, rest) = rest.split_at_checked(if flag == 1 { n_runs.div_ceil(8) } else { 0 }).ok_or_else(early)?;
    let (lengths, rest) = rest.split_at_checked(length_bytes(lowest, highest)).ok_or_else(early)?;
    let (lane_bytes, strings) = rest.split_at_checked(2 * LANES).ok_or_else(early)?;

    let mut lengths = lengths.iter().flat_map(|byte| [byte % 16, byte / 16]);
    let mut tables = [[NO_CODE; 1 << MAX_BITS]; CONTEXTS];
    let mut n_long = 0;
    for table in &mut tables {
        let mut of_context = [0; MAX_SYMBOLS];
        of_context[usize::from(lowest)..=usize::from(highest)].fill_with(|| lengths.next().unwrap_or(0));
        n_long += fill(table, &of_context).ok_or_else(|| damage("overlapping codes"))?;
    }
    let pivot = u32::from(pivot);
    let mut decoder = Decoder { strings, contexts: [&tables[0]; 256] };
    for (sum, table) in decoder.contexts.iter_mut().enumerate() {
        *table = &tables[context(sum as u32, pivot) as usize];
    }
    // The number of entries of a code is proportional to its expected frequency.
    let are_short = W::BITS == 32 && n_long <= MANY_LONG;
    let mut all = 0;
    let mut found = [Found { words: [0; RUN], entries: [0; RUN] }; AT_ONCE];
    let start = pivot << SYMBOL;
    let mut lanes = [Lane { at: 0, last: start, sum: 2 * start }; LANES];
    let mut ends = [0; LANES];
    let mut end = 0;
    for ((lane, lane_end), n) in lanes.iter_mut().zip(&mut ends).zip(lane_bytes.chunks_exact(2)) {
        lane.at = 8 * end;
        end += usize::from(u16::from_le_bytes([n[0], n[1]]));
        *lane_end = end;
    }
    if end > strings.len() {
        return Err(early());
    }
    let is_zero = |run: usize| flag == 1 && bitmap[run / 8] >> (run % 8) & 1 == 1;
    let per_lane = n_runs.div_ceil(LANES);
    for (quad, lanes) in lanes.chunks_exact_mut(AT_ONCE).enumerate() {
        for step in 0..per_lane {
            let runs: [usize; AT_ONCE] = std::array::from_fn(|i| (quad * AT_ONCE + i) * per_lane + step);
            let is_coded = runs.map(|run| run < n_runs && !is_zero(run));
            // All four runs are whole.
            if (runs[AT_ONCE - 1] + 1) * RUN <= numbers.len() && is_coded.into_iter().any(|is_coded| is_coded) {
                let lanes: &mut [Lane; AT_ONCE] = lanes.try_into().expect("as many lanes");
                if are_short {
                    decoder.runs::<W, 2>(lanes, &mut all, runs, is_coded, numbers, &mut found);
                } else {
                    decoder.runs::<W, 1>(lanes, &mut all, runs, is_coded, numbers, &mut found);
                }
                continue;
            }
            for (lane, run) in lanes.iter_mut().zip(runs).filter(|&(_, run)| run < n_runs) {
                let run_numbers = &mut numbers[run * RUN..];
                let run_numbers = match run_numbers.split_at_mut_checked(RUN) {
                    Some((run, _)) => run,
                    None => run_numbers,
                };
                if is_zero(run) {
                    run_numbers.fill(W::default());
                    (lane.last, lane.sum) = (0, 0);
                } else {
                    decoder.one_by_one(lane, &mut all, run_numbers);
                }
            }
        }
    }
    // No valid entry has the highest bit.
    if all >= NO_CODE || lanes.iter().zip(ends).any(|(lane, end)| lane.at > 8 * end) {
        return Err(damage("bits that are not a code"));
    }
    Ok(bytes.len() - strings.len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(round_trip(&vec![0u64; 8192]).len() < 110);
    }

    /// The definition, number by number. Returns the numbers and their bytes.
    fn by_definition<W: Word>(bytes: &[u8], n: usize) -> Option<(Vec<W>, usize)> {
        let n_runs = n.div_ceil(RUN);
        let (&[lowest, highest, pivot, flag], rest) = bytes.split_first_chunk()?;
        if lowest > highest || u32::from(highest.max(pivot)) > W::BITS || flag > 1 {
            return None;
        }
        let (bitmap, rest) = rest.split_at_checked(usize::from(flag) * n_runs.div_ceil(8))?;
        let (lengths, rest) = rest.split_at_checked(length_bytes(lowest, highest))?;
        let (lane_bytes, strings) = rest.split_at_checked(2 * LANES)?;
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
            end += usize::from(u16::from_le_bytes([lane_bytes[2 * lane], lane_bytes[2 * lane + 1]]));
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
