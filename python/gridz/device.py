"""Location of an array's bytes: host memory, or memory of an NVIDIA GPU.

`memory_of` views an array without a copy where possible. For GPU memory, it synchronizes the stream
that the array names, so that the array's contents are complete when the library reads them.
"""

from __future__ import annotations

import ctypes

import numpy as np

from gridz._native import ffi
from gridz.errors import DeviceError, InvalidArgument


class Memory:
    """The bytes of an array in C order. `pointer` is valid while this object lives; it holds the
    array."""

    def __init__(self, owner, address: int, dtype: np.dtype, shape: tuple[int, ...], on_gpu: bool):
        self.array, self.dtype, self.shape, self.on_gpu = owner, dtype, shape, on_gpu
        self.n_bytes = int(np.prod(shape, dtype=np.uint64)) * dtype.itemsize
        self.pointer = ffi.cast("void *", address)


def memory_of(array, writable: bool = False) -> Memory:
    """The memory of an array or buffer. A non-contiguous array is copied, or refused if it is to be
    written."""
    if not isinstance(array, np.ndarray):
        if hasattr(array, "__cuda_array_interface__"):
            return _on_gpu(array)
        given, array = array, _on_host(array)
        if writable and not np.may_share_memory(array, _on_host(given)):
            what = type(given).__name__
            raise InvalidArgument(f"NumPy can only copy this {what}, so the result would be lost; give np.empty(shape, dtype)")
    if writable and not (array.flags.c_contiguous and array.flags.writeable):
        raise InvalidArgument("the destination must be contiguous, in C order, and writable; give np.empty(shape, dtype)")
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(
            "a masked array is not supported here, because its mask would be lost; give array.filled(…), or array.data"
        )
    contiguous = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    return Memory(contiguous, contiguous.ctypes.data, contiguous.dtype, contiguous.shape, False)


def _on_host(array) -> np.ndarray:
    """NumPy's view of any other object."""
    if isinstance(array, np.generic):  # a date exports a buffer of bytes
        return np.asarray(array)
    try:
        return np.asarray(memoryview(array))
    except (TypeError, ValueError):  # no buffer, or elements without a buffer format, such as dates
        pass
    if hasattr(array, "__array_interface__") or hasattr(array, "__array__") or not hasattr(array, "__dlpack__"):
        try:
            found = np.asanyarray(array)
        except (TypeError, ValueError) as error:  # such as torch's bfloat16, which NumPy lacks
            raise InvalidArgument(f"NumPy cannot view this {type(array).__name__}: {error}") from error
        if found.dtype.hasobject:
            raise InvalidArgument(f"{type(array).__name__} is not an array of numbers; convert it with numpy.asarray")
        return found
    if array.__dlpack_device__()[0] not in (1, 3):  # CPU memory and pinned memory
        raise InvalidArgument(
            f"{type(array).__name__} is in GPU memory and has no __cuda_array_interface__; "
            f"give cupy.from_dlpack(array)"
        )
    return np.from_dlpack(array)


def _on_gpu(array) -> Memory:
    """GPU memory by the CUDA array interface, version 2 or 3."""
    interface = array.__cuda_array_interface__
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    if interface.get("mask") is not None:
        raise InvalidArgument("arrays with a mask are not supported; fill the masked elements")
    strides = interface.get("strides")
    if strides is not None and not _is_contiguous(shape, strides, dtype.itemsize):
        raise InvalidArgument("an array on a GPU must be contiguous, in C order; give cupy.ascontiguousarray(array)")
    if interface.get("stream") not in (None, 0):
        _wait(interface["stream"])
    return Memory(array, interface["data"][0] or 0, dtype, shape, True)


def _is_contiguous(shape, strides, itemsize: int) -> bool:
    """True if the elements are contiguous in C order; axes of extent 1 may have any stride."""
    step = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != step:
            return 0 in shape
        step *= extent
    return True


def _wait(stream: int) -> None:
    """Synchronizes a stream: 1 is the legacy default stream, 2 the per-thread default stream."""
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuStreamSynchronize(ctypes.c_void_p(stream))
    if status != 0:
        raise DeviceError(f"waiting for the array's stream failed: CUDA error {status}")
