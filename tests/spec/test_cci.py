"""cci: frames that the library writes, read by this decoder; and damaged blocks with fixed checks.

GRIDZ_DAMAGES: number of random damages per frame."""

import os
import random
import struct

import numpy as np
import pytest

from decode import decode
from library import compress, decompress, share
from parts import checksum
from test_damage import check_alike, damaged, sealed, tally  # noqa: F401: a fixture

N_DAMAGES = int(os.environ.get("GRIDZ_DAMAGES") or share(150))
CCI, UNIT = 7, 16
DTYPES = "uint32", "uint64", "int32", "int64"
LEVELS = "dense", "fast"


def stencil(n):
    """Column indices of a matrix: neighbors on a grid of 9 by 11."""
    y, x = np.divmod(np.arange(99), 11)
    near = (abs(y[:, None] - y) <= 1) & (abs(x[:, None] - x) <= 1)
    return np.resize(np.nonzero(near)[1], n)


def mesh(n, rng):
    """Column indices of rows with three unknowns a node."""
    rows = []
    while sum(map(len, rows)) < n:
        nodes = len(rows) + np.unique(rng.integers(0, 300, 12))
        rows += 3 * [(3 * nodes[:, None] + np.arange(3)).ravel()]
    return np.concatenate(rows)[:n]


def arrays():
    rng = np.random.default_rng(7)
    rows = np.sort(rng.integers(0, 5000, (90, 23)), axis=1).ravel()
    yield "stencil", stencil(3000)
    yield "mesh", mesh(4000, rng)
    yield "columns", rows
    yield "unsorted", rng.integers(0, 300, 1500)
    yield "pointers", np.cumsum(rng.choice([27, 27, 27, 9], 700))
    yield "runs", np.concatenate([k * 7 + np.arange(k % 9 + 3) for k in range(300)])
    yield "down", -3 * np.arange(70_000)
    yield "two blocks", stencil(70_000) * 5
    yield "large", rng.integers(-(2**62), 2**62, 400) // np.arange(1, 401) ** 5
    yield "repeated", np.resize(rng.integers(0, 1 << 30, 37), 1000)


ARRAYS = dict(arrays())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_written_is_read(name, dtype, level):
    data = ARRAYS[name].astype(dtype).tobytes()
    frame = compress(f"cci,level={level}", dtype, [len(ARRAYS[name])], data)
    assert decode(frame) == data
    assert decompress(frame, len(data)) == (0, data)
    assert frame[5] == CCI or len(frame) == 48 + len(data)


def with_block(frame, block):
    """A one-block frame with its block replaced."""
    header, payload = frame[:64], frame[64:]
    table_bytes = 16
    block += bytes(-len(block) % UNIT)
    table = struct.pack("<II", len(block) // UNIT, checksum(block, table_bytes) % (1 << 32)).ljust(table_bytes, b"\0")
    return sealed(header, table + block) if payload else frame


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [name for name in ARRAYS if len(ARRAYS[name]) <= 4000])
def test_damage_is_judged_alike(name, level, tally):  # noqa: F811
    for dtype in "int32", "uint64":
        data = ARRAYS[name].astype(dtype).tobytes()
        frame = compress(f"cci,level={level}", dtype, [len(ARRAYS[name])], data)
        if frame[5] != CCI:
            continue
        block, rng = frame[80:], random.Random(f"{name} {dtype}")
        assert with_block(frame, block) == frame
        for _ in range(N_DAMAGES):
            tally[check_alike(with_block(frame, damaged(rng, block, UNIT)), len(data))] += 1
