"""xarray's datasets by all engines, and filters of netCDF4-python's variables."""

import io

import h5py
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray

import gridz
import gridz.netcdf4
from gridz.filters import stored_codec
from gridz.xarray import CHUNK_BYTES, to_netcdf, xarray_encoding

ENGINES = ["h5netcdf", "netcdf4", "zarr2", "zarr3"]


def test_to_netcdf_writes_files_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    dataset = xarray.Dataset({"x": (("t", "y"), np.ones((10, 40)))})
    with open(tmp_path / "open", "wb") as opened:
        for path in (io.BytesIO(), None, memoryview(bytearray(9)), bytearray(9), opened, opened.fileno(), dataset):
            with pytest.raises(gridz.InvalidArgument, match="give the path of a file"):
                to_netcdf(dataset, path, encoding=xarray_encoding(dataset))
    assert [path.name for path in tmp_path.iterdir()] == ["open"]
    paths = ["a.nc", b"b.nc", tmp_path / "c.nc", "~/d.nc"]
    for path in paths:
        to_netcdf(dataset, path, encoding=xarray_encoding(dataset))
    for name in "abcd":
        with h5py.File(tmp_path / f"{name}.nc") as file:
            assert stored_codec(file["x"]) is not None and (file["x"][...] == 1).all()


@pytest.fixture
def dataset():
    t = np.cumsum(np.random.default_rng(1).standard_normal((20, 60, 90)), 0).astype("f4")
    t[0, :5] = np.nan
    made = xarray.Dataset(
        {
            "t": (("time", "y", "x"), t, {"units": "K"}),
            "wide": (("y", "x"), t[4].astype("f8")),
            "packed": (("y", "x"), t[5].astype("f8")),
            "number": (("y", "x"), np.arange(5400).reshape(60, 90)),
            "is_land": (("y", "x"), t[3] > 0),
            "one": ((), 3.5),
            "label": (("b",), ["a", "bb"]),
            "y_bounds": (("y", "b"), np.arange(120.0).reshape(60, 2) / 3),
        },
        coords={
            "time": ("time", pd.date_range("2000-01-01", periods=20, freq="6h")),
            "y": ("y", np.linspace(0, 1, 60), {"bounds": "y_bounds"}),
            "x": np.arange(90.0) / 7,
            "height": (("y", "x"), np.outer(np.linspace(0, 1, 60), np.arange(90.0) / 7)),
        },
        attrs={"title": "test"},
    )
    made["wide"].values[3, 3] = np.nan
    made["t"].encoding = {"_FillValue": np.float32(-999)}
    made["wide"].encoding = {"missing_value": 1e20}
    made["packed"].encoding = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768}
    return made


def encoding_for(dataset, codec, engine, **settings):
    return xarray_encoding(dataset, codec, engine.rstrip("23"), zarr_format=2 if engine == "zarr2" else 3, **settings)


def write(dataset, path, engine, encoding):
    if engine == "h5netcdf":
        dataset.to_netcdf(path, engine=engine, encoding=encoding)
    elif engine == "netcdf4":
        to_netcdf(dataset, path, encoding=encoding)
    else:
        dataset.to_zarr(path, encoding=encoding, zarr_format=int(engine[-1]), consolidated=False)


def readers(engine):
    return ["zarr"] if "zarr" in engine else ["h5netcdf", "netcdf4"]


def load(path, engine, **settings):
    return xarray.load_dataset(path, engine=engine, **({"consolidated": False} if engine == "zarr" else {}), **settings)


