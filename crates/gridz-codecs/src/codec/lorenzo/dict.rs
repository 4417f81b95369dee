//! DICT: a dictionary of a block's values, for data in which values repeat.
//!
//! An entry represents all values with the same upper bits. A number is the index of the entry,
//! followed by the k lower bits of the value. With k = 0, the dictionary contains all values.

use crate::error::{Error, Result, try_vec};
use crate::stage::bits::{Writer, peek, string_bytes};
use crate::stage::pack;
use crate::stage::radix::{self, DIGIT_BITS};
use crate::stage::rows::{LANES, Prefetcher, Simd};
use crate::stage::word::Word;

/// Number of values that are examined first. If they are promising, all are examined.
const SAMPLE: usize = 1024;
/// Maximum number of entries of a dictionary.
const MAX_ENTRIES: usize = u16::MAX as usize;

/// The fields of a block's header that describe its dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<W> {
    /// Lower bits of a value that the dictionary does not contain.
    pub low_bits: u8,
    /// Bits of a delta.
    pub delta_bits: u8,
    /// Zero bits below a delta.
    pub delta_shift: u8,
    /// Number of entries.
    pub n_entries: u16,
    /// The first entry.
    pub base: W,
}

/// A block coded as a dictionary and numbers.
pub struct Coding<W> {
    pub fields: Fields<W>,
    deltas: Vec<u64>,
    indices: pack::Coding,
}

/// Maximum number of counts that may rule dictionaries out. Sorting takes the time of ten.
const MAX_COUNTS: usize = 6;

/// Bits of an index among `n_entries` entries.
fn index_bits(n_entries: usize) -> u32 {
    usize::BITS - (n_entries - 1).leading_zeros()
}

/// Sorts values as signed numbers.
fn sorted<W: Word>(values: &mut [W]) -> &[W] {
    let sign = W::from_u64(1) << (W::BITS - 1);
    let differing = values.iter().fold(W::ZERO, |all, &value| all | value ^ values[0]);
    let differs = |&shift: &u32| (differing >> shift).to_u64() % (1 << DIGIT_BITS) != 0;
    let mut spare = vec![W::ZERO; values.len()];
    let shifts = (0..W::BITS).step_by(DIGIT_BITS as usize).filter(differs);
    if radix::sort(values, &mut spare, shifts, |value, shift| ((value ^ sign) >> shift).to_u64() as usize) {
        values.copy_from_slice(&spare);
    }
    values
}

/// For every k below the word's bits: the number of entries of `sorted`, which is sorted as signed
/// numbers.
fn entries_by_low_bits<W: Word>(sorted: &[W]) -> [usize; 64] {
    let mut lengths = [0; 65];
    sorted.windows(2).for_each(|pair| lengths[(pair[0] ^ pair[1]).bit_length() as usize] += 1);
    let mut entries = [1; 64];
    let mut n_above = 0;
    for k in (0..64).rev() {
        n_above += lengths[k + 1];
        entries[k] = 1 + n_above;
    }
    entries
}

/// A lower bound of the number of different values without their `k` lower bits: the number of their
/// different hashes. Unlike an exact hash table, it needs no branches.
#[inline(always)]
fn least_entries<W: Word>(values: &[W], k: u32) -> usize {
    const LOG2_BITS: u32 = 16;
    let mut seen = [0u64; 1 << (LOG2_BITS - 6)];
    let mut n_entries = 0;
    for &value in values {
        let hash = (value >> k).to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - LOG2_BITS);
        let word = &mut seen[(hash >> 6) as usize];
        n_entries += 1 - (*word >> (hash % 64) & 1);
        *word |= 1 << (hash % 64);
    }
    n_entries as usize
}

