"""Missing data: fill values, valid ranges and masks are restored bit for bit, and no other element
becomes missing; checks of ranges."""

import json

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from click.testing import CliRunner

import gridz
import gridz.netcdf4
from gridz._cf import coordinates
from gridz._missing import of_attributes, of_codec, of_dataset
from gridz._ranges import outliers
from gridz.cli import main
from gridz.filters import stored_codec
from gridz.xarray import to_netcdf, xarray_encoding

FIELD = 280 + 10 * np.sin(np.arange(20_000) / 70).reshape(100, 200)
MASK = np.random.default_rng(3).random(FIELD.shape) < 0.2
LOSSY = [
    "quant,abs=0.01", "quant,abs=0.01,level=max", "quant,rel=1e-4", "quant,pwrel=1e-3", "multigrid,abs=0.01", "multigrid,rel=1e-4", "zfp,abs=0.01",
    "zfp,rel=1e-4",
]  # fmt: skip


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done.stdout if code == 0 else done.output + done.stderr


def with_fills(dtype, *fills):
    """The field, with each fill value in a part of the masked elements, and the positions of
    these."""
    array, places = FIELD.astype(dtype), []
    for i, fill in enumerate(fills):
        places.append(MASK & (np.arange(MASK.size).reshape(MASK.shape) % len(fills) == i))
        array[places[-1]] = fill
    return array, places


def check_kept(before, after, bound=0.5):
    """Asserts that missing elements have the same bits, no valid element became missing, and valid
    elements are close. Returns a count."""
    bits = f"V{before.dtype.itemsize}"
    is_missing = MASK if before.shape == MASK.shape else np.ones(before.shape, bool)
    assert (before[is_missing].view(bits) == after[is_missing].view(bits)).all()
    assert not np.isin(after[~is_missing], before[is_missing]).any()
    assert np.abs(after[~is_missing].astype("c16") - before[~is_missing]).max() <= bound
    return int(is_missing.sum())


# ---- attributes ---------------------------------------------------------------------------------

MEANINGS = [
    ("f4", {"_FillValue": np.float32(-999)}, [-999], None, None),
    ("f4", {"missing_value": np.float64(1e20)}, [1e20], None, None),
    (">f4", {"missing_value": 1e20}, [1e20], None, None),
    ("f4", {"missing_value": np.array([-999, -9999, -999], "i2")}, [-999, -9999], None, None),
    ("f4", {"_FillValue": 0.0, "missing_value": [1e20, 1e30]}, [0, 1e20, 1e30], None, None),
    ("f4", {"missing_value": "1e20", "_FillValue": b"x"}, [], None, None),
    ("f4", {"missing_value": 1e300}, [], None, None),
    ("f2", {"missing_value": 1e20, "_FillValue": -999}, [-999], None, None),
    ("u1", {"_FillValue": -9999}, [], None, None),
    ("i1", {"_FillValue": np.uint8(255), "_Unsigned": "true"}, [-1], None, None),
    ("i2", {"_FillValue": -9999.0, "missing_value": 0.5}, [-9999], None, None),
    ("u8", {"_FillValue": 2**64 - 1}, [2**64 - 1], None, None),
    ("c8", {"_FillValue": np.complex64(1 + 2j), "valid_min": 0.0}, [1 + 2j], None, None),
    ("c16", {"missing_value": -999}, [-999], None, None),
    ("f8", {"valid_range": [-50, 50]}, [], -50, 50),
    ("f8", {"valid_min": -50, "valid_max": np.array([50])}, [], -50, 50),
    ("f8", {"valid_range": [-50, 50], "valid_min": 0}, [], -50, 50),
    ("f8", {"valid_range": [1, 2, 3], "valid_min": np.nan, "valid_max": np.inf}, [], None, None),
    ("i2", {"valid_range": [-0.5, 99.5]}, [], 0, 99),
    ("u1", {"valid_min": -5, "valid_max": 300}, [], None, None),
    ("i1", {"valid_min": 0, "valid_max": 200, "_Unsigned": "true"}, [], None, None),
    ("S3", {"_FillValue": b"abc"}, [], None, None),
]


@pytest.mark.parametrize(("dtype", "attributes", "fills", "least", "most"), MEANINGS)
def test_attributes(dtype, attributes, fills, least, most):
    found, dtype = of_attributes(attributes, dtype), np.dtype(dtype)
    assert found.fills == tuple(np.array(fill, dtype).tobytes() for fill in fills)
    limits = [None if limit is None else np.array(limit, dtype).tobytes() for limit in (least, most)]
    assert [found.valid_min, found.valid_max] == limits


