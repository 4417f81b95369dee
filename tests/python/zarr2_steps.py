"""Zarr 2 before 3.0, for tests/python/matrix.sh: writes, reads, and reads in a process that does
not import gridz."""

import subprocess
import sys
import tempfile

import numpy as np
import zarr

from gridz.numcodecs import Gridz

assert zarr.__version__.startswith("2."), zarr.__version__
a = np.random.default_rng(0).normal(size=(50, 64)).cumsum(0).astype("f4")
with tempfile.TemporaryDirectory() as folder:
    for name, codec in (("exact", Gridz("lorenzo,level=dense")), ("bounded", Gridz("quant,abs=1e-3"))):
        stored = zarr.open(f"{folder}/{name}.zarr", "w", shape=a.shape, dtype=a.dtype, chunks=(20, 64), compressor=codec)
        stored[...] = a
        assert stored.nbytes_stored < a.nbytes
    assert (zarr.open(f"{folder}/exact.zarr", "r")[...] == a).all()
    code = f"import sys, zarr; b = zarr.open('{folder}/bounded.zarr', 'r')[...]; print(b[7, 9])"
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert abs(float(found) - a[7, 9]) <= 1.001e-3
print(f"python {sys.version.split()[0]}, numpy {np.__version__}, zarr {zarr.__version__}: right")
