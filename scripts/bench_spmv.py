#!/usr/bin/env python3
"""Products of compressed sparse matrices with vectors, compared with SciPy and MKL, and on a GPU
with cuSPARSE.

    bench_spmv.py [--nnz MILLIONS] [--runs N] [--threads N,N...] [--only NAME;NAME…] [--gpu | --vectors] [--keep FOLDER]
        [--frames FOLDER] [--out FOLDER]

The matrices are generated, with about the given number of elements (default 30 million). The
reference matrices, of `data` in GRIDZ_SHARED (by default ../shared), are used unchanged. Generated
are: stencils of 7 and 27 points, and of 27 with three unknowns a node; tetrahedra whose nodes are
numbered by reverse Cuthill-McKee, with one unknown and three; 60 random elements a row; a power
law; a power law near the diagonal, like links of pages; a circuit; a Markov chain on a grid; a
diagonal. Values are random ("plain": only columns are coded). Those of the 27-point stencil are
also constant, of seven kinds, and smooth ("coded").

With --keep, matrices are generated in parallel, one for each core, and cached in a folder for later
runs. Several instances of this program that use the same folder take turns on the GPU.

On the CPU: SciPy with one thread, MKL (of sparse-dot-mkl or PyTorch, if one is installed) and gridz
with N threads; and the size of the paper's column code (Lawlor 2013, the CPU's table), which is
computed and not run. With --gpu (which needs CuPy): cuSPARSE's CSR as CuPy calls it, SELL and, for
matrices with blocks, BSR by cuSPARSE's own interface if that can be loaded, and gridz's frame,
which is copied once. Speeds are 10^9 elements per second, medians of N interleaved runs after one
warm-up run; quotients are relative to the best peer in the same runs. Results are compared first:
gridz's with SciPy's, to rounding, and the GPU's with the CPU's, bit for bit.

Writes results.csv to the folder --out, and a table to the standard output. Needs numpy, scipy and
the package gridz.
"""

import argparse
import contextlib
import csv
import fcntl
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import scipy.sparse as sp

import gridz.cci
from gridz._native import check, ffi, lib

# Otherwise MKL's threads keep spinning for a fifth of a second after each product, on cores that
# the next call needs.
os.environ.setdefault("KMP_BLOCKTIME", "0")

RNG = np.random.default_rng(1)


# ---- matrices ------------------------------------------------------------------------------------


# Each function returns the columns, ascending in each row, and the row starts.


def finish(matrix):
    matrix = sp.csr_matrix(matrix)
    matrix.sort_indices()
    return matrix.indices, matrix.indptr


def of_nodes(matrix, unknowns):
    return sp.kron(matrix, np.ones((unknowns, unknowns), np.float32), format="csr") if unknowns > 1 else matrix


def stencil(nnz, points, unknowns=1):
    n = max(4, round((nnz / points / unknowns**2) ** (1 / 3)))
    line = sp.diags_array(np.ones((3, n), np.float32), offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    one = sp.eye_array(n, dtype=np.float32, format="csr")
    if points == 27:
        grid = sp.kron(sp.kron(line, line), line, format="csr")
    else:
        grid = sp.kron(sp.kron(line, one), one) + sp.kron(sp.kron(one, line), one) + sp.kron(sp.kron(one, one), line)
    return finish(of_nodes(grid, unknowns))


def tetrahedra(nnz, unknowns):
    """Cubes cut into five tetrahedra, in one of two ways at random."""
    n = max(4, round((nnz / 15.5 / unknowns**2) ** (1 / 3)))
    nodes = np.arange(n**3).reshape(n, n, n)
    corner = [nodes[i : n - 1 + i, j : n - 1 + j, k : n - 1 + k].ravel() for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    ways = [[(0, 1, 2, 4), (3, 1, 2, 7), (5, 1, 4, 7), (6, 2, 4, 7), (1, 2, 4, 7)],
            [(1, 0, 3, 5), (2, 0, 3, 6), (4, 0, 5, 6), (7, 3, 5, 6), (0, 3, 5, 6)]]  # fmt: skip
    first = RNG.random(len(corner[0])) < 0.5
    made = sp.csr_matrix((n**3, n**3), dtype=np.float32)
    for way, here in zip(ways, (first, ~first)):
        for cell in way:
            pairs = [(a, b) for a in cell for b in cell]
            rows = np.concatenate([corner[a][here] for a, _ in pairs])
            columns = np.concatenate([corner[b][here] for _, b in pairs])
            made = made + sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), made.shape).tocsr()
    order = sp.csgraph.reverse_cuthill_mckee(made, symmetric_mode=True)
    return finish(of_nodes(made[order][:, order], unknowns))


