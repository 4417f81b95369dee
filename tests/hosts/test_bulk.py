"""Whole datasets by gridz_h5_write, gridz_h5_read and gridz_h5_copy, compared with chunk-by-chunk
reads and writes of h5py."""

import ctypes
import os

import h5py
import numpy as np
import pytest

from bulk import CANCELLED, CORRUPT, HOST, INVALID_ARGUMENT, UNSUPPORTED_JOB, Bulk, Failed, all_of
from capi import TYPES, WHEELS, Hdf5
from support import DENSE, FOLDER, GRIDZ, LORENZO, SPECS, QUANT, frames, noise, options, python, same, smooth, specials

FILTERS = {
    "lorenzo": {"compression": GRIDZ},
    "dense": {"compression": GRIDZ, "compression_opts": (LORENZO, 0, DENSE)},
    "ndzip": {"compression": GRIDZ, "compression_opts": (1, 0, 0)},
    "stored": {"compression": GRIDZ, "compression_opts": (0, 0, 0)},
    "quant": {"compression": GRIDZ, "compression_opts": options(QUANT, 1, 1e-3)},
    "shuffle": {"compression": GRIDZ, "shuffle": True},
}
"""Pipelines that the bulk layer processes itself."""
OTHERS = {
    "gzip": {"compression": "gzip"},
    "checksum": {"compression": GRIDZ, "fletcher32": True},
    "nothing": {},
}
"""Pipelines that it leaves to HDF5."""


@pytest.fixture(scope="module")
def bulk():
    return Bulk()


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        yield file


def stored(dataset):
    """The chunks of a dataset: offset -> (filter mask, stored bytes)."""
    found = {}
    for i in range(dataset.id.get_num_chunks()):
        offset = dataset.id.get_chunk_info(i).chunk_offset
        found[offset] = dataset.id.read_direct_chunk(offset)
    return {offset: (mask, bytes(data)) for offset, (mask, data) in found.items()}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_chunks_are_those_of_the_filter(bulk, file, name, threads):
    data = smooth("<f4", (50, 61, 70))
    for chunks in [(16, 16, 16), (50, 61, 70), (7, 100, 3), (1, 61, 70)]:
        chunks = tuple(map(min, chunks, data.shape))
        ours = file.create_dataset(f"ours {chunks}", data.shape, data.dtype, chunks=chunks, **FILTERS[name])
        theirs = file.create_dataset(f"theirs {chunks}", data=data, chunks=chunks, **FILTERS[name])
        bulk.write(ours, data, context=bulk.context(threads))
        assert stored(ours) == stored(theirs)
        same(bulk.read(theirs, all_of(theirs), context=bulk.context(threads)), theirs[:])


@pytest.mark.parametrize("name", [*WHEELS, "system"])
def test_every_libhdf5(name, tmp_path):
    hdf5 = Hdf5(name)
    bulk = Bulk(hdf5.library)
    for dtype in ["<f4", ">f8", ">i2", "<i4"]:
        data = smooth(dtype, (40, 33, 20))
        theirs = hdf5.write(tmp_path / "theirs.h5", data, (16, 16, 16))
        for _ in range(2):
            file, dataset = hdf5.create(tmp_path / "ours.h5", dtype, data.shape, (16, 16, 16))
            back = np.zeros_like(data)
            kind = hdf5.constant(TYPES[dtype])
            for function, array in [("gridz_h5_write_by", data), ("gridz_h5_read_by", back)]:
                bulk.move(getattr(bulk.library, function), dataset, array, None, kind, None, 0, None, 0)
            same(back, data)
            # Reads include what is in HDF5's cache, and later changes.
            turned = np.ascontiguousarray(data[::-1])
            hdf5.call("H5Dwrite", dataset, kind, 0, 0, 0, turned.ctypes.data)
            bulk.move(bulk.library.gridz_h5_read_by, dataset, back, None, kind, None, 0, None, 0)
            same(back, turned)
            bulk.move(bulk.library.gridz_h5_write_by, dataset, data, None, kind, None, 0, None, 0)
            hdf5.call("H5Dread", dataset, kind, 0, 0, 0, back.ctypes.data)
            same(back, data)
            part = np.ascontiguousarray(data[3:30, 5:9])
            bulk.move(bulk.library.gridz_h5_write_by, dataset, part, (3, 5, 0), kind, None, 0, None, 0)
            assert hdf5.call("H5Dget_storage_size", dataset) == theirs
            hdf5.call("H5Dclose", dataset)
            hdf5.call("H5Fclose", file)
            same(hdf5.read(tmp_path / "ours.h5", dtype, data.shape), data)
        with h5py.File(tmp_path / "ours.h5") as ours, h5py.File(tmp_path / "theirs.h5") as theirs:
            assert frames(ours["x"]) == frames(theirs["x"])


