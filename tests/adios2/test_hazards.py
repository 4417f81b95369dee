"""Hazards of ADIOS2 operators, each as a test: errors that get lost, buffers that are too small,
libraries that are missing or of another version. docs/adios2.md documents those that gridz cannot
prevent."""

import re
import shutil

import adios2
import numpy as np
import pytest

from support import PLUGIN, ROOT, WHEEL, Writer, field, frames, make, payload, python, run

WRITE = """
import sys, adios2, numpy as np
plugin = {"PluginName": "gridz", "PluginLibrary": "gridz_adios2"}
adios = adios2.Adios()
io = adios.declare_io("writer")
io.set_engine("BP5")
variable = io.define_variable("x", np.zeros(1), [10, 20], [0, 0], [10, 20])
"""


def test_bad_parameters(tmp_path):
    """The first Put raises an exception for them, and so does each later Put. An earlier call does
    not: there ADIOS2 would abort. Raw data is never written instead."""
    code = WRITE + """
variable.add_operation_string("plugin", plugin | {"codec": "quant", "abs": "much"})  # noexcept in ADIOS2
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
for _ in range(2):
    try:
        engine.put(variable, np.zeros((10, 20)), adios2.bindings.Mode.Sync)
    except RuntimeError as error:
        print("error:", error)
sys.stdout.flush()
import os
os._exit(7)
"""
    output = python(code, tmp_path, 7)
    assert output.count("error: abs=much is not valid: write abs=NUMBER, where NUMBER is a decimal number such as 16 or 1e-3") == 2
    assert output.count("gridz_adios2: abs=much") == 1


def test_error_is_seen(tmp_path):
    """Python closes the file before it shows an exception, and ADIOS2 may crash there: the cause is
    on stderr anyway."""
    code = WRITE + """
variable.add_operation(adios.define_operator("o", "plugin", plugin | {"codec": "lorenzo", "colour": "red"}))
with adios2.Stream(io, "x.bp", "w") as stream:
    for step in stream.steps(1):
        stream.write(variable, np.zeros((10, 20)))
"""
    output = python(code, tmp_path, "failure")
    assert 'gridz_adios2: lorenzo: "colour=red" is unknown' in output


@pytest.mark.parametrize("variable", ["GRIDZ_BACKEND", "GRIDZ_THREADS"])
def test_bad_environment(tmp_path, variable):
    code = WRITE + """
variable.add_operation(adios.define_operator("o", "plugin", plugin))
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, np.zeros((10, 20)), adios2.bindings.Mode.Sync)
"""
    assert variable in python(code, tmp_path, "failure", **{variable: "many"})


def test_gpu_that_is_required(tmp_path):
    """backend=cuda on a machine without a GPU is an error, not a silent fallback to the CPU."""
    code = WRITE + """
variable.add_operation(adios.define_operator("o", "plugin", plugin | {"backend": "cuda"}))
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, np.zeros((10, 20)), adios2.bindings.Mode.Sync)
"""
    assert "gridz_adios2: " in python(code, tmp_path, "failure", CUDA_VISIBLE_DEVICES="-1")


def test_bound_that_cannot_be(tmp_path):
    """A codec that does not support the type raises an exception; raw data is not written."""
    code = WRITE.replace("np.zeros(1)", 'np.zeros(1, "i2")') + """
variable.add_operation(adios.define_operator("o", "plugin", plugin | {"codec": "multigrid", "abs": "1"}))
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, np.zeros((10, 20), "i2"), adios2.bindings.Mode.Sync)
"""
    assert "multigrid does not support int16" in python(code, tmp_path, "failure")


def test_operator_that_is_late(tmp_path):
    """BP5 refuses an operator after the first Put; the block that was put before is stored
    unchanged."""
    code = WRITE + """
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, np.zeros((10, 20)), adios2.bindings.Mode.Sync)
variable.add_operation(adios.define_operator("o", "plugin", plugin))
try:
    engine.put(variable, np.zeros((10, 20)), adios2.bindings.Mode.Sync)
except RuntimeError as error:
    print("error:", error)
import os, sys
sys.stdout.flush()
os._exit(7)
"""
    assert "error: " in python(code, tmp_path, 7)


def test_type_that_is_no_number(tmp_path):
    """ADIOS2 warns, and stores strings unchanged."""
    code = WRITE + """
text = io.define_variable("text", "")
text.add_operation_string("plugin", plugin)
with adios2.Stream(io, "x.bp", "w") as stream:
    for step in stream.steps(1):
        stream.write(text, "some text")
with adios2.FileReader("x.bp") as f:
    print(f.read("text"))
"""
    output = python(code, tmp_path)
    assert "does not support data type string" in output and output.endswith("some text\n")


