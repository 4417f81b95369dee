"""Elements of arrays as their hosts (Zarr, netCDF, numcodecs) name them, and what a codec does with them."""

from __future__ import annotations

import numpy as np

from gridz._codecs import Codec
from gridz.arrays import bound_of


def number_dtype(dtype) -> np.dtype:
    """The type of the numbers that elements consist of: dates and durations are int64, bool is uint8, others are their own."""
    dtype = np.dtype(dtype)
    if dtype.kind in "mM":
        return np.dtype("i8").newbyteorder(dtype.byteorder)
    return np.dtype("u1") if dtype.kind == "b" else dtype


def as_numbers(array: np.ndarray) -> np.ndarray:
    """The same memory as an array of numbers, where it is one of dates, durations or bool: the library knows only numbers."""
    return array.view(number_dtype(array.dtype))


def check_job(codec: Codec, dtype, rank: int) -> None:
    """Raises `UnsupportedJob` or `InvalidArgument`, in the library's words, for elements that the codec does not take."""
    bound_of(np.empty((1,) * rank, number_dtype(dtype)), codec)