/// Returns true if no dictionary of the values has at most `most` entries and pays. If
/// `pays(k, n_entries)` is false for some entries, it is false for more entries.
///
/// Counting takes a tenth of the time of sorting, and excludes nearly all blocks without repeated
/// values. Dropping one more lower bit at most halves the number of entries, so an index gets
/// shorter by one bit at most. A few counts therefore exclude all k: a count for the largest k with
/// which `most` entries would pay, then for the least k that is still possible.
#[inline(always)]
fn is_ruled_out<W: Word>(values: &[W], most: usize, pays: impl Fn(u32, usize) -> bool) -> bool {
    if most == 0 {
        return true;
    }
    let mut at_least = [1; 64];
    let mut k = (0..W::BITS).rev().find(|&k| pays(k, most)).unwrap_or(0);
    for _ in 0..MAX_COUNTS {
        let counted = least_entries(values, k);
        for (other, least) in (0..W::BITS).zip(&mut at_least) {
            *least = counted.div_ceil(1 << other.saturating_sub(k)).max(*least);
        }
        let is_possible = |k: &u32| at_least[*k as usize] <= most && pays(*k, at_least[*k as usize]);
        match (0..W::BITS).find(is_possible) {
            None => return true,
            Some(next) if next == k => return false,
            Some(next) => k = next,
        }
    }
    false
}

/// Bytes of a dictionary's deltas.
fn delta_bytes<W>(fields: &Fields<W>) -> usize {
    string_bytes(usize::from(fields.n_entries) - 1, fields.delta_bits.into()).next_multiple_of(8)
}

impl<W: Word> Coding<W> {
    /// Builds a dictionary for `values` and writes the numbers that replace them to `numbers`,
    /// which has room for whole rows. Returns `None` if the result is not expected to take fewer
    /// than `limit` bytes; then the contents of `numbers` are arbitrary.
    #[inline(always)]
    pub fn choose<S: Simd<W>>(
        s: S,
        values: &[W],
        numbers: &mut [W],
        scratch: &mut pack::Scratch<W>,
        limit: usize,
    ) -> Option<Self> {
        let n = values.len();
        let stride = (n / SAMPLE).max(1);
        let mut sample = [W::default(); SAMPLE];
        let n_sampled = n.div_ceil(stride).min(SAMPLE);
        let sample = &mut sample[..n_sampled];
        for (to, &value) in sample.iter_mut().zip(values.iter().step_by(stride)) {
            *to = value;
        }
        let bits = |k: u32, n_entries: usize| n * (index_bits(n_entries) + k) as usize;
        let most = 3 * n_sampled / 4;
        let is_promising = |k: u32, n_entries: usize| n_entries <= most && bits(k, n_entries) < 8 * limit;
        if is_ruled_out(sample, most, is_promising) {
            return None;
        }
        let entries = entries_by_low_bits(sorted(sample));
        if !(0..W::BITS).any(|k| is_promising(k, entries[k as usize])) {
            return None;
        }

        let cost = |k: u32, n_entries: usize| bits(k, n_entries) + n_entries * (W::BITS - k) as usize / 2;
        let most = (n / 2).min(MAX_ENTRIES);
        if is_ruled_out(values, most, |k, n_entries| cost(k, n_entries) < 8 * limit) {
            return None;
        }
        numbers[..n].copy_from_slice(values);
        let sorted = sorted(&mut numbers[..n]);
        let entries = entries_by_low_bits(sorted);
        let cost = |k: u32| cost(k, entries[k as usize]);
        let is_possible = |&k: &u32| {
            let n_entries = entries[k as usize];
            n_entries <= most && k + index_bits(n_entries) <= W::BITS
        };
        // Of several k with the lowest cost, take the largest.
        let low_bits = (0..W::BITS).rev().filter(is_possible).min_by_key(|&k| cost(k))?;
        if cost(low_bits) >= 8 * limit {
            return None;
        }
        let mut entries: Vec<W> = sorted.iter().map(|&value| value.shift_signed(low_bits) << low_bits).collect();
        entries.dedup();

        let differences = || entries.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).to_u64());
        let delta_shift = match differences().fold(0, |all, delta| all | delta) {
            0 => 0,
            all => all.trailing_zeros(),
        };
        let deltas: Vec<u64> = differences().map(|delta| delta >> delta_shift).collect();
        let delta_bits = deltas.iter().map(|delta| delta.bit_length()).max().unwrap_or(0);
        let mask = W::low_mask(low_bits);
        for (number, &value) in numbers.iter_mut().zip(values) {
            let entry = value.to_i64() >> low_bits << low_bits;
            let index = entries.partition_point(|other| other.to_i64() < entry);
            *number = W::from_u64(index as u64) << low_bits | value & mask;
        }
        numbers[n..n.next_multiple_of(LANES)].fill(W::default());
        let fields = Fields {
            low_bits: low_bits as u8,
            delta_bits: delta_bits as u8,
            delta_shift: delta_shift as u8,
            n_entries: entries.len() as u16,
            base: entries[0],
        };
        let indices = pack::choose(s, numbers, n, scratch);
        Some(Self { fields, deltas, indices })
    }

    /// Bytes of dictionary and numbers.
    pub fn n_bytes(&self) -> usize {
        delta_bytes(&self.fields) + self.indices.n_bytes()
    }

    /// Writes dictionary and numbers to `out`, which has exactly [`Self::n_bytes`] bytes.
    #[inline(always)]
    pub fn write<S: Simd<W>>(
        &self,
        s: S,
        numbers: &[W],
        scratch: &mut pack::Scratch<W>,
        out: &mut [u8],
        ahead: &mut impl Prefetcher,
    ) {
        let (deltas, out) = out.split_at_mut(delta_bytes(&self.fields));
        deltas.fill(0);
        let mut writer = Writer::new(deltas);
        self.deltas.iter().for_each(|&delta| writer.push(delta, self.fields.delta_bits.into()));
        writer.finish();
        pack::write(s, &self.indices, numbers, scratch, out, ahead);
    }
}

