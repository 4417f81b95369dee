"""The wheels of tables, netCDF4 and xarray, alone and together: each with a libhdf5 of its own."""

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int, c_size_t, c_uint

import h5py
import netCDF4
import numpy as np
import pytest
import tables
import xarray

from capi import Hdf5
from support import (
    DEFAULT,
    DENSE,
    FAST,
    FOLDER,
    GRIDZ,
    LORENZO,
    NDZIP,
    SPECS,
    STORED,
    ZFP,
    frames,
    noise,
    python,
    record,
    run,
    same,
    smooth,
    spec_in,
    spec_of,
    specials,
    takes,
    typed,
    wheel_library,
    written,
)

LIBRARIES = ["h5py", "tables", "netCDF4", "system"]


@pytest.fixture(params=LIBRARIES)
def hdf5(request):
    return Hdf5(request.param)


def test_which_libraries_these_are():
    # The tests below are meaningful only if these are four different versions.
    versions = {name: Hdf5(name).version()[:2] for name in LIBRARIES}
    assert versions["system"] == (1, 10) and versions["tables"] == (1, 14)
    assert versions["h5py"] == (2, 0) and versions["netCDF4"] > versions["h5py"]


@pytest.mark.parametrize("flags", [0, 1], ids=["mandatory", "optional"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "i1", "<u2", ">i2", "<i4", ">u8"])
def test_write_and_read(tmp_path, rng, hdf5, dtype, flags):
    data = specials(dtype, (90, 70, 30)) if "f" in dtype else noise(dtype, (90, 70, 30), rng)
    plain, stored = smooth(dtype, (64, 64, 64)), {}
    for codec, level in SPECS:
        values = (codec, 0, level)
        hdf5.write(tmp_path / "x.h5", data, (32, 64, 16), values, flags)
        same(hdf5.read(tmp_path / "x.h5", dtype, data.shape), data)
        stored[codec, level] = hdf5.write(tmp_path / f"{codec}{level}.h5", plain, (32, 32, 32), values, flags)
        same(hdf5.read(tmp_path / f"{codec}{level}.h5", dtype, plain.shape), plain)
        with h5py.File(tmp_path / f"{codec}{level}.h5") as file:
            is_stored = not takes(codec, dtype)
            found = {spec_of(frame) for frame in frames(file["x"])}
            assert found and found <= ({(STORED, 0)} if is_stored else written((codec, level)))
    assert stored[LORENZO, DENSE] < stored[LORENZO, FAST] < plain.nbytes < stored[STORED, 0]
    assert stored[LORENZO, FAST] < stored[NDZIP, 0] < plain.nbytes or "f" not in dtype
    # Without values, the codec is lorenzo at level fast.
    hdf5.write(tmp_path / "y.h5", plain, (32, 32, 32), (), flags)
    with h5py.File(tmp_path / "y.h5") as file, h5py.File(tmp_path / f"{LORENZO}{FAST}.h5") as fast:
        assert frames(file["x"]) == frames(fast["x"])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((77,), "codec 77 is unknown"),
        ((1, 0, 2), "ndzip has no levels; use 0, not 2"),
        ((2, 0, 4), "lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"),
        ((2, 1, 0, 0), "lorenzo: use mode 0, lossless; it has no mode 1, abs"),
        ((1, 1, 0, 0), "ndzip: use mode 0, lossless; it has no mode 1, abs"),
        ((1, 1), "allowed are: no value"),
        ((77,) * 256, "codec 77 is unknown"),
    ],
)
def test_refusals_are_on_the_error_stack(tmp_path, hdf5, values, text):
    for flags in (0, 1):
        with pytest.raises(RuntimeError, match="H5Dcreate2") as error:
            hdf5.write(tmp_path / "x.h5", np.zeros((8, 8), "<f4"), (8, 8), values, flags)
        assert text in str(error.value)


ORDERS = [order[i:] + order[:i] for order in (LIBRARIES, LIBRARIES[::-1]) for i in range(len(LIBRARIES))]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_all_in_one_process(tmp_path, order):
    done = run(sys.executable, FOLDER / "one_process.py", tmp_path, *order)
    assert done.stdout == "same\n"
    # A refused request is reported once, whichever library makes it.
    assert [line.startswith("gridz: a dataset is refused: ") for line in done.stderr.splitlines()] == [True, True]


