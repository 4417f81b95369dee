#!/usr/bin/env python3
"""The pictures of README.md and docs/bounds.md: the output of quant, multigrid, zfp and SZ3 for two
fields at the same ratio, and SSIM against rate.

    pictures.py [--reference FOLDER] [--library LIBRARY] [--out FOLDER]

The fields are taken from FOLDER, or from `data` in GRIDZ_SHARED (by default ../shared): an ocean
current of a climate model, whose land is replaced by the mean for all codecs and gray in the
picture, and a block of turbulence. A part of each is shown. zfp's bounds are effectively powers of
two: every other codec gets the bound at which it reaches zfp's ratio. The figures are those of
gridz_quality, through the C API. Speeds are those of one core, of a field that is repeated until it
has 16 MiB: the best of seven calls.

Writes ocean.png, turbulence.png and ssim-rate.png to the folder `--out`. Needs numpy, matplotlib, pillow, zfpy and pysz.
Measure on a quiet machine.
"""

import argparse
import ctypes
import os
import pathlib
import sys
import time
from ctypes import byref, c_double, c_size_t, c_uint64, c_void_p

import numpy as np

import bench_lossless as base
import bench_lossy as lossy

FIELDS = [
    ("ocean", "ncl_pop_urot_2d_fill", 12, "cm/s", np.s_[130:250, 90:210]),
    ("turbulence", "sperr_wmag_3d", 12, "", np.s_[45]),
]
"""Name of the picture, array, approximate ratio, unit if known, the part that is shown."""
CODECS = {"quant dense": "tab:red", "multigrid": "tab:orange", "zfp": "tab:blue", "SZ3": "tab:green"}
TIMED_BYTES = 16 << 20


class Report(ctypes.Structure):
    """gridz_quality_report"""

    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, c_uint64) for name in "elements numbers fill_mismatches nan_mismatches infinity_mismatches".split()],
        *[("largest_error", c_double), ("largest_error_rest", c_double), ("largest_error_index", c_uint64)],
        *[("largest_relative_error", c_double), ("largest_relative_error_index", c_uint64)],
        *[(name, c_double) for name in "bound error_over_bound minimum maximum range l2_error rmse nrmse psnr".split()],
        *[(name, c_double) for name in "correlation ssim_2d ssim_3d".split()],
    ]


def quality(gridz, original, decoded):
    report = Report(ctypes.sizeof(Report))
    original, decoded = (np.ascontiguousarray(array) for array in (original, decoded))
    both = [part for a in (original, decoded) for part in (c_void_p(a.ctypes.data), c_size_t(a.nbytes))]
    gridz.call("gridz_quality", byref(base.Array(original)), *both, byref(report), None)
    return report


def coded(peer, input_, relative):
    """Ratio, decoded array and relative bound."""
    compress, decompress = peer.of(input_, lossy.absolute(input_, relative))
    packed, back = compress(input_.values), np.zeros_like(input_.values)
    made = decompress(packed, back)
    return input_.values.nbytes / len(packed), made if isinstance(made, np.ndarray) else back, relative


