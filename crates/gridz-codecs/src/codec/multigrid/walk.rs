//! The walk over all steps, from the first element to the array, and its scratch memory.

use std::sync::atomic::AtomicU32;

use crate::codec::Job;
use crate::codec::multigrid::accuracy::{Errors, Watch};
use crate::codec::multigrid::grid::Grid;
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::{Decode, Encode, Numbers, Refine};
use crate::cpu::thread_cache::{Cacheable, bytes_of};
use crate::error::{Error, Result, try_vec};
use crate::stage::rows::dispatch;
use zerocopy::FromZeros;

/// Scratch memory, cached per thread. Its contents between chunks are arbitrary.
pub struct Memory<T: Real> {
    /// The grids before and after a step.
    pub grids: [Vec<T::Bytes>; 2],
    /// The numbers of all steps of a layer.
    pub numbers: Vec<T::Bytes>,
    /// The combined values of the layers so far.
    pub values: Vec<T::Bytes>,
    /// A bit for each element that this layer stores exactly, and for each that a previous layer
    /// does.
    pub exact: Vec<AtomicU32>,
    pub exact_before: Vec<AtomicU32>,
}

impl<T: Real> Default for Memory<T> {
    fn default() -> Self {
        let [even, odd, numbers, values] = [const { vec![] }; 4];
        Self { grids: [even, odd], numbers, values, exact: vec![], exact_before: vec![] }
    }
}

impl<T: Real> Cacheable for Memory<T> {
    fn n_bytes(&self) -> usize {
        let Self { grids: [even, odd], numbers, values, exact, exact_before } = self;
        [even, odd, numbers, values].map(bytes_of).iter().sum::<usize>() + bytes_of(exact) + bytes_of(exact_before)
    }
}

/// Grows a vector to at least `n` elements; its contents are then arbitrary. New memory is zeroed
/// pages of the system, so the threads that first write to it share the page faults.
///
/// # Errors
/// `OutOfMemory`.
pub fn at_least<B: FromZeros>(memory: &mut Vec<B>, n: usize) -> Result<()> {
    if memory.len() < n {
        // Free the old memory first.
        *memory = Vec::new();
        let failed = |_| Error::out_of_memory((n * size_of::<B>()) as u64, "a chunk");
        *memory = B::new_vec_zeroed(n).map_err(failed)?;
    }
    Ok(())
}

/// Allocates memory for the nodes before each of the first steps of a grid and, if `kept`, for
/// those after the last one.
///
/// # Errors
/// `OutOfMemory`.
pub fn reserve<B: FromZeros>(grid: &Grid, n_steps: usize, kept: bool, grids: &mut [Vec<B>; 2]) -> Result<()> {
    let (mut most, mut last) = ([1, 1], 1);
    for (i, step) in grid.steps().take(n_steps).enumerate() {
        // Before this step the nodes are in one array, after it in the other.
        most[i % 2] = most[i % 2].max(last);
        last = step.n_nodes();
    }
    if kept {
        most[n_steps % 2] = most[n_steps % 2].max(last);
    }
    at_least(&mut grids[0], most[0])?;
    at_least(&mut grids[1], most[1])
}

/// Returns the index of the array that has the numbers of step `i`, and the index in that array of
/// the step's first number. `first` is the index of that number among all numbers.
pub fn array_of(grid: &Grid, i: usize, first: usize) -> (usize, usize) {
    let n_front = grid.n_front();
    if i < n_front { (0, first) } else { (i - n_front + usize::from(n_front > 0), 0) }
}

/// The number of ranges of units into which the work on a step is split.
fn n_pieces<T: Real>(refine: &Refine<T>, job: &Job) -> usize {
    // Waking threads takes longer than a small step. But when only steps of at least 4 MiB used
    // several threads, 16 threads needed twice as long for arrays of 4 MiB.
    job.pool.pieces_of_slow((refine.step.n_nodes() * size_of::<T>()) as u64).clamp(1, refine.n_units())
}

/// Decodes a step.
///
/// # Errors
/// `OutOfMemory`.
pub fn decode<T: Real>(refine: &Refine<T>, job: &Job, numbers: Numbers<T>, nodes: &mut [T::Bytes]) -> Result<()> {
    let (n, n_units) = (n_pieces(refine, job), refine.n_units());
    if n == 1 {
        dispatch(job.level, Decode { refine, units: 0..n_units, numbers, nodes });
        return Ok(());
    }
    let mut tasks = try_vec(n, "bookkeeping")?;
    let mut rest = nodes;
    for units in (0..n).map(|i| i * n_units / n..(i + 1) * n_units / n) {
        let [start, end] = [units.start, units.end].map(|unit| refine.starts(unit)[0]);
        let (nodes, behind) = rest.split_at_mut(end - start);
        rest = behind;
        tasks.push(Decode { refine, units, numbers, nodes });
    }
    job.pool.map(tasks, |task| dispatch(job.level, task));
    Ok(())
}

/// Encodes a step. `nodes` is empty for the last step.
///
/// # Errors
/// `OutOfMemory`.
pub fn encode<T: Real>(
    refine: &Refine<T>,
    watch: &Watch<T>,
    job: &Job,
    numbers: &mut [T::Bytes],
    nodes: &mut [T::Bytes],
) -> Result<Errors> {
    let (n, n_units) = (n_pieces(refine, job), refine.n_units());
    if n == 1 {
        return Ok(dispatch(job.level, Encode { refine, watch, units: 0..n_units, numbers, nodes }));
    }
    let mut tasks = try_vec(n, "bookkeeping")?;
    let (mut rest, mut rest_of_numbers) = (nodes, numbers);
    for units in (0..n).map(|i| i * n_units / n..(i + 1) * n_units / n) {
        let [start, end] = [units.start, units.end].map(|unit| refine.starts(unit));
        let (nodes, behind) = rest.split_at_mut((end[0] - start[0]).min(rest.len()));
        rest = behind;
        let (numbers, behind) = rest_of_numbers.split_at_mut(end[1] - start[1]);
        rest_of_numbers = behind;
        tasks.push(Encode { refine, watch, units, numbers, nodes });
    }
    let errors = job.pool.map(tasks, |task| dispatch(job.level, task));
    Ok(errors.into_iter().fold(Errors::default(), Errors::combine))
}
