#!/usr/bin/env python3
"""Ratio against speed of gridz and other codecs with an error bound: docs/ratio-speed-cpu.svg and
docs/ratio-speed-gpu.svg.

    plot_ratio_speed.py [--points FILE.csv] [--out FOLDER]

The points are those of docs/results/2026-11-28-ratio-speed.csv; add new measurements there. A point
without a speed is left out; two numbers, as in "204-246", are a range, which is drawn as a line.
Needs matplotlib.
"""

import argparse
import csv
import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

import bench_lossless as base

DOCS = base.ROOT / "docs"
WAYS = {"compress_GBps": "compression", "decompress_GBps": "decompression"}
TITLES = {
    "CPU": "One core: 11 real arrays of float32, bound 1e-3 of the range",
    "GPU": "One NVIDIA H200, quant's an H100: turbulence, float32, 512 MiB in its memory, bound 1e-3 of the range",
}
CAPTIONS = {
    "CPU": "Red: gridz.  Filled: one run on an AMD EPYC with AVX-512, 2026-11-28.  Open, and MGARD-X: another machine, whose speeds\n"
    "are not comparable.  A line is a range of speeds.  !: some error was larger than the bound, by .03 %.",
    "GPU": "Red: gridz.  The others were measured on an H200 in other runs.  A line is a range of speeds.  !: some error was larger\n"
    "than the bound, by .14 %.  Bitcomp rounds the bound down to a power of two.",
}


def name(row):
    words = [row["mode"]] if is_own(row) else [row["compressor"], row["mode"]]
    return " ".join(filter(None, [*words, "!" * (row["bound_kept"] == "no")]))


def is_own(row):
    return row["compressor"] == "gridz"


def draw(axis, rows, way):
    """Draws the points; returns the position of each label: name -> position."""
    places = {}
    for row in rows:
        ratio, speeds = float(row["ratio"]), [float(n) for n in row[way].split("-")]
        colour = "tab:red" if is_own(row) else "0.45"
        if len(speeds) == 1:
            face = "white" if row["machine"].startswith("other") else colour
            axis.plot(ratio, speeds[0], "o", color=colour, markerfacecolor=face, markersize=7 if is_own(row) else 5.5)
        else:
            axis.plot([ratio] * 2, speeds, "_-", color=colour)
        places[name(row)] = ratio, (speeds[0] * speeds[-1]) ** 0.5
    axis.set(yscale="log", title=WAYS[way], xlabel="ratio, raw / compressed")
    axis.margins(x=0.18, y=0.1)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(True, which="major", color="0.92")
    axis.set_axisbelow(True)
    return places


def plot(device, rows, path):
    # SVG has 72 dots per inch, and labels are placed by dots.
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 5.4), dpi=72, sharey=True)
    places = []
    for axis, way in zip(axes, WAYS):
        places.append(draw(axis, [row for row in rows if row[way]], way))
    axes[0].set_ylabel("GB/s of raw data (logarithmic)")
    axes[1].tick_params(labelleft=True)
    figure.suptitle(TITLES[device], fontsize=12)
    figure.text(0.5, 0.012, CAPTIONS[device], ha="center", fontsize=9, color="0.3")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    own = {name(row) for row in rows if is_own(row)}
    for axis, points in zip(axes, places):
        base.label(axis, points, own=own)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=pathlib.Path, default=DOCS / "results" / "2026-11-28-ratio-speed.csv")
    parser.add_argument("--out", type=pathlib.Path, default=DOCS)
    options = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "gridz"  # makes the output reproducible
    with options.points.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for device in TITLES:
        path = options.out / f"ratio-speed-{device.lower()}.svg"
        plot(device, [row for row in rows if row["device"] == device], path)
        print(path)


if __name__ == "__main__":
    main()
