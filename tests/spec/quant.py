"""The codec `quant`; see decode.py."""

import itertools
import math
import struct

import numpy as np

import quant_dense
import quant_max
from lorenzo import ELEMENTS, block_shape, fields, integrate, marked
from parts import Bytes, check, check_missing, checksum, known

RANK, EXPANSION = 3, 1 << 16
PARTS = {"complex64": "float32", "complex128": "float64"}
# M + 1 of SPEC.md
FLOATS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
ABS, REL, PWREL = 1, 2, 5
RAW, CONST = 0x8000, 0x8001
FAST, DENSE_FOR_MAX, DENSE, MAX = 0, 1, 2, 3
"""Levels."""
SIZES = {FAST: 12, DENSE: 16, MAX: 16}
"""Logarithms of the block sizes."""
ROWS = {FAST: 32, DENSE: 32, MAX: 128}
WORDS, HOLES, OTHERS, LATER = (1 << bit for bit in (12, 13, 14, 15))


def decode(dtype, extents, parameters, payload):
    n_parts, dtype = (2, PARTS[dtype]) if dtype in PARTS else (1, dtype)
    check(dtype in ELEMENTS and 0 not in extents, "element type or extents")
    array = np.empty([1] * (3 - len(extents)) + extents + [n_parts], ELEMENTS[dtype])
    check(len(parameters) >= 12, "parameters")
    log2, log2_unit, mode, level, value = struct.unpack("<4Bd", parameters[:12])
    level, code = level & 3, level >> 2
    if level == DENSE_FOR_MAX:
        known(log2 != SIZES[FAST], "parameters")
        level = DENSE
    check(log2 == SIZES[level] and 2 <= log2_unit <= 4, "size of blocks or units")
    check(mode in (ABS, REL) or mode == PWREL and dtype in FLOATS, "mode")
    check(0 < value < (1 if mode == PWREL else math.inf), "value")
    check_missing(code, parameters[12:], n_parts * array.itemsize)

    source, unit = Bytes(payload), 1 << log2_unit
    (bound,) = struct.unpack("<d", source.take(8))
    check(0 <= bound < math.inf if mode == REL else bound == value, "bound")
    codes = codes_of(dtype, mode, bound)

    side = block_shape(array.shape[:3], log2, ROWS[level])
    corners = itertools.product(*(range(0, n, s) for n, s in zip(array.shape, side)))
    places = list(itertools.product(corners, range(n_parts)))
    table = np.frombuffer(source.take(8 * len(places)), "<u4").reshape(-1, 2).tolist()
    source.take(-source.at % unit)
    begin = 0
    for (corner, part), (end, low) in zip(places, table):
        check(begin <= end, "table")
        start = source.at
        content = source.take(unit * (end - begin))
        check(len(content) <= ((8 if array.itemsize == 8 else 4) << log2) + 16, "length of a block")
        check(checksum(content, start) % (1 << 32) == low, "check of a block")
        box = array[(*(slice(at, at + s) for at, s in zip(corner, side)), part)]
        box[...] = decode_block(codes, array.dtype, box.shape, content, unit, level).reshape(box.shape)
        begin = end
    check(source.left() == 0, "bytes after the last block")
    return array.tobytes()


def decode_block(codes, element, shape, content, unit, level=FAST):
    """Decodes the elements of a block of extents `shape`."""
    m = math.prod(shape)
    if not content:
        return np.zeros(m, element)
    source = Bytes(content)
    word = np.dtype("<u8" if element.itemsize == 8 else "<u4")
    (h,) = struct.unpack("<H", source.take(2))
    if h & LATER:
        known(h in (RAW, CONST), "block")
        known(not any(source.take(2)), "block")
        if h == RAW:
            elements = np.frombuffer(source.take(m * element.itemsize), element)
        else:
            elements = np.full(m, np.frombuffer(source.take(word.itemsize), word)).astype(element)
    elif level == MAX:
        return quant_max.decode(codes, element, shape, content, unit)
    else:
        known(not h & WORDS or not h & (HOLES | OTHERS), "block")
        check(h & WORDS or codes is not None, "codes of a bound without codes")
        known(level != DENSE or h >> 9 & 7 == 0, "block")
        widths = list(source.take((h >> 9 & 7) + 1)) if level != DENSE else []
        check(all(a < b for a, b in zip(widths, widths[1:])) and all(w <= 8 * word.itemsize for w in widths), "widths")
        fill_up(source, 4)
        base = np.frombuffer(source.take(word.itemsize), word)
        exact, exact_words = exceptions(source, h, m, shape[2], element, word)
        orders = h >> 6 & 7, h >> 3 & 7, h & 7
        numbers = quant_dense.numbers(source, shape, word) if level == DENSE else groups(source, m, widths, word)
        v = integrate(numbers, shape, orders, False) + base
        elements = (v if h & WORDS else codes(v)).astype(element)
        elements[exact] = exact_words[exact]
    fill_up(source, unit)
    check(source.left() == 0, "length of a block")
    return elements


def fill_up(source, unit):
    """Skips to the next multiple of `unit`."""
    source.take(-source.at % unit)


