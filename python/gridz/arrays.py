"""Arrays in memory: `compress`, `decompress`, and parts and descriptions of frames.

An array is anything that NumPy can view without a copy (NumPy arrays, objects with the buffer
protocol, memory maps, torch CPU tensors by DLPack), or memory of an NVIDIA GPU with
`__cuda_array_interface__` (CuPy, torch, Numba) or DLPack. For GPU memory, the library first
synchronizes the stream that the array names. The GIL is released while the library works.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gridz import _codecs as codecs
from gridz._native import DTYPES, MODES, array_of, check, context, ffi, is_recorded, lib, struct, text
from gridz._codecs import Codec
from gridz._missing import Missing, as_given, of_values, unmasked, with_mask
from gridz.device import Memory, memory_of
from gridz.errors import Corrupt, InvalidArgument, UnsupportedJob


@dataclass(frozen=True)
class FrameInfo:
    """The description in a frame's header."""

    dtype: np.dtype
    """The type of the elements; `V<n>` for opaque ones and bfloat16 (see `is_bfloat16`)."""
    shape: tuple[int, ...]
    codec: str
    """Name of the codec that wrote the frame."""
    mode: str
    """The permitted change of the values: "lossless", "abs", …"""
    value: float
    """The parameter of the mode."""
    bound: float
    """No element's error is larger; NaN if no such bound exists. This is the guarantee, not the
    actual error. For `zfp` and `multigrid`, it refers to the array from which this frame was made: if
    parts are changed repeatedly, the other elements drift."""
    array_bytes: int
    frame_bytes: int
    is_bfloat16: bool


@dataclass(frozen=True)
class PartInfo:
    """The result of a progressive read of a frame."""

    shape: tuple[int, ...]
    """The shape of the result. A coarser grid of an array with more than 4 axes longer than 1 has 4
    axes: the first ones are merged."""
    level: int
    """The level of the grid: 0 for the array."""
    layers: int
    """Number of layers that are read."""
    mode: str
    """The mode of the result, as in `FrameInfo`."""
    value: float
    bound: float
    array_bytes: int
    frame_bytes: int
    """Number of bytes of the frame that are needed, from its start."""


def compress(array, codec: Codec | str | None = None, *, threads: int | None = None, out=None, force: bool = False):
    """Compresses an array to a frame, as `bytes`.

    `codec` is a codec or its text form; None is the default lossless one. `rel=` bounds are
    relative to the range of this array; the frame records the absolute bound
    (`inspect(frame).bound`). Raises `InvalidArgument` if outliers, such as an undeclared fill
    value, determine that range; `force` accepts them (arrays on a GPU are not examined). An array
    that is not contiguous is copied first; the frame has the elements in C order. Raises
    `UnsupportedJob` for types that a frame does not record: bool, dates, strings, records, long
    double, bfloat16. `threads`: None is all that `GRIDZ_THREADS` or the machine has.

    Masked elements of a masked array become its `fill_value`, or the codec's fill value if the
    codec names other values, and are decompressed as that value:
    `numpy.ma.masked_equal(decompress(frame), value)` restores the mask. An element that is not
    masked and has this value is refused.

    With `out`, a writable contiguous buffer in memory of the host or a GPU, the frame is written
    there and its length in bytes is returned; `bound_of(array, codec)` bytes are always enough.
    """
    array, codec = with_mask(array, codecs.codec(codec))
    memory = memory_of(array)
    _check_is_recorded(memory.dtype, codec)
    if codec.mode == "rel" and not force and not memory.on_gpu and memory.dtype.kind in "iufc":
        codec.bounded_for(memory.array)
    described, ctx = array_of(memory.dtype, memory.shape), context(threads)
    options, n_bytes = _options(codec, ctx), ffi.new("size_t *")
    if out is not None:
        to = memory_of(out, writable=True)
        args = described.pointer, memory.pointer, memory.n_bytes, to.pointer, to.n_bytes, n_bytes
        check(lib.gridz_compress(*args, options.pointer))
        return n_bytes[0]
    check(lib.gridz_compress_bound(described.pointer, options.pointer, n_bytes))
    room = np.empty(n_bytes[0], np.uint8)
    args = described.pointer, memory.pointer, memory.n_bytes, ffi.from_buffer(room), room.nbytes, n_bytes
    check(lib.gridz_compress(*args, options.pointer))
    return room[: n_bytes[0]].tobytes()


