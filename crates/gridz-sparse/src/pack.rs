//! Codes the columns of one slice.
//!
//! An *item* has columns of its own. It is a lane, or with blocks a node, whose columns are the
//! first columns of its blocks. The item's origin (its row) may be subtracted or not. Then the
//! columns of all items at a step are an offset plus codes, and all codes have as many bytes as the
//! largest one needs. The columns of each item must keep their order, but any assignment to steps
//! is valid. There are three ways. Among those that take at most a few more steps, the one with the
//! fewest bytes is chosen:
//!
//! - Column k of each item is at step k.
//! - Codes are limited to a number of bytes: items whose next column is too far away wait for a
//!   later step. In a long row the lanes take the elements of one row in turn, so all lanes from
//!   such a column on wait.
//! - If all rows ascend: one step for each distance from the origin that any item has. Codes then
//!   have no bytes.

use crate::layout::{FULL, LANES, MAX_STEPS, RELATIVE, Step};

/// The items of a slice and their coding. Its memory is reused for the next slice.
#[derive(Debug, Default)]
pub struct Packer {
    /// Origin of each item.
    origins: Vec<u64>,
    /// End of each item's columns.
    ends: Vec<usize>,
    /// The columns of all items, concatenated.
    columns: Vec<u64>,
    /// All distances from the origin that occur, ascending.
    union: Vec<i64>,
    /// Scratch memory for `union`.
    merged: Vec<i64>,
    /// Step of each column; empty if column k of each item is at step k.
    places: Vec<u8>,
    /// Step of each column in the way that is being tried.
    tried: Vec<u8>,
}

/// Kind of the items of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// Rows, or nodes.
    Rows,
    /// Lanes that take the elements of one row in turn.
    Lanes,
}

/// The coded columns of a slice.
#[derive(Debug, Default)]
pub struct Packed {
    /// Added to all columns.
    pub base: u64,
    /// A combination of [`RELATIVE`], [`FULL`].
    pub flags: u8,
    /// Bytes of a code.
    pub width: u8,
    /// Steps; their masks are those of items.
    pub steps: Vec<Step>,
    /// Codes, with the same number at each step.
    pub codes: Vec<u8>,
}

impl Packer {
    /// Removes all items.
    pub fn clear(&mut self) {
        self.origins.clear();
        self.ends.clear();
        self.columns.clear();
    }

    /// Adds an item.
    pub fn item(&mut self, origin: u64, columns: impl Iterator<Item = u64>) {
        self.origins.push(origin);
        self.columns.extend(columns);
        self.ends.push(self.columns.len());
    }

    fn columns_of(&self, item: usize) -> &[u64] {
        let start = if item == 0 { 0 } else { self.ends[item - 1] };
        &self.columns[start..self.ends[item]]
    }

    /// The step of column `k` of an item.
    #[inline(always)]
    pub fn step_of(&self, item: usize, k: usize) -> usize {
        if self.places.is_empty() {
            return k;
        }
        let start = if item == 0 { 0 } else { self.ends[item - 1] };
        usize::from(self.places[start + k])
    }

    /// Codes the items, with `n_codes` codes at each step. `step_bytes` are the bytes of the values
    /// of a step, which count when ways are compared.
    pub fn pack(&mut self, n_codes: usize, step_bytes: usize, items: Items, packed: &mut Packed) {
        self.places.clear();
        let mut n_steps = (0..self.origins.len()).map(|item| self.columns_of(item).len()).max().unwrap_or(0);
        let absolute = self.spans(n_steps, false);
        let relative = self.spans(n_steps, true);
        let is_relative = relative.width < absolute.width;
        let mut spans = if is_relative { relative } else { absolute };
        packed.flags = if is_relative { RELATIVE } else { 0 };
        let cost = |n_steps: usize, width: u8| n_steps * (step_bytes + 8 + n_codes * usize::from(width));
        let most_steps = Self::most(n_steps);
        let mut least = cost(n_steps, spans.width);
        for width in [4, 2, 1] {
            if width >= spans.width {
                continue;
            }
            match self.limit(width, most_steps, is_relative, items, spans.base) {
                Some(n) if cost(n, width) < least => {
                    (least, n_steps, spans.width) = (cost(n, width), n, width);
                    std::mem::swap(&mut self.places, &mut self.tried);
                }
                _ => {}
            }
        }
        if items == Items::Rows && spans.width > 0 && self.spread(n_steps) && cost(self.union.len(), 0) < least {
            (n_steps, spans) = (self.union.len(), Spans { base: self.union[0] as u64, width: 0 });
            packed.flags = RELATIVE;
            self.place_spread();
        }
        packed.width = spans.width;
        packed.base = spans.base;
        self.fill(n_steps, n_codes, packed);
    }

