"""Progressive reads of datasets (coarser grids, fewer layers) by gridz_h5_read_progressive,
compared with h5py and with the frames of the chunks."""

import ctypes
import os
from ctypes import c_double, c_size_t, c_uint32, c_void_p

import h5py
import numpy as np
import pytest

from bulk import CANCELLED, CORRUPT, ERROR, HOST, INVALID_ARGUMENT, LAYERS, LEVEL, UNSUPPORTED_JOB, Bulk, Failed
from capi import TYPES, WHEELS, Hdf5
from support import GRIDZ, MULTIGRID, codec_of, noise, options, python, same

ABS, RMS = 1, 6
TRUNCATED = 201
BOUND = 1e-3


@pytest.fixture(scope="module")
def bulk():
    return Bulk()


@pytest.fixture
def file(tmp_path):
    # No chunk cache: HDF5 would return the elements from it as they were before compression.
    with h5py.File(tmp_path / "x.h5", "w", rdcc_nbytes=0) as file:
        yield file


def waves(dtype, shape):
    """A smooth signal along each axis, of amplitude 1."""
    axes = np.meshgrid(*[np.linspace(0, 2 + n / 20, n) for n in shape], indexing="ij")
    return (np.sin(sum(axes)) * np.cos(2 * axes[-1])).astype(dtype)


def create(file, data, chunks, request=f"multigrid,abs={BOUND}", name="x", **more):
    return file.create_dataset(
        name, data=data, chunks=chunks, compression=GRIDZ, compression_opts=Bulk().words(request), **more
    )


def every(level, array):
    return array[(slice(None, None, 1 << level),) * array.ndim]


