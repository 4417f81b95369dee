"""Compares zfp with libzfp (`zfpy`): the same streams, and the same arrays from them. Compares it
with this decoder: bounds, fill values and exact elements.

GRIDZ_STREAMS: number of random arrays that are compared with libzfp."""

import math
import os
import random
import struct

import numpy as np
import pytest
import zfpy

from decode import decode
from library import compress, decompress

N_STREAMS = int(os.environ.get("GRIDZ_STREAMS") or 8000)
N_PARTS = 40
ZFP = 4
DTYPES = ["float32", "float64", "int32", "int64"]
SHAPES = {
    1: [[64], [100], [257], [1003], [4100]],
    2: [[16, 16], [2, 90], [45, 17], [33, 40]],
    3: [[8, 8, 8], [5, 6, 7], [2, 3, 40], [13, 10, 9]],
    4: [[4, 4, 4, 8], [3, 5, 6, 7], [2, 2, 9, 6], [8, 5, 4, 6]],
}


def smooth(rng, extents):
    """Waves along all axes."""
    axes = np.meshgrid(*(np.arange(n) for n in extents), indexing="ij", sparse=True)
    waves = (np.sin(axis * rng.uniform(0.02, 0.9) + rng.uniform(0, 6)) for axis in axes)
    return sum(wave * rng.uniform(0.1, 2) for wave in waves) + np.zeros(extents)


def draw_float(rng, dtype, extents):
    """Random floats: smooth or rough, around zero or far from it, of all magnitudes."""
    kind = rng.choice(["smooth", "noisy", "noise", "scales", "zeros", "subnormal", "huge", "same", "steps"])
    noise = np.random.default_rng(rng.getrandbits(60))
    values = smooth(rng, extents)
    if kind == "noisy":
        values += noise.normal(0, 1e-3, extents)
    elif kind == "noise":
        values = noise.uniform(-1, 1, extents)
    elif kind == "scales":
        values *= 2.0 ** noise.integers(-60, 60, extents)
    elif kind == "zeros":
        values *= noise.random(extents) < 0.1
    elif kind == "subnormal":
        # Mixed with larger numbers, without which a block is undefined in libzfp.
        values *= np.where(noise.random(extents) < 0.8, float(np.finfo(dtype).tiny), 1e-3)
    elif kind == "huge":
        values *= float(np.finfo(dtype).max) / 1e3
    elif kind == "same":
        values = np.full(extents, rng.uniform(-10, 10))
    elif kind == "steps":
        values = np.rint(values * 4)
    scale = 10.0 ** rng.choice([0, 0, 0, 3, -3, 12, -12]) if kind not in ("huge", "subnormal") else 1.0
    return (values * scale).astype(dtype)


def draw_integer(rng, dtype, extents):
    """Integers in the range of zfp: below a quarter of the type's range."""
    noise = np.random.default_rng(rng.getrandbits(60))
    quarter = 1 << np.iinfo(dtype).bits - 2
    kind = rng.choice(["smooth", "noise", "zeros", "huge"])
    if kind == "noise":
        return noise.integers(-1000, 1000, extents).astype(dtype)
    values = smooth(rng, extents) * rng.choice([10, 1e4, 1e8])
    if kind == "zeros":
        values *= noise.random(extents) < 0.1
    if kind == "huge":
        return noise.integers(-quarter, quarter, extents).astype(dtype)
    return np.clip(np.rint(values), -quarter, quarter - 1).astype(dtype)


def draw_mode(rng, values):
    """The text for gridz, and the corresponding arguments of zfpy."""
    bits = values.itemsize * 8
    mode = rng.choice(["lossless", "rate", "precision", "abs"] if values.dtype.kind == "f" else ["lossless", "rate", "precision"])
    if mode == "lossless":
        return "zfp", {}
    if mode == "rate":
        # With fewer bits than a float block's header needs, zfpy writes past its own memory.
        least = {32: 9, 64: 12}[bits] / 4**values.ndim
        rate = max(rng.choice([0.5, 1, 2, 4.3, 8, 16, rng.uniform(0.1, bits - 8)]), least)
        return f"zfp,rate={rate!r}", {"rate": float(rate)}
    if mode == "precision":
        precision = rng.randint(1, bits)
        return f"zfp,precision={precision}", {"precision": float(precision)}
    size = float(np.abs(values.astype("f8")).max()) or 1.0
    bound = min(max(size * 10.0 ** rng.uniform(-7, 1), 1e-300), 1e300)
    return f"zfp,abs={bound!r}", {"tolerance": bound}


