//! Sums of a slice with blocks, with AVX2: four lanes at a time.
//!
//! Four lanes belong to at most two nodes. With a side of 2 they start at the beginning of a node;
//! with a side of 3 or more they may start anywhere in a node. So their factors are one of two
//! elements of the vector, and each is broadcast to four lanes. Columns are computed once for
//! each node and block. Columns have 32 bits here.

use std::arch::x86_64::*;

use crate::element::Element;
use crate::frame::{View, step};
use crate::layout::{LANES, Slice};
use crate::sums::{code, origins};
use crate::values::Values;

/// Lanes that are processed together.
const FOUR: usize = 4;
/// Groups of four lanes in a slice.
const FOURS: usize = LANES / FOUR;

/// Elements with vectors of four.
///
/// # Safety
/// All functions need AVX2 and must be inlined into code that is compiled for it.
pub unsafe trait Fours: Copy {
    /// A vector of four elements, or a mask of four lanes.
    type Four: Copy;
    /// Zeros.
    unsafe fn zero_four() -> Self::Four;
    /// Four contiguous elements.
    unsafe fn load_four(from: *const Self) -> Self::Four;
    /// A mask from the lowest four bits.
    unsafe fn four_mask(bits: u32) -> Self::Four;
    /// The element at `second` in the lanes of the mask, and the element at `first` in the others.
    unsafe fn one_of(first: *const Self, second: *const Self, mask: Self::Four) -> Self::Four;
    /// `sum + a × b`, each rounded.
    unsafe fn add_four(sum: Self::Four, a: Self::Four, b: Self::Four) -> Self::Four;
    /// `new` in the lanes of the mask, and `old` in the others.
    unsafe fn choose_four(mask: Self::Four, new: Self::Four, old: Self::Four) -> Self::Four;
    /// Stores four contiguous elements.
    unsafe fn store_four(to: *mut Self, four: Self::Four);
}

/// Expands four bits to lanes of 32 bits, each all ones or all zeros.
#[inline(always)]
unsafe fn lanes_of(bits: u32) -> __m128i {
    // SAFETY: register instructions only.
    unsafe {
        let lanes = _mm_setr_epi32(1, 2, 4, 8);
        _mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32(bits as i32), lanes), lanes)
    }
}

macro_rules! fours {
    ($type:ident, $four:ident, $zeros:ident, $load:ident, $same:ident, $choose:ident, $add:ident, $multiply:ident, $store:ident, $mask:expr) => {
        // SAFETY: AVX2 instructions only; the caller is responsible for pointers.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "one intrinsic each, whose promises are the trait's")]
        unsafe impl Fours for $type {
            type Four = $four;

            #[inline(always)]
            unsafe fn zero_four() -> $four {
                unsafe { $zeros() }
            }

            #[inline(always)]
            unsafe fn load_four(from: *const $type) -> $four {
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn four_mask(bits: u32) -> $four {
                unsafe { $mask(lanes_of(bits)) }
            }

            #[inline(always)]
            unsafe fn one_of(first: *const $type, second: *const $type, mask: $four) -> $four {
                unsafe { $choose($same(*first), $same(*second), mask) }
            }

            #[inline(always)]
            unsafe fn add_four(sum: $four, a: $four, b: $four) -> $four {
                unsafe { $add(sum, $multiply(a, b)) }
            }

            #[inline(always)]
            unsafe fn choose_four(mask: $four, new: $four, old: $four) -> $four {
                unsafe { $choose(old, new, mask) }
            }

            #[inline(always)]
            unsafe fn store_four(to: *mut $type, four: $four) {
                unsafe { $store(to, four) }
            }
        }
    };
}
fours!(
    f32,
    __m128,
    _mm_setzero_ps,
    _mm_loadu_ps,
    _mm_set1_ps,
    _mm_blendv_ps,
    _mm_add_ps,
    _mm_mul_ps,
    _mm_storeu_ps,
    _mm_castsi128_ps
);
fours!(
    f64,
    __m256d,
    _mm256_setzero_pd,
    _mm256_loadu_pd,
    _mm256_set1_pd,
    _mm256_blendv_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_storeu_pd,
    wide_mask
);

/// Converts a mask with lanes of 32 bits to one with lanes of 64 bits.
#[inline(always)]
unsafe fn wide_mask(lanes: __m128i) -> __m256d {
    // SAFETY: register instructions only.
    unsafe { _mm256_castsi256_pd(_mm256_cvtepi32_epi64(lanes)) }
}

/// The nodes of four lanes.
#[derive(Clone, Copy, Default)]
struct Nodes {
    /// The nodes of the first and of the last lane.
    both: [u8; 2],
    /// The lanes that belong to the last lane's node, as a mask.
    second: u8,
}

/// Inputs of a product: a matrix and a vector.
pub struct Job<'a, T, V> {
    view: View<'a>,
    values: V,
    x: &'a [T],
    /// Indexed by the phase of a slice.
    nodes: Vec<[Nodes; FOURS]>,
}