def test_attributes_of_unusual_types(tmp_path):
    lists = np.empty(1, object)
    lists[0] = np.array([-999.0, 5.0])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=FIELD, fillvalue=np.nan)
        made.attrs.create("missing_value", lists, dtype=h5py.vlen_dtype("f8"))
        made.attrs["_FillValue"] = np.longdouble(1e20)
        made.attrs["valid_min"], made.attrs["valid_max"] = h5py.Empty("f8"), "many"
        found = of_dataset(made)
    assert [np.frombuffer(fill)[0] for fill in found.fills[1:]] == [1e20, -999, 5] and np.isnan(
        np.frombuffer(found.fills[0])
    )
    assert found.valid_min is found.valid_max is None
    assert len(found.kept_by(gridz.Quant(abs=1, fill=[7, 5])).fills) == 4  # NaN need not be named in a request


def test_limits_of_another_type_hold_for_readers_that_compare_in_either():
    reached = 0
    for limit in np.random.default_rng(5).normal(size=300):
        found = of_attributes({"valid_min": limit, "valid_max": limit}, "f4")
        least, most = (np.frombuffer(end, "f4")[0] for end in (found.valid_min, found.valid_max))
        assert float(most) <= limit <= float(least) and np.nextafter(most, np.float32(np.inf)) >= least
        reached += np.float32(limit) not in (least, most) or least != most
    assert reached > 250


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", LOSSY)
def test_hdf5_by_attributes_alone(tmp_path, codec):
    forms = [
        lambda attributes, fills: attributes.create("missing_value", fills, dtype="f8"),
        lambda attributes, fills: attributes.create("missing_value", fills, dtype="f4"),
        lambda attributes, fills: attributes.update(
            _FillValue=np.float64(fills[0]), missing_value=np.array(fills[1:], "f8")
        ),
    ]
    types = ["f4", ">f4", "f8"] + ["f2"] * codec.startswith("quant")
    n = 0
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for dtype in types:
            for i, form in enumerate(forms):
                fills = (0, -999, 60000) if dtype == "f2" else (0, -999, float(np.float32(1e20)))
                made = file.create_dataset(
                    f"{dtype[-2:]}{i}{dtype[0]}", data=with_fills(dtype, *fills)[0], chunks=(50, 200)
                )
                form(made.attrs, fills)
                n += 1
    done = gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", codec)
    with h5py.File(tmp_path / "a.h5") as one, h5py.File(tmp_path / "b.h5") as two:
        assert len([d for d in done if d.codec and not gridz.parse(d.codec).is_lossless]) == n == len(two) >= 9
        missing = sum(check_kept(one[name][...], two[name][...]) for name in one)
        assert missing == n * MASK.sum()
        for d in done:
            assert 270 <= d.minimum < d.maximum <= 290 and 0 <= d.largest_error < 0.5 and d.psnr > 30
            # float16's resolution is coarser than some bounds; and quant may store whole blocks with
            # many fill values exactly.
            assert d.largest_error > 0 or "f2" in d.path or "level=max" in codec


@pytest.mark.parametrize("codec", ["quant,abs=4", "quant,rel=1e-2"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">i2", "u4", "i8"])
def test_hdf5_integers(tmp_path, dtype, codec):
    limits = np.iinfo(dtype)
    array = (FIELD - 200).astype(dtype)
    array[MASK], array[0, 5], array[MASK & (FIELD > 285)] = limits.min, limits.max, limits.max
    array[0, 5] = array[50, 50]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=array, chunks=(50, 200), fillvalue=limits.min)
        made.attrs["missing_value"] = np.array([limits.max], dtype)
    gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", datasets={"x": codec})
    with h5py.File(tmp_path / "b.h5") as file:
        assert not stored_codec(file["x"]).is_lossless
        assert check_kept(array.astype("f8"), file["x"][...].astype("f8"), 4) == MASK.sum()


