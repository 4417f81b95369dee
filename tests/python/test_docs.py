"""Runs the programs of docs/python.md, docs/zarr.md, docs/zfp.md, docs/multigrid.md, docs/cci.md and
docs/sparse.md unchanged, and the tutorial."""

import os
import pathlib
import re
import subprocess
import sys

import nbclient
import nbformat
import pytest

from conftest import ROOT

TEXTS = [(ROOT / "docs" / name).read_text() for name in ("python.md", "zarr.md", "zfp.md", "multigrid.md", "cci.md", "sparse.md")]
BLOCKS = [block for text in TEXTS for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)]


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_block(tmp_path, block):
    done = subprocess.run([sys.executable, "-c", BLOCKS[block]], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_there_are_some():
    assert len(BLOCKS) == 17


def test_tutorial(tmp_path, monkeypatch):
    """Runs the notebook from top to bottom with this Python's Jupyter kernel; a failing cell raises
    an error that shows it."""
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", 4)
    kept = [len(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    # On a busy machine, a cell's output is split into several messages.
    where = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=60, resources=where, coalesce_streams=True).execute()
    outputs = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert [len(found) for found in outputs] == kept and len(kept) == 9
    assert sum("image/png" in output.get("data", {}) for found in outputs for output in found) == 2
    assert "lorenzo,level=dense" in str(outputs[6]) and "…" not in str(outputs[6])
