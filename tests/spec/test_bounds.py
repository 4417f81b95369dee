"""The guarantee of error bounds, tested on the library's frames with this decoder: after any number
of rewrites, every element stays within its bound of its first value. All comparisons use integers,
so nothing is rounded.

GRIDZ_SCHEDULES: number of arrays of each type that are written and rewritten."""

import itertools
import math
import os
import random
import struct

import numpy as np
import pytest

from decode import TYPES, decode
from library import NAMES, compress

N_SCHEDULES = int(os.environ.get("GRIDZ_SCHEDULES") or 20)
FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
UNIT = 1074
"""Every number of every type is a multiple of 2^-UNIT."""
LEVELS = "fast", "dense", "max"
FILLS = -999.0, 1e20, 9.969209968386869e36, 0.5


class Numbers:
    """The numbers of a type, as words of a frame."""

    def __init__(self, dtype):
        size, number = dict((name, rest) for name, *rest in TYPES)[dtype]
        self.n_parts, self.bits = size // number, 8 * number
        self.dtype = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        self.word = np.dtype(f"<u{number}")
        self.fraction_bits = FRACTION_BITS.get(self.dtype)

    def exact(self, word):
        """The number in units of 2^-UNIT; `None` for NaN and infinities."""
        if self.fraction_bits is None:
            negative = not self.dtype.startswith("u") and word >> self.bits - 1
            return (word - (1 << self.bits) if negative else word) << UNIT
        n_exponent = self.bits - 1 - self.fraction_bits
        field = word >> self.fraction_bits & (1 << n_exponent) - 1
        fraction = word & (1 << self.fraction_bits) - 1
        if field == (1 << n_exponent) - 1:
            return None
        if field:
            fraction |= 1 << self.fraction_bits
        # The exponent of a subnormal number's unit.
        least = 2 - (1 << n_exponent - 1) - self.fraction_bits
        size = fraction << max(field, 1) - 1 + least + UNIT
        return -size if word >> self.bits - 1 else size

    def of(self, value):
        """The word of the type's number near a float."""
        if self.fraction_bits is None:
            if not math.isfinite(value):
                return 0
            low = 0 if self.dtype.startswith("u") else -(1 << self.bits - 1)
            return min(max(int(value), low), low + (1 << self.bits) - 1) % (1 << self.bits)
        if self.bits == 64:
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        with np.errstate(all="ignore"):
            if self.dtype == "float16":
                return int(np.float16(value).view("<u2"))
            word = int(np.float32(value).view("<u4"))
        return word >> 16 if self.dtype == "bfloat16" else word

    def nan(self, payload):
        """The word of a NaN; 0 for integers."""
        if self.fraction_bits is None:
            return 0
        infinity = (1 << self.bits - 1) - (1 << self.fraction_bits)
        return infinity | 1 << self.fraction_bits - 1 | payload % (1 << self.fraction_bits - 1)


def draw_words(numbers, rng, n):
    """A random signal with disturbances."""
    scale = 10.0 ** rng.choice([0, 0, 2, 4, -3, rng.uniform(-40, 36)])
    kind, noise = rng.choice(["walk", "wave", "noise", "scales", "bits", "same"]), rng.choice([0, 1e-6, 1e-2])
    words, height = [], 1.0
    for i in range(n):
        height += rng.uniform(-0.1, 0.1)
        value = {
            "walk": height,
            "wave": math.sin(i / 20) + 2,
            "noise": rng.uniform(-1, 1),
            "scales": rng.uniform(-1, 1) * 2.0 ** rng.randint(-60, 60),
        }.get(kind, 1.0)
        words.append(rng.getrandbits(numbers.bits) if kind == "bits" else numbers.of(scale * (value + noise * rng.random())))
    return words


def draw_wild(numbers, rng, words, fill):
    """A random outlier."""
    return rng.choice(
        [
            numbers.of(1e35),
            numbers.of(-1e35),
            numbers.of(math.inf),
            numbers.of(-0.0),
            numbers.nan(0),
            numbers.nan(rng.getrandbits(50)),
            rng.getrandbits(numbers.bits),
            rng.choice(words),
            1,
            fill or 0,
        ]
    )


def draw_value(numbers, rng, mode, words):
    """A random bound: from far too small to far too large."""
    if mode == "pwrel":
        return rng.choice([0.9, 0.1, 1e-2, 1e-3, 2.0 ** -rng.randint(1, 60), rng.random() or 0.5])
    if rng.random() < 0.1:
        return 10.0 ** rng.uniform(-300, 300)
    if mode == "rel":
        return rng.choice([0.1, 1e-2, 1e-3, 1e-4, 1e-7])
    exact = abs(numbers.exact(rng.choice(words)) or 1 << UNIT) >> UNIT - 60
    size = math.ldexp(min(exact, 1 << 1000) or 1, -60)
    return min(max(size * 2.0 ** -rng.uniform(-3, 56), 5e-324), 1.7e308)


