"""Blocks, steps and selections; several variables, engines, threads and processes; requests in XML."""

import subprocess
import sys
import threading

import adios2
import numpy as np
import pytest

from support import PLUGIN, Writer, field, frames, noise, payload, python

SHAPE = (60, 50, 20)
BOUND = 1e-3


def state(step, seed=0):
    """The whole array of a step."""
    return field(SHAPE, "float64", step + 100 * seed) * (1 + step)


def cuts(rng, n, parts):
    """Random cuts of an axis of n elements into parts. Some parts may be empty."""
    inner = sorted(int(x) for x in rng.integers(0, n + 1, parts - 1))
    return list(zip([0, *inner], [*inner, n]))


def blocks(rng):
    """Boxes of irregular sizes that cover the array."""
    return [(slice(*a), slice(*b), slice(*c)) for a in cuts(rng, SHAPE[0], 3) for b in cuts(rng, SHAPE[1], 2)
            for c in cuts(rng, SHAPE[2], 2)]  # fmt: skip


def write_blocks(path, request, n_steps=3, engine="BP5", seed=0):
    """Writes a file whose blocks differ from step to step, with a second variable under another
    request and a third one without operator."""
    rng = np.random.default_rng(seed)
    n_blocks = 0
    with Writer(path, engine) as writer:
        bounded = writer.define("bounded", "float64", SHAPE, request)
        exact = writer.define("exact", "int32", SHAPE, {"gridz": "lorenzo,level=dense"})
        plain = writer.define("plain", "float64", SHAPE, None)
        for step in range(n_steps):
            writer.step()
            whole = state(step, seed)
            for box in blocks(rng):
                start = [axis.start for axis in box]
                writer.put(bounded, whole[box], start)
                writer.put(exact, (whole[box] * 1000).astype("int32"), start)
                writer.put(plain, whole[box], start)
                n_blocks += 2
            writer.end_step()
    return n_blocks


@pytest.mark.parametrize("engine", ["BP5", "BP4"])
def test_selections(tmp_path, engine):
    """Random boxes of each step, across blocks, some of them empty."""
    n_blocks = write_blocks(tmp_path / "b.bp", {"codec": "quant", "abs": str(BOUND), "level": "2"}, engine=engine)
    assert len(frames(tmp_path / "b.bp")) == n_blocks if engine == "BP5" else True
    rng = np.random.default_rng(7)
    with adios2.FileReader(str(tmp_path / "b.bp")) as f:
        for step in range(3):
            whole = state(step)
            for _ in range(20):
                start = [int(rng.integers(0, n)) for n in SHAPE]
                count = [int(rng.integers(1, n - s + 1)) for s, n in zip(start, SHAPE)]
                wanted = whole[tuple(slice(s, s + c) for s, c in zip(start, count))]
                back = {name: f.read(name, start, count, step_selection=[step, 1]) for name in ["bounded", "exact", "plain"]}
                assert np.abs(back["bounded"].reshape(count) - wanted).max() <= BOUND
                assert (back["exact"].reshape(count) == (wanted * 1000).astype("int32")).all()
                assert (back["plain"].reshape(count) == wanted).all()


def test_step_by_step(tmp_path):
    """Another shape in each step, read as a stream."""
    shapes = [(30, 40), (10, 70), (33, 3)]
    with Writer(tmp_path / "s.bp") as writer:
        variable = writer.define("x", "float32", shapes[0], {"codec": "lorenzo"})
        for step, shape in enumerate(shapes):
            writer.step()
            variable.set_shape(list(shape))
            writer.put(variable, field(shape, "float32", step), (0, 0))
            writer.end_step()
    with adios2.Stream(str(tmp_path / "s.bp"), "r") as stream:
        for step in stream.steps():
            n = step.current_step()
            assert (step.read("x") == field(shapes[n], "float32", n)).all()
    assert n == 2


def test_local_arrays(tmp_path):
    """Local arrays, without a global shape: each block is read by its number."""
    with Writer(tmp_path / "l.bp") as writer:
        variable = writer.io.define_variable("x", np.zeros(1), [], [], [7, 9])
        operator = writer.adios.define_operator("o", "plugin", PLUGIN | {"codec": "lorenzo"})
        variable.add_operation(operator)
        writer.step()
        for n in range(3):
            variable.set_selection([[], [7 + n, 9]])
            writer.put(variable, noise((7 + n, 9), "float64", n))
        writer.end_step()
    assert len(frames(tmp_path / "l.bp")) == 3
    with adios2.FileReader(str(tmp_path / "l.bp")) as f:
        for n in range(3):
            assert (f.read("x", block_id=n).reshape(7 + n, 9) == noise((7 + n, 9), "float64", n)).all()


def test_deferred(tmp_path):
    """Deferred puts, which wait until the end of the step, are compressed like all others."""
    arrays = [field((40, 41), "float64", n) for n in range(4)]
    with Writer(tmp_path / "d.bp") as writer:
        variable = writer.define("x", "float64", (160, 41), {"codec": "lorenzo"})
        writer.step()
        for n, array in enumerate(arrays):
            variable.set_selection([[40 * n, 0], [40, 41]])
            writer.stream.engine.put(variable, array, adios2.bindings.Mode.Deferred)
        writer.stream.engine.perform_puts()
        writer.end_step()
    with adios2.FileReader(str(tmp_path / "d.bp")) as f:
        assert (f.read("x") == np.concatenate(arrays)).all()


