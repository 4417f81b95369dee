"""What the decoders of frames and codecs share: errors, bytes in order, checksum."""

import numpy as np


class Damage(Exception):
    """These bytes are no frame, or not any more."""


class Later(Exception):
    """A later version of the format uses this."""


def check(condition, text):
    """What a sound frame fulfils."""
    if not condition:
        raise Damage(text)


def known(condition, text):
    """What this version of the format knows."""
    if not condition:
        raise Later(text)


class Bytes:
    """Bytes, taken one part after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        check(n <= self.left(), f"{len(self.data)} bytes are too few")
        self.at += n
        return self.data[self.at - n : self.at]

    def left(self):
        return len(self.data) - self.at


def checksum(data):
    """The payload checksum."""
    words = np.frombuffer(data + bytes(-len(data) % 4), "<u4").astype("u8")
    g = (words ^ np.uint64(0x9E3779B9)) ** 2
    a = int(g.sum(dtype="u8"))
    b = int((g * np.arange(1, len(g) + 1, dtype="u8")).sum(dtype="u8"))
    return mix(a + mix(b))


def mix(x):
    x %= 1 << 64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
    x = (x ^ x >> 27) * 0x94D049BB133111EB % (1 << 64)
    return x ^ x >> 31
