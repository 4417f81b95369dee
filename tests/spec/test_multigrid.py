"""multigrid: frames that the library writes, read by this decoder. Compares with the library's
decoding, checks bounds in integer arithmetic, and damages frames.

GRIDZ_SCHEDULES: number of random arrays per type. GRIDZ_DAMAGES: number of random damages per
frame."""

import itertools
import math
import os
import random
import struct

import numpy as np
import pytest

import multigrid
from decode import decode
from library import BY_LAYERS, BY_LEVEL, compress, decompress, decompress_part, share
from parts import Bytes, Damage, Later, checksum, fold
from test_bounds import FILLS, UNIT, Numbers, check_all, draw_value, draw_wild, draw_words
from test_damage import check_alike, damaged, sealed, tally  # noqa: F401: a fixture

N_SCHEDULES = int(os.environ.get("GRIDZ_SCHEDULES") or 40)
N_DAMAGES = int(os.environ.get("GRIDZ_DAMAGES") or share(300))
MULTIGRID = 5
DTYPES = "float32", "float64"
SMALL = [[], [1], [2], [3], [5], [17], [2, 3], [3, 1, 5], [17, 5], [2, 3, 5], [1, 2, 1, 3, 1, 2]]
"""Extents of arrays that may be stored."""
LARGE = [
    [1000],
    [65, 66],
    [700, 3],
    [900, 1],
    [2, 777],
    [17, 5, 17],
    [8, 8, 128],
    [40, 30, 20],
    [9, 1, 33, 2],
    [5, 17, 3, 17],
    [3, 5, 1, 7, 9],
    [2, 3, 5, 2, 5, 3],
]


def smooth(extents, dtype):
    """Waves along all axes, and a little noise."""
    axes = np.meshgrid(*(np.arange(n) for n in extents), indexing="ij", sparse=True)
    waves = sum((np.sin(axis / (5 + i)) for i, axis in enumerate(axes)), np.zeros(extents))
    return (10 + waves + np.random.default_rng(1).normal(0, 1e-3, extents)).astype(dtype)


def check_written(mode, value, array, fill=b"", layers=1):
    """Writes an array, reads it back and checks its bound; returns the frame."""
    dtype, data = array.dtype.name, array.tobytes()
    frame = compress(f"multigrid,{mode}={value!r},layers={layers}", dtype, array.shape, data, fill)
    read = decode(frame)
    assert (0, read) == decompress(frame, len(data))
    if frame[5] != MULTIGRID:
        assert read == data
        return frame
    numbers = Numbers(dtype)
    original, stored = (np.frombuffer(words, numbers.word).tolist() for words in (data, read))
    fills = np.frombuffer(fill, numbers.word).tolist()
    (bound,) = struct.unpack("<d", pieces(frame)[1][:8])
    check_all(numbers, original, stored, "abs", bound, fills)
    if mode == "rms":
        check_mean(numbers, original, stored, value, fills)
    else:
        check_all(numbers, original, stored, mode, value, fills)
    return frame


def check_mean(numbers, original, stored, value, fills):
    """Checks the mean of the squared errors against the guarantee."""
    numerator, denominator = value.as_integer_ratio()
    pairs = [(numbers.exact(was), numbers.exact(now)) for was, now in zip(original, stored) if was not in fills]
    squares = [(x - y) ** 2 for x, y in pairs if x is not None]
    found, allowed = sum(squares) * denominator**2, len(squares) * (numerator << UNIT) ** 2
    assert found <= allowed


