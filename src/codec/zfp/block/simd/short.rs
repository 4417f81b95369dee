//! Planes of four places from bits, several at a time by a table.
//!
//! A plane of four places has up to seven bits, so eight bits are one or more planes, which the table has for all bits and
//! for all places seen before. Where fewer than eight bits are left they are all there is, and what is cut off is zero.

use std::arch::x86_64::_pdep_u64;

use crate::stage::bits::window;

/// Planes of a block, the highest one first, a byte each; more bytes than planes are written.
pub type Rows = [u8; 72];

/// The planes that bits begin with.
#[derive(Clone, Copy)]
struct Entry {
    /// Four bits for each.
    planes: u32,
    /// How many bits all planes up to and with each have, four bits for each.
    ends: u32,
    /// How many planes they are.
    n: u8,
    /// Places below which bits are as they are after them.
    seen: u8,
}

/// Bits that are looked up at once.
const LOOKED_UP: usize = 8;

/// Where the entries for so many bits that are left begin.
const fn base(left: usize) -> usize {
    5 * ((1 << left) - 2)
}

static TABLE: [Entry; base(LOOKED_UP + 1)] = {
    let mut table = [Entry { planes: 0, ends: 0, n: 0, seen: 0 }; base(LOOKED_UP + 1)];
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
    let mut entry = Entry { planes: 0, ends: 0, n: 0, seen: seen as u8 };
    let mut at = 0;
    while at < left {
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
            return entry;
        }
        entry.planes |= (plane as u32) << (4 * entry.n);
        entry.ends |= (at as u32) << (4 * entry.n);
        entry.n += 1;
        entry.seen = seen as u8;
    }
    entry
}

/// Reads up to `n_planes` planes of a block, as long as there are bits between `at` and `end`; where they end.
///
/// # Safety
/// The CPU must have BMI2.
#[inline(always)]
pub unsafe fn planes(bytes: &[u8], mut at: usize, end: usize, n_planes: usize, rows: &mut Rows) -> usize {
    let (mut n, mut seen) = (0, 0);
    while n < n_planes && at < end {
        let left = (end - at).min(LOOKED_UP);
        let bits = window(bytes, at) as usize & ((1 << left) - 1);
        let entry = &TABLE[base(left) + (seen << left) + bits];
        // SAFETY: the caller's promise.
        let planes = unsafe { _pdep_u64(entry.planes.into(), 0x0f0f_0f0f_0f0f_0f0f) };
        rows[n..n + 8].copy_from_slice(&planes.to_le_bytes());
        let taken = usize::from(entry.n).min(n_planes - n);
        at += (entry.ends >> (4 * (taken - 1)) & 15) as usize;
        n += taken;
        seen = usize::from(entry.seen);
    }
    rows[n..n + 8].fill(0);
    at
}
