//! Decoding: section by section, step by step; at the end the elements that are kept exactly.

use std::marker::PhantomData;

use crate::codec::mgard::Chunk;
use crate::codec::mgard::exact;
use crate::codec::mgard::numbers::{self, Numbers};
use crate::codec::mgard::payload::Payload;
use crate::codec::mgard::real::Real;
use crate::codec::mgard::refine::Refine;
use crate::codec::mgard::walk::{self, Memory, rule};
use crate::codec::{BlockCounts, Job};
use crate::cpu::float::Ieee;
use crate::cpu::kept::Kept;
use crate::error::{Error, Result};
use crate::format::checksum::Sums;
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::payload::Worker;
use crate::stage::element::Element;
use crate::stage::sums::{Prefetch, sums_of};
use crate::stage::word::Word;

/// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns its sums.
///
/// # Errors
/// `Corrupt`, `Truncated`, `UnsupportedFormat` or `OutOfMemory`.
pub fn decode<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
    let _ieee = Ieee::begin();
    let sums = sums_of(job.level, Prefetch::Following, payload, 0);
    let parsed = chunk.parse::<T>(payload)?;
    let Payload { head, layouts, numbers: sections, exact } = &parsed;
    let array = T::elements_mut(dst);
    let mut memory = Kept::<Memory<T>>::take();
    let Memory { grids, front, numbers, .. } = &mut *memory;
    walk::reserve(&head.grid, grids, front, numbers)?;
    let first = T::put(T::Word::from_u64(head.first));
    grids[0][0] = first;
    array[0] = first;
    let (n_front, n_steps) = (head.grid.n_front(), head.grid.steps().count());
    if n_front > 0 {
        decode_numbers::<T>(&layouts[0], job, sections[0], front)?;
    }
    let mut n_together = 0;
    for (i, step) in head.grid.steps().enumerate() {
        let [even, odd] = &mut *grids;
        let (before, after) = if i % 2 == 0 { (even, odd) } else { (odd, even) };
        let after = if i + 1 == n_steps { &mut array[..] } else { &mut after[..step.n_nodes()] };
        let numbers = if i < n_front {
            n_together += step.n_new();
            &front[n_together - step.n_new()..n_together]
        } else {
            let section = i + usize::from(n_front > 0) - n_front;
            let numbers = &mut numbers[..step.n_new()];
            decode_numbers::<T>(&layouts[section], job, sections[section], numbers)?;
            numbers
        };
        let refine = Refine::<T> { step: &step, rule: rule(head, i, head.bin(&step)), before };
        walk::decode(&refine, job, numbers, after)?;
    }
    if !exact.is_empty() {
        exact::read::<T>(exact, array, chunk.grid.extents[3], chunk.element()?)?;
    }
    Ok(sums)
}

/// The numbers of a section, as many as its layout has, at the start of `numbers`.
fn decode_numbers<T: Real>(layout: &Layout, job: &Job, section: &[u8], numbers: &mut [T::Bytes]) -> Result<()> {
    let n = layout.blocks.n_elements();
    with_worker::<T, _>(layout, job, |worker| worker.decode(section, T::flat_mut(&mut numbers[..n])))?;
    Ok(())
}

fn with_worker<T: Real, R>(
    layout: &Layout,
    job: &Job,
    work: impl FnOnce(&Worker<T::Word, Numbers>) -> Result<R>,
) -> Result<R> {
    let element = Element::of(T::WORDS).ok_or_else(|| Error::corrupt("numbers of no type"))?;
    let coder = Numbers { layout: *layout, element, encodes: false, level: job.level };
    work(&Worker { coder: &coder, pool: job.pool, level: job.level, verify: job.verify, word: PhantomData })
}

/// Counts the blocks of numbers, and the elements that are kept exactly.
///
/// # Errors
/// As [`decode`].
pub fn count<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8]) -> Result<BlockCounts> {
    let parsed = chunk.parse::<T>(payload)?;
    let mut counts = BlockCounts::default();
    for (layout, section) in parsed.layouts.iter().zip(&parsed.numbers) {
        with_worker::<T, _>(layout, job, |worker| {
            worker.for_blocks(section, |bytes, _| numbers::count(bytes, &mut counts))
        })?;
    }
    if !parsed.exact.is_empty() {
        let grid = chunk.grid;
        counts.exact = exact::count::<T>(parsed.exact, grid.n_nodes(), grid.extents[3], chunk.element()?)?;
    }
    Ok(counts)
}
