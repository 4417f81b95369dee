//! `gridz_sparse.h`: sparse matrices that stay compressed in memory.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::cci_types::*;
use crate::guard::{guard, guard_or};
use crate::ptr::{self, Out, OutStruct};
use crate::status::gridz_status;
use crate::types::*;
use gridz::Context;
use gridz::device::gpu_of_pointer;
use gridz_codecs::error::{Error, Result};
use gridz_sparse::csr::Index;
use gridz_sparse::element::{Element, Semiring};
use gridz_sparse::{self, Csr, Matrix, ValueChoice};

/// Compresses a sparse matrix. The caller owns `*cci` and frees it with `gridz_cci_destroy`.
///
/// `csr` describes the matrix in rows or columns and is not needed afterwards. The elements of a
/// row keep their order, even if their columns are unsorted or duplicated. `values` is one of
/// `GRIDZ_CCI_VALUES_*`. `context` may be NULL.
///
/// Working memory is proportional to the number of elements, plus 16 bytes for every 3840 rows. The
/// frame has at least 1 byte per row.
///
/// Errors: `INVALID_ARGUMENT` for an invalid matrix, or for values that `values` cannot code;
/// `UNSUPPORTED_JOB` for other types, for GPU memory, and for more elements than one frame can hold
/// (more than 10^11); `OUT_OF_MEMORY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_create(
    csr: *const gridz_csr,
    values: u32,
    context: *const gridz_context,
    cci: *mut *mut gridz_cci,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (cci, c, context) = unsafe { (Out::new("cci", cci)?, ptr::read(csr)?, ptr::context(context)) };
        if c.reserved != 0 {
            return Err(Error::invalid(format!("reserved is {}, but must be 0", c.reserved)));
        }
        let choice = ValueChoice::ALL.get(values as usize).copied();
        let choice =
            choice.ok_or_else(|| Error::invalid(format!("values {values} is not one of GRIDZ_CCI_VALUES_*")))?;
        let of_values = ofs(c.dtype, "dtype", [GRIDZ_DTYPE_F32, GRIDZ_DTYPE_F64])?;
        let of_indices = ofs(c.index_dtype, "index_dtype", [GRIDZ_DTYPE_I32, GRIDZ_DTYPE_I64])?;
        // SAFETY: the same promises.
        let matrix = unsafe {
            match (of_indices, of_values) {
                (0, 0) => create::<i32, f32>(&c, choice, context),
                (0, _) => create::<i32, f64>(&c, choice, context),
                (_, 0) => create::<i64, f32>(&c, choice, context),
                (_, _) => create::<i64, f64>(&c, choice, context),
            }
        }?;
        cci.write(ptr::leak(gridz_cci(matrix)));
        Ok(())
    })
}

/// Frees a sparse matrix. No call may be using it, and none may use it or its frame afterwards.
/// NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_destroy(cci: *mut gridz_cci) {
    // SAFETY: the caller keeps the promise of the comment above.
    guard_or((), || drop(unsafe { ptr::take_back(cci) }));
}

/// Describes a sparse matrix and its coding in `*info`, whose `struct_size` the caller has set.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_inspect(cci: *const gridz_cci, info: *mut gridz_cci_info) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (info, cci) = unsafe { (OutStruct::new(info)?, ptr::shared("cci", cci)?) };
        let (head, kinds) = (cci.0.head(), gridz_sparse::kinds(&cci.0));
        info.write(&gridz_cci_info {
            struct_size: 0,
            n_rows: head.n_rows,
            n_cols: head.n_cols,
            nnz: head.nnz,
            dtype: head.dtype as u32,
            values: head.codec as u32,
            block: head.block as u32,
            reserved: 0,
            frame_bytes: cci.0.frame_bytes() as u64,
            value_bytes: head.value_bytes as u64,
            by_distance: kinds.by_distance,
            blocked: kinds.blocked,
            short_codes: kinds.short,
            plain: kinds.plain,
            long_rows: kinds.long,
        });
        Ok(())
    })
}

