"""What is run elsewhere names only what there is."""

import re

from support import ROOT


def test_make_targets():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    named = set(re.findall(r"\bmake ([a-z-]+)", workflow))
    assert {"test", "wheel", "sdist"} <= named <= targets
