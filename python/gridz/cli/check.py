"""`gridz check`: whether everything in an HDF5 file can be read."""

from __future__ import annotations

import pathlib

import click

from gridz.cli.common import EXIT, Command, json_option, print_json
from gridz.cli.raw import threads_option
from gridz.cli.repack import check_is_hdf5


@click.command(cls=Command, examples=["gridz check run.h5", "gridz check run.h5 --json | jq .damaged"])
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@threads_option
@json_option
def command(path, threads, as_json) -> None:
    """Read every chunk of every dataset of FILE, and tell which are damaged: exit code 1 if any is."""
    import h5py

    from gridz._report import damage, datasets

    check_is_hdf5(path)
    with h5py.File(path, "r") as file:
        found = datasets(file)
        damaged = [place for dataset in found for place in damage(dataset, threads)]
    if as_json:
        print_json({"file": str(path), "datasets": len(found), "damaged": damaged})
    else:
        for place in damaged:
            click.echo(f"{place['path']}, from element {place['start']} on: {place['error']}")
        click.echo(f"{path}: {len(found)} datasets read, {len(damaged)} parts damaged")
    if damaged:
        raise SystemExit(int(EXIT.DATA))