class Frame:
    """The parts of a frame of zfp; `stream` is None if the array is stored."""

    def __init__(self, frame):
        rank, n_parameters = frame[9], frame[11]
        payload = frame[-(-(40 + 8 * rank + n_parameters) // 16) * 16 :]
        self.stream = None
        if frame[5] == ZFP:
            n_bits, _, self.n_exceptions, _ = struct.unpack("<QdII", payload[-24:])
            self.stream = payload[: -(-n_bits // 64) * 8]


@pytest.mark.parametrize("part", range(N_PARTS))
def test_streams_are_those_of_libzfp(part):
    rng = random.Random(f"streams {part}")
    n_same = 0
    for i in range(N_STREAMS // N_PARTS):
        dtype, rank = DTYPES[i % 4], 1 + i // 4 % 4
        extents = rng.choice(SHAPES[rank])
        values = (draw_float if dtype.startswith("f") else draw_integer)(rng, dtype, extents)
        text, arguments = draw_mode(rng, values)
        frame = Frame(whole := compress(text, dtype, extents, values.tobytes()))
        status, back = decompress(whole, values.nbytes)
        assert status == 0, back
        if "tolerance" in arguments:
            error = np.abs(values.astype("f8") - np.frombuffer(back, dtype).reshape(extents).astype("f8"))
            assert np.all(error <= arguments["tolerance"]), text
        if frame.stream is None or frame.n_exceptions:
            continue
        theirs = zfpy.compress_numpy(values, write_header=False, **arguments)
        assert frame.stream == theirs, f"{text}, {dtype} {extents}"
        # libzfp reads past the end of its input.
        room = frame.stream + bytes(64)
        decoded = zfpy._decompress(room, zfpy.dtype_to_ztype(values.dtype), extents, **arguments)
        assert decoded.tobytes() == back, f"{text}, {dtype} {extents}"
        n_same += 1
    assert n_same > 0.65 * (N_STREAMS // N_PARTS), f"only {n_same} arrays are neither stored nor have exceptions"


FILLS = {"float32": [-999.0, 1e20, 0.5], "float64": [-999.0, 1e20, 0.5], "int32": [-999, 7], "int64": [-999, 1 << 60]}


def draw_mask(rng, values, fill):
    """Replaces parts of an array by a fill value, NaN, signed infinities, spikes, or huge
    integers."""
    values, n = values.ravel().copy(), values.size
    noise = np.random.default_rng(rng.getrandbits(60))
    with np.errstate(all="ignore"):
        if rng.random() < 0.6:
            hole = rng.choice([fill if fill is not None else 0, np.nan] if values.dtype.kind == "f" else [fill or 0])
            values[np.arange(n) % rng.randint(20, 90) < rng.randint(1, 40)] = hole
        for _ in range(rng.choice([0, 1, 5])):
            wild = [1e35, -math.inf, math.inf, 1e-40] if values.dtype.kind == "f" else [1 << values.itemsize * 8 - 2, -5]
            values[rng.randrange(n)] = rng.choice(wild)
    if values.dtype.kind == "f" and rng.random() < 0.3:
        # NaN of all kinds.
        words = values.view(f"<u{values.itemsize}")
        infinity = np.array(math.inf, values.dtype).view(words.dtype)
        at = noise.integers(0, n, 5)
        words[at] = infinity | noise.integers(1, 1 << 20, 5).astype(words.dtype)
    return values




@pytest.mark.parametrize("seed", range(int(os.environ.get("GRIDZ_SCHEDULES") or 60)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_stream_cannot_have_is_exact(dtype, seed):
    rng = random.Random(f"{dtype} {seed}")
    extents = rng.choice([[400], [24, 20], [7, 70], [6, 7, 9], [3, 5, 4, 6], [2, 3, 1, 5, 4, 3]])
    draw = draw_float if dtype.startswith("f") else draw_integer
    fill = rng.choice(FILLS[dtype]) if rng.random() < 0.5 else None
    values = draw_mask(rng, draw(rng, dtype, extents), fill)
    finite = values[np.isfinite(values)] if dtype.startswith("f") else values
    size = float(np.median(np.abs(finite.astype("f8")))) or 1.0 if finite.size else 1.0
    bound = size * 10.0 ** rng.uniform(-5, 0)
    modes = ["rate=12", "rate=5.5", "precision=12", "expert,maxprec=20,minexp=-20,maxbits=900", "lossless"]
    mode = rng.choice(modes + 3 * [f"abs={bound!r}", "rel=1e-3"] if dtype.startswith("f") else modes)
    fill_bytes = np.array(fill, dtype).tobytes() if fill is not None else b""
    frame = compress(f"zfp,{mode}", dtype, extents, values.tobytes(), fill_bytes)
    back = decode(frame)
    assert (0, back) == decompress(frame, values.nbytes)
    if mode == "lossless":
        assert back == values.tobytes()
        return
    got, words = np.frombuffer(back, dtype), f"<u{values.itemsize}"
    if fill is not None:
        assert np.array_equal(values == fill, got == fill), "elements are the fill value where they were"
    if dtype.startswith("f"):
        exact = ~np.isfinite(values)
        assert np.array_equal(values.view(words)[exact], got.view(words)[exact])
        if mode.startswith(("abs", "rel")):
            counts = np.isfinite(values) & (values != fill if fill is not None else True)
            extent = float(np.ptp(values[counts].astype("f8"))) if counts.any() else 0.0
            limit = bound if mode.startswith("abs") else 1e-3 * extent
            error = np.abs(values[counts].astype("f8") - got[counts].astype("f8"))
            assert np.all(error <= limit)
    else:
        quarter = 1 << values.itemsize * 8 - 2
        exact = (values < -quarter) | (values >= quarter)
        assert np.array_equal(values[exact], got[exact])
