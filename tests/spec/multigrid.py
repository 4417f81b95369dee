"""The codec `multigrid`; see decode.py."""

import itertools
import math
import struct
from collections import namedtuple

import numpy as np

import quant
import quant_dense
from lorenzo import block_shape
from parts import Bytes, check, check_missing, checksum, fold, known

RANK, EXPANSION = 4, 1 << 16
TYPES = {"float32": ("<f4", "<u4", 1.5 * 2.0**23), "float64": ("<f8", "<u8", 1.5 * 2.0**52)}
"""Element type, word type and `magic` of SPEC.md."""
ABS, REL, RMS = 1, 2, 6
RAW, DENSE, ZEROS = range(3)
UNIT, LOG2_BLOCK, ROW = 4, 16, 32
FIRST_ARRAY = 4096
"""Largest number of nodes after the steps whose numbers are in the first array."""
PIECE = 1 << 15
MAX_LAYERS = 8
ALL = (1 << 64) - 1
LARGEST = np.finfo(np.float64).max.item()
Step = namedtuple("Step", "level axis strides")
Layer = namedtuple("Layer", "bound n_bytes exact_check n_exact predicts cubic bins")


def decode(dtype, extents, parameters, payload):
    return decode_some(dtype, extents, parameters, payload, MAX_LAYERS)


def decode_some(dtype, extents, parameters, payload, n_read):
    """The array as given by the first `n_read` layers, or by all if there are fewer."""
    check(dtype in TYPES and 0 not in extents, "element type or extents")
    element, word = (np.dtype(name) for name in TYPES[dtype][:2])
    mode, value, n_layers = read_parameters(parameters, element)

    source = Bytes(payload)
    bound, first, order, zero, cubic = struct.unpack("<dQ4s4sQ", source.take(32))
    check(bound == value if mode == ABS else 0 <= bound < math.inf, "bound")
    known(not any(zero) and first >> 8 * element.itemsize == 0, "front")
    check(np.isfinite(np.array([first], word).view(element)[0]), "first element")
    check(sorted(order) == [0, 1, 2, 3], "order")

    shape = [1] * (4 - len(extents)) + extents
    n_levels = (max(shape) - 1).bit_length()
    steps = steps_of(shape, n_levels, order)
    bins = read_bins(source, n_levels)
    (n_exact,) = struct.unpack("<Q", source.take(8))
    if n_layers == 1:
        check(n_exact <= source.left(), "bytes of exact elements")
        layers = [Layer(bound, source.left() - n_exact, None, n_exact, ALL, cubic, bins)]
    else:
        layers = read_layers(source, n_layers, Layer(None, None, None, n_exact, ALL, cubic, bins))
        check(struct.pack("<d", layers[-1].bound) == struct.pack("<d", bound), "bound of the last layer")
    if mode == ABS:
        bounds = [min(value * 8.0 ** (n_layers - 1 - k), LARGEST) for k in range(n_layers)]
        check([layer.bound for layer in layers] == bounds, "bounds of layers")
    array, previous, exact = None, None, []
    for layer in layers[:n_read]:
        numbers = read_numbers(source, arrays_of(shape, steps), layer.n_bytes, word)
        start = source.at
        exact.append(source.take(layer.n_exact))
        if n_layers > 1:
            low = checksum(exact[-1], start) % (1 << 32) if exact[-1] else 0
            check(low == layer.exact_check, "check of exact elements")
        array = walk(array, np.array([first], word), shape, steps, layer, previous, numbers)
        previous = layer
    check(n_read < n_layers or source.left() == 0, "bytes after the last layer")
    for elements in exact:
        put_exact(array.reshape(-1), shape[3], Bytes(elements), word)
    return array.tobytes()


def walk(before, first, shape, steps, layer, previous, numbers):
    """A layer's array after all steps; `before` is the previous layer's array, if any."""
    element, middle = next((np.dtype(name), m) for name, word, m in TYPES.values() if np.dtype(word) == first.dtype)
    array = np.empty(shape, element)
    array[0, 0, 0, 0] = first.view(element)[0]
    numbers = np.concatenate(numbers) if numbers else np.empty(0, first.dtype)
    with np.errstate(all="ignore"):
        for i, step in enumerate(steps):
            n = math.prod(new_nodes(shape, step))
            limits = None
            if previous:
                reach = towards_zero(previous.bins[step.level], element.type) * element.type(0.5)
                u = new_of(before, step)
                limits = (u - reach, u + reach) if layer.predicts >> i & 1 else (u, u)
            do_step(array, step, layer.cubic >> i & 1, limits, layer.bins[step.level], numbers[:n], middle)
            numbers = numbers[n:]
    return array


