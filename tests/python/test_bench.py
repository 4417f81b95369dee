"""`gridz bench` reports correct measurements, of the correct part of the data."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import gridz
from gridz import bench
from gridz.cli import main

FIELD = np.sin(np.arange(64 * 32 * 32, dtype="f4") / 1e3).reshape(64, 32, 32)


def run(*args, code=0):
    result = CliRunner().invoke(main, ["bench", "--repeats", "1", *map(str, args)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output if code else result.stdout


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("group/field", data=FIELD, chunks=(8, 32, 32))
        f["small"] = np.arange(10)
        f["text"] = "no numbers"
    return tmp_path / "x.h5"


def test_samples_are_whole_chunks_of_the_middle():
    box = bench.box_of((100, 20, 30), 4, (10, 20, 30), 50_000)
    assert box == (slice(40, 60), slice(0, 20), slice(0, 30))
    assert bench.box_of((4, 4), 8, (4, 4), 1 << 20) == (slice(0, 4), slice(0, 4))


def test_chunks_are_long_along_the_last_axes():
    assert bench.chunks_for((1000, 512, 512), 4) == (4, 512, 512)
    assert bench.chunks_for((3, 5), 8) == (3, 5)


def test_every_codec_is_measured(file):
    (found,) = json.loads(run(file, "--abs", "1e-3", "--json"))
    assert found["dataset"] == found["part"] == "group/field" and found["chunks"] == [8, 32, 32]
    results = {result["label"]: result for result in found["results"]}
    takes = {info.name: FIELD.dtype in info.dtypes for info in gridz.codecs()}
    assert {label.split()[1].partition(",")[0] for label in results if label.startswith("gridz ")} == {n for n in takes if takes[n]}
    assert sum(takes.values()) >= 5 and not takes["cci"]
    assert all(result["error"] == "" and result["write_gb_s"] > 0 for result in results.values()), results
    frame = gridz.compress(FIELD[:8], "lorenzo")
    assert results["gridz lorenzo,level=fast"]["ratio"] == pytest.approx(8192 * 4 / len(frame), rel=0.2)
    bounded = [result for label, result in results.items() if label.startswith("gridz quant")]
    (quant,) = (info for info in gridz.codecs() if info.name == "quant")
    assert len(bounded) == len(quant.levels) > 1
    assert all(0 < result["max_error"] <= 1e-3 and not result["is_lossless"] for result in bounded)
    assert any("quant" in sentence for sentence in found["advice"])


def test_bulk(file):
    (found,) = json.loads(run(file, "--codec", "lorenzo", "--codec", "quant,abs=1e-3", "--bulk", "--json"))
    one, one_in_bulk, two, two_in_bulk = found["results"]
    assert one_in_bulk["label"] == one["label"] + ", bulk" and not two_in_bulk["error"]
    assert one_in_bulk["ratio"] == one["ratio"] and two_in_bulk["max_error"] == two["max_error"] > 0


def test_wrong_values_of_a_lossless_codec_are_reported():
    sample = bench.sample_of("x", FIELD, 1 << 20)
    lossy = bench.Candidate("x", dict(**gridz.parse("quant,abs=0.1")), is_lossless=True)
    assert "differ" in bench.measure(sample, lossy, 1).error


def test_small_chunks_are_advised_against(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=FIELD, chunks=(4, 4, 4))
    assert "16 KiB" in run(tmp_path / "x.h5", "--codec", "lorenzo")


def test_raw_files_and_pictures(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture")
    FIELD.tofile(tmp_path / "x.raw")
    run(tmp_path / "x.raw", "--dtype", "f32", "--shape", "64x32x32", "--codec", "lorenzo", "--png", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_wrong_arguments(file):
    assert "no dataset" in run(file, "--dataset", "nothing", code=2)
    run(file, "--abs", "1", "--rel", "1", code=2)
    assert "numbers" in run(file, "--dataset", "text", code=2)