/// Reads `n` values from the start of `bytes` into `values`, which has room for whole rows. Returns
/// the number of bytes read.
///
/// # Errors
/// `Corrupt` if the bytes end early or contradict each other.
#[inline(always)]
pub fn read<W: Word, S: Simd<W>>(
    s: S,
    fields: &Fields<W>,
    bytes: &[u8],
    n: usize,
    values: &mut [W],
    scratch: &mut pack::Scratch<W>,
) -> Result<usize> {
    let damage = |what: &str| Error::corrupt(format!("a lorenzo block is damaged: it has {what}"));
    let bits = [fields.low_bits, fields.delta_bits, fields.delta_shift].map(u32::from);
    let n_entries = usize::from(fields.n_entries);
    if !(1..=n).contains(&n_entries)
        || bits.iter().any(|&bits| bits > W::BITS)
        || bits[0] == W::BITS
        || bits[2] == W::BITS
    {
        return Err(damage("an invalid dictionary"));
    }
    let [low_bits, delta_bits, delta_shift] = bits;
    let (deltas, numbers) = bytes.split_at_checked(delta_bytes(fields)).ok_or_else(|| damage("too few bytes"))?;
    let mut entries = try_vec(n_entries, "a dictionary")?;
    let mut entry = fields.base;
    entries.push(entry);
    for i in 0..n_entries - 1 {
        let delta = W::from_u64(peek(deltas, i * delta_bits as usize)) & W::low_mask(delta_bits);
        entry = entry.wrapping_add(delta << delta_shift);
        entries.push(entry);
    }
    let n_bytes = pack::read(s, numbers, n, values, scratch)?;
    let mask = W::low_mask(low_bits);
    for value in &mut values[..n] {
        let entry = entries.get((*value >> low_bits).to_u64() as usize);
        *value = entry.ok_or_else(|| damage("an index that is not in the dictionary"))?.wrapping_add(*value & mask);
    }
    Ok(deltas.len() + n_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::rows::{NoPrefetch, PORTABLE};

    fn round_trip<W: Word + std::fmt::Debug>(values: &[W]) -> Option<usize> {
        let n = values.len();
        let mut numbers = vec![W::default(); n.next_multiple_of(LANES)];
        let coding = Coding::choose(PORTABLE, values, &mut numbers, &mut pack::Scratch::new(), n * W::BYTES)?;
        let mut out = vec![0xee; coding.n_bytes()];
        coding.write(PORTABLE, &numbers, &mut pack::Scratch::new(), &mut out, &mut NoPrefetch);
        numbers.fill(W::from_u64(9));
        assert_eq!(
            read(PORTABLE, &coding.fields, &out, n, &mut numbers, &mut pack::Scratch::new()).unwrap(),
            out.len()
        );
        assert_eq!(numbers[..n], *values);
        for cut in 0..out.len() {
            assert!(
                read(PORTABLE, &coding.fields, &out[..cut], n, &mut numbers, &mut pack::Scratch::new()).is_err()
            );
        }
        Some(out.len())
    }

    #[test]
    fn repeated_values_become_indices() {
        let pool = [0.1f64, -3.25, 1e300, 0.0, -0.0, f64::NAN, 7.0];
        let values: Vec<u64> = (0..4000).map(|i| pool[i * i % 7].to_bits()).collect();
        assert!(round_trip(&values).unwrap() < 4000 / 2);
        let values: Vec<u32> = (0..8192u32).map(|i| i.wrapping_mul(i) % 64 * 0x0123_4567).collect();
        assert!(round_trip(&values).unwrap() < 8192);
        // All bits of the words, and all words of one value.
        assert!(round_trip(&[0, u64::MAX, 0, u64::MAX, 1 << 63, 1 << 63, 5, 5]).is_some());
        assert!(round_trip(&vec![77u32; 100]).is_some());
    }

    /// No dictionary that pays is ruled out, and few that do not pay are left.
    #[test]
    fn dictionaries_that_do_not_pay_are_ruled_out() {
        let mut seed = 1u64;
        let mut reached = [[0; 2]; 2];
        for case in 0..4000u32 {
            let mut random = || {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                seed >> 32
            };
            let n = [1, 2, 3, 64, 500, 1000, 1024, 8192][case as usize % 8];
            let (few, shift) = (random() % 2000 + 1, random() % 20);
            let values: Vec<u32> =
                (0..n).map(|_| ((random() % few) << shift) as u32 ^ (random() % 3) as u32).collect();
            let limit = (random() % 40) as usize * n + (random() % 9) as usize;
            let pays = |k: u32, n_entries: usize| n * ((index_bits(n_entries) + k) as usize) < limit;
            let entries = entries_by_low_bits(sorted(&mut values.clone()));
            let any_pays = (0..32).any(|k| entries[k as usize] <= 3 * n / 4 && pays(k, entries[k as usize]));
            let is_ruled_out = is_ruled_out(&values, 3 * n / 4, pays);
            assert!(!(any_pays && is_ruled_out), "case {case}");
            reached[usize::from(any_pays)][usize::from(is_ruled_out)] += 1;
        }
        assert!(reached[1][0] > 500 && reached[0][1] > 500 && reached[0][0] < 100, "{reached:?}");
    }

    #[test]
    fn values_are_sorted_as_signed_numbers() {
        for (n, mask) in
            [(1, u64::MAX), (2, u64::MAX), (1000, u64::MAX), (1000, 0xff00), (777, 0x8000_0000_0000_0001), (9, 0)]
        {
            let values: Vec<u64> = (1..=n).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut expected = values.clone();
            expected.sort_by_key(|&value| value as i64);
            assert_eq!(sorted(&mut values.clone()), expected);
            let mut values: Vec<u32> = values.iter().map(|&value| (value >> 32 ^ value) as u32).collect();
            let mut expected = values.clone();
            expected.sort_by_key(|&value| value as i32);
            assert_eq!(sorted(&mut values), expected);
        }
    }

    #[test]
    fn noise_has_no_dictionary() {
        let values: Vec<u64> = (0..4000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        assert_eq!(round_trip(&values), None);
    }

    #[test]
    fn impossible_dictionaries_are_errors() {
        let sound = Fields { low_bits: 3, delta_bits: 5, delta_shift: 2, n_entries: 9, base: 1u32 };
        for fields in [
            Fields { n_entries: 0, ..sound },
            Fields { low_bits: 32, ..sound },
            Fields { delta_bits: 33, ..sound },
            Fields { delta_shift: 32, ..sound },
        ] {
            assert!(
                read(PORTABLE, &fields, &[0; 1000], 50, &mut [0; 64], &mut pack::Scratch::new()).is_err(),
                "{fields:?}"
            );
        }
    }
}
