//! Decoding: reads all numbers, then refines step by step from the first element to the array, or
//! to a coarser grid, layer by layer. Finally writes the elements that are stored exactly.

use crate::codec::multigrid::Chunk;
use crate::codec::multigrid::arrays::Arrays;
use crate::codec::multigrid::exact;
use crate::codec::multigrid::grid::MAX_RANK;
use crate::codec::multigrid::payload::{Head, Payload};
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::{Numbers, Refine};
use crate::codec::multigrid::walk::{self, Memory};
use crate::codec::{BlockCounts, Job};
use crate::cpu::float::Ieee;
use crate::cpu::thread_cache::ThreadCache;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::table::check_of;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::word::Word;
use zerocopy::FromZeros;

/// Decodes a payload into `dst`, which has exactly the bytes of the array, and returns the
/// payload's checksum.
///
/// # Errors
/// `Corrupt`, `Truncated`, `UnsupportedFormat` or `OutOfMemory`.
pub fn decode<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
    let payload = chunk.parse::<T>(payload, payload.len() as u64)?;
    decode_part::<T>(chunk, job, &payload, (0, payload.head.n_layers), dst)
}

/// Decodes into `dst`, which has exactly the bytes of the result, and returns the checksum of the
/// bytes read. Level 0 is the array, from the first `n_layers` layers; a coarser level is its grid,
/// from layer 0.
///
/// # Errors
/// As [`decode`].
pub fn decode_part<T: Real>(
    chunk: &Chunk,
    job: &Job,
    payload: &Payload,
    (level, n_layers): (u32, usize),
    dst: &mut [u8],
) -> Result<Checksum> {
    let _ieee = Ieee::begin();
    let head = &payload.head;
    let nodes = T::elements_mut(dst);
    let arrays = Arrays::of_steps(head.grid, head.grid.n_steps(level));
    let coded = payload.numbers(0, &arrays)?;
    let mut memory = ThreadCache::<Memory<T>>::take();
    walk::at_least(&mut memory.numbers, arrays.n_numbers())?;
    let numbers = &mut memory.numbers[..arrays.n_numbers()];
    let mut sums = checksum_of(job.level, Prefetch::Nothing, payload.front, 0);
    sums = sums.combine(coded.decode::<T>(&arrays, job, numbers)?);
    // Layers alternate between two arrays, such that the last one is written to the destination.
    let mut other = std::mem::take(&mut memory.values);
    walk::at_least(&mut other, if n_layers > 1 { nodes.len() } else { 0 })?;
    for k in 0..n_layers {
        if k > 0 {
            let coded = payload.numbers(k, &arrays)?;
            sums = sums.combine(coded.decode::<T>(&arrays, job, &mut memory.numbers[..arrays.n_numbers()])?);
        }
        let other = &mut other[..if n_layers > 1 { nodes.len() } else { 0 }];
        let (to, from) = if (n_layers - k) % 2 == 1 { (&mut *nodes, other) } else { (other, &mut *nodes) };
        take_steps(head, k, job, level, &mut memory, (k > 0).then_some(&*from), to)?;
    }
    memory.values = other;
    for k in 0..n_layers {
        let exact = payload.exact(k)?;
        if !exact.is_empty() {
            let of_exact = checksum_of(job.level, Prefetch::Nothing, exact, payload.exact_at(k) as u64);
            let is_checked = job.verify && head.n_layers > 1;
            if is_checked && check_of(of_exact, exact.len()) != head.layers[k].exact_check {
                let text = "the elements that a multigrid payload stores without loss are damaged: their checksum does not match";
                return Err(Error::corrupt(text));
            }
            sums = sums.combine(of_exact);
            let grid = chunk.grid;
            exact::read::<T>(exact, grid.n_nodes(), grid.extents[3], chunk.element()?, |place, element| {
                if let Some(node) = if level == 0 { Some(place) } else { grid.node(level, place) } {
                    nodes[node] = element;
                }
            })?;
        }
    }
    Ok(sums)
}

/// Performs the steps of a layer up to the grid of a level, with the numbers in memory. `layers` is
/// the result of the previous layers.
fn take_steps<T: Real>(
    head: &Head,
    k: usize,
    job: &Job,
    level: u32,
    memory: &mut Memory<T>,
    layers: Option<&[T::Bytes]>,
    array: &mut [T::Bytes],
) -> Result<()> {
    let grid = head.grid;
    let Memory { grids, numbers, .. } = memory;
    let first = T::put(T::Word::from_u64(head.first));
    let arrays = Arrays::new(grid);
    let n_steps = grid.n_steps(level);
    walk::reserve(&grid, n_steps, false, grids)?;
    grids[0][0] = first;
    array[0] = first;
    let mut at = 0;
    for (i, step) in grid.steps().take(n_steps).enumerate() {
        let [even, odd] = &mut *grids;
        let (before, after) = if i % 2 == 0 { (even, odd) } else { (odd, even) };
        let after = if i + 1 == n_steps { &mut array[..] } else { &mut after[..step.n_nodes()] };
        let (of, start) = walk::array_of(&grid, i, at);
        at += step.n_new();
        let numbers = Numbers { all: numbers, array: arrays.array(of), start };
        let refine = Refine::<T> { step: &step, rule: head.rule(k, i, &step), before, layers };
        walk::decode(&refine, job, numbers, after)?;
    }
    Ok(())
}

/// As [`decode`], but returns only the elements of a region.
///
/// # Errors
/// As [`decode`].
pub fn decode_region<T: Real>(
    chunk: &Chunk,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<Checksum> {
    // Before memory for a large array is allocated, the payload must have a table of the right
    // size.
    let parsed = chunk.parse::<T>(payload, payload.len() as u64)?;
    parsed.numbers(0, &Arrays::new(parsed.head.grid))?;
    let n_bytes = chunk.grid.n_nodes() * size_of::<T>();
    let failed = |_| Error::out_of_memory(n_bytes as u64, "a chunk");
    let mut all = u8::new_vec_zeroed(n_bytes).map_err(failed)?;
    let sums = decode::<T>(chunk, job, payload, &mut all)?;
    region.take([0; MAX_RANK], chunk.grid.extents.map(|n| n as u64), &all, size_of::<T>(), dst);
    Ok(sums)
}

/// Counts the blocks of numbers, and the elements that are stored exactly.
///
/// # Errors
/// As [`decode`].
pub fn count<T: Real>(chunk: &Chunk, job: &Job, payload: &[u8]) -> Result<BlockCounts> {
    let payload = chunk.parse::<T>(payload, payload.len() as u64)?;
    let (grid, mut counts) = (payload.head.grid, BlockCounts::default());
    let arrays = Arrays::new(grid);
    for k in 0..payload.head.n_layers {
        payload.numbers(k, &arrays)?.count(&arrays, job, &mut counts)?;
        let exact = payload.exact(k)?;
        if !exact.is_empty() {
            counts.exact += exact::count::<T>(exact, grid.n_nodes(), grid.extents[3], chunk.element()?)?;
        }
    }
    Ok(counts)
}
