#!/usr/bin/env python3
"""Ratio and speed of gridz's cci on index arrays, compared with peers.

    bench_cci.py [--reference FOLDER ...] [--library LIBRARY] [--runs N] [--out FOLDER]

The arrays are column indices and row pointers of generated matrices, and the index arrays of the
reference data: those of its sparse matrices and single-cell tables, and a mesh. They are read from
each FOLDER or from `data` and `data2` in GRIDZ_SHARED (by default ../shared). The groups are those
of Lawlor's paper on CCI, which reports savings of 91 percent, 72 to 74 percent and 55 to 75
percent.

"FEM, several unknowns": tetrahedra of a jittered grid with three unknowns a node, numbered along
the grid and by reverse Cuthill-McKee, and 27 neighbors with three unknowns. "FEM, one unknown": the
same with one unknown, and 7 neighbors. "Irregular": Zipf-like and web-like graphs, a circuit, 60
random columns a row, cells by genes. A 2-D Markov chain and a diagonal are in no group.

The peers of cci at both levels: gridz's lorenzo at level dense; Blosc2 with shuffle and zstd 5, on
the array itself; LZ4, zlib 6 and bzip2 9 on the differences of neighboring elements. The
differences are computed before the timing starts and are not undone.

One process on one core; speeds are 10^9 raw bytes per second of CPU time, medians of N interleaved
runs, after one run that is compared bit for bit. memcpy is measured in the same runs. gridz's
buffers are allocated beforehand.

Writes to the folder `--out`: results.csv (sizes and speeds) and results.md (tables). Needs numpy
and scipy; if blosc2 or lz4 is missing, it is named.
"""

import argparse
import bz2
import math
import os
import pathlib
import statistics
import sys
import time
import zlib

import numpy as np
import scipy.sparse
import scipy.spatial

import bench_lossless as base

SEVERAL, ONE, IRREGULAR, REAL = "FEM, several unknowns", "FEM, one unknown", "irregular", "real arrays"
REFERENCE = (".indices", ".indptr", "lfric_face_nodes")
CCI, FAST, LORENZO, BLOSC2 = "cci", "cci, fast", "lorenzo, dense", "blosc2 shuffle+zstd 5"
PEERS = [CCI, FAST, LORENZO, BLOSC2, "lz4 of differences", "zlib of differences", "bzip2 of differences"]


# ---- arrays --------------------------------------------------------------------------------------


def arrays_of(name, group, matrix):
    matrix = matrix.tocsr()
    matrix.sort_indices()
    yield base.Input(f"{name}.indices", group, matrix.indices.astype("i4"))
    yield base.Input(f"{name}.indptr", None, matrix.indptr.astype("i4"))


def with_unknowns(matrix, n):
    return scipy.sparse.kron(matrix, np.ones((n, n)), format="csr")


def band(n):
    return scipy.sparse.diags([np.ones(n - abs(k)) for k in (-1, 0, 1)], (-1, 0, 1), format="csr")


def box(n):
    """The 27-point stencil on a grid of n³."""
    return scipy.sparse.kron(scipy.sparse.kron(band(n), band(n)), band(n), format="csr")


def star(n):
    """The 7-point stencil."""
    one, line = scipy.sparse.identity(n), band(n)
    kron = scipy.sparse.kron
    return kron(kron(line, one), one) + kron(kron(one, line), one) + kron(kron(one, one), line)


def tetrahedra(n, random):
    """The cells of a jittered grid of n³ points, and the matrix that connects the points of each
    cell."""
    grid = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cells = scipy.spatial.Delaunay(grid + random.uniform(-0.35, 0.35, (n**3, 3))).simplices
    rows, columns = np.repeat(cells, 4, axis=1).ravel(), np.tile(cells, (1, 4)).ravel()
    return cells, graph(rows, columns, n**3)


def graph(rows, columns, n):
    return scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, n))


def power_law(n, links, random):
    order = random.permutation(n)
    return graph(order[(n * random.random(links) ** 2).astype(int)], order[(n * random.random(links) ** 2.5).astype(int)], n)


def web(n, random):
    """Web-like graph: most rows copy most links of a recent row, and add nearby links."""
    rows = []
    for k in range(n):
        links = set()
        if k > 3 and random.random() < 0.75:
            other = rows[k - 1 - int(random.integers(0, 4))]
            links = set(other[random.random(len(other)) < 0.8].tolist())
        m = random.random(int(random.pareto(1.3) * 4) + 2)
        links |= set(np.clip(k + random.laplace(0, 30, len(m)).astype(int), 0, n - 1)[m < 0.6].tolist())
        links |= set((n * random.random(len(m)) ** 3).astype(int)[m >= 0.6].tolist())
        rows.append(np.array(sorted(links), "i8")[:400])
    pointers = np.cumsum([0] + [len(row) for row in rows])
    return scipy.sparse.csr_matrix((np.ones(pointers[-1]), np.concatenate(rows), pointers), shape=(n, n))


