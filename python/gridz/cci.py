"""Sparse matrices that stay compressed in memory, with products that decode columns on the fly.

    import gridz.cci
    a = gridz.cci.compress(csr)              # a SciPy matrix or array, in rows or columns
    y = a @ x                                # also scipy.sparse.linalg.cg(a, b), a.T @ x, a.rmatvec(x)
    print(a.info)                            # bytes, and the codings of columns and values
    a.save("a.gridz"); a = gridz.cci.load("a.gridz")
    x = gridz.cci.read_h5("cells.h5ad")      # or any group of an HDF5 file that holds a matrix

Needs SciPy. Lossless: `tocsr` restores every column and value, bit for bit and in the same order.
"""

from __future__ import annotations

import pathlib

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import LinearOperator

from gridz._native import check, context, ffi, lib, struct
from gridz.errors import InvalidArgument, UnsupportedJob

VALUES = {
    name[len("GRIDZ_CCI_VALUES_") :].lower(): getattr(lib, name)
    for name in dir(lib)
    if name.startswith("GRIDZ_CCI_VALUES_")
}
"""How values may be stored: `best` (the default), `plain`, `constant`, `dictionary`, `blocks`."""

SEMIRINGS = {
    name[len("GRIDZ_CCI_SEMIRING_") :].lower(): getattr(lib, name)
    for name in dir(lib)
    if name.startswith("GRIDZ_CCI_SEMIRING_")
}
"""The semirings of products: `plus_times` (the default), `min_plus`, `max_times`, `or_and`."""

_CODECS = ("plain", "constant", "dictionary of 1 byte", "dictionary of 2 bytes", "blocks")


class Matrix(LinearOperator):
    """A compressed matrix, and a SciPy LinearOperator. Created by `compress`, `load`, `loads` and
    `read_h5`.

    Several threads may use it at the same time. Products do not depend on the number of threads or
    on the CPU.
    """

    def __init__(self, pointer, threads: int | None = None):
        self._pointer = ffi.gc(pointer, lib.gridz_cci_destroy)
        self._context = context(threads)
        info = struct("gridz_cci_info")
        check(lib.gridz_cci_inspect(self._pointer, info))
        fields = [name for name, _ in ffi.typeof("gridz_cci_info").fields if name not in ("struct_size", "reserved")]
        self.info = {name: getattr(info, name) for name in fields}
        self.info["values"] = _CODECS[info.values]
        self.info["dtype"] = "float32" if info.dtype == lib.GRIDZ_DTYPE_F32 else "float64"
        super().__init__(np.dtype(self.info["dtype"]), (info.n_rows, info.n_cols))

    @property
    def nnz(self) -> int:
        """Number of stored elements."""
        return self.info["nnz"]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it occupies."""
        return self.info["frame_bytes"]

    def multiply(self, x, semiring: str = "plus_times", transposed: bool = False) -> np.ndarray:
        """A x, or Aᵀ x, for a vector or an array of several, one in each column (up to 256), in a semiring.

        `x` is converted to the matrix's type. Raises `UnsupportedJob` for an `x` whose elements are not real numbers.
        """
        if semiring not in SEMIRINGS:
            raise InvalidArgument(f"semiring {semiring!r} is unknown; give one of {', '.join(SEMIRINGS)}")
        x = np.asarray(x)
        if x.dtype.kind not in "biuf":
            raise UnsupportedJob(f"x has elements of type {x.dtype}; give real numbers, such as x.real and then x.imag")
        x = np.ascontiguousarray(x, self.dtype)
        n_out, n_in = self.shape[::-1] if transposed else self.shape
        if x.ndim not in (1, 2) or x.shape[0] != n_in:
            raise InvalidArgument(f"x has shape {x.shape}; with this matrix it must have {n_in} elements or rows")
        y = np.empty((n_out, *x.shape[1:]), self.dtype)
        n_vectors = x.shape[1] if x.ndim == 2 else 1
        if n_vectors == 0:
            return y
        status = lib.gridz_cci_multiply(
            self._pointer, SEMIRINGS[semiring], transposed, n_vectors, ffi.cast("void *", x.ctypes.data), x.nbytes,
            ffi.cast("void *", y.ctypes.data), y.nbytes, self._context,
        )  # fmt: skip
        check(status)
        return y

    def _matvec(self, x):
        return self.multiply(x)

    def _rmatvec(self, x):
        return self.multiply(x, transposed=True)

    def _matmat(self, x):
        return self.multiply(x)

    def _rmatmat(self, x):
        return self.multiply(x, transposed=True)

    def rows(self, start: int, stop: int) -> scipy.sparse.csr_array:
        """Decodes rows `start` to `stop`."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise InvalidArgument(f"rows {start} to {stop} are not inside the matrix, which has {self.shape[0]} rows")
        n, counted = stop - start, ffi.new("uint64_t *")
        check(lib.gridz_cci_count(self._pointer, start, n, counted))
        nnz = counted[0]
        is_short = max(self.nnz, self.shape[1]) < 2**31
        index, number = (np.int32, lib.GRIDZ_DTYPE_I32) if is_short else (np.int64, lib.GRIDZ_DTYPE_I64)
        starts, columns, values = np.empty(n + 1, index), np.empty(nnz, index), np.empty(nnz, self.dtype)
        to = [ffi.cast("void *", array.ctypes.data) for array in (starts, columns, values)]
        check(lib.gridz_cci_decode(self._pointer, start, n, number, *to, nnz, self._context))
        return scipy.sparse.csr_array((values, columns, starts), shape=(n, self.shape[1]))

    def tocsr(self) -> scipy.sparse.csr_array:
        """Decodes the whole matrix."""
        return self.rows(0, self.shape[0])

    def tobytes(self) -> bytes:
        """The matrix as a frame, which `loads` reads on any machine."""
        frame, n_bytes = ffi.new("void const **"), ffi.new("size_t *")
        check(lib.gridz_cci_frame(self._pointer, frame, n_bytes))
        return bytes(ffi.buffer(frame[0], n_bytes[0]))

    def save(self, path) -> None:
        """Writes its frame to a file."""
        pathlib.Path(path).write_bytes(self.tobytes())

    def __reduce__(self):
        return loads, (self.tobytes(),)


