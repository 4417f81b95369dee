"""gridz as somebody has it who installed it and does not know Rust.

`make install` puts what `make` built into a folder of its own. Against that, and never against the sources, programs
in C, C++ and Fortran are compiled, by pkg-config and by CMake, with warnings as errors; parallel ones run under
mpirun; and all that the documentation tells to type is typed.
"""

import pytest

from support import Installed, make


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Where gridz is installed, for all tests."""
    prefix = tmp_path_factory.mktemp("prefix") / "gridz"
    make("install", PREFIX=prefix)
    return prefix


@pytest.fixture
def installed(prefix, tmp_path):
    """The installation, with an empty folder."""
    return Installed(prefix, tmp_path)
