"""Commands that run elsewhere (CI, packaging) name only existing targets."""

import re

import pytest
from support import ROOT

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))


@pytest.mark.parametrize(
    ("file", "command", "needed"),
    [
        (".github/workflows/ci.yml", r"\bmake ([a-z -]+)", {"test", "wheel", "sdist"}),
        ("packaging/Containerfile", r"^RUN .*\bmake ([a-z -]+)", {"deb", "wheel"}),
        ("packaging/spack/package.py", r'\bmake\("([a-z-]+)"', {"build", "install"}),
    ],
)
def test_make_targets(file, command, needed):
    commands = re.findall(command, (ROOT / file).read_text(), flags=re.M)
    named = {target for targets in commands for target in targets.split()}
    assert needed <= named <= TARGETS
