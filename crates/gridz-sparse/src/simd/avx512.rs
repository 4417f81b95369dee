//! Sums of a slice with AVX-512: 32 lanes are two vectors of 16.
//!
//! - Rows in order without codes read the vector contiguously.
//! - Lanes with codes gather.
//! - For blocks with a side of up to 4, one load gets the vector elements of a node, and the node's
//!   rows pick from them.
//! - For larger blocks, each node gathers once for all its rows.
//!
//! Columns have 32 bits here.
#![expect(clippy::needless_range_loop, reason = "registers of several arrays, by one number")]

use std::arch::x86_64::*;

use crate::element::Element;
use crate::frame::{View, step};
use crate::layout::{BLOCKED, FULL, IN_ORDER, LANES, RELATIVE, Slice, WINDOW};
use crate::simd::lanes::MOST;
use crate::values::Values;
use gridz_codecs::cpu::pages::fetch_ahead;

/// Half of the lanes.
const HALF: usize = LANES / 2;
/// The numbers 0 to 15.
const NUMBERS: [u32; HALF] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// Largest number of columns; other code handles larger matrices.
pub const MAX_COLS: u64 = 1 << 31;

/// Mapping between lanes and nodes of a slice, for one phase.
#[derive(Clone, Copy)]
struct Nodes {
    /// The node of each lane.
    of_lane: [u32; LANES],
    /// The lanes of each node, as masks.
    lanes: [u32; HALF],
    /// Number of nodes.
    n: usize,
    /// For blocks with a side of up to 4: which element each lane of a group picks, for every
    /// column of a block. The group's registers hold 4 elements for each of its nodes.
    picks: [[[u32; HALF]; 4]; MOST],
}

/// Inputs of a product: a matrix and a vector.
pub struct Job<'a, T, V> {
    view: View<'a>,
    values: V,
    x: &'a [T],
    /// Indexed by the phase of a slice.
    nodes: Vec<Nodes>,
}

impl<'a, T: Element, V: Values<T>> Job<'a, T, V> {
    /// Takes a matrix with at most [`MAX_COLS`] columns.
    pub fn new(view: View<'a>, values: V, x: &'a [T]) -> Self {
        assert!(x.len() as u64 <= MAX_COLS, "columns in 32 bits");
        let block = view.head.block;
        let of_phase = |phase: usize| {
            let n = (phase + LANES - 1) / block + 1;
            let mut nodes = Nodes { of_lane: [0; LANES], lanes: [0; HALF], n, picks: [[[0; HALF]; 4]; MOST] };
            for lane in 0..LANES {
                let node = (phase + lane) / block;
                nodes.of_lane[lane] = node as u32;
                let group = lane / T::GROUP;
                let before = node - (phase + group * T::GROUP) / block;
                for j in 0..block.min(4) {
                    nodes.picks[group][j][lane % T::GROUP] = (before * 4 + j) as u32;
                }
                if let Some(lanes) = nodes.lanes.get_mut(node) {
                    *lanes |= 1 << lane;
                }
            }
            nodes
        };
        Self { view, values, x, nodes: (0..block).map(of_phase).collect() }
    }

    /// The sums of the lanes of slice `i`; `None` if its codes have 8 bytes.
    ///
    /// # Safety
    /// The caller must be compiled for AVX-512. The matrix's tables must have been checked, and `x`
    /// must have as many elements as the matrix has columns.
    #[inline(always)]
    pub unsafe fn slice(&self, i: usize, slice: &Slice) -> Option<[T; LANES]> {
        let mut sums = [T::default(); LANES];
        let is_in_order = slice.order_at == IN_ORDER;
        let block = self.view.head.block;
        // SAFETY: the same promises.
        unsafe {
            let is_small = slice.has(BLOCKED) && slice.width <= 4;
            match block {
                2 if is_small => self.small_blocks::<2>(i, slice, &mut sums),
                3 if is_small => self.small_blocks::<3>(i, slice, &mut sums),
                4 if is_small => self.small_blocks::<4>(i, slice, &mut sums),
                _ => {}
            }
            if is_small && block <= 4 {
                return Some(sums);
            }
        }
        // SAFETY: the same promises.
        let [low, high] = unsafe {
            match (slice.has(BLOCKED), slice.width) {
                (false, 0) if slice.has(RELATIVE) && is_in_order => self.diagonals(i, slice),
                (false, 0 | 1 | 2 | 4) => self.lanes(i, slice),
                (true, 0 | 1 | 2 | 4) => self.blocks(i, slice),
                _ => return None,
            }
        };
        // SAFETY: `sums` has room for 32 elements.
        unsafe {
            T::store(sums.as_mut_ptr(), low);
            T::store(sums.as_mut_ptr().add(HALF), high);
        }
        Some(sums)
    }

