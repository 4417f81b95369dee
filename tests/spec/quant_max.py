"""Blocks of level max of the codec `quant`; see decode.py."""

import itertools
import math

import numpy as np

from parts import Bytes, check, known

WORDS, HOLES, OTHERS, WEIGHTS = (1 << bit for bit in (12, 13, 14, 3))
LATER = 0x8FF0
CONTEXTS = 28
LINE = [(0, 0, k) for k in range(1, 17)]
"""Neighbors, as distances in planes, rows and elements to subtract."""
BOX = [(0, 0, 1), (0, 0, 2), (0, 0, 3)] + [
    (z, y, x)
    for z, y, range_ in [
        (0, 1, (2, 1, 0, -1)),
        (1, 0, (1, 0, -1)),
        (1, 1, (1, 0, -1)),
        (1, -1, (1, 0, -1)),
    ]
    for x in range_
]
KINDS = [
    {0, 1, 2},
    set(range(7)),
    {0, 1, 2, 7, 8, 9, 13, 14, 15},
    set(range(16)),
    set(range(13)),
]


class Bits:
    """A bit string."""

    def __init__(self, content):
        self.value, self.at = int.from_bytes(content, "little"), 0

    def take(self, n):
        self.at += n
        return self.value >> (self.at - n) & ((1 << n) - 1)


def signed(value, bits):
    value %= 1 << bits
    return value - (1 << bits) * (value >> (bits - 1))


