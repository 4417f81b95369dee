#!/usr/bin/env python3
"""Files of ADIOS2 (BP5) without operator, with ADIOS2's own compressors and with each codec of
gridz: size, write and read time.

    bench_adios2.py PREFIX [--gib 4] [--folder FOLDER] [--writers 1,2,4] [--device] [--only NAME;…] [--skip NAME;…]

PREFIX is the installation of gridz and its operator. Run it with a Python that has adios2; if
openpmd-api is installed too, its own ADIOS2, which has Blosc and zfp, writes files for comparison.
Blocks are a turbulence-like field of 256^3 float32 (64 MiB), each times a different factor. 8
blocks are a step, and the number of steps is such that the file without an operator has GIB.

Write is from Open to Close and until the files are on the disk (fsync), each block with a
PerformDataWrite and without ADIOS2's minima and maxima (StatsLevel=0), like openPMD-api. Read is
the whole file, block by block, after the file was evicted from the page cache, and once more from
memory ("again"). Each variant runs once, in a separate process, with all threads of the machine. GB
are 10^9 bytes of the arrays. Then the same with several concurrent writers, each with its own file
and its share of the threads: the slowest one counts.

--device uses arrays in NVIDIA GPU memory, by CuPy, instead: once copied to the host by the program,
and once passed directly to ADIOS2, which passes them on to gridz. The files are the same, so only
the first step is read, for comparison.
"""

import argparse
import ctypes
import datetime
import multiprocessing
import os
import pathlib
import platform
import shutil
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bench_filter import turbulence

BLOCKS = 8
EDGE = 256
BLOCK_BYTES = 4 * EDGE**3
CORES = len(os.sched_getaffinity(0))
# A thousandth of the field's range, which is about 100.
BOUND = 0.1
REQUESTS = ["stored", "ndzip", "lorenzo", "lorenzo,level=dense", "lorenzo,level=max", f"quant,abs={BOUND}",
            f"quant,abs={BOUND},level=dense", f"quant,abs={BOUND},level=max", f"zfp,abs={BOUND}", "zfp,rate=8", f"multigrid,abs={BOUND}",
            f"multigrid,rms={BOUND}", "huffman"]  # fmt: skip
OWN = {
    "ADIOS2's Blosc, zstd 1 with shuffle": ("blosc", {"compressor": "zstd", "clevel": "1", "doshuffle": "BLOSC_SHUFFLE"}),
    "ADIOS2's Blosc, lz4 5 with shuffle": ("blosc", {"compressor": "lz4", "clevel": "5", "doshuffle": "BLOSC_SHUFFLE"}),
    f"ADIOS2's zfp, accuracy {BOUND}": ("zfp", {"accuracy": str(BOUND)}),
    "ADIOS2's zfp, rate 8": ("zfp", {"rate": "8"}),
}
TIMES = ["write", "read", "again"]
SCALED = ["none", "lorenzo", f"quant,abs={BOUND}"]


def factor(step, block):
    """The factor by which the field is multiplied."""
    return np.float32(1 + (step * BLOCKS + block) / 1000)


class Adios2:
    """ADIOS2 with an operator of gridz, or none."""

    def __init__(self, request, path, threads, n_steps, on_device=False, as_it_is=False):
        import adios2

        self.adios2, self.path, self.n_steps = adios2, str(path), n_steps
        self.request, self.threads = request, threads
        self.on_device, self.as_it_is = on_device, as_it_is

    def write(self, field):
        """Seconds from Open to Close, without the time for computing the arrays."""
        adios = self.adios2.Adios()
        io = adios.declare_io("writer")
        io.set_engine("BP5")
        io.set_parameters({"StatsLevel": "0"})  # like openPMD-api; minima and maxima would dominate the time
        shape = [BLOCKS * EDGE, EDGE, EDGE]
        variable = io.define_variable("x", np.zeros(1, "f4"), shape, [0, 0, 0], [EDGE] * 3)
        if self.request != "none":
            plugin = {"PluginName": "gridz", "PluginLibrary": "gridz_adios2", "gridz": self.request, "threads": str(self.threads)}
            variable.add_operation(adios.define_operator("o", "plugin", plugin))
        seconds = -time.perf_counter()
        engine = io.open(self.path, self.adios2.bindings.Mode.Write)
        for step in range(self.n_steps):
            engine.begin_step()
            for block in range(BLOCKS):
                seconds += time.perf_counter()
                array = field * factor(step, block)
                if self.on_device:
                    array.device.synchronize()
                seconds -= time.perf_counter()
                variable.set_selection([[block * EDGE, 0, 0], [EDGE] * 3])
                given = array.get() if self.on_device and not self.as_it_is else array
                engine.put(variable, given, self.adios2.bindings.Mode.Deferred)
                engine.perform_data_write()
            engine.end_step()
        engine.close()
        on_disk(self.path)
        return seconds + time.perf_counter()

    def read(self, check):
        seconds = -time.perf_counter()
        with self.adios2.Stream(self.path, "r") as stream:
            for step in stream.steps():
                for block in range(BLOCKS):
                    array = step.read("x", [block * EDGE, 0, 0], [EDGE] * 3)
                    seconds += time.perf_counter()
                    check(array, step.current_step(), block)
                    seconds -= time.perf_counter()
                if self.on_device:
                    break
        return seconds + time.perf_counter()


