"""Hooks of mkdocs for the documentation site (`make docs`).

The site contains pages that are not in docs/: README.md as the start page, CONTRIBUTING.md, CHANGELOG.md, the
formats, the tutorial, and an API page of the Python package. Links are written for the repository; here
they are made to work in the site. Linked files that are not pages are copied.
"""

import base64
import json
import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
LOG = logging.getLogger("mkdocs.hooks.gridz")
# Pages of the site by their path in the repository.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/tutorial.ipynb": "tutorial.md",
    **{f"src/format/{name}.md": f"format/{name}.md" for name in ("SPEC", "SPARSE", "CD_VALUES")},
}
# The modules and objects of the Python package that users need.
API = [
    "gridz", "gridz.arrays", "gridz._codecs.Codec", "gridz.h5", "gridz._repack.repack", "gridz._quality.quality",
    "gridz._plot", "gridz.xarray", "gridz.netcdf4", "gridz.zarr", "gridz.numcodecs", "gridz.cci", "gridz.filters", "gridz.errors",
]  # fmt: skip
LINK = re.compile(r"\[([^\]\[]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)


def notebook(path):
    """The Markdown of a notebook with its stored outputs, and its pictures by name."""
    parts, pictures = [], {}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"tutorial-{len(pictures)}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![Output of the cell above]({name})")
            else:
                text = "".join(output.get("text", data.get("text/plain", "")))
                parts.append("```text\n" + re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip() + "\n```")
    return "\n\n".join(parts), pictures


def on_files(files, config):
    for source, page in PAGES.items():
        if source.endswith(".ipynb"):
            text, pictures = notebook(ROOT / source)
            for name, content in pictures.items():
                files.append(File.generated(config, name, content=content))
            files.append(File.generated(config, page, content=text))
        else:
            files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    text = "# The Python package\n\n" + "\n\n".join(f"::: {name}" for name in API)
    files.append(File.generated(config, "api.md", content=text + "\n"))
    return files


def on_page_markdown(markdown, page, config, files):
    at = page.file.src_uri
    if at.startswith("results/"):
        page.meta["search"] = {"boost": 0.1}  # records come last among the results
    source = {site: path for path, site in PAGES.items()}.get(at, f"docs/{at}")

    def change(match):
        target, _, anchor = match[2].partition("#")
        if not target or "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        site = PAGES.get(path)
        if site is None and path.startswith("docs/"):
            site = path.removeprefix("docs/")
        if site is None and (ROOT / path).is_file():
            # Sources and other files of the repository.
            site = f"repository/{path}{'.txt' if path.endswith('.md') else ''}"
            if files.get_file_from_path(site) is None:
                files.append(File.generated(config, site, abs_src_path=str(ROOT / path)))
        if site is None and (ROOT / path).is_dir():
            return match[1]
        if site is None:
            LOG.warning("%s links to %s, which does not exist", source, match[2])
            return match[0]
        link = posixpath.relpath(site, posixpath.dirname(at) or ".")
        return f"[{match[1]}]({link}{'#' + anchor if anchor else ''})"

    def prose(text):
        # In a formula, [i][j] is no reference to another page.
        return re.sub(r"(`[^`]*`)|\]\[", lambda match: match[1] or "]&#91;", LINK.sub(change, text))

    pieces, end = [], 0
    for code in CODE.finditer(markdown):
        pieces += [prose(markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, prose(markdown[end:])])
