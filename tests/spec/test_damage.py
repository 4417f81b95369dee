"""Damages blocks of quant and fixes their checks: the library and this decoder must decode them to
the same array, or both must refuse them."""

import collections
import functools
import os
import pathlib
import random
import struct
import tomllib

import pytest

from decode import crc32c, decode
from library import CORRUPT, TRUNCATED, UNSUPPORTED_FORMAT, decompress, share
from parts import Damage, Later, checksum

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "v8"
N_DAMAGES = int(os.environ.get("GRIDZ_DAMAGES") or share(40))
"""Number of damages per frame."""
QUANT = 3


class Frame:
    """A frame split into pieces."""

    def __init__(self, frame):
        rank, n_parameters = frame[9], frame[11]
        end = -(-(40 + 8 * rank + n_parameters) // 16) * 16
        self.header, payload = frame[:end], frame[end:]
        self.unit = 1 << frame[40 + 8 * rank + 1]
        self.bound, self.blocks = payload[:8], []
        # Find the length of the table: its last entry must account for all block bytes after it.
        n = next(n for n in range(1, 1000) if self.base(n) + self.unit * self.end(payload, n - 1) == len(payload))
        ends = [0] + [self.end(payload, i) for i in range(n)]
        data = payload[self.base(n) :]
        self.blocks = [data[self.unit * begin : self.unit * end] for begin, end in zip(ends, ends[1:])]

    def base(self, n_blocks):
        return -(-(8 + 8 * n_blocks) // self.unit) * self.unit

    @staticmethod
    def end(payload, i):
        return struct.unpack_from("<I", payload, 8 + 8 * i)[0] if 16 + 8 * i <= len(payload) else 0

    def with_block(self, i, block):
        """The frame with another block."""
        base, table, data = self.base(len(self.blocks)), b"", b""
        for other in self.blocks[:i] + [block + bytes(-len(block) % self.unit)] + self.blocks[i + 1 :]:
            low = checksum(other, base + len(data)) % (1 << 32)
            data += other
            table += struct.pack("<II", len(data) // self.unit, low)
        return sealed(self.header, (self.bound + table).ljust(base, b"\0") + data)


def sealed(header, payload):
    """The frame with matching length and checksums."""
    begin, rest = header[:16] + struct.pack("<QQ", len(payload), checksum(payload)), header[36:]
    return begin + struct.pack("<I", crc32c(begin + bytes(4) + rest)) + rest + payload


def damaged(rng, block, unit):
    block = bytearray(block)
    way = rng.randrange(7)
    if way == 0 or not block:
        return bytes(block) + bytes(unit)
    if way == 1:
        return bytes(block[:-unit])
    # The first bytes of a block determine most of its decoding.
    at = rng.randrange(min(len(block), [2, 48, 48, 48, len(block)][way - 2]))
    block[at] = rng.choice([block[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255])
    return bytes(block)


@functools.cache
def goldens():
    """Frames of quant."""
    rows = tomllib.loads((GOLDEN / "MANIFEST.toml").read_text())["frame"]
    read = sorted(GOLDEN / row["file"] for row in rows if row["file"].startswith("quant/"))
    frames = {path.stem: path.read_bytes() for path in read}
    return {name: frame for name, frame in frames.items() if frame[5] == QUANT and len(frame) < 16000}


@pytest.fixture(scope="module")
def tally():
    """Counts of damaged frames that both decoders read and that both refuse. The block checks are
    valid, so each verdict is about the block's contents."""
    counts = collections.Counter()
    yield counts
    print(f"damaged frames: {dict(counts)}")
    assert counts["read"] * 50 > counts.total() and counts["refused"] * 10 > counts.total(), counts


@pytest.mark.parametrize("name", goldens())
def test_damage_is_judged_alike(name, tally):
    golden = goldens()[name]
    frame, rng, n_bytes = Frame(golden), random.Random(name), len(decode(golden))
    for i, block in enumerate(frame.blocks):
        assert frame.with_block(i, block) == golden
    for _ in range(N_DAMAGES):
        i = rng.randrange(len(frame.blocks))
        tally[check_alike(frame.with_block(i, damaged(rng, frame.blocks[i], frame.unit)), n_bytes)] += 1


def check_alike(frame, n_bytes):
    """Asserts that library and decoder agree on a frame; returns "read" or "refused"."""
    status, array = decompress(frame, n_bytes)
    try:
        own = decode(frame)
    except Damage as damage:
        assert status in (CORRUPT, TRUNCATED), f"{damage}: {array}"
    except Later as later:
        assert status == UNSUPPORTED_FORMAT, f"{later}: {array}"
    else:
        assert (status, array) == (0, own)
        return "read"
    return "refused"
