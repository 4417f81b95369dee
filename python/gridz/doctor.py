"""Examines the installation, and whether gridz works in it: the output of `gridz doctor`.

`examine` checks the package, the environment, the plugin folders, and every program that reads
HDF5: Python's packages and the tools on `PATH`. Each is tried in a separate process, since a broken
library may crash it.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import gridz
from gridz import _probe
from gridz._native import LIBRARY

TOOLS = ("h5repack", "h5dump", "nccopy", "ncdump")
PACKAGES = (
    "numpy",
    "h5py",
    "netCDF4",
    "tables",
    "xarray",
    "h5netcdf",
    "zarr",
    "numcodecs",
    "dask",
    "hdf5plugin",
    "matplotlib",
)
VARIABLES = (
    "HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD", "GRIDZ_THREADS", "GRIDZ_BACKEND", "GRIDZ_DEVICE", "GRIDZ_LOG",
    "GRIDZ_CPU_LEVEL", "GRIDZ_CACHE_MIB", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
SECONDS = 120
"""Time limit for one program, after which it counts as hanging."""


@dataclass
class Problem:
    """A problem. `matters`: gridz does not work in a program that should be able to use it."""

    what: str
    remedy: str
    matters: bool


@dataclass
class Findings:
    """All findings, as dicts that are ready for JSON."""

    gridz: dict = field(default_factory=dict)
    packages: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    plugins: list = field(default_factory=list)
    hosts: list = field(default_factory=list)
    tools: list = field(default_factory=list)
    problems: list = field(default_factory=list)

    def problem(self, what: str, remedy: str, matters: bool = True) -> None:
        """Notes a problem."""
        self.problems.append(Problem(what, remedy, matters))


def examine() -> Findings:
    """Examines everything. Takes some seconds; writes only into a temporary folder."""
    found = Findings()
    found.environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    found.packages = {name: version for name in PACKAGES if (version := _version(name))}
    _gridz(found)
    _folders(found)
    with tempfile.TemporaryDirectory() as folder:
        _hosts(found, folder)
        _tools(found, pathlib.Path(folder))
    return found


def probe(*args: str) -> dict[str, Any]:
    """Runs a probe of `_probe.py` in a separate process; `error` in the answer is the reason if it
    failed."""
    # Pass the text, not the file: Python would put the file's folder first in sys.path, and
    # gridz/zarr.py would hide zarr. The package's folder is appended, so that the probe uses the
    # same gridz.
    root = str(pathlib.Path(gridz.__file__).parents[1])
    return _run_text(f"import sys; sys.path.append({root!r})\n{pathlib.Path(_probe.__file__).read_text()}", *args)


def _run_text(source: str, *args: str) -> dict[str, Any]:
    status, out, err = _run([sys.executable, "-c", source, *args])
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return {
            "error": f"the process ended with status {status}" + (f": {err.splitlines()[-1]}" if err.strip() else "")
        }


def _run(command: list[str], env: dict | None = None) -> tuple[int | str, str, str]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, env=env, check=False
        )
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return f"timeout after {SECONDS} s", "", ""
    except OSError as error:
        return str(error), "", ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _gridz(found: Findings) -> None:
    """The library and its back ends."""
    gpus, backend = probe("gpu"), os.environ.get("GRIDZ_BACKEND", "auto")
    reason = gpus.get("reason") or gpus.get("error", "")
    found.gridz = {
        "version": gridz.__version__, "library": str(LIBRARY), "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}", "cpu_level": cpu_level(),
        "threads": os.environ.get("GRIDZ_THREADS") or len(os.sched_getaffinity(0)),
        "gpus": gpus.get("usable", 0), "no_gpu_because": reason, "driver": _driver(),
    }  # fmt: skip
    try:
        gridz.decompress(gridz.compress(b"gridz"))
    except gridz.Error as error:
        found.problem(f"the library does not work: {error}", "correct or unset the named variable, or reinstall gridz")
    if reason and (backend == "cuda" or found.gridz["driver"]):
        remedy = "run nvidia-smi to see whether the driver works" if found.gridz["driver"] else "unset GRIDZ_BACKEND"
        found.problem(f"no GPU can be used: {reason}", remedy, backend == "cuda")


def cpu_level() -> str:
    """The instruction set that gridz uses: the highest level of this CPU, or the one that
    GRIDZ_CPU_LEVEL requires."""
    if os.environ.get("GRIDZ_CPU_LEVEL"):
        return os.environ["GRIDZ_CPU_LEVEL"]
    create = "ctypes.CDLL(sys.argv[1]).gridz_context_create(None, ctypes.byref(ctypes.c_void_p()))"
    script = f"import ctypes, sys; sys.exit({create})"
    for level in ("avx512", "avx2"):
        if _run([sys.executable, "-c", script, str(LIBRARY)], {**os.environ, "GRIDZ_CPU_LEVEL": level})[0] == 0:
            return level
    return "scalar"


def _driver() -> str:
    """The version of the kernel's NVIDIA driver; empty if there is none."""
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    match = re.search(r"\s(\d+\.\d[\d.]*)\s", text)
    return match[1] if match else "unknown"


