"""C programs on the distribution's libhdf5 (1.10): errors, threads, forks, and static linking."""

import sys

import h5py
import numpy as np
import pytest

from support import DEFAULT, FOLDER, GRIDZ, PLUGIN, ROOT, SPECS, environment, frames, noise, run, smooth, spec_of

SOURCES = FOLDER / "c"
VERIFY = ROOT / "examples" / "demo" / "verify.c"
FLAGS = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiles a program of c/ once and returns its path."""
    folder, done = tmp_path_factory.mktemp("c"), {}
    flags = run("pkg-config", "--cflags", "--libs", "hdf5-serial").stdout.split()

    def compile(name):
        if name not in done:
            done[name] = folder / name
            run("cc", *FLAGS, SOURCES / f"{name}.c", "-o", done[name], *flags, "-lm", "-ldl", "-lpthread")
        return done[name]

    return compile


# cd_values that compress.
VALUES = [(), (1,), (2, 0, 1), (2, 0, 2)]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("threads", [1, 4])
def test_write_and_read(tmp_path, compiled, threads, values):
    done = run(compiled("round_trip"), tmp_path / "x.h5", *values, env=environment(GRIDZ_THREADS=threads))
    assert done.stdout == "compressed\n" and done.stderr == ""


VALGRIND = (
    "valgrind --quiet --error-exitcode=9 "
    "--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite"
).split()


@pytest.mark.parametrize("values", VALUES[1:])
def test_under_valgrind(tmp_path, compiled, values):
    command = [*VALGRIND, compiled("round_trip"), tmp_path / "x.h5", *values]
    done = run(*command, env=environment(GRIDZ_THREADS=1), timeout=120)
    assert done.stdout == "compressed\n" and done.stderr == ""


@pytest.mark.parametrize("part", ["values", "garbage", "damaged"])
@pytest.mark.parametrize("spec", SPECS[1:])
def test_the_filter_function_under_valgrind(compiled, spec, part):
    done = run(*VALGRIND, compiled("callback"), PLUGIN, part, *spec, timeout=120)
    assert done.stdout == "done\n" and "==" not in done.stderr


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["8"], "codec 8 is unknown"),
        (["1", "0", "1"], "ndzip has no levels; use 0, not 1"),
        (["2", "0", "4"], "lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"),
        (["2", "0", "65538"], "lorenzo does not have level 65538; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"),
        (["3"], "quant: use mode 1, abs, or mode 2, rel, or mode 5, pwrel; it has no mode 0, lossless"),
        (["3", "2", "0", str(0x3FE00000)], "cannot know the range of the dataset; use abs"),
        (["3", "1", "0", str(0x3FE00000), "4"], "quant does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"),
        (["2", "1", "0", "0"], "lorenzo: use mode 0, lossless; it has no mode 1, abs"),
        (["1", "1", "0", "0"], "ndzip: use mode 0, lossless; it has no mode 1, abs"),
        (["1", "2", "0", "0"], "ndzip: use mode 0, lossless; it has no mode 2, rel"),
        (["1", "3", "0", "0"], "ndzip: use mode 0, lossless; it has no mode 3, rate"),
        (["1", "4", "0", "0"], "ndzip: use mode 0, lossless; it has no mode 4, precision"),
        (["1", "1"], "allowed are: no value (the default lossless codec), [codec], [codec, 0], "),
        (["1"] * 256, "ndzip: use mode 0, lossless"),
    ],
    ids=lambda value: "-".join(value[:4]) if isinstance(value, list) else "",
)
def test_refusals_are_on_the_error_stack(tmp_path, compiled, values, text):
    done = run(compiled("refused"), tmp_path / "x.h5", *values, check=False)
    assert done.returncode == 3
    (line,) = [line for line in done.stdout.splitlines() if text in line]
    assert line.startswith("can_apply: ")
    # This program hides HDF5's errors, so gridz prints the refusal. With SHOW_ERRORS, HDF5 prints
    # it, and gridz does not repeat it.
    (line,) = done.stderr.splitlines()
    assert line.startswith("gridz: a dataset is refused: ") and text in line
    done = run(compiled("refused"), tmp_path / "x.h5", *values, check=False, env=environment(SHOW_ERRORS=1))
    assert done.returncode == 3 and text in done.stderr and "gridz: a dataset is refused" not in done.stderr


@pytest.mark.parametrize("values", [[], [0], [1], [2], [2, 0], [2, 0, 0], *([codec, 0, level] for codec, level in SPECS)])
def test_what_is_allowed_is_not_refused(tmp_path, compiled, values):
    assert run(compiled("refused"), tmp_path / "x.h5", *values).stdout == ""


def test_closing_hdf5_while_worker_threads_live(tmp_path, compiled):
    for _ in range(20):
        done = run(compiled("close"), tmp_path / "x.h5", env=environment(GRIDZ_THREADS=4))
        assert done.stdout == "5\n5\n", "one thread and four workers"


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_left_open_is_compressed_at_exit(tmp_path, compiled, threads):
    done = run(compiled("left_open"), tmp_path / "x.h5", env=environment(GRIDZ_THREADS=threads))
    assert done.stderr == ""
    with h5py.File(tmp_path / "x.h5") as file:
        for dataset in (file["flushed"], file["left"]):
            assert [spec_of(frame) for frame in frames(dataset)] == [DEFAULT]
        assert (file["flushed"][()].view("u4") == file["left"][()].view("u4")).all()


def test_exit_of_python_while_worker_threads_live(tmp_path):
    code = """import h5py, numpy, sys
