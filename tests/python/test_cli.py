"""The commands on arrays outside HDF5, and common features of all commands: exit codes, JSON, help,
the manual page."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib

import click
import numpy as np
import pytest
from click.testing import CliRunner

import gridz
from gridz.cli import COMMANDS, main
from gridz.cli.raw import dtype_of, shape_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELD = np.sin(np.arange(20 * 30 * 40, dtype="f4") / 1e3).reshape(20, 30, 40)


def run(*args, code=0):
    """Runs a command and returns its stdout; the exit code must be `code`."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output if code else result.stdout


@pytest.fixture
def field(tmp_path):
    np.save(tmp_path / "field.npy", FIELD)
    return tmp_path / "field.npy"


def test_npy_there_and_back(field, tmp_path):
    run("compress", field, "--verify")
    assert gridz.inspect((tmp_path / "field.npy.gridz").read_bytes()).shape == FIELD.shape
    before = field.read_bytes()
    field.unlink()
    run("decompress", tmp_path / "field.npy.gridz")
    assert field.read_bytes() == before


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">i2", "u1", "<c8"])
def test_raw_there_and_back(tmp_path, dtype):
    raw, frame, back = tmp_path / "x.raw", tmp_path / "x.gridz", tmp_path / "back.npy"
    array = FIELD.astype(dtype)
    array.tofile(raw)
    document = json.loads(
        run("compress", raw, "--dtype", dtype, "--shape", "20x30x40", "-o", frame, "--verify", "--json")
    )
    assert document["frame_bytes"] == frame.stat().st_size and document["verified"] == "bit for bit"
    run("decompress", frame, "-o", back)
    read = np.load(back)
    assert read.dtype == array.dtype and read.tobytes() == array.tobytes()


def test_the_bound_is_kept_and_reported(field, tmp_path):
    out = tmp_path / "x.gridz"
    document = json.loads(run("compress", field, "-o", out, "--codec", "quant,abs=1e-3", "--verify", "--json"))
    error = np.abs(gridz.decompress(out.read_bytes()).astype("f8") - FIELD).max()
    assert 0 < document["largest_error"] <= 1e-3 and document["largest_error"] == error


def test_no_file_is_replaced_or_left_behind(field, tmp_path):
    out = tmp_path / "x.gridz"
    out.write_bytes(b"precious")
    assert "--force" in run("compress", field, "-o", out, code=3)
    run("compress", field, "-o", out, "--force", "--codec", "nothing", code=2)
    out_of_a_damaged_one = tmp_path / "y"
    run("decompress", out, "-o", out_of_a_damaged_one, code=1)
    assert out.read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["field.npy", "x.gridz"]
    run("compress", field, "-o", out, "--force")
    assert out.stat().st_mode & 0o777 == field.stat().st_mode & 0o777


def test_a_damaged_frame_is_an_error_of_the_data(field, tmp_path):
    out = tmp_path / "x.gridz"
    run("compress", field, "-o", out)
    frame = bytearray(out.read_bytes())
    frame[len(frame) // 2] ^= 1
    out.write_bytes(frame)
    assert run("decompress", out, "-o", tmp_path / "x.raw", code=1).startswith("gridz: ")
    assert not (tmp_path / "x.raw").exists()


def test_wrong_arguments_name_the_remedy(tmp_path):
    raw = tmp_path / "x.raw"
    raw.write_bytes(bytes(100))
    assert "--dtype" in run("compress", raw, code=2)
    assert "100 bytes" in run("compress", raw, "--dtype", "f32", "--shape", "3x4", code=2)
    assert "f32" in run("compress", raw, "--dtype", "f33", "--shape", "25", code=2)
    assert "100x500x500" in run("compress", raw, "--dtype", "f32", "--shape", "5by5", code=2)
    assert "-o" in run("decompress", raw, code=2)


@pytest.mark.parametrize(
    "name, meant",
    [("f32", "<f4"), ("f64", "<f8"), ("f4", "<f4"), ("float32", "<f4"), (">f4", ">f4"), ("f16", "<f2"), ("i16", "<i2"),
     ("uint8", "u1"), ("c64", "<c8"), ("c16", "<c16"), (">i32", ">i4"), ("u8", "<u8")],
)  # fmt: skip
def test_names_of_types(name, meant):
    assert dtype_of(name) == np.dtype(meant)


def test_shapes():
    assert shape_of("512x4x3") == shape_of("512,4,3") == (512, 4, 3)
    with pytest.raises(click.BadParameter):
        shape_of("x3")


@pytest.mark.parametrize("codec", ["lorenzo", "lorenzo,level=dense", "quant,abs=1e-3", "quant,pwrel=0.01", "stored"])
def test_cd_values_there_and_back(codec):
    document = json.loads(run("cd-values", codec, "--json"))
    assert tuple(document["cd_values"]) == gridz.parse(codec).filter_options
    assert json.loads(run("cd-values", *document["cd_values"], "--json")) == document
    numbers = ",".join(map(str, document["cd_values"]))
    assert f"UD=34013,0,{len(document['cd_values'])},{numbers} " in document["h5repack"]


def test_cd_values_of_a_relative_bound_are_refused():
    assert "range" in run("cd-values", "quant,rel=1e-3", code=2)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_json(name):
    text = run(name, "--help")
    assert "Examples:" in text and f"gridz {name}" in text and "--json" in text


def test_the_manual_page_is_that_of_the_commands():
    spec = importlib.util.spec_from_file_location("man_page", ROOT / "scripts" / "man_page.py")
    man_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(man_page)
    page = (ROOT / "docs" / "gridz.1").read_text()
    assert page == man_page.page(), "regenerate it: python scripts/man_page.py > docs/gridz.1"
    with click.Context(main) as ctx:
        for name in COMMANDS:
            for parameter in main.get_command(ctx, name).params:
                for option in parameter.opts if isinstance(parameter, click.Option) else ():
                    assert option.replace("-", r"\-") in page, (name, option)
