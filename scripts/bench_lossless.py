#!/usr/bin/env python3
"""Ratio and speed of gridz's lossless codecs, compared with peers that can be installed from PyPI.

    bench_lossless.py [FILE:DTYPE:EXTENTS ...] [--reference FOLDER ...] [--library LIBRARY] [--runs N] [--out FOLDER]

Without files, the arrays of the reference data are measured, from each FOLDER or from `data` and
`data2` in GRIDZ_SHARED (by default ../shared). A file holds raw numbers, such as
turb3d.f32:f4:256x256x256. gridz is called through its C API.

Each array is one chunk in host memory, in the machine's byte order, and each call has one thread.
Speeds are 10^9 raw bytes per second, from the median of N runs after one warm-up run, whose result
is compared bit for bit. The time is the CPU time of the whole process: wall-clock time would
penalize slow codecs, since other work on the machine interrupts every long run. gridz, Blosc2 and
pcodec decompress into an existing array; all other peers' packages allocate the result.

Writes to the folder `--out`: results.csv (every number), results.md (tables), ratio-speed*.png and
caption.txt. Needs numpy and matplotlib. The script names and counts those of the peers openzl,
blosc2, pcodec, fpzip and zfpy that are missing. xz is Python's own. FPC, for float64 only, is
scripts/fpc.c, which is written from the paper and needs a C compiler.
"""

import argparse
import csv
import ctypes
import datetime
import importlib
import importlib.metadata
import gzip
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from ctypes import POINTER, byref, c_char_p, c_double, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
LORENZO = {"lorenzo fast": 1, "lorenzo dense": 2, "lorenzo max": 3}
DTYPES = {"u1": 1, "u2": 2, "u4": 3, "u8": 4, "i1": 5, "i2": 6, "i4": 7, "i8": 8, "f2": 9, "f4": 11, "f8": 12, "c8": 13, "c16": 14}

Input = namedtuple("Input", "name group values")
"""An array; `group` names the arrays over which its results are averaged, or None."""
Peer = namedtuple("Peer", "name compress decompress")
"""compress(array) -> compressed; decompress(compressed, array) returns an array, or fills `array`."""
Result = namedtuple("Result", "input peer compressed ratio compress decompress problem")
"""Sizes in bytes and speeds in GB/s; after a failure, NaN and the problem's text."""
Mean = namedtuple("Mean", "ratio compress decompress")
DIRECTIONS = {"compress": "compressing", "decompress": "decompressing"}


# ---- gridz ---------------------------------------------------------------------------------------


class Array(ctypes.Structure):
    """gridz_array"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_uint32),
        ("byte_order", c_uint32),
        ("element_size", c_uint32),
        ("rank", c_uint32),
        ("extents", POINTER(c_uint64)),
    ]

    def __init__(self, values):
        extents = (c_uint64 * values.ndim)(*values.shape)
        order = {"<": 1, ">": 2}.get(values.dtype.byteorder, 0)  # 0 is the native byte order
        super().__init__(ctypes.sizeof(Array), DTYPES[values.dtype.str[1:]], order, 0, values.ndim, extents)


class Options(ctypes.Structure):
    """gridz_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("request", c_char_p),
        ("flags", c_uint64),
        ("fill_value", c_void_p),
        ("n_fill_values", c_size_t),
        ("valid_min", c_void_p),
        ("valid_max", c_void_p),
    ]

    def __init__(self, codec, level):
        super().__init__(ctypes.sizeof(Options), None, (f"{codec},level={level}" if level else codec).encode())


