//! Sparse matrices that stay compressed in memory; products decode the columns on the fly.
//!
//! The idea is that of O. S. Lawlor, "In-memory data compression for sparse matrices", IA3 2013,
//! but the layout differs: CPU vectors and GPU warps decode it with very few instructions.
//! `src/format/SPARSE.md` describes the format.
//!
//! - `layout`: the tables, and the order of rows in them; `frame`, `bytes`: all tables in one
//!   allocation
//! - `csr`, `pack`, `window`, `values`, `build`: compress rows into a frame
//! - `matrix`, `check`, `summaries`, `walk`: validate a frame and iterate over its elements
//! - `element`, `access`, `level`, `product`, `sums`, `simd`, `wide`, `turned`, `rows`, `gpu`:
//!   products and decompression
//! - `functions`: tables of the functions above for each type, so that they are compiled once

mod access;
pub mod build;
mod bytes;
mod check;
pub mod csr;
pub mod element;
pub mod frame;
mod functions;
mod gpu;
pub mod layout;
mod matrix;
mod pack;
mod product;
mod rows;
#[cfg(target_arch = "x86_64")]
mod simd;
mod summaries;
mod sums;
mod turned;
mod values;
mod walk;
mod wide;
mod window;

pub use csr::Csr;
pub use frame::Head;
pub use gpu::multiply_on_gpu;
pub use matrix::Matrix;
pub use rows::{Room, Rows, count, decode};
pub use values::ValueChoice;
pub use wide::MAX_VECTORS;

use std::ops::Range;

use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::Result;

/// Compresses a matrix.
///
/// # Errors
/// Errors of [`Csr::check`] and [`build::build`].
pub fn compress<I: csr::Index, T: element::Element>(
    csr: &Csr<I, T>,
    choice: ValueChoice,
    pool: &Pool,
) -> Result<Matrix> {
    csr.check()?;
    let (head, frame) = (I::functions::<T>().build)(&csr.source(), choice, pool)?;
    Matrix::new(head, frame)
}

/// Compresses the transpose of a matrix: the rows of `csr` become the columns of the result. The
/// elements of a row of the result are in the order of the rows of `csr`.
///
/// # Errors
/// Errors of [`Csr::check`], [`csr::Transpose::of`] and [`build::build`].
pub fn compress_transposed<I: csr::Index, T: element::Element>(
    csr: &Csr<I, T>,
    choice: ValueChoice,
    pool: &Pool,
) -> Result<Matrix> {
    csr.check()?;
    let transpose = csr::Transpose::of(csr)?;
    let (head, frame) = (I::functions::<T>().build)(&transpose.source(), choice, pool)?;
    Matrix::new(head, frame)
}

/// y = A x in a semiring.
///
/// # Errors
/// `InvalidArgument` for vectors of another length or type, `OutOfMemory`.
pub fn multiply<T: element::Element>(
    matrix: &Matrix,
    semiring: element::Semiring,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    (T::functions().multiply)(matrix, semiring, x, y, level, pool)
}

/// Y = A X in a semiring, with `n` vectors.
///
/// # Errors
/// `InvalidArgument` for vectors of another length or type or for too many of them, `OutOfMemory`.
pub fn multiply_wide<T: element::Element>(
    matrix: &Matrix,
    semiring: element::Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    (T::functions().multiply_wide)(matrix, semiring, n, x, y, level, pool)
}

/// Y = Aᵀ X in a semiring, with `n` interleaved vectors.
///
/// # Errors
/// `InvalidArgument` for vectors of another length or type or for too many of them, `OutOfMemory`.
pub fn multiply_transposed<T: element::Element>(
    matrix: &Matrix,
    semiring: element::Semiring,
    n: usize,
    x: &[T],
    y: &mut [T],
    level: Isa,
    pool: &Pool,
) -> Result<()> {
    (T::functions().multiply_transposed)(matrix, semiring, n, x, y, level, pool)
}

/// Decodes rows `rows` of a matrix into the caller's memory. The elements have the order of the
/// original matrix.
///
/// # Errors
/// `InvalidArgument` for rows that the matrix does not have, buffers of another length, another
/// type of values, or numbers that do not fit in the indices; `OutOfMemory`.
pub fn decode_to<I: csr::Index, T: element::Element>(
    matrix: &Matrix,
    rows: Range<u64>,
    to: Room<I, T>,
    pool: &Pool,
) -> Result<()> {
    (I::functions::<T>().decode_to)(matrix, rows, to, pool)
}

/// Number of elements of a matrix, by the coding of their columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Elements whose columns have no codes.
    pub by_distance: u64,
    /// Elements in blocks, with one code for each block.
    pub blocked: u64,
    /// Elements with codes of 1 or 2 bytes.
    pub short: u64,
    /// Elements whose columns have codes of 4 or 8 bytes.
    pub plain: u64,
    /// Elements of long rows, which the counts above include.
    pub long: u64,
}

/// Counts elements by the coding of their columns.
pub fn kinds(matrix: &Matrix) -> Kinds {
    let view = matrix.view();
    let mut kinds = Kinds::default();
    for i in 0..view.n_slices() {
        let slice = view.slice(i);
        let n = rows::slice_count(&view, i, u32::MAX);
        let to = match slice.width {
            0 => &mut kinds.by_distance,
            _ if slice.has(layout::BLOCKED) => &mut kinds.blocked,
            1 | 2 => &mut kinds.short,
            _ => &mut kinds.plain,
        };
        *to += n;
        if i >= matrix.head().n_slices {
            kinds.long += n;
        }
    }
    kinds
}
