"""gridz as installed by a user who does not know Rust.

`make install` copies the build to a separate folder. Programs in C, C++ and Fortran are compiled
against that folder, never against the sources, by pkg-config and by CMake, with warnings as errors.
Parallel programs run under mpirun, and all commands that the documentation shows are run.
"""

import os
from pathlib import Path

import pytest

from support import ROOT, Installed, make


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The installation's folder, for all tests."""
    prefix = tmp_path_factory.mktemp("prefix") / "gridz"
    make("install", PREFIX=prefix)
    return prefix


@pytest.fixture(scope="session")
def cuda(prefix, tmp_path_factory):
    """Environment variables for the CUDA runtime from PyPI, laid out as by NVIDIA's installer.

    Set only for tests that use it: cargo rebuilds if CUDA_HOME changes.
    """
    packages = ROOT.glob(".venv-cuda/lib/python3*/site-packages/nvidia/cu13/bin/nvcc")
    for nvcc in [Path(os.environ["NVCC"])] if os.environ.get("NVCC") else packages:
        toolkit = nvcc.resolve().parents[1]
        libraries = sorted(toolkit.glob("lib*/libcudart.so.*"))
        if libraries and (toolkit / "include/cuda_runtime_api.h").exists():
            home = tmp_path_factory.mktemp("cuda")
            (home / "include").symlink_to(toolkit / "include")
            (home / "lib64").mkdir()
            for name in ["libcudart.so", ".".join(libraries[0].name.split(".")[:3])]:
                (home / "lib64" / name).symlink_to(libraries[0])
            return {"CUDA_HOME": str(home), "NVCC": str(nvcc), "LD_LIBRARY_PATH": f"{prefix}/lib:{home}/lib64"}
    pytest.skip("no CUDA runtime here")


@pytest.fixture
def installed(prefix, tmp_path):
    """The installation, with an empty folder."""
    return Installed(prefix, tmp_path)