def read_parameters(parameters, element):
    """Parses mode, value and the number of layers."""
    check(len(parameters) >= 16, "parameters")
    mode, level, further, code, s, value = struct.unpack("<BBBBfd", parameters[:16])
    known(level == 1 and further < MAX_LAYERS, "parameters")
    check(mode in (ABS, REL, RMS), "mode")
    check(mode == RMS and -2 <= s < 0 or not any(parameters[4:8]), "s")
    check(0 < value < math.inf, "value")
    check_missing(code, parameters[16:], element.itemsize)
    return mode, value, further + 1


def read_bins(source, n_levels):
    """The bins of all levels, from level 0 on."""
    bins = np.frombuffer(source.take(8 * n_levels), "<f8")[::-1]
    check(np.all((bins >= 0) & np.isfinite(bins)), "bins")
    return bins


def read_layers(source, n_layers, first):
    """Parses the head of several layers; `first` has the already known fields of the first
    layer."""
    bound, n_bytes, exact_check = struct.unpack("<dQQ", source.take(24))
    layers = [first._replace(bound=bound, n_bytes=n_bytes, exact_check=exact_check)]
    for _ in range(1, n_layers):
        fields = struct.unpack("<dQQQQQ", source.take(48))
        layers.append(Layer(*fields, read_bins(source, len(first.bins))))
    low = checksum(source.data[: source.at], 0) % (1 << 32)
    check(struct.pack("<Q", low) == source.take(8), "check of the head")
    for layer in layers:
        check(0 <= layer.bound < math.inf, "bound of a layer")
        check(layer.n_bytes % UNIT == 0 and layer.n_exact % UNIT == 0, "bytes of a layer")
    check(sum(layer.n_bytes + layer.n_exact for layer in layers) == source.left(), "bytes of layers")
    return layers


def steps_of(shape, n_levels, order):
    """All steps, with the strides of the nodes after each."""
    steps = []
    for level in reversed(range(n_levels)):
        strides = [2 << level] * 4
        for axis in order:
            strides[axis] = 1 << level
            if shape[axis] > 1 << level:
                steps.append(Step(level, axis, tuple(strides)))
    return steps