    /// Writes steps and codes; base, width, flags and the step of each column have been chosen.
    fn fill(&self, n_steps: usize, n_codes: usize, packed: &mut Packed) {
        let is_relative = packed.flags & RELATIVE != 0;
        let (base, width) = (packed.base, usize::from(packed.width));
        let mut lows = [i64::MAX; MAX_STEPS];
        packed.steps.clear();
        packed.steps.resize(n_steps, Step { offset: 0, mask: 0 });
        for item in 0..self.origins.len() {
            for (k, column) in self.distances(item, is_relative).enumerate() {
                let step = self.step_of(item, k);
                lows[step] = lows[step].min(column);
                packed.steps[step].mask |= 1 << item;
            }
        }
        for (step, low) in packed.steps.iter_mut().zip(&lows) {
            debug_assert!(width == 8 || low.wrapping_sub(base as i64) as u64 <= u64::from(u32::MAX), "an offset");
            // Codes of 8 bytes hold any distance from the base, so their offsets are 0.
            step.offset = if width == 8 { 0 } else { low.wrapping_sub(base as i64) as u32 };
        }
        packed.codes.clear();
        packed.codes.resize(n_steps * n_codes * width, 0);
        if width == 0 {
            return;
        }
        for item in 0..self.origins.len() {
            for (k, column) in self.distances(item, is_relative).enumerate() {
                let step = self.step_of(item, k);
                let from = base.wrapping_add(u64::from(packed.steps[step].offset)) as i64;
                let code = column.wrapping_sub(from) as u64;
                let at = (step * n_codes + item) * width;
                packed.codes[at..][..width].copy_from_slice(&code.to_le_bytes()[..width]);
            }
        }
    }

    /// An item's columns, relative to its origin or absolute.
    fn distances(&self, item: usize, is_relative: bool) -> impl Iterator<Item = i64> {
        self.columns_of(item).iter().map(move |&column| self.distance(item, column, is_relative))
    }

    fn distance(&self, item: usize, column: u64, is_relative: bool) -> i64 {
        column.wrapping_sub(if is_relative { self.origins[item] } else { 0 }) as i64
    }

    /// Largest number of steps of a way that only makes codes smaller, if `n` steps are possible.
    fn most(n: usize) -> usize {
        (n + (n / 8).max(2)).min(MAX_STEPS)
    }

    /// Tries an assignment whose codes have at most `width` bytes. Returns its number of steps,
    /// unless that exceeds `most_steps`.
    fn limit(&mut self, width: u8, most_steps: usize, is_relative: bool, items: Items, base: u64) -> Option<usize> {
        let mut tried = std::mem::take(&mut self.tried);
        tried.clear();
        tried.resize(self.columns.len(), 0);
        let most = (1u64 << (8 * width)) - 1;
        let n_steps = match items {
            Items::Rows => self.limit_rows(most, most_steps, is_relative, base as i64, &mut tried),
            Items::Lanes => self.limit_lanes(most, most_steps, base as i64, &mut tried),
        };
        self.tried = tried;
        n_steps
    }

    /// For rows: each step takes the rows whose next column is close to the smallest one.
    fn limit_rows(
        &self,
        most: u64,
        most_steps: usize,
        is_relative: bool,
        base: i64,
        places: &mut [u8],
    ) -> Option<usize> {
        let n_items = self.origins.len();
        let mut next = [0; LANES];
        for (next, item) in next.iter_mut().zip(0..n_items) {
            *next = if item == 0 { 0 } else { self.ends[item - 1] };
        }
        let column = |item: usize, at: usize| self.distance(item, self.columns[at], is_relative);
        let mut n_steps = 0;
        loop {
            let there = (0..n_items).filter(|&item| next[item] < self.ends[item]);
            let Some(low) = there.map(|item| column(item, next[item])).min() else { return Some(n_steps) };
            // Offsets have 32 bits.
            if n_steps == most_steps || low.wrapping_sub(base) as u64 > u64::from(u32::MAX) {
                return None;
            }
            for item in 0..n_items {
                if next[item] < self.ends[item] && column(item, next[item]).wrapping_sub(low) as u64 <= most {
                    places[next[item]] = n_steps as u8;
                    next[item] += 1;
                }
            }
            n_steps += 1;
        }
    }

