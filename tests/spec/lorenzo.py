"""The codec `lorenzo`; see decode.py."""

import itertools
import math
import struct

import numpy as np

import lorenzo_max
from parts import Bytes, check, checksum, known

RANK, EXPANSION = 3, 52429
ELEMENTS = {
    "uint8": "u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "int8": "i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    # Signed integers of the same size: only the bits and the sign extension matter here.
    "float16": "<i2",
    "bfloat16": "<i2",
    "float32": "<i4",
    "float64": "<i8",
}
PARTS = {"complex64": "float32", "complex128": "float64"}
MANTISSA = {"float32": 23, "float64": 52}
RAW, CONST, SPLIT, HUFF, SPARSE = range(5)
BITS, FIXED, DICT, DECIMAL, CUT = range(5)
PREDICTED = set(itertools.product((SPLIT, HUFF, SPARSE), (BITS, FIXED, DECIMAL, CUT)))
COMBINATIONS = {(RAW, 0), (CONST, 0), (SPLIT, DICT)} | PREDICTED
LANES, GROUP = 32, 1024


def decode(dtype, extents, parameters, payload):
    n_parts, dtype = (2, PARTS[dtype]) if dtype in PARTS else (1, dtype)
    check(dtype in ELEMENTS and 0 not in extents, "element type or extents")
    is_max = len(parameters) == 5
    check(len(parameters) in (1, 5) and parameters[0] in (range(16, 19) if is_max else range(12, 15)), "parameters")
    array = np.empty([1] * (3 - len(extents)) + extents + [n_parts], ELEMENTS[dtype])
    side = block_shape(array.shape[:3], parameters[0], max(32, 1 << parameters[0] >> 11))
    corners = itertools.product(*(range(0, n, s) for n, s in zip(array.shape, side)))
    places = list(itertools.product(corners, range(n_parts)))

    source = Bytes(payload)
    table = np.frombuffer(source.take(8 * len(places)), "<u4").reshape(-1, 2).tolist()
    source.take(-source.at % 16)
    begin = 0
    for (corner, part), (end, low) in zip(places, table):
        check(begin <= end, "table")
        start = source.at
        content = source.take(16 * (end - begin))
        check(checksum(content, start) % (1 << 32) == low, "check of a block")
        box = array[(*(slice(at, at + s) for at, s in zip(corner, side)), part)]
        if is_max:
            period = int.from_bytes(parameters[1:], "little")
            form = np.dtype(ELEMENTS[dtype]), MANTISSA.get(dtype, 0)
            box[...] = lorenzo_max.decode_block(dtype, box.shape, period, content, *form)
        else:
            box[...] = decode_block(dtype, box.shape, content)
        begin = end
    check(source.left() == 0, "bytes after the last block")
    return array.tobytes()


