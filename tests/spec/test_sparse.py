"""The golden frames of sparse matrices, read by this decoder; and damaged ones, on which the
library and the decoder must agree.

GRIDZ_DAMAGES: number of random damages per frame."""

import collections
import hashlib
import os
import pathlib
import random
import struct
import tomllib

import numpy as np
import pytest

import sparse
from decode import crc32c
from library import CORRUPT, MOST_COLUMNS, TRUNCATED, UNSUPPORTED_FORMAT, read_matrix, share
from parts import Damage, Later, checksum

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
N_DAMAGES = int(os.environ.get("GRIDZ_DAMAGES") or share(20))
FRAMES, REJECTS = "v5_matrices", "v5_matrices_reject"


def rows(folder):
    return tomllib.loads((GOLDEN / folder / "MANIFEST.toml").read_text())["frame"]


def read(name):
    return (GOLDEN / FRAMES / f"{name}.gridz").read_bytes()


def sha256(*arrays):
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def vector(n, dtype):
    """The x of tests/codecs/sparse_golden.rs."""
    i = np.arange(n)
    return np.where(i % 11 == 3, 0.0, i * 37 % 101 / 7 * np.where(i % 3 == 1, -1, 1)).astype(dtype)


def one_nan(y):
    """Replaces every NaN by the same NaN."""
    bits = 0x7FF8 << 48 if y.itemsize == 8 else 0x7FC0 << 16
    return np.where(np.isnan(y), np.array([bits], f"<u{y.itemsize}").view(y.dtype), y)


@pytest.mark.parametrize("row", rows(FRAMES), ids=lambda row: row["file"])
def test_frames_are_decoded(row):
    matrix = sparse.Matrix((GOLDEN / FRAMES / row["file"]).read_bytes())
    assert sha256(*matrix.csr()) == row["rows_sha256"]
    assert ("product_sha256" in row) == (matrix.head.n_cols <= MOST_COLUMNS)
    if "product_sha256" in row:
        product = matrix.product(vector(matrix.head.n_cols, matrix.dtype))
        assert sha256(one_nan(product)) == row["product_sha256"]


@pytest.mark.parametrize("row", rows(REJECTS), ids=lambda row: row["file"])
def test_bad_frames_are_refused(row):
    with pytest.raises(Later if row["error"] == "UnsupportedFormat" else Damage):
        sparse.Matrix((GOLDEN / REJECTS / row["file"]).read_bytes())


def sealed(frame):
    """Fixes the frame's checksums and its byte count."""
    frame = frame[:96] + struct.pack("<QQ", checksum(frame[sparse.HEADER_BYTES :]), len(frame)) + frame[112:]
    return frame[:124] + struct.pack("<I", crc32c(frame[:124])) + frame[128:]


def changed(frame, at, byte):
    return frame[:at] + bytes([byte]) + frame[at + 1 :]


def found(frame):
    """This decoder's result, in the form of `read_matrix`."""
    matrix = sparse.Matrix(frame)
    if matrix.head.n_cols > 1 << 63:
        return None
    if matrix.head.n_cols > MOST_COLUMNS:
        return [*matrix.csr(), None]
    return [*matrix.csr(), one_nan(matrix.product(vector(matrix.head.n_cols, matrix.dtype)))]


def as_bytes(arrays):
    return arrays and [array if array is None else array.tobytes() for array in arrays]


def check_alike(frame):
    """Asserts that library and decoder agree on a frame. Returns True if they read it."""
    status, arrays = read_matrix(frame, vector)
    try:
        own = found(frame)
    except Damage as damage:
        assert status in (CORRUPT, TRUNCATED), f"{damage}: {arrays}"
        return False
    except Later as later:
        assert status == UNSUPPORTED_FORMAT, f"{later}: {arrays}"
        return False
    assert status == 0, arrays
    if arrays and arrays[3] is not None:
        arrays[3] = one_nan(np.frombuffer(arrays[3], own[3].dtype)).tobytes()
    assert arrays == as_bytes(own)
    return True


SMALL = [
    ("negative_zeros", "a constant, rows in order, full slices"),
    ("mesh_blocks_of_6", "blocks, rows by length, codes"),
    ("cross_blocks_of_8", "blocks, no codes"),
    ("all_long", "long rows, a table of values"),
    ("one_row", "plain values"),
    ("empty", "no tables"),
]


