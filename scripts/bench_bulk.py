#!/usr/bin/env python3
"""Whole datasets by gridz_h5_write and gridz_h5_read, compared with HDF5's own path through gridz
and through other filters.

    bench_bulk.py [FIELD.f32 [MIB [FOLDER]]]

FIELD is a raw little-endian float32 cube, which is repeated up to MIB (1024) MiB; without one, a
turbulence-like field of 256^3 is generated. It becomes one dataset in a file in FOLDER (/dev/shm),
which is in memory. h5py writes and reads with every filter, "bulk" with gridz's functions on h5py's
libhdf5. Speeds are GB of raw data (10^9 bytes) a second, medians of 5 rounds; each round runs every
variant once. Chunks are of 4 MiB; then from 64 KiB to 64 MiB.

The filter has one thread, so "gridz" is the speed of one thread; bulk uses all cores, and so do
filters that can.
"""

import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORES = len(os.sched_getaffinity(0))
os.environ.update(
    HDF5_PLUGIN_PATH=str(pathlib.Path(os.environ.get("HDF5_PLUGIN_PATH") or ROOT / "target" / "plugin").resolve()),
    GRIDZ_THREADS="1",
    BLOSC_NTHREADS=str(CORES),
    OMP_NUM_THREADS=str(CORES),
)
sys.path[:0] = [str(ROOT / "tests" / "hosts"), str(ROOT / "scripts")]

import h5py
import hdf5plugin
import numpy as np

from bench_filter import turbulence
from bulk import Bulk
from support import GRIDZ

ROUNDS = 5
CHUNK = (64, 128, 128)
"""4 MiB of float32."""


def filters():
    """The h5py arguments of each variant, by name."""
    return {
        "none": {},
        "gzip-1": {"compression": "gzip", "compression_opts": 1},
        "bitshuffle+lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
        "blosc2-shuffle-lz4": dict(hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)),
        "gridz": {"compression": GRIDZ},
    }


class Way:
    """One variant of writing and reading, with its times."""

    def __init__(self, name, chunk, options, bulk=None, context=None):
        self.name, self.chunk, self.options, self.bulk, self.context = name, chunk, options, bulk, context
        self.writes, self.reads, self.stored = [], [], 0

    def turn(self, data, back, path):
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("x", data.shape, data.dtype, chunks=self.chunk, **self.options)
            start = time.perf_counter()
            if self.bulk:
                self.bulk.write(dataset, data, context=self.context)
            else:
                dataset.write_direct(data)
            file.flush()
            self.writes.append(time.perf_counter() - start)
        with h5py.File(path) as file:
            dataset = file["x"]
            start = time.perf_counter()
            if self.bulk:
                self.bulk.read(dataset, back, context=self.context)
            else:
                dataset.read_direct(back)
            self.reads.append(time.perf_counter() - start)
            self.stored = dataset.id.get_storage_size()
        assert (back[:: max(1, len(back) // 7)] == data[:: max(1, len(data) // 7)]).all(), self.name
        os.unlink(path)

    def speeds(self, n_bytes):
        return [n_bytes / 1e9 / sorted(times)[len(times) // 2] for times in (self.writes, self.reads)]


def measure(ways, data, back, path):
    for turn in range(ROUNDS + 1):
        for way in ways:
            way.turn(data, back, path)
            if turn == 0:
                way.writes.clear(), way.reads.clear()  # warm-up: memory is used for the first time


def main():
    field = np.fromfile(sys.argv[1], "<f4") if len(sys.argv) > 1 else turbulence().ravel()
    n_bytes = int(sys.argv[2] if len(sys.argv) > 2 else 1024) << 20
    path = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else "/dev/shm") / f"bench_bulk_{os.getpid()}.h5"
    side = round(field.size ** (1 / 3))
    n = max(1, n_bytes // field.nbytes)
    data = np.tile(field.reshape(side, side, side), (n, 1, 1)) if n > 1 else field.reshape(side, side, side)
    back = np.empty_like(data)
    back.fill(0)
    bulk = Bulk()
    all_cores, one = bulk.context(CORES), bulk.context(1)
    print(f"{platform.processor() or platform.machine()}, {CORES} cores, {data.nbytes >> 20} MiB {data.shape}, libhdf5 {h5py.version.hdf5_version}\n")
    gridz = filters()["gridz"]
    ways = [Way(name, CHUNK, options) for name, options in filters().items()]
    ways += [Way("bulk, 1 thread", CHUNK, gridz, bulk, one), Way(f"bulk, {CORES} threads", CHUNK, gridz, bulk, all_cores)]
    measure(ways, data, back, path)
    own = next(way for way in ways if way.name == "gridz").speeds(data.nbytes)
    print("| | ratio | write | read | of gridz by HDF5 |\n|---|---|---|---|---|")
    for way in ways:
        write, read = way.speeds(data.nbytes)
        print(f"| {way.name} | {data.nbytes / way.stored:.3f} | {write:.2f} | {read:.2f} | {write / own[0]:.2f} / {read / own[1]:.2f} |")
    chunks = [(16, 32, 32), (32, 64, 64), (64, 64, 64), CHUNK, (64, 256, 256), (256, 256, 256)]
    ways = [Way(str(chunk), chunk, gridz, bulk, all_cores) for chunk in chunks if all(np.less_equal(chunk, data.shape))]
    measure(ways, data, back, path)
    print(f"\n| chunks | KiB | bulk, {CORES} threads: write | read |\n|---|---|---|---|")
    for way in ways:
        write, read = way.speeds(data.nbytes)
        print(f"| {' × '.join(map(str, way.chunk))} | {4 * np.prod(way.chunk) >> 10} | {write:.2f} | {read:.2f} |")


if __name__ == "__main__":
    main()
