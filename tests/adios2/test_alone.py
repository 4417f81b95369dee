"""The plugin without ADIOS2, and with emulated GPUs."""

import os

import numpy as np
import pytest

from support import BEFORE, ROOT, WHEEL, field, flags, make, payload, python, run
from test_values import requests

# Set by make test-adios2 for cargo; otherwise the library may have no kernels.
HAS_KERNELS = os.environ.get("GRIDZ_CUDA") == "require"


@pytest.mark.parametrize("package", [WHEEL, *BEFORE[:1]], ids=["new", "before"])
def test_exact_buffers(tmp_path, prefix, plugin, gridz, package):
    """Every type, shape and codec in buffers of exactly the required size, damage and invalid
    parameters, under AddressSanitizer: interface 2, and the first version of interface 1."""
    asked = [";".join(f"{key}={value}" for key, value in single.items())
             for codec in gridz.codecs() for mode, single, _ in requests(codec) if mode != "expert"]  # fmt: skip
    if package != WHEEL:
        asked = ["codec=lorenzo", "codec=quant;abs=1e-30", "codec=ndzip"]
        plugin = tmp_path / "plugin/libgridz_adios2.so"
        make("install-adios2", flags(package), PREFIX=prefix, ADIOS2=package, ADIOS2_PLUGINDIR=plugin.parent)
    options = "-std=c++17 -O0 -g1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all"
    options = [*options.split(), *flags(package).split(), "-isystem", package / "include"]
    # Interface 1 only accepts hosts that are named like ADIOS2's library.
    driver = "driver" if package == WHEEL else "libadios2_core.so.2.9"
    run(["g++", *options, ROOT / "tests/adios2/driver.cpp", "-o", driver, "-ldl"], tmp_path)
    # The library keeps threads and tables until the process ends, so leak detection is off.
    libraries = "" if package == WHEEL else str(package)
    found = run([tmp_path / driver, plugin, *asked], tmp_path, ASAN_OPTIONS="detect_leaks=0", LD_LIBRARY_PATH=libraries)
    assert "the plugin alone: passed" in found


def test_host_that_has_another_version_in_it(tmp_path, plugin):
    """ADIOS2 may be linked statically into a program, as in openPMD-api: then the version is among
    the program's texts."""
    options = ["-std=c++17", "-O0", "-DANOTHER_VERSION", "-isystem", WHEEL / "include"]
    run(["g++", *options, ROOT / "tests/adios2/driver.cpp", "-o", "driver", "-ldl"], tmp_path)
    found = run([tmp_path / "driver", plugin, "codec=lorenzo"], tmp_path, "failure")
    assert "this gridz_adios2 was built for ADIOS2 2.12 (libadios2_core), but the program has another (driver)" in found


DEVICE = """
import ctypes, os, adios2, numpy as np

cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_ulonglong()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
source = np.load("array.npy")
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(source.nbytes)) == 0
# The mock's memory of a GPU can be read by the CPU, so NumPy can show it to ADIOS2.
array = np.frombuffer((ctypes.c_char * source.nbytes).from_address(address.value), source.dtype).reshape(source.shape)
array[...] = source

adios = adios2.Adios()
io = adios.declare_io("writer")
io.set_engine("BP5")
io.set_parameters({"StatsLevel": "0"})
variable = io.define_variable("x", source[:1], list(source.shape), [0, 0], list(source.shape))
plugin = {"PluginName": "gridz", "PluginLibrary": "gridz_adios2", "gridz": os.environ["REQUEST"]}
variable.add_operation(adios.define_operator("o", "plugin", plugin))
engine = io.open("x.bp", adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, array, adios2.bindings.Mode.Sync)
engine.end_step()
engine.close()
cuda.mock_cuda_count.argtypes = [ctypes.c_char_p]
print("context:", cuda.mock_cuda_count(b"pushed"), cuda.mock_cuda_count(b"copies"))
"""


@pytest.fixture(scope="module")
def mock(tmp_path_factory):
    """A CUDA driver without a GPU, whose device memory is host memory."""
    folder = tmp_path_factory.mktemp("mock")
    run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1",
         ROOT / "tests/mock_cuda/cuda.c"], folder)  # fmt: skip
    return str(folder)


@pytest.mark.parametrize("request_", ["lorenzo,level=max", "quant,abs=1e-3", "lorenzo"])
def test_memory_of_a_gpu(tmp_path, mock, gridz, request_):
    """A GPU pointer is recognized. Here no kernel can be loaded, so the array is copied and the CPU
    compresses it. The block must equal the CPU's block for the same array in host memory."""
    array = field((90, 70), "float64")
    np.save(tmp_path / "array.npy", array)
    output = python(DEVICE, tmp_path, LD_LIBRARY_PATH=mock, REQUEST=request_, MOCK_CUDA_FAIL="cuModuleLoadDataEx:209")
    assert "context: 1 " in output  # the program's own context is current again
    assert gridz.frame(array, request_) in payload(tmp_path / "x.bp")


def test_work_that_has_failed(tmp_path, mock):
    """The plugin waits for the work that computes the array; if that work has failed, the Put fails
    too."""
    np.save(tmp_path / "array.npy", field((90, 70), "float64"))
    fail = "cuModuleLoadDataEx:209,cuCtxSynchronize:700"
    output = python(DEVICE, tmp_path, "failure", LD_LIBRARY_PATH=mock, REQUEST="lorenzo", MOCK_CUDA_FAIL=fail)
    assert "cuCtxSynchronize failed with CUDA error 700" in output


@pytest.mark.skipif(not HAS_KERNELS, reason="run make test-adios2: otherwise the library may have no CUDA kernels")
def test_kernels(tmp_path, gridz):
    """The GPU compresses arrays in its memory; here, kernels compiled for the CPU replace it."""
    kernels = tmp_path / "emulator"
    run([ROOT / "tests/emulator/build.sh", kernels, "kernels/ndzip/ndzip.cu"], ROOT)
    array = field((90, 70), "float64")
    np.save(tmp_path / "array.npy", array)
    settings = {"LD_LIBRARY_PATH": str(kernels), "MOCK_CUDA_KERNELS": str(kernels / "kernels"), "GRIDZ_BACKEND": "cuda", "GRIDZ_LOG": "debug"}
    output = python(DEVICE, tmp_path, REQUEST="ndzip", **settings)
    assert "by ndzip" in output and "on cuda" in output
    assert gridz.frame(array, "ndzip") in payload(tmp_path / "x.bp")
