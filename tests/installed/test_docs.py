"""Runs all commands that docs/ shows, page by page, in the order of the page.

Blocks of ```sh run in one shell for the whole page, which starts in a clone of gridz; ```python
runs in place. Blocks in a compiled language, or of CMake, are written to the file that their first
line names in a comment. ```text, ```xml and ```console show output, values, or commands for another
machine; they are not run.
"""

import re

import pages
import pytest

from support import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
# tests/python runs the page python.md and all programs that use the package, tests/adios2 runs adios2.md, and
# test_programs.py runs programs.md.
ELSEWHERE = {"python", "adios2", "programs"}
# All documents in Markdown, except records of measurements.
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "src/format/*.md", "kernels/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def runs(page):
    """True if the page has commands or programs that run here."""
    blocks = pages.BLOCK.findall(page.read_text())
    return any(kind == "sh" or kind == "python" and not pages.uses_package(block) for kind, block in blocks)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ELSEWHERE and runs(page)], ids=lambda page: page.stem)
def test_page(installed, page, request):
    installed.folder = clone = pages.clone(installed.folder)
    commands = pages.script(page.read_text(), clone, package=False)
    if "make install" in commands:
        # The pages themselves set these variables.
        commands = "unset GRIDZ_PREFIX HDF5_PLUGIN_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH LD_LIBRARY_PATH\n" + commands
    cuda = request.getfixturevalue("cuda") if "$CUDA_HOME" in commands else {}
    installed.run(commands, HOME=str(clone.parent), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_rmaps_base_oversubscribe="1", **cuda)  # fmt: skip


def anchors(page):
    """The anchors of a page's headings, as in the site and on GitHub."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.stem)
def test_links(page):
    """Every file and heading that a document links to exists."""
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or path.suffix != ".md" or anchor in anchors(path), f"{target}#{anchor}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 900
