"""Filters of datasets: their names, and the ones that are missing on this machine."""

from __future__ import annotations

import ctypes

from h5py import h5d, h5z

from gridz._chunks import chunks_of
from gridz._codecs import FILTER_ID
from gridz._libhdf5 import call, id_of, lock, numbers_of

H5Z_ZFP = 32013
"""A filter whose chunks the bulk layer reads itself."""

NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "LZF",
    32001: "Blosc", 32004: "LZ4", 32008: "Bitshuffle", 32013: "ZFP", 32015: "Zstandard", 32017: "SZ",
    32018: "FCIDECOMP", 32022: "Granular BitRound", 32023: "SZ3", 32026: "Blosc2", 32028: "SPERR",
    FILTER_ID: "gridz",
}  # fmt: skip


def filters_of(dataset: h5d.DatasetID) -> list[int]:
    """The numbers of a dataset's filters, in the order in which they encode."""
    return [number for number, *_ in pipeline_of(dataset)]


def pipeline_of(dataset: h5d.DatasetID) -> list[tuple[int, int, tuple]]:
    """Number, flags and cd_values of each filter. Old versions of h5py (such as 3.8) read only 16
    values."""
    create, found = dataset.get_create_plist(), []
    for i in range(create.get_nfilters()):
        flags, n, config = ctypes.c_uint(), ctypes.c_size_t(MOST_VALUES), ctypes.c_uint()
        values = (ctypes.c_uint * MOST_VALUES)()
        arguments = ctypes.byref(flags), ctypes.byref(n), values, ctypes.c_size_t(0), None, ctypes.byref(config)
        with lock:
            number = call("H5Pget_filter2", id_of(create), ctypes.c_uint(i), *arguments)
        found.append((number, flags.value, tuple(values[: n.value])))
    return found


MOST_VALUES = 256
"""HDF5 accepts at most this number of cd_values."""


def missing_filters(dataset: h5d.DatasetID) -> str:
    """The filters that are needed to read a dataset and are not available, and the remedy; "" if
    there are none."""
    numbers = filters_of(dataset)
    if numbers == [H5Z_ZFP] and numbers_of(dataset.get_type()) is not None:
        return ""
    # Chunks may have been stored without a filter, as recorded in their masks.
    skipped = [chunk.filter_mask for chunk in chunks_of(dataset)]
    needed = [n for i, n in enumerate(numbers) if not all(mask >> i & 1 for mask in skipped)]
    missing = [f"{NAMES.get(n, 'filter')} ({n})" for n in needed if not h5z.filter_avail(n)]
    if not missing:
        return ""
    return (
        f"needs {' and '.join(missing)}, which is not available here; install the plugin or name its folder in "
        f"HDF5_PLUGIN_PATH"
    )
