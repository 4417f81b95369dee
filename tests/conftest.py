"""Hooks for all Python tests."""


def pytest_terminal_summary(terminalreporter):
    """Skipped tests must be visible: print their number even with -q."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"SKIPPED: {len(skipped)} tests did not run", yellow=True)
        for reason in sorted({report.longrepr[2] for report in skipped}):
            terminalreporter.write_line(f"  {reason}", yellow=True)
