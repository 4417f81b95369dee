"""h5py: zfp in all modes that HDF5 offers, its refusals, and its warning about drift."""

import h5py
import numpy as np
import pytest

from support import FAST, GRIDZ, ZFP, frames, options, python, same, smooth, spec_of

LOSSLESS, ABS, REL, RATE, PRECISION, PWREL, EXPERT = 0, 1, 2, 3, 4, 5, 7


def written(path, data, values, **more):
    """Writes a dataset; returns the decoded values and its frames."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(40, 50), compression=GRIDZ, compression_opts=values, **more)
    with h5py.File(path) as file:
        return file["x"][()], frames(file["x"])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<i4", ">i4", "<i8", ">i8"])
def test_every_mode(tmp_path, dtype):
    data, is_float = smooth(dtype, (80, 150)), np.dtype(dtype).kind == "f"
    bits = data.itemsize * 8
    got, _ = written(tmp_path / "lossless.h5", data, (ZFP, 0, FAST))
    same(got, data)
    expert = (*options(ZFP, EXPERT, 0.0), 1, 16 * bits * 3 // 4, 64, -1074 & 0xFFFFFFFF)
    modes = [options(ZFP, RATE, bits * 3 / 4), options(ZFP, PRECISION, 20 if is_float else bits - 4), expert]
    for values in modes + ([options(ZFP, ABS, 1e-2)] if is_float else []):
        got, found = written(tmp_path / "x.h5", data, values)
        assert got.dtype == data.dtype and {spec_of(frame) for frame in found} == {(ZFP, FAST)}
        assert sum(map(len, found)) < data.nbytes
        error = np.abs(got.astype("f8") - data.astype("f8")).max()
        assert error <= (1e-2 if values[1] == ABS else 60)


def test_the_fill_value_of_the_dataset_comes_back(tmp_path):
    data = smooth("f4", (80, 150))
    data[20:60, 30:100] = 1e20
    for values in (options(ZFP, ABS, 1e-2), options(ZFP, RATE, 12), options(ZFP, PRECISION, 14)):
        got, found = written(tmp_path / "x.h5", data, values, fillvalue=1e20)
        assert np.array_equal(got == np.float32(1e20), data == np.float32(1e20))
        assert np.abs(got - data)[data < 1e19].max() < 1
        assert sum(map(len, found)) < data.nbytes * 0.7


def test_what_cannot_be_is_refused_when_the_dataset_is_created(tmp_path):
    for dtype, values, says in [
        ("i4", options(ZFP, ABS, 1.0), "zfp keeps no error bound for int32 elements, which are integers; use quant"),
        ("f4", options(ZFP, REL, 1e-3), "use abs with the value times that range"),
        ("f4", options(ZFP, PWREL, 1e-3), "it has no mode 5, pwrel"),
        ("f4", options(ZFP, RATE, 2000.0), "use a rate from"),
        ("f4", (*options(ZFP, EXPERT, 0.0), 9, 8), "minbits must be from 0 to maxbits"),
        ("u2", options(ZFP, RATE, 8.0), "zfp supports only int32, int64, float32, float64"),
    ]:
        with h5py.File(tmp_path / "x.h5", "w") as file, pytest.raises(Exception, match=says):
            data = np.zeros((80, 100), dtype)
            file.create_dataset("x", data=data, chunks=(40, 50), compression=GRIDZ, compression_opts=values)


@pytest.mark.parametrize("values, n", [((ZFP, 0), 0), (options(ZFP, RATE, 8.0), 1), (options(ZFP, ABS, 1e-2), 1)])
def test_drift_is_reported_once(tmp_path, values, n):
    done = python(
        f"""
        import h5py, numpy as np
        with h5py.File("x.h5", "w") as file:
            for name in "abc":
                file.create_dataset(name, data=np.ones((80, 100)), chunks=(40, 50), compression={GRIDZ},
                                    compression_opts={values})
        """,
        cwd=tmp_path,
    )
    assert done.stderr.count("drifts") == n
