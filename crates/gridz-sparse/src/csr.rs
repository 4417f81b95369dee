//! Input matrices: compressed sparse rows.

use std::ops::Range;

use crate::element::Element;
use crate::functions::Indexed;
use crate::layout::{WINDOW, counted_rows};
use gridz_codecs::error::{Error, Result, try_vec};

/// Integer type of row starts and columns.
pub trait Index: Copy + Send + Sync + 'static {
    /// The number as u64; negative numbers become larger than any valid one.
    fn get(self) -> u64;
    /// Converts a number that must fit.
    fn of(n: u64) -> Self;
    /// The largest number of the type.
    const MAX: u64;
    /// The large functions for this type.
    fn functions<T: Element>() -> &'static Indexed<Self, T>;
}

macro_rules! index {
    ($($type:ident: $functions:ident),*) => {$(
        impl Index for $type {
            const MAX: u64 = $type::MAX as u64;

            #[inline(always)]
            fn get(self) -> u64 {
                i64::from(self) as u64
            }

            #[inline(always)]
            fn of(n: u64) -> Self {
                n as Self
            }

            fn functions<T: Element>() -> &'static Indexed<Self, T> {
                &T::functions().$functions
            }
        }
    )*};
}

index!(i32: of_i32, i64: of_i64);

/// A matrix in compressed sparse rows: row r has elements `starts[r]` to `starts[r + 1]`. They may
/// be in any order. Several elements of a row may have the same column; their products are added.
#[derive(Debug, Clone, Copy)]
pub struct Csr<'a, I, T> {
    /// Rows.
    pub n_rows: u64,
    /// Columns.
    pub n_cols: u64,
    /// Start of each row, and the end of the last one.
    pub starts: &'a [I],
    /// The column of each element.
    pub columns: &'a [I],
    /// The value of each element. Empty: all are 1.
    pub values: &'a [T],
}

impl<I: Index, T: Element> Csr<'_, I, T> {
    /// Checks that this is a valid matrix.
    ///
    /// # Errors
    /// `InvalidArgument`, which describes the problem.
    pub fn check(&self) -> Result<()> {
        let (n_rows, n) = (self.n_rows, self.columns.len());
        let wrong = |text: String| Err(Error::invalid(text));
        if n_rows.checked_add(1) != Some(self.starts.len() as u64) {
            return wrong(format!(
                "{} row starts were given for {n_rows} rows; there must be one more than rows",
                self.starts.len()
            ));
        }
        if !self.values.is_empty() && self.values.len() != n {
            return wrong(format!(
                "{} values were given for {n} columns; give one for each, or none",
                self.values.len()
            ));
        }
        let (first, last) = (self.starts[0].get(), self.starts[self.starts.len() - 1].get());
        if first != 0 || last != n as u64 {
            return wrong(format!(
                "row starts go from {} to {}, but must go from 0 to {n}, the number of columns",
                first as i64, last as i64
            ));
        }
        if let Some(r) = self.starts.windows(2).position(|pair| pair[0].get() > pair[1].get()) {
            let [this, next] = [self.starts[r].get(), self.starts[r + 1].get()].map(|start| start as i64);
            return wrong(format!("row {r} starts at {this} and ends at {next}; row starts must ascend"));
        }
        if let Some(at) = self.columns.iter().position(|column| column.get() >= self.n_cols) {
            let column = self.columns[at].get() as i64;
            return wrong(format!(
                "column {column} of element {at} is outside the matrix, which has {} columns",
                self.n_cols
            ));
        }
        Ok(())
    }

    /// The rows from which a frame is built; the matrix must have been checked.
    pub(super) fn source(&self) -> Source<'_, I, T> {
        let &Self { n_rows, n_cols, starts, columns, values } = self;
        Source { n_rows, n_cols, starts: Starts::Rows(starts), columns, values }
    }
}