class Gridz:
    """The C API, on the CPU with one thread."""

    def __init__(self, path):
        os.environ.update(GRIDZ_THREADS="1", GRIDZ_BACKEND="cpu")
        self.library = ctypes.CDLL(str(path))
        self.library.gridz_last_error.restype = self.library.gridz_version.restype = c_char_p

    def version(self):
        # Include the build time: it is easy to measure an old library by mistake.
        built = datetime.datetime.fromtimestamp(os.path.getmtime(self.library._name))
        return f"gridz {self.library.gridz_version().decode()} built {built:%Y-%m-%d %H:%M}"

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise RuntimeError(self.library.gridz_last_error().decode())

    def bound(self, values, options):
        n_bytes = c_size_t()
        self.call("gridz_compress_bound", byref(Array(values)), byref(options), byref(n_bytes))
        return n_bytes.value

    def peer(self, name, codec, level, dtype="f4"):
        options, room = Options(codec, level), np.empty(0, "u1")
        self.bound(np.zeros(1, dtype), options)  # fails if the library lacks the codec or the level

        def compress(values):
            nonlocal room
            n_bytes, bound = c_size_t(), self.bound(values, options)
            if room.size < bound:
                room = np.zeros(bound, "u1")
            src = c_void_p(values.ctypes.data), c_size_t(values.nbytes)
            dst = c_void_p(room.ctypes.data), c_size_t(room.size), byref(n_bytes)
            self.call("gridz_compress", byref(Array(values)), *src, *dst, byref(options))
            return room[: n_bytes.value]

        def decompress(frame, values):
            src = c_void_p(frame.ctypes.data), c_size_t(frame.size)
            dst = c_void_p(values.ctypes.data), c_size_t(values.nbytes), byref(c_size_t())
            self.call("gridz_decompress", *src, *dst, None)

        return Peer(name, compress, decompress)


# ---- peers ---------------------------------------------------------------------------------------


def of_blosc2(blosc2):
    blosc2.set_nthreads(1)
    for filter_, codec, level in [
        ("SHUFFLE", "LZ4", 5),
        ("SHUFFLE", "ZSTD", 1),
        ("SHUFFLE", "ZSTD", 5),
        ("SHUFFLE", "ZSTD", 9),
        ("BITSHUFFLE", "LZ4", 5),
        ("BITSHUFFLE", "ZSTD", 3),
    ]:
        options = {
            "codec": blosc2.Codec[codec],
            "clevel": level,
            "filters": [blosc2.Filter[filter_]],
            "filters_meta": [0],
            "nthreads": 1,
        }
        yield Peer(
            f"blosc2 {filter_.lower()}+{codec.lower()} {level}",
            lambda values, options=options: blosc2.compress2(values, typesize=values.itemsize, **options),
            lambda packed, values: blosc2.decompress2(packed, dst=values, nthreads=1),
        )


def of_pcodec(pcodec):
    for level in (4, 8, 12):
        config = pcodec.ChunkConfig(compression_level=level)
        yield Peer(
            f"pcodec {level}",
            lambda values, config=config: pcodec.standalone.simple_compress(values.reshape(-1), config),
            lambda packed, values: pcodec.standalone.simple_decompress_into(packed, values.reshape(-1)),
        )


def of_fpzip(fpzip):
    yield Peer("fpzip", lambda values: fpzip.compress(values, precision=0), lambda packed, _: fpzip.decompress(packed))


def of_zfpy(zfpy):
    def compress(values):
        # zfp's blocks have four values along each axis: a short fourth axis costs more than it
        # gains.
        return zfpy.compress_numpy(values.reshape(-1, *values.shape[2:]) if values.ndim == 4 else values)

    yield Peer("zfp reversible", compress, lambda packed, _: zfpy.decompress_numpy(packed))


def of_openzl(zl):
    """The default graph for numbers."""
    compressor = zl.Compressor()
    compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
    compressor.select_starting_graph(zl.graphs.Compress()(compressor))

    def compress(values):
        # A context drops the compressor after each call.
        context = zl.CCtx()
        context.ref_compressor(compressor)
        return context.compress([zl.Input(zl.Type.Numeric, values.reshape(-1))])

    yield Peer("openzl", compress, lambda packed, _: zl.DCtx().decompress(packed)[0].content.as_nparray())


def of_lzma(lzma_):
    yield Peer(
        "xz 9",
        lambda values: lzma_.compress(values, preset=9),
        lambda packed, values: np.frombuffer(lzma_.decompress(packed), values.dtype),
    )