def box_of(level, array, start, count):
    """The elements of a level's grid within a box of an array."""
    step = 1 << level
    return array[tuple(slice(-(-s // step) * step, s + c, step) for s, c in zip(start, count))]


def parts_of(bulk, dataset, detail, value):
    """The expected grid: chunks that are multigrid frames are decoded by gridz_decompress_progressive,
    all other chunks are read by h5py."""
    level = value if detail == LEVEL else 0
    padded = [(0, -n % c) for n, c in zip(dataset.shape, dataset.chunks)]
    grid = every(level, np.pad(dataset[()], padded)).copy()
    for i in range(dataset.id.get_num_chunks()):
        offset = dataset.id.get_chunk_info(i).chunk_offset
        mask, frame = dataset.id.read_direct_chunk(offset)
        shape = [-(-c // (1 << level)) for c in dataset.chunks]
        if mask or codec_of(frame) != MULTIGRID:
            continue
        chunk, info = np.empty(shape, dataset.dtype), (ctypes.c_uint64 * 46)(46 * 8)
        bulk.check(
            bulk.library.gridz_decompress_progressive(
                frame, c_size_t(len(frame)), c_uint32(detail), c_double(value), c_void_p(chunk.ctypes.data),
                c_size_t(chunk.nbytes), info, None,
            )
        )  # fmt: skip
        grid[tuple(slice(o >> level, (o >> level) + n) for o, n in zip(offset, shape))] = chunk
    return grid[tuple(slice(0, -(-n // (1 << level))) for n in dataset.shape)]


SHAPES = [
    ((1000,), (128,)),
    ((50, 70), (16, 32)),
    ((40, 33, 50), (16, 33, 8)),
    ((40, 20, 30), (64, 20, 16)),
    ((10, 12, 20, 30), (4, 8, 8, 30)),
    ((6, 5, 20, 9, 10), (4, 5, 8, 16, 4)),
    ((9, 1, 5, 6, 7, 4, 3), (8, 1, 4, 6, 2, 4, 3)),
]


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
def test_grids_are_every_so_many_elements(bulk, file, dtype, rng):
    for shape, chunks in SHAPES:
        data = waves(dtype, shape)
        # HDF5 allows chunks larger than the dataset only if the dataset can grow.
        dataset = create(file, data, chunks, name=str(shape), maxshape=(None,) * len(shape))
        all_of_it = dataset[()]
        n_levels = bulk.inspect_part(dataset, LEVEL, 0).n_levels
        for level in range(n_levels + 1):
            got, info = bulk.read_part(dataset, LEVEL, level)
            same(got, every(level, all_of_it))
            assert (info.level, info.shape, info.array_bytes) == (level, got.shape, got.nbytes)
            assert info.bound == info.rms == BOUND >= abs(got.astype("f8") - every(level, data)).max()
            assert info.n_chunks == dataset.id.get_num_chunks()
            assert 0 < info.read_bytes <= info.stored_bytes == dataset.id.get_storage_size()
            for turn in range(4):
                start = [int(rng.integers(0, n)) for n in shape]
                count = [int(rng.integers(0 if turn == 3 else 1, n - s + 1)) for s, n in zip(start, shape)]
                expected = box_of(level, all_of_it, start, count)
                # Memory with other strides, and with the other byte order.
                memory = np.full(expected.shape[::-1], 7, np.dtype(dtype).newbyteorder() if turn == 1 else dtype).T
                if turn == 2:
                    memory = np.full(expected.shape, 7, dtype)[::-1]
                kind = h5py.h5t.py_create(memory.dtype)
                got, info = bulk.read_part(dataset, LEVEL, level, (start, count), memory, kind.id, context=bulk.context(1 + turn))
                same(got.astype(dtype), expected)
                assert info.shape == expected.shape
        with pytest.raises(Failed, match=f"level {n_levels + 1} does not exist") as failed:
            bulk.inspect_part(dataset, LEVEL, n_levels + 1)
        assert failed.value.status == INVALID_ARGUMENT


@pytest.mark.parametrize("mode", ["abs", "rms"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_layers_are_those_of_the_frames(bulk, file, dtype, mode):
    # HDF5 pads chunks at the edge, and the padding is part of their mean values.
    data = waves(dtype, (130, 70, 50) if mode == "abs" else (128, 64, 100))
    last = BOUND if mode == "abs" else BOUND / 8
    dataset = create(file, data, (64, 64, 50), f"multigrid,{mode}={last},layers=3")
    details = [(LAYERS, n) for n in (1, 2, 3)] + [(ERROR, e * last) for e in (1000, 64.1, 8.1, 1, 0.1, 0)]
    details += [(LEVEL, level) for level in range(2)]
    read = []
    for detail, value in details:
        got, info = bulk.read_part(dataset, detail, value)
        same(got, parts_of(bulk, dataset, detail, value))
        inspected = bulk.inspect_part(dataset, detail, value)
        assert inspected.fields() == info.fields() and info.n_layers == 3
        errors = abs(got.astype("f8") - every(info.level, data))
        assert errors.max() <= info.bound * (1 + 1e-12)
        if mode == "rms" and info.level == 0:
            assert info.rms < info.bound and np.sqrt(np.mean(errors**2)) <= info.rms
        else:
            assert info.rms == info.bound
        read.append((info.layers, info.read_bytes))
    assert [layers for layers, _ in read] == [1, 2, 3] + [1, 1, 2, 3, 3, 3] + [1, 1]
    sizes = [n for _, n in read]
    assert sizes[0] < sizes[1] < sizes[2] == dataset.id.get_storage_size() and sizes[-1] < sizes[-2] == sizes[0]
    same(bulk.read_part(dataset, LAYERS, 3)[0], dataset[()])
    same(bulk.read_part(dataset, LEVEL, 1)[0], every(1, bulk.read_part(dataset, LAYERS, 1)[0]))
    for detail, value, text in [
        (LAYERS, 4, "the frame has 3"), (LAYERS, 0, "request 1 or more"), (ERROR, -1, "give 0 or a positive number"),
        (ERROR, np.nan, "give 0 or"), (LEVEL, 1.5, "is not a valid level"), (7, 1, "GRIDZ_DETAIL"), (LEVEL, -1, "is not a valid level"),
    ]:  # fmt: skip
        with pytest.raises(Failed, match=text) as failed:
            bulk.read_part(dataset, detail, value, array=data.copy())
        assert failed.value.status == INVALID_ARGUMENT


def test_chunks_of_all_kinds(bulk, file, rng):
    """One dataset with multigrid frames, stored frames, chunks without the filter, and missing
    chunks."""
    for fill in (None, -7.0, np.nan):
        more = {} if fill is None else {"fillvalue": np.float32(fill)}
        dataset = file.create_dataset(
            f"{fill}", (80, 64), "<f4", chunks=(16, 32), compression=GRIDZ,
            compression_opts=bulk.words(f"multigrid,abs={BOUND},layers=2"), **more,
        )  # fmt: skip
        wave = waves("<f4", (16, 32))
        dataset[:16, :32] = wave
        dataset[16:32, :32] = np.where(rng.random((16, 32)) < 0.3, np.float32(fill or 0), wave)
        dataset[32:48, :32] = noise("<f4", (16, 32), rng)
        dataset.id.write_direct_chunk((48, 0), wave.tobytes(), filter_mask=1)
        file.flush()
        kinds = [codec_of(dataset.id.read_direct_chunk((y, 0))[1]) for y in (0, 16, 32)]
        assert kinds == [MULTIGRID, MULTIGRID, 0]
        whole = dataset[()]
        same(whole[48:64, :32], wave)
        rough, info = bulk.read_part(dataset, LAYERS, 1)
        assert (info.n_chunks, info.layers, info.n_layers, info.bound) == (4, 1, 2, 8 * BOUND)
        same(rough[:32, :32], parts_of(bulk, dataset, LAYERS, 1)[:32, :32])
        same(rough[32:], whole[32:])
        same(rough[:, 32:], whole[:, 32:])
        for level in range(5):
            got, info = bulk.read_part(dataset, LEVEL, level)
            same(got, every(level, rough))
            # A box of exact chunks has bound 0.
            for box, bound in [(((32, 0), (48, 64)), 0), (((0, 32), (80, 32)), 0), (((16, 0), (20, 32)), 8 * BOUND)]:
                part, info = bulk.read_part(dataset, LEVEL, level, box)
                same(part, box_of(level, rough, *box))
                assert (info.bound, info.rms) == (bound, bound)
        empty, info = bulk.read_part(dataset, LEVEL, 1, ((0, 32), (80, 32)))
        same(empty, np.full((40, 16), fill or 0, "<f4"))
        assert (info.n_chunks, info.read_bytes, info.stored_bytes, info.layers) == (0, 0, 0, 0)


def test_no_fill_leaves_memory_alone(bulk, file):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((16, 16))
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plist.set_filter(GRIDZ, 0, bulk.words(f"multigrid,abs={BOUND}"))
    h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((32, 32)), plist)
    dataset = file["x"]
    dataset.id.write_direct_chunk((16, 0), np.ones((16, 16), "<f4").tobytes(), filter_mask=1)
    array = np.full((16, 16), 5, "<f4")
    bulk.read_part(dataset, LEVEL, 1, array=array)
    assert (array[8:, :8] == 1).all() and (array[:8] == 5).all() and (array[:, 8:] == 5).all()


@pytest.mark.parametrize("request_", ["lorenzo", "quant,abs=0.01", "quant,pwrel=0.01", "zfp,rate=16", "stored"])
def test_other_codecs_are_read_as_a_whole(bulk, file, request_):
    data = waves("<f4", (40, 50, 60))
    dataset = create(file, data, (16, 50, 32), request_)
    for detail, value in [(LEVEL, 0), (LEVEL, 2), (LAYERS, 1), (LAYERS, 3), (ERROR, 0.5)]:
        got, info = bulk.read_part(dataset, detail, value)
        same(got, every(info.level, dataset[()]))
        assert (info.read_bytes, info.layers, info.n_layers) == (info.stored_bytes, 0, 0)
        bound = {"quant,abs=0.01": 0.01, "lorenzo": 0, "stored": 0}.get(request_, np.nan)
        assert np.array_equal([info.bound, info.rms], [bound, bound], equal_nan=True)


def test_other_elements(bulk, file):
    """Shuffled datasets, integers, and elements that are arrays, whose own axes have no levels."""
    for name, dtype, shape, more in [
        ("shuffled", "<f4", (), {"shuffle": True}), ("integers", "<i2", (), {}), ("vectors", "<f4", (8,), {}),
    ]:  # fmt: skip
        data = waves("<f8", (40, 64, *shape)) * 100
        data = data.astype(dtype)
        codec = bulk.words(f"multigrid,abs={BOUND}" if name == "vectors" else "lorenzo")
        kind = np.dtype((dtype, shape)) if shape else dtype
        dataset = file.create_dataset(name, (40, 64), kind, chunks=(16, 32), compression=GRIDZ, compression_opts=codec, **more)
        dataset[...] = data
        whole = dataset[()]
        kind = dataset.id.get_type()
        for level in (0, 1, 3):
            array = np.full((*[-(-n // (1 << level)) for n in (40, 64)], *shape), 7, dtype)
            # A view with the dataset's axes only.
            outer = np.lib.stride_tricks.as_strided(array, array.shape[:2], array.strides[:2])
            bulk.read_part(dataset, LEVEL, level, array=outer, kind=kind.id)
            same(array, whole[:: 1 << level, :: 1 << level])


def test_refusals(bulk, file, tmp_path):
    data = waves("<f4", (40, 60))
    multigrid = create(file, data, (12, 60), name="multigrid")
    others = {
        "plain": file.create_dataset("plain", data=data),
        "gzip": file.create_dataset("gzip", data=data, chunks=(12, 60), compression="gzip"),
        "checksum": create(file, data, (12, 60), name="checksum", fletcher32=True),
        "nothing": file.create_dataset("nothing", data=data, chunks=(12, 60)),
    }
    for name, why in [("plain", "not chunked"), ("gzip", "its filter is 1"), ("checksum", "filters other than gridz and shuffle"), ("nothing", "no filters")]:
        with pytest.raises(Failed, match=f"(?s){why}.*read it as a whole") as failed:
            bulk.inspect_part(others[name], LEVEL, 1)
        assert failed.value.status == UNSUPPORTED_JOB
    with pytest.raises(Failed, match="another type in memory") as failed:
        bulk.read_part(multigrid, LEVEL, 1, array=np.zeros((20, 30)), kind=h5py.h5t.NATIVE_DOUBLE.id)
    assert failed.value.status == UNSUPPORTED_JOB
    with pytest.raises(Failed, match=r"level 3 does not exist: along axis 0 chunks have 12 elements.*2\^3; the levels are 0 to 2") as failed:
        bulk.inspect_part(multigrid, LEVEL, 3)
    assert failed.value.status == INVALID_ARGUMENT
    with pytest.raises(Failed, match="along axis 0 chunks have 5 elements.*only level 0 exists"):
        bulk.inspect_part(create(file, data, (5, 60), name="odd"), LEVEL, 1)
    with pytest.raises(Failed, match="not inside the dataset") as failed:
        bulk.inspect_part(multigrid, LEVEL, 1, ((30, 0), (11, 1)))
    assert failed.value.status == INVALID_ARGUMENT
    with pytest.raises(Failed) as failed:
        bulk.inspect_part(file.id.id, LEVEL, 1)
    assert failed.value.status == HOST
    wide = np.lib.stride_tricks.as_strided(np.zeros((20, 30), "<f4"), (20, 30), (4, 4))
    with pytest.raises(Failed, match="overlap"):
        bulk.read_part(multigrid, LEVEL, 1, array=wide)
    # With a single chunk, the grid step need not divide the chunk's extents.
    same(bulk.read_part(create(file, data, (40, 60), name="one"), LEVEL, 5)[0], every(5, file["one"][()]))


def test_progress_and_its_end(bulk, file):
    dataset = create(file, waves("<f4", (64, 64, 64)), (16, 16, 16))
    calls = []
    array, info = bulk.read_part(dataset, LEVEL, 2, array=np.empty((16, 16, 16), "<f4"), progress=lambda *now: calls.append(now))
    assert calls[-1] == (array.nbytes, array.nbytes) and len(calls) == 64
    with pytest.raises(Failed) as failed:
        bulk.read_part(dataset, LEVEL, 2, array=array, progress=lambda done, total: done < total / 2)
    assert failed.value.status == CANCELLED
    calls.clear()
    bulk.inspect_part(dataset, LEVEL, 2, progress=lambda *now: calls.append(now))
    assert calls[-1] == (64, 64)
    with pytest.raises(Failed) as failed:
        bulk.inspect_part(dataset, LEVEL, 2, progress=lambda done, total: done < total / 2)
    assert failed.value.status == CANCELLED


def read_by_this_process():
    with open("/proc/self/io") as counts:
        return int(counts.readline().split()[1])


def test_fewer_bytes_are_read(bulk, tmp_path):
    """Compares the bytes that the operating system counts with the reported ones: never fewer, and
    at most HDF5's own reads more."""
    data = waves("<f4", (128, 128, 128)) + np.random.default_rng(2).normal(0, 0.01, (128, 128, 128)).astype("f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        create(file, data, (64, 64, 64), "multigrid,abs=1e-4,layers=4")
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["x"]
        n_all = dataset.id.get_storage_size()
        dataset.id.get_chunk_info(0)
        array, sizes = np.empty((128, 128, 128), "<f4"), []
        for detail, value in [(LEVEL, 3), (LEVEL, 2), (LEVEL, 1), (LAYERS, 1), (LAYERS, 2), (LAYERS, 3), (LAYERS, 4)]:
            step = 1 << value if detail == LEVEL else 1
            part = np.empty((128 // step,) * 3, "<f4")
            before = read_by_this_process()
            _, info = bulk.read_part(dataset, detail, value, array=part)
            really = read_by_this_process() - before
            assert info.read_bytes <= really < info.read_bytes + 16384
            assert info.stored_bytes == n_all
            sizes.append(info.read_bytes / n_all)
            before = read_by_this_process()
            inspected = bulk.inspect_part(dataset, detail, value)
            assert inspected.fields() == info.fields() and read_by_this_process() - before < 8 * 4096 + 16384
        assert sizes == sorted(sizes) and sizes[-1] == 1
        assert sizes[0] < 0.05 and sizes[2] < 0.1 and sizes[3] < 0.3 and sizes[4] < 0.55, sizes


@pytest.mark.parametrize("options_", [
    {}, {"driver": "sec2"}, {"driver": "core"}, {"driver": "core", "backing_store": False}, {"driver": "stdio"},
    {"driver": "family", "memb_size": 50000}, {"userblock_size": 512}, {"userblock_size": 4096}, {"libver": "latest"},
    {"libver": "latest", "userblock_size": 2048}, {"fs_strategy": "page", "fs_page_size": 4096},
    {"fs_strategy": "page", "fs_page_size": 4096, "page_buf_size": 1 << 16},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("chunks", [(128, 128), (32, 16)])
def test_drivers_and_files(bulk, tmp_path, options_, chunks):
    """All file drivers and file formats, also while the file is being written and not flushed."""
    data = waves("<f4", (200, 300))
    driver = {name: value for name, value in options_.items() if name in ("driver", "memb_size", "page_buf_size")}
    name = tmp_path / ("x%d.h5" if "memb_size" in options_ else "x.h5")
    has_descriptor = options_.get("driver", "sec2") == "sec2"
    with h5py.File(name, "w", **options_) as file:
        dataset = create(file, data, chunks, f"multigrid,abs={BOUND},layers=3")
        for turn in range(3):
            for level in (0, 1, 3):
                got, info = bulk.read_part(dataset, LEVEL, level)
                same(got, every(level, bulk.read_part(dataset, LAYERS, 1)[0]))
                assert abs(got - every(level, data)).max() <= 64 * BOUND == info.bound
                assert (info.read_bytes < info.stored_bytes) == (has_descriptor and chunks[0] == 128), (info.read_bytes, level)
            assert abs(bulk.read_part(dataset, LAYERS, 3)[0] - data).max() <= 1.01 * BOUND
            # The read must include data that is still in HDF5's cache.
            data = data[::-1] + turn
            dataset[...] = data
            data[3:40, 7:9] = 9
            dataset[3:40, 7:9] = 9
        latest = bulk.read_part(dataset, LEVEL, 2)[0]
        assert abs(latest - every(2, data)).max() <= 66 * BOUND
    if options_.get("backing_store", True):
        for more in [{}, {"locking": False}] if not driver else [{}]:
            with h5py.File(name, "r", **driver, **more) as file:
                same(bulk.read_part(file["x"], LEVEL, 2)[0], latest)


@pytest.mark.parametrize("name", [*WHEELS, "system"])
def test_every_libhdf5(name, tmp_path):
    hdf5 = Hdf5(name)
    bulk = Bulk(hdf5.library)
    for user_block, chunks in [(0, (16, 16, 20)), (0, (8, 8, 4)), (512, (16, 16, 20)), (1024, (8, 4, 4))]:
        data = waves("<f4", (40, 33, 20))
        with h5py.File(tmp_path / "x.h5", "w", userblock_size=user_block, rdcc_nbytes=0) as file:
            create(file, data, chunks, f"multigrid,abs={BOUND},layers=3")
            grids = [every(level, parts_of(Bulk(), file["x"], LAYERS, 1)) for level in range(3)]
        for flags in (0, 1):
            opened = hdf5.call("H5Fopen", str(tmp_path / "x.h5").encode(), flags, 0)
            dataset = hdf5.call("H5Dopen2", opened, b"x", 0)
            for level, grid in enumerate(grids):
                array = np.empty_like(grid)
                _, info = bulk.read_part(dataset, LEVEL, level, array=array)
                same(array, grid)
                assert chunks[0] == 8 or info.read_bytes < info.stored_bytes
            if flags:
                data += 1
                hdf5.call("H5Dwrite", dataset, hdf5.constant(TYPES["<f4"]), 0, 0, 0, data.ctypes.data)
                back = np.empty_like(data)
                bulk.read_part(dataset, LAYERS, 3, array=back)
                assert abs(back - data).max() <= BOUND * 1.01
                bulk.read_part(dataset, LEVEL, 2, array=array)
                assert abs(array - every(2, data)).max() <= 64 * BOUND * 1.01
            hdf5.call("H5Dclose", dataset)
            hdf5.call("H5Fclose", opened)


@pytest.mark.parametrize("name", [*WHEELS, "system"])
def test_a_file_in_a_file(name, tmp_path):
    """The read uses the descriptor of the mounted file that holds the chunks, not that of the outer
    file."""
    hdf5 = Hdf5(name)
    bulk = Bulk(hdf5.library)
    data = waves("<f4", (64, 64))
    for file, sign in [("outer", 1), ("inner", -1)]:
        with h5py.File(tmp_path / file, "w", rdcc_nbytes=0) as made:
            create(made, sign * data, (64, 64), "multigrid,abs=1e-6,layers=3")
            made.create_group("here")
            expected = every(2, parts_of(bulk, made["x"], LAYERS, 1))
    outer, inner = (hdf5.call("H5Fopen", str(tmp_path / file).encode(), 0, 0) for file in ("outer", "inner"))
    hdf5.library.H5Fmount.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
    hdf5.call("H5Fmount", outer, b"here", inner, 0)
    dataset = hdf5.call("H5Dopen2", outer, b"here/x", 0)
    array = np.empty((16, 16), "<f4")
    _, info = bulk.read_part(dataset, LEVEL, 2, array=array)
    same(array, expected)
    assert info.read_bytes < info.stored_bytes
    hdf5.call("H5Dclose", dataset)
    hdf5.call("H5Fclose", inner)
    hdf5.call("H5Fclose", outer)


def test_functions_that_a_program_does_not_have(file):
    """With an HDF5 that lacks these functions, reads work as with a driver without a descriptor.
    For a program that was compiled before gridz used them, they are looked up in its HDF5
    library."""
    bulk = Bulk()
    newer = (b"H5FDdriver_query", b"H5Fget_vfd_handle")
    table = [(e.name, e.address) for e in bulk.functions if e.name]
    dataset = create(file, waves("<f4", (64, 64)), (64, 64), "multigrid,abs=1e-5,layers=3")
    grid = bulk.read_part(dataset, LEVEL, 2)[0]
    missing = [(name, None if name in newer else address) for name, address in table]
    older = [(name, address) for name, address in table if name not in newer]
    for entries, reads_all in [(missing, True), (older, False)]:
        bulk.functions = (type(bulk.functions[0]) * (len(entries) + 1))(*entries, (None, None))
        got, info = bulk.read_part(dataset, LEVEL, 2)
        same(got, grid)
        assert (info.read_bytes == info.stored_bytes) is reads_all


def test_mask_and_resized_datasets(bulk, file):
    data = waves("<f4", (64, 64))
    dataset = create(file, data, (16, 64), maxshape=(None, None))
    for shape in [(50, 60), (80, 64), (10, 130), (0, 64)]:
        dataset.resize(shape)
        n_levels = bulk.inspect_part(dataset, LEVEL, 0).n_levels
        for level in range(n_levels + 1):
            same(bulk.read_part(dataset, LEVEL, level)[0], every(level, dataset[()]))
    assert n_levels == 6


def test_damaged_chunks_are_errors(bulk, tmp_path):
    """Changes each byte of a frame, and truncates frames. Nothing crashes, and the result is never
    data of another frame."""
    data = waves("<f4", (32, 32))
    with h5py.File(tmp_path / "x.h5", "w", rdcc_nbytes=0) as file:
        dataset = create(file, data, (32, 32), "multigrid,abs=1e-3,layers=2")
        frame = bytes(dataset.id.read_direct_chunk((0, 0))[1])
        whole = {key: bulk.read_part(dataset, *key)[0] for key in [(LEVEL, 1), (LAYERS, 1), (LAYERS, 2)]}
        array, n_wrong = {key: np.empty_like(part) for key, part in whole.items()}, 0
        for i in range(0, len(frame), 1 if len(frame) < 1500 else 3):
            bad = bytearray(frame)
            bad[i] ^= 1 << i % 8
            dataset.id.write_direct_chunk((0, 0), bytes(bad))
            for key, part in whole.items():
                try:
                    bulk.read_part(dataset, *key, array=array[key])
                except Failed as failed:
                    n_wrong += 1
                    assert failed.status in (CORRUPT, TRUNCATED, 202, INVALID_ARGUMENT), failed
                else:
                    assert np.array_equal(array[key], part) and key != (LAYERS, 2), (i, key)
        assert n_wrong > len(frame) / 3
        for n in [1, 20, 60, len(frame) // 2, len(frame) - 1]:
            dataset.id.write_direct_chunk((0, 0), frame[:n])
            with pytest.raises(Failed) as failed:
                bulk.read_part(dataset, LAYERS, 2, array=array[LAYERS, 2])
            assert failed.value.status in (CORRUPT, TRUNCATED)
        # More bytes than any chunk may have.
        dataset.id.write_direct_chunk((0, 0), frame + bytes(100000))
        with pytest.raises(Failed, match="but at most .* are possible") as failed:
            bulk.read_part(dataset, LEVEL, 1, array=array[LEVEL, 1])
        assert failed.value.status == CORRUPT
        # A frame of another array, and a level that does not exist, in a chunk with ample space.
        other = create(file, waves("<f4", (4, 4, 64)), (4, 4, 64), name="other")
        dataset.id.write_direct_chunk((0, 0), bytes(other.id.read_direct_chunk((0, 0, 0))[1]))
        got, info = bulk.read_part(dataset, LEVEL, 1, array=array[LEVEL, 1])
        same(got, every(1, dataset[()]))
        assert info.read_bytes == info.stored_bytes


def test_a_file_that_ends_early(bulk, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        create(file, waves("<f4", (128, 64)), (32, 64), "multigrid,abs=1e-5,layers=3")
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["x"]
        ends = [dataset.id.get_chunk_info(i) for i in range(4)]
        last = max(ends, key=lambda chunk: chunk.byte_offset)
        os.truncate(tmp_path / "x.h5", last.byte_offset + 100)
        for detail, value in [(LEVEL, 2), (LAYERS, 1)]:
            with pytest.raises(Failed, match="the file is truncated: it ends within") as failed:
                bulk.read_part(dataset, detail, value, array=np.empty((128, 64) if detail == LAYERS else (32, 16), "<f4"))
            assert failed.value.status == TRUNCATED


def test_a_file_that_is_written_meanwhile(bulk, tmp_path):
    """SWMR: a reader that refreshes the dataset sees what the writer has flushed."""
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as writer:
        dataset = create(writer, waves("<f4", (32, 64)), (32, 64), f"multigrid,abs={BOUND},layers=2", maxshape=(None, 64))
        writer.swmr_mode = True
        with h5py.File(tmp_path / "x.h5", "r", swmr=True) as reader:
            before = bulk.read_part(reader["x"], LEVEL, 2)[0]
            dataset.resize((96, 64))
            dataset[32:] = waves("<f4", (64, 64))
            dataset.flush()
            reader["x"].id.refresh()
            after, info = bulk.read_part(reader["x"], LEVEL, 2)
            assert before.shape == (8, 16) and after.shape == (24, 16) and info.n_chunks == 3
            same(after[:8], before)
            assert abs(after[8:] - every(2, waves("<f4", (64, 64)))).max() <= 8 * BOUND


def test_the_log_says_who_reads(tmp_path):
    code = """
        import h5py, numpy
        from bulk import Bulk, LEVEL
        with h5py.File(sys.argv[1], "w", driver=sys.argv[2]) as file:
            values = tuple(map(int, sys.argv[3:]))
            dataset = file.create_dataset("x", data=numpy.ones((64, 64), "f4"), chunks=(32, 32), compression=34013, compression_opts=values)
            Bulk().read_part(dataset, LEVEL, 1)
        """
    for driver in ("sec2", "core"):
        done = python(code, tmp_path / "x.h5", driver, *options(MULTIGRID, ABS, BOUND), GRIDZ_LOG="info", PYTHONPATH=os.path.dirname(__file__))
        assert ("HDF5 reads whole chunks, because its file driver does not use a file descriptor" in done.stderr) == (driver == "core")
