"""h5py: error bounds hold whatever is done with a file, and requests that cannot be met are
refused."""

import sys

import h5py
import numpy as np
import pytest
import xarray

from support import BOUNDED, GRIDZ, MULTIGRID, PLUGIN, ROOT, QUANT, ZFP, frames, options, python, run, same, smooth, spec_of

ABS, REL, PWREL = 1, 2, 5
TYPES = ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2", "i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u8", ">i8"]


def kept(got, was, bound):
    """Asserts, in exact arithmetic, that every finite element is within the bound; all others must
    be equal bit for bit."""
    assert (got.dtype, got.shape) == (was.dtype, was.shape)
    if was.dtype.kind in "iu":
        assert all(abs(int(a) - int(b)) <= bound for a, b in zip(got.ravel(), was.ravel()))
        return
    finite = np.isfinite(was)
    same(got[~finite], was[~finite])
    if was.dtype.itemsize < 8:
        errors = np.abs(got[finite].astype("f8") - was[finite].astype("f8"))
        assert (errors <= bound).all(), errors.max()
        return
    a, b = got[finite].astype("f8"), was[finite].astype("f8")
    high = a - b
    part = a - high
    low = (a - (high + part)) + (part - b)
    low, high = np.where(high < 0, -low, low), np.abs(high)
    assert ((high < bound) | (high == bound) & (low <= 0)).all(), high.max()


def create(path, data, values, chunks=(64, 64), **more):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, compression=GRIDZ, compression_opts=values, **more)


def read(path):
    with h5py.File(path) as file:
        return file["x"][()]


@pytest.mark.parametrize("spec", BOUNDED)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_keeps_its_bound(tmp_path, dtype, spec):
    data = smooth(dtype, (100, 130))
    bound = 0.3 if np.dtype(dtype).kind == "f" else 3
    create(tmp_path / "x.h5", data, options(spec[0], ABS, bound, spec[1]))
    kept(read(tmp_path / "x.h5"), data, bound)
    with h5py.File(tmp_path / "x.h5") as file:
        assert {spec_of(frame) for frame in frames(file["x"])} == {spec}
        assert sum(map(len, frames(file["x"]))) < data.nbytes


@pytest.mark.parametrize("spec", BOUNDED)
@pytest.mark.parametrize("rank", range(1, 8))
def test_every_rank(tmp_path, rank, spec):
    shape = [5000, 70, 17, 8, 5, 4, 3][rank - 1 :: -1] if rank < 3 else [5] * (rank - 2) + [20, 30]
    data = smooth("f4", shape)
    values = options(spec[0], ABS, 1e-2, spec[1])
    create(tmp_path / "x.h5", data, values, chunks=tuple(max(1, n * 2 // 3) for n in shape))
    kept(read(tmp_path / "x.h5"), data, 1e-2)


@pytest.mark.parametrize("spec", BOUNDED)
def test_tiny_arrays(tmp_path, spec):
    for n in range(1, 11):
        data = smooth("f8", (n,))
        create(tmp_path / "x.h5", data, options(spec[0], ABS, 1e-2, spec[1]), chunks=(n,))
        kept(read(tmp_path / "x.h5"), data, 1e-2)


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["<c8", ">c16"])
def test_both_parts_of_complex_numbers_keep_the_bound(tmp_path, dtype, level):
    data = (smooth("f4", (64, 64)) * (1 + 2j)).astype(dtype)
    data[5, 7], data[9, 9] = np.nan + 1j, 1 - 1j * np.inf
    create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-2, level), fillvalue=data[3, 3])
    part = np.dtype(dtype[0] + "f" + str(data.itemsize // 2))
    kept(read(tmp_path / "x.h5").view(part), data.view(part), 1e-2)
    with h5py.File(tmp_path / "x.h5") as file:
        assert {spec_of(frame) for frame in frames(file["x"])} == {(QUANT, level)}


def test_bounds_of_other_compounds_are_refused(tmp_path):
    data = np.zeros((64, 64), [("x", "<f4"), ("y", "<f4")])
    with pytest.raises(ValueError, match="use a lossless codec"):
        create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-2))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e35, -0.0])
def test_special_values_and_their_neighbours(tmp_path, special):
    data = smooth("f4", (128, 128))
    data[::7, ::5] = special
    data[40:90, 30:100] = special
    create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-3))
    kept(read(tmp_path / "x.h5"), data, 1e-3)


@pytest.mark.parametrize("fill", [-999.0, 1e20, 9.96921e36, np.nan, 0.5])
def test_fill_values_stay_what_they_are_and_nothing_becomes_one(tmp_path, fill):
    rng = np.random.default_rng(1)
    data = smooth("f4", (128, 128)) / 100
    data[20:80, 10:90] = fill
    data[rng.random(data.shape) < 0.1] = fill
    near = rng.random(data.shape) < 0.1
    data[near] = np.float32(fill) + rng.uniform(-0.02, 0.02, near.sum()).astype("f4")
    create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-2), fillvalue=np.float32(fill))
    got = read(tmp_path / "x.h5")
    kept(got, data, 1e-2)
    bits = np.float32(fill).view("u4")
    same(got.view("u4") == bits, data.view("u4") == bits)