def _folders(found: Findings) -> None:
    """The plugins that HDF5 finds in the folders of HDF5_PLUGIN_PATH."""
    if found.environment.get("HDF5_PLUGIN_PRELOAD") == "::":
        found.problem("HDF5_PLUGIN_PRELOAD=:: disables all HDF5 plugins", "unset HDF5_PLUGIN_PRELOAD")
    for name in filter(None, re.split("[:;]", found.environment.get("HDF5_PLUGIN_PATH", ""))):
        folder = pathlib.Path(name)
        if not folder.is_dir():
            found.problem(f"{name} in HDF5_PLUGIN_PATH is not a folder", "remove it from the variable, or create it", False)
            continue
        for path in sorted(folder.iterdir()):
            # The file names that HDF5 opens.
            if not path.name.startswith("lib") or ".so" not in path.name:
                continue
            plugin = {"path": str(path), **probe("plugin", str(path))}
            found.plugins.append(plugin)
            if "error" in plugin:
                remedy = "HDF5 skips it silently; repair or remove it"
                found.problem(f"{path} cannot be used: {plugin['error']}", remedy, "gridz" in path.name)
            elif plugin["filter"] == gridz.FILTER_ID and plugin.get("gridz") != gridz.__version__:
                other = (
                    f"gridz {plugin['gridz']}"
                    if "gridz" in plugin
                    else f"not gridz, but {plugin['name']!r} with the same filter number"
                )
                what = f"{path} is {other}; this package is {gridz.__version__}, and HDF5 uses the first one that it finds"
                found.problem(
                    what,
                    f"remove the folder from HDF5_PLUGIN_PATH, or put {gridz.PLUGIN_PATH} first",
                    "gridz" not in plugin,
                )


def _hosts(found: Findings, folder: str) -> None:
    """Python's packages with a libhdf5, with and without `import gridz`."""
    for name in gridz.filters.HOSTS:
        if name not in found.packages:
            continue
        host = {"name": name, **probe("host", name, "with", folder)}
        alone = probe("host", name, "without", folder) if host.get("works") else {}
        host["without_import"] = bool(alone.get("works"))
        found.hosts.append(host)
        if "error" in host:
            found.problem(
                f"{name} does not work with gridz: {host['error']}",
                f"reinstall it: pip install --force-reinstall {name}",
            )
        elif not host["available"]:
            remedy = "unset HDF5_PLUGIN_PRELOAD" if "HDF5_PLUGIN_PRELOAD" in found.environment else "reinstall gridz"
            found.problem(f"{name}: its HDF5 {host['version']} does not find the filter", remedy)


def _tools(found: Findings, folder: pathlib.Path) -> None:
    """The tools on PATH: they do not use Python, and find the filter by HDF5_PLUGIN_PATH or in the
    default folder."""
    plain, sample = folder / "plain.h5", folder / "sample.h5"
    for name in TOOLS:
        path = shutil.which(name)
        if path is None or not sample.exists():
            continue
        if not plain.exists():
            import h5py

            with h5py.File(plain, "w") as f:
                f.create_dataset("x", data=range(4096), chunks=(1024,))
        linked = re.search(r"libhdf5(?!\w*_hl)[^ /]*\.so\S* => (\S+)", _run(["ldd", path])[1])
        tool = {
            "name": name,
            "path": path,
            "libhdf5": linked[1] if linked else "",
            **(probe("libhdf5", linked[1]) if linked else {}),
        }
        tool["works"] = _try_tool(path, name, plain, sample, folder / f"{name}.out")
        found.tools.append(tool)
    failing = ", ".join(tool["name"] for tool in found.tools if not tool["works"])
    if failing:
        given = found.environment.get("HDF5_PLUGIN_PATH")
        is_set = gridz.PLUGIN_PATH in (given or "").split(":")
        path = gridz.PLUGIN_PATH + (":$HDF5_PLUGIN_PATH" if given else "")
        remedy = "their HDF5 may be built without plugins" if is_set else f"export HDF5_PLUGIN_PATH={path}"
        found.problem(f"these tools do not find the filter: {failing}", remedy, is_set)


def _try_tool(path: str, name: str, plain: pathlib.Path, sample: pathlib.Path, out: pathlib.Path) -> bool:
    """True if a tool writes with the filter, or reads a file written with it."""
    command = {
        "h5repack": ["-f", f"UD={gridz.FILTER_ID},0,0", str(plain), str(out)],
        "nccopy": ["-F", f"*,{gridz.FILTER_ID}", str(plain), str(out)],
        "h5dump": ["-d", "x", str(sample)],
        "ncdump": [str(sample)],
    }[name]
    status, text, _ = _run([path, *command])
    if name in ("h5dump", "ncdump"):
        return status == 0 and "4095" in text
    # Without the plugin, h5repack silently omits the filter; the filter's name in the file proves
    # that it was used.
    return status == 0 and b"gridz " in out.read_bytes()
