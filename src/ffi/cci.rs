//! The functions of `gridz.h` for sparse matrices that stay compressed in memory.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::engine::Context;
use crate::engine::device::gpu_of_pointer;
use crate::error::{Error, Result};
use crate::ffi::guard::{guard, guard_or};
use crate::ffi::ptr::{self, Out, OutStruct};
use crate::ffi::status::gridz_status;
use crate::ffi::types::*;
use crate::sparse::csr::Index;
use crate::sparse::element::{Element, Semiring};
use crate::sparse::{self, Csr, Matrix, ValueChoice};

/// Compresses a sparse matrix, which `*cci` then holds, until `gridz_cci_destroy`.
///
/// `csr` describes it in rows or columns and is not needed afterwards. The elements of a row keep their order, also where
/// columns do not ascend or come twice. `values` is one of `GRIDZ_CCI_VALUES_*`. `context` may be NULL.
///
/// Working memory is in proportion to the elements, plus 16 bytes for every 3840 rows; the frame has at least 1 byte a row.
///
/// Errors: `INVALID_ARGUMENT` for what is no matrix, or values that are not as `values` says, `UNSUPPORTED_JOB` for other types,
/// for memory of a GPU, and for more elements than one frame can have, which are more than 10^11, `OUT_OF_MEMORY`.
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
            choice.ok_or_else(|| Error::invalid(format!("values {values} is none of GRIDZ_CCI_VALUES_*")))?;
        let of_process = Context::default();
        let context = context.map_or(&of_process, |context| &context.0);
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

/// Ends a sparse matrix. No call may be using it, and none may use it or its frame afterwards. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_destroy(cci: *mut gridz_cci) {
    // SAFETY: as the comment above asks.
    guard_or((), || drop(unsafe { ptr::take_back(cci) }));
}

/// Tells what a sparse matrix is and how it is kept, in `*info`, whose `struct_size` the caller has set.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_inspect(cci: *const gridz_cci, info: *mut gridz_cci_info) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (info, cci) = unsafe { (OutStruct::new(info)?, ptr::shared("cci", cci)?) };
        let (head, kinds) = (cci.0.head(), sparse::kinds(&cci.0));
        let struct_size = info.n_bytes();
        info.write(&gridz_cci_info {
            struct_size,
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

/// The frame of a sparse matrix, in which it is held: `*frame_bytes` bytes at `*frame`, which live as long as the matrix. The same
/// matrix has the same frame on every machine. To keep it, write these bytes; `gridz_cci_open` reads them.
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

/// A sparse matrix from its frame, which is in host memory and not needed afterwards. `context` may be NULL.
///
/// Any bytes may be passed: all tables are checked, and a damaged or hostile frame gives an error. Time and memory are in
/// proportion to `frame_bytes`, regardless of the rows and elements that the frame claims.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`, `UNSUPPORTED_JOB` for memory of a GPU and for slices that share
/// codes, which no version of gridz writes, `OUT_OF_MEMORY`.
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
        let of_process = Context::default();
        let context = context.map_or(&of_process, |context| &context.0);
        cci.write(ptr::leak(gridz_cci(Matrix::from_frame(frame, context.pool())?)));
        Ok(())
    })
}

/// Multiplies a sparse matrix with `n_vectors` vectors: Y = A X, or with `transposed`, which is 0 or 1, Y = Aᵀ X.
///
/// `semiring` is one of `GRIDZ_CCI_SEMIRING_*`. Vectors have elements of the matrix's type, `x_bytes` and `y_bytes` bytes of them,
/// and do not overlap; those of several vectors lie side by side: element c of vector j is `x[c * n_vectors + j]`. `n_vectors` is 1 to 256.
/// `context` may be NULL. The result does not depend on threads or instructions: a row is summed from its first element to its
/// last, one multiplication and one addition each; SPEC.md has the order for rows that are much longer than others.
///
/// Both may be memory of an NVIDIA GPU, as for `gridz_compress`; then it is one vector, not transposed, and sums of products, and the first
/// call copies the frame there, see `gridz_cci_multiply_async`. `transposed` puts together results of parts of
/// the matrix, which take memory of up to an eighth of its elements for each vector; a matrix made of the transpose is faster.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for what GPUs do not do, `OUT_OF_MEMORY`, `DEVICE`.
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
        let of_process = Context::default();
        let context = context.map_or(&of_process, |context| &context.0);
        let semiring = Semiring::ALL.get(semiring as usize).copied();
        let semiring = semiring.ok_or_else(|| Error::invalid("semiring is none of GRIDZ_CCI_SEMIRING_*"))?;
        if transposed > 1 {
            return Err(Error::invalid(format!("transposed is {transposed}; it must be 0 or 1")));
        }
        if gpu_of_pointer(x).is_some() || gpu_of_pointer(y).is_some() {
            if transposed != 0 || n_vectors != 1 || semiring != Semiring::PlusTimes {
                return Err(Error::unsupported(
                    "on GPUs there is A x only, with one vector and sums of products; make a matrix of the transpose, \
                     or copy the vectors to the host",
                ));
            }
            // SAFETY: the same promises; the call waits for the work.
            return unsafe {
                let (x, y) =
                    (ptr::device_memory("x", x, x_bytes as u64)?, ptr::device_memory("y", y, y_bytes as u64)?);
                sparse::multiply_on_gpu(&cci.0, x, y, None)
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

/// The same on a CUDA stream, without waiting: y = A x with vectors in the memory of a GPU, in the semiring
/// `GRIDZ_CCI_SEMIRING_PLUS_TIMES`, bit for bit as on the CPU.
///
/// The first call with a GPU copies the matrix's frame to it, compressed, waits for that, and keeps it there as long as the matrix lives. Both
/// vectors are aligned for their elements, and live, as the matrix does, until the stream has done the work. `stream` is a
/// `cudaStream_t` or `CUstream`; NULL is the legacy default stream.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for more than 2^32 rows or columns, `OUT_OF_MEMORY`, `DEVICE`.
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
        unsafe { sparse::multiply_on_gpu(&cci.0, x, y, Some(stream)) }
    })
}

