"""Contents of the pictures: titles, limits, gray where there is no number."""

import subprocess
import sys

import gridz
import numpy as np
import pytest

T = np.random.default_rng(1).normal(size=(9, 40, 60)).astype("f4").cumsum(2)


def test_planes(tmp_path):
    a = T.copy()
    a[4, 3, 5] = np.nan
    figure = gridz.plot(a, "quant,abs=0.25", path=tmp_path / "x.png")
    first, second, third, last = figure.axes[:4]
    shown = [np.ma.masked_invalid(ax.images[0].get_array()) for ax in (first, second, third)]
    back = gridz.decompress(gridz.compress(a, "quant,abs=0.25"))
    assert (shown[0] == np.ma.masked_invalid(a[4])).all() and (shown[1] == np.ma.masked_invalid(back[4])).all()
    assert shown[2].mask.sum() == 1 and np.allclose(shown[2].filled(0), np.nan_to_num(back[4] - a[4]))
    assert third.images[0].get_clim() == (-0.25, 0.25) and "(4,)" in first.get_title()
    assert [line.get_xdata()[0] for line in last.lines] == [-0.25, 0.25]
    assert sum(patch.get_height() for patch in last.patches) == a.size - 1
    assert f"{a.nbytes / len(gridz.compress(a, 'quant,abs=0.25')):.1f} times" in second.get_title()
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG" and figure._repr_png_()[:4] == b"\x89PNG"


def test_order_of_memory_does_not_matter():
    shown = [gridz.plot(a, "quant,abs=0.25").axes[:3] for a in (T, np.asfortranarray(T), T[::-1].copy()[::-1])]
    for axes in shown[1:]:
        assert all(np.array_equal(a.images[0].get_array(), b.images[0].get_array()) for a, b in zip(axes, shown[0]))
    for dtype in ("g", "?", "M8[s]"):
        with pytest.raises((gridz.InvalidArgument, gridz.UnsupportedJob)):
            gridz.plot(np.zeros((9, 9), dtype))


def test_lines_and_arrays_that_came_back():
    a = T[0, 0]
    figure = gridz.plot(a, a + np.float32(0.5), bound=1.0)
    assert (figure.axes[0].lines[0].get_ydata() == a).all() and np.allclose(figure.axes[2].lines[0].get_ydata(), 0.5)
    assert "0.5" in figure.axes[2].get_title()
    assert gridz.plot(T[0], index=()).axes[0].get_title() == "original"
    with pytest.raises(gridz.InvalidArgument, match="index="):
        gridz.plot(T, index=(3, 4))
    with pytest.raises(gridz.InvalidArgument, match="real numbers"):
        gridz.plot(np.array(["a"]))


def test_errors_above_the_bound_are_marked():
    a = T[0]
    b = a.copy()
    b[3, 4] += 2
    b[0, 0] = a.max() + 0.9  # beyond the color range of the original, but within the bound
    a[0, 0] = a.max()
    panels = [ax.images[0] for ax in gridz.plot(a, b, bound=1.0).axes[:3]]
    magenta = [(image.to_rgba(image.get_array())[..., :3] == (1, 0, 1)).all(-1) for image in panels]
    assert magenta[2][3, 4] and [found.sum() for found in magenta] == [0, 0, 1]


def test_long_lines_keep_their_peaks():
    a = np.zeros(100_001, "f4")
    a[77_777], a[5], a[:3] = 9, -7, np.nan
    drawn = gridz.plot(a, a, bound=1.0).axes[0].lines[0]
    assert len(drawn.get_ydata()) <= 4004
    assert np.nanmax(drawn.get_ydata()) == 9 and np.nanmin(drawn.get_ydata()) == -7


def test_rates():
    figure = gridz.plot_rate(T, bounds=(1e-2, 1e-4))
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert labels == [info.name for info in gridz.codecs() if "rel" in info.modes]
    line = figure.axes[0].lines[labels.index("quant")]
    expected = [T.nbytes / len(gridz.compress(T, f"quant,rel={bound}")) for bound in (0.01, 0.0001)]
    assert list(line.get_ydata()) == pytest.approx(expected)


def test_without_matplotlib():
    code = "import sys; sys.modules['matplotlib.figure'] = None; import gridz, numpy\ngridz.plot(numpy.zeros((3, 3)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and 'pip install "gridz[plot]"' in done.stderr
