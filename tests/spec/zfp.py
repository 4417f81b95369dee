"""The codec `zfp`; see decode.py."""

import itertools
import math
import pathlib
import re
import struct
from collections import namedtuple

import numpy as np

from lorenzo import coded_marks
from parts import Bytes, check, check_missing, known

RANK, EXPANSION = 4, 16384
LOSSLESS, ABS, REL, RATE, PRECISION, EXPERT = 0, 1, 2, 3, 4, 7
Type = namedtuple("Type", "name is_float w b bias q")
TYPES = {
    "int32": Type("<i4", False, 32, 8, 127, 5),
    "int64": Type("<i8", False, 64, 11, 1023, 6),
    "float32": Type("<f4", True, 32, 8, 127, 5),
    "float64": Type("<f8", True, 64, 11, 1023, 6),
}
Numbers = namedtuple("Numbers", "minbits maxbits maxprec minexp")
PLACES, GROUPS = 8192, 32
CODED = 0x8000


def order(d):
    """The indices of a block's numbers, in the order of the table in SPEC.md."""
    spec = pathlib.Path(__file__).resolve().parents[2] / "src/format/SPEC.md"
    table = re.search(rf"\nd = {d}: ([0-3\s]+)", spec.read_text())[1]
    found = [sum(int(digit) << 2 * i for i, digit in enumerate(digits)) for digits in table.split()]
    assert sorted(found) == list(range(4**d))
    return found


ORDERS = {d: order(d) for d in (1, 2, 3, 4)}


def log2_floor(value):
    """floor(log2(value)), -1074 of 0."""
    return math.frexp(value)[1] - 1 if value else -1074


def numbers_of(kind, d, mode, value):
    """The four numbers that mode and value imply; `None` in mode expert, which stores its own."""
    numbers = Numbers(1, 16658, 64, -1074)
    if mode == LOSSLESS:
        return numbers._replace(minexp=-1075)
    if mode == ABS:
        return numbers._replace(minexp=log2_floor(value))
    if mode == RATE:
        bits = max(math.floor(4**d * value + 0.5), kind.b + 1 if kind.is_float else 0)
        return numbers._replace(minbits=bits, maxbits=bits)
    if mode == PRECISION:
        check(value == int(value), "precision")
        return numbers._replace(maxprec=int(value))
    return numbers if mode == REL else None


def read_parameters(kind, d, parameters):
    """Parses mode, value and numbers."""
    size = kind.w // 8
    check(len(parameters) >= 20, "parameters")
    mode, code, minbits, maxbits, maxprec, zero, minexp, zero2, value = struct.unpack("<BBHHBBhHd", parameters[:20])
    known(zero == zero2 == 0, "parameters")
    check(mode in (LOSSLESS, ABS, REL, RATE, PRECISION, EXPERT), "mode")
    check(kind.is_float or mode not in (ABS, REL), "mode of integers")
    if mode in (LOSSLESS, EXPERT):
        check(parameters[12:20] == bytes(8), "value")
    else:
        check(0 < value < math.inf, "value")
    numbers = Numbers(minbits, maxbits, maxprec, minexp)
    check(numbers == (numbers_of(kind, d, mode, value) or numbers), "numbers")
    check(minbits <= maxbits and (kind.b + 1 if kind.is_float else 1) <= maxbits <= 16658, "bits of blocks")
    check(1 <= maxprec <= 64 and minbits < 4**d * kind.w, "planes or bits of blocks")
    check(mode == LOSSLESS or -1074 <= minexp <= 1023, "exponent")
    check(len(parameters) == 20 or mode != LOSSLESS, "missing elements of a lossless array")
    check_missing(code, parameters[20:], size)
    return mode, value, numbers


