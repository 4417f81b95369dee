"""Starts the command `gridz` of an installation, if this Python has the packages that it needs."""

import re
import sys

NEEDS = {"numpy": "1.22", "cffi": "1.15", "h5py": "3.7", "click": "8.1", "rich": "12", "tqdm": "4.60"}
"""The packages and their least versions, as in pyproject.toml."""


def numbers(version):
    """The first two numbers of a version, for comparisons."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def missing():
    """The packages that this Python lacks or has in a version that is too old."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name, least in NEEDS.items():
        try:
            if numbers(version(name)) < numbers(least):
                found.append(name)
        except PackageNotFoundError:
            found.append(name)
    return found


def main():
    """Runs the command, or says which packages to install and how."""
    if sys.version_info < (3, 9):
        sys.stderr.write("gridz: the command needs Python 3.9 or newer; %s is %s\n" % (sys.executable, sys.version.split()[0]))
        return 4
    lacking = missing()
    if lacking:
        lines = [
            f"gridz: the command needs packages that {sys.executable} lacks: {', '.join(lacking)}. Install them with one of",
            f"    {sys.executable} -m pip install " + " ".join(f"'{name}>={NEEDS[name]}'" for name in lacking),
            "    sudo apt install " + " ".join(f"python3-{name}" for name in lacking) + "    (Debian, Ubuntu; for their python3)",
        ]
        sys.stderr.write("\n".join(lines) + "\n")
        return 4
    from gridz.cli import main as command

    return command(prog_name="gridz")


if __name__ == "__main__":
    sys.exit(main())
