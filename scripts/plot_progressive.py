#!/usr/bin/env python3
"""Plots accuracy by bytes read: 1 to 4 of the four layers of frames of multigrid,
compared with frames of quant at level max and of multigrid without layers, each with its own bound.

    plot_progressive.py [--fields FOLDER] [--library LIBRARY] [--bounds 1e-5 1e-4] [--draw-only] [--out FOLDER]

The array is turb3d.f32 in FOLDER, 256³ raw float32. Bounds are relative to its range; a layered
frame has the bound of its last layer. The largest error is measured in float64. Writes a table, the
same as text, and docs/images/progressive.png. Needs matplotlib.
"""

import argparse
import csv
import ctypes
import datetime
import pathlib
from ctypes import byref, c_double, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

import bench_lossless as base

LAYERS = 4
ALONE = ["quant,level=max", "multigrid"]
ALONE_BOUNDS = [10 ** (-n / 4) for n in range(4, 22)]
COLUMNS = ["codec", "bound", "layers", "bytes", "largest_error", "quant_max_at_equal_bytes"]
BY_LAYERS = 1


class Part(ctypes.Structure):
    """`gridz_part_info`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_uint32),
        ("level", c_uint32),
        ("extents", c_uint64 * 32),
        ("array_bytes", c_uint64),
        ("frame_bytes", c_uint64),
        ("numbers", c_uint32 * 4),
        ("value", c_double),
        ("bound", c_double),
    ]


def measure(gridz, values, bounds):
    """One row for each number of bytes that can be read."""
    span = float(values.max()) - float(values.min())
    back, rows = np.empty_like(values), []

    def add(codec, bound, layers, n_bytes):
        largest = float(np.abs(back.astype("f8") - values).max()) / span
        rows.append(dict(codec=codec, bound=bound, layers=layers, bytes=n_bytes, largest_error=largest))
        print(rows[-1], flush=True)

    for codec in ALONE:
        for bound in ALONE_BOUNDS:
            peer = gridz.peer(codec, f"{codec},abs={bound * span!r}", 0)
            frame = peer.compress(values)
            peer.decompress(frame, back)
            add(codec, bound, "", len(frame))
    for bound in bounds:
        frame = gridz.peer("multigrid", f"multigrid,abs={bound * span!r},layers={LAYERS}", 0).compress(values)
        for layers in range(1, LAYERS + 1):
            part, what = Part(ctypes.sizeof(Part)), (c_uint32(BY_LAYERS), c_double(layers))
            src = c_void_p(frame.ctypes.data), c_size_t(frame.size)
            gridz.call("gridz_inspect_progressive", *src, *what, byref(part))
            # From these first bytes alone.
            src = src[0], c_size_t(part.frame_bytes)
            dst = c_void_p(back.ctypes.data), c_size_t(back.nbytes)
            gridz.call("gridz_decompress_progressive", *src, *what, *dst, byref(part), None)
            add("multigrid,layers=4", bound, layers, part.frame_bytes)
    direct = sorted((row["bytes"], row["largest_error"]) for row in rows if row["codec"] == ALONE[0])
    n_bytes, errors = np.log(np.array(direct, "f8")).T
    for row in rows:
        if n_bytes[0] <= np.log(row["bytes"]) <= n_bytes[-1]:
            row["quant_max_at_equal_bytes"] = float(np.exp(np.interp(np.log(row["bytes"]), n_bytes, errors)))
    return rows


def draw(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4.6))
    styles = {"quant,level=max": ("0.3", "-", "quant, level max, coded for each bound"), "multigrid": ("0.6", "--", "multigrid, coded for each bound")}
    for codec, (colour, line, label) in styles.items():
        points = sorted((int(row["bytes"]), float(row["largest_error"])) for row in rows if row["codec"] == codec)
        axis.plot(*zip(*points), line, color=colour, label=label)
    layered = [row for row in rows if row["layers"] != ""]
    for colour, bound in zip(("tab:red", "tab:blue", "tab:green"), sorted({float(row["bound"]) for row in layered})):
        own = [row for row in layered if float(row["bound"]) == bound]
        points = [(int(row["bytes"]), float(row["largest_error"])) for row in own]
        axis.plot(*zip(*points), "o-", color=colour, label=f"one frame of four layers, bound {bound:g}: 1 to 4 of them read")
    axis.set(xscale="log", yscale="log", xlabel="bytes that are read", ylabel="largest error, fraction of the range")
    axis.grid(which="both", alpha=0.25)
    axis.legend(frameon=False)
    axis.set_title("Turbulence, 256³ float32, 64 MiB")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def text(rows, table, today):
    """The results in Markdown."""
    lines = [
        f"# Reading less of multigrid, {today}",
        "",
        "The first layers of one `multigrid` frame with four layers, compared with frames that are coded for one bound each. The array is turbulence of 256³ float32, 64 MiB;",
        f"bounds and errors are fractions of its range. All points are in [a table]({table}); `scripts/plot_progressive.py` writes the table and the plot.",
        "",
        "![Largest error by bytes read](../images/progressive.png)",
        "",
        "| bound | layers read | bytes | of the frame | largest error | that of `quant` max at equal bytes | times |",
        "|---|---|---|---|---|---|---|",
    ]
    layered = [row for row in rows if row["layers"] != ""]
    whole = {row["bound"]: int(row["bytes"]) for row in layered if int(row["layers"]) == LAYERS}
    for row in layered:
        part, error = int(row["bytes"]) / whole[row["bound"]], float(row["largest_error"])
        direct = row.get("quant_max_at_equal_bytes")
        beside = (f"{float(direct):.3g}", f"{error / float(direct):.2f}") if direct else ("–", "–")
        cells = float(row["bound"]), row["layers"], row["bytes"], f"{part:.0%}", f"{error:.3g}", *beside
        lines.append("| " + " | ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")
    lines += ["", "Frames of one bound each, of `quant` at level max and of `multigrid` without layers:", ""]
    lines += ["| codec | bound | bytes | largest error |", "|---|---|---|---|"]
    for row in (row for row in rows if row["layers"] == ""):
        lines.append(f"| `{row['codec']}` | {float(row['bound']):.2g} | {row['bytes']} | {float(row['largest_error']):.3g} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", type=pathlib.Path)
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--bounds", type=float, nargs="+", default=[1e-5, 1e-4])
    parser.add_argument("--draw-only", action="store_true", help="draw today's table again")
    parser.add_argument("--out", type=pathlib.Path, default=base.ROOT / "docs")
    arguments = parser.parse_args()
    today = datetime.date.today()
    table = arguments.out / "results" / f"{today}-progressive.csv"
    if not arguments.draw_only:
        values = np.fromfile(arguments.fields / "turb3d.f32", "<f4").reshape(256, 256, 256)
        rows = measure(base.Gridz(arguments.library), values, arguments.bounds)
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    table.with_suffix(".md").write_text(text(rows, table.name, today))
    draw(rows, arguments.out / "images" / "progressive.png")


if __name__ == "__main__":
    main()
