"""The distribution's command-line tools: h5repack, h5dump, h5diff, nccopy, ncdump."""

import re

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from support import (
    DEFAULT,
    DENSE,
    FAST,
    GRIDZ,
    LORENZO,
    NDZIP,
    REFERENCE,
    SPECS,
    STORED,
    ZFP,
    frames,
    made,
    need_reference,
    record,
    run,
    same,
    smooth,
    spec_in,
    spec_of,
    written,
    specials,
)


@pytest.fixture
def plain(tmp_path):
    """A file of plain datasets, as simulations write them."""
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("pressure", data=smooth("<f4", (100, 120, 30)), chunks=(64, 64, 30))
        file.create_dataset("group/energy", data=specials(">f8", (300, 200)), chunks=(100, 200))
        file.create_dataset("group/count", data=np.arange(5000), chunks=(512,), compression="gzip")
        file.create_dataset("scalar", data=3.5)
        file["label"] = "contiguous string"
        file["pressure"].attrs["unit"] = "Pa"
    return path


def assert_same_content(one, other):
    """Compares every dataset bit for bit; h5diff must agree."""
    with h5py.File(one) as first, h5py.File(other) as second:
        names = []
        first.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in names:
            expected, got = first[name], second[name]
            if expected.dtype.hasobject:
                assert expected.dtype == got.dtype and np.array_equal(expected[()], got[()])
            else:
                same(got[()], expected[()])
    run("h5diff", one, other)


def dumped_values(path, dataset):
    """The filter's number, values and comment as h5dump shows them."""
    shown = run("h5dump", "-p", "-H", "-d", dataset, path).stdout
    found = re.search(r"FILTER_ID (\d+)\s+COMMENT (.*)\s+PARAMS \{([^}]*)\}", shown)
    assert found, shown
    # h5dump prints cd_values as signed numbers.
    return int(found[1]), [int(word) % 2**32 for word in found[3].split()], found[2]


@pytest.mark.parametrize(
    ("option", "spec"),
    [
        ("UD=34013,0,0", DEFAULT),
        ("UD=34013,1,0", DEFAULT),
        ("UD=34013,0,1,2", DEFAULT),
        ("UD=34013,0,3,2,0,0", DEFAULT),
        ("UD=34013,0,3,2,0,1", (LORENZO, FAST)),
        ("UD=34013,0,3,2,0,2", (LORENZO, DENSE)),
        ("UD=34013,1,3,2,0,2", (LORENZO, DENSE)),
        ("UD=34013,0,1,1", (NDZIP, 0)),
        ("UD=34013,0,3,1,0,0", (NDZIP, 0)),
        ("UD=34013,0,1,0", (STORED, 0)),
    ],
)
def test_repack(tmp_path, plain, option, spec):
    packed = tmp_path / "packed.h5"
    run("h5repack", "-f", option, plain, packed)
    assert_same_content(plain, packed)
    with h5py.File(packed) as file:
        assert {spec_of(frame) for frame in frames(file["pressure"])} == {spec}
        # ndzip does not support integers.
        expected = (STORED, 0) if spec[0] == NDZIP else spec
        assert {spec_of(frame) for frame in frames(file["group/count"])} == {expected}
        assert file["pressure"].attrs["unit"] == "Pa"
    number, values, comment = dumped_values(packed, "/pressure")
    assert number == GRIDZ and comment.startswith("gridz ") and "HDF5_PLUGIN_PATH" in comment
    assert spec_in(values) == spec
    assert tuple(values) == record(values[1], 11 | 3 << 16, 4, 0, 0, 64, 0, 64, 0, 30, 0)


def test_repack_one_dataset(tmp_path, plain):
    run("h5repack", "-f", "group/energy:UD=34013,0,0", plain, tmp_path / "packed.h5")
    assert_same_content(plain, tmp_path / "packed.h5")
    with h5py.File(tmp_path / "packed.h5") as file:
        assert frames(file["group/energy"])
        assert file["pressure"].id.get_create_plist().get_nfilters() == 0


