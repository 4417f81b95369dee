//! Reads symbols in contexts, row by row.

use crate::cpu::isa::Isa;
use crate::stage::entropy::contexts::{CONTEXTS, contexts};
use crate::stage::entropy::frequencies::{LOG2_TOTAL, entry};
use crate::stage::entropy::rans::LOWEST;
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx2, Avx512, contexts as simd};
use crate::stage::rows::LANES;

/// Number of sizes that are added up.
pub const NEAR: usize = 8;
/// Maximum number of bytes of the string that a row takes.
pub const STRING_BYTES: usize = 2 * LANES;
/// The state of each lane.
pub type States = [u32; LANES];
/// Sizes of the first symbols. Those above have the last one.
pub const SIZES: [u8; 32] = {
    let mut sizes = [0; 32];
    let mut symbol = 0;
    while symbol < sizes.len() {
        sizes[symbol] = size(symbol as u32);
        symbol += 1;
    }
    sizes
};

/// Half of the smallest number with this symbol, rounded up, and at most 255.
#[inline(always)]
pub const fn size(symbol: u32) -> u8 {
    if symbol < 8 {
        return symbol.div_ceil(2) as u8;
    }
    let shift = (symbol - 8) / 2 + 1;
    let size = (2 | symbol & 1) << if shift < 8 { shift } else { 8 };
    if size < u8::MAX as u32 { size as u8 } else { u8::MAX }
}

/// The slots of all tables, and the first slot of each context. There are slots for each index that
/// a context and the low bits of a state make.
pub struct Slots<'a> {
    slots: &'a [u32],
    /// More than [`CONTEXTS`], so that any four bits are a context.
    first: [u32; CONTEXTS.next_power_of_two()],
}

impl<'a> Slots<'a> {
    /// Slots of tables with [`LOG2_TOTAL`] bits, and the first one of each context.
    ///
    /// # Panics
    /// If slots are missing.
    pub fn new(slots: &'a [u32], first: [u32; CONTEXTS]) -> Self {
        let mut all = [0; CONTEXTS.next_power_of_two()];
        all[..CONTEXTS].copy_from_slice(&first);
        assert!(all.iter().all(|&first| first as usize + (1 << LOG2_TOTAL) <= slots.len()));
        Self { slots, first: all }
    }

    /// The slots.
    pub fn all(&self) -> &[u32] {
        self.slots
    }

    /// The first slot of each context.
    pub fn first(&self) -> &[u32; CONTEXTS.next_power_of_two()] {
        &self.first
    }
}

/// Rows to read.
pub struct Rows<'a> {
    /// The tables.
    pub slots: &'a Slots<'a>,
    /// Distances of neighbors.
    pub near: &'a [usize; NEAR],
    /// The string.
    pub string: &'a [u8],
    /// The sizes of all symbols before, and where those of these rows are written.
    pub sizes: &'a mut [u8],
    pub start: usize,
    /// The number of symbols. The last row may have fewer than 32.
    pub n: usize,
}

/// Reads rows while the string, from `at` on, has [`STRING_BYTES`] for another one. `symbols` has
/// room for whole rows. Returns the number of symbols, up to whole rows.
pub fn read(level: Isa, rows: Rows, at: &mut usize, states: &mut States, symbols: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::at(level) {
        return simd::read_avx512(avx512, rows, at, states, symbols);
    } else if let Some(avx2) = Avx2::at(level) {
        return simd::read_avx2(avx2, rows, at, states, symbols);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    let Rows { slots: Slots { slots, first }, near, string, sizes, start, n } = rows;
    let mut done = 0;
    while done < n {
        let Some(next) = string.get(*at..).and_then(<[u8]>::first_chunk::<STRING_BYTES>) else { break };
        let contexts = contexts(near, sizes, start + done);
        let sizes: &mut [u8; LANES] = sizes[start + done..].first_chunk_mut().expect("a row");
        let symbols: &mut [u8; LANES] = symbols[done..].first_chunk_mut().expect("a row");
        let n_lanes = LANES.min(n - done);
        let mut n_taken = 0;
        for lane in 0..n_lanes {
            let state = states[lane];
            let slot = first[usize::from(contexts[lane]) % first.len()] + (state & ((1 << LOG2_TOTAL) - 1));
            let (symbol, frequency, distance) = entry(slots[slot as usize]);
            let state = frequency.wrapping_mul(state >> LOG2_TOTAL).wrapping_add(distance);
            let word = u16::from_le_bytes([next[2 * n_taken], next[2 * n_taken + 1]]);
            let is_low = state < LOWEST;
            states[lane] = if is_low { state << 16 | u32::from(word) } else { state };
            n_taken += usize::from(is_low);
            symbols[lane] = symbol;
            sizes[lane] = SIZES[usize::from(symbol).min(SIZES.len() - 1)];
        }
        symbols[n_lanes..].fill(0);
        *at += 2 * n_taken;
        done += LANES;
    }
    done
}
