"""ctypes bindings of gridz_h5_write, gridz_h5_read, gridz_h5_read_progressive and so on, for any
libhdf5 of the process."""

import ctypes
import re
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import h5py
import numpy as np

from support import PLUGIN, ROOT, wheel_library

PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)
CANCELLED, INVALID_ARGUMENT, UNSUPPORTED_JOB, CORRUPT, HOST = 103, 100, 102, 200, 400
LEVEL, LAYERS, ERROR = 0, 1, 2
"""GRIDZ_DETAIL_*"""
NAMES = sorted(set(re.findall(r"GRIDZ_H5_\((H5\w+)\)", (ROOT / "include" / "gridz_hdf5.h").read_text())))
"""The functions of libhdf5 that gridz_hdf5.h lists."""


class Function(ctypes.Structure):
    """gridz_h5_function"""

    _fields_ = [("name", c_char_p), ("address", c_void_p)]


class Options(ctypes.Structure):
    """gridz_h5_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("strides", POINTER(c_int64)),
        ("progress", PROGRESS),
        ("progress_data", c_void_p),
        ("memory_limit", c_uint64),
        ("dxpl", c_int64),
        ("stream", c_void_p),
    ]


class PartInfo(ctypes.Structure):
    """gridz_h5_part_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_uint32),
        ("level", c_uint32),
        ("extents", c_uint64 * 32),
        ("array_bytes", c_uint64),
        ("n_chunks", c_uint64),
        ("stored_bytes", c_uint64),
        ("read_bytes", c_uint64),
        ("n_levels", c_uint32),
        ("layers", c_uint32),
        ("n_layers", c_uint32),
        ("reserved", c_uint32),
        ("bound", c_double),
        ("rms", c_double),
    ]

    @property
    def shape(self):
        return tuple(self.extents[: self.rank])

    def fields(self):
        """All fields as a tuple."""
        return tuple(getattr(self, name) for name, _ in self._fields_ if name != "extents") + self.shape


class ContextOptions(ctypes.Structure):
    """gridz_context_options"""

    _fields_ = [("struct_size", c_size_t), ("threads", ctypes.c_uint32), ("device", ctypes.c_uint32), ("limit", c_uint64)]


