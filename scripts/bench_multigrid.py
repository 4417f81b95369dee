#!/usr/bin/env python3
"""Ratio and speed of gridz's multigrid: real arrays in modes abs and rms, two fields of 256³ elements,
chunks of several sizes, and threads; compared with quant at the same bound.

    bench_multigrid.py [--reference FOLDER] [--fields FOLDER] [--library LIBRARY] [--runs N]

The arrays are those of bench_lossy.py; NaN and fill values are replaced by the mean of the rest. A
bound is relative to an array's range; for the fields, raw float32 files smooth3d.f32 and turb3d.f32
in FOLDER, it is relative to the largest magnitude. All codecs get it as an absolute number; for
`rms` it limits the root-mean-square error. This script compares the errors with it. One process and
one thread, unless stated otherwise; times are CPU time (with threads: wall-clock time), medians of
N runs. Prints Markdown."""

import argparse
import functools
import os
import pathlib
import time

import numpy as np

import bench_lossless as base
import bench_lossy as lossy

BOUNDS = [1e-2, 1e-3, 1e-4]
REQUESTS = ["multigrid,abs", "quant,level=dense,abs", "quant,level=max,abs", "multigrid,rms"]


def measure(peer, values, runs, clock=time.process_time):
    """Ratio, GB/s, and the decoded array."""
    times, back = [], np.empty_like(values)
    for _ in range(runs):
        start = clock()
        frame = peer.compress(values)
        middle = clock()
        peer.decompress(frame, back)
        times.append((middle - start, clock() - middle))
    speeds = values.nbytes / 1e9 / np.median(times, axis=0)
    return values.nbytes / len(frame), *speeds, back


def checked(request, bound, values, back):
    """The largest error, or the root-mean-square error, relative to the bound."""
    errors = np.abs(back.astype("f8") - values.astype("f8"))
    over = (np.sqrt(np.mean(errors**2)) if request.endswith("rms") else errors.max()) / bound
    assert over <= 1, (request, bound, over)
    return over


def mean(numbers):
    return np.exp(np.mean(np.log(numbers)))


def real_arrays(gridz, folder, runs):
    print("| request | type | 0.01 | 0.001 | 0.0001 | GB/s at 0.001 | largest error, or root, by the bound |")
    print("|---|---|---|---|---|---|---|")
    inputs = [input_ for input_ in lossy.of_reference(folder) if input_.group == input_.values.dtype.name]
    for request in REQUESTS:
        for dtype in ("float32", "float64"):
            table = np.empty((len(BOUNDS), 0, 4)).tolist()
            for input_ in inputs:
                if input_.values.dtype != dtype:
                    continue
                values = np.ascontiguousarray(input_.values)
                for row, part in zip(table, BOUNDS):
                    bound = float(values.dtype.type(part * (float(values.max()) - float(values.min()))))
                    *numbers, back = measure(gridz.peer("", f"{request}={bound!r}", 0), values, runs)
                    row.append((*numbers, checked(request, bound, values, back)))
            ratios = " | ".join(f"{mean([n[0] for n in row]):.4g}" for row in table)
            speeds = " / ".join(f"{mean([n[k] for n in table[1]]):.3g}" for k in (1, 2))
            overs = [f"{max(n[3] for n in row):.3f}" for row in table]
            print(f"| `{request}` | {dtype}, {len(table[0])} | {ratios} | {speeds} | {', '.join(overs)} |")


def fields(gridz, folder, runs):
    print("| field | request | 0.01 | 0.001 | 0.0001 | GB/s |")
    print("|---|---|---|---|---|---|")
    for name in ("smooth3d", "turb3d"):
        values = np.fromfile(folder / f"{name}.f32", "<f4").reshape(256, 256, 256)
        for request in REQUESTS:
            cells, speeds = [], []
            for part in BOUNDS:
                bound = float(np.float32(part * np.abs(values).max()))
                ratio, *both, back = measure(gridz.peer("", f"{request}={bound!r}", 0), values, runs)
                checked(request, bound, values, back)
                cells.append(f"{ratio:.4g}")
                speeds.append("{:.3g} / {:.3g}".format(*both))
            print(f"| {name} | `{request}` | {' | '.join(cells)} | {', '.join(speeds)} |")


def chunks(gridz, folder, runs):
    print("| chunk | `multigrid`, ratio | GB/s | `quant,level=dense`, ratio | GB/s |")
    print("|---|---|---|---|---|")
    values = np.fromfile(folder / "turb3d.f32", "<f4").reshape(256, 256, 256)
    bound = float(np.float32(1e-3 * (float(values.max()) - float(values.min()))))
    for n in (16, 32, 64, 128, 256):
        parts = [np.ascontiguousarray(values[z : z + n, y : y + n, x : x + n])
                 for z in range(0, 256, n) for y in range(0, 256, n) for x in range(0, 256, n)]  # fmt: skip
        parts = parts[:: max(1, len(parts) // 64)]
        cells = []
        for request in ("multigrid", "quant,level=dense"):
            peer = gridz.peer("", f"{request},abs={bound!r}", 0)
            found = [measure(peer, part, runs)[:3] for part in parts]
            ratio = len(found) / sum(1 / ratio for ratio, *_ in found)
            speeds = [len(found) / sum(1 / speed[k] for speed in found) for k in (1, 2)]
            cells.append("{:.4g} | {:.3g} / {:.3g}".format(ratio, *speeds))
        print(f"| {n}³ | {' | '.join(cells)} |")


def threads(library, folder, runs):
    sizes = [64, 128, 256]
    print(f"| threads | {' | '.join(f'{n * n >> 10} MiB' for n in sizes)} |")
    print("|---|---|---|---|")
    values = np.fromfile(folder / "turb3d.f32", "<f4").reshape(256, 256, 256)
    bound = float(np.float32(1e-3 * (float(values.max()) - float(values.min()))))
    for n in range(1, (os.cpu_count() or 1) + 1):
        # gridz reads the number of threads once per process.
        child = os.fork()
        if child == 0:
            gridz = base.Gridz(library)
            os.environ["GRIDZ_THREADS"] = str(n)
            peer = gridz.peer("", f"multigrid,abs={bound!r}", 0)
            parts = [np.ascontiguousarray(values[:, :size, :size]) for size in sizes]
            found = [measure(peer, part, runs, time.perf_counter)[1:3] for part in parts]
            print(f"| {n} | {' | '.join('{:.3g} / {:.3g}'.format(*speeds) for speeds in found)} |", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or base.ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, default=shared / "data")
    parser.add_argument("--fields", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.fields:
        # In a child process, before this process has loaded the library.
        threads(options.library, options.fields, options.runs)
        print()
    gridz = base.Gridz(options.library)
    print(gridz.version())
    parts = [functools.partial(real_arrays, gridz, options.reference)]
    if options.fields:
        parts += [functools.partial(part, gridz, options.fields) for part in (fields, chunks)]
    for part in parts:
        print()
        part(options.runs)


if __name__ == "__main__":
    main()
