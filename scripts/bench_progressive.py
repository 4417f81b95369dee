#!/usr/bin/env python3
"""Progressive reads of a multigrid dataset (coarser grids, fewer layers) by gridz_h5_read_progressive,
compared with full reads.

    bench_progressive.py [FIELD.f32 [MIB [FOLDER]]]

FIELD is a raw little-endian float32 cube, which is repeated up to MIB (512) MiB. Without FIELD, a
turbulence-like field of 256^3 is generated. It becomes one dataset of chunks of 64^3 in a file in
FOLDER (.), by multigrid in four layers with a bound of 1e-4 of the range. Each part is read ROUNDS
times, alternating with full reads by gridz_h5_read and by h5py: once with the file in the page
cache, and once with the file evicted from it. Times are medians in milliseconds. Bytes are those
that the call reports, and those that the operating system counts for the process during the first
call.
"""

import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["HDF5_PLUGIN_PATH"] = str(
    pathlib.Path(os.environ.get("HDF5_PLUGIN_PATH") or ROOT / "target" / "plugin").resolve()
)
sys.path[:0] = [str(ROOT / "tests" / "hosts"), str(ROOT / "scripts")]

import h5py
import numpy as np

from bench_filter import load, turbulence
from bulk import LAYERS, LEVEL, Bulk
from support import GRIDZ

ROUNDS = 3
CHUNK = (64, 64, 64)


def write(bulk, path, cube, mib):
    """Writes the file; returns the bytes of the dataset in it, and the bytes of its array."""
    n = max(1, mib * 2**20 // cube.nbytes)
    request = f"multigrid,abs={1e-4 * float(cube.max() - cube.min())},layers=4"
    shape = (n * cube.shape[0], *cube.shape[1:])
    with h5py.File(path, "w") as file:
        dset = file.create_dataset("x", shape, "<f4", chunks=CHUNK, compression=GRIDZ, compression_opts=bulk.words(request))
        for i in range(n):
            bulk.write(dset, cube, (i * len(cube), 0, 0))
    return request, shape


def forget(path):
    """Evicts the file from the page cache."""
    os.sync()
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes():
    with open("/proc/self/io") as counts:
        return int(counts.readline().split()[1])


def ways(bulk, shape):
    """The measurements: a name, the array, and a function of the dataset and the array."""

    def part(detail, value):
        return lambda dset, array: bulk.read_part(dset, detail, value, array=array)[1].read_bytes

    for level in range(4):
        grid = np.zeros([n >> level for n in shape], "<f4")
        yield f"level {level}", grid, part(LEVEL, level)
    whole = np.zeros(shape, "<f4")
    for n in range(1, 5):
        yield f"{n} layers", whole, part(LAYERS, n)
    yield "all, gridz_h5_read", whole, lambda dset, array: bulk.read(dset, array) is None or dset.id.get_storage_size()
    yield "all, h5py", whole, lambda dset, array: dset.read_direct(array) or dset.id.get_storage_size()


def main():
    field, mib, folder = [*sys.argv[1:], *["", "512", "."][len(sys.argv) - 1 :]]
    bulk, path = Bulk(), pathlib.Path(folder) / "bench_progressive.h5"
    request, shape = write(bulk, path, load(field) if field else turbulence(), int(mib))
    try:
        measured = list(ways(bulk, shape))
        times = {name: ([], [], []) for name, *_ in measured}
        returned, counted = {}, {}
        for _ in range(ROUNDS):
            for name, array, read in measured:
                for is_warm in (False, True):
                    if not is_warm:
                        forget(path)
                    with h5py.File(path) as file:
                        dset, before = file["x"], read_bytes()
                        begin, work = time.perf_counter(), time.process_time()
                        returned[name] = read(dset, array)
                        times[name][2].extend([1e3 * (time.process_time() - work)] * is_warm)
                        times[name][is_warm].append(1e3 * (time.perf_counter() - begin))
                        counted.setdefault(name, read_bytes() - before)
    finally:
        path.unlink()
    n_all = returned["all, h5py"]
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores; float32 {shape} in chunks of {CHUNK}, {request}: {n_all} bytes\n")
    print("| read | MB reported | MB counted | of the dataset | not in cache, ms | in cache, ms | of all cores, ms |")
    print("|---|---|---|---|---|---|---|")
    for name, found in times.items():
        cold, warm, work = map(np.median, found)
        megabytes = f"{returned[name] / 1e6:.1f} | {counted[name] / 1e6:.1f} | {100 * returned[name] / n_all:.1f} %"
        print(f"| {name} | {megabytes} | {cold:.0f} | {warm:.0f} | {work:.0f} |")


if __name__ == "__main__":
    main()