def compress(matrix, values: str = "best", threads: int | None = None) -> Matrix:
    """Compresses a SciPy sparse matrix or array of float32 or float64; other real types become float64.

    Raises `UnsupportedJob` for values that float64 does not represent: complex numbers, integers beyond 2^53, long
    double.

    `values` is one of `VALUES`. CSR and CSC are used directly; SciPy converts other formats to CSR,
    or to CSC if there are more rows than columns and elements, and then sums duplicate elements.
    `threads` applies to the compression and to the products of the result.
    """
    if values not in VALUES:
        raise InvalidArgument(f"values={values!r} is unknown; give one of {', '.join(VALUES)}")
    if not scipy.sparse.issparse(matrix) or len(matrix.shape) != 2:
        raise InvalidArgument(f"{type(matrix).__name__} is not a sparse matrix; give scipy.sparse.csr_array(array)")
    if matrix.format not in ("csr", "csc"):
        matrix = _converted(matrix)
    return _create(matrix.indptr, matrix.indices, matrix.data, matrix.shape, matrix.format, values, threads)


def _converted(matrix):
    """Converts a matrix of another format to CSR or CSC. SciPy's conversions do not check indices,
    so this function does."""
    if matrix.format == "coo":
        for name, indices, n in zip(("row", "column"), matrix.coords, matrix.shape):
            if indices.shape != matrix.data.shape:
                raise InvalidArgument(f"the {name} indices have the shape {indices.shape}, but data has the shape {matrix.data.shape}")
            if len(indices) and not (0 <= indices.min() and indices.max() < n):
                worst = indices.min() if indices.min() < 0 else indices.max()
                raise InvalidArgument(f"{name} {worst} is outside a matrix of shape {matrix.shape}")
    elif matrix.format == "bsr":
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidArgument(f"the arrays of the bsr matrix do not fit together: {error}") from error
    # The row starts of CSR would take more memory than the elements.
    return matrix.tocsc() if matrix.shape[0] > max(matrix.shape[1], matrix.nnz) else matrix.tocsr()


def _create(starts, indices, data, shape, layout: str, values: str, threads: int | None) -> Matrix:
    """A matrix from three arrays."""
    if not (starts.ndim == indices.ndim == data.ndim == 1 and len(starts) and len(indices) == len(data)):
        raise InvalidArgument(
            f"indptr has the shape {starts.shape}, indices {indices.shape} and data {data.shape}; "
            f"they must be vectors, indices and data of one length"
        )
    if len(shape) != 2 or not all(0 <= n < 1 << 63 for n in shape):
        raise InvalidArgument(f"the shape is {shape}; it must be two numbers, rows and columns, from 0 to 2^63 - 1")
    # The library takes a pointer to the starts, and reads the number of them that the shape
    # implies.
    major, name = (shape[0], "rows") if layout == "csr" else (shape[1], "columns")
    if len(starts) != major + 1:
        raise InvalidArgument(
            f"indptr has {len(starts)} starts, but the {major} {name} of a {layout} matrix of shape {tuple(shape)} need {major + 1}"
        )
    if starts.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise InvalidArgument(f"indptr and indices must be integers, not {starts.dtype} and {indices.dtype}")
    index = np.int32 if starts.dtype == indices.dtype == np.int32 else np.int64
    starts, indices = np.ascontiguousarray(starts, index), np.ascontiguousarray(indices, index)
    data = _as_floats(data)
    pointers = [ffi.cast("void *", array.ctypes.data) for array in (starts, indices, data)]
    described = struct(
        "gridz_csr",
        n_rows=shape[0],
        n_cols=shape[1],
        nnz=len(indices),
        dtype=lib.GRIDZ_DTYPE_F32 if data.dtype == np.float32 else lib.GRIDZ_DTYPE_F64,
        index_dtype=lib.GRIDZ_DTYPE_I32 if index == np.int32 else lib.GRIDZ_DTYPE_I64,
        layout=lib.GRIDZ_CCI_ROWS if layout == "csr" else lib.GRIDZ_CCI_COLUMNS,
        starts=pointers[0],
        indices=pointers[1],
        values=pointers[2] if len(data) else ffi.NULL,
    )
    made = ffi.new("gridz_cci **")
    check(lib.gridz_cci_create(described, VALUES[values], context(threads), made))
    return Matrix(made[0], threads)


