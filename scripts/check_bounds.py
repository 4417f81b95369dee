#!/usr/bin/env python3
"""Checks guarantees of error bounds: quant, zfp and multigrid on many random arrays, each element
compared with its bound in exact arithmetic.

    check_bounds.py [--library LIBRARY] [--values N] [--seed N] [--only CODEC]

The modes are abs, rel and pwrel of quant, abs and rel of zfp, and abs, rel and rms of multigrid. For each
mode, arrays of all types that support it are generated until N values are checked (1e9 by default:
some minutes on one core); bfloat16 is left out, since numpy lacks it. The arrays are smooth, noise,
random bits, few values, large offsets, subnormal and huge numbers; with holes of NaN or of a
declared fill value, and without; of one to four dimensions. Bounds are any fraction of the largest
number. Parts of complex numbers are checked separately.

Failures are: an element whose error exceeds the bound, or with rms, a root-mean-square error above
it; a NaN, an infinity or a fill value that changed, or another value that became one; with quant, an
array that changes when it is compressed a second time.

Runs on the CPU, at the level of GRIDZ_CPU_LEVEL. Prints a line for each mode, and all failures; the
exit status is 1 if there are any. Needs numpy.
"""

import argparse
import math
import pathlib
import sys
from fractions import Fraction

import numpy as np

import bench_lossless as base