/// Counts the elements of `n` rows from `first` on.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cci_count(cci: *const gridz_cci, first: u64, n: u64, nnz: *mut u64) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (nnz, cci) = unsafe { (Out::new("nnz", nnz)?, ptr::shared("cci", cci)?) };
        nnz.write(sparse::count(&cci.0, first..first.saturating_add(n))?);
        Ok(())
    })
}

/// Decodes `n` rows from `first` on, as they were: `n + 1` row starts from 0, and the columns and values of their elements, of
/// which there are `nnz`, as `gridz_cci_count` tells.
///
/// `index_dtype` is `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`, the type of starts and columns. All three are in host memory, aligned for their
/// elements; `values` may be NULL. `context` may be NULL.
///
/// Errors: `INVALID_ARGUMENT`, also for indices that are too short, `OUT_OF_MEMORY`.
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
        let of_process = Context::default();
        let context = context.map_or(&of_process, |context| &context.0);
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

/// Which of two types.
fn ofs(dtype: u32, name: &str, types: [u32; 2]) -> Result<usize> {
    types.iter().position(|&one| one == dtype).ok_or_else(|| {
        let kinds = if name == "dtype" { "GRIDZ_DTYPE_F32 or _F64" } else { "GRIDZ_DTYPE_I32 or _I64" };
        Error::unsupported(format!("{name} {dtype} of a sparse matrix must be {kinds}; convert it first"))
    })
}

/// A matrix of what C describes.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
unsafe fn create<I: Index, T: Element>(c: &gridz_csr, choice: ValueChoice, context: &Context) -> Result<Matrix> {
    let (n_rows, n_cols) = match c.layout {
        GRIDZ_CCI_ROWS => (c.n_rows, c.n_cols),
        GRIDZ_CCI_COLUMNS => (c.n_cols, c.n_rows),
        other => return Err(Error::invalid(format!("layout {other} is neither GRIDZ_CCI_ROWS nor _COLUMNS"))),
    };
    let too_many = || Error::invalid("no memory has so many elements");
    let n_starts = n_rows.checked_add(1).and_then(|n| usize::try_from(n).ok()).ok_or_else(too_many)?;
    let nnz = usize::try_from(c.nnz).map_err(|_| too_many())?;
    let n_values = if c.values.is_null() { 0 } else { nnz };
    // SAFETY: the same promise.
    let (starts, columns, values) = unsafe {
        (
            ptr::items::<I>("starts", c.starts, n_starts)?,
            ptr::items::<I>("indices", c.indices, nnz)?,
            ptr::items::<T>("values", c.values, n_values)?,
        )
    };
    let csr = Csr { n_rows, n_cols, starts, columns, values };
    if c.layout == GRIDZ_CCI_ROWS {
        return sparse::compress(&csr, choice, context.pool());
    }
    sparse::compress_transposed(&csr, choice, context.pool())
}

/// What a product is asked for.
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
                return Err(Error::invalid(format!("{name} has {n_bytes} bytes, which are no whole elements")));
            }
        }
        // SAFETY: the same promise.
        let (x, y) =
            unsafe { ptr::items_and_items_mut::<T>(("x", x, x_bytes / T::BYTES), ("y", y, y_bytes / T::BYTES))? };
        let (level, pool) = (context.level()?, context.pool());
        match transposed {
            true => sparse::multiply_transposed(matrix, semiring, n_vectors, x, y, level, pool),
            false if n_vectors == 1 => sparse::multiply(matrix, semiring, x, y, level, pool),
            false => sparse::multiply_wide(matrix, semiring, n_vectors, x, y, level, pool),
        }
    }
}

/// Rows that are asked for.
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
        let n = sparse::count(matrix, rows.clone())?;
        if n != nnz {
            return Err(Error::invalid(format!(
                "nnz is {nnz}, but rows {} to {} have {n} elements; gridz_cci_count counts them",
                rows.start, rows.end
            )));
        }
        let n_values = if values.is_null() { 0 } else { n as usize };
        // SAFETY: the same promise.
        let to = unsafe {
            sparse::Room {
                starts: ptr::items_mut::<I>("starts", starts, (rows.end - rows.start) as usize + 1)?,
                columns: ptr::items_mut::<I>("columns", columns, n as usize)?,
                values: ptr::items_mut::<T>("values", values, n_values)?,
            }
        };
        sparse::decode_to(matrix, rows, to, context.pool())?;
        Ok(())
    }
}