def speeds(peer, input_, relative):
    """GB/s of compression and decompression on one core, of copies of the field, one after another
    along the first axis."""
    copies = max(1, TIMED_BYTES // input_.values.nbytes)
    many = input_._replace(values=np.concatenate([input_.values] * copies))
    compress, decompress = peer.of(many, lossy.absolute(input_, relative))
    back, found = np.zeros_like(many.values), []
    for _ in range(7):
        begin = time.perf_counter()
        packed = compress(many.values)
        middle = time.perf_counter()
        decompress(packed, back)
        found.append((middle - begin, time.perf_counter() - middle))
    return [many.values.nbytes / min(seconds) / 1e9 for seconds in zip(*found)]


def at_ratio(peer, input_, ratio):
    """The decoded array at the bound whose ratio is the nearest to `ratio`."""
    low, high = 1e-7, 0.5
    best = None
    for _ in range(24):
        relative = (low * high) ** 0.5
        found = coded(peer, input_, relative)
        if best is None or abs(found[0] - ratio) < abs(best[0] - ratio):
            best = found
        low, high = (relative, high) if found[0] < ratio else (low, relative)
    return best


def panels(gridz, peers, input_, holes, ratio, unit, part, path):
    """Draws the field and the codecs' output, with their errors below."""
    from matplotlib import pyplot

    columns = len(CODECS) + 1
    figure, axes = pyplot.subplots(2, columns, figsize=(3.3 * columns, 6.6), dpi=75, layout="constrained")
    ratio, *_ = at_ratio(peers["zfp"], input_, ratio)
    found = {name: at_ratio(peers[name], input_, ratio) for name in CODECS}
    shown = lambda values: np.ma.masked_array(values[part].astype("f8"), holes[part])
    error = lambda name: shown(found[name][1].astype("f8") - input_.values.astype("f8"))
    least, most = np.percentile(shown(input_.values).compressed(), [0.5, 99.5])
    largest = max(np.percentile(np.abs(error(name).compressed()), 99.5) for name in CODECS)
    field = {"vmin": least, "vmax": most, "cmap": "viridis", "origin": "lower", "interpolation": "nearest"}
    errors = {"vmin": -largest, "vmax": largest, "cmap": "RdBu_r", "origin": "lower", "interpolation": "nearest"}
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[], facecolor="0.7")
    image = axes[0, 0].imshow(shown(input_.values), **field)
    axes[0, 0].set_title("original", fontsize=9)
    axes[1, 0].set_visible(False)
    lines = []
    for column, name in enumerate(CODECS, start=1):
        reached, back, relative = found[name]
        write, read = speeds(peers[name], input_, relative)
        report = quality(gridz, input_.values, back)
        ssim = report.ssim_2d if input_.values.ndim == 2 else report.ssim_3d
        axes[0, column].imshow(shown(back), **field)
        by = name if name in ("zfp", "SZ3") else f"gridz {name}"
        speed = f"compresses {write:.2f}, decompresses {read:.2f} GB/s"
        axes[0, column].set_title(f"{by}, {reached:.1f} times smaller\n{speed}", fontsize=9)
        map_ = axes[1, column].imshow(error(name), **errors)
        figures = f"largest error {report.largest_error / report.range:.2%} of range", f"PSNR {report.psnr:.1f} dB, SSIM {ssim:.4f}"
        axes[1, column].set_title("\n".join(figures), fontsize=9)
        lines.append(f"{path.stem}: {name}, ratio {reached:.2f}, {speed}, {', '.join(figures)}")
    figure.colorbar(image, ax=axes[0], label=unit, shrink=0.8)
    figure.colorbar(map_, ax=axes[1], label=f"error, {unit}" if unit else "error", shrink=0.8)
    save(figure, path)
    return lines


def rates(gridz, peers, inputs, path):
    """Plots 1 − SSIM against bits per value."""
    import matplotlib
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(inputs), figsize=(5.4 * len(inputs), 4.2), dpi=90, layout="constrained")
    for axis, (title, input_) in zip(axes, inputs.items()):
        for name, colour in CODECS.items():
            points = []
            for relative in np.logspace(-0.5, -5, 19):
                ratio, back, _ = coded(peers[name], input_, float(relative))
                report = quality(gridz, input_.values, back)
                ssim = report.ssim_2d if input_.values.ndim == 2 else report.ssim_3d
                points.append((8 * input_.values.itemsize / ratio, 1 - ssim))
            axis.plot(*zip(*points), "o-", markersize=3.5, color=colour, linewidth=1.4, label=name)
        axis.set(xscale="log", yscale="log", title=title, xlabel="bits per value", ylabel="1 − SSIM (logarithmic)")
        axis.invert_yaxis()
        axis.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.grid(True, which="major", color="0.9")
        axis.legend()
    save(figure, path)


def save(figure, path):
    """Keeps all colors: fewer would look like compression artifacts."""
    from PIL import Image

    figure.savefig(path)
    with Image.open(path) as image:
        image.convert("RGB").save(path, optimize=True)
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    import matplotlib

    matplotlib.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = pathlib.Path(os.environ.get("GRIDZ_SHARED") or base.ROOT.parent / "shared")
    parser.add_argument("--reference", type=pathlib.Path, default=shared / "data")
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--out", type=pathlib.Path, default=base.ROOT / "docs" / "images")
    options = parser.parse_args()
    found, missing, _ = lossy.peers(options.library)
    peers = {peer.name: peer for peer in found}
    if not CODECS.keys() <= peers.keys():
        sys.exit(f"missing: {missing}")
    gridz = base.Gridz(options.library)
    arrays = list(lossy.of_reference(options.reference))
    by_name = {input_.name: input_ for input_ in arrays}
    options.out.mkdir(parents=True, exist_ok=True)
    inputs = {}
    for picture, name, ratio, unit, part in FIELDS:
        input_ = by_name[name]
        as_it_is = by_name.get(f"{name} (as it is)")
        holes = as_it_is.values == as_it_is.fill if as_it_is else np.zeros(input_.values.shape, bool)
        inputs[picture] = input_ = input_._replace(fill=None)
        print(*panels(gridz, peers, input_, holes, ratio, unit, part, options.out / f"{picture}.png"), sep="\n")
    rates(gridz, peers, inputs, options.out / "ssim-rate.png")


if __name__ == "__main__":
    main()