    /// For the lanes of a long row: its elements stay in order, and each step ends before the first
    /// element that is too far from the others.
    fn limit_lanes(&self, most: u64, most_steps: usize, base: i64, places: &mut [u8]) -> Option<usize> {
        let start = |lane: usize| if lane == 0 { 0 } else { self.ends[lane - 1] };
        let (mut step, mut low, mut high) = (0, i64::MAX, i64::MIN);
        for k in 0..self.columns_of(0).len() {
            for lane in 0..self.origins.len() {
                let Some(&column) = self.columns_of(lane).get(k) else { break };
                let column = column as i64;
                let (lower, higher) = (low.min(column), high.max(column));
                let fits = higher.wrapping_sub(lower) as u64 <= most;
                (low, high) = if fits { (lower, higher) } else { (column, column) };
                step += usize::from(!fits);
                // Offsets have 32 bits.
                if step >= most_steps || low.wrapping_sub(base) as u64 > u64::from(u32::MAX) {
                    return None;
                }
                places[start(lane) + k] = step as u8;
            }
            step += 1;
            (low, high) = (i64::MAX, i64::MIN);
        }
        (step <= most_steps).then_some(step)
    }

    /// The smallest of all columns, and the width in bytes of codes that are differences from the
    /// smallest column of their step, if no item waits for a later step. If `is_relative` is set,
    /// columns count from their item's origin.
    fn spans(&self, n_steps: usize, is_relative: bool) -> Spans {
        let mut steps = [[i64::MAX, i64::MIN]; MAX_STEPS];
        for item in 0..self.origins.len() {
            for ([low, high], column) in steps.iter_mut().zip(self.distances(item, is_relative)) {
                (*low, *high) = ((*low).min(column), (*high).max(column));
            }
        }
        let (mut lows, mut widest) = ([i64::MAX, i64::MIN], 0);
        for [low, high] in &steps[..n_steps] {
            // Columns and rows are below 2^63, so differences do not exceed 2^64.
            widest = widest.max(high.wrapping_sub(*low) as u64);
            lows = [lows[0].min(*low), lows[1].max(*low)];
        }
        if n_steps == 0 {
            return Spans { base: 0, width: 0 };
        }
        let width = match widest {
            _ if lows[1].wrapping_sub(lows[0]) as u64 > u64::from(u32::MAX) => 8,
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        Spans { base: lows[0] as u64, width }
    }

    /// Collects the distances from the origins. Returns false if there are none or many more than
    /// `n_steps`, if their range exceeds 32 bits, or if a row does not ascend.
    fn spread(&mut self, n_steps: usize) -> bool {
        let most = Self::most(n_steps);
        self.union.clear();
        let mut start = 0;
        for item in 0..self.origins.len() {
            let origin = self.origins[item];
            let columns = &self.columns[start..self.ends[item]];
            start = self.ends[item];
            if !columns.is_sorted_by(|a, b| a < b) {
                return false;
            }
            self.merged.clear();
            let mut known = self.union.iter().copied().peekable();
            for &column in columns {
                let distance = column.wrapping_sub(origin) as i64;
                while let Some(one) = known.next_if(|&one| one < distance) {
                    self.merged.push(one);
                }
                known.next_if(|&one| one == distance);
                self.merged.push(distance);
            }
            self.merged.extend(known);
            if self.merged.len() > most {
                return false;
            }
            std::mem::swap(&mut self.union, &mut self.merged);
        }
        let (Some(&first), Some(&last)) = (self.union.first(), self.union.last()) else { return false };
        last.wrapping_sub(first) as u64 <= u64::from(u32::MAX)
    }

    /// Assigns each column to the step of its distance.
    fn place_spread(&mut self) {
        self.places.clear();
        let mut start = 0;
        for (item, &end) in self.ends.iter().enumerate() {
            let mut at = 0;
            for &column in &self.columns[start..end] {
                let distance = column.wrapping_sub(self.origins[item]) as i64;
                at += self.union[at..].iter().take_while(|&&one| one != distance).count();
                self.places.push(at as u8);
            }
            start = end;
        }
    }
}

/// Base and code width that columns need.
struct Spans {
    base: u64,
    width: u8,
}

/// Converts a mask of nodes to a mask of lanes. Nodes have `block` lanes each, and the first lane
/// is at position `phase` of its node.
pub fn lanes_of_nodes(nodes: u32, block: usize, phase: usize, n_lanes: usize) -> u32 {
    let has = |lane: &usize| nodes >> ((phase + lane) / block) & 1 != 0;
    (0..n_lanes).filter(has).fold(0, |mask, lane| mask | 1 << lane)
}

/// [`FULL`] if all lanes have an element at all steps, else 0.
pub fn full_flag(steps: &[Step]) -> u8 {
    if steps.iter().all(|step| step.mask == u32::MAX) { FULL } else { 0 }
}

const _: () = assert!(LANES == 32, "masks have 32 bits");
