#!/usr/bin/env python3
"""Speed and ratio of gridz as an HDF5 filter, compared with other filters in use today.

    bench_filter.py [FIELD.f32 ...]

"gridz" is the filter without cd_values, so its default codec: lorenzo at level 1, fast. "dense" is lorenzo's level 2.

Each FIELD is a raw little-endian float32 cube; without one, a turbulence-like field of 256^3 (64
MiB) is generated. bench_filter.c writes it as one dataset with chunks of 4 MiB to an in-memory HDF5
file and reads it back; "none" is the same without a filter. Speeds are MB of raw data (10^6 bytes)
per second, medians of 7, including all of HDF5's work: filter, chunk handling, copies. Every filter
has one thread; those that support more are also measured with two. LZF exists only inside h5py and
is measured there.

Each filter runs in a separate process, because thread counts are read once per process.
"""

import ctypes
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "target" / "plugin" / "libh5gridz.so"
GRIDZ = 34013
CHUNK = (64, 128, 128)  # 4 MiB of float32
REPEATS = 5
THREADS = ("GRIDZ_THREADS", "BLOSC_NTHREADS", "OMP_NUM_THREADS")

def filters():
    """For every filter: name, largest number of threads, and filter number and cd_values (None for
    LZF)."""
    import hdf5plugin

    def of(options):
        return options["compression"], *options["compression_opts"]

    blosc2 = hdf5plugin.Blosc2(cname="lz4", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
    return [
        ("none", 1, (0,)),
        ("gridz", 2, (GRIDZ,)),
        ("gridz, dense", 2, (GRIDZ, 2, 0, 2)),
        ("gridz, ndzip", 2, (GRIDZ, 1)),
        ("gzip-1", 1, (1, 1)),
        ("lzf, in h5py", 1, None),
        ("bitshuffle+lz4", 2, of(hdf5plugin.Bitshuffle(cname="lz4"))),
        ("blosc2-shuffle-lz4", 2, of(blosc2)),
    ]


def turbulence(n=256):
    """A Gaussian random field with the energy spectrum k^(-5/3), mean 300, deviation 10."""
    import numpy as np

    spectrum = np.fft.rfftn(np.random.default_rng(7).standard_normal((n, n, n), dtype="f4"))
    k = np.fft.fftfreq(n) * n
    k2 = k[:, None, None] ** 2 + k[None, :, None] ** 2 + (np.fft.rfftfreq(n) * n)[None, None, :] ** 2
    k2[0, 0, 0] = np.inf  # no mean; it is added below
    field = np.fft.irfftn(spectrum * k2 ** (-(5 / 3 + 2) / 4), s=(n, n, n), axes=(0, 1, 2))
    return (300 + 10 * field / field.std()).astype("<f4")


def load(path):
    import numpy as np

    values = np.fromfile(path, "<f4")
    n = round(values.size ** (1 / 3))
    if n**3 != values.size:
        sys.exit(f"{path}: {values.size} float32 values are not a cube")
    return values.reshape(n, n, n)


def timed(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure_lzf(path):
    """In a child process: measures LZF on one field; prints the result as JSON."""
    import h5py
    import numpy as np

    field = load(path)
    result = np.empty_like(field)
    result.fill(0)  # maps its pages before the timing starts
    writes, reads = [], []
    chunk = tuple(min(c, n) for c, n in zip(CHUNK, field.shape))
    for _ in range(1 + REPEATS):
        # A block size of the whole file: the memory file grows once, not with every chunk.
        memory = {"driver": "core", "backing_store": False, "block_size": 2 * field.nbytes}
        with h5py.File("bench", "w", rdcc_nbytes=0, **memory) as file:

            def write():
                file.create_dataset("field", data=field, chunks=chunk, compression="lzf")
                file.flush()

            writes.append(timed(write))
            stored = file["field"].id.get_storage_size()
            reads.append(timed(lambda: file["field"].read_direct(result)))
        if result.tobytes() != field.tobytes():
            sys.exit("lzf: the data that was read differs from the data that was written")
        result.fill(0)
    # The first round is a warm-up.
    speed = lambda seconds: field.nbytes / float(np.median(seconds[1:])) / 1e6
    print(json.dumps({"ratio": field.nbytes / stored, "write": speed(writes), "read": speed(reads)}))


def build(folder):
    """Compiles the C program."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5"], stdout=subprocess.PIPE, text=True, check=True)
    program = os.path.join(folder, "bench_filter")
    source = pathlib.Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O2", "-o", program, source, *flags.stdout.split(), "-lm"], check=True)
    return program


def run(program, name, values, threads, path):
    import hdf5plugin

    plugins = f"{PLUGIN.parent}:{hdf5plugin.PLUGIN_PATH}"
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads)), "HDF5_PLUGIN_PATH": plugins}
    command = [program, path, *map(str, values)] if values else [sys.executable, __file__, "--lzf", path]
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if child.returncode != 0:
        sys.exit(f"{name} failed")
    return json.loads(child.stdout)


def memcpy_speed(n_bytes):
    import numpy as np

    source, destination = np.ones(n_bytes, "u1"), np.zeros(n_bytes, "u1")
    return n_bytes / float(np.median([timed(lambda: np.copyto(destination, source)) for _ in range(REPEATS)])) / 1e6


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions():
    import h5py
    import hdf5plugin

    library = ctypes.CDLL(str(PLUGIN))
    library.gridz_version.restype = ctypes.c_char_p
    return (
        f"gridz {library.gridz_version().decode()}, h5py {h5py.__version__}, "
        f"hdf5plugin {hdf5plugin.version}, Python {platform.python_version()}"
    )


def main(paths):
    if not PLUGIN.exists():
        sys.exit(f"{PLUGIN} does not exist; run make first")
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores; {versions()}")
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        if not paths:
            paths = [os.path.join(folder, "turbulence.f32")]
            turbulence().tofile(paths[0])
        for path in paths:
            n_bytes = os.path.getsize(path)
            print(f"\n{os.path.basename(path)}, {n_bytes} bytes; memcpy {memcpy_speed(n_bytes):.0f} MB/s")
            print(f"  {'filter':20} {'threads':>7} {'ratio':>7} {'write MB/s':>11} {'read MB/s':>10}")
            for threads in (1, 2):
                for name, most_threads, values in filters():
                    if threads <= most_threads:
                        r = run(program, name, values, threads, path)
                        row = f"  {name:20} {threads:7} {r['ratio']:7.3f} {r['write']:11.0f} {r['read']:10.0f}"
                        print(row, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--lzf"]:
        measure_lzf(*sys.argv[2:])
    else:
        main(sys.argv[1:])
