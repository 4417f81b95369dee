//! Planes of four places from bits, several at a time by a table.
//!
//! A plane of four places has up to seven bits, so eight bits are one or more planes, which the table has for all bits and
//! for all places seen before. Where fewer than eight bits are left they are all there is, and what is cut off is zero.

use std::arch::x86_64::{_bzhi_u64, _pdep_u64};

use crate::stage::bits::window;

/// Planes of a block, the highest one first, a byte each; more bytes than planes are written.
pub type Rows = [u8; 72];

/// The planes that bits begin with, seven at most. From bit 0 on how many they are, four bits; from bit 4 on how many bits
/// all planes up to and with each have, four bits for each; from bit 32 on the planes, four bits for each; and from bit 60 on
/// the places below which bits are as they are after them.
type Entry = u64;

/// Bits that are looked up at once.
const LOOKED_UP: usize = 8;

/// Where the entries for so many bits that are left begin.
const fn base(left: usize) -> usize {
    5 * ((1 << left) - 2)
}

/// The entries for each number of bits that are left, for all places seen before, and for these bits.
pub static TABLE: [Entry; base(LOOKED_UP + 1)] = {
    let mut table = [0; base(LOOKED_UP + 1)];
    let mut left = 1;
    while left <= LOOKED_UP {
        let mut i = 0;
        while i < 5 << left {
            table[base(left) + i] = entry(left, i >> left, i & ((1 << left) - 1));
            i += 1;
        }
        left += 1;
    }
    table
};

/// The planes of the first `left` bits; if these are fewer than are looked up, all bits end there.
const fn entry(left: usize, mut seen: usize, bits: usize) -> Entry {
    let (mut planes, mut ends, mut n, mut seen_after) = (0, 0, 0, seen);
    let mut at = 0;
    while at < left && n < 7 {
        let mut plane = 0;
        let mut place = 0;
        while place < seen && at < left {
            plane |= (bits >> at & 1) << place;
            (place, at) = (place + 1, at + 1);
        }
        // Whether another bit is wanted.
        let mut is_open = place < seen || seen < 4;
        while at < left && seen < 4 {
            let is_another = bits >> at & 1 == 1;
            at += 1;
            if !is_another {
                is_open = false;
                break;
            }
            while seen < 3 && at < left && bits >> at & 1 == 0 {
                (seen, at) = (seen + 1, at + 1);
            }
            let is_cut = seen < 3 && at == left;
            if seen < 3 && !is_cut {
                at += 1;
            }
            plane |= 1 << seen;
            seen += 1;
            is_open = is_cut || seen < 4;
        }
        if is_open && left == LOOKED_UP {
            // It may go on behind these bits.
            break;
        }
        planes |= plane << (4 * n);
        n += 1;
        ends |= at << (4 * n);
        seen_after = seen;
    }
    (n | ends | planes << 32 | seen_after << 60) as Entry
}

/// Reads up to `n_planes` planes of a block, as long as there are bits between `at` and `end`; where they end.
///
/// # Safety
/// The CPU must have BMI2.
#[inline(always)]
pub unsafe fn planes(bytes: &[u8], mut at: usize, end: usize, n_planes: usize, rows: &mut Rows) -> usize {
    const BYTES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let (mut n, mut seen) = (0, 0);
    while n < n_planes && at < end {
        if seen == 4 {
            // From here on they are as they are, eight in 32 bits.
            let taken = (4 * (n_planes - n)).min(end - at).min(32);
            // SAFETY: the caller's promise.
            let planes = unsafe { _pdep_u64(_bzhi_u64(window(bytes, at), taken as u32), BYTES) };
            rows[n..n + 8].copy_from_slice(&planes.to_le_bytes());
            (n, at) = (n + taken.div_ceil(4), at + taken);
            continue;
        }
        let left = (end - at).min(LOOKED_UP);
        let bits = window(bytes, at) as usize & ((1 << left) - 1);
        let entry = TABLE[base(left) + (seen << left) + bits];
        // SAFETY: the caller's promise.
        let planes = unsafe { _pdep_u64(entry >> 32, BYTES) };
        rows[n..n + 8].copy_from_slice(&planes.to_le_bytes());
        let taken = (entry as usize & 15).min(n_planes - n);
        at += (entry >> (4 * taken)) as usize & 15;
        n += taken;
        seen = (entry >> 60) as usize;
    }
    rows[n..n + 8].fill(0);
    at
}
