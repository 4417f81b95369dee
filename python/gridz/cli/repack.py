"""`gridz repack`: the datasets of an HDF5 file compressed by gridz, everything else as it is."""

from __future__ import annotations

import os
import pathlib

import click

import gridz
from gridz.cli.common import EXIT, Command, bytes_text, extents_of, fail, json_option, print_json, table
from gridz.cli.raw import force_option, threads_option


def rule_of(text: str) -> tuple[str, str]:
    """Pattern and codec in `GLOB=CODEC`; the codec's text has `=` too."""
    glob, is_there, codec = text.partition("=")
    if not (glob and is_there and codec):
        raise click.BadParameter(f"{text!r} is no GLOB=CODEC; give one such as '/fields/*=szp,abs=1e-3' or 'x*=keep'")
    return glob, codec


def chunk_of(text: str):
    """`auto`, `keep`, or a shape."""
    if text in ("auto", "keep"):
        return text
    chunk = extents_of(text)
    if chunk is None or 0 in chunk:
        raise click.BadParameter(f"{text!r} is no chunk; give auto, keep, or extents such as 64,64,64")
    return chunk


@click.command(
    cls=Command,
    examples=[
        "gridz repack run.h5 small.h5                                    # bit for bit",
        "gridz repack run.nc run.nc --rel 1e-4                           # in place, floats within 1e-4 of their range",
        "gridz repack run.h5 small.h5 --dataset '/fields/*=szp,abs=1e-3' --dataset 'mask*=keep'",
    ],
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.argument("target", metavar="NEW", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option("--codec", metavar="CODEC", help="What to compress with, such as lorenzo,level=dense or szp,abs=1e-3.")
@click.option("--rel", type=float, metavar="BOUND", help="Short for --codec szp,rel=BOUND: of each dataset's range.")
@click.option(
    "--dataset",
    "rules",
    metavar="GLOB=CODEC",
    multiple=True,
    callback=lambda ctx, option, values: dict(rule_of(value) for value in values),
    help="Codec of the datasets that match, or keep to leave them; may be repeated, the last match counts.",
)
@click.option(
    "--chunk",
    default="keep",
    metavar="auto|keep|A,B,C",
    callback=lambda ctx, option, value: chunk_of(value),
    help="Extents of the chunks, for datasets of that rank; keep is the default.",
)
@force_option
@threads_option
@json_option
def command(source, target, codec, rel, rules, chunk, force, threads, as_json) -> None:
    """Compress the datasets of FILE, HDF5 or netCDF-4, to NEW, which may be FILE itself.

    Bounds are for floats that are no coordinates; the rest is bit for bit. Links, attributes, types, references and
    dimensions are kept. NEW gets its name when everything was read back and compared.
    """
    if codec and rel is not None:
        fail("--codec and --rel say both what to compress with", "keep one", EXIT.USAGE)
    if target.is_file() and not force and not os.path.samefile(source, target):
        fail(f"{target} exists", "choose another name, or replace it with --force", EXIT.FILE)
    check_is_hdf5(source)
    before = source.stat().st_size
    codec = f"szp,rel={rel!r}" if rel is not None else codec
    done = gridz.repack(source, target, codec, datasets=rules, chunk=chunk, threads=threads)
    after = target.stat().st_size
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after, "datasets": [vars(dataset) for dataset in done]})
        return
    changed = [d for d in done if d.codec is not None]
    rows = [(d.path, d.codec, bytes_text(d.bytes_before), bytes_text(d.bytes_after)) for d in changed]
    if rows:
        table(("dataset", "codec", "before", "after"), rows)
    click.echo(
        f"{target}: {bytes_text(before)} became {bytes_text(after)}; {len(changed)} datasets compressed, "
        f"{len(done) - len(changed)} kept as they were; all read back and compared"
    )


def check_is_hdf5(path: pathlib.Path) -> None:
    """Ends the command if a file is of another format."""
    import h5py

    if h5py.is_hdf5(path):
        return
    with open(path, "rb") as stream:
        is_classic = stream.read(3) == b"CDF"
    remedy = f"nccopy -k nc4 {path} NEW.nc makes it netCDF-4" if is_classic else "give a file of HDF5 or netCDF-4"
    fail(f"{path} is {'netCDF-3' if is_classic else 'no HDF5 file, or a damaged one'}", remedy, EXIT.FILE)
