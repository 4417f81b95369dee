"""HDF5's C interface by ctypes, for any libhdf5 of the process.

The wheels' packages hide most of this interface. These tests check that the filter works with each
library, whichever other libraries are loaded.
"""

import ctypes
import importlib
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

from support import GRIDZ, wheel_library

WHEELS = {"h5py": "h5py.libs", "tables": "tables.libs", "netCDF4": "netcdf4.libs"}
SYSTEM = "libhdf5_serial.so.103"


class ErrorEntry(ctypes.Structure):
    """H5E_error2_t"""

    _fields_ = [
        ("cls", c_int64),
        ("major", c_int64),
        ("minor", c_int64),
        ("line", c_uint),
        ("func", c_char_p),
        ("file", c_char_p),
        ("desc", c_char_p),
    ]


WALKER = ctypes.CFUNCTYPE(c_int, c_uint, POINTER(ErrorEntry), c_void_p)
FUNCTIONS = {
    "H5open": [],
    "H5get_libversion": [POINTER(c_uint)] * 3,
    "H5Eset_auto2": [c_int64, c_void_p, c_void_p],
    "H5Ewalk2": [c_int64, c_int, WALKER, c_void_p],
    "H5Eget_num": [c_int64],
    "H5Fcreate": [c_char_p, c_uint, c_int64, c_int64],
    "H5Fopen": [c_char_p, c_uint, c_int64],
    "H5Fclose": [c_int64],
    "H5Pcreate": [c_int64],
    "H5Pset_chunk": [c_int64, c_int, POINTER(c_uint64)],
    "H5Pset_filter": [c_int64, c_int, c_uint, c_size_t, POINTER(c_uint)],
    "H5Pclose": [c_int64],
    "H5Screate_simple": [c_int, POINTER(c_uint64), POINTER(c_uint64)],
    "H5Sclose": [c_int64],
    "H5Dcreate2": [c_int64, c_char_p, *[c_int64] * 5],
    "H5Dopen2": [c_int64, c_char_p, c_int64],
    "H5Dwrite": [*[c_int64] * 5, c_void_p],
    "H5Dread": [*[c_int64] * 5, c_void_p],
    "H5Dget_storage_size": [c_int64],
    "H5Dclose": [c_int64],
}
LONG_RESULTS = {
    "H5Fcreate",
    "H5Fopen",
    "H5Pcreate",
    "H5Screate_simple",
    "H5Dcreate2",
    "H5Dopen2",
    "H5Eget_num",
    "H5Dget_storage_size",
}
TYPES = {
    "<f4": "H5T_IEEE_F32LE_g",
    ">f4": "H5T_IEEE_F32BE_g",
    "<f8": "H5T_IEEE_F64LE_g",
    ">f8": "H5T_IEEE_F64BE_g",
    "|i1": "H5T_STD_I8LE_g",
    "<u2": "H5T_STD_U16LE_g",
    ">i2": "H5T_STD_I16BE_g",
    "<i4": "H5T_STD_I32LE_g",
    ">u8": "H5T_STD_U64BE_g",
}
TRUNCATE, READ_ONLY = 2, 0


def words(kind, numbers):
    """A C array."""
    return (kind * len(numbers))(*numbers)


class Hdf5:
    """One libhdf5: `name` is a package of WHEELS or "system"."""

    def __init__(self, name):
        if name == "system":
            self.library = ctypes.CDLL(SYSTEM)
        else:
            self.library = wheel_library(importlib.import_module(name), WHEELS[name], "libhdf5-*")
        for function, arguments in FUNCTIONS.items():
            bound = getattr(self.library, function)
            bound.argtypes, bound.restype = arguments, c_int64 if function in LONG_RESULTS else c_int
        self.call("H5open")
        self.library.H5Eset_auto2(0, None, None)

    def call(self, function, *arguments):
        """Calls a function that returns a negative number on failure."""
        result = getattr(self.library, function)(*arguments)
        if result < 0:
            raise RuntimeError(f"{function}: {self.errors()}")
        return result

    def errors(self):
        """The texts of the library's error stack."""
        texts = []

        def walk(_n, entry, _data):
            texts.append(entry.contents.desc.decode())
            return 0

        self.library.H5Ewalk2(0, 0, WALKER(walk), None)
        return texts

    def version(self):
        parts = [c_uint() for _ in range(3)]
        self.call("H5get_libversion", *map(byref, parts))
        return tuple(part.value for part in parts)

    def constant(self, name):
        return c_int64.in_dll(self.library, name).value

    def write(self, path, data, chunks, values=(), flags=0):
        """Writes a file with one dataset `x` that uses the filter; returns its stored bytes."""
        file, dataset = self.create(path, data.dtype, data.shape, chunks, values, flags)
        try:
            kind = self.constant(TYPES[data.dtype.str])
            self.call("H5Dwrite", dataset, kind, 0, 0, 0, np.ascontiguousarray(data).ctypes.data)
            self.call("H5Dclose", dataset)
            dataset = self.call("H5Dopen2", file, b"x", 0)
            return self.call("H5Dget_storage_size", dataset)
        finally:
            self.library.H5Dclose(dataset)
            self.library.H5Fclose(file)

    def create(self, path, dtype, shape, chunks, values=(), flags=0):
        """Creates a file and its dataset `x`, with no chunk allocated yet."""
        file = self.call("H5Fcreate", str(path).encode(), TRUNCATE, 0, 0)
        plist = self.call("H5Pcreate", self.constant("H5P_CLS_DATASET_CREATE_ID_g"))
        space = self.call("H5Screate_simple", len(shape), words(c_uint64, shape), None)
        try:
            self.call("H5Pset_chunk", plist, len(chunks), words(c_uint64, chunks))
            self.call("H5Pset_filter", plist, GRIDZ, flags, len(values), words(c_uint, values))
            kind = self.constant(TYPES[np.dtype(dtype).str])
            return file, self.call("H5Dcreate2", file, b"x", kind, space, 0, plist, 0)
        except RuntimeError:
            self.library.H5Fclose(file)
            raise
        finally:
            self.library.H5Sclose(space)
            self.library.H5Pclose(plist)

    def read(self, path, dtype, shape):
        """Reads the dataset `x` of a file."""
        data = np.empty(shape, dtype)
        file = self.call("H5Fopen", str(path).encode(), READ_ONLY, 0)
        try:
            dataset = self.call("H5Dopen2", file, b"x", 0)
            try:
                self.call("H5Dread", dataset, self.constant(TYPES[data.dtype.str]), 0, 0, 0, data.ctypes.data)
            finally:
                self.library.H5Dclose(dataset)
        finally:
            self.library.H5Fclose(file)
        return data
