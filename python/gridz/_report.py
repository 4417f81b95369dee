"""Describes an HDF5 file, dataset by dataset, and checks whether all of it can be read."""

from __future__ import annotations

import collections
import contextlib
import math
from typing import Iterator

import h5py
import numpy as np
from h5py import h5d, h5t

import gridz
from gridz._chunks import boxes_of, chunks_of, frames_of, has_chunks
from gridz._libhdf5 import elements, holds, numbers_of
from gridz._pipeline import H5Z_ZFP, NAMES, missing_filters, pipeline_of
from gridz._tree import PROBLEMS, Found, reason_of
from gridz._verify import is_in_file
from gridz._zfp_header import mode_of
from gridz.filters import stored_codec

SAMPLE = 64
"""Largest number of chunks of a dataset whose frames are inspected."""

ERRORS = (gridz.Error, *PROBLEMS)
"""Errors that a damaged or unusual dataset may raise; the other datasets are listed
nevertheless."""


def describe(found: Found) -> dict:
    """Describes a dataset. Block kinds and bound are those of at most `SAMPLE` chunks, if gridz has
    compressed it.

    Unknown values are None, and "error" has the reason.
    """
    document: dict = {"path": found.path, "shape": None, "dtype": None, "chunk": None, "codec": None, "filters": []}
    document.update({"array_bytes": None, "stored_bytes": None, "ratio": None})
    if found.id is None:
        return {**document, "error": found.error}
    try:
        for part in _described(found.id):
            document.update(part)
    except ERRORS as error:
        document["error"] = reason_of(error)
    return document


def _described(dataset: h5d.DatasetID) -> Iterator[dict]:
    """The parts of the description; those that always succeed come first."""
    kind, create = dataset.get_type(), dataset.get_create_plist()
    shape = h5py.Dataset(dataset).shape
    n_bytes = math.prod(shape) * kind.get_size() if shape is not None else 0
    yield {"shape": shape, "dtype": type_text(kind), "chunk": create.get_chunk() if has_chunks(dataset) else None}
    filters = pipeline_of(dataset)
    yield {"filters": [_name_of(number, cd_values) for number, _, cd_values in filters]}
    stored, has_pointers = dataset.get_storage_size(), holds(kind, h5t.VLEN)  # the data behind pointers is stored elsewhere
    ratio = n_bytes / stored if stored and not has_pointers and is_in_file(dataset) else None
    yield {"array_bytes": n_bytes, "stored_bytes": stored, "ratio": ratio}
    codec = stored_codec(h5py.Dataset(dataset))
    yield {"codec": codec and str(codec)}
    chunks = chunks_of(dataset)
    sizes = [chunk.size for chunk in chunks]
    if sizes:
        yield {"chunk_bytes": {"min": min(sizes), "median": int(np.median(sizes)), "max": max(sizes)}}
    if codec is not None and len(filters) == 1:
        yield _frames(dataset, frames_of(dataset))


def type_text(kind: h5t.TypeID) -> str:
    """The element type: NumPy's name for numbers, a description for types that NumPy lacks or has
    no short name for."""
    found, size = kind.get_class(), kind.get_size()
    if found == h5t.ARRAY:
        return f"{type_text(kind.get_super())} {'x'.join(map(str, kind.get_array_dims()))}"
    if found == h5t.VLEN:
        return f"sequences of {type_text(kind.get_super())}"
    if found == h5t.STRING:
        return "string" if kind.is_variable_str() else f"S{size}"
    if found == h5t.REFERENCE:
        return "reference"
    if found == h5t.OPAQUE:
        tag = kind.get_tag().decode(errors="backslashreplace")
        return f"opaque, {size} bytes{f', {tag}' if tag else ''}"
    try:
        if found not in (h5t.BITFIELD, h5t.TIME) and kind.dtype.itemsize == size and kind.dtype.names is None:
            return str(kind.dtype)
    except (TypeError, ValueError, RuntimeError):
        pass
    if found == h5t.COMPOUND:
        members = (
            f"{kind.get_member_name(i).decode(errors='surrogateescape')}: {type_text(kind.get_member_type(i))}"
            for i in range(kind.get_nmembers())
        )
        return f"{{{', '.join(members)}}}"
    name = {h5t.INTEGER: "integer", h5t.FLOAT: "float", h5t.BITFIELD: "bits", h5t.TIME: "time", h5t.ENUM: "enumeration"}
    return f"{name.get(found, f'class {found}')}, {size} bytes"


