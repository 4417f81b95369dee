"""The filter in h5py with GRIDZ_BACKEND=cuda: chunks are compressed on the GPU and read back on the
CPU.

    h5py_filter.py FOLDER-OF-THE-PLUGIN

Writes on the GPU and reads on the CPU, and vice versa, in separate processes; the chunks of both
files must be the same bytes, and the log must name the back end.
"""

import os
import subprocess
import sys
import tempfile

WRITE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(1)
with h5py.File(sys.argv[1], "w") as f:
    for dtype in ("<f4", ">f4", "<f8"):
        x = rng.standard_normal((130, 140, 150)).cumsum(axis=0).astype(dtype)
        x[3, 4, 5:9] = [np.nan, np.inf, -0.0, 1e-40]
        f.create_dataset("plain" + dtype, data=x)
        f.create_dataset("packed" + dtype, data=x, chunks=(50, 60, 70), compression=34013)
"""
READ = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    for dtype in ("<f4", ">f4", "<f8"):
        assert f["plain" + dtype][()].tobytes() == f["packed" + dtype][()].tobytes(), dtype
"""
CHUNKS = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    for dtype in ("<f4", ">f4", "<f8"):
        chunks = f["packed" + dtype].id
        for i in range(chunks.get_num_chunks()):
            sys.stdout.buffer.write(chunks.read_direct_chunk(chunks.get_chunk_info(i).chunk_offset)[1])
"""


def python(code, file, backend):
    env = dict(os.environ, HDF5_PLUGIN_PATH=sys.argv[1], GRIDZ_BACKEND=backend, GRIDZ_LOG="debug")
    done = subprocess.run([sys.executable, "-c", code, file], env=env, capture_output=True, timeout=300)
    log = done.stderr.decode()
    assert done.returncode == 0, log
    return done.stdout, [line for line in log.splitlines() if "compressed" in line]


with tempfile.TemporaryDirectory() as folder:
    files = {}
    for writer, reader in (("cuda", "cpu"), ("cpu", "cuda")):
        files[writer] = f"{folder}/{writer}.h5"
        _, written = python(WRITE, files[writer], writer)
        _, read = python(READ, files[writer], reader)
        assert len(written) == 81 and all(line.endswith("on " + writer) for line in written), written[:3]
        assert len(read) == 81 and all(line.endswith("on " + reader) for line in read), read[:3]
        print(f"written on {writer}, read on {reader}: {len(written)} chunks, bit for bit the same")
    chunks = [python(CHUNKS, file, "cpu")[0] for file in files.values()]
    assert chunks[0] == chunks[1] and len(chunks[0]) > 1_000_000
    print(f"both wrote the same {len(chunks[0])} bytes")
