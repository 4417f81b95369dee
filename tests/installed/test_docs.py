"""All that README.md and docs/ tell to type is typed, page by page, in the order of the page.

Blocks of ```sh run in one shell for the whole page, which starts in a clone of gridz; ```python runs where it stands.
Blocks in a compiled language, or of CMake, are written to the file that their first line names in a comment.
```text and ```console are what a program prints, or values, and are left alone.
"""

import re
import sys

import pytest

from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
# tests/python runs what these pages tell, with the package installed.
ELSEWHERE = {"python", "zarr", "zfp", "mgard"}
FILES = {"c", "cpp", "fortran", "cmake"}
# What a clone has beside documents; results of builds are in `target`.
CLONE = ["Makefile", "Cargo.toml", "Cargo.lock", "build.rs", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "docs",
         "examples", "include", "kernels", "packaging", "scripts", "src", "target"]  # fmt: skip


def script(text, folder):
    """The page as one script of bash; the files that it speaks of are in the folder."""
    lines = ["set -euxo pipefail"]
    for number, (language, block) in enumerate(BLOCK.findall(text)):
        if language == "sh":
            lines.append(block)
        elif language == "python":
            name = folder / f"block{number}.py"
            name.write_text(block)
            lines.append(f"{sys.executable} {name}")
        elif language in FILES:
            name = re.match(r"(?:/\*|//|!|#) (\S+\.\w+)", block)
            assert name, f"the first line of this block names no file:\n{block}"
            (folder / name[1]).write_text(block)
        else:
            assert language in {"text", "console"}, f"nobody knows what to do with {language}"
    return "\n".join(lines)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ELSEWHERE], ids=lambda page: page.stem)
def test_page(installed, page, request):
    clone = installed.folder / "clone"
    clone.mkdir()
    for name in CLONE:
        (clone / name).symlink_to(ROOT / name)
    installed.folder = clone
    commands = script(page.read_text(), clone)
    if "make install" in commands:
        # These pages tell what is to be set.
        commands = "unset GRIDZ_PREFIX HDF5_PLUGIN_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH LD_LIBRARY_PATH\n" + commands
    cuda = request.getfixturevalue("cuda") if "$CUDA_HOME" in commands else {}
    installed.run(commands, HOME=str(clone.parent), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_rmaps_base_oversubscribe="1", **cuda)  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page):
    """What a page links to is there."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
