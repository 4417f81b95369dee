"""The command `gridz`. Each subcommand is in a separate module, which is imported when it is
called."""

from __future__ import annotations

import importlib

import click

import gridz

COMMANDS = {
    "repack": "repack:command",
    "info": "info:command",
    "check": "check:command",
    "bench": "bench:command",
    "compress": "raw:compress",
    "decompress": "raw:decompress",
    "cd-values": "cd_values:command",
    "doctor": "doctor:command",
}
"""Module and name of each subcommand, in the order of the help."""


class Commands(click.Group):
    """A click group that looks up its members in `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        return getattr(importlib.import_module(f"gridz.cli.{module}"), name)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success, 1 a problem with the data, 2 wrong arguments, 3 a file cannot be read or written, "
    "4 a package, a GPU or the filter is missing.",
)
@click.version_option(gridz.__version__, prog_name="gridz")
def main() -> None:
    """Compression of scientific arrays: files of HDF5 and netCDF-4, .npy and raw arrays."""
