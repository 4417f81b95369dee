"""The codec `gridz` of numcodecs, for Zarr v2 and for chunks of HDF5 files that are read as Zarr.

    import gridz.numcodecs, zarr
    zarr.create_array("t.zarr", data=t, zarr_format=2, compressors=gridz.numcodecs.Gridz("lorenzo,level=dense"))

Arrays are read without importing gridz, since numcodecs finds the codec by its name. A chunk is one frame of gridz,
which says its type and shape; those that the HDF5 filter wrote are the same, so that references to them need only
`{"id": "gridz"}` as their compressor, also where the file says that shuffle ran before.
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
    """Compresses arrays, whose shape and type it needs, so it is the first codec, or the only one.

    `codec` is a `gridz.Codec` or its text form; None is the default lossless one. Zarr v2 does not pass the
    fill value to codecs: name it in a lossy codec, `szp,abs=1e-3,fill=-999`. Raises `gridz.UnsupportedJob` for
    `rel=`.
    """

    codec_id = "gridz"

    def __init__(self, codec: gridz.Codec | str | None = None):
        self.codec = str(codec_of_chunks(codec, "Gridz"))

    def encode(self, buf) -> bytes:
        """The frame of an array, or of any buffer, of one axis and more.

        As for every codec of numcodecs, an array in order "F" is encoded as it is in memory, so `decode` returns its
        transpose. Raises `gridz.UnsupportedJob` for elements that the codec does not take.
        """
        refuse_mask(buf, "the chunk")
        array = ensure_ndarray(buf)
        check_job(gridz.parse(self.codec), array.dtype, array.ndim)
        array = as_numbers(array)
        # Zarr hands over chunks in order "F" as they lie in memory, and wants them back so.
        is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return gridz.compress(array.T if is_fortran else array, self.codec)

    def decode(self, buf, out=None):
        """The array of a frame; or its bytes in `out`, a contiguous buffer. Raises `gridz.Corrupt` for damage."""
        frame = ensure_contiguous_ndarray(buf)
        if out is None:
            return gridz.decompress(frame)
        gridz.decompress(frame, ensure_contiguous_ndarray(out).view(np.uint8))
        return out

    def get_config(self) -> dict:
        """What `from_config` takes."""
        return {"id": self.codec_id, "codec": self.codec}