@pytest.mark.parametrize("name", [*FILTERS, *OTHERS])
def test_any_box_from_any_memory(bulk, file, name, rng):
    """Writes and reads boxes of a dataset alternately by bulk and h5py, with all kinds of strides
    in memory."""
    filters = {**FILTERS, **OTHERS}[name]
    for dtype in ["<f4", ">f4", "<f8", "<i2", ">u4", "<c8", "u1", "<f2"]:
        if name == "quant" and dtype != "<f4":
            continue
        for shape, chunks in [((20, 15, 9), (6, 4, 5)), ((100,), (17,)), ((5, 4, 3, 6), (2, 3, 3, 4)), ((7, 1, 8), (3, 1, 8))]:
            label = f"{dtype} {shape}"
            if name == "nothing":
                chunks = None
            fill = None if dtype == "<c8" else 3
            dataset = file.create_dataset(label, shape, dtype, chunks=chunks, fillvalue=fill, **filters)
            expected = np.full(shape, fill or 0, dtype)
            for turn in range(12):
                start = [int(rng.integers(0, n)) for n in shape]
                count = [int(rng.integers(1, n - s + 1)) for s, n in zip(start, shape)]
                box = tuple(slice(s, s + c) for s, c in zip(start, count))
                values = noise(dtype, count, rng) if dtype not in ("<f4", ">f4", "<f2", "<f8", "<c8") else smooth(dtype, count) + turn
                # Memory layouts that numpy can produce.
                memory = dtype if turn % 3 else np.dtype(dtype).newbyteorder()
                values = values.astype(memory)
                looks = [values, np.asfortranarray(values), np.repeat(values, 2, axis=-1)[..., ::2], values[::-1].copy()[::-1]]
                values = looks[turn % len(looks)]
                if turn % 5 == 4:
                    dataset[box] = values
                else:
                    bulk.write(dataset, values, start)
                expected[box] = values
                back = bulk.read(dataset, all_of(dataset, memory))
                # HDF5's cache may still hold the elements as they were before a lossy filter
                # changed them.
                dataset.id.refresh() if name == "quant" else None
                whole = dataset[:]
                same(back.astype(dtype), whole)
                into = looks[(turn + 1) % len(looks)]
                into = np.full(count, 0, memory, order="F") if turn % 2 else into.copy(order="K")
                same(bulk.read(dataset, into, start).astype(dtype), whole[box])
                if name == "quant":
                    assert np.abs(whole - expected).max() <= 1e-3
                else:
                    same(whole, expected)


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_every_bit_pattern(bulk, file, dtype, rng):
    for data in [specials(dtype, (30, 40)), noise(dtype, (30, 40), rng)]:
        for codec, level in SPECS:
            dataset = file.create_dataset(None, data.shape, dtype, chunks=(7, 13), compression=GRIDZ, compression_opts=(codec, 0, level))
            bulk.write(dataset, data)
            same(dataset[:], data)
            same(bulk.read(dataset, all_of(dataset)), data)


