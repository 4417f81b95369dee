"""Every committed golden frame, decoded by a decoder that is nothing but src/format/SPEC.md."""

import hashlib
import pathlib
import tomllib

import pytest

from decode import decode
from parts import Damage, Later

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def rows(folder):
    return tomllib.loads((GOLDEN / folder / "MANIFEST.toml").read_text())["frame"]


@pytest.mark.parametrize("row", rows("v2"), ids=lambda row: row["file"])
def test_frames_are_decoded(row):
    array = decode((GOLDEN / "v2" / row["file"]).read_bytes())
    assert hashlib.sha256(array).hexdigest() == row["array_sha256"]


@pytest.mark.parametrize("row", rows("v2_reject"), ids=lambda row: row["file"])
def test_bad_frames_are_refused(row):
    with pytest.raises(Later if row["error"] == "UnsupportedFormat" else Damage):
        decode((GOLDEN / "v2_reject" / row["file"]).read_bytes())
