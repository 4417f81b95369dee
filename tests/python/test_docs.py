"""The programs of docs/python.md and docs/zarr.md run as they stand there."""

import re
import subprocess
import sys

import pytest

from conftest import ROOT

TEXTS = [(ROOT / "docs" / name).read_text() for name in ("python.md", "zarr.md")]
BLOCKS = [block for text in TEXTS for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)]


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_block(tmp_path, block):
    done = subprocess.run([sys.executable, "-c", BLOCKS[block]], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_there_are_some():
    assert len(BLOCKS) == 8
