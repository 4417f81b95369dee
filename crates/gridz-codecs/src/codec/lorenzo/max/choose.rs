//! A writer's choices for a block: map, mask and predictions. It codes a part of the block with
//! each.

use std::ops::Range;

use crate::codec::lorenzo::decimal::MAX_DIGITS;
use crate::codec::lorenzo::map::special;
use crate::codec::lorenzo::max::body::{code_mask, code_words};
use crate::codec::lorenzo::max::domain::{Domain, order_64};
use crate::codec::lorenzo::max::header::Plan;
use crate::codec::lorenzo::max::lookback::Lookback;
use crate::codec::lorenzo::max::map::{self, BITS, CUT, DECIMAL, RANKS};
use crate::codec::lorenzo::max::orders::orders_of;
use crate::codec::lorenzo::max::predict::{BASE, LOOKBACK, N, ORDERS, SCORE, WEIGHTED, left};
use crate::codec::lorenzo::max::{Work, code_tails, lag_of};
use crate::stage::entropy::range::Encoder;
use crate::stage::predict::Orders;
use crate::stage::rows::{Simd, order_32};
use crate::stage::word::Word;

/// Plans are tried on a box in the middle of the block. The box has about `TRIED` elements, or one
/// in `TRIED_PART` of the block's elements if that is more. Its extents are at least `LEAST_TRIED`,
/// or those of the block.
const TRIED: usize = 1 << 12;
const TRIED_PART: usize = 64;
const LEAST_TRIED: [usize; 3] = [4, 4, 512];
/// Number of samples to find a word to mask.
const SAMPLES: usize = 256;
/// A word may be masked if at least one in this many elements has it.
const MASKED_PART: usize = 64;
/// Words are ranked if there are at least this many elements per distinct word.
const LEAST_REPEATS: usize = 3;
/// Looking back is used if it helps at least one in this many elements.
const LOOKING_BACK_PART: usize = 32;
/// If it helps at least one in this many elements, coarser maps are not tried.
const LOOKING_BACK_MOSTLY: usize = 8;
/// Predictions are active if they are the best for at least one in this many elements.
const ACTIVE_PART: u32 = 12;
/// One in this many floats may have bits below the lowest unit that is tried.
const UNITS_PART: u32 = 256;
/// Number of samples to test whether there are many distinct words.
const RANK_SAMPLES: usize = 4096;

/// Chooses the plan for the words of a block. Afterwards `work` has their numbers, tails and mask.
/// `scratch` has room for the block.
#[inline(always)]
pub fn choose<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    scratch: &mut [u8],
    (shape, period): ([usize; 3], u32),
    is_float: bool,
) -> Plan<W> {
    let n = shape[0] * shape[1] * shape[2];
    let frequent = frequent(&work.words[..n]);
    for i in 0..n {
        work.masked[i] = Some(work.words[i]) == frequent;
    }
    let n_ranks = rank(work, n);
    let bits = Plan {
        map: BITS,
        unit: shift_of(&work.words[..n], is_float),
        mask: None,
        looks_back: false,
        active: 1 << BASE,
        orders: [0; 3],
        n_ranks: 0,
    };
    to_numbers(work, 0..n, &bits, is_float);
    let enough = n.div_ceil(if is_float { LOOKING_BACK_MOSTLY } else { LOOKING_BACK_PART });
    let n_helped = helped(work, n, enough, Domain::of_bits::<W>(is_float, bits.unit));
    let looks_back = n_helped * LOOKING_BACK_PART >= n;
    let mut maps = [(BITS, bits.unit); 6];
    let mut n_maps = 1;
    let mut add = |map: u8, unit: u32| {
        maps[n_maps] = (map, unit);
        n_maps += 1;
    };
    if n_ranks * LEAST_REPEATS <= n {
        add(RANKS, 0);
    }
    if is_float && n_helped * LOOKING_BACK_MOSTLY < n {
        let words = &work.words[..n];
        if let Some(digits) = digits_of(words, &work.masked[..n]) {
            add(DECIMAL, digits);
        }
        for unit in units_of(words, &work.masked[..n]).into_iter().flatten() {
            add(CUT, unit);
        }
    }
    let part = Part::of(shape);
    let elements = part.copy(work, shape);
    let lag = lag_of(part.shape, period);
    let mut best = (u64::MAX, bits);
    for &(map, unit) in &maps[..n_maps] {
        for mask in [None, frequent].into_iter().take(1 + usize::from(frequent.is_some())) {
            let plan = Plan {
                map,
                unit,
                mask,
                looks_back,
                n_ranks: if map == RANKS { n_ranks as u32 } else { 0 },
                ..bits
            };
            // `to_numbers` skips masked elements, so their word is checked here.
            let all_have = frequent.is_none_or(|word| has_number(word, &plan));
            // The first map decides whether the mask is used.
            let is_settled = map != BITS && all_have && mask != best.1.mask;
            if is_settled || mask.is_none() && !all_have || !to_numbers(work, elements.clone(), &plan, is_float) {
                continue;
            }
            let numbers = &work.numbers[elements.clone()];
            let orders = if map == BITS && is_float { [0; 3] } else { orders_of(numbers, part.shape) };
            let plan = Plan { orders, active: all_active(part.shape, lag, orders, looks_back), ..plan };
            let (cost, active) =
                tried(s, work, scratch, &plan, (elements.clone(), part.shape, lag), (n, best.0), is_float);
            if cost < best.0 {
                best = (cost, Plan { active, ..plan });
            }
        }
    }
    // The numbers of the BITS map are already present.
    if best.1.map != BITS {
        to_numbers(work, 0..n, &best.1, is_float);
    }
    best.1
}

