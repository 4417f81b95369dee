"""gridz in Zarr format 3: `zarr.create_array(…, serializer=GridzCodec("szp,abs=1e-3"), compressors=None)`.

A chunk becomes one frame. A read of part of a chunk fetches the frame and decodes only the blocks that it touches; in the
sharding codec the frame is that of an inner chunk. Zarr finds the class by an entry point, so files are read without
importing gridz. Work is done in threads, with the GIL released.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.core.common import parse_named_configuration

from gridz import Corrupt, UnsupportedJob, compress, decompress, decompress_region, inspect, parse
from gridz import codec as codec_of
from gridz._native import number_of
from gridz.arrays import as_numbers


@dataclass(frozen=True)
class GridzCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """The codec, by its text form or as a `gridz.Codec`; None is the default lossless one.

    In bounded modes the fill value of the array, unless it is 0, comes back bit for bit. A bound that is relative to the range is
    refused, since a codec sees one chunk at a time: use `gridz.Szp(rel=…).bounded_for(array)`.
    """

    is_fixed_size = False
    codec: str

    def __init__(self, codec=None):
        object.__setattr__(self, "codec", str(codec_of(codec)))

    @classmethod
    def from_dict(cls, data) -> GridzCodec:
        """Reads the metadata."""
        _, configuration = parse_named_configuration(data, "gridz", require_configuration=False)
        return cls(**(configuration or {}))

    def to_dict(self) -> dict:
        """The metadata."""
        return {"name": "gridz", "configuration": {"codec": self.codec}}

    def validate(self, *, shape, dtype, chunk_grid) -> None:
        """Refuses what could not be kept, when the array is created."""
        native, codec = dtype.to_native_dtype(), parse(self.codec)
        if native.hasobject:
            raise UnsupportedJob(f"gridz: elements of type {native} have no fixed length; leave them to Zarr's own codecs")
        if codec.mode == "rel":
            codec.filter_options  # refuses it, and tells the remedy
        if not codec.is_lossless and number_of(native) == 0:
            raise UnsupportedJob(f"{codec}: elements of type {native} are no numbers; use a lossless codec")

    def compute_encoded_size(self, _input_byte_length: int, _chunk_spec) -> int:
        """Depends on the values."""
        raise NotImplementedError

    async def _encode_single(self, chunk_array, chunk_spec):
        codec, fill = parse(self.codec), chunk_spec.fill_value
        if not codec.is_lossless and codec.fill is None and fill is not None and fill != 0 and fill == fill:
            codec = parse(f"{codec},fill={fill}")
        frame = await asyncio.to_thread(compress, as_numbers(chunk_array.as_numpy_array()), codec)
        return chunk_spec.prototype.buffer.from_bytes(frame)

    async def _decode_single(self, chunk_bytes, chunk_spec):
        return await asyncio.to_thread(self._decode, chunk_bytes, None, chunk_spec)

    async def _decode_partial_single(self, byte_getter, selection, chunk_spec):
        chunk_bytes = await byte_getter.get(prototype=chunk_spec.prototype)
        if chunk_bytes is None:
            return None
        return await asyncio.to_thread(self._decode, chunk_bytes, selection, chunk_spec)

    def _decode(self, chunk_bytes, selection, spec):
        frame, dtype = chunk_bytes.as_numpy_array(), spec.dtype.to_native_dtype()
        info = inspect(frame)
        if (info.shape, info.dtype.itemsize) != (tuple(spec.shape), dtype.itemsize):
            raise Corrupt(f"the chunk has {info.dtype} {info.shape}, the array's metadata say {dtype} {tuple(spec.shape)}")
        if selection is not None and all(_is_plain(index) for index in selection):
            array = decompress_region(frame, tuple(selection))
        else:
            array = decompress(frame)
            array = array if selection is None else array[selection]
        array = array.view(dtype) if array.dtype.kind == "V" or dtype.kind in "bmM" else array.astype(dtype, copy=False)
        return spec.prototype.nd_buffer.from_numpy_array(array)


def _is_plain(index) -> bool:
    """Whether an index of one axis is an integer, or a slice with step 1."""
    return isinstance(index, (int, np.integer)) or isinstance(index, slice) and index.step in (None, 1)