def bound_of(array, codec: Codec | str | None = None) -> int:
    """Upper bound for the bytes of `compress(array, codec, out=…)`."""
    array, codec = with_mask(array, codecs.codec(codec))
    memory = memory_of(array)
    _check_is_recorded(memory.dtype, codec)
    return bound_of_elements(memory.dtype, memory.shape, codec)


def bound_of_elements(dtype: np.dtype, shape: tuple[int, ...], codec: Codec) -> int:
    """As `bound_of`, without an array. Types that a frame does not record are opaque bytes here."""
    described, n_bytes = array_of(dtype, shape), ffi.new("size_t *")
    options = _options(codec, ffi.NULL)  # the codec's text must outlive the call
    check(lib.gridz_compress_bound(described.pointer, options.pointer, n_bytes))
    return n_bytes[0]


def _check_is_recorded(dtype: np.dtype, codec: Codec) -> None:
    """Raises `UnsupportedJob` for a type that would be lost in a frame."""
    if dtype.hasobject or not dtype.itemsize or is_recorded(dtype):
        return  # `array_of` and the library refuse objects and elements of 0 bytes
    view = number_dtype(dtype)
    view = f'"V{view.itemsize}"' if view.kind == "V" else f"np.{view.name}"
    remedy = f"compress array.view({view}) and view the decompressed array with the original dtype"
    if not codec.is_lossless:
        remedy = f"convert it to numbers, such as array.astype(np.float32), or use a lossless codec and {remedy}"
    raise UnsupportedJob(f"a frame records numbers and opaque bytes, but not elements of type {dtype}; {remedy}")


def inspect(frame) -> FrameInfo:
    """Reads a frame's description. The first 560 bytes of the frame are enough, unless `bound` is
    NaN then."""
    memory = memory_of(frame)
    info = struct("gridz_frame_info")
    check(lib.gridz_inspect(memory.pointer, memory.n_bytes, info))
    return FrameInfo(
        dtype=_dtype_of(info),
        shape=tuple(info.extents[0 : info.rank]),
        codec=text(info.codec_name) if info.codec_name else f"codec {info.codec} of a newer gridz",
        mode=_mode_name(info.mode),
        value=info.value,
        bound=info.bound,
        array_bytes=info.array_bytes,
        frame_bytes=info.frame_bytes,
        is_bfloat16=info.dtype == lib.GRIDZ_DTYPE_BF16,
    )


def inspect_blocks(frame) -> dict[str, int]:
    """Counts how the blocks of a frame are coded (`gridz_block_counts` of gridz.h), and verifies
    their checksums.

    Raises `UnsupportedJob` for codecs whose blocks are all of one kind.
    """
    memory, counts = memory_of(frame), struct("gridz_block_counts")
    check(lib.gridz_inspect_blocks(memory.pointer, memory.n_bytes, counts))
    fields = (name for name, _ in ffi.typeof("gridz_block_counts").fields)
    return {name: getattr(counts, name) for name in fields if name != "struct_size"}


def decompress(frame, out=None, *, threads: int | None = None, check_sum: bool = True):
    """Decompresses a frame to a new NumPy array, or into `out`, which is returned.

    `out` has the frame's number of bytes, and if it is an array, its shape and type; it may be GPU
    memory. A frame in GPU memory requires an `out` there. Raises `Corrupt` for damaged frames.
    Without `check_sum`, the checksum is not verified, and damaged data may be returned as wrong
    values.
    """
    memory, info = memory_of(frame), inspect(frame)
    made, to = _destination(out, info, info.shape, memory)
    options, n_bytes = _options(None, context(threads), check_sum), ffi.new("size_t *")
    check(lib.gridz_decompress(memory.pointer, memory.n_bytes, to.pointer, to.n_bytes, n_bytes, options.pointer))
    return made


def decompress_region(frame, region, out=None, *, check_sum: bool = True):
    """Decompresses part of a frame: `region` is an index of slices with step 1, integers and `...`, as for NumPy.

    Only the blocks that intersect the region are decoded. The result has the shape that NumPy gives
    such an index.
    """
    memory, info = memory_of(frame), inspect(frame)
    start, count, shape = _box(region, info.shape)
    made, to = _destination(out, info, shape, memory)
    options, n_bytes = _options(None, ffi.NULL, check_sum), ffi.new("size_t *")
    numbers = ffi.new("uint64_t[]", start or [0]), ffi.new("uint64_t[]", count or [0])
    args = memory.pointer, memory.n_bytes, len(start), *numbers, to.pointer, to.n_bytes, n_bytes
    check(lib.gridz_decompress_region(*args, options.pointer))
    return made