class Failed(Exception):
    """A failed call: its status and message."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


class Bulk:
    """The gridz functions with the function table of one libhdf5; by default, h5py's."""

    def __init__(self, hdf5=None):
        hdf5 = hdf5 or wheel_library(h5py, "h5py.libs", "libhdf5-*")
        self.hdf5, self.library = hdf5, ctypes.CDLL(str(PLUGIN))
        self.library.gridz_last_error.restype = c_char_p
        found = [(name, getattr(hdf5, name, None)) for name in NAMES]
        entries = [(name.encode(), ctypes.cast(function, c_void_p)) for name, function in found if function]
        self.functions = (Function * (len(entries) + 1))(*entries, (None, None))

    def context(self, threads):
        """A context with `threads` threads; it is never destroyed."""
        made = c_void_p()
        options = ContextOptions(ctypes.sizeof(ContextOptions), threads, 0, 0)
        self.check(self.library.gridz_context_create(byref(options), byref(made)))
        return made

    def words(self, request):
        """The cd_values of a request in text form."""
        values, n = (c_uint32 * 32)(), c_size_t()
        self.check(self.library.gridz_cd_values(request.encode(), values, c_size_t(32), byref(n)))
        return tuple(values[: n.value])

    def check(self, status):
        if status != 0:
            raise Failed(status, self.library.gridz_last_error().decode())

    def move(self, function, dataset, array, start, kind, progress, memory_limit, context, dxpl):
        """The arguments common to reading and writing."""
        strides = None
        if not array.flags.c_contiguous:
            strides = None if array.flags.c_contiguous else (c_int64 * max(array.ndim, 1))(*array.strides)
        callback = PROGRESS(lambda _, done, total: 0 if progress(done, total) is not False else 1) if progress else PROGRESS()
        options = Options(ctypes.sizeof(Options), context, strides, callback, None, memory_limit, dxpl)
        box = [None, None]
        if start is not None:
            box = [(c_uint64 * max(array.ndim, 1))(*numbers) for numbers in (start, array.shape)]
        self.check(
            function(
                self.functions,
                c_int64(dataset),
                c_int64(kind),
                *box,
                c_void_p(array.ctypes.data),
                byref(options),
            )
        )

    def write(self, dataset, array, start=None, progress=None, memory_limit=0, context=None, dxpl=0, kind=None):
        """Writes an array to an h5py dataset, at offset `start`."""
        if kind is None:
            kind = h5py.h5t.py_create(array.dtype)
        function = self.library.gridz_h5_write_by
        self.move(function, dataset.id.id, array, start, kind.id, progress, memory_limit, context, dxpl)

    def read(self, dataset, array, start=None, progress=None, memory_limit=0, context=None, dxpl=0, kind=None):
        """Reads a box of an h5py dataset at offset `start` into the whole array."""
        if kind is None:
            kind = h5py.h5t.py_create(array.dtype)
        function = self.library.gridz_h5_read_by
        self.move(function, dataset.id.id, array, start, kind.id, progress, memory_limit, context, dxpl)
        return array

    def copy(self, src, dst, progress=None, memory_limit=0, context=None, dxpl=0):
        """Copies an h5py dataset to another one."""
        callback = PROGRESS(lambda _, done, total: 0 if progress(done, total) is not False else 1) if progress else PROGRESS()
        options = Options(ctypes.sizeof(Options), context, None, callback, None, memory_limit, dxpl)
        self.check(
            self.library.gridz_h5_copy_by(self.functions, c_int64(src.id.id), c_int64(dst.id.id), byref(options))
        )

    def inspect_part(self, dataset, detail, value, box=None, progress=None, context=None):
        """Describes a progressive read without performing it. `box` is (start, count)."""
        info = PartInfo(ctypes.sizeof(PartInfo))
        callback = PROGRESS(lambda _, done, total: 0 if progress(done, total) is not False else 1) if progress else PROGRESS()
        options = Options(ctypes.sizeof(Options), context, None, callback)
        lists = [(c_uint64 * max(len(box[0]), 1))(*numbers) for numbers in box] if box else [None, None]
        identifier = c_int64(dataset.id.id if hasattr(dataset, "id") else dataset)
        function = self.library.gridz_h5_inspect_progressive_by
        self.check(function(self.functions, identifier, *lists, c_uint32(detail), c_double(value), byref(info), byref(options)))
        return info

    def read_part(self, dataset, detail, value, box=None, array=None, kind=0, progress=None, context=None, dxpl=0, memory_limit=0):
        """Reads a box progressively, into `array` or a new one; returns the array and the part's
        info."""
        info = PartInfo(ctypes.sizeof(PartInfo))
        if array is None:
            inspected = self.inspect_part(dataset, detail, value, box, context=context)
            array = np.full(inspected.shape, 0xA5, dataset.dtype)
        strides = None if array.flags.c_contiguous else (c_int64 * max(array.ndim, 1))(*array.strides)
        callback = PROGRESS(lambda _, done, total: 0 if progress(done, total) is not False else 1) if progress else PROGRESS()
        options = Options(ctypes.sizeof(Options), context, strides, callback, None, memory_limit, dxpl)
        lists = [(c_uint64 * max(len(box[0]), 1))(*numbers) for numbers in box] if box else [None, None]
        identifier = c_int64(dataset.id.id if hasattr(dataset, "id") else dataset)
        self.check(
            self.library.gridz_h5_read_progressive_by(
                self.functions, identifier, c_int64(kind), *lists, c_uint32(detail), c_double(value),
                c_void_p(array.ctypes.data), byref(info), byref(options),
            )
        )  # fmt: skip
        return array, info


def all_of(dataset, dtype=None):
    """An array with the dataset's shape, filled with a value that the dataset does not contain."""
    array = np.empty(dataset.shape, dtype or dataset.dtype)
    array.view("u1" if array.ndim else array.dtype).fill(0xA5 if array.ndim else 0)
    return array
