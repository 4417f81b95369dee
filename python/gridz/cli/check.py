"""`gridz check`: tests whether everything in an HDF5 file can be read."""

from __future__ import annotations

import pathlib

import click

from gridz.cli.common import EXIT, Command, check_is_hdf5, json_option, print_json, say
from gridz.cli.raw import threads_option


@click.command(cls=Command, examples=["gridz check run.h5", "gridz check run.h5 --json | jq .damaged"])
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@threads_option
@json_option
def command(path, threads, as_json) -> None:
    """Read every chunk of every dataset of FILE, and report the damaged ones. The exit code is 1 if any is damaged.

    A dataset whose filter is not available is reported once and not checked; then the exit code is 4 if nothing is damaged.
    """
    from gridz._report import problems
    from gridz._tree import datasets_of, open_file

    check_is_hdf5(path)
    with open_file(path) as file:
        found = list(datasets_of(file.id))
        all_problems = [problem for dataset in found for problem in problems(dataset, threads)]
    missing, damaged = ([p for p in all_problems if p["missing"] == kind] for kind in (True, False))
    if as_json:
        print_json({"file": str(path), "datasets": len(found), "damaged": damaged, "missing": missing})
    else:
        for problem in damaged + missing:
            place = f", from element {problem['start']} on" if problem["start"] is not None else ""
            say(f"{path}: {problem['path']}{place}: {problem['error']}")
        unread = len({problem["path"] for problem in missing})
        skipped = f", {unread} datasets not checked" if unread else ""
        say(f"{path}: {len(found) - unread} datasets read, {len(damaged)} parts damaged{skipped}")
    if damaged or missing:
        raise SystemExit(int(EXIT.DATA if damaged else EXIT.MISSING))
