"""Examines one host of the filter in a separate process: `gridz doctor` runs this text with `python
-c`.

Arguments: a probe and its arguments. The answer is a line of JSON at the end of stdout. gridz is
imported only if a probe is asked to, since `import gridz` is part of the test.
"""

import ctypes
import importlib
import json
import os
import re
import sys


def host(name, with_gridz, folder):
    """Examines a package that includes a libhdf5: which one, its plugin folders, and whether the
    filter works in it."""
    if with_gridz == "with":
        importlib.import_module("gridz")
    module = importlib.import_module(name)
    path, library = libhdf5_of(name)
    found = {
        "package": module.__version__,
        "libhdf5": path,
        "version": version(library),
        "plugin_path": plugin_path(library),
    }
    found["available"] = library.H5Zfilter_avail(ctypes.c_int(34013)) > 0
    if found["available"]:
        globals()["try_" + name](folder + "/sample.h5")
        found["works"] = True
    return found


def try_h5py(path):
    import h5py
    import numpy as np

    data = np.arange(4096, dtype="f4").reshape(64, 64)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=data, chunks=(32, 64), compression=34013)
    with h5py.File(path) as f:
        same((f["x"][...] == data).all())


def try_netCDF4(path):
    import netCDF4

    # Only reads: netCDF4 has no argument for third-party filters. H5Zfilter_avail reports whether
    # it could write.
    with netCDF4.Dataset(path) as f:
        same(f["x"][63, 63] == 4095)


def try_tables(path):
    import tables

    with tables.open_file(path) as f:
        same(f.root.x[63, 63] == 4095)


def same(is_same):
    if not is_same:
        raise ValueError("the data that was read differs from the data that was written")


def libhdf5_of(name):
    """The libhdf5 that a module is linked with: symbols that are looked up in its extension module
    resolve to that one."""
    part = {"h5py": "h5py.h5", "netCDF4": "netCDF4._netCDF4", "tables": "tables.utilsextension"}[name]
    library = ctypes.CDLL(importlib.import_module(part).__file__)

    class Info(ctypes.Structure):
        _fields_ = [
            ("path", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("symbol", ctypes.c_char_p),
            ("at", ctypes.c_void_p),
        ]

    info = Info()
    ctypes.CDLL(None).dladdr(ctypes.cast(library.H5open, ctypes.c_void_p), ctypes.byref(info))
    return os.path.normpath(info.path.decode()), library


def version(library):
    numbers = [ctypes.c_uint() for _ in range(3)]
    library.H5get_libversion(*map(ctypes.byref, numbers))
    return ".".join(str(number.value) for number in numbers)


def plugin_path(library):
    """The folders in which a libhdf5 looks for plugins."""
    n, name, folders = ctypes.c_uint(), ctypes.create_string_buffer(4096), []
    library.H5PLget.restype = ctypes.c_ssize_t
    library.H5PLsize(ctypes.byref(n))
    for i in range(n.value):
        library.H5PLget(ctypes.c_uint(i), name, ctypes.c_size_t(len(name)))
        folders.append(name.value.decode(errors="replace"))
    return folders


def libhdf5(path):
    """Examines a libhdf5 by its file: its version and its plugin folders."""
    library = ctypes.CDLL(path)
    library.H5open()
    return {"version": version(library), "plugin_path": plugin_path(library)}


def plugin(path):
    """Examines a file in a plugin folder: its filter, or why it cannot be loaded."""

    class Filter(ctypes.Structure):
        _fields_ = [
            ("version", ctypes.c_int),
            ("id", ctypes.c_int),
            ("encoder", ctypes.c_uint),
            ("decoder", ctypes.c_uint),
            ("name", ctypes.c_char_p),
        ]

    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return {"error": str(error)}
    if not hasattr(library, "H5PLget_plugin_info"):
        return {"error": "not an HDF5 plugin: it lacks the function H5PLget_plugin_info"}
    library.H5PLget_plugin_info.restype = ctypes.POINTER(Filter)
    if library.H5PLget_plugin_type() != 0:
        return {"error": "an HDF5 plugin, but not a filter"}
    info = library.H5PLget_plugin_info().contents
    found = {"filter": info.id, "name": (info.name or b"").decode(errors="replace")}
    if hasattr(library, "gridz_version"):
        library.gridz_version.restype = ctypes.c_char_p
        found["gridz"] = library.gridz_version().decode()
    return found


def gpu():
    """The number of GPUs that gridz can use, or the reason for 0."""
    from gridz._native import check, ffi, lib, struct

    n = 0
    while True:
        made = ffi.new("gridz_context **")
        try:
            check(lib.gridz_context_create(struct("gridz_context_options", device=n + 1), made))
        except Exception as error:
            return {"usable": n, "reason": "" if n else re.sub(r"\s+", " ", str(error))}
        lib.gridz_context_destroy(made[0])
        n += 1


if __name__ == "__main__":
    try:
        answer = globals()[sys.argv[1]](*sys.argv[2:])
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        answer = {"error": text, "missing": getattr(error, "name", None) if isinstance(error, ImportError) else None}
    print(json.dumps(answer))
