"""`gridz doctor`: examines the installation, and whether gridz works in it."""

from __future__ import annotations

import dataclasses
import sys

import click

from gridz.cli.common import EXIT, Command, json_option, print_json, table


@click.command(
    cls=Command, examples=["gridz doctor", "gridz doctor --json > doctor.json       # for a bug report"]
)
@json_option
def command(as_json: bool) -> None:
    """Report the installation, whether each program that reads HDF5 can use gridz, and a remedy for each problem.

    Examines h5py, netCDF4, PyTables, h5repack, h5dump, nccopy, ncdump, the folders of HDF5_PLUGIN_PATH, CPU and GPUs.
    The exit code is 4 if something necessary is missing.
    """
    from gridz.doctor import examine

    found = examine()
    serious = any(problem.matters for problem in found.problems)
    if as_json:
        print_json({"ok": not serious, **dataclasses.asdict(found)})
    else:
        _print(found)
    sys.exit(EXIT.MISSING if serious else EXIT.FINE)


def _print(found) -> None:
    it = found.gridz
    gpu = f"{it['gpus']} usable" if it["gpus"] else f"none: {it['no_gpu_because']}"
    click.echo(
        f"gridz {it['version']}, Python {it['python']}, {it['machine']}, "
        f"CPU level {it['cpu_level']}, {it['threads']} threads"
    )
    click.echo(f"library   {it['library']}")
    click.echo(f"GPU       {gpu}" + (f" (driver {it['driver']})" if it["driver"] else ""))
    click.echo("packages  " + ", ".join(f"{name} {version}" for name, version in found.packages.items()))
    for name, value in found.environment.items():
        click.echo(f"{name}={value}")
    rows = [
        [
            host["name"],
            host.get("version", "?"),
            _yes(host.get("works")),
            _yes(host["without_import"]),
            host.get("libhdf5", "?"),
        ]
        for host in found.hosts
    ]
    click.echo()
    table(["package", "HDF5", "with import gridz", "without", "libhdf5"], rows)
    if found.tools:
        click.echo()
        rows = [
            [tool["name"], tool.get("version", "?"), _yes(tool["works"]), tool["libhdf5"] or "static"]
            for tool in found.tools
        ]
        table(["tool", "HDF5", "works", "libhdf5"], rows)
    if found.plugins:
        click.echo()
        table(
            ["plugin", "filter"], [[p["path"], p.get("error") or f"{p['filter']}: {p['name']}"] for p in found.plugins]
        )
    click.echo()
    for problem in found.problems:
        click.echo(f"{'PROBLEM' if problem.matters else 'note'}: {problem.what}\n  remedy: {problem.remedy}")
    if not any(problem.matters for problem in found.problems):
        click.echo("Everything necessary works.")


def _yes(works) -> str:
    return "yes" if works else "no"
