"""Missing elements are restored bit for bit through the operator, with every lossy codec, mode,
level and type.

Each array has several fill values at once, and some have a valid range.
"""

import numpy as np
from support import DTYPES, MODES, Writer
from test_values import read_elsewhere

VALUES = {
    "abs": "abs=0.5", "rel": "rel=1e-2", "rate": "rate=9", "precision": "precision=14", "pwrel": "pwrel=1e-2",
    "rms": "rms=0.5", "expert": "expert,maxbits=900,maxprec=18,minexp=-8",
}  # fmt: skip
SHAPES = [(7201,), (60, 120), (11, 24, 27)]


def bits(array):
    """The bytes of each element, along an additional axis."""
    return np.ascontiguousarray(array).view("u1").reshape(*array.shape, -1)


def lossy_modes(codec):
    return [mode for number, mode in enumerate(MODES) if codec.modes & 1 << number and mode != "lossless"]


def is_missing(array, fills, limits):
    found = np.any([(bits(array) == bits(fill)).all(-1) for fill in fills], axis=0)
    return found | (array < limits[0]) | (array > limits[1]) if limits else found


def masked(rng, dtype, shape):
    """A random array with masks of several fill values and neighbors of these; the fill values, and
    a valid range or None."""
    dtype = np.dtype(dtype)
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    field = 40 * np.sin(np.arange(np.prod(shape)) / rng.uniform(3, 30)).reshape(shape) + rng.normal(size=shape) + 60
    array = (field + 1j * field if dtype.kind == "c" else field).astype(dtype)
    is_integer = dtype.kind in "iu"
    ends = np.iinfo(dtype) if is_integer else np.finfo(part)
    values = [0, 25, ends.max, ends.min] if is_integer else [0, 25.5, -999, 1e20, ends.max, np.nan]
    fills = rng.choice(np.array(values, "O"), int(rng.integers(1, len(values))), replace=False)
    fills = np.array([part.type(fill) for fill in fills]).astype(dtype)
    for fill in fills:
        if np.abs(fill) < 30:
            near = rng.random(shape) < 0.05
            steps = rng.choice([1, 2] if is_integer else [-0.3, 0.3, 1], int(near.sum()))
            array[near] = (fill.item() + steps).astype(dtype)
    for fill in fills:
        array[rng.random(shape) < 0.1] = fill
        array[tuple(slice(int(rng.integers(n)), None) for n in shape)] = fill
    limits = np.array([25, 95], dtype) if dtype.kind != "c" and rng.random() < 0.4 else None
    return array, fills, limits if limits is None else tuple(limits)


def text(element):
    return "0x" + element.astype(element.dtype.newbyteorder("<")).tobytes()[::-1].hex()


def test_missing_elements_are_kept(tmp_path, gridz):
    rng, cases, elements = np.random.default_rng(7), {}, {}
    with Writer(tmp_path / "all.bp") as writer:
        for codec in gridz.codecs():
            name_of_codec = codec.name.decode()
            for mode in lossy_modes(codec):
                for level in [codec.level_numbers[i] for i in range(codec.n_levels)]:
                    request = f"{name_of_codec},{VALUES[mode]},level={level}"
                    for dtype in DTYPES:
                        if gridz.frame(np.zeros((4, 4), dtype), request) is None:
                            continue
                        shape = SHAPES[len(cases) % len(SHAPES)]
                        array, fills, limits = masked(rng, dtype, shape)
                        parts = [request, *(f"fill={text(fill)}" for fill in fills)]
                        keys = ("valid_min", "valid_max")
                        parts += [f"{key}={text(limit)}" for key, limit in zip(keys, limits or ())]
                        name = f"{len(cases)}: {','.join(parts)} of {dtype}"
                        variable = writer.define(name, dtype, shape, {"gridz": ",".join(parts)})
                        cases[name] = variable, array, fills, limits
                        elements[name_of_codec, mode] = elements.get((name_of_codec, mode), 0) + array.size
        writer.step()
        for variable, array, *_ in cases.values():
            writer.put(variable, array)
        writer.end_step()
    found, n_missing = read_elsewhere(tmp_path / "all.bp"), 0
    for name, (_, array, fills, limits) in cases.items():
        before, after = (is_missing(values, fills, limits) for values in (array, found[name]))
        n_missing += int(before.sum())
        assert np.array_equal(before, after), f"{name}: {(before != after).sum()} elements changed between missing and valid"
        assert np.array_equal(bits(array)[before], bits(found[name])[before]), name
    modes = {(codec.name.decode(), mode) for codec in gridz.codecs() for mode in lossy_modes(codec)}
    assert set(elements) == modes and len(modes) == 11
    assert sum(elements.values()) >= 600_000 and n_missing >= 100_000