/// True if the plan's map represents the word.
fn has_number<W: Word>(word: W, plan: &Plan<W>) -> bool {
    match plan.map {
        CUT => map::cut(word, plan.unit).is_some(),
        DECIMAL => map::decimal(word, plan.unit).is_some(),
        _ => true,
    }
}

/// The part of a block for trials: a box in its middle, which is copied after the block.
pub struct Part {
    origin: [usize; 3],
    shape: [usize; 3],
}

impl Part {
    /// The part of a block of this shape. It is short along the slow axes, so that it has whole
    /// rows unless they are long.
    pub fn of(shape: [usize; 3]) -> Self {
        let n = shape[0] * shape[1] * shape[2];
        let mut wanted = TRIED.max(n / TRIED_PART);
        let mut step = n;
        let part = [0, 1, 2].map(|k| {
            step /= shape[k];
            let extent = wanted.div_ceil(step).max(LEAST_TRIED[k]).min(shape[k]);
            wanted = wanted.div_ceil(extent);
            extent
        });
        Self { origin: [0, 1, 2].map(|k| (shape[k] - part[k]) / 2), shape: part }
    }

    /// Number of elements.
    pub fn n_elements(&self) -> usize {
        self.shape[0] * self.shape[1] * self.shape[2]
    }

    /// Copies the part to the space after the block, and returns its range there.
    fn copy<W: Word>(&self, work: &mut Work<W>, [sz, sy, sx]: [usize; 3]) -> Range<usize> {
        let ([z0, y0, x0], [pz, py, px]) = (self.origin, self.shape);
        let start = sz * sy * sx;
        let mut at = start;
        for z in z0..z0 + pz {
            for y in y0..y0 + py {
                let from = (z * sy + y) * sx + x0;
                work.words.copy_within(from..from + px, at);
                work.masked.copy_within(from..from + px, at);
                at += px;
            }
        }
        start..at
    }
}

/// The most frequent word, if enough elements have it.
fn frequent<W: Word>(words: &[W]) -> Option<W> {
    let n = words.len();
    let mut samples = [W::default(); SAMPLES];
    for (j, sample) in samples.iter_mut().enumerate() {
        *sample = words[j * n / SAMPLES];
    }
    samples.sort_unstable();
    let runs = samples.chunk_by(|a, b| a == b);
    // Of several equally frequent words, the last one.
    let word = runs.max_by_key(|run| run.len()).map(|run| run[0])?;
    let count = words.iter().filter(|&&other| other == word).count();
    (count * MASKED_PART >= n).then_some(word)
}

/// Sorts the distinct words of a block. Returns their number.
fn rank<W: Word>(work: &mut Work<W>, n: usize) -> usize {
    let ranks = &mut work.ranks[..n];
    let samples = n.min(RANK_SAMPLES);
    for (j, rank) in ranks[..samples].iter_mut().enumerate() {
        *rank = work.words[j * n / samples];
    }
    ranks[..samples].sort_unstable();
    if 4 * ranks[..samples].chunk_by(|a, b| a == b).count() > 3 * samples {
        return n;
    }
    if let Some(n_ranks) = rank_near(&work.words[..n], ranks, &mut work.tables.one) {
        return n_ranks;
    }
    ranks.copy_from_slice(&work.words[..n]);
    ranks.sort_unstable();
    let mut n_ranks = 1;
    for i in 1..n {
        if ranks[i] != ranks[n_ranks - 1] {
            ranks[n_ranks] = ranks[i];
            n_ranks += 1;
        }
    }
    n_ranks
}

