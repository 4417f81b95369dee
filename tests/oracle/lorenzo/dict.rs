//! The map DICT.

use std::collections::BTreeSet;

use super::bits::string_of;
use super::{bit_length, split};

/// A dictionary, and the residuals of the values.
pub struct Dictionary {
    /// Bytes 1 to 3 of the header: k, bits of a delta, shift of the deltas.
    pub fields: [u8; 3],
    pub entries: Vec<i64>,
    deltas: Vec<u64>,
    r: Vec<u64>,
}

/// entries(k) of docs/writer.md.
fn n_different(values: &[i64], k: u32) -> usize {
    values.iter().map(|v| v >> k).collect::<BTreeSet<i64>>().len()
}

fn index_bits(n_entries: usize) -> u32 {
    bit_length(n_entries as u64 - 1)
}

impl Dictionary {
    /// `best_bits` is that of docs/writer.md.
    pub fn of(values: &[i64], w: u32, best_bits: usize) -> Option<Self> {
        let m = values.len();
        let bits = |k: u32, d: usize| m * (k + index_bits(d)) as usize;

        let sample: Vec<i64> = values.iter().copied().step_by((m / 1024).max(1)).take(1024).collect();
        let is_promising = |k: u32| {
            let d = n_different(&sample, k);
            4 * d <= 3 * sample.len() && bits(k, d) < best_bits
        };
        if !(0..w).any(is_promising) {
            return None;
        }

        let mut best: Option<(usize, u32)> = None;
        for k in (0..w).rev() {
            let d = n_different(values, k);
            if 2 * d <= m {
                let cost = bits(k, d) + d * (w - k) as usize / 2;
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, k));
                }
            }
        }
        let (_, k) = best.filter(|&(cost, _)| cost < best_bits)?;

        let entries: BTreeSet<i64> = values.iter().map(|v| v >> k << k).collect();
        let entries: Vec<i64> = entries.into_iter().collect();
        let mask = u64::MAX >> (64 - w);
        let mut deltas: Vec<u64> =
            entries.windows(2).map(|two| two[1].wrapping_sub(two[0]) as u64 & mask).collect();
        let any = deltas.iter().fold(0, |any, delta| any | delta);
        let shift = if any == 0 { 0 } else { any.trailing_zeros() };
        deltas.iter_mut().for_each(|delta| *delta >>= shift);
        let delta_bits = deltas.iter().map(|&delta| bit_length(delta)).max().unwrap_or(0);
        let number = |&v: &i64| {
            let index = entries.binary_search(&(v >> k << k)).unwrap() as u64;
            index << k | v as u64 & ((1 << k) - 1)
        };
        let r = values.iter().map(number).collect();
        Some(Self { fields: [k as u8, delta_bits as u8, shift as u8], entries, deltas, r })
    }

    /// The bytes that follow the header.
    pub fn encode(&self, w: u32) -> Vec<u8> {
        let mut bytes = string_of(self.deltas.iter().copied(), self.fields[1].into());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(split::encode(&self.r, w));
        bytes
    }
}