def test_chunks_whose_frames_may_not_fit_the_library(tmp_path, hdf5):
    # Up to version 1.14, the length of a compressed chunk has 32 bits, and a frame may be longer
    # than its chunk.
    shape = (2**30 - 1,)
    if hdf5.version() < (2, 0, 0):
        with pytest.raises(
            RuntimeError, match="a chunk of 4294967292 bytes may exceed the limit of HDF5 1.1.*choose smaller chunks"
        ):
            hdf5.create(tmp_path / "x.h5", "<f4", shape, shape)
    else:
        shape = (2**31,)
        file, dataset = hdf5.create(tmp_path / "x.h5", "<f4", shape, shape)
        hdf5.call("H5Dclose", dataset)
        hdf5.call("H5Fclose", file)
    assert hdf5.write(tmp_path / "y.h5", np.ones(10, "<f4"), (10,)) > 0


def test_all_libraries_at_once(tmp_path):
    # Each library has its own lock, if any, so the filter runs in four threads at the same time.
    libraries = {name: Hdf5(name) for name in LIBRARIES}

    def work(name):
        for i in range(6):
            data = specials("<f4", (64 << i % 3, 100, 100))
            data[1, 1] = i
            libraries[name].write(tmp_path / f"{name}.h5", data, (64 << i % 3, 64, 100))
            same(libraries[name].read(tmp_path / f"{name}.h5", "<f4", data.shape), data)
        return name

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(work, LIBRARIES)) == LIBRARIES


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ({0: 0x475A0002}, "this dataset needs a newer gridz: its filter values have version 2"),
        ({1: 0x0008}, "codec 8 is unknown to gridz .*; the codecs are 0 stored, 1 ndzip, 2 lorenzo, 3 quant"),
        ({1: LORENZO | 4 << 16}, "lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"),
        ({1: LORENZO | 1 << 8}, "it has no mode 1, abs"),
    ],
    ids=["layout", "codec", "level", "mode"],
)
def test_a_dataset_of_a_later_version_is_read_but_not_written(tmp_path, word, text):
    # HDF5 1.10 writes object headers without a checksum, so the stored cd_values can be edited.
    path, data = tmp_path / "x.h5", specials("<f4", (100, 100))
    Hdf5("system").write(path, data, (64, 64))
    content = bytearray(path.read_bytes())
    assert content.count(bytes.fromhex("01005a47")) == 1
    at = content.index(bytes.fromhex("01005a47"))
    words = np.frombuffer(content[at : at + 4 * 11], "<u4").tolist()
    for i, value in word.items():
        words[i] = value
    words = (words[0], *record(*words[1:-1])[1:])
    content[at : at + 4 * 11] = np.array(words, "<u4").tobytes()
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        same(file["x"][()], data)
        with pytest.raises(OSError, match=text):
            file["x"][0, 0] = 1
        same(file["x"][()], data)


@pytest.mark.parametrize("change", [(0, 0x02), (8, 0x2B), (10, 0x21)], ids=["version", "type", "rank"])
def test_words_that_cannot_be_read_are_an_error_where_hdf5_expects_shuffled_bytes(tmp_path, change):
    path, data = tmp_path / "x.h5", specials("<f4", (64, 64))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(64, 64), shuffle=True, compression=GRIDZ)
    content = bytearray(path.read_bytes())
    assert content.count(bytes.fromhex("01005a47")) == 1
    with h5py.File(path) as file:
        same(file["x"][()], data)
    content[content.index(bytes.fromhex("01005a47")) + change[0]] = change[1]
    path.write_bytes(content)
    with h5py.File(path) as file, pytest.raises(OSError):
        file["x"][()]


def test_tables_reads_what_h5py_wrote(tmp_path):
    types = {"f4le": "<f4", "f4be": ">f4", "f8le": "<f8", "f8be": ">f8"}
    arrays = {name: specials(dtype, (100, 50, 7)) for name, dtype in types.items()}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, data in arrays.items():
            file.create_dataset(name, data=data, chunks=(32, 32, 7), compression=GRIDZ)
        table = np.zeros(1000, [("time", "f8"), ("id", "i4"), ("tag", "S6")])
        table["time"], table["id"], table["tag"] = np.arange(1000) / 3, np.arange(1000), b"tag"
        file.create_dataset("table", data=table, chunks=(128,), compression=GRIDZ)
    with tables.open_file(tmp_path / "x.h5") as file:
        for name, data in arrays.items():
            node = file.get_node(f"/{name}")
            same(node.read(), data.astype(data.dtype.newbyteorder("=")))
            same(node[30:70, ::3, 2], data[30:70, ::3, 2].astype(data.dtype.newbyteorder("=")))
        same(file.root.table.read(), table)


