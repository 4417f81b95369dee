"""Whole datasets, many chunks at once: `write`, `read`, `copy`, and progressive reads:
`read_progressive`.

h5py moves one chunk at a time, on one thread. Here all threads compress or decompress the chunks of
an `h5py.Dataset`, while the calling thread writes or reads them with h5py's own libhdf5. The file
is byte for byte the same. HDF5 does everything that only it can do (other filters, type
conversions). dask arrays are written and read block by block.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import operator
import pathlib
from dataclasses import dataclass
from typing import Callable, Union

import numpy as np

from gridz._elements import box_and_rest
from gridz._h5_functions import NAMES
from gridz._missing import Missing, filled, of_attributes, of_codec, of_dataset, refuse_mask, user_fill
from gridz._names import shown, text_of
from gridz._native import check, context, ffi, lib, struct
from gridz.arrays import detail_of
from gridz.device import memory_of
from gridz.filters import stored_codec
from gridz.errors import Cancelled, InvalidArgument, UnsupportedJob

Progress = Union[bool, Callable[[int, int], object]]
"""True for a progress bar, or a function of the number of bytes done and their total."""


@dataclass(frozen=True)
class DatasetPart:
    """The result of a progressive read of a dataset."""

    shape: tuple[int, ...]
    level: int
    """The level of the grid: 0 for the dataset itself."""
    n_levels: int
    """The number of available levels above 0: along each axis, chunks must have a multiple of
    2^level elements, or the whole axis."""
    layers: int
    """The largest number of layers that are read of a chunk; 0 if none has layers."""
    n_layers: int
    """The largest number of layers of a chunk."""
    bound: float
    """No element's error is larger; NaN if a chunk guarantees no such bound."""
    rms: float
    """In no chunk is the root mean square of all errors larger; equals `bound` except in mode
    rms."""
    array_bytes: int
    n_chunks: int
    """The number of stored chunks; chunks that were never written do not count."""
    stored_bytes: int
    """Stored bytes of these chunks."""
    read_bytes: int
    """The part of the stored bytes that is read."""


def write(dset, array, start=None, *, progress: Progress = False, threads=None, memory_limit: int = 0) -> None:
    """Writes an array to a dataset, or with `start` (an index along each axis), to the box of the
    array's size that begins there.

    Masked elements of a masked array become the fill value of the dataset (HDF5's, `_FillValue` or
    `missing_value`). Raises `InvalidArgument` if the dataset has no fill value that its codec
    keeps, or if an element that is not masked has that value.

    `array` is any array that NumPy can view, with any strides; a contiguous array in GPU memory; or
    a dask array, whose blocks are computed and written one after another. `progress` is True for a
    progress bar, or a function of the number of bytes done and their total, which ends the call by
    returning False. `threads`: None for all. `memory_limit`: approximate limit for buffers in
    bytes; 0 for 1 GiB. After an error, the chunks before the failed one are written, and the
    dataset is valid.
    """
    with _Bar(progress, "write") as bar:
        if hasattr(array, "dask"):
            _check_shape(dset, array.shape, start)
            done = 0
            for place, block in _blocks(array):
                first = [a + b for a, b in zip(_box(dset, start, None)[0], place)]
                values = _without_overlap(_without_mask(dset, np.asanyarray(block.compute())))
                _move(lib.gridz_h5_write_by, dset, values, first, _Bar(False), threads, memory_limit)
                done += block.nbytes
                bar.update(done, array.nbytes)
            return
        if not hasattr(array, "__cuda_array_interface__"):
            array = _without_overlap(_without_mask(dset, np.asanyarray(array)))
        _move(lib.gridz_h5_write_by, dset, array, start, bar, threads, memory_limit)


