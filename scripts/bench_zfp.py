#!/usr/bin/env python3
"""gridz's zfp compared with libzfp, by type, rank and mode: size, speed of one core, and the
largest error relative to the bound.

    bench_zfp.py [--mib 64] [--runs 5] [--threads N] [--library LIBRARY]

The arrays are cuts of one turbulent field (Gaussian, energy spectrum k^(-5/3), mean 300, deviation
10) of about MIB. Each is one chunk in host memory. libzfp is zfpy's; "in HDF5" is one dataset of
chunks of 4 MiB that h5py writes to an in-memory file and reads back, by hdf5plugin's H5Z-ZFP and by
gridz's filter. The process is pinned to one core unless `--threads` is larger, which only gridz can
use; libzfp's OpenMP supports only compression and is not in zfpy. Speeds are GB/s (10^9 raw bytes),
medians of RUNS interleaved runs after one warm-up run. "same" states whether gridz's payload begins with
libzfp's stream. Prints a Markdown table.
"""

import argparse
import importlib.metadata
import os
import pathlib
import platform
import statistics
import time

import numpy as np

import bench_lossless as base
from bench_filter import processor

FILTER, ZFP, CHUNK_BYTES = 34013, 4, 4 << 20


def turbulence(n):
    """A cube of n^3 float64."""
    spectrum = np.fft.rfftn(np.random.default_rng(7).standard_normal((n, n, n), dtype="f4"))
    k = np.fft.fftfreq(n) * n
    k2 = k[:, None, None] ** 2 + k[None, :, None] ** 2 + (np.fft.rfftfreq(n) * n)[None, None, :] ** 2
    k2[0, 0, 0] = 1
    spectrum *= k2 ** (-11 / 12)
    spectrum[0, 0, 0] = 0
    field = np.fft.irfftn(spectrum, s=(n, n, n), axes=(0, 1, 2))
    return 300 + 10 * field / field.std()


def arrays(mib):
    """Name and values."""
    n = round((mib << 18) ** (1 / 3)) // 16 * 16
    field = turbulence(n)
    flat = field.ravel()
    for dtype in ("f4", "f8"):
        yield f"{dtype} 3-D", field.astype(dtype)
        yield f"{dtype} 2-D", field.reshape(n * 16, -1).astype(dtype)
        yield f"{dtype} 1-D", flat.astype(dtype)
        yield f"{dtype} 4-D", field.reshape(n // 16, 16, n, n).astype(dtype)
    for dtype in ("i4", "i8"):
        yield f"{dtype} 3-D", (field * 1e4).astype(dtype)


def modes(values):
    """Name, gridz's text, zfpy's and hdf5plugin's options, and the bound."""
    bound = 1e-3 * float(np.ptp(values))
    yield "rate 8", "rate=8", {"rate": 8}, {"rate": 8}, None
    yield "rate 16", "rate=16", {"rate": 16}, {"rate": 16}, None
    if values.dtype.kind == "f":
        yield "abs 1e-3 of range", f"abs={bound!r}", {"tolerance": bound}, {"accuracy": bound}, bound
    yield "precision 16", "precision=16", {"precision": 16}, {"precision": 16}, None
    yield "lossless", "", {}, {"reversible": True}, None


def chunk_of(values):
    """A chunk of about CHUNK_BYTES, cut along the first axes."""
    chunk = list(values.shape)
    for axis in range(len(chunk)):
        rest = values.itemsize * np.prod(chunk[axis + 1 :], dtype=int)
        chunk[axis] = int(min(chunk[axis], max(1, CHUNK_BYTES // rest) if rest < CHUNK_BYTES else 4))
        if values.itemsize * np.prod(chunk, dtype=int) <= CHUNK_BYTES:
            break
    return tuple(chunk)


def in_hdf5(h5py, options, values):
    """Functions that write and read a dataset in memory."""
    back, chunk = np.empty_like(values), chunk_of(values)
    file = h5py.File(f"{id(back)}", "w", driver="core", backing_store=False, rdcc_nbytes=0)

    def write():
        if "x" in file:
            del file["x"]
        file.create_dataset("x", data=values, chunks=chunk, **options)

    return write, lambda: file["x"].read_direct(back)


def timed(actions, runs):
    """The median seconds of each action, interleaved."""
    found = [[] for _ in actions]
    for turn in range(runs + 1):
        for seconds, action in zip(found, actions):
            start = time.perf_counter()
            action()
            if turn:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target/release/libgridz.so")
    options = parser.parse_args()
    if options.threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gridz = base.Gridz(options.library)
    os.environ["GRIDZ_THREADS"] = str(options.threads)
    os.environ["HDF5_PLUGIN_PATH"] = str(base.ROOT / "target/plugin")
    import h5py
    import hdf5plugin
    import zfpy

    print(
        f"{processor()}, threads of gridz: {options.threads}, load average {os.getloadavg()[0]:.1f}; {gridz.version()}, zfpy "
        f"{importlib.metadata.version('zfpy')}, hdf5plugin {hdf5plugin.version}, Python {platform.python_version()}. GB/s compressing / decompressing.\n"
    )
    print("| array | mode | bits a value | same | gridz | libzfp | gridz in HDF5 | H5Z-ZFP | error / bound |\n|---|---|---|---|---|---|---|---|---|")
    for name, values in arrays(options.mib):
        for mode, text, of_zfpy, of_h5z, bound in modes(values):
            peer = gridz.peer("zfp", ",".join(filter(None, ["zfp", text])), 0, values.dtype)
            frame, back = np.array(peer.compress(values)), np.empty_like(values)
            stream = zfpy.compress_numpy(values, write_header=False, **of_zfpy)
            header = 40 + 8 * values.ndim + 20
            header += -header % 16
            same = len(frame) > len(stream) and frame[header : header + len(stream)].tobytes() == stream
            theirs = zfpy.compress_numpy(values, **of_zfpy)
            actions = [lambda: peer.compress(values), lambda: peer.decompress(frame, back)]
            actions += [lambda: zfpy.compress_numpy(values, **of_zfpy), lambda: zfpy.decompress_numpy(theirs)]
            low, high = np.frombuffer(np.float64(float(text.split("=")[1]) if text else 0).tobytes(), "u4")
            number = {"": 0, "abs": 1, "rate": 3, "precision": 4}[text.split("=")[0]]
            words = (ZFP, number, int(low), int(high)) if number else (ZFP,)
            for codec in [{"compression": FILTER, "compression_opts": words}, dict(hdf5plugin.Zfp(**of_h5z))]:
                write, read = in_hdf5(h5py, codec, values)
                write()
                actions += [write, read]
            speeds = [values.nbytes / seconds / 1e9 for seconds in timed(actions, options.runs)]
            peer.decompress(frame, back)
            error = "" if bound is None else f"{np.abs(back.astype('f8') - values.astype('f8')).max() / bound:.2f}"
            pairs = [f"{c:.2f} / {d:.2f}" for c, d in zip(speeds[::2], speeds[1::2])]
            print(f"| {name} | {mode} | {8 * len(frame) / values.size:.2f} | {'yes' if same else 'NO'} |", " | ".join(pairs), f"| {error} |", flush=True)


if __name__ == "__main__":
    main()
