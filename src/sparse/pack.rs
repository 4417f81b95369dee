//! Codes the columns of one slice.
//!
//! An *item* is what has columns of its own: a lane, or with blocks a node, whose block columns are the first columns of its
//! blocks. With the item's origin (its row) taken away or not, the columns of all items at a step are an offset and codes from it,
//! in so many bytes as the largest one needs. Where all rows ascend, there is a third way: a step for every distance from the
//! diagonal that any item has, with a mask of those that have it. Codes then have no bytes.

use crate::sparse::layout::{FULL, LANES, MAX_STEPS, RELATIVE, Step};

/// The items of a slice, and how they are coded; kept from one slice to the next.
#[derive(Debug, Default)]
pub struct Packer {
    /// Each item's origin.
    origins: Vec<u64>,
    /// Where each item's columns end.
    ends: Vec<usize>,
    /// The columns of all, one item behind the other.
    columns: Vec<u64>,
    /// The distances from the origin that there are.
    union: Vec<i64>,
    /// Working memory for that.
    merged: Vec<i64>,
    /// The step of each column, if the way is the third one.
    places: Vec<u8>,
}

/// How the columns of a slice are coded.
#[derive(Debug, Default)]
pub struct Packed {
    /// What is added to all.
    pub base: u64,
    /// [`RELATIVE`], [`FULL`].
    pub flags: u8,
    /// Bytes of a code.
    pub width: u8,
    /// Steps, whose masks are of items.
    pub steps: Vec<Step>,
    /// Codes, so many at each step.
    pub codes: Vec<u8>,
}

impl Packer {
    /// Begins anew.
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

    /// Codes them, with `n_codes` codes at each step; `step_bytes` are those of the values of a step, which count when ways
    /// are compared. `may_spread`: the third way is allowed.
    pub fn pack(&mut self, n_codes: usize, step_bytes: usize, may_spread: bool, packed: &mut Packed) {
        self.places.clear();
        let n_items = self.origins.len();
        let n_steps = (0..n_items).map(|item| self.columns_of(item).len()).max().unwrap_or(0);
        let absolute = self.spans(n_steps, false);
        let relative = self.spans(n_steps, true);
        let flags = if relative.width < absolute.width { RELATIVE } else { 0 };
        let spans = if flags == 0 { absolute } else { relative };
        let cost = |n_steps: usize, width: u8| n_steps * (step_bytes + 8 + n_codes * usize::from(width));
        packed.codes.clear();
        packed.steps.clear();
        if may_spread && spans.width > 0 && self.spread(n_steps) {
            if cost(self.union.len(), 0) < cost(n_steps, spans.width) {
                self.pack_spread(packed);
                return;
            }
            self.places.clear();
        }
        packed.flags = flags;
        packed.width = spans.width;
        packed.base = spans.base;
        for k in 0..n_steps {
            let low = self.at_step(k, flags != 0).map(|(_, column)| column).min().unwrap_or(0);
            // A width of 8 has no room for mistakes: its offsets are 0.
            let offset = if spans.width == 8 { 0 } else { low.wrapping_sub(spans.base as i64) as u32 };
            let from = spans.base.wrapping_add(u64::from(offset)) as i64;
            let mut mask = 0;
            let start = packed.codes.len();
            let width = usize::from(spans.width);
            packed.codes.resize(start + n_codes * width, 0);
            for (item, column) in self.at_step(k, flags != 0) {
                mask |= 1 << item;
                let code = column.wrapping_sub(from) as u64;
                packed.codes[start + item * width..][..width].copy_from_slice(&code.to_le_bytes()[..width]);
            }
            packed.steps.push(Step { offset, mask });
        }
    }

    /// The items that have a column at a step, with it.
    fn at_step(&self, k: usize, relative: bool) -> impl Iterator<Item = (usize, i64)> {
        (0..self.origins.len()).filter_map(move |item| {
            let &column = self.columns_of(item).get(k)?;
            Some((item, column.wrapping_sub(if relative { self.origins[item] } else { 0 }) as i64))
        })
    }

    /// The smallest column of all, and the bytes that codes from the smallest one of each step need.
    fn spans(&self, n_steps: usize, relative: bool) -> Spans {
        let (mut lows, mut widest) = ([i64::MAX, i64::MIN], 0);
        for k in 0..n_steps {
            let (mut low, mut high) = (i64::MAX, i64::MIN);
            for (_, column) in self.at_step(k, relative) {
                (low, high) = (low.min(column), high.max(column));
            }
            // Columns are below 2^63, and so are rows, so differences are not above 2^64.
            widest = widest.max(high.wrapping_sub(low) as u64);
            lows = [lows[0].min(low), lows[1].max(low)];
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

    /// Finds the distances from the origins that there are, unless they are many more than steps or some row does not ascend.
    fn spread(&mut self, n_steps: usize) -> bool {
        let most = (n_steps + (n_steps / 8).max(2)).min(MAX_STEPS);
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

    fn pack_spread(&mut self, packed: &mut Packed) {
        let base = self.union[0];
        packed.flags = RELATIVE;
        packed.width = 0;
        packed.base = base as u64;
        let steps = self.union.iter().map(|&one| Step { offset: one.wrapping_sub(base) as u32, mask: 0 });
        packed.steps.extend(steps);
        let mut start = 0;
        for (item, &end) in self.ends.iter().enumerate() {
            let mut at = 0;
            for &column in &self.columns[start..end] {
                let distance = column.wrapping_sub(self.origins[item]) as i64;
                at += self.union[at..].iter().take_while(|&&one| one != distance).count();
                packed.steps[at].mask |= 1 << item;
                self.places.push(at as u8);
            }
            start = end;
        }
    }
}

/// What columns need.
struct Spans {
    base: u64,
    width: u8,
}

/// Makes masks of lanes of masks of nodes, of `block` lanes each, the first one at place `phase` of its node.
pub fn lanes_of_nodes(nodes: u32, block: usize, phase: usize, n_lanes: usize) -> u32 {
    let has = |lane: &usize| nodes >> ((phase + lane) / block) & 1 != 0;
    (0..n_lanes).filter(has).fold(0, |mask, lane| mask | 1 << lane)
}

/// Whether all lanes have an element at all steps.
pub fn full_flag(steps: &[Step]) -> u8 {
    if steps.iter().all(|step| step.mask == u32::MAX) { FULL } else { 0 }
}

const _: () = assert!(LANES == 32, "masks have 32 bits");