class OpenPmd:
    """The same by openPMD-api, whose ADIOS2 has other operators."""

    def __init__(self, operator, path, threads, n_steps):
        import openpmd_api

        self.openpmd, self.path, self.n_steps = openpmd_api, str(path), n_steps
        kind, parameters = operator
        parameters = parameters | ({"nthreads": str(threads)} if kind == "blosc" else {})
        operators = [{"type": kind, "parameters": parameters}] if kind else []
        self.options = {"backend": "adios2", "adios2": {"engine": {"type": "bp5"}, "dataset": {"operators": operators}}}

    def write(self, field):
        import json

        seconds = -time.perf_counter()
        series = self.openpmd.Series(self.path, self.openpmd.Access.create_linear, json.dumps(self.options))
        for step in range(self.n_steps):
            iteration = series.write_iterations()[step]
            component = iteration.meshes["x"]
            component.reset_dataset(self.openpmd.Dataset(field.dtype, [BLOCKS * EDGE, EDGE, EDGE]))
            for block in range(BLOCKS):
                seconds += time.perf_counter()
                array = field * factor(step, block)
                seconds -= time.perf_counter()
                component.store_chunk(array, [block * EDGE, 0, 0], [EDGE] * 3)
                series.flush()
            iteration.close()
        series.close()
        on_disk(self.path)
        return seconds + time.perf_counter()

    def read(self, check):
        seconds = -time.perf_counter()
        series = self.openpmd.Series(self.path, self.openpmd.Access.read_linear, '{"backend": "adios2"}')
        for iteration in series.read_iterations():
            component = iteration.meshes["x"]
            for block in range(BLOCKS):
                array = component.load_chunk([block * EDGE, 0, 0], [EDGE] * 3)
                series.flush()
                seconds += time.perf_counter()
                check(array, iteration.iteration_index, block)
                seconds -= time.perf_counter()
            iteration.close()
        series.close()
        return seconds + time.perf_counter()


def files(path):
    return [file for file in pathlib.Path(path).rglob("*") if file.is_file()]


def on_disk(path):
    """Waits until all files of a folder are on the disk."""
    for file in files(path):
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())


def forget(path):
    """Evicts the files from the page cache."""
    for file in files(path):
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(way, arguments, field_path, barrier, results):
    """Runs in a separate process: the times of one writer, its bytes and its largest error."""
    made = way(*arguments)
    field = np.load(field_path)
    errors = [0.0]

    def check(array, step, block):
        if block == BLOCKS - 1:
            wanted = field * factor(step, block)
            errors.append(float(np.abs(array.reshape(wanted.shape) - wanted).max()))

    source = field
    if getattr(made, "on_device", False):
        import cupy

        source = cupy.asarray(field)
    barrier.wait()
    write = made.write(source)
    barrier.wait()
    forget(made.path)
    barrier.wait()
    read = made.read(check)
    barrier.wait()
    again = read if source is not field else made.read(check)
    results.put((write, read, again, sum(file.stat().st_size for file in files(made.path)), max(errors)))


