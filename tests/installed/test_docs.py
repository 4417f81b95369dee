"""Runs all commands that README.md and docs/ show, page by page, in the order of the page.

Blocks of ```sh run in one shell for the whole page, which starts in a clone of gridz; ```python
runs in place. Blocks in a compiled language, or of CMake, are written to the file that their first
line names in a comment. ```text, ```xml and ```console show output, values, or commands for another
machine; they are not run.
"""

import re

import pages
import pytest

from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# tests/python and tests/adios2 run the commands of these pages, with these packages installed.
ELSEWHERE = {"python", "zarr", "zfp", "multigrid", "cci", "adios2"}
# tests/python runs the Python blocks of these pages, with the package installed.
PYTHON_ELSEWHERE = {"sparse"}


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ELSEWHERE], ids=lambda page: page.stem)
def test_page(installed, page, request):
    installed.folder = clone = pages.clone(installed.folder)
    commands = pages.script(page.read_text(), clone, {"python"} if page.stem in PYTHON_ELSEWHERE else ())
    if "make install" in commands:
        # The pages themselves set these variables.
        commands = "unset GRIDZ_PREFIX HDF5_PLUGIN_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH LD_LIBRARY_PATH\n" + commands
    cuda = request.getfixturevalue("cuda") if "$CUDA_HOME" in commands else {}
    installed.run(commands, HOME=str(clone.parent), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_rmaps_base_oversubscribe="1", **cuda)  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page):
    """Every target that a page links to exists."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
