"""Converts pages of docs/, and README.md, to shell scripts."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
FILES = {"c", "cpp", "fortran", "cmake"}
# The contents of a clone besides documents; build results are in `target`.
CLONE = ["Makefile", "Cargo.toml", "Cargo.lock", "build.rs", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "docs",
         "crates", "examples", "include", "kernels", "packaging", "plugin", "python", "scripts", "src", "target"]  # fmt: skip


def clone(folder):
    """Creates a subfolder that looks like a clone of gridz."""
    made = folder / "clone"
    made.mkdir()
    for name in CLONE:
        (made / name).symlink_to(ROOT / name)
    return made


def script(text, folder, without=()):
    """Converts the page to one bash script, without the blocks of some languages; files that the
    page refers to are in the folder."""
    lines = ["set -euxo pipefail"]
    for number, (language, block) in enumerate(BLOCK.findall(text)):
        if language in without:
            continue
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
            assert language in {"text", "console", "xml"}, f"no rule for blocks of {language}"
    return "\n".join(lines)