def test_what_was_not_written_is_the_fill_value(bulk, file):
    for fill, time in [(None, None), (7.5, None), (7.5, "never"), (None, "never"), (7.5, "alloc")]:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 4))
        plist.set_filter(GRIDZ, 0, ())
        if fill is not None:
            plist.set_fill_value(np.array(fill, "<f4"))
        if time is not None:
            plist.set_fill_time({"never": h5py.h5d.FILL_TIME_NEVER, "alloc": h5py.h5d.FILL_TIME_ALLOC}[time])
        both = []
        for _ in range(2):
            space = h5py.h5s.create_simple((10, 10))
            both.append(h5py.Dataset(h5py.h5d.create(file.id, None, h5py.h5t.IEEE_F32LE, space, plist)))
        ours, theirs = both
        part = np.arange(6, dtype="<f4").reshape(2, 3)
        bulk.write(ours, part, (3, 6))
        theirs[3:5, 6:9] = part
        assert stored(ours) == stored(theirs), (fill, time)
        for dataset in both:
            marked = np.full((10, 10), -1, "<f4")
            theirs.id.read(h5py.h5s.ALL, h5py.h5s.ALL, marked)
            back = np.full((10, 10), -1, "<f4")
            same(bulk.read(dataset, back), marked)
            swapped = np.full((10, 10), -1, ">f4")
            same(bulk.read(dataset, swapped).astype("<f4"), marked)


def left_out(dataset, chunk, data, mask, other):
    """Stores a chunk with a filter mask. libhdf5 2.0 assumes the mask is 0 until it has looked up
    another chunk."""
    dataset.id.write_direct_chunk(chunk, data, filter_mask=mask)
    dataset.id.read_direct_chunk(other)
    assert dataset.id.read_direct_chunk(chunk)[0] == mask


def test_masks_of_chunks_are_obeyed(bulk, file):
    data = smooth("<f4", (8, 8))
    shuffled = data.view("u1").reshape(-1, 4).T.tobytes()
    for filters, ways in [
        ({"compression": GRIDZ}, [(1, data.tobytes())]),
        ({"compression": GRIDZ, "shuffle": True}, [(2, shuffled), (3, data.tobytes())]),
    ]:
        for mask, raw in ways:
            dataset = file.create_dataset(None, (16, 8), "<f4", chunks=(8, 8), **filters)
            dataset[8:] = data
            left_out(dataset, (0, 0), raw, mask, (8, 0))
            expected = np.concatenate([data, data])
            same(dataset[:], expected)
            same(bulk.read(dataset, all_of(dataset)), expected)
            bulk.write(dataset, data[:3], (5, 0))
            expected[5:8] = data[:3]
            same(dataset[:], expected)
    # HDF5 skips a shuffle that fails; gridz must still undo its own part.
    plain = file.create_dataset("plain", (8, 8), "<f4", chunks=(8, 8), compression=GRIDZ)
    plain[:] = np.frombuffer(data.tobytes(), "u1").reshape(4, -1).T.copy().view("<f4").reshape(8, 8)
    dataset = file.create_dataset("left out", (16, 8), "<f4", chunks=(8, 8), compression=GRIDZ, shuffle=True)
    dataset[8:] = data
    left_out(dataset, (0, 0), stored(plain)[0, 0][1], 1, (8, 0))
    same(bulk.read(dataset, all_of(dataset)), dataset[:])


def test_datasets_that_grow_and_shrink(bulk, file):
    ours, theirs = (
        file.create_dataset(name, (10, 7), "<i4", chunks=(4, 4), maxshape=(None, None), compression=GRIDZ, fillvalue=-5)
        for name in ("ours", "theirs")
    )
    for shape in [(10, 7), (13, 9), (6, 9), (6, 3), (30, 30), (0, 4), (5, 5)]:
        data = smooth("<i4", shape)
        for dataset in (ours, theirs):
            dataset.resize(shape)
        same(bulk.read(ours, all_of(ours)), theirs[:])
        bulk.write(ours, data)
        theirs[:] = data
        assert stored(ours) == stored(theirs), shape
        same(ours[:], data)


def test_types_that_are_bytes(bulk, file, rng):
    compound = np.dtype([("a", "<f4"), ("b", ">i2"), ("c", "S5"), ("d", "<f8", (2,))])
    for dtype in [compound, np.dtype("S7"), np.dtype("V6"), np.dtype(("<f4", (3, 2))), np.dtype(bool)]:
        kind = h5py.h5t.py_create(dtype, logical=True)
        space = h5py.h5s.create_simple((11, 5))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 3))
        plist.set_filter(GRIDZ, 0, ())
        both = [h5py.Dataset(h5py.h5d.create(file.id, None, kind, space, plist)) for _ in range(2)]
        data = np.zeros((11, 5, dtype.itemsize), "u1")
        data[:] = rng.integers(0, 2, data.shape)
        both[0].id.write(h5py.h5s.ALL, h5py.h5s.ALL, data, kind)
        raw = np.zeros((11, 5), f"V{dtype.itemsize}")
        raw.view("u1")[:] = data.reshape(11, -1)
        bulk.write(both[1], raw, kind=kind)
        assert stored(both[0]) == stored(both[1]), dtype
        back = np.zeros_like(raw)
        same(bulk.read(both[0], back, kind=kind), raw)


