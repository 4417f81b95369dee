"""Skips that `make test` counts."""

import os
import pathlib

import pytest

LOG = pathlib.Path(__file__).resolve().parents[1] / "target" / "skips.log"


def skip(reason):
    """Skips the running test and logs that in target/skips.log."""
    LOG.parent.mkdir(exist_ok=True)
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)").removesuffix(" (setup)")
    with LOG.open("a") as out:
        out.write(f"{test}: SKIPPED, {reason}\n")
    pytest.skip(reason)
