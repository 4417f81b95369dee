"""The numbers of blocks of level dense of the codec `quant`; see decode.py."""

import numpy as np

from parts import check
from quant_max import Bits, Lanes, tables_of

CONTEXTS = 12


def numbers(source, shape, word):
    """Decodes the numbers of a block of extents `shape`."""
    n_tails = int.from_bytes(source.take(4), "little")
    tables = tables_of(source, CONTEXTS)
    tails = Bits(source.take(n_tails))
    lanes = Lanes(source)
    distances = near(*shape)
    m = int(np.prod(shape))
    result = np.zeros(m, word)
    sizes = np.zeros(max(distances) + m, int)
    for row in range(0, m, 32):
        places = range(row, min(row + 32, m))
        at = [max(distances) + place for place in places]
        contexts = [int(sum(sizes[place - d] for d in distances)).bit_length() for place in at]
        symbols = lanes.symbols({lane: tables[context] for lane, context in enumerate(contexts)})
        lanes.fill_up()
        for lane, place in enumerate(places):
            s = symbols[lane]
            length = (s - 8) // 2 + 4 if s >= 8 else 0
            check(length <= 8 * word.itemsize, "length of a number")
            result[place] = (2 + s % 2) << (length - 2) | tails.take(length - 2) if length else s
            sizes[at[lane]] = min((2 + s % 2) << (length - 3), 255) if length else (s + 1) // 2
    check(lanes.states == [1 << 16] * 32, "states at the end")
    check(-(-tails.at // 8) == n_tails, "bytes of the tails")
    return result


def near(sz, sy, sx):
    """Distances of the eight numbers that determine a context."""
    row, plane = 32 if sz * sy == 1 or sx > 2048 else sx, sy * sx
    up = row * -(-32 // row)
    beside = up - 1 if up - 1 >= 32 else up
    if sz == 1 or not 32 <= plane <= 4096:
        return [up, up, up, up + 1, up + 1, beside, beside, 2 * up]
    below = plane - up if plane - up >= 32 else plane
    return [up, up, up + 1, beside, 2 * up, plane, plane, below]