def test_what_needs_conversion_goes_hdf5s_way(bulk, file):
    data = smooth("<f8", (21, 17))
    for dtype, chunks in [("<f4", (5, 8)), ("<i4", (21, 1))]:
        for memory in [data, np.asfortranarray(data), data[::-1]]:
            dataset = file.create_dataset(None, data.shape, dtype, chunks=chunks, compression=GRIDZ)
            bulk.write(dataset, memory)
            same(dataset[:], memory.astype(dtype))
            back = np.empty_like(memory)
            same(bulk.read(dataset, back), memory.astype(dtype).astype("<f8"))
    text = file.create_dataset("text", (5,), h5py.string_dtype(), chunks=(2,), compression=GRIDZ)
    words = [ctypes.create_string_buffer(word) for word in (b"one", b"two", b"three", b"four", b"five")]
    pointers = np.array([ctypes.addressof(word) for word in words], "u8")
    bulk.write(text, pointers, kind=text.id.get_type())
    assert list(text.asstr()[:]) == ["one", "two", "three", "four", "five"]


def test_scalars_and_nothing(bulk, file):
    scalar = file.create_dataset("scalar", (), "<f8")
    bulk.write(scalar, np.array(2.5))
    assert scalar[()] == 2.5 == bulk.read(scalar, np.array(0.0))[()]
    empty = file.create_dataset("empty", (0, 5), "<f4", chunks=(2, 5), maxshape=(None, 5), compression=GRIDZ)
    bulk.write(empty, np.zeros((0, 5), "<f4"))
    bulk.read(empty, np.zeros((0, 5), "<f4"))
    some = file.create_dataset("some", (4, 5), "<f4", chunks=(2, 5), compression=GRIDZ)
    bulk.write(some, np.zeros((4, 0), "<f4"), (0, 3))
    assert stored(some) == {}
    null = file.create_dataset("null", data=h5py.Empty("f4"))
    with pytest.raises(Failed, match="null dataspace"):
        bulk.write(null, np.zeros((), "<f4"))


def test_mistakes_have_names(bulk, file):
    dataset = file.create_dataset("x", (10, 10), "<f4", chunks=(4, 4), compression=GRIDZ)
    data = np.zeros((4, 4), "<f4")
    for array, start, text in [(data, (7, 0), "along axis 0 it has 4 elements from 7 on, but the dataset has 10"), (data, (0, 1 << 60), "axis 1")]:
        with pytest.raises(Failed, match=text) as failure:
            bulk.write(dataset, array, start)
        assert failure.value.status == INVALID_ARGUMENT
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(20, "<f4"), (10, 10), (4, 4))
    with pytest.raises(Failed, match="overlap"):
        bulk.read(dataset, overlapping)
    with pytest.raises(Failed, match="mem_type"):
        bulk.write(dataset, np.zeros((10, 10), "<f4"), kind=type("kind", (), {"id": 12345}))
    closed = type("closed", (), {"id": type("id", (), {"id": 999999})})
    with pytest.raises(Failed, match="H5Dget_space failed"):
        bulk.write(closed, data)
    short = Bulk()
    short.functions[3].address = None
    with pytest.raises(Failed, match="the HDF5 function .* was not found"):
        short.write(dataset, np.zeros((10, 10), "<f4"))
    assert stored(dataset) == {}
    # A function whose name is missing from an older header's table is found in the library of the
    # others.
    short.functions[3].name = b"H5nothing"
    short.write(dataset, np.zeros((10, 10), "<f4"))
    assert len(stored(dataset)) == 9


