"""The filter in every libhdf5 of a process without an environment variable, and whole datasets."""

import itertools
import subprocess
import sys

import dask.array
import gridz
import h5py
import numpy as np
import pytest

A = np.random.default_rng(3).normal(size=(40, 50, 60)).astype("f4").cumsum(0)


def python(code):
    """Runs a program in a fresh process."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", list(itertools.permutations(["gridz", "h5py", "netCDF4", "tables"])), ids="-".join)
def test_every_order_of_imports(tmp_path, order):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=A, chunks=(16, 50, 60), **gridz.Lorenzo())
    print(
        python(
            f"import {', '.join(order)}\n"
            f"path = {str(tmp_path / 'x.h5')!r}\n"
            "a = h5py.File(path)['x'][...]\n"
            "assert (netCDF4.Dataset(path)['x'][...] == a).all() and (tables.open_file(path).root.x[...] == a).all()\n"
            "assert len(gridz.register()) == 3\n"
            "h5py.File(path + 'y', 'w').create_dataset('y', data=a, chunks=a.shape, compression=gridz.Ndzip())"
        )
    )


def test_types_that_hdf5_lacks():
    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        dset = file.create_dataset("x", (2,), "i8")
        for dtype, remedy in [("M8[s]", "view"), ("m8[D]", "view"), ("U3", "encode")]:
            array = np.zeros(2, dtype)
            with pytest.raises(gridz.UnsupportedJob, match=remedy):
                gridz.h5.write(dset, array)
            with pytest.raises(gridz.UnsupportedJob, match=remedy):
                gridz.h5.read(dset, array)
        with pytest.raises(gridz.InvalidArgument, match="objects"):
            gridz.h5.write(dset, np.array([1, None]))
        gridz.h5.write(dset, [3, 4])
        assert dset[...].tolist() == [3, 4]


def test_datasets(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for codec in (gridz.Lorenzo("dense"), gridz.Ndzip(), gridz.Quant(abs=1e-3), gridz.Quant(pwrel=1e-4)):
            for kind in ({"compression": codec}, dict(codec)):
                dataset = file.create_dataset(f"{codec} {len(file)}", data=A, chunks=(16, 50, 60), **kind)
                assert gridz.filters.stored_codec(dataset) == codec
                assert gridz.quality(A, dataset[...], bound=codec if not codec.is_lossless else None).ok
        assert gridz.filters.stored_codec(file.create_dataset("plain", data=A)) is None


def test_bulk(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", A.shape, "f4", chunks=(16, 20, 60), **gridz.Lorenzo())
        y = file.create_dataset("y", data=A, chunks=(16, 20, 60), **gridz.Lorenzo())
        calls = []
        gridz.h5.write(x, A, progress=lambda done, total: calls.append((done, total)))
        assert calls[-1] == (A.nbytes, A.nbytes)
        assert x.id.read_direct_chunk((16, 20, 0)) == y.id.read_direct_chunk((16, 20, 0))
        assert (gridz.h5.read(x) == A).all()
        gridz.h5.write(x, A[:10, ::2, ::-1], start=(3, 5, 0))
        assert (x[3:13, 5:30] == A[:10, ::2, ::-1]).all()
        out = np.zeros((60, 4, 5), "f8").transpose(2, 1, 0)
        assert gridz.h5.read(x, out, start=(3, 5, 0)) is out and (out == x[3:8, 5:9]).all()
        z = file.create_dataset("z", A.shape, "f4", chunks=(7, 50, 9), compression="gzip")
        gridz.h5.copy(x, z)
        assert (z[...] == x[...]).all()


def test_dask(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", A.shape, "f4", chunks=(16, 20, 60), **gridz.Lorenzo())
        gridz.h5.write(x, dask.array.from_array(A, chunks=(13, 50, 31)))
        assert (x[...] == A).all()
        lazy = gridz.h5.read_dask(x, chunks=(11, 25, 60))
        assert lazy.dtype == A.dtype and (lazy.compute(scheduler="synchronous") == A).all()
        assert (lazy[3:7].sum(axis=0).compute() == A[3:7].sum(axis=0)).all()
    with h5py.File(tmp_path / "x.h5") as file:
        lazy = gridz.h5.read_dask(file["x"], chunks=(20, 50, 60))
        assert (lazy.compute(scheduler="processes", num_workers=2) == A).all()


def test_bulk_errors(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", A.shape, "f4", chunks=(16, 20, 60), **gridz.Lorenzo())
        text = file.create_dataset("text", 3, dtype=h5py.string_dtype())
        with pytest.raises(gridz.InvalidArgument, match="start="):
            gridz.h5.write(x, A[:3])
        with pytest.raises(gridz.InvalidArgument, match="axes"):
            gridz.h5.write(x, A, start=(0, 0))
        with pytest.raises(gridz.Error, match="40"):
            gridz.h5.write(x, A, start=(1, 0, 0))
        with pytest.raises(gridz.InvalidArgument, match="variable length"):
            gridz.h5.read(text)
        with pytest.raises(gridz.Cancelled):
            gridz.h5.write(x, A, progress=lambda done, total: False)
        with pytest.raises(ZeroDivisionError):
            gridz.h5.write(x, A, progress=lambda done, total: 1 / 0)
        with pytest.raises(ValueError, match="threads must be 1 or more"):
            gridz.h5.write(x, A, threads=0)


def test_less_than_there_is(tmp_path):
    wave = np.sin(np.add.outer(np.add.outer(np.arange(100) / 9, np.arange(96) / 7), np.arange(128) / 8)).astype("f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=wave, chunks=(32, 96, 64), **gridz.Multigrid(abs=1e-4, layers=3))
        file.create_dataset("exact", data=wave, chunks=(32, 96, 64), **gridz.Lorenzo())
    with h5py.File(tmp_path / "x.h5") as file:
        x, exact = file["x"], file["exact"]
        for level in range(6):
            step = 1 << level
            grid, part = gridz.h5.read_progressive(x, level=level)
            assert grid.shape == part.shape == wave[::step, ::step, ::step].shape and grid.dtype == wave.dtype
            assert abs(grid - wave[::step, ::step, ::step]).max() <= part.bound == part.rms == 64e-4
            assert (part.level, part.n_levels, part.layers, part.n_layers, part.n_chunks) == (level, 5, 1, 3, 8)
            assert part == gridz.h5.inspect_progressive(x, level=level) and part.read_bytes < part.stored_bytes / 2
            box, _ = gridz.h5.read_progressive(x, level=level, start=(7, 0, 9), count=(80, 96, 100), threads=1)
            assert (box == grid[-(-7 // step) : -(-87 // step), :, -(-9 // step) : -(-109 // step)]).all()
            assert (gridz.h5.read_progressive(exact, level=level)[0] == wave[::step, ::step, ::step]).all()
        rough, part = gridz.h5.read_progressive(x, error=1e-3, count=(10, 96, 128))
        assert abs(rough - wave[:10]).max() <= part.bound == 8e-4 and part.layers == 2
        out = np.zeros((128, 96, 100), ">f4").T
        calls = []
        made, part = gridz.h5.read_progressive(x, out, layers=3, progress=lambda done, total: calls.append((done, total)))
        assert made is out and (out == x[...]).all() and part.bound == 1e-4 and part.read_bytes == part.stored_bytes
        assert calls[-1] == (wave.nbytes, wave.nbytes)
        for error, match, call in [
            (gridz.InvalidArgument, "one of level", {}),
            (gridz.InvalidArgument, "one of level", {"level": 1, "error": 1}),
            (gridz.InvalidArgument, "level 6 does not exist: along axis 0 chunks have 32", {"level": 6}),
            (gridz.InvalidArgument, "not a valid level", {"level": -1}),
            (gridz.InvalidArgument, "the frame has 3", {"layers": 4}),
            (gridz.InvalidArgument, "out has the shape", {"level": 1, "out": out}),
            (gridz.InvalidArgument, "not inside", {"level": 1, "start": (1, 2)}),
            (gridz.InvalidArgument, "not inside", {"level": 1, "start": (101, 0, 0)}),
            (gridz.InvalidArgument, "not inside", {"level": 1, "start": (10, 0, 0), "count": (100, 1, 1)}),
            (gridz.UnsupportedJob, "another type", {"layers": 1, "out": np.zeros(wave.shape)}),
            (ValueError, "threads must be 1 or more", {"level": 1, "threads": 0}),
            (gridz.Cancelled, "canceled", {"level": 1, "progress": lambda done, total: False}),
            (ZeroDivisionError, "zero", {"level": 1, "progress": lambda done, total: 1 / 0}),
        ]:
            with pytest.raises(error, match=match):
                gridz.h5.read_progressive(x, **call)
    with h5py.File(tmp_path / "y.h5", "w") as file:
        plain = file.create_dataset("plain", data=wave)
        with pytest.raises(gridz.UnsupportedJob, match="not chunked"):
            gridz.h5.read_progressive(plain, level=1)
        with pytest.raises(gridz.UnsupportedJob, match="not chunked"):
            gridz.h5.inspect_progressive(plain, level=1)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools(tmp_path, method):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=A, chunks=(16, 20, 60), **gridz.Lorenzo())
    (tmp_path / "work.py").write_text(
        "import gridz, h5py, multiprocessing, sys\n"
        "def total(path):\n"
        "    a = gridz.h5.read(h5py.File(path)['x'])\n"
        "    return float(gridz.decompress(gridz.compress(a)).sum())\n"
        "if __name__ == '__main__':\n"
        "    path, method = sys.argv[1:]\n"
        "    first = total(path)\n"
        "    with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "        assert pool.map(total, [path] * 4) == [first] * 4\n"
    )
    subprocess.run([sys.executable, str(tmp_path / "work.py"), str(tmp_path / "x.h5"), method], check=True, timeout=120)


def test_former_names():
    """The names that the codecs had before the first release still work, in texts and as classes."""
    for former, present in [("szp", "quant"), ("mgard", "multigrid")]:
        assert gridz.parse(f"{former},abs=1e-3") == gridz.parse(f"{present},abs=1e-3")
        assert getattr(gridz, former.capitalize()) is getattr(gridz, present.capitalize())
