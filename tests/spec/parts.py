"""Shared parts of the decoders of frames and codecs: errors, bytes in order, folding, checksum."""

import math

import numpy as np


class Damage(Exception):
    """These bytes are not a frame, or a damaged one."""


class Later(Exception):
    """A feature of a later version of the format."""


def check(condition, text):
    """Raises `Damage` unless a condition of valid frames holds."""
    if not condition:
        raise Damage(text)


def known(condition, text):
    """Raises `Later` unless this version of the format defines the value."""
    if not condition:
        raise Later(text)


class Bytes:
    """A byte string that is consumed part by part."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        check(n <= self.left(), f"{len(self.data)} bytes are too few")
        self.at += n
        return self.data[self.at - n : self.at]

    def left(self):
        return len(self.data) - self.at


def check_missing(code, elements, size):
    """Checks the missing elements after the fixed parameters, given their code and the bytes of an
    element."""
    if code == 0:
        check(elements == b"" or len(elements) == size and any(elements), "fill value")
        return
    n_fills, n_limits = code & 15, (code >> 4 & 1) + (code >> 5 & 1)
    check(code < 64 and n_fills <= 8 and len(elements) == size * (n_fills + n_limits), "missing elements")
    fills = [elements[size * i : size * (i + 1)] for i in range(n_fills)]
    check(len(set(fills)) == n_fills, "the same fill value twice")
    check(n_limits > 0 or n_fills > 1 or not any(fills[0]), "missing elements of version 1")


def fold(extents, mode, rank):
    """The folded extents for a codec of rank `rank`."""
    n = math.prod(extents)
    if n <= 1 or mode == 1:
        return [n]
    extents = [extent for extent in extents if extent != 1]
    while len(extents) > rank:
        first = 1 if mode == 3 and len(extents) > 2 and rank > 1 else 0
        extents[first : first + 2] = [extents[first] * extents[first + 1]]
    return extents


def checksum(data, start=0):
    """The payload checksum, of a whole payload or of the bytes from position `start` on."""
    words = np.frombuffer(data + bytes(-len(data) % 4), "<u4").astype("u8")
    place = np.arange(start // 4, start // 4 + len(words), dtype="u8")
    products = words * key(place // np.uint64(16))
    lane = place % np.uint64(16) + np.uint64(1 << 31)
    a, b = (int((products * (key(lane + np.uint64(k)) | np.uint64(1))).sum(dtype="u8")) for k in (0, 16))
    return mix(a + mix(b + len(data)))


def key(row):
    """The key of each row."""
    low = np.uint64(0xFFFFFFFF)
    x = (row + np.uint64(1)) * np.uint64(0xED5AD4BB) & low
    x = (x ^ x >> np.uint64(11)) * np.uint64(0xAC4C1B51) & low
    x = (x ^ x >> np.uint64(15)) * np.uint64(0x31848BAB) & low
    return x ^ x >> np.uint64(14)


def mix(x):
    x %= 1 << 64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
    x = (x ^ x >> 27) * 0x94D049BB133111EB % (1 << 64)
    return x ^ x >> 31
