"""The additions of `gridz.quality` to the library's report. Other tests check the report itself."""

import gridz
import numpy as np
import pytest

X = np.arange(64)


def wave(times, amplitude=1.0, axes=(48, 64)):
    return np.broadcast_to(amplitude * np.sin(2 * np.pi * times * X / 64), axes).astype("f8").copy()


def test_the_spectrum_of_waves():
    a = wave(3) + wave(10, 0.5)
    assert gridz.quality(a, a, spectrum=True).spectrum_difference == 0
    assert gridz.quality(a, wave(3) + wave(10), spectrum=True).spectrum_difference == pytest.approx(3)
    assert gridz.quality(a, wave(3, 1.1) + wave(10, 0.5), spectrum=True).spectrum_difference == pytest.approx(0.21)
    assert gridz.quality(a, a + 5, spectrum=True).spectrum_difference == pytest.approx(0, abs=1e-9)
    assert np.isnan(gridz.quality(a, a).spectrum_difference)


@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 3, 5, 8), (7,), (1,)])
def test_the_spectrum_of_every_shape(shape):
    a = np.random.default_rng(1).normal(size=shape)
    found = gridz.quality(a, 1.5 * (a - a.mean()) + a.mean(), spectrum=True).spectrum_difference
    assert found == pytest.approx(1.25) or a.size == 1 and np.isnan(found)


@pytest.mark.parametrize("dtype, scale", [("f2", 100), (">f4", 1e30), ("f8", 1e250), ("i2", 300), ("c8", 1)])
def test_the_spectrum_of_every_type(dtype, scale):
    a = ((wave(3) + wave(10, 0.5)) * scale + 2 * scale).astype(dtype)
    b = ((wave(3) + wave(10)) * scale + 2 * scale).astype(dtype)
    assert gridz.quality(a, b, spectrum=True).spectrum_difference == pytest.approx(3, rel=0.02)


@pytest.mark.parametrize("a", [np.zeros((3, 4)), np.full(5, 7.0), np.array(3.0)])
def test_without_waves_there_is_no_spectrum(a):
    assert np.isnan(gridz.quality(a, a, spectrum=True).spectrum_difference)


def test_the_spectrum_leaves_out_what_is_no_number():
    a = wave(3)
    a[5:9, 2:6], a[20, 20], a[0, 0] = -999, np.nan, np.inf
    b = np.where(a == -999, -999, a * 1.0)
    assert gridz.quality(a, b, bound="quant,abs=1,fill=-999", spectrum=True).spectrum_difference == 0
    assert gridz.quality(np.full(9, np.nan), np.full(9, np.nan), spectrum=True).nan_mismatches == 0


def test_in_words():
    a = wave(3)
    found = gridz.quality(a, a + 0.25, bound=0.5)
    assert "largest_error" in str(found) and "0.25" in str(found)
    assert all(line.split()[-1] != "nan" for line in str(found).splitlines())
    html = found._repr_html_()
    assert html.startswith("<table>") and "<td>0.5</td>" in html and "spectrum" not in html
