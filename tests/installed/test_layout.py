"""The installed files, and that uninstalling removes all of them."""

import os
import re
import subprocess
import sys

import pytest

from support import HEADERS, ROOT, VERSION, Installed, functions_of, make


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def test_everything_has_its_place(prefix):
    documents = prefix / "share/doc/gridz"
    package = "lib/gridz/python/gridz/"
    modules = {name.removeprefix(package) for name in files(prefix) if name.startswith(package) and "__pycache__" not in name}
    sources = {str(path.relative_to(ROOT / "python/gridz")) for path in (ROOT / "python/gridz").rglob("*.py")}
    assert modules == sources | {"_abi.py", "_h5_functions.py", "plugin/libgridz.so"}
    assert [name for name in files(prefix) if not name.startswith(("share/doc/gridz/", package))] == [
        "bin/gridz",
        "include/gridz.f90",
        "include/gridz.h",
        "include/gridz.hpp",
        "include/gridz_batch.h",
        "include/gridz_bulk.f90",
        "include/gridz_cci.f90",
        "include/gridz_cci.hpp",
        "include/gridz_cuda.h",
        "include/gridz_hdf5.f90",
        "include/gridz_hdf5.h",
        "include/gridz_hdf5.hpp",
        "include/gridz_hdf5_by.h",
        "include/gridz_progressive.h",
        "include/gridz_quality.h",
        "include/gridz_sparse.h",
        "lib/cmake/gridz/gridz-config-version.cmake",
        "lib/cmake/gridz/gridz-config.cmake",
        "lib/gridz/python/start.py",
        "lib/hdf5/plugin/libh5gridz.so",
        "lib/libgridz.a",
        "lib/libgridz.so",
        "lib/libgridz.so.0",
        f"lib/libgridz.so.{VERSION}",
        "lib/pkgconfig/gridz-static.pc",
        "lib/pkgconfig/gridz.pc",
        "share/man/man1/gridz.1",
        "share/man/man3/gridz.3",
    ]

    # The pages, with everything that they link to.
    pages = list(documents.glob("docs/*.md"))
    assert len(pages) > 5
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_one_copy_serves_all(prefix):
    """A process that uses both the filter and the library holds one copy of it."""
    library = (prefix / f"lib/libgridz.so.{VERSION}").resolve()
    for name in ["lib/libgridz.so", "lib/libgridz.so.0", "lib/hdf5/plugin/libh5gridz.so", "lib/gridz/python/gridz/plugin/libgridz.so"]:
        link = prefix / name
        assert link.resolve() == library
        assert not os.path.isabs(os.readlink(link)), f"{name} would break if the folder is moved"


def test_one_process_holds_one_copy(installed):
    """A program that is linked with the library and reads a file through the plugin."""
    program = installed.folder / "both.py"
    program.write_text(
        "import ctypes, os, re, h5py\n"
        "ctypes.CDLL('libgridz.so.0').gridz_version\n"
        "h5py.File('x.h5', 'w').create_dataset('x', data=range(10000), chunks=(5000,), compression=34013)\n"
        "maps = open('/proc/self/maps').read()\n"
        "print(len({os.stat(name).st_ino for name in re.findall(r'/\\S*/libh?5?gridz\\.so\\S*', maps)}))\n"
    )
    assert installed.run(f"{sys.executable} {program}") == "1\n"


def test_soname_and_symbols(installed):
    library = installed.prefix / "lib/libgridz.so"
    assert re.search(r"SONAME.*\[libgridz\.so\.0\]", installed.run(f"readelf -d {library}"))
    # See docs/results/2026-12-01-code-size.md. A larger limit needs a reason.
    assert int(re.search(r"^\.text +(\d+)", installed.run(f"size --format=sysv {library}"), re.M)[1]) < 6_620_000
    # nm marks symbols of the version script with @.
    symbols = installed.run(f"nm --dynamic --defined-only --format=posix {library} | cut -d' ' -f1").split()
    assert symbols and not [name for name in symbols if not name.startswith(("gridz_", "H5PL"))]


