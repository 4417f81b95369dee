"""gridz: compression of scientific arrays where they are stored and computed.

    import gridz, h5py
    with h5py.File("field.h5", "w") as f:
        f.create_dataset("t", data=t, chunks=(16, 256, 256), **gridz.Lorenzo())      # bit for bit
        f.create_dataset("p", data=p, chunks=(16, 256, 256), **gridz.Quant(abs=1e-3))  # within a bound
    frame = gridz.compress(t)
    t = gridz.decompress(frame)

Importing it registers the filter with every libhdf5 of the process: no environment variable is
needed, also for reading.
"""

from __future__ import annotations

import importlib

from gridz._native import lib, text
from gridz.arrays import (
    FrameInfo,
    PartInfo,
    bound_of,
    compress,
    decompress,
    decompress_progressive,
    decompress_region,
    inspect,
    inspect_blocks,
    inspect_parts,
    range_of,
)
from gridz._codecs import CLASSES, FILTER_ID, Codec, CodecInfo, codec, codecs, parse
from gridz.errors import (
    Cancelled,
    Corrupt,
    DeviceError,
    Error,
    HostError,
    InvalidArgument,
    MissingFilter,
    OutOfMemory,
    Truncated,
    UnsupportedFormat,
    UnsupportedJob,
)
from gridz.filters import FILTERS, PLUGIN_PATH, from_filter_options, get_filters, register, register_now_and_later

__version__ = text(lib.gridz_version())

globals().update({made.__name__: made for made in CLASSES.values()})

_LATER = {
    "cci": ("gridz.cci", None),
    "h5": ("gridz.h5", None),
    "Quality": ("gridz._quality", "Quality"),
    "quality": ("gridz._quality", "quality"),
    "plot": ("gridz._plot", "plot"),
    "plot_rate": ("gridz._plot", "plot_rate"),
    "repack": ("gridz._repack", "repack"),
    "xarray_encoding": ("gridz.xarray", "xarray_encoding"),
}
"""Names that are imported on first use, since they need more than NumPy: module and name."""

_FORMER = {"Szp": "Quant", "Mgard": "Multigrid"}
"""Names of classes before the first release, and the present ones."""

__all__ = [
    *(made.__name__ for made in CLASSES.values()),
    *_LATER,
    "FILTERS", "FILTER_ID", "PLUGIN_PATH", "Codec", "CodecInfo", "FrameInfo", "PartInfo", "bound_of", "codec", "codecs",
    "compress", "decompress", "decompress_progressive", "decompress_region", "from_filter_options", "get_filters", "inspect",
    "inspect_blocks", "inspect_parts", "parse", "range_of", "register", "Error", "Cancelled", "Corrupt", "DeviceError", "HostError", "InvalidArgument", "MissingFilter", "OutOfMemory",
    "Truncated", "UnsupportedFormat", "UnsupportedJob",
]  # fmt: skip


def __getattr__(name: str):
    if name in _FORMER:
        return globals()[_FORMER[name]]
    if name not in _LATER:
        raise AttributeError(f"module 'gridz' has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = importlib.import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


register_now_and_later()