/// Returns the frame that holds a sparse matrix: `*frame_bytes` bytes at `*frame`, valid as long as
/// the matrix. The same matrix has the same frame on every machine. Write these bytes to store the
/// matrix; `gridz_cci_open` reads them.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_frame(
    cci: *const gridz_cci,
    frame: *mut *const c_void,
    frame_bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (frame, frame_bytes, cci) =
            unsafe { (Out::new("frame", frame)?, Out::new("frame_bytes", frame_bytes)?, ptr::shared("cci", cci)?) };
        let bytes = cci.0.frame();
        frame.write(bytes.as_ptr().cast());
        frame_bytes.write(bytes.len());
        Ok(())
    })
}

/// Creates a sparse matrix from its frame, which is in host memory and not needed afterwards. The
/// caller owns `*cci` and frees it with `gridz_cci_destroy`. `context` may be NULL.
///
/// Untrusted input is safe: all tables are checked, and a damaged or hostile frame gives an error.
/// Time and memory are proportional to `frame_bytes`, regardless of the rows and elements that the
/// frame claims.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`, `OUT_OF_MEMORY`;
/// `UNSUPPORTED_JOB` for GPU memory and for slices that share codes, which no version of gridz
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_open(
    frame: *const c_void,
    frame_bytes: usize,
    context: *const gridz_context,
    cci: *mut *mut gridz_cci,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (cci, frame, context) = unsafe {
            (Out::new("cci", cci)?, ptr::host_bytes("frame", frame, frame_bytes)?, ptr::context(context))
        };
        cci.write(ptr::leak(gridz_cci(Matrix::from_frame(frame, context.pool())?)));
        Ok(())
    })
}

/// Multiplies a sparse matrix by `n_vectors` vectors: Y = A X, or Y = Aᵀ X if `transposed` is 1
/// instead of 0.
///
/// `semiring` is one of `GRIDZ_CCI_SEMIRING_*`. `x` and `y` have elements of the matrix's type, in
/// `x_bytes` and `y_bytes` bytes, and must not overlap. `n_vectors` is 1 to 256. Several vectors
/// are interleaved: element c of vector j is `x[c * n_vectors + j]`. `context` may be NULL.
///
/// The result does not depend on the number of threads or the CPU's instruction set. Each row is
/// summed from its first element to its last, with one multiplication and one addition per element.
/// SPEC.md defines the order for rows that are much longer than the other rows.
///
/// With `transposed`, results of parts of the matrix are added. For each vector they take memory of
/// up to an eighth of the matrix's elements. A matrix created from the transpose is faster.
///
/// `x` and `y` may both be memory of an NVIDIA GPU, as for `gridz_compress`. This supports one
/// vector, not transposed, and the semiring `GRIDZ_CCI_SEMIRING_PLUS_TIMES` only. The first call
/// copies the frame to the GPU; see `gridz_cci_multiply_async`.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for products that GPUs do not support,
/// `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_multiply(
    cci: *const gridz_cci,
    semiring: u32,
    transposed: u32,
    n_vectors: usize,
    x: *const c_void,
    x_bytes: usize,
    y: *mut c_void,
    y_bytes: usize,
    context: *const gridz_context,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (cci, context) = unsafe { (ptr::shared("cci", cci)?, ptr::context(context)) };
        let unknown = || Error::invalid(format!("semiring {semiring} is not one of GRIDZ_CCI_SEMIRING_*"));
        let semiring = Semiring::ALL.get(semiring as usize).copied().ok_or_else(unknown)?;
        if transposed > 1 {
            return Err(Error::invalid(format!("transposed is {transposed}; it must be 0 or 1")));
        }
        if gpu_of_pointer(x).is_some() || gpu_of_pointer(y).is_some() {
            if transposed != 0 || n_vectors != 1 || semiring != Semiring::PlusTimes {
                return Err(Error::unsupported(
                    "a GPU supports only A x with one vector and the semiring GRIDZ_CCI_SEMIRING_PLUS_TIMES; \
                     create a matrix from the transpose, or copy the vectors to the host",
                ));
            }
            // SAFETY: the same promises; the call waits until the GPU has completed the work.
            return unsafe {
                let (x, y) =
                    (ptr::device_memory("x", x, x_bytes as u64)?, ptr::device_memory("y", y, y_bytes as u64)?);
                gridz_sparse::multiply_on_gpu(&cci.0, x, y, None)
            };
        }
        let asked = Asked { matrix: &cci.0, semiring, transposed: transposed != 0, n_vectors, context };
        // SAFETY: the same promises.
        unsafe {
            match cci.0.head().dtype as u32 {
                GRIDZ_DTYPE_F32 => asked.multiply::<f32>(x, x_bytes, y, y_bytes),
                _ => asked.multiply::<f64>(x, x_bytes, y, y_bytes),
            }
        }
    })
}

