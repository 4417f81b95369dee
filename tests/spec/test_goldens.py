"""Decodes every committed golden frame with a decoder that is written only from src/format/SPEC.md,
and compares the frames that docs/frames.md shows byte by byte."""

import hashlib
import pathlib
import re
import tomllib

import pytest

from decode import decode
from parts import Damage, Later

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def rows(folder):
    return tomllib.loads((GOLDEN / folder / "MANIFEST.toml").read_text())["frame"]


@pytest.mark.parametrize("row", rows("v8"), ids=lambda row: row["file"])
def test_frames_are_decoded(row):
    frame = (GOLDEN / "v8" / row["file"]).read_bytes()
    assert hashlib.sha256(decode(frame)).hexdigest() == row["array_sha256"]


@pytest.mark.parametrize("row", rows("v8_reject"), ids=lambda row: row["file"])
def test_bad_frames_are_refused(row):
    with pytest.raises(Later if row["error"] == "UnsupportedFormat" else Damage):
        decode((GOLDEN / "v8_reject" / row["file"]).read_bytes())


def test_annotated_frames_are_goldens():
    text = (ROOT / "docs/frames.md").read_text()
    intro, *tables = text.split("| offset | bytes | meaning |")
    names = re.findall(r"`(\w+/\w+)`", intro)
    assert len(names) == len(tables) == 2
    for name, table in zip(names, tables):
        frame = b""
        for offset, code, meaning in re.findall(r"^\| (\d+) \| `([0-9a-f ]+)` \| (.*) \|$", table, re.MULTILINE):
            assert int(offset) == len(frame), f"{name}, offset {offset}"
            field = bytes.fromhex(code)
            for number in re.findall(r"0x([0-9A-F]+)", meaning):
                assert bytes.fromhex(number)[::-1] in field, f"{name}, offset {offset}: 0x{number}"
            frame += field
        assert frame == (GOLDEN / "v8" / f"{name}.gridz").read_bytes(), name
