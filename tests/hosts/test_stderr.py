"""gridz prints to stderr, and never into a file that has become descriptor 2."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from support import GRIDZ, MULTIGRID, PLUGIN, options

NOTE = "drifts"
"""A word of the line that is printed when a dataset with multigrid is created."""

PROGRAM = """
import os, sys, h5py, numpy as np
path, options, how = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
if how == "closed later":
    os.close(2)
file = h5py.File(path, "r+", **({"driver": "stdio"} if how == "stdio" else {}))
if how != "open":
    assert os.path.samefile(path, "/proc/self/fd/2"), "the file is not descriptor 2"
file.create_dataset("x", data=np.sin(np.arange(1e4)), chunks=(1000,), compression=34013, compression_opts=options)
file.close()
"""


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("how", ["closed at start", "closed later", "stdio"])
def test_a_file_on_descriptor_2_is_left_alone(tmp_path, libver, how):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["old"], file.attrs["a"], file["g/y"] = np.arange(1000.0), 1, np.arange(10)
    values = options(MULTIGRID, 1, 1e-3)
    command = [sys.executable, "-c", PROGRAM, str(path), repr(values), how]
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(PLUGIN.parent)}
    redirection = "" if how == "closed later" else " 2>&-"
    done = subprocess.run(["sh", "-c", f'exec "$@"{redirection}', "sh", *command], env=environment)
    assert done.returncode == 0
    with h5py.File(path) as file:
        assert file["old"][999] == 999 and file["g/y"][9] == 9 and file.attrs["a"] == 1
        assert np.abs(file["x"][()] - np.sin(np.arange(1e4))).max() <= 1e-3
        assert file["x"].id.get_create_plist().get_filter_by_id(GRIDZ) is not None


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_log_file_gets_the_notes(tmp_path, mode):
    path, log = tmp_path / "x.h5", tmp_path / "log"
    h5py.File(path, "w").close()
    values = options(MULTIGRID, 1, 1e-3)
    with open(log, mode) as stderr:
        command = [sys.executable, "-c", PROGRAM, str(path), repr(values), "open"]
        subprocess.run(command, env={**os.environ, "HDF5_PLUGIN_PATH": str(PLUGIN.parent)}, stderr=stderr, check=True)
    assert NOTE in log.read_text()