def anywhere(nnz, per_row=60):
    n = nnz // per_row
    columns = RNG.integers(0, n, (n, per_row), dtype=np.int32)
    columns.sort(axis=1)
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    return columns.ravel(), starts


def power_law(nnz, near=False, mean=15):
    n = nnz // mean
    lengths = np.minimum(RNG.pareto(1.2, n) * mean * 0.2 + 1, n // 4)
    lengths = (lengths * mean * n / lengths.sum()).clip(1, n // 4).astype(np.int64)
    rows = np.repeat(np.arange(n), lengths)
    columns = (rows + (RNG.standard_cauchy(len(rows)) * 50)).astype(np.int64) % n if near else n * RNG.random(len(rows)) ** 3
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return finish(sp.csr_matrix((np.ones(len(rows), np.float32), columns.astype(np.int32), starts), shape=(n, n)))


def circuit(nnz):
    n = nnz // 5
    rows = np.repeat(np.arange(n), RNG.integers(1, 7, n))
    columns = np.clip(rows + np.rint(RNG.standard_normal(len(rows)) * 1000), 0, n - 1)
    far = RNG.random(len(rows)) < 0.1
    columns[far] = RNG.integers(0, n, far.sum())
    rows, columns = np.concatenate([rows, np.arange(n)]), np.concatenate([columns, np.arange(n)])
    return finish(sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns.astype(np.int64))), (n, n)))


def markov(nnz):
    n = round((nnz / 4) ** 0.5)
    line = sp.diags_array(np.ones((2, n), np.float32), offsets=[-1, 1], shape=(n, n)).tocsr()
    one = sp.eye_array(n, dtype=np.float32, format="csr")
    return finish(sp.kron(line, one) + sp.kron(one, line))


def diagonal(nnz):
    return finish(sp.eye_array(nnz, dtype=np.float32, format="csr"))


# The generator of each matrix, its kind, and its values.
MATRICES = {
    "27 points": (lambda nnz: stencil(nnz, 27), "random"),
    "7 points": (lambda nnz: stencil(nnz, 7), "random"),
    "27 points, 3 unknowns": (lambda nnz: stencil(nnz, 27, 3), "random"),
    "tetrahedra": (lambda nnz: tetrahedra(nnz, 1), "random"),
    "tetrahedra, 3 unknowns": (lambda nnz: tetrahedra(nnz, 3), "random"),
    "60 anywhere": (anywhere, "random"),
    "power law": (power_law, "random"),
    "links": (lambda nnz: power_law(nnz, near=True), "random"),
    "circuit": (circuit, "random"),
    "Markov": (markov, "random"),
    "diagonal": (diagonal, "random"),
    "27 points, one value": ("27 points", "one"),
    "27 points, seven values": ("27 points", "seven"),
    "27 points, smooth": ("27 points", "smooth"),
    "bcsstk16_fem": (None, "own"),
    "bayer10_chem": (None, "own"),
}


def read_reference(name, part, dtype):
    return np.fromfile(pathlib.Path(os.environ.get("GRIDZ_SHARED", "../shared")) / f"data/{name}.{part}.bin", dtype)


def structure(name, nnz, folder):
    """Column indices and row starts, of 32 bits."""
    make = MATRICES[name][0]
    if make is None:
        return read_reference(name, "indices.i32", np.int32), read_reference(name, "indptr.i32", np.int32)
    if isinstance(make, str):
        return structure(make, nnz, folder)
    kept = folder and folder / f"{name}, {nnz}.npz"
    if kept and kept.exists():
        with np.load(kept) as made:
            return made["columns"], made["starts"]
    columns, starts = (part.astype(np.int32) for part in make(nnz))
    if kept:
        np.savez(kept, columns=columns, starts=starts)
    return columns, starts


def values_of(name, columns, dtype):
    kind = MATRICES[name][1]
    if kind == "own":
        return read_reference(name, "data.f64", np.float64).astype(dtype)
    if kind == "random":
        return RNG.random(len(columns), np.float32).astype(dtype) if dtype == np.float32 else RNG.random(len(columns))
    if kind == "one":
        return np.ones(len(columns), dtype)
    return ((columns % 7 + 1.0) if kind == "seven" else (1 + 1e-3 * np.sin(columns / 1e4))).astype(dtype)