@pytest.mark.parametrize("words", ["0", "1,1", "1,2", "3,2,0,1", "3,2,0,2", "1,0"])
def test_repack_twice_changes_nothing(tmp_path, plain, words):
    paths = [tmp_path / f"{i}.h5" for i in range(4)]
    run("h5repack", "-f", f"UD=34013,0,{words}", plain, paths[0])
    run("h5repack", paths[0], paths[1])
    run("h5repack", "-f", f"UD=34013,0,{words}", paths[1], paths[2])
    # The stored cd_values are valid as input.
    _, values, _ = dumped_values(paths[0], "/pressure")
    words = ",".join(map(str, values))
    run("h5repack", "-f", f"/pressure:UD=34013,0,{len(values)},{words}", plain, paths[3])
    for path in paths:
        assert dumped_values(path, "/pressure") == dumped_values(paths[0], "/pressure")
        assert_same_content(plain, path)
    with h5py.File(paths[0]) as first:
        for path in paths[1:]:
            with h5py.File(path) as second:
                assert frames(first["pressure"]) == frames(second["pressure"])


def test_repack_dense_is_smaller_than_fast_is_smaller_than_ndzip(tmp_path, plain):
    sizes = []
    for words in ("3,2,0,2", "3,2,0,1", "1,1", "1,0"):
        run("h5repack", "-f", f"UD=34013,0,{words}", plain, tmp_path / "x.h5")
        with h5py.File(tmp_path / "x.h5") as file:
            names = ("pressure", "group/energy", "group/count")
            sizes.append([file[name].id.get_storage_size() for name in names])
    for smaller, larger in zip(sizes[:-1], sizes[1:], strict=True):
        assert sum(smaller) < sum(larger) and smaller[0] < larger[0]


def test_repack_from_one_codec_to_another(tmp_path, plain):
    # Applies every codec and level in turn, in one chain.
    last = plain
    for i, (codec, level) in enumerate([*SPECS, *SPECS[::-1], *SPECS[1:3]]):
        path = tmp_path / f"{i}.h5"
        run("h5repack", "-f", f"UD=34013,0,3,{codec},0,{level}", last, path)
        assert_same_content(plain, path)
        _, values, _ = dumped_values(path, "/pressure")
        assert spec_in(values) == (codec, level)
        with h5py.File(path) as file:
            assert {spec_of(frame) for frame in frames(file["pressure"])} <= written(made((codec, level), "<f4"))
        last = path


@pytest.mark.parametrize("spec", SPECS[1:])
@pytest.mark.parametrize("chunk", [(32, 120, 10), (100, 120, 30), (7, 11, 13), (2, 5, 30)])
def test_repack_to_other_chunks(tmp_path, plain, chunk, spec):
    packed, rechunked = tmp_path / "packed.h5", tmp_path / "rechunked.h5"
    run("h5repack", "-f", f"UD=34013,0,3,{spec[0]},0,{spec[1]}", plain, packed)
    run("h5repack", "-l", f"/pressure:CHUNK={'x'.join(map(str, chunk))}", packed, rechunked)
    assert_same_content(plain, rechunked)
    with h5py.File(rechunked) as file:
        found = {spec_of(frame) for frame in frames(file["pressure"])}
        assert file["pressure"].chunks == chunk and found <= written(spec) | {(STORED, 0)}
        assert found & written(made(spec, "<f4")) or (spec[0] in (NDZIP, ZFP) and np.prod(chunk) < 4096)
    _, values, _ = dumped_values(rechunked, "/pressure")
    assert values[6:-1:2] == list(chunk) and spec_in(values) == spec


def test_repack_away_and_to_others(tmp_path, plain):
    packed = tmp_path / "packed.h5"
    run("h5repack", "-f", "UD=34013,0,0", plain, packed)
    for i, option in enumerate(["NONE", "GZIP=1"]):
        other = tmp_path / f"{i}.h5"
        run("h5repack", "-f", option, packed, other)
        assert_same_content(plain, other)
        assert "34013" not in run("h5dump", "-p", "-H", other).stdout
    both = [
        ["SHUF", "UD=34013,0,0"],
        ["UD=34013,0,0", "FLET"],
        ["UD=34013,1,0", "GZIP=1"],
        ["UD=34013,1,3,2,0,2", "FLET"],
        ["UD=34013,0,1,1", "GZIP=1"],
    ]
    for i, filters in enumerate(both):
        other = tmp_path / f"both{i}.h5"
        run("h5repack", *(word for name in filters for word in ("-f", name)), plain, other)
        assert_same_content(plain, other)


