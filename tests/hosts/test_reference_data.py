"""Real scientific arrays, written and read through h5py bit for bit."""

import hashlib
import json

import h5py
import numpy as np
import pytest

from support import (
    DENSE,
    FAST,
    GRIDZ,
    LORENZO,
    NDZIP,
    REFERENCE,
    STORED,
    frames,
    need_reference,
    reference_manifest,
    same,
    spec_of,
)

HEADER = 80
"""Largest number of bytes before a frame's payload, up to rank 5."""


def reference_arrays():
    """File -> dtype, shape and checksum of every raw array in the manifest."""
    arrays = {}
    for entry in (reference_manifest() or {"entries": []})["entries"]:
        if entry["kind"] == "array":
            arrays[entry["file"]] = entry["dtype"], tuple(entry["shape"]), entry["sha256"]
        for part, file in entry.get("files", {}).items():
            # A sparse matrix: three arrays of one axis.
            dtype = entry["data_dtype" if part == "data" else "index_dtype"]
            arrays[file] = dtype, (-1,), entry["sha256"][part]
    return arrays


ARRAYS = reference_arrays()


def load(name):
    dtype, shape, checksum = ARRAYS[name]
    content = (REFERENCE / name).read_bytes()
    assert checksum == hashlib.sha256(content).hexdigest(), f"{name} is not the file of the manifest"
    return np.frombuffer(content, dtype).reshape(shape)


def chunks_of(data):
    """Halves the longest extent until a chunk has at most 512 KiB: suited for reading in any
    direction."""
    chunks = list(data.shape)
    while np.prod(chunks) * data.itemsize > 1 << 19:
        longest = chunks.index(max(chunks))
        chunks[longest] = (chunks[longest] + 1) // 2
    return tuple(chunks)


def test_the_manifest_has_what_these_tests_are_about():
    need_reference()
    assert len(ARRAYS) >= 20
    assert any(dtype.startswith(">") for dtype, _, _ in ARRAYS.values())


LEVELS = {"default": None, "fast": (2, 0, 1), "dense": (2, 0, 2)}


@pytest.mark.parametrize("name", ARRAYS or ["no reference data"])
def test_through_h5py(tmp_path, name):
    need_reference()
    data = load(name)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for level, values in [*LEVELS.items(), ("ndzip", (1,)), ("stored", (0,))]:
            options = {"data": data, "compression": GRIDZ, "compression_opts": values}
            file.create_dataset(f"{level}/chunked", chunks=chunks_of(data), **options)
            file.create_dataset(f"{level}/whole", chunks=data.shape, **options)
    with h5py.File(tmp_path / "x.h5") as file:
        sizes = {}
        for level, group in file.items():
            for part, dataset in group.items():
                same(dataset[()], data)
                found = frames(dataset)
                chunk_bytes = np.prod(dataset.chunks) * data.itemsize
                assert all(len(frame) <= chunk_bytes + HEADER for frame in found)
                sizes[level, part] = sum(map(len, found))
                expected = {
                    "default": (LORENZO, FAST),
                    "fast": (LORENZO, FAST),
                    "dense": (LORENZO, DENSE),
                    "ndzip": (STORED, 0) if data.dtype.kind == "i" else (NDZIP, 0),
                    "stored": (STORED, 0),
                }[level]
                assert {spec_of(frame) for frame in found} == {expected}
        for part in ("chunked", "whole"):
            assert frames(file["default"][part]) == frames(file["fast"][part])
            assert sizes["dense", part] <= sizes["fast", part] < sizes["stored", part]


def test_of_the_default_less_is_left_than_of_ndzip(tmp_path):
    need_reference()
    stored = {None: 0, (1,): 0, (2, 0, 2): 0}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in [name for name in ARRAYS if ARRAYS[name][0][1] == "f"]:
            data = load(name)
            for values in stored:
                options = {"compression": GRIDZ, "compression_opts": values}
                dataset = file.create_dataset(f"{name} {values}", data=data, chunks=chunks_of(data), **options)
                file.flush()
                stored[values] += dataset.id.get_storage_size()
    assert stored[2, 0, 2] < stored[None] < stored[1,]


@pytest.mark.parametrize("name", [name for name in ARRAYS if ARRAYS[name][0][1] == "f"] or ["no reference data"])
def test_ndzip_is_no_larger_than_the_reference_implementation_makes_it(tmp_path, name):
    need_reference()
    known = json.loads((REFERENCE / "ndzip-ratios.json").read_text())["ratios"].get(name, {"ratio": 1})
    data = load(name)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=data.shape, compression=GRIDZ, compression_opts=(1,))
        file.flush()
        # The known ratios have four digits.
        assert file["x"].id.get_storage_size() <= (known["ratio"] + 0.00005) * data.nbytes + HEADER