def test_damage_is_found(bulk, file):
    data = smooth("<f4", (64, 64))
    dataset = file.create_dataset("x", data=data, chunks=(16, 16), compression=GRIDZ)
    good = stored(dataset)[16, 32][1]
    for bad in [good[:-1], good + b"x", good[:100], b"", bytes([good[0] ^ 1]) + good[1:], good[:-5] + bytes([good[-5] ^ 8]) + good[-4:]]:
        if bad:
            dataset.id.write_direct_chunk((16, 32), bad)
            with pytest.raises(Failed):
                bulk.read(dataset, all_of(dataset))
            with pytest.raises(Failed):
                bulk.write(dataset, data[:1, :1], (17, 33))
            same(bulk.read(dataset, np.empty((16, 64), "<f4"), (0, 0)), data[:16])
    # No chunk of a gridz dataset is that long, so no memory is allocated for it.
    dataset.id.write_direct_chunk((16, 32), bytes(5000))
    with pytest.raises(Failed, match="a chunk has 5000 encoded bytes") as failure:
        bulk.read(dataset, all_of(dataset))
    assert failure.value.status == CORRUPT
    # Writing the whole chunk does not need its old contents.
    bulk.write(dataset, data[16:32], (16, 0))
    same(dataset[:], data)


def test_progress_and_its_end(bulk, file):
    data = smooth("<f4", (40, 40))
    for filters in (FILTERS["lorenzo"], OTHERS["gzip"]):
        dataset = file.create_dataset(None, data.shape, "<f4", chunks=(8, 8), **filters)
        calls = []
        bulk.write(dataset, data, progress=lambda *now: calls.append(now))
        bulk.read(dataset, all_of(dataset), progress=lambda *now: calls.append(now))
        assert all(total == data.nbytes for _, total in calls)
        assert [now for now, _ in calls].count(data.nbytes) == 2
    dataset = file.create_dataset(None, data.shape, "<f4", chunks=(8, 8), compression=GRIDZ, fillvalue=9)
    with pytest.raises(Failed, match="progress") as failure:
        bulk.write(dataset, data, progress=lambda done, _: done < 7 * 256)
    assert failure.value.status == CANCELLED
    assert len(stored(dataset)) == 7
    expected = np.full_like(data, 9)
    expected[:8], expected[8:16, :16] = data[:8], data[8:16, :16]
    same(dataset[:], expected)


def test_a_copy_is_the_same_whatever_it_is_made_of(bulk, file, tmp_path):
    data = smooth("<f4", (50, 60))
    makers = [
        ({"chunks": (16, 16), **FILTERS["lorenzo"]}, "<f4"),
        ({"chunks": (16, 16), **FILTERS["lorenzo"]}, "<f4"),
        ({"chunks": (7, 60), **FILTERS["shuffle"]}, ">f4"),
        ({"chunks": (50, 3), **OTHERS["gzip"]}, "<f4"),
        ({}, "<f4"),
        ({"chunks": (16, 16), **FILTERS["dense"]}, "<f8"),
    ]
    for from_options, from_type in makers:
        src = file.create_dataset(None, data.shape, from_type, fillvalue=4, **from_options)
        src[:33, :50] = data[:33, :50]
        for to_options, to_type in makers:
            dst = file.create_dataset(None, data.shape, to_type, **to_options)
            dst[40:] = 1
            for limit in (0, 1000):
                bulk.copy(src, dst, memory_limit=limit)
                same(dst[:], src[:].astype(to_type))
    same_kind = file.create_dataset("same kind", data.shape, "<f4", **makers[0][0])
    src = file.create_dataset("src", data.shape, "<f4", **makers[0][0])
    src[:] = data
    left_out(src, (16, 16), data[16:32, 16:32].tobytes(), 1, (0, 0))
    for _ in range(2):
        bulk.copy(src, same_kind)
        same(same_kind[:], data)
        copied = stored(same_kind)
        assert copied.pop((16, 16))[0] == 0
        assert copied == {offset: chunk for offset, chunk in stored(src).items() if offset != (16, 16)}
        # A chunk for which a filter was skipped gets all filters when it is rewritten.
        left_out(same_kind, (16, 16), data[16:32, 16:32].tobytes(), 1, (0, 0))
    other = file.create_dataset("other", (50, 61), "<f4")
    with pytest.raises(Failed, match=r"different extents, \[50, 60\] and \[50, 61\]"):
        bulk.copy(src, other)
    text = file.create_dataset("text", (50, 60), h5py.string_dtype())
    with pytest.raises(Failed, match="variable length") as failure:
        bulk.copy(text, src)
    assert failure.value.status == UNSUPPORTED_JOB


