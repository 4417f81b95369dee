//! Decodes rows of a matrix.

use std::ops::Range;

use crate::access::{AnyValues, with_any_values};
use crate::csr::Index;
use crate::element::Element;
use crate::frame::{View, step};
use crate::layout::{LANES, Long, WINDOW};
use crate::matrix::Matrix;
use crate::walk::{Walk, lanes_of, walk_columns, walk_elements};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};

/// Decoded rows in compressed sparse rows, in owned memory: see [`crate::Csr`].
#[derive(Debug)]
pub struct Rows<I, T> {
    /// Start of each row, from 0, and the end of the last one.
    pub starts: Vec<I>,
    /// The column of each element.
    pub columns: Vec<I>,
    /// The value of each element.
    pub values: Vec<T>,
}

/// Windows in a unit of work for a thread.
const AT_A_TIME: usize = 16;

/// The caller's memory for decoded rows.
pub struct Room<'a, I, T> {
    /// One entry more than rows.
    pub starts: &'a mut [I],
    /// One entry for each element of the rows.
    pub columns: &'a mut [I],
    /// One entry for each element, or empty: then no values are decoded.
    pub values: &'a mut [T],
}

/// Some of the rows; `first` is the index of their first element in the whole output.
struct Job<'a, I, T> {
    rows: Range<u64>,
    first: u64,
    /// The end of each row.
    starts: &'a mut [I],
    columns: &'a mut [I],
    values: &'a mut [T],
}

/// Calls `see` for each slice that has lanes of some rows. Its argument is the row of each lane,
/// relative to the first row; `None` for lanes of other rows.
fn each_slice(matrix: &Matrix, rows: &Range<u64>, mut see: impl FnMut(usize, [Option<usize>; LANES])) {
    let view = matrix.view();
    let windows = rows.start as usize / WINDOW..(rows.end as usize).div_ceil(WINDOW);
    for i in matrix.slices_of(windows) {
        let mut of_lanes = [None; LANES];
        for (of_lane, row) in of_lanes.iter_mut().zip(view.rows(&view.slice(i))) {
            *of_lane = rows.contains(&row).then(|| (row - rows.start) as usize);
        }
        if of_lanes.iter().any(Option::is_some) {
            see(i, of_lanes);
        }
    }
    for long in long_rows(&view, rows) {
        for slice in 0..long.n as usize {
            see(view.head.n_slices + long.first as usize + slice, [Some((long.row - rows.start) as usize); LANES]);
        }
    }
}

/// The long rows among some rows, by binary search: the table of long rows is ascending.
fn long_rows<'a>(view: &View<'a>, rows: &Range<u64>) -> impl Iterator<Item = Long> + use<'a> {
    let view = *view;
    let (mut low, mut high) = (0, view.head.n_long);
    while low < high {
        let middle = low.midpoint(high);
        if view.long(middle).row < rows.start {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let end = rows.end;
    (low..view.head.n_long).map(move |i| view.long(i)).take_while(move |long| long.row < end)
}

impl<I: Index, T: Element> Job<'_, I, T> {
    /// Decodes the rows, window by window. The elements of a row come in their order, since steps
    /// are in order, and so are the slices of long rows.
    fn run(self, matrix: &Matrix, values: AnyValues<T>) {
        let Self { rows, first, starts, mut columns, values: mut to, .. } = self;
        let (view, window) = (matrix.view(), WINDOW as u64);
        let block = view.head.block;
        let has_values = !to.is_empty();
        let mut next = [0usize; WINDOW];
        let mut done = 0;
        for i in rows.start / window..rows.end.div_ceil(window) {
            let own = rows.start.max(i * window)..rows.end.min((i + 1) * window);
            let n_rows = (own.end - own.start) as usize;
            let starts = &mut starts[(own.start - rows.start) as usize..][..n_rows];
            next.fill(0);
            each_slice(matrix, &own, |i, of_lanes| {
                let slice = view.slice(i);
                let steps = view.steps(&slice);
                for k in 0..steps.len() {
                    for lane in lanes_of(step(steps, k).mask) {
                        if let Some(row) = of_lanes[lane] {
                            next[row] += slice.side(block);
                        }
                    }
                }
            });
            let mut n = 0;
            for (next, start) in next.iter_mut().zip(starts) {
                n += std::mem::replace(next, n);
                *start = I::of(first + (done + n) as u64);
            }
            let (here, rest) = std::mem::take(&mut columns).split_at_mut(n);
            columns = rest;
            let (here_too, rest) = std::mem::take(&mut to).split_at_mut(if has_values { n } else { 0 });
            to = rest;
            each_slice(matrix, &own, |i, of_lanes| {
                let mut place = |at: Walk| {
                    let row = of_lanes[at.lane]?;
                    here[next[row]] = I::of(at.column);
                    next[row] += 1;
                    Some(next[row] - 1)
                };
                match has_values {
                    false => walk_columns(&view, i, &mut |at| {
                        place(at);
                    }),
                    true => walk_elements(&view, values, i, |at, value| {
                        if let Some(at) = place(at) {
                            here_too[at] = value;
                        }
                    }),
                }
            });
            done += n;
        }
    }
}