def test_empty_blocks(tmp_path):
    """Empty blocks, in a step with other blocks and alone."""
    array = field((8, 9), "float64")
    with Writer(tmp_path / "e.bp") as writer:
        some, none = [writer.define(name, "float64", array.shape, {}) for name in ["some", "none"]]
        writer.step()
        for start in [(0, 0), (3, 0), (8, 0)]:
            writer.put(some, np.zeros((0, 9)), start)
            writer.put(none, np.zeros((0, 9)), start)
        writer.put(some, array, (0, 0))
        writer.end_step()
    assert len(frames(tmp_path / "e.bp")) == 7
    with adios2.FileReader(str(tmp_path / "e.bp")) as f:
        assert (f.read("some") == array).all()
        assert f.read("none").shape == array.shape  # never written


@pytest.fixture
def sound(tmp_path):
    """A file with two blocks, and the arrays in them."""
    array = field((50, 60), "float64")
    with Writer(tmp_path / "sound.bp") as writer:
        variable = writer.define("x", "float64", (100, 60), {"codec": "quant", "abs": "1e-3"})
        writer.step()
        writer.put(variable, array, (0, 0))
        writer.put(variable, array, (50, 0))
        writer.end_step()
    return tmp_path / "sound.bp", array


def test_damage(sound):
    """Flips any bit of a block: an exception names the block and the next read works; the other
    block is not affected."""
    path, array = sound
    data = path / "data.0"
    whole = data.read_bytes()
    first, second = frames(path)
    rng = np.random.default_rng(1)
    header, body = range(first, first + 64), rng.integers(first + 64, second - 60, 60)
    for at in [*header, *(int(x) for x in body)]:
        broken = bytearray(whole)
        broken[at] ^= 1 << int(rng.integers(8))
        data.write_bytes(broken)
        with adios2.FileReader(str(path)) as f:
            with pytest.raises(RuntimeError) as raised:
                f.read("x")
            assert len(str(raised.value)) > 20
            assert np.abs(f.read("x", [50, 0], [50, 60]) - array).max() <= 1e-3
    data.write_bytes(whole)
    with adios2.FileReader(str(path)) as f:
        assert np.abs(f.read("x", [0, 0], [50, 60]) - array).max() <= 1e-3


def test_no_plugin_to_read_with(sound):
    """The error names the missing library."""
    path, _ = sound
    code = f'import adios2\nwith adios2.FileReader({str(path)!r}) as f:\n    f.read("x")\n'
    assert "gridz_adios2" in python(code, path.parent, "failure", ADIOS2_PLUGIN_PATH=str(path.parent))
    # Queries that read no blocks work without it.
    code = f'import adios2\nwith adios2.FileReader({str(path)!r}) as f:\n    print(f.available_variables()["x"])\n'
    assert "'Shape': '100, 60'" in python(code, path.parent, ADIOS2_PLUGIN_PATH=str(path.parent))


def test_plugin_is_found_by_its_folder(sound, prefix):
    """The file stores the library's bare name, so it can be read where gridz is installed
    elsewhere."""
    path, array = sound
    assert str(prefix).encode() not in payload(path) and b"\x0cgridz_adios2" in payload(path)
    shutil.copytree(prefix, path.parent / "elsewhere")
    code = f"""
import adios2, numpy as np
with adios2.FileReader({str(path)!r}) as f:
    print(f.read("x").shape)
assert {str(path.parent)!r} + "/elsewhere/lib/libgridz.so" in open("/proc/self/maps").read()
"""
    assert "(100, 60)" in python(code, path.parent, ADIOS2_PLUGIN_PATH=str(path.parent / "elsewhere/lib/adios2/plugin"))


def test_what_the_plugin_needs(plugin):
    """The plugin needs only the library, C++ and C; no HDF5, CUDA or ADIOS2. It exports no engine,
    and stays loaded."""
    dynamic = run(["readelf", "--dynamic", "--wide", plugin], ROOT)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed - {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2"} == {
        "libgridz.so.0"
    }
    assert "NODELETE" in dynamic
    symbols = run(["nm", "--dynamic", "--defined-only", plugin], ROOT)
    assert set(re.findall(r" T (\w+)", symbols)) == {"OperatorCreate", "OperatorDestroy"}


def test_installing(tmp_path, prefix):
    """A failing installation of the plugin is reported, and uninstalling removes the plugin."""
    with pytest.raises(AssertionError, match="run make install"):
        make("install-adios2", PREFIX=tmp_path / "nothing", ADIOS2=WHEEL)
    with pytest.raises(AssertionError, match="The operator was not built"):
        make("install-adios2", PREFIX=prefix, ADIOS2=tmp_path, ADIOS2_PLUGINDIR=tmp_path / "plugin")
    stage = tmp_path / "stage"
    make("install", PREFIX="/usr", DESTDIR=stage)
    make("install-adios2", PREFIX="/usr", DESTDIR=stage, ADIOS2=WHEEL)
    installed = stage / "usr/lib/adios2/plugin/libgridz_adios2.so"
    assert str(tmp_path) not in run(["readelf", "--dynamic", installed], ROOT)
    assert f"{stage}/usr/lib" in run(["ldd", installed], ROOT)  # found next to the plugin
    make("uninstall", PREFIX="/usr", DESTDIR=stage)
    assert not list(stage.rglob("*gridz*"))
