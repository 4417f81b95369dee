"""The HDF5 filter in every libhdf5 of this process.

h5py, netCDF4 and PyTables each bring a libhdf5 of their own, which reads `HDF5_PLUGIN_PATH` when it starts: a variable that
is set later comes too late. `register` calls the function `H5PLprepend` of each one instead, and `import gridz` has it done
for those that are there and, by a hook of Python's import, for those that come later. No variable is read or set.
"""

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
"""The folder with the plugin, for `HDF5_PLUGIN_PATH` of other programs. It holds nothing else."""

HOSTS = ("h5py", "netCDF4", "tables")
"""Packages that bring a libhdf5; when they are imported after gridz, they get the plugin too."""

FILTERS = {"gridz": FILTER_ID}
"""The number of the filter by its name, as in hdf5plugin. All codecs are this one filter."""


def register() -> list[str]:
    """Tells every libhdf5 that this process has loaded where the plugin is, and returns their files.

    `import gridz` does so for the packages that it knows (`HOSTS`), now and later. Call it yourself after importing another
    one that brings a libhdf5. A library that has the folder already is left as it is; those with plugins switched off
    (`HDF5_PLUGIN_PRELOAD=::`) are not in the list.
    """
    h5py = sys.modules.get("h5py")
    if hasattr(h5py, "filters"):
        h5py.filters.FilterRefBase.register(Codec)  # `compression=gridz.Lorenzo()` is told by isinstance
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
        # Modules that are linked with libhdf5 find the same function; the library itself is named after it.
        if address not in found or re.match(r"libhdf5(_serial|_openmpi|_mpich)?[-.]", pathlib.Path(path).name):
            found[address] = (path, library)
    return list(found.values())


def _mapped() -> list[str]:
    """The files with code in this process's memory, as Linux tells them."""
    try:
        lines = pathlib.Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    fields = (line.split(maxsplit=5) for line in lines)
    return sorted({line[5] for line in fields if len(line) == 6 and "x" in line[1] and line[5].startswith("/")})


def _prepend(library: ctypes.CDLL) -> bool:
    """Makes sure that our folder is one of this libhdf5's; whether it is.

    It becomes the first one: HDF5 1.12 gives up at the first folder that is not there, which its default often is.
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
    """What `import gridz` does."""
    if not any(isinstance(finder, _RegisterLater) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterLater())
    register()


# ---- as hdf5plugin has them ---------------------------------------------------------------------


def get_filters(filters: int | str | tuple[int | str, ...] = ()) -> tuple[type[Codec], ...]:
    """The classes of the codecs: of those named, or all. The filter's number or name, or "registered", are all too."""
    found = []
    for given in (filters,) if isinstance(filters, (int, str)) else filters or (FILTER_ID,):
        if given not in CLASSES and given not in (FILTER_ID, *FILTERS, "registered"):
            raise ValueError(f"{given!r} is no codec of gridz; there are {', '.join(CLASSES)}")
        found += [CLASSES[given]] if given in CLASSES else CLASSES.values()
    return tuple(dict.fromkeys(found))


def from_filter_options(filter_id: int | str, filter_options) -> Codec:
    """The codec in cd_values of a dataset, for `filter_id` 34013 or "gridz"."""
    if filter_id not in (FILTER_ID, *FILTERS):
        raise ValueError(f"filter {filter_id!r} is not gridz, which is {FILTER_ID}")
    return Codec.from_filter_options(filter_options)


def stored_codec(dataset) -> Codec | None:
    """The codec of an `h5py.Dataset`, or None if it is not compressed by gridz."""
    from gridz._pipeline import pipeline_of

    return next((Codec.from_filter_options(v) for number, _, v in pipeline_of(dataset.id) if number == FILTER_ID), None)