def check_all(numbers, original, stored, mode, value, fills):
    """Checks every element against the guarantee."""
    numerator, denominator = value.as_integer_ratio()
    exact = [numbers.exact(word) for word in original]
    extent = 0
    if mode == "rel":
        counts = [x is not None and not (fills and original[i] == fills[i % len(fills)]) for i, x in enumerate(exact)]
        finite = list(itertools.compress(exact, counts))
        extent = max(finite, default=0) - min(finite, default=0)
    for i, (was, x, now) in enumerate(zip(original, exact, stored)):
        fill = fills[i % len(fills)] if fills else 0
        if x is None or fill and was == fill:
            assert now == was, f"element {i}: {was:#x} has become {now:#x}"
            continue
        y = numbers.exact(now)
        assert y is not None, f"element {i}: {was:#x} has become {now:#x}"
        assert not fill or now != fill or was == now, f"element {i} has become the fill value"
        measure = {"abs": 1 << UNIT, "rel": extent, "pwrel": abs(x)}[mode]
        assert abs(x - y) * denominator <= numerator * measure, f"element {i}: {was:#x} has become {now:#x}"
        if mode == "pwrel" and x == 0:
            assert now == was, f"element {i}: a zero has lost its sign"


@pytest.mark.parametrize("seed", range(N_SCHEDULES))
@pytest.mark.parametrize("dtype", NAMES)
def test_rewritten_elements_stay_within_their_bound(dtype, seed):
    rng = random.Random(f"{dtype} {seed}")
    numbers = Numbers(dtype)
    n_parts = numbers.n_parts
    extents = rng.choice([[400], [5000], [17], [24, 20], [7, 70], [70, 7], [6, 7, 9], [2, 3, 5, 13]])
    n = math.prod(extents) * n_parts
    mode = rng.choice(["abs", "abs", "pwrel" if numbers.fraction_bits else "abs", "rel"])
    words = draw_words(numbers, rng, n)
    fills = [numbers.of(rng.choice(FILLS)) for _ in range(n_parts)] if rng.random() < 0.5 else []
    if not any(fills):
        fills = []
    value = draw_value(numbers, rng, mode, words)
    level = rng.choice(LEVELS)

    # A mask over about half of the elements, and a few spikes.
    if rng.random() < 0.4:
        hole = fills or [numbers.nan(1)] * n_parts
        width, period = rng.randint(3, 60), rng.randint(20, 90)
        words = [hole[i % n_parts] if i // n_parts % period < width else word for i, word in enumerate(words)]
    for _ in range(rng.choice([0, 1, 5, n // 10])):
        words[rng.randrange(n)] = draw_wild(numbers, rng, words, fills and fills[0])

    def stored_and_read(words, extents):
        data = np.array(words, numbers.word).tobytes()
        fill = np.array(fills, numbers.word).tobytes()
        frame = compress(f"quant,{mode}={value!r},level={level}", dtype, extents, data, fill)
        return np.frombuffer(decode(frame), numbers.word).tolist()

    original, stored = words, words
    # The range of the decoded array differs, so `rel` is only tested for one write.
    for _ in range(1 if mode == "rel" else 6):
        if rng.random() < 0.3 and extents[0] > 1 and mode != "rel":
            # In two chunks.
            first = rng.randrange(1, extents[0])
            cut = n // extents[0] * first
            parts = (stored[:cut], [first, *extents[1:]]), (stored[cut:], [extents[0] - first, *extents[1:]])
            stored = [word for part in parts for word in stored_and_read(*part)]
        else:
            stored = stored_and_read(stored, extents)
        check_all(numbers, original, stored, mode, value, fills)
        # Rewrites some elements: one, or a row.
        at = rng.randrange(n)
        original = list(original)
        for i in range(at, min(n, at + rng.choice([1, 1, 1, 30]))):
            new = draw_wild(numbers, rng, words, fills and fills[0]) if rng.random() < 0.5 else rng.choice(words)
            original[i] = stored[i] = new


def test_the_check_finds_what_is_wrong():
    numbers = Numbers("float32")
    words = [numbers.of(value) for value in (1.0, -3.0, 1e-40, 0.0)]
    check_all(numbers, words, words, "abs", 1e-300, [])
    for now in (1.0 + 2**-20, math.inf):
        with pytest.raises(AssertionError):
            check_all(numbers, words, [numbers.of(now), *words[1:]], "abs", 2**-21, [])
    check_all(numbers, words, [numbers.of(1.0 + 2**-20), *words[1:]], "abs", 2**-20, [])
    check_all(numbers, words, [numbers.of(1.0 + 2**-20), *words[1:]], "pwrel", 2**-20, [])
    check_all(numbers, words, [numbers.of(1.0 + 2**-20), *words[1:]], "rel", 2**-22, [])
    with pytest.raises(AssertionError):
        check_all(numbers, words, [numbers.of(1.0 + 2**-20), *words[1:]], "rel", 2**-22 * (1 - 2**-50), [])
    with pytest.raises(AssertionError):
        check_all(numbers, words, [words[1], *words[1:]], "abs", 4.0, [words[1]])
    with pytest.raises(AssertionError):
        check_all(numbers, [numbers.nan(1)], [numbers.nan(2)], "abs", 4.0, [])