def paper_bits(columns, starts) -> int:
    """Bits of the paper's code for the CPU: a run of up to 16 consecutive columns, or a jump of 5,
    15, 20 or 29 bits."""
    steps = np.diff(columns, prepend=np.int32(-1))
    first = starts[:-1][np.diff(starts) > 0]
    steps[first] = columns[first] + 1
    follows = steps == 1
    # A run ends at a column that is not consecutive, or at the start of a row.
    begins = follows & ~np.concatenate([[False], follows[:-1]])
    begins[first] = follows[first]
    number = np.cumsum(begins)[follows]
    runs = np.bincount(number) if len(number) else np.zeros(0, np.int64)
    bits = int(np.ceil(runs / 16).sum()) * 5
    jumps = steps[~follows]
    for least, most, cost in [(0, 2**5, 8), (2**5, 2**15, 18), (2**15, 2**20, 23), (2**20, 2**62, 32)]:
        bits += int(((jumps >= least) & (jumps < most)).sum()) * cost
    return bits


# ---- measuring -----------------------------------------------------------------------------------


def medians(calls, runs, timer):
    """Median seconds of each call; the calls are interleaved."""
    times = {name: [] for name in calls}
    for name, call in calls.items():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            times[name].append(timer(call))
    return {name: statistics.median(found) for name, found in times.items()}


def by_clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def on_cpu(matrix, compressed, threads, runs):
    x = RNG.random(matrix.shape[1]).astype(matrix.dtype)
    want, got = matrix @ x, compressed[threads[-1]] @ x
    tolerance = 1e-4 if matrix.dtype == np.float32 else 1e-12
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max(initial=0)), "another result"
    calls = {"scipy": lambda: matrix @ x}
    for n in threads:
        calls[f"mkl {n}"] = mkl_call(matrix, x, n)
    for n in threads:
        calls[f"gridz {n}"] = lambda n=n: compressed[n] @ x
    return medians(calls, runs, by_clock)


def with_vectors(matrix, compressed, runs):
    """Speeds relative to SciPy: products with several vectors, and with the transpose."""
    found = {}
    x = RNG.random((matrix.shape[0], 16)).astype(matrix.dtype)
    jobs = {f"{n} vectors": (matrix, np.ascontiguousarray(x[:, :n])) for n in (2, 4, 8, 16)}
    jobs["transpose"] = (matrix.T, x[:, 0].copy())
    for job, (of_scipy, x) in jobs.items():
        own = {n: one.T if job == "transpose" else one for n, one in compressed.items()}
        assert np.allclose(own[1] @ x, of_scipy @ x, rtol=1e-3), "another result"
        calls = {"scipy": lambda: of_scipy @ x} | {n: lambda n=n: own[n] @ x for n in own}
        times = medians(calls, runs, by_clock)
        found |= {f"{job}, {n}": round(times["scipy"] / times[n], 2) for n in own}
    return found


def mkl_call(matrix, x, n):
    try:
        import sparse_dot_mkl as mkl

        return lambda: (mkl.mkl_set_num_threads(n), mkl.dot_product_mkl(matrix, x))
    except ImportError:
        pass
    try:
        import torch
    except ImportError:
        sys.exit("no MKL: pip install sparse-dot-mkl mkl, and LD_LIBRARY_PATH to its libraries; or pip install torch")
    if not torch.backends.mkl.is_available():
        sys.exit("this PyTorch has no MKL: pip install sparse-dot-mkl mkl")
    a = torch.sparse_csr_tensor(*map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data)), matrix.shape)
    there = torch.from_numpy(x)
    return lambda: (torch.set_num_threads(n), a @ there)


