"""Arrays in NVIDIA GPU memory through ADIOS2. Run it on a machine with a GPU, CuPy, torch and
adios2:

    python on_gpu.py PREFIX

PREFIX is the installation of gridz (built with CUDA kernels) and its operator; its folder `lib` is
enough. Blocks must have the same bytes as those of host arrays. Pending work of streams must be
waited for. Readers do not load CUDA.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PREFIX = pathlib.Path(sys.argv[1]).resolve()
os.environ["ADIOS2_PLUGIN_PATH"] = str(PREFIX / "lib/adios2/plugin")

import adios2
import cupy
import numpy as np
import torch

rng = np.random.default_rng(5)
A = rng.normal(size=(64, 256, 256)).astype("f4").cumsum(0)
SYNC = adios2.bindings.Mode.Sync
READER = """
import sys, adios2, numpy as np
with adios2.FileReader(sys.argv[1]) as f:
    np.savez(sys.argv[2], **{name: f.read(name) for name in f.available_variables()})
"""


def write(path, arrays, request):
    """Writes each array as a variable of one block."""
    adios = adios2.Adios()
    io = adios.declare_io("writer")
    io.set_engine("BP5")
    io.set_parameters({"StatsLevel": "0"})
    operator = adios.define_operator("o", "plugin", {"PluginName": "gridz", "PluginLibrary": "gridz_adios2"} | request)
    engine = io.open(str(path), adios2.bindings.Mode.Write)
    engine.begin_step()
    for name, array in arrays.items():
        shape = list(array.shape)
        variable = io.define_variable(name, np.zeros(1, str(array.dtype).replace("torch.", "")), shape, [0] * len(shape), shape)
        variable.add_operation(operator)
        engine.put(variable, array, SYNC)
    engine.end_step()
    engine.close()


def frames(path):
    """The frames of a file, without ADIOS2's data between them."""
    data, found, at = b"".join(file.read_bytes() for file in sorted(path.glob("data.*"))), [], 0
    while (at := data.find(b"GRDZ", at)) >= 0:
        rank, n_params = data[at + 9], data[at + 11]
        end = at + (40 + 8 * rank + n_params + 15) // 16 * 16 + int.from_bytes(data[at + 16 : at + 24], "little")
        found.append(data[at:end])
        at = end
    return found


def read(path):
    """Reads all variables in a process that sees no GPU. ADIOS2 itself loads CuPy, and so the
    driver; gridz does not."""
    out = path.with_suffix(".npz")
    subprocess.run([sys.executable, "-c", READER, str(path), str(out)], check=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "GRIDZ_BACKEND": "cpu"})
    with np.load(out) as found:
        return dict(found)


def same_bytes(folder):
    """Every codec, with the GPU required, and with the GPU forbidden: then arrays are copied to the
    host."""
    dtypes = {"float32": A, "float64": A.astype("f8") * 1.1, "int32": (A * 100).astype("i4")}
    for text in ["lorenzo", "lorenzo,level=dense", "lorenzo,level=max", "ndzip", "stored", "huffman", "quant,abs=1e-2", "quant,abs=1e-2,level=dense",
                 "quant,abs=1e-2,level=max", "quant,pwrel=1e-3", "zfp,rate=8", "zfp,abs=1e-2", "multigrid,abs=1e-2", "multigrid,rms=1e-2"]:  # fmt: skip
        takes_integers = not text.startswith(("zfp", "multigrid")) and "pwrel" not in text
        arrays = {name: array for name, array in dtypes.items() if name != "int32" or takes_integers}
        write(folder / "host.bp", arrays, {"gridz": text})
        for backend in ["cuda", "cpu", "auto"]:
            write(folder / "gpu.bp", {name: cupy.asarray(a) for name, a in arrays.items()}, {"gridz": text, "backend": backend})
            found = frames(folder / "gpu.bp")
            assert found == frames(folder / "host.bp") and len(found) == len(arrays), (text, backend)
    assert (read(folder / "gpu.bp")["float32"].shape) == A.shape


def kinds_of_memory(folder):
    """Memory of a pool, of torch, managed memory, and pinned memory; a part of an array at any
    offset."""
    pool = cupy.cuda.MemoryAsyncPool()
    with cupy.cuda.using_allocator(pool.malloc):
        from_pool = cupy.asarray(A)
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        managed = cupy.asarray(A)
    arrays = {"pool": from_pool, "managed": managed, "torch": torch.from_numpy(A).cuda(), "part": cupy.asarray(A)[3:17]}
    write(folder / "kinds.bp", arrays, {"codec": "lorenzo"})
    found = read(folder / "kinds.bp")
    for name in arrays:
        assert (found[name] == (A[3:17] if name == "part" else A)).all(), name


def streams(folder):
    """Puts arrays while streams still compute them, without synchronization."""
    for stream in [cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream()]:
        with stream:
            x = cupy.asarray(rng.normal(size=(6000, 6000)).astype("f4"))
            for _ in range(30):
                x = x @ x
                x /= cupy.abs(x).max()
        write(folder / "stream.bp", {"x": x}, {"codec": "lorenzo", "backend": "cuda"})
        stream.synchronize()
        assert (read(folder / "stream.bp")["x"] == x.get()).all()


def large(folder):
    """More than 4 GiB in a block."""
    x = cupy.arange((4 << 30) // 4 + 1000003, dtype="i4") // 7
    write(folder / "large.bp", {"x": x}, {"codec": "lorenzo", "backend": "cuda"})
    assert (read(folder / "large.bp")["x"] == x.get()).all()


def no_leak(folder):
    """Many blocks: the free GPU memory stays about constant."""
    x = cupy.asarray(A)
    write(folder / "many.bp", {"x": x}, {"codec": "quant", "abs": "1e-2"})
    before = cupy.cuda.runtime.memGetInfo()[0]
    for _ in range(50):
        write(folder / "many.bp", {"x": x}, {"codec": "quant", "abs": "1e-2"})
    assert before - cupy.cuda.runtime.memGetInfo()[0] < 64 << 20


with tempfile.TemporaryDirectory() as name:
    for test in [same_bytes, kinds_of_memory, streams, large, no_leak]:
        test(pathlib.Path(name))
        print(f"{test.__name__}: passed", flush=True)
