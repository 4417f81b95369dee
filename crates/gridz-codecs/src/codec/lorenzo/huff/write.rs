//! Plans the codes of numbers, and writes them.

use crate::codec::lorenzo::huff::{
    CONTEXTS, HAS_ZERO_RUNS, HEADER, LANES, MAX_BITS, MAX_RUNS, MAX_SYMBOLS, RUN, context, length_bytes,
};
use crate::stage::bits::{Writer, string_bytes};
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
    /// The fewest bytes of a lane, and the bits of the lanes' further bytes.
    least_bytes: usize,
    field_bits: u32,
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
        for (is_zero, run) in is_zero.iter_mut().zip(symbols.chunks(RUN)) {
            *is_zero = run.iter().fold(0, |all, &symbol| all | symbol) == 0;
            n_zero_runs += usize::from(*is_zero);
        }
        let pivot = median(symbols);
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
            least_bytes: 0,
            field_bits: 0,
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
        // Consecutive keys are often equal. With several tables, an increment need not wait for the
        // previous one.
        let mut counts = [[0u16; KEYS]; 4];
        for (run, keys) in self.keys[..self.n].chunks(RUN).enumerate() {
            if self.is_coded(run) {
                for (i, &key) in keys.iter().enumerate() {
                    counts[i % 4][usize::from(key)] += 1;
                }
            }
        }
        let mut totals = [[0u32; MAX_SYMBOLS]; CONTEXTS];
        let (mut lowest, mut highest) = (MAX_SYMBOLS, 0);
        for (key, total) in totals.as_flattened_mut().iter_mut().enumerate() {
            *total = counts.iter().map(|counts| u32::from(counts[key])).sum();
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
        let (mut least, mut most) = (usize::MAX, 0);
        for bits in &mut self.lane_bytes {
            *bits = bits.div_ceil(8);
            (least, most) = (least.min(*bits), most.max(*bits));
        }
        (self.least_bytes, self.field_bits) = (least, ((most - least) as u32).bit_length());
    }

    fn zero_run_bytes(&self) -> usize {
        if self.has_zero_runs { self.n.div_ceil(RUN).div_ceil(8) } else { 0 }
    }

    fn length_bytes(&self) -> usize {
        length_bytes(self.lowest, self.highest)
    }

    fn field_bytes(&self) -> usize {
        string_bytes(LANES, self.field_bits)
    }

    /// Bytes of the encoded numbers.
    pub fn n_bytes(&self) -> usize {
        let strings = self.lane_bytes.iter().sum::<usize>();
        HEADER + self.zero_run_bytes() + self.length_bytes() + self.field_bytes() + strings
    }

    /// Writes the planned numbers to `out`, which has exactly [`Coding::n_bytes`].
    #[inline(always)]
    pub fn write<W: Word>(&self, numbers: &[W], out: &mut [u8]) {
        let (start, out) = out.split_at_mut(HEADER);
        let flags = self.field_bits as u8 | if self.has_zero_runs { HAS_ZERO_RUNS } else { 0 };
        start[..4].copy_from_slice(&[self.lowest, self.highest, self.pivot, flags]);
        start[4..].copy_from_slice(&(self.least_bytes as u16).to_le_bytes());
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
        let (fields, out) = out.split_at_mut(self.field_bytes());
        let mut writer = Writer::new(fields);
        self.lane_bytes.iter().for_each(|&n| writer.push((n - self.least_bytes) as u64, self.field_bits));
        writer.finish();
        let mut codes = [(0, 0, 0); KEYS];
        for (context, lengths) in self.lengths.iter().enumerate() {
            for (symbol, code, length) in huffman::codes(lengths, MAX_BITS).expect("lengths of a tree") {
                codes[context * MAX_SYMBOLS + symbol] = (code, length, symbol.saturating_sub(1) as u32);
            }
        }
        let per_lane = self.n.div_ceil(RUN).div_ceil(LANES);
        let mut at = 0;
        for (lane, &n_bytes) in self.lane_bytes.iter().enumerate() {
            // A writer may write past its string. The next string comes there.
            let mut writer = Writer::new(&mut out[at..]);
            for run in lane * per_lane..(lane + 1) * per_lane {
                let range = self.n.min(run * RUN)..self.n.min((run + 1) * RUN);
                if !range.is_empty() && self.is_coded(run) {
                    self.write_run(&numbers[range.clone()], &self.keys[range], &codes, &mut writer);
                }
            }
            writer.finish();
            at += n_bytes;
        }
    }

    /// Writes the codes and tails of numbers with these keys. `codes` has, for each key, code, length, and
    /// number of tail bits.
    #[inline(always)]
    fn write_run<W: Word>(
        &self,
        numbers: &[W],
        keys: &[u16],
        codes: &[(u32, u32, u32); KEYS],
        writer: &mut Writer,
    ) {
        let field = |key: u16, number: W| {
            let (code, length, tail_bits) = codes[usize::from(key)];
            let tail = number.to_u64() & ((1 << tail_bits) - 1);
            (u64::from(code), length, tail, tail_bits)
        };
        if W::BITS == 32 {
            // A field has at most 10 + 31 bits. Usually two fit.
            let whole = |key, number| {
                let (code, length, tail, tail_bits) = field(key, number);
                (code | tail << length, length + tail_bits)
            };
            let (pairs, last) = numbers.as_chunks::<2>();
            let (pairs_of_keys, _) = keys.as_chunks::<2>();
            for (number, key) in pairs.iter().zip(pairs_of_keys) {
                let ((a, a_bits), (b, b_bits)) = (whole(key[0], number[0]), whole(key[1], number[1]));
                if a_bits + b_bits <= 64 {
                    writer.push_any(a | b << a_bits, a_bits + b_bits);
                } else {
                    writer.push_any(a, a_bits);
                    writer.push_any(b, b_bits);
                }
            }
            if let [number] = *last {
                let (bits, n_bits) = whole(keys[keys.len() - 1], number);
                writer.push_any(bits, n_bits);
            }
        } else {
            for (&key, &number) in keys.iter().zip(numbers) {
                let (code, length, tail, tail_bits) = field(key, number);
                writer.push_any(code, length);
                writer.push_any(tail, tail_bits);
            }
        }
    }
}

/// The median of symbols: the least one such that more than half of them are no higher.
#[inline(always)]
fn median(symbols: &[u8]) -> u8 {
    let count_up_to = |most: u8| -> usize {
        let (rows, rest) = symbols.as_chunks::<128>();
        let count = |row: &[u8]| row.iter().map(|&symbol| u8::from(symbol <= most)).sum::<u8>();
        rows.iter().map(|row| usize::from(count(row))).sum::<usize>() + usize::from(count(rest))
    };
    let (mut least, mut most) = (0, MAX_SYMBOLS as u8 - 1);
    while least < most {
        let middle = (least + most) / 2;
        if 2 * count_up_to(middle) > symbols.len() { most = middle } else { least = middle + 1 }
    }
    least
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
