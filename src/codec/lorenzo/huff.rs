//! HUFF: bit lengths by Huffman codes, the bits below them as they are.
//!
//! Numbers of like length follow each other, so a code depends on the two lengths before: four contexts have four codes.
//! 32 lanes take parts of the block and have strings of their own, because decoding a string is a chain of
//! dependent steps: a CPU follows several of them at once, and a GPU gives each to a thread. Runs of zeros take a bit.

use crate::codec::lorenzo::bits::{Writer, peek};
use crate::codec::lorenzo::huffman::{self, MAX_BITS, MAX_SYMBOLS};
use crate::codec::lorenzo::word::Word;
use crate::error::{Error, Result};

/// Numbers of a run.
const RUN: usize = 32;
const LANES: usize = 32;
const CONTEXTS: usize = 4;
/// Most runs of a block.
const MAX_RUNS: usize = (1 << 14) / RUN;
/// Lanes decoded side by side.
const AT_ONCE: usize = 4;

/// The context after two symbols, given their sum less twice the pivot.
#[inline(always)]
fn context(distance: i32) -> usize {
    // 0 below −3, 1 below 0, 2 up to 1, 3 above
    usize::from(distance >= -3) + usize::from(distance >= 0) + usize::from(distance > 1)
}

/// Runs of each lane.
fn runs_of(lane: usize, n_runs: usize) -> std::ops::Range<usize> {
    let per_lane = n_runs.div_ceil(LANES);
    (lane * per_lane).min(n_runs)..((lane + 1) * per_lane).min(n_runs)
}

/// The last two symbols of a lane.
#[derive(Clone, Copy)]
struct History {
    last: i32,
    before: i32,
}

impl History {
    fn start(pivot: u8) -> Self {
        Self { last: pivot.into(), before: pivot.into() }
    }

    const ZEROS: Self = Self { last: 0, before: 0 };

    #[inline(always)]
    fn context(self, pivot: u8) -> usize {
        context(self.last + self.before - 2 * i32::from(pivot))
    }

    #[inline(always)]
    fn push(&mut self, symbol: u32) {
        *self = Self { last: symbol as i32, before: self.last };
    }
}

/// How some numbers will be coded.
pub struct Coding {
    n: usize,
    lowest: u8,
    highest: u8,
    pivot: u8,
    /// Which runs are all zeros, if that is noted.
    zero_runs: Option<[bool; MAX_RUNS]>,
    lengths: [[u8; MAX_SYMBOLS]; CONTEXTS],
    lane_bytes: [usize; LANES],
}

impl Coding {
    /// Looks at numbers.
    #[inline(always)]
    pub fn choose<W: Word>(numbers: &[W]) -> Self {
        let n = numbers.len();
        let n_runs = n.div_ceil(RUN);
        let mut is_zero = [false; MAX_RUNS];
        let mut counts = [0usize; MAX_SYMBOLS];
        for (is_zero, run) in is_zero.iter_mut().zip(numbers.chunks(RUN)) {
            *is_zero = run.iter().all(|&number| number == W::default());
            run.iter().for_each(|number| counts[number.bit_length() as usize] += 1);
        }
        let n_zero_runs = is_zero[..n_runs].iter().filter(|&&is_zero| is_zero).count();
        let mut below = 0;
        let pivot = counts
            .iter()
            .take_while(|&&count| {
                below += count;
                2 * below <= n
            })
            .count() as u8;
        // A zero takes at least a bit.
        let zero_runs = (RUN * n_zero_runs > n_runs).then_some(is_zero);

        let mut coding = Self {
            n,
            lowest: 0,
            highest: 0,
            pivot,
            zero_runs,
            lengths: [[0; MAX_SYMBOLS]; CONTEXTS],
            lane_bytes: [0; LANES],
        };
        let mut by_context = [[[0u32; MAX_SYMBOLS]; CONTEXTS]; LANES];
        for (lane, by_context) in by_context.iter_mut().enumerate() {
            coding.walk(numbers, lane, |context, number| by_context[context][number.bit_length() as usize] += 1);
        }
        let total = |context: usize| {
            let mut sums = [0; MAX_SYMBOLS];
            for counts in &by_context {
                sums.iter_mut().zip(&counts[context]).for_each(|(sum, count)| *sum += count);
            }
            sums
        };
        let totals: [_; CONTEXTS] = std::array::from_fn(total);
        let occurs = |symbol: &usize| totals.iter().any(|counts| counts[*symbol] > 0);
        coding.lowest = (0..MAX_SYMBOLS).find(occurs).unwrap_or(0) as u8;
        coding.highest = (0..MAX_SYMBOLS).rev().find(occurs).unwrap_or(0) as u8;
        coding.lengths = totals.map(|counts| huffman::lengths(&counts));
        for (bytes, by_context) in coding.lane_bytes.iter_mut().zip(&by_context) {
            let counts_and_lengths =
                by_context.iter().flatten().zip(coding.lengths.as_flattened()).zip((0..MAX_SYMBOLS).cycle());
            let bits = counts_and_lengths
                .map(|((&count, &length), symbol)| {
                    count as usize * (usize::from(length) + symbol.saturating_sub(1))
                })
                .sum::<usize>();
            *bytes = bits.div_ceil(8);
        }
        coding
    }