def compiled(source, *options):
    """Builds a shared library from a C file of this folder."""
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "it.so"
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, ROOT / "scripts" / source, *options]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


def of_fpc():
    fpc = compiled("fpc.c")
    fpc.fpc_compress.restype = c_size_t
    room = np.zeros(0, "u1")

    def compress(values):
        nonlocal room
        if values.dtype != "f8":
            raise ValueError("FPC is for float64")
        if room.size < 9 * values.size + 16:
            room = np.zeros(9 * values.size + 16, "u1")
        n_bytes = fpc.fpc_compress(c_void_p(values.ctypes.data), c_size_t(values.size), c_void_p(room.ctypes.data))
        return room[:n_bytes]

    def decompress(packed, values):
        fpc.fpc_decompress(c_void_p(packed.ctypes.data), c_size_t(values.size), c_void_p(values.ctypes.data))

    return Peer("FPC", compress, decompress)


PACKAGES = {"openzl.ext": of_openzl, "lzma": of_lzma, "blosc2": of_blosc2, "pcodec": of_pcodec, "fpzip": of_fpzip, "zfpy": of_zfpy}


def peers(library):
    """All available peers, and the missing ones: name and reason."""
    found, missing = [Peer("memcpy", lambda values: values, lambda packed, values: np.copyto(values, packed))], []
    gridz = Gridz(library)
    for name, codec, level in [("ndzip", "ndzip", 0), *((name, "lorenzo", level) for name, level in LORENZO.items())]:
        try:
            found.append(gridz.peer(name, codec, level))
        except RuntimeError as error:
            missing.append((name, str(error)))
    try:
        found.append(of_fpc())
    except (OSError, subprocess.CalledProcessError) as error:
        missing.append(("FPC", str(error)))
    for package, make in PACKAGES.items():
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            missing.append((package, str(error)))
        else:
            found += make(module)
    return found, missing, gridz.version()


# ---- arrays --------------------------------------------------------------------------------------


def native(values):
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def of_file(text):
    path, dtype, extents = text.rsplit(":", 2)
    values = native(np.fromfile(path, dtype).reshape([int(n) for n in extents.split("x")]))
    return Input(pathlib.Path(path).name, group_of(values), values)


def of_reference(folder):
    """The arrays, and the parts of the sparse matrices as one-axis arrays. The averages are over
    the little-endian arrays of floats and, in folders without matrices, of integers."""
    entries = json.loads((folder / "MANIFEST.json").read_text())["entries"]
    has_matrices = any("files" in entry for entry in entries)
    for entry in entries:
        if entry["kind"] == "array":
            raw = (folder / entry["file"]).read_bytes()
            raw = gzip.decompress(raw) if entry["file"].endswith(".gz") else raw
            values = np.frombuffer(raw, entry["dtype"]).reshape(entry["shape"]).copy()
            group = None if entry["dtype"].startswith(">") else group_of(values)
            if not has_matrices:
                group = f"{group or 'integers'}, {folder.name}"
            yield Input(entry["name"], group, native(values))
        for part, file in entry.get("files", {}).items():
            dtype = entry["data_dtype" if part == "data" else "index_dtype"]
            yield Input(f"{entry['name']}.{part}", None, native(np.fromfile(folder / file, dtype)))


def group_of(values):
    return values.dtype.name if values.dtype in ("f4", "f8") else None


# ---- measuring -----------------------------------------------------------------------------------


def seconds(runs, action):
    """Median CPU time."""
    times = []
    for _ in range(runs):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def measure(input_, peer, runs):
    values = input_.values
    back = np.zeros_like(values)
    try:
        packed = peer.compress(values)
        made = peer.decompress(packed, back)
        made = made if isinstance(made, np.ndarray) else back
        if made.tobytes() != values.tobytes():
            raise ValueError("the decompressed array differs from the original")
        n_bytes = memoryview(packed).nbytes
        # memcpy is measured in one direction only.
        decompress = seconds(runs, lambda: peer.decompress(packed, back))
        compress = decompress if packed is values else seconds(runs, lambda: peer.compress(values))
    except Exception as error:  # a failing peer must not hide the results of the others
        return Result(input_, peer.name, math.nan, math.nan, math.nan, math.nan, f"{type(error).__name__}: {error}")
    speed = lambda time_: values.nbytes / time_ / 1e9
    return Result(input_, peer.name, n_bytes, n_bytes / values.nbytes, speed(compress), speed(decompress), "")


