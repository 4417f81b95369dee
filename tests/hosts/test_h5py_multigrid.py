"""h5py and other hosts: multigrid respects error bounds and mean-square bounds, warns that it drifts,
and refuses unsupported requests."""

import h5py
import numpy as np
import pytest
import xarray

from support import DRIFTING, GRIDZ, MULTIGRID, frames, options, python, run, same, smooth, spec_of
from test_h5py_bounds import ABS, REL, create, kept, read

RMS = 6


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("spec", DRIFTING)
def test_floats_keep_their_bound(tmp_path, dtype, spec):
    data = smooth(dtype, (100, 130))
    create(tmp_path / "x.h5", data, options(MULTIGRID, ABS, 0.3))
    kept(read(tmp_path / "x.h5"), data, 0.3)
    with h5py.File(tmp_path / "x.h5") as file:
        assert {spec_of(frame) for frame in frames(file["x"])} == {spec}
        assert 4 * sum(map(len, frames(file["x"]))) < data.nbytes


@pytest.mark.parametrize("rank", range(1, 8))
def test_every_rank(tmp_path, rank):
    shape = [5000, 70, 17, 8, 5, 4, 3][rank - 1 :: -1] if rank < 3 else [5] * (rank - 2) + [20, 30]
    data = smooth("f4", shape)
    create(tmp_path / "x.h5", data, options(MULTIGRID, ABS, 1e-2), chunks=tuple(max(1, n * 2 // 3) for n in shape))
    kept(read(tmp_path / "x.h5"), data, 1e-2)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e35, -0.0])
def test_special_values_and_their_neighbours(tmp_path, special):
    data = smooth("f4", (128, 128))
    data[::7, ::5] = special
    data[40:90, 30:100] = special
    create(tmp_path / "x.h5", data, options(MULTIGRID, ABS, 1e-3))
    kept(read(tmp_path / "x.h5"), data, 1e-3)


@pytest.mark.parametrize("mode", [ABS, RMS])
@pytest.mark.parametrize("fill", [-999.0, 1e20, np.nan, 0.5])
def test_fill_values_stay_what_they_are_and_nothing_becomes_one(tmp_path, fill, mode):
    rng = np.random.default_rng(1)
    data = smooth("f4", (128, 128)) / 100
    data[20:80, 10:90] = fill
    near = rng.random(data.shape) < 0.1
    data[near] = np.float32(fill) + rng.uniform(-0.02, 0.02, near.sum()).astype("f4")
    create(tmp_path / "x.h5", data, options(MULTIGRID, mode, 1e-2), fillvalue=np.float32(fill))
    got = read(tmp_path / "x.h5")
    bits = np.float32(fill).view("u4")
    same(got.view("u4") == bits, data.view("u4") == bits)
    if mode == ABS:
        kept(got, data, 1e-2)


@pytest.mark.parametrize("value", [1e-1, 1e-3])
def test_a_mean_of_squares_is_kept(tmp_path, value):
    data = smooth("f8", (120, 128))
    create(tmp_path / "x.h5", data, options(MULTIGRID, RMS, value), chunks=(60, 64))
    errors = read(tmp_path / "x.h5") - data
    assert value / 2 < np.sqrt(np.mean(errors**2)) <= value
    create(tmp_path / "y.h5", data, options(MULTIGRID, ABS, value), chunks=(60, 64))
    assert (tmp_path / "x.h5").stat().st_size < (tmp_path / "y.h5").stat().st_size


def test_it_says_that_it_drifts(tmp_path):
    done = python(
        """
        import h5py, numpy
        with h5py.File(sys.argv[1], "w") as file:
            for name in "ab":
                values = tuple(map(int, sys.argv[2:]))
                file.create_dataset(name, data=numpy.ones((64, 64), "f4"), chunks=(32, 32), compression=34013, compression_opts=values)
        """,
        tmp_path / "x.h5",
        *options(MULTIGRID, ABS, 1e-3),
    )
    assert done.stderr.count("drifts") == 1 and "quant" in done.stderr


def test_what_cannot_be_kept_is_refused(tmp_path):
    data = smooth("<i4", (64, 64))
    with pytest.raises(ValueError, match="multigrid supports only float32, float64; use a lossless codec"):
        create(tmp_path / "x.h5", data, options(MULTIGRID, ABS, 1))
    with pytest.raises(ValueError, match="cannot know the range of the dataset; use abs"):
        create(tmp_path / "x.h5", data.astype("f4"), options(MULTIGRID, REL, 1e-3))
    with pytest.raises(ValueError, match="the shuffle filter runs before gridz"):
        create(tmp_path / "x.h5", data.astype("f4"), options(MULTIGRID, ABS, 1e-3), shuffle=True)


def test_h5repack_and_netcdf(tmp_path):
    data = smooth("f4", (100, 120))
    plain = xarray.Dataset({"v": (("y", "x"), data)})
    plain.to_netcdf(tmp_path / "plain.nc", engine="netcdf4", encoding={"v": {"chunksizes": (50, 60)}})
    words = ",".join(map(str, options(MULTIGRID, ABS, 1e-3)))
    run("nccopy", "-F", f"v,{GRIDZ},{words}", tmp_path / "plain.nc", tmp_path / "packed.nc")
    run("h5repack", "-l", "v:CHUNK=100x17", tmp_path / "packed.nc", tmp_path / "again.nc")
    # Each time that chunks are re-encoded, the error may grow by one bound.
    for name, n in (("packed.nc", 1), ("again.nc", 2)):
        with h5py.File(tmp_path / name) as file:
            assert {spec_of(frame) for frame in frames(file["v"])} == {DRIFTING[0]}
            kept(file["v"][()], data, n * 1e-3)
