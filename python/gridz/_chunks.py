"""The stored parts of a dataset: stored chunks, and boxes of them. Time is proportional to these,
not to the extents."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Iterator

import numpy as np
from h5py import h5d, h5s

from gridz._codecs import FILTER_ID
from gridz._libhdf5 import call, id_of
from gridz.bench import box_of, chunks_for

BOX_BYTES = 64 << 20
"""Approximate number of bytes that are read at once for measuring and comparing."""


def chunks_of(dataset: h5d.DatasetID) -> list:
    """h5py's `StoreInfo` of each stored chunk: `chunk_offset`, `filter_mask`, `byte_offset`, `size`."""
    found: list = []
    if not has_chunks(dataset):
        return found
    if hasattr(dataset, "chunk_iter"):
        dataset.chunk_iter(found.append)
        return found
    return [dataset.get_chunk_info(i) for i in range(dataset.get_num_chunks())]


def has_chunks(dataset: h5d.DatasetID) -> bool:
    """True if a dataset is stored in chunks."""
    return dataset.get_create_plist().get_layout() == h5d.CHUNKED


def frames_of(dataset: h5d.DatasetID) -> list:
    """The stored chunks that are frames of gridz: no other filter was applied to them."""
    create = dataset.get_create_plist()
    if [create.get_filter(i)[0] for i in range(create.get_nfilters())] != [FILTER_ID]:
        return []
    options, extents = ctypes.c_uint(), create.get_chunk()
    call("H5Pget_chunk_opts", id_of(create), ctypes.byref(options))
    skips_edges = options.value & 2  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
    is_whole = lambda start: all(a + c <= n for a, c, n in zip(start, extents, dataset.shape))
    return [c for c in chunks_of(dataset) if c.filter_mask == 0 and (not skips_edges or is_whole(c.chunk_offset))]


def boxes_of(dataset: h5d.DatasetID, chunks=None, limit: int = BOX_BYTES) -> Iterator[tuple[tuple, tuple]]:
    """First element and extents of the boxes (of whole chunks, about `limit` bytes) that contain
    the stored elements.

    `chunks` are the chunk extents of another dataset, to which the boxes are aligned instead. A box
    in which not all chunks are stored is split into its stored chunks.
    """
    space, shape, itemsize = dataset.get_space(), dataset.shape, dataset.get_type().get_size()
    if space.get_simple_extent_type() == h5s.NULL or 0 in shape or not dataset.get_storage_size():
        return
    if not shape:
        yield (), ()
        return
    own = dataset.get_create_plist().get_chunk() if has_chunks(dataset) else None
    grid = tuple(chunks or own or chunks_for(shape, itemsize))
    box = [part.stop - part.start for part in box_of(shape, itemsize, grid, limit)]
    if own is None:
        boxes = itertools.product(*(range(0, n, step) for n, step in zip(shape, box)))
        yield from (_cut(start, box, shape) for start in boxes)
        return
    stored = _overlapping(np.array([chunk.chunk_offset for chunk in chunks_of(dataset)]), own, grid, shape)
    in_box = [max(1, n // c) if n < extent else -(-extent // c) for n, c, extent in zip(box, grid, shape)]
    places, which, counts = np.unique(stored // in_box, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    for place, members in zip(places.tolist(), np.split(stored[order], np.cumsum(counts)[:-1])):
        start, count = _cut([i * n * c for i, n, c in zip(place, in_box, grid)], box, shape)
        if len(members) == math.prod(-(-n // c) for n, c in zip(count, grid)):
            yield start, count
        else:
            yield from (_cut([i * c for i, c in zip(member, grid)], grid, shape) for member in members.tolist())


def is_dense(dataset: h5d.DatasetID) -> bool:
    """True if all elements are stored."""
    if not has_chunks(dataset):
        return dataset.get_storage_size() > 0
    chunks = dataset.get_create_plist().get_chunk()
    return dataset.get_num_chunks() == math.prod(-(-n // c) for n, c in zip(dataset.shape, chunks))


def cells_of(dataset: h5d.DatasetID, grid: tuple) -> set[tuple]:
    """First elements of the chunks of another dataset of the same shape, with chunk extents `grid`,
    that overlap the stored elements of this one."""
    return {start for start, _ in boxes_of(dataset, grid, limit=0)}


def compared_boxes(one: h5d.DatasetID, other: h5d.DatasetID) -> Iterator[tuple[tuple, tuple]]:
    """The boxes that contain the stored elements of either of two datasets of the same shape."""
    yield from boxes_of(one)
    if not is_dense(one):
        yield from boxes_of(other)


def _cut(start, extents, shape) -> tuple[tuple, tuple]:
    """A box, clipped at the end of the dataset."""
    return tuple(start), tuple(min(n - a, extent) for a, n, extent in zip(start, shape, extents))


def _overlapping(offsets: np.ndarray, own: tuple, grid: tuple, shape: tuple) -> np.ndarray:
    """Grid indices of the chunks that overlap stored chunks of the extents `own`; each once."""
    ends = np.minimum(offsets + own, shape) - 1
    first, last = offsets // grid, ends // grid
    found = []
    for step in itertools.product(*(range(int(n) + 1) for n in (last - first).max(axis=0))):
        index = first + step
        found.append(index[(index <= last).all(axis=1)])
    return np.unique(np.concatenate(found), axis=0)