/// Enqueues a product on a CUDA stream: y = A x with vectors in GPU memory, in the semiring
/// `GRIDZ_CCI_SEMIRING_PLUS_TIMES`. The result is bit-identical to that of the CPU.
///
/// The first call for a GPU copies the compressed frame to it and waits for that. The copy stays
/// there as long as the matrix exists. Both vectors are aligned for their elements. The vectors and
/// the matrix must stay valid until the stream has completed the work. `stream` is a `cudaStream_t`
/// or `CUstream`; NULL is the legacy default stream.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for more than 2^32 rows or columns,
/// `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_multiply_async(
    cci: *const gridz_cci,
    x: *const c_void,
    x_bytes: usize,
    y: *mut c_void,
    y_bytes: usize,
    stream: *mut c_void,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (cci, x, y, stream) = unsafe {
            (
                ptr::shared("cci", cci)?,
                ptr::device_memory("x", x, x_bytes as u64)?,
                ptr::device_memory("y", y, y_bytes as u64)?,
                ptr::stream(stream),
            )
        };
        // SAFETY: the same promises.
        unsafe { gridz_sparse::multiply_on_gpu(&cci.0, x, y, Some(stream)) }
    })
}

/// Counts the elements of `n` rows, from row `first` on.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_count(cci: *const gridz_cci, first: u64, n: u64, nnz: *mut u64) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (nnz, cci) = unsafe { (Out::new("nnz", nnz)?, ptr::shared("cci", cci)?) };
        nnz.write(gridz_sparse::count(&cci.0, first..first.saturating_add(n))?);
        Ok(())
    })
}

/// Decodes `n` rows, from row `first` on: their `n + 1` row starts, counted from 0, and the columns
/// and values of their elements in the original order. `nnz` is the number of these elements, as
/// `gridz_cci_count` returns it.
///
/// `index_dtype` is `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`, the type of `starts` and `columns`. All
/// three arrays are in host memory and aligned for their elements. `values` and `context` may be
/// NULL.
///
/// Errors: `INVALID_ARGUMENT`, also if the index type is too narrow; `OUT_OF_MEMORY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_decode(
    cci: *const gridz_cci,
    first: u64,
    n: u64,
    index_dtype: gridz_dtype,
    starts: *mut c_void,
    columns: *mut c_void,
    values: *mut c_void,
    nnz: u64,
    context: *const gridz_context,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (cci, context) = unsafe { (ptr::shared("cci", cci)?, ptr::context(context)) };
        let of_indices = ofs(index_dtype, "index_dtype", [GRIDZ_DTYPE_I32, GRIDZ_DTYPE_I64])?;
        let rows = Rows { matrix: &cci.0, rows: first..first.saturating_add(n), nnz, context };
        // SAFETY: the same promises.
        unsafe {
            match (of_indices, cci.0.head().dtype as u32) {
                (0, GRIDZ_DTYPE_F32) => rows.decode::<i32, f32>(starts, columns, values),
                (0, _) => rows.decode::<i32, f64>(starts, columns, values),
                (_, GRIDZ_DTYPE_F32) => rows.decode::<i64, f32>(starts, columns, values),
                (_, _) => rows.decode::<i64, f64>(starts, columns, values),
            }
        }
    })
}

/// Returns 0 or 1: which of the two types `dtype` is.
fn ofs(dtype: u32, name: &str, types: [u32; 2]) -> Result<usize> {
    types.iter().position(|&one| one == dtype).ok_or_else(|| {
        let kinds = if name == "dtype" { "GRIDZ_DTYPE_F32 or _F64" } else { "GRIDZ_DTYPE_I32 or _I64" };
        Error::unsupported(format!("{name} {dtype} of a sparse matrix must be {kinds}; convert it first"))
    })
}

