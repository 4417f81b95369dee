"""`gridz info`: what is in an HDF5 file, and how it is compressed."""

from __future__ import annotations

import pathlib

import click

from gridz.cli.common import Command, bytes_text, json_option, print_json, table
from gridz.cli.repack import check_is_hdf5


@click.command(cls=Command, examples=["gridz info run.h5", "gridz info run.nc --json"])
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@json_option
def command(path, as_json) -> None:
    """List the datasets of FILE, HDF5 or netCDF-4: shape, type, chunks, codec, ratio, kinds of blocks, bound.

    With --json also what there is to read of chunks of mgard: bytes and bound of 1, 2, … layers, bytes and shape of each level.
    """
    import h5py

    from gridz._report import datasets, describe

    check_is_hdf5(path)
    with h5py.File(path, "r") as file:
        found = [describe(dataset) for dataset in datasets(file)]
    if as_json:
        print_json({"file": str(path), "datasets": found})
        return
    columns = ("dataset", "type", "shape", "chunk", "codec", "ratio", "a chunk", "bound", "blocks")
    table(columns, [_row(d) for d in found])


def _row(d: dict) -> tuple:
    shape = "x".join(map(str, d["shape"])) if d["shape"] else "scalar" if d["shape"] == () else "empty"
    blocks = ", ".join(f"{n} {name}" for name, n in d.get("blocks", {}).items() if n and name != "all")
    return (
        d["path"],
        d["dtype"],
        shape,
        "x".join(map(str, d["chunk"])) if d["chunk"] else "",
        d["codec"] or " + ".join(d["filters"]),
        f"{d['ratio']:.2f}" if d["ratio"] else "",
        bytes_text(d["chunk_bytes"]["median"]) if "chunk_bytes" in d else "",
        f"{d['bound']:g}" if d.get("bound") else "",
        blocks,
    )