@pytest.mark.parametrize("name", ["one_row", "negative_zeros"])
def test_every_damaged_byte_is_seen(name):
    frame = read(name)
    for at in range(len(frame)):
        with pytest.raises(Damage):
            sparse.Matrix(changed(frame, at, frame[at] ^ 1 << at % 8))
        with pytest.raises(Damage):
            sparse.Matrix(frame[:at])


def tables_end(frame):
    """End of the tables, where the codes begin."""
    return len(frame) - sum(-(-n // 64) * 64 for n in struct.unpack("<QQ", frame[80:96]))


@pytest.mark.parametrize("name", [name for name, _ in SMALL])
def test_damage_with_right_checksums_is_judged_alike(name):
    frame = read(name)
    assert sealed(frame) == frame
    end = tables_end(frame)
    n_read = n_refused = 0
    for at in [*range(128), *range(128, end, max(1, end // 700))]:
        for byte in {frame[at] ^ 1, frame[at] ^ 1 << at % 8, 255 - frame[at], 0} - {frame[at]}:
            if check_alike(sealed(changed(frame, at, byte))):
                n_read += 1
            else:
                n_refused += 1
    # Some changes result in another valid matrix, or affect unused bytes.
    assert n_refused > 200 and (n_read > 10 or name == "empty")


def damaged(rng, frame):
    """Changes some bytes of header, tables, codes or values, and fixes the checksums."""
    frame, end = bytearray(frame), max(tables_end(frame), 132)
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(*rng.choice([(4, 112), (128, end), (128, end), (128, end), (128, len(frame))]))
        byte, other = frame[at], rng.randrange(128, end - 3, 4)
        frame[at] = rng.choice([byte ^ 1 << rng.randrange(8), rng.randrange(256), (byte + 1) % 256, (byte - 1) % 256])
        if rng.randrange(5) == 0:
            frame[at & ~3 : (at & ~3) + 4] = frame[other : other + 4]
    return sealed(bytes(frame))


@pytest.fixture(scope="module")
def tally():
    """Counts of damaged frames with valid checksums: both read the frame (True), or both refuse it
    (False)."""
    counts = collections.Counter()
    yield counts
    print(f"damaged frames: {dict(counts)}")
    assert counts[True] * 10 > counts.total() and counts[False] * 10 > counts.total(), counts


@pytest.mark.parametrize("name", [row["file"].removesuffix(".gridz") for row in rows(FRAMES)])
def test_random_damage_is_judged_alike(name, tally):
    frame, rng = read(name), random.Random(name)
    for _ in range(N_DAMAGES):
        tally[check_alike(damaged(rng, frame))] += 1


def same_after(frame, at, byte):
    """True if the frame decodes to the same matrix after a change."""
    other = sealed(changed(frame, at, byte))
    assert other != frame and check_alike(other)
    return as_bytes(found(other)) == as_bytes(found(frame))


def test_what_means_nothing_changes_nothing():
    # Unused bytes: between tables, after a 32-byte slice; and the position of values in a slice
    # with constant values.
    frame, slice_at = read("negative_zeros"), 128
    n_slices = struct.unpack_from("<Q", frame, 32)[0]
    assert n_slices == 3 and same_after(frame, slice_at + 32 * n_slices, 1)
    assert same_after(frame, slice_at + 12, 77) and same_after(frame, len(frame) - 1, 255)
    # A value and a code in a lane without an element are unused; in a lane with an element they
    # matter.
    frame = read("unsorted")
    matrix = sparse.Matrix(frame)
    slices = map(matrix.slice, range(matrix.head.n_slices))
    each, steps = next((each, steps) for each, steps in slices if not each.flags & sparse.FULL)
    assert matrix.head.codec == sparse.PLAIN and each.width > 0
    lanes = [(k, lane, mask >> lane & 1) for k, mask in enumerate(steps[:, 1].tolist()) for lane in range(32)]
    for k, lane, is_element in [next(place for place in lanes if place[2] == wanted) for wanted in (0, 1)]:
        values_start = tables_end(frame) + -(-matrix.head.code_bytes // 64) * 64
        value_at = values_start + 4 * (32 * (each.values_at + k) + lane)
        code_at = tables_end(frame) + 32 * each.codes_at + each.width * (32 * k + lane)
        for at in value_at, code_at:
            assert same_after(frame, at, frame[at] ^ 1) == (not is_element)
