"""Runs the commands of README.md and docs/python.md, the programs of docs/ that use the package, and the
tutorial."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import nbclient
import nbformat
import netCDF4
import numpy
import pages
import pytest

from conftest import ROOT

BLOCKS = {
    f"{path.stem}-{number}": block
    for path in sorted((ROOT / "docs").glob("*.md"))
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", path.read_text(), flags=re.M | re.S))
    if path.stem != "python" and pages.uses_package(block)
}


@pytest.mark.parametrize("block", BLOCKS)
def test_block(tmp_path, block):
    done = subprocess.run([sys.executable, "-c", BLOCKS[block]], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment for `pip install .`, in which the packages of this one are visible, pip too."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib"))
    pip = folder / "bin/pip"
    pip.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    return folder


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_page(tmp_path, environment, page):
    clone = pages.clone(tmp_path)
    for name in "run.nc", "run.h5":
        with netCDF4.Dataset(clone / name, "w") as nc:
            for axis in "yx":
                nc.createDimension(axis, 300)
            for variable in "fields/t", "mask":
                nc.createVariable(variable, "f4", ("y", "x"))[:] = numpy.arange(90000).reshape(300, 300) % 7000 / 100
    commands = pages.script((ROOT / page).read_text(), clone, python=environment / "bin/python")
    variables = {
        "GRIDZ_LIBRARY": str(ROOT / "target/release/libgridz.so"),  # pip builds the package around it
        "HDF5_PLUGIN_PATH": str(ROOT / "target/plugin"),
        "HOME": str(tmp_path),
        "PATH": f"{environment / 'bin'}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(["bash", "-c", commands], cwd=clone, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_some():
    assert {name.split("-")[0] for name in BLOCKS} >= {"bounds", "cci", "multigrid", "sparse", "zarr", "zfp"}


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
