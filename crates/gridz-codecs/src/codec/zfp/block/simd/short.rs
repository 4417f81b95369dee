//! Reads planes of four positions from bits, several at a time by table lookup.
//!
//! A plane of four positions has up to seven bits, so eight bits contain one plane or more. The
//! table has these planes for every value of the eight bits and every number of positions seen
//! before. If fewer than eight bits are left, they are all of the block's bits, and truncated bits
//! are zero.

use std::arch::x86_64::{_bzhi_u64, _pdep_u64};

use crate::stage::bits::window;

/// Planes of a block, the highest one first, one byte each. Writing planes overwrites more bytes
/// than there are planes.
pub type Rows = [u8; 72];

/// The planes at the start of some bits, at most seven. Bits 0 to 3 are the number of planes. From
/// bit 4 on, four bits per plane give the number of bits up to and including that plane. From bit
/// 32 on come the planes, four bits each. From bit 60 on comes the number of positions below which
/// bits are verbatim afterwards.
type Entry = u64;

/// Bits per table lookup.
const LOOKED_UP: usize = 8;

/// Index of the entries for `left` remaining bits.
const fn base(left: usize) -> usize {
    5 * ((1 << left) - 2)
}

/// The entries by number of remaining bits, positions seen before, and value of these bits.
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

/// The planes in the first `left` bits. If these are fewer than a lookup takes, the block's bits
/// end there.
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
        // True while the plane needs another bit.
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
            // The plane may continue after these bits.
            break;
        }
        planes |= plane << (4 * n);
        n += 1;
        ends |= at << (4 * n);
        seen_after = seen;
    }
    (n | ends | planes << 32 | seen_after << 60) as Entry
}

/// Reads up to `n_planes` planes of a block from the bits between `at` and `end`. Returns the bit
/// at which they end.
///
/// # Safety
/// The CPU must have BMI2.
#[inline(always)]
pub unsafe fn planes(bytes: &[u8], mut at: usize, end: usize, n_planes: usize, rows: &mut Rows) -> usize {
    const BYTES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let (mut n, mut seen) = (0, 0);
    while n < n_planes && at < end {
        if seen == 4 {
            // All further planes are verbatim: eight in 32 bits.
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
