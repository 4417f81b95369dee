"""The command `gridz` of an installation, and the wheel that `pip install .` builds."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support import ROOT, VERSION

START = ROOT / "packaging/command/start.py"


def start():
    """packaging/command/start.py as a module."""
    spec = importlib.util.spec_from_file_location("start", START)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [f"{name}>={version}" for name, version in start().NEEDS.items()] == project["dependencies"]
    recommended = re.search(r"^Recommends: (.*)$", (ROOT / "packaging/deb.sh").read_text(), flags=re.M)[1]
    launcher = (ROOT / "packaging/command/gridz").read_text()
    for name in start().NEEDS:
        assert f"python3-{name}" in recommended and f"python3-{name}" in launcher


def test_it_compresses_a_file(installed):
    """Also by a link to it from another folder, and after the installation was moved."""
    python = Path(sys.executable).parent
    path = f"{python}:/usr/bin:/bin"
    moved = installed.folder / "moved"
    shutil.copytree(installed.prefix, moved, symlinks=True)
    (installed.folder / "link").symlink_to(moved / "bin/gridz")
    make = "import h5py, numpy; h5py.File('a.h5', 'w')['x'] = numpy.arange(1e5).reshape(100, 1000)"
    installed.run(f'{python}/python3 -c "{make}"')
    for number, command in enumerate([installed.prefix / "bin/gridz", moved / "bin/gridz", "./link"]):
        out = installed.run(f"{command} --version && {command} repack a.h5 b{number}.h5 --rel 1e-3", PATH=path)
        assert VERSION in out and "1 datasets compressed" in out
    assert "quant" in installed.run("./link info b0.h5", PATH=path)


def test_it_says_what_is_missing(installed, tmp_path):
    """Without packages, and without Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    command = f"{installed.prefix}/bin/gridz info x.h5 2>&1"
    said = installed.run(f"{command} || echo $?", PATH=f"{tmp_path}/bare/bin:/usr/bin:/bin")
    assert "lacks: numpy, cffi, h5py" in said and "bin/python3 -m pip install 'numpy>=" in said
    assert "apt install python3-numpy" in said and said.endswith("\n4\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ["sh", "bash", "dirname", "readlink"]:
        (tools / name).symlink_to(shutil.which(name))
    said = installed.run(f"{command} || echo $?", PATH=str(tools))
    assert "there is no python3 in PATH" in said and said.endswith("\n4\n")


def hook(folder):
    """Runs hatch_build.py in a copy of the source tree, up to the choice of the library. Returns its
    exit status and output."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name in ["cc", "sh"]:
        if not (tools / name).exists():
            (tools / name).symlink_to(shutil.which(name))
    program = "import hatch_build; print(hatch_build.library_of_tree())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder / "clone/python",
        env={"PATH": str(tools), "PYTHONPATH": str(folder / "clone/python")},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path):
    """A source tree with a file in place of the library, which is newer than all sources."""
    folder = tmp_path / "clone"
    (folder / "python").mkdir(parents=True)
    program = (ROOT / "python/hatch_build.py").read_text()
    # The part for hatchling, which only a build has.
    (folder / "python/hatch_build.py").write_text(program[: program.index('if __name__ == "__main__":')])
    for name in ["src", "crates", "plugin", "kernels"]:
        (folder / name).mkdir()
    for name in ["Cargo.toml", "Cargo.lock", "build.rs"]:
        shutil.copy(ROOT / name, folder / name)
    (folder / "target/release").mkdir(parents=True)
    return tmp_path


def test_pip_uses_a_library_that_is_built(clone):
    library = clone / "clone/target/release/libgridz.so"
    library.write_text("")
    assert hook(clone) == (0, f"{library}\n")


def test_pip_names_the_reason_without_rust(clone):
    status, said = hook(clone)
    assert status == 1 and "libgridz.so is not built yet, and there is no cargo in PATH. Install Rust 1." in said
    library = clone / "clone/target/release/libgridz.so"
    library.write_text("")
    (clone / "clone/src/lib.rs").write_text("")
    os.utime(library, (1e9, 1e9))
    status, said = hook(clone)
    assert status == 1 and "is older than" in said and "GRIDZ_LIBRARY" in said


@pytest.mark.parametrize("version", ["1.63.0", "1.88.0"])
def test_pip_refuses_an_old_rust(clone, version):
    tools = clone / "tools"
    tools.mkdir()
    (tools / "cargo").write_text("#!/bin/sh\n")
    (tools / "rustc").write_text(f"#!/bin/sh\necho 'rustc {version} (0123 2020-01-01)'\n")
    for name in ["cargo", "rustc"]:
        (tools / name).chmod(0o755)
    status, said = hook(clone)
    assert status == 1 and f"rustc {version}" in said and "is too old. Install Rust 1.89 or newer" in said
