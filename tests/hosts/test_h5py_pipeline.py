"""h5py: gridz combined with other filters, at any position of the pipeline."""

import h5py
import numpy as np
import pytest

from support import (
    FOLDER,
    GRIDZ,
    SPECS,
    STORED,
    codec_of,
    frames,
    noise,
    python,
    record,
    same,
    smooth,
    spec_of,
    specials,
    takes,
    written,
)

ADD = {
    "shuffle": lambda plist: plist.set_shuffle(),
    "fletcher32": lambda plist: plist.set_fletcher32(),
    "gzip": lambda plist: plist.set_deflate(4),
    "lzf": lambda plist: plist.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL),
}
# True if gridz's input is compressible; None if its frames are not visible because another filter
# than fletcher32 follows.
PIPELINES = {
    "shuffle, gridz": True,
    "shuffle, gridz, fletcher32": True,
    "shuffle, shuffle, gridz": False,
    "fletcher32, gridz": False,
    "gzip, gridz": False,
    "lzf, gridz": False,
    "shuffle, gzip, gridz": False,
    "gridz, fletcher32": True,
    "gridz, shuffle": None,
    "gridz, gzip": None,
    "gridz, shuffle, gzip, fletcher32": None,
    "gridz, lzf": None,
    "fletcher32, gridz, fletcher32": False,
    "gridz, gridz": False,
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2"])
@pytest.mark.parametrize("spec", SPECS[1:])
def test_other_filters_before_and_after(tmp_path, spec, dtype, name):
    is_compressed = PIPELINES[name]
    if is_compressed:
        is_compressed = takes(spec[0], dtype)
    data = smooth(dtype, (150, 130))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64, 64))
        for filter in name.split(", "):
            if filter == "gridz":
                plist.set_filter(GRIDZ, h5py.h5z.FLAG_OPTIONAL, (spec[0], 0, spec[1]))
            else:
                ADD[filter](plist)
        space = h5py.h5s.create_simple(data.shape, (h5py.h5s.UNLIMITED,) * 2)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(data.dtype), space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        same(file["x"][()], data)
        if is_compressed is not None:
            found = {spec_of(frame) for frame in frames(file["x"])}
            assert found and found <= (written(spec) if is_compressed else {(STORED, 0)})
        # Rewrites a part of the dataset, and shrinks it.
        data[50:100, 60:70] = 7.1
        file["x"][50:100, 60:70] = 7.1
        file["x"].resize((140, 100))
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data[:140, :100])


def test_scaleoffset_before(tmp_path):
    # Its output is shorter than the chunk and has no fixed length.
    data = np.arange(9000, dtype="i4").reshape(90, 100) % 1000
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32), scaleoffset=0, compression=GRIDZ)
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)
        assert {codec_of(frame) for frame in frames(file["x"])} == {STORED}


@pytest.mark.parametrize("fletcher32", [False, True])
def test_options_of_create_dataset(tmp_path, fletcher32):
    # h5py puts shuffle before the compression and fletcher32 after it.
    data = specials("f8", (200, 100))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(64, 64), shuffle=True, fletcher32=fletcher32, compression=GRIDZ)
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i2", "i1", ">u8", "c8", "S3", "V12", ("<f4", (3,)), "?"], ids=str)
def test_shuffle_before_does_no_harm(tmp_path, rng, dtype, spec):
    # Frames equal those of the dataset without shuffle, and so do the stored cd_values except for
    # the flag.
    dtype = np.dtype(dtype)
    base, inner = dtype.subdtype or (dtype, ())
    data = (smooth if base.kind in "iuf" else lambda *a: noise(*a, rng))(base, (150, 130, *inner))
    options = {"chunks": (64, 100), "compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name in ("plain", "shuffled"):
            shuffle = name == "shuffled"
            file.create_dataset(name, (150, 130), dtype, shuffle=shuffle, **options)[...] = data
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["shuffled"][()], data)
        assert frames(file["shuffled"]) == frames(file["plain"])
        plain, shuffled = (
            file[name].id.get_create_plist().get_filter_by_id(GRIDZ)[1] for name in ("plain", "shuffled")
        )
        assert shuffled == record(plain[1], plain[2] | 1 << 24, *plain[3:-1], dtype.itemsize)


