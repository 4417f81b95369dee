"""The range of the valid numbers of an array, and whether outliers determine it.

A bound of `rel=` is relative to this range. One 1e20 among temperatures makes the bound larger than
all temperatures. So a range that outliers determine is refused until the caller names them, gives
an absolute bound, or sets `force`.
"""

from __future__ import annotations

import numpy as np

from gridz._codecs import Codec, number_text
from gridz._missing import Missing
from gridz.arrays import range_within
from gridz.errors import InvalidArgument

SAMPLE = 1 << 16
"""Number of elements in a sample of the distribution."""

FAR = 10
"""An outlier's distance from the 0.1 % and 99.9 % quantiles exceeds this many times the distance
between the quantiles."""

FAR_REPEATED = 2
"""The same limit for a repeated value; repetition is rare for measured numbers but usual for fill
values."""

MANY = 1e-3
"""A value counts as repeated if at least this fraction of the elements has it."""

LARGEST_REL = 0.1
"""A relative bound above this one is more likely a mistake than intended."""


class Range:
    """The smallest and the largest valid number of an array that is passed in parts, and a sample
    of its numbers."""

    def __init__(self, missing: Missing, n_elements: int | None = None):
        """`n_elements`: number of elements of the whole array, if it is passed in more than one
        part."""
        self.minimum, self.maximum = np.inf, -np.inf
        self._missing, self._n_elements = missing, n_elements
        self._samples: list[np.ndarray] = []
        self._random = np.random.default_rng(0)

    def add(self, part: np.ndarray) -> None:
        """Measures a part of the array."""
        least, greatest = range_within(part, self._missing)
        self.minimum, self.maximum = min(self.minimum, least), max(self.maximum, greatest)
        n = -(-SAMPLE * part.size // max(self._n_elements or part.size, 1))
        flat = np.asarray(part).reshape(-1)
        if n < flat.size:
            flat = flat[self._random.integers(0, flat.size, n)]
        valid = flat[~self._missing.mask(flat)]
        numbers = np.concatenate([valid.real, valid.imag]) if valid.dtype.kind == "c" else valid
        self._samples.append(numbers[np.isfinite(numbers)].astype("f8"))

    def join(self, other: Range) -> None:
        """Merges another range, which was measured separately."""
        self.minimum, self.maximum = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        self._samples += other._samples

    def check(self, name: str, dataset: str | None = None) -> None:
        """Raises `InvalidArgument` if outliers determine the range; `name` is that of the array,
        `dataset` its path in `gridz repack`."""
        if not self.minimum < self.maximum:
            return
        numbers = np.concatenate(self._samples)
        ends = [end for end in (self.minimum, self.maximum) if not (numbers == end).any()]
        found = outliers(np.concatenate([numbers, ends]))
        if not found:
            return
        kind = self._missing.dtype.type if self._missing.dtype.kind in "iuf" else np.float64
        values = [number_text(kind(value)).removesuffix(".0") for value, _ in found]
        shares = [f"{v} (about {100 * share:.2g} % of the elements)" for v, (_, share) in zip(values, found)]
        more = f" and {len(shares) - 3} more values" if len(shares) > 3 else ""
        fill, bound, force = f"fill={values[0] if len(values) == 1 else values}".replace("'", ""), "abs=", "force=True"
        if dataset is not None:
            fill, bound = " ".join(f"--fill {v}" for v in values) + f" ({fill})", f"--dataset {dataset}=quant,abs=…"
            force = "--force (force=True)"
        raise InvalidArgument(
            f"{name}: outliers determine the range that rel= is relative to, {self.minimum:.6g} to {self.maximum:.6g}: "
            f"{', '.join(shares[:3])}{more}. If they mark missing data, name them with {fill}; otherwise give an "
            f"absolute bound with {bound}, or accept the range with {force}"
        )


def check_rel(codec: Codec, force: bool) -> None:
    """Raises `InvalidArgument` for a relative bound so large that little of an array would remain,
    unless `force` is set."""
    if codec.mode == "rel" and codec.value > LARGEST_REL and not force:
        raise InvalidArgument(
            f"rel={codec.value:g} lets errors grow to {100 * codec.value:g} % of the range; give at most "
            f"{LARGEST_REL:g}, such as rel=1e-3, or override this check with --force (Python: force=True)"
        )


def outliers(numbers: np.ndarray) -> list[tuple[float, float]]:
    """The outliers that make the range of a sample much larger than it would be without them, each with
    its fraction of the numbers."""
    left, found = np.sort(numbers), []  # NaN and infinities are not among them
    while left.size:
        # Fill values at one end must not hide those at the other: quantiles are taken of the
        # numbers between both ends.
        n_least = np.searchsorted(left, left[0], "right")
        n_greatest = left.size - np.searchsorted(left, left[-1], "left")
        between = left[n_least : left.size - n_greatest]
        is_least, is_greatest = (
            _is_outlier(end, n / numbers.size, n, between if between.size else left[left != end])
            for end, n in ((left[0], n_least), (left[-1], n_greatest))
        )
        if not is_least and not is_greatest:
            break
        found += [(float(left[0]), n_least / numbers.size)] * is_least
        found += [(float(left[-1]), n_greatest / numbers.size)] * is_greatest
        left = left[n_least * is_least : left.size - n_greatest * is_greatest]
    return found


def _is_outlier(value: float, share: float, count: int, others: np.ndarray) -> bool:
    """True if a value, which `count` numbers have, lies far outside the other numbers, which are
    sorted."""
    if not others.size:
        return False
    low, high = _quantiles(others)
    if low == high:  # most numbers are equal, such as 0 in a field of rain: use the quantiles of the others
        others = others[others != low]
        if others.size:
            low, high = min(low, others[0]), max(high, _quantiles(others)[1])
    distance = max(low - value, value - high)
    if low == high:  # only the magnitude distinguishes a constant from a fill value
        return bool(abs(value) > 1e15 if low == 0 else distance > 1e3 * abs(low))
    is_repeated = share >= MANY and count > 2
    return bool(distance > (FAR_REPEATED if is_repeated else FAR) * (high - low))


def _quantiles(numbers: np.ndarray) -> tuple[float, float]:
    """The 0.1 % and 99.9 % quantiles of sorted numbers."""
    last = numbers.size - 1
    return numbers[int(last * 0.001)], numbers[-int(last * 0.001) - 1]
