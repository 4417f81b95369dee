"""Shared code of all commands: exit codes, error messages, JSON, help with examples, human-readable
numbers.

A command looks like this::

    @click.command(cls=Command, examples=["gridz cd-values quant,abs=0.001"])
    @json_option
    def command(as_json: bool) -> None:
        ...

``Command`` turns the errors of gridz, of files and of missing packages into one line on stderr,
``gridz: problem; remedy``, and into the exit codes of ``EXIT``. stdout contains only the result.
"""

from __future__ import annotations

import enum
import json
import math
import pathlib
import re
import sys
from typing import Any, NoReturn, Optional, Sequence, Tuple

import click

import gridz
from gridz._names import shown


class EXIT(enum.IntEnum):
    """Exit codes of every command."""

    FINE = 0  # success
    DATA = 1  # a problem with the data: a damaged chunk, a failed verification, a broken bound
    USAGE = 2  # wrong arguments
    FILE = 3  # a file cannot be read or written
    MISSING = 4  # missing on this machine: a package, a GPU, the filter


class Failure(click.ClickException):
    """Ends the command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = int(code)

    def show(self, file=None) -> None:
        say(f"gridz: {self.message}", file=file or sys.stderr)


def say(line: str, file=None) -> None:
    """Prints one line; names in it cannot send control characters to the terminal."""
    click.echo(shown(line), file=file)


def fail(problem: str, remedy: str = "", code: int = EXIT.DATA) -> NoReturn:
    """Ends the command: ``gridz: problem; remedy`` on stderr, and the exit code."""
    raise Failure(f"{problem}; {remedy}" if remedy else problem, code)


def exit_code_of(error: gridz.Error) -> EXIT:
    """The exit code for an error of the library, by its class."""
    if isinstance(error, (gridz.Corrupt, gridz.UnsupportedFormat)):
        return EXIT.DATA
    if isinstance(error, gridz.MissingFilter):
        return EXIT.MISSING
    if isinstance(error, (gridz.InvalidArgument, gridz.UnsupportedJob)):
        return EXIT.USAGE
    if isinstance(error, (gridz.DeviceError, gridz.OutOfMemory)):
        return EXIT.MISSING
    return EXIT.DATA


class Command(click.Command):
    """A click command with ``examples`` at the end of its help, whose errors are one line and an exit code."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = list(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"  {line}\n")
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except gridz.Error as error:
            text, file = str(error), ctx.params.get("source") or ctx.params.get("path")
            is_about_file = file is not None and not isinstance(error, gridz.InvalidArgument)
            fail(
                f"{file}: {text}" if is_about_file and shown(str(file)) not in text else text, code=exit_code_of(error)
            )
        except ModuleNotFoundError as error:
            fail(f"the package {error.name} is missing", f"pip install {error.name}", EXIT.MISSING)
        except BrokenPipeError:
            raise  # the reader of the pipe has exited: click ends silently
        except OSError as error:
            # h5py's text has everything; the operating system's error has the file name separately
            name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
            reason = f"{name}: {error.strerror}" if name and error.strerror else str(error)
            fail(reason, code=EXIT.FILE)


def json_option(function):
    """Adds ``--json``, passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else.")(
        function
    )


def print_json(document: Any) -> None:
    """Prints a document as JSON. Infinities and NaN, which JSON lacks, become null; NumPy's numbers
    become Python's.

    Control characters are escaped. Bytes that are not UTF-8 become lone surrogates, as in Python.
    """
    text = json.dumps(_plain(document), indent=2, ensure_ascii=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum) or value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "item"):  # a scalar of numpy
        return _plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def bytes_text(n: float) -> str:
    """``1536`` becomes ``1.5 KiB``."""
    if n < 1024:
        return f"{n:.0f} B"
    power = min((int(n).bit_length() - 1) // 10, 4)
    return f"{n / 1024**power:.1f} {' KMGT'[power]}iB"


NUMBER = re.compile(r"-?(\d[\d.,]*([eE][-+]?\d+)?|inf|nan)( ?[KMGT]?i?B)?|")
"""Matches cells of columns that are right-aligned."""


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Prints a table on stdout, numbers right-aligned. Nothing is cut off, however narrow the
    terminal is."""
    from rich.cells import cell_len

    lines = [list(columns), *([shown(str(cell)) for cell in row] for row in rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(columns))]
    is_number = [bool(rows) and all(NUMBER.fullmatch(line[i]) for line in lines[1:]) for i in range(len(columns))]
    if title:
        say(title)
    for line in lines:
        cells = []
        for cell, width, right in zip(line, widths, is_number):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if right else cell + space)
        text = "  ".join(cells).rstrip()
        click.echo(click.style(text, bold=True) if line is lines[0] else text)


def check_is_hdf5(path: pathlib.Path) -> None:
    """Ends the command if a file does not have the HDF5 format."""
    import h5py

    with open(path, "rb") as stream:
        is_classic = stream.read(3) == b"CDF"
    if h5py.is_hdf5(path):
        return
    remedy = f"convert it to netCDF-4: nccopy -k nc4 {path} NEW.nc" if is_classic else "give an HDF5 or netCDF-4 file"
    fail(f"{path} is {'a netCDF-3 file' if is_classic else 'not an HDF5 file, or is damaged'}", remedy, EXIT.FILE)


def extents_of(text: str) -> Optional[Tuple[int, ...]]:
    """Parses extents such as `512x512x512` or `64,64`, slowest axis first; None if the text is
    invalid."""
    if not re.fullmatch(r"\d+([x,]\d+)*", text):
        return None
    return tuple(int(extent) for extent in re.split("[x,]", text))
