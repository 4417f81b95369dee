//! Plans the codes of numbers, and writes them.

use crate::codec::lorenzo::huff::{CONTEXTS, LANES, MAX_BITS, MAX_RUNS, MAX_SYMBOLS, RUN, context, length_bytes};
use crate::stage::bits::Writer;
use crate::stage::entropy::huffman;
use crate::stage::word::Word;

/// The keys of all symbols in all contexts. A key is `symbol` + `MAX_SYMBOLS` · `context`.
const KEYS: usize = CONTEXTS * MAX_SYMBOLS;

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
