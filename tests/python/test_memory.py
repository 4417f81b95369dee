"""Memory: per-thread caches are freed on request, and calls without memory fail with an error."""

import json
import os
import subprocess
import sys

import pytest

KEPT = """
import time, numpy as np, gridz
from gridz._native import lib

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

array = np.cumsum(np.random.default_rng(1).normal(size=(1024, 1024)).round(2), axis=0)
before = resident()
frame = gridz.compress(array, "lorenzo,level=max")
kept = resident() - len(frame)
lib.gridz_release_caches()
deadline = time.monotonic() + 20
while kept - (resident() - len(frame)) < THREADS * 4 << 20 and time.monotonic() < deadline:
    time.sleep(0.01)
print((kept - (resident() - len(frame))) >> 20)
assert gridz.decompress(frame).tobytes() == array.tobytes()
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_working_memory_is_freed_on_request(threads):
    run = [sys.executable, "-c", KEPT.replace("THREADS", str(threads))]
    environment = {**os.environ, "GRIDZ_THREADS": str(threads), "MALLOC_MMAP_THRESHOLD_": "131072"}
    printed = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
    assert int(printed) >= 4 * threads, f"{printed} MiB were freed"


WITHOUT_MEMORY = """
import json, os, resource
import numpy as np, gridz

array = np.cumsum(np.random.default_rng(1).normal(size=(64, 16384)).round(2), axis=1)
counts, held = {}, []

def leave(n_bytes):
    # Limits the process to its present memory and uses up what allocators hold in reserve, then raises the limit.
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        while True:
            held.append(np.empty(1 << 18, "u1"))
    except MemoryError:
        pass
    resource.setrlimit(resource.RLIMIT_AS, (limit + n_bytes, resource.RLIM_INFINITY))

for codec in [
    "lorenzo", "lorenzo,level=dense", "lorenzo,level=max", "quant,abs=1e-3", "quant,abs=1e-3,level=max", "zfp,abs=1e-3", "ndzip",
    "multigrid,abs=1e-3", "multigrid,rms=1e-3,s=-1", "multigrid,abs=1e-3,layers=3",
]:
    frame = gridz.compress(array, codec)
    for mib in (1, 9, 14, 60):
        for work in (lambda: gridz.compress(array, codec), lambda: gridz.decompress(frame)):
            child = os.fork()
            if child == 0:
                code = 9
                try:
                    leave(int(mib * 2**20))
                    work()
                    code = 0
                except (MemoryError, gridz.OutOfMemory):
                    code = 1
                except gridz.Corrupt as error:
                    # A size that cannot be allocated is reported as possible damage of the frame.
                    code = 1 if "cannot be allocated" in str(error) else 9
                finally:
                    os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code in (0, 1), f"{codec} with {mib} MiB ended with {code}"
            counts[code] = counts.get(code, 0) + 1
print(json.dumps(counts))
"""


def test_without_memory_calls_fail_and_the_process_goes_on():
    run = [sys.executable, "-c", WITHOUT_MEMORY]
    counts = json.loads(subprocess.run(run, stdout=subprocess.PIPE, check=True).stdout)
    # Calls that succeed, and calls that run out of memory.
    assert sum(counts.values()) == 80 and counts["0"] >= 10 and counts["1"] >= 20, counts
