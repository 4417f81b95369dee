#!/usr/bin/env python3
"""Ratio, speed and error bounds of gridz's quant (all levels), multigrid and zfp, compared with peers
that can be installed from PyPI.

    bench_lossy.py [--reference FOLDER] [--library LIBRARY] [--runs N] [--bounds 1e-1 1e-2 …] [--only WORD] [--out FOLDER]

The arrays are the floats of the reference data, from FOLDER or from `data` in GRIDZ_SHARED (by
default ../shared), without the sparse matrices. NaN and fill values are replaced by the mean of the
rest. In a second group ("as it is") they are kept, and declared as fill values to gridz. Two
synthetic runs are added, each a few arrays, one per step: a wave that grows from a point into a
field of exact zeros, and the positions of particles along one axis.

Each array is one chunk in host memory. A bound is a fraction of the array's range (of its finite
elements that are not fill). All codecs get it as an absolute number, for float32 rounded down to
one. This script compares the largest error with the bound in exact arithmetic. Ratio is raw by
compressed bytes: more is better.

The process is pinned to one core, and each call has one thread. Speeds are 10^6 raw bytes per
second, from the median of N runs after one warm-up run; the time is the CPU time of the whole
process. Entries called "in HDF5" are written and read through h5py, by filters of hdf5plugin and
gridz's own, to a file in memory.

cuSZp runs on GPUs only, so this script models it: its published arithmetic and block sizes (v3, the
best of its plain and outlier modes in 1-D, 2-D and 3-D). The model has cuSZp's faults too: rounding
past the bound, 32-bit overflow, NaN lost. It has no speed.

The error that accumulates when parts of a chunk are rewritten is also measured in HDF5. SPERR needs
planes and volumes, so a list becomes a plane as square as its length allows. SPERR gets holes by
its own modes, one for NaN and one for numbers from 1e35 on; SZ3 and zfp have no such mode.

Writes to the folder `--out`: results.csv (every number), results.md (tables) and rate-psnr.png.
Needs numpy and matplotlib. The script names those of the peers pysz, zfpy and h5py with hdf5plugin
that are missing.
"""

import argparse
import atexit
import csv
import datetime
import importlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import pathlib
import platform
import shutil
import struct
import sys
import tempfile
from collections import namedtuple

import numpy as np

import bench_lossless as base

ROOT = base.ROOT
BOUNDS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6]
"""Relative to the range."""
FILTER = 34013
QUANT = 3
"""Ids of gridz's filter and of the codec."""

Input = namedtuple("Input", "name group values fill")
"""An array; `group` names the arrays over which its results are averaged; `fill` is an element or None."""
Peer = namedtuple("Peer", "name of")
"""of(input, bound) -> compress, decompress. compress(values) -> compressed, whose size is len(); decompress(compressed,
array) returns an array, or fills `array`. Speed counts only if of(…) returns functions that do the work."""
Result = namedtuple("Result", "input peer relative bound ratio over lost psnr compress decompress problem")
"""over: largest error relative to the bound; lost: NaN and fill values that changed, and values that
became one; all NaN count as equal."""
NO_SPEED = "cuSZp (model)"
PATIENCE = 20
"""Time limit for one case in seconds; it takes one or two."""
COLOURS = {
    "quant": "tab:red",
    "SZ3": "tab:green",
    "SZ3 lorenzo": "tab:olive",
    "zfp": "tab:blue",
    "SPERR in HDF5": "tab:purple",
    NO_SPEED: "0.4",
}
"""Colors of the lines of the plot."""
PROCESSES = multiprocessing.get_context("fork")


# ---- gridz and peers --------------------------------------------------------------------------------


def of_gridz(gridz):
    for name, codec in [("quant", "quant"), ("quant dense", "quant,level=dense"), ("quant max", "quant,level=max"), ("multigrid", "multigrid"), ("gridz zfp", "zfp")]:

        def of(input_, bound, codec=codec):
            fill = "" if input_.fill is None or np.isnan(input_.fill) else f",fill={float(input_.fill)!r}"
            peer = gridz.peer(codec, f"{codec},abs={bound!r}{fill}", 0)
            rank = 3 if codec == "zfp" else 32  # as for libzfp below
            return lambda values: peer.compress(at_most(rank, values)), peer.decompress

        yield Peer(name, of)