data = numpy.arange(1 << 21, dtype="f4").reshape(128, 128, 128)
file = h5py.File(sys.argv[1], "w")
file.create_dataset("x", data=data, chunks=data.shape, compression=34013)
file.flush()
assert (file["x"][()] == data).all()
"""
    for _ in range(5):
        done = run(sys.executable, "-c", code, tmp_path / "x.h5", env=environment(GRIDZ_THREADS=4))
        assert done.stderr == ""


@pytest.mark.parametrize("threads", [1, 4])
def test_forked_children_have_threads_of_their_own(tmp_path, compiled, threads):
    assert run(compiled("forked"), tmp_path, env=environment(GRIDZ_THREADS=threads)).stdout == "both\n"


def test_forked_children_of_python(tmp_path):
    code = """import h5py, multiprocessing, numpy, sys
data = numpy.arange(1 << 21, dtype="f4").reshape(128, 128, 128)
def work(name):
    with h5py.File(f"{sys.argv[1]}/{name}.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=data.shape, compression=34013)
    with h5py.File(f"{sys.argv[1]}/{name}.h5") as file:
        return bool((file["x"][()] == data).all())
assert work("parent")
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(work, "abcd"))
"""
    done = run(sys.executable, "-c", code, tmp_path, env=environment(GRIDZ_THREADS=4))
    assert done.stdout == "[True, True, True, True]\n"


def test_threads_with_files_of_their_own(tmp_path, compiled):
    done = run(compiled("threads"), tmp_path, env=environment(GRIDZ_THREADS=3))
    assert done.stdout in ("at once\n", "in turns\n") and done.stderr == ""


@pytest.mark.parametrize("part", ["values", "garbage", "damaged", "at once"])
@pytest.mark.parametrize("spec", SPECS[1:])
def test_the_filter_function_itself(compiled, spec, part):
    done = run(compiled("callback"), PLUGIN, part, *spec, env=environment(GRIDZ_THREADS=3))
    assert done.stdout == "done\n"
    # Many errors do not flood stderr.
    lines = done.stderr.splitlines()
    assert len(lines) <= 65 and len(set(lines)) == len(lines)


def test_the_demo_names_the_codecs(tmp_path, rng):
    # examples/demo/verify.c parses codec and level from the frames by itself.
    run("h5cc", "-shlib", *FLAGS, "-DH5_USE_110_API", "-D_POSIX_C_SOURCE=200809L", VERIFY, "-o", "verify", cwd=tmp_path)
    names = {"stored": (0, 0), "ndzip": (1, 0), "lorenzo": (2, 1), "lorenzo dense": (2, 2)}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = smooth("f4", (8, 64, 64))
        for i, spec in enumerate(SPECS):
            options = {"compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
            file.create_dataset(f"x{i}", data=data, chunks=(2, 64, 64), **options)
            deep = data.reshape(8, 8, 8, 64, *(1,) * 28)
            file.create_dataset(f"y{i}", data=deep, chunks=deep.shape, **options)
        data[4:] = noise("f4", (4, 64, 64), rng)
        file.create_dataset("part", data=data, chunks=(2, 64, 64), compression=GRIDZ)
        file.create_dataset("none", (8,), "f4", chunks=(2,), compression=GRIDZ)
        file.create_dataset("plain", data=data)
    lines = run(tmp_path / "verify", tmp_path / "x.h5", tmp_path / "x.h5").stdout.splitlines()
    shown = {line.split()[0]: line for line in lines if line.endswith("  yes")}
    for name, spec in names.items():
        for kind in "xy":
            assert f" {name}  " in shown[f"{kind}{SPECS.index(spec)}"]
    assert "lorenzo 2/4" in shown["part"] and "no chunks" in shown["none"] and " -  " in shown["plain"]
    assert lines[-1].strip() == f"{2 * len(SPECS) + 3} datasets, bit for bit the same"


@pytest.fixture(scope="session")
def static(tmp_path_factory):
    """The round trip with libhdf5 linked statically: plain, with exported symbols, stripped."""
    folder = tmp_path_factory.mktemp("static")
    # Debian's h5cc links libhdf5.a and its dependencies by default.
    for name, flags in {"plain": [], "rdynamic": ["-rdynamic"], "no_pie": ["-no-pie", "-fno-pie"]}.items():
        run("h5cc", "-noshlib", *FLAGS, *flags, SOURCES / "round_trip.c", "-o", folder / name, "-lm", cwd=folder)
    run("strip", "-o", folder / "stripped", folder / "plain")
    return folder


@pytest.mark.parametrize("name", ["plain", "rdynamic", "no_pie"])
def test_static_libhdf5(tmp_path, static, name):
    assert "libhdf5" not in run("ldd", static / name).stdout
    done = run(static / name, tmp_path / "x.h5")
    assert done.stdout == "compressed\n" and done.stderr == ""
    # Located by a relative path from a folder other than the program's.
    done = run(f"../{name}", tmp_path / "y.h5", cwd=make(static / "elsewhere"))
    assert done.stdout == "compressed\n" and done.stderr == ""


def make(folder):
    folder.mkdir(exist_ok=True)
    return folder


def test_static_and_stripped(tmp_path, static):
    # The filter cannot query the chunk's type: chunks are stored as bytes, with a warning, and are
    # restored.
    done = run(static / "stripped", tmp_path / "x.h5")
    assert done.stdout == "raw\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("gridz: the HDF5 functions of this program cannot be found")
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"][()].shape == (130, 150) and len(frames(file["x"])) == 9


@pytest.mark.parametrize("extents", [(16, 16), (64, 64), (4096,), (200, 300)])
@pytest.mark.parametrize("spec", SPECS[1:])
def test_static_and_stripped_with_values_of_other_chunks(tmp_path, static, spec, extents):
    # Result of a tool that copies the stored cd_values to other chunks, where their type cannot be
    # queried.
    chunk = (word for n in extents for word in (n, 0))
    values = [0x475A0001, spec[0] | spec[1] << 16, 11 | len(extents) << 16, 4, 0, 0, *chunk]
    run(static / "stripped", tmp_path / "x.h5", *values)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[1] == tuple(values)
        assert np.isfinite(file["x"][100:]).all() and len(frames(file["x"])) == 9