def exceptions(source, h, m, row, element, word):
    """The bitmap of exact elements among `m` elements in rows, and their values."""
    exact, elements = np.zeros(m, bool), np.zeros(m, element)
    if h & HOLES:
        hole = np.frombuffer(source.take(word.itemsize), word).astype(element)
        n, n_bytes = struct.unpack("<HH", source.take(4))
        check(n >= 1, "number of holes")
        exact = marked(source, m, row, n_bytes & 0x7FFF, n_bytes >> 15, n)
        fill_up(source, 4)
        elements[exact] = hole
    if h & OTHERS:
        (n,) = struct.unpack("<H", source.take(2))
        places = np.frombuffer(source.take(2 * n), "<u2").astype(int)
        check(n >= 1 and np.all(np.diff(places) > 0) and places[-1] < m, "places of exceptions")
        fill_up(source, 4)
        exact[places] = True
        elements[places] = np.frombuffer(source.take(n * element.itemsize), element)
        fill_up(source, 4)
    return exact, elements


def groups(source, m, widths, word):
    """Unpacks the numbers."""
    n_groups = -(-m // 8)
    entries = fields(source, n_groups, (len(widths) - 1).bit_length(), word).tolist()
    fill_up(source, 4)
    check(max(entries) < len(widths), "entry of no width")
    numbers = np.zeros((n_groups, 8), word)
    for group, entry in zip(numbers, entries):
        for low in range(0, widths[entry], 8):
            group |= fields(source, 8, min(widths[entry] - low, 8), word) << word.type(low)
    return numbers.ravel()[:m]


def codes_of(dtype, mode, bound):
    """The function that maps codes (words) to elements, or `None` if there are no codes."""
    if mode == PWREL:
        return patterns(dtype, bound)
    if bound == 0:
        return None
    return zones(dtype, bound) if dtype in FLOATS else steps(dtype, bound)


def zones(dtype, bound):
    """Codes of floats in modes 1 and 2."""
    p = FLOATS[dtype]
    real, w_bits = (np.float64, 64) if dtype == "float64" else (np.float32, 32)
    s0 = cut(min(2.0 * bound * (1 - 2.0**-10), float(np.finfo(real).max)), 10)
    s = [real(cut(s0, n)) for n in (10, 6, 3, 1)]
    g = s[3]
    with np.errstate(all="ignore"):
        if s0 == 0 or g == 0 or np.isinf(1 / g):
            return None
        t = [real(0)] + [g * real(2.0**n) for n in (max(p - 10, 0), p - 6, p - 3)] + [real(math.inf)]
        f = [0]
        for j in range(3):
            f.append(1 << w_bits - 2 if np.isinf(t[j + 1]) else f[j] + number(s, t, j, t[j + 1]) + 1)
    s, t, ends, f = np.array(s), np.array(t[:4]), np.array(t[1:]), np.array(f)

    def elements(k):
        k = k.view(f"<i{k.itemsize}")
        n = np.abs(k) & (1 << w_bits - 2) - 1
        j = np.searchsorted(f, n, side="right") - 1
        with np.errstate(all="ignore"):
            size = np.minimum((n - f[j]).astype(real) * s[j] + t[j], ends[j])
            return float_words(dtype, np.where(k < 0, -size, size))

    return elements


def number(s, t, j, a):
    """index(j, v) of SPEC.md."""
    r = a - t[j]
    n = np.rint(r * (1 / s[j]))
    rest = r - n * s[j]
    if j > 0 and rest > s[j] / 2:
        return int(n) + 1
    if j > 0 and rest < -s[j] / 2:
        return int(n) - 1
    return int(n)


def cut(x, n):
    """x truncated to at most n significant bits."""
    fraction, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(fraction, n)), exponent - n)


def float_words(dtype, values):
    """The words of elements, rounded to their type."""
    if dtype == "bfloat16":
        bits = values.astype("<f4").view("<u4")
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    size = np.dtype(ELEMENTS[dtype]).itemsize
    return values.astype(f"<f{size}").view(f"<u{size}")


def steps(dtype, bound):
    """Codes of integers in modes 1 and 2."""
    element = np.iinfo(dtype)
    step = 2 * int(min(bound, element.max)) + 1
    is_signed = dtype not in ("uint32", "uint64")

    def elements(k):
        k = k.view(f"<i{k.itemsize}") if is_signed else k
        nearest = (min(max(n * step, element.min), element.max) for n in k.tolist())
        return np.array([n % (1 << element.bits) for n in nearest], f"<u{element.bits // 8}")

    return elements


def patterns(dtype, bound):
    """Codes in mode 5."""
    m, bits = FLOATS[dtype] - 1, 8 * np.dtype(ELEMENTS[dtype]).itemsize
    h = math.floor(math.ldexp(bound, m))
    s = 2 * h + 1
    q0 = ((1 << m) + h) // s
    below = (1 << bits - 1) - 1

    def elements(k):
        words = []
        for n in k.view(f"<i{k.itemsize}").tolist():
            size = (abs(n) + q0 - 1) * s & below if n else 0
            words.append(size | (1 << bits - 1 if n < 0 else 0))
        return np.array(words, f"<u{bits // 8}")

    return elements