def test_the_default_fill_value_is_none(tmp_path):
    data = smooth("f4", (128, 128)) / 1e4
    create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-2))
    got = read(tmp_path / "x.h5")
    kept(got, data, 1e-2)
    assert (got == 0).sum() > (data == 0).sum() + 100
    with h5py.File(tmp_path / "x.h5") as file:
        assert sum(map(len, frames(file["x"]))) < data.nbytes / 20


@pytest.mark.parametrize("codec", [QUANT, ZFP, MULTIGRID])
def test_a_fill_value_of_zero_that_the_user_has_set_is_one(tmp_path, codec):
    data = smooth("f4", (128, 128)) / 1e4
    data[20:50, 10:90] = 0
    create(tmp_path / "x.h5", data, options(codec, ABS, 1e-2), fillvalue=0.0)
    got = read(tmp_path / "x.h5")
    kept(got, data, 1e-2)
    same(got.view("u4") == 0, data.view("u4") == 0)


def test_pwrel(tmp_path):
    rng = np.random.default_rng(2)
    data = (10.0 ** rng.uniform(-30, 30, (100, 100)) * rng.choice([-1, 1], (100, 100))).astype("f8")
    data[3:9] = 0
    create(tmp_path / "x.h5", data, options(QUANT, PWREL, 1e-3))
    got = read(tmp_path / "x.h5")
    assert all(abs(float(a) - float(b)) * 1000 <= abs(float(b)) * (1 + 1e-12) for a, b in zip(got.ravel(), data.ravel()))
    same(got == 0, data == 0)


def test_random_arrays_of_every_type():
    found = run(sys.executable, ROOT / "scripts" / "check_bounds.py", "--library", PLUGIN, "--values", "2e6")
    assert ": 0 arrays were wrong" in found.stdout


def refused(path, values, *texts, data=smooth("f4", (64, 64)), **more):
    with pytest.raises(ValueError) as error:
        create(path, data, values, **more)
    for text in texts:
        assert text in str(error.value)


def test_what_cannot_be_kept_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    refused(path, options(QUANT, REL, 1e-3), "quant,rel=1e-3", "cannot know the range of the dataset", "use abs", "pwrel")
    refused(path, options(QUANT, ABS, 1e-3), "quant,abs=1e-3", "shuffle", shuffle=True)
    refused(path, options(QUANT, ABS, 1e-3), "use a lossless codec", data=np.full((64, 64), b"abc"))
    refused(path, options(QUANT, ABS, 1e-3), "use a lossless codec", data=np.ones((64, 64), bool))
    refused(path, options(QUANT, PWREL, 1e-3), "integers", data=smooth("i4", (64, 64)))
    refused(path, options(QUANT, PWREL, 1.0), "below 1")
    refused(path, options(QUANT, ABS, 0.0), "above 0")
    refused(path, options(QUANT, ABS, float("nan")), "finite")
    refused(path, options(QUANT, ABS, 1e-3, 4), "quant does not have level 4", "its levels are 1 fast, 2 dense, 3 max")
    refused(path, (QUANT,), "mode 1, abs")
    refused(path, options(QUANT, 3, 8.0), "rate")


def test_single_elements_are_rewritten_ten_thousand_times(tmp_path):
    # Each time, HDF5 reads, decodes, changes, encodes and writes the whole chunk.
    rng = np.random.default_rng(3)
    wild = np.array([1e35, np.nan, -np.inf, 0, -1e-40, 3.25, 9.96921e36], "f4")
    bound = 1e-2
    data = smooth("f4", (40, 50))
    create(tmp_path / "x.h5", data, options(QUANT, ABS, bound), chunks=(40, 50), fillvalue=np.float32(-999))
    with h5py.File(tmp_path / "x.h5", "r+", rdcc_nbytes=0) as file:
        dataset = file["x"]
        for i in range(10_000):
            y, x = rng.integers(40), rng.integers(50)
            value = wild[i % wild.size] if i % 3 else np.float32(rng.uniform(-200, 200))
            dataset[y, x] = data[y, x] = value
            if i % 2500 == 0:
                kept(dataset[()], data, bound)
    kept(read(tmp_path / "x.h5"), data, bound)


def test_an_untouched_element_beside_one_that_is_rewritten(tmp_path):
    # Writes one element repeatedly and reopens the file each time: ZFP and SPERR drift to ten times
    # their bound here.
    data = smooth("f8", (64, 64))
    create(tmp_path / "x.h5", data, options(QUANT, ABS, 1e-2))
    first = read(tmp_path / "x.h5")
    for i in range(100):
        with h5py.File(tmp_path / "x.h5", "r+") as file:
            file["x"][5, 5] = data[5, 5] = 1000.0 * i
    got = read(tmp_path / "x.h5")
    kept(got, data, 1e-2)
    first[5, 5] = got[5, 5]
    same(got, first)


