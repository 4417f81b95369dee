"""`gridz info`: the contents of an HDF5 file, and how they are compressed."""

from __future__ import annotations

import pathlib
import sys

import click

from gridz.cli.common import EXIT, Command, bytes_text, check_is_hdf5, json_option, print_json, say, table


@click.command(cls=Command, examples=["gridz info run.h5", "gridz info run.nc --json"])
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@json_option
def command(path, as_json) -> None:
    """List the datasets of FILE, HDF5 or netCDF-4: shape, type, chunks, codec, ratio, kinds of blocks, bound.

    With --json, also the parts of multigrid chunks that can be read: bytes and bound of 1, 2, … layers, bytes and shape of each level.
    All datasets are listed; the exit code is 1 if a part of one cannot be read.
    """
    from gridz._report import describe
    from gridz._tree import datasets_of, open_file

    check_is_hdf5(path)
    with open_file(path) as file:
        found = [describe(dataset) for dataset in datasets_of(file.id)]
    if as_json:
        print_json({"file": str(path), "datasets": found})
    else:
        columns = ("dataset", "type", "shape", "chunk", "codec", "ratio", "a chunk", "bound", "blocks")
        table(columns, [_row(d) for d in found])
    failed = [d for d in found if "error" in d]
    for d in failed:
        say(f"gridz: {path}: {d['path']}: {d['error']}", file=sys.stderr)
    if failed:
        raise SystemExit(int(EXIT.DATA))


def _row(d: dict) -> tuple:
    shape = "x".join(map(str, d["shape"])) if d["shape"] else "scalar" if d["shape"] == () else "empty"
    blocks = [f"{n} {name}" for name, n in d.get("blocks", {}).items() if n and name != "all"]
    if d.get("stored_chunks"):
        blocks.append(f"{d['stored_chunks']} of {d['sampled_chunks']} chunks stored")
    return (
        d["path"],
        d["dtype"] or "",
        shape if d["dtype"] else "",
        "x".join(map(str, d["chunk"])) if d["chunk"] else "",
        d["codec"] or " + ".join(d["filters"]),
        f"{d['ratio']:.2f}" if d["ratio"] else "",
        bytes_text(d["chunk_bytes"]["median"]) if "chunk_bytes" in d else "",
        f"{d['bound']:g}" if d.get("bound") else "",
        ", ".join(blocks),
    )