def nodes(shape, step):
    """Number of nodes after a step, along each axis."""
    return [-(-n // stride) for n, stride in zip(shape, step.strides)]


def new_nodes(shape, step):
    """Number of new nodes of a step, along each axis."""
    return [n // 2 if axis == step.axis else n for axis, n in enumerate(nodes(shape, step))]


def arrays_of(shape, steps):
    """Extents and block shape of each array of numbers."""
    first = list(itertools.takewhile(lambda step: math.prod(nodes(shape, step)) <= FIRST_ARRAY, steps))
    arrays = [[sum(math.prod(new_nodes(shape, step)) for step in first)]] if first else []
    arrays += [new_nodes(shape, step) for step in steps[len(first) :]]
    return folded(arrays)


def folded(arrays):
    """Each array's extents folded to three axes, and the shape of its blocks."""
    found = []
    for extents in arrays:
        extents = fold(extents, 0, 3)
        extents = [1] * (3 - len(extents)) + extents
        found.append((extents, block_shape(extents, LOG2_BLOCK, ROW)))
    return found


def read_numbers(source, arrays, n_bytes, word):
    """The numbers of all arrays, in order, from `n_bytes` bytes of table and blocks."""
    boxes, all_numbers = [], [np.empty(extents, word) for extents, _ in arrays]
    for numbers, (extents, side) in zip(all_numbers, arrays):
        corners = itertools.product(*(range(0, n, s) for n, s in zip(extents, side)))
        boxes += [numbers[tuple(slice(at, at + s) for at, s in zip(corner, side))] for corner in corners]
    table = np.frombuffer(source.take(8 * len(boxes)), "<u4").reshape(-1, 2).tolist()
    begin = 0
    for box, (end, low) in zip(boxes, table):
        check(begin <= end, "table")
        start = source.at
        block = source.take(UNIT * (end - begin))
        check(checksum(block, start) % (1 << 32) == low, "check of a block")
        box[...] = read_block(Bytes(block), box.shape, word).reshape(box.shape)
        begin = end
    check(8 * len(boxes) + UNIT * begin == n_bytes, "bytes of table and blocks")
    return [numbers.reshape(-1) for numbers in all_numbers]


def read_block(source, shape, word):
    """Decodes the numbers of a block of extents `shape`."""
    m = math.prod(shape)
    (kind,) = struct.unpack("<I", source.take(4))
    known(kind in (RAW, DENSE, ZEROS), "block")
    if kind == RAW:
        numbers = np.frombuffer(source.take(m * word.itemsize), word)
    elif kind == DENSE:
        numbers = quant_dense.numbers(source, shape, word)
    else:
        numbers = np.zeros(m, word)
    quant.fill_up(source, UNIT)
    check(source.left() == 0, "length of a block")
    return numbers


def new_of(array, step):
    """The new nodes of a step, with the step's axis first."""
    return np.moveaxis(array[tuple(slice(None, None, stride) for stride in step.strides)], step.axis, 0)[1::2]


def do_step(array, step, is_cubic, limits, size, numbers, middle):
    """Assigns the new nodes their values; predictions are clamped to `limits` if given."""
    real = array.dtype.type
    grid = np.moveaxis(array[tuple(slice(None, None, stride) for stride in step.strides)], step.axis, 0)
    new = grid[1::2]
    h, q = towards_zero(size, real), whole(numbers, array.dtype, middle)
    # Numbers are in C order of the nodes, with the axes in the array's order.
    shape = [*new.shape[1 : step.axis + 1], new.shape[0], *new.shape[step.axis + 1 :]]
    predicted = predictions(grid[::2], len(new), is_cubic)
    if limits:
        least, most = limits
        predicted = np.where(predicted < least, least, np.where(predicted > most, most, predicted))
    new[...] = predicted + np.moveaxis(q.reshape(shape), step.axis, 0) * h
    new[~np.isfinite(new)] = 0


def towards_zero(size, real):
    """A float64 converted to the element type, rounded towards zero."""
    h = real(size)
    return np.nextafter(h, real(0)) if h > size else h


def whole(numbers, element, middle):
    """The integers that the codes represent."""
    middle, one = np.array([middle], element), numbers.dtype.type(1)
    codes = numbers >> one ^ -(numbers & one)
    return (middle.view(numbers.dtype) + codes).view(element) - middle


def predictions(v, n, is_cubic):
    """Predicts the `n` new nodes that follow the first `n` nodes of `v`."""
    real, m = v.dtype.type, len(v)
    p = v[:n].copy()
    p[: m - 1] = v[:-1] * real(0.5) + v[1:] * real(0.5)
    if is_cubic and m > 3:
        p[1 : m - 2] = (v[1:-2] + v[2:-1]) * real(0.5625) - (v[:-3] + v[3:]) * real(0.0625)
    between = p[: m - 1]
    between[~np.isfinite(between)] = 0
    return p


def put_exact(elements, row, source, word):
    """Overwrites exact elements with their words."""
    if source.left() == 0:
        return
    pieces = [elements[at : at + PIECE] for at in range(0, len(elements), PIECE)]
    lengths = np.frombuffer(source.take(4 * len(pieces)), "<u4").tolist()
    for piece, length in zip(pieces, lengths):
        part = Bytes(source.take(length))
        if length == 0:
            continue
        kind, zero = struct.unpack("<HH", part.take(4))
        known(1 <= kind <= 3 and zero == 0, "exact elements")
        h = (quant.HOLES if kind & 1 else 0) | (quant.OTHERS if kind & 2 else 0)
        is_exact, exact = quant.exceptions(part, h, len(piece), min(row, len(piece)), word, word)
        piece.view(word)[is_exact] = exact[is_exact]
        check(part.left() == 0, "length of a piece")
    check(source.left() == 0, "bytes after the last piece")
