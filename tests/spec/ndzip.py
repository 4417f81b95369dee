"""The codec `ndzip`; see decode.py."""

import itertools

import numpy as np

from parts import Bytes, check

RANK, EXPANSION = 3, 64
SIDES = {1: 4096, 2: 64, 3: 16}


def decode(dtype, extents, parameters, payload):
    check(dtype in ("float32", "float64"), "element type")
    check(len(parameters) == 0, "parameters")
    word = np.dtype({"float32": "<u4", "float64": "<u8"}[dtype])
    array = np.empty(extents, word)
    side = SIDES[array.ndim]
    corners = list(itertools.product(*(range(0, n - side + 1, side) for n in extents)))

    source = Bytes(payload)
    ends = np.frombuffer(source.take(4 * len(corners)), "<u4").tolist()
    source.take(-source.at % word.itemsize)
    border = np.ones(extents, bool)
    for corner, begin, end in zip(corners, [0, *ends], ends):
        check(begin <= end, "table")
        place = tuple(slice(at, at + side) for at in corner)
        words = np.frombuffer(source.take((end - begin) * word.itemsize), word)
        array[place] = block(words, (side,) * array.ndim)
        border[place] = False
    rest = source.take(source.left())
    check(len(rest) == np.count_nonzero(border) * word.itemsize, "border")
    array[border] = np.frombuffer(rest, word)
    return array.tobytes()


def block(words, shape):
    """Decodes the elements of a block."""
    dtype, bits = words.dtype, 8 * words.itemsize
    n_heads = 4096 // bits
    check(n_heads <= len(words) <= n_heads + 4096, "length of a block")
    present = to_bits(words[:n_heads])
    check(len(words) == n_heads + np.count_nonzero(present), "heads")
    # Bit W-1-c of word j is in bit W-1-j of column c: with the highest bit first, this is a
    # transposition.
    columns = np.zeros((n_heads, bits, bits), "u1")
    columns[present == 1] = to_bits(words[n_heads:])
    values = np.packbits(columns.transpose(0, 2, 1)).view(dtype.newbyteorder(">")).astype(dtype)

    top = dtype.type(1 << (bits - 1))
    values = np.where(values & top, values ^ (top - dtype.type(1)), values).reshape(shape)
    for axis in range(len(shape)):
        values = np.add.accumulate(values, axis=axis, dtype=dtype)
    return values >> dtype.type(1) | values << dtype.type(bits - 1)


def to_bits(words):
    """The bits of each word, highest first."""
    big = words.astype(words.dtype.newbyteorder(">"))
    return np.unpackbits(big.view("u1")).reshape(len(words), 8 * words.itemsize)