/// Where the rows of a [`Source`] start among its elements.
#[derive(Debug, Clone, Copy)]
enum Starts<'a, I> {
    /// The start of each row, and the number of elements.
    Rows(&'a [I]),
    /// The start of each window, and the number of elements; and the row of each element within its
    /// window. Rows without elements take no memory.
    Windows(&'a [usize], &'a [u16]),
}

/// Input rows of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a, I, T> {
    /// Number of rows.
    pub n_rows: u64,
    /// Number of columns.
    pub n_cols: u64,
    starts: Starts<'a, I>,
    /// The column of each element.
    pub columns: &'a [I],
    /// The value of each element. Empty: all are 1.
    pub values: &'a [T],
}

impl<'a, I: Index, T: Element> Source<'a, I, T> {
    /// Number of windows.
    pub fn n_windows(&self) -> usize {
        (self.n_rows as usize).div_ceil(WINDOW)
    }

    /// Rows of a window.
    pub fn rows_of(&self, window: usize) -> Range<usize> {
        window * WINDOW..(self.n_rows as usize).min((window + 1) * WINDOW)
    }

    /// True if no row of a window has an element.
    pub fn is_empty(&self, window: usize) -> bool {
        let rows = self.rows_of(window);
        match self.starts {
            Starts::Rows(starts) => starts[rows.start].get() == starts[rows.end].get(),
            Starts::Windows(starts, _) => starts[window] == starts[window + 1],
        }
    }

    /// Writes the start of each row of a window, and the end of the last one.
    pub fn starts_of(&self, window: usize, to: &mut Vec<usize>) {
        let rows = self.rows_of(window);
        to.clear();
        match self.starts {
            Starts::Rows(starts) => {
                to.extend(starts[rows.start..=rows.end].iter().map(|start| start.get() as usize))
            }
            Starts::Windows(starts, of_elements) => {
                let end = starts[window + 1];
                let mut at = starts[window];
                for row in 0..rows.len() {
                    to.push(at);
                    at += of_elements[at..end].iter().take_while(|&&one| usize::from(one) == row).count();
                }
                to.push(end);
            }
        }
    }

    /// The range of a row's elements.
    pub fn range(&self, row: usize) -> Range<usize> {
        match self.starts {
            Starts::Rows(starts) => starts[row].get() as usize..starts[row + 1].get() as usize,
            Starts::Windows(starts, of_elements) => {
                let (window, row) = (row / WINDOW, (row % WINDOW) as u16);
                let own = &of_elements[starts[window]..starts[window + 1]];
                let before = |limit: u16| starts[window] + own.partition_point(|&one| one < limit);
                before(row)..before(row + 1)
            }
        }
    }

    /// Columns of a row.
    pub fn row(&self, row: usize) -> &'a [I] {
        &self.columns[self.range(row)]
    }

    /// The value of an element.
    #[inline(always)]
    pub fn value(&self, at: usize) -> T {
        if self.values.is_empty() { T::ONE } else { self.values[at] }
    }
}

/// The transpose of a matrix. Its memory is proportional to the number of elements, plus 8 bytes
/// for each window of its rows.
#[derive(Debug)]
pub struct Transpose<I, T> {
    n_rows: u64,
    n_cols: u64,
    /// The start of each window, and the number of elements.
    starts: Vec<usize>,
    /// The row of each element within its window.
    rows: Vec<u16>,
    columns: Vec<I>,
    values: Vec<T>,
}