@pytest.mark.filterwarnings("ignore:The data type", "ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("engine", ENGINES)
def test_every_bit_comes_back(tmp_path, dataset, engine):
    write(dataset, tmp_path / "x", engine, encoding_for(dataset, "lorenzo,level=dense", engine))
    for reader in readers(engine):
        got = load(tmp_path / "x", reader)
        xarray.testing.assert_identical(got.drop_vars("packed"), dataset.drop_vars("packed"))
        assert float(abs(got["packed"] - dataset["packed"]).max()) <= 0.005001


@pytest.mark.filterwarnings("ignore:The data type", "ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("codec", ["quant,abs=1e-3", "quant,rel=1e-4"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_bound_is_kept_and_coordinates_are_exact(tmp_path, dataset, engine, codec):
    write(dataset, tmp_path / "x", engine, encoding_for(dataset, codec, engine))
    for reader in readers(engine):
        got = load(tmp_path / "x", reader)
        for name in ("t", "wide"):
            span = float(dataset[name].max()) - float(dataset[name].min())
            bound = 1e-3 if "abs" in codec else 1e-4 * span
            assert 0 < float(abs(got[name].astype("f8") - dataset[name]).max()) <= bound
            np.testing.assert_array_equal(np.isnan(got[name]), np.isnan(dataset[name]))
        others = dataset.drop_vars(["t", "wide", "packed"])
        xarray.testing.assert_identical(got.drop_vars(["t", "wide", "packed"]), others)
        raw = load(tmp_path / "x", reader, mask_and_scale=False)
        np.testing.assert_array_equal(raw["t"] == -999, np.isnan(dataset["t"]))
        np.testing.assert_array_equal(raw["wide"] == 1e20, np.isnan(dataset["wide"]))
    # Once more, from the file, with the encodings that the engine read from it: they are reused.
    again = load(tmp_path / "x", readers(engine)[0])
    write(again, tmp_path / "y", engine, encoding_for(again, codec, engine))
    xarray.testing.assert_allclose(load(tmp_path / "y", readers(engine)[0]), again, atol=2e-2)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_what_netcdf_files_hold(tmp_path, dataset, engine):
    encoding = encoding_for(
        dataset, "quant,abs=1e-3", engine, per_variable={"number": "lorenzo,level=dense", "is_land": None}
    )
    write(dataset, tmp_path / "x", engine, encoding)
    with h5py.File(tmp_path / "x") as file:
        found = {name: str(stored_codec(file[name])).partition(",fill")[0] for name in encoding}
        assert found.pop("is_land") == "None" and found.pop("number") == "lorenzo,level=dense"
        assert {found.pop("t"), found.pop("wide")} == {"quant,abs=1e-3,level=fast"}
        assert set(found) == {"packed", "y_bounds", "time", "y", "x", "height"} and set(found.values()) == {
            "lorenzo,level=fast"
        }
        assert all(file[name].id.get_create_plist().get_nfilters() == 1 for name in found)
        assert "one" not in encoding and "label" not in encoding


def test_variables_are_added_by_netcdf4(tmp_path, dataset):
    first, second = dataset[["t"]], dataset[["number"]]
    to_netcdf(first, tmp_path / "x", encoding=xarray_encoding(first), unlimited_dims=["time"])
    to_netcdf(second, tmp_path / "x", "a", encoding=xarray_encoding(second, "ndzip"))
    to_netcdf(second, tmp_path / "x", "a", group="deep/down", encoding=xarray_encoding(second))
    with h5py.File(tmp_path / "x") as file:
        assert file["t"].maxshape == (None, 60, 90)
        names = [str(stored_codec(file[name])) for name in ("t", "number", "deep/down/number")]
        assert names == ["lorenzo,level=fast", "ndzip", "lorenzo,level=fast"]
    xarray.testing.assert_equal(load(tmp_path / "x", "netcdf4"), dataset[["t", "number"]])


def test_chunks():
    big = xarray.Dataset({"v": (("t", "y", "x"), np.broadcast_to(np.float32(1), (1000, 721, 1440)))})
    extents = xarray_encoding(big)["v"]["chunksizes"]
    assert CHUNK_BYTES // 4 <= np.prod(extents) * 4 <= CHUNK_BYTES and min(extents) > 60
    assert xarray_encoding(big, chunks={"t": 1})["v"]["chunksizes"] == (1, 721, 1440)
    assert xarray_encoding(big, chunks={"t": 8, "y": 5000})["v"]["chunksizes"] == (8, 721, 180)
    assert "chunksizes" not in xarray_encoding(big, chunks=None)["v"]
    of_dask = big.chunk({"t": 10, "y": 100})
    assert xarray_encoding(of_dask)["v"]["chunksizes"] == (10, 100, 720)
    assert "chunks" not in xarray_encoding(of_dask, engine="zarr")["v"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"engine": "scipy"}, "give one of h5netcdf, netcdf4, zarr"),
        ({"engine": "zarr", "zarr_format": 4}, "give 2 or 3"),
        ({"per_variable": {"nope": "lorenzo"}}, "per_variable contains 'nope', which is not a variable; the dataset has t, "),
        ({"per_variable": {"height": "quant,abs=1"}}, "height: quant.* is not for a coordinate"),
        ({"per_variable": {"y_bounds": "quant,abs=1"}}, "y_bounds: quant.* is not for a coordinate .named in bounds of /y"),
        ({"per_variable": {"number": "quant,abs=1"}}, "number: quant.* is not for values that are stored as int64"),
        ({"per_variable": {"packed": "quant,abs=1"}}, "packed: quant.* is not for values that are stored as int16"),
        ({"codec": "nope"}, 'codec "nope" is unknown'),
    ],
)
def test_refusals(dataset, settings, text):
    with pytest.raises(gridz.Error, match=text):
        xarray_encoding(dataset, **settings)