    /// Calls `each` with the context of every number of a lane that gets a code.
    #[inline(always)]
    fn walk<W: Word>(&self, numbers: &[W], lane: usize, mut each: impl FnMut(usize, W)) {
        let mut history = History::start(self.pivot);
        for run in runs_of(lane, self.n.div_ceil(RUN)) {
            if self.zero_runs.as_ref().is_some_and(|is_zero| is_zero[run]) {
                history = History::ZEROS;
                continue;
            }
            for &number in &numbers[run * RUN..self.n.min((run + 1) * RUN)] {
                each(history.context(self.pivot), number);
                history.push(number.bit_length());
            }
        }
    }

    fn zero_run_bytes(&self) -> usize {
        if self.zero_runs.is_some() { self.n.div_ceil(RUN).div_ceil(8) } else { 0 }
    }

    fn length_bytes(&self) -> usize {
        length_bytes(self.lowest, self.highest)
    }

    /// Bytes of the numbers.
    pub fn n_bytes(&self) -> usize {
        4 + self.zero_run_bytes() + self.length_bytes() + 2 * LANES + self.lane_bytes.iter().sum::<usize>()
    }

    /// Writes the numbers that were looked at to `out`, which has exactly [`Coding::n_bytes`].
    #[inline(always)]
    pub fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let (start, out) = out.split_at_mut(4);
        start.copy_from_slice(&[self.lowest, self.highest, self.pivot, self.zero_runs.is_some().into()]);
        let (marks, out) = out.split_at_mut(self.zero_run_bytes());
        if let Some(is_zero) = &self.zero_runs {
            let mut writer = Writer::new(marks);
            is_zero[..self.n.div_ceil(RUN)].iter().for_each(|&is_zero| writer.push(is_zero.into(), 1));
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
        let mut codes = [[(0, 0); MAX_SYMBOLS]; CONTEXTS];
        for (codes, lengths) in codes.iter_mut().zip(&self.lengths) {
            for (symbol, code, length) in huffman::codes(lengths).expect("lengths of a tree") {
                codes[symbol] = (code, length);
            }
        }
        for (lane, &n) in self.lane_bytes.iter().enumerate() {
            let string;
            (string, out) = out.split_at_mut(n);
            let mut writer = Writer::new(string);
            self.walk(numbers, lane, |context, number| {
                let (code, length) = codes[context][number.bit_length() as usize];
                let tail_bits = number.bit_length().saturating_sub(1);
                let tail = number & W::low_mask(tail_bits);
                if W::BITS == 32 {
                    writer.push(u64::from(code) | tail.to_u64() << length, length + tail_bits);
                } else {
                    writer.push(code.into(), length);
                    writer.push(tail.to_u64(), tail_bits);
                }
            });
            writer.finish();
        }
    }
}

/// Bytes of the code lengths.
fn length_bytes(lowest: u8, highest: u8) -> usize {
    (CONTEXTS * (usize::from(highest) - usize::from(lowest) + 1)).div_ceil(2)
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a lorenzo block has {what}"))
}

/// For each context and next bits of a string, the symbol whose code they begin with and the bits of that code,
/// as 16·symbol + bits; 0 where there is none.
type Table = [[u16; 1 << MAX_BITS]; CONTEXTS];

/// Where the decoding of a lane has got to.
#[derive(Clone, Copy)]
struct Lane {
    /// The next bit, in all lanes' strings.
    at: usize,
    history: History,
    /// No bits that are no code have been met.
    is_sound: bool,
}

impl Lane {
    /// Decodes the next number.
    #[inline(always)]
    fn next<W: Word>(&mut self, strings: &[u8], table: &Table, pivot: u8) -> W {
        let bits = peek(strings, self.at);
        let entry = table[self.history.context(pivot)][bits as usize % (1 << MAX_BITS)];
        let (symbol, length) = (u32::from(entry >> 4), u32::from(entry % 16));
        self.is_sound &= entry != 0;
        let tail_bits = symbol.saturating_sub(1);
        // A code and a tail of 32 bits are there already.
        let tail = if W::BITS == 32 { bits >> length } else { peek(strings, self.at + length as usize) };
        self.at += (length + tail_bits) as usize;
        self.history.push(symbol);
        let tail = W::from_u64(tail) & W::low_mask(tail_bits);
        if symbol == 0 { tail } else { tail | W::from_u64(1) << tail_bits }
    }
}

