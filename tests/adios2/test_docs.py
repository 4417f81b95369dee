"""Runs all commands of docs/adios2.md in the order of the page, with ADIOS2's Python package
installed."""

import os
import sys
from pathlib import Path

import pages

from support import ROOT, run


def test_page(tmp_path):
    clone = pages.clone(tmp_path)
    commands = pages.script((ROOT / "docs/adios2.md").read_text(), clone)
    # The virtual environment that the page creates first; it is activated by its position in PATH.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    output = run(["bash", "-c", f"unset ADIOS2_PLUGIN_PATH MAKEFLAGS\n{commands}"], clone, HOME=str(tmp_path), PATH=path)
    assert output.count("every element is within 0.001") == 2
