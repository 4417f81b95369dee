//! Decoding: all numbers, then step by step from the first element to the array; at the end the elements that are kept exactly.

use crate::codec::mgard::Chunk;
use crate::codec::mgard::exact;
use crate::codec::mgard::grid::MAX_RANK;
use crate::codec::mgard::payload::Payload;
use crate::codec::mgard::real::Real;
use crate::codec::mgard::refine::{Numbers, Refine};
use crate::codec::mgard::walk::{self, Memory, rule};
use crate::codec::{BlockCounts, Job};
use crate::cpu::float::Ieee;
use crate::cpu::kept::Kept;
use crate::error::{Error, Result};
use crate::format::checksum::Sums;
use crate::format::region::FoldedRegion;
use crate::stage::sums::{Prefetch, sums_of};
use crate::stage::word::Word;
use zerocopy::FromZeros;

/// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns its sums.
///
/// # Errors
/// `Corrupt`, `Truncated`, `UnsupportedFormat` or `OutOfMemory`.
pub fn decode<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
    let _ieee = Ieee::begin();
    let Payload { head, front, arrays, numbers: coded, exact, exact_at } = chunk.parse::<T>(payload)?;
    let array = T::elements_mut(dst);
    let mut memory = Kept::<Memory<T>>::take();
    let Memory { grids, numbers, .. } = &mut *memory;
    walk::reserve(&head.grid, grids, numbers)?;
    let numbers = &mut numbers[..arrays.n_numbers()];
    let of_numbers = coded.decode::<T>(&arrays, job, numbers)?;

    let first = T::put(T::Word::from_u64(head.first));
    grids[0][0] = first;
    array[0] = first;
    let (n_steps, mut at) = (head.grid.steps().count(), 0);
    for (i, step) in head.grid.steps().enumerate() {
        let [even, odd] = &mut *grids;
        let (before, after) = if i % 2 == 0 { (even, odd) } else { (odd, even) };
        let after = if i + 1 == n_steps { &mut array[..] } else { &mut after[..step.n_nodes()] };
        let (of, start) = walk::array_of(&head.grid, i, at);
        at += step.n_new();
        let numbers = Numbers { all: numbers, array: arrays.array(of), start };
        let refine = Refine::<T> { step: &step, rule: rule(&head, i, head.bin(&step)), before };
        walk::decode(&refine, job, numbers, after)?;
    }
    if !exact.is_empty() {
        exact::read::<T>(exact, array, chunk.grid.extents[3], chunk.element()?)?;
    }
    let of_front = sums_of(job.level, Prefetch::Nothing, front, 0);
    Ok(of_numbers.plus(of_front).plus(sums_of(job.level, Prefetch::Nothing, exact, exact_at as u64)))
}

/// As [`decode`], but only the elements of a region are wanted.
///
/// # Errors
/// As [`decode`].
pub fn decode_region<T: Real>(
    chunk: &Chunk,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<Sums> {
    // What is said of a large array must have a table of its size, before there is memory for it.
    chunk.parse::<T>(payload)?;
    let n_bytes = chunk.grid.n_nodes() * size_of::<T>();
    let failed = |_| Error::out_of_memory(n_bytes as u64, "a chunk");
    let mut all = u8::new_vec_zeroed(n_bytes).map_err(failed)?;
    let sums = decode::<T>(chunk, job, payload, &mut all)?;
    region.take([0; MAX_RANK], chunk.grid.extents.map(|n| n as u64), &all, size_of::<T>(), dst);
    Ok(sums)
}

/// Counts the blocks of numbers, and the elements that are kept exactly.
///
/// # Errors
/// As [`decode`].
pub fn count<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8]) -> Result<BlockCounts> {
    let parsed = chunk.parse::<T>(payload)?;
    let mut counts = BlockCounts::default();
    parsed.numbers.count(&parsed.arrays, job, &mut counts)?;
    if !parsed.exact.is_empty() {
        let grid = chunk.grid;
        counts.exact = exact::count::<T>(parsed.exact, grid.n_nodes(), grid.extents[3], chunk.element()?)?;
    }
    Ok(counts)
}