def _name_of(number: int, cd_values) -> str:
    """A filter's name; for ZFP, with its mode."""
    mode = mode_of(cd_values) if number == H5Z_ZFP else ""
    return f"{NAMES.get(number, number)} {mode}".rstrip()


def _frames(dataset: h5d.DatasetID, chunks: list) -> dict:
    """The information in the frames of some evenly chosen chunks; for `multigrid`, also the parts that
    can be read separately.

    "stored_chunks" counts frames of uncompressed elements. Blocks are counted for codecs that have
    several kinds.
    """
    blocks: collections.Counter = collections.Counter()
    bounds, parts, n_stored, sample = [], [], 0, chunks[:: math.ceil(len(chunks) / SAMPLE) or 1]
    for chunk in sample:
        try:
            frame = dataset.read_direct_chunk(chunk.chunk_offset)[1]
            info = gridz.inspect(frame)
            bounds.append(info.bound)
            n_stored += info.codec == "stored"
            if info.codec == "multigrid":
                parts.append(gridz.inspect_parts(frame))
            with contextlib.suppress(gridz.UnsupportedJob):  # all blocks of this codec are of one kind
                blocks.update(gridz.inspect_blocks(frame))
        except ERRORS as error:
            raise gridz.Corrupt(f"chunk {chunk.chunk_offset}: {reason_of(error)}") from error
    bound = max((bound for bound in bounds if bound is not None), default=None)
    read_less = {
        "layers": [_part(part, "bound") for part in zip(*(layers for layers, _ in parts))],
        "levels": [_part(part, "shape") for part in zip(*(levels for _, levels in parts))],
    }
    counts = {"sampled_chunks": len(sample), "stored_chunks": n_stored, "blocks": dict(blocks)}
    return {**counts, "bound": bound, **(read_less if parts else {})}


def _part(chunks: tuple, what: str) -> dict:
    """The same part of some chunks: the total bytes, and the maximum of the other figure."""
    return {"bytes": sum(part.frame_bytes for part in chunks), what: max(getattr(part, what) for part in chunks)}


def problems(found: Found, threads: int | None = None) -> Iterator[dict]:
    """Reads all of a dataset and yields the problems: "path", "start" (the first element of the
    chunk or box, or None), "error", and "missing", True if this machine lacks a filter or a file,
    False if the data is damaged."""
    problem = {"path": found.path, "start": None, "missing": False}
    if found.id is None:
        yield {**problem, "error": found.error}
        return
    try:
        missing = missing_filters(found.id)
        parts = [] if missing else list(_parts(found.id))
    except ERRORS as error:
        yield {**problem, "error": reason_of(error)}
        return
    if missing:
        yield {**problem, "missing": True, "error": missing}
    for start, count, is_frame in parts:
        try:
            if is_frame:
                gridz.decompress(found.id.read_direct_chunk(start)[1], threads=threads)
            elif numbers_of(found.id.get_type()) is not None and start:
                gridz.h5.read(found.dataset, start=start, count=count, threads=threads)
            else:
                with elements(found.id, start, count):
                    pass
        except ERRORS as error:
            outside = found.id.get_create_plist().get_external_count() > 0
            text = f"{reason_of(error)}{'; its elements are in external files' if outside else ''}"
            yield {**problem, "start": start, "missing": outside, "error": text}


def _parts(dataset: h5d.DatasetID) -> Iterator[tuple[tuple, tuple, bool]]:
    """First element and extents of everything that is stored, chunk by chunk, and True if it is a
    frame of gridz."""
    if not has_chunks(dataset):
        yield from ((start, count, False) for start, count in boxes_of(dataset))
        return
    extents, frames = dataset.get_create_plist().get_chunk(), {chunk.chunk_offset for chunk in frames_of(dataset)}
    for chunk in chunks_of(dataset):
        start = chunk.chunk_offset
        yield start, tuple(min(c, n - a) for c, n, a in zip(extents, dataset.shape, start)), start in frames
