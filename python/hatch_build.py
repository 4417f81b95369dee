"""The steps before hatchling packs the package: the library, and the modules that are generated
from C headers.

- `gridz/plugin/libgridz.so` is `GRIDZ_LIBRARY`, or else `target/release/libgridz.so`, which
  `cargo build --release` makes if it is missing or older than the sources
- `gridz/_abi.py` has the structs, constants and functions of the C headers, for cffi
- `gridz/_h5_functions.py` has the names of the libhdf5 functions listed in `include/gridz_hdf5.h`

Run as a program, `python hatch_build.py [LIBRARY]` generates these in the source tree, where they
are ignored by git. `python hatch_build.py --installed FOLDER` writes the modules to the copy of the
package that `make install` makes.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "gridz"


def version() -> str:
    """The version, which is defined only in Cargo.toml."""
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), flags=re.M).group(1)


def headers() -> "list[pathlib.Path]":
    """The headers that cbindgen generates, in the order in which they include each other."""
    listed = (ROOT / "crates" / "gridz-capi" / "headers.toml").read_text()
    return [ROOT / "include" / f"{name}.h" for name in re.findall(r'^name = "(\w+)"$', listed, flags=re.M)]


def declarations() -> str:
    """What cffi needs of the C headers: declarations and numeric constants, without all other
    preprocessor lines and without comments."""
    lines = [line for path in headers() for line in path.read_text().splitlines()]
    lines = [line for line in lines if not line.startswith("#") or re.fullmatch(r"#define \w+ -?\d+", line)]
    text = "\n".join(lines).replace('extern "C" {', "").replace('}  // extern "C"', "")
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return re.sub(r"\n\s*\n", "\n", text)


def make_abi() -> None:
    """Writes `_abi.py`, with the declarations in the compact form that cffi loads fastest."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(declarations())
    ffi.set_source("gridz._abi", None)
    ffi.emit_python_code(str(PACKAGE / "_abi.py"))


def make_h5_functions(package: pathlib.Path) -> None:
    """Writes `_h5_functions.py`."""
    header = (ROOT / "include" / "gridz_hdf5.h").read_text()
    names = re.findall(r"GRIDZ_H5_\((H5\w+)\)", header)
    body = "".join(f'    "{name}",\n' for name in sorted(set(names)))
    text = f'"""The functions of libhdf5 that the library calls, from gridz_hdf5.h."""\n\nNAMES = (\n{body})\n'
    (package / "_h5_functions.py").write_text(text)


def make_installed(package: pathlib.Path) -> None:
    """Writes the modules to an installed copy of the package. It needs no cffi, which a machine that
    builds a package for others may lack: `_abi.py` parses the declarations when it is imported."""
    text = '"""The declarations of the C headers, for cffi."""\n\nfrom cffi import FFI\n\n'
    text += f'ffi = FFI()\nffi.cdef("""\\{declarations()}""")\n'
    (package / "_abi.py").write_text(text)
    make_h5_functions(package)


def put_library(library: pathlib.Path) -> None:
    """Copies the library to the only folder from which it is loaded."""
    folder = PACKAGE / "plugin"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(library, folder / "libgridz.so")


def newer_source(library: pathlib.Path) -> "pathlib.Path | None":
    """A source of the library that changed after the library was built, or None."""
    # `make` writes this file after every build; cargo does not touch a library that is up to date.
    marker = library.parent / "native-static-libs"
    built = max(path.stat().st_mtime for path in (library, marker) if path.exists())
    folders = [ROOT / name for name in ("src", "crates", "plugin/hdf5", "kernels")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files += [ROOT / name for name in ("build.rs", "Cargo.toml", "Cargo.lock")]
    return next((path for path in files if path.stat().st_mtime > built), None)


def library_of_tree() -> pathlib.Path:
    """The library of this source tree, which is built unless it is up to date."""
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    library = pathlib.Path(target) / "release" / "libgridz.so"
    newer = newer_source(library) if library.exists() else ROOT
    if newer is None:
        return library
    check_rust(f"{library} is older than {newer.relative_to(ROOT)}" if newer != ROOT else f"{library} is not built yet")
    print("gridz: building the library takes 5 to 10 minutes; pip -v shows the progress", flush=True)
    done = subprocess.run(["cargo", "build", "--locked", "--release", "--lib"], cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit("gridz: cargo could not build the library; its messages are above (pip -v shows all of them)")
    return library


def check_rust(why: str) -> None:
    """Exits if cargo is missing or older than Cargo.toml's rust-version."""
    needed = re.search(r'^rust-version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), flags=re.M).group(1)
    remedy = "set GRIDZ_LIBRARY to a libgridz.so that is built to use it instead"
    if not shutil.which("cargo"):
        raise SystemExit(
            f"gridz: {why}, and there is no cargo in PATH. Install Rust {needed} or newer (https://rustup.rs), or {remedy}."
        )
    if not shutil.which("cc"):
        raise SystemExit(f"gridz: {why}, and there is no C compiler, which Rust links with. Install gcc, or {remedy}.")
    found = subprocess.run(["rustc", "--version"], cwd=ROOT, capture_output=True, text=True).stdout
    version = re.search(r"(\d+)\.(\d+)", found)
    if version and tuple(map(int, version.groups())) < tuple(map(int, needed.split("."))):
        raise SystemExit(
            f"gridz: {why}, and {found.strip()} is too old. Install Rust {needed} or newer: rustup update stable, or {remedy}."
        )


def make_all(library: "str | None") -> None:
    """Generates all files."""
    put_library(pathlib.Path(library) if library else library_of_tree())
    make_abi()
    make_h5_functions(PACKAGE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--installed"]:
        make_installed(pathlib.Path(sys.argv[2]))
    else:
        make_all(sys.argv[1] if len(sys.argv) > 1 else None)
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface

    class BuildHook(BuildHookInterface):
        """One wheel for every Python 3, with the library of one platform."""

        def initialize(self, version, build_data):
            """Generates the files before packing; a source distribution contains none of them."""
            if self.target_name != "wheel":
                return
            make_all(os.environ.get("GRIDZ_LIBRARY"))
            platform = os.environ.get("GRIDZ_WHEEL_PLATFORM") or sysconfig.get_platform()
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + re.sub(r"[-.]", "_", platform)
            made = ["_abi.py", "_h5_functions.py", "plugin/libgridz.so"]
            build_data["force_include"].update({str(PACKAGE / name): f"gridz/{name}" for name in made})

    class MetadataHook(MetadataHookInterface):
        """The version from Cargo.toml."""

        def update(self, metadata):
            """Sets it."""
            metadata["version"] = version()
