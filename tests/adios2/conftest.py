"""gridz as an operator of ADIOS2, in ADIOS2's own Python package and in C++ programs that are
linked with that package.

`make install` and `make install-adios2` install the library and the plugin in a separate folder;
the tests use only that folder. Tests that might crash, or need another environment, run in a
separate process.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support import WHEEL, Gridz, make


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The folder where gridz and its plugin are installed, for all tests."""
    prefix = tmp_path_factory.mktemp("prefix") / "gridz"
    make("install", PREFIX=prefix)
    assert f"{prefix}/lib/adios2/plugin/libgridz_adios2.so" in make("install-adios2", PREFIX=prefix, ADIOS2=WHEEL)
    return prefix


@pytest.fixture(scope="session", autouse=True)
def plugin(prefix):
    """The plugin, in a folder that ADIOS2 searches."""
    for name in [name for name in os.environ if name.startswith("GRIDZ_")]:
        del os.environ[name]
    os.environ["ADIOS2_PLUGIN_PATH"] = str(prefix / "lib/adios2/plugin")
    return prefix / "lib/adios2/plugin/libgridz_adios2.so"


@pytest.fixture(scope="session")
def gridz(prefix):
    """The library."""
    return Gridz(prefix)
