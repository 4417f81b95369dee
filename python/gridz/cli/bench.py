"""`gridz bench`: which codec suits the user's own data."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
from typing import Iterator

import click

import gridz
from gridz._figure import format_of, new_figure
from gridz._output import replacing
from gridz.cli.common import EXIT, Command, Failure, bytes_text, fail, json_option, print_json, say, table
from gridz.cli.raw import array_options, open_array

SMALLEST = 64 << 10
"""Smallest dataset, in bytes, that is measured without being named."""


@click.command(
    cls=Command,
    examples=[
        "gridz bench results.h5                                     # datasets of 64 KiB and more",
        "gridz bench results.nc --dataset temperature --rel 1e-3 --png temperature.png",
        "gridz bench U.bin.f32 --dtype f32 --shape 100x500x500 --abs 0.01",
        "gridz bench field.npy --codec lorenzo --codec lorenzo,level=dense --json",
    ],
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option("--dataset", "names", multiple=True, metavar="NAME", help="Measure this dataset only; may be repeated.")
@array_options
@click.option("--codec", "codecs", multiple=True, metavar="CODEC", help="Measure this codec only; may be repeated.")
@click.option("--bulk", is_flag=True, help="Also measure gridz.h5.write and read, which use all threads.")
@click.option(
    "--abs", "abs_bound", type=click.FloatRange(min=0, min_open=True), help="Also measure codecs with this error bound."
)
@click.option(
    "--rel",
    "rel_bound",
    type=click.FloatRange(0, 1, min_open=True),
    help="Also measure codecs with a bound of this fraction of the range.",
)
@click.option(
    "--sample",
    default=64,
    show_default=True,
    type=click.IntRange(1, 4096),
    metavar="MIB",
    help="Largest sample of each dataset in MiB, taken from its middle.",
)
@click.option(
    "--repeats", default=3, show_default=True, type=click.IntRange(1, 100), help="Number of repeats; speeds are their medians."
)
@click.option(
    "--png", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Draw ratios and speeds to this file."
)
@click.option("--force", is_flag=True, help="Accept --rel above 0.1, and ranges that outliers determine.")
@json_option
def command(
    source, names, dtype, shape, codecs, bulk, abs_bound, rel_bound, sample, repeats, png, force, as_json
) -> None:
    """Measure the codecs of gridz, and of HDF5 and hdf5plugin, on the data in FILE.

    FILE is an HDF5 or netCDF-4 file, a .npy file, or a raw array. h5py writes the data to a file
    in memory and reads it back. Most codecs use one thread; gridz uses several threads in large chunks, unless
    GRIDZ_THREADS=1. In an HDF5 file, all datasets of numbers with at least 64 KiB are measured, or the named ones.
    """
    from gridz import bench

    if abs_bound and rel_bound:
        raise click.UsageError("--abs and --rel exclude each other; give one")
    if codecs and (abs_bound or rel_bound):
        raise click.UsageError(
            "--abs and --rel cannot be combined with --codec; write the bound in the codec, such as --codec quant,abs=1e-3"
        )
    with contextlib.ExitStack() as stack:
        picture = stack.enter_context(replacing(png))[1] if png else None
        found, failed, code = [], [], EXIT.FINE
        for name, array, why in _arrays(source, names, dtype, shape):
            try:
                part = None if why else bench.sample_of(name, array, sample << 20)
            except (gridz.Error, OSError) as error:
                why = Failure(str(error), EXIT.DATA)
            if why:
                failed.append((name, why.message))
                code = EXIT.MISSING if why.exit_code == EXIT.MISSING and code != EXIT.DATA else EXIT.DATA
                say(f"gridz: {source}: {name}: not measured: {why.message}", file=sys.stderr)
                continue
            results = []
            for candidate in bench.candidates(part, codecs, abs_bound, rel_bound, bulk, force):
                results.append(bench.measure(part, candidate, repeats))
            found.append((part, results))
            if not as_json:
                _print(part, results, bench.advice(part, results))
        if not found and not failed:
            fail(f"{source} has no dataset of numbers", "give a file with datasets of numbers", EXIT.DATA)
        if picture and found:
            _draw(found, picture, format_of(png))
    if as_json:
        measured = [
            {
                "dataset": part.name,
                "part": part.part,
                "dtype": part.values.dtype.str,
                "shape": part.shape,
                "chunks": part.chunks,
                "sample_bytes": part.values.nbytes,
                "results": [dataclasses.asdict(result) for result in results],
                "advice": bench.advice(part, results),
            }
            for part, results in found
        ]
        print_json([*measured, *({"dataset": name, "error": error} for name, error in failed)])
    if failed:
        raise SystemExit(int(code))


def _arrays(source: pathlib.Path, names, dtype, shape) -> Iterator:
    """Name and array of the requested datasets, or of all that hold numbers; and None or the reason
    why a dataset cannot be read."""
    import h5py

    from gridz._names import bytes_of
    from gridz._pipeline import missing_filters
    from gridz._tree import datasets_of, open_file
    from gridz.bench import is_measurable

    if source.suffix == ".npy" or dtype is not None or not h5py.is_hdf5(source):
        if names:
            fail(f"{source} is not an HDF5 file, so it has no datasets", "leave out --dataset", EXIT.USAGE)
        array = open_array(source, dtype, shape)
        if is_measurable(array):
            yield source.name, array, None
        return
    with open_file(source) as file:
        named = {name: file.get(bytes_of(name)) for name in names}
        for name, dataset in named.items():
            if not isinstance(dataset, h5py.Dataset):
                fail(f"{source} has no dataset {name!r}", "h5ls -r lists them", EXIT.USAGE)
            if not is_measurable(dataset):
                fail(f"{name} does not contain numbers, or is empty", "name another dataset", EXIT.USAGE)
        all_found = [] if names else list(datasets_of(file.id))
        for found in all_found:
            if found.id is None:
                yield found.path[1:], None, Failure(found.error, EXIT.DATA)
        for name, dataset in (named or _large_enough(all_found)).items():
            missing = missing_filters(dataset.id)
            yield name, dataset, Failure(missing, EXIT.MISSING) if missing else None


def _large_enough(all_found: list) -> dict:
    """The datasets of numbers that are large enough for timing, by name; or the largest one."""
    from gridz.bench import is_measurable

    datasets = {found.path[1:]: found.dataset for found in all_found if found.id and is_measurable(found.dataset)}
    large = {name: dataset for name, dataset in datasets.items() if dataset.nbytes >= SMALLEST}
    return large or dict(sorted(datasets.items(), key=lambda item: item[1].nbytes)[-1:])


def _print(part, results, sentences) -> None:
    chunks = "x".join(map(str, part.chunks))
    rows = [
        [r.label, *[f"{value:.2f}" for value in (r.ratio, r.write_gb_s, r.read_gb_s)], f"{r.max_error:.3g}"]
        if not r.error
        else [r.label, "", "", "", r.error]
        for r in results
    ]
    say(f"{part.part}: {part.values.dtype}, {bytes_text(part.values.nbytes)}, chunks {chunks}")
    table(["codec", "ratio", "write GB/s", "read GB/s", "max error"], rows)
    click.echo("".join(f"- {sentence}\n" for sentence in sentences))


def _draw(found, path: str, picture_format: str) -> None:
    """Bar charts of the ratio and of the speeds of writing and reading, one row for each
    dataset."""
    most = max(len(results) for _, results in found)
    try:
        figure = new_figure((13, (1.5 + 0.3 * most) * len(found)))
    except ModuleNotFoundError:
        fail("plots need matplotlib, which is missing", 'pip install "gridz[plot]"', EXIT.MISSING)
    axes = figure.subplots(len(found), 3, squeeze=False)
    for row, (part, results) in zip(axes, found):
        good = [r for r in results if not r.error]
        labels = [r.label for r in good]
        for axis, what, title in zip(
            row, ("ratio", "write_gb_s", "read_gb_s"), ("times smaller", "GB/s written", "GB/s read")
        ):
            # Bars of lossy codecs are hatched; gridz's bars are red.
            bars = axis.barh(
                labels,
                [getattr(r, what) for r in good],
                color=["C3" if r.label.startswith("gridz ") else "0.65" for r in good],
                hatch=["" if r.is_lossless else "///" for r in good],
                edgecolor="white",
            )
            axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
            axis.set_title(title, fontsize=10)
            axis.invert_yaxis()
            axis.margins(x=0.15)
            axis.spines[["top", "right"]].set_visible(False)
            if axis is not row[0]:
                axis.set_yticklabels([])
        row[0].set_title(f"{part.part}, {part.values.dtype}\ntimes smaller", fontsize=10)
    figure.savefig(path, dpi=120, format=picture_format)