def inspect_parts(frame) -> tuple[list[PartInfo], list[PartInfo]]:
    """What can be read of a frame of `multigrid`: with 1, 2, … layers, and at level 0, 1, … from its
    first layer.

    The first bytes of the frame are enough: 1056, plus 8 for each 65536 elements and some more for
    each level. Raises `UnsupportedJob` for frames of other codecs, also if an array was stored
    because `multigrid` did not make it smaller.
    """
    memory = memory_of(frame)
    first = _part(memory, lib.GRIDZ_DETAIL_LAYERS, 1)
    by_layers = [_part(memory, lib.GRIDZ_DETAIL_LAYERS, n) for n in range(1, first.n_layers + 1)]
    by_level = [_part(memory, lib.GRIDZ_DETAIL_LEVEL, level) for level in range(first.n_levels + 1)]
    return [_part_info(part) for part in by_layers], [_part_info(part) for part in by_level]


def decompress_progressive(
    frame, *, level: int | None = None, layers: int | None = None, error: float | None = None,
    threads: int | None = None, check_sum: bool = True,
):  # fmt: skip
    """Decompresses a frame of `multigrid` to a coarser or less accurate array; returns the array and a
    `PartInfo`.

    Give exactly one of three parameters. `level`: reads the grid of every 2^level-th element along
    each axis, from the first layer. `layers`: reads that many layers. `error`: reads the fewest
    layers whose error bound (in mode rms, the root mean square) is at most this, or all layers. The
    frame may be truncated after the `frame_bytes` that `inspect_parts` reports.
    """
    (detail, value), memory, info = detail_of(level, layers, error), memory_of(frame), inspect(frame)
    part = _part(memory, detail, value)
    made, to = _destination(None, info, tuple(part.extents[0 : part.rank]), memory)
    options = _options(None, context(threads), check_sum)
    args = memory.pointer, memory.n_bytes, detail, value, to.pointer, to.n_bytes, part
    check(lib.gridz_decompress_progressive(*args, options.pointer))
    return made, _part_info(part)


def detail_of(level: int | None, layers: int | None, error: float | None) -> tuple[int, float]:
    """The one parameter that is given, as the library's detail and value."""
    details = [(lib.GRIDZ_DETAIL_LEVEL, level), (lib.GRIDZ_DETAIL_LAYERS, layers), (lib.GRIDZ_DETAIL_ERROR, error)]
    given = [(detail, value) for detail, value in details if value is not None]
    if len(given) != 1:
        raise InvalidArgument("give exactly one of level, layers and error")
    return given[0]


def _part(memory: Memory, detail: int, value: float):
    part = struct("gridz_part_info")
    check(lib.gridz_inspect_progressive(memory.pointer, memory.n_bytes, detail, value, part))
    return part


def _part_info(part) -> PartInfo:
    return PartInfo(
        shape=tuple(part.extents[0 : part.rank]),
        level=part.level,
        layers=part.layers,
        mode=_mode_name(part.mode),
        value=part.value,
        bound=part.bound,
        array_bytes=part.array_bytes,
        frame_bytes=part.frame_bytes,
    )


def _mode_name(number: int) -> str:
    names = {number: name for name, number in MODES.items()}
    return names.get(number, f"mode {number} of a newer gridz")


def range_of(array, fill=None, *, valid_min=None, valid_max=None) -> tuple[float, float]:
    """The smallest and the largest valid number of an array in host memory; infinity and minus infinity if it has none.

    Valid numbers are finite, not masked, not equal to `fill` (a value or a sequence of values), and neither below
    `valid_min` nor above `valid_max`.
    """
    array = as_given(array)
    missing = of_values(memory_of(unmasked(array)).dtype, fill, valid_min, valid_max)
    if isinstance(array, np.ma.MaskedArray):
        array = array.compressed()
    return range_within(array, missing)


def range_within(array, missing: Missing) -> tuple[float, float]:
    """As `range_of`, without masks."""
    memory = memory_of(array)
    described, ends = array_of(memory.dtype, memory.shape), ffi.new("double[2]")
    options = struct("gridz_quality_options")
    kept = missing.set_options(options)
    check(lib.gridz_range(described.pointer, memory.pointer, memory.n_bytes, ends, ends + 1, options))
    del kept
    return ends[0], ends[1]