def means(results, group):
    """Peer -> geometric means over a group, for the peers that succeeded on all of it."""
    by_peer = {}
    for result in results:
        if result.input.group == group:
            by_peer.setdefault(result.peer, []).append(result)
    return {
        peer: Mean(*(statistics.geometric_mean(getattr(r, field) for r in rows) for field in Mean._fields))
        for peer, rows in by_peer.items()
        if not any(r.problem for r in rows)
    }


# ---- reporting -----------------------------------------------------------------------------------


def machine(versions):
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    for package in ("numpy", *(module.split(".")[0] for module in PACKAGES)):
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return (
        f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores, load average at the start "
        f"{load}; {datetime.date.today()}; {', '.join(versions)}, Python {platform.python_version()}"
    )


def bold_smallest(values):
    """The numbers as text, the smallest one bold (NaN is never the smallest)."""
    best = min((f"{v:.3f}" for v in values if not math.isnan(v)), default=None)
    return ["–" if math.isnan(v) else f"**{v:.3f}**" if f"{v:.3f}" == best else f"{v:.3f}" for v in values]


def table(head, rows):
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def markdown(inputs, results, names, missing, about):
    """The tables."""
    codecs = [name for name in names if name != "memcpy"]
    lines = ["# Lossless codecs", "", about, ""]
    lines += [f"- missing: {name} ({reason})" for name, reason in missing]
    lines += [f"Missing: {len(missing)}.", ""] if missing else ["Nothing is missing.", ""]
    for group, members in groups(inputs).items():
        size = sum(i.values.nbytes for i in members) / 1e6
        lines += [f"## {arrays_of(group, members)}, {size:.1f} MB: geometric means", ""]
        of = sorted(means(results, group).items(), key=lambda row: row[1].ratio)
        rows = [[n, f"{m.ratio:.3f}", f"{m.compress:.2f}", f"{m.decompress:.2f}"] for n, m in of]
        lines += [*table(["codec", "compressed / raw", "compress GB/s", "decompress GB/s"], rows), ""]
        left_out = [name for name in names if name not in dict(of)]
        lines += [f"Left out, not all arrays could be measured: {', '.join(left_out)}.", ""] if left_out else []
    lines += ["## Compressed / raw, per array", ""]
    rows = []
    for input_ in inputs:
        ratios = {r.peer: r.ratio for r in results if r.input is input_}
        kind = f"{input_.values.dtype.name} {extents_of(input_.values)}"
        rows.append([input_.name, kind, *bold_smallest([ratios[name] for name in codecs])])
    lines += [*table(["array", "type", *codecs], rows), ""]
    problems = [r for r in results if r.problem]
    if problems:
        lines += [f"Not measured (–), {len(problems)} in all:", ""]
        lines += [f"- {r.peer}, {r.input.name}: {r.problem}" for r in problems]
    return "\n".join(lines).rstrip() + "\n"


def arrays_of(group, members):
    return f"{len(members)} array{'s' * (len(members) != 1)} of {group}"


def extents_of(values):
    return "x".join(map(str, values.shape))


def groups(inputs):
    """Group -> its arrays."""
    found = {}
    for input_ in inputs:
        if input_.group:
            found.setdefault(input_.group, []).append(input_)
    return dict(sorted(found.items()))


def pictures(inputs):
    """Picture name -> its groups: all folders but the first get a picture of their own."""
    found = {}
    for group, members in groups(inputs).items():
        _, _, folder = group.partition(", ")
        found.setdefault(f"ratio-speed-{folder}" if folder else "ratio-speed", {})[group] = members
    return found


