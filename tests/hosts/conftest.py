"""The HDF5 filter in the programs people use it from.

Every host has its own libhdf5: the wheels of h5py (2.0), netCDF4 (2.2) and tables (1.14), and the
distribution's (1.10) in its command-line tools and in the C programs of `c/`. All of them load the
one plugin that `make` built, from the folder that HDF5_PLUGIN_PATH names, or else from
target/plugin.

Tests that set environment variables, or might crash, run in a separate process.
"""

import os

import numpy
import pytest

from support import PLUGIN


def pytest_configure():
    """Selects the plugin before any libhdf5 is loaded: each reads the variable when it starts."""
    if not PLUGIN.is_file():
        pytest.exit(f"{PLUGIN} does not exist: run make first", returncode=2)
    os.environ["HDF5_PLUGIN_PATH"] = str(PLUGIN.parent)
    # The tests choose the settings themselves.
    settings = {name for name in os.environ if name.startswith("GRIDZ_")}
    for name in settings - {"GRIDZ_SHARED", "GRIDZ_REQUIRE_SHARED"} | {"HDF5_PLUGIN_PRELOAD"}:
        os.environ.pop(name, None)


@pytest.fixture
def rng():
    """Reproducible random numbers."""
    return numpy.random.default_rng(34013)
