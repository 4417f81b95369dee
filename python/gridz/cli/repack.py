"""`gridz repack`: compresses the datasets of an HDF5 file with gridz, and copies everything else
unchanged."""

from __future__ import annotations

import collections
import os
import pathlib

import click

import gridz
from gridz._native import MODES
from gridz.cli.common import (
    EXIT, Command, bytes_text, check_is_hdf5, extents_of, fail, json_option, print_json, say, table,
)  # fmt: skip
from gridz.cli.raw import threads_option


def rule_of(text: str) -> tuple[str, str]:
    """Parses pattern and codec in `GLOB=CODEC`; the codec's text contains `=` too."""
    glob, is_there, codec = text.partition("=")
    if not (glob and is_there and codec):
        raise click.BadParameter(f"{text!r} does not have the form GLOB=CODEC; give one such as '/fields/*=quant,abs=1e-3' or 'x*=keep'")
    return glob, codec


def chunk_of(text: str):
    """Parses `auto`, `keep`, or a shape."""
    if text in ("auto", "keep"):
        return text
    chunk = extents_of(text)
    if chunk is None or 0 in chunk:
        raise click.BadParameter(f"{text!r} is not a chunk; give auto, keep, or extents such as 64,64,64")
    return chunk


@click.command(
    cls=Command,
    examples=[
        "gridz repack run.h5 small.h5                                    # bit for bit",
        "gridz repack run.nc run.nc --rel 1e-4                           # in place, floats within 1e-4 of their range",
        "gridz repack run.nc small.nc --rel 1e-4 --fill 1e20             # 1e20 marks missing data, bit for bit",
        "gridz repack run.h5 small.h5 --dataset '/fields/*=quant,abs=1e-3' --dataset 'mask*=keep'",
    ],
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.argument("target", metavar="NEW", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option("--codec", metavar="CODEC", help="Codec, such as lorenzo,level=dense or quant,abs=1e-3.")
@click.option("--rel", type=float, metavar="BOUND", help="Short for --codec quant,rel=BOUND: of each dataset's range.")
@click.option(
    "--dataset",
    "rules",
    metavar="GLOB=CODEC",
    multiple=True,
    callback=lambda ctx, option, values: dict(rule_of(value) for value in values),
    help="Codec of the matching datasets, or keep to copy them unchanged; may be repeated, the last match counts. GLOB is a "
    "path if it has a slash, otherwise a name anywhere in the file.",
)
@click.option(
    "--chunk",
    default="keep",
    metavar="auto|keep|A,B,C",
    callback=lambda ctx, option, value: chunk_of(value),
    help="Extents of the chunks, for datasets of that rank; keep is the default.",
)
@click.option(
    "--fill",
    "fills",
    metavar="VALUE",
    multiple=True,
    help="A value that marks missing data, besides those that the file names; may be repeated.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace NEW if it exists; accept --rel above 0.1, and ranges that outliers determine.",
)
@threads_option
@json_option
def command(source, target, codec, rel, rules, chunk, fills, force, threads, as_json) -> None:
    """Compress the datasets of FILE, HDF5 or netCDF-4, to NEW, which may be FILE itself.

    Error bounds apply only to floats that are not coordinates (dimension scales, and by the CF conventions). Everything
    else is kept bit for bit, also missing data: fill values, _FillValue, missing_value, and elements outside of
    valid_range. Links, attributes, types, references and dimensions are kept. NEW gets its name after all of it was
    read back and compared.
    """
    if codec and rel is not None:
        fail("--codec and --rel both select a codec", "give one of them", EXIT.USAGE)
    if target.is_file() and not force and not os.path.samefile(source, target):
        fail(f"{target} exists", "choose another name, or replace it with --force", EXIT.FILE)
    check_is_hdf5(source)
    before = source.stat().st_size
    codec = f"quant,rel={rel!r}" if rel is not None else codec
    reference = f"{source}, before it was replaced" if target.exists() and os.path.samefile(source, target) else source
    settings = {"datasets": rules, "chunk": chunk, "fill": fills, "force": force, "threads": threads}
    done = gridz.repack(source, target, codec, **settings)
    after = target.stat().st_size
    if as_json:
        sizes = {"bytes_before": before, "bytes_after": after}
        print_json({**sizes, "compared_with": str(reference), "datasets": [vars(dataset) for dataset in done]})
        return
    changed, kept = [d for d in done if d.codec is not None], [d for d in done if d.codec is None]
    if changed:
        table(("dataset", "codec", "before", "after", "range", "largest error", "PSNR"), [_row(d) for d in changed])
    exact = [d for d in changed if d.reason]
    say(
        f"{target}: {bytes_text(before)} became {bytes_text(after)}; {len(changed)} datasets compressed"
        f"{_reasons(exact, ', bit for bit: ')}, {len(kept)} kept unchanged{_reasons(kept, ': ')}; "
        f"all read back and compared with {reference}"
    )


def _row(done) -> tuple:
    """The table cells of a dataset; errors are empty for lossless codecs."""
    cells = done.path, _short(done.codec), bytes_text(done.bytes_before), bytes_text(done.bytes_after)
    if done.largest_error is None:
        return (*cells, "", "", "")
    return (*cells, f"{done.minimum:.4g} … {done.maximum:.4g}", f"{done.largest_error:.4g}", f"{done.psnr:.4g} dB")


def _short(codec: str) -> str:
    """A codec's text with four digits of its bound."""
    parts = [part.split("=") for part in codec.split(",")]
    return ",".join("=".join([key, *(f"{float(v):.4g}" if key in MODES else v for v in value)]) for key, *value in parts)


def _reasons(datasets: list, before: str) -> str:
    """The number of datasets for each reason, after a text; empty if there are none."""
    counts = collections.Counter(d.reason.partition(" (")[0].removeprefix("a ") for d in datasets if d.reason)
    return before + ", ".join(f"{n} {reason}" for reason, n in counts.items()) if counts else ""
