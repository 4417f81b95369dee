"""Real scientific arrays, written and read through h5py bit for bit."""

import hashlib
import json

import h5py
import numpy as np
import pytest

from support import GRIDZ, REFERENCE, STORED, codec_of, frames, need_reference, reference_manifest, same

HEADER = 80
"""Most bytes a frame has before its payload, up to rank 5."""


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
    """Halves the longest extent until a chunk has at most 512 KiB: good for reading in any direction."""
    chunks = list(data.shape)
    while np.prod(chunks) * data.itemsize > 1 << 19:
        longest = chunks.index(max(chunks))
        chunks[longest] = (chunks[longest] + 1) // 2
    return tuple(chunks)


def test_the_manifest_has_what_these_tests_are_about():
    need_reference()
    assert len(ARRAYS) >= 20
    assert any(dtype.startswith(">") for dtype, _, _ in ARRAYS.values())


@pytest.mark.parametrize("name", ARRAYS or ["no reference data"])
def test_through_h5py(tmp_path, name):
    need_reference()
    data = load(name)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("chunked", data=data, chunks=chunks_of(data), compression=GRIDZ)
        file.create_dataset("whole", data=data, chunks=data.shape, compression=GRIDZ)
    with h5py.File(tmp_path / "x.h5") as file:
        for dataset in file.values():
            same(dataset[()], data)
            chunk_bytes = np.prod(dataset.chunks) * data.itemsize
            assert all(len(frame) <= chunk_bytes + HEADER for frame in frames(dataset))
            if data.dtype.kind == "i":
                assert {codec_of(frame) for frame in frames(dataset)} == {STORED}


@pytest.mark.parametrize("name", [name for name in ARRAYS if ARRAYS[name][0][1] == "f"] or ["no reference data"])
def test_no_larger_than_the_reference_implementation_makes_it(tmp_path, name):
    need_reference()
    known = json.loads((REFERENCE / "ndzip-ratios.json").read_text())["ratios"].get(name, {"ratio": 1})
    data = load(name)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=data.shape, compression=GRIDZ)
        file.flush()
        # The ratios have four digits.
        assert file["x"].id.get_storage_size() <= (known["ratio"] + 0.00005) * data.nbytes + HEADER
