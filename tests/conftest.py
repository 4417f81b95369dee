"""For all tests in Python."""


def pytest_terminal_summary(terminalreporter):
    """A skipped test must not look green: say how many there were even with -q."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"SKIPPED: {len(skipped)} tests did not run", yellow=True)
        for reason in sorted({report.longrepr[2] for report in skipped}):
            terminalreporter.write_line(f"  {reason}", yellow=True)
