"""Many chunks at once in host and GPU memory: correctness of the frames, and speed.

    chunks.py LIBRARY FIELD [GIB]

FIELD is turb3d.f32 of fields.py; its boxes of 4 MiB are repeated to GIB (8) of data. The table
compares gridz with plain copies in the same run: one copy of everything for pinned memory, and for
pageable memory, copies by the same number of threads through pinned buffers. Times are medians of
ROUNDS calls by the wall clock, GB/s of raw data. `hidden` is the fraction of the shorter works
(copies each way, kernels) that overlaps the longest one, by events on the streams. Prints tables in
Markdown.
"""

import ctypes
import os
import re
import subprocess
import sys
import threading
import time

import cupy
import numpy

from capi import Array, Batch, BatchStruct, Gridz, Options

ROUNDS = 5
BOX = (16, 256, 256)
GB = 1e9


def pinned(n_bytes):
    """Pinned memory as a NumPy array of bytes."""
    memory = cupy.cuda.alloc_pinned_memory(n_bytes)
    return numpy.frombuffer(memory, numpy.uint8, n_bytes)


def options(codec):
    """gridz_options for a codec."""
    return Options(ctypes.sizeof(Options), None, codec.encode())


def address(memory):
    """Address of a NumPy or CuPy array."""
    return memory.data.ptr if isinstance(memory, cupy.ndarray) else memory.ctypes.data


class Chunks:
    """Boxes of `BOX` in some memory, and their packed frames in some memory."""

    def __init__(self, gridz, codec, boxes, frames):
        self.gridz, self.boxes, self.frames = gridz, boxes, frames
        self.array, self.options = Array(numpy.float32, BOX), options(codec)
        self.box_bytes = 4 * BOX[0] * BOX[1] * BOX[2]
        self.n = boxes.nbytes // self.box_bytes
        self.lengths = (ctypes.c_size_t * self.n)()
        self.end = ctypes.c_size_t()

    def compress(self):
        """Compresses all boxes."""
        self.gridz.call("gridz_compress_chunks", self.struct(self.boxes, self.frames.nbytes), ctypes.byref(self.end))

    def decompress(self, back):
        """Decompresses all boxes into `back`."""
        self.gridz.call("gridz_decompress_chunks", self.struct(back, self.end.value))

    def struct(self, boxes, packed_bytes):
        """gridz_batch of these boxes and the packed frames."""
        arrays = dict(arrays=address(boxes), array_stride=self.box_bytes)
        frames = dict(packed=address(self.frames), packed_bytes=packed_bytes, frame_bytes=ctypes.addressof(self.lengths))
        return BatchStruct(self.array, self.n, self.options, **arrays, **frames)


def seconds(call, rounds=ROUNDS):
    """The median time of a call, after one warm-up call."""
    times = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(numpy.median(times[1:]))


def plain_copies(host, device):
    """Seconds to copy pinned `host` to the GPU and back, in pieces as large as `device`."""
    stream = cupy.cuda.Stream(non_blocking=True)
    runtime, piece = cupy.cuda.runtime, device.nbytes

    def copy(kind):
        for at in range(0, host.nbytes, piece):
            there, here = device.data.ptr, host.ctypes.data + at
            dst, src = (there, here) if kind == runtime.memcpyHostToDevice else (here, there)
            runtime.memcpyAsync(dst, src, min(piece, host.nbytes - at), kind, stream.ptr)
        stream.synchronize()

    return [seconds(lambda kind=kind: copy(kind)) for kind in (runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost)]


