#!/usr/bin/env python3
"""Whole datasets between host or GPU memory and a file, by CPUs and by a GPU.

    bench_datasets.py LIBRARY HEADER [MIB [FOLDER [OLD_LIBRARY]]]

LIBRARY is libgridz.so with kernels, HEADER is gridz_hdf5.h. The machine needs a GPU, NumPy, h5py and
CuPy. A float32 field like turbulence of MIB (2048) MiB is written to a new file in
FOLDER (/dev/shm) in chunks of 4 MiB and read from the same file, opened for reading only. `chunks` is
`H5Dwrite_chunk` of the same frames, from one thread. Speeds are GB (10^9 bytes) of raw data a second,
medians of ROUNDS; the variants alternate. Each back end is a process of its own, since a process reads
GRIDZ_BACKEND once.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROUNDS = 5
CHUNK = (64, 128, 128)
REQUESTS = ["lorenzo", "lorenzo,level=dense", "quant,abs=ABS", "quant,abs=ABS,level=dense", "multigrid,abs=ABS", "zfp,abs=ABS"]


def turbulence(n):
    """A field with the spectrum of turbulence, n^3."""
    import cupy

    rng = cupy.random.default_rng(5)
    k = cupy.sqrt(sum(f**2 for f in cupy.meshgrid(*[cupy.fft.fftfreq(n) * n] * 2, cupy.fft.rfftfreq(n) * n, indexing="ij")))
    wave = rng.standard_normal(k.shape) + 1j * rng.standard_normal(k.shape)
    field = cupy.fft.irfftn(wave * cupy.where(k > 0, k, cupy.inf) ** (-11 / 6), s=(n, n, n)).astype("f4")
    return field / field.std()


def one_backend(library, header, n_bytes, folder):
    """Prints the speeds of one back end as JSON."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    sys.argv[1:] = [library, header]
    import cupy
    import h5py
    import numpy
    from h5_bulk import Bulk

    bulk = Bulk(library, header)
    cube = turbulence(256)
    on_gpu = cupy.tile(cube, (max(1, n_bytes // cube.nbytes), 1, 1))
    on_host = on_gpu.get()
    bound = 1e-3 * float(on_gpu.max() - on_gpu.min())
    path, speeds = f"{folder}/bench_datasets_{os.getpid()}.h5", {}

    def timed(work):
        begin = time.perf_counter()
        work()
        return on_host.nbytes / 1e9 / (time.perf_counter() - begin)

    for request in REQUESTS:
        values = bulk.words(request.replace("ABS", repr(bound)).encode())
        options = {"shape": on_host.shape, "dtype": "<f4", "chunks": CHUNK, "compression": 34013, "compression_opts": values}
        found = {}
        for turn in range(ROUNDS + 1):
            for memory, array in (("host", on_host), ("GPU", on_gpu)):
                with h5py.File(path, "w") as file:
                    dataset = file.create_dataset("x", **options)
                    found.setdefault(f"{memory} write", []).append(timed(lambda: bulk.move("write", dataset, array, (0, 0, 0))))
                with h5py.File(path) as file:
                    dataset = file["x"]
                    back = cupy.empty_like(array) if memory == "GPU" else array_like(array)
                    found.setdefault(f"{memory} read", []).append(timed(lambda: bulk.move("read", dataset, back, (0, 0, 0))))
                    error = float(abs(back - array).max()) if turn == 0 else 0.0
                    assert error <= bound, (request, memory, error)
                    if turn == 0:
                        found["ratio"] = [array.nbytes / dataset.id.get_storage_size()] * 2
                    frames = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
                    frames = [(info.chunk_offset, dataset.id.read_direct_chunk(info.chunk_offset)[1]) for info in frames]
            with h5py.File(path, "w") as file:
                dataset = file.create_dataset("x", **options)
                write = dataset.id.write_direct_chunk
                found.setdefault("chunks", []).append(timed(lambda: [write(offset, frame) for offset, frame in frames]))
            os.unlink(path)
        speeds[request] = {name: float(numpy.median(list_[1:])) for name, list_ in found.items()}
    print(json.dumps(speeds))


def array_like(array):
    """Memory that was touched, so that pages are not part of the time."""
    import numpy

    back = numpy.empty_like(array)
    back.fill(0)
    return back


def main():
    library, header = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:3])
    n_bytes = int(sys.argv[3] if len(sys.argv) > 3 else 2048) << 20
    folder = sys.argv[4] if len(sys.argv) > 4 else "/dev/shm"
    libraries = {"": library, **({"old ": str(pathlib.Path(sys.argv[5]).resolve())} if len(sys.argv) > 5 else {})}
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, {n_bytes >> 20} MiB in chunks of 4 MiB, {folder}\n")
    columns = ["host write", "host read", "GPU write", "GPU read", "chunks", "ratio"]
    print("| | " + " | ".join(columns) + " |\n|---|" + "--:|" * len(columns), flush=True)
    for name, path in libraries.items():
        for backend in ["cpu", "cuda", "auto"]:
            command = [sys.executable, __file__, "--one", path, header, str(n_bytes), folder]
            done = subprocess.run(command, env={**os.environ, "GRIDZ_BACKEND": backend}, stdout=subprocess.PIPE, check=True)
            for request, found in json.loads(done.stdout).items():
                print(f"| {name}{backend} `{request}` | " + " | ".join(f"{found[column]:.2f}" for column in columns) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one_backend(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    else:
        main()
