"""gridz in numcodecs, for Zarr format 2: `zarr.create_array(…, zarr_format=2, compressors=Gridz("szp,abs=1e-3"), filters=None)`.

A chunk becomes one frame. numcodecs finds the class by an entry point, so files are read without importing gridz.
"""

from __future__ import annotations

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray, ndarray_copy

from gridz import codec as codec_of
from gridz import compress, decompress
from gridz.arrays import as_numbers


class Gridz(Codec):
    """The codec, by its text form or as a `gridz.Codec`; None is the default lossless one."""

    codec_id = "gridz"

    def __init__(self, codec=None):
        self.codec = str(codec_of(codec))

    def encode(self, buf) -> bytes:
        """Compresses a chunk. One in Fortran's order is taken as its transpose, which has the same bytes in C order."""
        array = as_numbers(ensure_ndarray(buf))
        return compress(array.T if array.flags.f_contiguous else array, self.codec)

    def decode(self, buf, out=None):
        """Decompresses a chunk, to `out` if that is given."""
        frame = ensure_contiguous_ndarray(buf).view("u1")
        return ndarray_copy(np.ascontiguousarray(decompress(frame)), out)
