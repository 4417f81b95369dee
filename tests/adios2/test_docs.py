"""docs/adios2.md: all that it tells to type is typed, in the order of the page, by somebody who has ADIOS2's Python package."""

import os
import sys
from pathlib import Path

import pages

from support import ROOT, run


def test_page(tmp_path):
    clone = pages.clone(tmp_path)
    commands = pages.script((ROOT / "docs/adios2.md").read_text(), clone)
    # The environment that the page makes first, which is activated by its place in PATH.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    output = run(["bash", "-c", f"unset ADIOS2_PLUGIN_PATH MAKEFLAGS\n{commands}"], clone, HOME=str(tmp_path), PATH=path)
    assert output.count("every element is within 0.001") == 2
