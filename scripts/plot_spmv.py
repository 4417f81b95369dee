#!/usr/bin/env python3
"""Plots the speed of gridz's products relative to the best peer, by the number of elements per row.

    plot_spmv.py PICTURE TITLE=RESULTS...

RESULTS are results.csv of bench_spmv.py. Each becomes a plot with its title, of the last quotient
column, which has the most threads. Needs matplotlib.
"""

import csv
import sys

import matplotlib
import matplotlib.pyplot as plt

matplotlib.use("agg")
LOOKS = {("plain", "float32"): "o", ("plain", "float64"): "s", ("coded", "float32"): "^", ("coded", "float64"): "v"}


def quotient(row):
    return float(next(row[key] for key in reversed(row) if key.startswith("quotient") and row[key]))


def draw(axes, title, rows):
    for (values, dtype), marker in LOOKS.items():
        here = [row for row in rows if row["dtype"] == dtype and (row["values"] == "plain") == (values == "plain")]
        points = [(float(row["nnz a row"]), quotient(row)) for row in here]
        if points:
            axes.plot(*zip(*points), marker, label=f"{dtype}, {values} values", fillstyle="none" if values == "coded" else "full")
    # Names alternate between above the upper and below the lower point of a matrix, so that
    # neighbors have room.
    plain = [row for row in rows if row["values"] == "plain"]
    names = sorted({row["matrix"]: float(row["nnz a row"]) for row in plain}.items(), key=lambda pair: pair[1])
    for i, (name, per_row) in enumerate(names):
        heights = [quotient(row) for row in plain if row["matrix"] == name]
        at, offset, side = (max(heights), 6, "bottom") if i % 2 else (min(heights), -6, "top")
        axes.annotate(name, (per_row, at), textcoords="offset points", xytext=(0, offset), ha="center", va=side, fontsize=7)
    axes.axhline(1, color="gray", linewidth=0.8)
    axes.set(title=title, xlabel="elements in a row, mean", ylabel="times the speed of the best other", xscale="log", yscale="log")
    axes.margins(x=0.15, y=0.1)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=8)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    picture, *tables = sys.argv[1:]
    figure, all_axes = plt.subplots(1, len(tables), figsize=(7 * len(tables), 5), squeeze=False)
    for axes, table in zip(all_axes[0], tables):
        title, path = table.split("=", 1)
        with open(path, newline="") as file:
            draw(axes, title, list(csv.DictReader(file)))
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
