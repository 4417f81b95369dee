"""The Python package as users have it: installed from a wheel, with no variable set."""

import os
import pathlib

import gridz

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure():
    """The tests choose the settings themselves, and never run the package from the source tree."""
    if pathlib.Path(gridz.__file__).is_relative_to(ROOT / "python"):
        raise SystemExit("tests/python runs the installed package: make test-python")
    for name in [name for name in os.environ if name.startswith(("GRIDZ_", "HDF5_PLUGIN_"))]:
        del os.environ[name]
