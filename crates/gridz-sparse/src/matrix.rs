//! A sparse matrix in memory: a frame whose tables have been checked.

use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use crate::bytes::Bytes;
use crate::check;
use crate::element::Element;
use crate::frame::{self, Head, TableRanges, View};
use crate::gpu::OnGpu;
use crate::layout::{LANES, WINDOW};
use crate::walk::{Walk, walk_columns};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};

/// A sparse matrix. Several threads may use it at the same time.
#[derive(Debug)]
pub struct Matrix {
    head: Head,
    places: TableRanges,
    frame: Bytes,
    /// Index of the first slice of each window, and the end.
    windows: Vec<usize>,
    /// The range of each window's columns, computed on first use.
    column_ranges: OnceLock<Vec<Range<u64>>>,
    /// Copies of the frame in GPU memory.
    on_gpus: Mutex<Vec<OnGpu>>,
}

impl Matrix {
    /// Copies of the frame in GPU memory.
    pub(super) fn on_gpus(&self) -> &Mutex<Vec<OnGpu>> {
        &self.on_gpus
    }

    /// Creates a matrix from a frame that this library has just built.
    pub(super) fn new(head: Head, frame: Bytes) -> Result<Self> {
        let places = head.table_ranges()?;
        let n_windows = (head.n_rows as usize).div_ceil(WINDOW);
        let mut windows = try_vec(n_windows + 1, "windows")?;
        let view = View::new(&head, &places, frame.get());
        let mut slice = 0;
        for window in 0..n_windows {
            windows.push(slice);
            while slice < head.n_slices && view.slice(slice).place as usize / (WINDOW / LANES) == window {
                slice += 1;
            }
        }
        windows.push(slice);
        Ok(Self { head, places, frame, windows, column_ranges: OnceLock::new(), on_gpus: Mutex::default() })
    }

    /// Creates a matrix from an untrusted frame.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, `UnsupportedFormat`, `OutOfMemory`.
    pub fn from_frame(bytes: &[u8], pool: &Pool) -> Result<Self> {
        let head = Head::read(bytes)?;
        let places = head.table_ranges()?;
        frame::check_sums(bytes, places.frame_bytes)?;
        check::tables(&View::new(&head, &places, bytes), pool)?;
        let mut frame = Bytes::zeroed(bytes.len())?;
        frame.get_mut().copy_from_slice(bytes);
        Self::new(head, frame)
    }

    /// Contents of the header.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The frame.
    pub fn frame(&self) -> &[u8] {
        self.frame.get()
    }

    /// Bytes of the frame. The matrix takes no other memory, except 8 or 24 bytes for each window.
    pub fn frame_bytes(&self) -> usize {
        self.places.frame_bytes
    }

    /// Byte ranges of the tables.
    pub fn table_ranges(&self) -> &TableRanges {
        &self.places
    }

    /// The tables.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::new(&self.head, &self.places, self.frame.get())
    }

    /// The slices of some windows.
    pub fn slices_of(&self, windows: Range<usize>) -> Range<usize> {
        self.windows[windows.start]..self.windows[windows.end]
    }

    /// The range of each window's columns, from the first column to the last one. It is computed
    /// once.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn column_ranges(&self, pool: &Pool) -> Result<&[Range<u64>]> {
        if let Some(ranges) = self.column_ranges.get() {
            return Ok(ranges);
        }
        let view = self.view();
        let n_windows = self.windows.len() - 1;
        let mut windows = try_vec(n_windows, "windows")?;
        windows.extend(0..n_windows);
        let ranges = pool.map(windows, |window| {
            let (mut first, mut end) = (u64::MAX, 0);
            for i in self.slices_of(window..window + 1) {
                walk_columns(&view, i, &mut |Walk { column, .. }| {
                    first = first.min(column);
                    end = end.max(column + 1);
                });
            }
            if first < end { first..end } else { 0..0 }
        });
        Ok(self.column_ranges.get_or_init(|| ranges))
    }

    /// Checks that two vectors suit this matrix. Each pair has the actual and the required number
    /// of elements.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_vectors<T: Element>(&self, x: (usize, u64), y: (usize, u64)) -> Result<()> {
        if T::DTYPE != self.head.dtype {
            let (own, theirs) = (self.head.dtype.name(), T::DTYPE.name());
            return Err(Error::invalid(format!(
                "the matrix has {own} values, but the vectors have {theirs}; convert the vectors"
            )));
        }
        for (name, (n, need)) in [("x", x), ("y", y)] {
            if n as u64 != need {
                let text = format!("{name} has {n} elements; with this matrix it must have {need}");
                return Err(Error::invalid(text));
            }
        }
        Ok(())
    }

    /// Divides the windows into about `n` pieces with about the same number of values.
    pub fn pieces(&self, n: usize) -> Vec<Range<usize>> {
        let n_windows = self.windows.len() - 1;
        let view = self.view();
        let values_at = |window: usize| match self.windows[window] {
            slice if slice < view.n_slices() => view.slice(slice).values_at as usize,
            _ => usize::MAX,
        };
        let total = match self.head.n_slices {
            0 => 0,
            n => {
                let last = view.slice(n - 1);
                last.values_at as usize + last.value_steps(self.head.block)
            }
        };
        let mut pieces = Vec::with_capacity(n);
        let mut start = 0;
        for piece in 1..=n {
            let wanted = (total as u128 * piece as u128 / n as u128) as usize;
            let mut end = start;
            while end < n_windows && (piece == n || values_at(end) < wanted) {
                end += 1;
            }
            if end > start {
                pieces.push(start..end);
            }
            start = end;
        }
        pieces
    }
}