@pytest.mark.filterwarnings("ignore:WARNING. missing_value")
@pytest.mark.parametrize("codec", ["quant,abs=0.01", "quant,rel=1e-3", "multigrid,abs=0.01", "zfp,abs=0.01"])
def test_netcdf_with_filling_switched_off(tmp_path, codec):
    array = with_fills("f4", 1e20)[0]
    valid = FIELD.astype("f4")
    valid[MASK] = -5000
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.set_fill_off()
        nc.createDimension("y", 100)
        nc.createDimension("x", 200)
        settings = {"fill_value": False, "chunksizes": (50, 200)}
        for name, values, attributes in [
            ("missing", array, {"missing_value": np.float32(1e20)}),
            ("double", array, {"missing_value": 1e20}),
            ("both", array, {"missing_value": np.array([-1, 1e20], "f4")}),
            ("range", valid, {"valid_range": np.array([0, 1000], "f4")}),
            ("least", valid, {"valid_min": np.float32(0)}),
        ]:
            made = nc.createVariable(name, "f4", ("y", "x"), **settings)
            made.set_auto_mask(False)
            made.setncatts(attributes)
            made[:] = values
    gridz.repack(tmp_path / "a.nc", tmp_path / "b.nc", codec)
    with netCDF4.Dataset(tmp_path / "a.nc") as one, netCDF4.Dataset(tmp_path / "b.nc") as two:
        masked = 0
        for name in one.variables:
            for masking in (True, False):
                one[name].set_auto_mask(masking)
                two[name].set_auto_mask(masking)
                before, after = one[name][:], two[name][:]
                assert (np.ma.getmaskarray(before) == np.ma.getmaskarray(after)).all()
                masked += int(np.ma.getmaskarray(after).sum())
            check_kept(before, after)
        assert masked == 4 * MASK.sum()  # netCDF4 itself does not apply "double", which is not a float32


@pytest.mark.filterwarnings("ignore:WARNING. missing_value")
def test_netcdf4_variables_and_their_attributes(tmp_path):
    array = with_fills("f4", 1e20, -999, 0)[0]
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as nc:
        nc.createDimension("y", 100)
        nc.createDimension("x", 200)
        made = nc.createVariable("v", "f4", ("y", "x"), fill_value=False)
        made.missing_value = np.array([1e20, -999, 0])
        made.valid_max = 1e4
        gridz.netcdf4.set_filter(made, "quant,abs=1e-2")
        made.set_auto_mask(False)
        made[:] = array
        packed = nc.createVariable("p", "f4", ("y", "x"))
        packed.scale_factor = 2.0
        with pytest.raises(gridz.UnsupportedJob, match="p: .*packed"):
            gridz.netcdf4.set_filter(packed, "quant,abs=1e-2")
    with h5py.File(tmp_path / "x.nc") as file:
        assert check_kept(array, file["v"][...]) == MASK.sum()
        assert len(stored_codec(file["v"]).fills) == 3


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4", "zarr2", "zarr3"])
@pytest.mark.parametrize("codec", ["quant,rel=1e-4", "multigrid,abs=0.01", "zfp,abs=0.01"])
def test_xarray_with_several_fill_values(tmp_path, engine, codec):
    arrays = {"several": with_fills("f4", -999, 1e20, 0)[0], "range": np.where(MASK, -5000, FIELD).astype("f8")}
    attributes = {"several": {"missing_value": np.array([-999, 1e20, 0])}, "range": {"valid_min": 0.0}}
    made = xarray.Dataset({name: (("y", "x"), arrays[name], attributes[name]) for name in arrays})
    name, format_ = engine.rstrip("23"), 2 if engine == "zarr2" else 3
    encoding = xarray_encoding(made, codec, name, zarr_format=format_)
    if name == "zarr":
        made.to_zarr(tmp_path / "x", encoding=encoding, zarr_format=format_, consolidated=False)
        back = xarray.open_zarr(tmp_path / "x", mask_and_scale=False, consolidated=False)
    elif name == "netcdf4":
        to_netcdf(made, tmp_path / "x", encoding=encoding)
        back = xarray.open_dataset(tmp_path / "x", engine="netcdf4", mask_and_scale=False)
    else:
        made.to_netcdf(tmp_path / "x", engine="h5netcdf", encoding=encoding)
        back = xarray.open_dataset(tmp_path / "x", engine="h5netcdf", mask_and_scale=False)
    assert sum(check_kept(arrays[key], back[key].values) for key in arrays) == 2 * MASK.sum()