def test_new_members_of_compounds_are_zeros(bulk, file):
    for options in ({}, {"chunks": (7, 3), "compression": GRIDZ}):
        src = file.create_dataset(None, (20, 10), [("a", "<i4")], **options)
        dst = file.create_dataset(None, (20, 10), [("a", "<i4"), ("b", "<i8")], **options)
        src["a"] = np.arange(200).reshape(20, 10)
        dst[...] = np.full((20, 10), -1, "<i4").astype(dst.dtype)
        bulk.copy(src, dst)
        assert (dst["a"] == src["a"]).all() and not dst["b"].any()


def test_a_sparse_dataset_stays_sparse(bulk, file):
    options = {"shape": (1000, 100), "dtype": "<f4", "chunks": (10, 10), "compression": GRIDZ, "fillvalue": 2}
    src, dst, written = (file.create_dataset(name, **options) for name in ("src", "dst", "written"))
    src[500:510, 20:30] = 7
    bulk.copy(src, dst)
    assert stored(dst) == stored(src) and len(stored(dst)) == 1
    written[:20] = 5
    bulk.copy(src, written)
    same(written[:], src[:])


def test_what_a_transfer_list_says_is_done(bulk, file):
    data = smooth("<f4", (16, 16))
    dataset = file.create_dataset("x", data=data, chunks=(8, 8), compression=GRIDZ)
    doubles, unchecked = (h5py.h5p.create(h5py.h5p.DATASET_XFER) for _ in range(2))
    assert bulk.hdf5.H5Pset_data_transform(ctypes.c_int64(doubles.id), b"2*x") >= 0
    same(bulk.read(dataset, all_of(dataset), dxpl=doubles.id), data * 2)
    bulk.write(dataset, data, dxpl=doubles.id)
    same(dataset[:], data * 2)
    with pytest.raises(Failed, match="transform would be applied twice"):
        bulk.copy(dataset, dataset, dxpl=doubles.id)
    # A frame whose payload checksum does not match its header, and which is otherwise valid.
    plain = file.create_dataset("plain", data=data, chunks=(8, 8), compression=GRIDZ, compression_opts=(0, 0, 0))
    frame = bytearray(stored(plain)[0, 0][1])
    frame[-1] ^= 0x40
    plain.id.write_direct_chunk((0, 0), bytes(frame))
    with pytest.raises(Failed) as failure:
        bulk.read(plain, all_of(plain))
    assert failure.value.status == CORRUPT
    assert bulk.hdf5.H5Pset_edc_check(ctypes.c_int64(unchecked.id), 0) >= 0
    assert (bulk.read(plain, all_of(plain), dxpl=unchecked.id) != data).sum() == 1


def test_hdf5s_reasons_are_reported(bulk, file, tmp_path):
    data = smooth("<f4", (16, 16))
    file.create_dataset("x", data=data, chunks=(8, 8), compression=GRIDZ)
    path = file.filename
    file.close()
    with h5py.File(path) as again, pytest.raises(Failed, match=r"H5Dwrite_chunk failed; HDF5 says: .*\w") as failure:
        bulk.write(again["x"], data)
    assert failure.value.status == HOST and "write" in failure.value.text.split("says:")[1]


def test_what_hdf5_has_not_written_yet_counts(bulk, file):
    """Chunks in HDF5's cache are flushed before they are read, and do not overwrite later
    writes."""
    data = smooth("<f4", (32, 32))
    dataset = file.create_dataset("x", data.shape, "<f4", chunks=(8, 8), compression=GRIDZ)
    for turn in range(4):
        dataset[3 + turn : 20, 5:17] = data[3 + turn : 20, 5:17] + turn
        seen = dataset[:]
        same(bulk.read(dataset, all_of(dataset)), seen)
        dataset[9:12, 2:4] = 5
        seen[9:12, 2:4] = 5
        bulk.write(dataset, data[10:30, 1:30], (10, 1))
        seen[10:30, 1:30] = data[10:30, 1:30]
        same(dataset[:], seen)
    path = file.filename
    file.close()
    with h5py.File(path) as again:
        same(again["x"][:], seen)


