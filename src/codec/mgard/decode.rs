//! Decoding: all numbers, then step by step from the first element to the array, or to a coarser grid, and layer by layer; at the
//! end the elements that are kept exactly.

use crate::codec::mgard::Chunk;
use crate::codec::mgard::exact;
use crate::codec::mgard::grid::MAX_RANK;
use crate::codec::mgard::layer;
use crate::codec::mgard::numbers::Arrays;
use crate::codec::mgard::payload::{Head, Payload};
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
    let payload = chunk.parse::<T>(payload, payload.len() as u64)?;
    decode_part::<T>(chunk, job, &payload, (0, payload.head.n_layers), dst)
}

/// Decodes the grid of a level from layer 0, or the array, which is that of level 0, from some layers, into `dst`, which has exactly its
/// bytes, and returns the sums of what was read of the payload.
///
/// # Errors
/// As [`decode`].
pub fn decode_part<T: Real>(
    chunk: &Chunk,
    job: &Job,
    payload: &Payload,
    (level, n_layers): (u32, usize),
    dst: &mut [u8],
) -> Result<Sums> {
    let _ieee = Ieee::begin();
    let head = &payload.head;
    let nodes = T::elements_mut(dst);
    let arrays = Arrays::of_steps(head.grid, head.grid.n_steps(level));
    let coded = payload.numbers(&arrays)?;
    let mut memory = Kept::<Memory<T>>::take();
    // Further layers have a number for each element.
    let n_numbers = if n_layers > 1 { head.grid.n_nodes() } else { arrays.n_numbers() };
    walk::at_least(&mut memory.numbers, n_numbers)?;
    let numbers = &mut memory.numbers[..arrays.n_numbers()];
    let mut sums = sums_of(job.level, Prefetch::Nothing, payload.front, 0);
    sums = sums.plus(coded.decode::<T>(&arrays, job, numbers)?);
    walk_to::<T>(head, job, level, &mut memory, nodes)?;

    for k in 1..n_layers {
        let arrays = Arrays::of_layer(head.grid);
        let coded = payload.further_numbers(k, &arrays)?;
        let numbers = &mut memory.numbers[..arrays.n_numbers()];
        sums = sums.plus(coded.decode::<T>(&arrays, job, numbers)?);
        let numbers = Numbers { all: numbers, array: arrays.array(0), start: 0 };
        layer::decode::<T>(job, numbers, T::at_most(head.layers[k].bin), nodes)?;
    }
    let exact = payload.exact()?;
    if !exact.is_empty() {
        let grid = chunk.grid;
        exact::read::<T>(exact, grid.n_nodes(), grid.extents[3], chunk.element()?, |place, element| {
            if let Some(node) = if level == 0 { Some(place) } else { grid.node(level, place) } {
                nodes[node] = element;
            }
        })?;
    }
    Ok(sums.plus(sums_of(job.level, Prefetch::Nothing, exact, payload.exact_at() as u64)))
}

/// Takes the steps to the grid of a level, with the numbers that are in memory.
fn walk_to<T: Real>(
    head: &Head,
    job: &Job,
    level: u32,
    memory: &mut Memory<T>,
    array: &mut [T::Bytes],
) -> Result<()> {
    let Memory { grids, numbers, .. } = memory;
    let arrays = Arrays::new(head.grid);
    let n_steps = head.grid.n_steps(level);
    walk::reserve(&head.grid, n_steps, false, grids)?;
    let first = T::put(T::Word::from_u64(head.first));
    grids[0][0] = first;
    array[0] = first;
    let mut at = 0;
    for (i, step) in head.grid.steps().take(n_steps).enumerate() {
        let [even, odd] = &mut *grids;
        let (before, after) = if i % 2 == 0 { (even, odd) } else { (odd, even) };
        let after = if i + 1 == n_steps { &mut array[..] } else { &mut after[..step.n_nodes()] };
        let (of, start) = walk::array_of(&head.grid, i, at);
        at += step.n_new();
        let numbers = Numbers { all: numbers, array: arrays.array(of), start };
        let refine = Refine::<T> { step: &step, rule: rule(head, i, head.bin(&step)), before };
        walk::decode(&refine, job, numbers, after)?;
    }
    Ok(())
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
    let parsed = chunk.parse::<T>(payload, payload.len() as u64)?;
    parsed.numbers(&Arrays::new(parsed.head.grid))?;
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
    let payload = chunk.parse::<T>(payload, payload.len() as u64)?;
    let (grid, mut counts) = (payload.head.grid, BlockCounts::default());
    let arrays = Arrays::new(grid);
    payload.numbers(&arrays)?.count(&arrays, job, &mut counts)?;
    let arrays = Arrays::of_layer(grid);
    for k in 1..payload.head.n_layers {
        payload.further_numbers(k, &arrays)?.count(&arrays, job, &mut counts)?;
    }
    let exact = payload.exact()?;
    if !exact.is_empty() {
        counts.exact = exact::count::<T>(exact, grid.n_nodes(), grid.extents[3], chunk.element()?)?;
    }
    Ok(counts)
}
