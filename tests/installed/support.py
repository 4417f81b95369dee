"""What the tests of an installation share: installing, and typing commands as its user."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = "-O2 -Wall -Wextra -Werror"
# Debian's serial HDF5, also where the parallel one is installed beside it; elsewhere there is one.
HDF5 = "hdf5-serial" if subprocess.run(["pkg-config", "--exists", "hdf5-serial"]).returncode == 0 else "hdf5"


@dataclass
class Installed:
    """An installation and a folder to work in."""

    prefix: Path
    folder: Path

    @property
    def environment(self):
        """That of a user who has set what docs/install.md tells to."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GRIDZ_", "MAKE"))}
        return environment | {
            "HOME": str(self.folder),
            "PREFIX": str(self.prefix),
            "HDF5_PLUGIN_PATH": str(self.prefix / "lib/hdf5/plugin"),
            "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig"),
            "CMAKE_PREFIX_PATH": str(self.prefix),
            "LD_LIBRARY_PATH": str(self.prefix / "lib"),
            "OMP_NUM_THREADS": "2",
        }

    def run(self, command, status=0, **environment):
        """What a line of bash prints; its exit status must be `status`."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == status, f"{command}\nstatus {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def flags(self, *arguments):
        """What pkg-config says."""
        return self.run("pkg-config " + " ".join(arguments)).strip()


def install(prefix, action="install", **variables):
    """`make install` or `make uninstall`."""
    variables = [f"{name}={value}" for name, value in ({"PREFIX": prefix} | variables).items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", "--quiet", action, *variables], cwd=ROOT, env=environment, check=True, capture_output=True)
