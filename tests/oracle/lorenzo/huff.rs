//! The coder HUFF.

use super::bit_length;
use super::bits::{BitString, string_of};

const RUN: usize = 32;
const LANES: usize = 32;

/// A coded number: its symbol and context.
struct Coded {
    r: u64,
    symbol: usize,
    context: usize,
}

/// The numbers in HUFF's order.
pub fn ordered(numbers: &[u64], [sz, sy, sx]: [usize; 3], is_masked: bool) -> Vec<u64> {
    if sx >= 32 || sz * sy == 1 || is_masked {
        return numbers.to_vec();
    }
    (0..sx).flat_map(|x| numbers.iter().copied().skip(x).step_by(sx)).collect()
}

/// Encodes the numbers, given in that order.
pub fn encode(numbers: &[u64]) -> Vec<u8> {
    let symbol = |r: u64| bit_length(r) as usize;
    let up_to = |most: usize| numbers.iter().filter(|&&r| symbol(r) <= most).count();
    let p = (0..=64).find(|&most| 2 * up_to(most) > numbers.len()).unwrap();
    let runs: Vec<&[u64]> = numbers.chunks(RUN).collect();
    let is_zero: Vec<bool> = runs.iter().map(|run| run.iter().all(|&r| r == 0)).collect();
    let flag = 32 * is_zero.iter().filter(|&&is_zero| is_zero).count() > runs.len();

    // The coded numbers of each lane.
    let q = runs.len().div_ceil(LANES);
    let mut lanes: Vec<Vec<Coded>> = vec![];
    for lane in 0..LANES {
        let mut coded = vec![];
        let (mut a, mut b) = (p, p);
        for run in (lane * q..(lane + 1) * q).filter(|&run| run < runs.len()) {
            if flag && is_zero[run] {
                (a, b) = (0, 0);
                continue;
            }
            for &r in runs[run] {
                coded.push(Coded { r, symbol: symbol(r), context: context(a, b, p) });
                (a, b) = (symbol(r), a);
            }
        }
        lanes.push(coded);
    }

    let symbols = || lanes.iter().flatten().map(|coded| coded.symbol);
    let (lo, hi) = (symbols().min().unwrap_or(0), symbols().max().unwrap_or(0));
    let mut lengths = vec![];
    for context in 0..4 {
        let mut counts = vec![0; 65];
        lanes.iter().flatten().filter(|coded| coded.context == context).for_each(|coded| counts[coded.symbol] += 1);
        lengths.push(code_lengths(counts, 10));
    }
    let codes: Vec<Vec<Vec<bool>>> = lengths.iter().map(|lengths| codes(lengths)).collect();

    let strings: Vec<Vec<u8>> = lanes.iter().map(|lane| string(lane, &codes)).collect();
    let lengths_of_strings = || strings.iter().map(|string| string.len() as u64);
    let (least, most) = (lengths_of_strings().min().unwrap(), lengths_of_strings().max().unwrap());
    let width = bit_length(most - least);

    let mut bytes = vec![lo as u8, hi as u8, p as u8, width as u8 + if flag { 128 } else { 0 }];
    bytes.extend((least as u16).to_le_bytes());
    if flag {
        bytes.extend(string_of(is_zero.iter().map(|&is_zero| is_zero.into()), 1));
    }
    bytes.extend(string_of(lengths.iter().flat_map(|lengths| &lengths[lo..=hi]).map(|&length| length as u64), 4));
    bytes.extend(string_of(lengths_of_strings().map(|n| n - least), width));
    bytes.extend(strings.concat());
    bytes
}

fn string(lane: &[Coded], codes: &[Vec<Vec<bool>>]) -> Vec<u8> {
    let mut string = BitString::default();
    for Coded { r, symbol, context } in lane {
        codes[*context][*symbol].iter().for_each(|&bit| string.push(bit.into(), 1));
        if *symbol > 1 {
            string.push(*r, *symbol as u32 - 1);
        }
    }
    string.into_bytes()
}

fn context(a: usize, b: usize, p: usize) -> usize {
    match (a + b) as i64 - 2 * p as i64 {
        ..-3 => 0,
        -3..0 => 1,
        0..=1 => 2,
        _ => 3,
    }
}

/// The code lengths for symbols with these counts, at most `most` bits.
pub fn code_lengths(mut counts: Vec<usize>, most: usize) -> Vec<usize> {
    loop {
        // Total weight and symbols of each node.
        let used = (0..counts.len()).filter(|&symbol| counts[symbol] > 0);
        let mut row: Vec<(usize, Vec<usize>)> = used.map(|symbol| (counts[symbol], vec![symbol])).collect();
        let mut lengths = vec![0; counts.len()];
        if let [(_, symbols)] = &row[..] {
            lengths[symbols[0]] = 1;
        }
        while row.len() > 1 {
            let (mut weight, mut symbols) = (0, vec![]);
            for _ in 0..2 {
                let lightest = (0..row.len()).min_by_key(|&i| row[i].0).unwrap();
                let taken = row.remove(lightest);
                weight += taken.0;
                symbols.extend(taken.1);
            }
            symbols.iter().for_each(|&symbol| lengths[symbol] += 1);
            row.push((weight, symbols));
        }
        if lengths.iter().all(|&length| length <= most) {
            return lengths;
        }
        counts.iter_mut().for_each(|count| *count = count.div_ceil(2));
    }
}

/// The bits of every symbol's code.
pub fn codes(lengths: &[usize]) -> Vec<Vec<bool>> {
    let mut codes = vec![vec![]; lengths.len()];
    let (mut next, mut length_before) = (0, 0);
    for length in 1..=16 {
        for symbol in (0..lengths.len()).filter(|&symbol| lengths[symbol] == length) {
            next <<= length - length_before;
            length_before = length;
            codes[symbol] = (0..length).rev().map(|bit| next >> bit & 1 == 1).collect();
            next += 1;
        }
    }
    codes
}
