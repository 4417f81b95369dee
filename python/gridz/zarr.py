"""The codec `gridz` of Zarr v3: it converts a chunk's array to bytes (an array-to-bytes codec, or
serializer).

    import gridz.zarr, zarr
    codec = gridz.zarr.GridzCodec("quant,abs=1e-3")
    zarr.create_array("t.zarr", data=t, chunks=(16, 256, 256), serializer=codec, compressors=None)

`compressors=None`: the output cannot be compressed further. Arrays are read without importing
gridz: zarr-python finds the codec by its name. In `zarr.json` it is `{"name": "gridz",
"configuration": {"codec": "quant,abs=0.001"}}`. Each chunk is one frame of gridz, which records its
own type, shape and byte order.

A part of a chunk, also of one inside a shard, is read by `gridz.decompress_region`. The whole frame
is read from the store, but only the blocks that the part intersects are decoded and verified by
their checksums. (`ndzip` has one checksum for everything; for `stored`, none is verified in this
case.) Other codecs before or after this one make zarr-python decode whole chunks.

Worker threads compress chunks while other chunks are read and written. Arrays in GPU buffers are
copied through host memory.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin

import gridz
from gridz._elements import box_and_rest, check_job, codec_of_chunks
from gridz._missing import of_attributes, refuse_mask
from gridz.arrays import as_numbers, number_dtype

NAME = "gridz"
"""The codec's name in `zarr.json`."""


@dataclass(frozen=True)
class GridzCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """Compresses each chunk with a codec of gridz.

    `codec` is a `gridz.Codec` or its text form; None is the default lossless one. Lossy codecs keep
    the array's fill value bit for bit, and all missing elements that the codec names (`fill=`,
    `valid_min=`, `valid_max=`). A fill value of 0, Zarr's default, is ignored unless the codec
    names it. Raises `gridz.UnsupportedJob` for `rel=`, since a single chunk does not determine the
    range of the array; and at creation of an array whose elements the codec does not support.
    """

    is_fixed_size = False

    codec: str

    def __init__(self, codec: gridz.Codec | str | None = None):
        object.__setattr__(self, "codec", str(codec_of_chunks(codec, "GridzCodec")))

    @classmethod
    def from_dict(cls, data) -> GridzCodec:
        """Parses the metadata. Raises `gridz.InvalidArgument` for metadata of a later version."""
        configuration = dict(data.get("configuration") or {})
        codec = configuration.pop("codec", None)
        if data.get("name") != NAME or configuration:
            raise gridz.InvalidArgument(
                f"{data!r} is not a codec of this version of gridz; it reads "
                f'{{"name": "gridz", "configuration": {{"codec": "lorenzo"}}}}: install a newer gridz'
            )
        return cls(codec)

    def to_dict(self) -> dict:
        """The metadata."""
        return {"name": NAME, "configuration": {"codec": self.codec}}

    def evolve_from_array_spec(self, array_spec) -> GridzCodec:
        """Refuses unsupported elements when the array is created, before any data are written."""
        dtype = array_spec.dtype.to_native_dtype()
        if dtype.hasobject or dtype.kind == "T":
            raise gridz.UnsupportedJob(
                f"elements of type {dtype} have no fixed size; omit serializer= for such an array, since "
                f"Zarr has codecs of its own for them"
            )
        check_job(self._codec_for(array_spec), dtype, array_spec.ndim)
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec) -> int:
        """Always fails: the size depends on the values."""
        raise NotImplementedError("the size of a compressed chunk depends on its values")

    def _codec_for(self, chunk_spec) -> gridz.Codec:
        """The codec with the fill value of the array."""
        codec, dtype = gridz.parse(self.codec), chunk_spec.dtype.to_native_dtype()
        if dtype.kind not in "iufc" or chunk_spec.fill_value == 0:
            return codec
        return of_attributes({}, dtype, chunk_spec.fill_value).kept_by(codec)

    def _encode_sync(self, chunk_array, chunk_spec):
        array = chunk_array.as_numpy_array()
        refuse_mask(array, "the chunk")
        if array.dtype.kind in "UV":  # opaque: neither the frame nor `zarr.json` records their byte order
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        frame = gridz.compress(as_numbers(array), self._codec_for(chunk_spec))
        return chunk_spec.prototype.buffer.from_bytes(frame)

    def _decode_sync(self, chunk_bytes, chunk_spec):
        return _decoded(chunk_bytes.as_numpy_array(), chunk_spec)

    async def _encode_single(self, chunk_data, chunk_spec):
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data, chunk_spec):
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    async def _decode_partial_single(self, byte_getter, selection, chunk_spec):
        frame = await byte_getter.get(prototype=chunk_spec.prototype)
        if frame is None:
            return None
        return await asyncio.to_thread(_decoded, frame.as_numpy_array(), chunk_spec, selection)


def _decoded(frame: np.ndarray, chunk_spec, selection=()):
    """The elements of a chunk that an index of NumPy selects, as Zarr's buffer."""
    dtype = chunk_spec.dtype.to_native_dtype()
    info = gridz.inspect(frame)
    # The byte order is recorded in the frame only; `zarr.json` has none.
    if info.shape != chunk_spec.shape or info.dtype.newbyteorder("=") != number_dtype(dtype).newbyteorder("="):
        raise gridz.Corrupt(
            f"the chunk has {info.dtype} {info.shape}, but its array has {dtype} {chunk_spec.shape}; "
            f"was the file moved here from another array?"
        )
    box, rest = box_and_rest(selection, info.shape)
    if all((part.start, part.stop) == (0, extent) for part, extent in zip(box, info.shape)):
        numbers = gridz.decompress(frame)  # with all threads
    else:
        numbers = gridz.decompress_region(frame, box)
    order = "<" if info.dtype.kind == "V" else info.dtype.byteorder
    made = numbers.view(dtype.newbyteorder(order))[rest]
    return chunk_spec.prototype.nd_buffer.from_numpy_array(np.asarray(made))