def test_manual(installed):
    manual = installed.prefix / "share/man/man3/gridz.3"
    assert installed.run(f"man --warnings -l {manual} 2>&1 >/dev/null") == ""
    # The manual contains every function of the generated headers.
    functions = set().union(*(functions_of(ROOT / f"include/{name}.h") for name in HEADERS))
    assert functions and not [name for name in functions if not re.search(rf"\b{name}\b", manual.read_text())]
    assert f'"gridz {VERSION}"' in manual.read_text()


def test_the_fortran_module_is_fresh():
    """Its procedures for all types and ranks are generated."""
    subprocess.run([sys.executable, ROOT / "scripts/fortran_kinds.py", "--check"], check=True)


def test_a_stage_holds_no_trace_of_itself(tmp_path):
    """Installation as for packages: files are written to DESTDIR, and PREFIX is their final
    location."""
    stage = tmp_path / "stage"
    make("install", PREFIX="/opt/gridz/", PLUGINDIR="/opt/hdf5/plugins", DESTDIR=stage)
    for path in stage.rglob("*"):
        if path.suffix in (".pc", ".cmake"):
            assert str(stage) not in path.read_text() and "@" not in path.read_text()
    text = (stage / "opt/gridz/lib/pkgconfig/gridz.pc").read_text()
    assert "prefix=/opt/gridz\n" in text and "hdf5_plugin_path=/opt/hdf5/plugins\n" in text
    # Outside the prefix, a relative link could resolve wrongly if the path contains links.
    assert os.readlink(stage / "opt/hdf5/plugins/libh5gridz.so") == "/opt/gridz/lib/libgridz.so.0"


def test_uninstall(tmp_path):
    prefix, plugins = tmp_path / "gone", tmp_path / "plugins"
    foreign = prefix / "lib/pkgconfig/other.pc"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of another package")
    old = prefix / "lib/libgridz.so.0.0.9"
    old.write_text("of an earlier release")
    make("install", PREFIX=prefix, PLUGINDIR=plugins)
    assert not old.exists()
    cached = prefix / "lib/gridz/python/gridz/cli/__pycache__/info.pyc"
    cached.parent.mkdir()
    cached.write_text("of a Python that ran the command")
    make("uninstall", PREFIX=prefix, PLUGINDIR=plugins)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["gone", "gone/lib", "gone/lib/pkgconfig", "gone/lib/pkgconfig/other.pc"]


def test_everybody_may_read_it(tmp_path):
    """Installed files are world-readable, even with a umask that forbids it."""
    before = os.umask(0o077)
    try:
        make("install", PREFIX=tmp_path / "gridz")
    finally:
        os.umask(before)
    for path in (tmp_path / "gridz").rglob("*"):
        assert path.stat().st_mode & 0o044 == 0o044, path


@pytest.mark.parametrize("name", ["my programs", "it's", "a&b"])
def test_odd_names_of_folders(tmp_path, name):
    """PREFIX may be any folder. pkg-config does not quote its output, so build with CMake."""
    prefix = tmp_path / name
    make("install", PREFIX=prefix)
    work = Installed(prefix, tmp_path)
    source = ROOT / "examples/checkpoint"
    work.run(f"cmake -S {source} -B build && cmake --build build --target heat_cpp && build/heat_cpp")


def test_make_is_enough_after_a_change(tmp_path):
    """Also after a change for which cargo compiles nothing."""
    (ROOT / "Cargo.lock").touch()
    make("build")
    make("install", PREFIX=tmp_path / "gridz")


def test_what_cannot_be_installed(installed):
    """Refused: a relative folder, whose base would be unknown later; an unknown action; sources
    that were not built."""
    installed.run(f"PREFIX=here PLUGINDIR=/x DESTDIR= {ROOT}/packaging/install.sh install", status=1)
    installed.run(f"PREFIX=/x PLUGINDIR=/x DESTDIR= {ROOT}/packaging/install.sh remove", status=1)
    copy = installed.folder / "copy"
    copy.mkdir()
    for name in ["packaging", "src", "crates", "plugin", "kernels", "build.rs", "Cargo.lock", "target"]:
        (copy / name).symlink_to(ROOT / name)
    (copy / "Cargo.toml").write_text((ROOT / "Cargo.toml").read_text().replace(VERSION, "9.9.9"))
    command = f"PREFIX={copy}/x PLUGINDIR={copy}/x DESTDIR= copy/packaging/install.sh install 2>&1"
    assert "Cargo.toml is newer" in installed.run(f"! {command}")
