"""Effect of compression on links between GPUs: messages of many blocks of a field in GPU memory.

    links.py LIBRARY FOLDER-OF-FIELDS

A message is compressed, packed, unpacked and decompressed on one stream, each direction measured by
events (medians); it is not sent. For links of several speeds in GB/s, the table gives the effective
GB/s of raw data if messages are pipelined: the slowest of compression, link and decompression
determines it. Bold exceeds the link without compression. Prints Markdown.
"""

import sys
from ctypes import sizeof

import cupy
import numpy

from capi import Batch, Gridz, Options

LINKS = (12.5, 25.0, 50.0)
FIELDS = [("turb3d.f32", "<f4"), ("smooth3d.f32", "<f4"), ("turb3d.f64", "<f8")]
BLOCK = (16, 256, 256)
ROUNDS, WARM_UPS = 15, 3


class Message:
    """A message: blocks in GPU memory, with the buffers for compressing and decompressing them."""

    def __init__(self, gridz, codec, blocks):
        self.gridz = gridz
        self.batch = Batch(gridz, blocks, Options(sizeof(Options), None, codec.encode()))
        n = self.batch.n_chunks
        self.packed = cupy.empty(n * self.batch.slot, cupy.uint8)
        self.offsets = cupy.zeros(n + 1, cupy.uint64)
        self.lengths = cupy.zeros(n, cupy.uint64)

    def send(self, stream):
        """Compresses and packs the blocks."""
        batch = self.batch
        batch.compress(stream)
        self.gridz.call("gridz_pack_async", batch.struct(stream, **self._packed()))

    def receive(self, stream):
        """Unpacks and decompresses the blocks."""
        batch = self.batch
        self.gridz.call("gridz_unpack_async", batch.struct(stream, **self._packed()), self.lengths.data.ptr)
        batch.decompress(stream)

    def _packed(self):
        return dict(packed=self.packed.data.ptr, packed_bytes=self.packed.nbytes, offsets=self.offsets.data.ptr)

    def gbs(self, way):
        """Speed of one direction in GB/s of raw data."""
        stream, begin, end, times = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Event(), []
        for _ in range(WARM_UPS + ROUNDS):
            begin.record(stream)
            way(stream)
            end.record(stream)
            end.synchronize()
            times.append(1e6 * cupy.cuda.get_elapsed_time(begin, end))
        return self.batch.chunks.nbytes / float(numpy.median(times[WARM_UPS:]))


def main():
    gridz = Gridz(sys.argv[1])
    print("| field | codec | message, MiB | ratio | compress | decompress |" + "".join(f" {link} GB/s |" for link in LINKS))
    print("|---|---|---|---|---|---|" + "---|" * len(LINKS))
    for name, dtype in FIELDS:
        values = numpy.fromfile(f"{sys.argv[2]}/{name}", dtype)
        # Slabs of the field in memory order.
        blocks = cupy.asarray(values.reshape(-1, *BLOCK))
        for codec in ("ndzip", "lorenzo"):
            for share in (len(blocks), len(blocks) // 8):
                message = Message(gridz, codec, cupy.ascontiguousarray(blocks[:share]))
                send, receive = message.gbs(message.send), message.gbs(message.receive)
                assert bool((message.batch.back == message.batch.chunks).all()) and not message.batch.statuses.any(), name
                raw = message.batch.chunks.nbytes
                ratio = raw / int(message.offsets[-1])
                speeds = [min(send, receive, link * ratio) for link in LINKS]
                cells = [f"**{speed:.1f}**" if speed > link else f"{speed:.1f}" for speed, link in zip(speeds, LINKS)]
                print(f"| {name} | {codec} | {raw / 2**20:.0f} | {ratio:.2f} | {send:.0f} | {receive:.0f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