@pytest.mark.parametrize("spec", SPECS)
def test_tables_rewrites_a_part(tmp_path, spec):
    data = smooth(typed(spec, "<f8"), (200, 80))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        options = {"compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
        file.create_dataset("x", data=data, chunks=(64, 80), maxshape=(None, 80), **options)
    with tables.open_file(tmp_path / "x.h5", "a") as file:
        file.root.x[10:50, 3] = data[10:50, 3] = np.pi
        file.root.x.append(data[:20])
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], np.concatenate([data, data[:20]]))
        assert [spec_of(frame) for frame in frames(file["x"])] == [spec] * 4
        assert spec_in(file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[1]) == spec


class NetCdf:
    """netCDF's C interface in the wheel: its Python interface has no argument for third-party
    filters."""

    def __init__(self):
        self.library = wheel_library(netCDF4, "netcdf4.libs", "libnetcdf-*")
        self.library.nc_strerror.restype = ctypes.c_char_p

    def status(self, function, *arguments):
        return getattr(self.library, function)(*arguments)

    def call(self, function, *arguments):
        status = self.status(function, *arguments)
        assert status == 0, f"{function}: {self.library.nc_strerror(status).decode()}"

    def define(self, path, kind, shape, chunks, values):
        """Creates a file with a variable `x` that uses the filter, in define mode; returns their
        ids."""
        file, variable = c_int(), c_int()
        self.call("nc_create", str(path).encode(), c_int(0x1000), byref(file))
        dims = (c_int * len(shape))()
        for i, n in enumerate(shape):
            dim = c_int()
            self.call("nc_def_dim", file, f"d{i}".encode(), c_size_t(n), byref(dim))
            dims[i] = dim
        self.call("nc_def_var", file, b"x", c_int(kind), c_int(len(shape)), dims, byref(variable))
        self.call("nc_def_var_chunking", file, variable, c_int(0), (c_size_t * len(chunks))(*chunks))
        words = (c_uint * len(values))(*values)
        self.call("nc_def_var_filter", file, variable, c_uint(GRIDZ), c_size_t(len(values)), words)
        return file, variable


KINDS = {"<f4": 5, "<f8": 6, "int8": 1, "<i2": 3, "<i4": 4, "uint8": 7, "<u8": 11}  # NC_FLOAT, NC_DOUBLE, …


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ((), DEFAULT),
        ((2,), DEFAULT),
        ((2, 0, 1), (LORENZO, FAST)),
        ((2, 0, 2), (LORENZO, DENSE)),
        ((1,), (NDZIP, 0)),
        ((1, 0, 0), (NDZIP, 0)),
        ((0,), (STORED, 0)),
    ],
)
def test_netcdf_variables(tmp_path, dtype, values, spec):
    netcdf, data = NetCdf(), (specials if "f" in dtype else smooth)(dtype, (40, 50, 60))
    file, variable = netcdf.define(tmp_path / "x.nc", KINDS[dtype], data.shape, (16, 32, 60), values)
    netcdf.call("nc_enddef", file)
    netcdf.call("nc_put_var", file, variable, ctypes.c_void_p(data.ctypes.data))
    netcdf.call("nc_close", file)
    with netCDF4.Dataset(tmp_path / "x.nc") as file:
        file.set_auto_maskandscale(False)
        same(file["x"][...], data)
    with h5py.File(tmp_path / "x.nc") as file:
        same(file["x"][()], data)
        found = [spec_of(frame) for frame in frames(file["x"])]
        assert len(found) == 3 * 2 * 1 and set(found) <= {spec, (STORED, 0)}
        assert spec in found or spec[0] in (NDZIP, ZFP)
        assert spec_in(file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[1]) == spec
    same(xarray.load_dataset(tmp_path / "x.nc", engine="netcdf4", mask_and_scale=False)["x"].values, data)
    same(xarray.load_dataset(tmp_path / "x.nc", engine="h5netcdf", mask_and_scale=False)["x"].values, data)


@pytest.mark.parametrize("values", [(1, 0, 3), (2, 0, 4), (2, 1), (9,)])
def test_netcdf_refuses_what_gridz_refuses(tmp_path, values):
    netcdf = NetCdf()
    file, _ = netcdf.define(tmp_path / "x.nc", KINDS["<f4"], (64, 64), (32, 32), values)
    assert netcdf.status("nc_enddef", file) < 0
    netcdf.status("nc_abort", file)


