#!/usr/bin/env python3
"""Ratio and speed of gridz's huffman, compared with huff0, the Huffman codes of zstd.

    bench_huffman.py [--reference FOLDER ...] [--library LIBRARY] [--runs N] [--threads N] [--out FOLDER]

The arrays are generated, 64 MiB each: bytes of four entropies; uint16, residuals as from a
predictor with the sign folded in, and a random walk of such steps; int32, a turbulent field in
steps of 0.1 (its standard deviation is 10) and its differences. In addition, the arrays of the
reference data that huffman supports, from each FOLDER or from `data` and `data2` in GRIDZ_SHARED
(by default ../shared); they have about 1 MB or less. "Entropy" is that of single elements.

gridz is called through its C API; an array is one chunk, and its frame has checksums, which are
computed and verified. huff0 has none. It has no public interface: huff0.c here is compiled and
linked with zstd's static library (Debian's libzstd-dev 1.5.4 to 1.5.7, or as in CPATH and
LIBRARY_PATH). It calls HUF_compress4X_repeat and HUF_decompress4X_hufOnly_wksp as zstd does for
literals: blocks of 128 KiB, a new table for each, codes of up to 11 bits, four streams;
incompressible blocks are stored. huff0 codes bytes: those of the array unchanged and, for larger
elements, also "planes": all first bytes, then all second bytes and so on. numpy separates the
planes before the timing starts. huffman tries differences block by block; huff0 has nothing
similar.

"One core": the process is pinned to one core, and the time is its CPU time. "All cores": gridz with
N threads (by default one for each core) in a separate process, wall-clock time, without the
reference data. Speeds are 10^9 raw bytes per second, medians of N interleaved runs, after one
warm-up run whose result is compared bit for bit. Quotients are medians of the quotients of each
run, since the speed of a shared machine changes from second to second. Buffers are allocated
beforehand.

Writes to the folder `--out`: results.csv (sizes and speeds) and results.md (tables). Needs numpy;
missing peers are named.
"""

import argparse
import math
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from ctypes import c_char_p, c_size_t, c_void_p

import numpy as np

import bench_lossless as base
from bench_filter import turbulence

N_BYTES = 64 << 20
HUFF0_NEEDS = "huff0.c needs a C compiler and zstd 1.5.4 to 1.5.7 as a static library, in Debian's libzstd-dev"
HUFFMAN, HUFF0, PLANES = "huffman", "huff0", "huff0 of planes"

Result = namedtuple("Result", [*base.Result._fields, "times"])
"""times: seconds of each run, for both directions."""


# ---- arrays --------------------------------------------------------------------------------------