def of_pysz(pysz):
    for name, algorithm in [("SZ3", "INTERP_LORENZO"), ("SZ3 lorenzo", "LORENZO_REG")]:

        def of(input_, bound, algorithm=algorithm):
            config = pysz.szConfig(input_.values.shape)
            config.errorBoundMode, config.absErrorBound = pysz.szErrorBoundMode.ABS, bound
            config.cmprAlgo = getattr(pysz.szAlgorithm, algorithm)
            config.openmp = False
            compress = lambda values: pysz.sz.compress(values, config)[0]
            return compress, lambda packed, values: pysz.sz.decompress(packed, values.dtype, values.shape)[0]

        yield Peer(name, of)


def of_zfpy(zfpy):
    def of(_, bound):
        # zfp's blocks have four values along each axis: a short fourth axis costs more than it
        # gains.
        compress = lambda values: zfpy.compress_numpy(at_most(3, values), tolerance=bound)
        return compress, lambda packed, values: zfpy.decompress_numpy(packed).reshape(values.shape)

    yield Peer("zfp", of)


class File:
    """Datasets of one chunk in in-memory files, one after another."""

    def __init__(self, h5py, options, shape_of=lambda values: values):
        self.options, self.shape_of = options, shape_of
        # Without a chunk cache, each write compresses and each read decompresses.
        self.open = lambda: h5py.File(f"bench{id(self)}", "w", driver="core", backing_store=False, rdcc_nbytes=0)
        self.file, self.n_bytes = None, 0

    def __len__(self):
        return self.n_bytes

    def compress(self, values):
        values = self.shape_of(values)
        if self.file:
            self.file.close()
        self.file = self.open()
        data = self.file.create_dataset("x", values.shape, values.dtype, chunks=values.shape, **self.options)
        data[...] = values
        self.n_bytes = data.id.get_storage_size()
        return self

    @staticmethod
    def decompress(self, values):
        data = self.file["x"]
        back = np.empty(data.shape, data.dtype)
        data.read_direct(back)
        return back.reshape(values.shape)


def of_files(h5py, library):
    import hdf5plugin

    def peer(name, options, shape_of=lambda values: values):
        def of(input_, bound):
            file = File(h5py, {**options(input_, bound), "fillvalue": input_.fill}, shape_of)
            return file.compress, file.decompress

        return Peer(f"{name} in HDF5", of)

    def sperr(input_, bound):
        # SPERR's modes for missing values: 1 is NaN, 2 all numbers from 1e35 on.
        fill = 0 if input_.fill is None else input_.fill
        return hdf5plugin.Sperr(absolute=bound, missing_value_mode=1 if np.isnan(fill) else 2 if abs(fill) >= 1e35 else 0)

    yield peer("SPERR", sperr, planes_or_volumes)
    yield peer("SZ3", lambda _, bound: hdf5plugin.SZ3(absolute=bound))
    yield peer("zfp", lambda _, bound: hdf5plugin.Zfp(accuracy=bound), lambda values: at_most(3, values))
    # The library is also the plugin. HDF5 opens every library in the plugin folder, so this folder
    # has only this one.
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    os.symlink(library.resolve(), os.path.join(folder, "libh5gridz.so"))
    h5py.h5pl.prepend(folder.encode())

    def quant(_, bound):
        low, high = struct.unpack("<2I", struct.pack("<d", bound))
        return {"compression": FILTER, "compression_opts": (QUANT, 1, low, high)}

    yield peer("quant", quant)


def at_most(rank, values):
    """The same numbers with fewer axes: the leading axes are merged."""
    return values.reshape(-1, *values.shape[values.ndim - rank + 1 :]) if values.ndim > rank else values


def planes_or_volumes(values):
    if values.ndim > 1:
        return at_most(3, values)
    rows = max(n for n in range(1, math.isqrt(values.size) + 1) if values.size % n == 0)
    return values.reshape(rows, -1)


# ---- cuSZp, a model ---------------------------------------------------------------------------------


class Model:
    """A modeled stream: its size, and the array that it would decode to."""

    def __init__(self, n_bytes, decoded):
        self.n_bytes, self.decoded = n_bytes, decoded

    def __len__(self):
        return self.n_bytes


