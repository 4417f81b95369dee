//! Summaries of steps: combined properties of any range of a table.
//!
//! The entries of [`SUMMARY`] steps are combined once. So the summary of a range takes few reads,
//! however many slices share its steps.

use std::ops::Range;

use crate::frame::step;
use crate::layout::{LANES, STEP_BYTES, Step};
use gridz_codecs::error::{Result, try_vec};

/// Steps in a summary.
const SUMMARY: usize = 16;

/// Combined properties of some steps.
pub trait Summary: Clone + Default {
    /// Adds a step.
    fn add(&mut self, step: Step);
    /// Adds the steps of another summary.
    fn join(&mut self, other: &Self);
}

/// The masks of some steps.
#[derive(Debug, Clone, Copy)]
pub struct Masks {
    pub any: u32,
    pub all: u32,
    pub has_empty: bool,
    pub n_elements: u64,
}

impl Default for Masks {
    fn default() -> Self {
        Self { any: 0, all: u32::MAX, has_empty: false, n_elements: 0 }
    }
}

impl Summary for Masks {
    fn add(&mut self, Step { mask, .. }: Step) {
        let n_elements = mask.count_ones().into();
        self.join(&Self { any: mask, all: mask, has_empty: mask == 0, n_elements });
    }

    fn join(&mut self, other: &Self) {
        self.any |= other.any;
        self.all &= other.all;
        self.has_empty |= other.has_empty;
        self.n_elements += other.n_elements;
    }
}

/// The smallest and the largest offset of each lane's elements.
#[derive(Debug, Clone)]
pub struct Reach {
    pub low: [u32; LANES],
    pub high: [u32; LANES],
}

impl Default for Reach {
    fn default() -> Self {
        Self { low: [u32::MAX; LANES], high: [0; LANES] }
    }
}

impl Summary for Reach {
    fn add(&mut self, Step { offset, mask }: Step) {
        for lane in 0..LANES {
            // All bits are set if the lane has an element.
            let has = 0u32.wrapping_sub(mask >> lane & 1);
            self.low[lane] = self.low[lane].min(offset | !has);
            self.high[lane] = self.high[lane].max(offset & has);
        }
    }

    fn join(&mut self, other: &Self) {
        for lane in 0..LANES {
            self.low[lane] = self.low[lane].min(other.low[lane]);
            self.high[lane] = self.high[lane].max(other.high[lane]);
        }
    }
}

/// Summaries of any range of steps in a table.
pub struct Summaries<'a, S> {
    steps: &'a [[u8; STEP_BYTES]],
    /// Summaries of [`SUMMARY`] steps each, from the first step on.
    of_many: Vec<S>,
}

impl<'a, S: Summary> Summaries<'a, S> {
    /// Takes the length of the longest range.
    pub fn new(steps: &'a [[u8; STEP_BYTES]], longest: usize) -> Result<Self> {
        // Shorter ranges may not contain a whole summary.
        let chunks = if longest < 2 * SUMMARY { &[] } else { steps.as_chunks::<SUMMARY>().0 };
        let mut of_many = try_vec(chunks.len(), "summaries of steps")?;
        for chunk in chunks {
            let mut summary = S::default();
            (0..SUMMARY).for_each(|k| summary.add(step(chunk, k)));
            of_many.push(summary);
        }
        Ok(Self { steps, of_many })
    }

    /// The summary of a range, and the number of entries read.
    pub fn of(&self, range: Range<usize>) -> (S, u64) {
        let mut summary = S::default();
        let whole = range.start.div_ceil(SUMMARY)..range.end / SUMMARY;
        let mut add = |range: Range<usize>| {
            range.clone().for_each(|k| summary.add(step(self.steps, k)));
            range.len() as u64
        };
        if self.of_many.is_empty() || whole.is_empty() {
            let n = add(range);
            return (summary, n);
        }
        let n = add(range.start..whole.start * SUMMARY) + add(whole.end * SUMMARY..range.end);
        self.of_many[whole.clone()].iter().for_each(|one| summary.join(one));
        (summary, n + whole.len() as u64)
    }
}
