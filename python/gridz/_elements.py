"""Elements and parts of arrays as their hosts (Zarr, netCDF, dask) name them, and whether a codec
supports them."""

from __future__ import annotations

import numpy as np

from gridz._codecs import Codec
from gridz._codecs import codec as codec_of
from gridz.arrays import bound_of_elements, number_dtype
from gridz.errors import UnsupportedJob


def codec_of_chunks(codec, host: str) -> Codec:
    """The codec, or parsed from its text, for a host that compresses chunk by chunk. Raises
    `UnsupportedJob` for `rel=`."""
    parsed = codec_of(codec)
    if parsed.mode == "rel":
        raise UnsupportedJob(
            f"{parsed}: an array is compressed chunk by chunk, so its range must be known first; use "
            f"{host}(gridz.codec({str(parsed)!r}).bounded_for(array)), which measures it"
        )
    return parsed


def check_job(codec: Codec, dtype, rank: int) -> None:
    """Raises `UnsupportedJob` or `InvalidArgument`, with the library's text, for elements that the
    codec does not support.

    Dates and bool are numbers for lossless codecs only: an error bound has no meaning for NaT or
    truth values.
    """
    dtype = number_dtype(dtype) if codec.is_lossless else np.dtype(dtype)
    bound_of_elements(dtype, (1,) * rank, codec)


def box_and_rest(selection, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple]:
    """The smallest box around a selection, and the index that extracts the selection from the box.

    Along each axis a selection has an integer, a slice, or an array of integers or bool; the box moves its start to 0.
    """
    selection = selection if isinstance(selection, tuple) else (selection,)
    if any(index is Ellipsis for index in selection):
        i = next(i for i, index in enumerate(selection) if index is Ellipsis)
        whole = [slice(None)] * (len(shape) - len(selection) + 1)
        selection = (*selection[:i], *whole, *selection[i + 1 :])
    box, rest = [], []
    for index, extent in zip((*selection, *[slice(None)] * (len(shape) - len(selection))), shape):
        if isinstance(index, slice):
            numbers = range(extent)[index]
        else:
            numbers = np.asarray(index)
            numbers = np.flatnonzero(numbers) if numbers.dtype == bool else numbers + extent * (numbers < 0)
        if not np.size(numbers):
            first, stop = 0, 0
        else:
            first, stop = int(np.min(numbers)), int(np.max(numbers)) + 1
        box.append(slice(first, stop))
        rest.append(slice(None, None, numbers.step) if isinstance(index, slice) else numbers - first)
    return tuple(box), tuple(rest)