def test_more_fill_values_than_a_codec_keeps(dataset):
    dataset["t"].attrs = {"missing_value": np.arange(8, dtype="f4")}
    with pytest.raises(gridz.InvalidArgument, match="t has 9 fill values, -999.0, 0.0, .*use a lossless codec"):
        xarray_encoding(dataset, "quant,abs=1e-3")
    assert "t" in xarray_encoding(dataset, "lorenzo")


# ---- netCDF4-python -----------------------------------------------------------------------------


def test_a_filter_for_a_variable_of_netcdf4(tmp_path):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as nc:
        nc.createDimension("x", 1000)
        variable = nc.createVariable("v", "f4", ("x",), chunksizes=(500,), fill_value=-9)
        gridz.netcdf4.set_filter(variable, "quant,abs=1e-2")
        variable[:] = np.ma.array(np.arange(1000) / 7, mask=np.arange(1000) % 5 == 0)
        inner = nc.createGroup("g").createVariable("w", "i4", ("x",))
        gridz.netcdf4.set_filter(inner)
        inner[:] = np.arange(1000)
    with h5py.File(tmp_path / "x.nc") as file:
        assert str(stored_codec(file["v"])) == "quant,abs=0.01,level=fast,fill=-9" and file["v"].chunks == (500,)
        assert str(stored_codec(file["g/w"])) == "lorenzo,level=fast"
    with netCDF4.Dataset(tmp_path / "x.nc") as nc:
        np.testing.assert_array_equal(nc["v"][:].mask, np.arange(1000) % 5 == 0)
        assert abs(nc["v"][:] - np.arange(1000) / 7).max() <= 1e-2 + 1e-5
        np.testing.assert_array_equal(nc["g/w"][:], np.arange(1000))


@pytest.mark.parametrize("form", ["NETCDF4_CLASSIC", "NETCDF3_CLASSIC"])
def test_formats_without_filters(tmp_path, form):
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format=form) as nc:
        nc.createDimension("x", 9)
        with pytest.raises(gridz.InvalidArgument, match=f'{form} cannot have a filter; use format="NETCDF4"'):
            gridz.netcdf4.set_filter(nc.createVariable("v", "f4", ("x",)))


def test_variables_that_cannot_have_one(tmp_path):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as nc:
        nc.createDimension("x", 9)
        v = nc.createVariable("v", "f4", ("x",))
        with pytest.raises(gridz.UnsupportedJob, match="bounded_for"):
            gridz.netcdf4.set_filter(v, "quant,rel=1e-3")
        with pytest.raises(gridz.UnsupportedJob, match="use abs"):
            gridz.netcdf4.set_filter(nc.createVariable("i", "i4", ("x",)), "quant,pwrel=1e-3")
        with pytest.raises(gridz.InvalidArgument, match="a single value without dimensions"):
            gridz.netcdf4.set_filter(nc.createVariable("one", "f4", ()))
        with pytest.raises(gridz.UnsupportedJob, match="variable length"):
            gridz.netcdf4.set_filter(nc.createVariable("s", str, ("x",)))
        v[:] = 1
        with pytest.raises(gridz.HostError, match="right after createVariable"):
            gridz.netcdf4.set_filter(v)
