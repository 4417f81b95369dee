"""Arrays in NVIDIA GPU memory. Run it on a machine with a GPU, CuPy, torch and the package
installed: python on_gpu.py

Frames have the same bytes as those of host arrays; regions, bulk transfers, and arrays whose stream
is still working.
"""

import pathlib
import tempfile

import cupy
import gridz
import h5py
import numpy as np
import torch

rng = np.random.default_rng(5)
A = rng.normal(size=(64, 256, 256)).astype("f4").cumsum(0)


def refused(call, text):
    """Asserts that the call is refused with this text in its message."""
    try:
        call()
    except gridz.InvalidArgument as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error about {text}")


def frames():
    on_gpu = cupy.asarray(A)
    for codec in ("lorenzo", "ndzip", "quant,abs=1e-2", "stored"):
        host = gridz.compress(A, codec)
        assert gridz.compress(on_gpu, codec) == host
        room = cupy.empty(gridz.bound_of(on_gpu, codec), cupy.uint8)
        frame = room[: gridz.compress(on_gpu, codec, out=room)]
        assert frame.get().tobytes() == host and gridz.inspect(frame).shape == A.shape
        out = cupy.empty(A.shape, "f4")
        assert gridz.decompress(frame, out) is out and (out.get() == gridz.decompress(host)).all()
        part = cupy.empty((5, 256, 10), "f4")
        gridz.decompress_region(frame, np.s_[3:8, :, 20:30], part)
        assert (part.get() == out.get()[3:8, :, 20:30]).all()
        refused(lambda: gridz.decompress(frame), "out=")
    refused(lambda: gridz.compress(on_gpu.T), "contiguous")


def streams():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.asarray(rng.normal(size=(4000, 4000)).astype("f4"))
        for _ in range(20):
            x = x @ x
            x /= cupy.abs(x).max()
        frame = gridz.compress(x)
    stream.synchronize()
    assert (gridz.decompress(frame) == x.get()).all()


def bulk():
    with tempfile.TemporaryDirectory() as folder, h5py.File(pathlib.Path(folder) / "x.h5", "w") as file:
        dset = file.create_dataset("x", A.shape, "f4", chunks=(16, 256, 256), **gridz.Lorenzo())
        gridz.h5.write(dset, cupy.asarray(A))
        assert (dset[...] == A).all()
        out = cupy.empty(A.shape, "f4")
        assert (gridz.h5.read(dset, out).get() == A).all()


def tensors():
    frame = gridz.compress(A)
    assert gridz.compress(torch.from_numpy(A).cuda()) == gridz.compress(torch.from_numpy(A)) == frame
    out = torch.empty(A.shape, device="cuda")
    gridz.decompress(frame, out)
    assert (out.cpu().numpy() == A).all()
    refused(lambda: gridz.compress(torch.zeros(9, dtype=torch.bfloat16)), "NumPy cannot view")


for test in (frames, streams, bulk, tensors):
    test()
    print(f"{test.__name__}: right")
print(f"CuPy {cupy.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
