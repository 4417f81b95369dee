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
from support import FOLDER, GRIDZ, NDZIP, codec_of, frames, noise, run, same, smooth, specials, wheel_library

LIBRARIES = ["h5py", "tables", "netCDF4", "system"]


@pytest.fixture(params=LIBRARIES)
def hdf5(request):
    return Hdf5(request.param)


def test_which_libraries_these_are():
    # The tests below mean what they say only if these are four different versions.
    versions = {name: Hdf5(name).version()[:2] for name in LIBRARIES}
    assert versions["system"] == (1, 10) and versions["tables"] == (1, 14)
    assert versions["h5py"] == (2, 0) and versions["netCDF4"] > versions["h5py"]


@pytest.mark.parametrize("flags", [0, 1], ids=["mandatory", "optional"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<i4"])
def test_write_and_read(tmp_path, rng, hdf5, dtype, flags):
    data = noise(dtype, (90, 70, 30), rng) if dtype == "<i4" else specials(dtype, (90, 70, 30))
    hdf5.write(tmp_path / "x.h5", data, (32, 64, 16), (), flags)
    same(hdf5.read(tmp_path / "x.h5", dtype, data.shape), data)
    plain = smooth(dtype, (64, 64, 64))
    stored = hdf5.write(tmp_path / "y.h5", plain, (32, 32, 32), (), flags)
    assert stored < plain.nbytes or dtype == "<i4"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((77,), "codec 77 is unknown"),
        ((1, 0, 2), "ndzip knows only level 0, not 2"),
        ((1, 1, 0, 0), "mode 1 (absolute error) is reserved"),
        ((1, 0), "allowed are: no value"),
        ((5,) * 256, "allowed are: no value"),
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
    assert done.stdout == "same\n" and done.stderr == ""


def test_chunks_whose_frames_may_not_fit_the_library(tmp_path, hdf5):
    # Up to 1.14 the length of a compressed chunk has 32 bits, and a frame may be longer than its chunk.
    shape = (2**30 - 1,)
    if hdf5.version() < (2, 0, 0):
        with pytest.raises(
            RuntimeError, match="a chunk of 4294967292 bytes may not fit HDF5 1.1.*choose smaller chunks"
        ):
            hdf5.create(tmp_path / "x.h5", "<f4", shape, shape)
    else:
        shape = (2**31,)
        file, dataset = hdf5.create(tmp_path / "x.h5", "<f4", shape, shape)
        hdf5.call("H5Dclose", dataset)
        hdf5.call("H5Fclose", file)
    assert hdf5.write(tmp_path / "y.h5", np.ones(10, "<f4"), (10,)) > 0


def test_all_libraries_at_once(tmp_path):
    # Each has a lock of its own, if any, so the filter runs in four threads at the same time.
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


def test_a_dataset_of_a_later_version_is_read_but_not_written(tmp_path):
    # HDF5 1.10 writes object headers without a checksum, so the stored cd_values can be edited.
    path, data = tmp_path / "x.h5", specials("<f4", (100, 100))
    Hdf5("system").write(path, data, (64, 64))
    content = path.read_bytes()
    assert content.count(bytes.fromhex("01005a47")) == 1
    path.write_bytes(content.replace(bytes.fromhex("01005a47"), bytes.fromhex("02005a47")))
    with h5py.File(path, "r+") as file:
        same(file["x"][()], data)
        with pytest.raises(
            OSError, match="filter values of version 2; a newer gridz is needed to write to this dataset"
        ):
            file["x"][0, 0] = 1
        same(file["x"][()], data)


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


def test_tables_rewrites_a_part(tmp_path):
    data = smooth("f8", (200, 80))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(64, 80), maxshape=(None, 80), compression=GRIDZ)
    with tables.open_file(tmp_path / "x.h5", "a") as file:
        file.root.x[10:50, 3] = data[10:50, 3] = np.pi
        file.root.x.append(data[:20])
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], np.concatenate([data, data[:20]]))
        assert [codec_of(frame) for frame in frames(file["x"])] == [NDZIP] * 4


class NetCdf:
    """netCDF's C interface in the wheel, whose Python has no argument for filters of others."""

    def __init__(self):
        self.library = wheel_library(netCDF4, "netcdf4.libs", "libnetcdf-*")
        self.library.nc_strerror.restype = ctypes.c_char_p

    def status(self, function, *arguments):
        return getattr(self.library, function)(*arguments)

    def call(self, function, *arguments):
        status = self.status(function, *arguments)
        assert status == 0, f"{function}: {self.library.nc_strerror(status).decode()}"

    def define(self, path, kind, shape, chunks, values):
        """A file with a variable `x` behind the filter, in define mode: its id and the variable's."""
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


KINDS = {"<f4": 5, "<f8": 6}  # NC_FLOAT, NC_DOUBLE


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("values", [(), (1,), (1, 0, 0), (0,)])
def test_netcdf_variables(tmp_path, dtype, values):
    netcdf, data = NetCdf(), specials(dtype, (40, 50, 60))
    file, variable = netcdf.define(tmp_path / "x.nc", KINDS[dtype], data.shape, (16, 32, 60), values)
    netcdf.call("nc_enddef", file)
    netcdf.call("nc_put_var", file, variable, ctypes.c_void_p(data.ctypes.data))
    netcdf.call("nc_close", file)
    with netCDF4.Dataset(tmp_path / "x.nc") as file:
        file.set_auto_maskandscale(False)
        same(file["x"][...], data)
    with h5py.File(tmp_path / "x.nc") as file:
        same(file["x"][()], data)
        assert len(frames(file["x"])) == 3 * 2 * 1
    same(xarray.load_dataset(tmp_path / "x.nc", engine="netcdf4", mask_and_scale=False)["x"].values, data)
    same(xarray.load_dataset(tmp_path / "x.nc", engine="h5netcdf", mask_and_scale=False)["x"].values, data)


def test_netcdf_refuses_what_gridz_refuses(tmp_path):
    netcdf = NetCdf()
    file, _ = netcdf.define(tmp_path / "x.nc", KINDS["<f4"], (64, 64), (32, 32), (1, 0, 3))
    assert netcdf.status("nc_enddef", file) < 0
    netcdf.status("nc_abort", file)


def test_netcdf_appends_and_rewrites(tmp_path):
    data = smooth("f4", (10, 40, 40))
    dataset = xarray.Dataset({"x": (("t", "j", "i"), data)})
    encoding = {"x": {"compression": GRIDZ, "chunksizes": (4, 40, 40), "_FillValue": None}}
    dataset.to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding=encoding, unlimited_dims=["t"])
    with netCDF4.Dataset(tmp_path / "x.nc", "a") as file:
        file.set_auto_maskandscale(False)
        file["x"][3:5, 10] = data[3:5, 10] = -1.5
        file["x"][10:13] = data[:3]
    with h5py.File(tmp_path / "x.nc") as file:
        same(file["x"][()], np.concatenate([data, data[:3]]))
        assert len(frames(file["x"])) == 4


@pytest.mark.parametrize("options", [{}, {"compression_opts": (1, 0, 0)}])
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
