//! Constants and structs of the C API for sparse matrices. Their doc comments are the C manual.

use std::ffi::c_void;

use crate::types::gridz_dtype;
use gridz_sparse::Matrix;

/// `gridz_csr.layout`: CSR. `starts` are row starts and `indices` are column indices.
pub const GRIDZ_CCI_ROWS: u32 = 0;
/// `gridz_csr.layout`: CSC. `starts` are column starts and `indices` are row indices.
pub const GRIDZ_CCI_COLUMNS: u32 = 1;

/// Value coding of a sparse matrix: the smallest of the lossless codings below. `BLOCKS` is chosen
/// only if it saves at least a fifth of the value bytes.
pub const GRIDZ_CCI_VALUES_BEST: u32 = 0;
/// Value coding: values are stored verbatim.
pub const GRIDZ_CCI_VALUES_PLAIN: u32 = 1;
/// Value coding: one value for all elements. Different values are an error.
pub const GRIDZ_CCI_VALUES_CONSTANT: u32 = 2;
/// Value coding: indices of 1 or 2 bytes into a table of at most 65536 distinct values. More
/// distinct values are an error.
pub const GRIDZ_CCI_VALUES_DICTIONARY: u32 = 3;
/// Value coding: the values of 32 rows as bit-packed multiples of a power of two, relative to the
/// smallest one.
pub const GRIDZ_CCI_VALUES_BLOCKS: u32 = 4;

/// Sum of products, as in linear algebra.
pub const GRIDZ_CCI_SEMIRING_PLUS_TIMES: u32 = 0;
/// Minimum of sums (shortest paths). The result of an empty row is infinity.
pub const GRIDZ_CCI_SEMIRING_MIN_PLUS: u32 = 1;
/// Maximum of products. The result of an empty row is minus infinity.
pub const GRIDZ_CCI_SEMIRING_MAX_TIMES: u32 = 2;
/// 1 if a row has a nonzero element that meets a nonzero vector element, else 0 (reachability).
pub const GRIDZ_CCI_SEMIRING_OR_AND: u32 = 3;

/// A sparse matrix that stays compressed in memory. Opaque. `gridz_cci_create` and `gridz_cci_open`
/// create it, `gridz_cci_destroy` frees it.
#[derive(Debug)]
pub struct gridz_cci(pub(crate) Matrix);

/// A sparse matrix in compressed rows (CSR) or columns (CSC).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_csr {
    /// `sizeof(gridz_csr)`.
    pub struct_size: usize,
    /// Rows of the matrix.
    pub n_rows: u64,
    /// Columns of the matrix.
    pub n_cols: u64,
    /// Number of elements.
    pub nnz: u64,
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    pub dtype: gridz_dtype,
    /// Type of `starts` and `indices`: `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`.
    pub index_dtype: gridz_dtype,
    /// `GRIDZ_CCI_ROWS` or `GRIDZ_CCI_COLUMNS`.
    pub layout: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Index of the first element of each row (column), counted from 0, and `nnz` at the end: one
    /// entry more than there are rows (columns). gridz cannot check the length of this memory; the
    /// caller ensures it. `starts`, `indices` and `values` are in host memory and aligned for their
    /// elements.
    pub starts: *const c_void,
    /// Column (row) of each element.
    pub indices: *const c_void,
    /// Value of each element. NULL = all values are 1.
    pub values: *const c_void,
}

/// Dimensions of a compressed sparse matrix, and its coding.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_cci_info {
    /// `sizeof(gridz_cci_info)`, set by the caller.
    pub struct_size: usize,
    /// Rows.
    pub n_rows: u64,
    /// Columns.
    pub n_cols: u64,
    /// Number of elements.
    pub nnz: u64,
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    pub dtype: gridz_dtype,
    /// Value coding: 0 verbatim, 1 one value for all, 2 table indices of 1 byte, 3 table indices of
    /// 2 bytes, 4 blocks.
    pub values: u32,
    /// Side of the dense blocks that the elements form, such as the unknowns of one node. 1 = no
    /// blocks.
    pub block: u32,
    /// Always 0.
    pub reserved: u32,
    /// Bytes of the frame. The matrix takes this much memory, plus 8 bytes for every 3840 rows.
    pub frame_bytes: u64,
    /// Bytes of the frame that hold values.
    pub value_bytes: u64,
    /// Elements whose columns take no bytes, because their distance from the diagonal is stored
    /// once for 32 rows.
    pub by_distance: u64,
    /// Elements in blocks, with one column code per block.
    pub blocked: u64,
    /// Elements with column codes of 1 or 2 bytes.
    pub short_codes: u64,
    /// Elements whose columns are stored verbatim in 4 or 8 bytes, because no shorter code was
    /// found.
    pub plain: u64,
    /// Elements of rows that are much longer than the other rows. They are included in the counts
    /// above.
    pub long_rows: u64,
}