def caption(inputs, results, about):
    """Describes the picture, and lists the peers that lorenzo does not beat in both ratio and
    speed."""
    lines = [
        "Compressed size by raw size (up is smaller) against speed in GB/s of raw data (right is faster), geometric "
        "means over the arrays of a type, one thread. memcpy is the vertical line. " + about,
    ]
    for group, members in groups(inputs).items():
        mean = means(results, group)
        for direction, doing in DIRECTIONS.items():
            lines += ["", f"{doing.capitalize()} {arrays_of(group, members)}:"]
            own = [name for name in LORENZO if name in mean]
            if not own:
                lines.append("  lorenzo was not measured.")
            rivals = {name: not_dominated(name, mean, direction) for name in own}
            for name, peers_ in rivals.items():
                text = ", ".join(f"{peer} ({why})" for peer, why in peers_.items())
                lines.append(f"  {name} is not better in both than: {text or 'none'}.")
            if len(own) > 1:
                of_all = set.intersection(*(set(peers_) for peers_ in rivals.values()))
                lines.append(f"  Dominated by neither level: {', '.join(sorted(of_all)) or 'none'}.")
    return "\n".join(lines) + "\n"


def not_dominated(name, mean, direction):
    """Peers that `name` does not beat in both ratio and speed, with the reason."""
    own, found = mean[name], {}
    for peer, other in mean.items():
        why, speeds = [], (getattr(other, direction), getattr(own, direction))
        if other.ratio <= own.ratio:
            why.append(f"{other.ratio:.3f} against {own.ratio:.3f}")
        if speeds[0] >= speeds[1]:
            why.append(f"{speeds[0]:.2f} against {speeds[1]:.2f} GB/s")
        if why and peer not in ("memcpy", *LORENZO):
            found[peer] = " and ".join(why)
    return found