FLOATS = ["f2", "f4", "f8", "f4", "f8", "c8", "f4", "f8", "c16"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
JOBS = [
    ("quant", "abs", FLOATS + INTEGERS),
    ("quant", "rel", FLOATS + INTEGERS),
    ("quant", "pwrel", FLOATS),
    ("zfp", "abs", ["f4", "f8"]),
    ("zfp", "rel", ["f4", "f8"]),
    ("multigrid", "abs", ["f4", "f8"]),
    ("multigrid", "rel", ["f4", "f8"]),
    ("multigrid", "rms", ["f4", "f8"]),
]
"""Codecs, their modes, and the types that each mode supports."""
N_LARGEST = 1 << 20
"""Largest number of elements of an array."""


# ---- arrays -----------------------------------------------------------------------------------------


def shape(rng):
    n = int(2 ** rng.uniform(4, np.log2(N_LARGEST)))
    parts = rng.dirichlet(np.ones(rng.integers(1, 5)))
    return tuple(max(1, round(n**part)) for part in parts)


def numbers(rng, extents):
    """Float64 from about -1 to 1."""
    kind = rng.integers(5)
    axes = np.meshgrid(*(np.arange(n) * rng.uniform(0.001, 0.5) for n in extents), indexing="ij", sparse=True)
    smooth = sum(np.sin(axis + rng.uniform(0, 6)) for axis in axes) / len(extents)
    if kind == 0:
        return smooth
    if kind == 1:
        return smooth + rng.normal(size=extents) * 10 ** rng.uniform(-8, 0)
    if kind == 2:
        return rng.normal(size=extents)
    if kind == 3:
        return np.round(smooth * 8) / 8
    return np.where(smooth > rng.uniform(-1, 1), smooth, 0)


def array(rng, dtype, extents):
    """A random array of this type."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        values = np.empty(extents, kind)
        values.real, values.imag = (array(rng, values.real.dtype, extents) for _ in range(2))
        return values
    if rng.random() < 0.15:
        return np.frombuffer(rng.bytes(int(np.prod(extents)) * kind.itemsize), kind).reshape(extents).copy()
    if kind.kind == "f":
        info = np.finfo(kind)
        scale = 10.0 ** (rng.uniform(-3, 4) if rng.random() < 0.7 else rng.uniform(np.log10(float(info.tiny)) - 5, np.log10(float(info.max)) - 0.1))
        offset = rng.choice([0, 0, 0, 1, 300, 1e5])
        with np.errstate(over="ignore"):
            return (numbers(rng, extents) * scale + offset * scale * (offset * scale < info.max)).astype(kind)
    info = np.iinfo(kind)
    scale = 2.0 ** rng.uniform(0, kind.itemsize * 8 - 1.01)
    middle = float(info.min) / 2 + float(info.max) / 2 if info.min == 0 else 0.0
    return np.clip(numbers(rng, extents) * scale / 2 + middle, float(info.min), float(info.max) * (1 - 2**-52)).astype(kind)


def holes(rng, values):
    """Inserts holes into the array, or not; returns the fill value, or None."""
    how = rng.integers(3)
    if how == 0:
        return None
    n = max(1, values.size // int(rng.integers(2, 1000)))
    at = rng.integers(values.size, size=n) if rng.random() < 0.5 else np.arange(n) + rng.integers(values.size - n + 1)
    flat = values.reshape(-1)
    if how == 1 and values.dtype.kind in "fc":
        flat[at] = np.nan
        return None
    number = {"c": -999 + 2j, "u": 99}.get(values.dtype.kind, -999 if values.itemsize > 1 else 99)
    fill = values.dtype.type(number)
    flat[at] = fill
    return fill


# ---- checks -----------------------------------------------------------------------------------------


def differences(a, b):
    """Exact |a − b| of finite floats, as two float64 each, whose sum is the difference."""
    a, b = a.astype("f8"), b.astype("f8")
    large, small = np.where(np.abs(a) < np.abs(b), b, a), np.where(np.abs(a) < np.abs(b), a, b)
    nearest = large - small
    rest = (large - nearest) - small
    return np.abs(nearest), np.where(nearest < 0, -rest, rest)


def n_beyond(a, b, bounds):
    """Number of elements whose error is above the bound. The bound is an integer for integers;
    otherwise a pair: a float64 (or an array) and the remainder to the exact bound."""
    if a.dtype.kind != "f":
        words = a.dtype.str.replace("i", "u")
        errors = np.where(a > b, a.view(words) - b.view(words), b.view(words) - a.view(words))
        return int((errors.astype("u8") > np.uint64(min(bounds, 2**64 - 1))).sum())
    nearest, rest = differences(a, b)
    bound, lack = bounds
    return int(((nearest > bound) | (nearest == bound) & (rest > lack)).sum())


def products(value, x):
    """value · |x| as two float64 (Dekker's product), for x large enough that the second does not
    underflow."""
    x = np.abs(x.astype("f8"))
    # Multiplication by a power of two is exact, and the following operations must not overflow.
    scale = np.where(x > 1e250, 2.0**-64, 1.0)
    x *= scale
    product = value * x

    def split(v):
        upper = v * 134217729.0
        upper = upper - (upper - v)
        return upper, v - upper

    (a, b), (c, d) = split(np.float64(value)), split(x)
    return product / scale, (((a * c - product) + a * d + b * c) + b * d) / scale


def bound_of(mode, value, values, is_hole):
    """The bound on each error: an integer for integers; otherwise a float64 and the remainder to
    the exact bound, or arrays of both."""
    is_whole = values.dtype.kind in "iu"
    if mode == "abs":
        return math.floor(value) if is_whole else (value, 0.0)
    if mode == "pwrel":
        return products(value, values[~is_hole])
    counted = values[~is_hole]
    if counted.size == 0:
        return 0 if is_whole else (0.0, 0.0)
    exact = Fraction(value) * (Fraction(counted.max().item()) - Fraction(counted.min().item()))
    if is_whole:
        return math.floor(exact)
    try:
        nearest = float(exact)
    except OverflowError:
        return float(np.finfo("f8").max), 0.0
    return nearest, float(exact - Fraction(nearest))


def root_of_mean(a, b, value):
    """Root-mean-square error, relative to `value`."""
    if a.size == 0:
        return 0.0
    # Scale, so that neither differences nor squares overflow.
    half = np.abs(a.astype("f8") / 2 - b.astype("f8") / 2) / value
    most = half.max()
    return 2 * most * np.sqrt(np.mean((half / most) ** 2)) if most > 0 else 0.0


def value_of(mode, rng, values):
    """A random value for the mode."""
    if mode == "pwrel":
        return 10 ** rng.uniform(-8, -0.6)
    relative = 10 ** rng.uniform(-9, -0.5)
    if mode == "rel":
        return relative
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    size = max(abs(float(finite.max())), abs(float(finite.min()))) if finite.size else 1.0
    return float(min(max(size, 1e-300) * relative, 1e300)) if values.dtype.kind == "f" else max(1.0, size * relative)


@np.errstate(invalid="ignore")
def check(gridz, rng, codec, mode, dtype):
    """Checks one random array; returns the number of values, and the failures."""
    elements = array(rng, dtype, shape(rng))
    fill = holes(rng, elements)
    values = elements.view(elements.real.dtype)
    value = value_of(mode, rng, values)
    if value == 0:
        return 0, []
    bits = "" if fill is None else f",fill=0x{np.array([fill]).tobytes()[::-1].hex()}"
    spec = f"{codec},{mode}={value!r}{bits}"
    peer = gridz.peer(codec, spec, 0, dtype)
    decoded, again = np.empty_like(elements), np.empty_like(elements)
    frame = peer.compress(elements).copy()
    peer.decompress(frame, decoded)
    back = decoded.view(values.dtype)
    wrong = []
    is_hole = np.zeros(values.shape, bool) if values.dtype.kind != "f" else ~np.isfinite(values)
    was_made = np.zeros(values.shape, bool) if values.dtype.kind != "f" else ~np.isfinite(back)
    if fill is not None:
        fills = np.resize(np.array([fill]).view(values.dtype), values.shape[-1])
        is_hole, was_made = is_hole | (values == fills), was_made | (back == fills)
    words = values.dtype.str.replace("f", "u").replace("i", "u")
    if (is_hole != was_made).any() or (values.view(words)[is_hole] != back.view(words)[is_hole]).any():
        wrong.append("NaN, infinities or fill values were lost or made")
    counted = ~is_hole
    if mode == "pwrel":
        is_exact = np.abs(values) < np.finfo(values.dtype).tiny
        if (back.view(words)[is_exact] != values.view(words)[is_exact]).any():
            wrong.append("zeros or subnormal numbers were lost")
        # Below this, the product may not be exact.
        counted &= np.abs(values.astype("f8")) > 1e-250
    if mode == "rms":
        root = root_of_mean(values[counted], back[counted], value)
        if root > 1 + 1e-9:
            wrong.append(f"the root is {root} times the value")
    else:
        bound = bound_of(mode, value, values, ~counted if mode == "pwrel" else is_hole)
        beyond = n_beyond(values[counted], back[counted], bound)
        if beyond:
            wrong.append(f"{beyond} elements are beyond the bound")
    if codec == "quant" and mode != "rel":
        peer.decompress(peer.compress(decoded).copy(), again)
        if again.tobytes() != decoded.tobytes():
            wrong.append("elements drift")
    return values.size, [f"{elements.dtype} {elements.shape} {spec}: {what}" for what in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, default=base.ROOT / "target" / "release" / "libgridz.so")
    parser.add_argument("--values", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a codec")
    options = parser.parse_args()
    gridz = base.Gridz(options.library)
    n_wrong = 0
    for number, (codec, mode, dtypes) in enumerate(JOBS):
        if options.only not in (None, codec):
            continue
        n_values = n_arrays = 0
        while n_values < options.values:
            rng = np.random.default_rng([options.seed, number, n_arrays])
            n, wrong = check(gridz, rng, codec, mode, dtypes[n_arrays % len(dtypes)])
            n_values, n_arrays, n_wrong = n_values + n, n_arrays + 1, n_wrong + bool(wrong)
            for line in wrong:
                print(f"WRONG, array {n_arrays - 1}: {line}")
        print(f"{codec}, {mode}: {n_values} values in {n_arrays} arrays", flush=True)
    print(f"{gridz.version()}: {n_wrong} arrays were wrong")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