def of_cuszp():
    def of(_, bound):
        return lambda values: cuszp(values, bound), lambda model, values: model.decoded

    return Peer(NO_SPEED, of)


def cuszp(values, bound):
    q = cuszp_codes(values, bound)
    kind = values.dtype.type
    with np.errstate(over="ignore"):
        decoded = (q.astype(kind) * kind(bound)).astype(kind) * kind(2)
    sizes = []
    for tile in [(32,), (8, 8), (4, 4, 4)]:
        if q.ndim >= len(tile) or len(tile) == 1:
            sizes += cuszp_sizes(q, tile)
    return Model(min(sizes), decoded.astype(kind))


def cuszp_codes(values, bound):
    """Codes as 32-bit integers, with CUDA's conversion: saturating, NaN to 0; the subtraction wraps
    around."""
    kind = values.dtype.type
    with np.errstate(over="ignore", invalid="ignore"):
        t = values * kind(kind(0.5) / kind(bound))
        s = ~(t >= kind(-0.5))
        rounded = np.trunc((t + kind(0.5)).astype("f8"))
    whole = np.clip(np.nan_to_num(rounded, nan=0.0), -(2**31), 2**31 - 1).astype("i8")
    return (whole - s).astype("i4")


def cuszp_sizes(q, tile):
    """Bytes in plain and outlier mode. In a tile, each value is predicted by the one before it: the
    first of a row by the first of the previous row, the first of a plane by that of the previous
    plane. Outside the array, values are 0."""
    q = q.reshape(-1) if len(tile) == 1 else at_most(3, q)
    if len(tile) == 2:  # planes, one by one
        tile, q = (1, *tile), q.reshape(-1, *q.shape[-2:])
    pads = [(0, -n % t) for n, t in zip(q.shape, tile)]
    inside = np.pad(np.ones(q.shape, bool), pads)
    q = np.pad(q, pads)
    split = [n for extent, t in zip(q.shape, tile) for n in (extent // t, t)]
    order = [*range(0, 2 * len(tile), 2), *range(1, 2 * len(tile), 2)]
    q, inside = (a.reshape(split).transpose(order).reshape(-1, *tile) for a in (q, inside))
    l = q.astype("i8")
    for axis in range(len(tile)):
        # Along this axis, take differences of the positions that are first along all later axes.
        later, earlier = [slice(None)] * q.ndim, [slice(None)] * q.ndim
        later[axis + 1], earlier[axis + 1] = slice(1, None), slice(None, -1)
        for last in range(axis + 2, q.ndim):
            later[last] = earlier[last] = 0
        l[tuple(later)] = q[tuple(later)].astype("i8") - q[tuple(earlier)]
    l = np.where(inside, l.astype("i4"), 0)
    a = np.abs(l.astype("i8")).reshape(len(l), -1)
    blocks, n = a.shape
    bits = lambda number: np.frexp(number.astype("f8"))[1].astype("i8")
    first, rest = bits(a[:, 0]), bits(a[:, 1:].max(axis=1))
    widest = np.maximum(first, rest)
    plain = np.where(widest > 0, n // 8 * (1 + widest), 0)
    outlier = np.minimum(plain, n // 8 + -(-first // 8) + n // 8 * rest)
    rates = 1024 * -(-q.size // 32768) if len(tile) == 1 else -(-blocks // 4) * 4
    sizes = [rates + int(plain.sum()), rates + int(outlier.sum())]
    return sizes[:1] if (widest > 31).any() else sizes  # the outlier mode's rates have five bits


def peers(library):
    """All peers, the missing ones (name and reason), and the version of gridz."""
    gridz = base.Gridz(library)
    found, missing = [*of_gridz(gridz)], []
    for packages, make in [
        (["pysz"], lambda pysz: of_pysz(pysz)),
        (["zfpy"], lambda zfpy: of_zfpy(zfpy)),
        (["h5py", "hdf5plugin"], lambda h5py, _: of_files(h5py, library)),
    ]:
        try:
            found += make(*map(importlib.import_module, packages))
        except ImportError as error:
            missing.append((" and ".join(packages), str(error)))
    return [*found, of_cuszp()], missing, gridz.version()


# ---- arrays -----------------------------------------------------------------------------------------


def of_reference(folder):
    for entry in json.loads((folder / "MANIFEST.json").read_text())["entries"]:
        if entry["kind"] != "array" or np.dtype(entry["dtype"]).kind != "f":
            continue
        values = base.native(np.fromfile(folder / entry["file"], entry["dtype"]).reshape(entry["shape"]))
        fill = entry.get("fill_value")
        fill = values.dtype.type(math.nan if fill is None else fill)
        is_hole = np.isnan(values) | (values == fill)
        has_holes = is_hole.any()
        filled = np.where(is_hole, values[~is_hole].mean(dtype="f8"), values).astype(values.dtype)
        name = values.dtype.name
        yield Input(entry["name"], name, filled, None)
        yield Input(entry["name"] + " (as it is)" * bool(has_holes), name + AS_IT_IS, values, fill if has_holes else None)


def wave(steps=8, n=96):
    """Acoustic waves from a point, by simple finite differences: the field is exactly 0 where no
    wave has arrived yet."""
    u, before = np.zeros((n, n, n)), np.zeros((n, n, n))
    speed2 = (0.16 + 0.08 * np.sin(np.linspace(0, 9, n)) ** 2)[:, None, None]
    per_step = n // 2 // steps + 4
    for step in range(steps * per_step):
        laplace = -6 * u
        for axis in range(3):
            laplace += np.roll(u, 1, axis) + np.roll(u, -1, axis)
        u, before = 2 * u - before + speed2 * laplace, u
        t = (step - 12) / 5
        u[n // 2, n // 2, n // 2] += (1 - t * t) * math.exp(-t * t / 2)
        if (step + 1) % per_step == 0:
            yield Input(f"wave step {(step + 1) // per_step}", "wave, per step", u.astype("f4"), None)


def particles(steps=6, n=1 << 18):
    """Positions along one axis: particles in the order of the cells in which they started, which
    mix over time."""
    rng = np.random.default_rng(16)
    x = np.sort(rng.random(n)) * 100
    velocity = rng.normal(0, 0.3, n)
    for step in range(steps):
        yield Input(f"particles step {step + 1}", "particles, per step", x.astype("f4"), None)
        velocity += rng.normal(0, 0.1, n)
        x = (x + velocity) % 100


AS_IT_IS = " as it is"
"""Suffix of the groups whose arrays keep their holes; " (as it is)" is the suffix of the arrays that have holes."""


def is_repeated(input_):
    """True if the array has no holes, and so belongs to both groups."""
    return input_.group.endswith(AS_IT_IS) and not input_.name.endswith(f"({AS_IT_IS.strip()})")


def absolute(input_, relative):
    """The bound as an absolute number."""
    values = input_.values[np.isfinite(input_.values)]
    values = values if input_.fill is None else values[values != input_.fill]
    bound = relative * (float(values.max()) - float(values.min()))
    if values.dtype == "f4":
        nearest = np.float32(bound)
        bound = float(np.nextafter(nearest, np.float32(0)) if float(nearest) > bound else nearest)
    return bound


# ---- measuring --------------------------------------------------------------------------------------


def largest_error(a, b):
    """The exact largest error, as the sum of two float64: the nearest one and the remainder."""
    a, b = a.astype("f8"), b.astype("f8")
    large, small = np.where(np.abs(a) < np.abs(b), b, a), np.where(np.abs(a) < np.abs(b), a, b)
    nearest = large - small
    rest = np.where(nearest < 0, -1, 1) * ((large - nearest) - small)
    nearest = np.abs(nearest)
    top = nearest.max()
    return float(top), float(rest[nearest == top].max())


def over(error, bound):
    """The error relative to the bound: above 1 if and only if the exact quotient is."""
    nearest, rest = error
    is_broken = nearest > bound or nearest == bound and rest > 0
    return max(nearest / bound, math.nextafter(1, 2)) if is_broken else min(nearest / bound, 1.0)


def compare(input_, back, bound):
    """Largest error relative to the bound, number of lost elements, PSNR."""
    a, b = input_.values, back
    is_hole = ~np.isfinite(a)
    was_made = ~np.isfinite(b)
    if input_.fill is not None:
        is_hole, was_made = is_hole | (a == input_.fill), was_made | (b == input_.fill)
    is_same = (a == b) | (np.isnan(a) & np.isnan(b))
    lost = int((is_hole & ~is_same).sum() + (was_made & ~is_hole).sum())
    counted = ~is_hole & ~was_made
    if not counted.any():
        return math.inf, lost, math.nan
    x, y = a[counted].astype("f8"), b[counted].astype("f8")
    scale = x.max() - x.min()
    rmse = math.sqrt(np.mean(((x - y) / scale) ** 2))
    return over(largest_error(x, y), bound), lost, -20 * math.log10(rmse) if rmse else math.inf


def measure(input_, peer, relative, runs):
    bound = absolute(input_, relative)
    values = np.ascontiguousarray(input_.values)
    back = np.zeros_like(values)
    try:
        compress, decompress = peer.of(input_, bound)
        packed = compress(values)
        made = decompress(packed, back)
        made = made if isinstance(made, np.ndarray) else back
        if (made.shape, made.dtype) != (values.shape, values.dtype):
            raise ValueError(f"the decoded array has {made.dtype} {made.shape}")
        ratio = values.nbytes / len(packed)
        found = compare(input_, made, bound)
        speeds = [math.nan] * 2
        if peer.name != NO_SPEED:
            times = [base.seconds(runs, lambda: decompress(packed, back))]
            times.insert(0, base.seconds(runs, lambda: compress(values)))
            speeds = [values.nbytes / max(time, 1e-9) / 1e6 for time in times]
    except Exception as error:  # a failing peer must not hide the results of the others
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return Result(input_, peer.name, relative, bound, *[math.nan] * 6, text)
    return Result(input_, peer.name, relative, bound, ratio, *found, *speeds, "")


def drift(peers_, counts=(0, 1, 10, 50, 200), bound=0.01):
    """Peer -> largest error relative to the bound in the odd planes of a chunk. These are written
    once; then the even planes are rewritten the given numbers of times."""
    z, y, x = np.ogrid[0:16, 0:64, 0:64]
    made = {}
    for peer in peers_:
        rng = np.random.default_rng(16)
        field = lambda step: 280 + 15 * np.sin(z / 5 + y / 9 + 0.3 * step) * np.cos(x / 11) + rng.normal(0, 0.05, (16, 64, 64))
        first = field(0).astype("f4")
        data = peer.of(Input("drift", "", first, None), bound)[0](first).file["x"]
        errors = made.setdefault(peer.name, {})
        for n in range(max(counts) + 1):
            if n in counts:
                errors[n] = over(largest_error(data[1::2], first[1::2]), bound)
            plane = 2 * rng.integers(8)
            data[plane] = field(n + 1)[plane]
    return made


def measure_apart(input_, peer, relative, runs):
    """Measures in a separate process: some peers crash, or never return."""
    mine, its = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=lambda: its.send(measure(input_, peer, relative, runs)._replace(input=None)))
    process.start()
    its.close()
    result, text = None, f"no answer in {PATIENCE} seconds"
    if mine.poll(PATIENCE):
        try:
            result = mine.recv()._replace(input=input_)
        except EOFError:
            process.join()
            text = f"the process ended with {process.exitcode}"
    process.kill()
    process.join()
    return result or Result(input_, peer.name, relative, absolute(input_, relative), *[math.nan] * 6, text)


# ---- reporting --------------------------------------------------------------------------------------


def machine(version):
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    versions = [version]
    for package in ("numpy", "pysz", "zfpy", "h5py", "hdf5plugin"):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return (
        f"{names[0] if names else platform.machine()}, load average at the start {load}; {datetime.date.today()}; "
        f"{', '.join(versions)}, Python {platform.python_version()}"
    )


def number(value, digits=3):
    return "–" if math.isnan(value) else f"{value:.0f}" if value >= 100 else f"{value:.{digits}g}"


def is_broken(result):
    return result.over > 1


def mean(results, of):
    """Geometric mean; NaN if a value could not be measured."""
    values = [of(result) for result in results]
    return math.exp(sum(map(math.log, values)) / len(values)) if values and all(v > 0 for v in values) else math.nan


def markdown(results, drifts, names, bounds, missing, about):
    groups = list(dict.fromkeys(r.input.group for r in results))
    fields = {"group": lambda r: r.input.group, "array": lambda r: id(r.input)}
    is_ = lambda r, key, value: (fields[key](r) if key in fields else getattr(r, key)) == value
    of = lambda **which: [r for r in results if all(is_(r, key, value) for key, value in which.items())]
    lines = ["# Error-bounded codecs", "", about, ""]
    lines += [f"- missing: {name} ({reason})" for name, reason in missing]
    lines += [f"Missing: {len(missing)}.", ""] if missing else ["Nothing is missing.", ""]
    head = [f"{bound:g}" for bound in bounds]
    for group in groups:
        arrays = dict.fromkeys(r.input.name for r in of(group=group))
        lines += [f"## Ratio, {len(arrays)} arrays of {group}: geometric means, by the bound", ""]
        rows = []
        for name in names:
            ratios = [mean(of(group=group, peer=name, relative=bound), lambda r: r.ratio) for bound in bounds]
            rows.append([name, *[number(ratio) for ratio in ratios]])
        lines += [*base.table(["codec", *head], rows), ""]
    lines += ["## Bounds that were broken, and NaN and fill values that were lost", ""]
    lines += ["Cases are arrays times bounds; a number in brackets is the largest error by the bound.", ""]
    rows = []
    for name in names:
        row = [name]
        for group in groups:
            cases = [r for r in of(group=group, peer=name)]
            done = [r for r in cases if not r.problem]
            broken, lost = [r for r in done if is_broken(r)], [r for r in done if r.lost]
            worst = max((r.over for r in done), default=math.nan)
            text = f"{len(broken)} of {len(done)}"
            text += f" ({worst:.9g})" if worst > 1 + 1e-8 else f" (1 + {worst - 1:.0e})" if broken else ""
            text += f", {len(lost)} lose values" if lost else ""
            text += f", {len(cases) - len(done)} not done" if len(cases) > len(done) else ""
            row.append(text)
        rows.append(row)
    lines += [*base.table(["codec", *groups], rows), ""]
    if drifts:
        lines += ["## Drift: largest error by the bound in planes of a chunk that are never written again", ""]
        lines += ["Each time one of the other planes is rewritten, so HDF5 decodes and encodes the chunk.", ""]
        rows = [[name, *[f"{error:.3f}" for error in errors.values()]] for name, errors in drifts.items()]
        lines += [*base.table(["codec", *[f"{n} writes" for n in next(iter(drifts.values()))]], rows), ""]
    middle = 1e-3 if 1e-3 in bounds else bounds[len(bounds) // 2]
    lines += [f"## Speed at {middle:g}, compress / decompress in MB/s, one core: geometric means", ""]
    rows = []
    for name in names:
        if name != NO_SPEED:
            of_groups = [of(group=group, peer=name, relative=middle) for group in groups]
            both = [[mean(of_, speed) for speed in (lambda r: r.compress, lambda r: r.decompress)] for of_ in of_groups]
            rows.append([name, *[f"{number(compress)} / {number(decompress)}" for compress, decompress in both]])
    lines += [*base.table(["codec", *groups], rows), ""]
    lines += [f"## Ratio per array at {middle:g}; broken bounds are marked !, lost values †", ""]
    rows = []
    for input_ in {id(r.input): r.input for r in results}.values():
        if is_repeated(input_):
            continue
        cells = []
        for name in names:
            (r,) = of(array=id(input_), peer=name, relative=middle)
            cells.append(number(r.ratio, 4) + " !" * bool(is_broken(r)) + " †" * bool(r.lost and not r.problem))
        rows.append([input_.name, input_.values.dtype.name, *cells])
    lines += [*base.table(["array", "type", *names], rows), ""]
    less = []
    for r in of(peer="quant"):
        (rival,) = of(array=id(r.input), peer=NO_SPEED, relative=r.relative)
        if r.ratio < rival.ratio and not is_repeated(r.input):
            less.append(f"- {r.input.name} at {r.relative:g}: {r.ratio:.3f} against {rival.ratio:.3f}")
    lines += ["## Where quant has a smaller ratio than cuSZp's best mode", "", *(less or ["Nowhere."]), ""]
    problems = [r for r in results if r.problem]
    if problems:
        lines += [f"Not measured (–), {len(problems)} in all:", ""]
        kinds = dict.fromkeys((r.peer, r.input.name, r.problem) for r in problems)
        lines += [f"- {peer}, {name}: {problem[:200]}" for peer, name, problem in kinds]
    return "\n".join(lines).rstrip() + "\n"


def plot(results, names, path):
    """Bits per value against PSNR, for arrays of each group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    wanted = [
        *["metoffice_a1b_tas_3d", "sperr_wmag_3d", "mitgcm_fizhi_theta_3d"],
        *["pdefind_ks_2d", "wave step 5", "particles step 6"],
    ]
    inputs = {r.input.name: r.input for r in results if not r.input.group.endswith(AS_IT_IS)}
    shown = [name for name in wanted if name in inputs] or list(inputs)[:6]
    rows = -(-len(shown) // 3)
    figure, axes = pyplot.subplots(rows, 3, figsize=(15, 4.6 * rows), dpi=100, squeeze=False)
    for axis, name in zip(axes.flat, shown):
        for peer in (name for name in COLOURS if name in names):
            points = [r for r in results if r.input is inputs[name] and r.peer == peer and math.isfinite(r.psnr)]
            bits = [8 * r.input.values.itemsize / r.ratio for r in points]
            style = {"color": COLOURS[peer], "linewidth": 2.2 if peer == "quant" else 1, "markersize": 3.5}
            axis.plot(bits, [r.psnr for r in points], "o-", label=peer.replace(" in HDF5", ""), **style)
        axis.set_title(f"{name}, {inputs[name].values.dtype.name}")
        axis.set_xlabel("bits per value (logarithmic)")
        axis.set_ylabel("PSNR, dB")
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        axis.grid(True, which="major", color="0.9")
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_visible(False)
    axes.flat[0].legend(fontsize=8.5)
    figure.tight_layout()
    figure.savefig(path)


def write_csv(path, results):
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        head = "array group dtype extents raw_bytes codec relative_bound bound ratio error_over_bound lost psnr"
        out.writerow(f"{head} compress_MBps decompress_MBps problem".split())
        for r in results:
            values = r.input.values
            array = [r.input.name, r.input.group, values.dtype.name, base.extents_of(values), values.nbytes]
            out.writerow([*array, r.peer, r.relative, repr(r.bound), *[f"{n:.9g}" for n in r[4:10]], r.problem])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, default=shared / "data")
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bounds", type=float, nargs="+", default=BOUNDS)
    parser.add_argument("--only", default="", help="arrays whose name has this word")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "bench-lossy")
    options = parser.parse_args()
    if not options.library.is_file():
        sys.exit(f"{options.library} does not exist; run make first")
    if not (options.reference / "MANIFEST.json").is_file():
        sys.exit(f"no reference data at {options.reference}: give --reference or GRIDZ_SHARED")

    core = min(os.sched_getaffinity(0))
    cores = len(os.sched_getaffinity(0))
    found, missing, version = peers(options.library)
    about = f"{machine(version)}. Pinned to one of {cores} cores; CPU time, medians of {options.runs} runs."
    os.sched_setaffinity(0, {core})
    print(about, file=sys.stderr)
    for name, reason in missing:
        print(f"MISSING {name}: {reason}", file=sys.stderr)
    inputs = [*of_reference(options.reference), *wave(), *particles()]
    results, known = [], {}
    for input_ in (i for i in inputs if options.only in i.name):
        print(f"{input_.name}, {input_.group} …", file=sys.stderr, flush=True)
        for bound in options.bounds:
            for peer in found:
                key = (input_.name, bound, peer.name)
                if not is_repeated(input_):
                    known[key] = measure_apart(input_, peer, bound, options.runs)
                results.append(known[key]._replace(input=input_))

    options.out.mkdir(parents=True, exist_ok=True)
    write_csv(options.out / "results.csv", results)
    drifts = drift([peer for peer in found if peer.name.endswith("in HDF5")])
    text = markdown(results, drifts, [peer.name for peer in found], options.bounds, missing, about)
    (options.out / "results.md").write_text(text)
    print(text)
    plot(results, [peer.name for peer in found], options.out / "rate-psnr.png")
    print(f"written to {options.out}", file=sys.stderr)
    own = [r for r in results if r.peer.startswith("quant") and not r.problem]
    return 1 if any(is_broken(r) or r.lost for r in own) else 0


if __name__ == "__main__":
    sys.exit(main())