def read(dset, out=None, start=None, count=None, *, progress: Progress = False, threads=None, memory_limit: int = 0):
    """Reads a dataset, or the box of `count` elements at offset `start`, into a new array or into
    `out`, and returns the array.

    `out` is a NumPy array of any strides, or a contiguous array in GPU memory. If its type differs
    from the dataset's, HDF5 converts. All other parameters are as for `write`.
    """
    if out is None:
        first, end = _box(dset, start, count)
        out = np.empty([b - a for a, b in zip(first, end)], dset.dtype)
    refuse_mask(out, "out")
    if count is not None and (*_integers(count, "count"), *_inner(dset).shape) != tuple(out.shape):
        raise InvalidArgument(f"out has the shape {tuple(out.shape)}, but count is {tuple(count)}; leave count out")
    with _Bar(progress, "read") as bar:
        _move(lib.gridz_h5_read_by, dset, out, start, bar, threads, memory_limit)
    return out


def read_progressive(
    dset, out=None, start=None, count=None, *, level: int | None = None, layers: int | None = None,
    error: float | None = None, progress: Progress = False, threads=None, memory_limit: int = 0,
):  # fmt: skip
    """Reads a coarser or less accurate version of a dataset of `multigrid`, or of a box of it; returns
    an array and a `DatasetPart`.

    Give exactly one of three parameters. `level`: reads the grid of every 2^level-th element along
    each axis, from the first layer. `layers`: reads that many layers. `error`: reads of each chunk
    the fewest layers whose error bound (in mode rms, the root mean square) is at most this, or all
    layers.

    Only the needed bytes of each chunk are read, if the operating system can read the file (not
    with `core`, `family`, `mpio` or file objects). Chunks that are not frames of `multigrid` are read as
    a whole.

    `start` and `count` are in elements of the dataset. A grid has the elements whose indices in the
    dataset are multiples of 2^level. All other parameters are as for `read`, but the type of `out`
    must be that of the dataset, or differ in its byte order alone. A file that is open for writing
    is flushed. Raises `UnsupportedJob` for datasets that only HDF5 can read, `InvalidArgument` for
    a level or a number of layers that does not exist.
    """
    detail, value = detail_of(level, layers, error)
    first, end = _box(dset, start, count)
    step = 1 << max(int(level or 0), 0)
    shape = tuple(-(-b // step) - -(-a // step) for a, b in zip(first, end))
    refuse_mask(out, "out")
    if out is None:
        out = np.empty(shape, dset.dtype)
    elif tuple(out.shape) != shape:
        raise InvalidArgument(f"out has the shape {tuple(out.shape)}, but the result has the shape {shape}; pass an array of that shape as out")
    address, dtype, strides = _memory(dset, out, True)
    info = struct("gridz_h5_part_info")
    with _Bar(progress, "read") as bar, _locked() as h5py:
        kind = _h5_type(h5py, dtype)
        options = _Options(bar, threads, memory_limit, strides)
        args = dset.id.id, kind.id, *_lists(first, end), detail, value, address, info, options.pointer
        bar.check(lib.gridz_h5_read_progressive_by(_functions().pointer, *args))
    return out, _part(info)


def inspect_progressive(
    dset, start=None, count=None, *, level: int | None = None, layers: int | None = None, error: float | None = None,
    threads=None,
) -> DatasetPart:  # fmt: skip
    """What `read_progressive` would return and read, from the first bytes of each chunk."""
    detail, value = detail_of(level, layers, error)
    lists, info = _lists(*_box(dset, start, count)), struct("gridz_h5_part_info")
    with _Bar(False) as bar, _locked():
        options = _Options(bar, threads, 0)
        args = dset.id.id, *lists, detail, value, info, options.pointer
        bar.check(lib.gridz_h5_inspect_progressive_by(_functions().pointer, *args))
    return _part(info)


def _part(info) -> DatasetPart:
    fields = {name: getattr(info, name) for name in DatasetPart.__dataclass_fields__ if name != "shape"}
    return DatasetPart(shape=tuple(info.extents[0 : info.rank]), **fields)


def _box(dset, start, count) -> tuple[list[int], list[int]]:
    """First and end index of a box along each axis."""
    first = _integers(start, "start") if start is not None else [0] * dset.ndim
    size = _integers(count, "count") if count is not None else [n - a for n, a in zip(dset.shape, first)]
    if not len(first) == len(size) == dset.ndim or min(first + size, default=0) < 0:
        raise InvalidArgument(f"start {first} and count {size} are not inside {_name_of(dset)}, which has the shape {dset.shape}")
    return first, [a + n for a, n in zip(first, size)]


def _integers(numbers, name: str) -> list[int]:
    """An offset or extents, one integer per axis, from any sequence of integers, or from one
    integer for one axis."""
    try:
        return [operator.index(n) for n in np.atleast_1d(np.asarray(numbers, object)).tolist()]
    except TypeError:
        raise InvalidArgument(f"{name}={numbers!r}: give one integer for each axis") from None


def _lists(first, end):
    """Start and count as C arrays."""
    return [ffi.new("uint64_t[]", numbers or [0]) for numbers in (first, [b - a for a, b in zip(first, end)])]


@contextlib.contextmanager
def _locked():
    """h5py, with its lock held: without the lock, its libhdf5 must not be called."""
    import h5py

    with h5py._objects.phil:
        yield h5py


def copy(src, dst, *, progress: Progress = False, threads=None, memory_limit: int = 0) -> None:
    """Copies all elements of a dataset to another dataset of the same shape, whose chunks, filters
    and type may differ.

    Where these are equal, the encoded chunks are copied verbatim. Raises `UnsupportedJob` for
    elements of variable length.
    """
    with _Bar(progress, "copy") as bar, _locked():
        options = _Options(bar, threads, memory_limit)
        bar.check(lib.gridz_h5_copy_by(_functions().pointer, src.id.id, dst.id.id, options.pointer))


def read_dask(dset, chunks=None):
    """A dask array of a dataset: each block is read by `read` when it is computed.

    `chunks` are dask's; None is about 128 MiB in whole chunks of the dataset. The file must stay
    open. With processes and clusters, each block reopens it by its name.
    """
    import dask.array

    blocks = _Blocks(dset)
    if chunks is None:
        previous = dset.chunks and (*dset.chunks, *_inner(dset).shape)
        chunks = dask.array.core.normalize_chunks(
            "auto", blocks.shape, limit="128MiB", dtype=blocks.dtype, previous_chunks=previous
        )
    meta = np.empty((0,) * blocks.ndim, blocks.dtype)
    return dask.array.from_array(blocks, chunks=chunks, name=False, asarray=False, meta=meta)


class _Blocks:
    """A dataset as dask reads it: identified by file and path, so that it can be sent to other
    processes."""

    def __init__(self, dset):
        self.file, self.name = str(pathlib.Path(dset.file.filename).resolve()), dset.name
        self.shape, self.dtype = (*dset.shape, *_inner(dset).shape), _inner(dset).dtype
        self.ndim = len(self.shape)
        self._open = dset

    def __getstate__(self):
        return {**self.__dict__, "_open": None}

    def __getitem__(self, index):
        if self._open:
            return self._read(self._open, index)
        import h5py

        with h5py.File(self.file, "r") as file:
            return self._read(file[self.name], index)

    def _read(self, dset, index):
        # dask merges its own indices with the user's, so steps, integers and lists also occur.
        box, rest = box_and_rest(index, self.shape)
        # Elements that are arrays are read whole: their axes follow those of the dataset.
        own, inner = box[: dset.ndim], box[dset.ndim :]
        return read(dset, start=[part.start for part in own], count=[part.stop - part.start for part in own])[
            (..., *inner)
        ][rest]


def _without_mask(dset, array: np.ndarray) -> np.ndarray:
    """The array without its mask: masked elements become the dataset's fill value."""
    if not isinstance(array, np.ma.MaskedArray):
        return np.asarray(array)
    if not np.ma.is_masked(array):
        return array.data
    missing, codec = of_dataset(dset), stored_codec(dset)
    fills = missing.fills
    if codec is not None and not codec.is_lossless:
        kept = of_codec(codec, dset.dtype.base) | of_attributes({}, dset.dtype.base, *user_fill(dset))
        fills = tuple(fill for fill in fills if fill in kept.fills or not kept.is_number(fill))
    if not fills:
        why = f"names no fill value{' that its codec keeps' if missing.fills else ''}"
        raise InvalidArgument(
            f"{_name_of(dset)} {why}, so the mask of the array would be lost; create the dataset with fillvalue=, "
            f"or give array.filled(…)"
        )
    if not np.can_cast(array.dtype, dset.dtype.base, "same_kind"):
        raise InvalidArgument(
            f"{_name_of(dset)} has {dset.dtype.base}, the masked array {array.dtype}; "
            f"give array.astype({str(dset.dtype.base)!r})"
        )
    plain = np.ma.array(array.astype(dset.dtype.base), fill_value=np.frombuffer(fills[0], dset.dtype.base)[0])
    return filled(plain, Missing(dset.dtype.base, fills[:1]))[0]


def _move(function, dset, array, start, bar: _Bar, threads, memory_limit) -> None:
    """The arguments common to reading and writing."""
    shape = _check_shape(dset, array.shape, start)
    address, dtype, strides = _memory(dset, array, function is lib.gridz_h5_read_by)
    box = [ffi.NULL, ffi.NULL]
    if start is not None:
        box = [ffi.new("uint64_t[]", numbers or [0]) for numbers in (_integers(start, "start"), list(shape))]
    with _locked() as h5py:
        kind = _h5_type(h5py, dtype)
        options = _Options(bar, threads, memory_limit, strides)
        bar.check(function(_functions().pointer, dset.id.id, kind.id, *box, address, options.pointer))


def _memory(dset, array, is_read: bool):
    """Address of an array for a dataset, its element type, and its strides (None if it is
    contiguous)."""
    import h5py

    inner = _inner(dset).shape
    if hasattr(array, "__cuda_array_interface__"):
        memory, strides = memory_of(array), None
        address, dtype = memory.pointer, memory.dtype
    else:
        if is_read and not array.flags.writeable:
            raise InvalidArgument("out is read-only; give an array that can be written")
        address, dtype = ffi.cast("void *", array.ctypes.data), array.dtype
        strides = None if array.flags.c_contiguous else array.strides[: dset.ndim]
        if strides and array.strides[dset.ndim :] != np.empty(inner, dtype).strides:
            raise InvalidArgument(
                f"elements of {_name_of(dset)} are arrays of shape {inner}, which must be contiguous in memory"
            )
    if dtype.hasobject or h5py.check_dtype(vlen=dset.dtype) is not None:
        raise InvalidArgument(
            f"{_name_of(dset)} has elements of variable length or Python objects; use dset[...] for them"
        )
    return address, _elements_of(dset.dtype, dtype), strides


def _h5_type(h5py, dtype: np.dtype):
    """HDF5's type for elements in memory. Raises `UnsupportedJob` for dates and Unicode text: HDF5
    has no type for them."""
    try:
        return h5py.h5t.py_create(dtype)
    except (TypeError, ValueError):
        remedy = 'array.view("i8")' if dtype.base.kind in "mM" else 'np.char.encode(array, "utf-8")'
        raise UnsupportedJob(f"HDF5 has no type for elements of {dtype}; give {remedy}") from None


def _without_overlap(array: np.ndarray) -> np.ndarray:
    """The array, or a copy if elements share memory (`np.broadcast_to`), which the library
    refuses."""
    end, axes = array.itemsize, [(abs(stride), n) for stride, n in zip(array.strides, array.shape) if n > 1]
    for stride, extent in sorted(axes):
        if stride < end:
            return array.copy()
        end += stride * (extent - 1)
    return array


def _check_shape(dset, shape, start) -> tuple:
    """The array's extents along the dataset's axes. The axes of elements that are arrays follow
    these.

    HDF5 has no broadcasting here, and the library cannot see the end of the array.
    """
    inner, name = _inner(dset).shape, _name_of(dset)
    own = tuple(shape)[: len(shape) - len(inner)]
    if tuple(shape)[len(own) :] != inner:
        raise InvalidArgument(f"each element of {name} is an array of shape {inner}, so the shape {tuple(shape)} must end with {inner}")
    if start is None and own != tuple(dset.shape):
        raise InvalidArgument(
            f"the array has the shape {tuple(shape)}, {name} has {(*dset.shape, *inner)}; "
            f"to write or read a part of the dataset, give start=, the index of the first element"
        )
    if start is not None and not len(_integers(start, "start")) == len(own) == dset.ndim:
        n = len(_integers(start, "start"))
        raise InvalidArgument(f"start has {n} axes and the array {len(own)}, but {name} has {dset.ndim}")
    return own


def _inner(dset) -> np.ndarray:
    """One element as a NumPy array: with axes if elements are arrays, also for arrays of arrays."""
    return np.empty((), dset.dtype)


def _elements_of(kind: np.dtype, number: np.dtype) -> np.dtype:
    """The type of elements in memory: that of the dataset, with numbers of another type."""
    if kind.subdtype is None:
        return number
    base, shape = kind.subdtype
    return np.dtype((_elements_of(base, number), shape))


def _name_of(dset) -> str:
    """A dataset's path for messages."""
    import h5py

    return shown(text_of(h5py.h5i.get_name(dset.id) or b"the dataset"))


def _blocks(array):
    """The blocks of a dask array with the offsets of their first elements."""
    places = itertools.product(*(np.cumsum((0, *sizes))[:-1].tolist() for sizes in array.chunks))
    return zip(places, (array.blocks[index] for index in np.ndindex(*array.numblocks)))


class _Functions:
    """The functions of h5py's libhdf5, which the library calls."""

    def __init__(self):
        from gridz._libhdf5 import library

        found = [(name, getattr(library(), name, None)) for name in NAMES]
        self._names = [ffi.new("char[]", name.encode()) for name, function in found if function]
        self.pointer = ffi.new("gridz_h5_function[]", len(self._names) + 1)
        for i, function in enumerate(function for _, function in found if function):
            self.pointer[i].name = self._names[i]
            self.pointer[i].address = ffi.cast("gridz_function", ctypes.cast(function, ctypes.c_void_p).value)


_functions = functools.lru_cache(maxsize=1)(_Functions)


class _Options:
    """`gridz_h5_options`; keeps alive the objects that its pointers refer to."""

    def __init__(self, bar: _Bar, threads, memory_limit: int, strides=None):
        self._context = context(threads)
        self._strides = ffi.new("int64_t[]", list(strides)) if strides else ffi.NULL
        self._bar = bar
        self.pointer = struct(
            "gridz_h5_options",
            context=self._context,
            strides=self._strides,
            progress=bar.function,
            memory_limit=memory_limit,
        )


class _Bar:
    """The progress receiver: none, a bar, or a function. Exceptions of the function are raised once
    the library has returned."""

    def __init__(self, progress: Progress, what: str = ""):
        self._bar, self._receiver, self._error = None, progress if callable(progress) else None, None
        if progress is True:
            from tqdm.auto import tqdm

            self._bar = tqdm(desc=what, unit="B", unit_scale=True, unit_divisor=1024)
            self._receiver = self._advance
        self.function = ffi.callback("gridz_progress", self._call) if self._receiver else ffi.NULL

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()

    def update(self, done: int, total: int) -> None:
        """Reports progress; raises `Cancelled` if the receiver asks to stop."""
        if self._receiver and self._receiver(done, total) is False:
            raise Cancelled("the progress function canceled the call")

    def check(self, status: int) -> None:
        """Raises the function's exception, or the error for the status."""
        if self._error is not None:
            raise self._error
        check(status)

    def _call(self, _, done, total) -> int:
        try:
            return 1 if self._receiver(done, total) is False else 0
        except BaseException as error:  # also KeyboardInterrupt: C cannot pass it on
            self._error = error
            return 1

    def _advance(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)