/// Rejects rows that a matrix does not have.
fn check_rows(matrix: &Matrix, rows: &Range<u64>) -> Result<()> {
    let n_rows = matrix.head().n_rows;
    if rows.start > rows.end || rows.end > n_rows {
        let text = format!("rows {} to {} are outside the matrix, which has {n_rows} rows", rows.start, rows.end);
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// See [`crate::decode_to`].
pub fn decode_to<I: Index, T: Element>(
    matrix: &Matrix,
    rows: Range<u64>,
    to: Room<I, T>,
    pool: &Pool,
) -> Result<()> {
    let head = matrix.head();
    check_rows(matrix, &rows)?;
    if T::DTYPE != head.dtype {
        let (own, theirs) = (head.dtype.name(), T::DTYPE.name());
        return Err(Error::invalid(format!("the matrix has {own} values, which cannot be read as {theirs}")));
    }
    if head.n_cols > I::MAX.saturating_add(1) || head.nnz > I::MAX {
        let (n_cols, nnz, most) = (head.n_cols, head.nnz, I::MAX);
        let advice = if I::MAX == i32::MAX as u64 { "; use 64-bit indices" } else { "" };
        return Err(Error::invalid(format!(
            "a matrix with {n_cols} columns and {nnz} elements does not fit in indices of at most {most}{advice}"
        )));
    }
    let window = WINDOW as u64;
    let n_parts = (rows.end.div_ceil(window) - rows.start / window).div_ceil(AT_A_TIME as u64);
    let mut parts = try_vec(n_parts as usize, "bookkeeping")?;
    let mut start = rows.start;
    while start < rows.end {
        let end = rows.end.min((start / window + AT_A_TIME as u64) * window);
        parts.push(start..end);
        start = end;
    }
    let counts = pool.map(parts.clone(), |rows| count_checked(matrix, rows));
    let n: u64 = counts.iter().sum();
    let Room { starts, columns, values } = to;
    for (name, found, need) in [
        ("starts", starts.len() as u64, rows.end - rows.start + 1),
        ("columns", columns.len() as u64, n),
        ("values", values.len() as u64, if values.is_empty() { 0 } else { n }),
    ] {
        if found != need {
            return Err(Error::invalid(format!("{name} has room for {found}, but these rows need {need}")));
        }
    }
    let Some((zero, mut starts)) = starts.split_first_mut() else { return Ok(()) };
    *zero = I::of(0);
    let (mut columns, mut values, mut first) = (columns, values, 0);
    let mut jobs = try_vec(parts.len(), "bookkeeping")?;
    for (rows, n) in parts.into_iter().zip(counts) {
        let (own_starts, rest) = starts.split_at_mut((rows.end - rows.start) as usize);
        starts = rest;
        let (own_columns, rest) = columns.split_at_mut(n as usize);
        columns = rest;
        let (own_values, rest) = values.split_at_mut((n as usize).min(values.len()));
        values = rest;
        jobs.push(Job { rows, first, starts: own_starts, columns: own_columns, values: own_values });
        first += n;
    }
    with_any_values(&matrix.view(), |values| {
        pool.map(jobs, |job| job.run(matrix, values));
        Ok(())
    })
}

/// Decodes rows `rows` of a matrix: see [`decode_to`].
///
/// # Errors
/// As for [`decode_to`].
pub fn decode<I: Index, T: Element>(matrix: &Matrix, rows: Range<u64>, pool: &Pool) -> Result<Rows<I, T>> {
    let n = count(matrix, rows.clone())? as usize;
    let n_starts = (rows.end - rows.start) as usize + 1;
    let mut found = Rows {
        starts: try_vec(n_starts, "starts")?,
        columns: try_vec(n, "columns")?,
        values: try_vec(n, "values")?,
    };
    found.starts.resize(n_starts, I::of(0));
    found.columns.resize(n, I::of(0));
    found.values.resize(n, T::default());
    let room = Room { starts: &mut found.starts, columns: &mut found.columns, values: &mut found.values };
    crate::decode_to(matrix, rows, room, pool)?;
    Ok(found)
}

/// Number of elements in some rows.
///
/// # Errors
/// `InvalidArgument` for rows that the matrix does not have.
pub fn count(matrix: &Matrix, rows: Range<u64>) -> Result<u64> {
    check_rows(matrix, &rows)?;
    Ok(count_checked(matrix, rows))
}

/// Number of elements in some rows, which the matrix must have.
fn count_checked(matrix: &Matrix, rows: Range<u64>) -> u64 {
    if rows == (0..matrix.head().n_rows) {
        return matrix.head().nnz;
    }
    let view = matrix.view();
    let mut n = 0;
    each_slice(matrix, &rows, |i, of_lanes| {
        let of_lane = |lane: usize| u32::from(of_lanes[lane].is_some()) << lane;
        n += slice_count(&view, i, (0..LANES).fold(0, |mask, lane| mask | of_lane(lane)));
    });
    n
}

/// Number of elements of slice `i` in some lanes.
pub(super) fn slice_count(view: &View, i: usize, lanes: u32) -> u64 {
    let slice = view.slice(i);
    let steps = view.steps(&slice);
    let n: u64 = (0..steps.len()).map(|k| u64::from((step(steps, k).mask & lanes).count_ones())).sum();
    n * slice.side(view.head.block) as u64
}
