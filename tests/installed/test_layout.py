"""What is installed where, and that all of it goes away again."""

import os
import re
import sys

from support import ROOT, Installed, install


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


def test_everything_has_its_place(prefix):
    assert files(prefix) == [
        "include/gridz.f90",
        "include/gridz.h",
        "include/gridz.hpp",
        "include/gridz_hdf5.f90",
        "include/gridz_hdf5.h",
        "lib/cmake/gridz/gridz-config-version.cmake",
        "lib/cmake/gridz/gridz-config.cmake",
        "lib/hdf5/plugin/libh5gridz.so",
        "lib/libgridz.a",
        "lib/libgridz.so",
        "lib/libgridz.so.0",
        "lib/libgridz.so.0.1.0",
        "lib/pkgconfig/gridz.pc",
        "share/doc/gridz/LICENSE-APACHE",
        "share/doc/gridz/LICENSE-MIT",
        "share/doc/gridz/README.md",
        "share/doc/gridz/SPEC.md",
        "share/man/man3/gridz.3",
    ]


def test_one_copy_serves_all(prefix):
    """A process that uses the filter and the library holds one copy of it."""
    library = (prefix / "lib/libgridz.so.0.1.0").resolve()
    for name in ["lib/libgridz.so", "lib/libgridz.so.0", "lib/hdf5/plugin/libh5gridz.so"]:
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
    # nm marks names of the version script's with @.
    symbols = installed.run(f"nm --dynamic --defined-only --format=posix {library} | cut -d' ' -f1").split()
    assert symbols and not [name for name in symbols if not name.startswith(("gridz_", "H5PL"))]


def test_manual(installed):
    manual = installed.prefix / "share/man/man3/gridz.3"
    assert installed.run(f"man --warnings -l {manual} 2>&1 >/dev/null") == ""
    # Every function of the header is in it.
    functions = set(re.findall(r"\b(gridz_[a-z_]+)\(", re.sub(r"//[^\n]*|/\*.*?\*/", "", header(), flags=re.S)))
    text = manual.read_text()
    assert functions and not [name for name in functions if name not in text]


def header():
    return (ROOT / "include/gridz.h").read_text()


def test_a_stage_holds_no_trace_of_itself(tmp_path):
    """As packages are made: DESTDIR is where the files go, PREFIX where they will be."""
    stage = tmp_path / "stage"
    install("/opt/gridz", DESTDIR=stage)
    for path in stage.rglob("*"):
        if path.suffix in (".pc", ".cmake"):
            assert str(stage) not in path.read_text()
    assert "prefix=/opt/gridz\n" in (stage / "opt/gridz/lib/pkgconfig/gridz.pc").read_text()


def test_uninstall(tmp_path):
    prefix = tmp_path / "gone"
    other = prefix / "lib/other.so"
    other.parent.mkdir(parents=True)
    other.write_text("of somebody else")
    install(prefix)
    install(prefix, "uninstall")
    assert files(prefix) == ["lib/other.so"]


def test_a_folder_with_spaces(tmp_path):
    """PREFIX may be any folder; programs that are linked there know nothing of quotes in pkg-config, so CMake builds."""
    prefix = tmp_path / "my programs"
    install(prefix)
    work = Installed(prefix, tmp_path)
    source = ROOT / "examples/checkpoint"
    work.run(f"cmake -S {source} -B build && cmake --build build --target heat_cpp && build/heat_cpp")