@pytest.mark.parametrize("words", ["1,99", "3,1,0,5", "3,2,0,4", "4,1,1,0,0", "4,2,1,0,0", "2,1,1", "2,2,1"])
def test_repack_when_gridz_refuses(tmp_path, plain, words):
    # h5repack then writes the dataset without the filter and prints the reason only if asked to;
    # otherwise gridz prints it.
    quiet = run("h5repack", "-f", f"UD=34013,0,{words}", plain, tmp_path / "y.h5")
    done = run("h5repack", "--enable-error-stack", "-f", f"UD=34013,0,{words}", plain, tmp_path / "x.h5")
    reasons = "the codecs are 0 stored|has no levels|its levels are 1 fast, 2 dense, 3 max|use mode 0, lossless|allowed are"
    (line,) = quiet.stderr.splitlines()
    assert re.search(rf"gridz: a dataset is refused: .*({reasons})", line)
    assert "a dataset is refused" not in done.stderr
    assert re.search(rf"gridz line \d+ in can_apply\(\): .*({reasons})", done.stderr)
    assert_same_content(plain, tmp_path / "x.h5")
    assert "FILTER_ID" not in run("h5dump", "-p", "-H", "-d", "pressure", tmp_path / "x.h5").stdout


def test_dump_and_diff_read_the_data(tmp_path, plain):
    packed = tmp_path / "packed.h5"
    run("h5repack", "-f", "UD=34013,0,0", plain, packed)
    for dataset in ("/pressure", "/group/energy"):
        for path in (plain, packed):
            run("h5dump", "-d", dataset, "-b", "FILE", "-o", tmp_path / f"{path.stem}.bin", path)
        assert (tmp_path / "plain.bin").read_bytes() == (tmp_path / "packed.bin").read_bytes()
    with h5py.File(packed, "r+") as file:
        file["pressure"][50, 50, 5] += 1
    done = run("h5diff", plain, packed, check=False)
    assert done.returncode == 1 and "1 differences found" in done.stdout


def reference_files():
    names = ["*.nc", "*.h5ad", "*.hdf5"]
    return sorted(path for name in names for path in REFERENCE.glob(name) if path.read_bytes()[1:4] == b"HDF")


@pytest.mark.parametrize("words", ["0", "1,1", "3,2,0,2"])
def test_repack_real_files(tmp_path, words):
    need_reference()
    paths = reference_files()
    assert len(paths) == 3
    for path in paths:
        packed, again = tmp_path / f"{path.name}.packed", tmp_path / f"{path.name}.again"
        run("h5repack", "-f", f"UD=34013,0,{words}", path, packed)
        run("h5repack", packed, again)
        assert_same_content(path, packed)
        assert_same_content(path, again)
        assert "FILTER_ID 34013" in run("h5dump", "-p", "-H", again).stdout


@pytest.mark.parametrize("words", ["", ",1", ",2,0,2"])
def test_nccopy_real_files(tmp_path, words):
    need_reference()
    paths = sorted(REFERENCE.glob("*.nc"))
    assert len(paths) == 2
    for path in paths:
        packed = tmp_path / path.name
        run("nccopy", "-4", "-F", f"*,34013{words}", path, packed)
        assert '_Filter = "34013,' in run("ncdump", "-hs", packed).stdout
        with netCDF4.Dataset(path) as first, netCDF4.Dataset(packed) as second:
            assert list(first.variables) == list(second.variables)
            for name in first.variables:
                for file in (first, second):
                    file[name].set_auto_maskandscale(False)
                # A big-endian variable of a classic file may be little-endian in the new file.
                expected, got = first[name][...], second[name][...]
                same(got.astype(got.dtype.newbyteorder("=")), expected.astype(expected.dtype.newbyteorder("=")))


@pytest.fixture
def netcdf(tmp_path):
    """A plain netCDF file, and its contents."""
    theta = smooth("f4", (10, 64, 64))
    theta[0] = specials("f4", (64, 64))
    dataset = xarray.Dataset({"theta": (("t", "z", "x"), theta), "mass": ("x", smooth("f8", (64,)))})
    encoding = {"theta": {"_FillValue": None, "chunksizes": (5, 64, 64)}, "mass": {"_FillValue": None}}
    dataset.to_netcdf(tmp_path / "plain.nc", engine="netcdf4", encoding=encoding)
    return tmp_path / "plain.nc", dataset


