"""The HDF5 filter in every libhdf5 of this process.

h5py, netCDF4 and PyTables each include their own libhdf5, which reads `HDF5_PLUGIN_PATH` only when
it starts. `register` calls `H5PLprepend` in each of them instead. `import gridz` does this for the
packages that are already imported and, by an import hook, for those that are imported later. No
environment variable is read or set."""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.util
import os
import pathlib
import re
import sys

from gridz._native import LIBRARY
from gridz._codecs import CLASSES, FILTER_ID, Codec

PLUGIN_PATH = str(LIBRARY.parent)
"""The folder with the plugin, for `HDF5_PLUGIN_PATH` of other programs. It contains nothing
else."""

HOSTS = ("h5py", "netCDF4", "tables")
"""Packages that include a libhdf5; if they are imported after gridz, they get the plugin too."""

FILTERS = {"gridz": FILTER_ID}
"""The id of the filter by its name, as in hdf5plugin. All codecs share this one filter."""


def register() -> list[str]:
    """Adds the plugin folder to every libhdf5 that this process has loaded, and returns the files
    of these libraries.

    `import gridz` does so for the packages that it knows (`HOSTS`), now and later. Call it yourself
    after importing any other package that includes a libhdf5. A library that already has the folder
    is not changed. Libraries with plugins switched off (`HDF5_PLUGIN_PRELOAD=::`) are not in the
    list.
    """
    h5py = sys.modules.get("h5py")
    if hasattr(h5py, "filters"):
        h5py.filters.FilterRefBase.register(Codec)  # h5py recognizes `compression=gridz.Lorenzo()` by isinstance
    return [path for path, library in _loaded() if _prepend(library)]


def _loaded() -> list[tuple[str, ctypes.CDLL]]:
    """The libraries of the process that have `H5PLprepend`, each once."""
    found = {}
    for path in _mapped():
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
            address = ctypes.cast(library.H5PLprepend, ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
        # Modules linked with libhdf5 resolve to the same function; prefer the file that is named
        # libhdf5.
        if address not in found or re.match(r"libhdf5(_serial|_openmpi|_mpich)?[-.]", pathlib.Path(path).name):
            found[address] = (path, library)
    return list(found.values())


def _mapped() -> list[str]:
    """The executable files mapped into this process, from /proc/self/maps."""
    try:
        lines = pathlib.Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = (line.split(maxsplit=5) for line in lines)
    return sorted({line[5] for line in fields if len(line) == 6 and "x" in line[1] and line[5].startswith("/")})


def _prepend(library: ctypes.CDLL) -> bool:
    """Ensures that the plugin folder is in this libhdf5's search path; returns True if it is.

    It becomes the first folder: HDF5 1.12 stops at the first folder that does not exist, and its
    default folder often does not.
    """
    folder = os.fsencode(PLUGIN_PATH)
    n, name = ctypes.c_uint(), ctypes.create_string_buffer(len(folder) + 2)
    library.H5PLget.restype = ctypes.c_ssize_t
    if library.H5PLsize(ctypes.byref(n)) < 0:
        return False
    for i in range(n.value):
        length = library.H5PLget(ctypes.c_uint(i), name, ctypes.c_size_t(len(name)))
        if length == len(folder) and name.value == folder:
            return True
    state = ctypes.c_uint()
    is_on = library.H5PLget_loading_state(ctypes.byref(state)) >= 0 and state.value != 0
    return is_on and library.H5PLprepend(folder) >= 0


class _RegisterLater(importlib.abc.MetaPathFinder):
    """Calls `register` when one of `HOSTS` has been imported."""

    def __init__(self):
        self._looking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in HOSTS or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                register()

            spec.loader.exec_module = exec_module
        return spec


def register_now_and_later() -> None:
    """Run by `import gridz`."""
    if not any(isinstance(finder, _RegisterLater) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterLater())
    register()


# ---- the interface of hdf5plugin ---------------------------------------------------------------


def get_filters(filters: int | str | tuple[int | str, ...] = ()) -> tuple[type[Codec], ...]:
    """The classes of the named codecs, or of all. The filter's number or name, and "registered",
    also mean all."""
    found = []
    for given in (filters,) if isinstance(filters, (int, str)) else filters or (FILTER_ID,):
        if given not in CLASSES and given not in (FILTER_ID, *FILTERS, "registered"):
            raise ValueError(f"{given!r} is not a codec of gridz; the codecs are {', '.join(CLASSES)}")
        found += [CLASSES[given]] if given in CLASSES else CLASSES.values()
    return tuple(dict.fromkeys(found))


def from_filter_options(filter_id: int | str, filter_options) -> Codec:
    """The codec described by cd_values of a dataset, for `filter_id` 34013 or "gridz"."""
    if filter_id not in (FILTER_ID, *FILTERS):
        raise ValueError(f"filter {filter_id!r} is not gridz; the filter of gridz is {FILTER_ID}")
    return Codec.from_filter_options(filter_options)


def stored_codec(dataset) -> Codec | None:
    """The codec of an `h5py.Dataset`, or None if it is not compressed by gridz."""
    from gridz._pipeline import pipeline_of

    return next((Codec.from_filter_options(v) for number, _, v in pipeline_of(dataset.id) if number == FILTER_ID), None)
