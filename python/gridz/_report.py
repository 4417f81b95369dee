"""What is in a file of HDF5, dataset by dataset, and whether all of it can be read."""

from __future__ import annotations

import collections
import math
from typing import Iterator

import h5py
import numpy as np

import gridz
from gridz._repack import H5Z_ZFP, boxes
from gridz._zfp_header import mode_of
from gridz.filters import stored_codec

SAMPLE = 64
"""Chunks of a dataset whose frames are looked into."""

NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "LZF",
    32001: "Blosc", 32004: "LZ4", 32008: "Bitshuffle", 32013: "ZFP", 32015: "Zstandard", 32017: "SZ",
    32018: "FCIDECOMP", 32022: "Granular BitRound", 32023: "SZ3", 32026: "Blosc2", 32028: "SPERR",
    gridz.FILTER_ID: "gridz",
}  # fmt: skip


def datasets(file: h5py.File) -> list[h5py.Dataset]:
    """All datasets that are linked in a file, each once."""
    found: list[h5py.Dataset] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def chunks_of(dataset: h5py.Dataset) -> Iterator:
    """h5py's `StoreInfo` of each stored chunk: `chunk_offset`, `filter_mask`, `byte_offset`, `size`."""
    return (dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())) if dataset.chunks else iter(())


def describe(dataset: h5py.Dataset) -> dict:
    """A dataset in words and numbers. Blocks and bound are of at most `SAMPLE` chunks, if gridz has compressed it."""
    create = dataset.id.get_create_plist()
    filters = [create.get_filter(i) for i in range(create.get_nfilters())]
    numbers = [number for number, *_ in filters]
    codec, stored = stored_codec(dataset), dataset.id.get_storage_size()
    chunks = list(chunks_of(dataset))
    sizes = [chunk.size for chunk in chunks]
    n_bytes = dataset.nbytes if dataset.shape is not None else 0
    document = {
        "path": dataset.name,
        "shape": dataset.shape,
        "dtype": str(dataset.dtype),
        "chunk": dataset.chunks,
        "codec": codec and str(codec),
        "filters": [_name_of(number, cd_values) for number, _, cd_values, _ in filters],
        "array_bytes": n_bytes,
        "stored_bytes": stored,
        "ratio": n_bytes / stored if stored else None,
    }
    if sizes:
        document["chunk_bytes"] = {"min": min(sizes), "median": int(np.median(sizes)), "max": max(sizes)}
    if codec is not None and numbers == [gridz.FILTER_ID]:
        document.update(_frames(dataset, [chunk for chunk in chunks if chunk.filter_mask == 0]))
    return document


def _name_of(number: int, cd_values) -> str:
    """A filter's name, of ZFP with its mode."""
    mode = mode_of(cd_values) if number == H5Z_ZFP else ""
    return f"{NAMES.get(number, number)} {mode}".rstrip()


def _frames(dataset: h5py.Dataset, chunks: list) -> dict:
    """What the frames of some chunks, evenly chosen, tell of themselves; of `mgard`, also what there is to read of them."""
    blocks: collections.Counter = collections.Counter()
    bounds, parts, sample = [], [], chunks[:: math.ceil(len(chunks) / SAMPLE) or 1]
    for chunk in sample:
        frame = dataset.id.read_direct_chunk(chunk.chunk_offset)[1]
        blocks.update(gridz.inspect_blocks(frame))
        info = gridz.inspect(frame)
        bounds.append(info.bound)
        if info.codec == "mgard":
            parts.append(gridz.inspect_parts(frame))
    bound = max((bound for bound in bounds if bound is not None), default=None)
    read_less = {
        "layers": [_part(part, "bound") for part in zip(*(layers for layers, _ in parts))],
        "levels": [_part(part, "shape") for part in zip(*(levels for _, levels in parts))],
    }
    return {"sampled_chunks": len(sample), "blocks": dict(blocks), "bound": bound, **(read_less if parts else {})}


def _part(chunks: tuple, what: str) -> dict:
    """The same part of some chunks: the bytes of all, and the largest of what else is told."""
    return {"bytes": sum(part.frame_bytes for part in chunks), what: max(getattr(part, what) for part in chunks)}


def damage(dataset: h5py.Dataset, threads: int | None = None) -> Iterator[dict]:
    """Reads all of a dataset and yields where that fails: the first element of the chunk, or box, and the error."""
    parts: list = []
    if dataset.chunks:
        create = dataset.id.get_create_plist()
        direct = [create.get_filter(i)[0] for i in range(create.get_nfilters())] == [gridz.FILTER_ID]
        for chunk in chunks_of(dataset):
            is_frame = direct and chunk.filter_mask == 0
            parts.append((chunk.chunk_offset, dataset.chunks, is_frame))
    elif dataset.shape and dataset.size:
        parts = [(start, count, False) for start, count in boxes(dataset)]
    elif dataset.shape == ():
        parts = [((), (), False)]
    for start, count, is_frame in parts:
        try:
            if is_frame:
                gridz.decompress(dataset.id.read_direct_chunk(start)[1], threads=threads)
            else:
                dataset[tuple(slice(a, a + n) for a, n in zip(start, count))]
        except (gridz.Error, OSError, RuntimeError, ValueError) as error:
            yield {"path": dataset.name, "start": start, "error": " ".join(str(error).split())}