def test_rows_are_written_one_by_one(tmp_path):
    # A chunk larger than the cache is decoded and encoded for every row.
    data = smooth("f8", (64, 8192))
    with h5py.File(tmp_path / "x.h5", "w", rdcc_nbytes=1 << 20) as file:
        dataset = file.create_dataset(
            "x", data.shape, "f8", chunks=(64, 8192), compression=GRIDZ, compression_opts=options(QUANT, ABS, 1e-2)
        )
        for y in range(64):
            dataset[y] = data[y]
    kept(read(tmp_path / "x.h5"), data, 1e-2)


@pytest.mark.parametrize("spec", BOUNDED)
@pytest.mark.parametrize("layout", [[], ["-l", "x:CHUNK=32x64"], ["-l", "x:CHUNK=100x17"]], ids=str)
def test_h5repack_keeps_bound_and_request(tmp_path, layout, spec):
    data = smooth(">f4", (128, 128))
    data[30:60, 40:99] = -999
    create(tmp_path / "x.h5", data, options(spec[0], ABS, 1e-3, spec[1]), fillvalue=np.float32(-999))
    run("h5repack", *layout, tmp_path / "x.h5", tmp_path / "y.h5")
    kept(read(tmp_path / "y.h5"), data, 1e-3)
    # The second repacking changes nothing.
    run("h5repack", *layout, tmp_path / "y.h5", tmp_path / "z.h5")
    same(read(tmp_path / "z.h5"), read(tmp_path / "y.h5"))
    same(read(tmp_path / "z.h5"), read(tmp_path / "x.h5"))
    with h5py.File(tmp_path / "z.h5") as file:
        assert {spec_of(frame) for frame in frames(file["x"])} == {spec}


def test_h5repack_compresses_a_file_of_another_filter(tmp_path):
    data = smooth("f4", (128, 128))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(64, 64), compression="gzip")
    values = options(QUANT, ABS, 1e-3)
    run("h5repack", "-f", f"UD={GRIDZ},0,{len(values)},{','.join(map(str, values))}", tmp_path / "x.h5", tmp_path / "y.h5")
    kept(read(tmp_path / "y.h5"), data, 1e-3)


def test_a_program_that_flushes_small_numbers_to_zero(tmp_path):
    done = python(
        """
        import ctypes, h5py, numpy
        # As any library built with -ffast-math sets it.
        libm = ctypes.CDLL("libm.so.6")
        environment = (ctypes.c_char * 32)()
        libm.fegetenv(environment)
        environment[28:30] = (int.from_bytes(environment[28:30], "little") | 0x8040).to_bytes(2, "little")
        data = numpy.linspace(1e-39, 9e-39, 4096, dtype="f8").astype("f4").reshape(64, 64)
        low, high = numpy.frombuffer(numpy.float64(3e-39).tobytes(), "u4")
        libm.fesetenv(environment)
        with h5py.File(sys.argv[1], "w") as file:
            file.create_dataset("x", data=data, chunks=(64, 64), compression=34013, compression_opts=(3, 1, int(low), int(high)))
        numpy.save(sys.argv[2], data)
        """,
        tmp_path / "x.h5",
        tmp_path / "x.npy",
    )
    assert done.stderr == ""
    kept(read(tmp_path / "x.h5"), np.load(tmp_path / "x.npy"), 3e-39)


def test_log_tells_the_bound(tmp_path):
    done = python(
        """
        import h5py, numpy
        options = tuple(map(int, sys.argv[2:]))
        with h5py.File(sys.argv[1], "w") as file:
            file.create_dataset("x", data=numpy.ones((64, 128), "f4"), chunks=(64, 64), compression=34013, compression_opts=options, fillvalue=-999)
        """,
        tmp_path / "x.h5",
        *options(QUANT, ABS, 1e-3),
        GRIDZ_LOG="info",
    )
    assert "by quant,abs=1e-3,level=fast,fill=-999" in done.stderr


@pytest.mark.parametrize("spec", BOUNDED)
def test_nccopy_and_netcdf(tmp_path, spec):
    data = smooth("f4", (100, 120))
    data[10:20] = -999
    plain = xarray.Dataset({"v": (("y", "x"), data)})
    encoding = {"v": {"_FillValue": np.float32(-999), "chunksizes": (50, 60)}}
    plain.to_netcdf(tmp_path / "plain.nc", engine="netcdf4", encoding=encoding)
    words = ",".join(map(str, options(spec[0], ABS, 1e-3, spec[1])))
    run("nccopy", "-F", f"v,{GRIDZ},{words}", tmp_path / "plain.nc", tmp_path / "packed.nc")
    run("nccopy", tmp_path / "packed.nc", tmp_path / "again.nc")
    for name in ("packed.nc", "again.nc"):
        with h5py.File(tmp_path / name) as file:
            got = file["v"][()]
            assert {spec_of(frame) for frame in frames(file["v"])} == {spec}
        kept(got, data, 1e-3)
        same(got == -999, data == -999)
        with xarray.open_dataset(tmp_path / name, engine="netcdf4") as found:
            same(np.isnan(found["v"].values), data == -999)
