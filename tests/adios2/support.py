"""Helpers for the tests of the operator: installing, writing and reading, and gridz itself by
ctypes, for comparison."""

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import adios2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(adios2.__file__).parent
# Older versions, the oldest first.
BEFORE = sorted((ROOT / ".venv-adios2/before").glob("*/adios2"), key=lambda p: [int(n) for n in p.parent.name.split(".")])
PLUGIN = {"PluginName": "gridz", "PluginLibrary": "gridz_adios2"}
MODES = ["lossless", "abs", "rel", "rate", "precision", "pwrel", "rms", "expert"]
VALUES = {"abs": "1e-3", "rel": "1e-4", "rate": "8", "precision": "16", "pwrel": "1e-3", "rms": "1e-3"}
UNSUPPORTED_JOB = 102  # GRIDZ_ERROR_UNSUPPORTED_JOB
# The types that both ADIOS2 and gridz support, with the numbers of GRIDZ_DTYPE_*. ADIOS2 has no
# float16.
DTYPES = {"uint8": 1, "uint16": 2, "uint32": 3, "uint64": 4, "int8": 5, "int16": 6, "int32": 7, "int64": 8, "float32": 11,
          "float64": 12, "complex64": 13, "complex128": 14}  # fmt: skip


def flags(package):
    """Compiler flags for an ADIOS2: the package of 2.9 uses GCC's string ABI from before version
    5."""
    return "-D_GLIBCXX_USE_CXX11_ABI=0" if package.parent.name.startswith("2.9") else ""


