#!/usr/bin/env python3
"""gridz in h5py and in bulk compared with the filters of hdf5plugin, on many arrays: `gridz bench`,
averaged.

    bench_python.py [--rel 1e-3] [--mib 32] [--repeats 3] [--threads 1 2 ...] [FOLDER ...]

Runs in a Python that has the gridz wheel, h5py and hdf5plugin. Measures a turbulent float32 field
of 256^3 in chunks of 4 MiB, and the arrays of each FOLDER with a MANIFEST.json (as in
bench_lossless.py). These arrays are repeated along the first axis up to MIB, and each repetition is
one chunk. Each array and number of threads has a separate process. Every filter writes and reads an
in-memory file; "bulk" is gridz.h5.write and read. Prints a Markdown table for each element type:
geometric means over its arrays, of ratios and of GB/s of raw data, which are medians of the
repeats.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np

from bench_filter import THREADS, processor, turbulence
from bench_lossless import of_reference

CHUNK = (64, 128, 128)


def arrays(folders, mib):
    """Name, values, chunk and fill value of each array."""
    yield "turbulence", turbulence(), CHUNK, None
    for folder in folders:
        fills = {entry["name"]: entry.get("fill_value") for entry in json.loads((folder / "MANIFEST.json").read_text())["entries"]}
        for entry in of_reference(folder):
            values = entry.values
            n = max(1, (mib << 20) // values.nbytes)
            yield entry.name, np.tile(values, (n, *[1] * (values.ndim - 1))), values.shape, fills.get(entry.name)


def measure(path, name, threads, options):
    """The results of `gridz bench` for one dataset."""
    with h5py.File(path) as file:
        is_float = file[name].dtype.kind == "f"
    command = ["gridz", "bench", path, "--dataset", name, "--bulk", "--json", "--repeats", str(options.repeats)]
    command += ["--rel", str(options.rel), "--force"] * is_float  # ranges are as in the data
    environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    done = subprocess.run([sys.executable, "-m", *command], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    (found,) = json.loads(done.stdout)
    return found["results"]


def label_of(text):
    """The label without the bound, which differs from array to array."""
    return ",".join(part for part in text.split(" accuracy")[0].split(" absolute")[0].split(",") if "abs=" not in part)


def table(results, threads):
    """`results` has, for each array, the results for each number of threads."""
    labels = list(dict.fromkeys(label_of(row["label"]) for by_threads in results for row in by_threads[0]))
    head = [f"{what}, {n}" for n in threads for what in ("write", "read")]
    print("| | ratio |", " | ".join(head), "|\n|---|---|" + "---|" * len(head))
    for label in labels:
        rows = [[next((r for r in one if label_of(r["label"]) == label), None) for one in array] for array in results]
        wrong = next((r["error"] for array in rows for r in array if r and r["error"]), "")
        if wrong or any(r is None for array in rows for r in array):
            print(f"| {label} | not every array: {wrong[:60]} |" + " |" * len(head))
            continue
        mean = lambda what, i: statistics.geometric_mean(array[i][what] for array in rows)
        speeds = [f"{mean(what, i):.2f}" for i in range(len(threads)) for what in ("write_gb_s", "read_gb_s")]
        mark = "" if rows[0][0]["is_lossless"] else " (lossy)"
        print(f"| {label}{mark} | {mean('ratio', 0):.3f} |", " | ".join(speeds), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--rel", type=float, default=1e-3)
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, len(os.sched_getaffinity(0))])
    options = parser.parse_args()
    groups = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = pathlib.Path(folder) / "x.h5"
        for name, values, chunk, fill in arrays(options.folders, options.mib):
            with h5py.File(path, "w") as file:
                dataset = file.create_dataset(name, data=values, chunks=chunk)
                if fill is not None:
                    dataset.attrs["_FillValue"] = values.dtype.type(fill)
            has_nan = values.dtype.kind == "f" and not np.isfinite(values).all()
            group = "integers" if values.dtype.kind in "iu" else values.dtype.name
            group = "turbulence, float32" if name == "turbulence" else "parts of sparse matrices" if "." in name else group
            group += ", some NaN" * has_nan
            found = [measure(path, name, threads, options) for threads in options.threads]
            groups.setdefault(group, []).append(found)
            print(f"{name}: {values.dtype}, chunks of {math.prod(chunk) * values.itemsize} bytes", file=sys.stderr, flush=True)
    import gridz
    import hdf5plugin

    print(
        f"{processor()}, load average {os.getloadavg()[0]:.1f}; gridz {gridz.__version__}, hdf5plugin {hdf5plugin.version}, h5py "
        f"{h5py.__version__}, HDF5 {h5py.version.hdf5_version}, Python {platform.python_version()}. GB/s by number of threads; "
        f"bound of the lossy ones {options.rel:g} of each array's range."
    )
    for group, results in groups.items():
        print(f"\n## {group}: {len(results)} array{'s' * (len(results) > 1)}\n")
        table(results, options.threads)


if __name__ == "__main__":
    main()