def circuit(n, random):
    """A diagonal, and two links of each node: to nearby nodes, to a few hubs, or to any node."""
    rows = random.integers(0, n, 2 * n)
    near = np.clip(rows + random.laplace(0, 50, 2 * n).astype(int), 0, n - 1)
    far = np.where(random.random(2 * n) < 0.3, random.integers(0, 20, 2 * n), random.integers(0, n, 2 * n))
    columns = np.where(random.random(2 * n) < 0.7, near, far)
    every = np.arange(n)
    return graph(np.r_[every, rows, columns], np.r_[every, columns, rows], n)


def made():
    random = np.random.default_rng(3)
    cells, mesh = tetrahedra(28, random)
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(mesh, True)
    ordered = mesh[order][:, order]
    for name, matrix in [("tetrahedra", mesh), ("tetrahedra, RCM", ordered), ("27 neighbours", box(24))]:
        yield from arrays_of(f"{name}, 3 unknowns", SEVERAL, with_unknowns(matrix, 3))
    for name, matrix in [("tetrahedra", mesh), ("tetrahedra, RCM", ordered), ("27 neighbours", box(40)), ("7 neighbours", star(90))]:
        yield from arrays_of(name, ONE, matrix)
    yield from arrays_of("power law", IRREGULAR, power_law(200_000, 2_000_000, random))
    yield from arrays_of("web", IRREGULAR, web(30_000, random))
    yield from arrays_of("circuit", IRREGULAR, circuit(200_000, random))
    columns = np.sort(random.integers(0, 2_000_000, (30_000, 60)), axis=1)
    yield base.Input("60 random columns.indices", IRREGULAR, columns.ravel().astype("i4"))
    likely = random.permutation(1 / (1 + np.arange(20_000)) ** 0.7)
    likely = (likely / likely.sum() * 1500).clip(0, 0.95)
    genes = [np.flatnonzero(random.random(20_000) < likely * random.lognormal(0, 0.4)) for _ in range(1000)]
    yield base.Input("cells by genes.indices", IRREGULAR, np.concatenate(genes).astype("i4"))
    walk = band(500) - scipy.sparse.identity(500)
    one = scipy.sparse.identity(500)
    yield from arrays_of("2-D Markov chain", None, scipy.sparse.kron(walk, one) + scipy.sparse.kron(one, walk) + scipy.sparse.identity(250_000))
    yield from arrays_of("diagonal", None, scipy.sparse.identity(500_000))
    yield base.Input("cells of tetrahedra", None, cells.astype("i4").ravel())


def of_reference(folders):
    for input_ in (input_ for folder in folders for input_ in base.of_reference(folder)):
        if input_.name.endswith(REFERENCE):
            yield input_._replace(group=REAL, values=input_.values.ravel())


# ---- measuring -----------------------------------------------------------------------------------


def differences(values):
    return np.diff(values, prepend=values.dtype.type(0))


def peers(gridz, missing):
    """Peers by name, each with the function that prepares its input. Decompression restores that
    input."""

    def of_bytes(name, compress, decompress):
        return name, (differences, base.Peer(name, lambda values: compress(values.tobytes()), lambda packed, _: decompress(packed)))

    def same(values):
        return values

    found = {
        CCI: (same, gridz.peer(CCI, "cci", 2, "i4")),
        FAST: (same, gridz.peer(FAST, "cci", 1, "i4")),
        LORENZO: (same, gridz.peer(LORENZO, "lorenzo", 2, "i4")),
    }
    try:
        import blosc2

        blosc2.set_nthreads(1)
        options = dict(typesize=4, codec=blosc2.Codec.ZSTD, clevel=5, filters=[blosc2.Filter.SHUFFLE])
        found[BLOSC2] = same, base.Peer(BLOSC2, lambda values: blosc2.compress2(values, **options), lambda packed, _: blosc2.decompress2(packed))
    except ImportError:
        missing.append((BLOSC2, "no package blosc2"))
    try:
        import lz4.block

        found.update([of_bytes(PEERS[4], lz4.block.compress, lz4.block.decompress)])
    except ImportError:
        missing.append((PEERS[4], "no package lz4"))
    found.update([of_bytes(PEERS[5], lambda data: zlib.compress(data, 6), zlib.decompress), of_bytes(PEERS[6], bz2.compress, bz2.decompress)])
    return found