/// Reads numbers from the start of `bytes` and returns how many bytes those are.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
#[inline(always)]
pub fn read<W: Word>(bytes: &[u8], numbers: &mut [W]) -> Result<usize> {
    let early = || damage("an early end");
    let n_runs = numbers.len().div_ceil(RUN);
    let (&[lowest, highest, pivot, flag], rest) = bytes.split_first_chunk().ok_or_else(early)?;
    let limit = W::BITS as u8;
    if lowest > highest || highest > limit || pivot > limit || flag > 1 {
        return Err(damage("impossible symbols"));
    }
    let (marks, rest) = rest.split_at_checked(if flag == 1 { n_runs.div_ceil(8) } else { 0 }).ok_or_else(early)?;
    let (lengths, rest) = rest.split_at_checked(length_bytes(lowest, highest)).ok_or_else(early)?;
    let (lane_bytes, strings) = rest.split_at_checked(2 * LANES).ok_or_else(early)?;

    let mut table: Table = [[0; 1 << MAX_BITS]; CONTEXTS];
    let mut lengths = lengths.iter().flat_map(|byte| [byte % 16, byte / 16]);
    for table in &mut table {
        let mut of_context = [0; MAX_SYMBOLS];
        of_context[usize::from(lowest)..=usize::from(highest)].fill_with(|| lengths.next().unwrap_or(0));
        for (symbol, code, length) in huffman::codes(&of_context).ok_or_else(|| damage("overlapping codes"))? {
            for entry in table[code as usize..].iter_mut().step_by(1 << length) {
                *entry = (16 * symbol as u32 + length) as u16;
            }
        }
    }

    let mut lanes = [Lane { at: 0, history: History::start(pivot), is_sound: true }; LANES];
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
    let is_zero = |run: usize| flag == 1 && marks[run / 8] >> (run % 8) & 1 == 1;
    let per_lane = n_runs.div_ceil(LANES);
    for (quad, lanes) in lanes.chunks_exact_mut(AT_ONCE).enumerate() {
        for step in 0..per_lane {
            let runs: [usize; AT_ONCE] = std::array::from_fn(|i| (quad * AT_ONCE + i) * per_lane + step);
            let is_whole = |run: usize| (run + 1) * RUN <= numbers.len() && !is_zero(run);
            if runs.into_iter().all(is_whole) {
                let lanes: &mut [Lane; AT_ONCE] = lanes.try_into().expect("as many lanes");
                read_runs(lanes, runs, strings, &table, pivot, numbers);
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
                    lane.history = History::ZEROS;
                } else {
                    run_numbers.fill_with(|| lane.next(strings, &table, pivot));
                }
            }
        }
    }
    if lanes.iter().zip(ends).any(|(lane, end)| !lane.is_sound || lane.at > 8 * end) {
        return Err(damage("bits that are no code"));
    }
    Ok(bytes.len() - strings.len() + end)
}

/// Decodes a whole run of some lanes, number by number.
#[inline(always)]
fn read_runs<W: Word>(
    lanes: &mut [Lane; AT_ONCE],
    runs: [usize; AT_ONCE],
    strings: &[u8],
    table: &Table,
    pivot: u8,
    numbers: &mut [W],
) {
    let mut out = [[W::default(); RUN]; AT_ONCE];
    let mut states = *lanes;
    for i in 0..RUN {
        for (lane, out) in states.iter_mut().zip(&mut out) {
            out[i] = lane.next(strings, table, pivot);
        }
    }
    *lanes = states;
    for (out, run) in out.iter().zip(runs) {
        numbers[run * RUN..][..RUN].copy_from_slice(out);
    }
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
    fn zero_runs_take_a_bit() {
        let numbers: Vec<u32> =
            (0..8192).map(|i| if i / 500 % 4 == 3 { noise(i) as u32 >> 20 } else { 0 }).collect();
        assert!(round_trip(&numbers).len() < 4500);
        assert!(round_trip(&vec![0u64; 8192]).len() < 110);
    }

    #[test]
    fn damage_is_an_error_or_other_numbers() {
        let numbers: Vec<u32> = (0..1500).map(|i| (noise(i) >> (33 + i % 29)) as u32).collect();
        let out = round_trip(&numbers);
        let mut back = vec![0u32; numbers.len()];
        for at in 0..out.len() {
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[at] ^= 1 << bit;
                let _ = read(&damaged, &mut back);
            }
            let _ = read(&out[..at], &mut back);
        }
    }
}
