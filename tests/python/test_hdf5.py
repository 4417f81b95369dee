"""The filter in every libhdf5 of a process without a variable, and whole datasets."""

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


def test_datasets(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for codec in (gridz.Lorenzo("dense"), gridz.Ndzip(), gridz.Szp(abs=1e-3), gridz.Szp(pwrel=1e-4)):
            for kind in ({"compression": codec}, dict(codec)):
                dataset = file.create_dataset(f"{codec} {len(file)}", data=A, chunks=(16, 50, 60), **kind)
                assert gridz.filters.stored_codec(dataset) == codec
                assert gridz.quality(A, dataset[...], bound=codec if not codec.is_lossless else None).ok
        assert gridz.filters.stored_codec(file.create_dataset("plain", data=A)) is None


def test_bulk(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", A.shape, "f4", chunks=(16, 20, 60), **gridz.Lorenzo())
        y = file.create_dataset("y", data=A, chunks=(16, 20, 60), **gridz.Lorenzo())
        told = []
        gridz.h5.write(x, A, progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (A.nbytes, A.nbytes)
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
        with pytest.raises(ValueError, match="threads=0"):
            gridz.h5.write(x, A, threads=0)


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
