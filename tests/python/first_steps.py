"""The first steps of a new user, for tests/python/matrix.sh: writes, reads, compresses; prints the
versions."""

import sys
import tempfile

import gridz
import h5py
import numpy as np

a = np.random.default_rng(0).normal(size=(64, 64)).cumsum(0)
with tempfile.TemporaryDirectory() as folder, h5py.File(f"{folder}/x.h5", "w") as file:
    file.create_dataset("a", data=a, chunks=(16, 64), **gridz.Lorenzo("dense"))
    file.create_dataset("b", data=a, chunks=(16, 64), compression=gridz.Quant(abs=1e-3))
    c = file.create_dataset("c", a.shape, "f8", chunks=(16, 64), **gridz.Ndzip())
    gridz.h5.write(c, a)
    assert (gridz.h5.read(c) == a).all() and (file["a"][...] == a).all()
    assert gridz.quality(a, file["b"][...], bound="quant,abs=1e-3").ok
assert (gridz.decompress(gridz.compress(a)) == a).all()
print(f"python {sys.version.split()[0]}, numpy {np.__version__}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}: right")