def staged_copies(host, device, n_threads, piece):
    """Like `plain_copies`, for pageable memory: each thread has two pinned pieces and two
    streams."""
    runtime = cupy.cuda.runtime
    rings = [[pinned(piece) for _ in range(2)] for _ in range(n_threads)]
    streams = [[cupy.cuda.Stream(non_blocking=True) for _ in range(2)] for _ in range(n_threads)]

    def work(k, kind):
        # A thread alternates between its two pieces: the CPU copies one while the other is on the
        # bus.
        starts = list(range(k * piece, host.nbytes, n_threads * piece))
        for i, at in enumerate(starts):
            ring, stream = rings[k][i % 2], streams[k][i % 2]
            n_bytes, there = min(piece, host.nbytes - at), device.data.ptr + at % (device.nbytes - piece)
            stream.synchronize()
            if kind == runtime.memcpyHostToDevice:
                numpy.copyto(ring[:n_bytes], host[at : at + n_bytes])
                runtime.memcpyAsync(there, ring.ctypes.data, n_bytes, kind, stream.ptr)
            else:
                if i >= 2:
                    before = starts[i - 2]
                    numpy.copyto(host[before : before + piece], ring[: host[before : before + piece].size])
                runtime.memcpyAsync(ring.ctypes.data, there, n_bytes, kind, stream.ptr)
        for i, at in list(enumerate(starts))[-2:]:
            streams[k][i % 2].synchronize()
            if kind == runtime.memcpyDeviceToHost:
                numpy.copyto(host[at : at + piece], rings[k][i % 2][: host[at : at + piece].size])

    def copy(kind):
        threads = [threading.Thread(target=work, args=(k, kind)) for k in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return [seconds(lambda kind=kind: copy(kind), 3) for kind in (runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost)]


def kernel_seconds(gridz, codec, boxes):
    """Seconds of the kernels alone for boxes in GPU memory, by events."""
    batch = Batch(gridz, boxes.view(numpy.float32).reshape(-1, *BOX), options(codec))
    stream, begin, end = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Event()
    found = []
    for work in (batch.compress, batch.decompress):
        times = []
        for _ in range(12):
            begin.record(stream)
            work(stream)
            end.record(stream)
            end.synchronize()
            times.append(1e-3 * cupy.cuda.get_elapsed_time(begin, end))
        found.append(float(numpy.median(times[2:])))
    return found


def report_hidden(text, wall_of):
    """The hidden fraction of one call, from its GRIDZ_LOG=debug output."""
    bring, work, fetch = (float(word) for word in re.search(r"GPU ([\d.]+) ms, kernels ([\d.]+) ms, copies back ([\d.]+)", text).groups())
    wall = float(re.search(r"in ([\d.]+) ms on cuda", wall_of).group(1))
    longest = max(bring, work, fetch)
    rest = bring + work + fetch - longest
    batch = re.search(r"(\d+) chunks a batch", text).group(1)
    hidden = 1 - max(0.0, wall - longest) / rest if rest else 1.0
    return f"| {bring:.1f} | {work:.1f} | {fetch:.1f} | {wall:.1f} | {100 * hidden:.1f} % | {batch} |"


def load(field, gib):
    """Boxes of the field, in pinned memory."""
    values = numpy.fromfile(field, numpy.float32)
    n = round(values.size ** (1 / 3))
    counts = [n // box for box in BOX]
    boxes = values.reshape(counts[0], BOX[0], counts[1], BOX[1], counts[2], BOX[2]).transpose(0, 2, 4, 1, 3, 5)
    boxes = numpy.ascontiguousarray(boxes).reshape(-1).view(numpy.uint8)
    src = pinned(int(gib * 2**30) // boxes.nbytes * boxes.nbytes)
    for at in range(0, src.nbytes, boxes.nbytes):
        numpy.copyto(src[at : at + boxes.nbytes], boxes)
    return src


def main():
    # Otherwise the library would use the CPU for pageable memory with this many threads.
    os.environ["GRIDZ_BACKEND"] = "cuda"
    library, field = sys.argv[1:3]
    gib = float(sys.argv[3]) if len(sys.argv) > 3 else 8
    gridz = Gridz(library)
    src = load(field, gib)
    bound = gridz.size("gridz_packed_bound", Array(numpy.float32, BOX), src.nbytes // (4 * BOX[0] * BOX[1] * BOX[2]))
    dst, back = pinned(bound), pinned(src.nbytes)
    if os.environ.get("GRIDZ_LOG") == "debug":
        for codec in ("ndzip", "lorenzo"):
            chunks = Chunks(gridz, codec, src, dst)
            for _ in range(2):
                chunks.compress()
                chunks.decompress(back)
        return
    device = cupy.empty(1 << 30, cupy.uint8)
    up, down = plain_copies(src, device)
    raw = src.nbytes / GB
    print(f"{src.nbytes / 2**30:.1f} GiB in boxes of 4 MiB, {os.cpu_count()} cores. Plain copies of pinned memory: {raw / up:.1f} GB/s to the GPU, {raw / down:.1f} back.")
    plain = {}
    part = src[: src.nbytes // 2]
    pageable = numpy.array(part)
    for piece in (1 << 20, 4 << 20, 16 << 20):
        for n_threads in {4, 8, os.cpu_count()}:
            plain[piece, n_threads] = [part.nbytes / GB / t for t in staged_copies(pageable, device, n_threads, piece)]
    best = [max(found[k] for found in plain.values()) for k in (0, 1)]
    print(f"The best plain copies of memory that is not pinned, by up to {os.cpu_count()} threads: {best[0]:.1f} and {best[1]:.1f} GB/s.\n")

    print("| codec | memory | ratio | compress | decompress | goal | of it |\n|---|---|---|---|---|---|---|")
    boxes = cupy.asarray(src[: 2 << 30])
    pageable_dst = numpy.empty(dst.nbytes // 2, numpy.uint8)
    pageable_back = numpy.empty(pageable.nbytes, numpy.uint8)
    back_device = cupy.empty_like(boxes)
    for codec in ("ndzip", "lorenzo"):
        few = boxes[: 1 << 30]
        kernels = [few.nbytes / GB / t for t in kernel_seconds(gridz, codec, few)]
        for name, chunks, target in [
            ("pinned", Chunks(gridz, codec, src, dst), back),
            ("not pinned", Chunks(gridz, codec, pageable, pageable_dst), pageable_back),
            ("GPU to pinned", Chunks(gridz, codec, boxes, dst), back_device),
        ]:
            target.fill(0)
            size = chunks.boxes.nbytes / GB
            packed = size / seconds(chunks.compress)
            unpacked = size / seconds(lambda: chunks.decompress(target))
            xp = cupy if isinstance(target, cupy.ndarray) else numpy
            assert bool(xp.array_equal(target[: chunks.boxes.nbytes], chunks.boxes)), f"{codec}, {name}: other data"
            ratio = chunks.boxes.nbytes / chunks.end.value
            goals = {
                "pinned": [raw / up, raw / down],
                "not pinned": best,
                "GPU to pinned": [min(kernels[0], raw / down * ratio), min(kernels[1], raw / up * ratio)],
            }[name]
            share = [100 * speed / goal for speed, goal in zip((packed, unpacked), goals)]
            print(f"| {codec} | {name} | {ratio:.3f} | {packed:.1f} | {unpacked:.1f} | {goals[0]:.1f}, {goals[1]:.1f} | {share[0]:.0f} %, {share[1]:.0f} % |", flush=True)
        # The frames must equal those made one by one on the CPU.
        one = src[: 64 << 20].view(numpy.float32).reshape(-1, *BOX)
        chunks = Chunks(gridz, codec, src[: 64 << 20], dst)
        chunks.compress()
        at = 0
        for i, box in enumerate(one):
            frame = gridz.compress(numpy.ascontiguousarray(box), options(codec))
            assert frame == dst[at : at + chunks.lengths[i]].tobytes(), f"{codec}: frame {i} differs"
            at += -(-chunks.lengths[i] // 16) * 16

    print("\n| call | copies up, ms | kernels | copies back | whole | hidden | boxes a batch |\n|---|---|---|---|---|---|---|")
    environment = {**os.environ, "GRIDZ_LOG": "debug"}
    log = subprocess.run([sys.executable, *sys.argv], env=environment, stderr=subprocess.PIPE, text=True, check=True).stderr
    lines = [line for line in log.splitlines() if "chunks" in line]
    calls = [f"{codec}, {way}" for codec in ("ndzip", "lorenzo") for _ in range(2) for way in ("compress", "decompress")]
    for i, call in enumerate(calls):
        # The first call of each kind allocates its memory.
        if i // 2 % 2 == 1:
            print(f"| {call} {report_hidden(*lines[2 * i : 2 * i + 2])}")


if __name__ == "__main__":
    main()
