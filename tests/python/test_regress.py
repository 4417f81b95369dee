"""Tests when `scripts/regress` passes and fails."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from gridz import _native

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "regress"


@pytest.fixture(scope="module")
def regress():
    spec = importlib.util.spec_from_loader("regress", importlib.machinery.SourceFileLoader("regress", str(SCRIPT)))
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def speeds(regress, *ratios):
    return [regress.speed_of(f"row {i}", "compress", 10**9, [[(r, 1.0)]] * 3, [[0.1]] * 3, False) for i, r in enumerate(ratios)]


SAME = {"a": [100, 100, True], "b": [200, 200, False]}


def test_a_speed_is_the_median_of_the_medians_of_processes(regress):
    processes = [[(2.0, 1.0), (1.0, 1.0), (1.0, 1.0)], [(1.1, 1.0)], [(0.9, 1.0), (0.9, 1.0)], [(3.0, 1.0)], [(1.2, 1.0)]]
    speed = regress.speed_of("x", "compress", 2 * 10**9, processes, [[0.5, 0.5, 4.0]], False)
    assert speed.ratio == 1.1 and speed.spread == pytest.approx(0.1), "of .9, 1, 1.1, 1.2 and 3"
    assert (speed.old, speed.new, speed.memcpy, speed.pairs) == (2 / 1.05, 2.0, 4.0, 8)


@pytest.mark.parametrize(
    "ratios, n_problems",
    [
        ([1.0, 1.0, 1.0], 0),
        ([1.1, 0.931, 1.0], 0),  # one slow row that is above the limit
        ([1.1, 0.929, 1.1], 1),  # one that is below
        ([0.975, 0.966, 0.971], 0),  # the mean is .9707
        ([0.968, 0.968, 0.969], 1),  # the mean is below its limit, no row is
        ([0.9, 0.9, 1.0], 3),
        ([], 1),  # nothing was measured
    ],
)
def test_slow_rows_and_slow_means_fail(regress, ratios, n_problems):
    problems = regress.verdict(SAME, speeds(regress, *ratios), [], False)
    assert len(problems) == n_problems, problems


@pytest.mark.parametrize(
    "sizes, may_change, n_problems",
    [
        (SAME, False, 0),
        ({**SAME, "c": [100, 99, False]}, False, 0),
        ({**SAME, "c": [100, 101, False]}, False, 1),
        ({**SAME, "c": [100, 101, False]}, True, 0),
        ({**SAME, "c": [-1, 100, False]}, False, 0),  # a new codec
        ({**SAME, "c": [100, -1, False]}, True, 1),  # a codec that was removed
        ({"c": [-1, 100, False]}, True, 1),  # no frame size is available in both
    ],
)
def test_larger_frames_and_lost_ones_fail(regress, sizes, may_change, n_problems):
    problems = regress.verdict(sizes, speeds(regress, 1.0), [], may_change)
    assert len(problems) == n_problems, problems


def test_refused_rows_fail_if_the_new_library_refuses(regress):
    refused = [("x", "old", "no codec 9"), ("y", "new", "no codec 8")]
    (problem,) = regress.verdict(SAME, speeds(regress, 1.0), refused, False)
    assert "y" in problem and "no codec 8" in problem


def test_the_size_table_has_every_codec_level_and_mode(regress):
    library = regress.Library(_native.LIBRARY)
    requests = list(regress.requests_of(library))
    found = {(request.codec, request.level, request.mode) for request in requests}
    infos = [_native.struct("gridz_codec") for _ in range(_native.lib.gridz_codec_count())]
    for index, info in enumerate(infos):
        _native.check(_native.lib.gridz_codec_info(index, info))
    n_listed = sum(max(info.n_levels, 1) * bin(info.modes).count("1") for info in infos)
    assert len(found) == n_listed >= 20
    rows = {(row.request.codec, row.request.level) for row in regress.ROWS}
    assert {(codec, level) for codec, level, _ in found} == rows, "each codec and level needs a row in ROWS"


@pytest.mark.parametrize("grow, status", [(0, 0), (1, 1)])
def test_exit_status_and_json(regress, tmp_path, monkeypatch, capsys, grow, status):
    """The whole command, except for the self-test's change of the new library."""
    start = regress.Comparison.run
    monkeypatch.setattr(regress.Comparison, "run", lambda self, *args, **task: start(self, *args, **{**task, "grow": grow}))
    library, file = str(_native.LIBRARY), tmp_path / "x.json"
    words = ["--old", library, "--new", library, "--no-speeds", "--only", "f64 127x129", "--json", str(file)]
    assert regress.main(words) == status
    found = json.loads(file.read_text())
    assert len(found["sizes"]) >= 50 and len(found["problems"]) == status
    assert ("FAILED" if status else "passed") in capsys.readouterr().out


def test_it_fails_if_the_library_is_slow_and_passes_if_not():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--self-test", "--new", str(_native.LIBRARY)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "4 of 4 are right" in done.stdout, (done.stdout, done.stderr)


def test_a_file_that_is_no_library_is_an_error(tmp_path):
    (tmp_path / "x.so").write_text("no library")
    words = ["--old", str(tmp_path / "x.so"), "--new", str(_native.LIBRARY)]
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "not a usable libgridz.so" in done.stderr, (done.stdout, done.stderr)