def run(way, arguments, folder, n_writers=1):
    """The slowest of `n_writers` concurrent writers; bytes of all."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(n_writers), context.Queue()
    paths = [folder / f"bench{n}.bp" for n in range(n_writers)]
    writers = [context.Process(target=measure, args=(way, (arguments[0], path, *arguments[1:]), folder / "field.npy", barrier, results))
               for path in paths]  # fmt: skip
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    if any(writer.exitcode for writer in writers):
        raise SystemExit(f"{arguments[0]}: a writer has failed")
    found = [results.get() for _ in writers]
    return [max(one[i] for one in found) for i in range(3)], sum(one[3] for one in found), max(one[4] for one in found)


def header(times):
    columns = ["operator", "MiB", "of the arrays", f"{times[0]}, s (GB/s)", *times[1:], "largest error"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def row(name, times, n_bytes, raw, error):
    speeds = " | ".join(f"{seconds:.2f} ({raw / seconds / 1e9:.2f})" for seconds in times)
    print(f"| {name} | {n_bytes / 2**20:.0f} | {n_bytes / raw:.3f} | {speeds} | {error:.3g} |", flush=True)


def machine():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {CORES} cores, Python {platform.python_version()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--writers", default="1,2,4")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--only", default="", help="only rows whose names begin with one of these, separated by ;")
    parser.add_argument("--skip", default="", help="rows to skip by name, separated by ;")
    options = parser.parse_args()
    os.environ["ADIOS2_PLUGIN_PATH"] = str(options.prefix.resolve() / "lib/adios2/plugin")
    library = ctypes.CDLL(str(options.prefix / "lib/libgridz.so"))
    library.gridz_version.restype = ctypes.c_char_p
    import adios2

    folder = options.folder.resolve() / f"bench_adios2.{os.getpid()}"
    folder.mkdir()
    n_steps = max(1, round(options.gib * 2**30 / BLOCKS / BLOCK_BYTES))
    raw = n_steps * BLOCKS * BLOCK_BYTES
    only = options.only.split(";") if options.only else []

    def wanted(name):
        return name not in options.skip.split(";") and (not only or any(name.startswith(one) for one in only))

    try:
        np.save(folder / "field.npy", turbulence(EDGE))
        print(f"{datetime.date.today()}: {raw / 2**30:.2f} GiB of float32 in {n_steps} steps of {BLOCKS} blocks of {EDGE}^3; gridz "
              f"{library.gridz_version().decode()}, adios2 {adios2.__version__}; {machine()}\n")  # fmt: skip
        if options.device:
            header(TIMES[:1])
            for request in ["none", *REQUESTS]:
                if request == "huffman" or not wanted(request):
                    continue
                for as_it_is in [False, True]:
                    if as_it_is and request == "none":
                        continue  # not supported by an ADIOS2 without CUDA
                    name = f"{request}, " + ("given as it is" if as_it_is else "copied to the host")
                    times, *others = in_order(run(Adios2, (request, CORES, n_steps, True, as_it_is), folder), raw)
                    row(name, times[:1], *others)
            return
        header(TIMES)
        for request in ["none", *REQUESTS]:
            if wanted(request):
                row(request, *in_order(run(Adios2, (request, CORES, n_steps), folder), raw))
        try:
            import openpmd_api
        except ImportError:
            print("\nopenpmd-api is not installed: no comparison with ADIOS2's own operators", flush=True)
        else:
            for name, operator in {f"none, by openPMD-api {openpmd_api.__version__}": ("", {}), **OWN}.items():
                if wanted(name):
                    row(name, *in_order(run(OpenPmd, (operator, CORES, n_steps), folder), raw))
        writers = [int(n) for n in options.writers.split(",") if n]
        if writers:
            n_steps = max(1, n_steps // max(writers))
            print(f"\nWriters at the same time, each with {n_steps * BLOCKS * BLOCK_BYTES / 2**30:.2f} GiB; GB/s are those of all:\n")
            header(TIMES)
            for request in SCALED:
                for n in writers:
                    raw = n * n_steps * BLOCKS * BLOCK_BYTES
                    row(f"{request}, {n} writer{'s'[:n > 1]}", *in_order(run(Adios2, (request, max(1, CORES // n), n_steps), folder, n), raw))
    finally:
        shutil.rmtree(folder)


def in_order(found, raw):
    """Formats a result for `row`."""
    times, n_bytes, error = found
    return times, n_bytes, raw, error


if __name__ == "__main__":
    main()
