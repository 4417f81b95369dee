"""`gridz doctor` reports what works, and a remedy for each problem."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

import gridz
from gridz import doctor

SWITCHES = ("HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD", "GRIDZ_BACKEND", "GRIDZ_CPU_LEVEL")


def examine(code=0, **variables):
    """Runs the command with these variables, in a separate process, and returns its JSON."""
    env = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    command = [sys.executable, "-c", "from gridz.cli import main; main()", "doctor", "--json"]
    done = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_every_host_that_is_installed_works():
    found = examine()
    assert found["ok"] and found["gridz"]["version"] == gridz.__version__
    assert "h5py" in [host["name"] for host in found["hosts"]]
    for host in found["hosts"]:
        assert host["works"] and host["version"][0] in "12" and "libhdf5" in host["libhdf5"], host


def test_the_doctor_reports_tools_that_need_the_variable():
    tools = [name for name in doctor.TOOLS if shutil.which(name)]
    if not tools:
        pytest.skip("no tools of HDF5 or netCDF on PATH (Debian: hdf5-tools, netcdf-bin)")
    found = examine(HDF5_PLUGIN_PATH=gridz.PLUGIN_PATH)
    assert [tool["name"] for tool in found["tools"] if tool["works"]] == tools
    assert all(host["without_import"] for host in found["hosts"])
    assert [plugin["filter"] for plugin in found["plugins"]] == [gridz.FILTER_ID]
    found = examine(HDF5_PLUGIN_PATH="/there/is/no/such/folder")
    assert not any(tool["works"] for tool in found["tools"])
    remedies = [problem["remedy"] for problem in found["problems"]]
    assert any(f"HDF5_PLUGIN_PATH={gridz.PLUGIN_PATH}:" in remedy for remedy in remedies)


def test_files_that_hdf5_cannot_open_are_named(tmp_path):
    (tmp_path / "libh5other.so").write_bytes(b"no library")
    (tmp_path / "readme.txt").write_text("HDF5 does not open this")
    found = examine(HDF5_PLUGIN_PATH=str(tmp_path))
    (problem,) = [p for p in found["problems"] if "libh5other.so" in p["what"]]
    assert not problem["matters"] and "readme" not in json.dumps(found["problems"])
    (tmp_path / "libgridz.so").write_bytes(b"no library")
    assert not examine(4, HDF5_PLUGIN_PATH=str(tmp_path))["ok"]


def test_plugins_switched_off_is_a_problem():
    found = examine(4, HDF5_PLUGIN_PRELOAD="::")
    assert not found["ok"] and not any(host.get("works") for host in found["hosts"])
    assert any("unset HDF5_PLUGIN_PRELOAD" in problem["remedy"] for problem in found["problems"])


def test_a_wrong_variable_is_a_problem():
    assert any("GRIDZ_CPU_LEVEL" in problem["what"] for problem in examine(4, GRIDZ_CPU_LEVEL="fastest")["problems"])


def test_a_probe_that_dies_is_reported():
    assert "ended with status" in doctor._run_text("import os; os.abort()")["error"]
