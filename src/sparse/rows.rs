//! Rows as they were.

use std::ops::Range;

use crate::cpu::pool::Pool;
use crate::error::{Error, Result, try_vec};
use crate::sparse::access::{AnyValues, with_any_values};
use crate::sparse::csr::Index;
use crate::sparse::element::Element;
use crate::sparse::layout::{LANES, WINDOW};
use crate::sparse::matrix::Matrix;
use crate::sparse::walk::walk_elements;

/// Rows in compressed form, of memory of their own: see [`crate::sparse::Csr`].
#[derive(Debug)]
pub struct Rows<I, T> {
    /// One more than rows, from 0.
    pub starts: Vec<I>,
    /// The column of each element.
    pub columns: Vec<I>,
    /// Its value.
    pub values: Vec<T>,
}

/// What the elements of some windows are.
struct Decode<'a> {
    matrix: &'a Matrix,
    rows: Range<u64>,
}

impl Decode<'_> {
    /// Each row's elements. A row meets its own in their order, since steps are in order, and so are the slices of long rows.
    fn run<T: Element>(self, values: AnyValues<T>) -> Result<Vec<Vec<(u64, T)>>> {
        let Self { matrix, rows } = self;
        let view = matrix.view();
        let mut found = try_vec((rows.end - rows.start) as usize, "rows")?;
        found.resize_with((rows.end - rows.start) as usize, Vec::new);
        let windows = rows.start as usize / WINDOW..(rows.end as usize).div_ceil(WINDOW);
        for i in matrix.slices_of(windows) {
            let slice = view.slice(i);
            let places: [usize; LANES] = {
                let mut places = [usize::MAX; LANES];
                for (place, row) in places.iter_mut().zip(view.rows(&slice)) {
                    *place = if rows.contains(&row) { (row - rows.start) as usize } else { usize::MAX };
                }
                places
            };
            if places.iter().all(|&place| place == usize::MAX) {
                continue;
            }
            walk_elements(&view, values, i, |at, value| {
                if let Some(row) = found.get_mut(places[at.lane]) {
                    row.push((at.column, value));
                }
            });
        }
        for i in 0..view.head.n_long {
            let long = view.long(i);
            if !rows.contains(&long.row) {
                continue;
            }
            let own: &mut Vec<(u64, T)> = &mut found[(long.row - rows.start) as usize];
            for slice in 0..long.n as usize {
                let i = view.head.n_slices + long.first as usize + slice;
                walk_elements(&view, values, i, |at, value| own.push((at.column, value)));
            }
        }
        Ok(found)
    }
}

/// Rows `rows` of a matrix, with elements in the order that they came in.
///
/// # Errors
/// `InvalidArgument` for rows that there are not, another type of values, or numbers that the indices cannot count;
/// `OutOfMemory`.
pub fn decode<I: Index, T: Element>(matrix: &Matrix, rows: Range<u64>, pool: &Pool) -> Result<Rows<I, T>> {
    let head = matrix.head();
    if rows.start > rows.end || rows.end > head.n_rows {
        let text = format!("rows {} to {} are none of {}", rows.start, rows.end, head.n_rows);
        return Err(Error::invalid(text));
    }
    if T::DTYPE != head.dtype {
        let (own, theirs) = (head.dtype.name(), T::DTYPE.name());
        return Err(Error::invalid(format!("the matrix has {own} values, which cannot be read as {theirs}")));
    }
    if head.n_cols > I::MAX.saturating_add(1) || head.nnz > I::MAX {
        return Err(Error::invalid("the matrix is too large for indices of 32 bits; take those of 64"));
    }
    let window = WINDOW as u64;
    let firsts = rows.start / window..rows.end.div_ceil(window);
    let parts: Vec<_> = firsts
        .map(|i| rows.start.max(i * window)..rows.end.min((i + 1) * window))
        .filter(|rows| rows.start < rows.end)
        .collect();
    let decoded =
        pool.map(parts, |rows| with_any_values(&matrix.view(), |values| Decode { matrix, rows }.run::<T>(values)));
    let mut found = Rows { starts: vec![I::of(0)], columns: Vec::new(), values: Vec::new() };
    for part in decoded {
        for row in part? {
            found.columns.extend(row.iter().map(|&(column, _)| I::of(column)));
            found.values.extend(row.iter().map(|&(_, value)| value));
            found.starts.push(I::of(found.columns.len() as u64));
        }
    }
    Ok(found)
}

/// Elements of some rows.
///
/// # Errors
/// `InvalidArgument` for rows that there are not.
pub fn count(matrix: &Matrix, rows: Range<u64>) -> Result<u64> {
    let head = matrix.head();
    if rows.start > rows.end || rows.end > head.n_rows {
        let text = format!("rows {} to {} are none of {}", rows.start, rows.end, head.n_rows);
        return Err(Error::invalid(text));
    }
    if rows == (0..head.n_rows) {
        return Ok(head.nnz);
    }
    let view = matrix.view();
    let mut n = 0;
    let windows = rows.start as usize / WINDOW..(rows.end as usize).div_ceil(WINDOW);
    for i in matrix.slices_of(windows) {
        let slice = view.slice(i);
        let inside = view
            .rows(&slice)
            .zip(0..)
            .filter(|(row, _)| rows.contains(row))
            .fold(0, |mask, (_, lane)| mask | 1 << lane);
        n += slice_count(&view, i, inside);
    }
    for i in 0..head.n_long {
        let long = view.long(i);
        if rows.contains(&long.row) {
            let slices = (0..long.n as usize).map(|slice| head.n_slices + long.first as usize + slice);
            n += slices.map(|i| slice_count(&view, i, u32::MAX)).sum::<u64>();
        }
    }
    Ok(n)
}

/// Elements of a slice in some lanes.
pub(super) fn slice_count(view: &crate::sparse::frame::View, i: usize, lanes: u32) -> u64 {
    let slice = view.slice(i);
    let steps = view.steps(&slice);
    let n: u64 =
        (0..steps.len()).map(|k| u64::from((crate::sparse::frame::step(steps, k).mask & lanes).count_ones())).sum();
    n * slice.side(view.head.block) as u64
}
