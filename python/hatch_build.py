"""The steps before hatchling packs the package: the library, and the modules that are generated
from C headers.

- `gridz/plugin/libgridz.so` is `GRIDZ_LIBRARY`, or else the result of `cargo build --release`
- `gridz/_abi.py` has the structs, constants and functions of the C headers, for cffi
- `gridz/_h5_functions.py` has the names of the libhdf5 functions listed in `include/gridz_hdf5.h`

Run as a program, `python hatch_build.py [LIBRARY]`, it generates these in the source tree, where
they are ignored by git.
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


def make_abi() -> None:
    """Writes `_abi.py`. cffi parses declarations and numeric constants; all other preprocessor
    lines are removed."""
    from cffi import FFI

    lines = [line for path in headers() for line in path.read_text().splitlines()]
    lines = [line for line in lines if not line.startswith("#") or re.fullmatch(r"#define \w+ -?\d+", line)]
    text = "\n".join(lines).replace('extern "C" {', "").replace('}  // extern "C"', "")
    ffi = FFI()
    ffi.cdef(re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S))
    ffi.set_source("gridz._abi", None)
    ffi.emit_python_code(str(PACKAGE / "_abi.py"))


def make_h5_functions() -> None:
    """Writes `_h5_functions.py`."""
    header = (ROOT / "include" / "gridz_hdf5.h").read_text()
    names = re.findall(r"GRIDZ_H5_\((H5\w+)\)", header)
    body = "".join(f'    "{name}",\n' for name in sorted(set(names)))
    text = f'"""The functions of libhdf5 that the library calls, from gridz_hdf5.h."""\n\nNAMES = (\n{body})\n'
    (PACKAGE / "_h5_functions.py").write_text(text)


def put_library(library: pathlib.Path) -> None:
    """Copies the library to the only folder from which it is loaded."""
    folder = PACKAGE / "plugin"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(library, folder / "libgridz.so")


def build_library() -> pathlib.Path:
    """Builds the library of this source tree."""
    if not shutil.which("cargo"):
        raise SystemExit("gridz: building the package needs Rust (https://rustup.rs), or GRIDZ_LIBRARY=libgridz.so")
    subprocess.run(["cargo", "build", "--locked", "--release", "--lib"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    return pathlib.Path(target) / "release" / "libgridz.so"


def make_all(library: "str | None") -> None:
    """Generates all files."""
    put_library(pathlib.Path(library) if library else build_library())
    make_abi()
    make_h5_functions()


if __name__ == "__main__":
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
