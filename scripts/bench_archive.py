#!/usr/bin/env python3
"""One large file from end to end: written, closed, opened, read; time, size and memory.

    bench_archive.py [GIB [FOLDER]]

A turbulent float32 field of 256^3, repeated up to GIB (10) GiB, becomes one dataset with chunks of
4 MiB in a file in FOLDER (/dev/shm), by h5py with each filter and by gridz_h5_write and
gridz_h5_read ("bulk"). Every variant is a separate process with all cores, except gridz in h5py,
which has one thread. Memory is the peak of the process during writing and reading, beyond its
memory before, which is the array. The field is read into the array that it was written from; some
planes are compared by checksums. Prints Markdown.
"""

import os
import pathlib
import subprocess
import sys
import time
import zlib

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import h5py
import numpy as np

from bench_bulk import CHUNK, CORES, Bulk, filters, turbulence

WAYS = [*filters(), "bulk"]
EDGE = 256


def memory(name):
    """This process's memory as the kernel reports it, in bytes: VmRSS, or VmHWM, the peak."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))


def forget_peak():
    """Resets the peak memory."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def checksum(data):
    """Checksums of some planes, for speed."""
    return [zlib.crc32(plane) for plane in data[:: max(1, len(data) // 50)]]


def run(way, gib, path):
    """Writes and reads once; prints seconds, bytes of the file, and memory."""
    cube = turbulence(EDGE)
    data = np.empty((int(gib * 2**30) // (4 * EDGE**2) // EDGE * EDGE, EDGE, EDGE), "<f4")
    for at in range(0, len(data), EDGE):
        data[at : at + EDGE] = cube
    del cube
    options, bulk = filters().get(way, filters()["gridz"]), Bulk() if way == "bulk" else None
    context = bulk.context(CORES) if bulk else None
    wanted = checksum(data)
    forget_peak()
    base = memory("VmRSS")
    begin = time.perf_counter()
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data.shape, data.dtype, chunks=CHUNK, **options)
        if bulk:
            bulk.write(dataset, data, context=context)
        else:
            dataset.write_direct(data)
    written = time.perf_counter()
    data.fill(0)
    begin_read = time.perf_counter()
    with h5py.File(path, "r") as file:
        if bulk:
            bulk.read(file["x"], data, context=context)
        else:
            file["x"].read_direct(data)
    read = time.perf_counter() - begin_read
    assert checksum(data) == wanted, f"{way}: other data"
    print(written - begin, read, os.path.getsize(path), memory("VmHWM") - base, data.nbytes)


def main():
    if len(sys.argv) > 4:
        return run(sys.argv[1], float(sys.argv[2]), sys.argv[3])
    gib, folder = sys.argv[1] if len(sys.argv) > 1 else "10", sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
    path = f"{folder}/bench_archive.h5"
    print(f"{gib} GiB, {CORES} cores, {folder}\n\n| | ratio | write, GB/s | read, GB/s | write and read, s | memory beside the array, MiB |\n|---|---|---|---|---|---|")
    for way in WAYS:
        try:
            output = subprocess.run([sys.executable, __file__, way, gib, path, "run"], stdout=subprocess.PIPE, text=True, check=True).stdout
        finally:
            pathlib.Path(path).unlink(missing_ok=True)
        write, read, size, memory, raw = (float(word) for word in output.split())
        print(f"| {way} | {raw / size:.3f} | {raw / write / 1e9:.2f} | {raw / read / 1e9:.2f} | {write + read:.1f} | {memory / 2**20:.0f} |", flush=True)
    return None


if __name__ == "__main__":
    main()
