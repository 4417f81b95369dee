"""Helpers for the tests of an installation: installing, and running commands as its user."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = "-O2 -Wall -Wextra -Werror"
# Debian's name for the serial HDF5, used if the parallel one may also be installed; other systems
# have one HDF5.
HDF5 = "hdf5-serial" if subprocess.run(["pkg-config", "--exists", "hdf5-serial"]).returncode == 0 else "hdf5"


VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), flags=re.M)[1]


# The C headers that are generated, without `.h`.
HEADERS = re.findall(r'^name = "(\w+)"$', (ROOT / "crates/gridz-capi/headers.toml").read_text(), flags=re.M)


@dataclass
class Installed:
    """An installation and a folder to work in."""

    prefix: Path
    folder: Path

    @property
    def environment(self):
        """The environment with the variables of docs/install.md."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GRIDZ_", "MAKE"))}
        return environment | {
            "HOME": str(self.folder),
            "GRIDZ_PREFIX": str(self.prefix),
            "HDF5_PLUGIN_PATH": str(self.prefix / "lib/hdf5/plugin"),
            "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig"),
            "CMAKE_PREFIX_PATH": str(self.prefix),
            "LD_LIBRARY_PATH": str(self.prefix / "lib"),
        }

    def run(self, command, status=0, **environment):
        """Runs a line of bash and returns its output; its exit status must be `status`."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == status, f"{command}\nstatus {done.returncode}\n{done.stdout}\n{done.stderr}"
        # Older compilers only warn about a missing header, and the program may compute with garbage.
        assert "implicit declaration of function" not in done.stderr, done.stderr
        return done.stdout

    def flags(self, *arguments):
        """The output of pkg-config."""
        return self.run("pkg-config " + " ".join(arguments)).strip()


def make(target, **variables):
    """The output of a target of the Makefile."""
    arguments = [f"{name}={value}" for name, value in variables.items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "DEB"))}
    command = ["make", "--quiet", target, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def functions_of(header):
    """Names of the functions that a C header declares."""
    return set(re.findall(r"\b(gridz_[a-z0-9_]+)\(", re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(), flags=re.S)))
