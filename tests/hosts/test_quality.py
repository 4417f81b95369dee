"""Compares the report of gridz_quality with the formulas of numpy, with scikit-image's SSIM, and
with exact fractions."""

import ctypes
import sys
from ctypes import byref, c_double, c_size_t, c_uint32, c_uint64, c_void_p
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from support import PLUGIN, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from bench_lossless import DTYPES, Array

ABS, REL, PWREL = 1, 2, 5
"""Ids of the modes."""


class Options(ctypes.Structure):
    """gridz_quality_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("mode", c_uint32),
        ("reserved", c_uint32),
        ("value", c_double),
        ("fill_value", c_void_p),
        ("n_fill_values", c_size_t),
        ("valid_min", c_void_p),
        ("valid_max", c_void_p),
    ]


class Report(ctypes.Structure):
    """gridz_quality_report"""

    _fields_ = [
        ("struct_size", c_size_t),
        *[(name, c_uint64) for name in "elements numbers fill_mismatches nan_mismatches infinity_mismatches".split()],
        *[("largest_error", c_double), ("largest_error_rest", c_double), ("largest_error_index", c_uint64)],
        *[("largest_relative_error", c_double), ("largest_relative_error_index", c_uint64)],
        *[(name, c_double) for name in "bound error_over_bound minimum maximum range l2_error rmse nrmse psnr".split()],
        *[(name, c_double) for name in "correlation ssim_2d ssim_3d".split()],
    ]


@pytest.fixture(scope="module")
def quality():
    library = ctypes.CDLL(str(PLUGIN))
    library.gridz_last_error.restype = ctypes.c_char_p

    def quality(original, decoded, mode=0, value=0.0, fill=None):
        fill = None if fill is None else np.array([fill], original.dtype)
        element = None if fill is None else c_void_p(fill.ctypes.data)
        options = Options(ctypes.sizeof(Options), None, mode, 0, value, element)
        report = Report(ctypes.sizeof(Report))
        both = [part for a in (original, decoded) for part in (c_void_p(a.ctypes.data), c_size_t(a.nbytes))]
        status = library.gridz_quality(byref(Array(original)), *both, byref(report), byref(options))
        assert status == 0, library.gridz_last_error()
        return report

    return quality


def ssim(a, b, span):
    """scikit-image's structural_similarity(a, b, data_range=span) for float64; NaN is excluded from
    the mean."""
    axes = tuple(range(-a.ndim, 0))
    mean = lambda x: sliding_window_view(x, [7] * a.ndim).mean(axis=axes)
    n = 7**a.ndim
    ux, uy = mean(a), mean(b)
    vx, vy, vxy = (n / (n - 1) * (mean(p) - q) for p, q in [(a * a, ux * ux), (b * b, uy * uy), (a * b, ux * uy)])
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
    return (2 * ux * uy + c1) * (2 * vxy + c2) / ((ux**2 + uy**2 + c1) * (vx + vy + c2))


def numbers(array):
    """Native float64; the parts of complex numbers become a first axis."""
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return np.stack([part.astype("f8") for part in parts])


def field(dtype, shape, rng):
    wave = 60 + 40 * np.sin(np.arange(np.prod(shape)) / 50).reshape(shape) + rng.random(shape)
    dtype = np.dtype(dtype)
    return (wave + 1j * wave[::-1] if dtype.kind == "c" else wave).astype(dtype)


@pytest.mark.parametrize("dtype", [f"{order}{kind}" for order in "<>" for kind in DTYPES])
@pytest.mark.parametrize("shape", [(5000,), (40, 50), (9, 20, 30), (3, 8, 9, 10)], ids=str)
def test_formulas(quality, rng, dtype, shape):
    a = field(dtype, shape, rng)
    noise = rng.integers(-3, 4, shape) if a.dtype.kind in "iu" else rng.normal(0, 0.4, shape)
    b = (a + noise).astype(a.dtype)
    report = quality(a, b, REL, 0.01)
    x, y = numbers(a), numbers(b)
    span, errors = x.max() - x.min(), np.abs(x - y)
    parts = len(x)
    assert (report.elements, report.numbers) == (a.size, x.size)
    assert (report.minimum, report.maximum, report.range) == (x.min(), x.max(), span)
    assert report.largest_error == errors.max()
    place = lambda of: np.unravel_index(np.moveaxis(of, 0, -1).argmax(), (*shape, parts))[:-1]
    assert report.largest_error_index == np.ravel_multi_index(place(errors), shape)
    assert report.largest_relative_error == (errors / abs(x)).max()
    assert report.largest_relative_error_index == np.ravel_multi_index(place(errors / abs(x)), shape)
    assert report.bound == pytest.approx(0.01 * span) and report.bound <= 0.01 * span
    assert report.error_over_bound == errors.max() / report.bound
    rmse = np.sqrt(np.mean(errors**2))
    assert report.l2_error == pytest.approx(np.sqrt(np.sum(errors**2)), rel=1e-12)
    assert report.rmse == pytest.approx(rmse, rel=1e-12) and report.nrmse == pytest.approx(rmse / span, rel=1e-12)
    assert report.psnr == pytest.approx(20 * np.log10(span / rmse), rel=1e-12)
    assert report.correlation == pytest.approx(np.corrcoef(x.ravel(), y.ravel())[0, 1], rel=1e-12)
    for rank, got in (2, report.ssim_2d), (3, report.ssim_3d):
        if len(shape) < rank:
            assert np.isnan(got)
        else:
            pairs = zip(x.reshape(-1, *shape[-rank:]), y.reshape(-1, *shape[-rank:]))
            expected = np.mean([ssim(p, q, span) for p, q in pairs])
            assert got == pytest.approx(expected, rel=1e-9), rank


def test_holes(quality, rng):
    a = field("f4", (12, 30, 40), rng)
    b = a + np.float32(0.25)
    a[0, 3, 4:9] = b[0, 3, 4:8] = np.nan  # one NaN mismatch
    a[5, 20:, :9] = b[5, 20:, :9] = -999
    b[5, 20, 0] = -998  # one fill value mismatch
    a[7, 7, 7] = b[8, 8, 8] = np.inf
    report = quality(a, b, ABS, 0.3, fill=-999)
    counts = report.nan_mismatches, report.fill_mismatches, report.infinity_mismatches
    assert counts == (1, 1, 2)
    is_number = np.isfinite(a) & np.isfinite(b) & (a != -999) & (b != -999)
    assert report.numbers == is_number.sum()
    x, y = (np.where(is_number, v, np.nan).astype("f8") for v in (a, b))
    span = np.nanmax(x) - np.nanmin(x)
    assert report.range == span
    assert report.rmse == pytest.approx(np.sqrt(np.nanmean((x - y) ** 2)), rel=1e-12)
    assert report.ssim_3d == pytest.approx(np.nanmean(ssim(x, y, span)), rel=1e-9)
    planes = np.concatenate([ssim(p, q, span).ravel() for p, q in zip(x, y)])
    assert report.ssim_2d == pytest.approx(np.nanmean(planes), rel=1e-9)


@pytest.mark.parametrize("dtype", ["f8", "i8", "u8"])
def test_bounds_are_compared_exactly(quality, rng, dtype):
    """Compares with exact fractions: bounds next to the error by the last bit of a float64, where
    differences are rounded."""
    for _ in range(300):
        if dtype == "f8":
            a, b = (rng.normal(0, 1, 1) * 10.0 ** rng.integers(-6, 7) for _ in range(2))
        else:
            a, b = (rng.integers(0, 2**63, 1, dtype="u8").astype(dtype) for _ in range(2))
        error = abs(Fraction(a.item()) - Fraction(b.item()))
        nearest = float(error)
        for bound in (np.nextafter(nearest, 0), nearest, np.nextafter(nearest, np.inf)):
            report = quality(a, b, ABS, bound)
            assert Fraction(report.largest_error) + Fraction(report.largest_error_rest) == error
            assert (report.error_over_bound > 1) == (error > Fraction(float(bound)))
        if dtype == "f8":
            quotient = float(error / abs(Fraction(a.item())))
            for value in (np.nextafter(quotient, 0), quotient, np.nextafter(quotient, 1)):
                if value < 1:
                    report = quality(a, b, PWREL, value)
                    is_broken = error > Fraction(float(value)) * abs(Fraction(a.item()))
                    assert (report.error_over_bound > 1) == is_broken


def test_the_range_makes_a_bound(quality, rng):
    """Compares with numpy; a fill value and non-finite elements are excluded, in either byte
    order."""
    library = ctypes.CDLL(str(PLUGIN))
    library.gridz_relative_bound.restype = c_double

    def found(data, fill=None):
        fill = None if fill is None else np.array([fill], data.dtype)
        element = None if fill is None else c_void_p(fill.ctypes.data)
        options = Options(ctypes.sizeof(Options), None, 0, 0, 0.0, element)
        least, most = c_double(), c_double()
        memory = c_void_p(data.ctypes.data), c_size_t(data.nbytes)
        status = library.gridz_range(byref(Array(data)), *memory, byref(least), byref(most), byref(options))
        assert status == 0, library.gridz_last_error()
        return least.value, most.value

    for dtype in ["<f4", ">f4", "<f8", ">f8", "<i2", ">u4", "i1", "<f2"]:
        data = (rng.standard_normal((300, 400)) * 100).astype(dtype)
        data.ravel()[5] = 120
        assert found(data) == (data.min(), data.max()), dtype
        assert found(data, 120) == (data[data != 120].min(), data[data != 120].max()), dtype
        if data.dtype.kind == "f":
            data.ravel()[::7] = np.nan
            data.ravel()[1::7] = -np.inf
            finite = data[np.isfinite(data)]
            assert found(data) == (finite.min(), finite.max()), dtype
    assert found(np.full(5, np.nan)) == (np.inf, -np.inf)
    for least, most, value in [(0.0, 3.0, 0.1), (-1e300, 1e300, 1e-3), (1.1, 7.3, 1e-7), (2.0, 2.0, 0.5)]:
        bound = library.gridz_relative_bound(c_double(least), c_double(most), c_double(value))
        exact = (Fraction(most) - Fraction(least)) * Fraction(value)
        assert Fraction(bound) <= exact and (exact == 0 or Fraction(bound) > exact * Fraction(1 - 1e-15)), (least, most, value)
    wrong = Options(ctypes.sizeof(Options), None, ABS, 0, 1.0, None)
    data, least = np.zeros(3), c_double()
    memory = c_void_p(data.ctypes.data), c_size_t(data.nbytes)
    assert library.gridz_range(byref(Array(data)), *memory, byref(least), byref(least), byref(wrong)) == 100
