"""Sparse matrices that stay compressed, against SciPy."""

import pathlib
import pickle
import subprocess
import sys

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

import gridz
import gridz.cci

SHARED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def laplace(n: int) -> sp.csr_array:
    """The 7-point Laplace operator of a cube of n³ points, with a slightly larger diagonal."""
    line = sp.diags_array([-np.ones(n - 1), 2.01 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    one = sp.eye_array(n)
    kron = sp.kron
    return (kron(kron(line, one), one) + kron(kron(one, line), one) + kron(kron(one, one), line)).tocsr()


def random(n_rows: int, n_cols: int, density: float, dtype) -> sp.csr_array:
    rng = np.random.default_rng(5)
    made = sp.random_array((n_rows, n_cols), density=density, rng=rng, format="csr")
    made.sort_indices()
    return made.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_products_are_those_of_scipy(dtype, layout):
    a = random(900, 700, 0.02, dtype)
    c = gridz.cci.compress(a.asformat(layout))
    rng = np.random.default_rng(6)
    x, w = rng.random(700).astype(dtype), rng.random((900, 5)).astype(dtype)
    assert c.shape == a.shape and c.dtype == dtype and c.nnz == a.nnz
    # Rows are summed in SciPy's order, so the results are identical.
    assert np.array_equal(c @ x, a @ x)
    np.testing.assert_allclose(c.T @ w, a.T @ w, rtol=1e-5 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(c.rmatvec(w[:, 0]), a.T @ w[:, 0], rtol=1e-5 if dtype == np.float32 else 1e-12)
    assert np.array_equal(c @ np.stack([x, 2 * x], 1), a @ np.stack([x, 2 * x], 1))
    back = c.tocsr()
    assert all(np.array_equal(b, d) for b, d in [(back.indptr, a.indptr), (back.indices, a.indices), (back.data, a.data)])
    part = c.rows(100, 250)
    assert part.shape == (150, 700) and (part != a[100:250]).nnz == 0


def test_what_cannot_be_represented_is_refused():
    eye = sp.eye_array(3, format="csr")
    refused, unsigned = 0, np.array([1, 2**63, 2], "u8")
    for layout in ("csr", "csc", "coo"):
        beyond = [1, 2**53 + 1, 0], [0, -(2**53) - 1, 1], unsigned
        for values in ([1 + 2j, 1, 1], np.ones(3, "c8"), np.ones(3, "g"), *beyond):
            with pytest.raises(gridz.UnsupportedJob, match="represent"):
                gridz.cci.compress(sp.diags_array(np.asarray(values), dtype=np.asarray(values).dtype).asformat(layout))
            refused += 1
        for values in ([1, 2**53, -(2**53)], np.array([1, 0, 1], bool), np.ones(3, "f4"), np.ones(3, "u1")):
            a = sp.diags_array(np.asarray(values), dtype=np.asarray(values).dtype).asformat(layout)
            back = gridz.cci.compress(a).tocsr()
            assert (back != a.tocsr()).nnz == 0 and (back.dtype == "f4") == (a.dtype == "f4")
    assert refused == 18
    for values in (np.zeros(3, "M8[s]"), np.array(["1", "2", "3"]), np.array([1, 2, None]), np.zeros(3, [("a", "f8")])):
        with pytest.raises(gridz.UnsupportedJob, match="cannot represent"):
            gridz.cci._create(eye.indptr, eye.indices, values, eye.shape, "csr", "best", None)
    starts, indices, data = eye.indptr, eye.indices, eye.data
    for arrays in [(starts, indices + 0.5, data), (starts, indices, np.ones((3, 2))), (starts[:0], indices, data)]:
        with pytest.raises(gridz.InvalidArgument, match="indptr"):
            gridz.cci._create(*arrays, eye.shape, "csr", "best", None)
    swapped = gridz.cci._create(starts, indices, data.astype(">f4"), eye.shape, "csr", "best", None)
    assert swapped.dtype == np.float32 and (swapped.tocsr() != eye).nnz == 0
    c = gridz.cci.compress(eye)
    for x in (np.ones(3) * 1j, np.zeros(3, "M8[s]"), np.array(["1", "2", "3"])):
        for product in (c.multiply, c.matvec):
            with pytest.raises(gridz.UnsupportedJob, match="give real numbers"):
                product(x)


def test_conjugate_gradients_converge_as_with_scipy():
    a = laplace(20)
    c = gridz.cci.compress(a)
    b = np.random.default_rng(7).random(a.shape[0])
    steps = {"scipy": [], "gridz": []}
    x, failed = cg(a, b, rtol=1e-10, callback=lambda x: steps["scipy"].append(x.copy()))
    y, also = cg(c, b, rtol=1e-10, callback=lambda x: steps["gridz"].append(x.copy()))
    assert failed == also == 0 and len(steps["scipy"]) == len(steps["gridz"]) > 10
    assert np.array_equal(x, y)
    assert c.info["by_distance"] == a.nnz and c.nbytes < (a.data.nbytes + a.indices.nbytes) / 4


def test_semirings():
    a = random(300, 300, 0.03, np.float64)
    c = gridz.cci.compress(a)
    x = np.random.default_rng(8).random(300)
    dense = a.toarray()
    stored = np.zeros(a.shape, bool)
    stored[a.tocoo().coords] = True
    shortest = np.where(stored, dense + x, np.inf).min(axis=1)
    assert np.array_equal(c.multiply(x, "min_plus"), shortest)
    assert np.array_equal(c.multiply(x, "max_times"), np.where(stored, dense * x, -np.inf).max(axis=1))
    reach = (x > 0.9).astype(float)
    assert np.array_equal(c.multiply(reach, "or_and"), ((stored & (reach > 0)).any(axis=1)).astype(float))
    with pytest.raises(gridz.InvalidArgument, match="plus_times"):
        c.multiply(x, "min_max")


def test_unsorted_double_and_wide_indices():
    starts = np.array([0, 4, 4, 6], np.int64)
    columns = np.array([5, 1, 5, 2**40, 0, 0], np.int64)
    a = sp.csr_array((np.arange(6.0), columns, starts), shape=(3, 2**40 + 1))
    c = gridz.cci.compress(a)
    back = c.tocsr()
    assert np.array_equal(back.indices, columns) and np.array_equal(back.data, a.data)
    for n in (0, 1):
        empty = gridz.cci.compress(sp.csr_array((n, n)))
        assert (empty @ np.zeros(n)).shape == (n,) and empty.tocsr().nnz == 0


def test_threads_and_values_change_nothing():
    a = laplace(24)
    x = np.random.default_rng(9).random(a.shape[0])
    made = [gridz.cci.compress(a, values, threads) for values in ("best", "plain", "blocks") for threads in (1, 3)]
    assert all(np.array_equal(c @ x, a @ x) for c in made)
    assert made[0].info["values"] == "dictionary of 1 byte"
    with pytest.raises(gridz.InvalidArgument, match="not all equal"):
        gridz.cci.compress(a, "constant")


def test_frames_come_back_and_damage_is_seen(tmp_path):
    c = gridz.cci.compress(laplace(12))
    c.save(tmp_path / "a")
    frame = c.tobytes()
    x = np.ones(c.shape[1])
    for again in (gridz.cci.load(tmp_path / "a"), pickle.loads(pickle.dumps(c)), gridz.cci.loads(memoryview(frame))):
        assert again.tobytes() == frame and np.array_equal(again @ x, c @ x)
    with pytest.raises(gridz.Truncated):
        gridz.cci.loads(frame[:-1])
    with pytest.raises(gridz.Corrupt, match="checksum"):
        gridz.cci.loads(frame[:-70] + bytes([frame[-70] ^ 1]) + frame[-69:])
    with pytest.raises(gridz.Corrupt, match="GRDM"):
        gridz.cci.loads(bytes(200))


def test_wrong_arguments_say_so():
    c = gridz.cci.compress(sp.eye_array(5, format="csr"))
    with pytest.raises(gridz.InvalidArgument, match="5 elements"):
        c.multiply(np.ones(4))
    with pytest.raises(gridz.InvalidArgument, match="csr_array"):
        gridz.cci.compress(np.eye(3))
    with pytest.raises(gridz.InvalidArgument, match="column 9"):
        broken = sp.csr_array((np.ones(1), np.array([0]), np.array([0, 1])), shape=(1, 5))
        broken.indices[0] = 9
        gridz.cci.compress(broken)


@pytest.mark.parametrize("n", [1000, 100_000_000])
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_starts_that_do_not_fit_the_shape_are_refused(layout, n):
    starts, indices, data = np.arange(4, dtype="i4"), np.arange(3, dtype="i4"), np.ones(3)
    name, shape = ("rows", (n, 3)) if layout == "csr" else ("columns", (3, n))
    with h5py.File("m", "w", driver="core", backing_store=False) as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = f"{layout}_matrix"
        group.attrs["shape"] = np.array(shape)
        group["data"], group["indices"], group["indptr"] = data, indices, starts
        with pytest.raises(gridz.InvalidArgument, match=f"4 starts, but the {n} {name}"):
            gridz.cci.read_h5(file)
    made = (sp.csr_array if layout == "csr" else sp.csc_array)((3, 3))
    made.indptr, made.indices, made.data = starts, indices, data
    made._shape = shape
    with pytest.raises(gridz.InvalidArgument, match=f"4 starts, but the {n} {name}"):
        gridz.cci.compress(made)


def test_arrays_that_do_not_fit_together_are_refused():
    eye = sp.eye_array(4, format="csr")
    starts, indices, data, refused = eye.indptr, eye.indices, eye.data, 0
    for arrays, shape, words in [
        ((starts[:-1], indices, data), (4, 4), "4 starts, but the 4 rows"),
        ((np.append(starts, 4), indices, data), (4, 4), "6 starts, but the 4 rows"),
        ((starts, indices[:-1], data), (4, 4), "one length"),
        ((starts, indices, data[:-1]), (4, 4), "one length"),
        ((starts.reshape(1, -1), indices, data), (4, 4), "vectors"),
        ((starts * 1.0, indices, data), (4, 4), "integers"),
        ((starts, indices, data), (-4, 4), "from 0 to"),
        ((starts, indices, data), (4, 1 << 64), "from 0 to"),
        ((starts, indices, data), (4,), "two numbers"),
        ((starts - 1, indices, data), (4, 4), "go from -1 to 3"),
        ((starts[[0, 2, 1, 3, 4]], indices, data), (4, 4), "row 1 starts at 2 and ends at 1"),
        ((np.array([0, -5, 2, 3, 4]), indices, data), (4, 4), "row 1 starts at -5 and ends at 2"),
        ((starts.astype("u8") + np.uint64(1 << 63), indices, data), (4, 4), "row starts go from"),
        ((starts, -indices, data), (4, 4), "column -1"),
    ]:
        with pytest.raises(gridz.InvalidArgument, match=words):
            gridz.cci._create(*arrays, shape, "csr", "best", None)
        refused += 1
    coo = eye.tocoo()
    for axis, worst in [(0, 4), (0, -1), (1, 1 << 20)]:
        broken = coo.copy()
        broken.coords[axis][2] = worst
        with pytest.raises(gridz.InvalidArgument, match=f"{('row', 'column')[axis]} {worst} is outside"):
            gridz.cci.compress(broken)
        refused += 1
    bsr = sp.bsr_array(eye, blocksize=(2, 2))
    for change in ({"indptr": bsr.indptr[:-1]}, {"indices": bsr.indices + 7}):
        broken = bsr.copy()
        vars(broken).update(change)
        with pytest.raises(gridz.InvalidArgument, match="bsr"):
            gridz.cci.compress(broken)
        refused += 1
    assert refused == 19


def test_groups_that_are_no_matrix_are_refused():
    refused = 0
    with h5py.File("m", "w", driver="core", backing_store=False) as file:

        def group(shape=np.array([3, 3]), kind="csr_matrix", **changes):
            nonlocal refused
            refused += 1
            made = file.create_group(str(refused))
            if shape is not None:
                made.attrs["shape"] = shape
            made.attrs["encoding-type"] = kind
            arrays = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)} | changes
            for name, array in arrays.items():
                made.create_group(name) if array is None else made.create_dataset(name, data=array)
            return made.name

        for name, words in [
            (group(shape=np.array([3, 3, 3])), "two integers"),
            (group(shape=3), "two integers"),
            (group(shape="3x3"), "two integers"),
            (group(shape=np.array([3.0, 3.0])), "two integers"),
            (group(shape=np.array([-3, 3])), "from 0 to"),
            (group(shape=None), "no shape"),
            (group(shape=np.array([3, 4]), kind="csc_matrix"), "4 starts, but the 4 columns"),
            (group(kind="array"), "'array'"),
            (group(data=None), "data of .* is a group"),
            (group(indptr=np.int64(3)), "indptr of .* shape \\(\\)"),
            (group(indices=np.zeros((3, 1), int)), "indices of .* shape \\(3, 1\\)"),
            (group(data=["1", "2", "3"]), "data of .* type object"),
            (group(indptr=np.arange(4.0)), "integers"),
            (group(data=np.ones(2)), "one length"),
        ]:
            with pytest.raises(gridz.InvalidArgument, match=words):
                gridz.cci.read_h5(file, name)
        good = group()
        assert gridz.cci.read_h5(file, good).nnz == 3
    assert refused == 15


HYPERSPARSE = """
import resource, sys
import numpy as np, scipy.sparse as sp, gridz, gridz.cci
n, layout = int(sys.argv[1]), sys.argv[2]
made = sp.coo_array((np.arange(1.0, 4), ([0, n - 1, n // 2], [0, 0, 0])), shape=(n, 1))
if layout == "csc":
    made = sp.csc_array((made.data, np.array([0, n - 1, n // 2]), np.array([0, 3])), shape=(n, 1))
try:
    c = gridz.cci.compress(made)
    c = gridz.cci.loads(c.tobytes())
    part = c.rows(n // 2 - 5000, n // 2 + 5000)
    assert c.nnz == 3 and c.shape == (n, 1) and part.nnz == 1 and part.data[0] == 3.0
    assert np.array_equal(np.flatnonzero(np.diff(part.indptr)), [5000])
    assert c.nbytes < 1.6 * n
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
except gridz.OutOfMemory as error:
    assert n > 1 << 30
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.parametrize("layout", ["csc", "coo"])
def test_few_elements_in_many_rows_take_little_memory(layout):
    n = 1 << 27
    run = [sys.executable, "-c", HYPERSPARSE, str(n), layout]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    # The frame has 1.5 bytes for each row and exists three times: compressed, as bytes, and loaded
    # again.
    assert 576 < int(printed) < 900, f"{printed} MiB"


def test_more_rows_than_a_frame_has_are_refused_before_memory_is_taken():
    few, first = np.zeros(1, "i8"), np.array([0, 1])
    refused = 0
    for n in (1 << 38, 1 << 62):
        with pytest.raises(gridz.UnsupportedJob, match="too large for one frame"):
            gridz.cci.compress(sp.csc_array((np.ones(1), few, first), shape=(n, 1)))
        refused += 1
    # Empty columns cost nothing.
    wide = gridz.cci.compress(sp.csr_array((np.ones(1), few, first), shape=(1, 1 << 62)))
    assert refused == 2 and wide.nbytes < 1000 and wide.nnz == 1


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_anndata_files_are_read(tmp_path, layout):
    a = random(200, 90, 0.1, np.float32).asformat(layout)
    a.data[:] = np.round(a.data * 9)
    made = anndata.AnnData(X=sp.csr_matrix(a) if layout == "csr" else sp.csc_matrix(a))
    made.write_h5ad(tmp_path / "a.h5ad")
    c = gridz.cci.read_h5(tmp_path / "a.h5ad")
    x = np.random.default_rng(1).random(90).astype(np.float32)
    assert c.shape == (200, 90) and np.array_equal(c @ x, a.tocsr() @ x)
    with h5py.File(tmp_path / "a.h5ad") as file:
        assert gridz.cci.read_h5(file["X"]).tobytes() == c.tobytes()
        with pytest.raises(gridz.InvalidArgument, match="data, indices and indptr"):
            gridz.cci.read_h5(file, "obs")


@pytest.mark.parametrize("name", ["bcsstk16_fem", "bayer10_chem"])
def test_reference_matrices(name):
    if not SHARED.is_dir():
        pytest.skip("no reference data beside the checkout")
    read = lambda part, dtype: np.fromfile(SHARED / f"{name}.{part}.bin", dtype)
    starts, columns, values = read("indptr.i32", np.int32), read("indices.i32", np.int32), read("data.f64", np.float64)
    n = len(starts) - 1
    a = sp.csr_array((values, columns, starts), shape=(n, n))
    c = gridz.cci.compress(a)
    x = np.random.default_rng(3).random(n)
    np.testing.assert_allclose(c @ x, a @ x, rtol=1e-12, atol=1e-9 * np.abs(a @ x).max())
    assert np.array_equal(c.tocsr().indices, columns) and np.array_equal(c.tocsr().data, values)
