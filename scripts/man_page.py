"""Writes docs/gridz.1, the manual page of the command `gridz`, from the commands' own help.

python scripts/man_page.py > docs/gridz.1        # with the package gridz installed
"""

from __future__ import annotations

import inspect

import click

import gridz
from gridz.cli import main

END = r"""
.SH COMPLETION
The shell completes commands and options after
.PP
.nf
eval "$(_GRIDZ_COMPLETE=bash_source gridz)"             # in ~/.bashrc
eval "$(_GRIDZ_COMPLETE=zsh_source gridz)"              # in ~/.zshrc
_GRIDZ_COMPLETE=fish_source gridz | source              # in ~/.config/fish/config.fish
.fi
.SH EXIT STATUS
0 fine; 1 something is wrong with the data: a damaged chunk, a failed verification, a broken bound; 2 wrong arguments;
3 a file cannot be read or written; 4 something is missing here: a package, a GPU, the filter. Errors are one line
on the standard error output: the problem and, where there is one, the remedy.
.SH ENVIRONMENT
GRIDZ_THREADS, GRIDZ_BACKEND, GRIDZ_DEVICE, GRIDZ_LOG, GRIDZ_CPU_LEVEL and GRIDZ_CACHE_MIB, as in
.BR gridz (3);
HDF5_PLUGIN_PATH, the folders in which other programs look for the filter.
.SH SEE ALSO
.BR gridz (3),
.BR h5repack (1),
.BR nccopy (1)
"""


def plain(text: str) -> str:
    """Escapes text for roff: backslashes, hyphens, and points or quotes at the beginning of a line
    have a special meaning."""
    lines = inspect.cleandoc(text).replace("\\", r"\e").replace("-", r"\-").splitlines()
    return "\n".join(rf"\&{line}" if line[:1] in (".", "'") else line for line in lines)


def page() -> str:
    """The whole page."""
    parts = [
        f'.\\" Made by scripts/man_page.py; do not edit.\n.TH GRIDZ 1 "" "gridz {gridz.__version__}"',
        f".SH NAME\ngridz \\- {plain(main.help[0].lower() + main.help[1:]).rstrip('.')}",
        ".SH SYNOPSIS\n.B gridz\n.I COMMAND\n[OPTIONS] …\n.SH COMMANDS",
    ]
    with click.Context(main, info_name="gridz", **main.context_settings) as top:
        for name in main.list_commands(top):
            command = main.get_command(top, name)
            with click.Context(command, info_name=name, parent=top) as ctx:
                parts.append(section(command, ctx))
    return "\n".join(parts) + END


def section(command: click.Command, ctx: click.Context) -> str:
    """The section of one command."""
    usage = " ".join(command.collect_usage_pieces(ctx))
    paragraphs = plain(command.help or "").replace("\n\n", "\n.PP\n")
    parts = [f".SS {plain(ctx.command_path)} {plain(usage)}", paragraphs]
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            parts.append(f".TP\n.B {plain(record[0])}\n{plain(record[1])}")
    examples = getattr(command, "examples", ())
    if examples:
        parts.append(".PP\n.nf\n" + "\n".join(plain(line) for line in examples) + "\n.fi")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