def number_dtype(dtype) -> np.dtype:
    """The type that a frame records for elements of `dtype`: int64 for dates and durations, uint8
    for bool, unsigned integers for types that extend NumPy (bfloat16), opaque bytes for strings,
    records and long double."""
    dtype = np.dtype(dtype)
    if dtype.hasobject or not dtype.itemsize or is_recorded(dtype):
        return dtype
    if dtype.isbuiltin == 2 and dtype.itemsize in (1, 2, 4, 8):
        return np.dtype(f"u{dtype.itemsize}")
    kinds = {"b": "u1", "m": "i8", "M": "i8"}
    return np.dtype(kinds.get(dtype.kind, f"V{dtype.itemsize}")).newbyteorder(dtype.byteorder)


def as_numbers(array: np.ndarray) -> np.ndarray:
    """A view of an array as elements of `number_dtype`.

    A host that records the type elsewhere, as Zarr does, views the decompressed array with that type.
    """
    dtype = number_dtype(array.dtype)
    return array if dtype == array.dtype else array.view(dtype)


class _Options:
    """`gridz_options`; keeps alive the objects that its pointers refer to."""

    def __init__(self, codec: Codec | None, ctx, check_sum: bool):
        self._context, self._codec = ctx, ffi.new("char[]", str(codec).encode()) if codec is not None else ffi.NULL
        flags = 0 if check_sum else lib.GRIDZ_FLAG_SKIP_CHECKSUM
        self.pointer = struct("gridz_options", context=ctx, request=self._codec, flags=flags)


def _options(codec: Codec | None, ctx, check_sum: bool = True) -> _Options:
    return _Options(codec, ctx, check_sum)


def _dtype_of(info) -> np.dtype:
    known = DTYPES.get(info.dtype)
    if known is None:
        return np.dtype(f"V{info.element_size}")
    return known.newbyteorder(">" if info.byte_order == lib.GRIDZ_BYTE_ORDER_BIG else "<")


def _destination(out, info: FrameInfo, shape: tuple[int, ...], frame: Memory):
    """Destination of an array of this shape: the object to return, and its memory."""
    need = math.prod(shape) * info.dtype.itemsize
    if out is None:
        if frame.on_gpu:
            raise InvalidArgument("the frame is in GPU memory; give out=, an array in memory of the GPU or the host")
        # A tiny frame of one constant block may claim any size: NumPy refuses what it cannot
        # allocate.
        try:
            made = np.empty(shape, info.dtype)
        except (MemoryError, ValueError, OverflowError):
            raise Corrupt(f"the frame claims an array of {need} bytes, which cannot be allocated; the frame may be damaged") from None
        return made, memory_of(made, writable=True)
    to = memory_of(out, writable=True)
    is_buffer = to.dtype.itemsize == 1 and to.n_bytes == need
    if not is_buffer and (to.shape, to.dtype) != (shape, info.dtype):
        raise InvalidArgument(f"out has {to.dtype} {to.shape}; the frame has {info.dtype} {shape}")
    return out, to


def _box(region, shape: tuple[int, ...]) -> tuple[list[int], list[int], tuple[int, ...]]:
    """Start and count along each axis, and the shape without the axes that an integer removes."""
    region = region if isinstance(region, tuple) else (region,)
    if Ellipsis in region:
        i = region.index(Ellipsis)
        region = (*region[:i], *[slice(None)] * (len(shape) - len(region) + 1), *region[i + 1 :])
    if len(region) > len(shape) or Ellipsis in region:
        raise InvalidArgument(f"the region has {len(region)} axes, the array has {len(shape)}; give one slice or integer per axis")
    start, count, kept = [], [], []
    for index, extent in zip((*region, *[slice(None)] * (len(shape) - len(region))), shape):
        if isinstance(index, slice):
            first, stop, step = index.indices(extent)
            if step != 1:
                raise InvalidArgument(f"the region has a step of {step}; only step 1 is supported, so apply the step to the result")
            start.append(first)
            count.append(max(stop - first, 0))
            kept.append(count[-1])
        else:
            first = int(index) + extent * (index < 0)
            if not 0 <= first < extent:
                raise InvalidArgument(f"index {index} is outside an axis with {extent} elements")
            start.append(first)
            count.append(1)
    return start, count, tuple(kept)