def view(shape):
    """Rows in a plane, total number of rows, row length, and whether the rows form one line."""
    sz, sy, sx = shape
    m = sz * sy * sx
    if sx < 16:
        sz, sy, sx = 1, sz, sy * sx
    if sy < 3:
        sz, sy = 1, sz * sy
    if sx < 16 or sz * sy < 8:
        return 32, 32, -(-m // 32), True
    return sy, sz * sy, sx, False


def decode(codes, element, shape, content, unit):
    """Decodes the elements of a block that is not plain."""
    m, word_bytes = math.prod(shape), 8 if element.itemsize == 8 else 4
    source = Bytes(content)

    def number(n_bytes):
        return int.from_bytes(source.take(n_bytes), "little")

    h, zero = number(2), number(2)
    known(zero == 0 and not h & LATER and not (h & WORDS and h & (HOLES | OTHERS)), "block")
    check(h & WORDS or codes is not None, "codes of a bound without codes")
    base, hole, n_holes, exact = number(word_bytes), 0, 0, np.zeros(0, element)
    if h & HOLES:
        hole, n_holes = number(word_bytes), number(4)
        check(n_holes >= 1, "number of holes")
    if h & OTHERS:
        n_others = number(4)
        check(1 <= n_others <= source.left() // element.itemsize, "number of exceptions")
        exact = np.frombuffer(source.take(n_others * element.itemsize), element)
        source.take(-source.at % 4)
    rows = view(shape)
    weights = weights_of(h, rows, source)
    tables = tables_of(source, CONTEXTS)
    source.take(-source.at % 4)
    numbers, holes, others = scan(rows, m, 8 * word_bytes, weights, 12 if h & WEIGHTS else 0, tables, source)
    source.take(-source.at % unit)
    check(source.left() == 0, "length of a block")
    check(len(holes) == n_holes and len(others) == len(exact), "number of exceptions")
    word = np.dtype(f"<u{word_bytes}")
    v = np.array([(base + number) % (1 << 8 * word_bytes) for number in numbers], word)
    elements = (v if h & WORDS else codes(v)).astype(element)
    elements[holes] = np.array([hole], word).astype(element)
    elements[sorted(others)] = exact
    return elements


def weights_of(h, rows, source):
    """The neighbors and their weights, for each kind of rows."""
    per_plane, n_rows, _, is_line = rows
    kinds = [set(range(16))] if is_line else KINDS if n_rows > per_plane else KINDS[:2]
    places, result = LINE if is_line else BOX, []
    for kind in kinds:
        others = sorted(kind - {0})
        if h & WEIGHTS:
            weights = np.frombuffer(source.take(2 * len(others)), "<i2").tolist()
        elif is_line:
            weights = [0] * len(others)
        else:
            orders = (h >> 2 & 1) * (8 in kind), (h >> 1 & 1) * (5 in kind), h & 1
            within = [all(0 <= a <= o for a, o in zip(places[i], orders)) for i in others]
            weights = [-((-1) ** sum(places[i])) * w for i, w in zip(others, within)]
        result.append([(places[i], w) for i, w in zip(others, weights)])
    if h & WEIGHTS:
        source.take(-source.at % 4)
    return result


def tables_of(source, contexts):
    """The tables of all contexts."""
    start = source.at
    bits = Bits(source.take(source.left()))
    own = [None if bits.take(1) else table_of(bits) for _ in range(contexts)]
    check(own[-1] is not None, "table of the last context")
    for context in reversed(range(contexts - 1)):
        own[context] = own[context + 1] if own[context] is None else own[context]
    source.at = start
    source.take(-(-bits.at // 8))
    return own


def table_of(bits):
    """Symbol, frequency and first slot, for each slot."""
    n, frequencies = bits.take(8), []
    check(n <= 132, "symbols")
    if n > 0:
        rest = bits.take(8)
        check(rest < n, "symbol of the rest")
        for symbol in range(n):
            length = 0 if symbol == rest else bits.take(4)
            check(length <= 10, "length of a frequency")
            kept = min(length - 1, 3)
            frequencies.append(length and (1 << kept | bits.take(kept)) << (length - 1 - kept))
        check(sum(frequencies) < 1024, "frequencies")
        frequencies[rest] = 1024 - sum(frequencies)
    firsts = itertools.accumulate(frequencies, initial=0)
    return [(s, f, b) for s, (f, b) in enumerate(zip(frequencies, firsts)) for _ in range(f)]


class Lanes:
    """The lanes' states, and the string that they share."""

    def __init__(self, source):
        self.states = np.frombuffer(source.take(128), "<u4").tolist()
        check(min(self.states) >= 1 << 16, "states")
        self.source = source

    def fill_up(self):
        for lane, state in enumerate(self.states):
            if state < 1 << 16:
                self.states[lane] = state << 16 | int.from_bytes(self.source.take(2), "little")

    def symbols(self, tables):
        """Decodes one symbol for each lane in `tables`."""
        symbols = {}
        for lane, table in tables.items():
            check(table, "symbol of an empty context")
            state = self.states[lane]
            symbols[lane], frequency, first = table[state % 1024]
            self.states[lane] = frequency * (state // 1024) + state % 1024 - first
        return symbols

    def bits(self, lengths):
        """Reads the given number of bits from each lane, after the symbols."""
        result, done, most = dict.fromkeys(lengths, 0), 0, 6
        while done == 0 or done < max(lengths.values(), default=0):
            for lane, length in lengths.items():
                n = min(max(length - done, 0), most)
                result[lane] |= self.states[lane] % (1 << n) << done
                self.states[lane] >>= n
            self.fill_up()
            done, most = done + most, 16
        return result


def turns(rows, m):
    """For each time step, the lanes with an element: (lane, row, index in the row)."""
    _, n_rows, length, is_line = rows
    g = max(2, -(-(length + 3) // 32))
    times = {}
    for row in range(n_rows):
        start = 0 if is_line else g * (row % 32) + (32 * g + 1) * (row // 32)
        for x in range(min(length, max(m - row * length, 0))):
            times.setdefault(start + x, []).append((row % 32, row, x))
    return [sorted(times[time]) for time in sorted(times)]


def scan(rows, m, word_bits, weights, f, tables, source):
    """Decodes the numbers, and the positions of holes and of other exceptions."""
    per_plane, n_rows, length, is_line = rows
    is_deep = n_rows > per_plane
    v, sizes, holes, others = {}, {}, [], []
    lanes = Lanes(source)

    def value(row, x):
        if x < 0:
            return 0 if is_line or row == 0 else value(row - 1, 0)
        return v[row, min(x, length - 1)]

    def context(row, x, d):
        if is_line:
            near = [(4, 0, 1), (3, 0, 2), (2, 0, 3), (1, 0, 4)]
        else:
            near = [(2, 0, 1), (1, 0, 2), (2, 1, 0), (1, 1, 1), (1, 1, -1)]
            near += [(2, per_plane, 0), (1, per_plane, -1), (1, per_plane - 1, 0)] * is_deep
        a = sum(n * sizes.get((row - r, x - k), 0) for n, r, k in near)
        if a >= 1 << 15:
            return 25 + (a >= 4 << 15) + (a >= 8 << 15)
        bl = a.bit_length()
        return 3 * bl + min((6 * abs(d)) >> f, 2) if bl <= 5 else 12 + min(bl, 12)

    for turn in turns(rows, m):
        expected, chosen = {}, {}
        for lane, row, x in turn:
            z, y = divmod(row, per_plane)
            kind = 0 if is_line else (y > 0) if z == 0 else 2 if y == 0 else 4 if y == per_plane - 1 else 3
            v0 = value(row, x - 1)
            near = [(value(row - per_plane * i - j, x - k), w) for (i, j, k), w in weights[kind] if w]
            s = signed((1 << f >> 1) + sum(w * (vi - v0) for vi, w in near), word_bits)
            d = s % (1 << f) - (1 << f >> 1)
            expected[lane] = v0 + (s >> f), d < 0
            chosen[lane] = tables[context(row, x, d)]
        symbols = lanes.symbols(chosen)
        lengths = {lane: (symbol - 10) // 2 + 2 if symbol >= 10 else 0 for lane, symbol in symbols.items()}
        check(max(lengths.values()) <= word_bits - 2, "symbol")
        bits = lanes.bits(lengths)
        for lane, row, x in turn:
            e, is_negative = expected[lane]
            symbol, n = symbols[lane], symbols[lane] - 2
            if symbol >= 10:
                n = (2 | symbol & 1) << lengths[lane] | bits[lane]
            t = 0 if symbol < 2 else n // 2 if n % 2 == 0 else -(n + 1) // 2
            v[row, x] = signed(e - t if is_negative else e + t, word_bits)
            sizes[row, x] = [1 << 15, 0][symbol] if symbol < 2 else min(abs(t), 2047)
            if symbol < 2:
                (holes, others)[symbol].append(row * length + x)
    check(lanes.states == [1 << 16] * 32, "states at the end")
    return [v[divmod(i, length)] for i in range(m)], holes, others
