#!/usr/bin/env python3
"""The cost of chunk shapes: size, and time to write and read, of gridz in HDF5.

    HDF5_PLUGIN_PATH=target/plugin bench_chunks.py [FIELD.f32]

FIELD is a raw little-endian float32 cube; without one, the turbulence-like field of
bench_filter.py, 256^3. h5py writes it to an in-memory file with each chunk shape and reads all of
it back, in MB of raw data (10^6 bytes) per second, and then parts of it, in milliseconds. Medians
of 5, one thread; for reading, HDF5's chunk cache is as large as the field. The table is written to
standard output as Markdown.
"""

import io
import itertools
import os
import statistics
import sys
import time

os.environ["GRIDZ_THREADS"] = "1"  # read once, when the filter is loaded

import h5py
import numpy

from bench_filter import turbulence

REPEATS = 5
# Two files that are open at the same time need different names, also in memory.
NAMES = map("{}.h5".format, itertools.count())
SHAPES = [
    (256, 256, 256), (64, 256, 256), (16, 256, 256), (4, 256, 256), (1, 256, 256),
    (64, 128, 128), (64, 64, 64), (32, 32, 32), (16, 16, 16), (8, 8, 8),
    (256, 256, 1), (256, 1, 1), (1, 1, 256),
]  # fmt: skip
PARTS = {
    "plane [z, :, :]": lambda data: data[17],
    "plane [:, :, x]": lambda data: data[:, :, 17],
    "line [:, y, x]": lambda data: data[:, 17, 17],
}


def median_time(action):
    """Seconds, and the action's result."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def measure(field, chunks):
    """The row of the table for these chunks."""

    def write():
        file = h5py.File(next(NAMES), "w", driver="core", backing_store=False)
        file.create_dataset("x", data=field, chunks=chunks, compression=34013)
        file.flush()
        return file

    def seconds_to(read):
        """Reopened each time, so that no chunk is in HDF5's cache."""

        def fresh():
            data = h5py.File(image, "r", rdcc_nbytes=field.nbytes)["x"]
            start = time.perf_counter()
            values = read(data)
            return time.perf_counter() - start, values

        results = [fresh() for _ in range(REPEATS)]
        assert numpy.array_equal(results[0][1], read(field))
        return statistics.median(seconds for seconds, _ in results)

    seconds, file = median_time(write)
    image = io.BytesIO(file.id.get_file_image())
    megabytes = field.nbytes / 1e6
    size = file["x"].id.get_storage_size() / field.nbytes
    everything = megabytes / seconds, megabytes / seconds_to(lambda data: data[...])
    return size, everything, [1e3 * seconds_to(read) for read in PARTS.values()]


def main():
    if len(sys.argv) > 1:
        field = numpy.fromfile(sys.argv[1], "<f4")
        field = field.reshape([round(field.size ** (1 / 3))] * 3)
    else:
        field = turbulence()
    print("| chunk | bytes | size, of raw | write, MB/s | read, MB/s | " + " | ".join(PARTS) + " |")
    print("|---|" + "---:|" * (4 + len(PARTS)))
    for chunks in SHAPES:
        chunks = tuple(min(c, n) for c, n in zip(chunks, field.shape))
        size, everything, parts = measure(field, chunks)
        cells = [" × ".join(map(str, chunks)), f"{numpy.prod(chunks) * 4:,}", f"{size:.3f}"]
        cells += [f"{speed:,.0f}" for speed in everything] + [f"{milliseconds:.1f}" for milliseconds in parts]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