impl<I: Index, T: Element> Transpose<I, T> {
    /// Transposes a matrix that has been checked. The elements of a row are in the order of the
    /// original rows.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidArgument` for more rows than an index can count; `UnsupportedJob` for
    /// more columns than a frame can have rows.
    pub fn of(csr: &Csr<I, T>) -> Result<Self> {
        if csr.n_rows > I::MAX {
            return Err(Error::invalid(format!(
                "{} rows exceed the range of the index type, whose maximum is {}; use 64-bit indices",
                csr.n_rows,
                I::MAX
            )));
        }
        // Check this before any allocation.
        counted_rows(csr.n_cols)?;
        let n_windows = (csr.n_cols as usize).div_ceil(WINDOW);
        let window_of = |column: &I| column.get() as usize / WINDOW;
        let mut starts = try_vec(n_windows + 1, "window starts")?;
        starts.resize(n_windows + 1, 0);
        for column in csr.columns {
            starts[window_of(column) + 1] += 1;
        }
        for window in 0..n_windows {
            starts[window + 1] += starts[window];
        }
        let n = csr.columns.len();
        let mut rows = zeroed(n, 0u16)?;
        let mut columns = zeroed(n, I::of(0))?;
        let mut values = zeroed(csr.values.len(), T::default())?;
        // While elements are placed, the entry of each window is the position of its next element.
        for row in 0..csr.n_rows as usize {
            for at in csr.starts[row].get() as usize..csr.starts[row + 1].get() as usize {
                let column = &csr.columns[at];
                let to = &mut starts[window_of(column)];
                rows[*to] = (column.get() % WINDOW as u64) as u16;
                columns[*to] = I::of(row as u64);
                if let Some(value) = values.get_mut(*to) {
                    *value = csr.values[at];
                }
                *to += 1;
            }
        }
        // Each entry is now the start of the next window.
        starts.copy_within(..n_windows, 1);
        starts[0] = 0;
        let mut sorter = Sorter { rows: Vec::new(), columns: Vec::new(), values: Vec::new() };
        for window in starts.windows(2) {
            let own = window[0]..window[1];
            let values = if values.is_empty() { &mut [][..] } else { &mut values[own.clone()] };
            sorter.sort(&mut rows[own.clone()], &mut columns[own], values)?;
        }
        Ok(Self { n_rows: csr.n_cols, n_cols: csr.n_rows, starts, rows, columns, values })
    }

    /// The rows from which a frame is built.
    pub(super) fn source(&self) -> Source<'_, I, T> {
        let Self { n_rows, n_cols, starts, rows, columns, values } = self;
        Source { n_rows: *n_rows, n_cols: *n_cols, starts: Starts::Windows(starts, rows), columns, values }
    }
}

fn zeroed<T: Clone>(n: usize, value: T) -> Result<Vec<T>> {
    let mut made = try_vec(n, "the transpose of a matrix")?;
    made.resize(n, value);
    Ok(made)
}

/// Sorts the elements of windows by row. Its memory is reused for the next window.
#[derive(Debug)]
struct Sorter<I, T> {
    rows: Vec<u16>,
    columns: Vec<I>,
    values: Vec<T>,
}

impl<I: Index, T: Element> Sorter<I, T> {
    /// Sorts elements by row, stably.
    fn sort(&mut self, rows: &mut [u16], columns: &mut [I], values: &mut [T]) -> Result<()> {
        if rows.is_sorted() {
            return Ok(());
        }
        refill(&mut self.rows, rows)?;
        refill(&mut self.columns, columns)?;
        refill(&mut self.values, values)?;
        let mut next = [0usize; WINDOW + 1];
        for &row in &self.rows {
            next[usize::from(row) + 1] += 1;
        }
        for row in 0..WINDOW {
            next[row + 1] += next[row];
        }
        for (i, &row) in self.rows.iter().enumerate() {
            let to = &mut next[usize::from(row)];
            rows[*to] = row;
            columns[*to] = self.columns[i];
            if let Some(value) = values.get_mut(*to) {
                *value = self.values[i];
            }
            *to += 1;
        }
        Ok(())
    }
}

/// Makes a vector a copy of `from`.
fn refill<T: Copy>(to: &mut Vec<T>, from: &[T]) -> Result<()> {
    let out_of_memory = |_| Error::out_of_memory(size_of_val(from) as u64, "the transpose of a matrix");
    to.clear();
    to.try_reserve_exact(from.len()).map_err(out_of_memory)?;
    to.extend_from_slice(from);
    Ok(())
}
