"""The codec `cci`; see decode.py."""

import struct

import numpy as np

import huffman
from parts import Bytes, check, checksum, known

RANK, EXPANSION = 1, 13108
WIDTHS = {"uint32": 32, "uint64": 64, "int32": 32, "int64": 64}
RAW, CODED = range(2)
FIXED, ROWS, CODES = range(3)
RUNS_FLAG, ROWS_FLAG = 1, 2
UNIT = 16


def decode(dtype, extents, parameters, payload):
    check(dtype in WIDTHS and 0 not in extents, "element type or extents")
    check(len(parameters) == 2 and 12 <= parameters[0] <= 16 and parameters[1] <= 1, "parameters")
    n, side, width = extents[0], 1 << parameters[0], WIDTHS[dtype]
    sizes = [min(side, n - at) for at in range(0, n, side)]
    source = Bytes(payload)
    table = np.frombuffer(source.take(8 * len(sizes)), "<u4").reshape(-1, 2).tolist()
    source.take(-source.at % UNIT)
    begin, elements = 0, []
    for size, (end, low) in zip(sizes, table):
        check(begin <= end, "table")
        start = source.at
        content = source.take(UNIT * (end - begin))
        check(checksum(content, start) % (1 << 32) == low, "check of a block")
        elements += decode_block(width, size, parameters[1] == 1, Bytes(content))
        begin = end
    check(source.left() == 0, "bytes after the last block")
    return np.array(elements, f"<u{width // 8}").tobytes()


def decode_block(width, n, has_codes, source):
    """Decodes a block's elements, as their bits."""
    kind, flags, zero = struct.unpack("<BBH", source.take(4))
    known(kind in (RAW, CODED) and flags <= (3 if kind == CODED else 0) and zero == 0, "kind of block")
    n_runs, n_copies, n_repeats = struct.unpack("<3I", source.take(12))
    if kind == RAW:
        known(n_runs == n_copies == n_repeats == 0, "kind of block")
        elements = np.frombuffer(source.take(n * width // 8), f"<u{width // 8}").tolist()
        check(source.left() < UNIT, "bytes of a block")
        return elements
    (base,) = struct.unpack("<Q", source.take(8))
    has_runs, has_rows = flags & RUNS_FLAG > 0, flags & ROWS_FLAG > 0
    m = n_runs if has_runs else n
    check(1 <= m <= (n // 2 if has_runs else n) and (has_runs or n_runs == 0), "number of runs")
    check(n_repeats <= n_copies // 4 and n_copies <= m // 4 and base < 1 << width, "numbers of a block")

    def take(count, bits=32):
        return take_list(count, bits, has_codes, source)

    repeats = list(zip(*[take(n_repeats) for _ in range(3)]))
    n_own = n_copies - sum(length for _, length, _ in repeats)
    check(n_own >= 0, "repeats")
    copies = expand(repeats, list(zip(*[take(n_own) for _ in range(4)])), n_copies)
    copies = [copy_of(*numbers) for numbers in copies]
    n_literals = m - sum(length for _, _, length in copies)
    check(sum(before for before, _, _ in copies) <= n_literals, "copies")
    numbers = iter(take(n_literals, width))
    lengths = iter(take(n_literals) if has_runs else [0] * n_literals)
    numbers, n_starts = list(numbers), 0
    if has_rows:
        n_starts = numbers.count(0)
        check(n_starts <= m // 4, "starts")
    numbers, starts = iter(numbers), iter(take(n_starts, width))
    check(source.left() < UNIT, "bytes of a block")

    symbols, differences, sizes, start = [base], [], [], base

    def add(difference, size):
        differences.append(difference)
        sizes.append(size)
        symbols.append((symbols[-1] + difference) % (1 << width))

    def literal():
        nonlocal start
        number = next(numbers)
        if has_rows and number == 0:
            start = (start + signed(next(starts))) % (1 << width)
            add(start - symbols[-1], next(lengths) + 1)
        else:
            add(number if has_rows else signed(number), next(lengths) + 1)

    for before, distance, length in copies:
        for _ in range(before):
            literal()
        check(1 <= distance <= len(sizes), "distance of a copy")
        for _ in range(length):
            add(differences[-distance], sizes[-distance])
    while len(sizes) < m:
        literal()
    elements = [(symbol + i) % (1 << width) for symbol, size in zip(symbols[1:], sizes) for i in range(min(size, n + 1))]
    check(len(elements) == n, "elements of a block")
    return elements


def signed(number):
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def copy_of(before, distance, rounds, rest):
    """Number of literals before the copy, distance, and length."""
    distance = before - 1 + signed(distance)
    length = rounds * distance + rest - 1
    check(rest < distance and 1 <= length < 1 << 32, "copy")
    return before, distance, length


def expand(repeats, own, n):
    """Decodes all copies."""
    copies = []
    for before, length, distance in repeats:
        check(before <= len(own), "repeats")
        copies += own[:before]
        del own[:before]
        check(length >= 1 and 1 <= distance <= len(copies), "repeat")
        for _ in range(length):
            copies.append(copies[-distance])
    check(len(copies) + len(own) == n, "repeats")
    return copies + own


def take_list(count, bits, has_codes, source):
    """Decodes a list of numbers of at most `bits` bits each."""
    if count == 0:
        return []
    form, width, words, zero = source.take(4)
    check(form <= CODES and zero == 0 and words <= 2 and (form == FIXED or width == words == 0), "form of a list")
    start = source.at
    if form == FIXED:
        check(width <= bits, "width")
        least = int.from_bytes(source.take(4 * words), "little")
        numbers = [least + field for field in fields(count, width, source)]
    elif form == ROWS:
        widths = source.take(-(-count // 32))
        source.take(-len(widths) % 4)
        check(max(widths) <= bits, "width")
        numbers = []
        for first, width in zip(range(0, count, 32), widths):
            numbers += fields(min(32, count - first), width, source)
    else:
        check(has_codes, "codes")
        numbers = huffman.section(32, count, source).tolist()
    check(max(numbers) < 1 << bits, "numbers of a list")
    source.take(-(source.at - start) % 4)
    return numbers


def fields(count, width, source):
    string = int.from_bytes(source.take(-(-count * width // 8)), "little")
    return [string >> i * width & ((1 << width) - 1) for i in range(count)]
