//! Symbols of numbers. For level max of `quant`, numbers as rANS steps: a symbol for every lane, and
//! the bits that the symbols do not determine.
//!
//! Numbers below 8 are their own symbols. The symbol of a larger number determines its bit length
//! and its second highest bit. The bits below are its *tail*, which is stored uncoded, lowest bits
//! first. The step of the symbols also codes as many tail bits as it has room for; further steps
//! code the others.

use crate::stage::entropy::rans::{BITS_WITH_SYMBOL, Decoder, Encoder, MAX_BITS};
use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;

/// Numbers below this are their own symbols.
const OWN: u32 = 8;
/// The first symbol of numbers that have a tail.
const LONG: u8 = OWN as u8;
/// Bit length of the shortest number that has a tail.
const LONG_BITS: u32 = OWN.ilog2() + 1;

/// The symbols of numbers.
#[inline(always)]
pub fn symbols<W: Word, S: Simd<W>>(s: S, numbers: S::Row) -> S::Row {
    let word = |n: u32| W::from_u64(n.into());
    let are_long = s.gt_mask(numbers, word(OWN - 1));
    if are_long == 0 {
        return numbers;
    }
    let (one, two) = (s.splat(word(1)), s.splat(word(2)));
    let n_bits = s.sub(s.sub(s.splat(word(W::BITS)), s.leading_zeros(numbers)), two);
    let second = s.and(s.shift_right_each(numbers, n_bits), one);
    let first_long = s.splat(word(u32::from(LONG) - 2 * (LONG_BITS - 2)));
    let long = s.add(s.shift_left(n_bits, 1), s.add(second, first_long));
    s.select(are_long, long, numbers)
}

/// Bits of the tail of a number with this symbol.
#[inline(always)]
pub fn tail_bits(symbol: u8) -> u32 {
    if symbol >= LONG { u32::from(symbol - LONG) / 2 + LONG_BITS - 2 } else { 0 }
}

/// Prepends the numbers of the lanes that take part. `symbols` are the symbols of the numbers,
/// `ranges` the slot ranges of the symbols. The symbols of other lanes are 0.
#[inline(always)]
pub fn write<W: Word>(
    encoder: &mut Encoder,
    symbols: &[u8; LANES],
    numbers: &[W; LANES],
    (ranges, lanes): (&[u32; LANES], u32),
) {
    let (mut lengths, mut longest) = ([0; LANES], 0);
    for lane in 0..LANES {
        lengths[lane] = tail_bits(symbols[lane]);
        longest = longest.max(lengths[lane]);
    }
    // The last part is encoded first.
    for i in (0..longest.saturating_sub(BITS_WITH_SYMBOL).div_ceil(MAX_BITS)).rev() {
        let start = BITS_WITH_SYMBOL + i * MAX_BITS;
        let (mut bits, mut n_bits) = ([0; LANES], [0; LANES]);
        for lane in 0..LANES {
            n_bits[lane] = lengths[lane].saturating_sub(start).min(MAX_BITS);
            bits[lane] = (numbers[lane] >> start & W::low_mask(n_bits[lane])).to_u64() as u32;
        }
        encoder.bits(&bits, &n_bits);
    }
    let (mut bits, mut n_bits) = ([0; LANES], [0; LANES]);
    if longest > 0 {
        for lane in 0..LANES {
            n_bits[lane] = lengths[lane].min(BITS_WITH_SYMBOL);
            bits[lane] = numbers[lane].to_u64() as u32 & ((1 << n_bits[lane]) - 1);
        }
    }
    encoder.symbols(ranges, lanes, &bits, &n_bits);
}

/// Completes the numbers of these symbols, which the decoder has just read, with their tails.
/// `None` if a symbol is invalid or its number has more bits than a word; the decoder cannot be
/// used any more.
#[inline(always)]
pub fn numbers<W: Word>(decoder: &mut Decoder, symbols: &[u8; LANES]) -> Option<[W; LANES]> {
    let mut numbers = [W::ZERO; LANES];
    let mut highest = 0;
    for lane in 0..LANES {
        numbers[lane] = W::from_u64(symbols[lane].into());
        highest = highest.max(symbols[lane]);
    }
    if highest < LONG {
        decoder.refill();
        return Some(numbers);
    }
    if tail_bits(highest) > W::BITS - 2 {
        return None;
    }
    let mut lengths = [0; LANES];
    for lane in 0..LANES {
        lengths[lane] = tail_bits(symbols[lane]);
        // The two highest bits.
        let top = W::from_u64(u64::from(symbols[lane] & 1 | 2)) << lengths[lane];
        numbers[lane] = if symbols[lane] >= LONG { top } else { numbers[lane] };
    }
    let (mut start, mut most) = (0, BITS_WITH_SYMBOL);
    while start < tail_bits(highest) {
        let mut n_bits = [0; LANES];
        for lane in 0..LANES {
            n_bits[lane] = lengths[lane].saturating_sub(start).min(most);
        }
        let bits = decoder.bits(&n_bits);
        for lane in 0..LANES {
            numbers[lane] |= W::from_u64(bits[lane].into()) << start;
        }
        (start, most) = (start + most, MAX_BITS);
    }
    Some(numbers)
}