def on_gpu(matrix, compressed, runs):
    import cupy as cp
    import cupyx.scipy.sparse as csp

    x = RNG.random(matrix.shape[1]).astype(matrix.dtype)
    dx, y = cp.asarray(x), cp.empty(matrix.shape[0], matrix.dtype)
    csr = csp.csr_matrix(matrix)
    handle, stream = compressed[1]._pointer, ffi.cast("void *", cp.cuda.get_current_stream().ptr)

    def multiply():
        check(lib.gridz_cci_multiply_async(handle, ffi.cast("void *", dx.data.ptr), dx.nbytes, ffi.cast("void *", y.data.ptr), y.nbytes, stream))

    multiply()
    assert np.array_equal(cp.asnumpy(y), compressed[1] @ x), "the GPU's result differs in its bits"
    calls = {"cusparse": lambda: csr @ dx, "gridz": multiply}
    others = {"sell": sell_call(cp, matrix, dx), "bsr": bsr_call(cp, matrix, dx, compressed[1].info["block"])}
    for name, call in others.items():
        if call:
            want = compressed[1] @ x
            assert np.allclose(cp.asnumpy(call()), want, rtol=1e-3, atol=1e-4 * np.abs(want).max(initial=0)), f"{name} has a different result"
            calls[name] = call

    def timer(call):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        for _ in range(5):
            call()
        end.record()
        end.synchronize()
        return cp.cuda.get_elapsed_time(start, end) / 5e3

    return medians(calls, runs, timer)


