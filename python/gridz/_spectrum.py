"""The power spectrum of an array over wavenumbers, and how much a codec changes it.

A bound on each element does not limit errors at each scale: errors that are similar in neighboring
elements add up to long waves, all others to short waves. So the power |FFT|² is summed over shells
of equal wavenumber, along up to three last axes, and the shells of two arrays are compared.
"""

from __future__ import annotations

import numpy as np

LEAST = 1e-6
"""Shells with a smaller fraction of the strongest shell's power are ignored: they may contain only
rounding errors."""


def power_spectrum(array: np.ndarray) -> np.ndarray:
    """Power in the shells 1, 2, … up to half of the longest axis. The shell number is the number of
    waves along that axis.

    The waves are those along the last axes, three at most; over all other axes the power is summed.
    The mean, shell 0, is left out.
    """
    array = np.asarray(array)
    axes = tuple(range(max(0, array.ndim - 3), array.ndim))
    extents = [array.shape[axis] for axis in axes]
    waves = np.fft.fftn(array, axes=axes)
    power = waves.real**2 + waves.imag**2
    power = power.reshape(-1, *extents).sum(0)
    longest = max(extents, default=1)
    squares = sum(
        (np.fft.fftfreq(n) * longest).reshape([-1 if i == axis else 1 for i in range(len(extents))]) ** 2
        for axis, n in enumerate(extents)
    )
    shells = np.rint(np.sqrt(squares)).astype(int).ravel()
    return np.bincount(shells, power.ravel(), minlength=longest // 2 + 1)[1 : longest // 2 + 1]


def spectrum_difference(original: np.ndarray, decoded: np.ndarray, hidden: np.ndarray) -> float:
    """The largest relative difference between the shells of two arrays; NaN if there are none.
    Where `hidden` is true, both arrays are replaced by the original's mean."""
    numbers = original[~hidden].astype(np.result_type(original, "f8"))
    if not numbers.any():
        return np.nan
    # Scale by the largest number, so that no square overflows float64.
    largest = np.abs(numbers).max()
    mean = (numbers / largest).mean()
    parts = (np.where(hidden, mean, array.astype(numbers.dtype) / largest) - mean for array in (original, decoded))
    before, after = map(power_spectrum, parts)
    counted = before > LEAST * before.max(initial=0)
    return float(np.abs(after[counted] / before[counted] - 1).max()) if counted.any() else np.nan