/// [`rank`] for words that are close to each other as integers, which needs no sorting. Returns
/// `None` for other words.
fn rank_near<W: Word>(words: &[W], ranks: &mut [W], seen: &mut [u32]) -> Option<usize> {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for word in words {
        (least, most) = (least.min(word.to_i64()), most.max(word.to_i64()));
    }
    let n_between = most.abs_diff(least);
    if n_between >= seen.len() as u64 {
        return None;
    }
    let seen = &mut seen[..=n_between as usize];
    seen.fill(0);
    for word in words {
        seen[word.to_i64().abs_diff(least) as usize] = 1;
    }
    let mut n_ranks = 0;
    let mut n_negative = 0;
    for (integer, _) in (least..=most).zip(&*seen).filter(|&(_, &seen)| seen > 0) {
        ranks[n_ranks] = W::from_u64(integer as u64);
        n_ranks += 1;
        n_negative += usize::from(integer < 0);
    }
    if n_ranks as u64 * 8 > n_between * 7 {
        // The words are nearly all of the integers in the range, so ranks are no better than the
        // integers themselves.
        return Some(words.len());
    }
    // As unsigned words, negative integers are the largest.
    ranks[..n_ranks].rotate_left(n_negative);
    Some(n_ranks)
}

/// The number of trailing zero bits that all words share.
fn shift_of<W: Word>(words: &[W], is_float: bool) -> u32 {
    let all = words.iter().fold(W::default(), |all, &word| all | if is_float { map::order(word) } else { word });
    all.trailing_zeros().min(W::BITS - 1)
}

/// Converts the words to numbers. Returns true if all words have one.
#[inline(always)]
fn to_numbers<W: Word>(work: &mut Work<W>, elements: Range<usize>, plan: &Plan<W>, is_float: bool) -> bool {
    let ranks = &work.ranks[..plan.n_ranks as usize];
    for i in elements {
        if plan.mask.is_some() && work.masked[i] {
            continue;
        }
        let word = work.words[i];
        let number = match plan.map {
            BITS if is_float && W::BITS == 32 => Some(i64::from(order_32(word.to_u64() as i32)) >> plan.unit),
            BITS if is_float => Some(order_64(word.to_i64()) >> plan.unit),
            BITS => Some(word.to_i64() >> plan.unit),
            CUT => map::cut(word, plan.unit).map(|(number, tail)| {
                work.tails[i] = tail;
                number
            }),
            DECIMAL => map::decimal(word, plan.unit),
            _ => ranks.binary_search(&word).ok().map(|rank| rank as i64),
        };
        let Some(number) = number else { return false };
        work.numbers[i] = number;
    }
    true
}

/// Counts the elements that looking back helps, up to `enough`.
#[inline(always)]
fn helped<W: Word>(work: &mut Work<W>, n: usize, enough: usize, domain: Domain) -> usize {
    let numbers = &work.numbers[..n];
    let mut lookback = Lookback::new(&mut work.tables, true);
    let (mut bits_else, mut n_helped) = (0, 0);
    for i in 1..n {
        // The remaining elements would not help enough, unless they are very different.
        let is_hopeless = i == n / 4 && n_helped * 4 * LOOKING_BACK_PART < n;
        if is_hopeless || n_helped >= enough {
            break;
        }
        let bits = left(numbers[i], numbers[i - 1]);
        bits_else = bits_else - bits_else / 4 + SCORE * bits / 4;
        if let Some(expected) = lookback.prediction() {
            n_helped += usize::from(SCORE * (left(numbers[i], expected) + 6) <= bits_else);
        }
        lookback.learn(domain, numbers, i, bits_else);
    }
    n_helped
}

/// The smallest number of decimal places that represents all floats.
#[inline(always)]
fn digits_of<W: Word>(words: &[W], masked: &[bool]) -> Option<u32> {
    let n = words.len();
    let are_decimal = |digits: u32, step: usize| {
        (0..n).step_by(step).all(|i| masked[i] || map::decimal(words[i], digits).is_some())
    };
    (1..=MAX_DIGITS)
        .find(|&digits| are_decimal(digits, n.div_ceil(SAMPLES)))
        .filter(|&digits| are_decimal(digits, 1))
}