def test_files_of_all_kinds(bulk, tmp_path):
    data = smooth("<f4", (40, 40))
    for name, options in {
        "user block": {"userblock_size": 1024},
        "latest": {"libver": "latest"},
        "core": {"driver": "core"},
        "paged": {"fs_strategy": "page", "fs_page_size": 4096},
    }.items():
        with h5py.File(tmp_path / f"{name}.h5", "w", **options) as file:
            for maxshape in [None, (None, 40), (None, None)]:
                dataset = file.create_dataset(None, data.shape, "<f4", chunks=(9, 9), maxshape=maxshape, compression=GRIDZ)
                bulk.write(dataset, data[:, 1:], (0, 1))
                bulk.write(dataset, data[:, :1], (0, 0))
                same(dataset[:], data)
                same(bulk.read(dataset, all_of(dataset)), data)


FILES = {
    "sec2": {},
    "user block": {"userblock_size": 1024},
    "latest": {"libver": "latest"},
    "paged": {"fs_strategy": "page", "fs_page_size": 4096},
}


@pytest.mark.parametrize("name", FILES)
def test_threads_read_chunks_of_a_file_that_is_only_read(bulk, tmp_path, name):
    """144 chunks, some never written and some without filters; then damaged ones."""
    path, data = tmp_path / "x.h5", smooth("<f4", (120, 120))
    with h5py.File(path, "w", **FILES[name]) as file:
        for filters in ("lorenzo", "shuffle"):
            dataset = file.create_dataset(filters, data.shape, "<f4", chunks=(10, 10), fillvalue=7, **FILTERS[filters])
            dataset[:, :50] = data[:, :50]
            dataset[:, 70:] = data[:, 70:]
        part = np.ascontiguousarray(data[20:30, 30:40])
        left_out(file["lorenzo"], (20, 30), part.tobytes(), 1, (0, 0))
    with h5py.File(path) as file:
        for dataset in file.values():
            assert dataset.id.get_num_chunks() >= 100
            for threads in (1, 3):
                same(bulk.read(dataset, all_of(dataset), context=bulk.context(threads)), dataset[:])
                same(bulk.read(dataset, np.empty((97, 90), "<f4"), (11, 17), context=bulk.context(threads)), dataset[11:108, 17:107])
        chunks = [file["lorenzo"].id.get_chunk_info(i) for i in range(file["lorenzo"].id.get_num_chunks())]
        last = max((chunk for chunk in chunks if chunk.filter_mask == 0), key=lambda chunk: chunk.byte_offset)
    whole = path.read_bytes()
    frame = stored_frame(path, last.chunk_offset)
    at = whole.index(frame)  # the other dataset comes later and may have the same frame
    for damaged, match in [
        (whole[: at + 40] + bytes([whole[at + 40] ^ 1]) + whole[at + 41 :], "checksum"),
        (whole[:at] + bytes(len(frame)) + whole[at + len(frame) :], "frame"),
    ]:
        path.write_bytes(damaged)
        with h5py.File(path) as file, pytest.raises(Failed, match=match) as failure:
            bulk.read(file["lorenzo"], all_of(file["lorenzo"]))
        assert failure.value.status == CORRUPT


def stored_frame(path, offset):
    with h5py.File(path) as file:
        return bytes(file["lorenzo"].id.read_direct_chunk(offset)[1])


def test_one_thread_reads_other_files_and_says_why(tmp_path):
    code = """if True:
        import sys
        import h5py, numpy as np
        from bulk import Bulk, all_of
        path, mode, driver = sys.argv[1:4]
        with h5py.File(path, mode, driver=driver) as file:
            assert (Bulk().read(file["x"], all_of(file["x"])) == np.arange(6400.0).reshape(80, 80)).all()
        """
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(6400.0).reshape(80, 80), chunks=(10, 10), compression=GRIDZ)
    reasons = {
        ("r", "sec2"): "",
        ("r+", "sec2"): "its file may be written meanwhile",
        ("r", "core"): "its file driver does not use a file descriptor",
    }
    for (mode, driver), reason in reasons.items():
        done = python(code, tmp_path / "x.h5", mode, driver, GRIDZ_LOG="info", PYTHONPATH=os.path.dirname(__file__))
        said = [line for line in done.stderr.splitlines() if "one thread reads the chunks" in line]
        assert (said == []) if not reason else (len(said) == 1 and reason in said[0]), done.stderr