def _as_floats(data: np.ndarray) -> np.ndarray:
    """The values as float32 if they have that type, otherwise as float64. Raises `UnsupportedJob`
    if the conversion would change a value."""
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise UnsupportedJob(
            f"a compressed matrix holds float32 or float64, which cannot represent {data.dtype}; "
            f"compress matrix.real and matrix.imag for complex numbers, or round long double by matrix.astype(np.float64)"
        )
    if data.dtype.kind in "iu" and data.dtype.itemsize == 8 and data.size:
        worst = max(int(data.max()), int(data.min()), key=abs)
        if abs(worst) > 1 << 53:
            raise UnsupportedJob(
                f"the value {worst} of type {data.dtype} is beyond 2^53, up to which float64 represents every integer; "
                f"matrix.astype(np.float64) rounds it"
            )
    return np.ascontiguousarray(data, np.float32 if data.dtype.newbyteorder("=") == np.float32 else np.float64)


def loads(frame, threads: int | None = None) -> Matrix:
    """A matrix from its frame. Damaged or hostile bytes are an error."""
    made, view = ffi.new("gridz_cci **"), ffi.from_buffer(frame)
    check(lib.gridz_cci_open(view, len(view), context(threads), made))
    return Matrix(made[0], threads)


def load(path, threads: int | None = None) -> Matrix:
    """A matrix from a file that `Matrix.save` has written."""
    return loads(pathlib.Path(path).read_bytes(), threads)


def read_h5(file, group: str | None = None, values: str = "best", threads: int | None = None) -> Matrix:
    """Reads a matrix from a group of an HDF5 file with the datasets `data`, `indices` and `indptr`,
    and compresses it.

    `file` is a path or an open `h5py` file or group. `group` is `X` in AnnData files (.h5ad) and
    `matrix` in those of 10x Genomics; for these, it may be omitted. Needs h5py.
    """
    import h5py

    if not isinstance(file, h5py.Group):
        with h5py.File(file, "r") as opened:
            return read_h5(opened, group, values, threads)
    if group is None:
        found = [name for name in ("X", "matrix") if name in file]
        if not found and "indptr" not in file:
            raise InvalidArgument(f"{file.name} has no group X or matrix; give group=, one of {', '.join(file)}")
        group = found[0] if found else "."
    members = file[group]
    if not isinstance(members, h5py.Group) or any(name not in members for name in ("data", "indices", "indptr")):
        raise InvalidArgument(f"{group} is not a sparse matrix: it must be a group with data, indices and indptr")
    attributes = members.attrs
    shape = attributes.get("shape", attributes.get("h5sparse_shape"))
    if shape is None:
        if not isinstance(members.get("shape"), h5py.Dataset):
            raise InvalidArgument(f"{group} has no shape, neither as an attribute nor as a dataset")
        shape = members["shape"][()]
    numbers = np.asarray(shape)
    if numbers.dtype.kind not in "iu" or numbers.shape != (2,):
        raise InvalidArgument(f"the shape of {group} is {shape}; it must be two integers, rows and columns")
    kind = attributes.get("encoding-type", attributes.get("h5sparse_format", "csc_matrix"))
    kind = kind.decode(errors="replace") if isinstance(kind, bytes) else str(kind)
    layout = kind.removesuffix("_matrix")
    if layout not in ("csr", "csc"):
        raise InvalidArgument(f"{group} has the encoding {kind!r}; it must be csr_matrix or csc_matrix")
    arrays = []
    for name in ("indptr", "indices", "data"):
        dataset = members[name]
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1 or dataset.dtype.kind not in "biufc":
            described = f"a dataset of shape {dataset.shape} and type {dataset.dtype}" if isinstance(dataset, h5py.Dataset) else "a group"
            raise InvalidArgument(f"{name} of {group} is {described}; it must be a vector of numbers")
        arrays.append(dataset[()])
    return _create(*arrays, tuple(int(n) for n in numbers), layout, values, threads)