@pytest.mark.parametrize(
    ("filter", "spec"),
    [
        ("theta,34013", DEFAULT),
        ("theta,34013,2", DEFAULT),
        ("theta,34013,2,0,1", (LORENZO, FAST)),
        ("theta,34013,2,0,2", (LORENZO, DENSE)),
        ("theta,34013,1", (NDZIP, 0)),
        ("theta,34013,1,0,0", (NDZIP, 0)),
        ("*,34013", DEFAULT),
        ("*,34013,2,0,2", (LORENZO, DENSE)),
    ],
)
def test_nccopy(tmp_path, netcdf, filter, spec):
    path, dataset = netcdf
    run("nccopy", "-F", filter, path, tmp_path / "packed.nc")
    run("nccopy", tmp_path / "packed.nc", tmp_path / "again.nc")
    for name in ("packed.nc", "again.nc"):
        shown = run("ncdump", "-hs", tmp_path / name).stdout
        words = [int(word) for word in re.search(r'theta:_Filter = "34013,([\d,]+)"', shown)[1].split(",")]
        assert spec_in(words) == spec
        assert tuple(words) == record(words[1], 11 | 3 << 16, 4, 0, 0, 5, 0, 64, 0, 64, 0)
        with h5py.File(tmp_path / name) as file:
            same(file["theta"][()], dataset["theta"].values)
            same(file["mass"][()], dataset["mass"].values)
            assert {spec_of(frame) for frame in frames(file["theta"])} == {spec}


@pytest.mark.parametrize("spec", SPECS[1:])
def test_nccopy_to_other_chunks_and_to_plain(tmp_path, netcdf, spec):
    path, dataset = netcdf
    run("nccopy", "-F", f"theta,34013,{spec[0]},0,{spec[1]}", path, tmp_path / "packed.nc")
    run("nccopy", "-c", "theta:2,32,64", tmp_path / "packed.nc", tmp_path / "rechunked.nc")
    run("nccopy", "-F", "none", tmp_path / "packed.nc", tmp_path / "plain.nc")
    for name, chunks, n_filters in (("rechunked.nc", (2, 32, 64), 1), ("plain.nc", (5, 64, 64), 0)):
        with h5py.File(tmp_path / name) as file:
            same(file["theta"][()], dataset["theta"].values)
            assert file["theta"].chunks == chunks
            assert file["theta"].id.get_create_plist().get_nfilters() == n_filters
            # Not all chunks: those of special values may be stored.
            if n_filters:
                found = {spec_of(frame) for frame in frames(file["theta"])}
                assert found & written(made(spec, "<f4")) or spec[0] == ZFP


@pytest.mark.parametrize("words", ["99", "2,0,4", "2,1", "1,0,1", "2,1,0,0"])
def test_nccopy_refuses_what_gridz_refuses(tmp_path, netcdf, words):
    done = run("nccopy", "-F", f"theta,34013,{words}", netcdf[0], tmp_path / "packed.nc", check=False)
    assert done.returncode != 0


def test_ncdump_reads_the_data(tmp_path, netcdf):
    run("nccopy", "-F", "theta,34013", netcdf[0], tmp_path / "packed.nc")
    data = [run("ncdump", "-n", "x", "-v", "theta", path).stdout for path in (netcdf[0], tmp_path / "packed.nc")]
    assert data[0] == data[1] and len(data[0]) > 100_000


@pytest.mark.parametrize("flag", [0, 1])
def test_repack_of_data_of_variable_length(tmp_path, flag):
    # docs/h5repack.md: HDF5 rejects a mandatory filter for this type, and h5repack then omits the
    # filter.
    strings = [f"entry {i}" for i in range(300)]
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file.create_dataset("strings", data=strings, dtype=h5py.string_dtype(), chunks=(64,))
        file.create_dataset("numbers", data=np.arange(1000.0), chunks=(100,))
    run("h5repack", "-f", f"UD=34013,{flag},0", tmp_path / "plain.h5", tmp_path / "packed.h5")
    assert_same_content(tmp_path / "plain.h5", tmp_path / "packed.h5")
    with h5py.File(tmp_path / "packed.h5") as file:
        assert file["strings"].id.get_create_plist().get_nfilters() == flag
        assert file["numbers"].id.get_create_plist().get_nfilters() == 1