def test_threads_do_not_matter(tmp_path):
    """The bytes of a block do not depend on the number of threads, or on how the request is
    written: as text or as single parameters."""
    array = field((120, 130, 60), "float32")
    requests = [{"gridz": "quant,abs=1e-4,level=dense"}, {"codec": "quant", "abs": "1e-4", "level": "2", "threads": "1"},
                {"codec": "quant,level=2", "abs": "0.0001", "threads": "4", "backend": "cpu"}]  # fmt: skip
    written = []
    for n, request in enumerate(requests):
        with Writer(tmp_path / f"{n}.bp") as writer:
            variable = writer.define("x", "float32", array.shape, request)
            writer.step()
            writer.put(variable, array)
            writer.end_step()
        data = payload(tmp_path / f"{n}.bp")
        written.append(data[data.index(b"GRDZ") :])
    assert written[0] == written[1] == written[2]


def test_threads_of_a_reader(tmp_path):
    """ADIOS2 reads blocks with several threads."""
    write_blocks(tmp_path / "t.bp", {"codec": "quant", "abs": str(BOUND)})
    adios = adios2.Adios()
    io = adios.declare_io("reader")
    io.set_parameters({"Threads": "4"})
    with adios2.Stream(io, str(tmp_path / "t.bp"), "r") as stream:
        for step in stream.steps():
            assert np.abs(step.read("bounded") - state(step.current_step())).max() <= BOUND


def test_files_at_the_same_time(tmp_path):
    """Several threads of a program, each with its own ADIOS2 object and file."""
    errors = []

    def write_and_read(n):
        try:
            write_blocks(tmp_path / f"{n}.bp", {"codec": "quant", "abs": str(BOUND)}, seed=n)
            with adios2.FileReader(str(tmp_path / f"{n}.bp")) as f:
                assert np.abs(f.read("bounded", step_selection=[2, 1]).reshape(SHAPE) - state(2, n)).max() <= BOUND
        except Exception as error:
            errors.append(error)

    write_blocks(tmp_path / "first.bp", {"codec": "lorenzo"})  # ADIOS2 loads plugins without a lock
    threads = [threading.Thread(target=write_and_read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_blocks import BOUND, write_blocks
n = int(sys.argv[2])
write_blocks(f"{n}.bp", {"codec": "quant", "abs": str(BOUND)}, seed=n)
"""


@pytest.mark.parametrize("n_processes", [1, 2, 4])
def test_processes(tmp_path, n_processes):
    """Parallel writers like ranks, but without MPI, which ADIOS2's Python package lacks; one
    process reads all files."""
    here = str(__file__).rsplit("/", 1)[0]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, here, str(n)], cwd=tmp_path) for n in range(n_processes)]
    assert [writer.wait(120) for writer in writers] == [0] * n_processes
    for n in range(n_processes):
        with adios2.FileReader(str(tmp_path / f"{n}.bp")) as f:
            for step in range(3):
                back = f.read("bounded", step_selection=[step, 1]).reshape(SHAPE)
                assert np.abs(back - state(step, n)).max() <= BOUND


STREAM_READER = """
import sys, adios2, numpy as np
sys.path.insert(0, sys.argv[1])
from test_blocks import BOUND, state
adios = adios2.Adios()
io = adios.declare_io("reader")
io.set_engine("SST")
io.set_parameters({"OpenTimeoutSecs": "60"})
with adios2.Stream(io, "sst", "r") as stream:
    for step in stream.steps():
        n = step.current_step()
        assert np.abs(step.read("bounded") - state(n)).max() <= BOUND
        assert np.abs(step.read("bounded", [10, 20, 3], [30, 9, 8]) - state(n)[10:40, 20:29, 3:11]).max() <= BOUND
assert n == 2
"""


def test_sst(tmp_path):
    """Transfers data from one program to another, without a file."""
    here = str(__file__).rsplit("/", 1)[0]
    reader = subprocess.Popen([sys.executable, "-c", STREAM_READER, here], cwd=tmp_path)
    try:
        code = f"""
import sys
sys.path.insert(0, {here!r})
from test_blocks import BOUND, write_blocks
write_blocks("sst", {{"codec": "quant", "abs": str(BOUND)}}, engine="SST")
"""
        python(code, tmp_path)
        assert reader.wait(120) == 0
    finally:
        reader.kill()


XML = """<?xml version="1.0"?>
<adios-config>
  <io name="writer">
    <engine type="BP5"/>
    <variable name="bounded">
      <operation type="plugin">
        <parameter key="PluginName" value="gridz"/>
        <parameter key="PluginLibrary" value="gridz_adios2"/>
        <parameter key="Codec" value="quant"/>
        <parameter key="ABS" value="1e-3"/>
        <parameter key="Level" value="dense"/>
      </operation>
    </variable>
    <variable name="exact">
      <operation type="plugin">
        <parameter key="PluginName" value="gridz"/>
        <parameter key="PluginLibrary" value="gridz_adios2"/>
        <parameter key="gridz" value="lorenzo,level=dense"/>
      </operation>
    </variable>
  </io>
</adios-config>
"""


def test_xml(tmp_path, gridz):
    """Requests in an XML file: the program names no operator. Keys are case-insensitive."""
    (tmp_path / "c.xml").write_text(XML)
    array = field((60, 61), "float64")
    with Writer(tmp_path / "x.bp", config=tmp_path / "c.xml") as writer:
        variables = [writer.define(name, "float64", array.shape, None) for name in ["bounded", "exact"]]
        writer.step()
        for variable in variables:
            writer.put(variable, array)
        writer.end_step()
    data = payload(tmp_path / "x.bp")
    assert gridz.frame(array, "quant,abs=1e-3,level=dense") in data and gridz.frame(array, "lorenzo,level=dense") in data
    with adios2.FileReader(str(tmp_path / "x.bp")) as f:
        assert np.abs(f.read("bounded") - array).max() <= BOUND and (f.read("exact") == array).all()
