"""The library: `libgridz.so` of this package, through cffi.

`_abi.py` is generated from the C headers when the package is built, so structs and functions are
defined only once, in C. The same file is the HDF5 plugin; a process that uses both holds one copy.
cffi releases the GIL during every call.
"""

from __future__ import annotations

import pathlib

import numpy as np

from gridz._abi import ffi
from gridz.errors import BY_NAME, Error, UnsupportedJob

LIBRARY = pathlib.Path(__file__).resolve().parent / "plugin" / "libgridz.so"
"""The library. Its folder contains nothing else, since HDF5 opens every library in it."""

lib = ffi.dlopen(str(LIBRARY))

MODES = {
    name[len("GRIDZ_MODE_") :].lower(): getattr(lib, name) for name in dir(lib) if name.startswith("GRIDZ_MODE_")
}
"""The id of each mode, by its name in text form."""

_NUMBERS = {
    np.dtype(code): getattr(lib, f"GRIDZ_DTYPE_{name}")
    for code, name in [
        ("u1", "U8"), ("u2", "U16"), ("u4", "U32"), ("u8", "U64"), ("i1", "I8"), ("i2", "I16"), ("i4", "I32"),
        ("i8", "I64"), ("f2", "F16"), ("f4", "F32"), ("f8", "F64"), ("c8", "C64"), ("c16", "C128"),
    ]
}  # fmt: skip
DTYPES = {number: dtype for dtype, number in _NUMBERS.items()}
"""The NumPy types of the library's element types, in the byte order of this machine."""


def text(chars) -> str:
    """Converts a C string of the library."""
    return ffi.string(chars).decode()


def check(status: int) -> None:
    """Raises the exception for a status, with the library's text."""
    if status != lib.GRIDZ_OK:
        error = BY_NAME.get(text(lib.gridz_status_name(status)), Error)(text(lib.gridz_last_error()))
        error.status = status
        raise error


def struct(name: str, **fields):
    """A struct of gridz.h with its size and these fields set; all other fields are zero."""
    made = ffi.new(f"{name} *")
    made.struct_size = ffi.sizeof(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


class Owner:
    """A struct and the memory that its pointers refer to, with the same lifetime."""

    def __init__(self, made, *kept):
        self.pointer, self._kept = made, kept


def number_of(dtype: np.dtype) -> int:
    """The library's number for an element type; unknown types are opaque bytes."""
    return _NUMBERS.get(dtype.newbyteorder("="), lib.GRIDZ_DTYPE_OPAQUE)


def is_recorded(dtype: np.dtype) -> bool:
    """True if a frame records this type: numbers that the library supports, and opaque bytes
    without fields."""
    is_bytes = dtype.type is np.void and dtype.names is None and dtype.itemsize > 0
    return is_bytes or dtype.newbyteorder("=") in _NUMBERS


def is_big(dtype: np.dtype) -> bool:
    """True if the elements are big-endian."""
    return dtype.byteorder == ">" or dtype.byteorder == "=" and not np.little_endian


def array_of(dtype, shape) -> Owner:
    """`gridz_array` for elements of `dtype` in an array of `shape`, in C order; `.pointer` is the struct.

    Raises `UnsupportedJob` for elements that are references to Python objects.
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise UnsupportedJob(f"elements of type {dtype} are Python objects, not values; convert them to numbers or bytes")
    extents = ffi.new("uint64_t[]", [int(extent) for extent in shape] or [0])
    order = lib.GRIDZ_BYTE_ORDER_BIG if is_big(dtype) else lib.GRIDZ_BYTE_ORDER_LITTLE
    made = struct(
        "gridz_array",
        dtype=number_of(dtype),
        byte_order=order,
        element_size=dtype.itemsize,
        rank=len(shape),
        extents=extents,
    )
    return Owner(made, extents)


def context(threads: int | None):
    """A context with `threads` threads, or NULL, the threads of the process, for None. It is
    destroyed with its last user."""
    if threads is None:
        return ffi.NULL
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, or None for all threads of the process, not {threads}")
    options, made = struct("gridz_context_options", threads=threads), ffi.new("gridz_context **")
    check(lib.gridz_context_create(options, made))
    return ffi.gc(made[0], lib.gridz_context_destroy)
