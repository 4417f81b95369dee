"""Compares a dataset with its copy; `gridz repack` uses this to decide whether the copy meets its
guarantee."""

from __future__ import annotations

import h5py
import numpy as np
from h5py import h5d, h5t

import gridz
from gridz._chunks import boxes_of, cells_of, chunks_of, frames_of, has_chunks
from gridz._libhdf5 import call, content_of, elements, holds, id_of, pointer
from gridz._missing import of_codec
from gridz._quality import Statistics
from gridz._pipeline import pipeline_of
from gridz.filters import stored_codec

ROUNDING = 1 + 1e-9
"""The encoder and this module compute the root mean square in float64, with different orders of
summation."""


def is_in_file(dataset: h5d.DatasetID) -> bool:
    """True if the elements of a dataset are in the file itself, not in other files or in external
    storage."""
    create = dataset.get_create_plist()
    return create.get_layout() != h5d.VIRTUAL and not create.get_external_count()


def fill_is_same(before: h5d.DatasetID, after: h5d.DatasetID) -> bool:
    """True if both datasets have the same fill value, which is the value of elements that were
    never written."""
    return _fill(before) == _fill(after)


def _fill(dataset: h5d.DatasetID):
    create, kind = dataset.get_create_plist(), dataset.get_type()
    defined = create.fill_value_defined()
    if defined != h5d.FILL_VALUE_USER_DEFINED or holds(kind, h5t.VLEN, h5t.REFERENCE):
        return defined
    element = np.zeros((1, kind.get_size()), np.uint8)
    call("H5Pget_fill_value", id_of(create), id_of(kind), pointer(element))
    return content_of(element, kind)


def is_kept(before: h5d.DatasetID, after: h5d.DatasetID) -> bool:
    """True if a dataset that was copied unchanged has the same filters and stored bytes; or the
    same elements, if it contains addresses. References are not compared."""
    if not is_in_file(before):
        return True
    if pipeline_of(before) != pipeline_of(after):
        return False
    if has_chunks(before) and not holds(before.get_type(), h5t.VLEN, h5t.REFERENCE):
        chunks = [{c.chunk_offset: c.filter_mask for c in chunks_of(dataset)} for dataset in (before, after)]
        return chunks[0] == chunks[1] and all(
            before.read_direct_chunk(place) == after.read_direct_chunk(place) for place in chunks[0]
        )
    return all(_box_is_same(before, after, *box) for box in boxes_of(before))


def _box_is_same(before: h5d.DatasetID, after: h5d.DatasetID, start: tuple, count: tuple) -> bool:
    with elements(before, start, count) as (a, _), elements(after, start, count) as (b, _):
        return content_of(a, before.get_type()) == content_of(b, after.get_type())


def is_as_encoded(before: h5py.Dataset, after: h5py.Dataset, threads, statistics: Statistics) -> bool:
    """True if each chunk equals the codec's result for the original: for modes without a bound on
    each element.

    Chunks are recompressed and decompressed; in mode rms (with s=0), the errors are compared with
    the bound.
    """
    codec, shape = stored_codec(after), np.array(after.shape)
    named = {"fill": codec.fills, "valid_min": codec.valid_min, "valid_max": codec.valid_max}
    missing = of_codec(codec, np.empty((), after.dtype).dtype)
    frames = {chunk.chunk_offset for chunk in frames_of(after.id)}
    stored = {chunk.chunk_offset for chunk in chunks_of(after.id)}
    for start in sorted(stored | cells_of(before.id, after.chunks)):
        count = tuple(np.minimum(after.chunks, shape - start).tolist())
        original, copy = (gridz.h5.read(d, start=start, count=count, threads=threads) for d in (before, after))
        if start not in frames:  # stored without the filter, or not stored
            if original.tobytes() != copy.tobytes():
                return False
            continue
        inside = tuple(slice(n) for n in count)
        chunk = np.full((*after.chunks, *original.shape[after.ndim :]), after.fillvalue, original.dtype)
        chunk[inside] = original
        decoded = gridz.decompress(gridz.compress(chunk, codec, threads=threads), threads=threads).reshape(chunk.shape)
        if decoded[inside].tobytes() != copy.tobytes() or not missing.is_kept(original, copy):
            return False
        statistics.add(gridz.quality(original, copy, **named))
        if codec.mode == "rms" and not codec.extras.get("s"):
            if gridz.quality(chunk, decoded, **named, threads=threads).rmse > codec.value * ROUNDING:
                return False
    return True