def decode(dtype, extents, parameters, payload):
    check(dtype in TYPES and 0 not in extents, "element type or extents")
    kind, d = TYPES[dtype], len(extents)
    n = 4**d
    mode, value, numbers = read_parameters(kind, d, parameters)
    is_fixed = numbers.minbits == numbers.maxbits
    counts = [-(-extent // 4) for extent in extents]
    n_blocks = math.prod(counts)
    n_groups, n_sections = -(-n_blocks * n // 256), -(-n_blocks * n // PLACES)

    check(len(payload) >= 24, "tail")
    n_bits, bound, _, n_units = struct.unpack("<QdII", payload[-24:])
    source = Bytes(payload[:-24])
    stream = int.from_bytes(source.take(-(-n_bits // 64) * 8), "little")
    groups = [numbers.maxbits * (min((i + 1) * 256 // n, n_blocks) - i * 256 // n) for i in range(n_groups)]
    if not is_fixed:
        ends = np.frombuffer(source.take(8 * n_sections), "<u8").tolist()
        groups = np.frombuffer(source.take(2 * n_groups), "<u2").tolist()
        source.take(-source.at % 8)
        check(ends == [sum(groups[: GROUPS * (i + 1)]) for i in range(n_sections)], "ends of sections")
    check(sum(groups) == n_bits, "bits of the stream")
    exceptions = read_exceptions(kind, n, n_blocks, n_sections, n_units, source)
    check(source.left() == 0, "bytes in front of the tail")

    if mode == REL:
        check(0 <= bound < math.inf and math.copysign(1, bound) > 0, "bound")
        numbers = numbers._replace(minexp=log2_floor(bound))
    else:
        check(payload[-16:-8] == struct.pack("<d", value if mode == ABS else 0), "bound")

    array = np.empty(extents, kind.name)
    bits, end = Bits(stream), 0
    for i, corner in enumerate(itertools.product(*(range(0, extent, 4) for extent in extents))):
        if i % (256 // n) == 0:
            check(bits.at == end, "end of a group")
            end += groups[i * n // 256]
        block = decode_block(kind, d, numbers, bits)
        box = array[tuple(slice(at, at + 4) for at in corner)]
        places = np.arange(n).reshape([4] * d)[tuple(slice(0, size) for size in box.shape)]
        here = exceptions.pop(i, {})
        check(set(here) <= set(places.ravel().tolist()), "marks of padding")
        words = block.view(f"<u{kind.w // 8}").copy()
        for index, word in here.items():
            words[index] = word
        box[...] = words.view(kind.name)[places]
    check(bits.at == end and not exceptions, "end of the last group, or marks after the last block")
    return array.tobytes()


def read_exceptions(kind, n, n_blocks, n_sections, n_units, source):
    """The words of exceptions, by block and index."""
    found = {}
    if n_units == 0:
        return found
    ends = np.frombuffer(source.take(4 * n_sections), "<u4").tolist()
    source.take(-source.at % 8)
    check(ends == sorted(ends) and ends[-1] == n_units, "ends of exceptions")
    for section, (begin, end) in enumerate(zip([0] + ends, ends)):
        part = Bytes(source.take(4 * (end - begin)))
        for place, word in section_exceptions(kind, part) if end > begin else []:
            block, index = divmod(section * PLACES + place, n)
            found.setdefault(block, {})[index] = word
    source.take(-source.at % 8)
    return found


def section_exceptions(kind, part):
    """Positions and words of a section's exceptions."""
    size = kind.w // 8
    h, k, of_holes, of_others = struct.unpack("<4H", part.take(8))
    check(h + k > 0 and (h > 0 or of_holes == 0) and (k > 0 or of_others == 0), "number of exceptions")
    (hole,) = np.frombuffer(part.take(size), f"<u{size}").tolist() if h else [0]
    holes = read_marks(part, h, of_holes)
    if of_holes & CODED:
        holes = np.logical_xor.accumulate(holes)
    others = read_marks(part, k, of_others)
    check(holes.sum() == h and others.sum() == k and not np.any(holes & others), "marks")
    words = np.frombuffer(part.take(k * size), f"<u{size}").tolist()
    check(part.left() == 0, "length of exceptions")
    yield from ((place, hole) for place in np.flatnonzero(holes).tolist())
    yield from zip(np.flatnonzero(others).tolist(), words)


def read_marks(part, n, field):
    """Reads a bitmap, plain or two-level, and the padding after it."""
    if n == 0:
        return np.zeros(PLACES, bool)
    n_bytes = field & ~CODED
    source = Bytes(part.take(n_bytes))
    if field & CODED:
        found = coded_marks(source, PLACES)
    else:
        found = np.unpackbits(np.frombuffer(source.take(PLACES // 8), "u1"), bitorder="little").astype(bool)
    check(source.left() == 0, "bytes of marks")
    part.take(-part.at % 4)
    return found


class Bits:
    """The bit stream; all bits past its end are zero."""

    def __init__(self, stream):
        self.stream, self.at = stream, 0

    def take(self, n):
        self.at += n
        return self.stream >> self.at - n & (1 << n) - 1


def decode_block(kind, d, numbers, bits):
    """The elements of a block, by index."""
    n, start = 4**d, bits.at
    is_reversible = numbers.minexp == -1075
    e, are_words = None, not kind.is_float
    prec = min(numbers.maxprec, kind.w)
    if kind.is_float:
        if bits.take(1) == 0:
            prec = 0
        elif is_reversible and bits.take(1) == 1:
            are_words = True
        else:
            e = bits.take(kind.b) - kind.bias
            prec = min(prec, max(0, e - numbers.minexp + 2 * d + 2)) if e > -kind.bias else 0
    if is_reversible and (are_words or e is not None):
        prec = bits.take(kind.q) + 1
    digits = planes(kind.w, n, prec, numbers.maxbits - (bits.at - start), bits)
    bits.take(max(0, numbers.minbits - (bits.at - start)))

    mask, top = (1 << kind.w) - 1, 1 << kind.w - 1
    nega = mask // 3 * 2
    integers = [0] * n
    for place, u in zip(ORDERS[d], digits):
        integers[place] = signed((u ^ nega) - nega, kind.w)
    back(integers, d, is_reversible, kind.w)
    word = np.dtype(f"<u{kind.w // 8}")
    if are_words:
        words = [i & mask for i in integers]
        if kind.is_float:
            words = [word ^ top - 1 if word & top else word for word in words]
        return np.array(words, word).view(kind.name)
    real = np.dtype(kind.name).type
    if e is None:
        return np.zeros(n, kind.name)
    with np.errstate(all="ignore"):
        power = real(math.ldexp(1.0, e - (kind.w - 2)))
        return np.array([real(i) * power for i in integers], kind.name)


def signed(i, w):
    """Interprets w bits as a two's complement integer."""
    return ((i & (1 << w) - 1) ^ 1 << w - 1) - (1 << w - 1)


def planes(w, n, prec, left, bits):
    """The numbers u."""
    digits, s = [0] * n, 0
    for k in range(w - 1, max(0, w - prec) - 1, -1):
        if left <= 0:
            break
        m = min(s, left)
        plane = bits.take(m)
        left -= m
        while left > 0 and s < n:
            left -= 1
            if bits.take(1) == 0:
                break
            while s < n - 1 and left > 0:
                left -= 1
                if bits.take(1):
                    break
                s += 1
            plane |= 1 << s
            s += 1
        for i in range(n):
            digits[i] |= (plane >> i & 1) << k
    return digits


def back(integers, d, is_reversible, w):
    """Undoes the transform along all axes, the last one first."""
    for axis in reversed(range(d)):
        step = 4**axis
        for first in range(4**d):
            if first // step % 4 == 0:
                line = slice(first, first + 4 * step, step)
                integers[line] = (reversible_line if is_reversible else line_back)(*integers[line], w)


def reversible_line(a, b, c, e, w):
    def plus(i, j):
        return signed(i + j, w)

    e = plus(e, c)
    c = plus(c, b)
    e = plus(e, c)
    b = plus(b, a)
    c = plus(c, b)
    e = plus(e, c)
    return [a, b, c, e]


def line_back(x, y, z, a, w):
    def plus(i, j):
        return signed(i + j, w)

    y = plus(y, a >> 1)
    a = plus(a, -(y >> 1))
    y = plus(y, a)
    a = plus(a, -plus(y, -a))
    z = plus(z, x)
    x = plus(x, -plus(z, -x))
    y = plus(y, z)
    z = plus(z, -plus(y, -z))
    a = plus(a, x)
    x = plus(x, -plus(a, -x))
    return [x, y, z, a]