def plot(kinds, results, path):
    """Draws one row of plots per group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(kinds), 2, figsize=(13, 5.6 * len(kinds)), dpi=130, squeeze=False)
    for row, (group, members) in zip(axes, kinds.items()):
        mean = means(results, group)
        memcpy = mean.pop("memcpy")
        for axis, (direction, doing) in zip(row, DIRECTIONS.items()):
            axis.set_xscale("log")
            speeds = [getattr(m, direction) for m in mean.values()]
            steps = (1,) if max(speeds) > 1000 * min(speeds) else (1, 2, 5)
            axis.axvline(memcpy.compress, color="0.6", linestyle=":", linewidth=1)
            for name, m in mean.items():
                colour = "tab:red" if name in LORENZO else "tab:orange" if name == "ndzip" else "tab:blue"
                axis.plot(getattr(m, direction), m.ratio, "o", color=colour, markersize=6)
            axis.margins(0.12)
            axis.invert_yaxis()
            axis.grid(True, which="major", color="0.9")
            axis.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=steps))
            axis.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
            axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            axis.set_title(f"{doing} {arrays_of(group, members)}")
            axis.set_xlabel("GB/s of raw data, one thread (logarithmic)")
            axis.set_ylabel("compressed / raw, smaller is up")
    # Labels need the final positions of the axes.
    figure.tight_layout()
    for row, group in zip(axes, kinds):
        mean = means(results, group)
        x = mean.pop("memcpy").compress
        for axis, direction in zip(row, DIRECTIONS):
            label(axis, {name: (getattr(m, direction), m.ratio) for name, m in mean.items()}, x)
            style = {"rotation": 90, "ha": "right", "color": "0.4", "fontsize": 8}
            axis.text(x, 0.02, "memcpy", transform=axis.get_xaxis_transform(), **style)
    figure.savefig(path)


def label(axis, points, line=None, own=LORENZO):
    """Labels the points, those in `own` in bold. Each label is at the nearest spot that covers no
    point, no other label and not the vertical `line`."""
    gap = axis.figure.dpi / 16
    frame = axis.get_window_extent()
    marks = {name: axis.transData.transform(at) for name, at in points.items()}
    taken = [(x - gap / 2, y - gap / 2, x + gap / 2, y + gap / 2) for x, y in marks.values()]
    if line is not None:
        line = axis.transData.transform((line, 1))[0]
        taken.append((line - 1, frame.y0, line + 1, frame.y1))
    for name, (x, y) in sorted(marks.items(), key=lambda mark: mark[1][0]):
        style = {"fontsize": 8.5, "va": "bottom", "fontweight": "bold" if name in own else "normal"}
        text = axis.annotate(name, points[name], (0, 0), textcoords="offset pixels", **style)
        extent = text.get_window_extent()
        w, h = extent.width, extent.height
        for d in (gap * k for k in range(1, 20)):
            spots = [(d, -h / 2), (-w - d, -h / 2), (-w / 2, d), (-w / 2, -h - d), (d, d), (d, -h - d), (-w - d, d)]
            boxes = [(x + dx, y + dy, x + dx + w, y + dy + h) for dx, dy in spots]
            boxes = [box for box in boxes if inside(box, frame) and not any(overlap(box, other) for other in taken)]
            if boxes:
                break
        box = boxes[0] if boxes else (x, y, x + w, y + h)
        text.set_position((box[0] - x, box[1] - y))
        taken.append(box)
        if d > 2 * gap:
            # Too far away to be understood without a line to the nearest edge.
            edge = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
            ends = points[name], axis.transData.inverted().transform(edge)
            axis.plot(*zip(*ends), color="0.6", linewidth=0.7)


def inside(box, frame):
    return frame.x0 < box[0] and box[2] < frame.x1 and frame.y0 < box[1] and box[3] < frame.y1


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def write_csv(path, results, memcpy):
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        head = "array group dtype extents raw_bytes codec compressed_bytes ratio"
        out.writerow(f"{head} compress_GBps decompress_GBps memcpy_GBps problem".split())
        for r in results:
            values = r.input.values
            array = [r.input.name, r.input.group or "", values.dtype.name, extents_of(values), values.nbytes]
            speeds = [f"{n:.6g}" for n in (r.ratio, r.compress, r.decompress, memcpy[r.input.name])]
            out.writerow([*array, r.peer, r.compressed, *speeds, r.problem])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE:DTYPE:EXTENTS")
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, nargs="*", default=[shared / "data", shared / "data2"])
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "bench-lossless")
    options = parser.parse_args()
    if not options.library.is_file():
        sys.exit(f"{options.library} does not exist; run make first")
    for folder in [] if options.files else options.reference:
        if not (folder / "MANIFEST.json").is_file():
            sys.exit(f"no reference data at {folder}: give files, or --reference, or GRIDZ_SHARED")

    inputs = [of_file(text) for text in options.files]
    inputs = inputs or [input_ for folder in options.reference for input_ in of_reference(folder)]
    found, missing, version = peers(options.library)
    about = f"{machine([version])}. Each array is one chunk; one thread; CPU time, medians of {options.runs} runs."
    print(about, file=sys.stderr)
    for name, reason in missing:
        print(f"MISSING {name}: {reason}", file=sys.stderr)
    results = []
    for input_ in inputs:
        print(f"{input_.name} …", file=sys.stderr, flush=True)
        results += [measure(input_, peer, options.runs) for peer in found]

    options.out.mkdir(parents=True, exist_ok=True)
    memcpy = {r.input.name: r.compress for r in results if r.peer == "memcpy"}
    write_csv(options.out / "results.csv", results, memcpy)
    text = markdown(inputs, results, [peer.name for peer in found], missing, about)
    (options.out / "results.md").write_text(text)
    print(text)
    if groups(inputs):
        (options.out / "caption.txt").write_text(caption(inputs, results, about))
        for name, kinds in pictures(inputs).items():
            plot(kinds, results, options.out / f"{name}.png")
    print(f"written to {options.out}", file=sys.stderr)
    wrong = [r for r in results if "came back" in r.problem]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