def make(target, cxxflags="", **variables):
    """The output of a target of the Makefile."""
    words = [target, *(f"{name}={value}" for name, value in variables.items())]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment["CXXFLAGS"] = cxxflags
    done = subprocess.run(["make", "--quiet", *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(command, folder, status=0, **environment):
    """The output of a command (stdout and stderr); its exit status must be `status`, or nonzero for
    "failure"."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GRIDZ_")}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=settings | environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300)  # fmt: skip
    output = done.stdout.decode(errors="replace")
    assert done.returncode != 0 if status == "failure" else done.returncode == status, f"{done.returncode}\n{output}"
    return output


def python(code, folder, status=0, *arguments, **environment):
    """Runs a Python program, like `run`."""
    return run([sys.executable, "-c", code, *arguments], folder, status, **environment)


class Writer:
    """Writes an ADIOS2 file. `requests` are the operator's parameters, by variable; None means no
    operator."""

    def __init__(self, path, engine="BP5", parameters=None, config=None):
        self.adios = adios2.Adios(str(config)) if config else adios2.Adios()
        self.io = self.adios.declare_io("writer")
        if not config:
            self.io.set_engine(engine)
        self.io.set_parameters(parameters or {})
        self.path, self.stream, self.n_operators = str(path), None, 0

    def define(self, name, dtype, shape, request):
        """Defines a variable of global arrays, or of single values for a shape without axes."""
        content = np.zeros(1, dtype)
        shape = list(shape)
        if shape:
            variable = self.io.define_variable(name, content, shape, [0] * len(shape), shape)
        else:
            variable = self.io.define_variable(name, content)
        if request is not None:
            self.n_operators += 1
            operator = self.adios.define_operator(f"operator{self.n_operators}", "plugin", PLUGIN | request)
            variable.add_operation(operator)
        return variable

    def __enter__(self):
        self.stream = adios2.Stream(self.io, self.path, "w")
        return self

    def put(self, variable, array, start=None):
        """Puts a block of a variable."""
        if start is not None:
            variable.set_selection([list(start), list(array.shape)])
        self.stream.write(variable, np.ascontiguousarray(array))

    def step(self):
        self.stream.begin_step()
        return self

    def end_step(self):
        self.stream.end_step()

    def __exit__(self, kind, error, trace):
        # After an error, ADIOS2 cannot close the file (docs/adios2.md).
        if kind is None:
            self.stream.close()


class Codec(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("description", ctypes.c_char_p),
                ("level_names", ctypes.POINTER(ctypes.c_char_p)), ("level_numbers", ctypes.POINTER(ctypes.c_uint32)),
                ("n_levels", ctypes.c_uint32), ("id", ctypes.c_uint32), ("modes", ctypes.c_uint32),
                ("dtypes", ctypes.c_uint32), ("backends", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]  # fmt: skip


class Array(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("dtype", ctypes.c_uint32), ("byte_order", ctypes.c_uint32),
                ("element_size", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("extents", ctypes.POINTER(ctypes.c_uint64))]  # fmt: skip


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("context", ctypes.c_void_p), ("request", ctypes.c_char_p),
                ("flags", ctypes.c_uint64), ("fill_value", ctypes.c_void_p), ("n_fill_values", ctypes.c_size_t),
                ("valid_min", ctypes.c_void_p), ("valid_max", ctypes.c_void_p)]  # fmt: skip


@dataclass
class Gridz:
    """The library that the plugin is linked with."""

    library: ctypes.CDLL

    def __init__(self, prefix):
        self.library = ctypes.CDLL(str(prefix / "lib/libgridz.so"))

    def codecs(self):
        """The registry's codecs, as this library lists them."""
        found = []
        for index in range(self.library.gridz_codec_count()):
            codec = Codec(struct_size=ctypes.sizeof(Codec))
            assert self.library.gridz_codec_info(ctypes.c_size_t(index), ctypes.byref(codec)) == 0
            found.append(codec)
        return found

    def frame(self, array, request):
        """gridz's frame of an array, whose bytes must be in the file. None if gridz refuses such
        elements."""
        extents = (ctypes.c_uint64 * max(array.ndim, 1))(*array.shape)
        described = Array(ctypes.sizeof(Array), DTYPES[str(array.dtype)], 0, array.itemsize, array.ndim, extents)
        options = Options(struct_size=ctypes.sizeof(Options), request=request.encode())
        bound, n_bytes = ctypes.c_size_t(), ctypes.c_size_t()
        status = self.library.gridz_compress_bound(ctypes.byref(described), ctypes.byref(options), ctypes.byref(bound))
        if status == UNSUPPORTED_JOB:
            return None
        assert status == 0
        frame = ctypes.create_string_buffer(bound.value)
        status = self.library.gridz_compress(
            ctypes.byref(described), array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes), frame, bound,
            ctypes.byref(n_bytes), ctypes.byref(options))  # fmt: skip
        assert status == 0
        return frame.raw[: n_bytes.value]


def payload(path):
    """All data of a file, without its metadata."""
    return b"".join(file.read_bytes() for file in sorted(Path(path).glob("data.*")))


def frames(path):
    """The offsets of gridz frames in the data of a file."""
    return [found.start() for found in re.finditer(b"GRDZ", payload(path))]


def field(shape, dtype, seed=0):
    """A smooth array of any shape and type, with numbers of several magnitudes."""
    n = int(np.prod(shape, dtype=np.int64))
    x = np.arange(n) + 17 * seed
    if np.dtype(dtype).kind in "iu":
        return (60 + 50 * np.sin(x / 20)).astype(dtype).reshape(shape)
    values = np.sin(x / 20) + 0.3 * np.cos(x / 3.7) + 2
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.cos(x / 9)
    return values.astype(dtype).reshape(shape)


def noise(shape, dtype, seed=0):
    """An array that no codec compresses; floats contain no NaN."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape, dtype=np.int64))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 256, n * np.dtype(dtype).itemsize, np.uint8).view(dtype).reshape(shape)
    parts = rng.standard_normal(2 * n) * 10.0 ** rng.integers(-6, 6, 2 * n)
    if np.dtype(dtype).kind == "c":
        return (parts[:n] + 1j * parts[n:]).astype(dtype).reshape(shape)
    return parts[:n].astype(dtype).reshape(shape)