def test_more_fill_values_than_a_codec_keeps(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("g/x", data=FIELD, chunks=(50, 200)).attrs["missing_value"] = np.arange(9.0)
    assert "/g/x has 9 fill values" in run("repack", tmp_path / "a.h5", tmp_path / "b.h5", "--rel", "1e-3", code=2)
    assert not (tmp_path / "b.h5").exists()
    run("repack", tmp_path / "a.h5", tmp_path / "b.h5")


def test_packed_and_unsigned_values_stay_lossless(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("packed", data=FIELD, chunks=(50, 200)).attrs["scale_factor"] = 0.1
        file.create_dataset("unsigned", data=FIELD.astype("u2").view("i2"), chunks=(50, 200)).attrs["_Unsigned"] = (
            "true"
        )
    done = {d.path: d for d in gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", datasets={"*": "quant,abs=1"})}
    assert {d.codec for d in done.values()} == {str(gridz.codec(None))}
    assert "packed values" in done["/packed"].reason and "_Unsigned" in done["/unsigned"].reason
    for name in ("packed", "unsigned"):
        with pytest.raises(gridz.UnsupportedJob, match=f"/{name}: quant.*is not for"):
            gridz.repack(tmp_path / "a.h5", tmp_path / "c.h5", datasets={name: "quant,abs=1"})


# ---- masks of NumPy -----------------------------------------------------------------------------


def masked(dtype="f4", **settings):
    return np.ma.array(FIELD.astype(dtype), mask=MASK, **settings)


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize("dtype", ["f4", ">f4", "f8"])
def test_masks_in_memory(dtype, codec):
    for array, fill in [
        (masked(dtype), 1e20),
        (masked(dtype, fill_value=0), 0),
        (masked(dtype, fill_value=np.nan), np.nan),
    ]:
        frame = gridz.compress(array, codec)
        back = gridz.decompress(frame)
        np.testing.assert_array_equal(back[MASK], np.full(MASK.sum(), fill, dtype))
        assert np.abs(back[~MASK].astype("f8") - array.data[~MASK]).max() <= 0.5
        assert gridz.quality(array, back, codec).ok and gridz.quality(array, np.ma.array(back, mask=MASK), codec).ok
        assert not gridz.quality(array, array.data, codec).ok
        room = np.empty(gridz.bound_of(array, codec), np.uint8)
        assert room[: gridz.compress(array, codec, out=room)].tobytes() == frame
        bounded = gridz.codec(codec).bounded_for(array)
        assert gridz.inspect(gridz.compress(array, bounded)).bound == pytest.approx(
            gridz.inspect(frame).bound, nan_ok=True
        )
        valid = array.data[~MASK]
        assert gridz.range_of(array) == (valid.min(), valid.max())
    named = gridz.decompress(gridz.compress(masked(dtype), f"{codec},fill=-999"))
    assert (named[MASK] == -999).all() and gridz.quality(masked(dtype), named, f"{codec},fill=-999").ok


def test_masks_of_lossless_codecs_and_integers():
    half = masked("f2")
    assert np.isinf(gridz.decompress(gridz.compress(half, "quant,abs=1"))[MASK]).all()  # NumPy's 1e20 as float16
    large = (np.arange(MASK.size, dtype="u8") + 2**63).reshape(MASK.shape)
    large[MASK] = 2**64 - 1
    back = gridz.decompress(gridz.compress(large, gridz.Quant(abs=10, fill=[2**64 - 1, 0])))
    assert ((back == 2**64 - 1) == MASK).all() and (back != large).any()
    array = masked("i2", fill_value=-7)
    assert (gridz.decompress(gridz.compress(array)) == array.filled()).all()
    assert (gridz.decompress(gridz.compress(array, "quant,abs=3"))[MASK] == -7).all()
    assert gridz.compress(np.ma.array(FIELD)) == gridz.compress(FIELD)


@pytest.mark.parametrize(
    "call",
    [
        lambda array: gridz.compress(array, "quant,abs=1"),
        lambda array: gridz.compress(array),
        lambda array: gridz.bound_of(array, "quant,abs=1"),
        lambda array: gridz.Quant(rel=1e-3).bounded_for(array),
        lambda array: gridz.quality(array, array),
        lambda array: gridz.plot(array),
        lambda array: gridz.plot_rate(array),
    ],
)
@pytest.mark.parametrize("fill", [280.5, np.nan])
def test_a_valid_element_with_the_fill_value_is_refused(call, fill):
    array = masked(fill_value=fill)
    array[np.unravel_index(np.flatnonzero(~MASK)[7], MASK.shape)] = fill
    with pytest.raises(gridz.InvalidArgument, match="1 elements that are not masked.*choose another"):
        call(array)


def test_objects_that_are_masked_arrays_for_numpy(tmp_path):
    import dask.array

    with netCDF4.Dataset(tmp_path / "x.nc", "w") as nc:
        nc.createDimension("y", 100)
        nc.createDimension("x", 200)
        variable = nc.createVariable("v", "f4", ("y", "x"), fill_value=1e20)
        variable[:] = masked()
        made = [variable, dask.array.from_array(masked(), chunks=(50, 200))]
        frames = {gridz.compress(array, "quant,rel=1e-3") for array in made}
        assert frames == {gridz.compress(masked(), "quant,rel=1e-3")}


def test_pictures_of_masked_arrays():
    figure = gridz.plot(masked(), "quant,rel=1e-3")
    shown = [np.ma.masked_invalid(ax.images[0].get_array()) for ax in figure.axes[:3]]
    assert all((values.mask == MASK).all() for values in shown) and abs(shown[0].max() - 290) < 0.1
    rates = [gridz.plot_rate(array, bounds=(1e-3,), **how).axes[0].lines for array, how in [
        (masked(), {}), (masked().filled(-999), {"fill": -999}), (masked().filled(1e20), {"fill": [-5, 1e20]}),
    ]]  # fmt: skip
    ratios = np.array([[line.get_ydata()[0] for line in lines] for lines in rates])
    assert ratios.shape[1] >= 3 and np.ptp(ratios, axis=0).max() < 0.1 * ratios.min()


@pytest.mark.parametrize("codec", ["quant,abs=1e-2", "multigrid,abs=1e-2", "zfp,abs=1e-2", "lorenzo", None])
def test_writing_masked_arrays(tmp_path, codec):
    import dask.array

    options = dict(gridz.codec(codec)) if codec else {}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i, fill in enumerate((-999, 0, np.nan)):
            for array in (masked("f8"), masked("f4"), dask.array.from_array(masked("f8"), chunks=(50, 200))):
                made = file.create_dataset(
                    f"{i}{array.dtype}{type(array)}", FIELD.shape, "f8", chunks=(50, 200), fillvalue=fill, **options
                )
                gridz.h5.write(made, array)
                np.testing.assert_array_equal(made[...][MASK], np.full(MASK.sum(), fill))
                assert np.abs(made[...][~MASK] - FIELD[~MASK]).max() < 0.02
        assert len(file) == 9
        part = file.create_dataset("part", FIELD.shape, "f4", chunks=(50, 200), fillvalue=5, **options)
        gridz.h5.write(part, masked()[:20], start=(30, 0))
        assert (part[30:50][MASK[:20]] == 5).all()
        wrong = masked("f4")
        wrong[np.unravel_index(np.flatnonzero(~MASK)[7], MASK.shape)] = 5
        with pytest.raises(gridz.InvalidArgument, match="not masked"):
            gridz.h5.write(part, wrong)
        none = file.create_dataset("none", FIELD.shape, "f4", chunks=(50, 200), **options)
        with pytest.raises(gridz.InvalidArgument, match="/none names no fill value"):
            gridz.h5.write(none, masked())
        none.attrs["_FillValue"] = np.float32(-9)
        if codec and not gridz.codec(codec).is_lossless:
            with pytest.raises(gridz.InvalidArgument, match="that its codec keeps"):
                gridz.h5.write(none, masked())
        else:
            gridz.h5.write(none, masked())
            assert (none[...][MASK] == -9).all()
        with pytest.raises(gridz.InvalidArgument, match="out is a masked array"):
            gridz.h5.read(part, np.ma.zeros(FIELD.shape, "f4"))
    with pytest.raises(gridz.InvalidArgument, match="masked array"):
        gridz.decompress(gridz.compress(FIELD), np.ma.zeros(FIELD.shape))


def test_zarr_refuses_masks():
    from gridz.numcodecs import Gridz

    with pytest.raises(gridz.InvalidArgument, match="mask would be lost"):
        Gridz("quant,abs=1").encode(masked())


# ---- guards -------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(8)
RAIN = np.maximum(0, RANDOM.gamma(0.3, 10, 20_000) - 15)
NORMAL = RANDOM.normal(280, 10, 20_000)
GOOD = {
    "normal": NORMAL, "uniform": RANDOM.random(5000), "rain": RAIN, "hardly any rain": np.where(RANDOM.random(20_000) < 0.999, 0, RAIN + 1),
    "constant": np.full(99, 7.0), "constant but one": np.r_[np.full(99, 7.0), 8], "mask": RANDOM.integers(0, 2, 5000), "one": np.array([5.0]),
    "two": np.array([0.0, 1e9]), "few": np.array([1.0, 2, 3, 5, 8]), "steps": RANDOM.integers(0, 10, 5000), "exponential": RANDOM.exponential(1, 20_000),
    "clipped": np.clip(NORMAL, 275, 285), "signs": np.where(RANDOM.random(5000) < 0.995, 0, RANDOM.normal(size=5000)), "sine": FIELD.ravel(),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_ranges(name):
    assert outliers(GOOD[name].astype("f8")) == []


@pytest.mark.parametrize("base", ["normal", "rain", "uniform", "sine", "exponential"])
@pytest.mark.parametrize("fills", [(1e20,), (-9999,), (9.96921e36, -1e4), (-1e20, 1e20), (1e30, 1e20, -1e5)])
def test_ranges_made_by_outliers(base, fills):
    reached = 0
    for share in (0.0001, 0.003, 0.1, 0.9):
        array = GOOD[base].astype("f8")
        places = RANDOM.permutation(array.size)[: max(int(share * array.size), len(fills))]
        array[places] = np.resize(fills, places.size)
        found = outliers(array)
        assert {value for value, _ in found} == set(fills)
        assert sum(share for _, share in found) == pytest.approx(places.size / array.size)
        reached += 1
    assert reached == 4


def test_outliers_stop_ranges_everywhere(tmp_path):
    array = np.where(MASK, 1e20, FIELD).astype("f4")
    for call in (
        lambda **how: gridz.Quant(rel=1e-4).bounded_for(array, **how),
        lambda **how: gridz.compress(array, "quant,rel=1e-4", **how),
        lambda **how: gridz.plot(array, "quant,rel=1e-4", **how),
        lambda **how: gridz.plot_rate(array, bounds=(1e-4,), **how),
        lambda **how: xarray_encoding(xarray.Dataset({"x": (("a", "b"), array)}), "quant,rel=1e-4", **how),
        lambda **how: xarray_encoding(
            xarray.Dataset({"x": (("a", "b"), array)}).chunk({"a": 30}), "quant,rel=1e-4", **how
        ),
    ):
        with pytest.raises(
            gridz.InvalidArgument, match=r"range .* to 1e\+20.*1e\+20 \(about 2. % of the elements\).*fill=1e\+20"
        ):
            call()
        call(force=True)
    assert gridz.compress(array, "quant,rel=1e-4,fill=1e20") == gridz.compress(
        array, "quant,rel=1e-4,fill=1e20", force=True
    )
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("g/t", data=array, chunks=(50, 200))
    text = run("repack", source, target, "--rel", "1e-4", code=2)
    assert (
        "/g/t: outliers" in text and "--fill 1e+20" in text and "--dataset /g/t=quant,abs" in text and not target.exists()
    )
    run("bench", source, "--rel", "1e-4", code=2)
    run("repack", source, target, "--rel", "1e-4", "--fill", "-5", "--fill", "1e20")
    with h5py.File(target) as file:
        assert check_kept(array, file["g/t"][...]) == MASK.sum()
        assert stored_codec(file["g/t"]).value < 0.01
    run("repack", source, target, "--rel", "1e-4", "--force")
    run("repack", source, target, "--force", "--dataset", "t=quant,abs=1e-3")
    gridz.repack(source, target, "quant,rel=1e-4", fill=1e20)
    assert "is not a number" in run("repack", source, target, "--force", "--fill", "x", code=2)


def test_bench_leaves_out_missing_elements(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=with_fills("f8", 1e20, -999)[0], chunks=(50, 200)).attrs["missing_value"] = [
            1e20,
            -999,
        ]
    (shown,) = json.loads(run("bench", tmp_path / "a.h5", "--rel", "1e-3", "--repeats", 1, "--json"))
    lossy = [result for result in shown["results"] if "fill=" in result["label"]]
    assert len(lossy) >= 5 and all(0 <= result["max_error"] <= 0.02 and not result["error"] for result in lossy)


def test_a_large_relative_bound_is_forced(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["t"] = FIELD
    for arguments in (["--rel", "2"], ["--codec", "quant,rel=0.11"], ["--dataset", "t=zfp,rel=0.5"]):
        assert "--force" in run("repack", source, target, *arguments, code=2) and not target.exists()
    assert "--force" in run("bench", source, "--rel", "0.2", code=2)
    with pytest.raises(gridz.InvalidArgument, match="force=True"):
        gridz.repack(source, target, "quant,rel=0.2")
    gridz.repack(source, target, "quant,rel=0.2", force=True)
    run("repack", source, target, "--rel", "2", "--force")
    run("repack", source, tmp_path / "c.h5", "--rel", "0.1")


def test_patterns(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        for name in ("fields/T", "fields/U", "fields/in/T", "x[1]"):
            file[name] = FIELD
        file["alias"] = file["fields/U"]
    for glob, hint in [
        ("nosuch", "the file has /"), ("fields/TT", "did you mean /fields/T"), ("/field/T", "did you mean /fields/T"), ("t", "did you mean /"),
        ("fields", r"it is a group: /fields/\* matches"), ("/T", "did you mean /fields"),
    ]:  # fmt: skip
        with pytest.raises(gridz.InvalidArgument, match=f"'{glob}'.*matches no dataset.*{hint}"):
            gridz.repack(source, target, "quant,rel=1e-3", datasets={glob: "keep"})
        assert "matches no dataset" in run("repack", source, target, "--dataset", f"{glob}=keep", code=2)
        assert not target.exists()
    for glob, kept in [
        ("fields/T", {"/fields/T"}), ("/fields/T", {"/fields/T"}), ("T", {"/fields/T", "/fields/in/T"}), ("fields/*/T", {"/fields/in/T"}),
        ("x[1]", {"/x[1]"}), ("*/U", {"/fields/U"}),
    ]:  # fmt: skip
        done = gridz.repack(source, target, "quant,rel=1e-3", datasets={glob: "keep"})
        assert {d.path.replace("/alias", "/fields/U") for d in done if d.codec is None} == kept
        assert all(d.reason == f"kept ({glob})" for d in done if d.codec is None)
    done = gridz.repack(source, target, "quant,rel=1e-3", datasets={"alias": "keep"})
    assert len([d for d in done if d.codec is None]) == 1


CF = {
    "/t": {"coordinates": "lon lat", "grid_mapping": "crs: xc yc", "cell_measures": "area: areacella", "ancillary_variables": "error"},
    "/lon": {"bounds": "lon_bnds"}, "/lat": {}, "/lon_bnds": {}, "/areacella": {}, "/xc": {}, "/yc": {}, "/crs": {},
    "/error": {"units": "K", "standard_name": "air_temperature"}, "/g/s": {"coordinates": b"lat depth ../time_of_day"}, "/g/depth": {},
    "/time_of_day": {}, "/level": {"axis": "Z"}, "/XLAT": {"units": "degree_north"}, "/XLONG": {"units": "degreesE"}, "/clock": {"units": "days since 2000-01-01"},
    "/rlat": {"standard_name": "grid_latitude"}, "/angle": {"units": "degrees"}, "/flux": {"positive": "down", "units": "W m-2"},
    "/quality": {"flag_values": np.array([0.0, 1.0])}, "/p": {"standard_name": "air_pressure"}, "/u": {"units": "degrees"}, "/wrong": {"coordinates": 5, "axis": 3},
}  # fmt: skip


def test_coordinates_by_cf(tmp_path):
    data = {"/t", "/error", "/g/s", "/angle", "/flux", "/p", "/u", "/wrong"}
    found = coordinates(CF)
    assert set(found) == set(CF) - data
    assert found["/lat"] == "a coordinate (named in coordinates of /t)" and "degreesE" in found["/XLONG"]
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        for path, attributes in CF.items():
            file[path] = FIELD
            file[path].attrs.update(attributes)
        file["g/of_group"], file["g"].attrs["coordinates"] = FIELD, "of_group"
        file["scale"] = FIELD[0].repeat(9)
        file["scale"].make_scale()
    for settings in ({"codec": "quant,rel=1e-3"}, {"datasets": {"*": "quant,abs=1e-2"}}):
        done = gridz.repack(source, target, **settings)
        assert {d.path for d in done if not gridz.parse(d.codec).is_lossless} == data
        assert all((d.reason is None) == (d.path in data) for d in done)
    done = gridz.repack(source, target, datasets={"/lat": "quant,abs=1e-2", "scale": "quant,abs=1e-2"})
    assert {d.path for d in done if not gridz.parse(d.codec).is_lossless} == {"/lat", "/scale"}
    made = xarray.Dataset(
        {path[1:]: (("a", "b"), FIELD, attributes) for path, attributes in CF.items() if path.count("/") == 1}
    )
    encoding = xarray_encoding(made, "quant,abs=1e-2")
    lossy = {
        f"/{name}"
        for name in encoding
        if not gridz.Codec.from_filter_options(encoding[name]["compression_opts"]).is_lossless
    }
    assert lossy == data - {"/g/s"} | {"/time_of_day"}


def test_the_report(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["t"], file["lat"], file["n"], file["small"], file["text"] = (
            FIELD,
            FIELD,
            FIELD.astype("i4"),
            [1.0],
            ["a"] * 9999,
        )
        file["lat"].attrs["units"] = "degrees_north"
        file["t"].attrs["missing_value"] = 280.0
        file["old"] = np.full(3000, 2.5)
    shown = run("repack", source, target, "--rel", "1e-3")
    assert "270 … 290" in shown and "dB" in shown and f"compared with {source}" in shown and "1 small" in shown
    assert "1 coordinate" in shown and "1 no floats" in shown and max(map(len, shown.split())) < 60
    shown = json.loads(run("repack", source, target, "--rel", "1e-3", "--force", "--json"))
    by_path = {d["path"]: d for d in shown["datasets"]}
    with h5py.File(target) as file:
        error = np.abs(file["t"][...] - FIELD)
    assert by_path["/t"]["largest_error"] == error.max() > 0 and shown["compared_with"] == str(source)
    assert by_path["/t"]["minimum"] == FIELD.min() and by_path["/t"]["maximum"] == FIELD.max()
    assert by_path["/t"]["psnr"] == pytest.approx(20 * np.log10(np.ptp(FIELD) / np.sqrt((error**2).mean())), abs=0.01)
    assert by_path["/lat"]["reason"] == "a coordinate (units 'degrees_north')" and by_path["/lat"]["psnr"] is None
    assert by_path["/small"]["reason"] == "small" and by_path["/text"]["codec"] is None and by_path["/text"]["reason"]
    assert "before it was replaced" in run("repack", target, target, "--dataset", "t=quant,abs=1")


def test_a_dataset_that_is_written_in_part_has_the_range_of_all(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (400, 200), "f8", chunks=(50, 200))
        made[:100] = FIELD
        named = file.create_dataset("named", (400, 200), "f8", chunks=(50, 200), fillvalue=0)
        named[:100] = FIELD
    bounds = {
        d.path: gridz.parse(d.codec).value
        for d in gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", "quant,rel=1e-3", force=True)
    }
    assert bounds["/x"] == pytest.approx(0.29, rel=0.01) and bounds["/named"] == pytest.approx(0.02, rel=0.01)


def test_missing_elements_of_a_stored_request_are_kept(tmp_path):
    array = with_fills("f4", 1e20, -999)[0]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(50, 200), **gridz.Zfp(abs=1e-3, fill=[1e20, -999]))
    (done,) = gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", datasets={"x": "quant,rel=1e-3"})
    assert len(gridz.parse(done.codec).fills) == 2
    with h5py.File(tmp_path / "b.h5") as file:
        assert check_kept(array, file["x"][...]) == MASK.sum()


@pytest.mark.parametrize("codec", ["multigrid,rms=0.01", "zfp,rate=16", "zfp,precision=20", "multigrid,abs=0.01,layers=3"])
def test_modes_without_a_bound_of_each_element(tmp_path, codec):
    array = with_fills("f4", 1e20, -999, 0)[0]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(50, 200)).attrs["missing_value"] = [1e20, -999, 0]
    (done,) = gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", codec)
    with h5py.File(tmp_path / "b.h5") as file:
        assert check_kept(array, file["x"][...], 5) == MASK.sum()
    assert (done.minimum, done.maximum) == (array[~MASK].min(), array[~MASK].max()) and 0 < done.largest_error < 5


def test_requests_name_missing_elements():
    codec = gridz.Quant(abs=1e-3, fill=[-999, 1e20, 0], valid_min=-1e3, valid_max=1e3)
    assert len(codec.fills) == 3 and codec == gridz.parse(str(codec)) == gridz.Codec.from_filter_options(
        codec.filter_options
    )
    assert type(codec)(**codec.get_config()) == codec
    assert len(of_codec(codec, "f4").fills) == 3
    both = of_attributes({"valid_range": [-1e4, 5], "_FillValue": 0.0}, ">f4").kept_by(codec)
    assert len(both.fills) == 3 and (float(both.valid_min), float(both.valid_max)) == (-1000, 5)
    assert gridz.range_of(np.array([-2e3, -999, -7, 0, 5, 1e20]), codec.fills, valid_min=-1e3) == (-7, 5)
    with pytest.raises(gridz.Error):
        gridz.Quant(abs=1e-3, fill=list(range(9)))