def pieces(frame):
    """Splits a frame into header and payload."""
    end = -(-(40 + 8 * frame[9] + frame[11]) // 16) * 16
    return frame[:end], frame[end:]


def interpolation(n, level):
    """The matrix that interpolates `n` elements linearly from a level's nodes."""
    at = np.arange(n)
    node, part = at >> level, (at % (1 << level)) / (1 << level)
    n_nodes = (n - 1 >> level) + 1
    weights = np.zeros((n, n_nodes))
    weights[at, node] = 1 - part
    np.add.at(weights, (at, np.minimum(node + 1, n_nodes - 1)), part)
    return weights


def norm(errors, n, s):
    """The norm of an array of errors by its definition: least squares for each level. `n` is the
    number of errors that count."""
    squares, level = [(errors**2).sum()], 0
    while any(extent - 1 >> level for extent in errors.shape):
        level += 1
        weights = np.ones((1, 1))
        for extent in errors.shape:
            weights = np.kron(weights, interpolation(extent, level))
        nearest = weights @ np.linalg.lstsq(weights, errors.reshape(-1), rcond=None)[0]
        squares.append((nearest**2).sum())
    parts = np.append(-np.diff(squares), squares[-1])
    return math.sqrt(sum(4.0 ** (-s * level) * part for level, part in enumerate(parts)) / n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("s", [-1, -0.5, -2])
@pytest.mark.parametrize("extents", [[2], [300], [17, 30], [7, 9, 8], [5, 4, 6, 3]])
def test_norms_are_kept(dtype, s, extents):
    array = (smooth(extents, dtype) + np.random.default_rng(2).normal(0, 0.1, extents)).astype(dtype)
    array.reshape(-1)[1] = 1e20
    for value in (1e-4, 0.02, 3.0):
        for layers in (1, 2):
            frame = compress(f"multigrid,rms={value!r},s={s},layers={layers}", dtype, extents, array.tobytes(), b"")
            status, read = decompress(frame, array.nbytes)
            assert status == 0 and (frame[5] != MULTIGRID or decode(frame) == read)
            errors = np.frombuffer(read, dtype).reshape(extents).astype("f8") - array
            n = max(1, np.count_nonzero(errors))
            # Exact elements do not count in the norm, and any element without error may be exact.
            assert norm(errors, errors.size, s) <= value
            if frame[5] == MULTIGRID and layers == 1 and len(extents) > 1 and value == 0.02 and s > -2:
                assert norm(errors, n, s) > 0.5 * value


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("mode, value", [("abs", 0.01), ("rel", 1e-4), ("rms", 0.003)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_all_ranks(dtype, mode, value, layers):
    for extents in SMALL:
        check_written(mode, value, smooth(extents, dtype), layers=layers)
    for extents in LARGE:
        assert check_written(mode, value, smooth(extents, dtype), layers=layers)[5] == MULTIGRID, extents


@pytest.mark.parametrize("extents", [[65, 66], [300, 500], [17, 5, 33], [5, 1, 17, 3, 17]])
@pytest.mark.parametrize("mode, value", [("abs", 1e-3), ("rms", 1e-3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_are_read_alike(dtype, mode, value, extents):
    array = smooth(extents, dtype)
    array.flat[::501] = np.nan
    array.flat[7] = 1e30
    frame = check_written(mode, value, array, layers=4)
    parameters = frame[40 + 8 * len(extents) :][: frame[11]]
    for n in range(1, 5):
        read, info = decompress_part(frame, BY_LAYERS, n, array.nbytes)
        folded = fold(extents, 0, multigrid.RANK)
        assert read == multigrid.decode_some(dtype, folded, parameters, pieces(frame)[1], n)
        assert decompress_part(frame[: info.frame_bytes], BY_LAYERS, n, array.nbytes)[0] == read
        if n == 1:
            grid = np.frombuffer(read, dtype).reshape(extents)
    for level in range(info.n_levels + 1):
        read, info = decompress_part(frame, BY_LEVEL, level, array.nbytes)
        expected = grid[tuple(slice(None, None, 1 << level) for _ in extents)]
        assert (list(info.extents[: info.rank]), read) == (list(expected.shape), expected.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_two_blocks(dtype):
    assert check_written("abs", 0.02, smooth([300, 500], dtype))[5] == MULTIGRID


def test_a_constant_array_is_no_more_than_its_payload_may_hold():
    array = np.ones([4096, 4096])
    frame = compress("multigrid,abs=0.01", "float64", array.shape, array.tobytes())
    assert len(frame) < array.nbytes >> 15
    assert decode(frame) == array.tobytes()


@pytest.mark.parametrize("mode", ["abs", "rel", "rms"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_of_all_sizes(dtype, mode):
    array = smooth([65, 66], dtype)
    for value in (5e-324, 1e-300, 1e-40, 1e-16, 1e-7, 0.3, 1.0, 20.0, 1e30, 1e39, 1.7e308):
        check_written(mode, value, array)
        check_written(mode, value, array, layers=5)
    tiny, largest = float(np.finfo(dtype).smallest_subnormal), float(np.finfo(dtype).max)
    for scale, value in itertools.product((100 * tiny, largest / 15), (tiny, 30 * tiny, largest / 1e4, largest)):
        check_written(mode, 1e-3 if mode == "rel" else value, (array * scale).astype(dtype))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -999.0, 1e30, math.nan, math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_arrays(dtype, value):
    array = np.full([50, 60], value, dtype)
    for mode in ("abs", "rel", "rms"):
        frame = check_written(mode, 1e-3, array)
        assert frame[5] == MULTIGRID
        assert decode(frame) == array.tobytes() or math.isfinite(value)
        check_written(mode, 1e-3, array, array.dtype.type(-999).tobytes())


# The last extent makes the rows of bitmaps; pieces of 2^15 elements do not end with a row, or have
# less than one.
@pytest.mark.parametrize("extents", [[65, 66], [3000, 1], [190, 181], [2, 3, 1000, 1], [2, 40000]])
@pytest.mark.parametrize("mode, value", [("abs", 0.01), ("rel", 1e-4), ("rms", 0.003)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_elements(dtype, mode, value, extents):
    n, fill = math.prod(extents), np.array([-999], dtype).tobytes()
    array = smooth(extents, dtype)
    flat, x = array.reshape(-1), np.arange(n) % max(extents)
    flat[::501] = np.nan
    flat[250::502] = np.inf
    flat[7] = -np.inf
    flat[n // 2] = 1e30
    assert check_written(mode, value, array)[5] == MULTIGRID
    flat[x % 70 < 20] = -999
    for element_fill in (b"", fill):
        assert check_written(mode, value, array, element_fill)[5] == MULTIGRID
    flat[0] = 1e30
    flat[n // 3 : n // 2] = np.nan
    check_written(mode, value, array, fill)


@pytest.mark.parametrize("dtype", DTYPES)
def test_means_beside_spikes(dtype):
    # The bound includes the rounding error of a large spike, and so permits an error as large as a
    # small spike.
    digits = np.finfo(dtype).nmant + 1
    largest = float(np.finfo(dtype).max)
    for spike, shift, value in itertools.product((1e10, 1e30, largest**0.3, largest / 2), range(4), (0.003, 1e-12)):
        array = smooth([65, 66], dtype)
        array.flat[1000] = spike
        array.flat[2000] = spike * 2.0 ** -(digits + 2 * shift)
        check_written("rms", value, array)


# With few elements, the error of each matters; also that of the first one, whose value no step
# assigns.
@pytest.mark.parametrize("dtype", DTYPES)
def test_means_of_few_elements(dtype):
    for seed, value in itertools.product(range(40), (0.1, 0.3)):
        array = np.random.default_rng(seed).random([3, 5, 7]).astype(dtype)
        assert check_written("rms", value, array)[5] == MULTIGRID


def test_no_element_becomes_the_fill_value():
    for dtype in DTYPES:
        array = np.round(smooth([65, 66], dtype) * 8) / 8 + np.asarray(0.01, dtype)
        for fill in (10.0, 10.125, 11.5):
            check_written("abs", 0.125, array, np.array([fill], dtype).tobytes())


@pytest.mark.parametrize("seed", range(N_SCHEDULES))
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_arrays(dtype, seed):
    rng = random.Random(f"{dtype} {seed}")
    numbers = Numbers(dtype)
    extents = rng.choice([[400], [5000], [24, 20], [7, 70], [700, 7], [6, 7, 9], [3, 5, 7, 13]])
    n, mode = math.prod(extents), rng.choice(["abs", "rel", "rms"])
    words = draw_words(numbers, rng, n)
    fill = numbers.of(rng.choice(FILLS)) if rng.random() < 0.5 else 0
    value = draw_value(numbers, rng, mode, words)
    if rng.random() < 0.4:
        width, period = rng.randint(3, 60), rng.randint(20, 90)
        words = [(fill or numbers.nan(1)) if i % period < width else word for i, word in enumerate(words)]
    for _ in range(rng.choice([0, 1, 5, n // 10])):
        words[rng.randrange(n)] = draw_wild(numbers, rng, words, fill)
    array = np.array(words, numbers.word).view(dtype).reshape(extents)
    layers = rng.choice([1, 1, 2, 3, 8])
    check_written(mode, value, array, np.array([fill] if fill else [], numbers.word).tobytes(), layers)


DAMAGED = {"plane": ("float32", [65, 66]), "box": ("float64", [3, 20, 5, 17]), "line": ("float32", [200])}


class Frame:
    """A frame split into pieces. Each of its arrays of numbers has one block, and its exact
    elements are in one piece."""

    def __init__(self, name, layers=1):
        dtype, extents = DAMAGED[name]
        array = smooth(extents, dtype)
        array.reshape(-1)[5:90] = np.nan
        array.reshape(-1)[100::50] = 1e30
        self.frame = compress(f"multigrid,abs=0.01,layers={layers}", dtype, extents, array.tobytes())
        self.n_bytes = array.nbytes
        self.header, self.payload = pieces(self.frame)
        shape = [1] * (4 - len(extents)) + extents
        n_levels = (max(shape) - 1).bit_length()
        if layers > 1:
            self.n_head = 32 + 8 * n_levels + 8 + 24 + (layers - 1) * (48 + 8 * n_levels)
            return
        arrays = multigrid.arrays_of(shape, multigrid.steps_of(shape, n_levels, self.payload[16:20]))
        source = Bytes(self.payload)
        self.front = source.take(32 + 8 * n_levels)
        source.take(8)
        ends = [0, *np.frombuffer(source.take(8 * len(arrays)), "<u4")[::2].tolist()]
        self.end_of_front = source.at
        blocks = [source.take(4 * (end - begin)) for begin, end in itertools.pairwise(ends)]
        # Exact elements without their table.
        self.contents = blocks + [source.take(source.left())[4:]]
        self.shapes = [extents for extents, _ in arrays]

    def with_content(self, i, content):
        """The frame with another block or other exact elements."""
        *blocks, exact = self.contents[:i] + [content] + self.contents[i + 1 :]
        table, at = b"", 0
        for block in blocks:
            low = checksum(block, self.end_of_front + at) % (1 << 32)
            at += len(block)
            table += struct.pack("<II", at // 4, low)
        exact = struct.pack("<I", len(exact)) + exact
        return sealed(self.header, self.front + struct.pack("<Q", len(exact)) + table + b"".join(blocks) + exact)


def changed(rng, data, begin, end):
    """Changes one byte between two positions."""
    data, at = bytearray(data), rng.randrange(begin, end)
    data[at] = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255])
    return bytes(data)


# A writer stores raw blocks only if the numbers cannot be coded in fewer bytes, which is rare.
@pytest.mark.parametrize("name", DAMAGED)
def test_numbers_as_they_are(name):
    frame = Frame(name)
    word = np.dtype("<u8" if DAMAGED[name][0] == "float64" else "<u4")
    for i, shape in enumerate(frame.shapes):
        numbers = multigrid.read_block(Bytes(frame.contents[i]), shape, word)
        other = frame.with_content(i, struct.pack("<I", multigrid.RAW) + numbers.tobytes())
        assert (0, decode(frame.frame)) == (0, decode(other)) == decompress(other, frame.n_bytes)


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_judged_alike(name, tally):  # noqa: F811
    frame, rng = Frame(name), random.Random(name)
    header, payload = frame.header, frame.payload
    for i, content in enumerate(frame.contents):
        assert frame.with_content(i, content) == frame.frame
    parameters = 40 + 8 * header[9]
    for _ in range(N_DAMAGES):
        way = rng.randrange(8)
        if way == 0:
            longer = payload + bytes(20)
            bad = sealed(header, longer[: rng.randrange(len(longer))])
        elif way == 1:
            bad = sealed(changed(rng, header, parameters, parameters + header[11]), payload)
        elif way == 2:
            bad = sealed(header, changed(rng, payload, 0, frame.end_of_front))
        elif way == 3:
            bad = sealed(header, changed(rng, payload, frame.end_of_front, len(payload)))
        else:
            i = rng.randrange(len(frame.contents))
            bad = frame.with_content(i, damaged(rng, frame.contents[i], multigrid.UNIT))
        tally[check_alike(bad, frame.n_bytes)] += 1


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_of_layers_is_judged_alike(name, tally):  # noqa: F811
    frame, rng = Frame(name, layers=3), random.Random(name)
    header, payload = frame.header, frame.payload
    for _ in range(N_DAMAGES):
        way = rng.randrange(3)
        if way == 0:
            longer = payload + bytes(20)
            bad = sealed(header, longer[: rng.randrange(len(longer))])
        elif way == 1:
            bad = sealed(header, changed(rng, payload, 0, len(payload)))
        else:
            head = changed(rng, payload, 0, frame.n_head)[: frame.n_head]
            low = checksum(head) % (1 << 32)
            bad = sealed(header, head + struct.pack("<Q", low) + payload[frame.n_head + 8 :])
        tally[check_alike(bad, frame.n_bytes)] += 1


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_headers_are_refused_or_read(name):
    frame, rng, n_read = Frame(name), random.Random(name), 0
    for _ in range(N_DAMAGES):
        bad = sealed(changed(rng, frame.header, 4, len(frame.header)), frame.payload)
        try:
            decode(bad)
            n_read += 1
        except (Damage, Later):
            pass
    assert 0 < n_read < N_DAMAGES, f"{n_read} of {N_DAMAGES} damaged headers are read"
