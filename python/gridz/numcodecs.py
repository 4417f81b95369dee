"""The codec `gridz` of numcodecs, for Zarr v2 and for chunks of HDF5 files that are read as Zarr.

    import gridz.numcodecs, zarr
    zarr.create_array("t.zarr", data=t, zarr_format=2, compressors=gridz.numcodecs.Gridz("lorenzo,level=dense"))

Arrays are read without importing gridz, since numcodecs finds the codec by its name. A chunk is one
frame of gridz, which records its type and shape. The HDF5 filter writes the same frames. So
references to chunks of HDF5 files need only `{"id": "gridz"}` as their compressor, even if the file
lists a shuffle before it.
"""

from __future__ import annotations

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray

import gridz
from gridz._elements import check_job, codec_of_chunks
from gridz._missing import refuse_mask
from gridz.arrays import as_numbers


class Gridz(Codec):
    """Compresses arrays. It needs their shape and type, so it must be the first codec, or the only
    one.

    `codec` is a `gridz.Codec` or its text form; None is the default lossless one. Zarr v2 does not pass the
    fill value to codecs: name it in a lossy codec, `quant,abs=1e-3,fill=-999`. Raises `gridz.UnsupportedJob` for
    `rel=`.
    """

    codec_id = "gridz"

    def __init__(self, codec: gridz.Codec | str | None = None):
        self.codec = str(codec_of_chunks(codec, "Gridz"))

    def encode(self, buf) -> bytes:
        """Encodes an array, or any buffer, with at least one axis, as a frame.

        As for every codec of numcodecs, an array in order "F" is encoded in memory order, so
        `decode` returns its transpose. Raises `gridz.UnsupportedJob` for elements that the codec
        does not support.
        """
        refuse_mask(buf, "the chunk")
        array = ensure_ndarray(buf)
        check_job(gridz.parse(self.codec), array.dtype, array.ndim)
        array = as_numbers(array)
        # Zarr passes chunks in order "F" in memory order, and expects them back in that order.
        is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return gridz.compress(array.T if is_fortran else array, self.codec)

    def decode(self, buf, out=None):
        """Decodes a frame to an array; or to its bytes in `out`, a contiguous buffer. Raises
        `gridz.Corrupt` for damage."""
        frame = ensure_contiguous_ndarray(buf)
        if out is None:
            return gridz.decompress(frame)
        gridz.decompress(frame, ensure_contiguous_ndarray(out).view(np.uint8))
        return out

    def get_config(self) -> dict:
        """The arguments of `from_config`."""
        return {"id": self.codec_id, "codec": self.codec}
