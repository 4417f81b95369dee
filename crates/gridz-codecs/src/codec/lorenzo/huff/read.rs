//! Reads numbers by table lookup, and several lanes side by side. Damaged bytes give an error.

use crate::codec::lorenzo::huff::{
    CONTEXTS, HAS_ZERO_RUNS, LANES, MAX_BITS, MAX_FIELD_BITS, MAX_SYMBOLS, RUN, context, damage, length_bytes,
};
use crate::error::Result;
use crate::stage::bits::{WINDOW_BITS, peek, string_bytes, window};
use crate::stage::entropy::huffman;
use crate::stage::word::Word;

/// Two numbers are read per window, unless more table entries than this belong to numbers that are
/// too long for that. If one in 32 numbers were too long, half of all runs would be decoded twice.
const MANY_LONG: u32 = (CONTEXTS << MAX_BITS) as u32 / 128;
/// Lanes that are decoded side by side.
const AT_ONCE: usize = 4;

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
    let (&[lowest, highest, pivot, flags, low, high], rest) = bytes.split_first_chunk().ok_or_else(early)?;
    let limit = W::BITS as u8;
    let (has_zero_runs, field_bits) = (flags & HAS_ZERO_RUNS != 0, u32::from(flags & !HAS_ZERO_RUNS));
    if lowest > highest || highest > limit || pivot > limit || field_bits > MAX_FIELD_BITS {
        return Err(damage("invalid symbols"));
    }
    let bitmap_bytes = if has_zero_runs { n_runs.div_ceil(8) } else { 0 };
    let (bitmap, rest) = rest.split_at_checked(bitmap_bytes).ok_or_else(early)?;
    let (lengths, rest) = rest.split_at_checked(length_bytes(lowest, highest)).ok_or_else(early)?;
    let (fields, strings) = rest.split_at_checked(string_bytes(LANES, field_bits)).ok_or_else(early)?;

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
    let least_bytes = u64::from(u16::from_le_bytes([low, high]));
    for (i, (lane, lane_end)) in lanes.iter_mut().zip(&mut ends).enumerate() {
        lane.at = 8 * end;
        let field = peek(fields, i * field_bits as usize) & u64::low_mask(field_bits);
        let n_bytes = u16::try_from(least_bytes + field).map_err(|_| damage("too many bytes"))?;
        end += usize::from(n_bytes);
        *lane_end = end;
    }
    if end > strings.len() {
        return Err(early());
    }
    let is_zero = |run: usize| has_zero_runs && bitmap[run / 8] >> (run % 8) & 1 == 1;
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
