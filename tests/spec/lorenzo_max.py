"""A block of the codec `lorenzo`, version 2; see lorenzo.py."""

import math
import struct

import numpy as np

from parts import check, known

RAW, CONST, WITHDRAWN, CODED = range(4)
BITS, CUT, DECIMAL, RANKS = range(4)
FIRST, LAST = -(1 << 63), (1 << 63) - 1
RATES = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5]
RATES_OF_SYMBOLS = [1, *3 * [2], *7 * [3], *12 * [4], *8 * [5], 6]
FREQUENCIES = [32, 48, 80, 128, 256, 512, 1024, 1600, 2800, 4600, 6900, 7600, 4600, 1800, 500]


def signed(v, bits=64):
    v &= (1 << bits) - 1
    return v - (v >> bits - 1 << bits)


class Bits:
    """The range-coded string and the plain bit string of a block."""

    def __init__(self, data):
        self.data, self.front, self.back = data, 0, len(data)
        self.g, self.c = (1 << 64) - 1, 0
        self.plain_bits, self.n_plain = 0, 0
        self.models, self.models_of_symbols = {}, {}
        for _ in range(2):
            self.next_word()

    def next_word(self):
        check(self.front + 4 <= len(self.data), "coded words")
        self.c = self.c << 32 | int.from_bytes(self.data[self.front : self.front + 4], "big")
        self.front += 4

    def bit(self, *names):
        """Decodes a bit by the models with these names, one or two."""
        models = [self.models.setdefault(name, [1 << 15, 0]) for name in names]
        bound = (self.g >> 16) * (sum(p for p, _ in models) // len(models))
        bit = self.c < bound
        if bit:
            self.g = bound
        else:
            self.g, self.c = self.g - bound, self.c - bound
        self.fill()
        for model in models:
            rate = RATES[min(model[1], len(RATES) - 1)]
            model[0] += (65535 - model[0] >> rate) if bit else -(model[0] >> rate)
            model[1] += 1
        return int(bit)

    def fill(self):
        if self.g < 1 << 32:
            self.g <<= 32
            self.next_word()

    def symbol(self, *names, starts=range(0, 1 << 15, 1 << 11)):
        """Decodes a symbol by the symbol models with these names, one or two."""
        models = [self.models_of_symbols.setdefault(name, [list(starts), 0]) for name in names]
        of_all = [sum(b) * 2 // len(models) for b in zip(*(b for b, _ in models))]
        g = self.g >> 16
        symbol = max(k for k in range(16) if g * of_all[k] <= self.c)
        end = g * of_all[symbol + 1] if symbol < 15 else self.g
        self.g, self.c = end - g * of_all[symbol], self.c - g * of_all[symbol]
        self.fill()
        for model in models:
            b, n_seen = model
            rate = RATES_OF_SYMBOLS[min(n_seen, len(RATES_OF_SYMBOLS) - 1)]
            for k in range(16):
                b[k] += -(b[k] - (1 << 15) + 16 - k >> rate) if k > symbol else k - b[k] >> rate
            model[1] += 1
        return symbol

    def plain(self, n):
        while self.n_plain < n:
            check(self.back >= 8, "plain words")
            self.back -= 8
            word = int.from_bytes(self.data[self.back : self.back + 8], "little")
            self.plain_bits |= word << self.n_plain
            self.n_plain += 64
        bits = self.plain_bits & (1 << n) - 1
        self.plain_bits, self.n_plain = self.plain_bits >> n, self.n_plain - n
        return bits


def decode_block(dtype, shape, period, content, element, mantissa):
    """Decodes the elements of a block of extents `shape`."""
    m = math.prod(shape)
    w_bits = 64 if element.itemsize == 8 else 32
    check(len(content) >= 32, "length of a block")
    head, rest = content[:32], content[32:]
    kind, mapping, flags, zero, unit, active, along_xy, along_z, zeros, n_ranks, word = struct.unpack(
        "<4BHHBBHIQ", head[:24]
    )
    check(kind != WITHDRAWN, "kind of a block")
    known(kind <= CODED and word >> w_bits == 0 and not any(head[24:]), "header")
    if kind == RAW:
        known(not any(head), "header")
        check(len(rest) == m * element.itemsize + -m * element.itemsize % 16, "length of a block")
        return np.frombuffer(rest[: m * element.itemsize], element).reshape(shape)
    if kind == CONST:
        known(not any(head[1:16]), "header")
        check(not rest, "length of a block")
        return words_of([word] * m, w_bits, element).reshape(shape)

    orders = along_z, along_xy >> 4, along_xy & 15
    known(mapping <= RANKS and flags < 4 and not zero and not zeros and max(orders) <= 7 and active < 1 << 12, "header")
    largest = (1 << w_bits - 1 - mantissa) - 1 if mantissa else 0
    ranges = {BITS: range(w_bits), CUT: range(1, largest), DECIMAL: range(1, 23) if mantissa else (), RANKS: (0,)}
    check(unit in ranges[mapping] and active and (mapping == RANKS) == (n_ranks > 0), "header")
    check(all(order == 0 or n > 1 for order, n in zip(orders, shape)) and n_ranks <= m, "header")
    check(flags & 1 or not word, "header")

    bits = Bits(rest)
    masked = mask(bits, shape) if flags & 1 else [0] * m
    ranks = [0]
    for _ in range(n_ranks):
        ranks.append(rank(bits, ranks[-1], w_bits))
    domain = Domain(mapping, unit, mantissa)
    numbers = Numbers(bits, domain, shape, period, active, orders, flags >> 1).decode(masked)
    words = []
    for number, is_masked in zip(numbers, masked):
        if is_masked:
            words.append(word)
        elif mapping == BITS:
            words.append(domain.word(number))
        elif mapping == RANKS:
            check(0 <= number < n_ranks, "rank")
            words.append(ranks[number + 1])
        elif mapping == DECIMAL:
            words.append(domain.pattern(float(number) / 10.0**unit))
        else:
            words.append(uncut(bits, number, unit, mantissa, w_bits, largest))
    check(bits.front <= bits.back, "strings overlap")
    return words_of(words, w_bits, element).reshape(shape)


def words_of(words, w_bits, element):
    return np.array([word & (1 << w_bits) - 1 for word in words], f"<u{w_bits // 8}").astype(element)


def mask(bits, shape):
    masked, (_, sy, sx) = {}, shape
    around = (0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 2), (0, 1, 1), (0, 1, -1), (0, 2, 0), (1, 0, -1), (0, 0, 3)
    for z, y, x in np.ndindex(*shape):
        context = sum(masked.get((z - a, y - b, x - c), 0) << k for k, (a, b, c) in enumerate(around))
        masked[z, y, x] = bits.bit(("mask", context))
    return list(masked.values())


def rank(bits, before, w_bits):
    node = 1
    for _ in range(7):
        node = 2 * node + bits.bit(("rank", node))
    length = min(node - 128, w_bits)
    return (before + (1 << length - 1 | bits.plain(length - 1) if length else 0)) % (1 << w_bits)


def uncut(bits, number, e, mantissa, w_bits, largest):
    size = abs(number)
    length = size.bit_length()
    x = max(e + length - (mantissa + 1), 1)
    n = w_bits if length == 0 else max(e - x, 0)
    tail = bits.plain(n) if n and bits.bit(("tail", length)) else 0
    if length == 0:
        return tail
    f = size << e - x | tail if x < e else size >> x - e
    check(x < largest, "value")
    return f + (x - 1 << mantissa) | (number < 0) << w_bits - 1


class Domain:
    """The values that numbers stand for."""

    def __init__(self, mapping, unit, mantissa):
        self.is_float = mapping == BITS and mantissa > 0
        self.t = unit if mapping == BITS else 0
        self.width, self.codes = (32, "<f<i") if mantissa == 23 else (64, "<d<q")

    def pattern(self, value):
        """The word of a float."""
        if self.width == 32:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        return int.from_bytes(struct.pack(self.codes[:2], value), "little")

    def word(self, number):
        word = signed(number << self.t, self.width if self.is_float else 64)
        if self.is_float and word < 0:
            word ^= (1 << self.width - 1) - 1
        return word

    def value(self, number):
        if not self.is_float:
            return float(number)
        (value,) = struct.unpack(self.codes[:2], struct.pack(self.codes[2:], self.word(number)))
        return value if math.isfinite(value) else 0.0

    def number(self, value):
        if not self.is_float:
            if math.isnan(value):
                return 0
            value += -0.5 if value < 0 else 0.5
            return max(min(int(max(min(value, 2.0**64), -(2.0**64))), LAST), FIRST)
        if self.width == 32 and math.isfinite(value):
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        if not math.isfinite(value):
            return 0
        word = signed(self.pattern(value), self.width)
        return (word ^ (1 << self.width - 1) - 1 if word < 0 else word) >> self.t

    def keys(self, number):
        if not self.is_float:
            return [number % (1 << 64)] * 2
        u = signed(number << self.t)
        u = ~u if u < 0 else u
        return [u + (1 << k - 1) >> k for k in ((9, 9) if self.width == 32 else (42, 36))]


class Numbers:
    """Decodes the numbers of a block, one after another."""

    def __init__(self, bits, domain, shape, period, active, orders, looks_back):
        self.bits, self.domain, self.shape, self.orders = bits, domain, shape, orders
        self.active = [k for k in range(12) if active >> k & 1]
        self.looks_back = looks_back and 11 in self.active
        sz, sy, sx = shape
        self.lag = period * (sy * sx if sz > 1 else sx if sy > 1 else 1)
        self.numbers, self.values = [], []
        self.weights, self.features, self.weighted = [0.0] * 12, [0.0] * 12, 0.0
        self.score, self.above = [0] * 12, {}
        self.coded = {}
        self.place, self.is_negated, self.expected = None, False, 0
        self.length, self.history, self.key = 0, 0, 0
        self.tables = {}, {}
        self.differences = {}

    def at(self, z, y, x):
        _, sy, sx = self.shape
        if not (0 <= x < sx and 0 <= y < sy and z >= 0):
            return None
        return self.values[(z * sy + y) * sx + x]

    def decode(self, masked):
        for i, (z, y, x) in enumerate(np.ndindex(*self.shape)):
            if x == 0:
                self.west = 0
            near = self.near(z, y, x)
            if masked[i]:
                number = self.domain.number(near["base"])
                self.note(z, y, x, number)
                continue
            self.element(i, z, y, x, near)
        return self.numbers

    def near(self, z, y, x):
        names = {"W": (0, 0, 1), "N": (0, 1, 0), "U": (1, 0, 0), "NW": (0, 1, 1), "UW": (1, 0, 1), "UN": (1, 1, 0)}
        names |= {"UNW": (1, 1, 1), "NE": (0, 1, -1), "NN": (0, 2, 0), "UE": (1, 0, -1), "US": (1, -1, 0)}
        near = {name: self.at(z - a, y - b, x - c) for name, (a, b, c) in names.items()}
        _, sy, sx = self.shape
        row = (z * sy + y) * sx
        has_t = 0 < self.lag <= row
        near["T"] = self.values[row + x - self.lag] if has_t else None
        near["TW"] = self.values[row + x - self.lag - 1] if has_t and x > 0 else None
        near["base"] = near["W"] if x > 0 else near["N"] if y > 0 else near["U"] if z > 0 else 0.0
        return near

    def predict(self, z, y, x, near):
        base = near["base"]
        w, n, u, nw, uw, un, unw, t, tw = (
            0.0 if near[k] is None else near[k] for k in ("W", "N", "U", "NW", "UW", "UN", "UNW", "T", "TW")
        )
        if 10 in self.active:
            self.weigh(x, near)
        values = [base, *(base if near[k] is None else near[k] for k in "NUT")]
        values += [(w + n) - nw, (w + u) - uw, (n + u) - un, (((w + n) + u) - ((nw + uw) + un)) + unw, (w + t) - tw]
        values += [0.0, self.weighted, base]
        predictions = {k: self.domain.number(values[k]) for k in self.active}
        if 9 in self.active:
            predictions[9] = signed(-self.difference(z, y, x, 0))
        if 11 in self.active and self.place is not None:
            predictions[11] = self.expected
        return predictions

    def weigh(self, x, near):
        sz, sy, _ = self.shape
        one_row, base = sz * sy == 1, near["base"]
        row = self.values[len(self.values) - x :]
        f = [row[x - i] - row[x - i - 1] if x > i else 0.0 for i in range(1, 9 if one_row else 3)]
        if not one_row:
            names = ["N", "NW", "NE", "NN"] + (["U", "UW", "UN", "UE", "UNW", "US"] if sz > 1 else [])
            f += [0.0 if near[k] is None else near[k] - base for k in names]
        self.features = f + [0.0] * (12 - len(f))
        self.weighted = base + dot(self.weights, self.features)

    def difference(self, z, y, x, number):
        """The difference of a number; saves the intermediate values for `note`."""
        left, self.kept = number, []
        for axis, key in ((0, (y, x)), (1, (z, x)), (2, (z, y))):
            for k in range(self.orders[axis]):
                place = axis, k, key
                self.kept.append((place, left))
                left -= self.differences.get(place, 0)
        return signed(left)

    def note(self, z, y, x, number):
        self.difference(z, y, x, number)
        self.differences.update(self.kept)
        self.numbers.append(number)
        self.values.append(self.domain.value(number))

    def element(self, i, z, y, x, near):
        bits, domain = self.bits, self.domain
        column = 0 if self.shape[0] * self.shape[1] == 1 else x
        predictions = self.predict(z, y, x, near)
        above = self.above.setdefault(column, [0] * 12)
        ranking = sorted((self.score[k] + above[k], k) for k in self.active)
        (q, best), (_, other) = ranking[0], ranking[min(1, len(ranking) - 1)]
        # Among equal predictions, `other` is the first one that is not `best`.
        prediction, other = predictions[best], signed(predictions[other] - predictions[best])
        is_same = 0
        if self.place is not None:
            is_same = bits.bit(("same", min(self.length, 15), self.history))
            self.history = (2 * self.history + is_same) % 16
        if is_same:
            number = self.expected
        else:
            west, north = self.west, self.coded.get(column, 0)
            d = self.residual(q, other, west, north)
            number = signed(prediction + d)
            self.west = self.coded[column] = d
            self.learn(number, column, predictions)
        self.note(z, y, x, number)
        if not is_same and 10 in self.active:
            d, size = self.values[-1] - self.weighted, dot(self.features, self.features)
            if size > 0 and d * d <= size * 2.0**20:
                step = 2.0**-7 * d / size
                self.weights = [w + step * f for w, f in zip(self.weights, self.features)]
        if self.looks_back:
            self.look_back(i, number)

    def learn(self, number, column, predictions):
        above = self.above[column]
        for k in self.active:
            b = 16 * abs(signed(number - predictions[k])).bit_length()
            self.score[k] += b // 4 - self.score[k] // 4
            above[k] += b // 2 - above[k] // 2

    def residual(self, q, other, west, north):
        bits = self.bits
        expected = min((q + 16) // 32, 64)
        near = [min(max(abs(d).bit_length() + 8 - expected, 0), 15) for d in (west, north)]

        if expected == 0 and not bits.bit(("any by score", q), ("any by neighbours", *near)):
            return 0
        starts = [sum(FREQUENCIES[:k]) for k in range(16)]
        v = bits.symbol(("score", min(q // 16, 127)), ("neighbours", *near), starts=starts)
        c = v + expected - 9
        if v in (0, 15):
            way = 0
            while way < 65:
                step = bits.symbol(("below" if v == 0 else "above", expected))
                way += step
                if step < 15:
                    break
            c += way if v else -way
        c = min(max(c, 0), 64)
        if c == 0:
            return 0
        is_negative = bits.bit(("sign", c, sign(other), sign(west), sign(north)))
        size, below = 1, c - 1
        if 2 <= c <= 12:
            size, below = 2 + bits.bit(("highest", c)), below - 1
        size = size << below | bits.plain(below)
        return -size if is_negative else size

    def look_back(self, i, number):
        coarse, fine = self.domain.keys(number)
        one, two = place_of(fine), place_of(3 * coarse + self.key)
        self.key = place_of(coarse)
        if self.place is not None:
            b = abs(signed(number - self.expected)).bit_length()
            self.length = self.length + 1 if b == 0 else 0
            self.place = self.place + 1 if b == 0 or 16 * (b + 6) <= self.score[0] else None
        if self.place is None:
            self.length = 0
            self.place = self.tables[1].get(two, self.tables[0].get(one))
            if self.place is not None:
                self.is_negated = self.domain.is_float and (self.numbers[self.place - 1] < 0) != (number < 0)
        self.tables[0][one] = self.tables[1][two] = i + 1
        if self.place is not None:
            self.expected = ~self.numbers[self.place] if self.is_negated else self.numbers[self.place]


def dot(a, b):
    s = [0.0] * 4
    for k in range(12):
        s[k % 4] += a[k] * b[k]
    return (s[0] + s[1]) + (s[2] + s[3])


def sign(v):
    return 0 if v == 0 else 1 if v > 0 else 2


def place_of(key):
    return (key + 1) * 0x9E3779B97F4A7C15 % (1 << 64) >> 48
