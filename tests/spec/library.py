"""The library's own encoder and decoder, for tests that compare: target/release/libgridz.so, or GRIDZ_LIBRARY."""

import ctypes
import functools
import os
import pathlib

import pytest

from decode import TYPES

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("GRIDZ_LIBRARY") or ROOT / "target" / "release" / "libgridz.so")
NAMES = [name for name, *_ in TYPES[1:]]
"""The types of numbers, in the order of their ids."""
CORRUPT, TRUNCATED, UNSUPPORTED_FORMAT = 200, 201, 202


def share(n):
    """A quarter of n random cases; all of them with GRIDZ_ALL_CASES=1, as for releases."""
    return n if os.environ.get("GRIDZ_ALL_CASES") else -(-n // 4)


class Array(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_uint32),
        ("byte_order", ctypes.c_uint32),
        ("element_size", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("extents", ctypes.POINTER(ctypes.c_uint64)),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("context", ctypes.c_void_p),
        ("request", ctypes.c_char_p),
        ("flags", ctypes.c_uint64),
        ("fill_value", ctypes.c_void_p),
        ("n_fill_values", ctypes.c_size_t),
        ("valid_min", ctypes.c_void_p),
        ("valid_max", ctypes.c_void_p),
    ]


class PartInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("rank", ctypes.c_uint32),
        ("level", ctypes.c_uint32),
        ("extents", ctypes.c_uint64 * 32),
        ("array_bytes", ctypes.c_uint64),
        ("frame_bytes", ctypes.c_uint64),
        ("n_levels", ctypes.c_uint32),
        ("layers", ctypes.c_uint32),
        ("n_layers", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("value", ctypes.c_double),
        ("bound", ctypes.c_double),
    ]


BY_LEVEL, BY_LAYERS = 0, 1


@functools.cache
def library():
    if not LIBRARY.exists():
        pytest.skip(f"no {LIBRARY.name}; run make build")
    library = ctypes.CDLL(str(LIBRARY))
    library.gridz_last_error.restype = ctypes.c_char_p
    return library


def compress(request, dtype, extents, data, fill=b""):
    """The frame for a request in text form."""
    n_extents = len(extents)
    array = Array(ctypes.sizeof(Array), NAMES.index(dtype) + 1, 0, 0, n_extents, (ctypes.c_uint64 * n_extents)(*extents))
    fill = ctypes.cast(ctypes.create_string_buffer(fill, len(fill)), ctypes.c_void_p) if fill else None
    options = Options(ctypes.sizeof(Options), None, request.encode(), 0, fill)
    n = ctypes.c_size_t()

    def call(name, *arguments):
        status = getattr(library(), name)(ctypes.byref(array), *arguments)
        assert status == 0, library().gridz_last_error()

    call("gridz_compress_bound", ctypes.byref(options), ctypes.byref(n))
    frame = ctypes.create_string_buffer(n.value)
    call("gridz_compress", data, ctypes.c_size_t(len(data)), frame, n, ctypes.byref(n), ctypes.byref(options))
    return frame.raw[: n.value]


def decompress(frame, n_bytes):
    """0 and the array, or an error and its message."""
    array, n = ctypes.create_string_buffer(max(n_bytes, 1)), ctypes.c_size_t()
    capacity = ctypes.c_size_t(n_bytes)
    status = library().gridz_decompress(frame, ctypes.c_size_t(len(frame)), array, capacity, ctypes.byref(n), None)
    return status, array.raw[: n.value] if status == 0 else library().gridz_last_error().decode()


def decompress_part(frame, detail, value, n_bytes):
    """Decompresses a part of a frame; also returns its info."""
    info, array = PartInfo(ctypes.sizeof(PartInfo)), ctypes.create_string_buffer(max(n_bytes, 1))
    n_frame, capacity, value = ctypes.c_size_t(len(frame)), ctypes.c_size_t(n_bytes), ctypes.c_double(value)
    call = library().gridz_decompress_progressive
    status = call(frame, n_frame, detail, value, array, capacity, ctypes.byref(info), None)
    assert status == 0, library().gridz_last_error()
    return array.raw[: info.array_bytes], info


class CciInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *[(name, ctypes.c_uint64) for name in ("n_rows", "n_cols", "nnz")],
        *[(name, ctypes.c_uint32) for name in ("dtype", "values", "block", "reserved")],
        *[(name, ctypes.c_uint64) for name in ("frame_bytes", "value_bytes", "by_distance", "blocked")],
        *[(name, ctypes.c_uint64) for name in ("short_codes", "plain", "long_rows")],
    ]


I64 = 8
MOST_COLUMNS = 1 << 20


def read_matrix(frame, vector):
    """0 and the contents of a sparse matrix frame: starts, columns, values, and the product with
    `vector(columns, dtype)`, as bytes; or an error and its message. No product for more than 2^20
    columns, and no contents for more than 2^63."""
    cci, info = ctypes.c_void_p(), CciInfo(ctypes.sizeof(CciInfo))
    status = library().gridz_cci_open(frame, ctypes.c_size_t(len(frame)), None, ctypes.byref(cci))
    if status != 0:
        return status, library().gridz_last_error().decode()
    try:
        assert library().gridz_cci_inspect(cci, ctypes.byref(info)) == 0
        if info.n_cols > 1 << 63:
            return 0, None
        size = 4 if NAMES[info.dtype - 1] == "float32" else 8
        n_rows, nnz = ctypes.c_uint64(info.n_rows), ctypes.c_uint64(info.nnz)
        n_bytes = 8 * info.n_rows + 8, 8 * info.nnz, size * info.nnz
        starts, columns, values = (ctypes.create_string_buffer(n + 1) for n in n_bytes)
        decoded = library().gridz_cci_decode(cci, ctypes.c_uint64(0), n_rows, I64, starts, columns, values, nnz, None)
        assert decoded == 0, library().gridz_last_error()
        rows = [starts.raw[:-1], columns.raw[:-1], values.raw[:-1]]
        if info.n_cols > MOST_COLUMNS:
            return 0, [*rows, None]
        x = vector(info.n_cols, f"<f{size}").tobytes()
        y_bytes = size * info.n_rows
        y = ctypes.create_string_buffer(y_bytes + 1)
        one, x_bytes, y_bytes = map(ctypes.c_size_t, (1, len(x), y_bytes))
        assert library().gridz_cci_multiply(cci, 0, 0, one, x, x_bytes, y, y_bytes, None) == 0, library().gridz_last_error()
        return 0, [*rows, y.raw[:-1]]
    finally:
        library().gridz_cci_destroy(cci)
