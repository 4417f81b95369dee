//! Matrices that come in: compressed rows.

use crate::error::{Error, Result, try_vec};
use crate::sparse::element::Element;

/// What row starts and columns are counted in.
pub trait Index: Copy + Send + Sync {
    /// As a number; what is negative becomes too large for anything.
    fn get(self) -> u64;
    /// From a number that fits.
    fn of(n: u64) -> Self;
    /// The largest number.
    const MAX: u64;
}

macro_rules! index {
    ($($type:ident)*) => {$(
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
        }
    )*};
}

index!(i32 i64);

/// A matrix in rows: row r has elements `starts[r]` to `starts[r + 1]`, in any order, also several of one column, which count
/// together.
#[derive(Debug, Clone, Copy)]
pub struct Csr<'a, I, T> {
    /// Rows.
    pub n_rows: u64,
    /// Columns.
    pub n_cols: u64,
    /// One more than rows.
    pub starts: &'a [I],
    /// The column of each element.
    pub columns: &'a [I],
    /// Its value. Empty: all are 1.
    pub values: &'a [T],
}

impl<I: Index, T: Element> Csr<'_, I, T> {
    /// Whether it is a matrix.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let (n_rows, n) = (self.n_rows, self.columns.len());
        let wrong = |text: String| Err(Error::invalid(text));
        if n_rows.checked_add(1) != Some(self.starts.len() as u64) {
            return wrong(format!(
                "{} row starts for {n_rows} rows; there must be one more than rows",
                self.starts.len()
            ));
        }
        if !self.values.is_empty() && self.values.len() != n {
            return wrong(format!(
                "{} values for {n} columns; there must be one for each, or none",
                self.values.len()
            ));
        }
        let (first, last) = (self.starts[0].get(), self.starts[self.starts.len() - 1].get());
        if first != 0 || last != n as u64 {
            return wrong(format!(
                "row starts go from {first} to {last}, but must go from 0 to {n}, the number of columns"
            ));
        }
        if let Some(r) = self.starts.windows(2).position(|pair| pair[0].get() > pair[1].get()) {
            return wrong(format!("row {r} starts behind where row {} does", r + 1));
        }
        if let Some(at) = self.columns.iter().position(|column| column.get() >= self.n_cols) {
            let column = self.columns[at].get() as i64;
            return wrong(format!("column {column} of element {at} is none of {}", self.n_cols));
        }
        Ok(())
    }

    /// Number of elements of a row.
    #[inline(always)]
    pub fn len(&self, row: usize) -> usize {
        (self.starts[row + 1].get() - self.starts[row].get()) as usize
    }

    /// Columns of a row.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &[I] {
        &self.columns[self.starts[row].get() as usize..self.starts[row + 1].get() as usize]
    }

    /// An element's value.
    #[inline(always)]
    pub fn value(&self, at: usize) -> T {
        if self.values.is_empty() { T::ONE } else { self.values[at] }
    }
}

/// A matrix in rows with memory of its own.
#[derive(Debug)]
pub struct OwnCsr<I, T> {
    n_rows: u64,
    n_cols: u64,
    starts: Vec<I>,
    columns: Vec<I>,
    values: Vec<T>,
}

impl<I: Index, T: Element> OwnCsr<I, T> {
    /// The transpose of a matrix that has been checked: what its columns are, as rows. Elements of a row come in the order of
    /// the rows that they were in.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidArgument` if it has more rows than an index can count.
    pub fn transpose(of: &Csr<I, T>) -> Result<Self> {
        if of.n_rows > I::MAX {
            return Err(Error::invalid(format!(
                "{} rows are more than the type of the indices can count",
                of.n_rows
            )));
        }
        let n_cols = usize::try_from(of.n_cols).unwrap_or(usize::MAX);
        let mut starts = try_vec(n_cols.saturating_add(1), "row starts")?;
        starts.resize(n_cols + 1, 0u64);
        for column in of.columns {
            starts[column.get() as usize + 1] += 1;
        }
        for i in 0..n_cols {
            starts[i + 1] += starts[i];
        }
        let mut columns = try_vec(of.columns.len(), "columns")?;
        columns.resize(of.columns.len(), I::of(0));
        let mut values = try_vec(of.values.len(), "values")?;
        values.resize(of.values.len(), T::default());
        let mut next = starts.clone();
        for row in 0..of.n_rows as usize {
            let start = of.starts[row].get() as usize;
            for (i, column) in of.row(row).iter().enumerate() {
                let to = &mut next[column.get() as usize];
                columns[*to as usize] = I::of(row as u64);
                if let Some(value) = values.get_mut(*to as usize) {
                    *value = of.values[start + i];
                }
                *to += 1;
            }
        }
        let starts = starts.into_iter().map(I::of).collect();
        Ok(Self { n_rows: of.n_cols, n_cols: of.n_rows, starts, columns, values })
    }

    /// To look at.
    pub fn view(&self) -> Csr<'_, I, T> {
        let Self { n_rows, n_cols, starts, columns, values } = self;
        Csr { n_rows: *n_rows, n_cols: *n_cols, starts, columns, values }
    }
}
