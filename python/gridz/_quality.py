"""Compares an array with its original: the library's `gridz_quality`, which compares in exact
arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gridz._codecs import Codec, parse
from gridz._missing import as_given, filled, of_codec, of_values, unmasked
from gridz._native import MODES, array_of, check, context, ffi, lib, struct
from gridz._spectrum import spectrum_difference
from gridz.device import memory_of
from gridz.errors import InvalidArgument


@dataclass(frozen=True)
class Quality:
    """A comparison. `report` has every field of `gridz_quality_report`, which gridz.h explains, and
    `spectrum_difference`; NaN means undefined. Each field is an attribute too: `quality.psnr`."""

    report: dict[str, float]
    shape: tuple[int, ...]

    def __getattr__(self, name: str):
        try:
            return self.__dict__["report"][name]
        except KeyError:
            raise AttributeError(f"{name} is not a figure of the report; the figures are {', '.join(self.report)}") from None

    @property
    def where(self) -> tuple[int, ...] | None:
        """The index of the largest error; None if there are no numbers."""
        place = self.report["largest_error_index"]
        if place == 2**64 - 1:
            return None
        return tuple(int(i) for i in np.unravel_index(place, self.shape))

    @property
    def ok(self) -> bool:
        """True if no error exceeds the bound, and all non-finite elements and fill values are
        unchanged bit for bit."""
        mismatches = sum(self.report[f"{kind}_mismatches"] for kind in ("fill", "nan", "infinity"))
        return mismatches == 0 and not self.report["error_over_bound"] > 1

    def __str__(self) -> str:
        return "\n".join(f"{name:30} {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in self._rows())
        return f"<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str]]:
        """Names and texts of all defined figures."""
        rows = [(name, f"{value:.6g}") for name, value in self.report.items() if not np.isnan(value)]
        return [*rows, ("where", str(self.where)), ("ok", str(self.ok))]


def quality(
    original, decoded, bound: float | Codec | str | None = None, *,
    fill=None, valid_min=None, valid_max=None, spectrum: bool = False, threads=None,
) -> Quality:  # fmt: skip
    """Compares an array with its original, of the same shape and type, both in host memory.

    `bound` is an absolute bound, or a codec or its text form, whose mode, value and missing
    elements apply. `fill` is a fill value or a sequence of them; elements below `valid_min` or
    above `valid_max` are missing, too. Masked elements of a masked array have its fill value, or
    the first one that is named, and must be equal in both arrays. `spectrum` also compares the
    power at each wavenumber. `spectrum_difference` is the largest relative difference, of the waves
    along the last axes, three at most, whose power is at least a millionth of the strongest ones'.
    It takes about ten times the arrays' memory. Raises `UnsupportedJob` for elements that are not
    numbers.
    """
    codec = parse(bound) if isinstance(bound, str) else bound
    original, decoded, missing = without_masks(original, decoded, codec, fill, valid_min, valid_max)
    a, b = memory_of(original), memory_of(decoded)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        raise InvalidArgument(
            f"the original has {a.dtype} {a.shape}, the other array {b.dtype} {b.shape}; both must be the same"
        )
    mode, value = ("abs", float(codec)) if isinstance(codec, (int, float, np.number)) else ("lossless", 0.0)
    if isinstance(codec, Codec):
        mode, value = codec.mode, codec.value
    described, ctx = array_of(a.dtype, a.shape), context(threads)
    options = struct("gridz_quality_options", context=ctx, mode=MODES[mode], value=value)
    kept = missing.set_options(options)
    report = struct("gridz_quality_report")
    check(lib.gridz_quality(described.pointer, a.pointer, a.n_bytes, b.pointer, b.n_bytes, report, options))
    del kept
    fields = [name for name, _ in ffi.typeof("gridz_quality_report").fields if name != "struct_size"]
    figures = {name: getattr(report, name) for name in fields}
    figures["spectrum_difference"] = np.nan
    if spectrum:
        hidden = ~(np.isfinite(a.array) & np.isfinite(b.array)) | missing.mask(a.array)
        figures["spectrum_difference"] = spectrum_difference(a.array, b.array, hidden)
    return Quality(figures, a.shape)


class Statistics:
    """Accumulates the errors of an array whose parts are compared one after another."""

    def __init__(self):
        self._n, self._l2_error, self._largest_error = 0, 0.0, 0.0
        self._minimum, self._maximum = np.inf, -np.inf

    def add(self, part: Quality) -> None:
        """Adds the comparison of a part. Parts without numbers are ignored."""
        if not part.numbers:
            return
        self._n += part.numbers
        self._l2_error = math.hypot(self._l2_error, part.l2_error)  # squares may overflow
        self._largest_error = max(self._largest_error, part.largest_error)
        self._minimum, self._maximum = min(self._minimum, part.minimum), max(self._maximum, part.maximum)

    def figures(self) -> dict[str, float]:
        """`minimum`, `maximum`, `largest_error` and `psnr` of the array; empty if no part had
        numbers."""
        if not self._n:
            return {}
        rmse = np.float64(self._l2_error / math.sqrt(self._n))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            psnr = float(20 * np.log10((self._maximum - self._minimum) / rmse))
        ends = {"minimum": self._minimum, "maximum": self._maximum}
        return {**ends, "largest_error": self._largest_error, "psnr": psnr}


def without_masks(original, decoded, codec, *named) -> tuple:
    """Both arrays without masks, and their missing elements."""
    original, decoded = as_given(original), as_given(decoded)
    dtype = memory_of(unmasked(original)).dtype
    missing = of_values(dtype, *named)
    if isinstance(codec, Codec) and (codec.fills or codec.valid_min or codec.valid_max):
        missing = missing | of_codec(codec, dtype)
    if isinstance(original, np.ma.MaskedArray):
        original, missing = filled(original, missing)
    if isinstance(decoded, np.ma.MaskedArray):
        if decoded.dtype != dtype:
            raise InvalidArgument(f"the original has {dtype}, the other array {decoded.dtype}; both must be the same")
        decoded, missing = filled(decoded, missing)
    return original, decoded, missing