def test_what_gridz_will_not_compress_is_reported_once(tmp_path):
    done = python(
        """
        import h5py, numpy
        with h5py.File(sys.argv[1], "w") as file:
            def create(name, dtype, values, **options):
                options |= {"chunks": (32, 32), "compression": 34013, "compression_opts": values}
                file.create_dataset(name, (64, 64), dtype, **options)
            for i in range(3):
                create(f"ndzip {i}", "i4", (1,))
                create(f"lorenzo {i}", "V8", ())
                create(f"strings {i}", "S7", (2, 0, 2))
                create(f"stored {i}", "S7", (0,))
                create(f"shuffled {i}", "f4", (), shuffle=True)
                create(f"scaled {i}", "i4", (), scaleoffset=0)
        """,
        tmp_path / "x.h5",
    )
    assert done.stderr.splitlines() == [
        "gridz: ndzip does not support int32 elements, so the data is stored uncompressed; lorenzo (codec 2) supports them",
        "gridz: lorenzo does not support opaque elements (strings, compounds and the like), so the data is stored"
        " uncompressed; no codec of gridz 0.1.0 supports them",
        "gridz: HDF5 filter 6 runs before gridz, so gridz stores the output of that filter uncompressed; put"
        " gridz first, or remove one of them",
    ]


@pytest.mark.parametrize("size", [1, 3, 4095, 4096, 4097, 20000])
def test_lengths_that_other_filters_hand_on(tmp_path, size):
    # fletcher32 before gridz adds four bytes, so no chunk has the length that its shape implies.
    data = smooth("f4", (size,))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((min(size, 4096),))
        plist.set_fletcher32()
        plist.set_filter(GRIDZ, 0, ())
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((size,)), plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)


@pytest.mark.parametrize("values", [(), (1,), (2, 0, 2)])
def test_beside_the_plugins_of_hdf5plugin(tmp_path, values):
    # These filters register themselves with h5py, where each also has to find the library.
    # create_dataset makes them optional: Blosc fails if it cannot shrink a frame any further.
    done = python(
        """
        import h5py, hdf5plugin
        from support import same, smooth
        data, values = smooth("f4", (128, 256)), tuple(map(int, sys.argv[2:]))
        others = {"bitshuffle": hdf5plugin.Bitshuffle(), "blosc": hdf5plugin.Blosc(), "zstd": hdf5plugin.Zstd()}
        with h5py.File(sys.argv[1], "w") as file:
            for name, other in others.items():
                file.create_dataset(name, data=data, chunks=(64, 64), compression=other)
                options = {"chunks": (64, 64), "compression": 34013, "compression_opts": values}
                file.create_dataset(f"gridz beside {name}", data=data, **options)
                for order in (1, -1):
                    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                    plist.set_chunk((64, 64))
                    filters = [(34013, 0, values), (other.filter_id, 1, other.filter_options)]
                    for filter in filters[::order]:
                        plist.set_filter(*filter)
                    space = h5py.h5s.create_simple(data.shape)
                    path = f"{order} {name}".encode()
                    dataset = h5py.h5d.create(file.id, path, h5py.h5t.IEEE_F32LE, space, plist)
                    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
        with h5py.File(sys.argv[1]) as file:
            assert len(file) == 12
            for dataset in file.values():
                same(dataset[()], data)
        print("same")
        """,
        tmp_path / "x.h5",
        *values,
        PYTHONPATH=FOLDER,
    )
    assert done.stdout == "same\n"
    # One line for each other filter that ran before gridz.
    assert len(done.stderr.splitlines()) == 3 and done.stderr.count("runs before gridz, so gridz stores the output") == 3