def made():
    random = np.random.default_rng(11)
    for bits, likely in [(2, 0.5), (4, 0.156)]:
        yield f"geometric, {bits} bits", (random.geometric(likely, N_BYTES) - 1).astype("u1")
    for bits, deviation in [(6, 15.5), (7.5, 43.8)]:
        values = random.standard_normal(N_BYTES, "f4") * np.float32(deviation) + 128
        yield f"normal, {bits} bits", np.rint(values).clip(0, 255).astype("u1")
    steps = np.rint(random.laplace(0, 8.3, N_BYTES // 2)).astype("i4")
    yield "residuals, sign folded in", (steps << 1 ^ steps >> 31).astype("u2")
    yield "random walk", np.cumsum(steps, dtype="i8").astype("u2")
    field = np.rint(turbulence() / np.float32(0.1)).astype("i4").ravel()
    yield "differences of field", np.diff(field, prepend=np.int32(0))
    yield "field", field


def of_reference(folders):
    arrays = (input_ for folder in folders for input_ in base.of_reference(folder))
    return [a for a in arrays if a.values.dtype.kind in "iu" and a.values.itemsize <= 4]


def entropy(values):
    """Entropy of an element in bits."""
    parts = np.unique(values, return_counts=True)[1] / values.size
    return float(-(parts * np.log2(parts)).sum())


def planes(values):
    """One row for each byte of an element."""
    return np.ascontiguousarray(values.reshape(-1, 1).view("u1").T)


# ---- codecs --------------------------------------------------------------------------------------


def of_huff0():
    """huff0's version, and the peer for arrays of bytes, whose rows are coded separately."""
    huff0 = base.compiled("huff0.c", "-Wl,-Bsymbolic", "-l:libzstd.a")
    huff0.huff0_version.restype = c_char_p
    huff0.huff0_bound.restype = huff0.huff0_compress.restype = c_size_t
    room = np.zeros(0, "u1")

    def call(function, src, rows, dst):
        sizes = c_size_t(rows.shape[1]), c_size_t(rows.shape[0])
        return function(c_void_p(src.ctypes.data), *sizes, c_void_p(dst.ctypes.data))

    def compress(rows):
        nonlocal room
        bound = huff0.huff0_bound(c_size_t(rows.shape[1]), c_size_t(rows.shape[0]))
        if room.size < bound:
            room = np.zeros(bound, "u1")
        return room[: call(huff0.huff0_compress, rows, rows, room)]

    def decompress(packed, rows):
        if call(huff0.huff0_decompress, packed, rows, rows) != 0:
            raise ValueError("huff0 could not read what it wrote")

    return huff0.huff0_version().decode(), base.Peer(HUFF0, compress, decompress)


def of_gridz(gridz, name, values):
    return gridz.peer(name, "huffman", 0, values.dtype.str[1:])


# ---- measuring -----------------------------------------------------------------------------------


def failed(input_, name, problem):
    return Result(input_, name, *[math.nan] * 4, problem, dict.fromkeys(base.DIRECTIONS, [math.nan]))


def measure(input_, jobs, runs, clock):
    """The results of jobs, each a peer and its input. The jobs are interleaved, so that other work
    on the machine affects all of them equally."""
    results, ready = [], []
    for peer, values in jobs:
        try:
            back = np.zeros_like(values)
            packed = np.array(peer.compress(values))
            peer.decompress(packed, back)
            if back.tobytes() != values.tobytes():
                raise ValueError("the decompressed array differs from the original")
            ready.append((peer, values, packed, back, [], []))
        except Exception as error:  # a failing peer must not hide the results of the others
            problem = f"{type(error).__name__}: {error}"
            results.append(failed(input_, peer.name, problem))
    for _ in range(runs):
        for peer, values, packed, back, compress, decompress in ready:
            begin = clock()
            peer.compress(values)
            middle = clock()
            peer.decompress(packed, back)
            compress.append(middle - begin)
            decompress.append(clock() - middle)
    for peer, values, packed, _, *times in ready:
        speeds = [values.nbytes / statistics.median(t) / 1e9 for t in times]
        sizes = packed.nbytes, packed.nbytes / values.nbytes
        results.append(Result(input_, peer.name, *sizes, *speeds, "", dict(zip(base.DIRECTIONS, times))))
    return results


def on_one_core(input_, gridz, huff0, runs):
    values = input_.values
    copy = base.Peer("memcpy", lambda values: values, lambda packed, back: np.copyto(back, packed))
    jobs = [(copy, values), (of_gridz(gridz, HUFFMAN, values), values)]
    if huff0:
        jobs.append((huff0, values.reshape(1, -1).view("u1")))
        if values.itemsize > 1:
            jobs.append((huff0._replace(name=PLANES), planes(values)))
    results = measure(input_, jobs, runs, time.process_time)
    # memcpy is measured in one direction only.
    return [r._replace(compress=r.decompress) if r.peer == "memcpy" else r for r in results]


def with_threads(input_, library, threads, runs):
    """Runs in a separate process, since gridz reads the number of threads once."""
    gridz = base.Gridz(library)
    os.environ["GRIDZ_THREADS"] = str(threads)
    peer = of_gridz(gridz, f"{HUFFMAN}, {threads} threads", input_.values)
    [result] = measure(input_, [(peer, input_.values)], runs, time.perf_counter)
    return result._replace(input=None)


# ---- reporting -----------------------------------------------------------------------------------


def cell(number, digits):
    return "–" if math.isnan(number) else f"{number:.{digits}f}"


def rows_of(input_, results):
    """Lines of the table: one for each way to use huff0."""
    found = {r.peer: r for r in results if r.input is input_}
    own = found[HUFFMAN]
    for other in [found[name] for name in (HUFF0, PLANES) if name in found] or [failed(input_, "–", "")]:
        row = [input_.name, input_.values.dtype.name, f"{entropy(input_.values):.2f}", other.peer]
        row += [cell(own.ratio, 3), cell(other.ratio, 3)]
        for direction in base.DIRECTIONS:
            turns = zip(other.times[direction], own.times[direction])
            quotient = statistics.median(others / own_ for others, own_ in turns)
            row += [cell(n, 2) for n in (getattr(own, direction), getattr(other, direction), quotient)]
        yield row


def markdown(inputs, results, threaded, threads, missing, about):
    lines = ["# Huffman codes", "", about, ""]
    lines += [f"- missing: {name} ({reason})" for name, reason in missing]
    lines += [f"Missing: {len(missing)}.", ""] if missing else ["Nothing is missing.", ""]
    lines += ["## One core", "", "Compressed / raw, then GB/s; the quotients are of speeds, huffman by huff0.", ""]
    head = ["array", "type", "entropy, bits", "beside", "huffman", "huff0"]
    for doing in base.DIRECTIONS:
        head += [f"{doing}: huffman", "huff0", "quotient"]
    lines += [*base.table(head, [row for input_ in inputs for row in rows_of(input_, results)]), ""]
    lines += [f"## All cores: {threads} threads", ""]
    lines += ["HPDR's paper reports 48 GB/s for its Huffman-X on CPUs; that is as published, on another machine.", ""]
    rows = [[r.input.name, r.input.values.dtype.name, cell(r.compress, 2), cell(r.decompress, 2)] for r in threaded]
    lines += [*base.table(["array", "type", "compress GB/s", "decompress GB/s"], rows), ""]
    problems = [r for r in [*results, *threaded] if r.problem]
    lines += [f"Not measured (–), {len(problems)} in all:", ""] if problems else []
    lines += [f"- {r.peer}, {r.input.name}: {r.problem}" for r in problems]
    return "\n".join(lines).rstrip() + "\n"


def main():
    cores = os.sched_getaffinity(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or base.ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, nargs="*", default=[shared / "data", shared / "data2"])
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(cores))
    parser.add_argument("--out", type=pathlib.Path, default=base.ROOT / "target" / "bench-huffman")
    options = parser.parse_args()
    if not options.library.is_file():
        sys.exit(f"{options.library} does not exist; run make first")

    there = [folder for folder in options.reference if (folder / "MANIFEST.json").is_file()]
    missing = [(f"reference data {f.name}", "the folder has no MANIFEST.json") for f in options.reference if f not in there]
    gridz, huff0 = base.Gridz(options.library), None
    versions = [gridz.version()]
    try:
        version, huff0 = of_huff0()
        versions.append(f"zstd {version}")
    except (OSError, subprocess.CalledProcessError):
        missing.append((HUFF0, HUFF0_NEEDS))
    about = f"{base.machine(versions)}. Medians of {options.runs} runs."
    print(about, file=sys.stderr)
    for name, reason in missing:
        print(f"MISSING {name}: {reason}", file=sys.stderr)
    own = [base.Input(name, None, values) for name, values in made()]
    inputs = own + of_reference(there)

    results, threaded = [], []
    os.sched_setaffinity(0, {max(cores)})
    for input_ in inputs:
        print(f"{input_.name} …", file=sys.stderr, flush=True)
        results += on_one_core(input_, gridz, huff0, options.runs)
    os.sched_setaffinity(0, cores)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        for input_ in own:
            print(f"{input_.name}, {options.threads} threads …", file=sys.stderr, flush=True)
            result = process.submit(with_threads, input_, options.library, options.threads, options.runs).result()
            threaded.append(result._replace(input=input_))

    options.out.mkdir(parents=True, exist_ok=True)
    memcpy = {r.input.name: r.decompress for r in results if r.peer == "memcpy"}
    base.write_csv(options.out / "results.csv", [*results, *threaded], memcpy)
    text = markdown(inputs, results, threaded, options.threads, missing, about)
    (options.out / "results.md").write_text(text)
    print(text)
    print(f"written to {options.out}", file=sys.stderr)
    return 1 if any("came back" in r.problem for r in [*results, *threaded]) else 0


if __name__ == "__main__":
    sys.exit(main())