def block_shape(extents, log2_size, row):
    """Block extents (bz, by, bx), with rows of up to `row` elements if axes are long."""

    def p(n):
        return 1 << (n - 1).bit_length()

    (dz, dy, dx), e = map(int, extents), 1 << log2_size
    if dz == dy == 1:
        return 1, 1, e
    bx = min(p(dx), row)
    r = e // bx
    if dz == 1:
        by, bz = min(p(dy), r), 1
    else:
        by = min(p(dy), 1 << -(-(r.bit_length() - 1) // 2))
        bz = min(p(dz), r // by)
        by = min(p(dy), r // bz)
    return bz, by, min(p(dx), e // (by * bz))


def decode_block(dtype, shape, content):
    """Decodes a block of extents `shape` to its elements."""
    m, element = math.prod(shape), np.dtype(ELEMENTS[dtype])
    word = np.dtype("<u8" if element.itemsize == 8 else "<u4")
    w_bits = 8 * word.itemsize
    source = Bytes(content)
    head = source.take(16)
    coder, mapping = head[0] & 15, head[0] >> 4
    known((coder, mapping) in COMBINATIONS, "coder and map")
    check(mapping not in (FIXED, DECIMAL, CUT) or dtype in MANTISSA, "map of this type")
    t, n_entries, base = struct.unpack("<HHQ", head[4:])
    known(base >> w_bits == 0, "base")
    base = word.type(base)

    if coder == RAW:
        known(not any(head[1:]), "header")
        elements = np.frombuffer(source.take(m * element.itemsize), element)
    elif coder == CONST:
        known(not any(head[1:8]), "header")
        elements = np.full(m, base).astype(element)
    elif mapping == DICT:
        check(t < w_bits and n_entries >= 1, "header")
        entries = dictionary(source, n_entries, base, *head[2:4])
        v = by_dictionary(entries, head[1], split(source, m, word))
        elements = (v << word.type(t)).astype(element)
    else:
        orders = head[2] & 7, head[1] >> 4 & 7, head[1] & 7
        known(not (head[1] & 0x88 or head[2] & 0xF8 or head[3] & 0xFE or n_entries), "header")
        check(t in parameters_of(mapping, dtype, w_bits), "header")
        masked, masked_word = mask(source, shape, word) if head[3] else (np.zeros(m, bool), base)
        r = np.zeros(m, word)
        numbers = {SPLIT: split, HUFF: huff, SPARSE: sparse}[coder](source, m - np.count_nonzero(masked), word)
        if coder == HUFF and shape[2] < 32 and shape[0] * shape[1] > 1 and not head[3]:
            numbers = numbers.reshape(shape[2], -1).T.ravel()
        r[~masked] = numbers
        v = (integrate(r, shape, orders, True) + base)[~masked]
        words = np.full(m, masked_word)
        if mapping == CUT:
            words[~masked] = cut(v, t, dtype, source, masked)
        else:
            words[~masked] = {BITS: bits, FIXED: fixed, DECIMAL: decimal}[mapping](v, t, dtype)
        elements = words.astype(element)
    check(source.left() < 16, "length of a block")
    return elements.reshape(shape)


def parameters_of(mapping, dtype, w_bits):
    """The valid values of t or e."""
    if mapping == BITS:
        return range(w_bits)
    if mapping == FIXED:
        return range(1, 1 << 16)
    if mapping == DECIMAL:
        return range(1, 23)
    return range(1, (1 << w_bits - 1 - MANTISSA[dtype]) - 1)


def integrate(r, shape, orders, rises):
    """Undoes the prediction, except for the base."""
    one = r.dtype.type(1)
    d = r >> one ^ -(r & one)
    d = d.reshape(shape if orders[0] else (1, shape[0] * shape[1], shape[2]))
    for axis, order in enumerate(orders):
        d = np.moveaxis(d, axis, 0)
        for k in reversed(range(order)):
            start = k if rises else 0
            d = np.concatenate([d[:start], np.add.accumulate(d[start:], axis=0, dtype=d.dtype)])
        d = np.moveaxis(d, 0, axis)
    return d.ravel()


def mask(source, shape, word):
    """The bitmap of masked elements, and their word."""
    m = math.prod(shape)
    masked_word = int.from_bytes(source.take(word.itemsize), "little")
    k, size = struct.unpack("<HH", source.take(4))
    check(1 <= k < m, "number of masked elements")
    masked = marked(source, m, shape[2], size & 0x7FFF, size >> 15, k)
    source.take(-source.at % 8)
    return masked, word.type(masked_word)


def marked(source, m, row, n_bytes, coded, k):
    """The bitmap of `m` elements in rows, decoded from `n_bytes` bytes; `k` bits are set."""
    own = Bytes(source.take(n_bytes))
    marks = coded_marks(own, m) if coded else marks_of(np.frombuffer(own.take(4 * -(-m // 32)), "u1"), m)
    check(own.left() == 0, "bytes of marks")
    if coded:
        # The last row may be shorter.
        changes = np.append(marks, np.zeros(-m % row, bool)).reshape(-1, row)
        marks = np.logical_xor.accumulate(changes, axis=0).ravel()[:m]
    check(np.count_nonzero(marks) == k, "number of marks")
    return marks


def coded_marks(source, n):
    """Decodes a two-level bitmap of `n` bits."""
    words = bit_string(source, -(-n // 32))
    which = np.zeros((len(words), 4), bool)
    which[words] = bit_string(source, 4 * np.count_nonzero(words)).reshape(-1, 4)
    flag_bytes = np.zeros(which.shape, "u1")
    flag_bytes[which] = np.frombuffer(source.take(np.count_nonzero(which)), "u1")
    return marks_of(flag_bytes, n)


def marks_of(flag_bytes, n):
    marks = np.unpackbits(flag_bytes, bitorder="little").astype(bool)
    check(not any(marks[n:]), "mark of nothing")
    return marks[:n]


def bits(v, t, _):
    """Inverse of the map BITS."""
    return v << v.dtype.type(t)


def decimal(v, e, _):
    """Inverse of the map DECIMAL."""
    values = v.view(f"<i{v.itemsize}").astype("<f8") / float(f"1e{e}")
    return values.astype(f"<f{v.itemsize}").view(v.dtype)


def fixed(v, e, dtype):
    """Inverse of the map FIXED: the words of numbers v·2^(e−…)."""
    word, w_bits, mantissa = v.dtype, 8 * v.itemsize, MANTISSA[dtype]
    negative = v >> word.type(w_bits - 1)
    n = np.where(negative, -v, v)
    length = bit_length(n).astype("i8")
    x = e + length - (mantissa + 1)
    check(np.all((x < (1 << (w_bits - 1 - mantissa)) - 1) | (n == 0)), "exponent")

    # Each shift is correct where it is selected; elsewhere it is only clamped to a valid range.
    up, down = np.maximum(mantissa + 1 - length, 0), np.maximum(length - mantissa - 1, 0)
    normal = (n << up.astype(word) >> down.astype(word)) & word.type((1 << mantissa) - 1)
    normal |= np.maximum(x, 0).astype(word) << word.type(mantissa)
    subnormal = n << word.type(min(e - 1, mantissa))
    words = np.where(x >= 1, normal, subnormal) | negative << word.type(w_bits - 1)
    return np.where(n == 0, word.type(0), words)


def cut(v, e, dtype, source, masked):
    """Inverse of the map CUT, with the tails."""
    w_bits, mantissa = 8 * v.itemsize, MANTISSA[dtype]
    sizes = v.view(f"<i{v.itemsize}").tolist()
    check(all(abs(size) < 1 << mantissa + 1 for size in sizes), "number of a cut float")
    places, lengths = [], []
    for size in sizes:
        l = abs(size).bit_length()
        x = max(e + l - (mantissa + 1), 1)
        places.append(x)
        lengths.append(0 if l == 0 else w_bits if l == 1 else e - x)
    source.take(-source.at % 8)
    all_lengths = np.zeros(len(masked), int)
    all_lengths[~masked] = lengths
    all_tails = np.array(tails(all_lengths.tolist(), w_bits, source), object)
    words = []
    for size, x, length, tail in zip(sizes, places, lengths, all_tails[~masked]):
        if abs(size) >= 2:
            f = (abs(size) << length) + tail
            tail = f + (x - 1 << mantissa) | int(size < 0) << w_bits - 1
        words.append(tail)
    return np.array(words, v.dtype)


def tails(lengths, w_bits, source):
    """The tails of elements with the given numbers of tail bits."""
    n_lanes = -(-len(lengths) // 1024) * 32
    # The lane of each element over all groups, and the number of bits of each lane's string.
    lanes = [i // 1024 * 32 + i % 32 for i in range(len(lengths))]
    bits, order = [0] * n_lanes, []
    for lane, length in zip(lanes, lengths):
        if (bits[lane] + length) // w_bits > bits[lane] // w_bits:
            order.append(lane)
        bits[lane] += length
    strings = [[] for _ in range(n_lanes)]
    for lane in order:
        strings[lane].append(int.from_bytes(source.take(w_bits // 8), "little"))
    left = [n % w_bits for n in bits]
    rest, at = int.from_bytes(source.take(-(-sum(left) // 8)), "little"), 0
    for lane, n in enumerate(left):
        strings[lane].append(rest >> at & (1 << n) - 1)
        at += n
    strings = [sum(word << i * w_bits for i, word in enumerate(string)) for string in strings]
    found = []
    for lane, length in zip(lanes, lengths):
        found.append(strings[lane] & (1 << length) - 1)
        strings[lane] >>= length
    return found


def dictionary(source, n_entries, base, width, shift):
    """The dictionary entries, in order."""
    word = base.dtype
    check(width <= 8 * word.itemsize and shift < 8 * word.itemsize, "deltas")
    deltas = fields(source, n_entries - 1, width, word) << word.type(shift)
    source.take(-source.at % 8)
    return np.add.accumulate(np.append(base, deltas), dtype=word)


def by_dictionary(entries, k, r):
    word = r.dtype
    check(k < 8 * word.itemsize, "k")
    index, rest = r >> word.type(k), r & word.type((1 << k) - 1)
    check(np.all(index < len(entries)), "entries")
    return entries[index] + rest


def split(source, m, word):
    """Decodes numbers coded by SPLIT."""
    groups = []
    for begin in range(0, m, GROUP):
        w, e1, e2, zero, n1, n2 = struct.unpack("<4B2H", source.take(8))
        check(w + e1 + e2 <= 8 * word.itemsize and zero == 0, "widths")
        check((n1 == 0) == (e1 == 0) and (n2 == 0) == (e2 == 0) and (e1 > 0 or e2 == 0), "patches")
        groups.append((min(GROUP, m - begin), w, e1, e2, n1, n2))
    numbers = [packed(source, n, w, word) for n, w, *_ in groups]
    patched = [bitmap(source, 32 * -(-n // 32), n1) if e1 else None for n, _, e1, _, n1, _ in groups]
    for (n, w, e1, e2, n1, n2), group, places in zip(groups, numbers, patched):
        if e1:
            check(not any(places[n:]), "patch of no number")
            more = fields(source, n1, e1, word)
            if e2:
                twice = bitmap(source, n1, n2)
                more[twice] |= fields(source, n2, e2, word) << word.type(e1)
            group[places[:n]] |= more << word.type(w)
    return np.concatenate(numbers)


def packed(source, n, w, word):
    """Unpacks the low `w` bits of a group's `n` numbers."""
    rows = -(-n // LANES)
    n_words, over = divmod(rows * w, 8 * word.itemsize)
    words = np.frombuffer(source.take(n_words * LANES * word.itemsize), word)
    if over:
        last = np.dtype("<u4") if over <= 32 else word
        words = np.append(words, np.frombuffer(source.take(LANES * last.itemsize), last).astype(word))
    lanes = np.ascontiguousarray(words.reshape(-1, LANES).T)
    bits = np.unpackbits(lanes.view("u1"), axis=1, bitorder="little") if w else np.empty((LANES, 0), "u1")
    return numbers_of(bits[:, : rows * w].reshape(LANES, rows, w), word).T.ravel()[:n]


def sparse(source, m, word):
    """Decodes numbers coded by SPARSE."""
    n_others, width, gap = struct.unpack("<HBB", source.take(4))
    check(width <= 8 * word.itemsize and (width == 0) == (n_others == 0) and gap <= 14, "numbers that are not 0")
    if gap:
        return sparse_list(source, m, word, n_others, width, gap)
    others = coded_marks(source, m)
    check(np.count_nonzero(others) == n_others, "number of those that are not 0")
    numbers = np.zeros(m, word)
    numbers[others] = fields(source, n_others, width, word)
    return numbers


def sparse_list(source, m, word, n_others, width, gap):
    """The numbers, from the distances between those that are not 0."""
    check(n_others <= 256, "number of those that are not 0")
    string, bit = int.from_bytes(source.data[source.at :], "little"), 0

    def take(n):
        nonlocal bit
        bit += n
        check(bit <= 8 * source.left(), "bits of sparse numbers")
        return string >> bit - n & (1 << n) - 1

    def with_top(length):
        return 1 << length | take(length)

    gap_lengths = [take(gap.bit_length()) for _ in range(n_others)]
    check(all(length <= gap for length in gap_lengths), "number of zeros")
    lengths = [take(max(width - 1, 0).bit_length()) for _ in range(n_others)]
    zeros = [with_top(length - 1) if length else 0 for length in gap_lengths]
    numbers, at = np.zeros(m, word), 0
    for n_zeros, length in zip(zeros, lengths):
        at += n_zeros
        check(at < m, "place of a number that is not 0")
        numbers[at] = with_top(length)
        at += 1
    source.take(-(-bit // 8))
    return numbers


def huff(source, m, word):
    """Decodes numbers coded by HUFF."""
    lo, hi, pivot, flags, least = struct.unpack("<4BH", source.take(6))
    flag, width = flags >> 7, flags & 0x7F
    check(lo <= hi <= 8 * word.itemsize and pivot <= 8 * word.itemsize and width <= 16, "symbols")
    n_runs, n_symbols = -(-m // 32), hi - lo + 1
    zero = bit_string(source, n_runs) if flag else np.zeros(n_runs, bool)
    lengths = fields(source, 4 * n_symbols, 4, word).reshape(4, n_symbols).tolist()
    tables = [codes(row, lo) for row in lengths]
    sizes = [least + n for n in fields(source, LANES, width, np.dtype("<u4")).tolist()]
    check(max(sizes) < 1 << 16, "bytes of a lane")
    strings = [source.take(n) for n in sizes]

    numbers, q = [], -(-n_runs // LANES)
    for lane, string in enumerate(strings):
        bits, at = int.from_bytes(string, "little"), 0
        a = b = pivot
        for run in range(lane * q, min((lane + 1) * q, n_runs)):
            n = min(32, m - 32 * run)
            if zero[run]:
                numbers += [0] * n
                a = b = 0
                continue
            for _ in range(n):
                d = a + b - 2 * pivot
                context = 0 if d < -3 else 1 if d < 0 else 2 if d <= 1 else 3
                check((bits >> at) % 1024 in tables[context], "code that does not exist")
                symbol, length = tables[context][(bits >> at) % 1024]
                at += length
                top = 1 << symbol >> 1  # the number's highest bit
                numbers.append(top | (bits >> at) & max(top - 1, 0))
                at += max(symbol - 1, 0)
                a, b = symbol, a
        check(at <= 8 * len(string), "end of a lane")
    return np.array(numbers, word)


def codes(lengths, lo):
    """Decoding table: (symbol, length) for each ten bits of input, first bit lowest."""
    check(max(lengths) <= 10, "code length")
    check(sum(1 << 10 - length for length in lengths if length) <= 1 << 10, "codes overlap")
    table, code = {}, 0
    for length in range(1, 11):
        code *= 2
        for symbol, own in enumerate(lengths, lo):
            if own == length:
                first = int(f"{code:0{length}b}"[::-1], 2)
                table.update((bits, (symbol, length)) for bits in range(first, 1 << 10, 1 << length))
                code += 1
    return table


def fields(source, n, width, word):
    """Unpacks `n` fields of `width` bits each."""
    return numbers_of(bit_string(source, n * width).reshape(n, width), word)


def bitmap(source, n, n_ones):
    """A bit string of `n` bits with `n_ones` ones; its padding must be 0."""
    bits = bit_string(source, -n % 8 + n)
    check(np.count_nonzero(bits) == n_ones and not any(bits[n:]), "ones of a bitmap")
    return bits[:n]


def bit_string(source, n):
    """A bit string of `n` bits."""
    return np.unpackbits(np.frombuffer(source.take(-(-n // 8)), "u1"), count=n, bitorder="little").astype(bool)


def numbers_of(bits, word):
    """The last axis as numbers, lowest bit first."""
    return (bits.astype(word) << np.arange(bits.shape[-1], dtype=word)).sum(axis=-1, dtype=word)


def bit_length(v):
    return sum((v >> v.dtype.type(k) != 0).astype("u1") for k in range(8 * v.itemsize))
