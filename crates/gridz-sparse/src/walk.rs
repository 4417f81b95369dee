//! Iterates over the elements of a slice, by steps or by elements.

use crate::element::Element;
use crate::frame::{View, step};
use crate::layout::{BLOCKED, IN_ORDER, LANES, RELATIVE, STEP_BYTES, Slice};
use crate::values::Values;
use gridz_codecs::cpu::isa::{Isa, Kernel, dispatch_up_to_avx2};

/// Computes the columns of a slice.
pub struct Columns<'a> {
    /// Instructions that may be used.
    level: Isa,
    steps: &'a [[u8; STEP_BYTES]],
    codes: &'a [u8],
    width: u8,
    /// Codes per step.
    n_codes: usize,
    /// Index of each lane's code, if lanes share codes (with blocks).
    shared: Option<[u8; LANES]>,
    /// The part of the columns of each lane that does not depend on the step.
    pub origins: [u64; LANES],
    /// Number of consecutive columns per lane and step.
    pub side: usize,
    /// True if the lanes have consecutive columns.
    pub are_consecutive: bool,
}

impl<'a> Columns<'a> {
    /// Prepares a slice.
    #[inline(never)]
    pub fn new(view: &View<'a>, slice: &Slice, level: Isa) -> Self {
        let block = view.head.block;
        let (is_blocked, is_relative) = (slice.has(BLOCKED), slice.has(RELATIVE));
        let shared = is_blocked.then(|| {
            let phase = slice.phase(block);
            std::array::from_fn(|lane| ((phase + lane) / block) as u8)
        });
        let mut origins = [slice.base; LANES];
        if is_relative {
            let (rows, subs) = view.lanes(slice);
            for (lane, origin) in origins.iter_mut().enumerate() {
                let sub = if is_blocked { u64::from(subs[lane]) } else { 0 };
                *origin = origin.wrapping_add(rows[lane].wrapping_sub(sub));
            }
        }
        Self {
            level,
            steps: view.steps(slice),
            codes: view.codes(slice),
            width: slice.width,
            n_codes: slice.n_codes(block),
            shared,
            origins,
            side: slice.side(block),
            are_consecutive: slice.width == 0 && is_relative && !is_blocked && slice.order_at == IN_ORDER,
        }
    }

    /// Number of steps.
    #[inline(always)]
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// The lanes that have an element at step `k`, and the (first) column of each; unspecified for
    /// other lanes.
    #[inline(never)]
    pub fn step(&self, k: usize) -> (u32, [u64; LANES]) {
        dispatch_up_to_avx2(self.level, Step { columns: self, k })
    }

    #[inline(always)]
    fn step_of<const W: usize>(&self, k: usize) -> (u32, [u64; LANES]) {
        let one = step(self.steps, k);
        let offset = u64::from(one.offset);
        let codes = &self.codes[k * self.n_codes * W..];
        let mut columns = self.origins;
        match self.shared {
            None => {
                // The slice has all 32 codes, so no bounds checks are needed.
                let codes = &codes[..LANES * W];
                for (lane, column) in columns.iter_mut().enumerate() {
                    *column = column.wrapping_add(offset).wrapping_add(code::<W>(codes, lane));
                }
            }
            Some(shared) => {
                for (column, of) in columns.iter_mut().zip(shared) {
                    *column = column.wrapping_add(offset).wrapping_add(code::<W>(codes, of.into()));
                }
            }
        }
        (one.mask, columns)
    }
}

/// [`Columns::step`] as a kernel.
struct Step<'a> {
    columns: &'a Columns<'a>,
    k: usize,
}

impl Kernel for Step<'_> {
    type Output = (u32, [u64; LANES]);

    #[inline(always)]
    fn run(self) -> (u32, [u64; LANES]) {
        let Self { columns, k } = self;
        match columns.width {
            0 => columns.step_of::<0>(k),
            1 => columns.step_of::<1>(k),
            2 => columns.step_of::<2>(k),
            4 => columns.step_of::<4>(k),
            _ => columns.step_of::<8>(k),
        }
    }
}

/// Code `i` of `W` bytes.
#[inline(always)]
fn code<const W: usize>(codes: &[u8], i: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..W].copy_from_slice(&codes[i * W..][..W]);
    u64::from_le_bytes(bytes)
}

/// The lanes of a mask, ascending.
#[inline(always)]
pub fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lane
    })
}

/// Position of an element in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    pub lane: usize,
    /// Index of its step, counted in steps of values.
    pub step: usize,
    pub column: u64,
}

/// Calls `see` for each element of slice `i`, step by step.
pub fn walk_columns(view: &View, i: usize, see: &mut impl FnMut(Walk)) {
    let columns = Columns::new(view, &view.slice(i), Isa::PORTABLE);
    for k in 0..columns.n_steps() {
        let (mask, first) = columns.step(k);
        for j in 0..columns.side {
            for lane in lanes_of(mask) {
                // Saturate: a block at the upper end of u64 would wrap around to column 0.
                let column = first[lane].saturating_add(j as u64);
                see(Walk { lane, step: k * columns.side + j, column });
            }
        }
    }
}

/// Calls `see` for each element of slice `i`, with its value.
pub fn walk_elements<T: Element, V: Values<T>>(view: &View, values: V, i: usize, mut see: impl FnMut(Walk, T)) {
    let of = values.of_slice(i, &view.slice(i));
    let mut last = (usize::MAX, [T::default(); LANES]);
    walk_columns(view, i, &mut |at: Walk| {
        if at.step != last.0 {
            last = (at.step, values.step(of, at.step));
        }
        see(at, last.1[at.lane]);
    });
}