impl<'a, T: Element, V: Values<T>> Job<'a, T, V> {
    /// Takes a matrix whose columns fit in 32 bits.
    pub fn new(view: View<'a>, values: V, x: &'a [T]) -> Self {
        let block = view.head.block;
        let of_phase = |phase: usize| {
            let mut nodes = [Nodes::default(); FOURS];
            for (i, nodes) in nodes.iter_mut().enumerate() {
                let node = |lane: usize| (phase + i * FOUR + lane) / block;
                nodes.both = [node(0) as u8, node(FOUR - 1) as u8];
                for lane in 0..FOUR {
                    nodes.second |= u8::from(node(lane) == node(FOUR - 1)) << lane;
                }
            }
            nodes
        };
        Self { view, values, x, nodes: (0..block).map(of_phase).collect() }
    }

    /// The sums of the lanes of slice `i`, which has blocks; `None` if its codes have 8 bytes.
    ///
    /// # Safety
    /// The caller must be compiled for AVX2. The matrix's tables must have been checked, and `x`
    /// must have as many elements as the matrix has columns.
    #[inline(always)]
    pub unsafe fn slice(&self, i: usize, slice: &Slice) -> Option<[T; LANES]> {
        if slice.width > 4 {
            return None;
        }
        // SAFETY: the same promises.
        Some(unsafe { self.blocks(i, slice) })
    }

    #[inline(always)]
    unsafe fn blocks(&self, i: usize, slice: &Slice) -> [T; LANES] {
        let block = self.view.head.block;
        let steps = self.view.steps(slice);
        let (codes, width) = (self.view.codes(slice), usize::from(slice.width));
        let of = self.values.of_slice(i, slice);
        let (phase, n_codes) = (slice.phase(block), slice.n_codes(block));
        let nodes = &self.nodes[phase];
        let lane_origins = origins(&self.view, slice);
        // The origin of each node is that of its first lane.
        let mut origins = [0; LANES];
        let mut lanes = [0; LANES];
        for (node, (origin, lanes)) in origins.iter_mut().zip(&mut lanes).enumerate().take(n_codes) {
            let first = (node * block).saturating_sub(phase);
            *origin = lane_origins[first];
            let end = ((node + 1) * block - phase).min(LANES);
            *lanes = u32::MAX << first & u32::MAX >> (LANES - end);
        }
        let mut columns = [0; LANES];
        let mut sums = [T::default(); LANES];
        // SAFETY: the columns of elements have been checked, including all columns of a block.
        // Nodes without an element at this step use column 0, which starts a block if there is a
        // block.
        unsafe {
            let mut second = [T::zero_four(); FOURS];
            for (second, nodes) in second.iter_mut().zip(nodes) {
                *second = T::four_mask(nodes.second.into());
            }
            let mut own = [T::zero_four(); FOURS];
            for k in 0..steps.len() {
                let one = step(steps, k);
                let codes = &codes[k * n_codes * width..][..n_codes * width];
                for node in 0..n_codes {
                    let code = match width {
                        0 => 0,
                        1 => code::<1>(codes, node),
                        2 => code::<2>(codes, node),
                        _ => code::<4>(codes, node),
                    };
                    let column = origins[node].wrapping_add(one.offset).wrapping_add(code);
                    columns[node] = if one.mask & lanes[node] != 0 { column } else { 0 };
                }
                for j in 0..block {
                    let values = self.values.step(of, k * block + j);
                    let x = self.x.as_ptr().add(j);
                    for four in 0..FOURS {
                        let [a, b] = nodes[four].both.map(|node| x.add(columns[usize::from(node)] as usize));
                        let x = T::one_of(a, b, second[four]);
                        let sum = T::add_four(own[four], T::load_four(values.as_ptr().add(FOUR * four)), x);
                        own[four] = match one.mask {
                            u32::MAX => sum,
                            mask => T::choose_four(T::four_mask(mask >> (FOUR * four)), sum, own[four]),
                        };
                    }
                }
            }
            for (four, own) in own.into_iter().enumerate() {
                T::store_four(sums.as_mut_ptr().add(FOUR * four), own);
            }
        }
        sums
    }
}
