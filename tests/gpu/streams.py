"""gridz in a program that uses CuPy: its arrays, streams, memory pools and graphs.

    streams.py LIBRARY

Frames that the GPU writes in CuPy's memory must equal those that gridz_compress writes in host
memory.
"""

import os
import sys

# Use the default, whatever the caller's environment is; the library reads the variable once.
os.environ["GRIDZ_BACKEND"] = "auto"

import cupy
import numpy

from capi import Batch, Error, Gridz

gridz = Gridz(sys.argv[1])
rng = numpy.random.default_rng(5)
INVALID_ARGUMENT = 100


def chunks(dtype, shape, n_chunks):
    """Random walks, with some chunks of noise and of zeros."""
    all_of_them = rng.standard_normal((n_chunks, *shape)).cumsum(axis=-1).astype(dtype)
    raw = all_of_them.reshape(n_chunks, -1).view(numpy.uint8)
    raw[1::5] = rng.integers(0, 256, raw[1::5].shape, numpy.uint8)
    raw[2::5] = 0
    return all_of_them


def check(batch, host, what):
    """Checks the frames and arrays of a batch after a round trip."""
    assert not batch.statuses.get().any(), (what, batch.statuses)
    assert batch.back.get().tobytes() == host.tobytes(), what
    for i, chunk in enumerate(host):
        # The CPU compresses small chunks in host memory.
        assert batch.frame(i) == gridz.compress(chunk), (what, i)


SHAPES = [("<f4", (40, 50, 60)), ("<f4", (32, 48, 64)), ("<f8", (130, 70)), ("<f4", (12345,)), ("<i2", (1001,)), ("<f8", (3, 5))]


def streams_and_pools():
    """Every kind of memory that CuPy allocates, on CuPy's streams."""
    allocators = {
        "cudaMalloc": cupy.cuda.MemoryPool().malloc,
        "cudaMallocAsync": cupy.cuda.MemoryAsyncPool().malloc,
        "cudaMallocManaged": cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc,
    }
    for name, allocator in allocators.items():
        with cupy.cuda.using_allocator(allocator):
            for dtype, shape in SHAPES:
                for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(), cupy.cuda.Stream.null):
                    with stream:
                        host = chunks(dtype, shape, 7)
                        batch = Batch(gridz, cupy.asarray(host))
                        for own_workspace in (True, False):
                            batch.back.fill(1)
                            batch.compress(stream, own_workspace)
                            batch.decompress(stream, own_workspace)
                            check(batch, host, f"{name} {dtype} {shape} {stream} {own_workspace}")
                        del batch
    print(f"{len(allocators)} kinds of memory, {len(SHAPES)} shapes, 3 kinds of streams: the same frames")


def many_streams():
    """Batches on eight streams at once."""
    host = [chunks("<f4", (64, 64, 64), 10) for _ in range(8)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in host]
    batches = [Batch(gridz, cupy.asarray(h)) for h in host]
    cupy.cuda.Device().synchronize()
    for _ in range(5):
        for batch, stream in zip(batches, streams):
            batch.compress(stream)
            batch.decompress(stream)
    cupy.cuda.Device().synchronize()
    for i, batch in enumerate(batches):
        check(batch, host[i], f"stream {i}")
    print(f"{len(streams)} streams at once: the same frames")


def graph():
    """A captured pair of calls works for other data, with CuPy's preceding work in the same
    graph."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        host = chunks("<f4", (48, 50, 52), 6)
        batch = Batch(gridz, cupy.asarray(host))
        fresh = cupy.asarray(host)
        # Kernels cannot be loaded during a capture.
        cupy.copyto(batch.chunks, fresh)
        batch.compress(stream)
        batch.decompress(stream)
        stream.synchronize()
        stream.begin_capture()
        cupy.copyto(batch.chunks, fresh)
        batch.compress(stream)
        batch.decompress(stream)
        captured = stream.end_capture()
        for replay in range(3):
            host = chunks("<f4", (48, 50, 52), 6)
            fresh.set(host)
            batch.statuses.fill(-1)
            captured.launch(stream)
            stream.synchronize()
            check(batch, host, f"replay {replay}")
    print("a graph, replayed 3 times: the same frames")


def host_memory_is_refused():
    """The error has the field's name and the function to call instead."""
    host = chunks("<f4", (20, 30, 40), 1)
    stream = cupy.cuda.Stream(non_blocking=True)
    batch = Batch(gridz, cupy.asarray(host))
    try:
        gridz.call("gridz_compress_async", batch.struct(stream, arrays=host.ctypes.data, n=1))
    except Error as error:
        assert error.status == INVALID_ARGUMENT and "gridz_compress" in str(error), error
        print(f"host memory is refused: {error}")
    else:
        raise AssertionError("host memory was taken")


streams_and_pools()
many_streams()
graph()
host_memory_is_refused()
