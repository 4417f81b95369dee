"""The Debian package and the archive, as built by `make deb` and `make dist`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, VERSION, Installed, make

VARIABLES = ["HDF5_PLUGIN_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"]


def package(target):
    """The file that `make TARGET` creates; its name is the last word of the output."""
    return ROOT / make(target).split()[-1]


@pytest.fixture(scope="module")
def packages():
    """The two Debian packages, that for development first."""
    return [ROOT / name for name in make("deb").split() if name.endswith(".deb")]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory, packages):
    """The files of both Debian packages, unpacked in one folder."""
    folder = tmp_path_factory.mktemp("deb")
    for path in packages:
        subprocess.run(["dpkg-deb", "--extract", str(path), str(folder)], check=True)
    return folder


def test_deb_has_no_files_for_development(packages):
    """They are in the other package. No file is in both."""
    dev, main = (
        {line.split()[5] for line in lines.splitlines() if not line.endswith("/")}
        for lines in (subprocess.run(["dpkg-deb", "--contents", str(path)], check=True, capture_output=True, text=True).stdout for path in packages)
    )
    assert not dev & main
    assert {"./usr/include/gridz.h", "./usr/lib/libgridz.a", "./usr/share/man/man3/gridz.3.gz"} <= dev
    assert {"./usr/bin/gridz", f"./usr/lib/libgridz.so.{VERSION}", "./usr/share/man/man1/gridz.1.gz"} <= main
    assert not [name for name in main if name.endswith((".a", ".h", ".pc"))]


def test_deb_has_the_command(unpacked, tmp_path):
    work = Installed(unpacked / "usr", tmp_path)
    assert VERSION in work.run(f"{unpacked}/usr/bin/gridz --version", PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")


def test_deb_needs_no_variable(unpacked, tmp_path):
    """Debian's serial and OpenMPI HDF5 have separate plugin folders, and the package has a link in
    each."""
    plugins = sorted(unpacked.glob("usr/lib/*/hdf5/*/plugins/*"))
    assert [path.parts[-3] for path in plugins] == ["openmpi", "serial"]
    library = unpacked / f"usr/lib/libgridz.so.{VERSION}"
    assert all(path.name == "libh5gridz.so" and path.resolve() == library for path in plugins)


def test_deb_works_from_where_it_is(unpacked, tmp_path):
    work = Installed(unpacked / "usr", tmp_path)
    plugins = next(unpacked.glob("usr/lib/*/hdf5/serial/plugins"))
    work.run(
        f"gcc -std=c11 -O2 {ROOT}/examples/checkpoint/heat.c -o heat -I{unpacked}/usr/include "
        "$(pkg-config --cflags --libs $(pkg-config --exists hdf5-serial && echo hdf5-serial || echo hdf5)) && ./heat",
        HDF5_PLUGIN_PATH=str(plugins),
    )


def test_deb_once_installed(tmp_path, packages):
    """Installs and removes the package on a machine that may be changed (CI); no variable or path
    is needed."""
    if os.environ.get("CI") != "true" or os.geteuid() != 0:
        pytest.skip("the package is installed only where CI=true, by root")
    # The packages that apt would also install are not needed for this.
    subprocess.run(["dpkg", "--install", *map(str, reversed(packages))], check=True, capture_output=True)
    try:
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        command = (
            f"h5cc -shlib {ROOT}/examples/checkpoint/heat.c -o heat && ./heat && h5dump -d /temperature heat_c.h5 >dump && "
            f"g++ -std=c++17 {ROOT}/examples/checkpoint/heat.cpp -o heat_cpp -lgridz && ./heat_cpp && man -w gridz && man -w 3 gridz"
        )
        done = subprocess.run(["bash", "-euc", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(["dpkg", "--purge", "gridz-dev", "gridz"], check=True, capture_output=True)


def test_deb_says_what_it_is(unpacked, packages):
    fields = subprocess.run(["dpkg-deb", "--field", str(packages[1])], check=True, capture_output=True, text=True).stdout
    assert f"\nVersion: {VERSION}\n" in fields and "\nDepends: libc6" in fields
    assert "\nMaintainer: The gridz developers\n" in fields
    assert (unpacked / "usr/share/doc/gridz/copyright").read_text().startswith("MIT License")
    # The glibc version that the package declares is sufficient for its library.
    symbols = subprocess.run(
        ["objdump", "-T", str(unpacked / f"usr/lib/libgridz.so.{VERSION}")], check=True, capture_output=True, text=True
    ).stdout
    claimed = fields.split("libc6 (>= ")[1].split(")")[0]
    versions = {tuple(map(int, word.strip("()").split("_")[1].split("."))) for word in symbols.split() if "GLIBC_2" in word}
    assert max(versions) <= tuple(map(int, claimed.split(".")))


def test_dist_is_complete(tmp_path):
    """The archive needs no Rust: unpack it anywhere and set the variables."""
    subprocess.run(["tar", "--extract", f"--file={package('dist')}", f"--directory={tmp_path}"], check=True)
    (folder,) = tmp_path.iterdir()
    work = Installed(folder, tmp_path)
    work.run(f"cmake -S {ROOT}/examples/checkpoint -B build && cmake --build build && build/heat_c && build/heat_f90")
    assert VERSION in work.run(f"{folder}/bin/gridz --version", PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    # Compiles a program by hand.
    work.run(
        f"g++ -std=c++17 {ROOT}/examples/checkpoint/heat.cpp -o heat $(pkg-config --cflags --libs gridz) && ./heat"
    )