/// Compresses the matrix that C describes.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
unsafe fn create<I: Index, T: Element>(c: &gridz_csr, choice: ValueChoice, context: &Context) -> Result<Matrix> {
    let (n_rows, n_cols) = match c.layout {
        GRIDZ_CCI_ROWS => (c.n_rows, c.n_cols),
        GRIDZ_CCI_COLUMNS => (c.n_cols, c.n_rows),
        other => {
            return Err(Error::invalid(format!(
                "layout {other} is not one of GRIDZ_CCI_ROWS and GRIDZ_CCI_COLUMNS"
            )));
        }
    };
    let too_many = || {
        let gridz_csr { n_rows, n_cols, nnz, .. } = c;
        Error::invalid(format!(
            "n_rows {n_rows}, n_cols {n_cols} and nnz {nnz} describe arrays that exceed the address space"
        ))
    };
    let n_starts = n_rows.checked_add(1).and_then(|n| usize::try_from(n).ok()).ok_or_else(too_many)?;
    let nnz = usize::try_from(c.nnz).map_err(|_| too_many())?;
    let n_values = if c.values.is_null() { 0 } else { nnz };
    // SAFETY: the caller's promise.
    let (starts, columns, values) = unsafe {
        (
            ptr::items::<I>("starts", c.starts, n_starts)?,
            ptr::items::<I>("indices", c.indices, nnz)?,
            ptr::items::<T>("values", c.values, n_values)?,
        )
    };
    let csr = Csr { n_rows, n_cols, starts, columns, values };
    if c.layout == GRIDZ_CCI_ROWS {
        return gridz_sparse::compress(&csr, choice, context.pool());
    }
    gridz_sparse::compress_transposed(&csr, choice, context.pool())
}

/// Arguments of a product on the CPU.
struct Asked<'a> {
    matrix: &'a Matrix,
    semiring: Semiring,
    transposed: bool,
    n_vectors: usize,
    context: &'a Context,
}

impl Asked<'_> {
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn multiply<T: Element>(
        &self,
        x: *const c_void,
        x_bytes: usize,
        y: *mut c_void,
        y_bytes: usize,
    ) -> Result<()> {
        let &Self { matrix, semiring, transposed, n_vectors, context } = self;
        for (name, n_bytes) in [("x", x_bytes), ("y", y_bytes)] {
            if !n_bytes.is_multiple_of(T::BYTES) {
                return Err(Error::invalid(format!(
                    "{name} has {n_bytes} bytes, which is not a multiple of the element size, {}",
                    T::BYTES
                )));
            }
        }
        // SAFETY: the caller's promise.
        let (x, y) =
            unsafe { ptr::items_and_items_mut::<T>(("x", x, x_bytes / T::BYTES), ("y", y, y_bytes / T::BYTES))? };
        let (level, pool) = (context.level()?, context.pool());
        match transposed {
            true => gridz_sparse::multiply_transposed(matrix, semiring, n_vectors, x, y, level, pool),
            false if n_vectors == 1 => gridz_sparse::multiply(matrix, semiring, x, y, level, pool),
            false => gridz_sparse::multiply_wide(matrix, semiring, n_vectors, x, y, level, pool),
        }
    }
}

/// Arguments of decoding rows.
struct Rows<'a> {
    matrix: &'a Matrix,
    rows: std::ops::Range<u64>,
    nnz: u64,
    context: &'a Context,
}

impl Rows<'_> {
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn decode<I: Index, T: Element>(
        self,
        starts: *mut c_void,
        columns: *mut c_void,
        values: *mut c_void,
    ) -> Result<()> {
        let Self { matrix, rows, nnz, context } = self;
        let n = gridz_sparse::count(matrix, rows.clone())?;
        if n != nnz {
            return Err(Error::invalid(format!(
                "nnz is {nnz}, but rows {} to {} have {n} elements; pass the number that gridz_cci_count returns",
                rows.start, rows.end
            )));
        }
        let n_values = if values.is_null() { 0 } else { n as usize };
        // SAFETY: the caller's promise.
        let to = unsafe {
            gridz_sparse::Room {
                starts: ptr::items_mut::<I>("starts", starts, (rows.end - rows.start) as usize + 1)?,
                columns: ptr::items_mut::<I>("columns", columns, n as usize)?,
                values: ptr::items_mut::<T>("values", values, n_values)?,
            }
        };
        gridz_sparse::decode_to(matrix, rows, to, context.pool())?;
        Ok(())
    }
}