def sell_call(cp, matrix, dx):
    """cuSPARSE's sliced ELLPACK: slices of 32 rows; None if it would be 1.5 times as large."""
    n_rows, n_cols = matrix.shape
    lengths = np.diff(matrix.indptr)
    padded = np.zeros(-(-n_rows // 32) * 32, np.int64)
    padded[:n_rows] = lengths
    widths = padded.reshape(-1, 32).max(axis=1)
    offsets = np.concatenate([[0], np.cumsum(widths * 32)])
    if offsets[-1] > 1.5 * matrix.nnz or offsets[-1] >= 2**31:
        return None
    starts, offsets = cp.asarray(matrix.indptr), cp.asarray(offsets)
    columns, values = cp.full(int(offsets[-1]), -1, np.int32), cp.zeros(int(offsets[-1]), matrix.dtype)
    for first in range(0, matrix.nnz, 1 << 26):
        index = cp.arange(first, min(first + (1 << 26), matrix.nnz))
        row = cp.searchsorted(starts, index, side="right") - 1
        place = offsets[row // 32] + (index - starts[row]) * 32 + row % 32
        columns[place] = cp.asarray(matrix.indices[first : first + (1 << 26)])
        values[place] = cp.asarray(matrix.data[first : first + (1 << 26)])
    tables = offsets.astype(np.int32), columns, values
    return cusparse_call(cp, matrix, dx, "cusparseCreateSlicedEll", [n_rows, n_cols, matrix.nnz, len(columns), 32], tables, [])


def bsr_call(cp, matrix, dx, block):
    """cuSPARSE's block compressed rows; None for matrices without blocks."""
    if block == 1:
        return None
    bsr = matrix.tobsr((block, block))
    n_rows, n_cols = (n // block for n in matrix.shape)
    tables = [cp.asarray(table) for table in (bsr.indptr, bsr.indices, bsr.data)]
    by_rows = 2  # CUSPARSE_ORDER_ROW
    return cusparse_call(cp, matrix, dx, "cusparseCreateBsr", [n_rows, n_cols, len(bsr.indices), block, block], tables, [by_rows])


def cusparse_call(cp, matrix, dx, create, sizes, tables, last):
    """A product by cuSPARSE's own interface, with ctypes, which returns the result's array; None if
    cuSPARSE cannot be loaded or lacks the format."""
    import ctypes

    try:
        library = ctypes.CDLL("libcusparse.so.12")
        create = getattr(library, create)
    except (OSError, AttributeError) as error:
        print(f"without {create}: {error}", file=sys.stderr)
        return None
    y = cp.zeros(matrix.shape[0], matrix.dtype)
    handle, a, vx, vy = (ctypes.c_void_p() for _ in range(4))
    size = ctypes.c_size_t()
    is_double = matrix.dtype == np.float64
    kind = int(is_double)  # CUDA_R_32F, CUDA_R_64F
    pointer = lambda array: ctypes.c_void_p(array.data.ptr)
    must = lambda status: status and sys.exit(f"cuSPARSE says {status}")
    must(library.cusparseCreate(ctypes.byref(handle)))
    must(library.cusparseSetStream(handle, ctypes.c_void_p(cp.cuda.get_current_stream().ptr)))
    long, index_32 = ctypes.c_int64, 2  # CUSPARSE_INDEX_32I
    if create(ctypes.byref(a), *map(long, sizes), *map(pointer, tables), index_32, index_32, 0, kind, *last):
        return None
    must(library.cusparseCreateDnVec(ctypes.byref(vx), long(matrix.shape[1]), pointer(dx), kind))
    must(library.cusparseCreateDnVec(ctypes.byref(vy), long(matrix.shape[0]), pointer(y), kind))
    number = ctypes.c_double if is_double else ctypes.c_float
    alpha, beta = number(1), number(0)
    common = [handle, 0, ctypes.byref(alpha), a, vx, ctypes.byref(beta), vy, kind, 0]
    if library.cusparseSpMV_bufferSize(*common, ctypes.byref(size)):
        return None
    buffer = cp.empty(max(size.value, 1), np.uint8)

    def call(tables=tables):  # keeps the tables alive
        must(library.cusparseSpMV(*common, pointer(buffer)))
        return y

    return call


def keep(name, nnz, folder):
    structure(name, nnz, folder)


@contextlib.contextmanager
def in_turn(folder):
    if folder is None:
        yield
        return
    with open(folder / "turn", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nnz", type=float, default=30, help="millions of elements")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--only", help="names of matrices, with ; between them")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which matrices are cached")
    parser.add_argument("--frames", type=pathlib.Path, help="folder for frames of float32, for bench_columns.cu")
    parser.add_argument("--out", type=pathlib.Path)
    asked = parser.parse_args()
    threads = sorted({1, *map(int, asked.threads.split(","))})
    names, nnz = asked.only.split(";") if asked.only else list(MATRICES), int(asked.nnz * 1e6)
    if unknown := set(names) - set(MATRICES):
        parser.error(f"unknown matrix {', '.join(unknown)}; the matrices are {'; '.join(MATRICES)}")
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
        with multiprocessing.Pool() as workers:
            workers.starmap(keep, [(name, nnz, asked.keep) for name in names if callable(MATRICES[name][0])], chunksize=1)
    rows = []
    for name in names:
        columns, starts = structure(name, nnz, asked.keep)
        shape = (len(starts) - 1,) * 2
        paper = round(paper_bits(columns, starts) / 8 / len(columns), 3)
        for dtype in (np.float32, np.float64):
            matrix = sp.csr_matrix((values_of(name, columns, dtype), columns, starts), shape=shape)
            values = "plain" if MATRICES[name][1] in ("random", "own") else "best"
            start = time.perf_counter()
            frame = gridz.cci.compress(matrix, values).tobytes()
            seconds = time.perf_counter() - start
            if asked.frames and dtype == np.float32:
                asked.frames.mkdir(parents=True, exist_ok=True)
                (asked.frames / name.replace(" ", "_").replace(",", "")).write_bytes(frame)
            compressed = {n: gridz.cci.loads(frame, n) for n in threads}
            info = compressed[1].info
            csr = matrix.nnz * (matrix.dtype.itemsize + 4) + 4 * matrix.shape[0]
            row = {
                "matrix": name, "dtype": matrix.dtype.name, "nnz": matrix.nnz, "nnz a row": round(matrix.nnz / matrix.shape[0], 1),
                "bytes / CSR": round(info["frame_bytes"] / csr, 3), "values": info["values"], "block": info["block"],
                "index bytes / nnz": round((info["frame_bytes"] - info["value_bytes"]) / matrix.nnz, 3),
                "paper": paper, "build M/s": round(matrix.nnz / seconds / 1e6),
            }  # fmt: skip
            if asked.vectors:
                row |= with_vectors(matrix, compressed, asked.runs)
                rows.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                continue
            with in_turn(asked.keep):
                times = on_gpu(matrix, compressed, asked.runs) if asked.gpu else on_cpu(matrix, compressed, threads, asked.runs)
            row.update({who: round(matrix.nnz / taken / 1e9, 3) for who, taken in times.items()})
            for n in [""] if asked.gpu else [f" {n}" for n in threads]:
                others = [taken for who, taken in times.items() if not who.startswith("gridz") and (who in ("scipy", "cusparse", "sell", "bsr") or who.endswith(n))]
                row[f"quotient{n}"] = round(min(others) / times[f"gridz{n}"], 2)
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        with open(asked.out / "results.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, sorted({key for row in rows for key in row}, key=lambda key: [k for row in rows for k in row].index(key)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