def measure(input_, found, runs):
    ready = []
    for name, (make, peer) in found.items():
        values = np.ascontiguousarray(make(input_.values))
        back = np.zeros_like(values)
        packed = peer.compress(values)
        packed = np.array(packed) if isinstance(packed, np.ndarray) else packed
        read = peer.decompress(packed, back)
        read = back.tobytes() if read is None else bytes(read)
        if read != values.tobytes():
            raise ValueError(f"{name} does not restore {input_.name}")
        ready.append((name, peer, values, packed, back, [], []))
    copies, to = [], np.zeros_like(input_.values)
    for _ in range(runs):
        begin = time.process_time()
        np.copyto(to, input_.values)
        copies.append(time.process_time() - begin)
        for _, peer, values, packed, back, compress, decompress in ready:
            begin = time.process_time()
            peer.compress(values)
            middle = time.process_time()
            peer.decompress(packed, back)
            compress.append(middle - begin)
            decompress.append(time.process_time() - middle)

    def speed(times):
        return input_.values.nbytes / max(statistics.median(times), 1e-9) / 1e9

    for name, _, values, packed, _, *times in ready:
        n_bytes = packed.nbytes if isinstance(packed, np.ndarray) else len(packed)
        yield base.Result(input_, name, n_bytes, n_bytes / values.nbytes, *map(speed, times), "")
    yield base.Result(input_, "memcpy", input_.values.nbytes, 1, speed(copies), speed(copies), "")


# ---- reporting -----------------------------------------------------------------------------------


def mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def markdown(inputs, results, names, missing, about):
    by = {(r.input.name, r.peer): r for r in results}
    lines = ["# Indices: `cci`", "", about, ""]
    lines += [f"- missing: {name} ({reason})" for name, reason in missing]
    lines += [f"Missing: {len(missing)}.", ""] if missing else ["Nothing is missing.", ""]
    lines += ["## Sizes", "", "Compressed / raw; of groups the geometric mean.", ""]
    row = [[i.name, f"{i.values.size}", *(f"{by[i.name, name].ratio:.4f}" for name in names)] for i in inputs]
    for group in [SEVERAL, ONE, IRREGULAR, REAL]:
        members = [i.name for i in inputs if i.group == group]
        if members:
            means = [f"**{mean([by[i, name].ratio for i in members]):.4f}**" for name in names]
            row.append([f"**{group}**", f"{len(members)} arrays", *means])
    lines += [*base.table(["array", "indices", *names], row), ""]
    lines += ["## Speeds, one core", "", "GB/s of raw bytes, compressing / decompressing.", ""]
    row = []
    for i in inputs:
        speeds = [f"{by[i.name, name].compress:.2f} / {by[i.name, name].decompress:.2f}" for name in names]
        row.append([i.name, *speeds, f"{by[i.name, 'memcpy'].decompress:.1f}"])
    lines += [*base.table(["array", *names, "memcpy"], row), ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or base.ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, nargs="*", default=[shared / "data", shared / "data2"])
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=base.ROOT / "target" / "bench-cci")
    options = parser.parse_args()
    if not options.library.is_file():
        sys.exit(f"{options.library} does not exist; run make first")
    there = [folder for folder in options.reference if (folder / "MANIFEST.json").is_file()]
    missing = [(f"reference data {f.name}", "the folder has no MANIFEST.json") for f in options.reference if f not in there]
    gridz = base.Gridz(options.library)
    found = peers(gridz, missing)
    about = f"{base.machine([gridz.version()])}. Medians of {options.runs} runs. Measured by `scripts/bench_cci.py`; its docstring describes the measurements."
    for name, reason in missing:
        print(f"MISSING {name}: {reason}", file=sys.stderr)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    inputs, results = [*made(), *of_reference(there)], []
    for input_ in inputs:
        print(f"{input_.name} …", file=sys.stderr, flush=True)
        results += measure(input_, found, options.runs)
    options.out.mkdir(parents=True, exist_ok=True)
    memcpy = {r.input.name: r.decompress for r in results if r.peer == "memcpy"}
    base.write_csv(options.out / "results.csv", results, memcpy)
    names = [name for name in PEERS if name in found]
    text = markdown(inputs, results, names, missing, about)
    (options.out / "results.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