/// Exponents at which to cut floats: first by the lowest bits of nearly all floats, then by the
/// largest float.
#[inline(always)]
fn units_of<W: Word>(words: &[W], masked: &[bool]) -> [Option<u32>; 2] {
    let mut counts = [0u32; 2 << 11];
    let mut highest = 1;
    let mut n = 0;
    for (&word, _) in words.iter().zip(masked).filter(|&(_, &masked)| !masked) {
        let (significand, exponent, _) = map::parts(word);
        if exponent >= special::<W>() {
            return [None; 2];
        }
        if significand > 0 {
            counts[(exponent + significand.trailing_zeros()) as usize] += 1;
            highest = highest.max(exponent);
            n += 1;
        }
    }
    let mut below = 0;
    let is_below = |&&count: &&u32| {
        below += count;
        below <= n / UNITS_PART
    };
    // With a lower exponent, numbers would have too many bits.
    let least = (highest + W::FRACTION_BITS + 1).saturating_sub(map::MOST_BITS).max(1);
    let lowest = counts.iter().take_while(is_below).count() as u32;
    [Some(lowest.max(least)).filter(|&lowest| lowest < highest), Some(highest)]
}

/// The set of all predictions that are possible.
fn all_active([sz, sy, sx]: [usize; 3], lag: usize, orders: Orders, looks_back: bool) -> u16 {
    let has_lag = lag > 0 && lag < sz * sy * sx;
    let has = [
        (BASE, true),
        (1, sy > 1),
        (2, sz > 1),
        (3, has_lag),
        (4, sy > 1),
        (5, sz > 1),
        (6, sz > 1 && sy > 1),
        (7, sz > 1 && sy > 1),
        (8, has_lag),
        (ORDERS, orders != [0; 3]),
        (WEIGHTED, true),
        (LOOKBACK, looks_back),
    ];
    has.into_iter().map(|(k, has)| u16::from(has) << k).sum()
}

/// Codes a part of the block. Returns the estimated cost of the whole block in bits, and the
/// predictions that pay.
#[inline(always)]
fn tried<W: Word, S: Simd<W>>(
    s: S,
    work: &mut Work<W>,
    scratch: &mut [u8],
    plan: &Plan<W>,
    (elements, shape, lag): (Range<usize>, [usize; 3], usize),
    (n, most): (usize, u64),
    is_float: bool,
) -> (u64, u16) {
    let n_part = elements.len();
    // The buffer is limited to this part's share of the best cost so far. When it is full, coding
    // stops.
    let room = (u128::from(most) * n_part as u128 / n as u128 / 8 + 8).min(scratch.len() as u128) as usize;
    let mut encoder = Encoder::new(&mut scratch[..room]);
    if plan.mask.is_some() {
        code_mask(&mut encoder, &mut work.masked[elements.clone()], shape);
    }
    let uses = work.code(s, &mut encoder, plan, (shape, lag), elements.start, is_float);
    if plan.map == CUT {
        code_tails(work, &mut encoder, plan, elements);
    }
    let mut cost = (u128::from(encoder.n_bits()) * n as u128 / n_part as u128).min(u64::MAX.into()) as u64;
    if plan.map == RANKS {
        let mut encoder = Encoder::new(scratch);
        code_words(&mut encoder, &mut work.ranks[..plan.n_ranks as usize]);
        cost = cost.saturating_add(encoder.n_bits());
    }
    let always = 1 << BASE | plan.active & 1 << LOOKBACK;
    let worth = (0..N).filter(|&k| uses[k] * ACTIVE_PART >= n_part as u32).map(|k| 1 << k).sum::<u16>();
    (cost, (worth | always) & plan.active)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_the_least_and_the_largest_integers() {
        for (first, step) in [(i64::MAX, -1), (i64::MIN, 1), (-40, 1)] {
            let words: Vec<u64> = (0..200).map(|i| (first + step * (i % 9) * 10) as u64).collect();
            let (mut ranks, mut seen) = (vec![0; words.len()], vec![7; 1 << 8]);
            let n_ranks = rank_near(&words, &mut ranks, &mut seen);
            let mut expected = words;
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(n_ranks, Some(expected.len()));
            assert_eq!(ranks[..expected.len()], expected);
        }
        assert_eq!(rank_near(&[i64::MIN as u64, i64::MAX as u64], &mut [0; 2], &mut [0; 256]), None);
    }
}
