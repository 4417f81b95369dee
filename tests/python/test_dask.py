"""dask over Zarr, xarray and HDF5, with threads and with processes."""

import dask.array
import gridz
import h5py
import numpy as np
import pytest
import xarray
import zarr
from distributed import Client, LocalCluster

from gridz.xarray import to_netcdf, xarray_encoding
from gridz.zarr import GridzCodec

SHAPE, CHUNKS = (64, 96, 80), (32, 48, 40)


@pytest.fixture(scope="module", params=["threads", "processes"])
def workers(request):
    if request.param == "threads":
        yield request.param
        return
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        yield request.param


def field():
    index = dask.array.arange(np.prod(SHAPE), dtype="f8").reshape(SHAPE).rechunk(CHUNKS)
    return dask.array.sin(index / 300).astype("f4")


@pytest.mark.parametrize("shards", [None, CHUNKS], ids=["chunks", "shards"])
def test_zarr(tmp_path, workers, shards):
    data = field()
    chunks = CHUNKS if shards is None else (16, 24, 20)
    array = zarr.create_array(
        tmp_path / "z",
        shape=SHAPE,
        chunks=chunks,
        shards=shards,
        dtype="f4",
        compressors=None,
        serializer=GridzCodec("quant,abs=1e-4"),
    )
    dask.array.store(data, array, lock=False)
    got = dask.array.from_zarr(str(tmp_path / "z"))
    assert 0 < abs(got - data).max().compute() <= 1e-4
    np.testing.assert_array_equal(got[5:40, 3].compute(), array[5:40, 3])


def test_xarray_to_zarr(tmp_path, workers):
    dataset = xarray.Dataset({"v": (("z", "y", "x"), field())}, coords={"x": np.arange(80.0)})
    encoding = xarray_encoding(dataset, "quant,rel=1e-4", engine="zarr")
    dataset.to_zarr(tmp_path / "z", encoding=encoding, consolidated=False)
    got = xarray.open_zarr(tmp_path / "z", consolidated=False)
    assert got["v"].chunks == dataset["v"].chunks
    assert 0 < float(abs(got["v"] - dataset["v"]).max()) <= 2e-4
    xarray.testing.assert_identical(got["x"].load(), dataset["x"])


def test_xarray_to_netcdf(tmp_path, workers):
    dataset = xarray.Dataset({"v": (("z", "y", "x"), field())})
    to_netcdf(dataset, tmp_path / "x.nc", encoding=xarray_encoding(dataset, "quant,abs=1e-4"))
    got = xarray.open_dataset(tmp_path / "x.nc", engine="h5netcdf", chunks={})
    assert 0 < float(abs(got["v"] - dataset["v"]).max()) <= 1e-4
    got.close()


def test_hdf5(tmp_path, workers):
    data = field()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dset = file.create_dataset("v", SHAPE, "f4", chunks=CHUNKS, **gridz.Quant(abs=1e-4))
        gridz.h5.write(dset, data)
    with h5py.File(tmp_path / "x.h5") as file:
        got = gridz.h5.read_dask(file["v"], chunks=CHUNKS)
        assert 0 < abs(got - data).max().compute() <= 1e-4
        for part in (np.s_[5:40, 3], np.s_[::2, 1::7], np.s_[:, [3, 1]], np.s_[-1:2:-3], np.s_[4, 5, 6]):
            np.testing.assert_array_equal(got[part].compute(), file["v"][()][part])