    #[inline(always)]
    unsafe fn diagonals(&self, i: usize, slice: &Slice) -> [T::Vector; 2] {
        let steps = self.view.steps(slice);
        let of = self.values.of_slice(i, slice);
        let first = slice.base.wrapping_add(u64::from(slice.place) * LANES as u64);
        // SAFETY: the columns of elements have been checked. Masked loads do not access any other
        // columns.
        unsafe {
            let mut sums = [T::zero(); 2];
            for k in 0..steps.len() {
                let one = step(steps, k);
                let [v_low, v_high] = self.values.vectors(of, k);
                let x = self.x.as_ptr().wrapping_add(first.wrapping_add(u64::from(one.offset)) as usize);
                if one.mask == u32::MAX {
                    sums[0] = T::add_product(sums[0], v_low, T::load(x));
                    sums[1] = T::add_product(sums[1], v_high, T::load(x.add(HALF)));
                } else {
                    let (low, high) = halves(one.mask);
                    sums[0] = T::add_some(low, sums[0], v_low, T::load_some(low, x));
                    let x = T::load_some(high, x.wrapping_add(HALF));
                    sums[1] = T::add_some(high, sums[1], v_high, x);
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn lanes(&self, i: usize, slice: &Slice) -> [T::Vector; 2] {
        let steps = self.view.steps(slice);
        let (codes, width) = (self.view.codes(slice), usize::from(slice.width));
        let of = self.values.of_slice(i, slice);
        let x = self.x.as_ptr();
        // SAFETY: the columns of elements have been checked, and only those in the mask are
        // gathered.
        unsafe {
            let origins = self.origins(slice);
            let mut sums = [T::zero(); 2];
            for k in 0..steps.len() {
                let one = step(steps, k);
                let [v_low, v_high] = self.values.vectors(of, k);
                let (first, second) = codes[k * LANES * width..][..LANES * width].split_at(HALF * width);
                let offset = _mm512_set1_epi32(one.offset as i32);
                let (low, high) = halves(one.mask);
                let code = load_codes_of(first, width, u16::MAX);
                let x_low = T::gather(low, x, _mm512_add_epi32(_mm512_add_epi32(origins[0], offset), code));
                let code = load_codes_of(second, width, u16::MAX);
                let x_high = T::gather(high, x, _mm512_add_epi32(_mm512_add_epi32(origins[1], offset), code));
                if slice.has(FULL) {
                    sums[0] = T::add_product(sums[0], v_low, x_low);
                    sums[1] = T::add_product(sums[1], v_high, x_high);
                } else {
                    sums[0] = T::add_some(low, sums[0], v_low, x_low);
                    sums[1] = T::add_some(high, sums[1], v_high, x_high);
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn blocks(&self, i: usize, slice: &Slice) -> [T::Vector; 2] {
        let block = self.view.head.block;
        let steps = self.view.steps(slice);
        let codes = self.view.codes(slice);
        let of = self.values.of_slice(i, slice);
        let phase = slice.phase(block);
        let nodes = &self.nodes[phase];
        let x = self.x.as_ptr();
        // SAFETY: as above. Blocks have at least two rows, and with two rows the phase is 0, so
        // there are at most 16 nodes.
        unsafe {
            let of_lane = nodes.of_lane.as_ptr();
            let of_lane = [_mm512_loadu_si512(of_lane.cast()), _mm512_loadu_si512(of_lane.add(HALF).cast())];
            let lanes_of = _mm512_loadu_si512(nodes.lanes.as_ptr().cast());
            let origins = self.node_origins(slice, phase, nodes.n);
            let present = ((1u32 << nodes.n) - 1) as u16;
            let mut sums = [T::zero(); 2];
            for k in 0..steps.len() {
                let one = step(steps, k);
                let (low, high) = halves(one.mask);
                let width = usize::from(slice.width);
                let code = load_codes_of(&codes[k * nodes.n * width..][..nodes.n * width], width, present);
                let at = _mm512_add_epi32(_mm512_add_epi32(origins, _mm512_set1_epi32(one.offset as i32)), code);
                let mask = _mm512_test_epi32_mask(lanes_of, _mm512_set1_epi32(one.mask as i32));
                for j in 0..block {
                    let [v_low, v_high] = self.values.vectors(of, k * block + j);
                    let of_nodes = T::gather(mask, x.wrapping_add(j), at);
                    let (x_low, x_high) = (T::pick(of_nodes, of_lane[0]), T::pick(of_nodes, of_lane[1]));
                    if one.mask == u32::MAX {
                        sums[0] = T::add_product(sums[0], v_low, x_low);
                        sums[1] = T::add_product(sums[1], v_high, x_high);
                    } else {
                        sums[0] = T::add_some(low, sums[0], v_low, x_low);
                        sums[1] = T::add_some(high, sums[1], v_high, x_high);
                    }
                }
            }
            sums
        }
    }

    /// Slices with blocks whose side is at most 4.
    #[inline(always)]
    unsafe fn small_blocks<const B: usize>(&self, i: usize, slice: &Slice, to: &mut [T; LANES]) {
        let n_groups = LANES / T::GROUP;
        let steps = self.view.steps(slice);
        let codes = self.view.codes(slice);
        let of = self.values.of_slice(i, slice);
        let phase = slice.phase(B);
        let nodes = &self.nodes[phase];
        let x = self.x.as_ptr();
        let side = (1u8 << B) - 1;
        // SAFETY: as above. For each node, this reads either the `B` elements of its block (`side` is
        // their mask), if the node has an element in this step, or four elements starting at its
        // column, if `x` has four elements from the column of every node on.
        // A group never has more nodes than two registers hold: 16 lanes have at most 8 nodes,
        // 8 lanes have at most 4.
        unsafe {
            let mut numbers = [[_mm512_setzero_si512(); B]; MOST];
            for group in 0..n_groups {
                for j in 0..B {
                    numbers[group][j] = T::numbers(&nodes.picks[group][j]);
                }
            }
            let lanes_of = _mm512_loadu_si512(nodes.lanes.as_ptr().cast());
            let origins = self.node_origins(slice, phase, nodes.n);
            let present = ((1u32 << nodes.n) - 1) as u16;
            // From this column on, fewer than four elements remain.
            let end = self.x.len().saturating_sub(3) as u32;
            let mut sums = [T::zeros(); MOST];
            // Padding for the nodes that the last group may read.
            let mut columns = [0u32; HALF + 8];
            for k in 0..steps.len() {
                let one = step(steps, k);
                let width = usize::from(slice.width);
                let code = load_codes_of(&codes[k * nodes.n * width..][..nodes.n * width], width, present);
                let at = _mm512_add_epi32(_mm512_add_epi32(origins, _mm512_set1_epi32(one.offset as i32)), code);
                // Nodes without an element here use column 0; their products are not added.
                let here = _mm512_test_epi32_mask(lanes_of, _mm512_set1_epi32(one.mask as i32));
                let at = _mm512_maskz_mov_epi32(here, at);
                _mm512_storeu_si512(columns.as_mut_ptr().cast(), at);
                let are_inside = end > 0 && _mm512_cmpge_epu32_mask(at, _mm512_set1_epi32(end as i32)) == 0;
                let mut own = [[T::zeros(); 2]; MOST];
                for (group, own) in own.iter_mut().enumerate().take(n_groups) {
                    let node = (phase + group * T::GROUP) / B;
                    let columns = columns.as_ptr().add(node);
                    *own = match are_inside {
                        true => T::whole_nodes(x, columns),
                        false => T::nodes(x, columns, u32::from(here) >> node, side),
                    };
                }
                for j in 0..B {
                    let values = T::groups(self.values.vectors(of, k * B + j));
                    for group in 0..n_groups {
                        let x = T::pick_of(own[group], numbers[group][j]);
                        let lanes = (one.mask >> (group * T::GROUP)) as u16;
                        sums[group] = T::add_group(lanes, sums[group], values[group], x);
                    }
                }
            }
            for (group, sum) in sums.into_iter().enumerate().take(n_groups) {
                T::store_group(to.as_mut_ptr().add(group * T::GROUP), sum);
            }
        }
    }

    /// The part of the columns of each lane that does not depend on the step.
    #[inline(always)]
    unsafe fn origins(&self, slice: &Slice) -> [__m512i; 2] {
        // SAFETY: register instructions, and loads from arrays of 16 and 32 numbers.
        unsafe {
            let base = _mm512_set1_epi32(slice.base as i32);
            if !slice.has(RELATIVE) {
                return [base; 2];
            }
            let block = self.view.head.block;
            if slice.order_at == IN_ORDER {
                let first = _mm512_add_epi32(base, _mm512_set1_epi32((slice.place as usize * LANES) as i32));
                let first = _mm512_add_epi32(first, _mm512_loadu_si512(NUMBERS.as_ptr().cast()));
                return [first, _mm512_add_epi32(first, _mm512_set1_epi32(HALF as i32))];
            }
            let mut own = [0u32; LANES];
            if block == 1 {
                // The last slice may have fewer rows.
                let order = &self.view.order(slice.order_at as usize)[..usize::from(slice.n_lanes)];
                let window = slice.place as usize / (WINDOW / LANES) * WINDOW;
                for (own, row) in own.iter_mut().zip(order) {
                    *own = window as u32 + u32::from(u16::from_le_bytes(*row));
                }
            } else {
                for (own, origin) in own.iter_mut().zip(self.view.lanes(slice).0) {
                    *own = origin as u32;
                }
            }
            let low = _mm512_loadu_si512(own.as_ptr().cast());
            let high = _mm512_loadu_si512(own.as_ptr().add(HALF).cast());
            [_mm512_add_epi32(base, low), _mm512_add_epi32(base, high)]
        }
    }

    /// The part of the columns of each node that does not depend on the step.
    #[inline(always)]
    unsafe fn node_origins(&self, slice: &Slice, phase: usize, n: usize) -> __m512i {
        let block = self.view.head.block;
        // SAFETY: register instructions, and loads from arrays of 16 numbers.
        unsafe {
            let base = _mm512_set1_epi32(slice.base as i32);
            if !slice.has(RELATIVE) {
                return base;
            }
            let (first, nodes) = match slice.order_at {
                IN_ORDER => {
                    let first = (slice.place as usize * LANES - phase) as i32;
                    (first, _mm512_loadu_si512(NUMBERS.as_ptr().cast()))
                }
                at => {
                    let mut own = [0u32; HALF];
                    // The last slice may have fewer nodes.
                    for (own, node) in own.iter_mut().zip(self.view.order(at as usize)).take(n) {
                        *own = u32::from(u16::from_le_bytes(*node));
                    }
                    let first = slice.place as usize / (WINDOW / LANES) * WINDOW;
                    (first as i32, _mm512_loadu_si512(own.as_ptr().cast()))
                }
            };
            let nodes = _mm512_mullo_epi32(nodes, _mm512_set1_epi32(block as i32));
            _mm512_add_epi32(_mm512_add_epi32(base, _mm512_set1_epi32(first)), nodes)
        }
    }
}

#[inline(always)]
fn halves(mask: u32) -> (u16, u16) {
    (mask as u16, (mask >> 16) as u16)
}

/// Loads at most 16 codes of `width` bytes: those in `present`, and zeros elsewhere.
///
/// # Safety
/// The caller must be compiled for AVX-512, and `codes` must contain the codes in `present`.
#[inline(always)]
unsafe fn load_codes_of(codes: &[u8], width: usize, present: u16) -> __m512i {
    fetch_ahead(codes);
    // SAFETY: the same promises.
    unsafe {
        match width {
            0 => load_codes::<0>(codes.as_ptr(), present),
            1 => load_codes::<1>(codes.as_ptr(), present),
            2 => load_codes::<2>(codes.as_ptr(), present),
            _ => load_codes::<4>(codes.as_ptr(), present),
        }
    }
}

/// Loads 16 codes of `W` bytes: those in `present`, and zeros elsewhere.
///
/// # Safety
/// The caller must be compiled for AVX-512, and the codes in `present` must exist at `from`.
#[inline(always)]
pub unsafe fn load_codes<const W: usize>(from: *const u8, present: u16) -> __m512i {
    // SAFETY: the caller promises that these codes exist; nothing else is read.
    unsafe {
        match W {
            0 => _mm512_setzero_si512(),
            1 => _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(present, from.cast())),
            2 => _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(present, from.cast())),
            _ => _mm512_maskz_loadu_epi32(present, from.cast()),
        }
    }
}