def test_netcdf_hides_the_reason_and_stderr_has_it(tmp_path):
    done = python(
        """
        from support import FOLDER
        from test_wheels import KINDS, NetCdf
        netcdf = NetCdf()
        file, _ = netcdf.define(sys.argv[1], KINDS["<f4"], (64, 64), (32, 32), (9,))
        print(netcdf.status("nc_enddef", file))
        netcdf.status("nc_abort", file)
        """,
        tmp_path / "x.nc",
        PYTHONPATH=FOLDER,
    )
    assert done.stdout == "-101\n"
    assert "gridz: a dataset is refused: codec 9 is unknown to gridz" in done.stderr


@pytest.mark.parametrize("spec", SPECS[1:])
def test_shuffle_of_netcdf_before_gridz(tmp_path, spec):
    # With shuffle, which xarray and netCDF4 enable by themselves; then a copy by nccopy, which
    # keeps both filters.
    data = smooth(typed(spec, "<f4"), (10, 40, 40))
    encoding = {"x": {"compression": GRIDZ, "chunksizes": (4, 40, 40), "_FillValue": None, "shuffle": True}}
    encoding["x"]["compression_opts"] = (spec[0], 0, spec[1])
    xarray.Dataset({"x": (("t", "j", "i"), data)}).to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=encoding)
    run("nccopy", tmp_path / "x.nc", tmp_path / "again.nc")
    run("h5repack", tmp_path / "x.nc", tmp_path / "repacked.nc")
    run("h5repack", "-f", f"x:UD=34013,0,3,{spec[0]},0,{spec[1]}", tmp_path / "x.nc", tmp_path / "alone.nc")
    with h5py.File(tmp_path / "x.nc") as first:
        for name in ("again.nc", "repacked.nc", "alone.nc"):
            with h5py.File(tmp_path / name) as file:
                same(file["x"][()], data)
                plist = file["x"].id.get_create_plist()
                flag = 1 << 24 if name != "alone.nc" else 0  # shuffle; 1 << 28 is the checksum
                assert plist.get_nfilters() == (2 if flag else 1)
                kind = {"f": 11, "i": 7}[data.dtype.kind]
                assert plist.get_filter_by_id(GRIDZ)[1][2] == kind | 3 << 16 | 1 << 28 | flag
                assert frames(file["x"]) == frames(first["x"])
                assert spec in {spec_of(frame) for frame in frames(file["x"])}
    same(xarray.load_dataset(tmp_path / "again.nc", engine="netcdf4", mask_and_scale=False)["x"].values, data)


@pytest.mark.parametrize("spec", SPECS)
def test_netcdf_appends_and_rewrites(tmp_path, spec):
    data = smooth(typed(spec, "<f4"), (10, 40, 40))
    dataset = xarray.Dataset({"x": (("t", "j", "i"), data)})
    encoding = {"x": {"compression": GRIDZ, "chunksizes": (4, 40, 40), "_FillValue": None}}
    encoding["x"]["compression_opts"] = (spec[0], 0, spec[1])
    dataset.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=encoding, unlimited_dims=["t"])
    with netCDF4.Dataset(tmp_path / "x.nc", "a") as file:
        file.set_auto_maskandscale(False)
        file["x"][3:5, 10] = data[3:5, 10] = -2
        file["x"][10:13] = data[:3]
    with h5py.File(tmp_path / "x.nc") as file:
        same(file["x"][()], np.concatenate([data, data[:3]]))
        assert [spec_of(frame) for frame in frames(file["x"])] == [spec] * 4


@pytest.mark.parametrize(
    "options", [{}, *({"compression_opts": values} for values in ((1, 0, 0), (2,), (2, 0, 2)))], ids=str
)
def test_xarray_by_h5netcdf(tmp_path, options):
    dataset = xarray.Dataset(
        {"theta": (("t", "z", "x"), specials("f4", (6, 50, 40))), "mass": (("z", "x"), smooth("f8", (50, 40)))},
        coords={"z": np.arange(50.0)},
    )
    encoding = {
        "theta": {"compression": GRIDZ, "chunksizes": (4, 32, 40), "_FillValue": None} | options,
        "mass": {"compression": GRIDZ, "chunksizes": (50, 40), "_FillValue": None} | options,
    }
    dataset.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=encoding)
    with h5py.File(tmp_path / "x.nc") as file:
        assert len(frames(file["theta"])) == 4 and len(frames(file["mass"])) == 1
    for engine in ("netcdf4", "h5netcdf"):
        loaded = xarray.load_dataset(tmp_path / "x.nc", engine=engine, mask_and_scale=False)
        for name in ("theta", "mass"):
            same(loaded[name].values, dataset[name].values)
    lazy = xarray.open_dataset(tmp_path / "x.nc", engine="h5netcdf")
    same(lazy["mass"][10:20, 5].values, dataset["mass"].values[10:20, 5])
    lazy.close()