def test_few_bytes_of_memory(bulk, file):
    data = smooth("<f4", (100, 100))
    dataset = file.create_dataset("x", data.shape, "<f4", chunks=(10, 10), compression=GRIDZ)
    for limit in (1, 1000, 10_000):
        bulk.write(dataset, data, memory_limit=limit)
        same(bulk.read(dataset, all_of(dataset), memory_limit=limit), data)


def test_nothing_that_was_flushed_is_lost(tmp_path):
    """A process that is killed while it writes keeps all flushed data, as with H5Dwrite on the same
    schedule.

    TEST_KILLS: number of processes to kill for each of the two."""
    code = """
        import os, signal, sys, threading
        import h5py, numpy as np
        from bulk import Bulk
        from support import GRIDZ, smooth
        path, after, way = sys.argv[1], float(sys.argv[2]), sys.argv[3]
        bulk = Bulk()
        with h5py.File(path, "w") as file:
            shape = (40, 64, 64)
            dataset = file.create_dataset("x", shape, "<f4", chunks=(1, 32, 32), compression=GRIDZ, fillvalue=-1)
            for step in range(40):
                data = smooth("<f4", (1, 64, 64)) + np.float32(step)
                if way == "bulk":
                    bulk.write(dataset, data, (step, 0, 0))
                else:
                    dataset[step] = data[0]
                file.flush()
                print(step, flush=True)
                if step == 5:
                    threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    """
    rng = np.random.default_rng(11)
    delays = rng.uniform(0, 0.025, int(os.environ.get("TEST_KILLS", "8")))
    lost = {"bulk": [], "H5Dwrite": []}
    reached = {"bulk": [], "H5Dwrite": []}
    for i, delay in enumerate(delays):
        for way in lost:
            path = tmp_path / f"{way} {i}.h5"
            result = python(code, path, delay, way, check=False, PYTHONPATH=FOLDER)
            flushed = int(result.stdout.split()[-1])
            reached[way].append(flushed)
            try:
                with h5py.File(path, "r") as file:
                    found = file["x"][: flushed + 1]
                wanted = smooth("<f4", (1, 64, 64)) + np.arange(flushed + 1, dtype="<f4")[:, None, None]
                is_there = np.array_equal(found, wanted)
            except OSError:
                is_there = False
            if not is_there:
                lost[way].append((i, flushed))
            path.unlink()
    assert min(reached["bulk"]) < 39 and min(reached["H5Dwrite"]) < 39, f"no process was killed while it wrote: {reached}"
    # HDF5 itself may lose data when it is killed during a flush.
    assert len(lost["bulk"]) <= len(lost["H5Dwrite"]), f"data lost, (process, flushed step): {lost}"


def test_memory_is_for_a_few_chunks(tmp_path):
    """A process's buffer memory does not grow with the dataset, and stays below the configured
    limit."""
    code = """
        import resource, sys
        import h5py, numpy as np
        from bulk import Bulk
        from support import GRIDZ, smooth
        path, limit = sys.argv[1], int(sys.argv[2])
        bulk, data = Bulk(), np.empty((96, 512, 512), "<f4")
        data[:] = smooth("<f4", (96, 1, 512))
        back = np.zeros_like(data)
        with h5py.File(path, "w") as file:
            options = {"chunks": (8, 256, 256), "compression": GRIDZ}
            bulk.write(file.create_dataset("first", (8, 512, 512), "<f4", **options), data[:8])
            dataset = file.create_dataset("x", data.shape, "<f4", **options)
            file.flush()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bulk.write(dataset, data, context=bulk.context(4), memory_limit=limit)
            bulk.read(dataset, back, context=bulk.context(4), memory_limit=limit)
            assert (back == data).all()
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
    """
    for limit in (16 << 20, 64 << 20):
        grown = int(python(code, tmp_path / f"{limit}.h5", limit, PYTHONPATH=FOLDER).stdout)
        # Allowance for the threads' stacks and buffers, and for HDF5's caches.
        assert grown < limit + (24 << 20), f"{grown >> 20} MiB of {limit >> 20}"
