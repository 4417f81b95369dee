"""The codec `huffman`; see decode.py."""

import struct

import numpy as np

from parts import Bytes, check, checksum, known

RANK, EXPANSION = 1, 10923
WIDTHS = {"uint8": 8, "uint16": 16, "uint32": 32, "int8": 8, "int16": 16, "int32": 32}
RAW, CONST, CODES = range(3)
LANES, LONGEST, DIRECT = 32, 14, 1 << 11


def decode(dtype, extents, parameters, payload):
    check(dtype in WIDTHS and 0 not in extents, "element type or extents")
    check(len(parameters) == 1 and 12 <= parameters[0] <= 16, "parameters")
    n, side, width = extents[0], 1 << parameters[0], WIDTHS[dtype]
    sizes = [min(side, n - at) for at in range(0, n, side)]
    source = Bytes(payload)
    table = np.frombuffer(source.take(8 * len(sizes)), "<u4").reshape(-1, 2).tolist()
    source.take(-source.at % 16)
    begin, elements = 0, []
    for size, (end, low) in zip(sizes, table):
        check(begin <= end, "table")
        start = source.at
        content = source.take(16 * (end - begin))
        check(checksum(content, start) % (1 << 32) == low, "check of a block")
        elements.append(decode_block(dtype, size, Bytes(content)))
        begin = end
    check(source.left() == 0, "bytes after the last block")
    return b"".join(block.astype(f"<u{width // 8}").tobytes() for block in elements)


def decode_block(dtype, m, source):
    """Decodes a block's elements, as the u8 of their bits."""
    width = WIDTHS[dtype]
    kind, differences, zero = struct.unpack("<BBH", source.take(4))
    known(kind <= CODES and differences <= (kind == CODES) and zero == 0, "kind of block")
    if kind == CODES:
        numbers = section(width, m, source)
        if differences or dtype.startswith("int"):
            numbers = signed(width, numbers)
        elements = np.cumsum(numbers, dtype="u8") if differences else numbers
    else:
        n = m if kind == RAW else 1
        elements = np.resize(np.frombuffer(source.take(n * width // 8), f"<u{width // 8}"), m).astype("u8")
    check(source.left() < 16, "bytes of a block")
    return elements & np.uint64((1 << width) - 1)


def signed(width, numbers):
    """Inverse of the sign folding, which stores the sign in the lowest bit."""
    if width == 8:
        return numbers
    one = np.uint64(1)
    return np.where(numbers & one == one, ~(numbers >> one), numbers >> one)


def split(symbol):
    """The bits above the tail that a symbol implies, and the length of the tail."""
    if symbol < DIRECT:
        return symbol, 0
    length, head = 12 + (symbol - DIRECT) // 4, (symbol - DIRECT) % 4
    return 4 + head, length - 3


def section(width, m, source):
    """Decodes the numbers of a section, as u8."""
    first, n_symbols, length_bytes, n_words, last = struct.unpack("<4HI", source.take(12))
    rows = -(-m // LANES)
    words = np.frombuffer(source.take(2 * n_words), "<u2").astype("u8")
    left_out = np.zeros(rows, bool)
    if last >> 31:
        marks = np.frombuffer(source.take(-(-rows // 8)), "u1")
        left_out = np.unpackbits(marks, bitorder="little")[:rows].astype(bool)
    n_all = {8: 256, 16: DIRECT + 20, 32: DIRECT + 84}[width]
    check(first + n_symbols <= n_all, "symbols")
    lengths = dict(enumerate(read_lengths(n_symbols, source.take(length_bytes)), first))
    tails = source.take(last & 0x7FFFFFFF)
    symbols = lanes(codes(lengths), rows - int(left_out.sum()), words)
    numbers = np.zeros((rows, LANES), "u8")
    numbers[~left_out] = symbols
    is_coded = np.repeat(~left_out, LANES)[:m]
    numbers = numbers.reshape(-1)[:m]
    return add_tails(numbers, is_coded, tails)


def read_lengths(n, data):
    halves = [half for byte in data for half in (byte % 16, byte // 16)]
    lengths, at = [], 0
    while len(lengths) < n:
        check(at < len(halves), "lengths")
        if halves[at] == 15:
            check(at + 1 < len(halves), "lengths")
            lengths += [0] * (halves[at + 1] + 3)
            at += 1
        else:
            lengths.append(halves[at])
        at += 1
    check(len(lengths) == n and -(-at // 2) == len(data) and not any(halves[at:]), "lengths")
    return lengths


def codes(lengths):
    """The symbols, by code length and code bits."""
    used = sorted((length, symbol) for symbol, length in lengths.items() if length)
    check(all(length <= LONGEST for length, _ in used), "lengths")
    if len(used) == 1:
        check(used[0][0] == 1, "lengths")
        return {(0, 0): used[0][1]}
    found, code, before = {}, 0, 0
    for length, symbol in used:
        code <<= length - before
        check(code < 1 << length, "codes")
        found[length, code] = symbol
        code, before = code + 1, length
    check(not used or code == 1 << before, "codes")
    return found


def lanes(codes, rows, words):
    """Decodes the symbols of all rows."""
    longest = max((length for length, _ in codes), default=0)
    check(codes or rows == 0, "codes")
    # Decoding table over as many bits as the longest code: length and symbol.
    table = np.zeros((1 << longest, 2), "i8")
    for (length, code), symbol in codes.items():
        table[code << (longest - length) : (code + 1) << (longest - length)] = length, symbol
    symbols = np.zeros((rows, LANES), "u8")
    bits, counts, at = np.zeros(LANES, "i8"), np.zeros(LANES, "i8"), 0
    for row in symbols:
        takes = np.flatnonzero(counts < longest)
        check(at + len(takes) <= len(words), "words")
        bits[takes] = bits[takes] << 16 | words[at : at + len(takes)].astype("i8")
        counts[takes] += 16
        at += len(takes)
        length, row[:] = table[bits >> (counts - longest)].T
        counts -= length
        bits &= (1 << counts) - 1
    check(at == len(words), "words")
    return symbols


def add_tails(symbols, is_coded, tails):
    bits, at = int.from_bytes(tails, "little"), 0
    numbers = symbols.copy()
    for i in np.flatnonzero(is_coded & (symbols >= DIRECT)):
        above, n = split(int(symbols[i]))
        numbers[i] = above << n | bits >> at & ((1 << n) - 1)
        at += n
    check(-(-at // 8) == len(tails), "tails")
    return numbers
